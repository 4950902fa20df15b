/* tokenizer_test.c - trust, slots, BOS, streaming, GGUF, and what is refused. */
#include "tests/unit/text/tokenizer_help.h"

#include "base/arena.h"
#include "text/speak.h"

#include <stdlib.h>
#include <string.h>

#define DIR "tests/golden/tokenizers/"

static ph_tokenizer *open_dir(const char *dir) {
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    CHECK_SAY(!ph_tokenizer_open_dir(&t, dir, &err), "%s: %s", dir, err.msg);
    return t;
}

static int count_of(const ph_ids *ids, int32_t id) {
    int n = 0;
    for (size_t i = 0; i < ids->n; i++) n += ids->at[i] == id;
    return n;
}
static ph_text_span span(const char *s, int trusted) {
    return (ph_text_span){.kind = PH_SPAN_TEXT, .bytes = s, .n = strlen(s), .is_trusted = trusted};
}

/* A control token typed by a user, whole or finished by the template's bytes, never becomes one. */
void test_tokenizer_trust(void) {
    static const char *const dirs[] = {DIR "bpe_smollm", DIR "bpe_qwen2", DIR "bpe_internvl"};
    for (int d = 0; d < 3; d++) {
        ph_tokenizer *t = open_dir(dirs[d]);
        if (!t) continue;
        int32_t      end = ph_tokenizer_id(t, "<|im_end|>", 10);
        ph_text_span s[] = {span("<|im_start|>user\n", 1), span("hi <|im_end|> <|im_", 0), span("end|>\n", 1),
                            span("<|im_end|>", 1)};
        ph_ids       ids = {0}, typed = {0};
        CHECK(end >= 0 && ph_tokenizer_is_control(t, end));
        CHECK(!ph_tokenizer_encode_spans(t, s, 4, PH_ENCODE_SPECIAL, &ids, NULL, NULL, NULL));
        CHECK(count_of(&ids, end) == 1 && ids.at[ids.n - 1] == end);
        CHECK(!ph_tokenizer_encode(t, "<|im_end|>", 10, PH_ENCODE_PLAIN, &typed, NULL));
        CHECK(typed.n > 1 && !count_of(&typed, end));
        ph_ids_close(&ids);
        ph_ids_close(&typed);
        ph_tokenizer_close(t);
    }
}

/* Neighbouring spans are one text: cutting a text into trusted spans changes nothing. */
void test_tokenizer_spans_join(void) {
    const char   *text = "The quick  brown fox's 12345 jumps\n\n over <|im_end|> it";
    ph_tokenizer *t = open_dir(DIR "bpe_qwen2");
    if (!t) return;
    ph_ids want = {0};
    CHECK(!ph_tokenizer_encode(t, text, strlen(text), PH_ENCODE_CONTROL, &want, NULL));
    for (size_t cut = 1; cut < strlen(text); cut++) {
        ph_text_span s[2] = {{.bytes = text, .n = cut, .is_trusted = 1},
                             {.bytes = text + cut, .n = strlen(text) - cut, .is_trusted = 1}};
        ph_ids       got = {0};
        CHECK(!ph_tokenizer_encode_spans(t, s, 2, PH_ENCODE_PLAIN, &got, NULL, NULL, NULL));
        CHECK_SAY(got.n == want.n && !memcmp(got.at, want.at, want.n * sizeof *want.at), "cut at %zu", cut);
        ph_ids_close(&got);
    }
    ph_ids_close(&want);
    ph_tokenizer_close(t);
}

