/* dtype_test.c - the storage types against tests/golden/quant, and against each other. */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/storage.h"
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/tensor/tests.def"
#undef PH_TEST

/* The golden bytes of (type, what); NULL and a failed check when there are none. */
typedef struct golden {
    const uint8_t *bytes;
    size_t         rows, n;
    double         rmse;
} golden;

static uint8_t golden_bytes[1 << 20];

static size_t golden_load(void) {
    static size_t n;
    if (n) return n;
    FILE *f = fopen("tests/golden/quant/blocks.bin", "rb");
    CHECK(f);
    if (!f) return 0;
    n = fread(golden_bytes, 1, sizeof golden_bytes, f);
    fclose(f);
    return n;
}

static golden golden_find(const char *type, const char *what) {
    size_t total = golden_load();
    FILE  *f = fopen("tests/golden/quant/blocks.txt", "r");
    char   line[128], t[16], w[16];
    golden g = {0};
    while (f && fgets(line, sizeof line, f)) {
        size_t at;
        golden row;
        if (sscanf(line, "%15s %15s %zu %zu %zu %lf", t, w, &row.rows, &at, &row.n, &row.rmse) != 6) continue;
        if (strcmp(t, type) || strcmp(w, what) || at + row.n > total) continue;
        g = row;
        g.bytes = golden_bytes + at;
    }
    if (f) fclose(f);
    CHECK_SAY(g.bytes, "no golden %s %s", type, what);
    return g;
}

static int same_floats(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ph_float_bits(a[i]) != ph_float_bits(b[i])) return 0;
    return 1;
}

static double rms_gap(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)n);
}

void test_dtype_table(void) {
    for (int t = 0; t < PH_N_DTYPES; t++) {
        ph_dtype back;
        CHECK(ph_dtype_get((ph_dtype)t)->unpack && ph_dtype_get((ph_dtype)t)->source);
        CHECK(ph_dtype_from_name(ph_dtype_name((ph_dtype)t), &back) && back == (ph_dtype)t);
        if (ph_dtype_gguf((ph_dtype)t) >= 0)
            CHECK(ph_dtype_from_gguf((uint32_t)ph_dtype_gguf((ph_dtype)t), &back) && back == (ph_dtype)t);
    }
    ph_dtype t;
    CHECK(ph_dtype_from_name("q4_k", &t) && t == PH_Q4_K);
    CHECK(!ph_dtype_from_name("Q4", &t) && !ph_dtype_from_name("", &t));
    CHECK(!ph_dtype_from_gguf(4, &t) && !ph_dtype_from_gguf(UINT32_MAX, &t));
    CHECK(ph_dtype_block(PH_Q6_K) == 256 && ph_dtype_bytes(PH_Q6_K) == 210);
}

void test_dtype_row_bytes(void) {
    size_t n = 7;
    CHECK(!ph_dtype_row_bytes(PH_Q4_0, 64, &n, NULL) && n == 36);
    CHECK(!ph_dtype_row_bytes(PH_F32, 0, &n, NULL) && n == 0);
    CHECK(ph_dtype_row_bytes(PH_Q4_0, 33, &n, NULL) == PH_EFORMAT);
    CHECK(ph_dtype_row_bytes(PH_F32, -1, &n, NULL) == PH_EFORMAT);
    CHECK(ph_dtype_row_bytes(PH_F64, INT64_MAX, &n, NULL) == PH_ELIMIT);
}

/* Every binary16 and bfloat16 goes to float and back; between two neighbours the rounding picks the nearer.
 */
void test_half_every_pattern(void) {
    int wrong = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t u = (uint16_t)h;
        float    f = ph_f16_to_f32(u), b = ph_bf16_to_f32(u);
        if (isnan(f))
            wrong += !isnan(ph_f16_to_f32(ph_f32_to_f16(f)));
        else
            wrong += ph_f32_to_f16(f) != u;
        if (isnan(b))
            wrong += !isnan(ph_bf16_to_f32(ph_f32_to_bf16(b)));
        else
            wrong += ph_f32_to_bf16(b) != u;
        uint32_t magnitude = h & 0x7fff;
        if (magnitude >= 0x7bff) continue;
        double next = (double)ph_f16_to_f32((uint16_t)(u + 1)), middle = ((double)f + next) / 2;
        wrong += ph_f32_to_f16((float)middle) != (u & 1 ? u + 1 : u);
        wrong += ph_f32_to_f16(nextafterf((float)middle, f)) != u;
        wrong += ph_f32_to_f16(nextafterf((float)middle, (float)next)) != u + 1;
        /* The exponent's meaning, by arithmetic instead of bits. */
        int    exponent = (int)(magnitude >> 10);
        double value = exponent ? ldexp(1024 + (magnitude & 1023), exponent - 25) : ldexp(magnitude, -24);
        wrong += fabs((double)f) != value;
    }
    CHECK_SAY(wrong == 0, "%d patterns", wrong);
    CHECK(ph_f32_to_f16(65519.996f) == 0x7bff && ph_f32_to_f16(65520.0f) == 0x7c00);
    CHECK(ph_f32_to_f16(-INFINITY) == 0xfc00 && ph_f32_to_bf16(FLT_MAX) == 0x7f80);
}

