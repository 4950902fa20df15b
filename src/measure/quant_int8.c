/* quant_int8.c - the byte quantiser against a reference's levels, scales and products: all of them exact.
 *
 *     w, x ── levels, scale, zero point ──► numbers again
 *     levels of x, levels of w by rows ── whole sums ──► times both scales: the product
 *     x, w ── the product by floats, within 1e-5 of its largest
 *
 * Each tensor FORM_q of the file is a case of the form: "x" of the activations,
 * all others of w: "sym8...", "sym4...", "asym8...".  How many scales FORM_scale
 * has says how many numbers stand under one.
 */
#include "measure/quant_int8.h"

#include "kernels/kernels.h"
#include "tensor/int8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct desk {
    ph_report *r;
    ph_tensors t;
    ph_arena   arena;
} desk;

/* One tensor as bytes. */
typedef struct bytes {
    const float *x;
    float       *scale, *again; /* again: the numbers that the levels mean */
    uint8_t     *q, *zero;      /* q: of signed levels the bits */
    size_t       n, groups;
} bytes;

static ph_rc carve(desk *d, size_t n, size_t size, void *out, ph_err *err) {
    void *at;
    PH_TRY(ph_arena_zero(&d->arena, &at, n + 1, size, err));
    memcpy(out, &at, sizeof at);
    return PH_OK;
}

static ph_rc floats(desk *d, const char *name, const float **out, const ph_weight **w, ph_err *err) {
    float *x;
    PH_TRY(ph_tensors_get(&d->t, w, name, err));
    if ((*w)->dtype != PH_F32)
        return PH_FAIL(err, PH_EFORMAT, "%s is %s, not F32", name, ph_dtype_name((*w)->dtype));
    PH_TRY(carve(d, ph_ref_count(*w), sizeof *x, &x, err));
    memcpy(x, (*w)->bytes, (*w)->n_bytes);
    *out = x;
    return PH_OK;
}

/* A tensor of the file, with room for its levels under as many scales as `scales` has. */
static ph_rc open_bytes(desk *d, bytes *b, const char *name, const char *scales, ph_err *err) {
    const ph_weight *w, *s;
    PH_TRY(floats(d, name, &b->x, &w, err));
    PH_TRY(ph_tensors_get(&d->t, &s, scales, err));
    b->n = ph_ref_count(w);
    b->groups = ph_ref_count(s);
    if (!b->groups || b->n % b->groups)
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu scales for %zu numbers", scales, b->groups, b->n);
    PH_TRY(carve(d, b->groups, sizeof *b->scale, &b->scale, err));
    PH_TRY(carve(d, b->n, sizeof *b->again, &b->again, err));
    PH_TRY(carve(d, b->n, 1, &b->q, err));
    return carve(d, b->groups, 1, &b->zero, err);
}

static void quantise(bytes *b, int top) { /* top 0: from 0 to 255 with a zero point */
    size_t each = b->n / b->groups;
    for (size_t g = 0; g < b->groups; g++) {
        const float *x = b->x + g * each;
        uint8_t     *q = b->q + g * each;
        if (top)
            ph_int8_symmetric((int8_t *)q, &b->scale[g], x, each, top);
        else
            ph_int8_asymmetric(q, &b->scale[g], &b->zero[g], x, each);
        for (size_t i = 0; i < each; i++)
            b->again[g * each + i] = b->scale[g] * (float)(top ? (int8_t)q[i] : q[i] - b->zero[g]);
    }
}

/* Whether two elements mean another number: a zero may have either sign. */
static int differ(ph_dtype type, const uint8_t *a, const uint8_t *b) {
    float x, y;
    if (type != PH_F32) return memcmp(a, b, ph_dtype_bytes(type)) != 0;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y || x > y || isnan(x) != isnan(y);
}

/* How many elements are not the reference's. */
static ph_rc figure(desk *d, const char *base, const char *what, const void *ours, ph_dtype type, size_t n,
                    ph_err *err) {
    char             name[96];
    const ph_weight *ref;
    snprintf(name, sizeof name, "%.60s%s", base, what);
    PH_TRY(ph_tensors_get(&d->t, &ref, name, err));
    if (ref->dtype != type)
        return PH_FAIL(err, PH_EFORMAT, "%s is %s, not %s", name, ph_dtype_name(ref->dtype),
                       ph_dtype_name(type));
    PH_TRY(ph_same_count(n, ref, err));
    size_t         size = ph_dtype_bytes(type), differing = 0;
    const uint8_t *at = ours;
    for (size_t i = 0; i < n; i++) differing += differ(type, at + i * size, ref->bytes + i * size);
    ph_figure(d->r, (double)differing, 0, "%s: elements differing of %zu", name, n);
    return PH_OK;
}

