/* op_recurrent.c - the walk over time that RNN, GRU and LSTM share.  See op_recurrent.h. */
#include "graph/op/op_recurrent.h"
#include "graph/onnx/onnx_emit.h"

#include <math.h>
#include <string.h>

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double relu(double x) {
    return x > 0 ? x : 0;
}

static double hard_sigmoid(double x) {
    return fmax(0, fmin(1, 0.2 * x + 0.5));
}

static double softsign(double x) {
    return x / (1 + fabs(x));
}

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static const struct {
    const char        *name;
    ph_rnn_activation *f;
} known[] = {{"Sigmoid", sigmoid},          {"Tanh", tanh},         {"Relu", relu},
             {"HardSigmoid", hard_sigmoid}, {"Softsign", softsign}, {"Softplus", softplus}};

/* Word `at` of a list apart by commas. */
static ph_rnn_activation *activation_of(const char *list, int at) {
    for (; at && list; at--) {
        list = strchr(list, ',');
        if (list) list++;
    }
    for (size_t i = 0; list && i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        if (!strncmp(list, known[i].name, n) && (!list[n] || list[n] == ',')) return known[i].f;
    }
    return NULL;
}

static ph_rc directions_of(const ph_node *n, int *count, int *is_back, ph_err *err) {
    const char *word = ph_node_text(n, "direction", "forward");
    *count = strcmp(word, "bidirectional") ? 1 : 2;
    *is_back = !strcmp(word, "reverse");
    if (*count == 2 || *is_back || !strcmp(word, "forward")) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP, "%s: direction \"%.32s\"", n->op->name, word);
}

static ph_rc check_activations(const ph_node *n, const ph_rnn_kind *kind, int directions, ph_err *err) {
    const char *list = ph_node_text(n, "activations", "");
    for (int i = 0; *list && i < kind->n_activations * directions; i++)
        if (!activation_of(list, i))
            return PH_FAIL(err, PH_EUNSUP, "%s: activations \"%.60s\"", n->op->name, list);
    return PH_OK;
}

/* Input i, when it is there, is f32 of this shape. */
static ph_rc want_shape(const ph_graph *g, const ph_node *n, int i, ph_shape want, ph_err *err) {
    if (!ph_in(g, n, i)) return PH_OK;
    PH_TRY(ph_want(g, n, i, PH_F32, want.rank, err));
    if (ph_shape_same(&ph_in(g, n, i)->shape, &want)) return PH_OK;
    return ph_disagree(g, &ph_in(g, n, i)->shape, &want,
                       "a weight or state of a recurrent operator, and wanted", err);
}

ph_rc ph_rnn_infer(const ph_graph *g, const ph_node *n, ph_value *out, const ph_rnn_kind *kind, ph_err *err) {
    int     count, is_back, batch_first = ph_node_int(n, "layout", 0) != 0;
    int64_t hidden = ph_node_int(n, "hidden_size", 0);
    PH_TRY(directions_of(n, &count, &is_back, err));
    PH_TRY(check_activations(n, kind, count, err));
    PH_TRY(ph_want(g, n, 0, PH_F32, 3, err));
    const ph_shape *x = &ph_in(g, n, 0)->shape, *w = &ph_in(g, n, 1)->shape;
    ph_dim          t = x->dim[batch_first], b = x->dim[!batch_first], d = ph_dim_of(count);
    PH_TRY(ph_want(g, n, 1, PH_F32, 3, err));
    if (!hidden && ph_dim_is_fixed(w->dim[1])) hidden = w->dim[1].mul / kind->gates;
    if (hidden < 1 || hidden > 1 << 24 || !ph_dim_is_fixed(x->dim[2]))
        return PH_FAIL(err, PH_EMISMATCH, "%s: hidden_size %lld", n->op->name, (long long)hidden);
    ph_dim rows = ph_dim_of(hidden * kind->gates), h = ph_dim_of(hidden),
           both = ph_dim_of(2 * hidden * kind->gates);
    ph_shape state = batch_first ? ph_shape_of(3, b, d, h) : ph_shape_of(3, d, b, h);
    PH_TRY(want_shape(g, n, 1, ph_shape_of(3, d, rows, x->dim[2]), err));
    PH_TRY(want_shape(g, n, 2, ph_shape_of(3, d, rows, h), err));
    PH_TRY(want_shape(g, n, 3, ph_shape_of(2, d, both), err));
    if (ph_in(g, n, 4)) {
        PH_TRY(ph_want(g, n, 4, PH_I32, 1, err));
        if (!ph_dim_same(ph_in(g, n, 4)->shape.dim[0], b))
            return ph_disagree(g, x, &ph_in(g, n, 4)->shape, "sequence_lens wants one a sequence", err);
    }
    PH_TRY(want_shape(g, n, 5, state, err));
    if (kind->has_cell) {
        PH_TRY(want_shape(g, n, 6, state, err));
        PH_TRY(want_shape(g, n, 7, ph_shape_of(2, d, ph_dim_of(3 * hidden)), err));
    }
    ph_shape y = batch_first ? ph_shape_of(4, b, t, d, h) : ph_shape_of(4, t, d, b, h);
    ph_infer_set(&out[0], PH_F32, &y);
    for (int k = 1; k < n->n_out; k++) ph_infer_set(&out[k], PH_F32, &state);
    return PH_OK;
}

