/* bad_test.c - every way in which a safetensors or GGUF file can lie, one row each.
 *
 * A row changes a good file in memory and says which error must come, and which
 * words its message must hold.  Behind the rows: every prefix and every flipped
 * bit of the good files, which must give an error or a lawful list of weights.
 */
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- safetensors ---- */

/* header and n_data zero bytes as a file; claim != 0 replaces the header's length. */
static uint8_t *build(const char *header, size_t n_data, uint64_t claim, size_t *n) {
    uint64_t length = strlen(header);
    *n = 8 + length + n_data;
    uint8_t *bytes = calloc(1, *n);
    if (!bytes) return NULL;
    memcpy(bytes + 8, header, length);
    if (claim) length = claim;
    memcpy(bytes, &length, 8);
    return bytes;
}

#define TENSOR(name, dtype, shape, offsets)                                                                  \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *what, *header;
    size_t      n_data;
    uint64_t    claim;
    ph_rc       code;
    const char *part;
} st_rows[] = {
    {"good", "{" TENSOR("a", "F32", "[2]", "[0,8]") "}  ", 8, 0, PH_OK, ""},
    {"no tensors", "{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0, PH_OK, ""},
    {"header past the end", "{}", 0, 3, PH_EFORMAT, "the header claims 3 bytes, but 2 follow"},
    {"header of 2^63", "{}", 0, 1ull << 63, PH_EFORMAT, "the header claims 9223372036854775808 bytes"},
    {"header of 2^64-8", "{}", 0, UINT64_MAX - 7, PH_EFORMAT, "the header claims"},
    {"header of 1 byte", "{}", 0, 1, PH_EFORMAT, "t:1:"},
    {"no brace", " {}", 0, 0, PH_EFORMAT, "does not begin with '{'"},
    {"garbage", "{\"a\":", 0, 0, PH_EFORMAT, "t:1:"},
    {"text behind", "{} x", 0, 0, PH_EFORMAT, "t:1:"},
    {"duplicate", "{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("a", "U8", "[1]", "[1,2]") "}", 2, 0,
     PH_EFORMAT, "duplicate"},
    {"entry no object", "{\"a\":[1]}", 0, 0, PH_EFORMAT, "tensor a: expected an object"},
    {"metadata no object", "{\"__metadata__\":7}", 0, 0, PH_EFORMAT, "__metadata__"},
    {"metadata no texts", "{\"__metadata__\":{\"k\":1}}", 0, 0, PH_EFORMAT, "__metadata__.k"},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 0, PH_EFORMAT, "a.dtype"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, 0, PH_EFORMAT, "tensor a: no shape"},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, 0, PH_EFORMAT,
     "data_offsets must be two numbers"},
    {"unknown dtype", "{" TENSOR("a", "F8_E8M0", "[1]", "[0,1]") "}", 1, 0, PH_EUNSUP,
     "tensor a: dtype F8_E8M0 is not supported yet"},
    {"block dtype", "{" TENSOR("a", "Q8_0", "[32]", "[0,34]") "}", 34, 0, PH_EUNSUP, "dtype Q8_0"},
    {"lower case", "{" TENSOR("a", "f32", "[1]", "[0,4]") "}", 4, 0, PH_EUNSUP, "dtype f32"},
    {"negative dimension", "{" TENSOR("a", "U8", "[-1]", "[0,1]") "}", 1, 0, PH_EFORMAT, "tensor a of t"},
    {"real dimension", "{" TENSOR("a", "U8", "[1.5]", "[0,1]") "}", 1, 0, PH_EFORMAT, "a.shape[0]"},
    {"nine dimensions", "{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, 0, PH_ELIMIT,
     "9 items"},
    {"overflow", "{" TENSOR("a", "F32", "[4294967296,4294967296,4294967296]", "[0,4]") "}", 4, 0, PH_ELIMIT,
     "overflows"},
    {"overflow to a fit", "{" TENSOR("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0, 0, PH_ELIMIT,
     "tensor a"},
    {"huge dimension", "{" TENSOR("a", "U8", "[99999999999999999999]", "[0,1]") "}", 1, 0, PH_EFORMAT,
     "a.shape[0]"},
    {"shape above bytes", "{" TENSOR("a", "F32", "[3]", "[0,8]") "}", 8, 0, PH_EFORMAT,
     "tensor a: [3] F32 takes 12 bytes, but data_offsets span 8"},
    {"shape below bytes", "{" TENSOR("a", "F32", "[1]", "[0,8]") "}", 8, 0, PH_EFORMAT, "takes 4 bytes"},
    {"offset past the end", "{" TENSOR("a", "U8", "[9]", "[0,9]") "}", 8, 0, PH_EFORMAT,
     "within the 8 bytes of data"},
    {"offset of 2^62", "{" TENSOR("a", "U8", "[1]", "[4611686018427387903,4611686018427387904]") "}", 8, 0,
     PH_EFORMAT, "data_offsets"},
    {"negative offset", "{" TENSOR("a", "U8", "[1]", "[-1,0]") "}", 8, 0, PH_EFORMAT, "data_offsets -1 to 0"},
    {"end before begin", "{" TENSOR("a", "U8", "[1]", "[2,1]") "}", 8, 0, PH_EFORMAT, "data_offsets 2 to 1"},
    {"three offsets", "{" TENSOR("a", "U8", "[1]", "[0,1,2]") "}", 8, 0, PH_ELIMIT, "a.data_offsets"},
    {"overlap", "{" TENSOR("a", "U8", "[4]", "[0,4]") "," TENSOR("b", "U8", "[4]", "[3,7]") "}", 7, 0,
     PH_EFORMAT, "tensor b begins at data byte 3, but a ends at 4: they overlap"},
    {"same bytes", "{" TENSOR("a", "U8", "[4]", "[0,4]") "," TENSOR("b", "U8", "[4]", "[0,4]") "}", 4, 0,
     PH_EFORMAT, "they overlap"},
    {"hole", "{" TENSOR("a", "U8", "[4]", "[0,4]") "," TENSOR("b", "U8", "[4]", "[5,9]") "}", 9, 0,
     PH_EFORMAT, "a hole"},
    {"hole in front", "{" TENSOR("a", "U8", "[4]", "[1,5]") "}", 5, 0, PH_EFORMAT, "a hole"},
    {"bytes behind", "{" TENSOR("a", "U8", "[4]", "[0,4]") "}", 6, 0, PH_EFORMAT,
     "2 bytes behind the last tensor"},
};

