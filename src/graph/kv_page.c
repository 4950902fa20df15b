/* kv_page.c - bytes of a page, rows into it, a whole page by channel, and the kernel's view of one head. */
#include "graph/kv_page.h"

#include "base/mem.h"
#include "tensor/half.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_MAX = 64, F16_NAN = 0x7e00 };

int ph_kv_is_known(ph_dtype t) {
    ph_kernels plain;
    ph_kernels_init(&plain, 0);
    return ph_attend_of(&plain, t) && ph_dtype_block(t) <= BLOCK_MAX;
}

/* The one type of 4 bits: blocks with a least value, which channels of keys need (kernels.h). */
int ph_kv_is_settled(ph_dtype t) {
    return t == PH_Q4_1;
}

static int keys_by_channel(ph_dtype t) {
    return ph_dtype_block(t) == 1 || ph_kv_is_settled(t);
}

static size_t padded(ph_dtype t, size_t d) {
    size_t block = ph_dtype_block(t);
    return (d + block - 1) / block * block;
}

static size_t row_bytes(ph_dtype t, size_t d) {
    return padded(t, d) / ph_dtype_block(t) * ph_dtype_bytes(t);
}

static size_t all_bytes(int heads, size_t rows, size_t row) {
    size_t n;
    return ph_mul_over((size_t)heads, rows, &n) || ph_mul_over(n, row, &n) || n > SIZE_MAX / 8 ? 0 : n;
}

size_t ph_kv_key_bytes(const ph_kv_layer *l, ph_dtype t) {
    if (keys_by_channel(t)) return all_bytes(l->n_heads, (size_t)l->d_k, row_bytes(t, PH_KV_PAGE));
    return all_bytes(l->n_heads, PH_KV_PAGE, row_bytes(t, (size_t)l->d_k));
}

size_t ph_kv_value_bytes(const ph_kv_layer *l, ph_dtype t) {
    return all_bytes(l->n_heads, PH_KV_PAGE, row_bytes(t, (size_t)l->d_v));
}

/* ---- writing ---- */

static int is_finite(const float *x, size_t n) {
    int all = 1;
    for (size_t i = 0; i < n; i++) all &= isfinite(x[i]) != 0;
    return all;
}

/* One block of a block type; the formats' packing would make zeros of a NaN. */
static void pack_block(ph_dtype t, unsigned char *out, const float *x, size_t block) {
    ph_dtype_get(t)->pack(out, x, block);
    if (!is_finite(x, block)) memcpy(out, &(uint16_t){F16_NAN}, sizeof(uint16_t)); /* its scale */
}

static void pack_row(ph_dtype t, unsigned char *out, const float *x, size_t d) {
    size_t block = ph_dtype_block(t), bytes = ph_dtype_bytes(t), i = 0;
    float  rest[BLOCK_MAX];
    for (; i + block <= d; i += block, out += bytes) pack_block(t, out, &x[i], block);
    if (i == d) return;
    for (size_t j = 0; j < block; j++) rest[j] = i + j < d ? x[i + j] : x[d - 1];
    pack_block(t, out, rest, block);
}

/* A column of [heads, d, 64] plain numbers: some channels at a time are narrowed, then spread. */
static void store_column(const ph_kernels *kernels, ph_dtype t, void *to, const float *x, size_t n,
                         size_t slot) {
    float  narrow[BLOCK_MAX];
    size_t bytes = ph_dtype_bytes(t);
    for (size_t i = 0; i < n; i += BLOCK_MAX) {
        size_t         some = n - i < BLOCK_MAX ? n - i : BLOCK_MAX;
        unsigned char *at = (unsigned char *)to + (i * PH_KV_PAGE + slot) * bytes;
        if (t == PH_F16)
            kernels->f16_of((uint16_t *)(void *)narrow, &x[i], some);
        else
            ph_dtype_get(t)->pack(narrow, &x[i], some);
        for (size_t e = 0; e < some && bytes == 4; e++) memcpy(&at[e * PH_KV_PAGE * 4], &narrow[e], 4);
        for (size_t e = 0; e < some && bytes == 2; e++)
            memcpy(&at[e * PH_KV_PAGE * 2], (const unsigned char *)narrow + e * 2, 2);
    }
}

