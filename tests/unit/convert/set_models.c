/* set_models.c - the folders of the set, with the few that GGUF has no names for. */
#include "tests/unit/convert/set_models.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define SET "tests/golden/set/models"

/* In place of names: why there are none. */
static const char *const nameless[][2] = {
    {"align_clip", "two towers and no language model"},
    {"align_siglip", "two towers and no language model"},
    {"speech_whisper", "an encoder of sound and a decoder that looks at it"},
    {"vlm_blip2", "a Q-Former, and OPT"},
    {"vlm_idefics1", "a resampler, and layers that look at pictures"},
    {"vlm_mllama", "layers that look at pictures"},
};

size_t ph_set_models(ph_set_model out[64]) {
    struct dirent **entry;
    size_t          n = 0, found = 0;
    int             n_entries = scandir(SET, &entry, NULL, alphasort);
    for (int i = 0; i < n_entries; i++) {
        const char *name = entry[i]->d_name;
        if (*name != '.' && n < 64) {
            ph_set_model *m = &out[n++];
            *m = (ph_set_model){.has_names = 1, .has_vision = !strncmp(name, "vlm_", 4)};
            snprintf(m->path, sizeof m->path, SET "/%.90s", name);
            for (size_t k = 0; k < sizeof nameless / sizeof *nameless; k++)
                if (!strcmp(name, nameless[k][0])) m->has_names = 0, found++;
        }
        free(entry[i]);
    }
    if (n_entries >= 0) free(entry);
    CHECK_SAY(n >= 20 && n < 64 && found == sizeof nameless / sizeof *nameless,
              "%zu models, %zu without names", n, found);
    return n;
}
