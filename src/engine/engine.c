/* engine.c - the table of engines. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

static const ph_engine_def *const engines[] = {
#define PH_ENGINE(name) &ph_engine_##name,
#include "engine/engine.def"
#undef PH_ENGINE
};

static const struct {
    const char *name, *what;
} fusions[] = {
#define PH_FUSION(name, what) {#name, what},
#include "engine/fusion.def"
#undef PH_FUSION
};

const char *ph_engine_class_name(ph_engine_class c) {
    static const char *const names[PH_N_ENGINE_CLASSES] = {"cpu", "gpu", "npu"};
    return names[c];
}

const char *ph_fusion_name(int i) {
    return i >= 0 && i < PH_N_FUSIONS ? fusions[i].name : NULL;
}

const char *ph_fusion_what(int i) {
    return i >= 0 && i < PH_N_FUSIONS ? fusions[i].what : NULL;
}

/* The fusion called name[0 .. n); PH_N_FUSIONS: none. */
static int fusion_called(const char *name, size_t n) {
    int i = 0;
    while (i < PH_N_FUSIONS && (strncmp(fusions[i].name, name, n) || fusions[i].name[n])) i++;
    return i;
}

ph_rc ph_fusions_of(const char *list, unsigned *out, ph_err *err) {
    char   known[160] = "";
    size_t n = 0, at = 0;
    *out = 0;
    for (const char *s = list; s; s = s[n] ? s + n + 1 : NULL) {
        n = strcspn(s, ",");
        int i = fusion_called(s, n);
        if (i < PH_N_FUSIONS)
            *out |= 1u << i;
        else if (n == 3 && !strncmp(s, "all", 3))
            *out |= (1u << PH_N_FUSIONS) - 1;
        else {
            for (int k = 0; k < PH_N_FUSIONS && at < sizeof known; k++)
                at += (size_t)snprintf(known + at, sizeof known - at, " %s", fusions[k].name);
            return PH_FAIL(err, PH_EUSAGE, "no fusion '%.*s'; known are all%s", n > 32 ? 32 : (int)n, s,
                           known);
        }
    }
    return PH_OK;
}

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

static ph_rc unknown(const char *name, ph_err *err) {
    char   known[128] = "";
    size_t at = 0;
    for (size_t i = 0; i < ph_engine_count() && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", engines[i]->name);
    return PH_FAIL(err, PH_EUSAGE, "no engine '%s'; known are %s", name, known);
}

ph_rc ph_engine_named(const char *name, const ph_engine_def **def, const char **device, ph_engine_class *cls,
                      ph_err *err) {
    size_t n = strcspn(name, ":");
    *device = name[n] ? name + n + 1 : NULL;
    *def = NULL;
    for (size_t i = 0; i < ph_engine_count() && !*def; i++)
        if (!strncmp(engines[i]->name, name, n) && !engines[i]->name[n]) *def = engines[i];
    if (!*def) return unknown(name, err);
    *cls = (*def)->cls;
    if (!*device) return PH_OK;
    if (!(*def)->device)
        return PH_FAIL(err, PH_EUSAGE, "engine %s runs on one device: leave out ':%s'", (*def)->name,
                       *device);
    return (*def)->device(*device, cls, err);
}
