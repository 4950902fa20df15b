/* residence.h - where a model's weights stand: mapped and read as they are used, read ahead, held in memory
 * of our own, locked.
 */
#ifndef PH_MODEL_RESIDENCE_H
#define PH_MODEL_RESIDENCE_H

#include "model/model.h"

/* As the options say, after the graphs were built and the process was weighed: sets m->whole_bytes and
 * m->ahead, and with is_plan_only reads nothing.  Errors: PH_ENOMEM; PH_EMACHINE locking is not permitted. */
ph_rc ph_model_reside(ph_model *m, const ph_model_options *o, ph_err *err);

#endif
