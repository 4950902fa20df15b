/* dtype.h - element and block types: how numbers are stored.
 *
 * A dtype packs `block` consecutive elements of a row into `bytes` bytes.  Plain
 * types have block 1.  dtype.def is the only list; each line has one file here
 * that defines ph_dtype_<name>.  Code outside this room asks the definition and
 * never switches on an id.
 */
#ifndef PH_TENSOR_DTYPE_H
#define PH_TENSOR_DTYPE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum ph_dtype {
#define PH_DTYPE(name, gguf, block, bytes) PH_##name,
#include "tensor/dtype.def"
#undef PH_DTYPE
    PH_N_DTYPES
} ph_dtype;

typedef struct ph_dtype_def {
    /* out[n] floats from n stored elements at in (unaligned bytes); n a multiple of block. NULL: no real
     * numbers. */
    void (*unpack)(float *out, const void *in, size_t n);
    /* n floats to stored bytes; NULL: this type is only read.  Rounding is that of the format's reference. */
    void (*pack)(void *out, const float *in, size_t n);
    const char *source; /* where the layout is defined */
} ph_dtype_def;

#define PH_DTYPE(name, gguf, block, bytes) extern const ph_dtype_def ph_dtype_##name;
#include "tensor/dtype.def"
#undef PH_DTYPE

const ph_dtype_def *ph_dtype_get(ph_dtype t);
const char         *ph_dtype_name(ph_dtype t);       /* "Q4_0" */
size_t              ph_dtype_block(ph_dtype t);      /* elements a block */
size_t              ph_dtype_bytes(ph_dtype t);      /* bytes a block */
int                 ph_dtype_is_written(ph_dtype t); /* quantize makes it: packs it, into GGUF */
int                 ph_dtype_from_gguf(uint32_t id, ph_dtype *out);      /* 0: unknown */
int                 ph_dtype_gguf(ph_dtype t);                           /* GGUF type id, or -1 */
int                 ph_dtype_from_name(const char *name, ph_dtype *out); /* case-insensitive; 0: unknown */

/* Bytes of n elements of one row.  Errors: PH_EFORMAT n is no multiple of the block; PH_ELIMIT overflow. */
ph_rc ph_dtype_row_bytes(ph_dtype t, int64_t n, size_t *out, ph_err *err);

#endif
