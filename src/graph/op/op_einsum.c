/* op_einsum.c - Einsum: products of the inputs' elements, summed over the letters that the result has not
 * (opset 12).
 *
 *     "bij,bjk->bik"     "ii->i"     "...ij,...jk"  (without ->: the letters that occur once, in order)
 *
 * Letters are dimensions; a fixed 1 stretches.  "..." stands for the leading dimensions that have no letter.
 */
#include "graph/op/op_help.h"

#include <string.h>

enum { LABELS = 52 + PH_RANK_MAX, INPUTS_MAX = 8 }; /* letters, then the dimensions of "..." from the right */

typedef struct term {
    int n, label[PH_RANK_MAX];
} term;

typedef struct form {
    term in[INPUTS_MAX], out;
    int  dots; /* dimensions of the longest "..." */
} form;

static int label_of(char c) {
    if (c >= 'a' && c <= 'z') return c - 'a';
    return c >= 'A' && c <= 'Z' ? c - 'A' + 26 : -1;
}

/* One term of the equation, spaces left out; rank -1: that of the result. */
static ph_rc read_term(const char *text, size_t n, int rank, int dots, term *t, ph_err *err) {
    int letters = 0;
    *t = (term){0};
    for (size_t i = 0; i < n; i++) letters += label_of(text[i]) >= 0;
    for (size_t i = 0; i < n; i++) {
        int own = rank < 0 ? dots : rank - letters;
        if (text[i] == ' ') continue;
        if (text[i] == '.') {
            if (i + 2 >= n || text[i + 1] != '.' || text[i + 2] != '.' || own < 0 || t->n + own > PH_RANK_MAX)
                return PH_FAIL(err, PH_EMISMATCH, "Einsum: \"%.*s\" for rank %d", (int)(n > 40 ? 40 : n),
                               text, rank);
            for (int k = own; k-- > 0;) t->label[t->n++] = 52 + k;
            i += 2;
            continue;
        }
        if (label_of(text[i]) < 0 || t->n == PH_RANK_MAX)
            return PH_FAIL(err, PH_EMISMATCH, "Einsum: \"%.*s\" is no term", (int)(n > 40 ? 40 : n), text);
        t->label[t->n++] = label_of(text[i]);
    }
    if (rank >= 0 && t->n != rank)
        return PH_FAIL(err, PH_EMISMATCH, "Einsum: \"%.*s\" has %d letters, the input rank %d",
                       (int)(n > 40 ? 40 : n), text, t->n, rank);
    return PH_OK;
}

/* The result without "->": "..." and then the letters that occur once, in order. */
static ph_rc implied(form *f, int n_in, ph_err *err) {
    int times[LABELS] = {0};
    for (int i = 0; i < n_in; i++)
        for (int k = 0; k < f->in[i].n; k++) times[f->in[i].label[k]]++;
    f->out = (term){0};
    for (int k = f->dots; k-- > 0;) f->out.label[f->out.n++] = 52 + k;
    static const char order[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (const char *c = order; *c; c++) {
        if (times[label_of(*c)] != 1) continue;
        if (f->out.n == PH_RANK_MAX)
            return PH_FAIL(err, PH_ELIMIT, "Einsum: the result has more than 8 dimensions");
        f->out.label[f->out.n++] = label_of(*c);
    }
    return PH_OK;
}

static ph_rc read_form(const ph_node *n, const int *rank, form *f, ph_err *err) {
    const char *at = ph_node_text(n, "equation", ""), *arrow = strstr(at, "->");
    size_t      left = arrow ? (size_t)(arrow - at) : strlen(at);
    *f = (form){0};
    if (n->n_in > INPUTS_MAX) return PH_FAIL(err, PH_EUNSUP, "Einsum of %d inputs", n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        const char *comma = memchr(at, ',', left);
        size_t      size = comma ? (size_t)(comma - at) : left;
        if (!comma != (i == n->n_in - 1))
            return PH_FAIL(err, PH_EMISMATCH, "Einsum: the equation has not %d terms", n->n_in);
        PH_TRY(read_term(at, size, rank[i], 0, &f->in[i], err));
        for (int k = 0; k < f->in[i].n; k++)
            if (f->in[i].label[k] - 51 > f->dots) f->dots = f->in[i].label[k] - 51;
        at += size + 1;
        left -= comma ? size + 1 : left;
    }
    if (!arrow) return implied(f, n->n_in, err);
    return read_term(arrow + 2, strlen(arrow + 2), -1, f->dots, &f->out, err);
}

static ph_rc infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err) {
    ph_dim size[LABELS];
    int    is_set[LABELS] = {0}, rank[INPUTS_MAX], seen[LABELS] = {0};
    form   f;
    if (n->n_in > INPUTS_MAX) return PH_FAIL(err, PH_EUNSUP, "Einsum of %d inputs", n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        PH_TRY(ph_want(g, n, i, PH_F32, -1, err));
        rank[i] = ph_in(g, n, i)->shape.rank;
    }
    PH_TRY(read_form(n, rank, &f, err));
    for (int i = 0; i < n->n_in; i++)
        for (int k = 0; k < f.in[i].n; k++) {
            int    l = f.in[i].label[k];
            ph_dim d = ph_in(g, n, i)->shape.dim[k], one = ph_dim_of(1);
            if (!is_set[l] || ph_dim_same(size[l], one)) size[l] = d;
            is_set[l] = 1;
            if (!ph_dim_same(size[l], d) && !ph_dim_same(d, one))
                return ph_disagree(g, &ph_in(g, n, 0)->shape, &ph_in(g, n, i)->shape,
                                   "one letter of Einsum has two sizes", err);
        }
    ph_shape y = {.rank = f.out.n};
    for (int k = 0; k < f.out.n; k++) {
        int l = f.out.label[k];
        if (!is_set[l] || seen[l]++)
            return PH_FAIL(err, PH_EMISMATCH,
                           "Einsum: a letter of the result is in no input, or there twice");
        y.dim[k] = size[l];
    }
    ph_infer_set(&out[0], PH_F32, &y);
    return PH_OK;
}