static ph_rc one_form(desk *d, const char *from, const char *base, int top, bytes *b, ph_err *err) {
    char scales[96];
    snprintf(scales, sizeof scales, "%.60s_scale", base);
    PH_TRY(open_bytes(d, b, from, scales, err));
    quantise(b, top);
    PH_TRY(figure(d, base, "_scale", b->scale, PH_F32, b->groups, err));
    PH_TRY(figure(d, base, "_q", b->q, top ? PH_I8 : PH_U8, b->n, err));
    if (!top) PH_TRY(figure(d, base, "_zp", b->zero, PH_U8, b->groups, err));
    char again[96];
    snprintf(again, sizeof again, "%.60s_deq", base); /* some forms have none */
    return ph_weights_find(&d->t.file.weights, again) ? figure(d, base, "_deq", b->again, PH_F32, b->n, err)
                                                      : PH_OK;
}

/* Levels on each side of 0, of a form's name; 0: with a zero point; -1: not known. */
static int top_of(const char *base) {
    static const struct {
        const char *begins;
        int         top;
    } known[] = {{"x", 127}, {"sym8", 127}, {"sym4", 7}, {"asym8", 0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(base, known[i].begins, strlen(known[i].begins))) return known[i].top;
    return -1;
}

/* Every tensor FORM_q. */
static ph_rc forms(desk *d, ph_err *err) {
    const ph_weights *all = &d->t.file.weights;
    size_t            found = 0;
    for (size_t i = 0; i < all->n; i++) {
        char   base[64];
        bytes  b;
        size_t n = strlen(all->at[i].name);
        if (n < 3 || n - 2 >= sizeof base || strcmp(all->at[i].name + n - 2, "_q")) continue;
        snprintf(base, sizeof base, "%.*s", (int)(n - 2), all->at[i].name);
        if (top_of(base) < 0)
            return PH_FAIL(err, PH_EUNSUP, "%s: a form of bytes that is not known", all->at[i].name);
        PH_TRY(one_form(d, strcmp(base, "x") ? "w" : "x", base, top_of(base), &b, err));
        found++;
    }
    return found ? PH_OK : PH_FAIL(err, PH_EMISMATCH, "no tensor FORM_q to compare with");
}

/* Rows of x by rows of w, in bytes. */
static ph_rc products(desk *d, const bytes *x, const bytes *w, ph_err *err) {
    int32_t *sum;
    float   *out;
    size_t   k = w->n / w->groups, rows = x->groups, cols = w->groups;
    if (x->n != rows * k || k > PH_INT8_DOT_MAX)
        return PH_FAIL(err, PH_EMISMATCH, "rows of x and of w differ in length");
    PH_TRY(carve(d, rows * cols, sizeof *sum, &sum, err));
    PH_TRY(carve(d, rows * cols, sizeof *out, &out, err));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            size_t at = r * cols + c;
            sum[at] = ph_int8_dot((const int8_t *)x->q + r * k, (const int8_t *)w->q + c * k, k);
            out[at] = (float)sum[at] * x->scale[r] * w->scale[c];
        }
    PH_TRY(figure(d, "w8a8", "_acc_i32", sum, PH_I32, rows * cols, err));
    return figure(d, "w8a8", "_out", out, PH_F32, rows * cols, err);
}

/* The same rows by floats. */
static ph_rc float_products(desk *d, const bytes *x, const bytes *w, ph_err *err) {
    ph_kernels       kernels;
    const ph_weight *ref;
    float           *out;
    size_t           k = w->n / w->groups, rows = x->groups, cols = w->groups;
    PH_TRY(ph_tensors_get(&d->t, &ref, "fp32_out", err));
    PH_TRY(ph_same_count(rows * cols, ref, err));
    PH_TRY(carve(d, rows * cols, sizeof *out, &out, err));
    ph_kernels_init(&kernels, ph_cpu_features());
    kernels.linear_F32(out, cols, x->x, k, w->x, k * sizeof *w->x, rows, cols, k, NULL);
    ph_gap gap = ph_gap_floats(out, rows * cols, ref, 0);
    ph_figure(d->r, gap.diff, 1e-5 * gap.scale, "fp32_out");
    return PH_OK;
}

static ph_rc check(desk *d, const char *dir, const ph_json *item, ph_err *err) {
    const char *file;
    bytes       x, w;
    PH_TRY(ph_json_text(item, "file", &file, err));
    PH_TRY(ph_tensors_open(&d->t, dir, file, err));
    PH_TRY(forms(d, err));
    PH_TRY(open_bytes(d, &x, "x", "x_scale", err));
    PH_TRY(open_bytes(d, &w, "w", "sym8_rowwise_scale", err));
    quantise(&x, 127);
    quantise(&w, 127);
    PH_TRY(products(d, &x, &w, err));
    return float_products(d, &x, &w, err);
}

void ph_quant_int8(ph_report *r, const char *dir, const ph_json *item) {
    desk   d = {.r = r};
    ph_err err = {0};
    if (!ph_case_begin(r, "int8")) return;
    ph_rc rc = ph_arena_open_growing(&d.arena, 64 << 10, &err);
    if (!rc) rc = check(&d, dir, item, &err);
    ph_tensors_close(&d.t);
    ph_arena_close(&d.arena);
    ph_case_end(r, rc, &err);
}
