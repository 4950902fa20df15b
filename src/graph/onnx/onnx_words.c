/* onnx_words.c - what an attribute may be: its type, and of some which numbers.
 *
 * Handlers and our operators read an attribute of another type as if it were left out, and a flag of 2 as one
 * reader's yes and another's no.  So both are refused before any of them looks, by the attribute's name: a
 * name means the same in all operators but for the few that stand first.
 */
#include "graph/onnx/onnx_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum rule { ANY, FLAG, FINITE } rule; /* FLAG: 0 or 1 */

typedef struct word {
    const char       *name;
    ph_onnx_attr_type type;
    rule              rule;
    const char       *op; /* of this operator only; NULL: of all that have it */
} word;

static const word words[] = {
    {"scale", PH_ONNX_A_FLOATS, FINITE, "AdapterDispatch"},
    {"value", PH_ONNX_A_FLOAT, ANY, "Pad"},
    {"K", PH_ONNX_A_INT, ANY, NULL},
    {"N", PH_ONNX_A_INT, ANY, NULL},
    {"accuracy_level", PH_ONNX_A_INT, ANY, NULL},
    {"activation_alpha", PH_ONNX_A_FLOATS, ANY, NULL},
    {"activation_beta", PH_ONNX_A_FLOATS, ANY, NULL},
    {"activations", PH_ONNX_A_TEXTS, ANY, NULL},
    {"align_corners", PH_ONNX_A_INT, FLAG, NULL},
    {"allowzero", PH_ONNX_A_INT, FLAG, NULL},
    {"alpha", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"antialias", PH_ONNX_A_INT, FLAG, NULL},
    {"approximate", PH_ONNX_A_TEXT, ANY, NULL},
    {"auto_pad", PH_ONNX_A_TEXT, ANY, NULL},
    {"axes", PH_ONNX_A_INTS, ANY, NULL},
    {"axis", PH_ONNX_A_INT, ANY, NULL},
    {"batch_axis", PH_ONNX_A_INT, ANY, NULL},
    {"batch_dims", PH_ONNX_A_INT, ANY, NULL},
    {"beta", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"bias", PH_ONNX_A_FLOAT, ANY, NULL},
    {"bits", PH_ONNX_A_INT, ANY, NULL},
    {"block", PH_ONNX_A_INT, ANY, NULL},
    {"block_size", PH_ONNX_A_INT, ANY, NULL},
    {"blocksize", PH_ONNX_A_INT, ANY, NULL},
    {"ceil_mode", PH_ONNX_A_INT, FLAG, NULL},
    {"clip", PH_ONNX_A_FLOAT, ANY, NULL},
    {"coordinate_transformation_mode", PH_ONNX_A_TEXT, ANY, NULL},
    {"count_include_pad", PH_ONNX_A_INT, FLAG, NULL},
    {"cubic_coeff_a", PH_ONNX_A_FLOAT, ANY, NULL},
    {"detect_negative", PH_ONNX_A_INT, FLAG, NULL},
    {"detect_positive", PH_ONNX_A_INT, FLAG, NULL},
    {"dilations", PH_ONNX_A_INTS, ANY, NULL},
    {"direction", PH_ONNX_A_TEXT, ANY, NULL},
    {"do_rotary", PH_ONNX_A_INT, FLAG, NULL},
    {"dtype", PH_ONNX_A_INT, ANY, NULL},
    {"end", PH_ONNX_A_INT, ANY, NULL},
    {"ends", PH_ONNX_A_INTS, ANY, NULL},
    {"epsilon", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"equation", PH_ONNX_A_TEXT, ANY, NULL},
    {"exclude_outside", PH_ONNX_A_INT, FLAG, NULL},
    {"exclusive", PH_ONNX_A_INT, FLAG, NULL},
    {"extrapolation_value", PH_ONNX_A_FLOAT, ANY, NULL},
    {"first", PH_ONNX_A_INTS, ANY, NULL},
    {"fmod", PH_ONNX_A_INT, FLAG, NULL},
    {"gamma", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"group", PH_ONNX_A_INT, ANY, NULL},
    {"hidden_size", PH_ONNX_A_INT, ANY, NULL},
    {"input_forget", PH_ONNX_A_INT, FLAG, NULL},
    {"interleaved", PH_ONNX_A_INT, FLAG, NULL},
    {"is_causal", PH_ONNX_A_INT, FLAG, NULL},
    {"is_packed_batching", PH_ONNX_A_INT, FLAG, NULL},
    {"k", PH_ONNX_A_INT, ANY, NULL},
    {"k_quant_type", PH_ONNX_A_TEXT, ANY, NULL},
    {"keep_aspect_ratio_policy", PH_ONNX_A_TEXT, ANY, NULL},
    {"keepdims", PH_ONNX_A_INT, FLAG, NULL},
    {"kernel_shape", PH_ONNX_A_INTS, ANY, NULL},
    {"kv_cache_bit_width", PH_ONNX_A_INT, ANY, NULL},
    {"kv_num_heads", PH_ONNX_A_INT, ANY, NULL},
    {"lambd", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"lambda", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"largest", PH_ONNX_A_INT, FLAG, NULL},
    {"last", PH_ONNX_A_INTS, ANY, NULL},
    {"layout", PH_ONNX_A_INT, FLAG, NULL},
    {"linear_before_reset", PH_ONNX_A_INT, FLAG, NULL},
    {"local_window_size", PH_ONNX_A_INT, ANY, NULL},
    {"mask_filter_value", PH_ONNX_A_FLOAT, ANY, NULL},
    {"max", PH_ONNX_A_FLOAT, ANY, NULL},
    {"min", PH_ONNX_A_FLOAT, ANY, NULL},
    {"mode", PH_ONNX_A_TEXT, ANY, NULL},
    {"momentum", PH_ONNX_A_FLOAT, ANY, NULL},
    {"nearest_mode", PH_ONNX_A_TEXT, ANY, NULL},
    {"noop_with_empty_axes", PH_ONNX_A_INT, FLAG, NULL},
    {"num_groups", PH_ONNX_A_INT, ANY, NULL},
    {"num_heads", PH_ONNX_A_INT, ANY, NULL},
    {"num_outputs", PH_ONNX_A_INT, ANY, NULL},
    {"output_dtype", PH_ONNX_A_INT, ANY, NULL},
    {"output_padding", PH_ONNX_A_INTS, ANY, NULL},
    {"output_shape", PH_ONNX_A_INTS, ANY, NULL},
    {"p", PH_ONNX_A_INT, ANY, NULL},
    {"padding_mode", PH_ONNX_A_TEXT, ANY, NULL},
    {"pads", PH_ONNX_A_INTS, ANY, NULL},
    {"past_present_share_buffer", PH_ONNX_A_INT, FLAG, NULL},
    {"perm", PH_ONNX_A_INTS, ANY, NULL},
    {"precision", PH_ONNX_A_INT, ANY, NULL},
    {"q_num_heads", PH_ONNX_A_INT, ANY, NULL},
    {"qk_matmul_output_mode", PH_ONNX_A_INT, ANY, NULL},
    {"qk_output", PH_ONNX_A_INT, ANY, NULL},
    {"qkv_hidden_sizes", PH_ONNX_A_INTS, ANY, NULL},
    {"ratio", PH_ONNX_A_FLOAT, ANY, NULL},
    {"reduction", PH_ONNX_A_TEXT, ANY, NULL},
    {"reverse", PH_ONNX_A_INT, FLAG, NULL},
    {"rotary_embedding_dim", PH_ONNX_A_INT, ANY, NULL},
    {"rotary_interleaved", PH_ONNX_A_INT, FLAG, NULL},
    {"round_mode", PH_ONNX_A_TEXT, ANY, NULL},
    {"saturate", PH_ONNX_A_INT, FLAG, NULL},
    {"scale", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"scales", PH_ONNX_A_FLOATS, ANY, NULL},
    {"seed", PH_ONNX_A_INT, ANY, NULL},
    {"select_last_index", PH_ONNX_A_INT, FLAG, NULL},
    {"size", PH_ONNX_A_INT, ANY, NULL},
    {"slices", PH_ONNX_A_INTS, ANY, NULL},
    {"smooth_softmax", PH_ONNX_A_INT, ANY, NULL},
    {"softcap", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"softmax_precision", PH_ONNX_A_INT, ANY, NULL},
    {"sorted", PH_ONNX_A_INT, FLAG, NULL},
    {"sparse_value", PH_ONNX_A_OTHER, ANY, NULL},
    {"sparsity", PH_ONNX_A_FLOAT, FINITE, NULL},
    {"spatial", PH_ONNX_A_INT, FLAG, NULL},
    {"split", PH_ONNX_A_INTS, ANY, NULL},
    {"start", PH_ONNX_A_INT, ANY, NULL},
    {"starts", PH_ONNX_A_INTS, ANY, NULL},
    {"stash_type", PH_ONNX_A_INT, ANY, NULL},
    {"storage_order", PH_ONNX_A_INT, FLAG, NULL},
    {"strides", PH_ONNX_A_INTS, ANY, NULL},
    {"time_axis", PH_ONNX_A_INT, ANY, NULL},
    {"to", PH_ONNX_A_INT, ANY, NULL},
    {"training_mode", PH_ONNX_A_INT, FLAG, NULL},
    {"transA", PH_ONNX_A_INT, FLAG, NULL},
    {"transB", PH_ONNX_A_INT, FLAG, NULL},
    {"transBatchA", PH_ONNX_A_INT, FLAG, NULL},
    {"transBatchB", PH_ONNX_A_INT, FLAG, NULL},
    {"unidirectional", PH_ONNX_A_INT, FLAG, NULL},
    {"upper", PH_ONNX_A_INT, FLAG, NULL},
    {"v_quant_type", PH_ONNX_A_TEXT, ANY, NULL},
    {"value", PH_ONNX_A_TENSOR, ANY, NULL},
    {"value_float", PH_ONNX_A_FLOAT, ANY, NULL},
    {"value_floats", PH_ONNX_A_FLOATS, ANY, NULL},
    {"value_int", PH_ONNX_A_INT, ANY, NULL},
    {"value_ints", PH_ONNX_A_INTS, ANY, NULL},
    {"value_string", PH_ONNX_A_TEXT, ANY, NULL},
    {"value_strings", PH_ONNX_A_TEXTS, ANY, NULL},
    {"weight_prepacked", PH_ONNX_A_INT, FLAG, NULL},
};

