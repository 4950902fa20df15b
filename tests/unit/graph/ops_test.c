/* ops_test.c - every operator's eval against tests/golden/ops, which other people's programs computed. */
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include "tensor/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { ARRAYS_MAX = 8, ATTRS_MAX = 16, LIST_MAX = 64 };

static unsigned char blob[1 << 19];

/* One case of cases.txt. */
typedef struct golden {
    char     name[64], op[64];
    double   tolerance;
    ph_array in[ARRAYS_MAX], out[ARRAYS_MAX];
    int      is_constant[ARRAYS_MAX], is_left_out[ARRAYS_MAX], n_in, n_out;
    ph_attr  attr[ATTRS_MAX];
    char     attr_name[ATTRS_MAX][32], attr_text[ATTRS_MAX][32];
    int64_t  ints[ATTRS_MAX][LIST_MAX];
    double   floats[ATTRS_MAX][LIST_MAX];
    int      n_attr;
} golden;

static ph_array parse_array(const char *s) {
    char     type[8];
    int      at;
    ph_array a = {0};
    CHECK(sscanf(s, "%7s %d%n", type, &a.rank, &at) == 2 && ph_dtype_from_name(type, &a.dtype));
    char *end = NULL;
    s += at;
    for (int i = 0; i < a.rank; i++, s = end) a.dim[i] = strtoll(s, &end, 10);
    a.data = blob + strtoll(s, NULL, 10);
    return a;
}

static void parse_attr(golden *c, const char *kind, const char *rest) {
    int      k = c->n_attr++, at = 0;
    size_t   n = 0;
    ph_attr *a = &c->attr[k];
    sscanf(rest, "%31s%n", c->attr_name[k], &at);
    rest += at;
    *a = (ph_attr){.name = c->attr_name[k]};
    if (!strcmp(kind, "int")) {
        *a = PH_INT(a->name, strtoll(rest, NULL, 10));
    } else if (!strcmp(kind, "float")) {
        *a = PH_FLOAT(a->name, strtod(rest, NULL));
    } else if (!strcmp(kind, "text")) {
        sscanf(rest, "%31s", c->attr_text[k]);
        *a = PH_TEXT(a->name, c->attr_text[k]);
    } else {
        char *end;
        n = (size_t)strtoll(rest, &end, 10);
        for (size_t i = 0; i < n; i++) {
            char *from = end;
            c->ints[k][i] = strtoll(from, &end, 10);
            c->floats[k][i] = strtod(from, &end);
        }
        if (!strcmp(kind, "ints"))
            *a = PH_INTS(a->name, c->ints[k], n);
        else
            *a = PH_FLOATS(a->name, c->floats[k], n);
    }
}

/* The next case; 0 at the end. */
static int read_case(FILE *f, golden *c) {
    static char line[4096];
    memset(c, 0, sizeof *c);
    while (fgets(line, sizeof line, f)) {
        char kind[16];
        int  at = 0;
        if (sscanf(line, "%15s%n", kind, &at) != 1) continue;
        if (!strcmp(kind, "end")) return 1;
        if (!strcmp(kind, "case")) {
            CHECK(sscanf(line + at, "%63s %63s %lf", c->name, c->op, &c->tolerance) == 3);
        } else if (!strcmp(kind, "in") || !strcmp(kind, "const")) {
            c->is_constant[c->n_in] = *kind == 'c';
            c->in[c->n_in++] = parse_array(line + at);
        } else if (!strcmp(kind, "skip")) {
            c->is_left_out[c->n_in++] = 1;
        } else if (!strcmp(kind, "out")) {
            c->out[c->n_out++] = parse_array(line + at);
        } else {
            parse_attr(c, kind, line + at);
        }
    }
    return 0;
}

static ph_shape shape_of(const ph_array *a) {
    ph_shape s = {.rank = a->rank};
    for (int i = 0; i < a->rank; i++) s.dim[i] = ph_dim_of(a->dim[i]);
    return s;
}

