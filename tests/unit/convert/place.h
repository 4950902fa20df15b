/* place.h - a folder of a test's own to convert into, and what two directories of a model have in common. */
#ifndef PH_TESTS_PLACE_H
#define PH_TESTS_PLACE_H

#include "convert/convert.h"

typedef struct ph_place {
    char              folder[64], file[80], back[80];
    ph_arena          arena;
    ph_recipe_types   types;
    ph_convert_report report;
    ph_err            err;
} ph_place;

void ph_place_open(ph_place *p); /* file and back: names in a new folder, where nothing stands yet */
void ph_place_close(ph_place *p);

/* `in` to `out` by p->types; the report and the error stay in p. */
ph_rc ph_place_go(ph_place *p, const char *in, const char *out, int to_gguf, ph_convert_names names);
/* Tensors and small files, byte for byte. */
void ph_place_same_dirs(ph_place *p, const char *a, const char *b);

#endif