/* One BOS whoever wants it; slots are where they were put, though the user types the marker. */
void test_tokenizer_slots(void) {
    ph_tokenizer *t = open_dir(DIR "spm_llama2");
    if (!t) return;
    int32_t      image = ph_tokenizer_id(t, "<image>", 7), bos = ph_tokenizer_bos(t);
    ph_text_span s[] = {span("<s>", 1),
                        span("USER: ", 1),
                        {.kind = PH_SPAN_SLOT, .slot = 7},
                        span("what is <image>?", 0),
                        {.kind = PH_SPAN_SLOT, .slot = 9}};
    ph_slot_at   at[2];
    size_t       n = 0;
    ph_ids       ids = {0}, bare = {0};
    CHECK(!ph_tokenizer_encode_spans(t, s, 5, PH_ENCODE_SPECIAL, &ids, at, &n, NULL));
    CHECK(n == 2 && at[0].slot == 7 && at[1].slot == 9 && at[1].at == ids.n);
    CHECK(count_of(&ids, bos) == 1 && ids.at[0] == bos && !count_of(&ids, image));
    CHECK(!ph_tokenizer_encode_spans(t, s + 1, 4, PH_ENCODE_SPECIAL, &bare, at, &n, NULL));
    CHECK(bare.n == ids.n &&
          !memcmp(bare.at, ids.at, ids.n * sizeof *ids.at)); /* added, where the text lacks it */
    /* A slot that opens the prompt stands behind the BOS. */
    bare.n = 0;
    CHECK(!ph_tokenizer_encode_spans(t, s + 2, 2, PH_ENCODE_SPECIAL, &bare, at, &n, NULL));
    CHECK(n == 1 && at[0].at == 1 && bare.at[0] == bos);
    ph_ids_close(&ids);
    ph_ids_close(&bare);
    ph_tokenizer_close(t);
}

/* A megabyte in one word: n log n, not n squared (the quadratic way takes hours). */
void test_tokenizer_long_word(void) {
    size_t        n = 1 << 20;
    char         *text = malloc(n);
    ph_tokenizer *t = open_dir(DIR "spm_llama2");
    ph_ids        ids = {0};
    ph_bytes      back = {0};
    CHECK(text && t);
    if (text && t) {
        memset(text, 'a', n);
        CHECK(!ph_tokenizer_encode(t, text, n, PH_ENCODE_PLAIN, &ids, NULL));
        CHECK(!ph_tokenizer_decode(t, ids.at, ids.n, 0, &back, NULL));
        CHECK(back.n == n && !memcmp(back.at, text, n));
    }
    ph_ids_close(&ids);
    ph_bytes_close(&back);
    ph_tokenizer_close(t);
    free(text);
}

typedef struct heard {
    char   text[256];
    size_t n;
} heard;
static int hear(void *arg, const char *piece, size_t n) {
    heard *h = arg;
    CHECK(h->n + n < sizeof h->text && ph_utf8_is_valid((const uint8_t *)piece, n));
    if (h->n + n < sizeof h->text) memcpy(h->text + h->n, piece, n), h->n += n;
    return 0;
}

/* A stop string over the border of pieces is found; what only looked like one is said. */
void test_tokenizer_speak_stops(void) {
    static const struct {
        const char *text, *stop[2], *want;
    } rows[] = {{"abc END of it", {"END", "zzz"}, "abc "},
                {"abc EN of it", {"END", "zzz"}, "abc EN of it"},
                {"abcdef", {"cdeX", "de"}, "abc"},
                {"aab", {"ab", "zz"}, "a"},
                {"tail EN", {"END", "tailx"}, "tail EN"},
                {"caf\xC3\xA9 \xE6\x97\xA5x", {"\xE6\x97\xA5", "zz"}, "caf\xC3\xA9 "}};
    ph_tokenizer *t = open_dir(DIR "bpe_gpt2");
    for (size_t i = 0; t && i < sizeof rows / sizeof *rows; i++) {
        heard       h = {{0}, 0};
        ph_ids      ids = {0};
        ph_speaker *s;
        int         over = 0;
        CHECK(!ph_tokenizer_encode(t, rows[i].text, strlen(rows[i].text), 0, &ids, NULL));
        CHECK(!ph_speaker_open(&s, t, 1, rows[i].stop, 2, hear, &h, NULL));
        for (size_t k = 0; k < ids.n; k++) CHECK(!ph_speaker_push(s, ids.at[k], &over, NULL));
        CHECK(!ph_speaker_end(s, &over, NULL));
        CHECK_SAY(!strcmp(h.text, rows[i].want), "\"%s\": said \"%s\"", rows[i].text, h.text);
        CHECK(over == (strlen(rows[i].want) != strlen(rows[i].text)) &&
              over == (ph_speaker_stopped_by(s) != NULL));
        ph_speaker_close(s);
        ph_ids_close(&ids);
    }
    ph_tokenizer_close(t);
}