double ph_rnn_input(const ph_rnn *r, int64_t k, const float *x) {
    double sum = r->b ? (double)r->b[k] : 0;
    for (int64_t i = 0; i < r->inputs; i++) sum += (double)r->w[k * r->inputs + i] * (double)x[i];
    return sum;
}

double ph_rnn_state(const ph_rnn *r, int64_t k, const float *h) {
    double sum = r->b ? (double)r->b[r->gates * r->hidden + k] : 0;
    for (int64_t i = 0; i < r->hidden; i++) sum += (double)r->r[k * r->hidden + i] * (double)h[i];
    return sum;
}

double ph_rnn_clip(const ph_rnn *r, double x) {
    return r->clip > 0 ? fmax(-r->clip, fmin(r->clip, x)) : x;
}

typedef struct walk { /* sizes, and the arrays that are there */
    int64_t      steps, batch, hidden, inputs;
    int          directions, batch_first;
    const float *x, *h0, *c0;
    const float *w, *r, *b, *p;
    ph_array     lens;
    float       *y, *y_h, *y_c, *state[4]; /* h, c, and the next of both */
} walk;

static int64_t state_at(const walk *w, int64_t d, int64_t b) {
    return (w->batch_first ? b * w->directions + d : d * w->batch + b) * w->hidden;
}

/* One sequence in one direction. */
static void run(const walk *w, const ph_rnn *r, const ph_rnn_kind *kind, int d, int is_back, int64_t b) {
    int64_t length = w->lens.data ? ph_int_at(&w->lens, b) : w->steps, at = state_at(w, d, b);
    size_t  bytes = (size_t)w->hidden * sizeof(float);
    float  *h = w->state[0], *c = w->state[1], *h_new = w->state[2], *c_new = w->state[3];
    if (length < 0) length = 0;
    if (length > w->steps) length = w->steps;
    memset(h, 0, bytes);
    memset(c, 0, bytes);
    if (w->h0) memcpy(h, w->h0 + at, bytes);
    if (w->c0) memcpy(c, w->c0 + at, bytes);
    for (int64_t i = 0; i < length; i++) {
        int64_t t = is_back ? length - 1 - i : i;
        int64_t row = w->batch_first ? b * w->steps + t : t * w->batch + b;
        kind->step(r, w->x + row * w->inputs, h, c, h_new, c_new);
        memcpy(h, h_new, bytes);
        if (kind->has_cell) memcpy(c, c_new, bytes);
        int64_t to =
            w->batch_first ? (b * w->steps + t) * w->directions + d : (t * w->directions + d) * w->batch + b;
        memcpy(w->y + to * w->hidden, h, bytes);
    }
    memcpy(w->y_h + at, h, bytes);
    if (w->y_c) memcpy(w->y_c + at, c, bytes);
}

static ph_rc optional(const float **to, const ph_node *n, const ph_array *in, int i, const ph_eval *e,
                      ph_err *err) {
    *to = NULL;
    return i < n->n_in && n->in[i] >= 0 ? ph_floats(to, &in[i], e, err) : PH_OK;
}

