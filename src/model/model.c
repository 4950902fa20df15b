/* model.c - open a checkpoint: understand its config, build and check its graphs, open its text side.
 *
 * No weight is read: shapes come from the files' own tables, so a config that
 * contradicts the weights is found here, by `inspect` too.
 */
#include "model/model.h"

#include "base/ahead.h"
#include "base/mem.h"
#include "graph/op.h"
#include "graph/pass.h"
#include "model/model_impl.h"
#include "model/residence.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static ph_rc unknown(const char *what, const char *type, ph_err *err) {
    char known[240];
    ph_family_list(known, sizeof known);
    return PH_FAIL(err, PH_EUNSUP, "%s '%.20s' is not supported; known are %s", what, type, known);
}

/* Which families read this checkpoint: the whole, and its decoder. */
static ph_rc find_families(ph_model *m, ph_err *err) {
    const ph_source *s = &m->source;
    ph_keys          text = ph_keys_text(s);
    const char      *text_type = ph_keys_type(&text);
    if (s->is_gguf) {
        m->family = s->has_mmproj ? ph_family_of_projector(s) : NULL;
        if (s->has_mmproj && !m->family) return unknown("vision projector", s->projector, err);
    } else {
        m->family = ph_family_find(s->type, PH_FAMILY_VISION_LANGUAGE);
        if (!m->family) m->family = ph_family_find(s->type, PH_FAMILY_DUAL);
        if (!m->family)
            text_type = s->type;
        else if (!text_type)
            text_type = "llama"; /* what the reference assumes */
    }
    if (m->family && m->family->language) { /* one family for the whole */
        m->text_family = m->family;
        m->spec.has_vision = 1;
        return PH_OK;
    }
    if (m->family && m->family->text) text_type = m->family->text;
    m->text_family = ph_family_find(text_type, PH_FAMILY_TEXT);
    if (!m->text_family) return unknown(m->family ? "text model type" : "model type", text_type, err);
    if (!m->family) m->family = m->text_family;
    m->spec.has_vision = m->family->kind == PH_FAMILY_VISION_LANGUAGE;
    return PH_OK;
}

static ph_rc read_spec(ph_model *m, ph_err *err) {
    m->source.family = m->family;
    m->source.text_family = m->text_family;
    m->spec.image_token = m->spec.video_token = -1;
    m->spec.bridge.act = PH_ACT_GELU;
    PH_TRY(m->text_family->spec(&m->source, &m->spec, err));
    return m->spec.has_vision && m->family != m->text_family ? m->family->spec(&m->source, &m->spec, err)
                                                             : PH_OK;
}

typedef void build_fn(ph_graph *g, const ph_spec *spec, const ph_source *s);

/* What nodes mean together (graph/pass.def), as in imported graphs; families whose builders say it themselves
 * are left as they are. */
static ph_rc run_passes(ph_graph *g, const char *off, ph_err *err) {
    ph_kernels  kernels;
    ph_pass_env env = {.kernels = &kernels, .off = off, .is_built = 1};
    ph_kernels_init(&kernels, 0);
    return ph_passes_run(g, &env, NULL, err);
}

static ph_rc build(ph_graph **out, const char *name, build_fn *fn, ph_modality modality, ph_model *m,
                   ph_err *err) {
    PH_TRY(ph_graph_open(out, name, err));
    (*out)->modality = modality;
    fn(*out, &m->spec, &m->source);
    ph_rc rc = ph_graph_finish(*out, err);
    if (!rc) rc = run_passes(*out, m->passes_off, err);
    return rc ? ph_note(err, rc, "while building the %s graph of %s", name, m->source.path) : PH_OK;
}

static ph_rc build_all(ph_model *m, ph_err *err) {
    build_fn *language = m->text_family->language ? m->text_family->language : ph_decoder_build;
    PH_TRY(build(&m->language, "language", language, PH_MOD_TEXT, m, err));
    if (!m->spec.has_vision) return PH_OK;
    PH_TRY(build(&m->vision, "vision", m->family->vision, PH_MOD_VISION, m, err));
    PH_TRY(build(&m->bridge, "bridge", m->family->bridge, PH_MOD_FUSED, m, err));
    if (!m->spec.cross.n_layers) return PH_OK;
    return build(&m->cross, "cross", m->family->cross ? m->family->cross : ph_cross_build, PH_MOD_FUSED, m,
                 err);
}

