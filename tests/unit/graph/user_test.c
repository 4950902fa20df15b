/* user_test.c - operators of plug-ins: tables that are refused, what infer may not say, attributes of every
 * kind, symbols, folding and merging, and ONNX there and back.
 *
 * Tables stand in this file: loading a library is tests/unit/engine/plugin_test.c.
 */
#include "graph/onnx/onnx_in.h"
#include "graph/onnx/onnx_out.h"
#include "graph/pass.h"
#include "graph/user.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdatomic.h>

/* ---- operators for the tests ---- */

static int infer_same(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                      int n_out) {
    (void)n, (void)n_in;
    for (int k = 0; k < n_out; k++) out[k] = in[0];
    return 0;
}

static size_t count_of(const pinhole_array *a) {
    size_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= (size_t)a->dim[i];
    return n;
}

static int eval_double(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                       int n_out, void *scratch, size_t bytes) {
    (void)n, (void)n_in, (void)scratch, (void)bytes;
    for (int k = 0; k < n_out; k++)
        for (size_t i = 0; i < count_of(&out[k]); i++)
            ((float *)out[k].data)[i] = 2 * ((const float *)in[0].data)[i] + (float)k;
    return 0;
}

static int eval_fails(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                      int n_out, void *scratch, size_t bytes) {
    (void)in, (void)n_in, (void)out, (void)n_out, (void)scratch, (void)bytes;
    int64_t silent = 0;
    if (n->api->attr_int(n, "silent", &silent) > 0) return -77;
    return n->api->fail(n, PINHOLE_OP_EFORMAT, "the number %d may not come", 13);
}

/* y[0 .. 11]: what the node's attributes say. */
static int infer_list(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                      int n_out) {
    (void)in, (void)n_in, (void)n_out;
    out[0] = (pinhole_op_value){.type = PINHOLE_F32, .rank = 1};
    out[0].dim[0] = n->api->dim(12);
    return 0;
}

static int eval_list(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                     int n_out, void *scratch, size_t bytes) {
    const pinhole_op_api *api = n->api;
    float                *y = out[0].data;
    int64_t               whole = 0;
    double                real = 0;
    const char           *text = "", *const *texts = NULL;
    const int64_t        *ints = NULL;
    const double         *floats = NULL;
    size_t                n_ints = 0, n_floats = 0, n_texts = 0;
    pinhole_array         tensor = {0};
    (void)in, (void)n_in, (void)n_out, (void)scratch, (void)bytes;
    memset(y, 0, 12 * sizeof *y);
    y[0] = (float)(api->attr_int(n, "whole", &whole) * 1000 + whole);
    y[1] = (float)(api->attr_float(n, "real", &real) + real);
    y[2] = (float)(api->attr_text(n, "text", &text) * 100 + (int)strlen(text));
    y[3] = (float)api->attr_ints(n, "ints", &ints, &n_ints);
    for (size_t i = 0; i < n_ints; i++) y[4] += (float)ints[i];
    y[5] = (float)api->attr_floats(n, "floats", &floats, &n_floats);
    for (size_t i = 0; i < n_floats; i++) y[6] += (float)floats[i];
    y[7] = (float)api->attr_texts(n, "texts", &texts, &n_texts);
    for (size_t i = 0; i < n_texts; i++) y[8] = y[8] * 10 + (float)strlen(texts[i]);
    y[9] = (float)api->attr_tensor(n, "tensor", &tensor);
    if (tensor.data && tensor.type == PINHOLE_I64 && tensor.rank == 2)
        y[10] = (float)(tensor.dim[0] * 100 + tensor.dim[1] * 10 + ((const int64_t *)tensor.data)[1]);
    y[11] = (float)api->attr_int(n, "absent", &whole);
    return 0;
}

static int eval_wrong(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                      int n_out, void *scratch, size_t bytes) {
    double real;
    (void)in, (void)n_in, (void)out, (void)n_out, (void)scratch, (void)bytes;
    n->api->attr_float(n, "whole", &real);
    return 0; /* the fault is told all the same */
}

