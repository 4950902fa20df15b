/* gguf.c - opens a GGUF file, or all parts of a split one.
 *
 * One pass from the front with a cursor that cannot leave the file: keys and
 * values, then tensor infos, then the check that each tensor lies inside the data
 * and no two overlap.  A count is believed only as far as the bytes left could
 * hold so many entries, so a lie costs nothing.
 *
 * Not read: version 1 (32-bit counts), big-endian files, arrays of arrays (no
 * known writer makes them).  gguf_value.c has the getters.
 */
#include "formats/gguf.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANK_MAX = 4,
    NAME_MAX_BYTES = 1024, /* the specification says 64 for tensors; real files go beyond it */
    KEY_MAX_BYTES = 65535,
    KV_MAX = 1 << 16,
    TENSORS_MAX = 1 << 20,
    ALIGNMENT_MAX = 1 << 24,
    KV_BYTES_MIN = 8 + 1 + 4 + 1,             /* key length, a letter, type, a byte */
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8, /* name, n_dims, one dimension, type, offset */
};

typedef struct cursor {
    const uint8_t *bytes;
    size_t         n, at;
    const char    *name; /* of the file */
    ph_arena      *arena;
} cursor;

/* ---- the cursor ---- */

static ph_rc take(cursor *c, void *out, size_t n, const char *what, ph_err *err) {
    if (n > c->n - c->at)
        return PH_FAIL(err, PH_EFORMAT, "%s: the file ends at byte %zu, within %s", c->name, c->n, what);
    memcpy(out, c->bytes + c->at, n);
    c->at += n;
    return PH_OK;
}

static ph_rc skip(cursor *c, uint64_t count, size_t item, const char *what, ph_err *err) {
    if (count > (c->n - c->at) / item)
        return PH_FAIL(err, PH_EFORMAT, "%s: byte %zu: %s claims %llu x %zu bytes, but %zu are left", c->name,
                       c->at, what, (unsigned long long)count, item, c->n - c->at);
    c->at += (size_t)count * item;
    return PH_OK;
}

/* A key or tensor name, copied with a NUL behind it. */
static ph_rc take_name(cursor *c, const char **out, size_t most, const char *what, ph_err *err) {
    uint64_t n = 0;
    char    *copy;
    PH_TRY(take(c, &n, 8, what, err));
    if (n > c->n - c->at)
        return PH_FAIL(err, PH_EFORMAT, "%s: byte %zu: %s of %llu bytes, but %zu are left", c->name, c->at,
                       what, (unsigned long long)n, c->n - c->at);
    if (!n || n > most)
        return PH_FAIL(err, PH_EFORMAT, "%s: byte %zu: %s of %llu bytes, expected 1 to %zu", c->name, c->at,
                       what, (unsigned long long)n, most);
    if (memchr(c->bytes + c->at, 0, (size_t)n))
        return PH_FAIL(err, PH_EFORMAT, "%s: byte %zu: %s holds a zero byte", c->name, c->at, what);
    PH_TRY(ph_arena_copy_text(c->arena, &copy, c->bytes + c->at, (size_t)n, err));
    c->at += (size_t)n;
    *out = copy;
    return PH_OK;
}

/* ---- keys and values ---- */

/* Bytes of one item in the file; a text has no fixed size. */
static size_t item_bytes(ph_gguf_type t) {
    static const uint8_t bytes[PH_GGUF_N_TYPES] = {
        [PH_GGUF_U8] = 1,  [PH_GGUF_I8] = 1,  [PH_GGUF_U16] = 2, [PH_GGUF_I16] = 2,
        [PH_GGUF_U32] = 4, [PH_GGUF_I32] = 4, [PH_GGUF_F32] = 4, [PH_GGUF_BOOL] = 1,
        [PH_GGUF_U64] = 8, [PH_GGUF_I64] = 8, [PH_GGUF_F64] = 8};
    return bytes[t];
}

static ph_rc take_type(cursor *c, const char *key, uint32_t *type, ph_err *err) {
    PH_TRY(take(c, type, 4, "a value's type", err));
    if (*type >= PH_GGUF_N_TYPES)
        return PH_FAIL(err, PH_EFORMAT, "%s: %.100s: value type %u is not known", c->name, key, *type);
    return PH_OK;
}

