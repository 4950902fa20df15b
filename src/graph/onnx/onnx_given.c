/* onnx_given.c - the dynamic axes that inputs declare, and shapes of all inputs from numbers of them, for
 * models whose shapes symbols cannot hold. */
#include "graph/onnx/onnx_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* The next term of a sum such as "past + 1": its name[*n] at *p, which goes behind it; 0: no more. */
static int next_term(const char **p, const char **name, size_t *n) {
    const char *at = *p;
    if (!at || !*at) return 0;
    while (*at == ' ') at++;
    *name = at;
    *n = strcspn(at, "+");
    *p = at[*n] ? at + *n + 1 : NULL;
    while (*n && at[*n - 1] == ' ') --*n;
    return 1;
}

static int is_number(const char *name) {
    return *name >= '0' && *name <= '9';
}

static int same_axis(const ph_onnx_axis *a, const ph_onnx_axis *b) {
    return a->n == b->n && a->dim == b->dim && !strncmp(a->name, b->name, a->n);
}

static void add(ph_onnx_axis *out, size_t *n, size_t max, ph_onnx_axis a) {
    if (!a.n) return;
    for (size_t i = 0; i < *n; i++)
        if (same_axis(&out[i], &a)) return;
    if (*n < max) out[(*n)++] = a;
}

static void add_declared(ph_onnx_axis *out, size_t *n, size_t max, const ph_onnx_value *v, int dim) {
    const char *p = v->dim[dim].param, *name;
    size_t      length;
    if (!*p) add(out, n, max, (ph_onnx_axis){v->name, strlen(v->name), dim});
    while (next_term(&p, &name, &length))
        if (!is_number(name)) add(out, n, max, (ph_onnx_axis){name, length, -1});
}

size_t ph_onnx_axes_of(const ph_onnx *m, const ph_onnx_graph *g, ph_onnx_axis *out, size_t max) {
    size_t n = 0;
    for (int i = 0; i < PH_N_SYMS; i++)
        if (g->symbol[i]) add(out, &n, max, (ph_onnx_axis){g->symbol[i], strlen(g->symbol[i]), -1});
    if (n) return n;
    for (size_t i = 0; i < m->n_inputs; i++) {
        const ph_onnx_value *v = &m->input[i];
        if (!v->has_shape || ph_onnx_is_initializer(m, v->name)) continue;
        for (int d = 0; d < v->rank; d++)
            if (v->dim[d].size < 0) add_declared(out, &n, max, v, d);
    }
    return n;
}

const char *ph_onnx_axis_name(const ph_onnx_axis *a, char out[PH_ONNX_AXIS_NAME]) {
    char behind[16] = "";
    int  most = PH_ONNX_AXIS_NAME - (int)sizeof behind, n = a->n < (size_t)most ? (int)a->n : most;
    if (a->dim >= 0) snprintf(behind, sizeof behind, "[%d]", a->dim);
    snprintf(out, PH_ONNX_AXIS_NAME, "%.*s%s", n, a->name, behind);
    return out;
}

/* ---- numbers ---- */

/* The number of name[n] in "batch=4,past=0"; 0: it is not there. */
static int listed(const char *list, const char *name, size_t n, int64_t *out) {
    for (const char *p = list; p && *p;) {
        size_t word = strcspn(p, ","), key = strcspn(p, "=,");
        if (key == n && !strncmp(p, name, n) && p[key] == '=') {
            *out = strtol(p + key + 1, NULL, 10);
            return 1;
        }
        p += word + (p[word] == ',');
    }
    return 0;
}

static int holds_past(const char *name, size_t n) {
    for (size_t i = 0; i + 4 <= n; i++)
        if (!strncmp(name + i, "past", 4)) return 1;
    return 0;
}

int ph_onnx_axis_listed(const ph_onnx_axis *a, const char *list, int64_t *out) {
    char text[PH_ONNX_AXIS_NAME];
    if (a->dim < 0) return listed(list, a->name, a->n, out);
    ph_onnx_axis_name(a, text);
    return listed(list, text, strlen(text), out);
}

int64_t ph_onnx_axis_size(const ph_onnx_axis *a, const char *list) {
    int64_t size;
    if (ph_onnx_axis_listed(a, list, &size)) return size;
    return a->dim >= 0 || !holds_past(a->name, a->n);
}

/* One axis of an input; a sum such as "past_length + 1" is that of its terms. */
static int64_t size_of(const char *list, const ph_onnx_value *v, int dim) {
    const char *p = v->dim[dim].param, *name;
    int64_t     sum = 0, one;
    size_t      n;
    if (!*p) return ph_onnx_axis_size(&(ph_onnx_axis){v->name, strlen(v->name), dim}, list);
    if (listed(list, p, strlen(p), &one)) return one;
    while (next_term(&p, &name, &n)) {
        one =
            is_number(name) ? strtol(name, NULL, 10) : ph_onnx_axis_size(&(ph_onnx_axis){name, n, -1}, list);
        if (__builtin_add_overflow(sum, one, &sum)) return 1;
    }
    return sum;
}

size_t ph_onnx_given_of(const ph_onnx *m, const char *list, ph_onnx_given *out, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_inputs && n < max; i++) {
        const ph_onnx_value *v = &m->input[i];
        if (!v->has_shape) continue;
        ph_onnx_given *g = &out[n++];
        *g = (ph_onnx_given){.name = v->name, .rank = v->rank};
        for (int d = 0; d < v->rank; d++)
            g->dim[d] = v->dim[d].size >= 0 ? v->dim[d].size : size_of(list, v, d);
    }
    return n;
}
