/* carry_test.c - directories into one GGUF file under their own names, and out again: tiny checkpoints of
 * families with and without names in GGUF, of matrices in separate planes, and in block types. */
#include "convert/convert.h"
#include "formats/hfdir.h"
#include "model/model.h"
#include "tests/unit/convert/place.h"
#include "tests/unit/convert/set_models.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SET "tests/golden/set/models/"

/* Families without names keep theirs unasked, others when asked. */
void test_carry_there_and_back(void) {
    ph_set_model m[64];
    size_t       n = ph_set_models(m);
    for (size_t i = 0; i < n; i++) {
        const char *in = m[i].path;
        ph_place    p;
        ph_place_open(&p);
        CHECK_SAY(
            !ph_place_go(&p, in, p.file, 1, m[i].has_names ? PH_CONVERT_NAMES_HF : PH_CONVERT_NAMES_AUTO),
            "%s: %s", in, p.err.msg);
        CHECK(p.report.is_carried && !p.report.mmproj_out[0]);
        CHECK((p.report.carried_why[0] != 0) == !m[i].has_names);
        CHECK_SAY(!ph_place_go(&p, p.file, p.back, 0, 0), "%s: %s", in, p.err.msg);
        ph_place_same_dirs(&p, in, p.back);
        if (!m[i].has_names)
            CHECK_SAY(ph_place_go(&p, in, p.file, 1, PH_CONVERT_NAMES_GGUF) == PH_EUNSUP, "%s has names", in);
        ph_place_close(&p);
    }
}

static ph_dtype stored(const ph_model *m, const char *name) {
    const ph_weight *w = ph_weights_find(ph_source_weights(&m->source), name);
    CHECK_SAY(w, "%s", name);
    return w ? w->dtype : PH_N_DTYPES;
}

/* Matrices and the table of pieces become blocks, all else stays; and again from the carrying file; and back
 * into the types that were. */
void test_carry_blocks(void) {
    static const struct {
        const char *name;
        ph_dtype    type;
    } rows[] = {{"language_model.model.layers.0.self_attn.q_proj.weight", PH_Q4_0},
                {"language_model.model.embed_tokens.weight", PH_Q4_0},
                {"language_model.lm_head.weight", PH_Q8_0}, /* rows of 64 are no whole blocks of Q6_K */
                {"vision_model.patch_embedding.weight", PH_BF16},
                {"vision_model.gated_positional_embedding.embedding", PH_BF16},
                {"vision_model.gated_positional_embedding.tile_embedding.weight", PH_BF16},
                {"language_model.model.norm.weight", PH_BF16}};
    static const ph_recipe_rule rule[] = {{.pattern = "*norm.weight", .type = PH_F32},
                                          {.pattern = "*embedding*", .type = PH_Q8_0},
                                          {.pattern = "*.q_proj.weight", .type = PH_Q8_0}};
    ph_place                    p;
    ph_model                   *m;
    ph_place_open(&p);
    p.types = (ph_recipe_types){.has_type = 1, .type = PH_Q4_0, .is_quantize = 1};
    CHECK_SAY(!ph_place_go(&p, SET "vlm_mllama", p.file, 1, PH_CONVERT_NAMES_AUTO), "%s", p.err.msg);
    CHECK_SAY(!ph_model_open(&m, p.file, NULL, &p.err), "%s", p.err.msg);
    for (size_t i = 0; m && i < sizeof rows / sizeof *rows; i++)
        CHECK_SAY(stored(m, rows[i].name) == rows[i].type, "%s", rows[i].name);
    ph_model_close(m);
    /* A recipe on the carrying file goes by full names; what cannot be blocks is counted. */
    char again[96];
    snprintf(again, sizeof again, "%s/again.gguf", p.folder);
    p.types = (ph_recipe_types){.rule = rule, .n = 3, .is_quantize = 1};
    CHECK_SAY(!ph_place_go(&p, p.file, again, 1, PH_CONVERT_NAMES_AUTO), "%s", p.err.msg);
    CHECK(p.report.fell_back > 3 && strstr(p.report.fell_back_first, "embedding"));
    CHECK_SAY(!ph_model_open(&m, again, NULL, &p.err), "%s", p.err.msg);
    CHECK(stored(m, rows[0].name) == PH_Q8_0 && stored(m, rows[3].name) == PH_BF16 &&
          stored(m, rows[5].name) == PH_BF16 && stored(m, rows[6].name) == PH_F32);
    ph_model_close(m);
    p.types = (ph_recipe_types){0};
    CHECK_SAY(!ph_place_go(&p, again, p.back, 0, 0), "%s", p.err.msg);
    ph_hfdir d;
    CHECK(!ph_hfdir_open(&d, p.back, PH_HFDIR_MODEL, &p.arena, &p.err));
    for (size_t i = 0; i < d.weights.weights.n; i++) CHECK(d.weights.weights.at[i].dtype == PH_BF16);
    ph_hfdir_close(&d);
    ph_place_close(&p);
}

