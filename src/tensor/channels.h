/* channels.h - bytes with scales, for the forms that differ only in what the scales are called. */
#ifndef PH_TENSOR_CHANNELS_H
#define PH_TENSOR_CHANNELS_H

#include "tensor/storage.h"

void  ph_channels_row(const ph_storage *s, size_t row, size_t cols, float *out);
ph_rc ph_channels_check(ph_storage *s, size_t cols, ph_err *err);

#endif
