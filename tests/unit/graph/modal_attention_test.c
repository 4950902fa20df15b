/* modal_attention_test.c - attention of several modalities and over squares of a mask, against sums written
 * out, their two ONNX forms, the passes that find them, and what is refused. */
#include "graph/pass.h"
#include "tests/unit/graph/modal_help.h"

#include <math.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

/* ---- MultiModalAttention ---- */

enum { HQ = 4, HKV = 2, HD = 6, WIDE = 10, BATCH = 2, TEXT = 3, SEEN = 5 };

/* Inputs of the node: one weight for all or three, with biases or without; text and vision rows. */
static void couple_inputs(mh *m, int in[8], int is_one, int has_bias) {
    static const char *const w[3] = {"w", "w_k", "w_v"}, *const b[3] = {"b", "b_k", "b_v"};
    const int64_t rows[3] = {is_one ? (HQ + 2 * HKV) * HD : HQ * HD, HKV * HD, HKV * HD};
    for (int j = 0; j < 3; j++) {
        in[j] = j && is_one ? -1 : mh_weight(m, w[j], 2, rows[j], WIDE);
        in[3 + j] = (j && is_one) || !has_bias ? -1 : mh_weight(m, b[j], 1, rows[j], 0);
    }
    in[6] = mh_floats(m, "text", 3, BATCH, TEXT, WIDE, 0);
    in[7] = mh_floats(m, "vision", 3, BATCH, SEEN, WIDE, 0);
}

/* Row r of batch b: the modalities' rows with this slice, end to end. */
static const float *couple_row(const mh *m, const int64_t *slice, int has, int b, int r) {
    int text = slice[0] & has ? TEXT : 0;
    return r < text ? mh_fed(m, "text") + (b * TEXT + r) * WIDE
                    : mh_fed(m, "vision") + (b * SEEN + r - text) * WIDE;
}

/* Element e of q (0), k (1) or v (2) of that row. */
static double couple_part(const mh *m, const int64_t *slice, int is_one, int has_bias, int j, int b, int r,
                          int e) {
    static const char *const w[3] = {"w", "w_k", "w_v"}, *const bias[3] = {"b", "b_k", "b_v"};
    const float *x = couple_row(m, slice, j ? 2 : 1, b, r);
    int          row = e + (is_one ? (j > 0) * HQ * HD + (j > 1) * HKV * HD : 0);
    double       sum = has_bias ? (double)mh_numbers(m, bias[is_one ? 0 : j])[row] : 0;
    for (int i = 0; i < WIDE; i++)
        sum += (double)x[i] * (double)mh_numbers(m, w[is_one ? 0 : j])[row * WIDE + i];
    return sum;
}

static void couple(const int64_t slice[2], int is_one, int has_bias) {
    mh       m;
    ph_array y = {0};
    ph_err   err = {0};
    int      in[8];
    int      tq = (slice[0] & 1 ? TEXT : 0) + (slice[1] & 1 ? SEEN : 0);
    int      tk = (slice[0] & 2 ? TEXT : 0) + (slice[1] & 2 ? SEEN : 0);
    float    want[BATCH * (TEXT + SEEN) * HQ * HD];
    mh_open(&m);
    couple_inputs(&m, in, is_one, has_bias);
    int node = ph_graph_node(m.g, "MultiModalAttention", in, 8,
                             PH_ATTRS(PH_INT("num_heads", HQ), PH_INT("kv_num_heads", HKV),
                                      PH_FLOAT("scale", 0.4), PH_INTS("slices", slice, 2)),
                             "o");
    CHECK_SAY(mh_finish(&m, node, &err), "%s", err.msg);
    CHECK_SAY(!mh_eval(&m, &y, &err) && ph_array_count(&y) == BATCH * tq * HQ * HD, "%s", err.msg);
    for (int b = 0; b < BATCH; b++)
        for (int r = 0; r < tq; r++)
            for (int h = 0; h < HQ; h++) {
                double weight[TEXT + SEEN], sum = 0;
                for (int c = 0; c < tk; c++) {
                    double dot = 0;
                    for (int e = 0; e < HD; e++)
                        dot += couple_part(&m, slice, is_one, has_bias, 0, b, r, h * HD + e) *
                               couple_part(&m, slice, is_one, has_bias, 1, b, c, h / 2 * HD + e);
                    sum += weight[c] = exp(0.4 * dot);
                }
                for (int e = 0; e < HD; e++) {
                    double z = 0;
                    for (int c = 0; c < tk; c++)
                        z += weight[c] / sum *
                             couple_part(&m, slice, is_one, has_bias, 2, b, c, h / 2 * HD + e);
                    want[((b * tq + r) * HQ + h) * HD + e] = (float)z;
                }
            }
    mh_close_to(y.data, want, ph_array_count(&y), 1e-5, "MultiModalAttention");
    mh_onnx(&m, "MultiModalAttention", 1e-5, "MultiModalAttention");
    mh_close(&m);
}

