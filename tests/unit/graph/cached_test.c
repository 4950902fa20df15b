/* cached_test.c - CachedAttention against sums written out, and its promises about chunks and neighbours. */
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include "tensor/half.h"

#include <math.h>
#include <stdlib.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { HQ = 4, HKV = 2, DK = 6, DV = 5, TOKENS = 150, LAYERS = 2 };
static ph_kv_layer layer[LAYERS] = {{HKV, DK, DV}, {HKV, DK, DV}};

typedef struct set { /* one sequence of random numbers */
    float   q[TOKENS][HQ][DK], k[TOKENS][HKV][DK], v[TOKENS][HKV][DV], y[TOKENS][HQ][DV];
    int32_t rows[TOKENS][PH_ROW_FIELDS];
} set;

typedef struct knobs {
    double scale, softcap;
    int    window, is_bidirectional;
} knobs;

static void fill(set *s, uint64_t seed, int sequence, const knobs *o) {
    uint64_t state = seed;
    memset(s, 0, sizeof *s);
    gh_fill(&s->q[0][0][0], TOKENS * HQ * DK, &state);
    gh_fill(&s->k[0][0][0], TOKENS * HKV * DK, &state);
    gh_fill(&s->v[0][0][0], TOKENS * HKV * DV, &state);
    for (int t = 0; t < TOKENS; t++) {
        s->rows[t][PH_ROW_SEQUENCE] = sequence;
        s->rows[t][PH_ROW_INDEX] = t;
        /* Tokens 20 .. 89 see each other in both directions when asked to. */
        s->rows[t][PH_ROW_SPAN] = o->is_bidirectional && t >= 20 && t < 90 ? 90 : t + 1;
    }
}

