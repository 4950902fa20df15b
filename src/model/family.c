/* family.c - the table of families. */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

static const ph_family *const families[] = {
#define PH_FAMILY(name) &ph_family_##name,
#include "model/family.def"
#undef PH_FAMILY
};

size_t ph_family_count(void) {
    return sizeof families / sizeof *families;
}

const ph_family *ph_family_at(size_t i) {
    return families[i];
}

const ph_family *ph_family_find(const char *type, ph_family_kind kind) {
    for (size_t i = 0; i < ph_family_count(); i++)
        for (const char *const *t = families[i]->types; families[i]->kind == kind && *t; t++)
            if (!strcmp(*t, type)) return families[i];
    return NULL;
}

const ph_family *ph_family_of_projector(const ph_source *s) {
    const ph_family *found = NULL;
    for (size_t i = 0; i < ph_family_count(); i++) {
        const ph_family *f = families[i];
        if (!f->projector || strcmp(f->projector, s->projector)) continue;
        if (f->projector_key && ph_gguf_find(&s->mmproj, f->projector_key)) return f;
        if (!f->projector_key && !found) found = f;
    }
    return found;
}

const char *ph_family_gguf(const ph_family *text, const ph_spec *spec) {
    return spec->text.kind[0].rope.mrope[0] ? text->gguf_mrope : text->gguf;
}

int ph_known_family_at(size_t i, ph_known_family *out) {
    static const char *const kind[] = {
        [PH_FAMILY_TEXT] = "text", [PH_FAMILY_VISION_LANGUAGE] = "multimodal", [PH_FAMILY_DUAL] = "dual"};
    if (i >= ph_family_count()) return 0;
    const ph_family *f = ph_family_at(i);
    *out = (ph_known_family){.name = f->name,
                             .kind = kind[f->kind],
                             .types = f->types,
                             .projector = f->projector,
                             .gguf = f->gguf,
                             .chat_form = f->template_,
                             .source = f->source};
    return 1;
}

void ph_family_list(char *out, size_t size) {
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < ph_family_count() && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", families[i]->name);
}
