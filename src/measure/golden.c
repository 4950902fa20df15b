/* golden.c - reference files: JSON that says what there is, tensors that say what it should be.
 *
 * The files are untrusted: names do not lead out of their folder, and every count is that of the reader.
 */
#include "measure/case.h"

#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ph_rc ph_golden_path(char *out, size_t size, const char *dir, const char *name, ph_err *err) {
    if (!*name || strchr(name, '/') || !strcmp(name, "..") || !strcmp(name, "."))
        return PH_FAIL(err, PH_EFORMAT, "'%.80s' is no name of a file in %s", name, dir);
    int n = snprintf(out, size, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= size) return PH_FAIL(err, PH_ELIMIT, "%s/%s: the path is too long", dir, name);
    return PH_OK;
}

int ph_golden_has(const char *dir, const char *name) {
    char path[4096];
    int  n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && ph_path_is_file(path);
}

static ph_rc parse(ph_json_doc *doc, const char *path, const char *name, ph_err *err) {
    ph_file f;
    PH_TRY(ph_file_open(&f, path, err));
    ph_rc rc = ph_json_parse(doc, f.bytes, f.n, name, err);
    ph_file_close(&f);
    return rc;
}

ph_rc ph_golden_json(ph_json_doc *doc, const char *dir, const char *name, ph_err *err) {
    char path[4096];
    *doc = (ph_json_doc){0};
    PH_TRY(ph_golden_path(path, sizeof path, dir, name, err));
    return parse(doc, path, name, err);
}

int ph_golden_json_has(const char *dir, const char *name, const char *key) {
    ph_json_doc doc = {0};
    if (!ph_golden_has(dir, name) || ph_golden_json(&doc, dir, name, NULL)) return 0;
    ph_json root = ph_json_root(&doc);
    int     has = ph_json_has(&root, key);
    ph_json_close(&doc);
    return has;
}