/* out [2 a + 1, b c / 2, ..]: dimensions that are reckoned. */
static int infer_reckons(const pinhole_op_node *n, const pinhole_op_value *in, int n_in,
                         pinhole_op_value *out, int n_out) {
    const pinhole_op_api *api = n->api;
    pinhole_dim           d;
    int64_t               axes[4], number;
    char                  text[40];
    (void)n_out;
    out[0] = in[0];
    if (!api->dim_mul(in[0].dim[0], api->dim(2), &d) || !api->dim_add(d, api->dim(1), &out[0].dim[0]))
        return api->fail(n, PINHOLE_OP_EUNSUP, "no such form");
    if (!api->dim_mul(in[0].dim[1], in[0].dim[0], &d) || !api->dim_div(d, api->dim(2), &out[0].dim[1]))
        return api->fail(n, PINHOLE_OP_EUNSUP, "no such form");
    api->dim_print(out[0].dim[0], text, sizeof text);
    CHECK_SAY(!strcmp(text, "1+2A") || !strcmp(text, "7"), "%s", text);
    CHECK(api->dim_number(out[0].dim[0], &number) == !strcmp(text, "7"));
    CHECK(api->dim_same(in[0].dim[0], in[0].dim[0]) && !api->dim_same(in[0].dim[0], api->dim(4)));
    CHECK(api->dim_number(in[0].dim[1], &number) || !api->dim_add(in[0].dim[0], in[0].dim[1], &d));
    CHECK(n_in < 2 || (api->input_ints(n, 1, axes, 4) == 3 && axes[0] == 7 && axes[2] == -1));
    CHECK(api->input_ints(n, 0, axes, 4) == -1 && api->input_ints(n, -1, axes, 4) == -1 &&
          api->input_ints(n, 9, axes, 4) == -1);
    memset(&d, 0x5a, sizeof d);
    CHECK(!api->dim_same(d, d) && !api->dim_number(d, &number) && !api->dim_add(d, api->dim(1), &d));
    api->dim_print(d, text, sizeof text);
    CHECK(!strcmp(text, "?"));
    return 0;
}

/* What it is told by the attribute. */
static int infer_bad(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                     int n_out) {
    int64_t how = 0;
    (void)n_in, (void)n_out;
    n->api->attr_int(n, "how", &how);
    out[0] = in[0];
    if (how == 1) out[0].rank = 9;
    if (how == 2) out[0].rank = -1;
    if (how == 3) out[0].dim[0] = n->api->dim(-4);
    if (how == 4) out[0].dim[0] = out[0].dim[1] = n->api->dim((int64_t)1 << 31);
    if (how == 5) out[0].type = 0;
    if (how == 6) out[0].type = PINHOLE_F16;
    if (how == 7) memset(&out[0].dim[0], 0xff, sizeof out[0].dim[0]);
    if (how == 8) out[0].dim[0] = (pinhole_dim){{0}};
    if (how == 9) out[0].type = 99;
    if (how == 10) return 5;
    if (how == 11)
        return n->api->fail(n, PINHOLE_OP_EUNSUP, "%s is not what it is made for", n->api->name(n));
    if (how == 12) n->api->fail(n, PINHOLE_OP_ELIMIT, "said, and not returned");
    if (how == 13) out[0].dim[0] = n->api->dim(INT64_MAX);
    return 0;
}

static atomic_int called;

static int eval_counts(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                       int n_out, void *scratch, size_t bytes) {
    atomic_fetch_add(&called, 1);
    return eval_double(n, in, n_in, out, n_out, scratch, bytes);
}

static size_t scratch_some(const pinhole_op_node *n, const pinhole_array *in, int n_in,
                           const pinhole_array *out, int n_out) {
    (void)n, (void)n_in, (void)out, (void)n_out;
    return 100 * (size_t)in[0].dim[0] + 3;
}

static int eval_scratch(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                        int n_out, void *scratch, size_t bytes) {
    CHECK(bytes == 100 * (size_t)in[0].dim[0] + 3 && (uintptr_t)scratch % 64 == 0);
    memset(scratch, 0x5a, bytes);
    return eval_double(n, in, n_in, out, n_out, scratch, bytes);
}

#define OP(called_, since_, flags_, ins, in_most, outs, out_most, attrs_, infer_, eval_)                     \
    { "com.test", called_, since_, flags_, ins, in_most, outs, out_most, attrs_, infer_, eval_, NULL, NULL }
static const pinhole_op good[] = {
    OP("Double", 1, PINHOLE_OP_PURE | PINHOLE_OP_FOLD, 1, 1, 1, 3, NULL, infer_same, eval_double),
    OP("Fails", 1, PINHOLE_OP_PURE, 1, 1, 1, 1, "silent", infer_same, eval_fails),
    OP("List", 2, PINHOLE_OP_PURE, 1, 1, 1, 1, "whole real text ints floats texts tensor", infer_list,
       eval_list),
    OP("Wrong", 1, PINHOLE_OP_PURE, 1, 1, 1, 1, NULL, infer_same, eval_wrong),
    OP("Reckons", 1, PINHOLE_OP_PURE, 1, 2, 1, 1, "", infer_reckons, eval_double),
    OP("Bad", 1, PINHOLE_OP_PURE, 1, 1, 1, 1, "how", infer_bad, eval_double),
    OP("Pure", 1, PINHOLE_OP_PURE, 1, 1, 1, 1, NULL, infer_same, eval_counts),
    OP("Acts", 1, 0, 1, 1, 1, 1, NULL, infer_same, eval_counts),
    OP("MatMul", 1, PINHOLE_OP_PURE, 1, -1, 1, 1, NULL, infer_same, eval_double),
    OP("Newer", 1, PINHOLE_OP_PURE, 1, 1, 1, 1, NULL, infer_same, eval_double),
    OP("Newer", 4, PINHOLE_OP_PURE, 1, 1, 1, 1, NULL, infer_same, eval_fails),
    {"com.test", "Scratch", 1, PINHOLE_OP_PURE | PINHOLE_OP_THREADS, 1, 1, 1, 1, NULL, infer_same,
     eval_scratch, scratch_some, NULL},
};
enum { N_GOOD = sizeof good / sizeof *good };
static const pinhole_op_table table = {
    PINHOLE_OP_ABI, sizeof(pinhole_op), sizeof(pinhole_op_table), "test", "1.0", good, N_GOOD};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of this file's operators */

