/* quant_int8.h - weights and activations as bytes with scales, against a reference's. */
#ifndef PH_MEASURE_QUANT_INT8_H
#define PH_MEASURE_QUANT_INT8_H

#include "measure/case.h"

/* The one case of a manifest's "int8". */
void ph_quant_int8(ph_report *r, const char *dir, const ph_json *item);

#endif
