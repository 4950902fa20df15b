/* tokimage_test.c - ready-made tables: the same tokenizer, and no harm from wrong ones. */
#include "tests/unit/text/tokenizer_help.h"

#include "text/tokimage.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define DIR "tests/golden/tokenizers/"

/* Of every kind of model and way of reading one. */
static const struct {
    const char *path; /* a folder, or a .model file */
    int         is_spm;
    uint64_t    digest; /* of its image, version 1 */
} kinds[] = {{DIR "bpe_clip", 0, 0x7120e1d324b20fcc},
             {DIR "bpe_deepseek", 0, 0x95b3689566e64d72},
             {DIR "bpe_gpt2", 0, 0x441e5c070bfcdde9},
             {DIR "bpe_internvl", 0, 0x2b95d4a805e9f4f8},
             {DIR "bpe_llama3", 0, 0x1ddb6d4b0aaa563d},
             {DIR "bpe_o200k", 0, 0x0ad8d06404e015e1},
             {DIR "bpe_qwen2", 0, 0xee47e2c2a08c0a44},
             {DIR "bpe_smollm", 0, 0x01bc07dec1eafc45},
             {DIR "spm_gemma", 0, 0xec164351df15656b},
             {DIR "spm_llama2", 0, 0x2440e212c6e78e6f},
             {DIR "spm_llama2_metaspace", 0, 0x5535ceaf05c7d0cd},
             {DIR "spm_unigram", 0, 0x4f1d627c37df10f0},
             {DIR "wordpiece_bert", 0, 0xb677287b08b3ff68},
             {DIR "spm_llama2/tokenizer.model", 1, 0xd25b5533a49373fa},
             {DIR "spm_unigram/spiece.model", 1, 0x980ca2fb1a054164}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const char *const texts[] = {"Hello  world's 12345, na\xC3\xAFve \xF0\x9F\x99\x82\n\n ok",
                                    " <s><|im_start|>user</s> \xE4\xBD\xA0\xE5\xA5\xBD  <|endoftext|>",
                                    "UNAFFABLE unaffable \xCC\x81 a\xCC\x81\t\xFF"};

static ph_tokenizer *open_plain(const char *path, int is_spm) {
    ph_tokenizer      *t = NULL;
    ph_tokenizer_files files = {0};
    ph_file            f = {0};
    ph_err             err = {0};
    if (!is_spm) {
        CHECK_SAY(!ph_tokenizer_open_dir(&t, path, &err), "%s: %s", path, err.msg);
        return t;
    }
    CHECK(!ph_file_open(&f, path, &err));
    files.spm = (ph_blob){f.bytes, f.n};
    CHECK_SAY(!ph_tokenizer_open_files(&t, &files, &err), "%s: %s", path, err.msg);
    ph_file_close(&f);
    return t;
}

/* The image of a tokenizer that is there, the caller's to free. */
static uint8_t *image_of(const char *path, int is_spm, size_t *n) {
    ph_tokenizer *t = open_plain(path, is_spm);
    uint8_t      *bytes = NULL;
    *n = 0;
    if (t) CHECK(!ph_tokenizer_to_image(t, &bytes, n, NULL));
    CHECK_SAY(bytes != NULL, "%s has an image", path);
    ph_tokenizer_close(t);
    return bytes;
}

static void check_same(const char *path, const ph_tokenizer *a, const ph_tokenizer *b) {
    static const unsigned how[] = {PH_ENCODE_PLAIN, PH_ENCODE_SPECIAL | PH_ENCODE_CONTROL};
    CHECK(ph_tokenizer_count(a) == ph_tokenizer_count(b));
    for (int32_t id = 0; id < ph_tokenizer_count(a); id++) {
        size_t      n, m;
        const char *x = ph_tokenizer_piece(a, id, &n), *y = ph_tokenizer_piece(b, id, &m);
        CHECK_SAY(n == m && !memcmp(x, y, n), "%s: piece %d", path, id);
        CHECK(ph_tokenizer_id(a, x, n) == ph_tokenizer_id(b, y, m));
        CHECK(ph_tokenizer_is_control(a, id) == ph_tokenizer_is_control(b, id));
    }
    for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
        ph_ids      x = {0}, y = {0};
        ph_bytes    p = {0}, q = {0};
        const char *text = texts[i / 2];
        CHECK(!ph_tokenizer_encode(a, text, strlen(text), how[i % 2], &x, NULL));
        CHECK(!ph_tokenizer_encode(b, text, strlen(text), how[i % 2], &y, NULL));
        CHECK_SAY(x.n == y.n && !memcmp(x.at, y.at, x.n * sizeof *x.at), "%s: ids of text %zu", path, i);
        CHECK(!ph_tokenizer_decode(a, x.at, x.n, 0, &p, NULL) &&
              !ph_tokenizer_decode(b, x.at, x.n, 0, &q, NULL));
        CHECK_SAY(p.n == q.n && !memcmp(p.at, q.at, p.n), "%s: text of ids %zu", path, i);
        ph_ids_close(&x);
        ph_ids_close(&y);
        ph_bytes_close(&p);
        ph_bytes_close(&q);
    }
}