/* Weights keep their storage type, so f16 ones are seen as f32; lists of whole numbers are small constants.
 */
static int constant(ph_graph *g, const char *name, const ph_array *a) {
    size_t row;
    if (a->dtype == PH_I64) return ph_graph_constant(g, name, a->dtype, shape_of(a), a->data);
    CHECK(!ph_dtype_row_bytes(a->dtype, a->rank ? a->dim[a->rank - 1] : 1, &row, NULL));
    size_t n = (size_t)ph_array_count(a) * ph_dtype_bytes(a->dtype);
    return ph_graph_weight(g, name, shape_of(a), ph_storage_of(a->dtype, a->data, n, row));
}

static ph_graph *build(const golden *c, ph_feed *feeds, size_t *n_feeds) {
    static char names[ARRAYS_MAX][16];
    int         in[ARRAYS_MAX];
    ph_graph   *g;
    ph_err      err = {0};
    CHECK(!ph_graph_open(&g, "case", &err));
    *n_feeds = 0;
    for (int i = 0; i < c->n_in; i++) {
        snprintf(names[i], sizeof names[i], "i%d", i);
        in[i] = -1;
        if (c->is_left_out[i]) continue;
        if (c->is_constant[i]) {
            in[i] = constant(g, names[i], &c->in[i]);
        } else {
            in[i] = ph_graph_input(g, names[i], c->in[i].dtype, shape_of(&c->in[i]));
            feeds[(*n_feeds)++] = (ph_feed){names[i], c->in[i]};
        }
    }
    ph_graph_node(g, c->op, in, c->n_in, c->attr, c->n_attr, "y");
    ph_rc rc = ph_graph_finish(g, &err);
    CHECK_SAY(!rc, "%s: %s: %s", c->name, err.msg, err.n_notes ? err.note[0] : "");
    return g;
}

static double number(const ph_array *a, int64_t i) {
    float f;
    if (a->dtype == PH_F64) return ((const double *)a->data)[i];
    if (a->dtype == PH_I64) return (double)((const int64_t *)a->data)[i];
    ph_dtype_get(a->dtype)->unpack(&f, (const char *)a->data + (size_t)i * ph_dtype_bytes(a->dtype), 1);
    return (double)f;
}

/* Within tolerance of the largest number of the answer. */
static void compare(const golden *c, int k, const ph_array *got) {
    const ph_array *want = &c->out[k];
    int             same = got->dtype == want->dtype && got->rank == want->rank;
    double          largest = 1, worst = 0;
    for (int i = 0; same && i < got->rank; i++) same = got->dim[i] == want->dim[i];
    CHECK_SAY(same, "%s: output %d: %s of rank %d, wanted %s of rank %d", c->name, k,
              ph_dtype_name(got->dtype), got->rank, ph_dtype_name(want->dtype), want->rank);
    if (!same) return;
    for (int64_t i = 0; i < ph_array_count(want); i++) {
        double w = number(want, i), d = fabs(w - number(got, i));
        if (fabs(w) > largest) largest = fabs(w);
        if (!(d <= worst)) worst = d; /* a NaN counts as the worst */
    }
    CHECK_SAY(worst <= c->tolerance * largest, "%s: output %d is off by %g, largest number %g", c->name, k,
              worst, largest);
}

static void run_case(const golden *c, const ph_kernels *kernels) {
    ph_feed         feeds[ARRAYS_MAX];
    size_t          n_feeds;
    ph_err          err = {0};
    ph_arena        arena;
    ph_syms         syms = {{0}};
    static ph_array all[ARRAYS_MAX * 4];
    ph_graph       *g = build(c, feeds, &n_feeds);
    if (!g->rc && g->n_nodes) {
        CHECK(!ph_arena_open_growing(&arena, 1 << 16, &err));
        ph_rc rc = ph_graph_eval(g, &syms, feeds, n_feeds, NULL, all, kernels, &arena, &err);
        CHECK_SAY(!rc, "%s: %s", c->name, err.msg);
        CHECK(g->node[0].n_out == c->n_out);
        for (int k = 0; !rc && k < c->n_out; k++) compare(c, k, &all[g->node[0].out[k]]);
        ph_arena_close(&arena);
    }
    ph_graph_close(g);
}