/* What a cache holds follows from the graph that fills it: one layer a CachedAttention with keys. */
static ph_rc read_layer(const ph_graph *g, const ph_node *n, ph_kv_layer *layer, int n_layers, ph_err *err) {
    int64_t at = ph_node_int(n, "layer", 0), heads = ph_node_int(n, "kv_num_heads", 1);
    if (at < 0 || at >= n_layers || heads < 1 || layer[at].n_heads)
        return PH_FAIL(err, PH_EBUG, "node %s: layer %lld of %d", n->name, (long long)at, n_layers);
    layer[at] = (ph_kv_layer){.n_heads = (int)heads,
                              .d_k = (int)(g->value[n->in[1]].shape.dim[1].mul / heads),
                              .d_v = (int)(g->value[n->in[2]].shape.dim[1].mul / heads)};
    return PH_OK;
}

static ph_rc read_cache(ph_model *m, const ph_graph *g, ph_kv_layer **layer, int *n_layers, ph_err *err) {
    void *at;
    *n_layers = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        *n_layers += !strcmp(g->node[i].op->name, "CachedAttention") && g->node[i].in[1] >= 0;
    PH_TRY(ph_arena_zero(&m->source.arena, &at, (size_t)*n_layers, sizeof(ph_kv_layer), err));
    *layer = at;
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->node[i].op->name, "CachedAttention") && g->node[i].in[1] >= 0)
            PH_TRY(read_layer(g, &g->node[i], *layer, *n_layers, err));
    return PH_OK;
}

static ph_rc read_kv(ph_model *m, ph_err *err) {
    PH_TRY(read_cache(m, m->language, &m->kv_layer, &m->n_kv_layers, err));
    return m->cross ? read_cache(m, m->cross, &m->cross_layer, &m->n_cross_layers, err) : PH_OK;
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

/* Checkpoints from before videos had a config of their own prepare frames as they prepare pictures. */
static ph_rc read_video_recipe(ph_model *m, const ph_json *config, ph_err *err) {
    ph_json own = ph_json_root(&m->source.hf.video_preprocessor), none = {0};
    if (m->spec.video_token < 0) return PH_OK;
    if (ph_json_kind_of(&own) == PH_JSON_OBJECT)
        return ph_recipe_init(&m->video_recipe, &own, &none, config, err);
    m->video_recipe = m->recipe;
    return PH_OK;
}

/* Canvases of a picture in tiles, in the field's order: width, height. */
static ph_rc read_pinpoints(const ph_gguf *g, ph_recipe_params *p, ph_err *err) {
    static const char key[] = "clip.vision.image_grid_pinpoints";
    const ph_gguf_kv *kv = ph_gguf_find(g, key);
    if (!kv || !kv->count || kv->count % 2 || kv->count > 2 * PH_PINPOINTS_MAX)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s must list 1 .. %d pairs of width and height", g->name, key,
                       PH_PINPOINTS_MAX);
    for (size_t i = 0; i < kv->count; i++) {
        int64_t side;
        if (!ph_gguf_item_int(kv, i, &side) || side < 1 || side > PH_RECIPE_SIDE_MAX)
            return PH_FAIL(err, PH_EFORMAT, "%s: number %zu of %s must be an integer from 1 to %d", g->name,
                           i + 1, key, PH_RECIPE_SIDE_MAX);
        p->pinpoint[i / 2][i % 2] = (int)side;
    }
    p->n_pinpoints = (int)(kv->count / 2);
    return PH_OK;
}

static ph_rc read_tiles(const ph_gguf *g, ph_recipe_params *p, ph_err *err) {
    PH_TRY(ph_gguf_size_or(g, "clip.vision.preproc_min_tiles", 1, 1 << 10, 0, &p->tiles_min, err));
    PH_TRY(ph_gguf_size_or(g, "clip.vision.preproc_max_tiles", 1, 1 << 10, 0, &p->tiles_max, err));
    if (!p->tiles_max || p->tiles_min <= p->tiles_max) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s: clip.vision.preproc_min_tiles is %d, preproc_max_tiles is %d",
                   g->name, p->tiles_min, p->tiles_max);
}