void test_modal_couple(void) {
    static const int64_t slices[][2] = {{3, 3}, {1, 2}, {3, 2}, {1, 3}, {2, 1}};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
        for (int k = 0; k < 4; k++) couple(slices[i], k & 1, k >> 1);
}

/* The node with one thing about it wrong. */
static void expect_couple(const char *word, ph_rc want, const ph_attr *attr, int n_attr, int spoil) {
    mh     m;
    ph_err err = {0};
    int    in[8];
    mh_open(&m);
    couple_inputs(&m, in, 0, 1);
    if (spoil == 1) in[2] = -1;                                         /* a weight without its kin */
    if (spoil == 2) in[1] = mh_weight(&m, "w2", 2, HKV * HD, WIDE + 1); /* of other rows */
    if (spoil == 3) in[4] = mh_weight(&m, "b2", 1, HKV * HD + 1, 0);
    if (spoil == 4) in[7] = mh_floats(&m, "x2", 3, BATCH, SEEN, WIDE + 1, 0);
    if (spoil == 5) in[7] = mh_floats(&m, "x2", 3, BATCH + 1, SEEN, WIDE, 0);
    if (spoil == 6) in[2] = mh_weight(&m, "w2", 2, HKV * HD + 1, WIDE);
    int done = mh_finish(
        &m, ph_graph_node(m.g, "MultiModalAttention", in, spoil == 7 ? 6 : 8, attr, n_attr, "o"), &err);
    CHECK_SAY(!done && err.code == want && strstr(err.msg, word), "%s: %s %s", word, ph_rc_name(err.code),
              err.msg);
    mh_close(&m);
}

void test_modal_couple_refuses(void) {
    static const int64_t     none[2] = {2, 2}, odd[2] = {3, 4}, three[3] = {3, 3, 3};
    const ph_attr            heads[] = {PH_INT("num_heads", HQ), PH_INT("kv_num_heads", HKV), {0}};
    static const char *const word[8] = {"",
                                        "weight 2",
                                        "weight 1",
                                        "input 4 must be a bias",
                                        "x[B, T, K]",
                                        "x[B, T, K]",
                                        "input 5 must be a bias",
                                        "6 inputs; 3 weights, 3 biases"};
    for (int spoil = 1; spoil <= 7; spoil++) expect_couple(word[spoil], PH_EMISMATCH, heads, 2, spoil);
    expect_couple("both must be at least 1", PH_EMISMATCH, NULL, 0, 0);
    expect_couple("both must be at least 1", PH_EMISMATCH, PH_ATTRS(PH_INT("num_heads", INT64_MAX)), 0);
    expect_couple("num_heads a multiple of kv_num_heads", PH_EMISMATCH,
                  PH_ATTRS(PH_INT("num_heads", HQ), PH_INT("kv_num_heads", 3)), 0);
    expect_couple("rows of q, k, v", PH_EMISMATCH,
                  PH_ATTRS(PH_INT("num_heads", 7), PH_INT("kv_num_heads", 7)), 0);
    expect_couple("no modality has queries", PH_EMISMATCH,
                  PH_ATTRS(heads[0], heads[1], PH_INTS("slices", none, 2)), 0);
    expect_couple("slice 1 is 4", PH_EMISMATCH, PH_ATTRS(heads[0], heads[1], PH_INTS("slices", odd, 2)), 0);
    expect_couple("3 slices for 2 modalities", PH_EMISMATCH,
                  PH_ATTRS(heads[0], heads[1], PH_INTS("slices", three, 3)), 0);
    expect_couple("scale", PH_EMISMATCH, PH_ATTRS(heads[0], heads[1], PH_FLOAT("scale", INFINITY)), 0);
}

/* ---- the pass ---- */