static ph_rc skip_items(cursor *c, const ph_gguf_kv *kv, uint64_t count, ph_err *err) {
    if (kv->type != PH_GGUF_TEXT) return skip(c, count, item_bytes(kv->type), kv->key, err);
    if (count > (c->n - c->at) / 8)
        return PH_FAIL(err, PH_EFORMAT, "%s: %.100s: %llu texts, but %zu bytes are left", c->name, kv->key,
                       (unsigned long long)count, c->n - c->at);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t n = 0;
        PH_TRY(take(c, &n, 8, kv->key, err));
        PH_TRY(skip(c, n, 1, kv->key, err));
    }
    return PH_OK;
}

static ph_rc read_kv(cursor *c, ph_gguf_kv *kv, ph_err *err) {
    uint32_t type = 0;
    uint64_t count = 1;
    PH_TRY(take_name(c, &kv->key, KEY_MAX_BYTES, "a key", err));
    PH_TRY(take_type(c, kv->key, &type, err));
    if (type == PH_GGUF_ARRAY) {
        kv->is_array = 1;
        PH_TRY(take_type(c, kv->key, &type, err));
        PH_TRY(take(c, &count, 8, "an array's length", err));
        if (type == PH_GGUF_ARRAY)
            return PH_FAIL(err, PH_EUNSUP, "%s: %.100s: arrays of arrays are not read", c->name, kv->key);
    }
    kv->type = (ph_gguf_type)type;
    kv->at = c->bytes + c->at;
    PH_TRY(skip_items(c, kv, count, err));
    kv->count = (size_t)count;
    return PH_OK;
}

static int by_key(const void *a, const void *b, void *at) {
    const ph_gguf_kv *kv = at;
    return strcmp(kv[*(const uint32_t *)a].key, kv[*(const uint32_t *)b].key);
}

ph_rc ph_gguf_take_keys(ph_gguf *g, ph_gguf_kv *kv, size_t n, ph_arena *arena, ph_err *err) {
    void *sorted;
    PH_TRY(ph_arena_carve(arena, &sorted, n + 1, sizeof *g->sorted, err));
    g->kv = kv;
    g->n_kv = n;
    g->sorted = sorted;
    for (size_t i = 0; i < n; i++) g->sorted[i] = (uint32_t)i;
    qsort_r(g->sorted, g->n_kv, sizeof *g->sorted, by_key, g->kv);
    for (size_t i = 1; i < g->n_kv; i++)
        if (!by_key(&g->sorted[i - 1], &g->sorted[i], g->kv))
            return PH_FAIL(err, PH_EFORMAT, "%s: key %.160s occurs twice", g->name, g->kv[g->sorted[i]].key);
    return PH_OK;
}

static ph_rc read_kvs(cursor *c, ph_gguf *g, uint64_t n, ph_err *err) {
    void *kv;
    if (n > (c->n - c->at) / KV_BYTES_MIN)
        return PH_FAIL(err, PH_EFORMAT, "%s: %llu keys do not fit into %zu bytes", c->name,
                       (unsigned long long)n, c->n - c->at);
    if (n > KV_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %llu keys, at most %d are read", c->name, (unsigned long long)n,
                       KV_MAX);
    PH_TRY(ph_arena_zero(c->arena, &kv, (size_t)n + 1, sizeof *g->kv, err));
    for (size_t i = 0; i < n; i++) PH_TRY(read_kv(c, (ph_gguf_kv *)kv + i, err));
    return ph_gguf_take_keys(g, kv, (size_t)n, c->arena, err);
}

static ph_rc read_alignment(const cursor *c, ph_gguf *g, ph_err *err) {
    const ph_gguf_kv *kv = ph_gguf_find(g, PH_GGUF_ALIGNMENT_KEY);
    int64_t           value = 0;
    g->alignment = 32;
    if (!kv) return PH_OK;
    if (kv->type != PH_GGUF_U32 || !ph_gguf_item_int(kv, 0, &value) || value <= 0 || value > ALIGNMENT_MAX ||
        (value & (value - 1)))
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: general.alignment is %lld, expected a power of two up to %d (u32)", c->name,
                       (long long)value, ALIGNMENT_MAX);
    g->alignment = (size_t)value;
    return PH_OK;
}

/* ---- tensors ---- */

