/* tokenizer_golden.c - every tokenizer of tests/golden/tokenizers against its golden.json, exactly. */
#include "tests/unit/text/tokenizer_help.h"

#include "formats/json.h"
#include "text/decode.h"
#include "text/speak.h"
#include "text/tokimage.h"

#include <stdlib.h>
#include <string.h>

static size_t ids_of(const ph_json *row, const char *key, int32_t *out, size_t out_max) {
    ph_json list = ph_json_get(row, key);
    size_t  n = ph_json_count(&list);
    CHECK(n <= out_max);
    for (size_t i = 0; i < n && i < out_max; i++) {
        ph_json j = ph_json_at(&list, i);
        int64_t id = -1;
        ph_json_to_int(&j, &id, NULL);
        out[i] = (int32_t)id;
    }
    return n;
}

static int same_ids(const ph_ids *got, const int32_t *want, size_t n) {
    return got->n == n && (!n || !memcmp(got->at, want, n * sizeof *want));
}

static void say_ids(const char *what, const int32_t *ids, size_t n) {
    printf("  %s:", what);
    for (size_t i = 0; i < n && i < 40; i++) printf(" %d", ids[i]);
    printf("\n");
}

enum { IDS_MAX = 4096 };

static void check_encode(const ph_tokenizer *t, const char *name, const ph_json *row, const char *text,
                         size_t n, const char *key, unsigned how) {
    static int32_t want[IDS_MAX];
    size_t         n_want = ids_of(row, key, want, IDS_MAX);
    ph_ids         got = {0};
    ph_err         err = {0};
    CHECK(!ph_tokenizer_encode(t, text, n, how | PH_ENCODE_CONTROL, &got, &err));
    CHECK_SAY(same_ids(&got, want, n_want), "%s: %s of \"%s\"", name, key, text);
    if (!same_ids(&got, want, n_want)) say_ids("got ", got.at, got.n), say_ids("want", want, n_want);
    ph_ids_close(&got);
}

static void check_decode(const ph_tokenizer *t, const char *name, const int32_t *ids, size_t n,
                         const ph_json *row, const char *key, int skip) {
    ph_bytes    got = {0};
    ph_json     j = ph_json_get(row, key);
    const char *want = "";
    size_t      n_want = 0;
    CHECK(!ph_json_to_text(&j, &want, &n_want, NULL));
    CHECK(!ph_tokenizer_decode_as(t, ids, n, skip, 0, &got, NULL));
    int same = got.n == n_want && (!n_want || !memcmp(got.at, want, n_want));
    CHECK_SAY(same, "%s: %s: got \"%.*s\", want \"%s\"", name, key, (int)got.n, (const char *)got.at, want);
    ph_bytes_close(&got);
}

static void check_tokens(const ph_tokenizer *t, const char *name, const ph_json *row, const int32_t *ids,
                         size_t n) {
    ph_json list = ph_json_get(row, "tokens");
    CHECK(ph_json_count(&list) == n);
    for (size_t i = 0; i < n; i++) {
        ph_json     j = ph_json_at(&list, i);
        const char *want = "", *got;
        size_t      n_want = 0, n_got;
        ph_json_to_text(&j, &want, &n_want, NULL);
        got = ph_tokenizer_piece(t, ids[i], &n_got);
        CHECK_SAY(n_got == n_want && !memcmp(got, want, n_want), "%s: piece of %d: %.*s, want %s", name,
                  ids[i], (int)n_got, got, want);
        CHECK_SAY(ph_tokenizer_id(t, want, n_want) == ids[i], "%s: id of %s is %d, want %d", name, want,
                  ph_tokenizer_id(t, want, n_want), ids[i]);
    }
}

static int gather(void *arg, const char *piece, size_t n) {
    CHECK(n > 0 && ph_utf8_is_valid((const uint8_t *)piece, n));
    ph_bytes_push(arg, piece, n, NULL);
    return 0;
}

/* Streamed pieces are whole characters and sum up to the decoded whole. */
static void check_stream(const ph_tokenizer *t, const char *name, const int32_t *ids, size_t n,
                         const ph_json *row, const char *key, int skip) {
    ph_bytes    got = {0};
    ph_json     j = ph_json_get(row, key);
    const char *want = "";
    size_t      n_want = 0;
    ph_speaker *s;
    int         over = 0;
    ph_json_to_text(&j, &want, &n_want, NULL);
    CHECK(!ph_speaker_open(&s, t, skip, NULL, 0, gather, &got, NULL));
    for (size_t i = 0; i < n; i++) CHECK(!ph_speaker_push(s, ids[i], &over, NULL));
    CHECK(!ph_speaker_end(s, &over, NULL));
    int same = got.n == n_want && (!n_want || !memcmp(got.at, want, n_want));
    CHECK_SAY(same || t->clean_up, "%s: streamed \"%.*s\", want \"%s\"", name, (int)got.n,
              (const char *)got.at, want);
    ph_speaker_close(s);
    ph_bytes_close(&got);
}

