/* onnx_props.c - what only our graphs say of a node, read back: modality, fusion_policy, quantization_scale,
 * and of the value that it makes relation and min_dtype.
 *
 * It stands in the node's metadata (IR 10), or in the model's as "pinhole.NODE.WHAT"; "pinhole.modality" of
 * the model is that of all nodes that say nothing.  What is no such word is ignored: others may write there.
 */
#include "graph/onnx/onnx_impl.h"

#include "base/locale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b) {
    return strcmp(((const ph_onnx_prop *)a)->key, ((const ph_onnx_prop *)b)->key);
}

static const char *of_model(const ph_oi *o, const char *key) {
    const ph_onnx_prop  wanted = {.key = key};
    const ph_onnx_prop *p = o->n_props ? bsearch(&wanted, o->prop, o->n_props, sizeof *p, by_key) : NULL;
    return p ? p->value : NULL;
}

ph_rc ph_oi_props_open(ph_oi *o, ph_err *err) {
    void *p;
    if (!o->m->n_props) return PH_OK;
    PH_TRY(ph_arena_carve(&o->arena, &p, o->m->n_props, sizeof(ph_onnx_prop), err));
    memcpy(p, o->m->prop, o->m->n_props * sizeof(ph_onnx_prop));
    qsort(p, o->m->n_props, sizeof(ph_onnx_prop), by_key);
    o->prop = p;
    o->n_props = o->m->n_props;
    const char *all = of_model(o, "pinhole.modality");
    if (all) ph_modality_find(all, &o->g->modality);
    return PH_OK;
}

/* What the file says of n under "pinhole.WHAT"; NULL: nothing. */
static const char *said(const ph_oi *o, const ph_onnx_node *n, const char *what) {
    char key[512];
    for (size_t i = 0; i < n->n_props; i++)
        if (!strncmp(n->prop[i].key, "pinhole.", 8) && !strcmp(n->prop[i].key + 8, what))
            return n->prop[i].value;
    if (!o->n_props || o->depth ||
        snprintf(key, sizeof key, "pinhole.%s.%s", n->name, what) >= (int)sizeof key)
        return NULL;
    return of_model(o, key);
}

static void copy_text(ph_oi *o, const char *text, const char **out) {
    char *copied;
    if (!ph_arena_copy_text(&o->g->arena, &copied, text, strlen(text), NULL)) *out = copied;
}

void ph_oi_props_apply(ph_oi *o, const ph_onnx_node *n, size_t first) {
    const char *modality = said(o, n, "modality"), *fusion = said(o, n, "fusion_policy"),
               *scale = said(o, n, "quantization_scale"), *relation = said(o, n, "relation"),
               *least = said(o, n, "min_dtype");
    if (!modality && !fusion && !scale && !relation && !least) return;
    for (size_t i = first; i < o->g->n_nodes; i++) {
        ph_node  *node = &o->g->node[i];
        ph_value *v = node->n_out && node->out[0] >= 0 ? &o->g->value[node->out[0]] : NULL;
        if (modality && ph_modality_find(modality, &node->modality) && v) v->modality = node->modality;
        if (fusion) ph_fusion_policy_find(fusion, &node->fusion_policy);
        if (scale) node->quantization_scale = ph_plain_float(scale, NULL);
        if (relation && v) copy_text(o, relation, &v->relation);
        if (least && v) ph_dtype_from_name(least, &v->min_dtype);
    }
}
