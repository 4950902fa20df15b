/* planes.c - matrices that a quantiser stored in separate planes: GPTQ, AWQ, a byte an element.
 *
 *     config.json quantization_config ── method, bits, group ──► ph_source.quant
 *     X.weight is asked for; X.qweight, X.scales ... are there ──► ph_storage with these planes
 *
 * Which names and which layout belong to a method is its storage form's business
 * (tensor/storage.def); that the planes fit the shape is checked by the form.
 */
#include "model/source.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Bytes with scales are known by their tensors, whatever wrote them. */
static const char by_tensors[] = "compressed-tensors";

ph_rc ph_source_read_quant(ph_source *s, ph_err *err) {
    ph_json     root = ph_json_root(&s->hf.config), q = ph_json_get(&root, "quantization_config");
    const char *method, *version;
    int         bits, group, zero_point;
    s->quant = (ph_storage){0};
    if (ph_json_kind_of(&q) != PH_JSON_OBJECT) return PH_OK;
    PH_TRY(ph_json_text_or(&q, "quant_method", by_tensors, &method, err));
    s->quant.form = ph_storage_form_find(method);
    if (!s->quant.form)
        return PH_FAIL(
            err, PH_EUNSUP,
            "config.json: quantization_config.quant_method '%.40s' is not supported; gptq, awq and "
            "compressed-tensors are",
            method);
    PH_TRY(ph_json_size_or(&q, "w_bit", 1, 32, 4, &bits, err));
    PH_TRY(ph_json_size_or(&q, "bits", 1, 32, bits, &bits, err));
    PH_TRY(ph_json_size_or(&q, "q_group_size", -1, 1 << 24, 128, &group, err));
    PH_TRY(ph_json_size_or(&q, "group_size", -1, 1 << 24, group, &group, err));
    PH_TRY(ph_json_bool_or(&q, "zero_point", 1, &zero_point, err));
    PH_TRY(ph_json_text_or(&q, "version", "gemm", &version, err));
    if (!strcmp(method, "awq") && strcasecmp(version, "gemm"))
        return PH_FAIL(err, PH_EUNSUP, "config.json: awq version '%.40s' is not supported; gemm is", version);
    PH_TRY(ph_json_text_or(&q, "checkpoint_format", "gptq", &version, err));
    s->quant.bits = bits;
    s->quant.group = group > 0 ? (size_t)group : 0;
    s->quant.is_symmetric = !zero_point;
    s->quant.zero_add = !strcmp(method, "gptq") && strcmp(version, "gptq_v2") != 0;
    return PH_OK;
}

static const ph_weight *part(const ph_names *n, const char *full, const char *name) {
    char   text[320];
    size_t base = strlen(full) - strlen("weight");
    snprintf(text, sizeof text, "%.*s%s", (int)base, full, name);
    return ph_weights_find(n->weights, text);
}

/* The form that stands in the files under this name; NULL: none. */
static const ph_storage_form *form_of(const ph_names *n, const char *full) {
    size_t                 length = strlen(full);
    const ph_storage_form *form = n->quant ? n->quant->form : NULL;
    if (n->is_gguf || length < 7 || strcmp(full + length - 7, ".weight")) return NULL;
    const ph_weight *plain = ph_weights_find(n->weights, full);
    if (!plain) return form && part(n, full, form->part[PH_PLANE_DATA]) ? form : NULL;
    form = ph_storage_form_find(by_tensors);
    int is_bytes = plain->dtype == PH_I8 || plain->dtype == PH_U8;
    return is_bytes && form && part(n, full, form->part[PH_PLANE_SCALE]) ? form : NULL;
}

ph_rc ph_names_planes(const ph_names *n, const char *full, const ph_shape *shape, ph_storage *out,
                      ph_err *err) {
    const ph_storage_form *form = form_of(n, full);
    ph_storage             s = n->quant && form == n->quant->form ? *n->quant : (ph_storage){0};
    *out = (ph_storage){0};
    if (!form) return PH_OK;
    s.form = form;
    for (int k = 0; k < PH_N_PLANES; k++) {
        const ph_weight *w = form->part[k] ? part(n, full, form->part[k]) : NULL;
        if (!w) continue;
        s.plane[k] = (ph_plane){.bytes = w->bytes, .n = w->n_bytes, .dtype = w->dtype};
        PH_TRY(ph_dtype_row_bytes(w->dtype, w->rank ? w->dim[w->rank - 1] : 1, &s.plane[k].row_stride, err));
        s.n_planes = k + 1;
    }
    s.dtype = s.plane[PH_PLANE_DATA].dtype;
    if (shape->rank != 2)
        return PH_FAIL(err, PH_EUNSUP, "tensor %.120s: only matrices are read from separate planes", full);
    s.n_rows = (size_t)shape->dim[0].mul;
    ph_rc rc = form->check(&s, (size_t)shape->dim[1].mul, err);
    if (rc) {
        char why[200];
        snprintf(why, sizeof why, "%.199s", err->msg);
        return PH_FAIL(err, rc, "tensor %.100s: %s", full, why);
    }
    *out = s;
    return PH_OK;
}
