/* onnx_microsoft.c - the fused operators that ONNX Runtime's optimiser writes, taken apart again.
 *
 * Norms that add first, activations that add first, products with scales, weights in blocks.  Attention
 * stands in onnx_attention.c.
 */
#include "graph/onnx/onnx_forms.h"

#include <stdio.h>
#include <string.h>

static ph_rc short_of(ph_oi *o, const ph_onnx_node *n, size_t inputs, ph_err *err) {
    for (size_t i = 0; i < inputs; i++)
        if (!ph_oi_has(o, n, i)) return ph_oi_fail(o, err, PH_EMISMATCH, "%s wants its input %zu", n->op, i);
    return ph_oi_done(o, err);
}

/* ---- norms ---- */

/* input + skip (+ bias), kept as output 3, normalised. */
static ph_rc skip_norm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int     is_rms = !strcmp(n->op, "SkipSimplifiedLayerNormalization");
    ph_attr epsilon = PH_FLOAT("epsilon", ph_oi_float(o, n, "epsilon", is_rms ? 1e-5 : 1e-12));
    PH_TRY(short_of(o, n, 3, err));
    int gamma = ph_oi_in(o, n, 2), beta = is_rms ? -1 : ph_oi_in(o, n, 3),
        bias = ph_oi_in(o, n, is_rms ? 3 : 4);
    int sum = ph_oi_make(o, "Add", PH_IN(ph_oi_in(o, n, 0), ph_oi_in(o, n, 1)), PH_NO_ATTRS);
    if (bias >= 0) sum = ph_oi_make(o, "Add", PH_IN(sum, bias), PH_NO_ATTRS);
    if (ph_oi_has_out(n, 1) || ph_oi_has_out(n, 2))
        return ph_oi_fail(o, err, PH_EUNSUP, "the statistics of %s are not made", n->op);
    int y = is_rms ? ph_oi_make(o, "RMSNormalization", PH_IN(sum, gamma), &epsilon, 1)
                   : ph_oi_make(o, "LayerNormalization", (const int[]){sum, gamma, beta}, 2 + (beta >= 0),
                                &epsilon, 1);
    ph_oi_set(o, n, 0, y);
    ph_oi_set(o, n, 3, sum);
    return ph_oi_done(o, err);
}

static ph_rc simplified_norm(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    PH_TRY(short_of(o, n, 2, err));
    const ph_shape *s = ph_oi_shape(o, ph_oi_in(o, n, 0));
    int64_t         axis = ph_oi_int(o, n, "axis", -1);
    if (axis != -1 && axis != s->rank - 1)
        return ph_oi_fail(o, err, PH_EUNSUP, "SimplifiedLayerNormalization over several axes");
    return ph_oi_emit(o, n, "RMSNormalization", PH_IN(ph_oi_in(o, n, 0), ph_oi_in(o, n, 1)),
                      PH_ATTRS(PH_FLOAT("epsilon", ph_oi_float(o, n, "epsilon", 1e-5))), err);
}

/* ---- activations ---- */

static ph_rc bias_gelu(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int x = ph_oi_in(o, n, 0), bias = ph_oi_in(o, n, 1);
    int is_fast = !strcmp(n->op, "FastGelu");
    PH_TRY(short_of(o, n, 1, err));
    if (bias >= 0) x = ph_oi_make(o, "Add", PH_IN(x, bias), PH_NO_ATTRS);
    return ph_oi_emit(o, n, "Gelu", PH_IN(x), PH_ATTRS(PH_TEXT("approximate", is_fast ? "tanh" : "none")),
                      err);
}

static ph_rc quick_gelu(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    return ph_oi_emit(o, n, "Swish", PH_IN(ph_oi_in(o, n, 0)),
                      PH_ATTRS(PH_FLOAT("alpha", ph_oi_float(o, n, "alpha", 1.702))), err);
}

/* ---- products ---- */

/* The last two dimensions the other way round. */
static int flip(ph_oi *o, int x) {
    int64_t perm[PH_RANK_MAX];
    int     rank = ph_oi_shape(o, x)->rank;
    for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return rank < 2 ? x : ph_oi_transpose(o, x, perm, rank);
}

