/* lowering_segment_test.c - SegmentAttention on the native engine against its definition: threads, sizes,
 * neighbours, and segments that cannot be. */
#include "tests/unit/engine/engine_help.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/engine/tests.def"
#undef PH_TEST

enum { HEADS = 6, D = 8, WIDTH = HEADS * D, ROWS_MAX = 400 };

typedef struct bench {
    ph_graph *g;
    int       in[4], out;
    float     x[3][ROWS_MAX * WIDTH];
    int32_t   segment[ROWS_MAX][2];
    float     want[ROWS_MAX * WIDTH];
} bench;

static void open_bench(bench *b, int kv_heads) {
    static const char *const name[3] = {"q", "k", "v"};
    ph_err                   err = {0};
    ph_dim                   n = ph_dim_sym(PH_SYM_N);
    CHECK(!ph_graph_open(&b->g, "part", NULL));
    for (int i = 0; i < 3; i++) {
        b->in[i] =
            ph_graph_input(b->g, name[i], PH_F32, ph_shape_of(2, n, ph_dim_of(i ? kv_heads * D : WIDTH)));
        eh_fill(b->x[i], ROWS_MAX * WIDTH);
    }
    b->in[3] = ph_graph_input(b->g, "segments", PH_I32, ph_shape_of(2, n, ph_dim_of(2)));
    b->out = ph_graph_node(b->g, "SegmentAttention", PH_IN(b->in[0], b->in[1], b->in[2], b->in[3]),
                           PH_ATTRS(PH_INT("num_heads", HEADS), PH_INT("kv_num_heads", kv_heads)), "y");
    ph_graph_output(b->g, b->out, "out");
    CHECK_SAY(!ph_graph_finish(b->g, &err), "%s", err.msg);
}

/* Pictures of random sizes until the rows are full. */
static void pack_rows(bench *b, int rows) {
    for (int row = 0; row < rows;) {
        int n = 1 + (int)eh_below(130);
        if (n > rows - row) n = rows - row;
        for (int r = row; r < row + n; r++) b->segment[r][0] = row, b->segment[r][1] = row + n;
        row += n;
    }
}

static void define(bench *b, int rows, int kv_heads) {
    static const char *const name[4] = {"q", "k", "v", "segments"};
    ph_kernels               plain;
    ph_arena                 arena;
    ph_feed                  feed[4];
    ph_array                 y;
    ph_err                   err = {0};
    ph_syms                  syms = eh_syms(0, 0, 0, 0, rows);
    ph_kernels_init(&plain, 0);
    CHECK(!ph_arena_open_growing(&arena, 1 << 16, NULL));
    for (int i = 0; i < 4; i++) {
        ph_array a = {.dtype = i < 3 ? PH_F32 : PH_I32, .rank = 2, .dim = {rows, 2}};
        a.data = i < 3 ? (void *)b->x[i] : (void *)b->segment;
        if (i < 3) a.dim[1] = i ? kv_heads * D : WIDTH;
        feed[i] = (ph_feed){.name = name[i], .array = a};
    }
    ph_rc rc = ph_graph_eval(b->g, &syms, feed, 4, "out", &y, &plain, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    if (!rc) memcpy(b->want, y.data, sizeof(float) * (size_t)rows * WIDTH);
    ph_arena_close(&arena);
}

static void feed_run(bench *b, eh_run *r, int rows, int kv_heads) {
    for (int i = 0; i < 3; i++)
        memcpy(r->engine->def->buffer(r->program, b->in[i]), b->x[i],
               sizeof(float) * (size_t)rows * (size_t)(i ? kv_heads * D : WIDTH));
    memcpy(r->engine->def->buffer(r->program, b->in[3]), b->segment, sizeof b->segment[0] * (size_t)rows);
}

static void compare(bench *b, int rows, int kv_heads, int threads, unsigned features) {
    eh_run  r;
    ph_syms syms = eh_syms(0, 0, 0, 0, rows);
    if (eh_open(&r, b->g, threads, features, syms, NULL, 0) && eh_bind(&r, syms, NULL)) {
        feed_run(b, &r, rows, kv_heads);
        eh_go(&r, syms);
        CHECK(eh_guards_stand(&r));
        const float *got = r.engine->def->buffer(r.program, b->out);
        if (features)
            eh_close_to(got, b->want, (size_t)rows * WIDTH, 1e-5f, "segments");
        else
            eh_same(got, b->want, (size_t)rows * WIDTH, "segments");
    }
    eh_close(&r);
}

void test_lower_segment(void) {
    static const int rows[] = {1, 64, 131, 400}, kv_heads[] = {6, 2};
    bench           *b = malloc(sizeof *b);
    for (size_t k = 0; k < 2; k++) {
        open_bench(b, kv_heads[k]);
        for (size_t i = 0; i < 4; i++) {
            pack_rows(b, rows[i]);
            define(b, rows[i], kv_heads[k]);
            for (int threads = 1; threads <= 4; threads *= 2) {
                compare(b, rows[i], kv_heads[k], threads, 0);
                compare(b, rows[i], kv_heads[k], threads, ph_cpu_features());
            }
        }
        ph_graph_close(b->g);
    }
    free(b);
}

void test_lower_segment_refuses(void) {
    static const int32_t bad[][2] = {{-1, 2}, {3, 2}, {0, 9}, {INT32_MIN, INT32_MAX}, {8, 8}};
    bench               *b = malloc(sizeof *b);
    eh_run               r;
    ph_syms              syms = eh_syms(0, 0, 0, 0, 8);
    open_bench(b, 2);
    if (eh_open(&r, b->g, 2, 0, syms, NULL, 0) && eh_bind(&r, syms, NULL))
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            ph_run_state state;
            ph_err       err = {0};
            pack_rows(b, 8);
            memcpy(b->segment[5], bad[i], sizeof bad[i]);
            feed_run(b, &r, 8, 2);
            ph_rc rc = r.engine->def->run(r.program, &syms, NULL, &state, &err);
            CHECK_SAY(rc == (i == 4 ? PH_OK : PH_EMISMATCH), "case %zu: %s", i, ph_rc_name(rc));
            CHECK(i == 4 || strstr(err.msg, "row 5"));
        }
    eh_close(&r);
    ph_graph_close(b->g);
    free(b);
}