void test_safetensors_bad(void) {
    for (size_t i = 0; i < sizeof st_rows / sizeof *st_rows; i++) {
        size_t     n;
        uint8_t   *bytes = build(st_rows[i].header, st_rows[i].n_data, st_rows[i].claim, &n);
        ph_arena   arena = ft_arena();
        ph_weights w;
        ph_err     err = {0};
        if (!bytes) break;
        ph_rc rc = ph_safetensors_view(&w, bytes, n, "t", 0, &arena, &err);
        ft_expect(st_rows[i].what, rc, st_rows[i].code, &err, st_rows[i].part);
        CHECK(rc || ft_lawful(&w, bytes, n, 0));
        ph_arena_close(&arena);
        free(bytes);
    }
}

static ph_rc st_view(const uint8_t *bytes, size_t n) {
    ph_arena   arena = ft_arena();
    ph_weights w;
    ph_rc      rc = ph_safetensors_view(&w, bytes, n, "t", 0, &arena, NULL);
    CHECK(rc || ft_lawful(&w, bytes, n, 0));
    ph_arena_close(&arena);
    return rc;
}

static ph_rc gguf_view(const uint8_t *bytes, size_t n) {
    ph_arena arena = ft_arena();
    ph_gguf  g;
    ph_rc    rc = ph_gguf_view(&g, bytes, n, "t", &arena, NULL);
    CHECK(rc || ft_lawful(&g.weights, bytes, n, 1));
    ph_arena_close(&arena);
    return rc;
}

/* All prefixes shorter than `whole` are refused; every bit of the first n_header bytes may flip. */
static void cut_and_flip(const char *path, ph_rc (*view)(const uint8_t *, size_t), size_t whole,
                         size_t n_header) {
    size_t   n;
    uint8_t *bytes = ft_load(path, &n);
    if (!bytes) return;
    if (!whole) whole = n;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        if (!copy) break;
        memcpy(copy, bytes, cut);
        CHECK_SAY(view(copy, cut) != PH_OK || cut >= whole, "%s cut to %zu bytes", path, cut);
        free(copy);
    }
    for (size_t bit = 0; bit < 8 * n_header; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        view(bytes, n);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CHECK(view(bytes, n) == PH_OK);
    free(bytes);
}

void test_safetensors_cut_and_flipped(void) {
    cut_and_flip(GOLDEN "kinds.safetensors", st_view, 0, 1100);
}

/* ---- sharded sets ---- */

