/* int8_test.c - matrices as bytes with a scale a row: against the reference's numbers, of every model of the
 * set, into a directory and a carrying file and back; config.json; and what is refused. */
#include "convert/int8_config.h"
#include "convert/listing.h"
#include "formats/hfdir.h"
#include "formats/safetensors.h"
#include "tensor/int8.h"
#include "tensor/storage.h"
#include "tests/unit/convert/place.h"
#include "tests/unit/convert/set_models.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SET "tests/golden/set/models/"

static const ph_recipe_types all_int8 = {.has_type = 1, .type = PH_RECIPE_INT8, .is_quantize = 1};

static int ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

/* ---- numbers ---- */

/* Levels and scales of `from` as they are written, carved from arena. */
static void make_int8(const ph_weight *from, const int8_t **levels, const float **scales, ph_arena *arena) {
    const ph_convert  c = {.types = &all_int8, .threads = 2};
    ph_convert_report report = {0};
    ph_stream         s;
    ph_producer       p;
    ph_err            err = {0};
    void             *made[2];
    CHECK(!ph_stream_open(&s, &c, &report, 2, arena, &err));
    CHECK_SAY(!ph_stream_add_int8(&s, "x.weight_scale", from, PH_STREAM_SCALES, &err) &&
                  !ph_stream_add_int8(&s, "x.weight", from, PH_STREAM_LEVELS, &err) &&
                  !ph_stream_ready(&s, &p, &err),
              "%s", err.msg);
    for (size_t i = 0; i < 2; i++) {
        CHECK(!ph_arena_zero(arena, &made[i], s.to[i].n_bytes, 1, NULL));
        CHECK_SAY(!p.make(p.arg, i, 0, (size_t)from->dim[0], made[i], &err), "%s", err.msg);
    }
    *scales = made[0];
    *levels = made[1];
    CHECK(s.to[0].dim[1] == 1 && s.to[0].dtype == PH_F32 && s.to[1].dtype == PH_I8);
    CHECK(report.bytes_in == from->n_bytes &&
          report.bytes_out == (size_t)from->dim[0] * (size_t)(4 + from->dim[1]));
    ph_stream_close(&s);
}

/* The reference's own matrix gives its levels, its scales, and by the form that reads them its numbers. */
void test_int8_reference(void) {
    ph_arena       arena = {0};
    ph_safetensors f = {0};
    ph_err         err = {0};
    const int8_t  *levels;
    const float   *scales;
    float          row[96];
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    CHECK_SAY(!ph_safetensors_open(&f, "tests/golden/set/quant/int8.safetensors", &arena, &err), "%s",
              err.msg);
    const ph_weight *w = ph_weights_find(&f.weights, "w"), *q = ph_weights_find(&f.weights, "sym8_rowwise_q"),
                    *scale = ph_weights_find(&f.weights, "sym8_rowwise_scale"),
                    *deq = ph_weights_find(&f.weights, "sym8_rowwise_deq");
    CHECK(w && q && scale && deq && w->dim[1] == 96);
    make_int8(w, &levels, &scales, &arena);
    CHECK(!memcmp(levels, q->bytes, q->n_bytes) && !memcmp(scales, scale->bytes, scale->n_bytes));
    ph_storage s = {.dtype = PH_I8, .n_planes = 2, .form = &ph_storage_channels, .n_rows = (size_t)w->dim[0]};
    s.plane[PH_PLANE_DATA] = (ph_plane){.bytes = levels, .n = q->n_bytes, .dtype = PH_I8};
    s.plane[PH_PLANE_SCALE] =
        (ph_plane){.bytes = scales, .n = scale->n_bytes, .row_stride = sizeof(float), .dtype = PH_F32};
    CHECK_SAY(!s.form->check(&s, 96, &err), "%s", err.msg);
    for (size_t r = 0; r < s.n_rows; r++) {
        ph_storage_row(&s, r, 96, row);
        CHECK_SAY(!memcmp(row, deq->bytes + r * sizeof row, sizeof row), "row %zu", r);
    }
    ph_safetensors_close(&f);
    ph_arena_close(&arena);
}

