/* passes_test.c - passes over graphs that families build: nothing of today's families changes, and what one
 * would spell out is found, unless it is switched off. */
#include "graph/pass.h"
#include "model/model.h"
#include "tests/unit/unit.h"

#include <string.h>

static size_t nodes_of(const ph_graph *g) {
    return g ? g->n_nodes : 0;
}
static size_t values_of(const ph_graph *g) {
    return g ? g->n_values : 0;
}

static void same(const char *path) {
    static const char      all[] = "fold,identity,common,gate,couple,sparse,dead";
    const ph_model_options off = {.passes_off = all, .is_plan_only = 1}, on = {.is_plan_only = 1};
    ph_model              *a = NULL, *b = NULL;
    ph_err                 e = {0};
    CHECK_SAY(!ph_model_open(&a, path, &off, &e) && !ph_model_open(&b, path, &on, &e), "%s: %s", path, e.msg);
    if (a && b) {
        const ph_graph *x[] = {a->language, a->vision, a->bridge, a->cross};
        const ph_graph *y[] = {b->language, b->vision, b->bridge, b->cross};
        for (int i = 0; i < 4; i++) {
            CHECK_SAY(nodes_of(x[i]) == nodes_of(y[i]) && values_of(x[i]) == values_of(y[i]), "%s, graph %d",
                      path, i);
            for (size_t k = 0; k < nodes_of(x[i]) && k < nodes_of(y[i]); k++)
                CHECK(x[i]->node[k].op == y[i]->node[k].op &&
                      !strcmp(x[i]->node[k].name, y[i]->node[k].name));
        }
    }
    ph_model_close(a);
    ph_model_close(b);
}

void test_passes_families(void) {
    static const char *const names[] = {
        "align_clip",     "align_siglip", "llm_gemma2_softcap", "llm_phi3_longrope", "llm_qwen2_tied",
        "speech_whisper", "vlm_blip2",    "vlm_gemma3",         "vlm_idefics1",      "vlm_idefics3",
        "vlm_internvl",   "vlm_llava15",  "vlm_llava_next",     "vlm_llava_siglip",  "vlm_mllama",
        "vlm_qwen25vl",   "vlm_qwen2vl"};
    char path[128];
    same("models/panel-vlm");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "tests/golden/set/models/%s", names[i]);
        same(path);
    }
}

/* A gate spelled out, beside a node that does nothing: the one is found, the other stays as the builder had
 * it. */
static ph_graph *gate(const char *off, int is_built) {
    static const int64_t shape[2] = {0, 4};
    ph_kernels           kernels;
    ph_pass_env          env = {.kernels = &kernels, .off = off, .is_built = is_built};
    ph_graph            *g;
    ph_err               e = {0};
    ph_kernels_init(&kernels, 0);
    CHECK(!ph_graph_open(&g, "gate", &e));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(4)));
    int at = ph_graph_input(g, "at", PH_I64, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(1)));
    int to = ph_graph_constant(g, "shape", PH_I64, ph_shape_of(1, ph_dim_of(2)), shape);
    x = ph_graph_node(g, "Reshape", PH_IN(x, to), PH_NO_ATTRS, "same");
    x = ph_graph_node(g, "Softmax", PH_IN(x), PH_ATTRS(PH_INT("axis", -1)), "shares");
    x = ph_graph_node(g, "GatherElements", PH_IN(x, at), PH_ATTRS(PH_INT("axis", -1)), "share");
    ph_graph_output(g, x, "y");
    CHECK_SAY(!ph_graph_finish(g, &e) && !ph_passes_run(g, &env, NULL, &e), "%s", e.msg);
    return g;
}

static int has(const ph_graph *g, const char *op) {
    int n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += !strcmp(g->node[i].op->name, op);
    return n;
}

void test_passes_built(void) {
    ph_graph *g = gate(NULL, 1);
    CHECK(has(g, "ModalGate") == 1 && !has(g, "Softmax") && has(g, "Reshape") == 1);
    ph_graph_close(g);
    g = gate(NULL, 0);
    CHECK(has(g, "ModalGate") == 1 &&
          !has(g, "Reshape")); /* of an imported one nothing is left that does nothing */
    ph_graph_close(g);
    g = gate("gate", 1);
    CHECK(!has(g, "ModalGate") && has(g, "Softmax") == 1 && has(g, "Reshape") == 1);
    ph_graph_close(g);
    const ph_model_options wrong = {.passes_off = "gates"};
    ph_model              *m;
    ph_err                 e = {0};
    CHECK(ph_model_open(&m, "models/panel-vlm", &wrong, &e) == PH_EUSAGE && !m && strstr(e.msg, "\"gates\""));
}
