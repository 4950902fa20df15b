/* lanes_block.h - what stored weights are worth, W at a time, in the order of the elements.
 *
 * A type is a part function: it walks one part of a block (all of it, for small blocks).  With
 * keep (a constant) it stores the floats to out (many rows will share them); without, it
 * multiplies them by x into acc from the registers.  Both ways see the same floats in the same
 * order, so they give the same bits.  Large blocks have a ready function too: it decodes all
 * scales of a block at once, before its parts are walked.  All widenings are exact but the one
 * rounding of Q4_1's and Q4_K's offset, as in tensor/.
 */
#ifndef PH_KERNELS_LANES_LANES_BLOCK_H
#define PH_KERNELS_LANES_LANES_BLOCK_H

/* The decoded scales of a large block; what stands where is the type's affair. */
typedef struct scales {
    float by[16], plus[16];
} scales;

typedef void ready_fn(scales *s, const uint8_t *b);
/* Part j of block b.  n: its elements; only plain types see one that is shorter than their whole. */
typedef vf part_fn(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,
                   float *out, vf acc);

INLINE vf take(vf w, size_t i, int keep, const float *x, float *out, vf acc) {
    if (keep) {
        v_store(&out[i], w);
        return acc;
    }
    return v_fma(w, v_load(&x[i]), acc);
}

#define PLAIN(T, load, load_n)                                                                               \
    INLINE vf part_##T(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,      \
                       float *out, vf acc) {                                                                 \
        (void)s, (void)j;                                                                                    \
        if (n == W) return take(load(b), 0, keep, x, out, acc);                                              \
        vf w = load_n(b, n);                                                                                 \
        if (!keep) return v_fma(w, v_load_n(x, n), acc);                                                     \
        v_store_n(out, w, n);                                                                                \
        return acc;                                                                                          \
    }
PLAIN(F32, v_load, v_load_n)
PLAIN(F16, v_load_f16, v_load_f16_n)
PLAIN(BF16, v_load_bf16, v_load_bf16_n)
#undef PLAIN

INLINE vf part_Q8_0(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,
                    float *out, vf acc) {
    vf d = v_set1(f16_scalar(b));
    (void)s, (void)j, (void)n;
    for (size_t i = 0; i < 32; i += W) acc = take(v_mul(d, v_load_i8(b + 2 + i)), i, keep, x, out, acc);
    return acc;
}

/* The low halves of 16 bytes are the first 16 numbers, the high halves the others. */
INLINE vf part_Q4_0(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,
                    float *out, vf acc) {
    vf d = v_set1(f16_scalar(b)), middle = v_set1(8.0f);
    (void)s, (void)j, (void)n;
    UNROLL
    for (size_t half = 0; half < 2; half++)
        for (size_t i = 0; i < 16; i += W) {
            vf q = v_sub(v_load_field(b + 2 + i, half ? 4 : 0, 15), middle);
            acc = take(v_mul(d, q), 16 * half + i, keep, x, out, acc);
        }
    return acc;
}
INLINE vf part_Q4_1(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,
                    float *out, vf acc) {
    vf d = v_set1(f16_scalar(b)), m = v_set1(f16_scalar(b + 2));
    (void)s, (void)j, (void)n;
    UNROLL
    for (size_t half = 0; half < 2; half++)
        for (size_t i = 0; i < 16; i += W)
            acc = take(v_fma(d, v_load_field(b + 4 + i, half ? 4 : 0, 15), m), 16 * half + i, keep, x, out,
                       acc);
    return acc;
}

/* Eight scales and eight offsets of 6 bits in three words; layout in tensor/q4_k.c.
 * Of by the first eight have a meaning, of plus the last. */
INLINE void ready_Q4_K(scales *s, const uint8_t *b) {
    uint32_t in[3], out[4];
    vf       d = v_set1(f16_scalar(b)), minus = v_set1(-f16_scalar(b + 2));
    memcpy(in, b + 4, sizeof in);
    out[0] = in[0] & 0x3f3f3f3fu;
    out[1] = (in[2] & 0x0f0f0f0fu) | (in[0] >> 6 & 0x03030303u) << 4;
    out[2] = in[1] & 0x3f3f3f3fu;
    out[3] = (in[2] >> 4 & 0x0f0f0f0fu) | (in[1] >> 6 & 0x03030303u) << 4;
    for (size_t i = 0; i < 16; i += W) {
        vf v = v_load_field((const uint8_t *)out + i, 0, 255);
        v_store(&s->by[i], v_mul(d, v));
        v_store(&s->plus[i], v_mul(minus, v));
    }
}
INLINE vf part_Q4_K(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,
                    float *out, vf acc) {
    vf by = v_set1(s->by[j]), plus = v_set1(s->plus[8 + j]);
    (void)n;
    for (size_t i = 0; i < 32; i += W) {
        vf q = v_load_field(b + 16 + j / 2 * 32 + i, (int)(j & 1) * 4, 15);
        acc = take(v_fma(by, q, plus), i, keep, x, out, acc);
    }
    return acc;
}

/* 4 low bits in ql[128], 2 high bits in qh[64], a scale for 16 numbers; layout in tensor/q6_k.c. */
INLINE void ready_Q6_K(scales *s, const uint8_t *b) {
    vf d = v_set1(f16_scalar(b + 208));
    for (size_t i = 0; i < 16; i += W) v_store(&s->by[i], v_mul(d, v_load_i8(b + 192 + i)));
}
INLINE vf part_Q6_K(const uint8_t *b, const scales *s, size_t j, size_t n, int keep, const float *x,
                    float *out, vf acc) {
    const uint8_t *ql = b + j / 4 * 64 + j % 2 * 32, *qh = b + 128 + j / 4 * 32;
    vf             sixteen = v_set1(16.0f), middle = v_set1(-32.0f);
    (void)n;
    for (size_t i = 0; i < 32; i += W) { /* four parts share their qh bytes */
        vf low = v_load_field(ql + i, (int)(j % 4 / 2) * 4, 15),
           high = v_load_field(qh + i, (int)(j % 4) * 2, 3);
        vf q = v_add(v_fma(high, sixteen, low), middle);
        acc = take(v_mul(v_set1(s->by[2 * j + i / 16]), q), i, keep, x, out, acc);
    }
    return acc;
}

/* Small blocks carry their scales where the part function reads them. */
INLINE void ready_not(scales *s, const uint8_t *b) {
    (void)s, (void)b;
}

#endif