void test_ops_golden(void) {
    static golden c;
    ph_kernels    kernels = gh_kernels();
    int           n = 0;
    FILE         *f = fopen("tests/golden/ops/cases.bin", "rb");
    CHECK(f);
    if (!f) return;
    CHECK(fread(blob, 1, sizeof blob, f) > 1000);
    fclose(f);
    f = fopen("tests/golden/ops/cases.txt", "r");
    CHECK(f);
    if (!f) return;
    while (read_case(f, &c)) {
        run_case(&c, &kernels);
        n++;
    }
    fclose(f);
    CHECK_SAY(n >= 100, "%d cases", n);
}

void test_ops_table(void) {
    CHECK(ph_op_count() >= 37);
    CHECK(!ph_op_at(ph_op_count()));
    CHECK(!ph_op_find("NoSuchThing") && !ph_op_find(NULL));
    for (size_t i = 0; i < ph_op_count(); i++) {
        const ph_op *op = ph_op_at(i);
        CHECK(ph_op_find(op->name) == op);
        CHECK(op->infer && op->eval && op->source && op->since >= 1);
        CHECK(op->out_min >= 1 && op->out_max >= op->out_min && (op->in_max < 0 || op->in_max >= op->in_min));
    }
}

/* Linear and Gather read every storage type where it lies; the others widen it first. */
void test_ops_stored_weights(void) {
    static float         w[6 * 256], x[2 * 256], wide[6 * 256], want[12], rows[3 * 256];
    static unsigned char stored[6 * (256 * 8 + 6) + 1];
    uint64_t             state = 7;
    ph_kernels           kernels = gh_kernels();
    int64_t              ids[3] = {5, 0, -2};
    ph_syms              syms = {{0}};
    gh_fill(w, 6 * 256, &state);
    gh_fill(x, 2 * 256, &state);
    for (int t = 0; t < PH_N_DTYPES; t++) {
        const ph_dtype_def *def = ph_dtype_get((ph_dtype)t);
        size_t              row, stride;
        if (!def->pack || !def->unpack) continue;
        CHECK(!ph_dtype_row_bytes((ph_dtype)t, 256, &row, NULL));
        stride = row + 6; /* a view: rows with gaps, at odd places */
        for (size_t r = 0; r < 6; r++) def->pack(stored + 1 + r * stride, w + r * 256, 256);
        for (size_t r = 0; r < 6; r++) def->unpack(wide + r * 256, stored + 1 + r * stride, 256);
        for (int i = 0; i < 12; i++) {
            double sum = 0;
            for (int k = 0; k < 256; k++) sum += (double)x[i / 6 * 256 + k] * (double)wide[i % 6 * 256 + k];
            want[i] = (float)sum;
        }
        for (int i = 0; i < 3; i++)
            memcpy(rows + i * 256, wide + (ids[i] < 0 ? ids[i] + 6 : ids[i]) * 256, 1024);

        ph_graph *g;
        ph_err    err = {0};
        ph_arena  arena;
        ph_array  y;
        CHECK(!ph_graph_open(&g, "stored", &err));
        int wv = ph_graph_weight(g, "w", ph_shape_of(2, GH_D(6), GH_D(256)),
                                 ph_storage_of((ph_dtype)t, stored + 1, 6 * stride, stride));
        int xv = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_D(2), GH_D(256)));
        int iv = ph_graph_input(g, "ids", PH_I64, ph_shape_of(1, GH_D(3)));
        ph_graph_node(g, "Linear", PH_IN(xv, wv), PH_NO_ATTRS, "y");
        ph_graph_node(g, "Gather", PH_IN(wv, iv), PH_NO_ATTRS, "rows");
        ph_graph_node(g, "Copy", PH_IN(wv), PH_NO_ATTRS, "copy");
        CHECK_SAY(!ph_graph_finish(g, &err), "%s: %s", ph_dtype_name((ph_dtype)t), err.msg);
        ph_feed feeds[] = {{"x", gh_array(PH_F32, x, 2, 2, 256, 0, 0)},
                           {"ids", gh_array(PH_I64, ids, 1, 3, 0, 0, 0)}};
        CHECK(!ph_arena_open_growing(&arena, 1 << 16, &err));
        CHECK(!ph_graph_eval(g, &syms, feeds, 2, "y", &y, &kernels, &arena, &err));
        for (int i = 0; i < 12; i++)
            CHECK_SAY(fabsf(((float *)y.data)[i] - want[i]) <= 2e-4f, "%s %d: %g %g",
                      ph_dtype_name((ph_dtype)t), i, (double)((float *)y.data)[i], (double)want[i]);
        CHECK(!ph_graph_eval(g, &syms, feeds, 2, "rows", &y, &kernels, &arena, &err));
        CHECK(!memcmp(y.data, rows, sizeof rows));
        CHECK(!ph_graph_eval(g, &syms, feeds, 2, "copy", &y, &kernels, &arena, &err));
        CHECK(!memcmp(y.data, wide, sizeof wide));
        ph_arena_close(&arena);
        ph_graph_close(g);
    }
}

