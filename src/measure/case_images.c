/* case_images.c - decoded pixels of picture files, against another decoder's.
 *
 * The reference may give several readings of a file; ours is compared with the one that our decoder
 * means: upright, blended over white, 16 bits by their high byte, else as stored.
 */
#include "measure/case.h"

#include "base/file.h"
#include "image/image.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int claims(const char *dir) {
    char golden[4096];
    snprintf(golden, sizeof golden, "%s/golden", dir);
    return ph_golden_json_has(golden, "manifest.json", "images") &&
           ph_golden_has(golden, "decoded.safetensors");
}

/* The tensor called file/reading, as the manifest names it. */
static const ph_weight *stored(const ph_tensors *t, const char *file, const char *reading) {
    char name[512];
    snprintf(name, sizeof name, "%.400s/%s", file, reading);
    return ph_weights_find(&t->file.weights, name);
}

static const ph_weight *best(const ph_tensors *t, const char *file) {
    static const char *const order[] = {"rgb_exif_transposed", "rgb_on_white", "rgb_high_byte"};
    const ph_weight         *w = NULL;
    for (size_t i = 0; i < sizeof order / sizeof *order && !w; i++) w = stored(t, file, order[i]);
    return w;
}

/* 16 bits a channel, stored raw: the high byte of gray [h, w], or of [h, w, 3]. */
static ph_rc compare_high_bytes(ph_report *r, const ph_pixels *p, const ph_weight *raw, ph_err *err) {
    size_t n = (size_t)p->width * (size_t)p->height, each = raw->rank == 3 ? 3 : 1;
    double worst = 0;
    if (raw->rank < 2 || raw->dim[0] != p->height || raw->dim[1] != p->width || ph_ref_count(raw) != n * each)
        return ph_same_count(n * each, raw, err);
    for (size_t i = 0; i < 3 * n; i++) {
        double ref = floor(ph_ref_at(raw, each == 3 ? i : i / 3) / 256), diff = fabs((double)p->rgb[i] - ref);
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(r, worst, 0, "high byte of %s: levels apart", strrchr(raw->name, '/') + 1);
    return PH_OK;
}

static ph_rc compare(ph_report *r, const ph_pixels *p, const ph_weight *w, int is_lossy, ph_err *err) {
    const char *what = strrchr(w->name, '/') + 1;
    size_t      n = (size_t)p->width * (size_t)p->height * 3;
    if (w->rank != 3 || w->dim[0] != p->height || w->dim[1] != p->width || w->dim[2] != 3) {
        char shape[128];
        ph_weight_describe(w, shape, sizeof shape);
        return PH_FAIL(err, PH_EMISMATCH, "%s: ours is [%d, %d, 3], the reference %s", what, p->height,
                       p->width, shape);
    }
    ph_gap g = ph_gap_bytes(p->rgb, n, w, 0);
    ph_figure(r, g.diff, is_lossy ? 3 : 0, "%s: levels apart", what);
    if (is_lossy) ph_figure(r, g.mean, 0.6, "%s: levels apart on average", what);
    return PH_OK;
}

static ph_rc compare_any(ph_report *r, const ph_pixels *p, const ph_json *item, const char *file,
                         const ph_tensors *t, ph_err *err) {
    const char      *tolerance, *raw_name, *slash;
    const ph_weight *w = best(t, file), *raw = NULL;
    PH_TRY(ph_json_text_or(item, "tolerance", "exact", &tolerance, err));
    PH_TRY(ph_json_text_or(item, "tensor_raw", "", &raw_name, err));
    slash = strrchr(raw_name, '/');
    if (!w && slash) raw = ph_weights_find(&t->file.weights, raw_name);
    if (raw && ph_dtype_bytes(raw->dtype) == 2) return compare_high_bytes(r, p, raw, err);
    if (!w) w = stored(t, file, "rgb");
    if (!w) return PH_FAIL(err, PH_EMISMATCH, "the reference has no pixels of %s", file);
    return compare(r, p, w, strncmp(tolerance, "exact", 5) != 0, err);
}

static ph_rc check(ph_report *r, const char *dir, const char *file, const ph_json *item, const ph_tensors *t,
                   ph_err *err) {
    ph_file   f;
    ph_arena  arena;
    ph_pixels pixels;
    PH_TRY(ph_file_open_in(&f, dir, file, err));
    ph_rc rc = ph_arena_open_growing(&arena, 64 << 10, err);
    if (!rc) {
        rc = ph_image_decode(&pixels, f.bytes, f.n, NULL, &arena, err);
        if (!rc) rc = compare_any(r, &pixels, item, file, t, err);
        ph_arena_close(&arena);
    }
    ph_file_close(&f);
    return rc;
}

static void each(ph_report *r, const char *dir, const ph_json *images, const ph_tensors *t) {
    for (size_t i = 0; i < ph_json_count(images); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(images, i);
        const char *file = "";
        ph_rc       rc = ph_json_text(&item, "file", &file, &err);
        if (!ph_case_begin(r, "%s", rc ? "?" : file)) continue;
        if (!rc) rc = check(r, dir, file, &item, t, &err);
        ph_case_end(r, rc, &err);
    }
}

static void run(ph_report *r, const char *dir) {
    char        golden[4096];
    ph_json_doc doc = {0};
    ph_tensors  t = {0};
    ph_err      err = {0};
    snprintf(golden, sizeof golden, "%s/golden", dir);
    ph_rc rc = ph_golden_json(&doc, golden, "manifest.json", &err);
    if (!rc) rc = ph_tensors_open(&t, golden, "decoded.safetensors", &err);
    if (!rc) {
        ph_json root = ph_json_root(&doc), images = ph_json_get(&root, "images");
        each(r, dir, &images, &t);
    } else if (ph_case_begin(r, "manifest.json")) {
        ph_case_end(r, rc, &err);
    }
    ph_tensors_close(&t);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_images = {"images", "decoded pixels of picture files", claims, run, 0, 0};
