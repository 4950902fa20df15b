/* gguf_write.c - metadata into bytes, then head, tensor table, padding and data into a file.
 *
 * Offsets follow from the shapes alone, so the table is written before any
 * tensor is made.  Little-endian is the machine's own order (dtype.c asserts it).
 */
#include "formats/gguf_write.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { BROKEN_MEMORY = 1, BROKEN_USE = 2, RANK_MAX = 4 };

/* ---- metadata ---- */

static void add(ph_gguf_meta *m, const void *bytes, size_t n) {
    size_t want;
    if (m->is_broken || !n) return;
    if (ph_add_over(m->n, n, &want)) {
        m->is_broken = BROKEN_MEMORY;
        return;
    }
    if (want > m->cap) {
        size_t   cap = want < 4096 ? 4096 : want + want / 2;
        uint8_t *more = realloc(m->bytes, cap);
        if (!more) {
            m->is_broken = BROKEN_MEMORY;
            return;
        }
        m->bytes = more;
        m->cap = cap;
    }
    memcpy(m->bytes + m->n, bytes, n);
    m->n = want;
}

static void add_text(ph_gguf_meta *m, const char *text, size_t n) {
    uint64_t length = n;
    add(m, &length, sizeof length);
    add(m, text, n);
}

/* A key and the type behind it. */
static void begin(ph_gguf_meta *m, const char *key, uint32_t type) {
    if (m->left || ph_gguf_meta_has(m, key)) m->is_broken = m->is_broken ? m->is_broken : BROKEN_USE;
    if (m->n_kv == m->kv_cap && !m->is_broken) {
        size_t  cap = m->kv_cap ? 2 * m->kv_cap : 64;
        size_t *more = realloc(m->key, cap * sizeof *more);
        if (!more) {
            m->is_broken = BROKEN_MEMORY;
            return;
        }
        m->key = more;
        m->kv_cap = cap;
    }
    if (m->is_broken) return;
    m->key[m->n_kv++] = m->n;
    add_text(m, key, strlen(key));
    add(m, &type, sizeof type);
}

int ph_gguf_meta_has(const ph_gguf_meta *m, const char *key) {
    size_t n = strlen(key);
    for (size_t i = 0; i < m->n_kv; i++) {
        uint64_t length;
        memcpy(&length, m->bytes + m->key[i], sizeof length);
        if (length == n && !memcmp(m->bytes + m->key[i] + sizeof length, key, n)) return 1;
    }
    return 0;
}

void ph_gguf_meta_close(ph_gguf_meta *m) {
    free(m->bytes);
    free(m->key);
    *m = (ph_gguf_meta){0};
}

/* Bytes of one item; 0: no number. */
static size_t number_bytes(ph_gguf_type t) {
    static const uint8_t bytes[PH_GGUF_N_TYPES] = {
        [PH_GGUF_U8] = 1,  [PH_GGUF_I8] = 1,  [PH_GGUF_U16] = 2, [PH_GGUF_I16] = 2,
        [PH_GGUF_U32] = 4, [PH_GGUF_I32] = 4, [PH_GGUF_F32] = 4, [PH_GGUF_BOOL] = 1,
        [PH_GGUF_U64] = 8, [PH_GGUF_I64] = 8, [PH_GGUF_F64] = 8};
    return bytes[t];
}

static void whole(ph_gguf_meta *m, ph_gguf_type t, int64_t value) {
    if (t == PH_GGUF_F32 || t == PH_GGUF_F64 || !number_bytes(t)) {
        m->is_broken = BROKEN_USE;
        return;
    }
    add(m, &value, number_bytes(t)); /* little-endian: the low bytes stand first */
}

static void real(ph_gguf_meta *m, ph_gguf_type t, double value) {
    float narrow = (float)value;
    if (t == PH_GGUF_F32)
        add(m, &narrow, sizeof narrow);
    else if (t == PH_GGUF_F64)
        add(m, &value, sizeof value);
    else
        m->is_broken = BROKEN_USE;
}

void ph_gguf_put_int(ph_gguf_meta *m, const char *key, ph_gguf_type type, int64_t value) {
    begin(m, key, type);
    whole(m, type, value);
}

void ph_gguf_put_real(ph_gguf_meta *m, const char *key, ph_gguf_type type, double value) {
    begin(m, key, type);
    real(m, type, value);
}

void ph_gguf_put_text(ph_gguf_meta *m, const char *key, const char *text, size_t n) {
    begin(m, key, PH_GGUF_TEXT);
    add_text(m, text, n);
}

void ph_gguf_put_array(ph_gguf_meta *m, const char *key, ph_gguf_type item, size_t count) {
    uint32_t type = item;
    uint64_t n = count;
    begin(m, key, PH_GGUF_ARRAY);
    add(m, &type, sizeof type);
    add(m, &n, sizeof n);
    m->item = item;
    m->left = count;
}

/* One item of the open array less. */
static int take_item(ph_gguf_meta *m) {
    if (!m->left && !m->is_broken) m->is_broken = BROKEN_USE;
    if (m->is_broken) return 0;
    m->left--;
    return 1;
}

void ph_gguf_add_int(ph_gguf_meta *m, int64_t value) {
    if (take_item(m)) whole(m, m->item, value);
}

void ph_gguf_add_real(ph_gguf_meta *m, double value) {
    if (take_item(m)) real(m, m->item, value);
}

