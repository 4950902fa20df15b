/* tq1_0.c - 256 numbers of three levels, five to a byte, under one scale.
 *
 *     u8 q[52], f16 d          x = d (digit - 1)
 *
 *     bytes  0 .. 31   elements   0 .. 159: digit k of byte i is element 32 k + i, k = 0 .. 4
 *     bytes 32 .. 47   elements 160 .. 239: digit k of byte 32 + i is element 160 + 16 k + i
 *     bytes 48 .. 51   elements 240 .. 255: digit k of byte 48 + i is element 240 + 4 k + i, k = 0 .. 3
 *
 * A byte is a fraction of 256 in base three, digit 0 the first behind the point:
 * digit k is the whole part of 3 (3^k q mod 256) / 256.  So bytes are packed
 * rounded up, and unpacking multiplies where it would have to divide.
 * Packing equals the reference byte for byte (ternary.h).
 * Source: GGUF specification, block type 34.
 */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/ternary.h"

enum { BLOCK = 256, LEVELS = 52, DIGITS = 5, WHOLE = 243, BYTES = 54 };

/* Digit k of byte `byte` is element first + k * step; the last four bytes have four digits. */
static size_t place(size_t byte, size_t *step) {
    *step = byte < 32 ? 32 : byte < 48 ? 16 : 4;
    return byte < 32 ? byte : byte < 48 ? 160 + byte - 32 : 240 + byte - 48;
}

static size_t digits_of(size_t byte) {
    return byte < 48 ? DIGITS : DIGITS - 1;
}

static void unpack(float *out, const void *in, size_t n) {
    const uint8_t *p = in;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, out += BLOCK) {
        float d = ph_f16_load(p + LEVELS);
        for (size_t i = 0; i < LEVELS; i++) {
            size_t   step, at = place(i, &step);
            unsigned q = p[i];
            for (size_t k = 0; k < digits_of(i); k++, at += step, q = 3 * q & 255)
                out[at] = d * (float)((int)(3 * q >> 8) - 1);
        }
    }
}

static void pack(void *out, const float *in, size_t n) {
    uint8_t *p = out;
    for (size_t b = 0; b < n / BLOCK; b++, p += BYTES, in += BLOCK) {
        float d = ph_ternary_scale(in, BLOCK), by = d > 0 ? 1 / d : 0;
        for (size_t i = 0; i < LEVELS; i++) {
            size_t   step, at = place(i, &step);
            unsigned q = 0;
            for (size_t k = 0; k < DIGITS; k++, at += step)
                q = 3 * q + (k < digits_of(i) ? ph_ternary_of(in[at], by) : 0);
            p[i] = (uint8_t)((256 * q + WHOLE - 1) / WHOLE);
        }
        ph_f16_store(p + LEVELS, d);
    }
}

const ph_dtype_def ph_dtype_TQ1_0 = {unpack, pack, "github.com/ggml-org/ggml docs/gguf.md, type 34"};