/* The three shards with this index, in a fresh folder. */
static void shards_expect(const char *what, const char *index, int leave_out, ph_rc code, const char *part) {
    char           folder[64], to[128], from[128];
    ph_arena       arena = ft_arena();
    ph_safetensors s;
    ph_err         err = {0};
    ft_folder(folder);
    for (int i = 1; i <= 3; i++) {
        snprintf(from, sizeof from, GOLDEN "shards/model-%05d-of-00003.safetensors", i);
        snprintf(to, sizeof to, "%s/model-%05d-of-00003.safetensors", folder, i);
        if (i != leave_out) ft_copy(from, to);
    }
    snprintf(to, sizeof to, "%s/model.safetensors.index.json", folder);
    ft_save(to, index, strlen(index));
    ph_rc rc = ph_safetensors_open(&s, to, &arena, &err);
    ft_expect(what, rc, code, &err, part);
    ph_safetensors_close(&s);
    ft_remove(folder);
    ph_arena_close(&arena);
}

#define SHARD(n) "\"model-0000" n "-of-00003.safetensors\""

void test_shards_bad(void) {
    static const struct {
        const char *what, *index;
        int         leave_out;
        ph_rc       code;
        const char *part;
    } rows[] = {
        {"good", "{\"weight_map\":{\"layer.0.bias\":" SHARD("1") ",\"layer.1.bias\":" SHARD("2") "}}", 0,
         PH_OK, ""},
        {"no map", "{\"metadata\":{}}", 0, PH_EFORMAT, "weight_map: missing"},
        {"empty map", "{\"weight_map\":{}}", 0, PH_EFORMAT, "no shard to open"},
        {"map of numbers", "{\"weight_map\":{\"a\":1}}", 0, PH_EFORMAT, "weight_map.a: expected a text"},
        {"not JSON", "{", 0, PH_EFORMAT, "model.safetensors.index.json:1:"},
        {"missing shard",
         "{\"weight_map\":{\"layer.0.bias\":" SHARD("1") ",\"layer.1.bias\":" SHARD("2") "}}", 2, PH_EPATH,
         "model-00002-of-00003.safetensors"},
        {"escaping", "{\"weight_map\":{\"a\":\"../model.safetensors\"}}", 0, PH_EFORMAT,
         "../model.safetensors"},
        {"absolute", "{\"weight_map\":{\"a\":\"/etc/hostname\"}}", 0, PH_EFORMAT, "/etc/hostname"},
        {"not in its shard", "{\"weight_map\":{\"layer.0.bias\":" SHARD("2") "}}", 0, PH_EMISMATCH,
         "places tensor layer.0.bias in shard model-00002"},
        {"unknown tensor", "{\"weight_map\":{\"layer.0.bias\":" SHARD("1") ",\"ghost\":" SHARD("1") "}}", 0,
         PH_EMISMATCH, "tensor ghost"},
        {"shard is the index", "{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", 0, PH_EFORMAT,
         "header"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        shards_expect(rows[i].what, rows[i].index, rows[i].leave_out, rows[i].code, rows[i].part);
}

/* ---- GGUF ---- */

/* `width` bytes of value, `at` bytes behind the end of the anchor (or of the file's beginning). */
static const struct {
    const char *what, *anchor;
    size_t      n_anchor;
    int         at, width;
    uint64_t    value;
    ph_rc       code;
    const char *part;
} gguf_rows[] = {
#define START   NULL, 0
#define KEY(s)  s, sizeof(s) - 1
#define NAME(s) "\0\0\0\0\0\0\0" s, 6 + sizeof(s)
    /* A tensor's name is followed by n_dims (0), dimensions (4, 12, ...), type and offset. */
    {"good", START, 8, 0, 0, PH_OK, ""},
    {"magic", START, 0, 1, 'X', PH_EFORMAT, "does not begin with \"GGUF\""},
    {"version 1", START, 4, 4, 1, PH_EUNSUP, "GGUF version 1; versions 2 and 3 are read"},
    {"version 2", START, 4, 4, 2, PH_OK, ""},
    {"version 4", START, 4, 4, 4, PH_EUNSUP, "GGUF version 4"},
    {"version 0", START, 4, 4, 0, PH_EUNSUP, "GGUF version 0"},
    {"big-endian", START, 4, 4, 3u << 24, PH_EUNSUP, "big-endian"},
    {"2^40 tensors", START, 8, 8, 1ull << 40, PH_EFORMAT, "1099511627776 tensors do not fit"},
    {"2^64-1 tensors", START, 8, 8, UINT64_MAX, PH_EFORMAT, "tensors do not fit"},
    {"2^40 keys", START, 16, 8, 1ull << 40, PH_EFORMAT, "1099511627776 keys do not fit"},
    {"key of 2^63", START, 24, 8, 1ull << 63, PH_EFORMAT, "a key of 9223372036854775808 bytes"},
    {"key of nothing", START, 24, 8, 0, PH_EFORMAT, "a key of 0 bytes"},
    {"key with a zero", KEY("t.u8"), -1, 1, 0, PH_EFORMAT, "a key holds a zero byte"},
    {"key twice", KEY("t.i8"), -2, 1, 'u', PH_EFORMAT, "key t.u8 occurs twice"},
    {"value type", KEY("t.u8"), 0, 4, 13, PH_EFORMAT, "t.u8: value type 13 is not known"},
    {"item type", KEY("t.ints"), 4, 4, 99, PH_EFORMAT, "t.ints: value type 99"},
    {"array of arrays", KEY("t.ints"), 4, 4, 9, PH_EUNSUP, "t.ints: arrays of arrays"},
    {"array of 2^62", KEY("t.ints"), 8, 8, 1ull << 62, PH_EFORMAT, "t.ints claims 4611686018427387904"},
    {"2^40 texts", KEY("t.texts"), 8, 8, 1ull << 40, PH_EFORMAT, "t.texts: 1099511627776 texts"},
    {"text of 2^63", KEY("t.text"), 4, 8, 1ull << 63, PH_EFORMAT, "t.text claims 9223372036854775808"},
    {"text in array", KEY("t.texts"), 16, 8, UINT64_MAX, PH_EFORMAT, "t.texts claims"},
    {"alignment 0", KEY("general.alignment"), 4, 4, 0, PH_EFORMAT, "general.alignment is 0"},
    {"alignment 3", KEY("general.alignment"), 4, 4, 48, PH_EFORMAT, "general.alignment is 48"},
    {"alignment 2^31", KEY("general.alignment"), 4, 4, 1u << 31, PH_EFORMAT,
     "general.alignment is 2147483648"},
    {"alignment a float", KEY("general.alignment"), 0, 4, 6, PH_EFORMAT, "general.alignment"},
    {"no dimensions", NAME("\3f32"), 0, 4, 0, PH_EFORMAT, "tensor f32 has 0 dimensions, expected 1 to 4"},
    {"nine dimensions", NAME("\3f32"), 0, 4, 9, PH_EFORMAT, "tensor f32 has 9 dimensions"},
    {"2^32-1 dimensions", NAME("\3f32"), 0, 4, UINT32_MAX, PH_EFORMAT, "has 4294967295 dimensions"},
    {"zero dimension", NAME("\3f32"), 12, 8, 0, PH_EFORMAT, "tensor f32: dimension 1 is 0"},
    {"dimension of 2^63", NAME("\3f32"), 4, 8, 1ull << 63, PH_EFORMAT, "dimension 0 is 9223372036854775808"},
    {"overflow", NAME("\3f32"), 4, 8, 1ull << 62, PH_ELIMIT, "tensor f32"},
    {"overflow of the product", NAME("\3f32"), 12, 8, 1ull << 61, PH_ELIMIT,
     "the product of the dimensions overflows"},
    {"type", NAME("\3f32"), 20, 4, 999, PH_EUNSUP, "tensor f32: type 999 is not supported yet"},
    {"part of a block", NAME("\4q4_0"), 4, 8, 33, PH_EFORMAT, "33 elements is not whole Q4_0 blocks of 32"},
    {"odd offset", NAME("\3f32"), 24, 8, 1, PH_EFORMAT,
     "tensor f32: offset 1 is no multiple of the alignment 64"},
    {"offset past the end", NAME("\3f32"), 24, 8, 1 << 20, PH_EFORMAT,
     "tensor f32: 60 bytes at offset 1048576"},
    {"offset of 2^64-64", NAME("\3f32"), 24, 8, UINT64_MAX - 63, PH_EFORMAT, "tensor f32: 60 bytes"},
    {"overlap", NAME("\3f16"), 32, 8, 0, PH_EFORMAT, "overlap"},
    {"tensor twice", NAME("\3i32"), -3, 1, 'f', PH_EFORMAT, "tensor f32 is listed twice"},
    {"name of 2^40", NAME("\3i32"), -11, 8, 1ull << 40, PH_EFORMAT, "a tensor name of 1099511627776 bytes"},
};

static uint8_t *find(uint8_t *bytes, size_t n, const char *anchor, size_t n_anchor) {
    if (!anchor) return bytes;
    /* A name's length comes first, lowest byte in front: the anchor has it behind the zeros, so turn it
     * round. */
    uint8_t want[64];
    memcpy(want, anchor, n_anchor);
    if (!anchor[0]) {
        want[0] = (uint8_t)anchor[7];
        want[7] = 0;
    }
    uint8_t *at = memmem(bytes, n, want, n_anchor);
    return at ? at + n_anchor : NULL;
}

void test_gguf_bad(void) {
    for (size_t i = 0; i < sizeof gguf_rows / sizeof *gguf_rows; i++) {
        size_t   n;
        uint8_t *bytes = ft_load(GOLDEN "kinds.gguf", &n), *at;
        ph_arena arena = ft_arena();
        ph_gguf  g;
        ph_err   err = {0};
        at = bytes ? find(bytes, n, gguf_rows[i].anchor, gguf_rows[i].n_anchor) : NULL;
        CHECK_SAY(at, "%s: no place", gguf_rows[i].what);
        if (at) {
            memcpy(at + gguf_rows[i].at, &gguf_rows[i].value, (size_t)gguf_rows[i].width);
            ph_rc rc = ph_gguf_view(&g, bytes, n, "t", &arena, &err);
            ft_expect(gguf_rows[i].what, rc, gguf_rows[i].code, &err, gguf_rows[i].part);
            CHECK(rc || ft_lawful(&g.weights, bytes, n, 1));
        }
        ph_arena_close(&arena);
        free(bytes);
    }
}

void test_gguf_cut_and_flipped(void) {
    size_t   n;
    uint8_t *bytes = ft_load(GOLDEN "kinds.gguf", &n);
    ph_arena arena = ft_arena();
    ph_gguf  g;
    if (bytes && !ph_gguf_view(&g, bytes, n, "t", &arena, NULL)) {
        const ph_weight *first = &g.weights.at[0], *last = &g.weights.at[g.weights.n - 1];
        /* The padding behind the last tensor may be missing. */
        cut_and_flip(GOLDEN "kinds.gguf", gguf_view, (size_t)(last->bytes + last->n_bytes - bytes),
                     (size_t)(first->bytes - bytes));
    }
    ph_arena_close(&arena);
    free(bytes);
}

/* ---- splits ---- */

/* The three parts in a fresh folder, one left out, one changed at a key's value; `open` is the part named. */
static void splits_expect(const char *what, int leave_out, int change, const char *key, uint16_t value,
                          int open, const char *name, ph_rc code, const char *part) {
    char     folder[64], to[160], from[128];
    ph_arena arena = ft_arena();
    ph_gguf  g;
    ph_err   err = {0};
    ft_folder(folder);
    for (int i = 1; i <= 3; i++) {
        size_t n;
        snprintf(from, sizeof from, GOLDEN "split-%05d-of-00003.gguf", i);
        snprintf(to, sizeof to, "%s/%s-%05d-of-00003.gguf", folder, i == open && name ? name : "split", i);
        uint8_t *bytes = i == leave_out ? NULL : ft_load(from, &n);
        uint8_t *at = bytes && i == change ? memmem(bytes, n, key, strlen(key)) : NULL;
        if (at) memcpy(at + strlen(key) + 4, &value, 2);
        CHECK(i != change || at);
        if (bytes) ft_save(to, bytes, n);
        free(bytes);
    }
    snprintf(to, sizeof to, "%s/%s-%05d-of-00003.gguf", folder, name ? name : "split", open);
    ph_rc rc = ph_gguf_open(&g, to, &arena, &err);
    ft_expect(what, rc, code, &err, part);
    ph_gguf_close(&g);
    ft_remove(folder);
    ph_arena_close(&arena);
}

void test_splits_bad(void) {
    splits_expect("good", 0, 0, "", 0, 2, NULL, PH_OK, "");
    splits_expect("missing part", 3, 0, "", 0, 1, NULL, PH_EPATH, "split-00003-of-00003.gguf");
    splits_expect("missing first", 1, 0, "", 0, 2, NULL, PH_EPATH, "split-00001-of-00003.gguf");
    splits_expect("part number", 0, 2, "split.no", 2, 1, NULL, PH_EMISMATCH, "says that it is part 3 of 3");
    splits_expect("part count", 0, 3, "split.count", 7, 1, NULL, PH_EMISMATCH, "says that it is part 3 of 7");
    splits_expect("tensor count", 0, 1, "split.tensors.count", 6, 1, NULL, PH_EMISMATCH,
                  "split.tensors.count is 6, but the 3 parts hold 5");
    splits_expect("other name", 0, 0, "", 0, 2, "other", PH_EPATH, "other-00001-of-00003.gguf");
    splits_expect("count against name", 0, 1, "split.count", 4, 1, NULL, PH_EMISMATCH,
                  "must end with -00001-of-00004.gguf");
}
