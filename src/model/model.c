/* model.c - open a checkpoint: understand its config, build and check its graphs, open its text side.
 *
 * No weight is read: shapes come from the files' own tables, so a config that
 * contradicts the weights is found here, by `inspect` too.
 */
#include "model/model.h"

#include "base/mem.h"
#include "graph/op.h"
#include "model/model_impl.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static ph_rc unknown(const char *what, const char *type, ph_err *err) {
    char known[160];
    ph_family_list(known, sizeof known);
    return PH_FAIL(err, PH_EUNSUP, "%s '%s' is not supported; known are %s", what, type, known);
}

/* Which families read this checkpoint: the whole, and its decoder. */
static ph_rc find_families(ph_model *m, ph_err *err) {
    const ph_source *s = &m->source;
    ph_keys          text = ph_keys_text(s);
    const char      *text_type = ph_keys_type(&text);
    if (s->is_gguf) {
        m->family = s->has_mmproj ? ph_family_of_projector(s->projector) : NULL;
        if (s->has_mmproj && !m->family) return unknown("vision projector", s->projector, err);
    } else {
        m->family = ph_family_find(s->type, PH_FAMILY_VISION_LANGUAGE);
        if (!m->family)
            text_type = s->type;
        else if (!text_type)
            text_type = "llama"; /* what the reference assumes */
    }
    m->text_family = ph_family_find(text_type, PH_FAMILY_TEXT);
    if (!m->text_family) return unknown(m->family ? "text model type" : "model type", text_type, err);
    if (!m->family) m->family = m->text_family;
    m->spec.has_vision = m->family->kind == PH_FAMILY_VISION_LANGUAGE;
    return PH_OK;
}

static ph_rc read_spec(ph_model *m, ph_err *err) {
    m->spec.image_token = -1;
    m->spec.bridge.act = PH_ACT_GELU;
    PH_TRY(m->text_family->spec(&m->source, &m->spec, err));
    return m->spec.has_vision ? m->family->spec(&m->source, &m->spec, err) : PH_OK;
}

typedef void build_fn(ph_graph *g, const ph_spec *spec, const ph_source *s);

static ph_rc build(ph_graph **out, const char *name, build_fn *fn, ph_modality modality, ph_model *m,
                   ph_err *err) {
    PH_TRY(ph_graph_open(out, name, err));
    (*out)->modality = modality;
    fn(*out, &m->spec, &m->source);
    ph_rc rc = ph_graph_finish(*out, err);
    return rc ? ph_note(err, rc, "while building the %s graph of %s", name, m->source.path) : PH_OK;
}

static ph_rc build_all(ph_model *m, ph_err *err) {
    build_fn *language = m->text_family->language ? m->text_family->language : ph_decoder_build;
    PH_TRY(build(&m->language, "language", language, PH_MOD_TEXT, m, err));
    if (!m->spec.has_vision) return PH_OK;
    PH_TRY(build(&m->vision, "vision", m->family->vision, PH_MOD_VISION, m, err));
    return build(&m->bridge, "bridge", m->family->bridge, PH_MOD_FUSED, m, err);
}

/* What the KV cache holds follows from the graph: one layer a CachedAttention. */
static ph_rc read_kv(ph_model *m, ph_err *err) {
    const ph_graph *g = m->language;
    void           *at;
    PH_TRY(ph_arena_zero(&m->source.arena, &at, (size_t)m->spec.text.n_layers, sizeof(ph_kv_layer), err));
    m->kv_layer = at;
    m->n_kv_layers = m->spec.text.n_layers;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        if (strcmp(n->op->name, "CachedAttention")) continue;
        int64_t layer = ph_node_int(n, "layer", 0), heads = ph_node_int(n, "kv_num_heads", 1);
        if (layer < 0 || layer >= m->n_kv_layers || heads < 1)
            return PH_FAIL(err, PH_EBUG, "node %s: layer %lld of %d", n->name, (long long)layer,
                           m->n_kv_layers);
        m->kv_layer[layer] = (ph_kv_layer){.n_heads = (int)heads,
                                           .d_k = (int)(g->value[n->in[1]].shape.dim[1].mul / heads),
                                           .d_v = (int)(g->value[n->in[2]].shape.dim[1].mul / heads)};
    }
    return PH_OK;
}