/* Text and pictures by the same weights, spelled out.  spoil: what keeps it as it is. */
static int spelled(mh *m, int is_cross, int is_twice, int spoil) {
    static const char *const part[3] = {"q", "k", "v"};
    int                      rows[3] = {HQ * HD, HKV * HD, HKV * HD}, in[3];
    int                      x[2] = {mh_floats(m, "text", 3, BATCH, TEXT, WIDE, 0),
                                     mh_floats(m, "vision", 3, BATCH, SEEN, WIDE, 0)};
    for (int j = 0; j < 3; j++) {
        int w = mh_weight(m, (const char *[]){"wq", "wk", "wv"}[j], 2, rows[j], WIDE);
        int b = mh_weight(m, (const char *[]){"bq", "bk", "bv"}[j], 1, rows[j], 0), y[2];
        for (int i = 0; i < 2; i++) {
            int other = spoil == 1 && j == 2 && i ? mh_weight(m, "other", 2, rows[j], WIDE) : w;
            if (is_twice && i) { /* as files have it that say everything twice */
                ph_storage s = m->g->value[w].storage;
                void      *p = NULL;
                CHECK(!ph_arena_carve(&m->arena, &p, s.plane[0].n, 1, NULL));
                memcpy(p, s.plane[0].bytes, s.plane[0].n);
                s.plane[0].bytes = p;
                if (other == w)
                    other =
                        ph_graph_weight(m->g, (const char *[]){"q2", "k2", "v2"}[j], m->g->value[w].shape, s);
            }
            int from = spoil == 2 && j == 2 ? x[1 - i] : x[i];
            y[i] = ph_graph_node(m->g, "Linear", PH_IN(from, other, b), PH_NO_ATTRS, "%s.%d", part[j], i);
        }
        in[j] = is_cross && !j ? y[0]
                               : ph_graph_node(m->g, "Concat", PH_IN(y[0], y[1]),
                                               PH_ATTRS(PH_INT("axis", spoil == 2 ? 1 : -2)), "%s", part[j]);
        if (spoil == 3 && j == 1) ph_graph_output(m->g, y[1], "tapped");
    }
    return ph_graph_node(m->g, "Attention", PH_IN(in[0], in[1], in[2]),
                         PH_ATTRS(PH_INT("q_num_heads", HQ), PH_INT("kv_num_heads", HKV),
                                  PH_FLOAT("scale", 0.3), PH_INT("is_causal", spoil == 4)),
                         "o");
}

void test_modal_pass_couple(void) {
    ph_kernels kernels = gh_kernels();
    for (int kind = 0; kind < 4; kind++)
        for (int spoil = 0; spoil <= 4; spoil++) {
            mh       m;
            ph_err   err = {0};
            ph_array y = {0}, z = {0};
            size_t   changes;
            mh_open(&m);
            int q = 0;
            CHECK_SAY(mh_finish(&m, spelled(&m, kind & 1, kind >> 1, spoil), &err), "%s", err.msg);
            CHECK(!mh_eval(&m, &y, &err));
            q = ph_graph_find(m.g, "q");
            ph_pass_env env = {.kernels = &kernels, .keep = &q, .n_keep = q >= 0}; /* a tapped q stays */
            CHECK_SAY(!ph_passes_run(m.g, &env, &changes, &err), "%s", err.msg);
            const ph_node *last = &m.g->node[m.g->n_nodes - 1];
            CHECK_SAY((strcmp(last->op->name, "MultiModalAttention") == 0) == !spoil, "%d: %s", spoil,
                      last->op->name);
            CHECK_SAY(spoil || m.g->n_nodes == 1, "%zu nodes", m.g->n_nodes);
            CHECK(!mh_eval(&m, &z, &err));
            mh_close_to(z.data, y.data, ph_array_count(&y), 0, "pass couple");
            env.off = "couple";
            CHECK(!ph_passes_run(m.g, &env, &changes, &err) && !changes);
            mh_close(&m);
        }
}

/* ---- SparseAttention ---- */

enum { HEADS = 3, SD = 7, SDV = 5, QUERIES = 21, KEYS = 203, QB = 3, KB = 26 };

/* Squares by a rule; row 1 meets nothing, row 2 a run of more than 64 keys and the last square. */
static int is_met(int r, int c) {
    return r == 1 ? 0 : r == 2 ? (c >= 3 && c < 12) || c == KB - 1 : (c * 7 + r) % 5 == 0;
}

