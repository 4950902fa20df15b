/* hostile_test.c - tokenizers and texts made to cost much: what is counted is work, in moves and bytes.
 *
 * Added tokens are also found by the definition, place by place, and must be the same.
 */
#include "tests/unit/text/tokenizer_help.h"

#include <stdlib.h>
#include <string.h>

static unsigned next_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void put(ph_tok_build *b, const char *text, size_t n, unsigned flags, double score) {
    ph_err err = {0};
    b->n_expected++;
    CHECK_SAY(!ph_build_piece_put(b, (int64_t)b->n_piece, text, n, score, flags, &err), "%s", err.msg);
}

static ph_tokenizer *frozen(ph_tok_build *b) {
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    CHECK_SAY(!ph_tok_freeze(b, &t, &err), "%s", err.msg);
    ph_build_close(b);
    return t;
}

static void begin(ph_tok_build *b, const ph_text_model *model) {
    CHECK(!ph_build_open(b, "test", NULL));
    b->t->model = model;
    b->need_score = model->needs_scores;
    b->need_sorted = model->needs_sorted;
    b->need_pieces = model->needs_pieces;
}

/* n times the byte c, then `tail`; malloc'ed. */
static char *run_of(char c, size_t n, const char *tail) {
    char *at = malloc(n + strlen(tail) + 1);
    if (!at) abort();
    memset(at, c, n);
    strcpy(at + n, tail);
    return at;
}

/* --- the same as by definition --- */

static int holds(const ph_trust_run *runs, size_t begin, size_t end) {
    size_t i = 0;
    while (runs[i].end <= begin) i++;
    return runs[i].is_trusted && runs[i].end >= end;
}

/* The longest row at `at` that may stand there, the last of equal ones; -1: none. */
static int64_t by_definition(const ph_tokenizer *t, const char *text, size_t n, size_t at,
                             const ph_trust_run *runs) {
    int64_t best = -1;
    for (uint32_t i = 0; i < t->raw.n; i++) {
        ph_span_of s = t->raw.row[i].text;
        if (s.n > n - at || memcmp(ph_tok_text(t, s), text + at, s.n)) continue;
        if ((t->flags[t->raw.row[i].id] & PH_TOK_CONTROL) && !holds(runs, at, at + s.n)) continue;
        if (best < 0 || s.n >= t->raw.row[best].text.n) best = i;
    }
    return best;
}

/* Up to `most` characters of a small alphabet, two of them of two bytes that share one. */
static size_t some_text(char *out, size_t most, unsigned *seed) {
    static const char *const letters[] = {"a", "b", "a", "\xC3\xA9", "\xC3\xA8", "<"};
    size_t                   n = 0, want = next_random(seed) % (most + 1);
    for (size_t i = 0; i < want; i++) {
        const char *c = letters[next_random(seed) % 6];
        memcpy(out + n, c, strlen(c));
        n += strlen(c);
    }
    return n;
}

static ph_tokenizer *some_tokens(unsigned *seed) {
    ph_tok_build b;
    size_t       n_tokens = next_random(seed) % 12;
    begin(&b, &ph_text_model_bpe);
    put(&b, "x", 1, PH_TOK_MODEL, 0);
    for (size_t i = 0; i < n_tokens; i++) {
        char   token[16];
        size_t n = some_text(token, 6, seed);
        put(&b, token, n, PH_TOK_ADDED | (next_random(seed) & 1 ? PH_TOK_CONTROL : 0), 0);
    }
    return frozen(&b);
}

void test_tokenizer_added_same(void) {
    unsigned      seed = 7;
    int           found = 0;
    ph_tok_places places = {0};
    for (int round = 0; round < 3000; round++) {
        char          text[100];
        ph_trust_run  runs[8];
        size_t        n_runs = 0;
        ph_tokenizer *t = some_tokens(&seed);
        size_t        n = some_text(text, 40, &seed);
        if (!t) return;
        for (size_t end = 0; end < n; n_runs++) {
            end += 1 + next_random(&seed) % (n_runs == 7 ? 1 : 30);
            if (end > n || n_runs == 7) end = n;
            runs[n_runs] = (ph_trust_run){end, (int)(next_random(&seed) & 1)};
        }
        CHECK(!ph_tok_find_added(&t->raw, (const uint8_t *)text, 0, n, runs, n_runs, &places, NULL));
        for (size_t at = 0; at < n; at++) {
            ph_tok_place p = {SIZE_MAX, 0};
            int64_t      want = by_definition(t, text, n, at, runs), got = -1;
            if (places.n && places.place[places.n - 1].at == at && ph_tok_next_place(&places, at, &p))
                got = p.row;
            CHECK_SAY(got == want, "round %d, byte %zu of \"%.*s\": row %lld, want %lld", round, at, (int)n,
                      text, (long long)got, (long long)want);
            found += got >= 0;
        }
        CHECK(!places.n);
        ph_tokenizer_close(t);
    }
    CHECK(found > 1000);
    ph_tok_places_close(&places);
}