/* Opened from its image a tokenizer is the same, holds next to nothing itself, and has the same image.  The
 * digest stands for all that readers make of these files: where it changes, PH_TOKIMAGE_VERSION must, for
 * bundles that were made before. */
void test_tokimage_round_trip(void) {
    for (int i = 0; i < N_KINDS; i++) {
        size_t        n, n_again = 0;
        uint8_t      *bytes = image_of(kinds[i].path, kinds[i].is_spm, &n), *again = NULL;
        ph_tokenizer *a = open_plain(kinds[i].path, kinds[i].is_spm), *b = NULL;
        ph_err        err = {0};
        if (bytes)
            CHECK_SAY(!ph_tokenizer_open_image(&b, bytes, n, "an image", &err) && b, "%s: %s", kinds[i].path,
                      err.msg);
        if (a && b) {
            check_same(kinds[i].path, a, b);
            CHECK(ph_tokenizer_mapped(b) == n && !ph_tokenizer_mapped(a));
            CHECK(ph_tokenizer_bytes(b) < ph_tokenizer_bytes(a));
            CHECK(!ph_tokenizer_to_image(b, &again, &n_again, NULL));
            CHECK(again && n == n_again && !memcmp(bytes, again, n));
            CHECK_SAY(XXH3_64bits(bytes, n) == kinds[i].digest,
                      "%s: its tables are others (0x%016llx): raise PH_TOKIMAGE_VERSION", kinds[i].path,
                      (unsigned long long)XXH3_64bits(bytes, n));
        }
        ph_tokenizer_close(a);
        ph_tokenizer_close(b);
        free(bytes);
        free(again);
    }
}

/* Of another version, another order of bytes, or where it cannot be read in place: left alone. */
void test_tokimage_not_for_us(void) {
    size_t        n;
    uint8_t      *bytes = image_of(DIR "bpe_gpt2", 0, &n), *moved = malloc(n + 4);
    ph_tokenizer *t = NULL;
    if (bytes && moved) {
        bytes[8] ^= 3;
        CHECK(!ph_tokenizer_open_image(&t, bytes, n, "x", NULL) && !t);
        bytes[8] ^= 3;
        bytes[12] ^= 5;
        CHECK(!ph_tokenizer_open_image(&t, bytes, n, "x", NULL) && !t);
        bytes[12] ^= 5;
        memcpy(moved + 4, bytes, n);
        CHECK(!ph_tokenizer_open_image(&t, moved + 4, n, "x", NULL) && !t);
        CHECK(!ph_tokenizer_open_image(&t, bytes, n, "x", NULL) && t);
        ph_tokenizer_close(t);
    }
    free(bytes);
    free(moved);
}

void test_tokimage_cut(void) {
    size_t   n;
    uint8_t *bytes = image_of(DIR "wordpiece_bert", 0, &n);
    for (size_t cut = 0; bytes && cut < n; cut++) {
        ph_tokenizer *t = NULL;
        ph_err        err = {0};
        uint8_t      *copy = malloc(cut + 1); /* so that a sanitizer knows its end */
        if (!copy) break;
        memcpy(copy, bytes, cut);
        CHECK(ph_tokenizer_open_image(&t, copy, cut, "x", &err) == PH_EFORMAT && !t && err.msg[0]);
        free(copy);
    }
    free(bytes);
}