/* Constants of the mask as a map or as lists. */
static void sparse_mask(mh *m, int in[5], int has_lists) {
    unsigned char map[QB * KB];
    int32_t       columns[QB * KB], offsets[QB + 1], n = 0;
    for (int r = 0; r < QB; r++) {
        offsets[r] = n;
        for (int c = 0; c < KB; c++)
            if ((map[r * KB + c] = (unsigned char)is_met(r, c)) != 0) columns[n++] = c;
    }
    offsets[QB] = n;
    in[3] = has_lists ? ph_graph_constant(m->g, "columns", PH_I32, ph_shape_of(1, GH_D(n)), columns)
                      : ph_graph_constant(m->g, "map", PH_BOOL, ph_shape_of(2, GH_D(QB), GH_D(KB)), map);
    in[4] =
        has_lists ? ph_graph_constant(m->g, "offsets", PH_I32, ph_shape_of(1, GH_D(QB + 1)), offsets) : -1;
}

static void sparse_rows(mh *m, int in[5]) {
    in[0] = mh_floats(m, "q", 4, BATCH, HEADS, QUERIES, SD);
    in[1] = mh_floats(m, "kt", 4, BATCH, HEADS, SD, KEYS);
    in[2] = mh_floats(m, "v", 4, BATCH, HEADS, KEYS, SDV);
}

/* y by sums written out. */
static void sparse_want(const mh *m, double scale, float *want) {
    for (int h = 0; h < BATCH * HEADS; h++)
        for (int t = 0; t < QUERIES; t++) {
            double y[SDV] = {0}, sum = 0;
            for (int s = 0; s < KEYS; s++) {
                double dot = 0;
                if (!is_met(t / 8, s / 8)) continue;
                for (int e = 0; e < SD; e++)
                    dot += (double)mh_fed(m, "q")[(h * QUERIES + t) * SD + e] *
                           (double)mh_fed(m, "kt")[(h * SD + e) * KEYS + s];
                sum += exp(scale * dot);
                for (int e = 0; e < SDV; e++)
                    y[e] += exp(scale * dot) * (double)mh_fed(m, "v")[(h * KEYS + s) * SDV + e];
            }
            for (int e = 0; e < SDV; e++)
                want[(h * QUERIES + t) * SDV + e] = (float)(sum > 0 ? y[e] / sum : 0);
        }
}

void test_modal_sparse(void) {
    static float want[BATCH * HEADS * QUERIES * SDV];
    for (int has_lists = 0; has_lists < 2; has_lists++) {
        mh       m;
        ph_array y = {0};
        ph_err   err = {0};
        int      in[5];
        mh_open(&m);
        sparse_rows(&m, in);
        sparse_mask(&m, in, has_lists);
        CHECK_SAY(mh_finish(&m,
                            ph_graph_node(m.g, "SparseAttention", in, 4 + has_lists,
                                          PH_ATTRS(PH_FLOAT("scale", 0.9)), "o"),
                            &err),
                  "%s", err.msg);
        CHECK_SAY(!mh_eval(&m, &y, &err), "%s", err.msg);
        sparse_want(&m, 0.9, want);
        mh_close_to(y.data, want, BATCH * HEADS * QUERIES * SDV, 1e-5, "SparseAttention");
        mh_onnx(&m, "SparseAttention", 1e-5, "SparseAttention");
        mh_close(&m);
    }
}

/* The node with lists of `n` columns, or with a map, and one thing wrong. */
static void expect_sparse(const char *word, const int32_t *offsets, const int32_t *columns, int n,
                          const ph_attr *attr, int n_attr) {
    mh     m;
    ph_err err = {0};
    int    in[5];
    mh_open(&m);
    sparse_rows(&m, in);
    sparse_mask(&m, in, 0);
    if (offsets) {
        in[3] = ph_graph_constant(m.g, "columns", PH_I32, ph_shape_of(1, GH_D(n)), columns);
        in[4] = ph_graph_constant(m.g, "offsets", PH_I32, ph_shape_of(1, GH_D(QB + 1)), offsets);
    }
    int done = mh_finish(&m, ph_graph_node(m.g, "SparseAttention", in, 5, attr, n_attr, "o"), &err);
    CHECK_SAY(!done && err.code == PH_EMISMATCH && strstr(err.msg, word), "%s: %s %s", word,
              ph_rc_name(err.code), err.msg);
    mh_close(&m);
}