/* ---- separate planes, and floats of a byte without any ---- */

static int ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

static const char *named(ph_place *p, const char *full, const char *part) {
    char text[200], *copy = NULL;
    snprintf(text, sizeof text, "%.*s%s", (int)(strlen(full) - strlen("weight")), full, part);
    CHECK(!ph_arena_copy_text(&p->arena, &copy, text, strlen(text), NULL));
    return copy;
}

static ph_weight plane(const char *name, ph_dtype type, int64_t rows, int64_t cols) {
    static uint8_t zeros[1 << 16];
    ph_weight      w = {.name = name, .dtype = type, .rank = 2, .dim = {rows, cols}, .bytes = zeros};
    CHECK(!ph_weight_bytes(type, 2, w.dim, &w.n_bytes, NULL) && w.n_bytes <= sizeof zeros);
    return w;
}

/* The same numbers, rounded to another type. */
static ph_weight cast(ph_place *p, const ph_weight *w, ph_dtype type) {
    size_t    n = w->n_bytes / ph_dtype_bytes(w->dtype);
    ph_weight out = *w;
    void     *floats = NULL, *bytes = NULL;
    CHECK(!ph_arena_carve(&p->arena, &floats, n, sizeof(float), NULL) &&
          !ph_arena_carve(&p->arena, &bytes, n, ph_dtype_bytes(type), NULL));
    ph_dtype_get(w->dtype)->unpack(floats, w->bytes, n);
    ph_dtype_get(type)->pack(bytes, floats, n);
    out.dtype = type;
    out.bytes = bytes;
    out.n_bytes = n * ph_dtype_bytes(type);
    return out;
}

enum { AWQ, GPTQ, BYTES, FP8, CAST, N_FORMS };

/* How the matrices of layers stand in a directory that make_planes made. */
static const struct {
    const char *config, *data, *scale; /* scale NULL: the numbers themselves */
    ph_dtype    type, scale_type;
} forms[N_FORMS] = {
    [AWQ] = {"\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32", "qweight", "scales", PH_I32,
             PH_F16},
    [GPTQ] = {"\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32", "qweight", "scales", PH_I32,
              PH_F16},
    [BYTES] = {NULL, "weight", "weight_scale", PH_U8, PH_F16},
    [FP8] = {"\"quant_method\": \"fp8\"", "weight", "weight_scale_inv", PH_F8_E4M3, PH_F32},
    [CAST] = {NULL, "weight", NULL, PH_F8_E4M3, PH_F32},
};