void test_half_rounding_golden(void) {
    golden in = golden_find("-", "f32"), f16 = golden_find("-", "f16_numpy");
    golden bf16 = golden_find("-", "bf16_torch"), quiet = golden_find("-", "bf16_gguf");
    if (!in.bytes || !f16.bytes || !bf16.bytes || !quiet.bytes) return;
    int wrong = 0;
    for (size_t i = 0; i < in.rows; i++) {
        float    x;
        uint16_t want_f16, want_bf16, want_quiet;
        memcpy(&x, in.bytes + 4 * i, sizeof x);
        memcpy(&want_f16, f16.bytes + 2 * i, 2);
        memcpy(&want_bf16, bf16.bytes + 2 * i, 2);
        if (isnan(x))
            wrong += !isnan(ph_f16_to_f32(ph_f32_to_f16(x)));
        else
            wrong += ph_f32_to_f16(x) != want_f16 || ph_f32_to_bf16(x) != want_bf16;
        if (i >= quiet.rows) continue; /* this golden covers whole groups of 32 only */
        memcpy(&want_quiet, quiet.bytes + 2 * i, 2);
        wrong += ph_f32_to_bf16(x) != want_quiet;
    }
    CHECK_SAY(wrong == 0, "%d values", wrong);
}

/* Every E4M3 and E5M2 by what its digits mean, and rounding at, below and above each middle. */
static int wrong_float8(ph_dtype t, int fraction, int bias, unsigned largest) {
    const ph_dtype_def *def = ph_dtype_get(t);
    int                 wrong = 0;
    for (unsigned v = 0; v < 256; v++) {
        uint8_t  u = (uint8_t)v, back;
        unsigned magnitude = v & 127, e = magnitude >> fraction, m = magnitude & ((1u << fraction) - 1);
        float    f, sign = v & 128 ? -1.0f : 1.0f;
        def->unpack(&f, &u, 1);
        def->pack(&back, &f, 1);
        if (magnitude > largest) { /* infinities and NaNs */
            wrong += isfinite(f) || (isnan(f) ? (back & 127) <= largest : back != u);
            continue;
        }
        double value = ldexp(e ? (1 << fraction) + (int)m : (int)m, (e ? (int)e : 1) - bias - fraction);
        wrong += fabs((double)f) != value || (signbit(f) != 0) != (v > 127) || back != u;
        if (magnitude == largest) continue;
        float   next;
        uint8_t up = (uint8_t)(v + 1), middle, below, above;
        def->unpack(&next, &up, 1);
        float half = sign * (fabsf(f) + fabsf(next)) / 2, low = nextafterf(half, 0),
              high = nextafterf(half, sign * INFINITY);
        def->pack(&middle, &half, 1);
        def->pack(&below, &low, 1);
        def->pack(&above, &high, 1);
        wrong += middle != (v & 1 ? up : u) || below != u || above != up;
    }
    return wrong;
}

void test_float8_every_pattern(void) {
    CHECK(!wrong_float8(PH_F8_E4M3, 3, 7, 0x7e));
    CHECK(!wrong_float8(PH_F8_E5M2, 2, 15, 0x7b));
}

static void float8_golden(ph_dtype t, const char *of, const char *to) {
    golden in = golden_find("-", "f32"), code = golden_find("-", of), value = golden_find("-", to);
    int    wrong = 0;
    if (!in.bytes || !code.bytes || !value.bytes) return;
    for (size_t i = 0; i < in.rows; i++) {
        float   x, ours_back, ref_back;
        uint8_t ours;
        memcpy(&x, in.bytes + 4 * i, sizeof x);
        ph_dtype_get(t)->pack(&ours, &x, 1);
        ph_dtype_get(t)->unpack(&ours_back, &ours, 1);
        ph_dtype_get(t)->unpack(&ref_back, code.bytes + i, 1);
        wrong += ours != code.bytes[i] && !(isnan(ours_back) && isnan(ref_back));
    }
    for (unsigned v = 0; v < 256; v++) {
        float   ours, ref;
        uint8_t u = (uint8_t)v;
        memcpy(&ref, value.bytes + 4 * v, sizeof ref);
        ph_dtype_get(t)->unpack(&ours, &u, 1);
        wrong += !(isnan(ours) && isnan(ref)) && !same_floats(&ours, &ref, 1);
    }
    CHECK_SAY(!wrong, "%s: %d values", ph_dtype_name(t), wrong);
}