/* A row of nothing has the scale 1; the smallest and the largest numbers stay finite. */
void test_int8_edges(void) {
    enum { K = 40 };
    static float  x[4][K];
    ph_arena      arena = {0};
    const int8_t *levels;
    const float  *scales;
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    x[1][7] = 1e-44f;
    x[2][K - 1] = -3.4e38f;
    x[3][0] = 127, x[3][1] = 0.5f, x[3][2] = 1.5f, x[3][3] = -2.5f;
    const ph_weight w = {.name = "x.weight",
                         .dtype = PH_F32,
                         .rank = 2,
                         .dim = {4, K},
                         .bytes = (const uint8_t *)x,
                         .n_bytes = sizeof x};
    make_int8(&w, &levels, &scales, &arena);
    CHECK(scales[0] == 1 && scales[1] == 1 && isfinite(scales[2]) && scales[3] == 1);
    for (size_t i = 0; i < K; i++) CHECK(!levels[i] && !levels[K + i]);
    CHECK(levels[3 * K - 1] == -127);
    CHECK(levels[3 * K] == 127 && !levels[3 * K + 1] && levels[3 * K + 2] == 2 && levels[3 * K + 3] == -2);
    ph_arena_close(&arena);
}

/* ---- models ---- */

/* Each I8 tensor of `to` is what the quantiser makes of the one in `from`, its scales beside it; all else is
 * the same; the widest elements stand first. */
static void check_planes(ph_place *p, const char *from, const char *to) {
    ph_hfdir a = {0}, b = {0};
    size_t   n_int8 = 0;
    CHECK_SAY(!ph_hfdir_open(&a, from, PH_HFDIR_MODEL, &p->arena, &p->err) &&
                  !ph_hfdir_open(&b, to, PH_HFDIR_MODEL, &p->arena, &p->err),
              "%s", p->err.msg);
    for (size_t i = 0; i < b.weights.weights.n; i++) {
        const ph_weight *w = &b.weights.weights.at[i], *v = ph_weights_find(&a.weights.weights, w->name);
        char             name[256];
        const int8_t    *levels;
        const float     *scales;
        CHECK_SAY(!i || ph_dtype_bytes(w->dtype) <= ph_dtype_bytes(w[-1].dtype), "%s of %s", w->name, to);
        if (!v && ends_with(w->name, ".weight_scale")) continue; /* seen with its levels */
        CHECK_SAY(v, "%s of %s", w->name, to);
        if (!v || w->dtype == v->dtype) {
            CHECK(!v || (w->n_bytes == v->n_bytes && !memcmp(w->bytes, v->bytes, v->n_bytes)));
            continue;
        }
        snprintf(name, sizeof name, "%s_scale", w->name);
        const ph_weight *s = ph_weights_find(&b.weights.weights, name);
        CHECK_SAY(s && s->dtype == PH_F32 && s->rank == 2 && s->dim[0] == w->dim[0] && s->dim[1] == 1, "%s",
                  name);
        make_int8(v, &levels, &scales, &p->arena);
        CHECK_SAY(w->dtype == PH_I8 && !memcmp(levels, w->bytes, w->n_bytes) &&
                      !memcmp(scales, s->bytes, s->n_bytes),
                  "%s", w->name);
        n_int8++;
    }
    CHECK_SAY(n_int8 > 7 && b.weights.weights.n == a.weights.weights.n + n_int8, "%s: %zu", from, n_int8);
    ph_hfdir_close(&a);
    ph_hfdir_close(&b);
}

/* Every I8 tensor is read with its scales. */
static void check_opens(ph_place *p, const char *path) {
    ph_model *m = NULL;
    CHECK_SAY(!ph_model_open(&m, path, NULL, &p->err), "%s: %s", path, p->err.msg);
    if (!m) return;
    ph_graph *graph[] = {m->language, m->vision, m->bridge, m->cross};
    size_t    n_read = 0, n_int8 = 0;
    for (size_t i = 0; i < sizeof graph / sizeof *graph; i++)
        for (size_t v = 0; graph[i] && v < graph[i]->n_values; v++)
            n_read += graph[i]->value[v].storage.form == &ph_storage_channels;
    const ph_weights *w = ph_source_weights(&m->source);
    for (size_t i = 0; i < w->n; i++) n_int8 += w->at[i].dtype == PH_I8;
    CHECK_SAY(n_int8 && n_read >= n_int8, "%s: %zu of %zu", path, n_read, n_int8);
    ph_model_close(m);
}