static ph_rc three(const ph_gguf *g, const char *key, double otherwise, double out[3], ph_err *err) {
    const ph_gguf_kv *kv = ph_gguf_find(g, key);
    for (size_t i = 0; i < 3; i++) {
        out[i] = otherwise;
        if (kv && (kv->count != 3 || !ph_gguf_item_real(kv, i, &out[i])))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s must be three numbers", g->name, key);
    }
    return PH_OK;
}

static ph_rc read_recipe(ph_model *m, ph_err *err) {
    const ph_source *s = &m->source;
    if (!m->spec.has_vision) return PH_OK;
    if (!s->is_gguf) {
        ph_json preprocessor = ph_json_root(&s->hf.preprocessor), processor = ph_json_root(&s->hf.processor),
                config = ph_json_root(&s->hf.config);
        return ph_recipe_init(&m->recipe, &preprocessor, &processor, &config, err);
    }
    ph_recipe_params p = {
        .projector = s->projector, .image_size = m->spec.tower.image, .patch_size = m->spec.tower.patch};
    PH_TRY(three(&s->mmproj, "clip.vision.image_mean", 0.5, p.mean, err));
    PH_TRY(three(&s->mmproj, "clip.vision.image_std", 0.5, p.std, err));
    PH_TRY(
        ph_gguf_size_or(&s->mmproj, "clip.vision.preproc_image_size", 1, 1 << 14, 0, &p.longest_edge, err));
    return ph_recipe_init_from_params(&m->recipe, &p, err);
}

/* Tiles come out of the recipe in the size that the tower takes, or the checkpoint contradicts itself. */
static ph_rc check_recipe(const ph_model *m, ph_err *err) {
    ph_tile_layout l;
    if (!m->spec.has_vision) return PH_OK;
    PH_TRY(ph_recipe_layout(&l, &m->recipe, m->spec.tower.image, m->spec.tower.image, err));
    if (l.width != m->spec.tower.image || l.height != m->spec.tower.image)
        return PH_FAIL(
            err, PH_EMISMATCH,
            "preprocessor_config.json makes tiles of %d x %d pixels, but vision_config's image_size is %d",
            l.width, l.height, m->spec.tower.image);
    return PH_OK;
}

static ph_rc open_parts(ph_model *m, const char *path, const ph_model_options *o, ph_err *err) {
    PH_TRY(ph_source_open(&m->source, path, o ? o->mmproj : NULL, err));
    PH_TRY(find_families(m, err));
    PH_TRY(read_spec(m, err));
    PH_TRY(build_all(m, err));
    PH_TRY(read_kv(m, err));
    PH_TRY(read_recipe(m, err));
    PH_TRY(check_recipe(m, err));
    PH_TRY(ph_model_open_tokens(m, err));
    return ph_model_open_chat(m, o ? o->template_ : NULL, err);
}

/* What opening took at its worst and what of it stays, as the kernel counts it.  Reading a tokenizer's JSON
 * takes several times what its tables hold; that goes back now, not into the peak of answering. */
static void weigh(ph_model *m, const ph_mem *before) {
    ph_mem mem;
    if (!ph_mem_read(&mem)) return;
    if (mem.rss_peak > before->rss_peak) m->load_peak_bytes = mem.rss_peak;
    malloc_trim(0);
    ph_mem_read(&mem);
    m->resident_bytes = mem.rss;
}

ph_rc ph_model_open(ph_model **out, const char *path, const ph_model_options *o, ph_err *err) {
    ph_mem    before;
    ph_model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return PH_FAIL(err, PH_ENOMEM, "a model's tables");
    ph_mem_read(&before);
    ph_rc rc = open_parts(m, path, o, err);
    if (rc) {
        ph_model_close(m);
        return rc;
    }
    weigh(m, &before);
    *out = m;
    return PH_OK;
}

void ph_model_close(ph_model *m) {
    if (!m) return;
    ph_graph_close(m->language);
    ph_graph_close(m->vision);
    ph_graph_close(m->bridge);
    ph_tokenizer_close(m->tokenizer);
    ph_arena_close(&m->chat_arena);
    ph_source_close(&m->source);
    free(m);
}

int ph_model_is_stop(const ph_model *m, int32_t id) {
    for (int i = 0; i < m->spec.n_eos; i++)
        if (m->spec.eos[i] == id) return 1;
    return 0;
}
