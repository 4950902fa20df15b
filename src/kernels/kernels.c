/* kernels.c - which instruction sets exist, laying them over each other, and the one
 * product that every stored type shares.
 *
 * Nothing here names a kernel or a type: the rows come from isa.def and kernels.def.
 */
#include "kernels/kernels.h"

#include "kernels/isa.h"

#include <string.h>

const ph_isa ph_isas[] = {
#define PH_ISA(folder, needs, flags) {#folder, needs, ph_install_##folder},
#include "kernels/isa.def"
#undef PH_ISA
};
const size_t ph_n_isas = sizeof ph_isas / sizeof *ph_isas;

static int has(unsigned features, unsigned needs) {
    return (features & needs) == needs;
}

void ph_kernels_init(ph_kernels *k, unsigned features) {
    for (size_t i = 0; i < ph_n_isas; i++)
        if (has(features, ph_isas[i].needs)) ph_isas[i].install(k);
}

const char *ph_kernels_isa(unsigned features) {
    const char *best = ph_isas[0].name;
    for (size_t i = 0; i < ph_n_isas; i++)
        if (has(features, ph_isas[i].needs)) best = ph_isas[i].name;
    return best;
}

const char *ph_kernels_isa_at(size_t i, unsigned features, int *is_used) {
    *is_used = i < ph_n_isas && has(features, ph_isas[i].needs);
    return i < ph_n_isas ? ph_isas[i].name : NULL;
}

/* "ref, avx2, avx512": what the user may ask for on this kind of processor. */
static void list_names(char *out, size_t size) {
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ph_n_isas; i++) {
        const char *part[2] = {i ? ", " : "", ph_isas[i].name};
        for (size_t j = 0; j < 2; j++)
            for (const char *p = part[j]; *p && n + 1 < size; p++) out[n++] = *p;
        out[n] = '\0';
    }
}

ph_rc ph_kernels_features(const char *force, unsigned *out, ph_err *err) {
    unsigned cpu = ph_cpu_features(), upto = 0;
    char     names[160];
    if (!force || !*force) {
        *out = cpu;
        return PH_OK;
    }
    for (size_t i = 0; i < ph_n_isas; i++) {
        unsigned needs = ph_isas[i].needs & ~PH_ISA_UNTRIED;
        upto |= ph_isas[i].needs;
        if (strcmp(ph_isas[i].name, force)) continue;
        if (!has(cpu, needs))
            return PH_FAIL(
                err, PH_EMACHINE,
                "PINHOLE_ISA=%s: this CPU lacks feature bits 0x%x of the 0x%x it needs; the best here is %s",
                force, needs & ~cpu, needs, ph_kernels_isa(cpu));
        *out = (cpu | (ph_isas[i].needs & PH_ISA_UNTRIED)) & upto;
        return PH_OK;
    }
    list_names(names, sizeof names);
    return PH_FAIL(err, PH_EUSAGE, "PINHOLE_ISA=%.32s: no such instruction set; this program knows %s", force,
                   names);
}

/* The slots by name, so that a type gets its own product by one line in kernels.def. */
static const struct {
    const char *name;
    size_t      offset;
} slots[] = {
#define PH_KERNEL(name, args) {#name, offsetof(ph_kernels, name)},
#include "kernels/kernels.def"
#undef PH_KERNEL
};

/* The slot called prefix_T, or SIZE_MAX. */
static size_t slot_of(const char *prefix, ph_dtype t) {
    size_t n = strlen(prefix);
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (!strncmp(slots[i].name, prefix, n) && !strcmp(slots[i].name + n, ph_dtype_name(t)))
            return slots[i].offset;
    return SIZE_MAX;
}

ph_linear ph_linear_of(const ph_kernels *k, ph_dtype t) {
    ph_linear l = {NULL, t};
    size_t    at = slot_of("linear_", t);
    if (at != SIZE_MAX) memcpy(&l.fn, (const char *)k + at, sizeof l.fn);
    return l;
}

ph_attend_fn *ph_attend_of(const ph_kernels *k, ph_dtype t) {
    size_t        at = slot_of("attend_", t);
    ph_attend_fn *fn = NULL;
    if (at != SIZE_MAX) memcpy(&fn, (const char *)k + at, sizeof fn);
    return fn;
}

ph_attend_fn *ph_attend_rounded_of(const ph_kernels *k) {
    ph_kernels ref;
    ph_kernels_init(&ref, 0);
    return k->attend_rounded == ref.attend_rounded ? NULL : k->attend_rounded;
}

ph_dot_fn *ph_dot_of(const ph_kernels *k, ph_dtype t) {
    size_t     at = slot_of("dot_", t);
    ph_kernels ref;
    ph_dot_fn *fn, *plain;
    if (at == SIZE_MAX) return NULL;
    ph_kernels_init(&ref, 0);
    memcpy(&fn, (const char *)k + at, sizeof fn);
    memcpy(&plain, (const char *)&ref + at, sizeof plain);
    return fn == plain ? NULL : fn; /* the definition is for reading */
}