static ph_rc open_walk(walk *w, const ph_node *n, const ph_array *in, ph_array *out, const ph_rnn_kind *kind,
                       const ph_eval *e, ph_err *err) {
    PH_TRY(optional(&w->x, n, in, 0, e, err));
    PH_TRY(optional(&w->w, n, in, 1, e, err));
    PH_TRY(optional(&w->r, n, in, 2, e, err));
    PH_TRY(optional(&w->b, n, in, 3, e, err));
    PH_TRY(optional(&w->h0, n, in, 5, e, err));
    if (kind->has_cell) PH_TRY(optional(&w->c0, n, in, 6, e, err));
    if (kind->has_cell) PH_TRY(optional(&w->p, n, in, 7, e, err));
    if (n->n_in > 4 && n->in[4] >= 0) PH_TRY(ph_dense(&w->lens, &in[4], e, err));
    w->y = out[0].data, w->y_h = out[1].data, w->y_c = kind->has_cell ? out[2].data : NULL;
    memset(w->y, 0, (size_t)ph_array_count(&out[0]) * sizeof(float));
    for (int i = 0; i < 4; i++) PH_TRY(ph_scratch(&w->state[i], w->hidden, e, err));
    return PH_OK;
}

ph_rc ph_rnn_eval(const ph_node *n, const ph_array *in, ph_array *out, const ph_rnn_kind *kind,
                  const ph_eval *e, ph_err *err) {
    int  first = ph_node_int(n, "layout", 0) != 0, is_back;
    walk w = {
        .batch_first = first, .steps = in[0].dim[first], .batch = in[0].dim[!first], .inputs = in[0].dim[2]};
    w.hidden = in[2].dim[2];
    PH_TRY(directions_of(n, &w.directions, &is_back, err));
    if (!ph_array_count(&out[1])) return PH_OK;
    PH_TRY(open_walk(&w, n, in, out, kind, e, err));
    const char *given = ph_node_text(n, "activations", "");
    for (int d = 0; d < w.directions; d++) {
        int64_t rows = kind->gates * w.hidden;
        ph_rnn  r = {.hidden = w.hidden,
                     .inputs = w.inputs,
                     .gates = kind->gates,
                     .w = w.w + d * rows * w.inputs,
                     .r = w.r + d * rows * w.hidden,
                     .b = w.b ? w.b + d * 2 * rows : NULL,
                     .p = w.p ? w.p + d * 3 * w.hidden : NULL,
                     .clip = ph_node_float(n, "clip", 0),
                     .is_coupled = ph_node_int(n, "input_forget", 0) != 0,
                     .reset_is_later = ph_node_int(n, "linear_before_reset", 0) != 0};
        for (int i = 0; i < kind->n_activations; i++)
            r.f[i] = *given ? activation_of(given, d * kind->n_activations + i)
                            : activation_of(kind->activations, i);
        for (int64_t b = 0; b < w.batch; b++) run(&w, &r, kind, d, is_back || d == 1, b);
    }
    return PH_OK;
}

/* ---- as ONNX ---- */

/* The words of a list apart by commas, in `words`; how many. */
static size_t words_of(ph_oo *o, const char *list, const char *words[PH_RNN_ACTIVATIONS * 2]) {
    size_t n = 0;
    for (const char *p = list; *p && n < PH_RNN_ACTIVATIONS * 2;) {
        size_t word = strcspn(p, ",");
        words[n++] = ph_oo_text(o, "%.*s", (int)word, p);
        p += word + (p[word] == ',');
    }
    return n;
}

void ph_write_recurrent(ph_oo *o, const ph_node *n) {
    const char  *words[PH_RNN_ACTIVATIONS * 2], *in[8];
    ph_onnx_attr attr[7];
    size_t       count = 0, n_words = words_of(o, ph_node_text(n, "activations", ""), words);
    double       clip = ph_node_float(n, "clip", 0);
    attr[count++] = PH_OO_TEXT("direction", ph_node_text(n, "direction", "forward"));
    attr[count++] = PH_OO_INT("hidden_size", ph_node_int(n, "hidden_size", 0));
    if (ph_node_int(n, "layout", 0)) attr[count++] = PH_OO_INT("layout", 1);
    if (clip > 0) attr[count++] = PH_OO_FLOAT("clip", clip);
    if (ph_node_int(n, "input_forget", 0)) attr[count++] = PH_OO_INT("input_forget", 1);
    if (ph_node_int(n, "linear_before_reset", 0)) attr[count++] = PH_OO_INT("linear_before_reset", 1);
    if (n_words)
        attr[count++] =
            (ph_onnx_attr){.name = "activations", .type = PH_ONNX_A_TEXTS, .texts = words, .n = n_words};
    for (int i = 0; i < 8; i++) in[i] = ph_oo_in(o, n, i);
    ph_oo_emit(o, n, "", n->op->name, in, 8, attr, count);
}