static const char *type_name(ph_onnx_attr_type t) {
    static const char *const names[] = {"nothing", "a number", "a whole number", "a text", "a tensor",
                                        "a graph", "numbers",  "whole numbers",  "texts",  "another type"};
    return (size_t)t < sizeof names / sizeof *names ? names[t] : "another type";
}

/* The names are few, and are compared once a node's attribute. */
static const word *word_of(const char *op, const char *name) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name) && (!words[i].op || !strcmp(words[i].op, op))) return &words[i];
    return NULL;
}

int ph_oi_word_is_known(const char *op, const char *name) {
    return word_of(op, name) != NULL;
}

ph_rc ph_oi_word_check(const char *op, const char *name, const ph_onnx_attr *a, ph_err *err) {
    const word *w = word_of(op, name);
    if (!w) return PH_OK;
    if (a->type != w->type)
        return PH_FAIL(err, PH_EMISMATCH, "%.40s: attribute '%.40s' is %s, not %s", op, name,
                       type_name(a->type), type_name(w->type));
    if (w->rule == FLAG && a->i != 0 && a->i != 1)
        return PH_FAIL(err, PH_EMISMATCH, "%.40s: attribute '%.40s' is %" PRId64 ", neither 0 nor 1", op,
                       name, a->i);
    if (w->rule != FINITE) return PH_OK;
    if (a->type == PH_ONNX_A_FLOAT && !isfinite(a->f))
        return PH_FAIL(err, PH_EMISMATCH, "%.40s: %.40s is %g, which is no finite number", op, name, a->f);
    for (size_t i = 0; a->type == PH_ONNX_A_FLOATS && i < a->n; i++)
        if (!isfinite(a->floats[i]))
            return PH_FAIL(err, PH_EMISMATCH, "%.40s: number %zu of %.40s is %g, which is no finite number",
                           op, i + 1, name, a->floats[i]);
    return PH_OK;
}
