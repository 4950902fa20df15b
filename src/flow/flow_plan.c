/* flow_plan.c - what a session will hold, by phase and kind, before it holds it.
 *
 * The engines say what their programs need at given sizes; the rest are the
 * corridor's own tables.  The same code answers for a stated load (inspect) and
 * for what a run really did (run), so the two cannot drift apart.
 *
 * Memory once touched stays resident: pages of weights in the map, the scratch,
 * the cache.  So a phase counts what it adds to those before it, and the last
 * phase is the peak unless loading or seeing took more and gave it back.
 */
#include "flow/session.h"

#include "base/mem.h"

enum {
    /* Code and data of the libraries that are first touched while answering, and the heap's own
     * tables: measured as the difference between the process before opening a model and after an answer,
     * less all that is counted here; tests/flow/memory.sh holds the sum to its bound. */
    CODE_BYTES = 1536 << 10,
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static ph_rc need_of(const ph_session *s, ph_part part, const ph_syms *syms, size_t different, ph_memory *m,
                     size_t *scratch, ph_err *err) {
    const ph_ready *r = &s->part[part];
    ph_need         need;
    *scratch = 0;
    if (!r->program) return PH_OK;
    PH_TRY(r->engine->def->need(r->program, syms, &need, scratch, err));
    *scratch = ph_round_up(*scratch, PH_ALIGN);
    m->input += need.input;
    m->activations += need.activations;
    m->engine += need.engine;
    m->reserve += need.reserve;
    m->weights += need.weights + least(need.table, different * need.table_row);
    return PH_OK;
}

/* Bytes of the cache: what the tokens take, and the rest of their pages. */
static void cache(const ph_session *s, const ph_done *d, ph_memory *m) {
    size_t tokens = 0, pages = 0;
    for (int i = 0; i < s->model->n_kv_layers; i++) {
        const ph_kv_layer *l = &s->model->kv_layer[i];
        tokens +=
            d->tokens * (size_t)l->n_heads * (size_t)(l->d_k + l->d_v) * ph_dtype_bytes(s->how.kv_dtype);
        pages += d->pages * ph_kv_page_bytes(&s->kv_spec, i);
    }
    m->kv = tokens;
    m->reserve += pages > tokens ? pages - tokens : 0;
}

static void tables(const ph_session *s, const ph_done *d, ph_memory *m) {
    size_t vocab = (size_t)s->model->spec.text.vocab, row = 9 * sizeof(int32_t) + sizeof(uint64_t);
    m->pools = d->visual * (size_t)s->model->spec.text.d_model * sizeof(float) + d->tokens * row +
               ph_sampler_bytes(vocab);
}

static void graphs(const ph_session *s, ph_memory *m) {
    const ph_graph *g[PH_N_PARTS] = {s->model->vision, s->model->bridge, s->model->language};
    for (int i = 0; i < PH_N_PARTS; i++)
        if (g[i]) m->engine += g[i]->arena.size;
    m->engine += s->model->source.arena.size;
    m->base = s->model->base_bytes + CODE_BYTES;
    m->tokenizer = s->model->tokenizer_bytes;
}

/* The load of the options as if it had been done. */
static ph_rc stated(const ph_session *s, ph_done *d, ph_err *err) {
    const ph_session_options *h = &s->how;
    size_t                    page = PH_KV_PAGE, context = (size_t)h->context;
    *d = (ph_done){.chunk = h->chunk,
                   .logits = h->all_logits ? h->chunk : h->sequences,
                   .tokens = context * (size_t)h->sequences,
                   .pages = (context + page - 1) / page * (size_t)h->sequences,
                   .different = least(context * (size_t)h->sequences, (size_t)s->model->spec.text.vocab)};
    if (!s->model->vision) return PH_OK;
    ph_tile_layout l;
    size_t         tiles;
    PH_TRY(ph_recipe_layout(&l, &s->model->recipe, h->image_width, h->image_height, err));
    PH_TRY(ph_recipe_bytes(&tiles, &s->model->recipe, h->image_width, h->image_height, 0, err));
    d->tiles = l.n_tiles < h->tiles ? l.n_tiles : h->tiles;
    d->visual = (size_t)h->images * (size_t)l.n_tiles * (size_t)s->model->spec.bridge.tokens_per_tile;
    d->pictures_bytes = (size_t)h->images * (tiles + 3 * (size_t)h->image_width * (size_t)h->image_height);
    return PH_OK;
}

ph_rc ph_session_predict(const ph_session *s, const ph_done *given, ph_plan *out, ph_err *err) {
    ph_done   d;
    ph_syms   tiles = {{0}}, rows = {{0}};
    ph_memory see = {0}, language = {0}, *p;
    size_t    vision_bytes, bridge_bytes, language_bytes;
    if (given)
        d = *given;
    else
        PH_TRY(stated(s, &d, err));
    const ph_session_options *h = &s->how;
    *out = (ph_plan){.load = {.context = h->context,
                              .sequences = h->sequences,
                              .images = h->images,
                              .tiles = d.tiles,
                              .chunk = d.chunk,
                              .threads = h->threads}};
    tiles.at[PH_SYM_I] = d.tiles;
    rows.at[PH_SYM_R] = d.chunk;
    rows.at[PH_SYM_V] = least((size_t)d.chunk, d.visual);
    rows.at[PH_SYM_S] = d.logits;
    PH_TRY(need_of(s, PH_PART_LANGUAGE, &rows, d.different, &language, &language_bytes, err));
    if (d.tiles) {
        PH_TRY(need_of(s, PH_PART_VISION, &tiles, 0, &see, &vision_bytes, err));
        PH_TRY(need_of(s, PH_PART_BRIDGE, &tiles, 0, &see, &bridge_bytes, err));
    }
    p = &out->phase[PH_PHASE_LOAD];
    graphs(s, p);
    out->phase[PH_PHASE_SEE] = see;
    p = &out->phase[PH_PHASE_SEE];
    graphs(s, p);
    p->input += d.pictures_bytes;
    p->pools = d.visual * (size_t)s->model->spec.text.d_model * sizeof(float);
    /* The language part takes over the scratch; the weights that were seen with stay. */
    out->phase[PH_PHASE_PREFILL] = language;
    p = &out->phase[PH_PHASE_PREFILL];
    graphs(s, p);
    p->weights += see.weights;
    if (see.activations > p->activations) p->activations = see.activations;
    if (see.input > p->input) p->input = see.input;
    if (see.engine > language.engine) p->engine += see.engine - language.engine;
    cache(s, &d, p);
    tables(s, &d, p);
    out->phase[PH_PHASE_STEP] = *p;
    ph_plan_finish(out);
    return PH_OK;
}