void test_eval_refuses(void) {
    ph_graph  *g;
    ph_err     err = {0};
    ph_arena   arena;
    ph_array   y;
    ph_kernels kernels = gh_kernels();
    float      x[12] = {0};
    int64_t    ids[2] = {0, 3};
    ph_syms    syms = {{3}}, negative = {{-1}}, huge = {{INT64_MAX}};
    CHECK(!ph_graph_open(&g, "refuse", &err));
    int xv = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, GH_S(R), GH_D(4)));
    int iv = ph_graph_input(g, "ids", PH_I64, ph_shape_of(1, GH_D(2)));
    ph_graph_node(g, "Gather", PH_IN(xv, iv), PH_NO_ATTRS, "picked");
    int shape = ph_graph_constant(g, "shape", PH_I64, ph_shape_of(1, GH_D(2)), (int64_t[]){-1, 8});
    ph_graph_node(g, "Reshape", PH_IN(xv, shape), PH_NO_ATTRS, "pairs");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    CHECK(!ph_arena_open_growing(&arena, 1 << 12, &err));
    ph_feed feeds[] = {{"x", gh_array(PH_F32, x, 2, 3, 4, 0, 0)},
                       {"ids", gh_array(PH_I64, ids, 1, 2, 0, 0, 0)}};
    /* An index past the end; R/2 rows of a matrix with three; inputs missing or of another shape; sizes. */
    CHECK(ph_graph_eval(g, &syms, feeds, 2, "picked", &y, &kernels, &arena, &err) == PH_EMISMATCH);
    CHECK(strstr(err.msg, "index 3") && strstr(err.note[0], "picked"));
    CHECK(ph_graph_eval(g, &syms, feeds, 2, "pairs", &y, &kernels, &arena, &err) == PH_EMISMATCH);
    CHECK(ph_graph_eval(g, &syms, feeds, 1, "picked", &y, &kernels, &arena, &err) == PH_EMISMATCH);
    CHECK(ph_graph_eval(g, &syms, feeds, 2, "nothing", &y, &kernels, &arena, &err) == PH_EMISMATCH);
    feeds[0].array.dim[0] = 2;
    CHECK(ph_graph_eval(g, &syms, feeds, 2, "picked", &y, &kernels, &arena, &err) == PH_EMISMATCH);
    CHECK(ph_graph_eval(g, &negative, feeds, 2, "pairs", &y, &kernels, &arena, &err) == PH_ELIMIT);
    CHECK(ph_graph_eval(g, &huge, feeds, 2, "pairs", &y, &kernels, &arena, &err) == PH_ELIMIT);
    ph_arena_close(&arena);
    ph_graph_close(g);
}