/* n_dims and the dimensions, the fastest first in the file, the outermost first for us. */
static ph_rc read_dims(cursor *c, ph_weight *w, ph_err *err) {
    uint32_t n = 0;
    PH_TRY(take(c, &n, 4, "a tensor's dimensions", err));
    if (!n || n > RANK_MAX)
        return PH_FAIL(err, PH_EFORMAT, "%s: tensor %.100s has %u dimensions, expected 1 to %d", c->name,
                       w->name, n, RANK_MAX);
    w->rank = (int)n;
    for (int i = w->rank - 1; i >= 0; i--) {
        uint64_t dim = 0;
        PH_TRY(take(c, &dim, 8, "a tensor's dimensions", err));
        if (!dim || dim > INT64_MAX)
            return PH_FAIL(err, PH_EFORMAT, "%s: tensor %.100s: dimension %d is %llu", c->name, w->name,
                           w->rank - 1 - i, (unsigned long long)dim);
        w->dim[i] = (int64_t)dim;
    }
    return PH_OK;
}

/* One info; the offset goes to *offset, since where the data begin is not known yet. */
static ph_rc read_tensor(cursor *c, ph_weight *w, size_t alignment, uint64_t *offset, ph_err *err) {
    uint32_t type = 0;
    PH_TRY(take_name(c, &w->name, NAME_MAX_BYTES, "a tensor name", err));
    PH_TRY(read_dims(c, w, err));
    PH_TRY(take(c, &type, 4, "a tensor's type", err));
    PH_TRY(take(c, offset, 8, "a tensor's offset", err));
    if (!ph_dtype_from_gguf(type, &w->dtype))
        return PH_FAIL(err, PH_EUNSUP, "%s: tensor %.100s: type %u is not supported yet", c->name, w->name,
                       type);
    ph_rc rc = ph_weight_bytes(w->dtype, w->rank, w->dim, &w->n_bytes, err);
    if (rc) return ph_note(err, rc, "in the shape of tensor %.100s of %.40s", w->name, c->name);
    if (*offset % alignment)
        return PH_FAIL(err, PH_EFORMAT, "%s: tensor %.100s: offset %llu is no multiple of the alignment %zu",
                       c->name, w->name, (unsigned long long)*offset, alignment);
    return PH_OK;
}

static int by_place(const void *a, const void *b, void *at) {
    const ph_weight *w = at, *x = &w[*(const uint32_t *)a], *y = &w[*(const uint32_t *)b];
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return 0;
}

static ph_rc check_overlaps(const cursor *c, const ph_weights *w, uint32_t *order, ph_err *err) {
    for (size_t i = 0; i < w->n; i++) order[i] = (uint32_t)i;
    qsort_r(order, w->n, sizeof *order, by_place, w->at);
    for (size_t i = 1; i < w->n; i++) {
        const ph_weight *a = &w->at[order[i - 1]], *b = &w->at[order[i]];
        if (a->bytes + a->n_bytes > b->bytes)
            return PH_FAIL(err, PH_EFORMAT, "%s: the bytes of tensors %.100s and %.100s overlap", c->name,
                           a->name, b->name);
    }
    return PH_OK;
}

/* Offsets to places in the file, each checked against its end. */
static ph_rc place(const cursor *c, ph_gguf *g, const uint64_t *offset, ph_err *err) {
    /* Without a tensor there are no data, and the padding before them may be missing. */
    size_t data = ph_round_up(c->at, g->alignment), n_data = data < c->n ? c->n - data : 0;
    for (size_t i = 0; i < g->weights.n; i++) {
        ph_weight *w = &g->weights.at[i];
        if (offset[i] > n_data || w->n_bytes > n_data - offset[i])
            return PH_FAIL(
                err, PH_EFORMAT,
                "%s: tensor %.100s: %zu bytes at offset %llu end behind the file's %zu bytes of data: "
                "cut short?",
                c->name, w->name, w->n_bytes, (unsigned long long)offset[i], n_data);
        w->bytes = c->bytes + data + offset[i];
    }
    return PH_OK;
}

static ph_rc read_tensors(cursor *c, ph_gguf *g, uint64_t n, ph_err *err) {
    void *at, *block;
    if (n > (c->n - c->at) / TENSOR_BYTES_MIN)
        return PH_FAIL(err, PH_EFORMAT, "%s: %llu tensors do not fit into %zu bytes", c->name,
                       (unsigned long long)n, c->n - c->at);
    if (n > TENSORS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %llu tensors, at most %d are read", c->name,
                       (unsigned long long)n, TENSORS_MAX);
    PH_TRY(ph_arena_zero(c->arena, &at, (size_t)n + 1, sizeof *g->weights.at, err));
    PH_TRY(ph_arena_carve(c->arena, &block, (size_t)n + 1, sizeof(uint64_t), err));
    uint64_t *offset = block;
    g->weights.at = at;
    for (; g->weights.n < n; g->weights.n++)
        PH_TRY(read_tensor(c, &g->weights.at[g->weights.n], g->alignment, &offset[g->weights.n], err));
    PH_TRY(place(c, g, offset, err));
    return check_overlaps(c, &g->weights, block, err);
}