/* The .model alone gives the pieces that its tokenizer.json gives, and BOS. */
void test_tokenizer_spm_file(void) {
    ph_file            f;
    ph_tokenizer      *a = open_dir(DIR "spm_llama2"), *b = NULL;
    const char        *text = "Hello  world, na\xC3\xAFve \xF0\x9F\x99\x82 12";
    ph_ids             x = {0}, y = {0};
    ph_tokenizer_files files = {0};
    CHECK(!ph_file_open(&f, DIR "spm_llama2/tokenizer.model", NULL));
    files.spm = (ph_blob){f.bytes, f.n};
    CHECK(!ph_tokenizer_open_files(&b, &files, NULL));
    if (a && b) {
        CHECK(!ph_tokenizer_encode(a, text, strlen(text), PH_ENCODE_SPECIAL, &x, NULL));
        CHECK(!ph_tokenizer_encode(b, text, strlen(text), PH_ENCODE_SPECIAL, &y, NULL));
        CHECK(x.n == y.n && !memcmp(x.at, y.at, x.n * sizeof *x.at));
        CHECK(ph_tokenizer_bytes(a) > 10000 && ph_tokenizer_bytes(a) < 200000);
    }
    ph_ids_close(&x);
    ph_ids_close(&y);
    ph_tokenizer_close(a);
    ph_tokenizer_close(b);
    ph_file_close(&f);
}

/* vocab.json and merges.txt give what tokenizer.json gives. */
void test_tokenizer_old_files(void) {
    static const char *const dirs[] = {DIR "bpe_qwen2", DIR "bpe_clip"};
    static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer_config.json",
                                        "special_tokens_map.json", "added_tokens.json"};
    const char              *text = "It's  a SMALL na\xC3\xAFve house, 123\n ok";
    for (int d = 0; d < 2; d++) {
        ph_file            f[5] = {{0}};
        ph_tokenizer      *a = open_dir(dirs[d]), *b = NULL;
        ph_tokenizer_files files = {0};
        ph_blob           *into[] = {&files.vocab, &files.merges, &files.config, &files.special_tokens_map,
                                     &files.added_tokens};
        ph_ids             x = {0}, y = {0};
        ph_err             err = {0};
        for (int i = 0; i < 5; i++) {
            char path[200];
            snprintf(path, sizeof path, "%s/%s", dirs[d], names[i]);
            if (ph_path_is_file(path) && !ph_file_open(&f[i], path, NULL))
                *into[i] = (ph_blob){f[i].bytes, f[i].n};
        }
        CHECK_SAY(!ph_tokenizer_open_files(&b, &files, &err), "%s: %s", dirs[d], err.msg);
        if (a && b) {
            CHECK(!ph_tokenizer_encode(a, text, strlen(text), PH_ENCODE_SPECIAL, &x, NULL));
            CHECK(!ph_tokenizer_encode(b, text, strlen(text), PH_ENCODE_SPECIAL, &y, NULL));
            CHECK_SAY(x.n == y.n && !memcmp(x.at, y.at, x.n * sizeof *x.at), "%s", dirs[d]);
        }
        ph_ids_close(&x);
        ph_ids_close(&y);
        ph_tokenizer_close(a);
        ph_tokenizer_close(b);
        for (int i = 0; i < 5; i++) ph_file_close(&f[i]);
    }
}

#define MODEL(vocab, merges) "{\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":" merges "}}"
#define WITH(key, value)                                                                                     \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"" key "\":" value "}"

