/* planes_test.c - which tensors beside a weight are its scales, and what config.json says of them. */
#include "model/source.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static ph_rc read_quant(const char *quant, ph_storage *out, ph_err *err) {
    static ph_source s;
    char             text[512];
    int              n = snprintf(text, sizeof text, "{\"quantization_config\": %s}", quant);
    s = (ph_source){0};
    *err = (ph_err){0};
    CHECK(!ph_json_parse(&s.hf.config, text, (size_t)n, "config.json", err));
    ph_rc rc = ph_source_read_quant(&s, err);
    ph_json_close(&s.hf.config);
    *out = s.quant;
    return rc;
}

static void says(const char *quant, const char *form, size_t rows, size_t columns) {
    ph_storage s;
    ph_err     err;
    ph_rc      rc = read_quant(quant, &s, &err);
    CHECK_SAY(!rc && s.form && !strcmp(s.form->name, form) && s.group_rows == rows &&
                  (!rows || s.group == columns),
              "%s: %s %zu %zu %s", quant, s.form ? s.form->name : "no form", s.group_rows, s.group, err.msg);
}

void test_planes_config(void) {
    says("{\"quant_method\": \"fp8\", \"weight_block_size\": [128, 64]}", "fp8", 128, 64);
    says("{\"quant_method\": \"fp8\", \"weight_block_size\": null}", "fp8", 0, 0);
    says("{\"quant_method\": \"fbgemm_fp8\"}", "compressed-tensors", 0, 0);
    says("{\"config_groups\": {\"g\": {\"weights\": {\"block_structure\": [16, 32]}}}}", "compressed-tensors",
         16, 32);
    says("{\"config_groups\": {\"g\": {\"weights\": {\"block_structure\": null}}}}", "compressed-tensors", 0,
         0);
    says("{\"config_groups\": {}}", "compressed-tensors", 0, 0);
}

void test_planes_config_bad(void) {
    static const char *const rows[][2] = {
        {"{\"quant_method\": \"magic\"}",
         "'magic' is not supported; these are: awq, compressed-tensors, fbgemm_fp8, fp8, gptq"},
        {"{\"quant_method\": \"factor\"}", "'factor' is not supported"},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [128]}", "two sides of a block"},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [0, 128]}", "two sides of a block"},
        {"{\"quant_method\": \"fp8\", \"weight_block_size\": [1, 2, 3]}", "weight_block_size"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_storage s;
        ph_err     err;
        ph_rc      rc = read_quant(rows[i][0], &s, &err);
        CHECK_SAY(rc && strstr(err.msg, rows[i][1]), "%s: %s", rows[i][0], err.msg);
    }
}

/* ---- tensors ---- */

static const uint8_t ones[64 * 36 + 64] = {[0] = 0x38, [1] = 0x40, [2] = 0xb8}; /* E4M3: 1, 2, -1, 0 ... */
static const float   scales[8] = {3, 4, 5, 6, 7, 8, 9, 10};

typedef struct shelf {
    ph_weight  at[4];
    ph_weights all;
    uint32_t   sorted[4];
    ph_storage quant, found;
    ph_err     err;
} shelf;

static void put(shelf *s, const char *name, ph_dtype t, int rank, int64_t rows, int64_t cols,
                const void *bytes) {
    ph_weight *w = &s->at[s->all.n++];
    *w = (ph_weight){.name = name, .dtype = t, .rank = rank, .dim = {rows, cols}, .bytes = bytes};
    CHECK(!ph_weight_bytes(t, rank, w->dim, &w->n_bytes, NULL));
}

/* Looks for "a.weight" as [rows, cols]. */
static ph_rc look(shelf *s, int is_gguf, int rows, int cols) {
    ph_arena       arena = {0};
    ph_shape       shape = ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols));
    const ph_names n = {.weights = &s->all, .is_gguf = is_gguf, .quant = &s->quant};
    s->all.at = s->at;
    s->err = (ph_err){0};
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_weights_index(&s->all, &arena, NULL));
    ph_rc rc = ph_names_planes(&n, "a.weight", &shape, &s->found, &s->err);
    ph_arena_close(&arena);
    return rc;
}

static int is_form(const shelf *s, const char *name) {
    return s->found.form && !strcmp(s->found.form->name, name);
}

void test_planes_scales(void) {
    float row[4];
    shelf s = {0};
    put(&s, "a.weight", PH_F8_E4M3, 2, 2, 4, ones);
    put(&s, "a.weight_scale", PH_F32, 2, 2, 1, scales);
    CHECK(!look(&s, 0, 2, 4) && is_form(&s, "compressed-tensors"));
    ph_storage_row(&s.found, 0, 4, row);
    CHECK(fabsf(row[0] - 3) <= 0 && fabsf(row[1] - 6) <= 0 && fabsf(row[2] + 3) <= 0 && fabsf(row[3]) <= 0);
    s = (shelf){.quant = {.group_rows = 1, .group = 2}};
    put(&s, "a.weight", PH_F8_E4M3, 2, 2, 4, ones);
    put(&s, "a.weight_scale_inv", PH_F32, 2, 2, 2, scales);
    CHECK(!look(&s, 0, 2, 4) && is_form(&s, "fp8") && s.found.group == 2);
    ph_storage_row(&s.found, 0, 4, row);
    CHECK(fabsf(row[0] - 3) <= 0 && fabsf(row[1] - 6) <= 0 && fabsf(row[2] + 4) <= 0);
    s = (shelf){0};
    put(&s, "a.weight", PH_I8, 2, 2, 4, ones);
    put(&s, "a.weight_scale", PH_F32, 0, 0, 0, scales);
    CHECK(!look(&s, 0, 2, 4) && is_form(&s, "compressed-tensors"));
    ph_storage_row(&s.found, 0, 4, row);
    CHECK(fabsf(row[0] - 3 * 0x38) <= 0);
}