/* --- work --- */

/* Many long tokens that the text almost spells, at every byte: two moves a byte for each of two walks. */
void test_tokenizer_added_long(void) {
    enum { TOKENS = 300, TEXT = 100000 };
    ph_tok_build  b;
    ph_tok_places places = {0};
    char         *text = run_of('a', TEXT, "");
    ph_trust_run  runs[2] = {{TEXT / 2, 1}, {TEXT, 0}};
    begin(&b, &ph_text_model_bpe);
    put(&b, "a", 1, PH_TOK_MODEL | PH_TOK_ADDED, 0);
    for (unsigned i = 1; i <= TOKENS; i++) {
        char tail[16];
        snprintf(tail, sizeof tail, "<%u>", i);
        char *token = run_of('a', 6 * i, tail), *plain = run_of('a', 6 * i, "");
        put(&b, token, strlen(token), PH_TOK_ADDED | (i & 1 ? PH_TOK_CONTROL : 0), 0);
        put(&b, plain, strlen(plain), PH_TOK_ADDED | PH_TOK_CONTROL, 0);
        free(token);
        free(plain);
    }
    ph_tokenizer *t = frozen(&b);
    if (t) {
        CHECK(!ph_tok_find_added(&t->raw, (const uint8_t *)text, 0, TEXT, runs, 2, &places, NULL));
        CHECK_SAY(places.n == TEXT && places.moves < 4 * TEXT, "%llu moves",
                  (unsigned long long)places.moves);
        CHECK(t->raw.row[places.place[TEXT - 1].row].text.n == 6 * TOKENS); /* trusted: the longest */
        CHECK(t->raw.row[places.place[0].row].text.n == 1);                 /* typed: the plain one */
        CHECK(t->arena.used == t->arena.size); /* the tables were foreseen to the byte */
    }
    ph_tokenizer_close(t);
    ph_tok_places_close(&places);
    free(text);
}

/* Every space is a token that takes the spaces behind it: walked one by one for each, half a day. */
void test_tokenizer_strip_long(void) {
    enum { TEXT = 2000000 };
    ph_tok_build b;
    ph_ids       ids = {0};
    char        *text = run_of(' ', TEXT, "");
    begin(&b, &ph_text_model_bpe);
    put(&b, "x", 1, PH_TOK_MODEL, 0);
    put(&b, " ", 1, PH_TOK_ADDED | PH_TOK_LSTRIP | PH_TOK_RSTRIP, 0);
    ph_tokenizer *t = frozen(&b);
    if (t) CHECK(!ph_tokenizer_encode(t, text, TEXT, PH_ENCODE_PLAIN, &ids, NULL));
    CHECK(ids.n >= 1 && ids.at[0] == 1);
    ph_ids_close(&ids);
    ph_tokenizer_close(t);
    free(text);
}

/* One word of TEXT letters, and pieces almost as long as its repetitions; the work it takes, a letter. */
enum { WORD = 100000, LONGEST = 2000 };
static double work_of(ph_tok_build *b, const char *word, size_t n, size_t *n_ids) {
    ph_model_scratch s = {0};
    ph_ids           ids = {0};
    ph_tokenizer    *t = frozen(b);
    double           work = 1e9;
    *n_ids = 0;
    if (t && !t->model->encode(t, (const uint8_t *)word, n, 1, &s, &ids, NULL)) {
        work = (double)s.work / (double)n;
        *n_ids = ids.n;
    }
    ph_model_scratch_close(&s);
    ph_ids_close(&ids);
    ph_tokenizer_close(t);
    return work;
}

