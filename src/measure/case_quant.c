/* case_quant.c - block types: bytes to numbers and back, roundings, bytes with scales, and GGUF models.
 *
 * Unpacking is exact to one unit in the last place.  Packing gives the reference's bytes where both its
 * implementations agree on them; where a search is allowed, an error at most 2 % above the reference's.
 */
#include "measure/case.h"

#include "measure/quant_int8.h"
#include "measure/quant_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int claims(const char *dir) {
    return ph_golden_json_has(dir, "manifest.json", "blocks") ||
           ph_golden_json_has(dir, "manifest.json", "gguf_models");
}

typedef struct desk {
    ph_report  *r;
    const char *dir;
    ph_tensors  blocks;
    ph_arena    arena;
} desk;

/* ---- blocks ---- */

/* Floats as a line of integers, so that neighbours differ by one. */
static int64_t line(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

static double ulps(const float *ours, const ph_weight *ref, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        float r = (float)ph_ref_at(ref, i);
        if (isnan(r) && isnan(ours[i])) continue;
        double d = isnan(r) || isnan(ours[i]) ? (double)INFINITY : fabs((double)(line(ours[i]) - line(r)));
        worst = fmax(worst, d);
    }
    return worst;
}

static const ph_weight *named(const desk *d, const char *type, const char *what) {
    char name[128];
    snprintf(name, sizeof name, "%.60s/%s", type, what);
    return ph_weights_find(&d->blocks.file.weights, name);
}

/* Floats of a tensor whose bytes may stand anywhere. */
static ph_rc floats(desk *d, const ph_weight *w, float **out, ph_err *err) {
    void *at;
    if (w->dtype != PH_F32)
        return PH_FAIL(err, PH_EFORMAT, "%s is %s, not F32", w->name, ph_dtype_name(w->dtype));
    PH_TRY(ph_arena_carve(&d->arena, &at, ph_ref_count(w) + 1, sizeof(float), err));
    memcpy(at, w->bytes, w->n_bytes);
    *out = at;
    return PH_OK;
}

static ph_rc check_size(ph_dtype t, const ph_weight *q, size_t n, ph_err *err) {
    size_t bytes;
    PH_TRY(ph_dtype_row_bytes(t, (int64_t)n, &bytes, err));
    if (bytes == q->n_bytes) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH, "%s: %zu bytes for %zu numbers; %s takes %zu", q->name, q->n_bytes, n,
                   ph_dtype_name(t), bytes);
}

static ph_rc unpack(desk *d, ph_dtype t, const ph_weight *q, const ph_weight *deq, ph_err *err) {
    size_t n = ph_ref_count(deq);
    void  *at;
    PH_TRY(check_size(t, q, n, err));
    PH_TRY(ph_arena_carve(&d->arena, &at, n + 1, sizeof(float), err));
    ph_dtype_get(t)->unpack(at, q->bytes, n);
    ph_figure(d->r, ulps(at, deq, n), 1, "%s: units in the last place", deq->name);
    return PH_OK;
}

static double rms_error(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(sum / (double)(n ? n : 1));
}

static ph_rc pack_exactly(desk *d, ph_dtype t, const float *x, const ph_weight *q, ph_err *err) {
    size_t n = q->n_bytes / ph_dtype_bytes(t) * ph_dtype_block(t), differing = 0;
    void  *at;
    PH_TRY(ph_arena_zero(&d->arena, &at, q->n_bytes + 1, 1, err));
    ph_dtype_get(t)->pack(at, x, n);
    for (size_t i = 0; i < q->n_bytes; i++) differing += ((const uint8_t *)at)[i] != q->bytes[i];
    ph_figure(d->r, (double)differing, 0, "%s: bytes differing", q->name);
    return PH_OK;
}

static ph_rc pack_well(desk *d, ph_dtype t, const float *x, size_t n, double limit, ph_err *err) {
    size_t bytes;
    void  *packed, *again;
    PH_TRY(ph_dtype_row_bytes(t, (int64_t)n, &bytes, err));
    PH_TRY(ph_arena_zero(&d->arena, &packed, bytes + 1, 1, err));
    PH_TRY(ph_arena_carve(&d->arena, &again, n + 1, sizeof(float), err));
    ph_dtype_get(t)->pack(packed, x, n);
    ph_dtype_get(t)->unpack(again, packed, n);
    ph_figure(d->r, rms_error(x, again, n), limit, "error of packing");
    return PH_OK;
}

