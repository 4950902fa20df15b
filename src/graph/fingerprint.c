/* fingerprint.c - what a graph computes as one number: operators, attributes, shapes, and how its weights are
 * stored.  Not the weights' numbers, nor names: what is to be known is whether two would take the same time.
 */
#include "graph/op.h"

#include "base/locale.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static void add(XXH3_state_t *s, const void *bytes, size_t n) {
    XXH3_128bits_update(s, bytes, n);
}

/* With its end, so that neighbours do not run together. */
static void add_text(XXH3_state_t *s, const char *text) {
    add(s, text, strlen(text) + 1);
}

static void add_int(XXH3_state_t *s, int64_t x) {
    uint8_t at[8];
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)((uint64_t)x >> 8 * i);
    add(s, at, sizeof at);
}

static void add_real(XXH3_state_t *s, double x) {
    char text[40];
    ph_plain_print(text, sizeof text, "%.17g", x);
    add_text(s, text);
}

static void add_attr(XXH3_state_t *s, const ph_attr *a) {
    add_text(s, a->name);
    add_int(s, a->type);
    add_int(s, a->i);
    add_real(s, a->f);
    add_text(s, a->text ? a->text : "");
    add_int(s, (int64_t)a->n);
    for (size_t i = 0; i < a->n && a->ints; i++) add_int(s, a->ints[i]);
    for (size_t i = 0; i < a->n && a->floats; i++) add_real(s, a->floats[i]);
    for (size_t i = 0; i < a->n && a->texts; i++) add_text(s, a->texts[i]);
    if (!a->tensor) return;
    add_text(s, ph_dtype_name(a->tensor->dtype));
    for (int i = 0; i < a->tensor->rank; i++) add_int(s, a->tensor->dim[i]);
    add(s, a->tensor->bytes, a->tensor->n_bytes);
}

static void add_node(XXH3_state_t *s, const ph_node *n) {
    add_text(s, n->op->name);
    add_int(s, n->n_in);
    for (int i = 0; i < n->n_in; i++) add_int(s, n->in[i]);
    add_int(s, n->n_out);
    for (int i = 0; i < n->n_out; i++) add_int(s, n->out[i]);
    add_int(s, n->n_attr);
    for (int i = 0; i < n->n_attr; i++) add_attr(s, &n->attr[i]);
}

static void add_value(XXH3_state_t *s, const ph_value *v) {
    char shape[256];
    ph_shape_print(&v->shape, shape, sizeof shape);
    add_int(s, v->cls);
    add_int(s, v->dtype);
    add_text(s, shape);
    if (v->cls != PH_VALUE_CONSTANT) return;
    add_text(s, ph_dtype_name(v->storage.dtype));
    add_text(s, v->storage.form ? v->storage.form->name : "");
    add_int(s, (int64_t)v->storage.group);
    add_int(s, v->storage.n_planes);
    for (int i = 0; i < v->storage.n_planes; i++) add_int(s, (int64_t)v->storage.plane[i].n);
}

static void add_graph(XXH3_state_t *s, const ph_graph *g) {
    add_int(s, g ? (int64_t)g->n_nodes : -1);
    for (size_t i = 0; g && i < g->n_nodes; i++) add_node(s, &g->node[i]);
    for (size_t i = 0; g && i < g->n_values; i++) add_value(s, &g->value[i]);
}

ph_rc ph_graph_fingerprint(const ph_graph *const *g, size_t n, char out[PH_FINGERPRINT], ph_err *err) {
    XXH3_state_t      *s = XXH3_createState();
    XXH128_canonical_t now;
    if (!s || XXH3_128bits_reset(s)) {
        XXH3_freeState(s);
        return PH_FAIL(err, PH_ENOMEM, "the fingerprint of %zu graphs", n);
    }
    for (size_t i = 0; i < n; i++) add_graph(s, g[i]);
    XXH128_canonicalFromHash(&now, XXH3_128bits_digest(s));
    XXH3_freeState(s);
    for (size_t i = 0; i < sizeof now.digest; i++) snprintf(out + 2 * i, 3, "%02x", now.digest[i]);
    return PH_OK;
}