/* Into a directory, and into a file that gives the same directory; and that directory goes into a file and
 * comes back. */
void test_int8_there_and_back(void) {
    ph_set_model m[64];
    size_t       n = ph_set_models(m);
    for (size_t i = 0; i < n; i++) {
        const char *in = m[i].path;
        char        dir[96], file[96], again[96];
        ph_place    p;
        ph_place_open(&p);
        snprintf(dir, sizeof dir, "%s/dir", p.folder);
        snprintf(file, sizeof file, "%s/dir.gguf", p.folder);
        snprintf(again, sizeof again, "%s/again", p.folder);
        p.types = all_int8;
        CHECK_SAY(!ph_place_go(&p, in, dir, 0, 0), "%s: %s", in, p.err.msg);
        CHECK(!p.report.fell_back); /* what cannot be int8 was not asked for */
        CHECK_SAY(!ph_place_go(&p, in, p.file, 1, PH_CONVERT_NAMES_AUTO), "%s: %s", in, p.err.msg);
        CHECK(p.report.is_carried && !p.report.carried_why[0]);
        check_planes(&p, in, dir);
        check_opens(&p, dir);
        check_opens(&p, p.file);
        CHECK_SAY(!ph_place_go(&p, dir, again, 0, 0), "%s: %s", in,
                  p.err.msg); /* there is nothing more to do */
        ph_place_same_dirs(&p, dir, again);
        p.types = (ph_recipe_types){0};
        CHECK_SAY(!ph_place_go(&p, p.file, p.back, 0, 0), "%s: %s", in, p.err.msg);
        ph_place_same_dirs(&p, dir, p.back);
        CHECK_SAY(!ph_place_go(&p, dir, file, 1, PH_CONVERT_NAMES_AUTO), "%s: %s", in, p.err.msg);
        snprintf(p.back, sizeof p.back, "%s/third", p.folder);
        CHECK_SAY(!ph_place_go(&p, file, p.back, 0, 0), "%s: %s", in, p.err.msg);
        ph_place_same_dirs(&p, dir, p.back);
        ph_place_close(&p);
    }
}

static ph_dtype type_of(const ph_model *m, const char *name) {
    const ph_weight *w = m ? ph_weights_find(ph_source_weights(&m->source), name) : NULL;
    CHECK_SAY(w, "%s", name);
    return w ? w->dtype : PH_N_DTYPES;
}