static ph_rc fused_matmul(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    double alpha = ph_oi_float(o, n, "alpha", 1);
    PH_TRY(short_of(o, n, 2, err));
    int a = ph_oi_in(o, n, 0), b = ph_oi_in(o, n, 1), turn_b = ph_oi_int(o, n, "transB", 0) != 0;
    if (ph_oi_int(o, n, "transBatchA", 0) || ph_oi_int(o, n, "transBatchB", 0))
        return ph_oi_fail(o, err, PH_EUNSUP, "FusedMatMul with batches turned");
    if (ph_oi_int(o, n, "transA", 0)) a = flip(o, a);
    if (turn_b && ph_oi_shape(o, b)->rank != 2) b = flip(o, b), turn_b = 0;
    int y = ph_oi_shape(o, b)->rank == 2 ? ph_oi_product(o, a, b, turn_b, -1)
                                         : ph_oi_make(o, "MatMul", PH_IN(a, b), PH_NO_ATTRS);
    if (alpha < 1 || alpha > 1) y = ph_oi_make(o, "Mul", PH_IN(y, ph_oi_number(o, alpha)), PH_NO_ATTRS);
    ph_oi_set(o, n, 0, y);
    return ph_oi_done(o, err);
}

/* A constant's only plane. */
static int plane_of(ph_oi *o, int id, ph_plane *out) {
    if (!ph_oi_is_constant(o, id) || o->g->value[id].storage.form) return 0;
    *out = o->g->value[id].storage.plane[0];
    out->dtype = o->g->value[id].storage.dtype;
    return out->bytes != NULL;
}

/* B stays where it is: a weight of three planes. */
static ph_rc matmul_nbits(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    int64_t k = ph_oi_int(o, n, "K", 0), rows = ph_oi_int(o, n, "N", 0),
            block = ph_oi_int(o, n, "block_size", 0);
    ph_storage s = {.dtype = PH_U8, .n_planes = 2, .form = &ph_storage_nbits};
    PH_TRY(short_of(o, n, 3, err));
    int64_t bits = ph_oi_int(o, n, "bits", 4);
    if (k < 1 || rows < 1 || block < 1 || bits < 1 || bits > 8)
        return ph_oi_fail(o, err, PH_EMISMATCH, "MatMulNBits: K %lld, N %lld, block_size %lld, bits %lld",
                          (long long)k, (long long)rows, (long long)block, (long long)bits);
    if (ph_oi_int(o, n, "weight_prepacked", 0))
        return ph_oi_fail(o, err, PH_EUNSUP, "MatMulNBits with weights packed for one device");
    s.bits = (int)bits;
    if (ph_oi_has(o, n, 4)) return ph_oi_fail(o, err, PH_EUNSUP, "MatMulNBits with g_idx");
    int b = ph_oi_in(o, n, 1), scale = ph_oi_in(o, n, 2), zero = ph_oi_in(o, n, 3), bias = ph_oi_in(o, n, 5);
    s.n_rows = (size_t)rows;
    s.group = (size_t)block;
    if (!plane_of(o, b, &s.plane[PH_PLANE_DATA]) || !plane_of(o, scale, &s.plane[PH_PLANE_SCALE]) ||
        (zero >= 0 && !plane_of(o, zero, &s.plane[PH_PLANE_ZERO])))
        return ph_oi_fail(o, err, PH_EUNSUP, "MatMulNBits wants stored weights, scales and zero points");
    if (zero >= 0) s.n_planes = 3;
    PH_TRY(s.form->check(&s, (size_t)k, err));
    const int64_t key[PH_OI_KEY] = {PH_OI_NBITS, b, scale, zero, rows, k, block, s.bits};
    const char    mark[2] = {(char)('0' + s.bits), 0};
    int           w = ph_oi_kept_find(o, key);
    if (w < 0) w = ph_oi_keep(o, key, b, mark, rows, k, s);
    return ph_oi_emit(o, n, "Linear", PH_IN(ph_oi_in(o, n, 0), w, bias), PH_NO_ATTRS, err);
}