void test_tokenizer_unigram_long(void) {
    ph_tok_build b;
    size_t       n_ids;
    char        *word = run_of('a', WORD, ""), *piece = run_of('a', LONGEST, "b");
    begin(&b, &ph_text_model_unigram);
    put(&b, "a", 1, PH_TOK_MODEL, -1);
    for (size_t i = 0; i < 50; i++) put(&b, piece + i, LONGEST + 1 - i, PH_TOK_MODEL, -1);
    CHECK(!ph_build_index(&b, NULL));
    double work = work_of(&b, word, WORD, &n_ids);
    CHECK_SAY(n_ids == WORD && work < 4, "%zu ids, %.1f a letter", n_ids, work);
    free(word);
    free(piece);
}

/* A word's inner pieces, the same; and of max_input_chars_per_word no more than the file may say. */
void test_tokenizer_wordpiece_long(void) {
    ph_tok_build b;
    size_t       n_ids;
    char        *word = run_of('a', WORD, ""), *piece = run_of('a', LONGEST, "b");
    begin(&b, &ph_text_model_wordpiece);
    put(&b, "a", 1, PH_TOK_MODEL, 0);
    put(&b, "##a", 3, PH_TOK_MODEL, 0);
    memcpy(piece, "##", 2);
    put(&b, piece, LONGEST + 1, PH_TOK_MODEL, 0);
    CHECK(!ph_build_text(&b, "##", 2, &b.t->inner_prefix, NULL));
    b.t->word_chars_max = WORD;
    double work = work_of(&b, word, WORD, &n_ids);
    CHECK_SAY(n_ids == WORD && work < 4, "%zu ids, %.1f a letter", n_ids, work);
    free(word);
    free(piece);
}

/* Every piece up to LONGEST letters, the longer the sooner: symbols grow letter by letter. */
void test_tokenizer_spm_pieces_long(void) {
    ph_tok_build b;
    size_t       n_ids;
    char        *word = run_of('a', WORD, "");
    begin(&b, &ph_text_model_spm);
    b.by_score = 1;
    for (size_t n = 1; n <= LONGEST; n++) put(&b, word, n, PH_TOK_MODEL, (double)n);
    double work = work_of(&b, word, WORD, &n_ids);
    CHECK_SAY(n_ids == WORD / LONGEST && work < 8, "%zu ids, %.1f a letter", n_ids, work);
    free(word);
}

/* The matches of a pattern in text[n], as "begin-end " each. */
static void matches(char *out, size_t size, const char *pattern, const char *text, size_t n) {
    ph_pattern p = {0};
    ph_search  s = {0};
    ph_err     err = {0};
    size_t     begin, end, used = 0;
    int        found;
    out[0] = 0;
    CHECK_SAY(!ph_pattern_open(&p, pattern, strlen(pattern), "test", &err), "%s", err.msg);
    CHECK(!ph_search_open(&s, &p, n, &err));
    ph_search_begin(&s, (const uint8_t *)text, n);
    while (!ph_search_next(&s, &found, &begin, &end, &err) && found && used + 48 < size)
        used += (size_t)snprintf(out + used, size - used, "%zu-%zu ", begin, end);
    CHECK_SAY(!err.msg[0], "%s", err.msg);
    ph_search_close(&s);
    ph_pattern_close(&p);
}

/* Steps of all matches of a pattern in text[n] together; they end with an error where `ends`. */
static void steps(const char *pattern, const char *text, size_t n, int ends) {
    ph_pattern p = {0};
    ph_search  s = {0};
    ph_err     err = {0};
    size_t     begin, end;
    int        found = 1;
    CHECK_SAY(!ph_pattern_open(&p, pattern, strlen(pattern), "test", &err), "%s", err.msg);
    CHECK(!ph_search_open(&s, &p, n, &err));
    ph_search_begin(&s, (const uint8_t *)text, n);
    while (found && !ph_search_next(&s, &found, &begin, &end, &err)) continue;
    CHECK_SAY((err.code == PH_ELIMIT) == ends, "%s: %s", pattern, err.msg);
    if (ends) CHECK_SAY(strstr(err.msg, "takes too long on this text"), "%s", err.msg);
    if (!ends) CHECK_SAY(s.spent <= 16 * n, "%s: %.1f steps a byte", pattern, (double)s.spent / (double)n);
    ph_search_close(&s);
    ph_pattern_close(&p);
}

/* A pattern that looks at the whole run from each of its letters is stopped; those of the field take a few
 * steps a byte. */
