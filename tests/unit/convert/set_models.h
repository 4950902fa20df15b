/* set_models.h - every model of tests/golden/set, for tests that hold of all of them. */
#ifndef PH_TESTS_SET_MODELS_H
#define PH_TESTS_SET_MODELS_H

#include <stddef.h>

typedef struct ph_set_model {
    char path[128];  /* tests/golden/set/models/vlm_llava15 */
    int  has_names;  /* GGUF has names for all of it; else the file that it becomes carries the directory */
    int  has_vision; /* a file of its own in GGUF */
} ph_set_model;

/* Their number; the models stay the caller's. */
size_t ph_set_models(ph_set_model out[64]);

#endif