/* Each way to be wrong: the code, and a word of the message. */
void test_tokenizer_refused(void) {
    static const struct {
        const char *json, *says;
        ph_rc       rc;
    } rows[] = {
        {"{", "tokenizer.json", PH_EFORMAT},
        {"{}", "model", PH_EFORMAT},
        {MODEL("", "[]"), "empty", PH_EFORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", "merges", PH_EFORMAT},
        {MODEL("\"a\":0,\"b\":1,\"ab\":2", "[]"), "merges is empty", PH_EFORMAT},
        {MODEL("\"a\":0,\"ab\":1", "[[\"a\",\"b\"]]"), "not in the vocabulary", PH_EFORMAT},
        {MODEL("\"a\":0,\"b\":1", "[\"a b\"]"), "not in the vocabulary", PH_EFORMAT},
        {MODEL("\"a\":0,\"b\":1", "[\"ab\"]"), "no pair", PH_EFORMAT},
        {MODEL("\"a\":-1", "[]"), "id -1", PH_EFORMAT},
        {MODEL("\"a\":4000000000", "[]"), "4000000000", PH_EFORMAT},
        {MODEL("\"a\":0,\"b\":0", "[]"), "given to", PH_EFORMAT},
        {"{\"model\":{\"type\":\"Bogus\",\"vocab\":{}}}", "Bogus", PH_EUNSUP},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":5,\"vocab\":[[\"a\",0]]}}", "unk_id", PH_EFORMAT},
        {"{\"model\":{\"type\":\"SentencePiece BPE\",\"vocab\":[[\"a\",0],[\"aa\",1]]}}", "SentencePiece BPE",
         PH_EUNSUP},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":"
         "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}}",
         "end_of_word_suffix has 70 bytes", PH_ELIMIT},
        {WITH("normalizer", "{\"type\":\"Nope\"}"), "Nope", PH_EUNSUP},
        {WITH("pre_tokenizer", "{\"type\":\"Nope\"}"), "Nope", PH_EUNSUP},
        {WITH("pre_tokenizer",
              "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}"),
         "regular expression", PH_EFORMAT},
        {WITH("pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}"),
         "Odd", PH_EUNSUP},
        {WITH("decoder", "{\"type\":\"Nope\"}"), "Nope", PH_EUNSUP},
        {WITH("post_processor", "{\"type\":\"Nope\"}"), "Nope", PH_EUNSUP},
        {WITH("normalizer", "\"x\""), "normalizer: expected an object, found a text", PH_EFORMAT},
        {WITH("pre_tokenizer", "[]"), "pre_tokenizer: expected an object, found an array", PH_EFORMAT},
        {WITH("decoder", "true"), "decoder: expected an object, found a boolean", PH_EFORMAT},
        {WITH("post_processor", "5"), "post_processor: expected an object, found an integer", PH_EFORMAT},
        {WITH("added_tokens", "{}"), "added_tokens: expected an array, found an object", PH_EFORMAT},
        {WITH("added_tokens", "[{\"id\":-1,\"content\":\"zz\"}]"), "\"zz\" has id -1", PH_EFORMAT},
        {WITH("added_tokens", "[{\"id\":-1099511627776,\"content\":\"a\"}]"), "id -1099511627776",
         PH_EFORMAT},
        {WITH("normalizer", "{\"type\":\"Sequence\",\"normalizers\":\"NFC\"}"),
         "normalizers: expected an array", PH_EFORMAT},
        {WITH("normalizer", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":5}"),
         "charsmap: expected a text", PH_EFORMAT},
        {WITH("pre_tokenizer", "{\"type\":\"Metaspace\",\"prepend_scheme\":\"odd\"}"), "\"odd\"", PH_EUNSUP},
        {WITH("decoder", "{\"type\":\"Metaspace\",\"prepend_scheme\":\"odd\"}"), "\"odd\"", PH_EUNSUP},
        {WITH("post_processor", "{\"type\":\"TemplateProcessing\",\"single\":\"A\"}"),
         "single: expected an array", PH_EFORMAT},
        {WITH("post_processor", "{\"type\":\"BertProcessing\",\"cls\":[\"a\",9],\"sep\":[\"a\",0]}"), "id 9",
         PH_EFORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_tokenizer      *t = NULL;
        ph_err             err = {0};
        ph_tokenizer_files f = {.tokenizer_json = {rows[i].json, strlen(rows[i].json)}};
        ph_rc              rc = ph_tokenizer_open_files(&t, &f, &err);
        CHECK_SAY(rc == rows[i].rc && !t, "row %zu: %s, want %s (%s)", i, ph_rc_name(rc),
                  ph_rc_name(rows[i].rc), err.msg);
        CHECK_SAY(strstr(err.msg, rows[i].says), "row %zu: \"%s\" does not say \"%s\"", i, err.msg,
                  rows[i].says);
        ph_tokenizer_close(t);
    }
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    CHECK(ph_tokenizer_open_dir(&t, "tests/golden", &err) == PH_EPATH && !t &&
          strstr(err.msg, "tokenizer.json"));
}

