/* plain.c - types that store one element after the other, block 1.
 *
 * Elements may stand at odd addresses (a safetensors header has any length), so
 * each is copied out before it is used.  Integers and booleans can be read as
 * floats (masks, lengths) but nothing packs floats into them: how to round is
 * then the business of a quantiser, not of the storage.
 */
#include "tensor/dtype.h"
#include "tensor/float8.h"
#include "tensor/half.h"

static const char plain_source[] = "github.com/huggingface/safetensors, README \"Format\"";

/* The type is a parameter of these two only, hence a macro. */
#define UNPACK(name, type, convert)                                                                          \
    static void unpack_##name(float *out, const void *in, size_t n) {                                        \
        const unsigned char *p = in;                                                                         \
        for (size_t i = 0; i < n; i++) {                                                                     \
            type v;                                                                                          \
            memcpy(&v, p + i * sizeof v, sizeof v);                                                          \
            out[i] = convert(v);                                                                             \
        }                                                                                                    \
    }
#define PACK(name, type, convert)                                                                            \
    static void pack_##name(void *out, const float *in, size_t n) {                                          \
        unsigned char *p = out;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                                     \
            type v = convert(in[i]);                                                                         \
            memcpy(p + i * sizeof v, &v, sizeof v);                                                          \
        }                                                                                                    \
    }

static void unpack_F32(float *out, const void *in, size_t n) {
    memcpy(out, in, n * sizeof *out);
}

static void pack_F32(void *out, const float *in, size_t n) {
    memcpy(out, in, n * sizeof *in);
}

UNPACK(F16, uint16_t, ph_f16_to_f32)
PACK(F16, uint16_t, ph_f32_to_f16)
UNPACK(BF16, uint16_t, ph_bf16_to_f32)
PACK(BF16, uint16_t, ph_f32_to_bf16)
UNPACK(F8_E4M3, uint8_t, ph_e4m3_to_f32)
PACK(F8_E4M3, uint8_t, ph_f32_to_e4m3)
UNPACK(F8_E5M2, uint8_t, ph_e5m2_to_f32)
PACK(F8_E5M2, uint8_t, ph_f32_to_e5m2)
UNPACK(F64, double, (float))
PACK(F64, double, (double))
UNPACK(I8, int8_t, (float))
UNPACK(I16, int16_t, (float))
UNPACK(I32, int32_t, (float))
UNPACK(I64, int64_t, (float))
UNPACK(U8, uint8_t, (float))
UNPACK(U16, uint16_t, (float))
UNPACK(U32, uint32_t, (float))
UNPACK(U64, uint64_t, (float))

const ph_dtype_def ph_dtype_F32 = {unpack_F32, pack_F32, plain_source};
const ph_dtype_def ph_dtype_F16 = {unpack_F16, pack_F16, plain_source};
const ph_dtype_def ph_dtype_BF16 = {unpack_BF16, pack_BF16, plain_source};
const ph_dtype_def ph_dtype_F8_E4M3 = {unpack_F8_E4M3, pack_F8_E4M3, plain_source};
const ph_dtype_def ph_dtype_F8_E5M2 = {unpack_F8_E5M2, pack_F8_E5M2, plain_source};
const ph_dtype_def ph_dtype_F64 = {unpack_F64, pack_F64, plain_source};
const ph_dtype_def ph_dtype_I8 = {unpack_I8, NULL, plain_source};
const ph_dtype_def ph_dtype_I16 = {unpack_I16, NULL, plain_source};
const ph_dtype_def ph_dtype_I32 = {unpack_I32, NULL, plain_source};
const ph_dtype_def ph_dtype_I64 = {unpack_I64, NULL, plain_source};
const ph_dtype_def ph_dtype_U8 = {unpack_U8, NULL, plain_source};
const ph_dtype_def ph_dtype_U16 = {unpack_U16, NULL, plain_source};
const ph_dtype_def ph_dtype_U32 = {unpack_U32, NULL, plain_source};
const ph_dtype_def ph_dtype_U64 = {unpack_U64, NULL, plain_source};
const ph_dtype_def ph_dtype_BOOL = {unpack_U8, NULL, plain_source};