/* A tower in int8, blocks for the words; and back, where blocks become what they were and int8 stays. */
void test_int8_by_rule(void) {
    static const struct {
        const char *name;
        ph_dtype    type;
    } rows[] = {{"model.vision_model.encoder.layers.0.mlp.fc1.weight", PH_I8},
                {"model.vision_model.encoder.layers.0.mlp.fc1.weight_scale", PH_F32},
                {"model.vision_model.encoder.layers.0.mlp.fc1.bias", PH_BF16},
                {"model.vision_model.embeddings.patch_embedding.weight", PH_BF16},
                {"model.text_model.layers.0.mlp.up_proj.weight", PH_Q4_0},
                {"model.text_model.embed_tokens.weight", PH_Q4_0},
                {"lm_head.weight", PH_Q8_0}};
    static const ph_recipe_rule rule[] = {{.pattern = "model.vision_model.*", .type = PH_RECIPE_INT8}};
    ph_place                    p;
    ph_model                   *m = NULL;
    ph_hfdir                    d;
    ph_place_open(&p);
    p.types = (ph_recipe_types){.rule = rule, .n = 1, .has_type = 1, .type = PH_Q4_0, .is_quantize = 1};
    CHECK_SAY(!ph_place_go(&p, SET "vlm_idefics3", p.file, 1, PH_CONVERT_NAMES_AUTO), "%s", p.err.msg);
    CHECK(p.report.fell_back == 2 && strstr(p.report.fell_back_first, "patch_embedding")); /* and positions */
    CHECK_SAY(!ph_model_open(&m, p.file, NULL, &p.err), "%s", p.err.msg);
    for (size_t i = 0; m && i < sizeof rows / sizeof *rows; i++)
        CHECK_SAY(type_of(m, rows[i].name) == rows[i].type, "%s", rows[i].name);
    ph_model_close(m);
    p.types = (ph_recipe_types){0};
    CHECK_SAY(!ph_place_go(&p, p.file, p.back, 0, 0), "%s", p.err.msg);
    CHECK_SAY(!ph_hfdir_open(&d, p.back, PH_HFDIR_MODEL, &p.arena, &p.err), "%s", p.err.msg);
    const ph_weight *fc = ph_weights_find(&d.weights.weights, rows[0].name),
                    *up = ph_weights_find(&d.weights.weights, rows[4].name);
    CHECK(fc && fc->dtype == PH_I8 && up && up->dtype == PH_BF16);
    ph_json root = ph_json_root(&d.config), q = ph_json_get(&root, "quantization_config"),
            ignore = ph_json_get(&q, "ignore");
    size_t n_layers = 0;
    for (size_t i = 0; i < ph_json_count(&ignore); i++) {
        const char *name = "";
        ph_json     item = ph_json_at(&ignore, i);
        CHECK(!ph_json_to_text(&item, &name, NULL, NULL) && !strstr(name, "vision_model"));
        n_layers += strstr(name, "model.text_model.layers.") != NULL;
    }
    CHECK(n_layers == 3 * 7 && ph_json_count(&ignore) == 3 * 7 + 2); /* the head and the bridge */
    ph_hfdir_close(&d);
    ph_place_close(&p);
}

/* The head on request; the table of pieces never. */
void test_int8_head(void) {
    static const ph_recipe_rule rule[] = {{.pattern = "lm_head.weight", .type = PH_RECIPE_INT8},
                                          {.pattern = "*embed_tokens.weight", .type = PH_RECIPE_INT8}};
    ph_place                    p;
    ph_model                   *m = NULL;
    ph_place_open(&p);
    p.types = (ph_recipe_types){.rule = rule, .n = 2, .has_type = 1, .type = PH_F16, .is_quantize = 1};
    CHECK_SAY(!ph_place_go(&p, SET "llm_llama_gqa_untied", p.back, 0, 0), "%s", p.err.msg);
    CHECK(p.report.fell_back == 1 && strstr(p.report.fell_back_first, "embed_tokens"));
    CHECK_SAY(!ph_model_open(&m, p.back, NULL, &p.err), "%s", p.err.msg);
    CHECK(type_of(m, "lm_head.weight") == PH_I8 && type_of(m, "model.embed_tokens.weight") != PH_I8);
    CHECK(type_of(m, "model.layers.0.mlp.up_proj.weight") == PH_F16);
    ph_model_close(m);
    ph_place_close(&p);
}

/* ---- bad ---- */

#define Q_PROJ "model.layers.0.self_attn.q_proj.weight"

/* The checkpoint with another number at [1, 3] of a matrix, or with one tensor more. */
static void make_odd(ph_place *p, float odd, const char *more, char dir[96]) {
    static float x[64 * 64], one[1] = {1};
    ph_hfdir     d;
    ph_weight    out[200];
    char         command[400];
    size_t       n = 0;
    snprintf(dir, 96, "%s/odd%s", p->folder, more ? "-more" : "");
    snprintf(command, sizeof command, "mkdir -p '%s' && cp %s/*.json '%s'", dir, SET "llm_llama_gqa_untied",
             dir);
    CHECK(!system(command));
    CHECK(!ph_hfdir_open(&d, SET "llm_llama_gqa_untied", PH_HFDIR_MODEL, &p->arena, &p->err));
    for (size_t i = 0; i < d.weights.weights.n && n < 198; i++) {
        out[n] = d.weights.weights.at[i];
        if (!strcmp(out[n].name, Q_PROJ)) {
            size_t count = (size_t)(out[n].dim[0] * out[n].dim[1]);
            CHECK(count <= sizeof x / sizeof *x);
            ph_dtype_get(out[n].dtype)->unpack(x, out[n].bytes, count);
            x[out[n].dim[1] + 3] = odd;
            out[n].dtype = PH_F32;
            out[n].bytes = (const uint8_t *)x;
            out[n].n_bytes = count * sizeof *x;
        }
        n++;
    }
    if (more)
        out[n++] = (ph_weight){.name = more,
                               .dtype = PH_F32,
                               .rank = 1,
                               .dim = {1},
                               .bytes = (const uint8_t *)one,
                               .n_bytes = sizeof one};
    CHECK_SAY(!ph_safetensors_write_dir(dir, out, n, 0, NULL, &p->err), "%s", p->err.msg);
    ph_hfdir_close(&d);
}