/* "x-00002-of-00003.gguf": a part that is opened with the first one. */
static int is_later_part(const char *name) {
    static const char pattern[] = "-00000-of-00000.gguf";
    size_t            n = strlen(name), tail = sizeof pattern - 1;
    if (n <= tail) return 0;
    const char *at = name + n - tail;
    for (size_t i = 0; i < tail; i++)
        if (pattern[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != pattern[i]) return 0;
    return strncmp(at, "-00001", 6) != 0;
}

static int is_model_file(const char *name, int is_vision) {
    const char *end = strrchr(name, '.');
    return end && (!strcmp(end, ".gguf") || !strcmp(end, ".bundle")) &&
           (strncmp(name, "mmproj-", 7) == 0) == is_vision && !is_later_part(name);
}

/* Its .gguf or .bundle that is a vision part, or is none, into out; "": there is none.  Errors: PH_EMISMATCH
 * there are two. */
static ph_rc find_gguf(const char *dir, int is_vision, char out[4096], ph_err *err) {
    struct dirent **entry;
    char            found[256] = "";
    int             n = scandir(dir, &entry, NULL, alphasort);
    ph_rc           rc = PH_OK;
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        if (!rc && is_model_file(name, is_vision)) {
            if (*found)
                rc = PH_FAIL(err, PH_EMISMATCH,
                             "%.200s: two %s, %.80s and %.80s: keep in a folder what is one model", dir,
                             is_vision ? "vision files" : "models", found, name);
            snprintf(found, sizeof found, "%s", name);
        }
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    *out = 0;
    return rc || !*found ? rc : ph_golden_path(out, 4096, dir, found, err);
}

int ph_golden_has_model(const char *dir) {
    char path[4096];
    return ph_golden_has(dir, "config.json") || find_gguf(dir, 0, path, NULL) || *path;
}

ph_rc ph_golden_open_model(ph_model **m, const char *dir, ph_err *err) {
    char path[4096], mmproj[4096];
    *m = NULL;
    if (ph_golden_has(dir, "config.json")) return ph_model_open(m, dir, NULL, err);
    PH_TRY(find_gguf(dir, 0, path, err));
    PH_TRY(find_gguf(dir, 1, mmproj, err));
    if (!*path) return PH_FAIL(err, PH_EPATH, "%s: neither config.json nor a .gguf or .bundle", dir);
    const ph_model_options how = {.mmproj = *mmproj ? mmproj : NULL};
    return ph_model_open(m, path, &how, err);
}

ph_rc ph_tensors_open(ph_tensors *t, const char *dir, const char *name, ph_err *err) {
    char path[4096];
    *t = (ph_tensors){0};
    PH_TRY(ph_golden_path(path, sizeof path, dir, name, err));
    PH_TRY(ph_arena_open_growing(&t->arena, 16 << 10, err));
    ph_rc rc = ph_safetensors_open(&t->file, path, &t->arena, err);
    if (rc) {
        ph_arena_close(&t->arena);
        *t = (ph_tensors){0};
    }
    return rc;
}

void ph_tensors_close(ph_tensors *t) {
    ph_safetensors_close(&t->file);
    ph_arena_close(&t->arena);
}

ph_rc ph_tensors_get(const ph_tensors *t, const ph_weight **w, const char *name, ph_err *err) {
    *w = ph_weights_find(&t->file.weights, name);
    return *w ? PH_OK : PH_FAIL(err, PH_EMISMATCH, "the reference has no tensor %s", name);
}

size_t ph_ref_count(const ph_weight *w) {
    return w->n_bytes / ph_dtype_bytes(w->dtype) * ph_dtype_block(w->dtype);
}

#define READ(type)                                                                                           \
    do {                                                                                                     \
        type v;                                                                                              \
        memcpy(&v, w->bytes + i * sizeof v, sizeof v);                                                       \
        return (double)v;                                                                                    \
    } while (0)

double ph_ref_at(const ph_weight *w, size_t i) {
    float x;
    switch (w->dtype) {
    case PH_F32:
        READ(float);
    case PH_F64:
        READ(double);
    case PH_I8:
        READ(int8_t);
    case PH_I16:
        READ(int16_t);
    case PH_I32:
        READ(int32_t);
    case PH_I64:
        READ(int64_t);
    case PH_U8:
    case PH_BOOL:
        READ(uint8_t);
    case PH_U16:
        READ(uint16_t);
    case PH_U32:
        READ(uint32_t);
    case PH_U64:
        READ(uint64_t);
    default:
        break;
    }
    if (ph_dtype_block(w->dtype) != 1 || !ph_dtype_get(w->dtype)->unpack) return (double)NAN;
    ph_dtype_get(w->dtype)->unpack(&x, w->bytes + i * ph_dtype_bytes(w->dtype), 1);
    return (double)x;
}

static void widen(ph_gap *g, double ours, double ref) {
    double diff = fabs(ours - ref), size = fabs(ref);
    if (isnan(ours) && isnan(ref)) diff = 0;
    if (isinf(ours) && isinf(ref) && (ours > 0) == (ref > 0)) diff = 0;
    if (isnan(diff)) diff = (double)INFINITY;
    if (diff > g->diff) g->diff = diff;
    g->mean += diff;
    if (isfinite(size) && size > g->scale) g->scale = size;
}

ph_gap ph_gap_floats(const float *ours, size_t n, const ph_weight *ref, size_t first) {
    ph_gap g = {0};
    for (size_t i = 0; i < n; i++) widen(&g, (double)ours[i], ph_ref_at(ref, first + i));
    if (n) g.mean /= (double)n;
    return g;
}

ph_gap ph_gap_bytes(const uint8_t *ours, size_t n, const ph_weight *ref, size_t first) {
    ph_gap g = {0};
    for (size_t i = 0; i < n; i++) widen(&g, (double)ours[i], ph_ref_at(ref, first + i));
    if (n) g.mean /= (double)n;
    return g;
}

ph_rc ph_same_count(size_t n, const ph_weight *ref, ph_err *err) {
    char shape[128];
    if (n == ph_ref_count(ref)) return PH_OK;
    ph_weight_describe(ref, shape, sizeof shape);
    return PH_FAIL(err, PH_EMISMATCH, "%s: ours has %zu elements, the reference is %s", ref->name, n, shape);
}

static ph_rc to_id(double v, int32_t *out, const char *where, ph_err *err) {
    if (!(v >= INT32_MIN && v <= INT32_MAX)) return PH_FAIL(err, PH_EFORMAT, "%s: %g is no id", where, v);
    *out = (int32_t)v;
    return PH_OK;
}

ph_rc ph_golden_ids(ph_arena *a, const ph_json *array, int32_t **ids, size_t *n, ph_err *err) {
    void *at;
    *n = ph_json_count(array);
    if (ph_json_kind_of(array) != PH_JSON_ARRAY)
        return PH_FAIL(err, PH_EFORMAT, "%s: expected an array of ids", array->where);
    PH_TRY(ph_arena_carve(a, &at, *n + 1, sizeof **ids, err));
    *ids = at;
    for (size_t i = 0; i < *n; i++) {
        int64_t v;
        ph_json item = ph_json_at(array, i);
        PH_TRY(ph_json_to_int(&item, &v, err));
        PH_TRY(to_id((double)v, &(*ids)[i], array->where, err));
    }
    return PH_OK;
}

ph_rc ph_ref_ids(ph_arena *a, const ph_weight *w, int32_t **ids, size_t *n, ph_err *err) {
    void *at;
    *n = ph_ref_count(w);
    PH_TRY(ph_arena_carve(a, &at, *n + 1, sizeof **ids, err));
    *ids = at;
    for (size_t i = 0; i < *n; i++) PH_TRY(to_id(ph_ref_at(w, i), &(*ids)[i], w->name, err));
    return PH_OK;
}
