/* said_test.c - what a config says and no key of the field does: bare files keep it by keys of our own or by
 * the tensors, and so does the directory that is made of them; what they cannot keep is refused. */
#include "convert/convert.h"
#include "formats/gguf_write.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/convert/tests.def"
#undef PH_TEST

static int convert(const char *in, const char *mmproj, const char *out, int to_gguf, ph_err *err) {
    const ph_recipe_types types = {0};
    ph_convert_report     report;
    const ph_convert      c = {.in = in,
                               .names = to_gguf ? PH_CONVERT_NAMES_GGUF : PH_CONVERT_NAMES_AUTO,
                               .mmproj = mmproj,
                               .out = out,
                               .types = &types,
                               .to_gguf = to_gguf,
                               .is_bare = to_gguf,
                               .threads = 1};
    *err = (ph_err){0};
    return !ph_convert_run(&c, &report, err);
}

/* A folder with the checkpoint in "m", its config changed by a sed expression. */
static void open_folder(const char *model, const char *expression, char folder[32]) {
    char command[512];
    snprintf(folder, 32, "/tmp/ph-said-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(
        command, sizeof command,
        "mkdir '%s/m' && cp -r tests/golden/set/models/%s/*.* '%s/m' && sed -zi 's/%s/' '%s/m/config.json'",
        folder, model, folder, expression, folder);
    CHECK(!system(command));
}

static void close_folder(const char *folder) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(!system(command));
}

/* m/model.safetensors without the biases of `part`. */
static void drop_biases(const char *folder, const char *part) {
    ph_arena       arena = {0};
    ph_safetensors s = {0};
    char           path[64], out[64];
    size_t         n = 0;
    snprintf(path, sizeof path, "%s/m/model.safetensors", folder);
    snprintf(out, sizeof out, "%s/less.safetensors", folder);
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_safetensors_open(&s, path, &arena, NULL));
    for (size_t i = 0; i < s.weights.n; i++)
        if (!strstr(s.weights.at[i].name, part) || !strstr(s.weights.at[i].name, ".bias"))
            s.weights.at[n++] = s.weights.at[i];
    CHECK(n < s.weights.n && !ph_safetensors_write(out, s.weights.at, n, NULL));
    ph_safetensors_close(&s);
    ph_arena_close(&arena);
    CHECK(!rename(out, path));
}

static void same_spec(const ph_model *m, const ph_model *n, const char *what) {
    const ph_tower       *t = &m->spec.tower, *u = &n->spec.tower;
    const ph_bridge_spec *a = &m->spec.bridge, *b = &n->spec.bridge;
    CHECK_SAY(m->family == n->family, "%s: %s is %s", what, m->family->name, n->family->name);
    CHECK_SAY(t->has_class == u->has_class && t->drop_class == u->drop_class && t->act == u->act &&
                  t->has_post_norm == u->has_post_norm && t->n_used == u->n_used &&
                  t->n_features == u->n_features,
              "%s: tower", what);
    CHECK_SAY(a->act == b->act && a->has_bias == b->has_bias && a->d_in == b->d_in &&
                  a->tokens_per_tile == b->tokens_per_tile,
              "%s: bridge", what);
}

static void stays(const char *model, const char *expression, const char *dropped) {
    char      folder[32], in[64], out[64], mmproj[64], back[64];
    ph_model *m = NULL, *n = NULL, *o = NULL;
    ph_err    err = {0};
    open_folder(model, expression, folder);
    if (dropped) drop_biases(folder, dropped);
    snprintf(in, sizeof in, "%s/m", folder);
    snprintf(out, sizeof out, "%s/m.gguf", folder);
    snprintf(mmproj, sizeof mmproj, "%s/mmproj-m.gguf", folder);
    snprintf(back, sizeof back, "%s/back", folder);
    const ph_model_options pair = {.mmproj = mmproj};
    CHECK_SAY(!ph_model_open(&m, in, NULL, &err), "%s: %s", expression, err.msg);
    CHECK_SAY(convert(in, NULL, out, 1, &err), "%s: %s", expression, err.msg);
    CHECK_SAY(!ph_model_open(&n, out, &pair, &err), "%s: %s", expression, err.msg);
    CHECK_SAY(convert(out, mmproj, back, 0, &err), "%s: %s", expression, err.msg);
    CHECK_SAY(!ph_model_open(&o, back, NULL, &err), "%s: back: %s", expression, err.msg);
    if (m && n) same_spec(m, n, expression);
    if (m && o) same_spec(m, o, expression);
    ph_model_close(m);
    ph_model_close(n);
    ph_model_close(o);
    close_folder(folder);
}

void test_said_there_and_back(void) {
    stays("vlm_llava15", "\"select_strategy\": \"default\"/x", NULL); /* unchanged */
    stays("vlm_llava15", "select_strategy\": \"default\"/select_strategy\": \"full\"", NULL);
    stays("vlm_llava15", "projector_hidden_act\": \"gelu\"/projector_hidden_act\": \"relu\"", NULL);
    stays("vlm_llava15", "projector_hidden_act\": \"gelu\"/projector_hidden_act\": \"gelu_pytorch_tanh\"",
          NULL);
    stays("vlm_llava15", "projector_bias\": true/projector_bias\": false", "multi_modal_projector");
    stays("vlm_llava15", "quick_gelu/relu", NULL);
    stays("vlm_llava_siglip", "\"x\"/x", NULL); /* unchanged */
    stays("vlm_llava_siglip", "select_strategy\": \"full\"/select_strategy\": \"default\"", NULL);
    stays("vlm_llava_siglip", "gelu_pytorch_tanh/gelu", NULL);
    stays("vlm_llava_next", "projector_hidden_act\": \"gelu\"/projector_hidden_act\": \"quick_gelu\"", NULL);
    stays("vlm_internvl", "projector_hidden_act\": \"gelu\"/projector_hidden_act\": \"silu\"", NULL);
}