static int check_file(const ph_tokenizer *t, const char *name, const ph_json *root) {
    static int32_t ids[IDS_MAX];
    ph_json        cases = ph_json_get(root, "cases"), more = ph_json_get(root, "decode_cases");
    ph_json        streams = ph_json_get(root, "streaming");
    for (size_t i = 0; i < ph_json_count(&cases); i++) {
        ph_json     row = ph_json_at(&cases, i), j = ph_json_get(&row, "text");
        const char *text = "";
        size_t      n_text = 0, n = ids_of(&row, "ids", ids, IDS_MAX);
        CHECK(!ph_json_to_text(&j, &text, &n_text, NULL));
        check_encode(t, name, &row, text, n_text, "ids", PH_ENCODE_PLAIN);
        check_encode(t, name, &row, text, n_text, "ids_with_special", PH_ENCODE_SPECIAL);
        check_tokens(t, name, &row, ids, n);
        check_decode(t, name, ids, n, &row, "decoded", 0);
        check_decode(t, name, ids, n, &row, "decoded_skip_special", 1);
        check_stream(t, name, ids, n, &row, "decoded", 0);
        check_stream(t, name, ids, n, &row, "decoded_skip_special", 1);
    }
    for (size_t i = 0; i < ph_json_count(&more); i++) {
        ph_json row = ph_json_at(&more, i);
        size_t  n = ids_of(&row, "ids", ids, IDS_MAX);
        check_decode(t, name, ids, n, &row, "decoded", 0);
        check_decode(t, name, ids, n, &row, "decoded_skip_special", 1);
        check_stream(t, name, ids, n, &row, "decoded", 0);
    }
    size_t  n = ids_of(&streams, "ids", ids, IDS_MAX);
    ph_json prefixes = ph_json_get(&streams, "prefix_decodes");
    for (size_t i = 0; i < n; i++) {
        ph_bytes    got = {0};
        ph_json     j = ph_json_at(&prefixes, i);
        const char *want = "";
        size_t      n_want = 0;
        ph_json_to_text(&j, &want, &n_want, NULL);
        CHECK(!ph_tokenizer_decode_as(t, ids, i + 1, 0, 0, &got, NULL));
        CHECK_SAY(got.n == n_want && !memcmp(got.at, want, n_want), "%s: prefix %zu: \"%.*s\", want \"%s\"",
                  name, i + 1, (int)got.n, (const char *)got.at, want);
        ph_bytes_close(&got);
    }
    int64_t want[4];
    ph_json_int_or(root, "bos", -1, &want[0], NULL);
    ph_json_int_or(root, "eos", -1, &want[1], NULL);
    ph_json_int_or(root, "vocab_size", -1, &want[2], NULL);
    CHECK_SAY(ph_tokenizer_eos(t) == want[1], "%s: eos %d, want %d", name, ph_tokenizer_eos(t), (int)want[1]);
    CHECK_SAY(ph_tokenizer_bos(t) == want[0], "%s: bos %d, want %d", name, ph_tokenizer_bos(t), (int)want[0]);
    return (int)ph_json_count(&cases);
}

/* The same from ready-made tables. */
static void check_image(const ph_tokenizer *t, const char *name, const ph_json *root) {
    ph_tokenizer *ready = NULL;
    ph_err        err = {0};
    uint8_t      *bytes;
    size_t        n;
    CHECK_SAY(!ph_tokenizer_to_image(t, &bytes, &n, &err) && bytes, "%s: %s", name, err.msg);
    if (bytes) CHECK_SAY(!ph_tokenizer_open_image(&ready, bytes, n, name, &err), "%s: %s", name, err.msg);
    CHECK(ready && check_file(ready, name, root) >= 80);
    ph_tokenizer_close(ready);
    free(bytes);
}

static void check_dir(const char *name) {
    char          dir[256], golden[300];
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    ph_file       file = {0};
    ph_json_doc   doc = {0};
    snprintf(dir, sizeof dir, "tests/golden/tokenizers/%s", name);
    snprintf(golden, sizeof golden, "%s/golden.json", dir);
    CHECK_SAY(!ph_tokenizer_open_dir(&t, dir, &err), "%s: %s", name, err.msg);
    CHECK(!ph_file_open(&file, golden, &err));
    CHECK(!ph_json_parse(&doc, file.bytes, file.n, golden, &err));
    ph_json root = ph_json_root(&doc);
    if (t) CHECK(check_file(t, name, &root) >= 80);
    if (t) check_image(t, name, &root);
    ph_tokenizer_close(t);
    ph_json_close(&doc);
    ph_file_close(&file);
}

#define GOLDEN(name)                                                                                         \
    void test_tokenizer_##name(void);                                                                        \
    void test_tokenizer_##name(void) {                                                                       \
        check_dir(#name);                                                                                    \
    }
GOLDEN(bpe_clip)
GOLDEN(bpe_deepseek)
GOLDEN(bpe_gpt2)
GOLDEN(bpe_internvl)
GOLDEN(bpe_llama3)
GOLDEN(bpe_o200k)
GOLDEN(bpe_qwen2)
GOLDEN(bpe_smollm)
GOLDEN(spm_gemma)
GOLDEN(spm_llama2)
GOLDEN(spm_llama2_metaspace)
GOLDEN(spm_unigram)
GOLDEN(wordpiece_bert)