static ph_user_ops *registry(void) {
    ph_user_ops *u;
    ph_err       err = {0};
    CHECK(!ph_user_ops_open(&u, &err));
    ph_rc rc = ph_user_ops_add(u, &table, "test.so", &lock, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    return u;
}

/* ---- tables ---- */

static void refuse_table(const pinhole_op_table *t, ph_rc want, const char *word) {
    ph_user_ops *u = registry();
    ph_err       err = {0};
    ph_rc        rc = ph_user_ops_add(u, t, "bad.so", &lock, &err);
    CHECK_SAY(rc == want && strstr(err.msg, word) && (strstr(err.msg, "bad.so") || !t),
              "%s: %s; wanted %s, '%s'", ph_rc_name(rc), err.msg, ph_rc_name(want), word);
    CHECK(ph_user_op_count(u) == N_GOOD && ph_user_lib_count(u) == 1); /* all of it or nothing */
    ph_user_ops_close(u);
}

static void refuse_op(pinhole_op op, ph_rc want, const char *word) {
    const pinhole_op both[] = {
        {"com.other", "Fine", 1, 0, 1, 1, 1, 1, NULL, infer_same, eval_double, NULL, NULL}, op};
    pinhole_op_table t = table;
    t.ops = both;
    t.n_ops = 2;
    refuse_table(&t, want, word);
}

void test_user_tables(void) {
    pinhole_op_table t;
    char             word[200];
    const pinhole_op fine = {"com.other", "Op", 1, 0, 1, 1, 1, 1, NULL, infer_same, eval_double, NULL, NULL};
#define TABLE(field, value, rc, text) (t = table, t.field = (value), refuse_table(&t, rc, text))
#define OPERATOR(field, value, rc, text)                                                                     \
    do {                                                                                                     \
        pinhole_op o = fine;                                                                                 \
        o.field = (value);                                                                                   \
        refuse_op(o, rc, text);                                                                              \
    } while (0)
    memset(word, 'x', sizeof word);
    word[sizeof word - 1] = 0;
    refuse_table(NULL, PH_EFORMAT, "gave no table");
    TABLE(abi, 0, PH_EUNSUP, "has version 0 of the interface, this pinhole has 1");
    TABLE(abi, 2, PH_EUNSUP, "has version 2 of the interface");
    TABLE(size, 8, PH_EFORMAT, "its table says 8 bytes");
    TABLE(op_size, 16, PH_EFORMAT, "16 for an operator");
    TABLE(op_size, 99, PH_EFORMAT, "99 for an operator");
    TABLE(name, NULL, PH_EFORMAT, "has no name");
    TABLE(name, "", PH_EFORMAT, "has no name");
    TABLE(version, word, PH_EFORMAT, "has no version");
    TABLE(ops, NULL, PH_EFORMAT, "12 operators at NULL");
    TABLE(n_ops, 0, PH_EFORMAT, "0 operators");
    TABLE(n_ops, 5000, PH_EFORMAT, "5000 operators; 1 to 1024");
    TABLE(abi, 1, PH_EMISMATCH,
          "com.test::Double since version 1 is in plug-in test.so and in plug-in bad.so");
    OPERATOR(name, NULL, PH_EFORMAT, "operator 1 has no name");
    OPERATOR(name, "a b", PH_EFORMAT, "operator 1 has no name");
    OPERATOR(domain, NULL, PH_EFORMAT, "operator 1 has no domain");
    OPERATOR(domain, "", PH_EFORMAT, "operator 1 has no domain");
    OPERATOR(domain, word, PH_EFORMAT, "operator 1 has no domain");
    OPERATOR(domain, "ai.onnx", PH_EMISMATCH, "ai.onnx::Op: operators of ai.onnx, com.microsoft and pinhole");
    OPERATOR(domain, "ai.onnx.ml", PH_EMISMATCH, "are not for plug-ins");
    OPERATOR(domain, "com.microsoft", PH_EMISMATCH, "are not for plug-ins");
    OPERATOR(domain, "pinhole", PH_EMISMATCH, "are not for plug-ins");
    OPERATOR(infer, NULL, PH_EFORMAT, "com.other::Op has no function 'infer'");
    OPERATOR(eval, NULL, PH_EFORMAT, "com.other::Op has no function 'eval'");
    OPERATOR(flags, 64, PH_EFORMAT, "the flags 0x40: not all of them are known");
    OPERATOR(flags, PINHOLE_OP_FOLD, PH_EFORMAT, "what may be folded is pure too");
    OPERATOR(since, 0, PH_EFORMAT, "since version 0");
    OPERATOR(in_min, -1, PH_EFORMAT, "takes -1 to 1 inputs");
    OPERATOR(in_min, 2, PH_EFORMAT, "takes 2 to 1 inputs");
    OPERATOR(in_max, 65, PH_EFORMAT, "takes 1 to 65 inputs");
    OPERATOR(out_min, 0, PH_EFORMAT, "has 0 to 1 outputs");
    OPERATOR(out_max, 65, PH_EFORMAT, "has 1 to 65 outputs: at least 1, at most 64");
    OPERATOR(name, "Fine", PH_EMISMATCH, "again in bad.so");
    CHECK(!ph_user_op_find(NULL, "com.test", "Double", 1, NULL) && !ph_user_op_count(NULL));
}

/* Of makers older and newer than we are. */
void test_user_sizes(void) {
    struct {
        pinhole_op op;
        void      *more;
    } newer[2] = {{.op = {"com.other", "A", 1, 0, 1, 1, 1, 1, NULL, infer_same, eval_double, NULL, NULL}},
                  {.op = {"com.other", "B", 1, 0, 1, 1, 1, 1, NULL, infer_same, eval_double, NULL, NULL}}};
    unsigned char    older[2][offsetof(pinhole_op, scratch)];
    pinhole_op_table t = table;
    ph_user_ops     *u = registry();
    ph_err           err = {0};
    t.n_ops = 2;
    t.ops = &newer[0].op;
    t.op_size = sizeof newer[0];
    newer[1].more = &t;
    CHECK(ph_user_ops_add(u, &t, "newer.so", &lock, &err) == PH_EUNSUP &&
          strstr(err.msg, "operator 1 says something"));
    newer[1].more = NULL;
    CHECK_SAY(!ph_user_ops_add(u, &t, "newer.so", &lock, &err), "%s", err.msg);
    newer[0].op.name = "C", newer[1].op.name = "D";
    for (int i = 0; i < 2; i++) memcpy(older[i], &newer[i].op, sizeof older[i]);
    t.ops = (const pinhole_op *)(const void *)older;
    t.op_size = sizeof older[0];
    CHECK_SAY(!ph_user_ops_add(u, &t, "older.so", &lock, &err), "%s", err.msg);
    const ph_op *d = ph_user_op_find(u, "com.other", "D", 9, NULL);
    CHECK(d && !d->user->theirs.scratch && d->user->theirs.eval == eval_double && ph_user_lib_count(u) == 3);
    ph_user_ops_close(u);
}

/* ---- models ---- */

typedef struct trip {
    ph_user_ops     *user;
    ph_kernels       kernels;
    ph_onnx          file, again;
    ph_onnx_graph    g, back;
    ph_onnx_exported x;
    ph_onnx_memory   bytes;
    ph_err           err;
} trip;

static ph_rc import_with(trip *t, const om_bytes *m, ph_user_ops *user) {
    *t = (trip){.kernels = gh_kernels(), .user = user};
    const ph_onnx_import_how how = {.kernels = &t->kernels, .user = user};
    PH_TRY(ph_onnx_view(&t->file, m->at, m->n, "test.onnx", &t->err));
    return ph_onnx_import(&t->g, &t->file, &how, &t->err);
}

static ph_rc write_and_read(trip *t, int64_t opset) {
    const ph_onnx_export_how how = {.opset = opset};
    const ph_onnx_import_how in = {.kernels = &t->kernels, .user = t->user};
    PH_TRY(ph_onnx_export(&t->x, t->g.graph, &how, &t->err));
    PH_TRY(ph_onnx_write_memory(&t->bytes, &t->x.writer, &t->x.producer, PH_ONNX_EXTERNAL_NEVER, &t->err));
    PH_TRY(ph_onnx_view(&t->again, t->bytes.model, t->bytes.n, "again.onnx", &t->err));
    return ph_onnx_import(&t->back, &t->again, &in, &t->err);
}

static void done(trip *t) {
    ph_onnx_graph_close(&t->back);
    ph_onnx_graph_close(&t->g);
    ph_onnx_close(&t->again);
    ph_onnx_memory_close(&t->bytes);
    ph_onnx_exported_close(&t->x);
    ph_onnx_close(&t->file);
    ph_user_ops_close(t->user);
}

/* x [dims] to y through these nodes. */
static om_bytes model_of(const om_bytes *node, size_t n, const char *dims, int64_t version) {
    om_bytes g = {.n = 0};
    for (size_t i = 0; i < n; i++) om_sub(&g, 1, &node[i]);
    om_text(&g, 2, "test");
    om_value(&g, 11, "x", 1, dims);
    om_value(&g, 12, "y", 1, "");
    om_list(&g, "axes", 3, (const int64_t[]){7, 0, -1});
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.test", version);
    return m;
}

static om_bytes one(const char *op, const char *in) {
    return om_node(op, "com.test", in, "y");
}

static int evaluate(trip *t, const ph_graph *g, float *x, int64_t a, int64_t b, float *y, size_t n) {
    const ph_feed feed = {"x", gh_array(PH_F32, x, 2, a, b, 0, 0)};
    ph_arena      arena;
    ph_array      out = {0};
    ph_syms       syms = {{0}};
    CHECK(!ph_arena_open_growing(&arena, 1 << 12, NULL));
    for (int i = 0; i < PH_N_SYMS; i++) syms.at[i] = a;
    t->err = (ph_err){0};
    ph_rc rc = ph_graph_eval(g, &syms, &feed, 1, "y", &out, &t->kernels, &arena, &t->err);
    if (!rc) CHECK_SAY((size_t)ph_array_count(&out) == n, "%lld numbers", (long long)ph_array_count(&out));
    if (!rc && (size_t)ph_array_count(&out) == n) memcpy(y, out.data, n * sizeof *y);
    ph_arena_close(&arena);
    return !rc;
}

static int says(const ph_err *e, const char *word) {
    int said = strstr(e->msg, word) != NULL;
    for (int i = 0; i < e->n_notes; i++) said |= strstr(e->note[i], word) != NULL;
    return said;
}

static void refuse(const om_bytes *node, const char *dims, int64_t version, int has_plugin, ph_rc want,
                   const char *word) {
    trip     t;
    om_bytes m = model_of(node, 1, dims, version);
    ph_rc    rc = import_with(&t, &m, has_plugin ? registry() : NULL);
    CHECK_SAY(rc == want && says(&t.err, word), "%s: %s (%s); wanted %s, '%s'", ph_rc_name(rc), t.err.msg,
              t.err.note[0], ph_rc_name(want), word);
    done(&t);
}

void test_user_refusals(void) {
    static const struct {
        ph_rc       rc;
        const char *word;
    } bad[] = {{0, ""},
               {PH_ELIMIT, "infer gives output 0 the rank 9: 0 to 8"},
               {PH_ELIMIT, "infer gives output 0 the rank -1"},
               {PH_EMISMATCH, "the dimension -4 as its 1. one: none is negative"},
               {PH_ELIMIT, "a shape of 2^60 elements or more"},
               {PH_EUNSUP, "the type 0, which is none"},
               {PH_EUNSUP, "floats are PINHOLE_F32 here, not F16"},
               {PH_EFORMAT, "a dimension 0 that no function of the api made"},
               {PH_EFORMAT, "a dimension 0 that no function of the api made"},
               {PH_EUNSUP, "the type 99, which is none"},
               {PH_EMISMATCH, "infer gave 5 and did not say why"},
               {PH_EUNSUP, "com.test::Bad (plug-in test): y is not what it is made for"},
               {PH_ELIMIT, "said, and not returned"},
               {PH_ELIMIT, "a shape of 2^60 elements or more"}};
    for (size_t i = 1; i < sizeof bad / sizeof *bad; i++) {
        om_bytes n = one("Bad", "x");
        om_number(&n, "how", (int64_t)i);
        refuse(&n, "batch,2", 1, 1, bad[i].rc, bad[i].word);
        refuse(&n, "batch,2", 1, 1, bad[i].rc, "at node 'y' (Bad), byte");
    }
    om_bytes n = one("Double", "x"), two = om_node("Double", "com.test", "x", "y,b,c,d");
    refuse(&n, "2,2", 1, 0, PH_EUNSUP,
           "there is no operator Double of domain com.test: a plug-in that brings it is given "
           "with --plugin");
    refuse(&two, "2,2", 1, 1, PH_EMISMATCH, "com.test::Double has 1 to 3 outputs, 4 asked for");
    n = one("Nowhere", "x");
    refuse(&n, "2,2", 1, 1, PH_EUNSUP,
           "there is no operator Nowhere of domain com.test here, nor in the plug-ins");
    n = om_node("Nowhere", "", "x", "y");
    refuse(&n, "2,2", 1, 1, PH_EUNSUP, "there is no operator Nowhere of domain ai.onnx");
    n = one("List", "x");
    refuse(&n, "2,2", 1, 1, PH_EMISMATCH, "com.test::List is there since version 2, the model imports 1");
    n = one("Double", "x,x");
    refuse(&n, "2,2", 1, 1, PH_EMISMATCH, "takes 1 to 1 inputs, 2 given");
    n = om_node("MatMul", "com.test", ",x", "y");
    refuse(&n, "2,2", 1, 1, PH_EMISMATCH, "needs its input 0");
    n = one("List", "x"), om_number(&n, "hole", 3);
    refuse(&n, "2,2", 2, 1, PH_EMISMATCH, "com.test::List has no attribute 'hole'; it has whole real");
    n = one("Reckons", "x"), om_number(&n, "hole", 3);
    refuse(&n, "2,2", 2, 1, PH_EMISMATCH, "com.test::Reckons has no attribute 'hole'");
    char many[200] = "x";
    for (int i = 0; i < 65; i++) strcat(many, ",x");
    n = one("MatMul", many);
    refuse(&n, "2,2", 1, 1, PH_ELIMIT, "66 inputs; an operator of a plug-in has at most 64");
}

static om_bytes attribute(const char *name, int type) {
    om_bytes a = {.n = 0};
    om_text(&a, 1, name);
    om_int(&a, 20, type);
    return a;
}

/* All kinds: read, written, read again. */
void test_user_attributes(void) {
    static const float want[12] = {1042, 1.5f, 105, 1, 12, 1, 0.75f, 1, 213, 1, 128, 0};
    trip               t;
    float              x[4] = {0}, y[12], z[12];
    om_bytes           n = one("List", "x"), a;
    om_number(&n, "whole", 42);
    a = attribute("real", 1), om_varint(&a, 2 << 3 | 5), memcpy(a.at + a.n, &(float){0.5f}, 4), a.n += 4,
    om_sub(&n, 5, &a);
    a = attribute("text", 3), om_text(&a, 4, "words"), om_sub(&n, 5, &a);
    om_ints(&n, "ints", 3, (const int64_t[]){3, 4, 5});
    a = attribute("floats", 6), om_data(&a, 7, (const float[]){0.5f, 0.25f}, 8), om_sub(&n, 5, &a);
    a = attribute("texts", 8), om_text(&a, 9, "ab"), om_text(&a, 9, "c"), om_text(&a, 9, "def"),
    om_sub(&n, 5, &a);
    om_bytes tensor = om_tensor("", 7, 2, (const int64_t[]){1, 2});
    om_data(&tensor, 9, (const int64_t[]){4, 8}, 16);
    a = attribute("tensor", 4), om_sub(&a, 5, &tensor), om_sub(&n, 5, &a);
    om_bytes m = model_of(&n, 1, "2,2", 3);
    ph_rc    rc = import_with(&t, &m, registry());
    CHECK_SAY(!rc, "%s", t.err.msg);
    if (!rc && evaluate(&t, t.g.graph, x, 2, 2, y, 12))
        for (int i = 0; i < 12; i++)
            CHECK_SAY(fabsf(y[i] - want[i]) < 1e-6f, "%d: %g, wanted %g", i, (double)y[i], (double)want[i]);
    for (int64_t opset = 17; !rc && opset <= 21; opset += 4) {
        rc = write_and_read(&t, opset);
        CHECK_SAY(!rc, "opset %lld: %s", (long long)opset, t.err.msg);
        if (!rc && evaluate(&t, t.back.graph, x, 2, 2, z, 12)) CHECK(!memcmp(y, z, sizeof y));
        int is_there = 0;
        for (size_t i = 0; i < t.again.n_opsets; i++)
            is_there |= !strcmp(t.again.opset[i].domain, "com.test") && t.again.opset[i].version == 2;
        CHECK(rc || (is_there && t.again.n_opsets == 2 && !strcmp(t.again.node[0].domain, "com.test") &&
                     !strcmp(t.again.node[0].op, "List") && t.again.node[0].n_attrs == 7));
        ph_onnx_graph_close(&t.back);
        ph_onnx_close(&t.again);
        ph_onnx_memory_close(&t.bytes);
        ph_onnx_exported_close(&t.x);
    }
    done(&t);
    /* A tensor of no elements: it is there. */
    n = one("List", "x"), tensor = om_tensor("", 7, 1, (const int64_t[]){0});
    a = attribute("tensor", 4), om_sub(&a, 5, &tensor), om_sub(&n, 5, &a);
    m = model_of(&n, 1, "2,2", 3);
    rc = import_with(&t, &m, registry());
    if (!rc) rc = write_and_read(&t, 17);
    CHECK_SAY(!rc, "%s", t.err.msg);
    CHECK(!rc && evaluate(&t, t.back.graph, x, 2, 2, y, 12) && (int)y[9] == 1 && (int)y[0] == 0);
    done(&t);
    tensor = om_tensor("", 8, 1, (const int64_t[]){0}); /* of texts: still none */
    n = one("List", "x"), a = attribute("tensor", 4), om_sub(&a, 5, &tensor), om_sub(&n, 5, &a);
    refuse(&n, "2,2", 2, 1, PH_EUNSUP, "attribute 'tensor' is a tensor of string");
    n = one("Double", "x"), om_number(&n, "k", 1), om_number(&n, "l", 1), om_number(&n, "k", 2);
    refuse(&n, "2,2", 1, 1, PH_EFORMAT, "attribute 'k' is there twice");
    refuse(&n, "2,2", 1, 1, PH_EFORMAT, "at node 'y' (Double), byte");
    /* A kind that is not given, and one that is another than the operator asks for. */
    n = one("List", "x"), a = attribute("tensor", 9), om_sub(&n, 5, &a);
    refuse(&n, "2,2", 2, 1, PH_EUNSUP, "attribute 'tensor' is of a kind that plug-ins are not given");
    n = one("Wrong", "x"), om_number(&n, "whole", 1);
    m = model_of(&n, 1, "2,2", 1);
    CHECK(!import_with(&t, &m, registry()));
    CHECK(!evaluate(&t, t.g.graph, x, 2, 2, y, 4) &&
          says(&t.err,
               "com.test::Wrong (plug-in test): attribute 'whole' is an int in the model, not a float"));
    done(&t);
}

void test_user_symbols(void) {
    trip     t;
    char     text[80];
    om_bytes n = one("Reckons", "x,axes"), m = model_of(&n, 1, "batch,4", 1);
    ph_rc    rc = import_with(&t, &m, registry());
    CHECK_SAY(!rc, "%s", t.err.msg);
    if (!rc) {
        ph_shape_print(&t.g.graph->value[ph_graph_find(t.g.graph, "y")].shape, text, sizeof text);
        CHECK_SAY(!strcmp(text, "[1+2A, 2A]"), "%s", text);
    }
    done(&t);
    m = model_of(&n, 1, "batch,time", 1); /* two symbols: a product of them, but no sum */
    CHECK_SAY(!import_with(&t, &m, registry()), "%s", t.err.msg);
    ph_shape_print(&t.g.graph->value[ph_graph_find(t.g.graph, "y")].shape, text, sizeof text);
    CHECK_SAY(!strcmp(text, "[1+2A, AB/2]"), "%s", text);
    done(&t);
    n = one("Reckons", "x"); /* plain numbers */
    m = model_of(&n, 1, "3,4", 1);
    CHECK(!import_with(&t, &m, registry()));
    ph_shape_print(&t.g.graph->value[ph_graph_find(t.g.graph, "y")].shape, text, sizeof text);
    CHECK_SAY(!strcmp(text, "[7, 6]"), "%s", text);
    done(&t);
}

/* Of versions the newest that the model's allows; names of other domains are no names of ours. */
void test_user_names(void) {
    trip     t;
    float    x[4] = {1, 2, 3, 4}, y[4];
    om_bytes n = one("Newer", "x"), m = model_of(&n, 1, "2,2", 3);
    CHECK(!import_with(&t, &m, registry()) && evaluate(&t, t.g.graph, x, 2, 2, y, 4) && y[3] == 8);
    done(&t);
    m = model_of(&n, 1, "2,2", 4);
    CHECK(!import_with(&t, &m, registry()) && !evaluate(&t, t.g.graph, x, 2, 2, y, 4));
    CHECK(says(&t.err, "com.test::Newer (plug-in test): the number 13 may not come") &&
          t.err.code == PH_EFORMAT);
    CHECK_SAY(says(&t.err, "while evaluating y"), "%s", t.err.note[0]);
    done(&t);
    n = one("Fails", "x"), om_number(&n, "silent", 1), m = model_of(&n, 1, "2,2", 4);
    CHECK(!import_with(&t, &m, registry()) && !evaluate(&t, t.g.graph, x, 2, 2, y, 4));
    CHECK(says(&t.err, "eval gave -77 and did not say why"));
    done(&t);
    n = one("MatMul", "x,x"), m = model_of(&n, 1, "2,2", 1);
    CHECK(!import_with(&t, &m, registry()) && evaluate(&t, t.g.graph, x, 2, 2, y, 4) && y[1] == 4);
    CHECK(!strcmp(t.g.graph->node[0].op->name, "com.test::MatMul") && !ph_op_find("com.test::MatMul"));
    done(&t);
    n = one("Scratch", "x"), m = model_of(&n, 1, "2,2", 1);
    CHECK(!import_with(&t, &m, registry()) && evaluate(&t, t.g.graph, x, 2, 2, y, 4) && y[2] == 6);
    done(&t);
}

/* A function of the model imports its domain in another version than the model: nodes of both are there, and
 * what is written could import one. */
static void write_versions(const char *op, int64_t inner, int64_t outer, const char *word) {
    trip     t;
    om_bytes f = {.n = 0}, new = om_node(op, "com.test", "a", "b"),
             n[2] = {om_node("F", "fs", "x", "t"), om_node("Newer", "com.test", "t", "y")},
             m = model_of(n, 2, "2,2", outer);
    om_text(&f, 1, "F"), om_text(&f, 4, "a"), om_text(&f, 5, "b"), om_sub(&f, 7, &new);
    om_opset(&f, 9, "", 17), om_opset(&f, 9, "com.test", inner), om_text(&f, 10, "fs");
    om_opset(&m, 8, "fs", 1), om_sub(&m, 25, &f);
    ph_rc rc = import_with(&t, &m, registry());
    CHECK_SAY(!rc && t.g.graph->n_nodes == 2, "%s", t.err.msg);
    rc = write_and_read(&t, 17);
    CHECK_SAY(word ? rc == PH_EUNSUP && says(&t.err, word) : !rc, "%s: %s", ph_rc_name(rc), t.err.msg);
    for (size_t i = 0; !word && !rc && i < 2; i++) CHECK(t.back.graph->node[i].op == t.g.graph->node[i].op);
    done(&t);
}

void test_user_versions(void) {
    write_versions("Newer", 4, 1,
                   "node y is com.test::Newer since version 1; a model imports one version of a domain, "
                   "here 4 for node");
    write_versions("Newer", 1, 4, "and there it would be the operator since version 4");
    write_versions("Newer", 3, 1, NULL); /* the same operator in both */
    write_versions("Double", 9, 1, NULL);
    write_versions("List", 2, 1, NULL); /* written as 2: both are what they were */
    write_versions("List", 2, 4, NULL);
}

typedef struct text {
    char   at[4096];
    size_t n;
} text;

static void write_text(void *to, const char *from, size_t n) {
    text *t = to;
    CHECK(t->n + n < sizeof t->at);
    memcpy(t->at + t->n, from, n);
    t->n += n;
}

/* An operator's name is a stranger's word, like a node's. */
void test_user_dot(void) {
    const pinhole_op op = OP("a\"b\\c{|}", 1, 0, 1, 1, 1, 1, NULL, infer_same, eval_double);
    pinhole_op_table t = table;
    ph_user_ops     *u = NULL;
    ph_graph        *g = NULL;
    text             dot = {.n = 0};
    t.ops = &op;
    t.n_ops = 1;
    CHECK(!ph_user_ops_open(&u, NULL) && !ph_user_ops_add(u, &t, "t.so", &lock, NULL) &&
          !ph_graph_open(&g, "g", NULL));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(1, ph_dim_of(4)));
    ph_graph_output(
        g,
        ph_graph_node_of(g, ph_user_op_at(u, 0) ? &ph_user_op_at(u, 0)->op : NULL, 1, &x, 1, NULL, 0, "q\""),
        "y");
    CHECK(!ph_graph_finish(g, NULL));
    ph_graph_dot(g, write_text, &dot);
    CHECK_SAY(strstr(dot.at, "[label=\"com.test::a\\\"b\\\\c{|}\\nq\\\"\"];"), "%s", dot.at);
    ph_graph_close(g);
    ph_user_ops_close(u);
}

