/* iq4.h - the sixteen levels of IQ4_NL and IQ4_XS: denser near zero, as weights are. */
#ifndef PH_TENSOR_IQ4_H
#define PH_TENSOR_IQ4_H

#include "tensor/fit.h"

extern const ph_book ph_iq4_book;

#endif