/* Lists of no columns: every square is hidden, and there are no bytes to point to. */
void test_modal_sparse_empty(void) {
    static const int32_t offsets[QB + 1] = {0};
    mh                   m;
    ph_array             y = {0};
    ph_err               err = {0};
    int                  in[5];
    mh_open(&m);
    sparse_rows(&m, in);
    in[3] = ph_graph_weight(m.g, "columns", ph_shape_of(1, GH_D(0)), ph_storage_of(PH_I32, NULL, 0, 0));
    in[4] = ph_graph_constant(m.g, "offsets", PH_I32, ph_shape_of(1, GH_D(QB + 1)), offsets);
    CHECK_SAY(mh_finish(&m, ph_graph_node(m.g, "SparseAttention", in, 5, PH_NO_ATTRS, "o"), &err), "%s",
              err.msg);
    CHECK_SAY(!mh_eval(&m, &y, &err), "%s", err.msg);
    for (int i = 0; y.data && i < BATCH * HEADS * QUERIES * SDV; i++) CHECK(((float *)y.data)[i] == 0);
    mh_close(&m);
}

void test_modal_sparse_refuses(void) {
    static const int32_t good[4] = {0, 1, 1, 2}, back[4] = {0, 2, 1, 2}, far[4] = {0, 1, INT32_MAX, 2},
                         below[4] = {0, -1, 1, 2}, late[4] = {1, 1, 1, 2}, few[4] = {0, 1, 1, 1};
    static const int32_t column[2] = {3, 4}, outside[2] = {3, KB}, negative[2] = {-1, 3},
                         twice[4] = {3, 3, 0, 0};
    static const int32_t two[4] = {0, 2, 2, 2};
    expect_sparse("block 0", NULL, NULL, 0, PH_ATTRS(PH_INT("block", 0)));
    expect_sparse("block 65", NULL, NULL, 0, PH_ATTRS(PH_INT("block", 65)));
    expect_sparse("block -9", NULL, NULL, 0, PH_ATTRS(PH_INT("block", INT64_MIN)));
    expect_sparse("sparsity 1", NULL, NULL, 0, PH_ATTRS(PH_FLOAT("sparsity", 1)));
    expect_sparse("sparsity -0.1", NULL, NULL, 0, PH_ATTRS(PH_FLOAT("sparsity", -0.1)));
    expect_sparse("sparsity", NULL, NULL, 0, PH_ATTRS(PH_FLOAT("sparsity", NAN)));
    expect_sparse("less than the sparsity", NULL, NULL, 0, PH_ATTRS(PH_FLOAT("sparsity", 0.95)));
    expect_sparse("a map of [3, 26]", NULL, NULL, 0, PH_ATTRS(PH_INT("block", 4)));
    expect_sparse("scale", NULL, NULL, 0, PH_ATTRS(PH_FLOAT("scale", INFINITY)));
    expect_sparse("lists columns 2 to 1", back, column, 2, PH_NO_ATTRS);
    expect_sparse("lists columns", far, column, 2, PH_NO_ATTRS);
    expect_sparse("lists columns 0 to -1", below, column, 2, PH_NO_ATTRS);
    expect_sparse("offsets", late, column, 2, PH_NO_ATTRS);
    expect_sparse("offsets", few, column, 2, PH_NO_ATTRS);
    expect_sparse("column 26 after", good, outside, 2, PH_NO_ATTRS);
    expect_sparse("column -1 after -1", good, negative, 2, PH_NO_ATTRS);
    expect_sparse("column 3 after 3", two, twice, 2, PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "rank 4", "SparseAttention", PH_IN(h, h, h, h), PH_NO_ATTRS);
    MH_REFUSED(PH_EUNSUP, "must be a constant", "SparseAttention",
               PH_IN(mh_floats(&m, "q", 4, 1, 1, 8, 2), mh_floats(&m, "k", 4, 1, 1, 2, 8),
                     mh_floats(&m, "w", 4, 1, 1, 8, 2), v),
               PH_NO_ATTRS);
    MH_REFUSED(PH_EMISMATCH, "kt[.., D, S]", "SparseAttention",
               PH_IN(mh_floats(&m, "q", 4, 1, 1, 8, 2), mh_floats(&m, "k", 4, 1, 1, 3, 8),
                     mh_floats(&m, "w", 4, 1, 1, 8, 2), v),
               PH_NO_ATTRS);
}

/* ---- the pass ---- */

enum {
    AS_ADD,
    AS_ADD_FINITE,
    AS_WHERE,
    AS_WHERE_NOT,
    LESS_SPARSE,
    CUT_SQUARE,
    SMALL_NUMBER,
    TAPPED,
    EMPTY_FINITE,
    ONE_QUERY, /* which the mask repeats */
    ONE_KEY,
    N_FORMS
};