/* Three outputs of which the second is left out. */
void test_user_outputs(void) {
    trip     t;
    float    x[4] = {1, 2, 3, 4}, y[4];
    om_bytes n[2] = {om_node("Double", "com.test", "x", "a,,c"), om_node("Sub", "", "c,a", "y")},
             m = model_of(n, 2, "batch,2", 1);
    ph_rc rc = import_with(&t, &m, registry());
    CHECK_SAY(!rc, "%s", t.err.msg);
    CHECK(!rc && evaluate(&t, t.g.graph, x, 2, 2, y, 4) && y[0] == 2 && y[3] == 2);
    rc = write_and_read(&t, 17);
    CHECK_SAY(!rc, "%s", t.err.msg);
    CHECK(!rc && evaluate(&t, t.back.graph, x, 2, 2, y, 4) && y[1] == 2);
    done(&t);
}

/* How many nodes of this operator are left after the import and the passes, and how often it was called. */
static size_t left(const char *op, const char *in, int *calls, int is_read) {
    trip        t;
    ph_pass_env env = {0};
    size_t      n_left = 0;
    om_bytes    n[4] = {om_node(op, "com.test", in, "a"), om_node(op, "com.test", in, "b"),
                        om_node("Add", "", is_read ? "a,b" : "a,a", "c"), om_node("Add", "", "c,x", "y")};
    om_bytes    g = {.n = 0}, w = om_tensor("w", 1, 2, (const int64_t[]){2, 2});
    om_data(&w, 9, (const float[]){1, 2, 3, 4}, 16);
    for (int i = 0; i < 4; i++) om_sub(&g, 1, &n[i]);
    om_value(&g, 11, "x", 1, "2,2");
    om_value(&g, 12, "y", 1, "2,2");
    om_sub(&g, 5, &w);
    om_bytes m = om_model(&g, 17);
    om_opset(&m, 8, "com.test", 1);
    atomic_store(&called, 0);
    ph_rc rc = import_with(&t, &m, registry());
    env.kernels = &t.kernels;
    if (!rc) rc = ph_passes_run(t.g.graph, &env, NULL, &t.err);
    CHECK_SAY(!rc, "%s", t.err.msg);
    for (size_t i = 0; !rc && i < t.g.graph->n_nodes; i++)
        n_left += !strncmp(t.g.graph->node[i].op->name, "com.test::", 10);
    *calls = atomic_load(&called);
    float x[4] = {1, 1, 1, 1}, y[4];
    CHECK(!rc && evaluate(&t, t.g.graph, x, 2, 2, y, 4) && y[3] == (*in == 'w' ? 17 : 5));
    done(&t);
    return n_left;
}

void test_user_passes(void) {
    int calls;
    CHECK(left("Double", "w", &calls, 1) == 0);         /* of constants, and declared so: folded */
    CHECK(left("Double", "x", &calls, 1) == 1);         /* equal ones once */
    CHECK(left("Pure", "w", &calls, 1) == 1 && !calls); /* not declared to be folded: called in runs only */
    CHECK(left("Pure", "x", &calls, 0) == 1 && !calls); /* read by nobody */
    CHECK(left("Acts", "w", &calls, 1) == 2 && !calls); /* has an effect: none is merged, */
    CHECK(left("Acts", "x", &calls, 0) == 2 && !calls); /* nor taken out */
}
