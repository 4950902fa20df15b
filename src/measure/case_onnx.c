/* case_onnx.c - ONNX models: good ones give the stored outputs, broken ones the stated verdict.
 *
 * Limits are those of the lists: floats relative to the largest number of an output, whole numbers exact.  A
 * broken model's `expected` is a sentence; what it begins with decides, and a name that it asks for must
 * stand in the message.
 */
#include "measure/onnx_guest.h"

#include "base/locale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct desk {
    ph_report  *r;
    const char *dir;
    ph_tensors  io; /* the reference's tensors */
    ph_arena    arena;
} desk;

static const struct {
    const char *file, *key, *tensors;
} lists[] = {{"good.json", "good", "good_io.safetensors"},
             {"ops.json", "cases", "ops_io.safetensors"},
             {"bad.json", "bad", NULL}};
enum { N_LISTS = sizeof lists / sizeof *lists };

static int claims(const char *dir) {
    for (int i = 0; i < N_LISTS; i++)
        if (ph_golden_json_has(dir, lists[i].file, lists[i].key)) return 1;
    return 0;
}

/* dir/folder/file: names that lead elsewhere are refused. */
static ph_rc model_path(const desk *d, const ph_json *item, char *out, size_t size, ph_err *err) {
    const char *name;
    PH_TRY(ph_json_text(item, "model", &name, err));
    if (*name == '/' || strstr(name, ".."))
        return PH_FAIL(err, PH_EFORMAT, "'%.80s' is no model of %s", name, d->dir);
    int n = snprintf(out, size, "%s/%s", d->dir, name);
    if (n < 0 || (size_t)n >= size)
        return PH_FAIL(err, PH_ELIMIT, "%s/%s: the path is too long", d->dir, name);
    return PH_OK;
}

/* The first number of a sentence: "1e-4 relative to max abs". */
static double tolerance_of(const ph_json *item) {
    const char *text = "";
    double      x = 0;
    if (ph_json_text_or(item, "tolerance", "", &text, NULL)) return 0;
    for (const char *p = text; *p; p++)
        if (*p >= '0' && *p <= '9') {
            x = ph_plain_double(p, NULL);
            break;
        }
    return x;
}

static ph_rc read_io(desk *d, const ph_json *item, const char *name, ph_onnx_io *io, ph_err *err) {
    const char *tensor;
    size_t      rank;
    io->name = name;
    PH_TRY(ph_json_text(item, "tensor", &tensor, err));
    PH_TRY(ph_tensors_get(&d->io, &io->ref, tensor, err));
    PH_TRY(ph_json_ints(item, "shape", io->dim, PH_RANK_MAX, &rank, err));
    io->rank = (int)rank;
    int64_t n = 1;
    for (int i = 0; i < io->rank; i++)
        if (io->dim[i] < 0 || __builtin_mul_overflow(n, io->dim[i], &n)) n = -1;
    return n < 0 ? PH_FAIL(err, PH_EFORMAT, "%s: a shape that is none", name)
                 : ph_same_count((size_t)n, io->ref, err);
}

/* An object (name: {..}) or an array ({"name": ..}). */
static ph_rc read_ios(desk *d, const ph_json *item, const char *key, ph_onnx_io *io, size_t *n, ph_err *err) {
    ph_json     list = ph_json_get(item, key), one;
    const char *name;
    *n = 0;
    if (ph_json_count(&list) > PH_ONNX_IO_MAX) return PH_FAIL(err, PH_ELIMIT, "%s: too many", list.where);
    if (ph_json_kind_of(&list) == PH_JSON_OBJECT)
        for (ph_json_iter it = ph_json_members(&list); ph_json_next(&it, &name, &one);)
            PH_TRY(read_io(d, &one, name, &io[(*n)++], err));
    else
        for (size_t i = 0; i < ph_json_count(&list); i++) {
            one = ph_json_at(&list, i);
            PH_TRY(ph_json_text(&one, "name", &name, err));
            PH_TRY(read_io(d, &one, name, &io[(*n)++], err));
        }
    return PH_OK;
}