static ph_graph *graph_of(const knobs *o) {
    ph_graph *g;
    ph_err    err;
    CHECK(!ph_graph_open(&g, "cached", &err));
    int q = ph_graph_input(g, "q", PH_F32, ph_shape_of(2, GH_S(R), GH_D(HQ * DK)));
    int k = ph_graph_input(g, "k", PH_F32, ph_shape_of(2, GH_S(R), GH_D(HKV * DK)));
    int v = ph_graph_input(g, "v", PH_F32, ph_shape_of(2, GH_S(R), GH_D(HKV * DV)));
    int rows = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, GH_S(R), GH_D(PH_ROW_FIELDS)));
    int kv = ph_graph_state(g, "kv");
    ph_graph_node(g, "CachedAttention", PH_IN(q, k, v, rows, kv),
                  PH_ATTRS(PH_INT("layer", 1), PH_INT("num_heads", HQ), PH_INT("kv_num_heads", HKV),
                           PH_FLOAT("scale", o->scale), PH_FLOAT("softcap", o->softcap),
                           PH_INT("window", o->window)),
                  "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

static ph_kv *cache_of(ph_dtype dtype) {
    ph_kv     *kv = NULL;
    ph_err     err;
    ph_kv_spec spec = {layer, LAYERS, 3, 400, 1200, dtype};
    CHECK(!ph_kv_open(&kv, &spec, &err));
    return kv;
}

/* Rows first .. last-1 of a set as one step. */
static ph_rc step(const ph_graph *g, ph_kv *kv, set *s, int first, int last, ph_err *err) {
    ph_kernels kernels = gh_kernels();
    ph_arena   arena;
    ph_array   y;
    int64_t    n = last - first;
    ph_syms    syms = {{n}};
    ph_feed    feeds[] = {{"q", gh_array(PH_F32, s->q[first], 2, n, HQ * DK, 0, 0)},
                          {"k", gh_array(PH_F32, s->k[first], 2, n, HKV * DK, 0, 0)},
                          {"v", gh_array(PH_F32, s->v[first], 2, n, HKV * DV, 0, 0)},
                          {"rows", gh_array(PH_I32, s->rows[first], 2, n, PH_ROW_FIELDS, 0, 0)},
                          {"kv", {.kv = kv}}};
    CHECK(!ph_arena_open_growing(&arena, 1 << 14, err));
    ph_rc rc = ph_graph_eval(g, &syms, feeds, 5, "y", &y, &kernels, &arena, err);
    if (!rc) memcpy(s->y[first], y.data, sizeof(float) * (size_t)n * HQ * DV);
    ph_arena_close(&arena);
    return rc;
}

/* The whole sequence in chunks. */
static void run_set(set *s, const knobs *o, ph_dtype dtype, int chunk) {
    ph_graph *g = graph_of(o);
    ph_kv    *kv = cache_of(dtype);
    ph_err    err = {0};
    int       sequence;
    CHECK(!ph_kv_begin(kv, &sequence, &err));
    for (int at = 0; at < TOKENS; at += chunk) {
        int end = at + chunk < TOKENS ? at + chunk : TOKENS;
        CHECK(!ph_kv_extend(kv, sequence, end, &err));
        ph_rc rc = step(g, kv, s, at, end, &err);
        CHECK_SAY(!rc, "%s", err.msg);
    }
    ph_kv_close(kv);
    ph_graph_close(g);
}

static double round_as(float x, ph_dtype dtype) {
    return dtype == PH_F16 ? (double)ph_f16_to_f32(ph_f32_to_f16(x)) : (double)x;
}

/* softmax written out in double. */
static double expect(const set *s, const knobs *o, ph_dtype dtype, int t, int h, int i) {
    static double p[TOKENS];
    int           kv = h / (HQ / HKV), end = s->rows[t][PH_ROW_SPAN];
    int           from = o->window && t + 1 > o->window ? t + 1 - o->window : 0;
    double        most = -INFINITY, sum = 0, y = 0;
    for (int j = from; j < end; j++) {
        double dot = 0;
        for (int d = 0; d < DK; d++) dot += (double)s->q[t][h][d] * round_as(s->k[j][kv][d], dtype);
        p[j] = o->scale * dot;
        if (o->softcap > 0) p[j] = o->softcap * tanh(p[j] / o->softcap);
        if (p[j] > most) most = p[j];
    }
    for (int j = from; j < end; j++) {
        double e = exp(p[j] - most);
        sum += e;
        y += e * round_as(s->v[j][kv][i], dtype);
    }
    return y / sum;
}

static void compare(const set *s, const knobs *o, ph_dtype dtype) {
    double worst = 0;
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HQ; h++)
            for (int i = 0; i < DV; i++) {
                double d = fabs((double)s->y[t][h][i] - expect(s, o, dtype, t, h, i));
                if (!(d <= worst)) worst = d;
            }
    CHECK_SAY(worst < 2e-6, "off by %g", worst);
}

static set one, two;

void test_cached_equals_dense(void) {
    const knobs o = {.scale = 0.4};
    fill(&one, 1, 0, &o);
    run_set(&one, &o, PH_F32, TOKENS);
    compare(&one, &o, PH_F32);
}

/* Any chunk, and any company, gives the same bits. */
void test_cached_chunks_and_neighbours(void) {
    const knobs o = {.scale = 0.4};
    ph_err      err = {0};
    int         a = 0, b = 0;
    fill(&one, 1, 0, &o);
    run_set(&one, &o, PH_F32, TOKENS);
    for (int chunk = 1; chunk < TOKENS; chunk = chunk * 4 + 3) {
        fill(&two, 1, 0, &o);
        run_set(&two, &o, PH_F32, chunk);
        CHECK_SAY(!memcmp(one.y, two.y, sizeof one.y), "chunk %d", chunk);
    }
    ph_graph *g = graph_of(&o);
    ph_kv    *kv = cache_of(PH_F32);
    CHECK(!ph_kv_begin(kv, &b, &err) && !ph_kv_begin(kv, &a, &err));
    CHECK(!ph_kv_extend(kv, a, TOKENS, &err) && !ph_kv_extend(kv, b, TOKENS, &err));
    static set mixed;
    fill(&two, 2, b, &o);
    fill(&one, 1, a, &o);
    for (int t = 0; t < TOKENS; t += 2) { /* rows of both sequences in turn */
        mixed = one;
        for (int i = 0; i < 2; i++) {
            int        to = t + i;
            const set *from = i ? &two : &one;
            memcpy(mixed.q[to], from->q[t / 2], sizeof mixed.q[0]);
            memcpy(mixed.k[to], from->k[t / 2], sizeof mixed.k[0]);
            memcpy(mixed.v[to], from->v[t / 2], sizeof mixed.v[0]);
            memcpy(mixed.rows[to], from->rows[t / 2], sizeof mixed.rows[0]);
        }
        CHECK(!step(g, kv, &mixed, t, t + 2, &err));
        memcpy(one.y[t / 2], mixed.y[t], sizeof one.y[0]);
    }
    fill(&two, 1, 0, &o);
    run_set(&two, &o, PH_F32, 16);
    CHECK(!memcmp(one.y, two.y, sizeof(one.y[0]) * (TOKENS / 2)));
    ph_kv_close(kv);
    ph_graph_close(g);
}

