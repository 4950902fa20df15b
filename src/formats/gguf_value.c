/* gguf_value.c - reads metadata values out of the map.
 *
 * All bounds were checked when the file was opened; what is checked here is that
 * a value has the type that the caller needs.
 */
#include "formats/gguf.h"

#include <string.h>

const ph_gguf_kv *ph_gguf_find(const ph_gguf *g, const char *key) {
    size_t low = 0, high = g->n_kv;
    while (low < high) {
        size_t            middle = low + (high - low) / 2;
        const ph_gguf_kv *here = &g->kv[g->sorted[middle]];
        int               order = strcmp(key, here->key);
        if (!order) return here;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Item i as one C type, from unaligned bytes. */
#define ITEM(type)                                                                                           \
    {                                                                                                        \
        type v;                                                                                              \
        memcpy(&v, kv->at + i * sizeof v, sizeof v);                                                         \
        *out = v;                                                                                            \
        return 1;                                                                                            \
    }

int ph_gguf_item_int(const ph_gguf_kv *kv, size_t i, int64_t *out) {
    uint64_t wide;
    switch (kv->type) {
    case PH_GGUF_U8:
        ITEM(uint8_t)
    case PH_GGUF_I8:
        ITEM(int8_t)
    case PH_GGUF_U16:
        ITEM(uint16_t)
    case PH_GGUF_I16:
        ITEM(int16_t)
    case PH_GGUF_U32:
        ITEM(uint32_t)
    case PH_GGUF_I32:
        ITEM(int32_t)
    case PH_GGUF_I64:
        ITEM(int64_t)
    case PH_GGUF_BOOL:
        return *out = kv->at[i] != 0, 1;
    case PH_GGUF_U64:
        memcpy(&wide, kv->at + i * sizeof wide, sizeof wide);
        *out = (int64_t)wide;
        return wide <= INT64_MAX;
    default:
        return 0;
    }
}

int ph_gguf_item_real(const ph_gguf_kv *kv, size_t i, double *out) {
    int64_t whole;
    if (kv->type == PH_GGUF_F64) ITEM(double)
    if (kv->type == PH_GGUF_F32) {
        float v;
        memcpy(&v, kv->at + i * sizeof v, sizeof v);
        *out = (double)v;
        return 1;
    }
    if (kv->type == PH_GGUF_BOOL || !ph_gguf_item_int(kv, i, &whole)) return 0;
    *out = (double)whole;
    return 1;
}

static ph_rc wrong(const ph_gguf *g, const char *key, const char *expected, ph_err *err) {
    static const char *const name[PH_GGUF_N_TYPES] = {"u8",      "i8",   "u16",   "i16", "u32", "i32", "f32",
                                                      "boolean", "text", "array", "u64", "i64", "f64"};
    const ph_gguf_kv        *kv = ph_gguf_find(g, key);
    if (!kv) return PH_FAIL(err, PH_EFORMAT, "%s: key %s is missing", g->name, key);
    return PH_FAIL(err, PH_EFORMAT, "%s: key %s: expected %s, found %s%s", g->name, key, expected,
                   kv->is_array ? "an array of " : "", name[kv->type]);
}

/* The entry if it is one value, not an array. */
static const ph_gguf_kv *single(const ph_gguf *g, const char *key) {
    const ph_gguf_kv *kv = ph_gguf_find(g, key);
    return kv && !kv->is_array ? kv : NULL;
}

ph_rc ph_gguf_int(const ph_gguf *g, const char *key, int64_t *out, ph_err *err) {
    const ph_gguf_kv *kv = single(g, key);
    if (!kv || kv->type == PH_GGUF_BOOL || !ph_gguf_item_int(kv, 0, out))
        return wrong(g, key, "an integer below 2^63", err);
    return PH_OK;
}

ph_rc ph_gguf_real(const ph_gguf *g, const char *key, double *out, ph_err *err) {
    const ph_gguf_kv *kv = single(g, key);
    return kv && ph_gguf_item_real(kv, 0, out) ? PH_OK : wrong(g, key, "a number", err);
}

ph_rc ph_gguf_bool(const ph_gguf *g, const char *key, int *out, ph_err *err) {
    const ph_gguf_kv *kv = single(g, key);
    if (!kv || kv->type != PH_GGUF_BOOL) return wrong(g, key, "a boolean", err);
    *out = kv->at[0] != 0;
    return PH_OK;
}

ph_rc ph_gguf_text_of(const ph_gguf *g, const char *key, ph_gguf_text *out, ph_err *err) {
    const ph_gguf_kv *kv = single(g, key);
    if (!kv || kv->type != PH_GGUF_TEXT) return wrong(g, key, "a text", err);
    ph_gguf_texts it = ph_gguf_texts_of(kv);
    ph_gguf_next(&it, out);
    return PH_OK;
}

ph_rc ph_gguf_size(const ph_gguf *g, const char *key, int min, int max, int *out, ph_err *err) {
    int64_t value;
    PH_TRY(ph_gguf_int(g, key, &value, err));
    if (value < min || value > max)
        return PH_FAIL(err, PH_EFORMAT, "%s: key %s is %lld, expected %d to %d", g->name, key,
                       (long long)value, min, max);
    *out = (int)value;
    return PH_OK;
}

ph_rc ph_gguf_int_or(const ph_gguf *g, const char *key, int64_t fallback, int64_t *out, ph_err *err) {
    *out = fallback;
    return ph_gguf_find(g, key) ? ph_gguf_int(g, key, out, err) : PH_OK;
}

ph_rc ph_gguf_real_or(const ph_gguf *g, const char *key, double fallback, double *out, ph_err *err) {
    *out = fallback;
    return ph_gguf_find(g, key) ? ph_gguf_real(g, key, out, err) : PH_OK;
}

ph_rc ph_gguf_bool_or(const ph_gguf *g, const char *key, int fallback, int *out, ph_err *err) {
    *out = fallback;
    return ph_gguf_find(g, key) ? ph_gguf_bool(g, key, out, err) : PH_OK;
}

ph_rc ph_gguf_size_or(const ph_gguf *g, const char *key, int min, int max, int fallback, int *out,
                      ph_err *err) {
    *out = fallback;
    return ph_gguf_find(g, key) ? ph_gguf_size(g, key, min, max, out, err) : PH_OK;
}

int ph_gguf_text_is(ph_gguf_text t, const char *s) {
    size_t n = strlen(s);
    return t.n == n && !memcmp(t.at, s, n);
}

ph_gguf_texts ph_gguf_texts_of(const ph_gguf_kv *kv) {
    if (!kv || kv->type != PH_GGUF_TEXT) return (ph_gguf_texts){0};
    return (ph_gguf_texts){kv->at, kv->count};
}

int ph_gguf_next(ph_gguf_texts *it, ph_gguf_text *out) {
    uint64_t n;
    if (!it->left) return 0;
    memcpy(&n, it->at, 8);
    *out = (ph_gguf_text){(const char *)it->at + 8, (size_t)n};
    it->at += 8 + (size_t)n;
    it->left--;
    return 1;
}
