/* case_tokenizer.c - ids of texts, texts of ids, and both by pieces, against the tokenizer's own trainer.
 *
 * Four cases a tokenizer: encode, decode, streaming, and sentencepiece where the reference gives what that
 * library makes of the .model file alone (it parses no control tokens).
 */
#include "measure/case.h"

#include "base/file.h"
#include "text/speak.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

static int claims(const char *dir) {
    return ph_golden_json_has(dir, "golden.json", "tokenizer") &&
           ph_golden_json_has(dir, "golden.json", "cases");
}

/* What every check needs; ids, text, arena are scratch. */
typedef struct desk {
    ph_report          *r;
    const ph_tokenizer *t;
    ph_json             root;
    ph_ids              ids;
    ph_bytes            text;
    ph_arena            arena;
} desk;

/* "c3a9" to bytes: the text exactly as the reference had it, which JSON could not always hold. */
static ph_rc from_hex(desk *d, const ph_json *item, const char **bytes, size_t *n, ph_err *err) {
    const char *hex;
    void       *at;
    if (!ph_json_has(item, "utf8_hex")) {
        ph_json text = ph_json_get(item, "text");
        return ph_json_to_text(&text, bytes, n, err);
    }
    PH_TRY(ph_json_text(item, "utf8_hex", &hex, err));
    *n = strlen(hex) / 2;
    PH_TRY(ph_arena_carve(&d->arena, &at, *n + 1, 1, err));
    for (size_t i = 0; i < *n; i++) {
        unsigned v;
        if (sscanf(hex + 2 * i, "%2x", &v) != 1)
            return PH_FAIL(err, PH_EFORMAT, "%s: utf8_hex is no hexadecimal text", item->where);
        ((uint8_t *)at)[i] = (uint8_t)v;
    }
    *bytes = at;
    return PH_OK;
}

/* Wrong answers of a list of items, and the first of them. */
typedef struct tally {
    size_t wrong, n, first;
    char   what[24];
} tally;

static void count(tally *t, size_t item, int is_right, const char *what) {
    t->n++;
    if (is_right) return;
    if (!t->wrong++) {
        t->first = item;
        snprintf(t->what, sizeof t->what, "%s", what);
    }
}

static void close_tally(ph_report *r, const tally *t, const char *what) {
    if (t->wrong) ph_case_fail(r, "first at item %zu: %s", t->first, t->what);
    if (t->n) ph_figure(r, (double)t->wrong, 0, "%s: wrong of %zu", what, t->n);
}

static int same_ids(const desk *d, const int32_t *ref, size_t n) {
    return d->ids.n == n && !memcmp(d->ids.at ? d->ids.at : ref, ref, n * sizeof *ref);
}

static ph_rc check_ids(desk *d, const ph_json *item, const char *key, unsigned how, int *is_right,
                       ph_err *err) {
    const char *text;
    size_t      n_text, n;
    int32_t    *ref;
    ph_json     array = ph_json_get(item, key);
    PH_TRY(from_hex(d, item, &text, &n_text, err));
    PH_TRY(ph_golden_ids(&d->arena, &array, &ref, &n, err));
    d->ids.n = 0;
    PH_TRY(ph_tokenizer_encode(d->t, text, n_text, how, &d->ids, err));
    *is_right = same_ids(d, ref, n);
    return PH_OK;
}

/* ids of item[ids_key] against item[key]. */
static ph_rc check_text(desk *d, const ph_json *item, const char *ids_key, const char *key, int skip,
                        int *is_right, ph_err *err) {
    size_t      n, n_ids;
    int32_t    *ids;
    const char *ref;
    ph_json     array = ph_json_get(item, ids_key), text = ph_json_get(item, key);
    PH_TRY(ph_golden_ids(&d->arena, &array, &ids, &n_ids, err));
    PH_TRY(ph_json_to_text(&text, &ref, &n, err));
    d->text.n = 0;
    PH_TRY(ph_tokenizer_decode_as(d->t, ids, n_ids, skip, 0, &d->text, err));
    *is_right = d->text.n == n && !memcmp(n ? (const void *)d->text.at : ref, ref, n);
    return PH_OK;
}

static ph_rc check_pieces(desk *d, const ph_json *item, int *is_right, ph_err *err) {
    ph_json  ids = ph_json_get(item, "ids"), pieces = ph_json_get(item, "tokens");
    size_t   n;
    int32_t *at;
    PH_TRY(ph_golden_ids(&d->arena, &ids, &at, &n, err));
    *is_right = n == ph_json_count(&pieces);
    for (size_t i = 0; i < n && *is_right; i++) {
        const char *ref;
        size_t      n_ref, n_ours;
        ph_json     piece = ph_json_at(&pieces, i);
        PH_TRY(ph_json_to_text(&piece, &ref, &n_ref, err));
        const char *ours = ph_tokenizer_piece(d->t, at[i], &n_ours);
        *is_right = n_ours == n_ref && !memcmp(ours, ref, n_ref);
    }
    return PH_OK;
}

