/* dtype.c - look-ups over dtype.def.
 *
 * Everything that the rest of the program may ask about a storage type without
 * knowing which one it is.
 */
#include "tensor/dtype.h"
#include "base/mem.h"

#include <strings.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "stored numbers are little-endian and read in place");

static const struct {
    const char         *name;
    int                 gguf;
    uint16_t            block, bytes;
    const ph_dtype_def *def;
} table[PH_N_DTYPES] = {
#define PH_DTYPE(name, gguf, block, bytes) {#name, gguf, block, bytes, &ph_dtype_##name},
#include "tensor/dtype.def"
#undef PH_DTYPE
};

const ph_dtype_def *ph_dtype_get(ph_dtype t) {
    return table[t].def;
}

const char *ph_dtype_name(ph_dtype t) {
    return table[t].name;
}

size_t ph_dtype_block(ph_dtype t) {
    return table[t].block;
}

size_t ph_dtype_bytes(ph_dtype t) {
    return table[t].bytes;
}

int ph_dtype_gguf(ph_dtype t) {
    return table[t].gguf;
}

int ph_dtype_is_written(ph_dtype t) {
    return table[t].gguf >= 0 && ph_dtype_get(t)->pack;
}

int ph_dtype_from_gguf(uint32_t id, ph_dtype *out) {
    for (int t = 0; t < PH_N_DTYPES; t++)
        if (table[t].gguf >= 0 && (uint32_t)table[t].gguf == id) return *out = (ph_dtype)t, 1;
    return 0;
}

int ph_dtype_from_name(const char *name, ph_dtype *out) {
    for (int t = 0; t < PH_N_DTYPES; t++)
        if (!strcasecmp(table[t].name, name)) return *out = (ph_dtype)t, 1;
    return 0;
}

ph_rc ph_dtype_row_bytes(ph_dtype t, int64_t n, size_t *out, ph_err *err) {
    size_t block = table[t].block;
    if (n < 0 || (uint64_t)n % block)
        return PH_FAIL(err, PH_EFORMAT, "a row of %lld elements is not whole %s blocks of %zu", (long long)n,
                       table[t].name, block);
    if (ph_mul_over((size_t)n / block, table[t].bytes, out))
        return PH_FAIL(err, PH_ELIMIT, "a row of %lld elements of type %s is larger than memory can be",
                       (long long)n, table[t].name);
    return PH_OK;
}
