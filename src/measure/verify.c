/* verify.c - walk a set of reference cases and offer each folder to the kinds.
 *
 * Folders are entered in the order of their names, at most DEPTH_MAX deep, so that a
 * link that leads back ends the walk instead of never ending it.
 */
#include "measure/case.h"

#include "base/cpu.h"
#include "base/file.h"
#include "engine/engine.h"
#include "measure/onnx_guest.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8, FOLDERS_MAX = 4096 };

static const ph_case_kind *const kinds[] = {
#define PH_CASE(name) &ph_case_##name,
#include "measure/case.def"
#undef PH_CASE
};

static const ph_case_kind *claim(const char *dir) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->claims(dir)) return kinds[i];
    return NULL;
}

/* The options name engines of parts of models, not of ONNX files. */
static int is_of_parts(const ph_verify_options *how) {
    return how->engine_vision || how->engine_language || how->engine_embed;
}

/* Why cases of this kind do not run as the options say; NULL: they do. */
static const char *why_not(const ph_report *r, const ph_case_kind *kind) {
    const ph_verify_options *how = r->how;
    if (is_of_parts(how)) {
        if (!kind->has_parts) return "no part of a model runs in this kind of case";
        if (how->against && kind->has_parts < 2)
            return "this kind of case runs on one engine, and compares no two";
        return NULL;
    }
    return r->guest && !kind->has_engines ? r->guest->elsewhere : NULL;
}

static void run(ph_report *r, const ph_case_kind *kind, const char *dir) {
    const char *why = why_not(r, kind);
    r->kind = kind;
    r->folder = dir;
    if (!why) {
        kind->run(r, dir);
    } else if (ph_case_begin(r, "%s", kind->name)) {
        ph_case_skip(r, "%s", why);
        ph_case_end(r, PH_OK, NULL);
    }
}

/* Folders yet to be looked at, the next one last. */
typedef struct walk {
    struct {
        char *path; /* owned */
        int   depth;
    } at[FOLDERS_MAX];
    size_t n;
} walk;

static ph_rc push(walk *w, const char *dir, const char *name, int depth, ph_err *err) {
    size_t size = strlen(dir) + strlen(name) + 2;
    if (w->n == FOLDERS_MAX) return PH_FAIL(err, PH_ELIMIT, "%s: more than %d folders", dir, FOLDERS_MAX);
    char *path = malloc(size);
    if (!path) return PH_FAIL(err, PH_ENOMEM, "a folder's name of %zu bytes", size);
    snprintf(path, size, "%s%s%s", dir, *name ? "/" : "", name);
    w->at[w->n].path = path;
    w->at[w->n++].depth = depth;
    return PH_OK;
}

/* What lies in dir, in falling order of names: the first is then the last and so the next. */
static ph_rc enter(walk *w, const char *dir, int depth, ph_err *err) {
    struct dirent **entry;
    ph_rc           rc = PH_OK;
    int             n = scandir(dir, &entry, NULL, alphasort);
    if (n < 0) return PH_FAIL(err, PH_EPATH, "%s: the folder cannot be read", dir);
    for (int i = n - 1; i >= 0; i--) {
        char path[PATH_MAX];
        int  length = snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
        if (!rc && entry[i]->d_name[0] != '.' && length > 0 && (size_t)length < sizeof path &&
            ph_path_is_dir(path))
            rc = push(w, dir, entry[i]->d_name, depth, err);
        free(entry[i]);
    }
    free(entry);
    return rc;
}

static ph_rc walk_all(walk *w, ph_report *r, ph_err *err) {
    ph_rc rc = PH_OK;
    while (w->n && !rc) {
        char               *dir = w->at[--w->n].path;
        int                 depth = w->at[w->n].depth;
        const ph_case_kind *kind = claim(dir);
        if (kind)
            run(r, kind, dir);
        else if (depth < DEPTH_MAX)
            rc = enter(w, dir, depth + 1, err);
        free(dir);
    }
    while (w->n) free(w->at[--w->n].path);
    return rc;
}

/* A golden/ is claimed through the folder that it describes. */
static void above_golden(char *dir) {
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir && !strcmp(slash + 1, "golden") && !claim(dir)) {
        *slash = 0;
        if (!claim(dir)) *slash = '/';
    }
}

static ph_rc start(const char *path, char dir[PATH_MAX], ph_err *err) {
    char whole[PATH_MAX];
    if (!ph_path_is_dir(path)) {
        if (!ph_path_is_file(path)) return PH_FAIL(err, PH_EPATH, "%s: no such folder", path);
        return PH_FAIL(err, PH_EPATH, "%s is a file: give the folder of a set, a kind or a model", path);
    }
    if (!realpath(path, whole)) return PH_FAIL(err, PH_EPATH, "%s: the folder cannot be read", path);
    above_golden(whole);
    /* Messages show the path as it was given, where that is the folder itself. */
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    char *again = realpath(path, NULL);
    if (again && !strcmp(again, whole) && n < PATH_MAX)
        snprintf(dir, PATH_MAX, "%.*s", (int)n, path);
    else
        snprintf(dir, PATH_MAX, "%s", whole);
    free(again);
    return PH_OK;
}

