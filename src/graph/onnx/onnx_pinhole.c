/* onnx_pinhole.c - our own multimodal operators, as files have them that were written with
 * ph_onnx_export_how.is_ours: the node is ours as it stands.
 *
 * Our operators read an attribute of another type as if it were left out, so types are held to what is
 * written; numbers to what can be reckoned with.
 */
#include "graph/onnx/onnx_forms.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define OURS "pinhole"
enum { VERSION = 1 }; /* of the domain, that is written and read */

typedef struct word {
    const char       *op, *name; /* op "": of all that have it */
    ph_onnx_attr_type type;
} word;

static const word words[] = {
    {"", "alpha", PH_ONNX_A_FLOAT},
    {"", "block", PH_ONNX_A_INT},
    {"", "epsilon", PH_ONNX_A_FLOAT},
    {"", "first", PH_ONNX_A_INTS},
    {"", "kv_num_heads", PH_ONNX_A_INT},
    {"", "lambda", PH_ONNX_A_FLOAT},
    {"", "last", PH_ONNX_A_INTS},
    {"", "num_heads", PH_ONNX_A_INT},
    {"AdapterDispatch", "scale", PH_ONNX_A_FLOATS},
    {"", "scale", PH_ONNX_A_FLOAT},
    {"", "slices", PH_ONNX_A_INTS},
    {"", "sparsity", PH_ONNX_A_FLOAT},
};

static const char *type_name(ph_onnx_attr_type t) {
    static const char *const names[] = {"nothing", "a number", "a whole number", "a text", "a tensor",
                                        "a graph", "numbers",  "whole numbers",  "texts",  "another type"};
    return (size_t)t < sizeof names / sizeof *names ? names[t] : "another type";
}

static const word *word_of(const char *op, const char *name) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name) && (!*words[i].op || !strcmp(words[i].op, op))) return &words[i];
    return NULL;
}

static ph_rc check_word(const ph_onnx_node *n, const char *name, const ph_onnx_attr *a, ph_err *err) {
    const word *w = word_of(n->op, name);
    if (!w || !a) return PH_OK;
    if (a->type != w->type)
        return PH_FAIL(err, PH_EMISMATCH, "%.40s: attribute '%.40s' is %s, not %s", n->op, name,
                       type_name(a->type), type_name(w->type));
    if (a->type == PH_ONNX_A_FLOAT && !isfinite(a->f))
        return PH_FAIL(err, PH_EMISMATCH, "%.40s: %.40s is %g, which is no finite number", n->op, name, a->f);
    for (size_t i = 0; a->type == PH_ONNX_A_FLOATS && i < a->n; i++)
        if (!isfinite(a->floats[i]))
            return PH_FAIL(err, PH_EMISMATCH, "%.40s: number %zu of %.40s is %g, which is no finite number",
                           n->op, i + 1, name, a->floats[i]);
    return PH_OK;
}

static ph_rc take(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    if (o->opset != VERSION)
        return PH_FAIL(err, PH_EMISMATCH,
                       "the model imports opset %" PRId64 " of domain " OURS "; %d is the one that is read",
                       o->opset, VERSION);
    for (size_t i = 0; i < n->n_attrs; i++)
        PH_TRY(check_word(n, n->attr[i].name, ph_oi_attr(o, n, n->attr[i].name), err));
    return ph_oi_plain(o, n, n->op, err);
}

static const ph_oi_row rows[] = {
    {OURS, "AdapterDispatch", 1, "first last scale", take},
    {OURS, "ModalGate", 1, "lambda", take},
    {OURS, "ModalitySwitch", 1, "", take},
    {OURS, "MultiModalAttention", 1, "kv_num_heads num_heads scale slices", take},
    {OURS, "PoolInject", 1, "alpha epsilon", take},
    {OURS, "SparseAttention", 1, "block scale sparsity", take},
};

const ph_oi_row *ph_oi_rows_pinhole(size_t *n) {
    *n = sizeof rows / sizeof *rows;
    return rows;
}