/* ---- one file ---- */

static ph_rc read_version(cursor *c, ph_gguf *g, ph_err *err) {
    if (c->n < 4 || memcmp(c->bytes, "GGUF", 4) != 0)
        return PH_FAIL(err, PH_EFORMAT, "%s: does not begin with \"GGUF\"", c->name);
    c->at = 4;
    PH_TRY(take(c, &g->version, 4, "the version", err));
    if (g->version && !(g->version & 0xffff))
        return PH_FAIL(err, PH_EUNSUP, "%s: a big-endian GGUF file; only little-endian ones are read",
                       c->name);
    if (g->version != 2 && g->version != 3)
        return PH_FAIL(err, PH_EUNSUP, "%s: GGUF version %u; versions 2 and 3 are read", c->name, g->version);
    return PH_OK;
}

ph_rc ph_gguf_view(ph_gguf *g, const uint8_t *bytes, size_t n, const char *name, ph_arena *arena,
                   ph_err *err) {
    cursor   c = {.bytes = bytes, .n = n, .name = name, .arena = arena};
    uint64_t n_tensors = 0, n_kv = 0;
    *g = (ph_gguf){0};
    snprintf(g->name, sizeof g->name, "%s", name);
    PH_TRY(ph_seal_read(&g->seal, bytes, n, name, err));
    if (g->seal.version) c.n = g->seal.head + g->seal.data;
    PH_TRY(read_version(&c, g, err));
    PH_TRY(take(&c, &n_tensors, 8, "the counts", err));
    PH_TRY(take(&c, &n_kv, 8, "the counts", err));
    PH_TRY(read_kvs(&c, g, n_kv, err));
    PH_TRY(read_alignment(&c, g, err));
    PH_TRY(read_tensors(&c, g, n_tensors, err));
    if (g->seal.version && c.at > g->seal.head)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: the keys and the table of tensors have %zu bytes, of which the seal of this bundle "
            "holds %zu: make it anew",
            name, c.at, g->seal.head);
    return ph_weights_index(&g->weights, arena, err);
}

/* ---- split files ---- */

typedef struct split {
    int     no, count;
    int64_t n_tensors;
} split;

static ph_rc read_split(const ph_gguf *g, split *s, ph_err *err) {
    PH_TRY(ph_gguf_size_or(g, "split.no", 0, UINT16_MAX, 0, &s->no, err));
    PH_TRY(ph_gguf_size_or(g, "split.count", 0, UINT16_MAX, 0, &s->count, err));
    return ph_gguf_int_or(g, "split.tensors.count", -1, &s->n_tensors, err);
}

/* "dir/model-00002-of-00003.gguf" to its folder, and the length of "model" within the file's name. */
static ph_rc split_name(const char *path, const split *s, char **dir, const char **file, int *stem,
                        ph_arena *arena, ph_err *err) {
    const char *slash = strrchr(path, '/');
    char        tail[32];
    *file = slash ? slash + 1 : path;
    size_t n = strlen(*file),
           n_tail = (size_t)snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", s->no + 1, s->count);
    if (n <= n_tail || strcmp(*file + n - n_tail, tail) != 0)
        return PH_FAIL(err, PH_EMISMATCH,
                       "%.100s: part %d of %d of a split model, so its name must end with %s: rename it",
                       *file, s->no + 1, s->count, tail);
    *stem = (int)(n - n_tail);
    return ph_arena_copy_text(arena, dir, slash ? path : ".", slash ? (size_t)(*file - path) : 1, err);
}

