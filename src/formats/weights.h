/* weights.h - named tensors in mapped files, whatever the container.
 *
 *     safetensors (one file or shards)  ┐
 *     GGUF (one file or splits)         ┘──►  name -> dtype, shape, bytes
 *
 * The bytes stay in the map: nothing is copied, and nothing of a tensor is read
 * here.  Every offset has been checked against the file before a weight is listed.
 */
#ifndef PH_FORMATS_WEIGHTS_H
#define PH_FORMATS_WEIGHTS_H

#include "base/arena.h"
#include "base/err.h"
#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_WEIGHT_RANK_MAX = 8 };

typedef struct ph_weight {
    const char    *name; /* lives as long as the ph_weights */
    ph_dtype       dtype;
    int            rank;
    int64_t        dim[PH_WEIGHT_RANK_MAX]; /* outermost first (GGUF's order is reversed on reading) */
    const uint8_t *bytes;                   /* mapped; lives as long as the ph_weights */
    size_t         n_bytes;
    int            file; /* which shard, 0-based */
} ph_weight;

typedef struct ph_weights {
    ph_weight *at; /* [n], in file order */
    size_t     n;
    uint32_t  *sorted; /* [n] indices in order of name: hostile names can make no look-up slow */
} ph_weights;

/* NULL when there is no such name. */
const ph_weight *ph_weights_find(const ph_weights *w, const char *name);
/* Build the index over at[n] (names set); storage from arena.  Errors: PH_EFORMAT a name occurs twice. */
ph_rc ph_weights_index(ph_weights *w, ph_arena *arena, ph_err *err);
/* Bytes of a tensor of this type and shape.  Errors: PH_ELIMIT the product overflows; PH_EFORMAT a negative
 * dimension, or a row that is not whole blocks. */
ph_rc ph_weight_bytes(ph_dtype dtype, int rank, const int64_t *dim, size_t *out, ph_err *err);
/* "[1024, 256] F16" into out. */
void ph_weight_describe(const ph_weight *w, char *out, size_t size);

#endif
