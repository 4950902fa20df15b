/* cli_known.c - what this program knows: `pinhole inspect --known`.
 *
 * Every list is walked in the room that has it; no name stands here.  One JSON
 * object is made, and printed as it is or as text, so that both say the same.
 */
#include "cli/command.h"

#include "audio/audio.h"
#include "audio/audio_recipe.h"
#include "engine/engine.h"
#include "image/image.h"
#include "image/recipe.h"
#include "kernels/kernels.h"
#include "model/family.h"
#include "tensor/dtype.h"
#include "tensor/storage.h"
#include "text/chat.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the lists ---- */

static json_t *words(const char *const *w) {
    json_t *a = json_array();
    for (; w && *w; w++) json_array_append_new(a, json_string(*w));
    return a;
}

static json_t *families(void) {
    json_t         *a = json_array();
    ph_known_family f;
    for (size_t i = 0; ph_known_family_at(i, &f); i++)
        json_array_append_new(a, json_pack("{ss ss so ss* ss* ss* ss*}", "name", f.name, "kind", f.kind,
                                           "types", words(f.types), "projector", f.projector, "gguf", f.gguf,
                                           "chat_form", f.chat_form, "source", f.source));
    return a;
}

static json_t *types(void) {
    json_t *a = json_array();
    for (int i = 0; i < PH_N_DTYPES; i++) {
        const ph_dtype_def *d = ph_dtype_get((ph_dtype)i);
        int                 id = ph_dtype_gguf((ph_dtype)i);
        json_array_append_new(a, json_pack("{ss so si si sb sb}", "name", ph_dtype_name((ph_dtype)i), "gguf",
                                           id < 0 ? json_null() : json_integer(id), "block",
                                           (int)ph_dtype_block((ph_dtype)i), "bytes",
                                           (int)ph_dtype_bytes((ph_dtype)i), "is_read", d->unpack != NULL,
                                           "is_written", ph_dtype_is_written((ph_dtype)i)));
    }
    return a;
}

static json_t *storages(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_storage_form_at(i); i++)
        json_array_append_new(a, json_string(ph_storage_form_at(i)->name));
    return a;
}

static json_t *tokenizers(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_tokenizer_model_name(i); i++)
        json_array_append_new(a, json_string(ph_tokenizer_model_name(i)));
    return a;
}

static json_t *pretokenizers(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_pretok_at(i); i++) json_array_append_new(a, json_string(ph_pretok_at(i)->name));
    return a;
}

static json_t *chat_forms(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_chat_builtin_name(i); i++)
        json_array_append_new(a, json_string(ph_chat_builtin_name(i)));
    return a;
}

static json_t *pictures(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_image_format_at(i); i++)
        json_array_append_new(a, json_string(ph_image_format_name(ph_image_format_at(i))));
    return a;
}

static json_t *processors(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_recipe_kind_at(i); i++) {
        const ph_recipe_kind *kind = ph_recipe_kind_at(i);
        for (const char *const *p = kind->processors; *p; p++)
            json_array_append_new(a, json_pack("{ss so}", "name", *p, "projectors", words(kind->projectors)));
    }
    return a;
}

static json_t *sounds(void) {
    json_t *a = json_array();
    for (size_t i = 0; ph_audio_format_at(i); i++)
        json_array_append_new(a, json_string(ph_audio_format_at(i)));
    return a;
}

/* An engine that is known may lack its library here: then its reason stands beside it. */
static json_t *engines(void) {
    json_t *a = json_array();
    for (size_t i = 0; i < ph_engine_count(); i++) {
        const ph_engine_def *e = ph_engine_at(i);
        ph_err               why = {0};
        int                  is_here = !e->probe(&why);
        json_array_append_new(a, json_pack("{ss sb ss*}", "name", e->name, "is_here", is_here, "reason",
                                           is_here ? NULL : why.msg));
    }
    return a;
}

static json_t *isas(unsigned features) {
    json_t     *a = json_array();
    const char *name;
    int         is_used;
    for (size_t i = 0; (name = ph_kernels_isa_at(i, features, &is_used)); i++)
        json_array_append_new(a, json_pack("{ss sb}", "name", name, "is_used", is_used));
    return a;
}

static json_t *fusions(void) {
    json_t *a = json_array();
    for (int i = 0; ph_fusion_name(i); i++)
        json_array_append_new(a, json_pack("{ss ss}", "name", ph_fusion_name(i), "what", ph_fusion_what(i)));
    return a;
}