/* x is quantised by its own range, multiplied in whole numbers, and scaled back. */
static ph_rc dynamic_quantize_matmul(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    PH_TRY(short_of(o, n, 3, err));
    int made[3], bias = ph_oi_in(o, n, 4);
    ph_oi_make_all(o, "DynamicQuantizeLinear", PH_IN(ph_oi_in(o, n, 0)), made, 3);
    int q = made[0], scale = made[1], zero = made[2];
    if (o->g->rc) return ph_oi_done(o, err);
    int acc =
        ph_oi_make(o, "MatMulInteger", PH_IN(q, ph_oi_in(o, n, 1), zero, ph_oi_in(o, n, 3)), PH_NO_ATTRS);
    int y = ph_oi_make(o, "Cast", PH_IN(acc), PH_ATTRS(PH_INT("to", 1)));
    y = ph_oi_make(o, "Mul", PH_IN(y, ph_oi_make(o, "Mul", PH_IN(scale, ph_oi_in(o, n, 2)), PH_NO_ATTRS)),
                   PH_NO_ATTRS);
    if (bias >= 0) y = ph_oi_make(o, "Add", PH_IN(y, bias), PH_NO_ATTRS);
    ph_oi_set(o, n, 0, y);
    return ph_oi_done(o, err);
}

static ph_rc matmul_integer_to_float(ph_oi *o, const ph_onnx_node *n, ph_err *err) {
    PH_TRY(short_of(o, n, 4, err));
    int scale = ph_oi_make(o, "Mul", PH_IN(ph_oi_in(o, n, 2), ph_oi_in(o, n, 3)), PH_NO_ATTRS),
        bias = ph_oi_in(o, n, 6);
    int acc = ph_oi_make(o, "MatMulInteger",
                         PH_IN(ph_oi_in(o, n, 0), ph_oi_in(o, n, 1), ph_oi_in(o, n, 4), ph_oi_in(o, n, 5)),
                         PH_NO_ATTRS);
    int y = ph_oi_make(o, "Cast", PH_IN(acc), PH_ATTRS(PH_INT("to", 1)));
    y = ph_oi_make(o, "Mul", PH_IN(y, scale), PH_NO_ATTRS);
    if (bias >= 0) y = ph_oi_make(o, "Add", PH_IN(y, bias), PH_NO_ATTRS);
    ph_oi_set(o, n, 0, y);
    return ph_oi_done(o, err);
}

#define MS "com.microsoft"
static const ph_oi_row rows[] = {
    {MS, "Attention", 1,
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
     "rotary_embedding_dim scale unidirectional",
     ph_oi_ms_attention},
    {MS, "BiasGelu", 1, "", bias_gelu},
    {MS, "DequantizeLinear", 1, "axis block_size", ph_oi_quantize},
    {MS, "DynamicQuantizeMatMul", 1, "", dynamic_quantize_matmul},
    {MS, "FastGelu", 1, "", bias_gelu},
    {MS, "FusedMatMul", 1, "alpha transA transB transBatchA transBatchB", fused_matmul},
    {MS, "Gelu", 1, "", bias_gelu},
    {MS, "GroupQueryAttention", 1,
     "do_rotary kv_num_heads local_window_size num_heads qk_output rotary_interleaved scale "
     "smooth_softmax softcap k_quant_type kv_cache_bit_width v_quant_type",
     ph_oi_gqa},
    {MS, "MatMulIntegerToFloat", 1, "", matmul_integer_to_float},
    {MS, "MatMulNBits", 1, "K N accuracy_level bits block_size weight_prepacked", matmul_nbits},
    {MS, "MultiHeadAttention", 1, "mask_filter_value num_heads scale unidirectional", ph_oi_mha},
    {MS, "QuantizeLinear", 1, "axis block_size", ph_oi_quantize},
    {MS, "QuickGelu", 1, "alpha", quick_gelu},
    {MS, "RotaryEmbedding", 1, "interleaved is_packed_batching num_heads rotary_embedding_dim scale",
     ph_oi_ms_rotary},
    {MS, "SimplifiedLayerNormalization", 1, "axis epsilon stash_type", simplified_norm},
    {MS, "SkipLayerNormalization", 1, "epsilon", skip_norm},
    {MS, "SkipSimplifiedLayerNormalization", 1, "epsilon", skip_norm},
    /* ONNX Runtime writes this one into ai.onnx, which has no such operator. */
    {"", "SimplifiedLayerNormalization", 1, "axis epsilon stash_type", simplified_norm},
};

const ph_oi_row *ph_oi_rows_microsoft(size_t *n) {
    *n = sizeof rows / sizeof *rows;
    return rows;
}