/* The mask of the form: f32 to add, or bool for Where. */
static int dense_mask(mh *m, int form) {
    static float         add[QUERIES * KEYS];
    static unsigned char where[QUERIES * KEYS];
    float                hidden = form == AS_ADD ? -INFINITY : form == SMALL_NUMBER ? -10000.0F : -3e38F;
    int                  is_where = form == AS_WHERE || form == AS_WHERE_NOT;
    for (int t = 0; t < QUERIES; t++)
        for (int s = 0; s < KEYS; s++) {
            int row = t / 8,
                met = is_met(row == 1 && form != AS_ADD && form != EMPTY_FINITE ? 0 : row, s / 8);
            if (form == LESS_SPARSE) met = s / 8 % 3 > 0;
            if (form == CUT_SQUARE && t == QUERIES - 1 && s == KEYS - 1) met = !met;
            add[t * KEYS + s] = met ? 0 : hidden;
            where[t * KEYS + s] = (unsigned char)(met == (form == AS_WHERE));
        }
    ph_shape s = ph_shape_of(4, GH_D(1), GH_D(1), GH_D(QUERIES), GH_D(KEYS));
    return ph_graph_constant(m->g, "mask", is_where ? PH_BOOL : PH_F32, s,
                             is_where ? (void *)where : (void *)add);
}

static int spelled_sparse(mh *m, int form, int *scores) {
    const float by = 0.6F, low = -3e38F;
    int         in[5];
    sparse_rows(m, in);
    if (form == ONE_QUERY) in[0] = mh_floats(m, "q.1", 4, BATCH, HEADS, 1, SD);
    if (form == ONE_KEY) in[1] = mh_floats(m, "kt.1", 4, BATCH, HEADS, SD, 1);
    int c = ph_graph_constant(m->g, "by", PH_F32, ph_shape_of(0), &by), mask = dense_mask(m, form);
    int fill = ph_graph_constant(m->g, "low", PH_F32, ph_shape_of(1, GH_D(1)), &low);
    int s = ph_graph_node(m->g, "MatMul", PH_IN(in[0], in[1]), PH_NO_ATTRS, "scores");
    if (form == AS_WHERE) s = ph_graph_node(m->g, "Mul", PH_IN(c, s), PH_NO_ATTRS, "scaled");
    if (form != AS_WHERE && form != AS_ADD)
        s = ph_graph_node(m->g, "Div", PH_IN(s, c), PH_NO_ATTRS, "scaled");
    *scores = s;
    s = form == AS_WHERE       ? ph_graph_node(m->g, "Where", PH_IN(mask, s, fill), PH_NO_ATTRS, "masked")
        : form == AS_WHERE_NOT ? ph_graph_node(m->g, "Where", PH_IN(mask, fill, s), PH_NO_ATTRS, "masked")
                               : ph_graph_node(m->g, "Add", PH_IN(s, mask), PH_NO_ATTRS, "masked");
    s = ph_graph_node(m->g, "Softmax", PH_IN(s), PH_ATTRS(PH_INT("axis", -1)), "weights");
    return ph_graph_node(m->g, "MatMul", PH_IN(s, in[2]), PH_NO_ATTRS, "o");
}

void test_modal_pass_sparse(void) {
    ph_kernels kernels = gh_kernels();
    for (int form = 0; form < N_FORMS; form++) {
        mh       m;
        ph_err   err = {0};
        ph_array y = {0}, z = {0};
        int      tapped;
        size_t   changes;
        mh_open(&m);
        CHECK_SAY(mh_finish(&m, spelled_sparse(&m, form, &tapped), &err), "%s", err.msg);
        CHECK(!mh_eval(&m, &y, &err));
        ph_pass_env env = {.kernels = &kernels, .keep = &tapped, .n_keep = form == TAPPED};
        CHECK_SAY(!ph_passes_run(m.g, &env, &changes, &err), "%s", err.msg);
        const ph_node *last = &m.g->node[m.g->n_nodes - 1];
        CHECK_SAY((strcmp(last->op->name, "SparseAttention") == 0) == (form < LESS_SPARSE), "%d: %s", form,
                  last->op->name);
        CHECK_SAY(form >= LESS_SPARSE || m.g->n_nodes == 1, "%d: %zu nodes", form, m.g->n_nodes);
        CHECK(!mh_eval(&m, &z, &err));
        mh_close_to(z.data, y.data, ph_array_count(&y), 1e-5, "pass sparse");
        mh_close(&m);
    }
}