/* All that a tokenizer does, whatever its tables say: ids in range, memory as it should be. */
static void use(const ph_tokenizer *t) {
    for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
        ph_ids      ids = {0};
        ph_bytes    text = {0};
        const char *in = texts[i / 2];
        ph_rc       rc = ph_tokenizer_encode(
                  t, in, strlen(in), i % 2 ? PH_ENCODE_PLAIN : PH_ENCODE_SPECIAL | PH_ENCODE_CONTROL, &ids, NULL);
        CHECK(!rc || rc == PH_ELIMIT);
        for (size_t k = 0; k < ids.n; k++) CHECK(ids.at[k] >= 0 && ids.at[k] < ph_tokenizer_count(t));
        CHECK(!ph_tokenizer_decode(t, ids.at, ids.n, 0, &text, NULL));
        ph_ids_close(&ids);
        ph_bytes_close(&text);
    }
    for (int32_t id = 0; id < ph_tokenizer_count(t); id += 97) {
        size_t      n;
        const char *piece = ph_tokenizer_piece(t, id, &n);
        CHECK(ph_tokenizer_id(t, piece, n) < ph_tokenizer_count(t));
    }
}

/* A byte changed: refused with a message, not for us, or harmless. */
static int change(const uint8_t *bytes, size_t n, size_t at, uint8_t by) {
    uint8_t      *copy = malloc(n);
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    if (!copy) return 0;
    memcpy(copy, bytes, n);
    copy[at] ^= by;
    ph_rc rc = ph_tokenizer_open_image(&t, copy, n, "x", &err);
    CHECK(rc ? !t && err.msg[0] : 1);
    if (t) use(t);
    ph_tokenizer_close(t);
    free(copy);
    return rc != 0;
}

/* All bytes of the head but for what is there many times, and one in 31 of the rest. */
void test_tokimage_flipped(void) {
    static const char *const dirs[] = {DIR "bpe_gpt2", DIR "wordpiece_bert", DIR "spm_llama2"};
    for (int d = 0; d < 3; d++) {
        size_t   n, refused = 0, lists = offsetof(ph_tokimage_head, op);
        uint8_t *bytes = image_of(dirs[d], 0, &n);
        for (size_t at = 0; bytes && at < n; at += at < lists ? 1 : 31)
            refused += (size_t)change(bytes, n, at, at % 2 ? 0x80 : 0x03);
        CHECK_SAY(refused > 100, "%s: %zu changes were refused", dirs[d], refused);
        free(bytes);
    }
}

/* ---- what an author of evil would write ---- */

typedef void spoil_fn(uint8_t *bytes, const ph_tokimage *m, ph_tokimage_head *h);
#define AT(type, table) ((type *)(void *)(bytes + m->at[PH_TOKIMAGE_##table]))
#define SPOIL(name, statement)                                                                               \
    static void name(uint8_t *bytes, const ph_tokimage *m, ph_tokimage_head *h) {                            \
        (void)bytes, (void)m, (void)h;                                                                       \
        statement;                                                                                           \
    }
SPOIL(no_model, memset(h->model, 'x', sizeof h->model))
SPOIL(other_model, strcpy(h->model, "Bogus"))
SPOIL(model_of_ranks, strcpy(h->model, "SentencePiece BPE"))
SPOIL(more_model, h->n_model++)
SPOIL(piece_outside, AT(ph_span_of, PIECE)[3].at = h->n_blob)
SPOIL(piece_round, AT(ph_span_of, PIECE)[3] = ((ph_span_of){UINT32_MAX, 2}))
SPOIL(pieces_share, for (uint32_t i = 0; i < h->n_ids; i++) AT(ph_span_of, PIECE)[i] = ((ph_span_of){0, 40}))
SPOIL(odd_flag, AT(uint16_t, FLAGS)[3] |= 0x8000)
SPOIL(slots_full, for (uint32_t i = 0; i < h->n_slots; i++) AT(uint32_t, SLOTS)[i] = 1)
SPOIL(slot_far, AT(uint32_t, SLOTS)[0] = h->n_ids + 1)
SPOIL(merge_far, AT(ph_merge, MERGES)[0].id = (int32_t)h->n_ids)
SPOIL(merge_less, AT(ph_merge, MERGES)[0].left = -1)
SPOIL(merges_full, for (uint32_t i = 0; i < h->n_merge_slots; i++) AT(uint32_t, MERGE_SLOTS)[i] = 1)
SPOIL(sorted_far, AT(uint32_t, SORTED)[1] = h->n_ids)
SPOIL(sorted_not, AT(uint32_t, SORTED)[0] = AT(uint32_t, SORTED)[h->n_sorted - 1])
SPOIL(score_odd, AT(double, SCORE)[1] = strtod("nan", NULL))
SPOIL(fail_round, AT(uint32_t, FAIL)[2] = 2)
SPOIL(fail_far, AT(uint32_t, FAIL)[2] = h->n_nodes)
SPOIL(hit_far, AT(uint32_t, HIT)[1] = h->n_texts + 1)
SPOIL(hit_root, AT(uint32_t, HIT)[0] = 1)
SPOIL(hit_longer, for (uint32_t v = 1; v < h->n_nodes; v++) if (AT(uint32_t, HIT)[v])
                      AT(uint32_t, HIT)[1] = AT(uint32_t, HIT)[v])