/* Our own keys; without them frames are prepared as pictures are. */
static ph_rc read_video_params(const ph_gguf *g, ph_recipe_params *p, ph_err *err) {
    p->is_video = ph_gguf_find(g, "clip.vision.video_max_pixels") != NULL;
    if (!p->is_video) return PH_OK;
    PH_TRY(ph_gguf_size(g, "clip.vision.video_min_pixels", 1, 1 << 30, &p->min_pixels, err));
    PH_TRY(ph_gguf_size(g, "clip.vision.video_max_pixels", 1, 1 << 30, &p->max_pixels, err));
    PH_TRY(ph_gguf_size_or(g, "clip.vision.video_min_frames", 1, 1 << 20, 0, &p->frames_min, err));
    PH_TRY(ph_gguf_size_or(g, "clip.vision.video_max_frames", 1, 1 << 20, 0, &p->frames_max, err));
    return ph_gguf_real_or(g, "clip.vision.video_fps", 0, &p->fps, err);
}

static ph_rc read_recipe_gguf(ph_model *m, ph_err *err) {
    const ph_gguf   *g = &m->source.mmproj;
    ph_recipe_params p = {.projector = m->source.projector,
                          .image_size = m->spec.tower.image,
                          .patch_size = m->spec.tower.patch,
                          .merge = m->spec.packed.merge};
    PH_TRY(three(g, "clip.vision.image_mean", 0.5, p.mean, err));
    PH_TRY(three(g, "clip.vision.image_std", 0.5, p.std, err));
    PH_TRY(ph_gguf_size_or(g, "clip.vision.preproc_image_size", 1, 1 << 14, 0, &p.longest_edge, err));
    PH_TRY(ph_gguf_size_or(g, "clip.vision.image_min_pixels", 1, 1 << 30, 0, &p.min_pixels, err));
    PH_TRY(ph_gguf_size_or(g, "clip.vision.image_max_pixels", 1, 1 << 30, 0, &p.max_pixels, err));
    PH_TRY(read_tiles(g, &p, err));
    if (m->spec.bridge.has_newline) PH_TRY(read_pinpoints(g, &p, err));
    PH_TRY(ph_recipe_init_from_params(&m->recipe, &p, err));
    if (!m->spec.video_marker) return PH_OK;
    PH_TRY(read_video_params(g, &p, err));
    return ph_recipe_init_from_params(&m->video_recipe, &p, err);
}

static ph_rc read_recipe(ph_model *m, ph_err *err) {
    const ph_source *s = &m->source;
    if (!m->spec.has_vision) return PH_OK;
    if (!s->is_gguf || s->hf.preprocessor.root ||
        s->hf.processor.root) { /* also of a file that was a directory once */
        ph_json preprocessor = ph_json_root(&s->hf.preprocessor), processor = ph_json_root(&s->hf.processor),
                config = ph_json_root(&s->hf.config);
        if (m->spec.n_mels) return ph_audio_recipe_init(&m->audio_recipe, &preprocessor, &processor, err);
        PH_TRY(ph_recipe_init(&m->recipe, &preprocessor, &processor, &config, err));
        return read_video_recipe(m, &config, err);
    }
    return read_recipe_gguf(m, err);
}

static ph_rc check_packed(const ph_model *m, ph_err *err) {
    const ph_recipe *r = &m->recipe, *v = m->video_recipe.kind ? &m->video_recipe : r;
    const ph_packed *p = &m->spec.packed;
    if (r->pack_patch == m->spec.tower.patch && r->pack_merge == p->merge &&
        r->pack_temporal == p->temporal && v->pack_patch == r->pack_patch && v->pack_merge == r->pack_merge &&
        v->pack_temporal == r->pack_temporal)
        return PH_OK;
    return PH_FAIL(
        err, PH_EMISMATCH,
        "preprocessor_config.json makes patches of %d x %d pixels and %d frames, merged %d x %d, but "
        "vision_config says %d, %d and %d",
        r->pack_patch, r->pack_patch, r->pack_temporal, r->pack_merge, r->pack_merge, m->spec.tower.patch,
        p->temporal, p->merge);
}