/* ---- GGUF ---- */

enum { N_KEYS = 4 };

/* "gpt2" of two tokens; the value under key number `odd` is `kv`. */
static ph_rc open_lists(int odd, ph_gguf_kv kv, ph_err *err) {
#define T(n) n "\0\0\0\0\0\0\0"
    static const uint8_t model[] = T("\4") "gpt2", tokens[] = T("\1") "a" T("\1") "b" T("\2") "ab";
    static const uint8_t merges[] = T("\3") "a b", types[3 * 4] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
#undef T
    ph_gguf_kv keys[N_KEYS] = {
        {"tokenizer.ggml.merges", PH_GGUF_TEXT, 1, 1, merges},
        {"tokenizer.ggml.model", PH_GGUF_TEXT, 0, 1, model},
        {"tokenizer.ggml.token_type", PH_GGUF_I32, 1, 3, types},
        {"tokenizer.ggml.tokens", PH_GGUF_TEXT, 1, 3, tokens},
    };
    uint32_t      sorted[N_KEYS] = {0, 1, 2, 3};
    ph_gguf       g = {.name = "lists.gguf", .kv = keys, .n_kv = N_KEYS, .sorted = sorted};
    ph_tokenizer *t = NULL;
    if (odd >= 0) {
        kv.key = keys[odd].key;
        keys[odd] = kv;
    }
    *err = (ph_err){0};
    ph_rc rc = ph_tokenizer_open_gguf(&t, &g, err);
    ph_tokenizer_close(t);
    return rc;
}

/* Lists of another type than theirs are not read as empty ones. */
void test_tokenizer_gguf_types(void) {
    static const uint8_t bytes[64] = {1, 0, 0, 0, 0, 0, 0, 0, 'x'};
    static const struct {
        int         odd;
        ph_gguf_kv  kv;
        const char *says;
    } rows[] = {
        {0, {NULL, PH_GGUF_U32, 1, 2, bytes}, "merges must be an array of texts"},
        {0, {NULL, PH_GGUF_U32, 1, 0, bytes}, "merges must be an array of texts"},
        {0, {NULL, PH_GGUF_TEXT, 0, 1, bytes}, "merges must be an array of texts"},
        {0, {NULL, PH_GGUF_TEXT, 1, 0, bytes}, "merges is empty"},
        {2, {NULL, PH_GGUF_TEXT, 1, 3, bytes}, "token_type must be an array of numbers"},
        {2, {NULL, PH_GGUF_F32, 1, 3, bytes}, "token_type[0] is no integer"},
        {3, {NULL, PH_GGUF_I32, 1, 3, bytes}, "tokens must be an array of texts"},
    };
    ph_err err;
    CHECK_SAY(!open_lists(-1, rows[0].kv, &err), "%s", err.msg);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_rc rc = open_lists(rows[i].odd, rows[i].kv, &err);
        CHECK_SAY(rc == PH_EFORMAT && strstr(err.msg, rows[i].says), "row %zu: %s", i, err.msg);
    }
}

/* Every prefix of a .model is refused or opens; none crashes. */
void test_tokenizer_spm_cut(void) {
    ph_file f;
    int     refused = 0;
    CHECK(!ph_file_open(&f, DIR "spm_llama2/tokenizer.model", NULL));
    for (size_t n = 0; n < f.n; n += 1 + n / 50) {
        ph_tokenizer      *t = NULL;
        ph_err             err = {0};
        ph_tokenizer_files files = {.spm = {f.bytes, n}};
        ph_rc              rc = ph_tokenizer_open_files(&t, &files, &err);
        refused += rc != PH_OK;
        CHECK(!rc || strstr(err.msg, "tokenizer.model"));
        ph_tokenizer_close(t);
    }
    CHECK(refused > 50);
    ph_file_close(&f);
}
