/* storage_fp8.c - floats of eight bits with scales, as the method "fp8" writes them: DeepSeek-V3, Qwen3-FP8.
 *
 *     weight [N, K] E4M3    weight_scale_inv [N / 128, K / 128], rounded up; or one scale
 *     w = scale q
 *
 * The name says "inverse", of the factor that was applied in writing: it is the
 * scale to multiply with.  All else is as with channels.
 * Source: arXiv:2412.19437 §3.3; transformers, integrations/finegrained_fp8.py.
 */
#include "tensor/channels.h"

const ph_storage_form ph_storage_fp8 = {.name = "fp8",
                                        .method = {"fp8"},
                                        .part = {"weight", "weight_scale_inv", NULL, NULL},
                                        .row = ph_channels_row,
                                        .check = ph_channels_check,
                                        .source = "arXiv:2412.19437; transformers finegrained_fp8.py"};
