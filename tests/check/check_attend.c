/* check_attend.c - blocks of keys, one after another, against one softmax over all of them in double.
 *
 * Random windows (empty ones too), odd head sizes, strides, soft caps, masked keys, NaN; query by
 * query gives the same bits.
 */
#include "tests/check/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCKS = 3, KEYS = BLOCKS * PH_ATTEND_KEYS };

typedef struct problem {
    size_t n_q, n_k, d, dv, q_stride, k_stride, v_stride;
    float *q, *k,
        *v; /* what is stored, as floats: [n_k] rows of k_stride and v_stride; k by channel: [KEYS] */
    void    *ks, *vs;        /* stored */
    size_t   k_step, v_step; /* bytes from block to block */
    int32_t *lo, *hi;        /* [n_q], over all n_k */
    float    scale, softcap;
} problem;

typedef void attend_fn(const ph_attend *a);

static size_t stored_bytes(ph_dtype t, size_t n) {
    return n / ph_dtype_block(t) * ph_dtype_bytes(t);
}

static size_t whole_blocks(ph_dtype t, size_t n) {
    return (n + ph_dtype_block(t) - 1) / ph_dtype_block(t) * ph_dtype_block(t);
}

/* All types but one have their keys channel by channel; as_rows: what attend_rows is given.  as_rounded:
 * attend_rounded, whose queries all see the same keys; where its numbers are bfloat16 already, only weights
 * are rounded. */
static int as_rows, as_rounded;
enum { NUMBERS = 1, WEIGHTS = 2 };
/* Keys of a call; attend_rounded takes any number. */
static int32_t a_call = PH_ATTEND_KEYS;

static int by_channel(ph_dtype t) {
    return t != PH_Q8_0 && !as_rows;
}

/* Floats, rounded to the stored type and stored there. */
static void *store(ph_dtype t, float *x, size_t n) {
    uint8_t *out = ck_buffer(stored_bytes(t, n));
    ph_dtype_get(t)->pack(out, x, n);
    ph_dtype_get(t)->unpack(x, out, n);
    return out;
}

/* The same for keys [KEYS, stride] that are stored as [blocks, d, 64]. */
static void *store_channels(ph_dtype t, float *k, size_t stride, size_t d) {
    size_t   row = stored_bytes(t, PH_ATTEND_KEYS);
    uint8_t *out = ck_buffer(BLOCKS * d * row);
    float    x[PH_ATTEND_KEYS];
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t e = 0; e < d; e++) {
            float *from = &k[b * PH_ATTEND_KEYS * stride + e];
            for (size_t j = 0; j < PH_ATTEND_KEYS; j++) x[j] = from[j * stride];
            ph_dtype_get(t)->pack(&out[(b * d + e) * row], x, PH_ATTEND_KEYS);
            ph_dtype_get(t)->unpack(x, &out[(b * d + e) * row], PH_ATTEND_KEYS);
            for (size_t j = 0; j < PH_ATTEND_KEYS; j++) from[j * stride] = x[j];
        }
    return out;
}

static void store_both(ph_dtype t, problem *p, size_t nk, size_t nv) {
    p->ks = by_channel(t) ? store_channels(t, p->k, p->k_stride, p->d) : store(t, p->k, nk);
    p->k_step = by_channel(t) ? p->d * stored_bytes(t, PH_ATTEND_KEYS)
                              : stored_bytes(t, PH_ATTEND_KEYS * p->k_stride);
    p->vs = store(t, p->v, nv);
    p->v_step = stored_bytes(t, PH_ATTEND_KEYS * p->v_stride);
}

static problem any_problem(ph_dtype t, unsigned trial) {
    problem p = {.n_q = ck_below(trial % 2 ? 7 : 17), .d = 1 + ck_below(140), .dv = 1 + ck_below(140)};
    if (trial % 3 == 0) p.d = p.dv = 64;
    p.q_stride = p.d + ck_below(9), p.k_stride = p.d + ck_below(9), p.v_stride = p.dv + ck_below(9);
    p.k_stride = whole_blocks(t, p.k_stride), p.v_stride = whole_blocks(t, p.v_stride);
    p.n_k = trial && ck_below(2) ? 1 + ck_below(KEYS) : KEYS; /* no row stands behind the last */
    size_t rows = by_channel(t) ? KEYS : p.n_k, nq = p.n_q * p.q_stride;
    size_t nk = (rows - 1) * p.k_stride + whole_blocks(t, p.d);
    size_t nv = (p.n_k - 1) * p.v_stride + whole_blocks(t, p.dv);
    p.q = ck_buffer(nq * sizeof(float)), p.k = ck_buffer(nk * sizeof(float)),
    p.v = ck_buffer(nv * sizeof(float));
    p.lo = ck_buffer(p.n_q * sizeof *p.lo), p.hi = ck_buffer(p.n_q * sizeof *p.hi);
    ck_normals(p.q, nq, trial % 5 == 4 ? 20.0f : 1.0f), ck_normals(p.k, nk, 1), ck_normals(p.v, nv, 1);
    p.scale = 1.0f / sqrtf((float)p.d), p.softcap = trial % 4 == 3 ? 5.0f : 0.0f;
    for (size_t i = 0; i < p.n_q; i++) {
        int32_t most = (int32_t)p.n_k;
        p.lo[i] = ck_below(2) ? 0 : (int32_t)ck_below((unsigned)most);
        p.hi[i] = ck_below(4) ? p.lo[i] + (int32_t)ck_below((unsigned)(most - p.lo[i]) + 1) : p.lo[i];
    }
    for (size_t i = 0; as_rounded && i < p.n_q; i++) p.lo[i] = p.lo[0], p.hi[i] = p.hi[0];
    if (as_rounded == WEIGHTS) store(PH_BF16, p.q, nq), store(PH_BF16, p.k, nk), store(PH_BF16, p.v, nv);
    store_both(t, &p, nk, nv);
    return p;
}