void test_cached_window_span_softcap(void) {
    const knobs sets[] = {{.scale = 0.4, .window = 10},
                          {.scale = 0.4, .window = 70},
                          {.scale = 0.4, .is_bidirectional = 1},
                          {.scale = 3, .softcap = 1.5},
                          {.scale = 1, .softcap = 4, .window = 64, .is_bidirectional = 1}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        fill(&one, 10 + i, 0, &sets[i]);
        run_set(&one, &sets[i], PH_F32, TOKENS);
        compare(&one, &sets[i], PH_F32);
    }
}

void test_cached_half(void) {
    const knobs o = {.scale = 0.4};
    fill(&one, 1, 0, &o);
    run_set(&one, &o, PH_F16, 33);
    compare(&one, &o, PH_F16);
}

void test_cached_refuses(void) {
    const knobs o = {.scale = 0.4};
    ph_graph   *g = graph_of(&o);
    ph_kv      *kv = cache_of(PH_F32), *narrow;
    ph_err      err = {0};
    int         s;
    CHECK(!ph_kv_begin(kv, &s, &err) && !ph_kv_extend(kv, s, 10, &err));
    const struct {
        int field, to;
    } faults[] = {{PH_ROW_INDEX, 10},   {PH_ROW_INDEX, -1},       {PH_ROW_SPAN, 11},    {PH_ROW_SPAN, -1},
                  {PH_ROW_SEQUENCE, 2}, {PH_ROW_SEQUENCE, 77777}, {PH_ROW_SEQUENCE, -1}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        fill(&one, 1, s, &o);
        one.rows[4][faults[i].field] = faults[i].to;
        CHECK_SAY(step(g, kv, &one, 0, 10, &err) == PH_EMISMATCH && strstr(err.msg, "row 4"), "%zu: %s", i,
                  err.msg);
    }
    ph_kv_layer other[] = {{HKV, DK, DV}, {HKV, DK, DV + 1}};
    ph_kv_spec  spec = {other, 2, 1, 64, 64, PH_F32};
    CHECK(!ph_kv_open(&narrow, &spec, &err));
    CHECK(step(g, narrow, &one, 0, 1, &err) == PH_EMISMATCH && strstr(err.msg, "layer 1"));
    CHECK(step(g, NULL, &one, 0, 1, &err) == PH_EMISMATCH);
    ph_kv_close(narrow);
    ph_kv_close(kv);
    int q = ph_graph_find(g, "q"), k = ph_graph_find(g, "k"), v = ph_graph_find(g, "v");
    ph_graph_node(g, "CachedAttention", PH_IN(q, k, v, ph_graph_find(g, "rows"), ph_graph_find(g, "kv")),
                  PH_ATTRS(PH_INT("layer", 0), PH_INT("num_heads", HQ), PH_INT("kv_num_heads", HKV),
                           PH_INT("entropy", 1)),
                  "tapped");
    CHECK(ph_graph_finish(g, &err) == PH_EUNSUP);
    ph_graph_close(g);
}
