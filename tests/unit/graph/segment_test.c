/* segment_test.c - SegmentAttention against sums written out, and its promise about what is packed beside. */
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { HQ = 4, HKV = 2, DK = 6, DV = 5, ROWS = 230 };

typedef struct pack { /* rows of some pictures */
    float   q[ROWS][HQ][DK], k[ROWS][HKV][DK], v[ROWS][HKV][DV], y[ROWS][HQ][DV];
    int32_t segment[ROWS][2];
} pack;

static ph_graph *graph_of(double scale, double softcap) {
    ph_graph *g;
    ph_err    err;
    CHECK(!ph_graph_open(&g, "packed", &err));
    int q = ph_graph_input(g, "q", PH_F32, ph_shape_of(2, GH_S(N), GH_D(HQ * DK)));
    int k = ph_graph_input(g, "k", PH_F32, ph_shape_of(2, GH_S(N), GH_D(HKV * DK)));
    int v = ph_graph_input(g, "v", PH_F32, ph_shape_of(2, GH_S(N), GH_D(HKV * DV)));
    int s = ph_graph_input(g, "segments", PH_I32, ph_shape_of(2, GH_S(N), GH_D(2)));
    ph_graph_node(g, "SegmentAttention", PH_IN(q, k, v, s),
                  PH_ATTRS(PH_INT("num_heads", HQ), PH_INT("kv_num_heads", HKV), PH_FLOAT("scale", scale),
                           PH_FLOAT("softcap", softcap)),
                  "y");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    return g;
}

static ph_rc run(const ph_graph *g, pack *p, int first, int last, ph_err *err) {
    ph_kernels kernels = gh_kernels();
    ph_arena   arena;
    ph_array   y;
    int64_t    n = last - first;
    ph_syms    syms = {{0}};
    syms.at[PH_SYM_N] = n;
    ph_feed feeds[] = {{"q", gh_array(PH_F32, p->q[first], 2, n, HQ * DK, 0, 0)},
                       {"k", gh_array(PH_F32, p->k[first], 2, n, HKV * DK, 0, 0)},
                       {"v", gh_array(PH_F32, p->v[first], 2, n, HKV * DV, 0, 0)},
                       {"segments", gh_array(PH_I32, p->segment[first], 2, n, 2, 0, 0)}};
    CHECK(!ph_arena_open_growing(&arena, 1 << 14, err));
    ph_rc rc = ph_graph_eval(g, &syms, feeds, 4, "y", &y, &kernels, &arena, err);
    if (!rc && n) memcpy(p->y[first], y.data, sizeof p->y[0] * (size_t)n);
    ph_arena_close(&arena);
    return rc;
}

static const int lengths[] = {1, 64, 65, 3, 90, 0, 7}; /* their sum is ROWS */

static void fill(pack *p, uint64_t seed) {
    int row = 0;
    memset(p, 0, sizeof *p);
    gh_fill(&p->q[0][0][0], ROWS * HQ * DK, &seed);
    gh_fill(&p->k[0][0][0], ROWS * HKV * DK, &seed);
    gh_fill(&p->v[0][0][0], ROWS * HKV * DV, &seed);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; row += lengths[i++])
        for (int r = row; r < row + lengths[i]; r++)
            p->segment[r][0] = row, p->segment[r][1] = row + lengths[i];
    CHECK(row == ROWS);
}

/* One answer in double, key by key. */
static void dense(const pack *p, int row, int head, double scale, double softcap, double out[DV]) {
    double score[ROWS], most = -INFINITY, sum = 0;
    int    kv = head / (HQ / HKV), begin = p->segment[row][0], end = p->segment[row][1];
    for (int j = begin; j < end; j++) {
        double dot = 0;
        for (int e = 0; e < DK; e++) dot += (double)p->q[row][head][e] * (double)p->k[j][kv][e];
        score[j] = dot * scale;
        if (softcap > 0) score[j] = softcap * tanh(score[j] / softcap);
        most = fmax(most, score[j]);
    }
    for (int e = 0; e < DV; e++) out[e] = 0;
    for (int j = begin; j < end; j++) sum += exp(score[j] - most);
    for (int j = begin; j < end; j++)
        for (int e = 0; e < DV; e++) out[e] += exp(score[j] - most) / sum * (double)p->v[j][kv][e];
}

static void against_dense(double scale, double softcap) {
    pack     *p = malloc(sizeof *p);
    ph_graph *g = graph_of(scale, softcap);
    ph_err    err = {0};
    double    want[DV], worst = 0;
    fill(p, 7);
    CHECK_SAY(!run(g, p, 0, ROWS, &err), "%s", err.msg);
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HQ; h++) {
            dense(p, r, h, scale, softcap, want);
            for (int e = 0; e < DV; e++) worst = fmax(worst, fabs(want[e] - (double)p->y[r][h][e]));
        }
    CHECK_SAY(worst < 2e-6, "%g", worst);
    ph_graph_close(g);
    free(p);
}

