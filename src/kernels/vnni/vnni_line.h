/* vnni_line.h - one row meets superblocks of 256: a column after the other, from its first byte to its last.
 *
 * A superblock fills whole vectors, so that columns need not lie side by side for their integers to be taken
 * apart.  The sums of sixteen columns go to scratch; then they are turned, a column a lane, and scaled as in
 * vnni.c, in the same order.  All the while the next sixteen columns are called for, line by line: of the
 * 36 or 53 lines that a superblock of sixteen columns has, some with each pair, LINES_SCALE with each part.
 */
#ifndef PH_KERNELS_VNNI_VNNI_LINE_H
#define PH_KERNELS_VNNI_VNNI_LINE_H

/* PAIR columns meet the row together, so that its integers are read once for both. */
enum { SUPER = 256, PAIR = 2 };

enum { LINES_Q4_K = 3, LINES_Q6_K = 5, LINES_SCALE = 2 };

typedef struct pair {
    const uint8_t *w[PAIR];
    int32_t       *sums[PAIR];
    const uint8_t *ahead; /* what is called for meanwhile, `lines` of 64 bytes a superblock */
} pair;

INLINE const uint8_t *call(const uint8_t *w, size_t lines) {
    UNROLL
    for (size_t l = 0; l < lines; l++) _mm_prefetch((const char *)w + 64 * l, _MM_HINT_T0);
    return w + 64 * lines;
}

INLINE __m512i load512(const void *p) {
    return _mm512_loadu_si512(p);
}

/* What is read across two lines of cache is read once: compilers like to read it again. */
INLINE __m512i load_once(const void *p) {
    __m512i v = _mm512_loadu_si512(p);
    __asm__("" : "+v"(v));
    return v;
}

/* Products i 64 .. of each column, of one plane or two, four a sum, to v[..][i]. */
INLINE void meet64(int planes, __m512i v[PAIR][4], int i, const __m512i w[PAIR], const int8_t *hi,
                   const int8_t *lo) {
    __m512i h = load512(hi + 64 * i), l = planes == 1 ? h : load512(lo + 64 * i);
    UNROLL
    for (int c = 0; c < PAIR; c++) {
        v[c][i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[c], h);
        if (planes > 1) v[c][i] = _mm512_dpbusd_epi32(_mm512_slli_epi32(v[c][i], 8), w[c], l);
    }
}

/* ---- Q6_K: sixteen sums of sixteen elements; sum e stands at place e / 4 + e % 4 * 4 ---- */

INLINE void line_Q6_K(int planes, pair at, const int8_t *hi, const int8_t *lo, size_t blocks) {
    const __m512i high = _mm512_set1_epi8(0x30), six = _mm512_set1_epi8(0x3f);
    const __m512i up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
    const __m512i down = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    for (size_t b = 0; b < blocks; b++, hi += SUPER, lo += SUPER) {
        __m512i v[PAIR][4];
        at.ahead = call(at.ahead, LINES_Q6_K);
        UNROLL
        for (int i = 0; i < 2; i++) {
            __m512i first[PAIR], last[PAIR];
            UNROLL
            for (int c = 0; c < PAIR; c++) {
                const uint8_t *w = at.w[c] + 210 * b;
                __m512i        q = load_once(w + 64 * i);
                __m512i h = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(w + 128 + 32 * i)));
                first[c] = _mm512_ternarylogic_epi32(high, _mm512_sllv_epi16(h, up), q, 0xca);
                last[c] = _mm512_ternarylogic_epi32(high, _mm512_srlv_epi16(h, down), _mm512_srli_epi16(q, 4),
                                                    0xca);
                first[c] = _mm512_and_si512(first[c], six), last[c] = _mm512_and_si512(last[c], six);
            }
            meet64(planes, v, 2 * i, first, hi, lo);
            meet64(planes, v, 2 * i + 1, last, hi, lo);
        }
        UNROLL
        for (int c = 0; c < PAIR; c++) _mm512_storeu_si512(at.sums[c] + 16 * b, sum_lanes(v[c]));
    }
}

/* v[p]: sixteen sums of column p; out[p]: sum p of sixteen columns. */
INLINE void turn16(const int32_t *sums, size_t stride, __m512i out[16]) {
    __m512i t[16], u[16];
    UNROLL_ROWS
    for (int i = 0; i < 16; i += 4) {
        __m512i v[4] = {load512(sums + i * stride), load512(sums + (i + 1) * stride),
                        load512(sums + (i + 2) * stride), load512(sums + (i + 3) * stride)};
        transpose_words(v, &t[i]);
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        __m512i v[4] = {t[j], t[4 + j], t[8 + j], t[12 + j]};
        transpose_lanes(v, &u[4 * j]);
    }
    UNROLL_ROWS
    for (int i = 0; i < 16; i++) out[i] = u[i % 4 * 4 + i / 4];
}

/* ---- Q4_K: eight sums of 32; the row's parts are in the order 0 2 1 3 4 6 5 7 ---- */

INLINE void line_Q4_K(int planes, pair at, const int8_t *hi, const int8_t *lo, size_t blocks) {
    const __m512i low = _mm512_set1_epi8(15);
    for (size_t b = 0; b < blocks; b++, hi += SUPER, lo += SUPER) {
        __m512i v[PAIR][4];
        at.ahead = call(at.ahead, LINES_Q4_K);
        UNROLL
        for (int i = 0; i < 2; i++) {
            __m512i first[PAIR], last[PAIR];
            UNROLL
            for (int c = 0; c < PAIR; c++) {
                __m512i q = load_once(at.w[c] + 144 * b + 16 + 64 * i);
                first[c] = _mm512_and_si512(q, low);
                last[c] = _mm512_and_si512(_mm512_srli_epi16(q, 4), low);
            }
            meet64(planes, v, 2 * i, first, hi, lo);
            meet64(planes, v, 2 * i + 1, last, hi, lo);
        }
        __m512i s[PAIR]; /* lanes 0 and 1: parts 0 1 4 5; 2 and 3: parts 2 3 6 7 */
        UNROLL
        for (int c = 0; c < PAIR; c++) s[c] = sum_lanes(v[c]);
        s[0] =
            _mm512_add_epi32(_mm512_shuffle_i64x2(s[0], s[1], 0x88), _mm512_shuffle_i64x2(s[0], s[1], 0xdd));
        _mm256_storeu_si256((void *)(at.sums[0] + 8 * b), _mm512_castsi512_si256(s[0]));
        _mm256_storeu_si256((void *)(at.sums[1] + 8 * b), _mm512_extracti64x4_epi64(s[0], 1));
    }
}

INLINE void turn8(const int32_t *sums, size_t stride, __m512i out[8]) {
    const __m512i even = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0),
                  odd = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
    __m512i t[8];
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        __m512i v[4];
        UNROLL
        for (int j = 0; j < 4; j++)
            v[j] = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_loadu_si256((const void *)(sums + (i + j) * stride))),
                _mm256_loadu_si256((const void *)(sums + (i + j + 8) * stride)), 1);
        transpose_words(v, &t[i]);
    }
    UNROLL
    for (int j = 0; j < 4; j++) { /* places 0 .. 3 are parts 0 1 4 5, places 4 .. 7 parts 2 3 6 7 */
        int part = j < 2 ? j : j + 2;
        out[part] = _mm512_permutex2var_epi64(t[j], even, t[4 + j]);
        out[part + 2] = _mm512_permutex2var_epi64(t[j], odd, t[4 + j]);
    }
}

#endif
