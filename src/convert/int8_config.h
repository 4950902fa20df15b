/* int8_config.h - config.json of a model whose matrices became int8.  Only convert/ includes this.
 *
 * The words are those of compressed-tensors, so that other readers of that format know what stands beside
 * what: "int-quantized" (I8 weights, weight_scale), strategy "channel" (a scale a row), symmetric, 8 bits,
 * and rows of activations quantised while running ("token", dynamic).
 *
 * Source: github.com/neuralmagic/compressed-tensors, QuantizationConfig.
 */
#ifndef PH_CONVERT_INT8_CONFIG_H
#define PH_CONVERT_INT8_CONFIG_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>

typedef struct ph_int8_config {
    const char *text; /* in the arena; NULL: the model's own stays */
    size_t      n;
} ph_int8_config;

/* The bytes of text[n], a JSON object, with the member quantization_config put last (or in the place of its
 * null); ignore[n_ignore]: modules that are Linears and stayed as they were.  Everything else stays as it is
 * written.  Errors: PH_EFORMAT text is no object; those of the arena. */
ph_rc ph_int8_config_make(ph_int8_config *out, const char *text, size_t n, const char *const *ignore,
                          size_t n_ignore, ph_arena *arena, ph_err *err);

#endif