void test_segment_equals_dense(void) {
    against_dense(1 / sqrt(DK), 0);
    against_dense(3, 2.5);
}

/* A picture's rows have the same bits alone and packed. */
void test_segment_neighbours(void) {
    pack     *all = malloc(sizeof *all), *alone = malloc(sizeof *alone);
    ph_graph *g = graph_of(1, 0);
    ph_err    err = {0};
    fill(all, 11);
    *alone = *all;
    CHECK(!run(g, all, 0, ROWS, &err));
    for (size_t i = 0, row = 0; i < sizeof lengths / sizeof *lengths; row += (size_t)lengths[i++]) {
        int first = (int)row, last = first + lengths[i];
        for (int r = first; r < last; r++) alone->segment[r][0] = 0, alone->segment[r][1] = lengths[i];
        CHECK(!run(g, alone, first, last, &err));
        CHECK_SAY(!memcmp(all->y[first], alone->y[first], sizeof all->y[0] * (size_t)lengths[i]),
                  "picture %zu", i);
    }
    ph_graph_close(g);
    free(all);
    free(alone);
}

void test_segment_refuses(void) {
    static const int32_t bad[][2] = {{-1, 3}, {4, 3}, {0, ROWS + 1}, {INT32_MIN, INT32_MAX}};
    pack                *p = malloc(sizeof *p);
    ph_graph            *g = graph_of(1, 0), *other;
    ph_err               err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fill(p, 3);
        memcpy(p->segment[100], bad[i], sizeof bad[i]);
        CHECK(run(g, p, 0, ROWS, &err) == PH_EMISMATCH && strstr(err.msg, "row 100"));
    }
    fill(p, 3);
    p->segment[9][0] = p->segment[9][1] = 5; /* sees nothing: zeros */
    CHECK(!run(g, p, 0, ROWS, &err));
    for (int i = 0; i < HQ * DV; i++) CHECK(!(fabsf((&p->y[9][0][0])[i]) > 0));
    static const int heads[][2] = {{0, 1}, {5, 1}, {4, 3}, {-4, 2}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        CHECK(!ph_graph_open(&other, "bad", &err));
        int x = ph_graph_input(other, "x", PH_F32, ph_shape_of(2, GH_S(N), GH_D(24)));
        int s = ph_graph_input(other, "s", PH_I32, ph_shape_of(2, GH_S(N), GH_D(2)));
        ph_graph_node(other, "SegmentAttention", PH_IN(x, x, x, s),
                      PH_ATTRS(PH_INT("num_heads", heads[i][0]), PH_INT("kv_num_heads", heads[i][1])), "y");
        CHECK(ph_graph_finish(other, &err) == PH_EMISMATCH);
        ph_graph_close(other);
    }
    ph_graph_close(g);
    free(p);
}

/* Sections that restart: half of the frequencies by height, half by width, both from the first on. */
void test_rope_restarts(void) {
    enum { DIM = 12, N = 5 };
    static const int64_t section[3] = {0, 3, 3};
    int32_t              rows[N][PH_ROW_FIELDS] = {{0}};
    ph_graph            *g;
    ph_err               err = {0};
    ph_arena             arena;
    ph_array             c;
    ph_kernels           kernels = gh_kernels();
    ph_syms              syms = {{0}};
    syms.at[PH_SYM_N] = N;
    CHECK(!ph_graph_open(&g, "rope", &err) && !ph_arena_open_growing(&arena, 1 << 12, &err));
    int in = ph_graph_input(g, "rows", PH_I32, ph_shape_of(2, GH_S(N), GH_D(PH_ROW_FIELDS)));
    ph_graph_node(g, "RopeAngles", PH_IN(in),
                  PH_ATTRS(PH_INT("dim", DIM), PH_INTS("mrope", section, 3), PH_INT("restart", 1)), "c");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    for (int i = 0; i < N; i++) rows[i][PH_ROW_POS_H] = 3 * i, rows[i][PH_ROW_POS_W] = 40 - i;
    ph_feed feed = {"rows", gh_array(PH_I32, rows, 2, N, PH_ROW_FIELDS, 0, 0)};
    CHECK(!ph_graph_eval(g, &syms, &feed, 1, "c", &c, &kernels, &arena, &err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < DIM / 2; j++) {
            double at = rows[i][j < 3 ? PH_ROW_POS_H : PH_ROW_POS_W];
            double want = cos(at * pow(10000, -(double)(j % 3) / 3));
            CHECK(fabs(want - (double)((float *)c.data)[i * DIM / 2 + j]) < 1e-5);
        }
    ph_graph_close(g);
    ph_arena_close(&arena);
}
