/* engine.c - the table of engines. */
#include "engine/engine.h"

#include <string.h>

static const ph_engine_def *const engines[] = {
#define PH_ENGINE(name) &ph_engine_##name,
#include "engine/engine.def"
#undef PH_ENGINE
};

size_t ph_engine_count(void) {
    return sizeof engines / sizeof *engines;
}

const ph_engine_def *ph_engine_at(size_t i) {
    return i < ph_engine_count() ? engines[i] : NULL;
}

const ph_engine_def *ph_engine_find(const char *name) {
    for (size_t i = 0; i < ph_engine_count(); i++)
        if (!strcmp(engines[i]->name, name)) return engines[i];
    return NULL;
}