void test_int8_lost_numbers(void) {
    ph_place p;
    char     dir[96];
    ph_place_open(&p);
    p.types = all_int8;
    make_odd(&p, NAN, NULL, dir);
    for (int to_gguf = 0; to_gguf < 2; to_gguf++) {
        ph_rc rc = ph_place_go(&p, dir, to_gguf ? p.file : p.back, to_gguf, 0);
        CHECK_SAY(rc == PH_EFORMAT &&
                      strstr(p.err.msg, Q_PROJ ": element [1, 3] is nan, which INT8 cannot hold"),
                  "%s", p.err.msg);
    }
    make_odd(&p, -INFINITY, NULL, dir);
    CHECK(ph_place_go(&p, dir, p.file, 1, 0) == PH_EFORMAT && strstr(p.err.msg, "element [1, 3] is -inf"));
    make_odd(&p, 3e38f, NULL, dir);
    CHECK_SAY(!ph_place_go(&p, dir, p.file, 1, 0), "%s", p.err.msg);
    make_odd(&p, 0, Q_PROJ "_scale", dir);
    CHECK(ph_place_go(&p, dir, p.file, 1, 0) == PH_EUNSUP && strstr(p.err.msg, "stands beside it already"));
    ph_place_close(&p);
}

void test_int8_bad(void) {
    static const ph_recipe_rule blocks = {.pattern = "*up_proj*", .type = PH_Q8_0},
                                head = {.pattern = "lm_head.weight", .type = PH_RECIPE_INT8};
    ph_place p;
    char     command[200];
    ph_place_open(&p);
    p.types = all_int8;
    for (int to_gguf = 0; to_gguf < 2; to_gguf++) {
        ph_rc rc =
            ph_place_go(&p, "tests/golden/formats/llama.Q4_0.gguf", to_gguf ? p.file : p.back, to_gguf, 0);
        CHECK_SAY(rc == PH_EUNSUP && strstr(p.err.msg, "take q8_0, or make a directory"), "%s", p.err.msg);
    }
    CHECK(ph_place_go(&p, SET "vlm_idefics3", p.file, 1, PH_CONVERT_NAMES_GGUF) == PH_EUSAGE &&
          strstr(p.err.msg, "leave --names gguf out"));
    snprintf(command, sizeof command, "mkdir '%s' && : > '%s/tokenizer.model'", p.back, p.back);
    CHECK(!system(command));
    CHECK(ph_place_go(&p, SET "vlm_idefics3", p.back, 0, 0) == PH_EUSAGE &&
          strstr(p.err.msg, "holds tokenizer.model"));
    snprintf(command, sizeof command, "rm '%s/tokenizer.model'", p.back);
    CHECK(!system(command));
    CHECK_SAY(!ph_place_go(&p, SET "vlm_idefics3", p.back, 0, 0), "%s", p.err.msg);
    p.types = (ph_recipe_types){.rule = &head, .n = 1};
    CHECK(ph_place_go(&p, p.back, p.file, 1, 0) == PH_EUNSUP && strstr(p.err.msg, "quantised already"));
    p.types = all_int8;
    p.types.rule = &blocks;
    p.types.n = 1;
    CHECK(ph_place_go(&p, SET "vlm_idefics3", p.back, 0, 0) == PH_EUSAGE &&
          strstr(p.err.msg, "no name for Q8_0"));
    ph_place_close(&p);
}