/* ---- as text ---- */

enum { MARGIN = 17, WIDTH = 110 };

static const char *name_of(json_t *v) {
    return json_string_value(json_is_object(v) ? json_object_get(v, "name") : v);
}

/* "  title          a, b, c", wrapped. */
static void print_words(const char *title, json_t *names) {
    size_t  i;
    int     at = printf("  %-*s", MARGIN - 3, title);
    json_t *v;
    json_array_foreach(names, i, v) {
        const char *name = name_of(v);
        if (i) at += printf(",");
        if (i && at + (int)strlen(name) + 1 > WIDTH) at = printf("\n%*s", MARGIN - 1, "") - 1;
        at += printf(" %s", name);
    }
    printf("\n");
}

static void print_families(json_t *all) {
    size_t  i, k;
    json_t *f, *t;
    printf(
        "families: name, kind, model_type or GGUF architecture; projector of a GGUF vision file; source\n");
    json_array_foreach(all, i, f) {
        const char *projector = json_string_value(json_object_get(f, "projector"));
        printf("  %-14s %-10s ", json_string_value(json_object_get(f, "name")),
               json_string_value(json_object_get(f, "kind")));
        json_array_foreach(json_object_get(f, "types"), k, t)
            printf("%s%s", k ? ", " : "", json_string_value(t));
        printf("%s%s\n%*s%s\n", projector ? "; " : "", projector ? projector : "", MARGIN + 11, "",
               json_string_value(json_object_get(f, "source")));
    }
}

/* Names of the rows whose flag is, or is not, set. */
static json_t *picked(json_t *rows, const char *flag, int is) {
    json_t *a = json_array(), *v;
    size_t  i;
    json_array_foreach(rows, i, v) if (json_is_true(json_object_get(v, flag)) == is)
        json_array_append(a, json_object_get(v, "name"));
    return a;
}

static void print_picked(const char *title, json_t *rows, const char *flag, int is) {
    json_t *names = picked(rows, flag, is);
    if (json_array_size(names)) print_words(title, names);
    json_decref(names);
}

/* What `quantize --to` takes: types, and the planes that it makes. */
static void print_written(json_t *types) {
    json_t *names = picked(types, "is_written", 1);
    json_array_append_new(names, json_string("INT8"));
    print_words("written too", names);
    json_decref(names);
}

static void print_text(json_t *o) {
    print_families(json_object_get(o, "families"));
    printf("stored numbers\n");
    print_picked("types", json_object_get(o, "types"), "is_read", 1);
    print_written(json_object_get(o, "types"));
    print_picked("carried along", json_object_get(o, "types"), "is_read", 0);
    print_words("planes", json_object_get(o, "storages"));
    printf("text\n");
    print_words("tokenizers", json_object_get(o, "tokenizers"));
    print_words("pre-tokenizers", json_object_get(o, "pretokenizers"));
    print_words("chat forms", json_object_get(o, "chat_forms"));
    printf("pictures and sound\n");
    print_words("pictures", json_object_get(o, "pictures"));
    print_words("processors", json_object_get(o, "processors"));
    print_words("sound", json_object_get(o, "sounds"));
    print_words("prepared as", json_object_get(o, "sound_processors"));
    printf("this machine\n");
    print_picked("engines", json_object_get(o, "engines"), "is_here", 1);
    print_picked("not here", json_object_get(o, "engines"), "is_here", 0);
    print_picked("kernels", json_object_get(o, "isas"), "is_used", 1);
    print_picked("not used", json_object_get(o, "isas"), "is_used", 0);
    print_words("fusions", json_object_get(o, "fusions"));
}

ph_rc ph_cli_known(int is_json, ph_err *err) {
    unsigned features;
    PH_TRY(ph_kernels_features(getenv("PINHOLE_ISA"), &features, err));
    json_t *o = json_pack("{ss so so so so so so so so so s[s] so so so}", "version", PH_VERSION, "families",
                          families(), "types", types(), "storages", storages(), "tokenizers", tokenizers(),
                          "pretokenizers", pretokenizers(), "chat_forms", chat_forms(), "pictures",
                          pictures(), "processors", processors(), "sounds", sounds(), "sound_processors",
                          ph_audio_recipe_processor(), "engines", engines(), "isas", isas(features),
                          "fusions", fusions());
    if (!o) return PH_FAIL(err, PH_ENOMEM, "no memory for the lists");
    ph_cli_print_list(o, is_json, print_text);
    return PH_OK;
}
