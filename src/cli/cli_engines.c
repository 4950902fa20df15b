/* cli_engines.c - what can run a model here: `pinhole inspect --engines`.
 *
 * Engines of the table, of libraries of others which one; execution providers of ONNX Runtime; of each
 * whether it is here, and if not why. One JSON object is made, and printed as it is or as text.
 */
#include "cli/command.h"

#include "engine/engine.h"
#include "engine/openvino/openvino.h"
#include "engine/ort/ort.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *row(const char *name, int is_here, const char *what, const char *reason) {
    return json_pack("{ss sb ss* ss*}", "name", name, "is_here", is_here, "what", what, "reason",
                     is_here ? NULL : reason);
}

static void add_table(json_t *engines, unsigned features) {
    for (size_t i = 0; i < ph_engine_count(); i++) {
        const ph_engine_def *e = ph_engine_at(i);
        if (e == &ph_engine_ort || e == &ph_engine_openvino) continue; /* more is said of these */
        char   what[64];
        ph_err why = {0};
        int    is_here = !e->probe(&why);
        snprintf(what, sizeof what, "kernels %s", ph_kernels_isa(features));
        json_t *o = row(e->name, is_here, strcmp(e->name, "native") ? NULL : what, why.msg);
        json_object_set_new(o, "class", json_string(ph_engine_class_name(e->cls)));
        json_array_append_new(engines, o);
    }
}

static json_t *providers(ph_ort *ort) {
    json_t         *a = json_array();
    ph_ort_ep_state s;
    for (size_t i = 0; ph_ort_ep_at(ort, i, &s); i++) {
        json_t *o = row(s.name, s.is_here, NULL, s.reason);
        json_object_set_new(o, "ort_name", json_string(s.ort_name));
        json_object_set_new(o, "class", json_string(ph_engine_class_name(s.cls)));
        json_array_append_new(a, o);
    }
    return a;
}

/* An engine that is a library of others: which, and where. */
static void add_library(json_t *o, const ph_engine_def *def, ph_rc rc, const char *called,
                        const char *release, const char *path, const char *why) {
    char what[80];
    snprintf(what, sizeof what, "%s %s", called, release);
    json_t *e = row(def->name, !rc, rc ? NULL : what, why);
    if (!rc) {
        json_object_set_new(e, "release", json_string(release));
        json_object_set_new(e, "path", ph_cli_text_json(path, strlen(path)));
    }
    json_object_set_new(e, "class", json_string(ph_engine_class_name(def->cls)));
    json_array_append_new(json_object_get(o, "engines"), e);
}

/* The library is opened, not only found: one that cannot set up is not here. */
static void add_ort(json_t *o) {
    ph_ort_library lib = {{0}, {0}};
    ph_err         why = {0};
    ph_ort        *ort = NULL;
    ph_rc          rc = ph_ort_probe(&lib, &why);
    if (!rc) rc = ph_ort_open(&ort, 1, &why);
    add_library(o, &ph_engine_ort, rc, "ONNX Runtime", lib.release, lib.path, why.msg);
    json_object_set_new(o, "providers", providers(ort));
    ph_ort_close(ort);
}

static void add_openvino(json_t *o) {
    ph_openvino_library lib = {{0}, {0}};
    ph_err              why = {0};
    ph_rc               rc = ph_openvino_probe(&lib, &why);
    add_library(o, &ph_engine_openvino, rc, "OpenVINO", lib.release, lib.path, why.msg);
}

/* ---- as text ---- */

static const char *text_of(json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void print_rows(json_t *rows) {
    size_t  i;
    json_t *r;
    json_array_foreach(rows, i, r) {
        int         is_here = json_is_true(json_object_get(r, "is_here"));
        const char *about = text_of(r, is_here ? "what" : "reason");
        printf("  %-12s %-*s%s", text_of(r, "name"), *about ? 9 : 0, is_here ? "here" : "absent", about);
        printf("%s%s\n", *text_of(r, "path") ? ", " : "", text_of(r, "path"));
    }
}

static void print_text(json_t *o) {
    printf("engines\n");
    print_rows(json_object_get(o, "engines"));
    printf("execution providers of ort for whole ONNX files (verify --engine ort)\n");
    print_rows(json_object_get(o, "providers"));
    if (!json_object_get(o, "plugins")) return;
    printf("plug-ins, whose operators native runs\n");
    ph_cli_print_plugins(json_object_get(o, "plugins"));
}

ph_rc ph_cli_engines(int is_json, const ph_plugins *plugins, ph_err *err) {
    unsigned features;
    PH_TRY(ph_kernels_features(getenv("PINHOLE_ISA"), &features, err));
    json_t *o = json_pack("{s[]}", "engines");
    if (!o) return PH_FAIL(err, PH_ENOMEM, "no memory for the lists");
    add_table(json_object_get(o, "engines"), features);
    add_ort(o);
    add_openvino(o);
    if (plugins->n) json_object_set_new(o, "plugins", ph_cli_plugins_json(plugins));
    ph_cli_print_list(o, is_json, print_text);
    return PH_OK;
}