/* Signed bytes, row after row, with one scale a row, and nothing else.  group_rows is 0 where a form knows no
 * scales of rows, and what a file calls a row may be another length than what was asked for. */
static int is_bytes_a_row(const ph_storage *s, size_t cols) {
    return s->dtype == PH_I8 && s->group == cols && s->group_rows == 1 &&
           s->plane[PH_PLANE_DATA].row_stride == cols && s->plane[PH_PLANE_SCALE].bytes &&
           !s->plane[PH_PLANE_ZERO].bytes && !s->plane[PH_PLANE_INDEX].bytes && cols <= PH_QROW_MAX;
}

ph_dot_fn *ph_dot_of_stored(const ph_kernels *k, const ph_storage *s, size_t cols) {
    if (cols % 32 || (s->form ? !is_bytes_a_row(s, cols) : ph_dtype_block(s->dtype) < 2)) return NULL;
    return ph_dot_of(k, s->dtype);
}

static size_t plane(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

size_t ph_dot_block(ph_dtype t, size_t k) {
    return ph_dtype_block(t) > 1 ? 32 : k;
}

static size_t scales(size_t rows, size_t k, size_t block) {
    return block ? rows * (k / block) : 0;
}

size_t ph_qrows_bytes(size_t rows, size_t k, int planes, size_t block) {
    size_t n = scales(rows, k, block);
    return (size_t)planes * plane(rows * k) + plane(n * sizeof(float)) + plane(2 * n * sizeof(int32_t));
}

ph_qrows ph_qrows_in(void *memory, size_t rows, size_t k, int planes, size_t block) {
    unsigned char *lo = (unsigned char *)memory + plane(rows * k);
    unsigned char *d = planes > 1 ? lo + plane(rows * k) : lo;
    unsigned char *s = d + plane(scales(rows, k, block) * sizeof(float));
    return (ph_qrows){.hi = memory,
                      .lo = planes > 1 ? (int8_t *)lo : NULL,
                      .d = (float *)(void *)d,
                      .s = (int32_t *)(void *)s,
                      .k = k,
                      .block = block};
}

ph_qrows ph_qrows_from(const ph_qrows *x, size_t r) {
    size_t n = scales(r, x->k, x->block);
    return (ph_qrows){.hi = x->hi + r * x->k,
                      .lo = x->lo ? x->lo + r * x->k : NULL,
                      .d = x->d + n,
                      .s = x->s + 2 * n,
                      .k = x->k,
                      .block = x->block};
}

/* Unpack a few rows of weights, multiply all rows of x by them, go on. */
static void run_generic(const ph_kernels *k, ph_dtype t, float *y, size_t y_stride, const float *x,
                        size_t x_stride, const unsigned char *w, size_t w_stride, size_t rows, size_t cols,
                        size_t n, float *scratch) {
    const ph_dtype_def *def = ph_dtype_get(t);
    for (size_t c = 0; c < cols; c += PH_LINEAR_SCRATCH_ROWS) {
        size_t some = cols - c < PH_LINEAR_SCRATCH_ROWS ? cols - c : PH_LINEAR_SCRATCH_ROWS;
        for (size_t i = 0; i < some; i++) def->unpack(&scratch[i * n], &w[(c + i) * w_stride], n);
        k->linear_F32(&y[c], y_stride, x, x_stride, scratch, n * sizeof *scratch, rows, some, n, NULL);
    }
}

void ph_linear_run_stored(const ph_kernels *k, const ph_storage *s, size_t first, float *y, size_t y_stride,
                          const float *x, size_t x_stride, size_t rows, size_t cols, size_t n,
                          float *scratch) {
    for (size_t c = 0; c < cols; c += PH_LINEAR_SCRATCH_ROWS) {
        size_t some = cols - c < PH_LINEAR_SCRATCH_ROWS ? cols - c : PH_LINEAR_SCRATCH_ROWS;
        for (size_t i = 0; i < some; i++) ph_storage_row(s, first + c + i, n, &scratch[i * n]);
        k->linear_F32(&y[c], y_stride, x, x_stride, scratch, n * sizeof *scratch, rows, some, n, NULL);
    }
}

void ph_linear_run(const ph_kernels *k, ph_linear l, float *y, size_t y_stride, const float *x,
                   size_t x_stride, const void *w, size_t w_stride, size_t rows, size_t cols, size_t n,
                   float *scratch) {
    if (l.fn)
        l.fn(y, y_stride, x, x_stride, w, w_stride, rows, cols, n, scratch);
    else
        run_generic(k, l.dtype, y, y_stride, x, x_stride, w, w_stride, rows, cols, n, scratch);
}