static size_t put_form(ph_place *p, int form, const ph_weight *w, ph_weight *out) {
    int64_t rows = w->dim[0], cols = w->dim[1];
    size_t  n = 0;
    if (form == CAST) {
        out[n++] = cast(p, w, PH_F8_E4M3);
    } else if (form == AWQ) {
        out[n++] = plane(named(p, w->name, "qweight"), PH_I32, cols, rows / 8);
        out[n++] = plane(named(p, w->name, "scales"), PH_F16, cols / 32, rows);
        out[n++] = plane(named(p, w->name, "qzeros"), PH_I32, cols / 32, rows / 8);
    } else if (form == GPTQ) {
        out[n++] = plane(named(p, w->name, "qweight"), PH_I32, cols / 8, rows);
        out[n++] = plane(named(p, w->name, "scales"), PH_F16, cols / 32, rows);
        out[n++] = plane(named(p, w->name, "qzeros"), PH_I32, cols / 32, rows / 8);
        out[n] = plane(named(p, w->name, "g_idx"), PH_I32, cols, 1);
        out[n++].rank = 1;
    } else {
        out[n++] = plane(w->name, forms[form].type, rows, cols);
        out[n++] = plane(named(p, w->name, forms[form].scale), forms[form].scale_type, rows, 1);
        if (form == BYTES) out[n++] = plane(named(p, w->name, "weight_zero_point"), PH_U8, rows, 1);
    }
    return n;
}

/* The checkpoint `from` with the matrices of its layers in a form. */
static void make_planes(ph_place *p, const char *from, int form, char dir[96]) {
    char      command[600], config[160] = "";
    ph_hfdir  d;
    ph_weight out[600];
    size_t    n = 0;
    snprintf(dir, 96, "%s/planes", p->folder);
    if (forms[form].config)
        snprintf(config, sizeof config, "\"quantization_config\": {%s},\\n", forms[form].config);
    snprintf(command, sizeof command,
             "mkdir '%s' && cp %s/*.json '%s' && chmod u+w '%s'/* && sed -i '1s/{/{%s/' '%s/config.json'",
             dir, from, dir, dir, config, dir);
    CHECK(!system(command) && !ph_hfdir_open(&d, from, PH_HFDIR_MODEL, &p->arena, &p->err));
    for (size_t i = 0; i < d.weights.weights.n && n < 590; i++) {
        const ph_weight *w = &d.weights.weights.at[i];
        if (ends_with(w->name, "_proj.weight"))
            n += put_form(p, form, w, &out[n]);
        else
            out[n++] = *w;
    }
    CHECK(n < 590 && n >= d.weights.weights.n);
    CHECK_SAY(!ph_safetensors_write_dir(dir, out, n, 0, NULL, &p->err), "%s", p->err.msg);
    ph_hfdir_close(&d);
}

#define Q_PROJ "model.layers.0.self_attn.q_proj.weight"

/* Planes as they were, all else in the type that was asked for. */
static void has_planes(ph_place *p, const char *path, int form, ph_dtype rest) {
    ph_model *m;
    CHECK_SAY(!ph_model_open(&m, path, NULL, &p->err), "%s", p->err.msg);
    if (!m) return;
    CHECK(stored(m, "model.embed_tokens.weight") == rest);
    CHECK(stored(m, named(p, Q_PROJ, forms[form].data)) == forms[form].type);
    CHECK(stored(m, named(p, Q_PROJ, forms[form].scale)) == forms[form].scale_type);
    ph_model_close(m);
}

/* Planes stay as they are, whatever type is asked for, also by a rule, and whichever way. */
void test_carry_planes(void) {
    static const ph_recipe_rule rule = {.pattern = "*scale*", .type = PH_F32};
    for (int form = 0; form < CAST; form++) {
        ph_place p;
        char     dir[96];
        ph_place_open(&p);
        make_planes(&p, SET "llm_llama_gqa_untied", form, dir);
        p.types = (ph_recipe_types){.rule = &rule, .n = 1, .has_type = 1, .type = PH_Q4_0, .is_quantize = 1};
        CHECK_SAY(!ph_place_go(&p, dir, p.file, 1, PH_CONVERT_NAMES_AUTO), "%s", p.err.msg);
        CHECK_SAY(p.report.is_carried && strstr(p.report.carried_why, "tensor "), "%s", p.report.carried_why);
        has_planes(&p, p.file, form, PH_Q4_0);
        p.types = (ph_recipe_types){0};
        CHECK_SAY(!ph_place_go(&p, dir, p.file, 1, PH_CONVERT_NAMES_AUTO) &&
                      !ph_place_go(&p, p.file, p.back, 0, 0),
                  "%s", p.err.msg);
        ph_place_same_dirs(&p, dir, p.back);
        p.types = (ph_recipe_types){.has_type = 1, .type = PH_BF16};
        for (int i = 0; i < 2; i++) { /* out of the file, and from directory to directory */
            snprintf(p.back, sizeof p.back, "%s/typed%d", p.folder, i);
            CHECK_SAY(!ph_place_go(&p, i ? dir : p.file, p.back, 0, 0), "%s", p.err.msg);
            has_planes(&p, p.back, form, PH_BF16);
        }
        ph_place_close(&p);
    }
}