SPOIL(shorter_round, for (uint32_t k = 0; k < h->n_texts; k++) AT(uint32_t, SHORTER)[k] = k + 1)
SPOIL(child_of_last, AT(uint16_t, FIRST)[h->n_nodes - 1] = 'a')
SPOIL(two_parents, AT(uint32_t, ROOT)[1] = AT(uint32_t, ROOT)[2] = 1)
SPOIL(node_far, AT(uint32_t, ROOT)[1] = h->n_nodes)
SPOIL(edges_full, for (uint32_t i = 0; i < h->n_edges; i++) AT(ph_trie_edge, EDGES)[i].to = 2)
SPOIL(row_far, AT(ph_tokimage_row, ROWS)[0].id = (int32_t)h->n_ids)
SPOIL(row_outside, AT(ph_tokimage_row, ROWS)[0].text.n = h->n_blob)
SPOIL(rows_not, AT(ph_tokimage_row, ROWS)[0] = AT(ph_tokimage_row, ROWS)[h->n_row[0] + h->n_row[1] - 1])
SPOIL(byte_far, h->byte_id[7] = (int32_t)h->n_ids)
SPOIL(glyph_less, h->glyph_id[7] = -2)
SPOIL(eos_far, h->eos = (int32_t)h->n_ids)
SPOIL(wraps, h->n_before = PH_TOK_WRAP_MAX + 1)
SPOIL(wrap_far, h->n_before = 1; h->before[0] = -1)
SPOIL(prefix_far, h->inner_prefix.at = h->n_blob + 1)
SPOIL(words, h->word_chars_max = UINT32_MAX)
SPOIL(many_ops, h->n_op[PH_TOKIMAGE_SPLIT] = PH_TOK_OPS_MAX + 1)
SPOIL(op_kind, h->op[PH_TOKIMAGE_SPLIT][0].kind = 1u << 20)
SPOIL(op_elsewhere, h->op[PH_TOKIMAGE_SPLIT][0].kind = PH_OP_FUSE)
SPOIL(op_searches_not, h->op[PH_TOKIMAGE_SPLIT][0].kind = PH_OP_SPLIT;
      h->op[PH_TOKIMAGE_SPLIT][0].pattern = 0)
SPOIL(op_behavior, h->op[PH_TOKIMAGE_SPLIT][0].behavior = 5)
SPOIL(op_half, AT(uint8_t, BLOB)[0] = 0xF0; h->op[PH_TOKIMAGE_DECODE][0].b = ((ph_span_of){0, 1}))
SPOIL(op_map, h->n_op[PH_TOKIMAGE_NORM] = 1;
      h->op[PH_TOKIMAGE_NORM][0] = (ph_tokimage_op){.kind = PH_OP_CHARSMAP};
      h->op[PH_TOKIMAGE_NORM][0].a = ((ph_span_of){8, 8}))
SPOIL(op_pattern, h->op[PH_TOKIMAGE_SPLIT][0].pattern = 1; AT(uint8_t, BLOB)[0] = '(';
      h->op[PH_TOKIMAGE_SPLIT][0].source = ((ph_span_of){0, 1}))