static ph_rc check_model(desk *d, const ph_json *item, ph_err *err) {
    char         path[4096];
    ph_onnx_case c = {.path = path, .tolerance = tolerance_of(item)};
    PH_TRY(model_path(d, item, path, sizeof path, err));
    PH_TRY(read_ios(d, item, "inputs", c.in, &c.n_in, err));
    PH_TRY(read_ios(d, item, "outputs", c.out, &c.n_out, err));
    return ph_onnx_check(d->r, &c, err);
}

/* ---- broken models ---- */

/* [[..], [..]] of the list as an array. */
static ph_rc read_matrix(desk *d, const ph_json *item, const char *key, const char *name, ph_onnx_io *io,
                         ph_err *err) {
    ph_json rows = ph_json_get(item, key), row = ph_json_at(&rows, 0);
    size_t  m = ph_json_count(&rows), n = ph_json_count(&row);
    void   *p;
    if (m > 1000 || n > 1000) return PH_FAIL(err, PH_ELIMIT, "%s: too many numbers", rows.where);
    PH_TRY(ph_arena_carve(&d->arena, &p, m * n + 1, sizeof(float), err));
    *io = (ph_onnx_io){.name = name, .floats = p, .rank = 2, .dim = {(int64_t)m, (int64_t)n}};
    for (size_t i = 0; i < m * n; i++) {
        double x;
        row = ph_json_at(&rows, i / n);
        ph_json one = ph_json_at(&row, i % n);
        PH_TRY(ph_json_to_real(&one, &x, err));
        ((float *)p)[i] = (float)x;
    }
    return PH_OK;
}

/* The stated answer of a model that is sound after all, or may be taken for sound. */
static ph_rc check_answer(desk *d, const ph_json *item, const char *path, ph_err *err) {
    ph_onnx_case c = {.path = path, .n_in = 1, .n_out = 1, .tolerance = 1e-5};
    PH_TRY(read_matrix(d, item, "run_input_X", "X", &c.in[0], err));
    PH_TRY(read_matrix(d, item, "run_output", "Y", &c.out[0], err));
    return ph_onnx_run_case(d->r, &c, err);
}

/* Opened and imported. */
static ph_rc try_model(desk *d, const char *path, ph_err *err) {
    ph_onnx       m;
    ph_onnx_graph g;
    ph_kernels    kernels;
    unsigned      features;
    PH_TRY(ph_kernels_features(d->r->how->isa, &features, err));
    ph_kernels_init(&kernels, features);
    ph_onnx_import_how how = {.kernels = &kernels, .user = d->r->how->user};
    PH_TRY(ph_onnx_open(&m, path, err));
    ph_rc rc = ph_onnx_import(&g, &m, &how, err);
    ph_onnx_graph_close(&g);
    ph_onnx_close(&m);
    return rc;
}

static int says(const ph_err *e, const char *word, size_t n) {
    char text[80];
    snprintf(text, sizeof text, "%.*s", n > 79 ? 79 : (int)n, word);
    int found = strstr(e->msg, text) != NULL;
    for (int i = 0; i < e->n_notes; i++) found |= strstr(e->note[i], text) != NULL;
    return found;
}

/* "reject, naming B": a word that is no article must stand in the message. */
static void check_naming(desk *d, const char *expected, const ph_err *e) {
    const char *at = strstr(expected, "naming ");
    if (!at) return;
    at += strlen("naming ");
    size_t n = strcspn(at, " ,.;");
    if (!strncmp(at, "the", n) || !strncmp(at, "both", n)) return;
    if (!says(e, at, n)) ph_case_fail(d->r, "the message does not name %.*s: %s", (int)n, at, e->msg);
}

/* "com.example::FancyGelu" in the reason: both must stand in the message. */
static void check_operator(desk *d, const char *why, const ph_err *e) {
    const char *at = strstr(why, "::"), *from = at;
    if (!at) return;
    while (from > why && from[-1] != ' ') from--;
    size_t n = strcspn(at + 2, " ,.;");
    if (!says(e, from, (size_t)(at - from)) || !says(e, at + 2, n))
        ph_case_fail(d->r, "the message names no %.*s: %s", (int)(at + 2 + n - from), from, e->msg);
}

