/* planes.c - matrices that a quantiser stored in separate planes: GPTQ, AWQ, bytes or blocks with scales.
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

/* Rows and columns under one scale, where config.json says that scales belong to blocks. */
static ph_rc read_blocks(const ph_json *q, ph_storage *out, ph_err *err) {
    const char  *key;
    int64_t      side[2];
    size_t       n = 0;
    int          is_there;
    ph_json      groups = ph_json_get(q, "config_groups"), first = {0}, weights = {0};
    ph_json_iter it = ph_json_members(&groups);
    if (ph_json_next(&it, &key, &first)) weights = ph_json_get(&first, "weights");
    const ph_json *from = ph_json_has(q, "weight_block_size") ? q : &weights;
    key = from == q ? "weight_block_size" : "block_structure";
    ph_json value = ph_json_get(from, key);
    PH_TRY(ph_json_want(&value, PH_JSON_ARRAY, &is_there, err));
    if (!is_there) return PH_OK;
    PH_TRY(ph_json_ints(from, key, side, 2, &n, err));
    if (n != 2 || side[0] < 1 || side[1] < 1)
        return PH_FAIL(err, PH_EFORMAT, "%s: expected the two sides of a block, at least 1", value.where);
    out->group_rows = (size_t)side[0];
    out->group = (size_t)side[1];
    return PH_OK;
}

static ph_rc no_method(const char *method, ph_err *err) {
    char                   known[200] = "";
    size_t                 n = 0;
    const ph_storage_form *form;
    for (size_t i = 0; (form = ph_storage_form_at(i)); i++)
        for (const char *const *m = form->method; *m && n < sizeof known; m++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", *m);
    return PH_FAIL(err, PH_EUNSUP,
                   "config.json: quantization_config.quant_method '%.40s' is not supported; these are: %s",
                   method, known);
}

ph_rc ph_source_read_quant(ph_source *s, ph_err *err) {
    ph_json     root = ph_json_root(&s->hf.config), q = ph_json_get(&root, "quantization_config");
    const char *method, *version;
    int         bits, group, zero_point, is_there;
    s->quant = (ph_storage){0};
    PH_TRY(ph_json_want(&q, PH_JSON_OBJECT, &is_there, err));
    if (!is_there) return PH_OK;
    PH_TRY(ph_json_text_or(&q, "quant_method", by_tensors, &method, err));
    s->quant.form = ph_storage_form_of_method(method);
    if (!s->quant.form) return no_method(method, err);
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
    return read_blocks(&q, &s->quant, err);
}

static const ph_weight *part(const ph_names *n, const char *full, const char *name) {
    char   text[320];
    size_t base = strlen(full) - strlen("weight");
    snprintf(text, sizeof text, "%.*s%s", (int)base, full, name);
    return ph_weights_find(n->weights, text);
}

/* Bytes in themselves, or with scales beside them. */
static int may_have_scales(const ph_names *n, const ph_weight *plain) {
    return n->is_gguf || (ph_dtype_block(plain->dtype) == 1 && ph_dtype_bytes(plain->dtype) == 1);
}

/* The form that stands in the files under this name; NULL: none. */
static const ph_storage_form *form_of(const ph_names *n, const char *full, const ph_weight *plain) {
    const ph_storage_form *form = n->quant ? n->quant->form : NULL;
    if (!plain) return !n->is_gguf && form && part(n, full, form->part[PH_PLANE_DATA]) ? form : NULL;
    for (size_t i = 0; may_have_scales(n, plain) && (form = ph_storage_form_at(i)); i++)
        if (!strcmp(form->part[PH_PLANE_DATA], "weight") && part(n, full, form->part[PH_PLANE_SCALE]))
            return form;
    return NULL;
}

/* Floats of eight bits have a range so small that a quantiser always writes scales with them. */
static ph_rc check_bare(const ph_names *n, const char *full, const ph_weight *plain, ph_err *err) {
    int is_float8 = plain && (plain->dtype == PH_F8_E4M3 || plain->dtype == PH_F8_E5M2);
    if (!is_float8 || !n->quant || !n->quant->form) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH,
                   "tensor %.120s is %s without a scale, though config.json has a quantization_config: "
                   "neither weight_scale nor weight_scale_inv stands beside it",
                   full, ph_dtype_name(plain->dtype));
}

ph_rc ph_names_planes(const ph_names *n, const char *full, const ph_shape *shape, ph_storage *out,
                      ph_err *err) {
    size_t length = strlen(full);
    *out = (ph_storage){0};
    if (length < 7 || strcmp(full + length - 7, ".weight")) return PH_OK;
    const ph_weight       *plain = ph_weights_find(n->weights, full);
    const ph_storage_form *form = form_of(n, full, plain);
    if (!form) return check_bare(n, full, plain, err);
    ph_storage s = n->quant ? *n->quant : (ph_storage){0};
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