void test_float8_golden(void) {
    float8_golden(PH_F8_E4M3, "e4m3fn_of", "e4m3fn_to");
    float8_golden(PH_F8_E5M2, "e5m2_of", "e5m2_to");
}

/* How packing is held to the reference: to its bytes, to its error (our own search), or not at all. */
enum { EXACT, SEARCHED, ONLY_READ, BY_HAND };
static const struct {
    ph_dtype type;
    int      how, has_edge, has_random;
} stored[] = {
    {PH_F16, EXACT, 0, 0},       {PH_BF16, EXACT, 0, 0},        {PH_Q8_0, EXACT, 1, 1},
    {PH_Q4_0, EXACT, 1, 1},      {PH_Q4_1, EXACT, 1, 1},        {PH_Q5_0, EXACT, 1, 1},
    {PH_Q5_1, EXACT, 1, 1},      {PH_MXFP4, EXACT, 0, 0},       {PH_TQ1_0, EXACT, 0, 1},
    {PH_TQ2_0, EXACT, 0, 1},     {PH_NVFP4, EXACT, 0, 1},       {PH_Q4_K, SEARCHED, 1, 1},
    {PH_Q6_K, SEARCHED, 1, 1},   {PH_Q5_K, SEARCHED, 1, 1},     {PH_Q2_K, SEARCHED, 0, 1},
    {PH_Q3_K, SEARCHED, 0, 1},   {PH_IQ4_NL, SEARCHED, 0, 1},   {PH_IQ4_XS, SEARCHED, 0, 1},
    {PH_Q8_K, BY_HAND, 0, 0},    {PH_IQ2_XXS, ONLY_READ, 0, 1}, {PH_IQ2_XS, ONLY_READ, 0, 1},
    {PH_IQ2_S, ONLY_READ, 0, 1}, {PH_IQ3_XXS, ONLY_READ, 0, 1}, {PH_IQ3_S, ONLY_READ, 0, 1},
    {PH_IQ1_S, ONLY_READ, 0, 1}, {PH_IQ1_M, ONLY_READ, 0, 1},
};
enum { N_STORED = sizeof stored / sizeof *stored };

static void unpack_equals(ph_dtype t, const char *q_name, const char *deq_name) {
    static float got[32 * 256];
    golden       q = golden_find(ph_dtype_name(t), q_name), deq = golden_find(ph_dtype_name(t), deq_name);
    if (!q.bytes || !deq.bytes) return;
    size_t n = deq.n / sizeof(float);
    ph_dtype_get(t)->unpack(got, q.bytes, n);
    CHECK_SAY(same_floats(got, (const float *)(const void *)deq.bytes, n), "%s %s", ph_dtype_name(t), q_name);
}

void test_unpack_golden(void) {
    for (size_t i = 0; i < N_STORED; i++) {
        ph_dtype t = stored[i].type;
        CHECK((stored[i].how == ONLY_READ) == !ph_dtype_get(t)->pack);
        if (stored[i].how == BY_HAND) continue;
        unpack_equals(t, "q", "deq");
        if (stored[i].has_edge) unpack_equals(t, "edge_q", "edge_deq");
        if (stored[i].has_random) unpack_equals(t, "random_q", "random_deq");
    }
}

static void pack_equals(ph_dtype t, const char *x_name, const char *q_name) {
    static uint8_t got[32 * 1024];
    golden         x = golden_find("-", x_name), q = golden_find(ph_dtype_name(t), q_name);
    if (!x.bytes || !q.bytes) return;
    ph_dtype_get(t)->pack(got, (const float *)(const void *)x.bytes, q.rows * 256);
    size_t differ = 0;
    for (size_t i = 0; i < q.n; i++) differ += got[i] != q.bytes[i];
    CHECK_SAY(differ == 0, "%s %s: %zu of %zu bytes", ph_dtype_name(t), q_name, differ, q.n);
}

void test_pack_exact_golden(void) {
    for (size_t i = 0; i < N_STORED; i++) {
        if (stored[i].how != EXACT) continue;
        pack_equals(stored[i].type, "x", "q");
        if (stored[i].has_edge) pack_equals(stored[i].type, "edge", "edge_q");
    }
}

