/* cached_test.c - CachedAttention against sums written out, and its promises about chunks and neighbours. */
#include "graph/onnx/onnx_in.h"
#include "graph/onnx/onnx_out.h"
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
    ph_kv_spec spec = {layer, LAYERS, 3, 400, 1200, dtype, 0};
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

static float half(float x) {
    return ph_f16_to_f32(ph_f32_to_f16(x));
}

/* Element i of n numbers after their way through blocks of 32 (n <= 32; the last number fills the block). */
static double through(ph_dtype dtype, const float *x, int n, int i) {
    unsigned char bytes[64];
    float         in[32], out[32];
    for (int j = 0; j < 32; j++) in[j] = x[j < n ? j : n - 1];
    ph_dtype_get(dtype)->pack(bytes, in, ph_dtype_block(dtype) == 1 ? 1 : 32);
    if (ph_dtype_block(dtype) == 1) {
        ph_dtype_get(dtype)->pack(bytes, &in[i], 1);
        ph_dtype_get(dtype)->unpack(&out[i], bytes, 1);
    } else {
        ph_dtype_get(dtype)->unpack(out, bytes, 32);
    }
    return (double)out[i];
}

/* Key j as token t sees it: by channel, pages before t's are settled, the others F16. */
static double key_seen(const set *s, ph_dtype dtype, int t, int j, int kv, int d) {
    float channel[32];
    if (dtype != PH_Q4_1) return through(dtype, s->k[j][kv], DK, d);
    if (j / PH_KV_PAGE >= t / PH_KV_PAGE) return (double)half(s->k[j][kv][d]);
    for (int i = 0; i < 32; i++) channel[i] = half(s->k[j / 32 * 32 + i][kv][d]);
    return through(dtype, channel, 32, j % 32);
}

static double value_seen(const set *s, ph_dtype dtype, int t, int j, int kv, int i) {
    float row[DV];
    if (dtype != PH_Q4_1) return through(dtype, s->v[j][kv], DV, i);
    for (int e = 0; e < DV; e++) row[e] = half(s->v[j][kv][e]);
    return j / PH_KV_PAGE >= t / PH_KV_PAGE ? (double)row[i] : through(dtype, row, DV, i);
}