/* Queries [from, from + n) through all keys, call by call; acc, m, l are whole arrays. */
static void run(ph_dtype t, attend_fn *fn, const problem *p, size_t from, size_t n, float *acc, float *m,
                float *l) {
    int32_t *lo = ck_buffer(n * sizeof *lo), *hi = ck_buffer(n * sizeof *hi);
    float   *scratch = ck_buffer(n * PH_ATTEND_KEYS * sizeof *scratch);
    size_t   room = as_rounded ? PH_ATTEND_ROUNDED_FLOATS(n, p->d, p->dv) : p->d * PH_ATTEND_KEYS;
    float   *keys = ck_buffer(room * sizeof *keys);
    for (size_t i = 0; i < n; i++) m[from + i] = -INFINITY, l[from + i] = 0;
    memset(&acc[from * p->dv], 0, n * p->dv * sizeof *acc);
    for (int32_t first = 0; first < KEYS; first += a_call) {
        int32_t b = first / PH_ATTEND_KEYS;
        for (size_t i = 0; i < n; i++) {
            int32_t a = p->lo[from + i] - first, z = p->hi[from + i] - first;
            lo[i] = a < 0 ? 0 : a, hi[i] = z > a_call ? a_call : z;
        }
        fn(&(ph_attend){.acc = &acc[from * p->dv],
                        .m = &m[from],
                        .l = &l[from],
                        .q = &p->q[from * p->q_stride],
                        .k = (uint8_t *)p->ks + (size_t)b * p->k_step,
                        .v = (uint8_t *)p->vs + (size_t)b * p->v_step,
                        .lo = lo,
                        .hi = hi,
                        .q_stride = p->q_stride,
                        .k_stride = by_channel(t) ? PH_ATTEND_KEYS : p->k_stride,
                        .v_stride = p->v_stride,
                        .n_q = n,
                        .d = p->d,
                        .dv = p->dv,
                        .scale = p->scale,
                        .softcap = p->softcap,
                        .scratch = scratch,
                        .keys = keys,
                        .next = b % 2 ? p->ks : NULL,
                        .next_bytes = b % 2 ? p->k_step : 0,
                        .v_bytes = b % 2 ? p->v_step : 0});
    }
}

/* The answer of query i in double, and the error allowed in it. */
static double whole(const problem *p, size_t i, double *want) {
    static double s[KEYS];
    double        most = -INFINITY, sum = 0, size = 0, v_most = 0;
    for (int32_t j = p->lo[i]; j < p->hi[i]; j++) {
        double terms = 0;
        s[j] = 0;
        for (size_t e = 0; e < p->d; e++) {
            double x = (double)p->q[i * p->q_stride + e] * (double)p->k[(size_t)j * p->k_stride + e];
            s[j] += x * (double)p->scale, terms += fabs(x * (double)p->scale);
        }
        if (p->softcap > 0) s[j] = (double)p->softcap * tanh(s[j] / (double)p->softcap);
        most = fmax(most, s[j]), size = fmax(size, terms);
    }
    memset(want, 0, p->dv * sizeof *want);
    for (int32_t j = p->lo[i]; j < p->hi[i]; j++) {
        double w = exp(s[j] - most);
        sum += w;
        for (size_t e = 0; e < p->dv; e++) {
            double v = (double)p->v[(size_t)j * p->v_stride + e];
            want[e] += w * v, v_most = fmax(v_most, fabs(v));
        }
    }
    for (size_t e = 0; e < p->dv && sum > 0; e++) want[e] /= sum;
    if (as_rounded == NUMBERS) return 0x1p-7 * (1 + size) * v_most;
    return (double)(p->d + 64) * (double)FLT_EPSILON * (1 + size) * v_most +
           (as_rounded ? 0x1p-8 * v_most : 0);
}