static ph_rc check_encode(desk *d, ph_err *err) {
    ph_json cases = ph_json_get(&d->root, "cases");
    tally   t = {0};
    for (size_t i = 0; i < ph_json_count(&cases); i++) {
        ph_json item = ph_json_at(&cases, i);
        int     is_right;
        ph_arena_reset(&d->arena);
        PH_TRY(check_ids(d, &item, "ids", PH_ENCODE_PLAIN | PH_ENCODE_CONTROL, &is_right, err));
        count(&t, i, is_right, "ids");
        if (ph_json_has(&item, "ids_with_special")) {
            PH_TRY(check_ids(d, &item, "ids_with_special", PH_ENCODE_SPECIAL | PH_ENCODE_CONTROL, &is_right,
                             err));
            count(&t, i, is_right, "ids_with_special");
        }
        if (ph_json_has(&item, "tokens")) {
            PH_TRY(check_pieces(d, &item, &is_right, err));
            count(&t, i, is_right, "tokens");
        }
    }
    close_tally(d->r, &t, "texts to ids");
    return PH_OK;
}

static ph_rc decode_list(desk *d, const char *list, tally *t, ph_err *err) {
    ph_json cases = ph_json_get(&d->root, list);
    for (size_t i = 0; i < ph_json_count(&cases); i++) {
        ph_json item = ph_json_at(&cases, i);
        int     is_right;
        ph_arena_reset(&d->arena);
        if (ph_json_has(&item, "decoded")) {
            PH_TRY(check_text(d, &item, "ids", "decoded", 0, &is_right, err));
            count(t, i, is_right, "decoded");
        }
        if (ph_json_has(&item, "decoded_skip_special")) {
            PH_TRY(check_text(d, &item, "ids", "decoded_skip_special", 1, &is_right, err));
            count(t, i, is_right, "decoded_skip_special");
        }
    }
    return PH_OK;
}

static ph_rc check_decode(desk *d, ph_err *err) {
    tally texts = {0}, lists = {0};
    PH_TRY(decode_list(d, "cases", &texts, err));
    PH_TRY(decode_list(d, "decode_cases", &lists, err));
    close_tally(d->r, &texts, "ids to texts");
    close_tally(d->r, &lists, "any ids to texts");
    return PH_OK;
}

/* Each growing prefix at once, as the reference decoded it. */
static ph_rc check_prefixes(desk *d, const ph_json *streaming, const int32_t *ids, size_t n, ph_err *err) {
    ph_json prefixes = ph_json_get(streaming, "prefix_decodes");
    tally   t = {0};
    if (ph_json_count(&prefixes) != n)
        return PH_FAIL(err, PH_EFORMAT, "%s: %zu texts for %zu ids", prefixes.where, ph_json_count(&prefixes),
                       n);
    for (size_t i = 0; i < n; i++) {
        const char *ref;
        size_t      n_ref;
        ph_json     text = ph_json_at(&prefixes, i);
        PH_TRY(ph_json_to_text(&text, &ref, &n_ref, err));
        d->text.n = 0;
        PH_TRY(ph_tokenizer_decode_as(d->t, ids, i + 1, 0, 0, &d->text, err));
        count(&t, i, d->text.n == n_ref && !memcmp(n_ref ? (const void *)d->text.at : ref, ref, n_ref),
              "prefix");
    }
    close_tally(d->r, &t, "prefixes to texts");
    return PH_OK;
}

typedef struct heard {
    ph_bytes text;
    int      is_broken; /* a piece ended inside a character */
} heard;

static int is_whole(const char *piece, size_t n) {
    size_t back = 0;
    while (back < n && back < 4 && ((uint8_t)piece[n - 1 - back] & 0xc0) == 0x80) back++;
    if (back == n) return 0;
    uint8_t lead = (uint8_t)piece[n - 1 - back];
    size_t  wants = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    return wants == back;
}

static int hear(void *arg, const char *piece, size_t n) {
    heard *h = arg;
    h->is_broken |= !is_whole(piece, n);
    return ph_bytes_push(&h->text, piece, n, NULL) != PH_OK;
}

/* Id by id: whole characters only, and together the text of all ids. */
static ph_rc check_spoken(desk *d, const int32_t *ids, size_t n, ph_err *err) {
    heard       h = {0};
    ph_speaker *s = NULL;
    int         is_over = 0;
    ph_rc       rc = ph_speaker_open(&s, d->t, 0, NULL, 0, hear, &h, err);
    if (rc) goto out;
    ph_speaker_begin(s);
    for (size_t i = 0; i < n && !rc; i++) rc = ph_speaker_push(s, ids[i], &is_over, err);
    if (!rc) rc = ph_speaker_end(s, &is_over, err);
    d->text.n = 0;
    if (!rc) rc = ph_tokenizer_decode(d->t, ids, n, 0, &d->text, err);
    if (rc) goto out;
    ph_figure_text(d->r, h.text.at, h.text.n, d->text.at, d->text.n, "pieces together");
    ph_figure(d->r, h.is_broken, 0, "pieces that end inside a character");
out:
    ph_speaker_close(s);
    ph_bytes_close(&h.text);
    return rc;
}