/* ---- recipes and config.json ---- */

void test_int8_recipe(void) {
    ph_arena          arena = {0};
    ph_recipe_types   r = {0};
    ph_err            err = {0};
    ph_dtype          type;
    int               fell_back;
    static const char text[] = "v.* = INT8\n* = keep\n";
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    CHECK(!ph_recipe_has_int8(&r) && !ph_recipe_type("int8", &type, &err) && type == PH_RECIPE_INT8);
    CHECK(ph_recipe_type("i8", &type, &err) == PH_EUNSUP && strstr(err.msg, ", INT8"));
    CHECK(!ph_recipe_types_read(&r, text, strlen(text), "r", &arena, &err) && r.n == 2 &&
          ph_recipe_has_int8(&r));
    ph_recipe_ask ask = {.name = "v.x", .stored = PH_F16, .rank = 2, .row = 3, .is_gguf = 1};
    CHECK(ph_recipe_choose(&r, &ask, &fell_back) == PH_RECIPE_INT8 && !fell_back);
    ask.rank = 1;
    CHECK(ph_recipe_choose(&r, &ask, &fell_back) == PH_F16 && !fell_back);
    ask = (ph_recipe_ask){.name = "w", .stored = PH_BF16, .rank = 2, .row = 3, .is_gguf = 1, .is_output = 1};
    CHECK(ph_recipe_has_int8(&all_int8) && ph_recipe_choose(&all_int8, &ask, &fell_back) == PH_BF16);
    ask.is_output = 0;
    CHECK(ph_recipe_choose(&all_int8, &ask, &fell_back) == PH_RECIPE_INT8);
    ph_arena_close(&arena);
}

/* What stands before and behind the member stays. */
void test_int8_config(void) {
    static const struct {
        const char *text, *begins, *ends; /* begins NULL: refused */
    } rows[] = {
        {"{}", "{\n  \"quantization_config\": {\n    \"quant_method\": \"compressed-tensors\"", "  }\n}"},
        {"{\"a\": NaN, \"b\": {\"c\": \"}\\\"\"}\n}\n",
         "{\"a\": NaN, \"b\": {\"c\": \"}\\\"\"},\n  \"quantization_config\": {", "}\n}\n"},
        {"{\"quantization_config\" : null, \"a\": 1e-05}", "{\"quantization_config\" : {",
         "}, \"a\": 1e-05}"},
        {"{\"t\": {\"quantization_config\": null}}",
         "{\"t\": {\"quantization_config\": null},\n  \"quantization_config\": {", "}"},
        {"{\"t\": \"quantization_config\"}", "{\"t\": \"quantization_config\",\n  \"quantization_config\": {",
         "}"},
        {"{\"quantization\\u005fconfig\": null}", NULL, NULL},
        {"[]", NULL, NULL},
        {"", NULL, NULL},
    };
    const char *const ignore[] = {"lm_head", "a\"b\xc3\xa4"};
    ph_arena          arena = {0};
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_int8_config c;
        ph_err         err = {0};
        ph_rc rc = ph_int8_config_make(&c, rows[i].text, strlen(rows[i].text), ignore, 2, &arena, &err);
        if (!rows[i].begins) {
            CHECK_SAY(rc == PH_EFORMAT && !c.text && strstr(err.msg, "config.json"), "%s", err.msg);
            continue;
        }
        CHECK_SAY(!rc && !strncmp(c.text, rows[i].begins, strlen(rows[i].begins)) &&
                      ends_with(c.text, rows[i].ends),
                  "%zu: %s%s", i, err.msg, rc ? "" : c.text);
        ph_json_doc doc = {0};
        const char *name = "";
        CHECK(!rc && !ph_json_parse(&doc, c.text, c.n, "config.json", &err));
        ph_json root = ph_json_root(&doc), q = ph_json_get(&root, "quantization_config"),
                left = ph_json_get(&q, "ignore"), second = ph_json_at(&left, 1);
        CHECK(!ph_json_to_text(&second, &name, NULL, NULL) && !strcmp(name, ignore[1]));
        ph_json_close(&doc);
    }
    ph_arena_close(&arena);
}