/* x or edge, packed; a tensor may hold the first rows only. */
static ph_rc pack(desk *d, ph_dtype t, const char *from, const ph_weight *q, int is_exact, double rmse,
                  ph_err *err) {
    const ph_weight *w;
    float           *x = NULL;
    size_t           n = q->n_bytes / ph_dtype_bytes(t) * ph_dtype_block(t);
    PH_TRY(ph_tensors_get(&d->blocks, &w, from, err));
    if (n > ph_ref_count(w)) return PH_FAIL(err, PH_EMISMATCH, "%s: more numbers than %s has", q->name, from);
    PH_TRY(floats(d, w, &x, err));
    if (is_exact) return pack_exactly(d, t, x, q, err);
    return rmse > 0 ? pack_well(d, t, x, ph_ref_count(w), 1.02 * rmse, err) : PH_OK;
}

static ph_rc check_block(desk *d, const ph_json *item, const char *type, ph_err *err) {
    static const char *const pairs[][3] = {
        {"q", "deq", "x"}, {"edge_q", "edge_deq", "edge"}, {"random_q", "random_deq", ""}};
    ph_dtype    t;
    const char *by;
    double      rmse;
    PH_TRY(ph_json_text_or(item, "quantised_by", "", &by, err));
    PH_TRY(ph_json_real_or(item, "rmse", 0, &rmse, err));
    if (!ph_dtype_from_name(type, &t) || !ph_dtype_get(t)->unpack) {
        ph_case_skip(d->r, "the type %s is not read yet", type);
        return PH_OK;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const ph_weight *q = named(d, type, pairs[i][0]), *deq = named(d, type, pairs[i][1]);
        if (!q) continue;
        if (deq) PH_TRY(unpack(d, t, q, deq, err));
        if (!*pairs[i][2] || !ph_dtype_get(t)->pack) continue;
        PH_TRY(pack(d, t, pairs[i][2], q, !strcmp(by, "gguf-py"), i ? 0 : rmse, err));
    }
    if (!ph_dtype_get(t)->pack) ph_case_note(d->r, "%s is only read", type);
    return PH_OK;
}

static void each_block(desk *d, const ph_json *blocks) {
    for (size_t i = 0; i < ph_json_count(blocks); i++) {
        ph_err      err = {0};
        ph_json     item = ph_json_at(blocks, i);
        const char *type = "?";
        ph_rc       rc = ph_json_text(&item, "type", &type, &err);
        if (!ph_case_begin(d->r, "block %s", type)) continue;
        ph_arena_reset(&d->arena);
        if (!rc) rc = check_block(d, &item, type, &err);
        ph_case_end(d->r, rc, &err);
    }
}

/* ---- rounding ---- */

/* Floats to one or two bytes: any NaN for a NaN.  A list may hold the first of them only. */
static ph_rc check_bits(desk *d, const ph_weight *from, const ph_weight *bits, ph_dtype t, ph_err *err) {
    size_t   n = ph_ref_count(bits), differing = 0;
    ph_dtype whole = ph_dtype_bytes(t) == 1 ? PH_U8 : PH_U16;
    if (from->dtype != PH_U32 || bits->dtype != whole)
        return PH_FAIL(err, PH_EFORMAT, "%s and %s must be U32 and %s", from->name, bits->name,
                       ph_dtype_name(whole));
    if (n > ph_ref_count(from)) return ph_same_count(ph_ref_count(from), bits, err);
    for (size_t i = 0; i < n; i++) {
        uint32_t raw = (uint32_t)ph_ref_at(from, i);
        float    x, ours_back, ref_back;
        uint16_t ours = 0, ref = (uint16_t)ph_ref_at(bits, i);
        memcpy(&x, &raw, sizeof x);
        ph_dtype_get(t)->pack(&ours, &x, 1);
        ph_dtype_get(t)->unpack(&ours_back, &ours, 1);
        ph_dtype_get(t)->unpack(&ref_back, &ref, 1);
        differing += ours != ref && !(isnan(ours_back) && isnan(ref_back));
    }
    ph_figure(d->r, (double)differing, 0, "%s: values differing of %zu", bits->name, n);
    return PH_OK;
}