void ph_gguf_add_text(ph_gguf_meta *m, const char *text, size_t n) {
    if (!take_item(m)) return;
    if (m->item == PH_GGUF_TEXT)
        add_text(m, text, n);
    else
        m->is_broken = BROKEN_USE;
}

void ph_gguf_put_copy(ph_gguf_meta *m, const ph_gguf_kv *kv) {
    uint32_t type = kv->type;
    uint64_t count = kv->count;
    size_t   n = kv->count * number_bytes(kv->type);
    begin(m, kv->key, kv->is_array ? PH_GGUF_ARRAY : kv->type);
    if (kv->is_array) {
        add(m, &type, sizeof type);
        add(m, &count, sizeof count);
    }
    if (kv->type == PH_GGUF_TEXT) {
        ph_gguf_text text;
        for (ph_gguf_texts it = ph_gguf_texts_of(kv); ph_gguf_next(&it, &text);) add_text(m, text.at, text.n);
    } else {
        add(m, kv->at, n);
    }
}

/* ---- the file ---- */

static ph_rc check(const char *path, const ph_gguf_meta *m, const ph_weight *at, size_t n, ph_err *err) {
    if (m->is_broken == BROKEN_MEMORY) return PH_FAIL(err, PH_ENOMEM, "the metadata of %.200s", path);
    if (m->is_broken || m->left)
        return PH_FAIL(err, PH_EBUG, "%.200s: a key was given twice, or an array was not filled", path);
    for (size_t i = 0; i < n; i++) {
        size_t want;
        if (ph_dtype_gguf(at[i].dtype) < 0)
            return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: GGUF has no number for type %s", at[i].name,
                           ph_dtype_name(at[i].dtype));
        if (at[i].rank > RANK_MAX)
            return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: %d dimensions; GGUF files have at most %d",
                           at[i].name, at[i].rank, RANK_MAX);
        PH_TRY(ph_weight_bytes(at[i].dtype, at[i].rank, at[i].dim, &want, err));
        if (want != at[i].n_bytes)
            return PH_FAIL(err, PH_EBUG, "tensor %.160s: %zu bytes given, its shape takes %zu", at[i].name,
                           at[i].n_bytes, want);
    }
    return PH_OK;
}

/* Where the file goes, and who counts the sums of what goes there. */
typedef struct sink {
    FILE      *to;
    ph_sealer *sealer; /* or NULL */
    size_t     at;     /* bytes so far */
} sink;

static void put(sink *k, const void *bytes, size_t n) {
    fwrite(bytes, 1, n, k->to);
    if (k->sealer) ph_sealer_add(k->sealer, bytes, n);
    k->at += n;
}

static void u32(sink *k, uint32_t v) {
    put(k, &v, sizeof v);
}

static void u64(sink *k, uint64_t v) {
    put(k, &v, sizeof v);
}

static ph_rc tensor_table(sink *k, const ph_weight *at, size_t n, size_t alignment, ph_err *err) {
    size_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        size_t name = strlen(at[i].name);
        u64(k, name);
        put(k, at[i].name, name);
        u32(k, at[i].rank ? (uint32_t)at[i].rank : 1);
        for (int d = at[i].rank - 1; d >= 0; d--) u64(k, (uint64_t)at[i].dim[d]);
        if (!at[i].rank) u64(k, 1);
        u32(k, (uint32_t)ph_dtype_gguf(at[i].dtype));
        u64(k, offset);
        if (ph_add_over(offset, at[i].n_bytes, &offset) || offset > SIZE_MAX - alignment)
            return PH_FAIL(err, PH_ELIMIT, "the tensors together are larger than a file can be");
        offset = ph_round_up(offset, alignment);
    }
    return PH_OK;
}

/* Zeros up to the alignment, counted from the file's beginning: the data begin on it too.  What a seal tells
 * apart ends here. */
static void pad(sink *k, size_t alignment) {
    for (size_t left = ph_round_up(k->at, alignment) - k->at; left; left--) put(k, "", 1);
    if (k->sealer) ph_sealer_cut(k->sealer);
}

ph_rc ph_gguf_write_into(FILE *to, ph_sealer *sealer, const char *path, const ph_gguf_meta *m,
                         const ph_weight *at, size_t n, const ph_producer *p, ph_err *err) {
    sink     k = {to, sealer, 0};
    size_t   alignment = m->alignment ? m->alignment : 32;
    uint8_t *buffer = NULL;
    PH_TRY(check(path, m, at, n, err));
    PH_TRY(ph_produce_buffer(&buffer, at, n, err));
    put(&k, "GGUF", 4);
    u32(&k, 3);
    u64(&k, n);
    u64(&k, m->n_kv);
    if (m->n) put(&k, m->bytes, m->n);
    ph_rc rc = tensor_table(&k, at, n, alignment, err);
    pad(&k, alignment);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = ph_produce_write(to, sealer, at, i, p, buffer, err);
        k.at += at[i].n_bytes;
        pad(&k, alignment);
    }
    free(buffer);
    return rc;
}

ph_rc ph_gguf_write(const char *path, const ph_gguf_meta *m, const ph_weight *at, size_t n,
                    const ph_producer *p, ph_err *err) {
    ph_part_file f;
    PH_TRY(check(path, m, at, n, err)); /* before there is a file */
    PH_TRY(ph_part_open(&f, path, err));
    return ph_part_close(&f, ph_gguf_write_into(f.to, NULL, path, m, at, n, p, err), err);
}
