/* onnx_put.c - nodes, attributes, values and properties as fields of onnx.proto. */
#include "formats/onnx_write.h"

#include <stdlib.h>
#include <string.h>

void ph_onnx_writer_close(ph_onnx_writer *w) {
    ph_pbw_close(&w->nodes);
    ph_pbw_close(&w->values);
    ph_pbw_close(&w->props);
    free(w->weight);
    free(w->others);
    *w = (ph_onnx_writer){0};
}

static void put_pair(ph_pbw *w, unsigned field, const char *key, const char *value) {
    size_t at = ph_pbw_open(w, field);
    ph_pbw_text(w, 1, key);
    ph_pbw_text(w, 2, value);
    ph_pbw_end(w, at);
}

static void put_tensor(ph_pbw *w, const ph_onnx_tensor *t) {
    size_t at = ph_pbw_open(w, 5);
    for (int i = 0; i < t->rank; i++) ph_pbw_int(w, 1, t->dim[i]);
    ph_pbw_int(w, 2, t->type);
    ph_pbw_bytes(w, 9, t->bytes, t->n_bytes);
    ph_pbw_end(w, at);
}

/* AttributeProto.AttributeType has the enum's own numbers. */
static void put_attr(ph_pbw *w, const ph_onnx_attr *a) {
    size_t at = ph_pbw_open(w, 5);
    ph_pbw_text(w, 1, a->name);
    if (a->type == PH_ONNX_A_FLOAT) ph_pbw_float(w, 2, (float)a->f);
    if (a->type == PH_ONNX_A_INT) ph_pbw_int(w, 3, a->i);
    if (a->type == PH_ONNX_A_TEXT) ph_pbw_text(w, 4, a->text);
    if (a->type == PH_ONNX_A_TENSOR) put_tensor(w, a->tensor);
    for (size_t i = 0; i < a->n; i++) {
        if (a->type == PH_ONNX_A_FLOATS) ph_pbw_float(w, 7, (float)a->floats[i]);
        if (a->type == PH_ONNX_A_INTS) ph_pbw_int(w, 8, a->ints[i]);
        if (a->type == PH_ONNX_A_TEXTS) ph_pbw_text(w, 9, a->texts[i]);
    }
    ph_pbw_int(w, 20, a->type == PH_ONNX_A_TEXTS ? 8 : (int64_t)a->type);
    ph_pbw_end(w, at);
}

void ph_onnx_put_node(ph_onnx_writer *o, const ph_onnx_node *n, const ph_onnx_prop *props, size_t n_props) {
    ph_pbw *w = &o->nodes;
    size_t  at = ph_pbw_open(w, 1);
    for (size_t i = 0; i < n->n_in; i++) ph_pbw_text(w, 1, n->in[i]);
    for (size_t i = 0; i < n->n_out; i++) ph_pbw_text(w, 2, n->out[i]);
    ph_pbw_text(w, 3, n->name);
    ph_pbw_text(w, 4, n->op);
    for (size_t i = 0; i < n->n_attrs; i++) put_attr(w, &n->attr[i]);
    if (n->domain && *n->domain) ph_pbw_text(w, 7, n->domain);
    for (size_t i = 0; i < n_props; i++) put_pair(w, 9, props[i].key, props[i].value);
    ph_pbw_end(w, at);
    o->n_nodes++;
}

void ph_onnx_put_value(ph_onnx_writer *o, int is_output, const ph_onnx_value *v) {
    ph_pbw *w = &o->values;
    size_t  at = ph_pbw_open(w, is_output ? 12 : 11);
    ph_pbw_text(w, 1, v->name);
    size_t type = ph_pbw_open(w, 2), tensor = ph_pbw_open(w, 1);
    ph_pbw_int(w, 1, v->type);
    size_t shape = ph_pbw_open(w, 2);
    for (int i = 0; i < v->rank; i++) {
        size_t dim = ph_pbw_open(w, 1);
        if (v->dim[i].size >= 0)
            ph_pbw_int(w, 1, v->dim[i].size);
        else
            ph_pbw_text(w, 2, v->dim[i].param);
        ph_pbw_end(w, dim);
    }
    ph_pbw_end(w, shape);
    ph_pbw_end(w, tensor);
    ph_pbw_end(w, type);
    ph_pbw_end(w, at);
}

void ph_onnx_put_weight(ph_onnx_writer *w, const ph_onnx_stored *s) {
    if (w->n_weights == w->weights_max) {
        size_t          max = w->weights_max ? w->weights_max * 2 : 64;
        ph_onnx_stored *bigger = w->is_broken ? NULL : realloc(w->weight, max * sizeof *bigger);
        if (!bigger) {
            w->is_broken = 1;
            return;
        }
        w->weight = bigger;
        w->weights_max = max;
    }
    w->weight[w->n_weights++] = *s;
}

void ph_onnx_put_opset(ph_onnx_writer *w, const char *domain, int64_t version) {
    for (size_t i = 0; i < w->n_others; i++)
        if (!strcmp(w->others[i].domain, domain)) {
            if (version > w->others[i].version) w->others[i].version = version;
            return;
        }
    ph_onnx_opset *more = realloc(w->others, (w->n_others + 1) * sizeof *more);
    if (!more) {
        w->is_broken = 1;
        return;
    }
    w->others = more;
    w->others[w->n_others++] = (ph_onnx_opset){.domain = domain, .version = version};
}

void ph_onnx_put_prop(ph_onnx_writer *w, const char *key, const char *value) {
    put_pair(&w->props, 14, key, value);
}