/* A decoder's activation has no key: GGUF names are refused, and the directory is carried. */
void test_said_act(void) {
    char   folder[32], in[64], out[64];
    ph_err err;
    open_folder("llm_llama_gqa_untied", "\"hidden_act\": \"silu\"/\"hidden_act\": \"gelu\"", folder);
    snprintf(in, sizeof in, "%s/m", folder);
    snprintf(out, sizeof out, "%s/m.gguf", folder);
    CHECK(!convert(in, NULL, out, 1, &err) && err.code == PH_EUNSUP);
    CHECK_SAY(strstr(err.msg, "no key for hidden_act 'gelu' of family llama"), "%s", err.msg);
    close_folder(folder);
}

/* ---- LongRoPE ---- */

/* The file with one key or tensor left out; "": none. */
static void leave_out(const char *from, const char *to, const char *name) {
    ph_arena     arena = {0};
    ph_gguf      g = {0};
    ph_gguf_meta meta = {0};
    size_t       n = 0;
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_gguf_open(&g, from, &arena, NULL));
    for (size_t i = 0; i < g.n_kv; i++)
        if (strcmp(g.kv[i].key, name)) ph_gguf_put_copy(&meta, &g.kv[i]);
    for (size_t i = 0; i < g.weights.n; i++)
        if (strcmp(g.weights.at[i].name, name)) g.weights.at[n++] = g.weights.at[i];
    CHECK(!ph_gguf_write(to, &meta, g.weights.at, n, &(ph_producer){0}, NULL));
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
}

static void same_rotation(const char *path, const ph_model *m, const char *what) {
    ph_model *n = NULL;
    ph_err    err = {0};
    CHECK_SAY(!ph_model_open(&n, path, NULL, &err), "%s: %s", what, err.msg);
    if (!n) return;
    const ph_decoder *a = &m->spec.text, *b = &n->spec.text;
    float             x[PH_DIVISORS_MAX], y[PH_DIVISORS_MAX];
    int same = ph_decoder_is_divided(b) && a->context == b->context && a->context_whole == b->context_whole;
    double d = a->kind[0].rope.attention_factor - b->kind[0].rope.attention_factor;
    CHECK_SAY(same && d < 1e-6 && d > -1e-6, "%s: %d of %d by %g", what, b->context, b->context_whole,
              b->kind[0].rope.attention_factor);
    for (int is_long = 0; same && is_long < 2; is_long++) {
        size_t bytes = (size_t)a->kind[0].rope.dim / 2 * sizeof *x;
        CHECK_SAY(!ph_longrope_list(&m->source, a, is_long, x, &err) &&
                      !ph_longrope_list(&n->source, b, is_long, y, &err) && !memcmp(x, y, bytes),
                  "%s: list %d %s", what, is_long, err.msg);
    }
    ph_model_close(n);
}

/* Both lists, the two contexts and the factor go there and back; a file of the field may leave out what
 * follows from the rest.  expression changes the config. */
static void turns(const char *expression) {
    char      folder[32], in[64], out[64], less[64], back[64];
    ph_model *m = NULL;
    ph_err    err = {0};
    open_folder("llm_phi3_longrope", expression, folder);
    snprintf(in, sizeof in, "%s/m", folder);
    snprintf(out, sizeof out, "%s/m.gguf", folder);
    snprintf(less, sizeof less, "%s/less.gguf", folder);
    snprintf(back, sizeof back, "%s/back", folder);
    CHECK_SAY(!ph_model_open(&m, in, NULL, &err), "%s: %s", expression, err.msg);
    CHECK_SAY(convert(in, NULL, out, 1, &err), "%s: %s", expression, err.msg);
    if (m) same_rotation(out, m, expression);
    leave_out(out, less, "phi3.rope.scaling.type");
    if (m) same_rotation(less, m, "without a type");
    CHECK_SAY(convert(less, NULL, back, 0, &err), "%s: %s", expression, err.msg);
    if (m) same_rotation(back, m, "back");
    leave_out(out, less, "rope_factors_long.weight");
    CHECK(!convert(less, NULL, back, 0, &err) && err.code == PH_EMISMATCH);
    CHECK_SAY(strstr(err.msg, "tensor rope_factors_long.weight must be one row of F32"), "%s", err.msg);
    ph_model_close(m);
    close_folder(folder);
}

void test_said_longrope(void) {
    char      folder[32], in[64];
    ph_model *m = NULL;
    ph_err    err = {0};
    turns("\"x\"/x");
    turns("\"type\": \"longrope\"/\"type\": \"longrope\", \"attention_factor\": 1.5");
    open_folder("llm_phi3_longrope",
                "\"original_max_position_embeddings\": 512/\"original_max_position_embeddings\": 1e300",
                folder);
    snprintf(in, sizeof in, "%s/m", folder);
    CHECK(ph_model_open(&m, in, NULL, &err) == PH_EFORMAT &&
          strstr(err.msg, "original_max_position_embeddings"));
    ph_model_close(m);
    close_folder(folder);
}