void test_tokenizer_pattern_steps(void) {
    enum { RUN = 100000 };
    static const char *const hostile[] = {"(?=(a+))",     "a+[bd]",       "(?:a+)+[bd]", "(a*)*[bd]",
                                          "(?<=a)(?=a+)", "a{60000}[bd]", "(a+)\\1[bd]", "(?:a|aa)+[bd]"};
    static const char *const field[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
    char *run = run_of('a', RUN, "");
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) steps(hostile[i], run, RUN, 1);
    for (size_t k = 0; k < 6; k++) {
        memset(run, "a 1\n.A"[k], RUN);
        for (size_t i = 0; i < sizeof field / sizeof *field; i++) steps(field[i], run, RUN, 0);
    }
    free(run);
}

/* DeepSeek's "\\s+$" looks once at each run of white space, and finds what it says: the same pattern in a
 * group is matched as it stands. */
void test_tokenizer_space_run_long(void) {
    enum { RUN = 1000000 };
    char  got[400], want[400], text[24];
    char *run = run_of(' ', RUN, "5");
    matches(got, sizeof got, "\\s+$", run, RUN + 1);
    CHECK_SAY(!got[0], "%s", got);
    free(run);
    unsigned seed = 3;
    for (int round = 0; round < 2000; round++) {
        size_t n = next_random(&seed) % sizeof text;
        for (size_t i = 0; i < n; i++) text[i] = "  \n a"[next_random(&seed) % 5];
        matches(got, sizeof got, "\\s+$", text, n);
        matches(want, sizeof want, "(?:\\s+$)", text, n);
        CHECK_SAY(!strcmp(got, want), "\"%.*s\": %s, want %s", (int)n, text, got, want);
    }
}

/* A control token that the model knows as a character is no answer to a typed one. */
void test_tokenizer_typed_character(void) {
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"?\":2},\"merges\":[],\"unk_token\":\"?\"},"
        "\"added_tokens\":[{\"id\":0,\"content\":\"a\",\"special\":true}]}";
    ph_tokenizer      *t = NULL;
    ph_err             err = {0};
    ph_ids             typed = {0}, trusted = {0};
    ph_tokenizer_files f = {.tokenizer_json = {json, sizeof json - 1}};
    CHECK_SAY(!ph_tokenizer_open_files(&t, &f, &err), "%s", err.msg);
    if (t) {
        CHECK(!ph_tokenizer_encode(t, "bab", 3, PH_ENCODE_PLAIN, &typed, &err));
        CHECK(typed.n == 3 && typed.at[0] == 1 && typed.at[1] == 2 && typed.at[2] == 1);
        CHECK(!ph_tokenizer_encode(t, "bab", 3, PH_ENCODE_CONTROL, &trusted, &err));
        CHECK(trusted.n == 3 && trusted.at[1] == 0);
    }
    ph_ids_close(&typed);
    ph_ids_close(&trusted);
    ph_tokenizer_close(t);
}

/* A control token that is matched in normalized text, where a text mixes trust: by its own spelling, and only
 * where it is trusted. */
void test_tokenizer_mixed_trust(void) {
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<\":1,\">\":2,\"e\":3},\"merges\":[]},"
        "\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[{\"id\":4,\"content\":\"<E>\",\"special\":"
        "true,"
        "\"normalized\":true}]}";
    static const int32_t want[] = {0, 4, 0, 1, 3, 2, 4, 1, 3, 2};
    ph_tokenizer        *t = NULL;
    ph_err               err = {0};
    ph_ids               ids = {0};
    ph_tokenizer_files   f = {.tokenizer_json = {json, sizeof json - 1}};
    const ph_text_span   s[] = {{.bytes = "a<E>a", .n = 5, .is_trusted = 1},
                                {.bytes = "<E>", .n = 3},
                                {.bytes = "<E><", .n = 4, .is_trusted = 1},
                                {.bytes = "E>", .n = 2}};
    CHECK_SAY(!ph_tokenizer_open_files(&t, &f, &err), "%s", err.msg);
    if (t)
        CHECK_SAY(!ph_tokenizer_encode_spans(t, s, 4, PH_ENCODE_PLAIN, &ids, NULL, NULL, &err), "%s",
                  err.msg);
    CHECK(ids.n == sizeof want / sizeof *want && !memcmp(ids.at, want, sizeof want));
    ph_ids_close(&ids);
    ph_tokenizer_close(t);
}