static const struct {
    spoil_fn   *spoil;
    const char *dir, *says;
} evil[] = {{no_model, "bpe_gpt2", "its model has no name"},
            {other_model, "bpe_gpt2", "its model is not known"},
            {model_of_ranks, "bpe_gpt2", "the count of ranks"},
            {more_model, "bpe_gpt2", "the model's pieces"},
            {piece_outside, "bpe_gpt2", "a piece outside"},
            {piece_round, "bpe_gpt2", "a piece outside"},
            {pieces_share, "bpe_gpt2", "a piece outside"},
            {odd_flag, "bpe_gpt2", "a piece outside"},
            {slots_full, "bpe_gpt2", "a hash table"},
            {slot_far, "bpe_gpt2", "a hash table"},
            {merge_far, "bpe_gpt2", "a merge of ids"},
            {merge_less, "bpe_gpt2", "a merge of ids"},
            {merges_full, "bpe_gpt2", "a hash table"},
            {sorted_far, "wordpiece_bert", "not in order"},
            {sorted_not, "wordpiece_bert", "not in order"},
            {score_odd, "spm_unigram", "no number"},
            {fail_round, "wordpiece_bert", "links"},
            {fail_far, "wordpiece_bert", "links"},
            {hit_far, "wordpiece_bert", "links"},
            {hit_root, "spm_unigram", "links"},
            {hit_longer, "spm_unigram", "links"},
            {shorter_round, "spm_unigram", "links"},
            {child_of_last, "wordpiece_bert", "nodes"},
            {two_parents, "wordpiece_bert", "nodes"},
            {node_far, "wordpiece_bert", "nodes"},
            {edges_full, "wordpiece_bert", "nodes"},
            {row_far, "bpe_qwen2", "added tokens"},
            {row_outside, "bpe_qwen2", "added tokens"},
            {rows_not, "bpe_qwen2", "added tokens"},
            {byte_far, "spm_llama2", "an id"},
            {glyph_less, "bpe_gpt2", "an id"},
            {eos_far, "bpe_gpt2", "an id"},
            {wraps, "bpe_gpt2", "around a text"},
            {wrap_far, "bpe_gpt2", "an id"},
            {prefix_far, "wordpiece_bert", "spelled with"},
            {words, "wordpiece_bert", "how long a word"},
            {many_ops, "bpe_gpt2", "a step"},
            {op_kind, "bpe_gpt2", "a step"},
            {op_elsewhere, "bpe_gpt2", "a step"},
            {op_searches_not, "bpe_gpt2", "a step"},
            {op_behavior, "bpe_gpt2", "a step"},
            {op_half, "bpe_gpt2", "a step"},
            {op_map, "bpe_gpt2", "a step"},
            {op_pattern, "bpe_gpt2", "regular expression"}};

void test_tokimage_hostile(void) {
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        char          dir[64];
        size_t        n;
        ph_tokenizer *t = NULL;
        ph_err        err = {0};
        snprintf(dir, sizeof dir, DIR "%s", evil[i].dir);
        uint8_t *bytes = image_of(dir, 0, &n);
        if (!bytes) continue;
        ph_tokimage_head *h = (ph_tokimage_head *)(void *)bytes;
        const ph_tokimage m = ph_tokimage_lay(h);
        evil[i].spoil(bytes, &m, h);
        ph_rc rc = ph_tokenizer_open_image(&t, bytes, n, "x", &err);
        CHECK_SAY(rc == PH_EFORMAT && !t && strstr(err.msg, evil[i].says), "row %zu: %d, \"%s\", not \"%s\"",
                  i, (int)rc, err.msg, evil[i].says);
        ph_tokenizer_close(t);
        free(bytes);
    }
}

/* Counts that no file of that size can have; added up they still do not overflow. */
void test_tokimage_counts(void) {
    size_t   n;
    uint8_t *bytes = image_of(DIR "bpe_gpt2", 0, &n);
    for (size_t at = offsetof(ph_tokimage_head, n_blob);
         bytes && at < offsetof(ph_tokimage_head, word_chars_max); at += 4) {
        static const uint32_t values[] = {0, 1, 0x7fffffff, 0x80000000, UINT32_MAX};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            uint32_t      was;
            ph_tokenizer *t = NULL;
            ph_err        err = {0};
            memcpy(&was, bytes + at, 4);
            memcpy(bytes + at, &values[k], 4);
            ph_rc rc = ph_tokenizer_open_image(&t, bytes, n, "x", &err);
            if (t) use(t); /* one empty row more may stand in the padding */
            CHECK_SAY(t || rc == PH_EFORMAT, "count at %zu: %u in the place of %u", at, values[k], was);
            ph_tokenizer_close(t);
            memcpy(bytes + at, &was, 4);
        }
    }
    free(bytes);
}