/* Our own search must not lose more than 2 % against the reference's, on any row of the edge set either. */
static void pack_is_close(ph_dtype t, const char *x_name, const char *deq_name, int each_row) {
    static uint8_t packed[32 * 1024];
    static float   got[32 * 256];
    golden         x = golden_find("-", x_name), deq = golden_find(ph_dtype_name(t), deq_name);
    if (!x.bytes || !deq.bytes) return;
    const float *want = (const float *)(const void *)x.bytes,
                *theirs = (const float *)(const void *)deq.bytes;
    size_t n = x.rows * 256, n_both = deq.rows * 256, step = each_row ? 256 : n_both;
    ph_dtype_get(t)->pack(packed, want, n);
    ph_dtype_get(t)->unpack(got, packed, n);
    for (size_t i = 0; i < n_both; i += step) { /* of some types the golden has the first rows only */
        double ours = rms_gap(got + i, want + i, step), reference = rms_gap(theirs + i, want + i, step);
        double most = 0;
        for (size_t k = i; k < i + step; k++) most = fmax(most, fabs((double)want[k]));
        CHECK_SAY(ours <= 1.02 * reference + 1e-6 * most, "%s %s row %zu: rmse %.9f, reference %.9f",
                  ph_dtype_name(t), x_name, i / 256, ours, reference);
    }
    double all = rms_gap(got, want, n);
    if (!each_row)
        CHECK_SAY(all <= 1.02 * deq.rmse, "%s: rmse %.9f, stated %.9f", ph_dtype_name(t), all, deq.rmse);
}

void test_pack_search_golden(void) {
    for (size_t i = 0; i < N_STORED; i++) {
        if (stored[i].how != SEARCHED) continue;
        pack_is_close(stored[i].type, "x", "deq", 0);
        if (stored[i].has_edge) pack_is_close(stored[i].type, "edge", "edge_deq", 1);
    }
}

/* One block whose numbers can be said by hand: levels -127 .. 127 under d = 1/2, and sums of sixteen. */
void test_q8_k_by_hand(void) {
    float   x[256], back[256];
    uint8_t p[292];
    int     wrong = 0;
    for (int i = 0; i < 256; i++) x[i] = 0.5f * (float)(i % 255 - 127);
    ph_dtype_get(PH_Q8_K)->pack(p, x, 256);
    ph_dtype_get(PH_Q8_K)->unpack(back, p, 256);
    CHECK(same_floats(x, back, 256));
    for (int g = 0; g < 16; g++) {
        int16_t sum;
        int     want = 0;
        memcpy(&sum, p + 260 + 2 * g, 2);
        for (int i = 0; i < 16; i++) want += (int8_t)p[4 + 16 * g + i];
        wrong += sum != want;
    }
    CHECK(!wrong);
}

/* Not numbers, infinities and overflow must pack to something that is read back; UBSan watches the casts. */
void test_pack_hostile_values(void) {
    static const float hostile[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45f, -0.0f};
    enum { KINDS = sizeof hostile / sizeof *hostile };
    uint8_t *packed = malloc(1024);
    float    x[256], back[256];
    for (size_t i = 0; i < N_STORED && packed; i++)
        for (size_t kind = 0; kind <= KINDS; kind++) {
            const ph_dtype_def *def = ph_dtype_get(stored[i].type);
            if (!def->pack) continue;
            for (size_t k = 0; k < 256; k++)
                x[k] = kind == KINDS || k == 3 ? hostile[(kind + k) % KINDS] : (float)k - 100;
            def->pack(packed, x, 256);
            def->unpack(back, packed, 256);
            /* A block of small numbers beside one tiny one is still itself, if it has levels enough. */
            if (stored[i].type != PH_TQ1_0 && stored[i].type != PH_TQ2_0 && kind != KINDS &&
                (kind + 3) % KINDS >= 5)
                CHECK_SAY(rms_gap(back + 4, x + 4, 252) < 12, "%s", ph_dtype_name(stored[i].type));
        }
    CHECK(packed);
    free(packed);
}

void test_storage_row(void) {
    int16_t    table[3][4] = {{1, 2, 3, 99}, {-4, 5, 6, 99}, {7, 8, -9, 99}};
    ph_storage s = ph_storage_of(PH_I16, table, sizeof table, sizeof table[0]);
    float      row[3] = {0};
    CHECK(s.n_planes == 1 && s.plane[PH_PLANE_SCALE].bytes == NULL);
    ph_storage_row(&s, 2, 3, row); /* a view: three of four columns */
    CHECK(lrintf(row[0]) == 7 && lrintf(row[1]) == 8 && lrintf(row[2]) == -9);
}
