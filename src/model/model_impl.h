/* model_impl.h - the parts of opening a model.  Only model/ includes this. */
#ifndef PH_MODEL_MODEL_IMPL_H
#define PH_MODEL_MODEL_IMPL_H

#include "model/model.h"

ph_rc ph_model_open_tokens(ph_model *m, ph_err *err);
ph_rc ph_model_open_chat(ph_model *m, const char *given, ph_err *err);

#endif