/* The largest distance of two tensors' numbers, in parts of the largest number. */
static double apart(const ph_weight *a, const ph_weight *b) {
    static float x[1 << 16], y[1 << 16];
    size_t       n = a->n_bytes / ph_dtype_bytes(a->dtype) * ph_dtype_block(a->dtype);
    double       most = 0, size = 0;
    CHECK(n <= 1 << 16 && n == b->n_bytes / ph_dtype_bytes(b->dtype) * ph_dtype_block(b->dtype));
    ph_dtype_get(a->dtype)->unpack(x, a->bytes, n);
    ph_dtype_get(b->dtype)->unpack(y, b->bytes, n);
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
        size = fmax(size, fabs((double)x[i]));
    }
    return most / size;
}

/* Floats of a byte without scales are numbers like any others: they may change their type, by one type or a
 * rule, and the numbers stay. */
void test_carry_float8(void) {
    static const ph_recipe_rule rule = {.pattern = "*q_proj*", .type = PH_F16};
    const ph_recipe_types       rows[] = {{.has_type = 1, .type = PH_Q8_0, .is_quantize = 1},
                                          {.has_type = 1, .type = PH_F16},
                                          {.rule = &rule, .n = 1, .is_quantize = 1},
                                          {0}};
    const ph_dtype              want[] = {PH_Q8_0, PH_F16, PH_F16, PH_F8_E4M3};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_place  p;
        char      dir[96];
        ph_model *m = NULL, *n = NULL;
        ph_place_open(&p);
        make_planes(&p, SET "llm_llama_gqa_untied", CAST, dir);
        p.types = rows[i];
        CHECK_SAY(!ph_place_go(&p, dir, p.file, 1, PH_CONVERT_NAMES_HF), "%s", p.err.msg);
        CHECK_SAY(!ph_model_open(&m, dir, NULL, &p.err) && !ph_model_open(&n, p.file, NULL, &p.err), "%s",
                  p.err.msg);
        const ph_weight *a = m ? ph_weights_find(ph_source_weights(&m->source), Q_PROJ) : NULL,
                        *b = n ? ph_weights_find(ph_source_weights(&n->source), Q_PROJ) : NULL;
        CHECK(a && b && a->dtype == PH_F8_E4M3 && b->dtype == want[i]);
        CHECK_SAY(a && b && apart(a, b) < 0.005, "%s: %g", ph_dtype_name(want[i]), a && b ? apart(a, b) : 0);
        ph_model_close(m);
        ph_model_close(n);
        p.types = (ph_recipe_types){0};
        CHECK_SAY(!ph_place_go(&p, p.file, p.back, 0, 0), "%s", p.err.msg);
        if (!rows[i].has_type) ph_place_same_dirs(&p, dir, p.back); /* F16 holds all of E4M3 */
        ph_place_close(&p);
    }
}

/* ---- other ways ---- */

/* Files without a byte come along: the tokenizer's, where it is not opened, and others also in a file. */
void test_carry_empty_files(void) {
    ph_place p;
    char     command[400], dir[96];
    ph_place_open(&p);
    snprintf(dir, sizeof dir, "%s/dir", p.folder);
    snprintf(command, sizeof command,
             "cp -r " SET "llm_llama_gqa_untied '%s' && : > '%s/chat_template.jinja'", dir, dir);
    CHECK(!system(command));
    CHECK_SAY(!ph_place_go(&p, dir, p.file, 1, PH_CONVERT_NAMES_HF) && !ph_place_go(&p, p.file, p.back, 0, 0),
              "%s", p.err.msg);
    ph_place_same_dirs(&p, dir, p.back);
    snprintf(command, sizeof command, ": > '%s/merges.txt'", dir);
    snprintf(p.back, sizeof p.back, "%s/again", p.folder);
    CHECK(!system(command));
    CHECK_SAY(!ph_place_go(&p, dir, p.back, 0, 0), "%s", p.err.msg);
    ph_place_same_dirs(&p, dir, p.back);
    ph_place_close(&p);
}