static ph_rc check_streaming(desk *d, ph_err *err) {
    ph_json  streaming = ph_json_get(&d->root, "streaming"), array = ph_json_get(&streaming, "ids");
    int32_t *ids;
    size_t   n;
    ph_arena_reset(&d->arena);
    PH_TRY(ph_golden_ids(&d->arena, &array, &ids, &n, err));
    PH_TRY(check_prefixes(d, &streaming, ids, n, err));
    return check_spoken(d, ids, n, err);
}

static ph_rc check_spm(desk *d, ph_err *err) {
    ph_json cases = ph_json_get(&d->root, "cases");
    tally   t = {0};
    for (size_t i = 0; i < ph_json_count(&cases); i++) {
        ph_json item = ph_json_at(&cases, i);
        int     is_right;
        ph_arena_reset(&d->arena);
        if (!ph_json_has(&item, "spm_ids")) continue;
        PH_TRY(check_ids(d, &item, "spm_ids", PH_ENCODE_PLAIN, &is_right, err));
        count(&t, i, is_right, "spm_ids");
    }
    close_tally(d->r, &t, "texts to ids by the .model file");
    return PH_OK;
}

static ph_rc open_spm(ph_tokenizer **out, const char *dir, ph_err *err) {
    const char *name = ph_golden_has(dir, "tokenizer.model") ? "tokenizer.model" : "spiece.model";
    ph_file     f;
    PH_TRY(ph_file_open_in(&f, dir, name, err));
    const ph_tokenizer_files files = {.spm = {f.bytes, f.n}};
    ph_rc                    rc = ph_tokenizer_open_files(out, &files, err);
    ph_file_close(&f);
    return rc;
}

/* A reference that brings no files is of a checkpoint that is given apart. */
static int has_files(const char *dir) {
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json",
                                        "vocab.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ph_golden_has(dir, names[i])) return 1;
    return 0;
}

static ph_rc open_real(desk *d, ph_tokenizer **out, ph_err *err) {
    ph_arena    arena;
    ph_gguf     gguf;
    const char *path = d->r->how->real_gguf;
    if (!path || !*path) {
        ph_case_skip(d->r, "needs the checkpoint that its notes name: give its file in PINHOLE_REAL_GGUF");
        return PH_OK;
    }
    PH_TRY(ph_arena_open_growing(&arena, 64 << 10, err));
    ph_rc rc = ph_gguf_open(&gguf, path, &arena, err);
    if (!rc) {
        rc = ph_tokenizer_open_gguf(out, &gguf, err);
        ph_gguf_close(&gguf);
    }
    ph_arena_close(&arena);
    return rc;
}

static ph_rc open_any(desk *d, const char *dir, int is_spm, ph_tokenizer **out, ph_err *err) {
    if (is_spm) return open_spm(out, dir, err);
    return has_files(dir) ? ph_tokenizer_open_dir(out, dir, err) : open_real(d, out, err);
}

typedef ph_rc check_fn(desk *d, ph_err *err);

static void one(desk *d, const char *dir, const char *name, int is_spm, check_fn *check) {
    ph_err        err = {0};
    ph_tokenizer *t = NULL;
    if (!ph_case_begin(d->r, "%s", name)) return;
    ph_rc rc = open_any(d, dir, is_spm, &t, &err);
    if (t) {
        d->t = t;
        rc = check(d, &err);
    } else if (rc == PH_EUNSUP) {
        ph_case_skip(d->r, "%s", err.msg);
        rc = PH_OK;
    }
    ph_case_end(d->r, rc, &err);
    ph_tokenizer_close(t);
}

static int has_spm_ids(const ph_json *root) {
    ph_json cases = ph_json_get(root, "cases"), first = ph_json_at(&cases, 0);
    return ph_json_has(&first, "spm_ids");
}

static void all(desk *d, const char *dir) {
    one(d, dir, "encode", 0, check_encode);
    one(d, dir, "decode", 0, check_decode);
    if (ph_json_has(&d->root, "streaming")) one(d, dir, "streaming", 0, check_streaming);
    if (has_spm_ids(&d->root)) one(d, dir, "sentencepiece", 1, check_spm);
}

static void run(ph_report *r, const char *dir) {
    ph_json_doc doc = {0};
    ph_err      err = {0};
    desk        d = {.r = r};
    ph_rc       rc = ph_golden_json(&doc, dir, "golden.json", &err);
    if (!rc) rc = ph_arena_open_growing(&d.arena, 64 << 10, &err);
    if (rc) {
        if (ph_case_begin(r, "golden.json")) ph_case_end(r, rc, &err);
    } else {
        d.root = ph_json_root(&doc);
        all(&d, dir);
    }
    ph_ids_close(&d.ids);
    ph_bytes_close(&d.text);
    ph_arena_close(&d.arena);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_tokenizer = {"tokenizer", "texts to ids and back", claims, run, 0, 0};
