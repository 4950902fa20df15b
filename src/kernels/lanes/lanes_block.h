/* lanes_block.h - what stored weights are worth, W at a time, in the order of the elements.
 *
 * Each function walks one block.  With keep (a constant) it stores the floats to out (many
 * rows will share them); without, it multiplies them by x into acc from the registers.  Both
 * ways see the same floats in the same order, so they give the same bits.  All widenings
 * are exact but the one rounding of Q4_1's and Q4_K's offset, as in tensor/.
 */
#ifndef PH_KERNELS_LANES_LANES_BLOCK_H
#define PH_KERNELS_LANES_LANES_BLOCK_H

/* n: elements of the block; only plain types see one shorter than their whole. */
typedef vf block_fn(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc);

INLINE vf take(vf w, size_t i, int keep, const float *x, float *out, vf acc) {
    if (keep) {
        v_store(&out[i], w);
        return acc;
    }
    return v_fma(w, v_load(&x[i]), acc);
}

#define PLAIN(T, load, load_n)                                                                               \
    INLINE vf block_##T(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc) {          \
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

INLINE vf block_Q8_0(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc) {
    vf d = v_set1(f16_scalar(b));
    (void)n;
    for (size_t i = 0; i < 32; i += W) acc = take(v_mul(d, v_load_i8(b + 2 + i)), i, keep, x, out, acc);
    return acc;
}

/* The low halves of 16 bytes are the first 16 numbers, the high halves the others. */
INLINE vf block_Q4_0(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc) {
    vf d = v_set1(f16_scalar(b)), middle = v_set1(8.0f);
    (void)n;
    UNROLL
    for (size_t half = 0; half < 2; half++)
        for (size_t i = 0; i < 16; i += W) {
            vf q = v_sub(v_load_field(b + 2 + i, half ? 4 : 0, 15), middle);
            acc = take(v_mul(d, q), 16 * half + i, keep, x, out, acc);
        }
    return acc;
}
INLINE vf block_Q4_1(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc) {
    vf d = v_set1(f16_scalar(b)), m = v_set1(f16_scalar(b + 2));
    (void)n;
    UNROLL
    for (size_t half = 0; half < 2; half++)
        for (size_t i = 0; i < 16; i += W)
            acc = take(v_fma(d, v_load_field(b + 4 + i, half ? 4 : 0, 15), m), 16 * half + i, keep, x, out,
                       acc);
    return acc;
}

/* Scale and offset (6 bits each) of part j of 8; layout in tensor/q4_k.c. */
INLINE void part_Q4_K(const uint8_t *s, size_t j, float *scale, float *offset) {
    unsigned lo = s[j % 4], mid = s[4 + j % 4], hi = s[8 + j % 4];
    *scale = (float)(j < 4 ? lo & 63 : (hi & 15) | lo >> 6 << 4);
    *offset = (float)(j < 4 ? mid & 63 : hi >> 4 | mid >> 6 << 4);
}
INLINE vf block_Q4_K(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc) {
    float d = f16_scalar(b), dmin = f16_scalar(b + 2), scale, offset;
    (void)n;
    for (size_t j = 0; j < 8; j++) {
        part_Q4_K(b + 4, j, &scale, &offset);
        vf by = v_set1(d * scale), less = v_set1(-(dmin * offset));
        for (size_t i = 0; i < 32; i += W) {
            vf q = v_load_field(b + 16 + j / 2 * 32 + i, (int)(j & 1) * 4, 15);
            acc = take(v_fma(by, q, less), 32 * j + i, keep, x, out, acc);
        }
    }
    return acc;
}

/* 4 low bits in ql[128], 2 high bits in qh[64], a scale for 16 numbers; layout in tensor/q6_k.c. */
INLINE vf block_Q6_K(const uint8_t *b, size_t n, int keep, const float *x, float *out, vf acc) {
    const uint8_t *ql = b, *qh = b + 128, *scales = b + 192;
    float          d = f16_scalar(b + 208);
    vf             sixteen = v_set1(16.0f), middle = v_set1(-32.0f);
    (void)n;
    for (size_t j = 0; j < 8; j++) /* 32 numbers each; four of these share their qh bytes */
        for (size_t i = 0; i < 32; i += W) {
            float scale = d * (float)(int8_t)scales[2 * j + i / 16];
            vf    low = v_load_field(ql + j / 4 * 64 + j % 2 * 32 + i, (int)(j % 4 / 2) * 4, 15);
            vf    high = v_load_field(qh + j / 4 * 32 + i, (int)(j % 4) * 2, 3);
            vf    q = v_add(v_fma(high, sixteen, low), middle);
            acc = take(v_mul(v_set1(scale), q), 32 * j + i, keep, x, out, acc);
        }
    return acc;
}

#endif