static int one_trial(ph_dtype t, attend_fn *opt, unsigned trial) {
    if (as_rounded) a_call = trial % 2 ? KEYS : PH_ATTEND_KEYS;
    problem p = any_problem(t, trial);
    size_t  bytes = p.n_q * p.dv * sizeof(float);
    float  *acc = ck_buffer(bytes), *again = ck_buffer(bytes);
    float  *m[2] = {ck_buffer(p.n_q * sizeof(float)), ck_buffer(p.n_q * sizeof(float))};
    float  *l[2] = {ck_buffer(p.n_q * sizeof(float)), ck_buffer(p.n_q * sizeof(float))};
    double  want[256];
    run(t, opt, &p, 0, p.n_q, acc, m[0], l[0]);
    for (size_t i = 0; i < p.n_q; i++) {
        double bound = whole(&p, i, want);
        if (p.hi[i] <= p.lo[i] && (l[0][i] != 0 || !isinf(m[0][i])))
            return ck_fail("touched without a key: query", i);
        for (size_t e = 0; e < p.dv; e++) {
            float got = p.hi[i] > p.lo[i] ? acc[i * p.dv + e] / l[0][i] : acc[i * p.dv + e];
            if (!ck_close(got, (float)want[e], bound, "answer", i * p.dv + e)) return 0;
        }
        run(t, opt, &p, i, 1, again, m[1], l[1]);
    }
    return ck_same_floats(again, acc, p.n_q * p.dv, "acc query by query") &&
           ck_same_floats(m[1], m[0], p.n_q, "m query by query") &&
           ck_same_floats(l[1], l[0], p.n_q, "l query by query");
}

/* A first block that is masked whole, then one key; and a NaN that must show. */
static int masked(ph_dtype t, attend_fn *opt) {
    problem p = any_problem(t, 0);
    float   q = 1, acc = 0, m = 0, l = 0;
    int32_t lo = 0, hi = PH_ATTEND_KEYS + 1;
    p.q = &q, p.lo = &lo, p.hi = &hi;
    p.n_q = p.d = p.dv = p.q_stride = p.k_stride = p.v_stride = 1, p.scale = 1, p.softcap = 0;
    for (size_t j = 0; j < KEYS; j++) p.k[j] = j < PH_ATTEND_KEYS ? -INFINITY : 2.0f, p.v[j] = (float)j;
    store_both(t, &p, KEYS, KEYS);
    run(t, opt, &p, 0, 1, &acc, &m, &l);
    if (acc != (float)PH_ATTEND_KEYS || l != 1 || m != 2)
        return ck_fail("one key behind a masked block, of", 64);
    hi = PH_ATTEND_KEYS;
    run(t, opt, &p, 0, 1, &acc, &m, &l);
    if (acc != 0 || l != 0 || m > 0) return ck_fail("a masked block alone, of", 64);
    p.k[3] = NAN, store_both(t, &p, KEYS, KEYS);
    run(t, opt, &p, 0, 1, &acc, &m, &l);
    return isnan(acc) && isnan(l) ? 1 : ck_fail("NaN lost at key", 3);
}

/* A key whose weight would be subnormal weighs nothing, however large its value. */
static int far_key(ph_dtype t, attend_fn *opt) {
    problem p = any_problem(t, 0);
    float   q = 1, acc = 0, m = 0, l = 0;
    int32_t lo = 0, hi = 2;
    p.q = &q, p.lo = &lo, p.hi = &hi;
    p.n_q = p.d = p.dv = p.q_stride = p.k_stride = p.v_stride = 1, p.scale = 1, p.softcap = 0;
    for (size_t j = 0; j < KEYS; j++) p.k[j] = j ? -88.0f : 0.0f, p.v[j] = j ? 0x1p15f : 0.0f;
    store_both(t, &p, KEYS, KEYS);
    run(t, opt, &p, 0, 1, &acc, &m, &l);
    return acc == 0 && l == 1 && m == 0 ? 1 : ck_fail("a weight below FLT_MIN, of", 2);
}

/* The largest of scores that are far from 0 weighs 1, and those far below it nothing. */
static int large_scores(ph_dtype t, attend_fn *opt) {
    problem p = any_problem(t, 0);
    float   q = 1, acc = 0, m = 0, l = 0;
    int32_t lo = 0, hi = KEYS;
    p.q = &q, p.lo = &lo, p.hi = &hi;
    p.n_q = p.d = p.dv = p.q_stride = p.k_stride = p.v_stride = 1, p.scale = 0x1p30f, p.softcap = 0;
    for (int sign = -1; sign <= 1; sign += 2) {
        float top = sign < 0 ? -1.0f : 3.0f;
        for (size_t j = 0; j < KEYS; j++) p.k[j] = j == 70 ? top : (float)sign - 1, p.v[j] = (float)(j + 1);
        store_both(t, &p, KEYS, KEYS);
        run(t, opt, &p, 0, 1, &acc, &m, &l);
        if (acc != 71 || l != 1 || m != top * 0x1p30f)
            return ck_fail("the largest of scores far from 0, at", 70);
    }
    return 1;
}