/* All letters as one odometer: those of the result first, then those summed over. */
typedef struct loops {
    int     n;
    int64_t size[LABELS], index[LABELS], step[INPUTS_MAX][LABELS], at[INPUTS_MAX];
} loops;

static int64_t lay_loops(const form *f, const ph_node *n, const ph_array *in, loops *l) {
    int     place[LABELS];
    int64_t inner = 1;
    memset(place, -1, sizeof place);
    for (int k = 0; k < f->out.n; k++) place[f->out.label[k]] = l->n++;
    for (int i = 0; i < n->n_in; i++) {
        int64_t step = 1;
        for (int k = f->in[i].n; k-- > 0; step *= in[i].dim[k]) {
            int b = f->in[i].label[k];
            if (place[b] < 0) place[b] = l->n++;
            int p = place[b];
            if (in[i].dim[k] != 1 || !l->size[p]) l->size[p] = in[i].dim[k];
            if (in[i].dim[k] != 1) l->step[i][p] += step;
        }
    }
    for (int p = f->out.n; p < l->n; p++) inner *= l->size[p];
    return inner;
}

static void next(loops *l, int n_in) {
    for (int p = l->n; p-- > 0;) {
        l->index[p]++;
        for (int i = 0; i < n_in; i++) l->at[i] += l->step[i][p];
        if (l->index[p] < l->size[p]) return;
        for (int i = 0; i < n_in; i++) l->at[i] -= l->step[i][p] * l->size[p];
        l->index[p] = 0;
    }
}

static ph_rc eval(const ph_graph *g, const ph_node *n, const ph_array *in, ph_array *out, const ph_eval *e,
                  ph_err *err) {
    const float *x[INPUTS_MAX];
    int          rank[INPUTS_MAX];
    form         f;
    loops        l = {0};
    (void)g;
    for (int i = 0; i < n->n_in; i++) {
        PH_TRY(ph_floats(&x[i], &in[i], e, err));
        rank[i] = in[i].rank;
    }
    PH_TRY(read_form(n, rank, &f, err));
    int64_t inner = lay_loops(&f, n, in, &l), count = ph_array_count(out);
    for (int64_t o = 0; o < count; o++) {
        double sum = 0;
        for (int64_t k = 0; k < inner; k++, next(&l, n->n_in)) {
            double product = 1;
            for (int i = 0; i < n->n_in; i++) product *= (double)x[i][l.at[i]];
            sum += product;
        }
        ((float *)out->data)[o] = (float)sum;
    }
    return PH_OK;
}

const ph_op ph_op_Einsum = {
    .name = "Einsum",
    .domain = "",
    .since = 12,
    .in_min = 1,
    .in_max = INPUTS_MAX,
    .out_min = 1,
    .out_max = 1,
    .infer = infer,
    .is_product = 1,
    .eval = eval,
    .source = "onnx.ai/onnx/operators/onnx__Einsum.html",
};