void test_planes_factor(void) {
    float row[64];
    shelf s = {0};
    put(&s, "a.weight", PH_NVFP4, 2, 64, 64, ones);
    put(&s, "a.scale", PH_F32, 1, 1, 0, scales);
    CHECK(!look(&s, 1, 64, 64) && is_form(&s, "factor"));
    ph_storage_row(&s.found, 1, 64, row);
    CHECK(fabsf(row[0]) <= 0);
    CHECK(look(&s, 1, 63, 64) == PH_EMISMATCH && strstr(s.err.msg, "a.weight"));
}

void test_planes_none(void) {
    shelf s = {0};
    put(&s, "a.weight", PH_NVFP4, 2, 64, 64, ones);
    put(&s, "b.scale", PH_F32, 1, 1, 0, scales);
    CHECK(!look(&s, 1, 64, 64) && !s.found.form); /* blocks alone */
    s = (shelf){0};
    put(&s, "a.weight", PH_F8_E4M3, 2, 2, 4, ones);
    CHECK(!look(&s, 0, 2, 4) && !s.found.form); /* cast, not quantised */
    s = (shelf){0};
    put(&s, "a.weight", PH_F32, 2, 2, 4, ones);
    put(&s, "a.weight_scale", PH_F32, 2, 2, 1, scales);
    CHECK(!look(&s, 0, 2, 4) && !s.found.form); /* floats want none */
}

void test_planes_bad(void) {
    shelf s = {.quant = {.form = &ph_storage_fp8}};
    put(&s, "a.weight", PH_F8_E5M2, 2, 2, 4, ones);
    CHECK(look(&s, 0, 2, 4) == PH_EMISMATCH &&
          strstr(s.err.msg, "tensor a.weight is F8_E5M2 without a scale"));
    put(&s, "a.weight_scale_inv", PH_F32, 2, 3, 1, scales);
    CHECK(look(&s, 0, 2, 4) == PH_EMISMATCH && strstr(s.err.msg, "a.weight: fp8: 3 scales"));
    s = (shelf){0};
    put(&s, "a.weight", PH_F8_E4M3, 2, 2, 4, ones);
    put(&s, "a.weight_scale", PH_I32, 2, 2, 1, scales);
    CHECK(look(&s, 0, 2, 4) == PH_EUNSUP && strstr(s.err.msg, "scales of type I32"));
}

/* ---- into a graph ---- */

/* Row `row` of the value, after weight_flat (as NULL) or weight_as of "a.weight"; NULL with the message in
 * s->err where the graph refuses. */
static const float *taken(shelf *s, const ph_shape *shape, const ph_shape *as, size_t row) {
    static float   out[8];
    ph_arena       arena = {0};
    ph_graph      *g;
    const ph_names n = {.weights = &s->all, .prefix = "", .head_prefix = "", .quant = &s->quant};
    int            rows = (int)shape->dim[0].mul, cols = (int)shape->dim[1].mul;
    s->all.at = s->at;
    s->err = (ph_err){0};
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_weights_index(&s->all, &arena, NULL));
    CHECK(!ph_graph_open(&g, "taken", &s->err));
    int v = as ? ph_names_weight_as(&n, g, *shape, *as, "a.weight")
               : ph_names_weight_flat(&n, g, rows, cols, "a.weight");
    if (v >= 0) ph_storage_row(&g->value[v].storage, row, (size_t)(as ? as->dim[1].mul : cols), out);
    if (v < 0) s->err = g->err;
    ph_graph_close(g);
    ph_arena_close(&arena);
    return v < 0 ? NULL : out;
}

static void put_matrix(shelf *s, int n_scales) {
    *s = (shelf){.quant = {.form = &ph_storage_fp8}};
    put(s, "a.weight", PH_F8_E4M3, 2, 2, 4, ones);
    put(s, "a.weight_scale_inv", PH_F32, 1, n_scales, 0, scales);
}

/* The scales count where a weight is read in another shape than it has, or it is refused by name. */
void test_planes_seen_as(void) {
    ph_shape flat = ph_shape_of(2, ph_dim_of(2), ph_dim_of(4)),
             as = ph_shape_of(2, ph_dim_of(4), ph_dim_of(2));
    shelf        s;
    const float *x;
    put_matrix(&s, 1);
    CHECK((x = taken(&s, &flat, NULL, 0)) && fabsf(x[0] - 3) <= 0 && fabsf(x[1] - 6) <= 0);
    CHECK((x = taken(&s, &flat, &as, 1)) && fabsf(x[0] + 3) <= 0 && fabsf(x[1]) <= 0);
    put_matrix(&s, 2);
    CHECK((x = taken(&s, &flat, NULL, 0)) && fabsf(x[2] + 3) <= 0);
    CHECK(!taken(&s, &flat, &as, 1) && strstr(s.err.msg, "a.weight: F8_E4M3 numbers with these scales"));
    put_matrix(&s, 3);
    CHECK(!taken(&s, &flat, NULL, 0) && strstr(s.err.msg, "a.weight: fp8: 3 scales"));
    put_matrix(&s, 4); /* [4] is no [2, 2] */
    CHECK(!taken(&s, &flat, NULL, 0) && strstr(s.err.msg, "4 scales for a matrix of [2, 4]"));
    s.all.n = 1;
    CHECK(!taken(&s, &flat, NULL, 0) && strstr(s.err.msg, "without a scale"));
    s.quant.form = NULL;
    CHECK((x = taken(&s, &flat, NULL, 0)) && fabsf(x[0] - 1) <= 0);
    CHECK((x = taken(&s, &flat, &as, 1)) && fabsf(x[0] + 1) <= 0);
}
