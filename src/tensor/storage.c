/* storage.c - rows of a stored constant, as floats.
 *
 * The slow, sure way to read a weight: kernels have faster ones, and are
 * compared with this.  Separate planes are read by their form (storage.def).
 */
#include "tensor/storage.h"

#include <assert.h>
#include <string.h>

static const ph_storage_form *const forms[] = {
#define PH_STORAGE(name) &ph_storage_##name,
#include "tensor/storage.def"
#undef PH_STORAGE
};

const ph_storage_form *ph_storage_form_find(const char *name) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(forms[i]->name, name)) return forms[i];
    return NULL;
}

const ph_storage_form *ph_storage_form_of_method(const char *method) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (const char *const *m = forms[i]->method; *m; m++)
            if (!strcmp(*m, method)) return forms[i];
    return NULL;
}

const ph_storage_form *ph_storage_form_at(size_t i) {
    return i < sizeof forms / sizeof *forms ? forms[i] : NULL;
}

ph_storage ph_storage_of(ph_dtype dtype, const void *bytes, size_t n, size_t row_stride) {
    ph_storage s = {.dtype = dtype, .n_planes = 1};
    s.plane[PH_PLANE_DATA] = (ph_plane){.bytes = bytes, .n = n, .row_stride = row_stride, .dtype = dtype};
    return s;
}

void ph_storage_row(const ph_storage *s, size_t row, size_t cols, float *out) {
    const ph_plane *p = &s->plane[PH_PLANE_DATA];
    if (s->form) {
        s->form->row(s, s->first + row, cols, out);
        return;
    }
    assert(s->n_planes == 1 && cols % ph_dtype_block(s->dtype) == 0);
    ph_dtype_get(s->dtype)->unpack(out, (const unsigned char *)p->bytes + row * p->row_stride, cols);
}

ph_rc ph_plane_check(const ph_storage *s, int plane, size_t n, int floats, ph_err *err) {
    static const char *const what[PH_N_PLANES] = {"data", "scales", "zero points", "index"};
    const ph_plane          *p = &s->plane[plane];
    if (!p->bytes)
        return PH_FAIL(err, PH_EMISMATCH, "%s: the %s (%s) are missing", s->form->name, what[plane],
                       s->form->part[plane] ? s->form->part[plane] : "none");
    if (p->n != n)
        return PH_FAIL(err, PH_EMISMATCH, "%s: %zu bytes of %s, where %zu rows in groups of %zu take %zu",
                       s->form->name, p->n, what[plane], s->n_rows, s->group, n);
    if (ph_dtype_block(p->dtype) != 1 || (floats && !ph_dtype_get(p->dtype)->pack))
        return PH_FAIL(err, PH_EUNSUP, "%s: %s of type %s", s->form->name, what[plane],
                       ph_dtype_name(p->dtype));
    return PH_OK;
}

float ph_plane_float(const ph_plane *p, size_t i) {
    float x;
    ph_dtype_get(p->dtype)->unpack(&x, (const unsigned char *)p->bytes + i * ph_dtype_bytes(p->dtype), 1);
    return x;
}

uint32_t ph_plane_word(const ph_plane *p, size_t i) {
    uint32_t v;
    memcpy(&v, (const unsigned char *)p->bytes + 4 * i, sizeof v);
    return v;
}