/* Pattern i of one byte is element i. */
static ph_rc check_patterns(desk *d, const ph_weight *floats, ph_dtype t, ph_err *err) {
    float   ours[256];
    uint8_t pattern[256];
    PH_TRY(ph_same_count(256, floats, err));
    for (size_t i = 0; i < 256; i++) pattern[i] = (uint8_t)i;
    ph_dtype_get(t)->unpack(ours, pattern, 256);
    ph_figure(d->r, ulps(ours, floats, 256), 0, "%s: units in the last place", floats->name);
    return PH_OK;
}

static const struct {
    const char *tensor;
    ph_dtype    type;
    int         is_read; /* from bits to floats */
} roundings[] = {
    {"f16_bits_numpy", PH_F16, 0},           {"bf16_bits_torch", PH_BF16, 0},
    {"bf16_bits_gguf", PH_BF16, 0},          {"float8_e4m3fn_from_f32", PH_F8_E4M3, 0},
    {"float8_e4m3fn_to_f32", PH_F8_E4M3, 1}, {"float8_e5m2_from_f32", PH_F8_E5M2, 0},
    {"float8_e5m2_to_f32", PH_F8_E5M2, 1},
};

static void one_rounding(desk *d, const ph_tensors *t, size_t i) {
    ph_err           err = {0};
    const ph_weight *bits = ph_weights_find(&t->file.weights, roundings[i].tensor), *from;
    if (!bits || !ph_case_begin(d->r, "rounding %s", roundings[i].tensor)) return;
    ph_rc rc = roundings[i].is_read ? check_patterns(d, bits, roundings[i].type, &err)
                                    : ph_tensors_get(t, &from, "f32_bits", &err);
    if (!rc && !roundings[i].is_read) rc = check_bits(d, from, bits, roundings[i].type, &err);
    ph_case_end(d->r, rc, &err);
}

static void rounding(desk *d, const ph_json *item) {
    ph_err      err = {0};
    ph_tensors  t = {0};
    const char *file = "?";
    ph_rc       rc = ph_json_text(item, "file", &file, &err);
    if (!rc) rc = ph_tensors_open(&t, d->dir, file, &err);
    if (rc && ph_case_begin(d->r, "rounding")) ph_case_end(d->r, rc, &err);
    for (size_t i = 0; i < sizeof roundings / sizeof *roundings && !rc; i++) one_rounding(d, &t, i);
    ph_tensors_close(&t);
}

/* ---- the folder ---- */

static void run(ph_report *r, const char *dir) {
    ph_json_doc doc = {0};
    ph_err      err = {0};
    desk        d = {.r = r, .dir = dir};
    ph_rc       rc = ph_golden_json(&doc, dir, "manifest.json", &err);
    ph_json     root = ph_json_root(&doc), blocks = ph_json_get(&root, "blocks");
    ph_json     round = ph_json_get(&root, "rounding"), bytes = ph_json_get(&root, "int8"),
            models = ph_json_get(&root, "gguf_models");
    if (!rc) rc = ph_arena_open_growing(&d.arena, 64 << 10, &err);
    if (!rc && ph_json_count(&blocks)) rc = ph_tensors_open(&d.blocks, dir, "blocks.safetensors", &err);
    if (rc && ph_case_begin(r, "manifest.json")) ph_case_end(r, rc, &err);
    if (!rc) {
        each_block(&d, &blocks);
        if (ph_json_has(&root, "rounding")) rounding(&d, &round);
        if (ph_json_has(&root, "int8")) ph_quant_int8(r, dir, &bytes);
        ph_quant_models(r, dir, &models);
    }
    ph_tensors_close(&d.blocks);
    ph_arena_close(&d.arena);
    ph_json_close(&doc);
}

const ph_case_kind ph_case_quant = {
    "quant", "block types, roundings, bytes with scales, GGUF models", claims, run, 0, 0};