/* Block types: a block's scale that is NaN must show, in the scores and in the values. */
static int shows_nan(ph_dtype t, attend_fn *opt) {
    for (int in_values = 0; in_values < 2; in_values++) {
        problem p = any_problem(t, 0);
        float  *acc = ck_buffer(p.dv * sizeof *acc), m, l;
        int32_t lo = 0, hi = 40;
        p.n_q = 1, p.lo = &lo, p.hi = &hi, p.q = ck_buffer(p.d * sizeof(float));
        for (size_t e = 0; e < p.d; e++) p.q[e] = 1;
        memcpy(in_values ? p.vs : p.ks, &(uint16_t){0x7e00}, 2);
        run(t, opt, &p, 0, 1, acc, &m, &l);
        if (!isnan(acc[0]) || (!in_values && !isnan(l)))
            return ck_fail("NaN lost; in values", (size_t)in_values);
    }
    ck_free_all();
    return 1;
}

static int check(ph_dtype t, attend_fn *opt) {
    for (unsigned trial = 0; trial < 150; trial++, ck_free_all())
        if (!one_trial(t, opt, trial)) return 0;
    return ph_dtype_block(t) > 1 ? shows_nan(t, opt)
                                 : masked(t, opt) && far_key(t, opt) && large_scores(t, opt);
}

static ck_work bench(ph_dtype t, attend_fn *fn, int many) {
    size_t n = many ? 64 : 4, d = 64;
    float *q = ck_bench_floats(n * d), *v = ck_bench_floats(64 * d);
    float *k = ck_bench_floats(64 * d + 1 + t); /* a type's own, packed once */
    if (k[64 * d] != 1) ph_dtype_get(t)->pack(k, v, 64 * d), k[64 * d] = 1;
    float  *acc = ck_bench_floats(n * d), *m = ck_bench_floats(n), *l = ck_bench_floats(n);
    float  *scratch = ck_bench_floats(n * 64), *keys = ck_bench_floats(PH_ATTEND_ROUNDED_FLOATS(n, d, d));
    int32_t lo[64] = {0}, hi[64];
    for (size_t i = 0; i < n; i++) hi[i] = 64, l[i] = 0, m[i] = -INFINITY;
    fn(&(ph_attend){.acc = acc,
                    .m = m,
                    .l = l,
                    .q = q,
                    .k = k,
                    .v = k,
                    .lo = lo,
                    .hi = hi,
                    .q_stride = d,
                    .k_stride = d,
                    .v_stride = d,
                    .n_q = n,
                    .d = d,
                    .dv = d,
                    .scale = 0.125f,
                    .scratch = scratch,
                    .keys = keys});
    return (ck_work){2.0 * (double)stored_bytes(t, 64 * d), 4.0 * 64 * (double)(n * d)};
}

#define ATTEND(T)                                                                                            \
    int check_attend_##T(const ph_kernels *ref, const ph_kernels *opt) {                                     \
        (void)ref; /* the oracle here is the softmax itself */                                               \
        return check(PH_##T, opt->attend_##T);                                                               \
    }                                                                                                        \
    ck_work bench_attend_##T(const ph_kernels *k, int many) {                                                \
        return bench(PH_##T, k->attend_##T, many);                                                           \
    }
ATTEND(F32)
ATTEND(F16)
ATTEND(BF16)
ATTEND(Q8_0)
ATTEND(Q4_1)

int check_attend_rows(const ph_kernels *ref, const ph_kernels *opt) {
    (void)ref;
    as_rows = 1;
    int ok = check(PH_F32, opt->attend_rows);
    as_rows = 0;
    return ok;
}
int check_attend_rounded(const ph_kernels *ref, const ph_kernels *opt) {
    (void)ref;
    int ok = 1;
    as_rows = 1;
    for (as_rounded = NUMBERS; ok && as_rounded <= WEIGHTS; as_rounded++)
        ok = check(PH_F32, opt->attend_rounded);
    as_rows = as_rounded = 0, a_call = PH_ATTEND_KEYS;
    return ok;
}
ck_work bench_attend_rounded(const ph_kernels *k, int many) {
    return bench(PH_F32, k->attend_rounded, many);
}
ck_work bench_attend_rows(const ph_kernels *k, int many) {
    return bench(PH_F32, k->attend_rows, many);
}