/* A tokenizer that GGUF has no form for is a reason too. */
void test_carry_tokenizer(void) {
    static const char from[] = SET "llm_llama_gqa_untied",
                      tokenizer[] = "tests/golden/tokenizers/spm_unigram";
    ph_place p;
    char     command[600], dir[96];
    ph_place_open(&p);
    snprintf(dir, sizeof dir, "%s/dir", p.folder);
    snprintf(command, sizeof command,
             "mkdir '%s' && cp %s/config.json %s/model.safetensors '%s' && cp %s/tokenizer*.json '%s'", dir,
             from, from, dir, tokenizer, dir);
    CHECK(!system(command));
    CHECK_SAY(!ph_place_go(&p, dir, p.file, 1, PH_CONVERT_NAMES_AUTO), "%s", p.err.msg);
    CHECK_SAY(p.report.is_carried && strstr(p.report.carried_why, "tokenizer"), "%s", p.report.carried_why);
    CHECK_SAY(!ph_place_go(&p, p.file, p.back, 0, 0), "%s", p.err.msg);
    ph_place_same_dirs(&p, dir, p.back);
    CHECK(ph_place_go(&p, dir, p.file, 1, PH_CONVERT_NAMES_GGUF) == PH_EUNSUP);
    ph_place_close(&p);
}

/* A carrying file of a family that has names: into the field's two files, on request. */
void test_carry_to_names(void) {
    ph_place p;
    char     named_[96], mmproj[96];
    ph_place_open(&p);
    snprintf(named_, sizeof named_, "%s/named.gguf", p.folder);
    snprintf(mmproj, sizeof mmproj, "%s/mmproj-named.gguf", p.folder);
    CHECK_SAY(!ph_place_go(&p, SET "vlm_idefics3", p.file, 1, PH_CONVERT_NAMES_HF), "%s", p.err.msg);
    CHECK_SAY(!ph_place_go(&p, p.file, named_, 1, PH_CONVERT_NAMES_GGUF), "%s", p.err.msg);
    CHECK(!p.report.is_carried && !strcmp(p.report.mmproj_out, mmproj));
    const ph_model_options how = {.mmproj = mmproj};
    ph_model              *m;
    CHECK_SAY(!ph_model_open(&m, named_, &how, &p.err) && m->source.is_gguf, "%s", p.err.msg);
    ph_model_close(m);
    ph_place_close(&p);
}

void test_carry_bad(void) {
    ph_place p;
    ph_place_open(&p);
    CHECK(ph_place_go(&p, SET "align_clip", p.file, 1, PH_CONVERT_NAMES_GGUF) == PH_EUNSUP &&
          strstr(p.err.msg, "no names"));
    CHECK(ph_place_go(&p, SET "align_clip", p.back, 0, PH_CONVERT_NAMES_HF) == PH_EUSAGE &&
          strstr(p.err.msg, "with a .gguf to write"));
    CHECK(ph_place_go(&p, "tests/golden/formats/llama.Q4_0.gguf", p.file, 1, PH_CONVERT_NAMES_HF) ==
              PH_EUSAGE &&
          strstr(p.err.msg, "wants a directory"));
    CHECK(!ph_place_go(&p, SET "align_clip", p.file, 1, PH_CONVERT_NAMES_AUTO));
    const ph_model_options how = {.mmproj = "tests/golden/gguf/vlm_llava15.mmproj.gguf"};
    ph_model              *m;
    CHECK(ph_model_open(&m, p.file, &how, &p.err) == PH_EUSAGE && strstr(p.err.msg, "leave --mmproj out"));
    ph_place_close(&p);
}