static int is_refusal(ph_rc rc) {
    return rc == PH_EFORMAT || rc == PH_EMISMATCH || rc == PH_EUNSUP || rc == PH_ELIMIT || rc == PH_EPATH;
}

static ph_rc check_bad(desk *d, const ph_json *item, ph_err *err) {
    char        path[4096];
    const char *expected, *why;
    ph_err      told = {0};
    if (d->r->guest) {
        ph_case_skip(d->r, "what %s says of broken models is not held to anything", d->r->guest->what);
        return PH_OK;
    }
    PH_TRY(model_path(d, item, path, sizeof path, err));
    PH_TRY(ph_json_text(item, "expected", &expected, err));
    PH_TRY(ph_json_text_or(item, "why", "", &why, err));
    int   must = !strncmp(expected, "accept", 6) && strncmp(expected, "accept or", 9);
    int   may = must || strstr(expected, " or ") || strstr(expected, "Either") != NULL;
    int   is_valid = !strncmp(expected, "valid", 5);
    ph_rc rc = try_model(d, path, &told);
    if (rc && must) return PH_FAIL(err, rc, "refused, and should be read: %s", told.msg);
    if (!rc && ph_json_has(item, "run_output") && (must || may)) return check_answer(d, item, path, err);
    if (!rc) {
        ph_figure(d->r, may && !is_valid ? 0 : 1, 0, "read, where \"%.60s\" is expected", expected);
        return PH_OK;
    }
    ph_figure(d->r, is_refusal(rc) && *told.msg ? 0 : 1, 0, "refused as %s", ph_rc_name(rc));
    ph_case_note(d->r, "%.200s%s%.100s", told.msg, told.n_notes ? "; " : "",
                 told.n_notes ? told.note[0] : "");
    check_naming(d, expected, &told);
    if (is_valid) check_operator(d, why, &told);
    if (is_valid && rc != PH_EUNSUP)
        ph_case_fail(d->r, "the model is valid: %s says otherwise", ph_rc_name(rc));
    return PH_OK;
}

/* ---- the folder ---- */

static void each(desk *d, const ph_json *items, int is_bad, const char *what) {
    for (size_t i = 0; i < ph_json_count(items); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(items, i);
        const char *name = "?";
        ph_rc       rc = ph_json_text(&item, "name", &name, &err);
        if (!ph_case_begin(d->r, "%s %s", what, name)) continue;
        ph_arena_reset(&d->arena);
        if (!rc) rc = is_bad ? check_bad(d, &item, &err) : check_model(d, &item, &err);
        ph_case_end(d->r, rc, &err);
    }
}

static void run(ph_report *r, const char *dir) {
    desk  d = {.r = r, .dir = dir};
    ph_rc opened = ph_arena_open_growing(&d.arena, 64 << 10, NULL);
    for (int i = 0; i < N_LISTS && !opened; i++) {
        ph_err      err = {0};
        ph_json_doc doc = {0};
        if (!ph_golden_json_has(dir, lists[i].file, lists[i].key)) continue;
        ph_rc   rc = ph_golden_json(&doc, dir, lists[i].file, &err);
        ph_json root = ph_json_root(&doc), items = ph_json_get(&root, lists[i].key);
        if (!rc && lists[i].tensors) rc = ph_tensors_open(&d.io, dir, lists[i].tensors, &err);
        if (rc && ph_case_begin(r, "%s", lists[i].file)) ph_case_end(r, rc, &err);
        if (!rc) each(&d, &items, !lists[i].tensors, lists[i].tensors ? (i ? "op" : "model") : "bad");
        ph_tensors_close(&d.io);
        d.io = (ph_tensors){0};
        ph_json_close(&doc);
    }
    ph_arena_close(&d.arena);
}

const ph_case_kind ph_case_onnx = {"onnx", "ONNX models and operators", claims, run, 1, 0};
