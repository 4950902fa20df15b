/* ort_env.h - the environment that all handles of a process share.  Only engine/ort/ includes this. */
#ifndef PH_ENGINE_ORT_ORT_ENV_H
#define PH_ENGINE_ORT_ORT_ENV_H

#include "engine/ort/ort_api.h"

struct ph_ort {
    const ph_ort_api *api;
    ort_env          *env;
    ort_place        *cpu; /* memory of the host */
    int               threads;
    int               has_pool; /* the environment's pool is of as many threads as this handle asked for */
};

/* The counting allocator; where: what it says its memory is. */
ort_allocator *ph_ort_allocator(const ph_ort_api *api, ort_place *where);

/* Add a provider to a session's options; those added first are asked first, the CPU last.
 * Errors: PH_EMACHINE it is not here, with the reason; PH_EUSAGE its options. */
ph_rc ph_ort_ep_append(ph_ort *o, ort_options *options, const ph_ort_ep *ep, ph_err *err);
void  ph_ort_ep_forget(const ph_ort_api *api, ort_env *env); /* plug-ins, before the environment goes */

#endif