static ph_rc check_audio(const ph_model *m, ph_err *err) {
    const ph_audio_recipe *r = &m->audio_recipe;
    int                    frames = 2 * m->spec.bridge.tokens_per_tile;
    if (r->n_mels == m->spec.n_mels && r->n_frames == frames) return PH_OK;
    return PH_FAIL(
        err, PH_EMISMATCH,
        "preprocessor_config.json makes %d frames of %d numbers of a sound, but config.json wants %d "
        "of %d",
        r->n_frames, r->n_mels, frames, m->spec.n_mels);
}

/* Tiles come out of the recipe in the size that the tower takes, or the checkpoint contradicts itself. */
static ph_rc check_recipe(const ph_model *m, ph_err *err) {
    ph_tile_layout l;
    if (!m->spec.has_vision) return PH_OK;
    if (m->spec.packed.merge) return check_packed(m, err);
    if (m->spec.n_mels) return check_audio(m, err);
    PH_TRY(ph_recipe_layout(&l, &m->recipe, m->spec.tower.image, m->spec.tower.image, err));
    if (m->spec.tower.tiles && l.n_tiles != m->spec.tower.tiles)
        return PH_FAIL(
            err, PH_EMISMATCH,
            "preprocessor_config.json makes %d tiles of a picture, but vision_config's max_num_tiles is "
            "%d",
            l.n_tiles, m->spec.tower.tiles);
    if (l.width != m->spec.tower.image || l.height != m->spec.tower.image)
        return PH_FAIL(
            err, PH_EMISMATCH,
            "preprocessor_config.json makes tiles of %d x %d pixels, but vision_config's image_size is %d",
            l.width, l.height, m->spec.tower.image);
    return PH_OK;
}

static ph_rc open_parts(ph_model *m, const char *path, const ph_model_options *o, ph_err *err) {
    PH_TRY(ph_source_open(&m->source, path, o ? o->mmproj : NULL, err));
    if (!o || !o->is_trusted) PH_TRY(ph_bundle_check(&m->source.bundle, err));
    PH_TRY(find_families(m, err));
    PH_TRY(read_spec(m, err));
    PH_TRY(build_all(m, err));
    PH_TRY(read_kv(m, err));
    PH_TRY(read_recipe(m, err));
    PH_TRY(check_recipe(m, err));
    PH_TRY(ph_model_open_tokens(m, err));
    if (!m->spec.embed.d) /* else nothing is said to it */
        PH_TRY(ph_model_open_chat(m, o ? o->template_ : NULL, err));
    return o && o->injects ? ph_model_inject(m, o->inject_layer, o->inject_alpha, err) : PH_OK;
}

/* What opening took at its worst and what of it stays, as the kernel counts it.  Reading a tokenizer's JSON
 * takes several times what its tables hold; that goes back now, not into the peak of answering. */
static void weigh(ph_model *m, const ph_model_options *o, const ph_mem *before) {
    ph_mem mem;
    int    stays = o && (o->is_read_whole || o->is_locked); /* the whole file does: ph_model_reside */
    if (!ph_mem_read(&mem)) return;
    if (mem.rss_peak > before->rss_peak) m->load_peak_bytes = mem.rss_peak;
    malloc_trim(0);
    if (!stays) ph_gguf_forget(&m->source.gguf);
    if (!stays) ph_gguf_forget(&m->source.mmproj);
    ph_mem_read(&mem);
    m->resident_bytes = mem.rss;
}

ph_rc ph_model_open(ph_model **out, const char *path, const ph_model_options *o, ph_err *err) {
    ph_mem    before;
    ph_model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return PH_FAIL(err, PH_ENOMEM, "a model's tables");
    ph_mem_read(&before);
    m->passes_off = o ? o->passes_off : NULL;
    ph_rc rc = open_parts(m, path, o, err);
    m->passes_off = NULL;
    if (!rc) weigh(m, o, &before);
    if (!rc) rc = ph_model_reside(m, o, err);
    if (rc) {
        ph_model_close(m);
        return rc;
    }
    *out = m;
    return PH_OK;
}

void ph_model_close(ph_model *m) {
    if (!m) return;
    ph_ahead_close(m->ahead); /* it reads the maps */
    ph_graph_close(m->language);
    ph_graph_close(m->vision);
    ph_graph_close(m->bridge);
    ph_graph_close(m->cross);
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