/* softmax written out in double. */
static double expect(const set *s, const knobs *o, ph_dtype dtype, int t, int h, int i) {
    static double p[TOKENS];
    int           kv = h / (HQ / HKV), end = s->rows[t][PH_ROW_SPAN];
    int           from = o->window && t + 1 > o->window ? t + 1 - o->window : 0;
    double        most = -INFINITY, sum = 0, y = 0;
    for (int j = from; j < end; j++) {
        double dot = 0;
        for (int d = 0; d < DK; d++) dot += (double)s->q[t][h][d] * key_seen(s, dtype, t, j, kv, d);
        p[j] = o->scale * dot;
        if (o->softcap > 0) p[j] = o->softcap * tanh(p[j] / o->softcap);
        if (p[j] > most) most = p[j];
    }
    for (int j = from; j < end; j++) {
        double e = exp(p[j] - most);
        sum += e;
        y += e * value_seen(s, dtype, t, j, kv, i);
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
static void chunks_and_neighbours(ph_dtype dtype) {
    const knobs o = {.scale = 0.4};
    ph_err      err = {0};
    int         a = 0, b = 0;
    fill(&one, 1, 0, &o);
    run_set(&one, &o, dtype, TOKENS);
    for (int chunk = 1; chunk < TOKENS; chunk = chunk * 4 + 3) {
        fill(&two, 1, 0, &o);
        run_set(&two, &o, dtype, chunk);
        CHECK_SAY(!memcmp(one.y, two.y, sizeof one.y), "%s, chunk %d", ph_dtype_name(dtype), chunk);
    }
    ph_graph *g = graph_of(&o);
    ph_kv    *kv = cache_of(dtype);
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
    run_set(&two, &o, dtype, 16);
    CHECK(!memcmp(one.y, two.y, sizeof(one.y[0]) * (TOKENS / 2)));
    ph_kv_close(kv);
    ph_graph_close(g);
}

static const ph_dtype types[] = {PH_F32, PH_F16, PH_BF16, PH_Q8_0, PH_Q4_1};
enum { N_TYPES = sizeof types / sizeof *types };

void test_cached_chunks_and_neighbours(void) {
    for (int i = 0; i < N_TYPES; i++) chunks_and_neighbours(types[i]);
}

/* Cut off anywhere and gone on from where the cache says, with other tokens first: as if never cut. */
static void cut(ph_dtype dtype, int chunk, int wrong, int at) {
    const knobs o = {.scale = 0.4};
    ph_err      err = {0};
    ph_graph   *g = graph_of(&o);
    ph_kv      *kv = cache_of(dtype);
    int         s, from = 0;
    CHECK(!ph_kv_begin(kv, &s, &err));
    fill(&two, 1, s, &o);
    for (int t = at; t < TOKENS; t++) memset(two.k[t], 0x11, sizeof two.k[t]); /* thrown away later */
    CHECK(!ph_kv_extend(kv, s, wrong, &err));
    for (int t = 0; t < wrong; t += chunk)
        CHECK(!step(g, kv, &two, t, t + chunk < wrong ? t + chunk : wrong, &err));
    from = ph_kv_truncate(kv, s, at);
    CHECK_SAY(from == at || (dtype == PH_Q4_1 && from == at / 64 * 64), "%d goes on at %d", at, from);
    CHECK(ph_kv_length(kv, s) == from);
    fill(&two, 1, s, &o);
    memcpy(two.y, one.y, sizeof(one.y[0]) * (size_t)from);
    for (int t = from; t < TOKENS; t += chunk) {
        int end = t + chunk < TOKENS ? t + chunk : TOKENS;
        CHECK(!ph_kv_extend(kv, s, end, &err));
        ph_rc rc = step(g, kv, &two, t, end, &err);
        CHECK_SAY(!rc, "%s", err.msg);
    }
    CHECK_SAY(!memcmp(one.y, two.y, sizeof one.y), "%s, chunk %d, %d tokens cut to %d", ph_dtype_name(dtype),
              chunk, wrong, at);
    ph_kv_close(kv);
    ph_graph_close(g);
}

void test_cached_cut(void) {
    static const int wrongs[] = {40, 64, 100, 128, 150}, ats[] = {0, 1, 33, 63, 64, 65, 99, 127, 128, 140};
    const knobs      o = {.scale = 0.4};
    for (int i = 0; i < N_TYPES; i++) {
        fill(&one, 1, 0, &o);
        run_set(&one, &o, types[i], TOKENS);
        for (size_t w = 0; w < sizeof wrongs / sizeof *wrongs; w++)
            for (size_t a = 0; a < sizeof ats / sizeof *ats; a++)
                for (int chunk = 1; chunk < TOKENS && ats[a] < wrongs[w]; chunk = chunk * 5 + 2)
                    cut(types[i], chunk, wrongs[w], ats[a]);
    }
}

/* Pages taken over from another sequence, and its own tokens behind. */
void test_cached_shared(void) {
    const knobs o = {.scale = 0.4};
    ph_err      err = {0};
    for (int i = 0; i < N_TYPES; i++)
        for (int to = 128; to >= 100; to -= 28) {
            ph_graph *g = graph_of(&o);
            ph_kv    *kv = cache_of(types[i]);
            int       a = 0, b = 0;
            CHECK(!ph_kv_begin(kv, &a, &err) && !ph_kv_begin(kv, &b, &err) &&
                  !ph_kv_extend(kv, a, 140, &err));
            fill(&one, 1, a, &o);
            CHECK(!step(g, kv, &one, 0, 140, &err) && ph_kv_share(kv, a, 140, b) == 128);
            int from = ph_kv_truncate(kv, b, to);
            CHECK(from == to || (types[i] == PH_Q4_1 && from == 64));
            CHECK(!ph_kv_extend(kv, b, TOKENS, &err));
            fill(&two, 1, b, &o);
            ph_rc rc = step(g, kv, &two, from, TOKENS, &err);
            CHECK_SAY(!rc && !memcmp(one.y[from], two.y[from], sizeof one.y[0] * (size_t)(140 - from)), "%s",
                      ph_dtype_name(types[i]));
            CHECK(!step(g, kv, &one, 128, 140, &err)); /* the first one's pages are as they were */
            CHECK(!memcmp(one.y[from], two.y[from], sizeof one.y[0] * (size_t)(140 - from)));
            ph_kv_close(kv);
            ph_graph_close(g);
        }
}

/* A page that begins and ends within a step needs room that was asked for; a row cannot begin where the page
 * is not held, nor see what is not written. */
void test_cached_by_channel_refuses(void) {
    const knobs o = {.scale = 0.4};
    ph_graph   *g = graph_of(&o);
    ph_kv      *kv;
    ph_err      err = {0};
    ph_kv_spec  spec = {layer, LAYERS, 1, 400, 400, PH_Q4_1, 63};
    int         s = 0;
    CHECK(!ph_kv_open(&kv, &spec, &err) && !ph_kv_begin(kv, &s, &err) && !ph_kv_extend(kv, s, 150, &err));
    fill(&one, 1, s, &o);
    CHECK(step(g, kv, &one, 0, 150, &err) == PH_ELIMIT && strstr(err.msg, "63"));
    CHECK(step(g, kv, &one, 70, 80, &err) == PH_EBUG && strstr(err.msg, "70"));
    one.rows[2][PH_ROW_SPAN] = 11;
    CHECK(step(g, kv, &one, 0, 10, &err) == PH_EMISMATCH && strstr(err.msg, "row 2"));
    fill(&one, 1, s, &o);
    CHECK(!step(g, kv, &one, 0, 63, &err));
    ph_kv_close(kv);
    ph_graph_close(g);
}

void test_cached_window_span_softcap(void) {
    const knobs sets[] = {{.scale = 0.4, .window = 10},
                          {.scale = 0.4, .window = 70},
                          {.scale = 0.4, .is_bidirectional = 1},
                          {.scale = 3, .softcap = 1.5},
                          {.scale = 1, .softcap = 4, .window = 64, .is_bidirectional = 1}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int k = 0; k < N_TYPES; k++) {
            fill(&one, 10 + i, 0, &sets[i]);
            run_set(&one, &sets[i], types[k], TOKENS);
            compare(&one, &sets[i], types[k]);
        }
}

void test_cached_types(void) {
    const knobs o = {.scale = 0.4};
    for (int i = 0; i < N_TYPES; i++) {
        fill(&one, 1, 0, &o);
        run_set(&one, &o, types[i], 33);
        compare(&one, &o, types[i]);
    }
}

/* A number that is none must show, whatever the type makes of it. */
void test_cached_nan(void) {
    const knobs o = {.scale = 0.4};
    for (int i = 0; i < N_TYPES; i++)
        for (int what = 0; what < 4; what++) {
            float bad = what & 1 ? NAN : INFINITY;
            fill(&one, 1, 0, &o);
            *(what & 2 ? &one.k[5][1][3] : &one.v[5][1][3]) = bad;
            run_set(&one, &o, types[i], 33);
            float y = one.y[TOKENS - 1][HQ - 1][3];
            CHECK_SAY(!isfinite(y), "%s: %g came to %g", ph_dtype_name(types[i]), (double)bad, (double)y);
        }
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
    ph_kv_spec  spec = {other, 2, 1, 64, 64, PH_F32, 0};
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

/* ---- as ONNX ---- */

typedef struct dense { /* the cache of the model written as ONNX */
    float k[HKV * TOKENS * DK], v[HKV * TOKENS * DV];
} dense;

/* Rows first .. last-1 by the ONNX form: past keys [1, HKV, first, DK] in, present ones out. */
static ph_rc onnx_step(const ph_onnx *m, set *s, dense *c, int first, int last, ph_err *err) {
    static const char *const wanted[3] = {"y", "present.1.key", "present.1.value"};
    ph_kernels               kernels = gh_kernels();
    int64_t                  n = last - first;
    ph_feed                  feeds[] = {{"q", gh_array(PH_F32, s->q[first], 3, 1, n, HQ * DK, 0)},
                                        {"k", gh_array(PH_F32, s->k[first], 3, 1, n, HKV * DK, 0)},
                                        {"v", gh_array(PH_F32, s->v[first], 3, 1, n, HKV * DV, 0)},
                                        {"rows", gh_array(PH_I32, s->rows[first], 3, 1, n, PH_ROW_FIELDS, 0)},
                                        {"past.1.key", gh_array(PH_F32, c->k, 4, 1, HKV, first, DK)},
                                        {"past.1.value", gh_array(PH_F32, c->v, 4, 1, HKV, first, DV)}};
    enum { FEEDS = sizeof feeds / sizeof *feeds };
    ph_onnx_given given[FEEDS];
    for (int i = 0; i < FEEDS; i++) {
        given[i] = (ph_onnx_given){.name = feeds[i].name, .rank = feeds[i].array.rank};
        memcpy(given[i].dim, feeds[i].array.dim, sizeof given[i].dim);
    }
    const ph_onnx_import_how how = {.kernels = &kernels, .given = given, .n_given = FEEDS};
    ph_onnx_graph            g;
    ph_arena                 arena;
    ph_array                 out[3] = {{0}};
    ph_syms                  syms = {{0}};
    CHECK(!ph_arena_open_growing(&arena, 1 << 14, err));
    ph_rc rc = ph_onnx_import(&g, m, &how, err);
    for (int i = 0; i < 3 && !rc; i++)
        rc = ph_graph_eval(g.graph, &syms, feeds, FEEDS, wanted[i], &out[i], &kernels, &arena, err);
    if (!rc) {
        memcpy(s->y[first], out[0].data, sizeof(float) * (size_t)n * HQ * DV);
        memcpy(c->k, out[1].data, sizeof(float) * (size_t)last * HKV * DK);
        memcpy(c->v, out[2].data, sizeof(float) * (size_t)last * HKV * DV);
    }
    ph_onnx_graph_close(&g);
    ph_arena_close(&arena);
    return rc;
}

/* In one step, and in two over the cache; and where the row begins to see its keys stands in its record. */
void test_cached_as_onnx(void) {
    static const knobs       all[] = {{0.4, 0, 0, 0}, {0.4, 3, 40, 0}, {0.4, 0, 0, 1}, {0.4, 0, 40, 1}};
    static set               want, got;
    static dense             cache;
    const ph_onnx_export_how how = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ph_graph        *g = graph_of(&all[i]);
        ph_onnx_exported x;
        ph_onnx_memory   bytes = {0};
        ph_onnx          m;
        ph_err           err = {0};
        double           worst = 0;
        fill(&want, 31, 0, &all[i]);
        for (int t = 20; t < 90 && all[i].is_bidirectional; t++) want.rows[t][PH_ROW_BACK] = t - 20;
        memcpy(&got, &want, sizeof got);
        run_set(&want, &all[i], PH_F32, TOKENS);
        ph_graph_output(g, ph_graph_find(g, "y"), "y");
        CHECK_SAY(!ph_onnx_export(&x, g, &how, &err), "%s", err.msg);
        CHECK(!ph_onnx_write_memory(&bytes, &x.writer, &x.producer, PH_ONNX_EXTERNAL_NEVER, &err));
        CHECK_SAY(!ph_onnx_view(&m, bytes.model, bytes.n, "cached", &err), "%s", err.msg);
        for (int cut = 0; cut <= 100; cut += 100) {
            ph_rc rc = cut ? onnx_step(&m, &got, &cache, 0, cut, &err) : PH_OK;
            if (!rc) rc = onnx_step(&m, &got, &cache, cut, TOKENS, &err);
            CHECK_SAY(!rc, "%s; %s", err.msg, err.note[0]);
            const float *a = &want.y[0][0][0], *b = &got.y[0][0][0];
            for (int k = 0; k < TOKENS * HQ * DV; k++) worst = fmax(worst, fabs((double)a[k] - (double)b[k]));
            CHECK_SAY(worst <= 1e-5, "knobs %zu, cut at %d: off by %g", i, cut, worst);
        }
        ph_onnx_close(&m);
        ph_onnx_memory_close(&bytes);
        ph_onnx_exported_close(&x);
        ph_graph_close(g);
    }
}