static ph_rc open_part(ph_gguf *part, ph_file *f, int no, const split *s, ph_arena *arena, const char *dir,
                       const char *name, ph_err *err) {
    split own;
    PH_TRY(ph_file_open_in(f, dir, name, err));
    PH_TRY(ph_gguf_view(part, f->bytes, f->n, name, arena, err));
    PH_TRY(read_split(part, &own, err));
    if (own.no != no || own.count != s->count)
        return PH_FAIL(err, PH_EMISMATCH, "%.100s says that it is part %d of %d", name, own.no + 1,
                       own.count);
    for (size_t i = 0; i < part->weights.n; i++) part->weights.at[i].file = no;
    return PH_OK;
}

static ph_rc join(ph_gguf *g, const ph_gguf *part, const split *s, ph_arena *arena, ph_err *err) {
    size_t n = 0;
    void  *at;
    for (int i = 0; i < s->count; i++) n += part[i].weights.n;
    if (s->n_tensors >= 0 && (uint64_t)s->n_tensors != n)
        return PH_FAIL(err, PH_EMISMATCH, "%s: split.tensors.count is %lld, but the %d parts hold %zu",
                       part[0].name, (long long)s->n_tensors, s->count, n);
    PH_TRY(ph_arena_carve(arena, &at, n + 1, sizeof *g->weights.at, err));
    ph_file *files = g->files;
    *g = part[0];
    g->files = files;
    g->n_files = s->count;
    g->weights = (ph_weights){.at = at};
    for (int i = 0; i < s->count; i++) {
        if (part[i].weights.n)
            memcpy(g->weights.at + g->weights.n, part[i].weights.at,
                   part[i].weights.n * sizeof *g->weights.at);
        g->weights.n += part[i].weights.n;
    }
    return ph_weights_index(&g->weights, arena, err);
}

/* All parts, beginning with the first, whichever was named. */
static ph_rc open_parts(ph_gguf *g, const char *path, const split *s, ph_arena *arena, ph_err *err) {
    char       *dir, name[512];
    const char *file = path;
    int         stem = 0;
    void       *files, *parts;
    PH_TRY(split_name(path, s, &dir, &file, &stem, arena, err));
    PH_TRY(ph_arena_zero(arena, &files, (size_t)s->count, sizeof *g->files, err));
    PH_TRY(ph_arena_zero(arena, &parts, (size_t)s->count, sizeof *g, err));
    ph_file_close(&g->files[0]);
    g->files = files;
    g->n_files = s->count; /* those not opened yet are zeroed */
    for (int i = 0; i < s->count; i++) {
        snprintf(name, sizeof name, "%.*s-%05d-of-%05d.gguf", stem, file, i + 1, s->count);
        ph_rc rc = open_part((ph_gguf *)parts + i, &g->files[i], i, s, arena, dir, name, err);
        if (rc) return ph_note(err, rc, "while opening part %d of %d, %.100s", i + 1, s->count, name);
    }
    return join(g, parts, s, arena, err);
}

static ph_rc open_first(ph_gguf *g, const char *path, ph_arena *arena, ph_err *err) {
    const char *slash = strrchr(path, '/');
    ph_file     f = {0};
    void       *files;
    PH_TRY(ph_arena_zero(arena, &files, 1, sizeof *g->files, err));
    PH_TRY(ph_file_open(&f, path, err));
    ph_rc rc = ph_gguf_view(g, f.bytes, f.n, slash ? slash + 1 : path, arena, err);
    g->files = files; /* owned from here on, whether or not the view is good */
    g->files[0] = f;
    g->n_files = 1;
    return rc;
}

ph_rc ph_gguf_open(ph_gguf *g, const char *path, ph_arena *arena, ph_err *err) {
    split s = {0};
    *g = (ph_gguf){0};
    ph_rc rc = open_first(g, path, arena, err);
    if (!rc) rc = read_split(g, &s, err);
    if (!rc && s.count > 1) rc = open_parts(g, path, &s, arena, err);
    if (rc) ph_gguf_close(g);
    return rc;
}

void ph_gguf_forget(const ph_gguf *g) {
    for (int i = 0; i < g->n_files; i++) {
        size_t n = g->files[i].n;
        for (size_t k = 0; k < g->weights.n; k++)
            if (g->weights.at[k].file == i && (size_t)(g->weights.at[k].bytes - g->files[i].bytes) < n)
                n = (size_t)(g->weights.at[k].bytes - g->files[i].bytes);
        ph_file_forget(&g->files[i], n);
    }
}

void ph_gguf_close(ph_gguf *g) {
    for (int i = 0; i < g->n_files; i++) ph_file_close(&g->files[i]);
    *g = (ph_gguf){0};
}
