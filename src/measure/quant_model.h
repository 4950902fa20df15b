/* quant_model.h - GGUF files with the logits and answers of a reference that ran their dequantised weights.
 */
#ifndef PH_MEASURE_QUANT_MODEL_H
#define PH_MEASURE_QUANT_MODEL_H

#include "measure/case.h"

/* Every entry of a manifest's "gguf_models". */
void ph_quant_models(ph_report *r, const char *dir, const ph_json *models);

#endif