/* ---- engines ---- */

/* native: the option may name that too. */
static ph_rc check_engine(const char *option, const char *name, int native, ph_err *err) {
    char known[96];
    if (!name || ph_onnx_guest_find(name) || (native && !strcmp(name, "native"))) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE, "%s takes %s%s, not '%.40s'", option, native ? "native, " : "",
                   ph_onnx_guest_names(known, sizeof known), name);
}

/* Parts of models: what is asked for is here, or that is said before anything runs. */
static ph_rc check_part(const char *part, const char *name, ph_err *err) {
    const ph_engine_def *def = name ? ph_engine_find(name) : NULL;
    if (name && !def) return PH_FAIL(err, PH_EUSAGE, "--engine %s: no engine '%.40s'", part, name);
    return def ? def->probe(err) : PH_OK;
}

static ph_rc open_parts(ph_report *r, ph_err *err) {
    const ph_verify_options *how = r->how;
    PH_TRY(check_part("vision", how->engine_vision, err));
    PH_TRY(check_part("language", how->engine_language, err));
    PH_TRY(check_part("embed", how->engine_embed, err));
    if (how->against && (strcmp(how->against, "native") || !how->engine_vision))
        return PH_FAIL(
            err, PH_EUSAGE,
            "parts of models: --engine vision=native --against E compares E with native; got --against %.40s",
            how->against);
    if (how->n_eps) return PH_FAIL(err, PH_EUSAGE, "--ep is about whole ONNX files: --engine ort");
    r->guest = ph_onnx_guest_find(how->engine_vision);
    if (!r->guest) r->guest = ph_onnx_guest_find(how->engine_language);
    if (!r->guest) r->guest = ph_onnx_guest_find(how->engine_embed);
    if (!r->guest)
        return PH_OK; /* what is said of it at the end, and its threads are one budget with the parts' */
    return r->guest->open(&r->library, how->threads > 0 ? how->threads : ph_cpu_count(), err);
}

static ph_rc open_engines(ph_report *r, char *text, size_t size, ph_err *err) {
    const ph_verify_options *how = r->how;
    if (is_of_parts(how)) return open_parts(r, err);
    PH_TRY(check_engine("--engine", how->engine, 1, err));
    PH_TRY(check_engine("--against", how->against, 0, err));
    if (how->against && how->engine && strcmp(how->engine, "native"))
        return PH_FAIL(err, PH_EUSAGE, "--against %s compares it with native: leave out --engine %s",
                       how->against, how->engine);
    r->guest = ph_onnx_guest_find(how->against ? how->against : how->engine);
    if (how->n_eps && (!r->guest || !r->guest->providers))
        return PH_FAIL(err, PH_EUSAGE, "--ep is about ONNX Runtime: add --engine ort or --against ort");
    if (!r->guest) return PH_OK;
    PH_TRY(r->guest->open(&r->library, how->threads > 0 ? how->threads : 1, err));
    return r->guest->providers ? r->guest->providers(r, text, size, err) : PH_OK;
}

static void close_engines(ph_report *r) {
    if (!r->library) return;
    r->sum.guest = r->guest->name;
    r->guest->describe(r->library, r->sum.release, &r->sum.peak);
    r->guest->close(r->library);
}

/* Nothing passed and nothing failed. */
static ph_rc none_ran(const ph_report *r, const char *path, ph_err *err) {
    if (r->sum.skipped) return PH_FAIL(err, PH_EVERDICT, "%s: no reference case ran: all were skipped", path);
    if (r->left_out)
        return PH_FAIL(err, PH_EVERDICT,
                       "%.160s: no reference case ran: there are some, and none has '%.60s' in its folder or "
                       "name (--filter)",
                       path, r->how->filter);
    return PH_FAIL(
        err, PH_EVERDICT,
        "%.100s: no reference case ran, for none was found: a folder of cases has a list of them "
        "as JSON (a model's is golden/manifest.json), and the files that it names; tests/golden/set "
        "is a set of such folders",
        path);
}

ph_rc ph_verify(const char *path, const ph_verify_options *how, ph_verify_sink *sink, void *arg,
                ph_verify_sum *sum, ph_err *err) {
    char       dir[PATH_MAX], providers[4096];
    ph_report *r = calloc(1, sizeof *r);
    walk      *w = calloc(1, sizeof *w);
    ph_rc      rc = PH_OK;
    *sum = (ph_verify_sum){0};
    if (!r || !w) {
        rc = PH_FAIL(err, PH_ENOMEM, "the walk's tables");
        goto out;
    }
    *r = (ph_report){.how = how, .sink = sink, .arg = arg};
    rc = start(path, dir, err);
    if (!rc) rc = open_engines(r, providers, sizeof providers, err);
    if (!rc) rc = push(w, dir, "", 0, err);
    if (!rc) rc = walk_all(w, r, err);
    close_engines(r);
    *sum = r->sum;
    if (rc) goto out;
    if (sum->failed)
        rc = PH_FAIL(err, PH_EVERDICT, "%zu of %zu cases failed", sum->failed, sum->failed + sum->passed);
    else if (!sum->passed)
        rc = none_ran(r, path, err);
out:
    free(w);
    free(r);
    return rc;
}
