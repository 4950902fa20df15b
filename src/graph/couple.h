/* couple.h - what MultiModalAttention reads of its node: for its definition, its lowering and its pass. */
#ifndef PH_GRAPH_COUPLE_H
#define PH_GRAPH_COUPLE_H

#include "graph/op.h"

/* Inputs: the weight, or that of q; those of k and v; biases likewise; then the modalities' rows. */
enum { PH_COUPLE_W, PH_COUPLE_B = 3, PH_COUPLE_X = 6, PH_COUPLE_MAX = 16 /* modalities */ };
/* What a modality takes of the weight. */
enum { PH_SLICE_Q = 1, PH_SLICE_KV = 2, PH_SLICE_BOTH = 3 };

typedef struct ph_couple {
    int64_t heads, kv_heads, d, dv, k;
    int     n_x;
    int     slice[PH_COUPLE_MAX]; /* [n_x] PH_SLICE_* */
    struct {
        int     w, b;        /* inputs; b -1: none */
        int64_t first, rows; /* of the weight, and of the bias */
    } part[3];               /* q, k, v */
} ph_couple;

/* Errors: PH_EMISMATCH heads, slices, a weight without its kin, sizes that do not go together. */
ph_rc ph_couple_of(const ph_graph *g, const ph_node *n, ph_couple *out, ph_err *err);

#endif