static void store_heads(const ph_kernels *kernels, ph_dtype t, void *to, const float *x, size_t heads,
                        size_t d, size_t slot) {
    size_t row = row_bytes(t, d);
    for (size_t h = 0; h < heads; h++) {
        unsigned char *at = (unsigned char *)to + (h * PH_KV_PAGE + slot) * row;
        if (t == PH_F16)
            kernels->f16_of((uint16_t *)(void *)at, &x[h * d], d);
        else if (ph_dtype_block(t) == 1)
            ph_dtype_get(t)->pack(at, &x[h * d], d);
        else
            pack_row(t, at, &x[h * d], d);
    }
}

void ph_kv_store(const ph_kernels *kernels, const ph_kv_page *page, const ph_kv_layer *l, const float *k,
                 const float *v, size_t slot) {
    if (keys_by_channel(page->dtype))
        store_column(kernels, page->dtype, page->k, k, (size_t)l->n_heads * (size_t)l->d_k, slot);
    else
        store_heads(kernels, page->dtype, page->k, k, (size_t)l->n_heads, (size_t)l->d_k, slot);
    store_heads(kernels, page->dtype, page->v, v, (size_t)l->n_heads, (size_t)l->d_v, slot);
}

void ph_kv_settle(const ph_kv_page *to, const ph_kv_page *from, const ph_kv_layer *l, size_t head) {
    size_t          d = (size_t)l->d_k, dv = (size_t)l->d_v, key = row_bytes(to->dtype, PH_KV_PAGE);
    size_t          row = row_bytes(to->dtype, dv), block = ph_dtype_block(to->dtype);
    const uint16_t *k = (const uint16_t *)from->k + head * PH_KV_PAGE * d;
    const uint16_t *v = (const uint16_t *)from->v + head * PH_KV_PAGE * dv;
    unsigned char  *k_to = (unsigned char *)to->k + head * d * key;
    unsigned char  *v_to = (unsigned char *)to->v + head * PH_KV_PAGE * row;
    float           x[BLOCK_MAX];
    for (size_t e = 0; e < d; e++) {
        for (size_t j = 0; j < PH_KV_PAGE; j++) x[j] = ph_f16_to_f32(k[e * PH_KV_PAGE + j]);
        pack_row(to->dtype, &k_to[e * key], x, PH_KV_PAGE);
    }
    for (size_t j = 0; j < PH_KV_PAGE; j++)
        for (size_t e = 0; e < dv; e += block) { /* a block at a time: heads may be of any size */
            size_t n = dv - e < block ? dv - e : block;
            for (size_t i = 0; i < n; i++) x[i] = ph_f16_to_f32(v[j * dv + e + i]);
            pack_row(to->dtype, &v_to[j * row + e / block * ph_dtype_bytes(to->dtype)], x, n);
        }
}

/* ---- reading ---- */

/* The keys of one head. */
static size_t head_bytes(const ph_kv_layer *l, ph_dtype t) {
    return keys_by_channel(t) ? (size_t)l->d_k * row_bytes(t, PH_KV_PAGE)
                              : PH_KV_PAGE * row_bytes(t, (size_t)l->d_k);
}

void ph_kv_meet(ph_attend_fn *fn, const ph_kv_page *page, const ph_kv_page *next, const ph_kv_layer *l,
                size_t head, ph_attend *a) {
    ph_dtype t = page->dtype;
    a->v_bytes = PH_KV_PAGE * row_bytes(t, (size_t)l->d_v);
    a->k = (const unsigned char *)page->k + head * head_bytes(l, t);
    a->v = (const unsigned char *)page->v + head * a->v_bytes;
    a->next_bytes = next ? head_bytes(l, next->dtype) : 0;
    a->next = next ? (const unsigned char *)next->k + head * a->next_bytes : NULL;
    a->k_stride = keys_by_channel(t) ? PH_KV_PAGE : padded(t, (size_t)l->d_k);
    a->v_stride = padded(t, (size_t)l->d_v);
    fn(a);
}