/* Every input number spreads the kernel, by hand, whichever of the two is the larger. */
static void spread(int in, int kernel, int stride, int dilation, int pad) {
    ph_graph  *g;
    ph_err     err = {0};
    ph_arena   arena;
    ph_array   y;
    ph_kernels kernels = gh_kernels();
    float      x[8], k[8], want[128] = {0};
    int        n = (in - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad;
    for (int i = 0; i < in; i++) x[i] = (float)(i * 3 % 7) - 2;
    for (int i = 0; i < kernel; i++) k[i] = (float)(i * 5 % 11) - 4;
    for (int i = 0; i < in; i++)
        for (int j = 0; j < kernel; j++) {
            int o = i * stride + j * dilation - pad;
            if (o >= 0 && o < n) want[o] += x[i] * k[j];
        }
    CHECK(n > 0);
    CHECK(!ph_graph_open(&g, "spread", &err));
    int64_t strides[] = {stride}, dilations[] = {dilation}, pads[] = {pad, pad};
    int     xv = ph_graph_input(g, "x", PH_F32, ph_shape_of(3, GH_D(1), GH_D(1), GH_D(in)));
    int     kv = ph_graph_constant(g, "k", PH_F32, ph_shape_of(3, GH_D(1), GH_D(1), GH_D(kernel)), k);
    ph_graph_node(g, "ConvTranspose", PH_IN(xv, kv),
                  PH_ATTRS(PH_INTS("strides", strides, 1), PH_INTS("dilations", dilations, 1),
                           PH_INTS("pads", pads, 2)),
                  "y");
    CHECK_SAY(!ph_graph_finish(g, &err) && !ph_arena_open_growing(&arena, 1 << 12, &err), "%s", err.msg);
    ph_feed feed = {"x", gh_array(PH_F32, x, 3, 1, 1, in, 0)};
    CHECK_SAY(!ph_graph_eval(g, &(ph_syms){{0}}, &feed, 1, "y", &y, &kernels, &arena, &err), "%s", err.msg);
    CHECK(ph_array_count(&y) == n);
    for (int o = 0; y.data && o < n; o++)
        CHECK_SAY(((float *)y.data)[o] == want[o], "%d, %d, %d, %d, %d at %d", in, kernel, stride, dilation,
                  pad, o);
    ph_arena_close(&arena);
    ph_graph_close(g);
}

void test_ops_convtranspose(void) {
    for (int in = 1; in <= 8; in++)
        for (int kernel = 1; kernel <= 8; kernel++)
            for (int how = 0; how < 27; how++) {
                int stride = 1 + how % 3, dilation = 1 + how / 3 % 3, pad = how / 9;
                if ((in - 1) * stride + (kernel - 1) * dilation + 1 > 2 * pad)
                    spread(in, kernel, stride, dilation, pad);
            }
}

/* One node of two inputs at most, the second a constant list; what it makes of x. */
static void edge(const char *op, const ph_attr *attr, int n_attr, ph_array x, const ph_array *list,
                 ph_array want) {
    ph_graph  *g;
    ph_err     err = {0};
    ph_arena   arena;
    ph_array   y = {0};
    ph_kernels kernels = gh_kernels();
    CHECK(!ph_graph_open(&g, "edge", &err) && !ph_arena_open_growing(&arena, 1 << 12, &err));
    int in[] = {ph_graph_input(g, "x", x.dtype, shape_of(&x)), -1};
    if (list) in[1] = ph_graph_constant(g, "list", list->dtype, shape_of(list), list->data);
    ph_graph_node(g, op, in, list ? 2 : 1, attr, n_attr, "y");
    ph_feed feed = {"x", x};
    ph_rc   rc = ph_graph_finish(g, &err);
    if (!rc) rc = ph_graph_eval(g, &(ph_syms){{0}}, &feed, 1, "y", &y, &kernels, &arena, &err);
    CHECK_SAY(!rc, "%s: %s", op, err.msg);
    CHECK_SAY(y.dtype == want.dtype && y.rank == want.rank && ph_array_count(&y) == ph_array_count(&want),
              "%s: %s, %d numbers", op, ph_dtype_name(y.dtype), (int)ph_array_count(&y));
    if (!rc && ph_array_count(&y) == ph_array_count(&want))
        CHECK_SAY(!memcmp(y.data, want.data, (size_t)ph_array_count(&want) * ph_dtype_bytes(want.dtype)),
                  "%s to %s: other numbers", op, ph_dtype_name(want.dtype));
    ph_arena_close(&arena);
    ph_graph_close(g);
}

/* Whole numbers that do not fit keep their low bits. */
void test_ops_cast_wraps(void) {
    int64_t  wide[] = {300, -5, (int64_t)1 << 40 | 7, -129};
    uint8_t  u8[] = {44, 251, 7, 127};
    int8_t   i8[] = {44, -5, 7, 127};
    uint16_t u16[] = {300, 65531, 7, 65407};
    uint64_t u64[] = {300, UINT64_MAX - 4, (uint64_t)1 << 40 | 7, UINT64_MAX - 128},
             far[] = {(uint64_t)1 << 63};
    float    top[] = {0x1p63f};
    ph_array x = gh_array(PH_I64, wide, 1, 4, 0, 0, 0);
#define TO(type) (ph_attr[]){PH_INT("to", type)}, 1
    edge("Cast", TO(2), x, NULL, gh_array(PH_U8, u8, 1, 4, 0, 0, 0));
    edge("Cast", TO(3), x, NULL, gh_array(PH_I8, i8, 1, 4, 0, 0, 0));
    edge("Cast", TO(4), x, NULL, gh_array(PH_U16, u16, 1, 4, 0, 0, 0));
    edge("Cast", TO(13), x, NULL, gh_array(PH_U64, u64, 1, 4, 0, 0, 0));
    edge("Cast", TO(4), gh_array(PH_I8, i8, 1, 2, 0, 0, 0), NULL,
         gh_array(PH_U16, ((uint16_t[]){44, 65531}), 1, 2, 0, 0, 0));
    edge("Cast", TO(1), gh_array(PH_U64, far, 1, 1, 0, 0, 0), NULL, gh_array(PH_F32, top, 1, 1, 0, 0, 0));
#undef TO
}

/* The largest and the smallest of no whole numbers are the ends of their own type. */
void test_ops_reduce_nothing(void) {
    static const struct {
        ph_dtype type;
        int64_t  low, high;
    } rows[] = {{PH_I32, INT32_MIN, INT32_MAX},
                {PH_I64, INT64_MIN, INT64_MAX},
                {PH_I8, INT8_MIN, INT8_MAX},
                {PH_U8, 0, UINT8_MAX},
                {PH_U16, 0, UINT16_MAX}};
    int64_t  none[1] = {0}, axis[] = {0}, zero = 0, one = 1;
    ph_array list = gh_array(PH_I64, axis, 1, 1, 0, 0, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_array x = gh_array(rows[i].type, none, 1, 0, 0, 0, 0);
        int64_t  low = rows[i].low, high = rows[i].high; /* little-endian: their low bytes */
        edge("ReduceMax", NULL, 0, x, &list, gh_array(x.dtype, &low, 1, 1, 0, 0, 0));
        edge("ReduceMin", NULL, 0, x, &list, gh_array(x.dtype, &high, 1, 1, 0, 0, 0));
    }
    ph_array x = gh_array(PH_I32, none, 1, 0, 0, 0, 0);
    edge("ReduceSum", NULL, 0, x, &list, gh_array(PH_I32, &zero, 1, 1, 0, 0, 0));
    edge("ReduceProd", NULL, 0, x, &list, gh_array(PH_I32, &one, 1, 1, 0, 0, 0));
}

/* A NaN is not hidden by limits: what comes out of a broken model looks broken. */
void test_ops_nan_stays(void) {
    static const char *const ops[] = {"HardSigmoid", "HardSwish", "Celu",    "Elu",  "Relu",
                                      "Selu",        "LeakyRelu", "Sigmoid", "Gelu", "Tanh",
                                      "Softsign",    "Softplus",  "Mish"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        float      x[] = {NAN, 1};
        ph_graph  *g;
        ph_err     err = {0};
        ph_arena   arena;
        ph_array   y = {0};
        ph_kernels kernels = gh_kernels();
        CHECK(!ph_graph_open(&g, "nan", &err) && !ph_arena_open_growing(&arena, 1 << 12, &err));
        ph_graph_node(g, ops[i], PH_IN(ph_graph_input(g, "x", PH_F32, ph_shape_of(1, GH_D(2)))), PH_NO_ATTRS,
                      "y");
        ph_feed feed = {"x", gh_array(PH_F32, x, 1, 2, 0, 0, 0)};
        CHECK_SAY(!ph_graph_finish(g, &err) &&
                      !ph_graph_eval(g, &(ph_syms){{0}}, &feed, 1, "y", &y, &kernels, &arena, &err),
                  "%s: %s", ops[i], err.msg);
        CHECK_SAY(y.data && isnan(((float *)y.data)[0]) && isfinite(((float *)y.data)[1]), "%s hides a NaN",
                  ops[i]);
        ph_arena_close(&arena);
        ph_graph_close(g);
    }
}

/* Backwards, a start before the first element is the first, and an end before it lets it in. */
void test_ops_slice_backwards(void) {
    static const struct {
        int64_t start, end, step;
        int     n;
        float   want[4];
    } rows[] = {{-9, -9, -1, 1, {0}},
                {INT64_MIN, INT64_MIN, -2, 1, {0}},
                {-9, 0, -1, 0, {0}},
                {9, -9, -1, 3, {2, 1, 0}},
                {INT64_MAX, INT64_MIN, -2, 2, {2, 0}},
                {1, INT64_MIN, INT64_MIN + 1, 1, {1}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int size = 0; size <= 3; size += 3) {
            float      x[] = {0, 1, 2};
            int64_t    axis = 0;
            ph_graph  *g;
            ph_err     err = {0};
            ph_arena   arena;
            ph_array   y = {0};
            ph_kernels kernels = gh_kernels();
            int        n = size ? rows[i].n : 0;
            ph_shape   one = ph_shape_of(1, GH_D(1));
            CHECK(!ph_graph_open(&g, "slice", &err) && !ph_arena_open_growing(&arena, 1 << 12, &err));
            ph_graph_node(g, "Slice",
                          PH_IN(ph_graph_input(g, "x", PH_F32, ph_shape_of(1, GH_D(size))),
                                ph_graph_constant(g, "s", PH_I64, one, &rows[i].start),
                                ph_graph_constant(g, "e", PH_I64, one, &rows[i].end),
                                ph_graph_constant(g, "a", PH_I64, one, &axis),
                                ph_graph_constant(g, "t", PH_I64, one, &rows[i].step)),
                          PH_NO_ATTRS, "y");
            ph_feed feed = {"x", gh_array(PH_F32, x, 1, size, 0, 0, 0)};
            CHECK_SAY(!ph_graph_finish(g, &err) &&
                          !ph_graph_eval(g, &(ph_syms){{0}}, &feed, 1, "y", &y, &kernels, &arena, &err),
                      "row %d: %s", (int)i, err.msg);
            CHECK_SAY(ph_array_count(&y) == n, "row %d: %d numbers, wanted %d", (int)i,
                      (int)ph_array_count(&y), n);
            for (int k = 0; k < n && ph_array_count(&y) == n; k++)
                CHECK(((float *)y.data)[k] == rows[i].want[k]);
            ph_arena_close(&arena);
            ph_graph_close(g);
        }
}
