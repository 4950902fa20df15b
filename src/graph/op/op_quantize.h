/* op_quantize.h - scales and zero points: what QuantizeLinear and DequantizeLinear share.  Only graph/op/. */
#ifndef PH_GRAPH_OP_OP_QUANTIZE_H
#define PH_GRAPH_OP_OP_QUANTIZE_H

#include "graph/op/op_number.h"

/* One scale for all, one a slice along an axis, or one a block of block_size along the axis. */
typedef struct ph_scales {
    const float *scale;
    ph_array     zero;                 /* data NULL: none */
    int64_t outer, size, inner, block; /* of x around the axis; block 0: one a slice; inner 0: one for all */
} ph_scales;

/* The scale (input 1) and zero point (input 2) fit x.  zero_type: that of the zero point. */
ph_rc ph_scales_check(const ph_graph *g, const ph_node *n, ph_dtype zero_type, ph_err *err);
ph_rc ph_scales_open(ph_scales *s, const ph_node *n, const ph_array *in, const ph_eval *e, ph_err *err);

static inline int64_t ph_scales_at(const ph_scales *s, int64_t i) {
    if (!s->inner) return 0;
    int64_t a = i / s->inner % s->size;
    if (!s->block) return a;
    int64_t blocks = (s->size + s->block - 1) / s->block;
    return (i / s->inner / s->size * blocks + a / s->block) * s->inner + i % s->inner;
}

#endif
