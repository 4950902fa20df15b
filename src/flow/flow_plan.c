/* flow_plan.c - what a session will hold, by phase and kind, before it holds it.
 *
 * The engines say what their programs need at given sizes; the rest are the
 * corridor's own tables.  The same code answers for a stated load (inspect) and
 * for what a run really did (run), so the two cannot drift apart.
 *
 *     load       the process with the model open; reading the tokenizer's files may have taken more
 *     see        pictures: first pixels with the decoder's heap, then pixels, tiles and the vision part
 *     prefill    the language part over the same scratch, the cache
 *     step       the same
 *
 * Where pictures are seen beside answers (`beside`) the vision part has scratch of its own, a picture is on
 * its way while the language part runs, and each turn's features stand: the phases of the language part hold
 * all of it.  Where one is decoded ahead (`ahead`), one more is on its way in each phase.
 *
 * Behind an answer (`stands`, flow_turn.c) all of that stands while the next question's pictures are decoded.
 *
 * Memory once touched stays resident: pages of weights in the map, the scratch,
 * the cache.  So a phase counts what it adds to those before it, and the last
 * phase is the peak unless loading or seeing took more and gave it back.
 */
#include "flow/session.h"

#include "base/mem.h"

enum {
    /* Pages of code, of libraries' tables and of the heap that are first touched between opening a model and
     * the end of an answer; tests/flow/memory.sh measures what this leaves over. */
    CODE_BYTES = 400 << 10,
    /* Of these, what decoding a picture adds: its library, the resampler. */
    PICTURE_CODE_BYTES = 600 << 10,
    /* Where a second thread sees pictures, or decodes: its stack, and the heap that it has of its own. */
    BESIDE_BYTES = 400 << 10,
    /* A photograph's file, where a load states its size in pixels only. */
    FILE_BITS_A_PIXEL = 3,
    PAGE = 4096,
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static ph_rc need_of(const ph_session *s, ph_part part, const ph_syms *syms, size_t different, ph_memory *m,
                     ph_plan *plan, ph_err *err) {
    const ph_ready *r = &s->part[part];
    ph_need         need;
    size_t          scratch;
    if (!r->program) return PH_OK;
    PH_TRY(r->engine->def->need(r->program, syms, &need, &scratch, err));
    plan->is_estimate |= need.is_estimate;
    m->input += need.input;
    m->activations += need.activations;
    m->engine += need.engine;
    m->reserve += need.reserve;
    m->weights += need.weights + least(need.table, different * need.table_row);
    return PH_OK;
}

/* Parts on an engine that loads a copy of them: there from the start, run or not. */
typedef struct copies {
    size_t engine, opening, weights;
    size_t embed_engine, embed_weights; /* of these, the part's that makes rows of ids */
} copies;

/* What engines hold themselves, each once, however many parts it runs and however many crews and devices it
 * has: their libraries.  And what is left of others. */
static size_t engines_own(const ph_session *s) {
    size_t own = s->left_bytes;
    for (int i = 0; i < PH_N_PARTS; i++) {
        const ph_engine *e = s->part[i].program ? s->part[i].engine : NULL;
        int              is_new = e && e->def->holds;
        for (int k = 0; k < i && is_new; k++)
            is_new = !s->part[k].program || s->part[k].engine->def != e->def;
        if (is_new) own += e->def->holds(e);
    }
    return own;
}

static ph_rc copies_of(const ph_session *s, copies *out, ph_err *err) {
    *out = (copies){.engine = engines_own(s)};
    for (int i = PH_PART_VISION; i <= PH_PART_EMBED; i++) {
        const ph_ready *r = &s->part[i];
        ph_need         need;
        size_t          scratch;
        if (!r->program) continue;
        PH_TRY(r->engine->def->need(r->program, &r->max, &need, &scratch, err));
        if (!need.standing) { /* of others, what compiling touched */
            out->weights += r->compiled_bytes;
            continue;
        }
        out->engine += need.standing;
        out->weights += need.weights;
        if (i == PH_PART_EMBED) out->embed_engine = need.standing, out->embed_weights = need.weights;
        if (need.opening > out->opening) out->opening = need.opening;
    }
    return PH_OK;
}

/* What makes rows of ids, where that is a part of its own; what stands of it is among the copies. */
static ph_rc embedding(const ph_session *s, const ph_syms *rows, size_t different, ph_memory *m,
                       ph_plan *plan, ph_err *err) {
    const ph_ready *r = &s->part[PH_PART_EMBED];
    ph_memory       own = {0};
    ph_syms         syms = {{0}};
    ph_need         need;
    size_t          scratch;
    if (!r->program) return PH_OK;
    syms.at[PH_SYM_R] = rows->at[PH_SYM_R];
    PH_TRY(need_of(s, PH_PART_EMBED, &syms, different, &own, plan, err));
    PH_TRY(r->engine->def->need(r->program, &syms, &need, &scratch, err));
    m->input += own.input;
    m->activations += own.activations;
    m->engine += own.engine - need.standing;
    if (!need.standing) m->weights += own.weights;
    return PH_OK;
}

/* Bytes of the cache: what the tokens take, and the rest of their pages. */
static void cache(const ph_session *s, const ph_done *d, ph_memory *m) {
    size_t tokens = 0, pages = 0;
    for (int i = 0; i < s->model->n_kv_layers; i++) {
        tokens += d->tokens * ph_kv_token_bytes(&s->kv_spec, i);
        pages += d->pages * ph_kv_page_bytes(&s->kv_spec, i);
    }
    size_t beside = d->beside;
    for (int i = 0; i < s->model->n_cross_layers; i++) {
        tokens += beside * ph_kv_token_bytes(&s->cross_spec, i);
        pages += (beside + PH_KV_PAGE - 1) / PH_KV_PAGE * ph_kv_page_bytes(&s->cross_spec, i);
    }
    size_t each = d->pages / d->sequences;
    m->kv = tokens + ph_kv_held_bytes(&s->kv_spec, d->sequences, each, least(d->staged, each));
    m->reserve += pages > tokens ? pages - tokens : 0;
}

static void tables(const ph_session *s, const ph_done *d, ph_memory *m) {
    size_t vocab = (size_t)s->model->spec.text.vocab, row = 9 * sizeof(int32_t) + sizeof(uint64_t);
    if (s->model->cross) row += sizeof(ph_sight);
    m->pools = (d->visual + d->gathered) * s->d_visual * sizeof(float) + d->tokens * row +
               (d->turns > 1 ? d->turns : 1) * ph_sampler_bytes(vocab);
}

/* The process with its model open, as it was weighed, by what is known of it. */
static void process(const ph_session *s, ph_memory *m) {
    const ph_model *model = s->model;
    size_t          known = model->source.arena.size + model->chat_arena.size;
    for (int i = 0; i < PH_N_PARTS; i++) {
        const ph_graph *g = ph_part_graph(model, (ph_part)i);
        if (g) known += g->arena.size;
    }
    m->engine += known;
    m->tokenizer = model->tokenizer_bytes;
    known += m->tokenizer;
    m->base = model->resident_bytes > known ? model->resident_bytes - known : 0;
}

/* Weights that are read whole or locked are there from the start, all of them. */
static void whole_weights(const ph_session *s, ph_memory *m) {
    if (s->model->whole_bytes) m->weights = s->model->whole_bytes;
}

static void loading(const ph_session *s, const copies *c, ph_memory *m) {
    process(s, m);
    if (c->engine) m->weights = c->weights;
    m->engine += c->engine + c->opening;
    whole_weights(s, m);
    if (s->model->load_peak_bytes > s->model->resident_bytes)
        m->tokenizer += s->model->load_peak_bytes - s->model->resident_bytes;
}

/* Whole pictures of the load's size that one run takes. */
static int stated_patches(const ph_session_options *h, const ph_tile_layout *l) {
    int pictures = l->n_patches ? h->patches / l->n_patches : 0;
    if (pictures > h->images) pictures = h->images;
    return l->n_patches * (pictures ? pictures : 1);
}

/* The load of the options as if it had been done. */
static ph_rc stated(const ph_session *s, ph_done *d, ph_err *err) {
    const ph_session_options *h = &s->how;
    size_t                    page = PH_KV_PAGE, context = (size_t)h->context;
    size_t                    begun = ((size_t)h->chunk + page - 1) / page;
    *d = (ph_done){.chunk = h->chunk,
                   .sequences = (size_t)h->sequences,
                   .staged = begun > 2 ? begun - 2 : 0,
                   .logits = h->all_logits ? h->chunk : h->sequences,
                   .tokens = context * (size_t)h->sequences,
                   .pages = (context + page - 1) / page * (size_t)h->sequences,
                   .different = least(context * (size_t)h->sequences, (size_t)s->model->spec.text.vocab)};
    if (!s->model->vision) return PH_OK;
    if (s->model->spec.n_mels) return ph_sound_stated(s, d, err);
    ph_tile_layout l;
    size_t         tiles;
    PH_TRY(ph_recipe_layout(&l, &s->recipe, h->image_width, h->image_height, err));
    PH_TRY(ph_recipe_bytes(&tiles, &s->recipe, h->image_width, h->image_height, 0, err));
    d->tiles = l.n_patches ? 0 : l.n_tiles < h->tiles ? l.n_tiles : h->tiles;
    d->patches = stated_patches(h, &l);
    d->visual = (size_t)h->images * (size_t)ph_spec_tokens(&s->model->spec, &l);
    d->beside = s->model->cross ? d->visual : 0;
    if (h->beside) d->visual *= d->turns = (size_t)h->beside;
    if (ph_inject_gathered_bytes(s)) d->gathered = d->visual * (size_t)h->sequences;
    size_t area = (size_t)h->image_width * (size_t)h->image_height;
    d->files = (size_t)h->images * (area * FILE_BITS_A_PIXEL / 8);
    d->decode = (size_t)h->images * 3 * area;
    d->prepare = d->decode + (size_t)h->images * tiles;
    return PH_OK;
}

static size_t whole(size_t bytes) {
    return ph_round_up(bytes, PAGE);
}

/* Pictures are decoded before a weight of the vision part is touched, and seen when the decoder is gone: the
 * greater of the two. */
static void seeing(const ph_session *s, const ph_done *d, const copies *c, const ph_memory *see,
                   ph_memory *out) {
    ph_memory decode = {0}, then = *see;
    decode.engine = c->engine;
    process(s, &decode);
    process(s, &then);
    whole_weights(s, &decode);
    whole_weights(s, &then);
    if (!d->prepare) { /* no picture: nothing of this happens */
        *out = decode;
        return;
    }
    decode.base += PICTURE_CODE_BYTES;
    if (!s->model->whole_bytes)
        decode.weights +=
            c->weights + s->part[PH_PART_LANGUAGE].compiled_bytes + s->part[PH_PART_CROSS].compiled_bytes;
    then.base += CODE_BYTES + PICTURE_CODE_BYTES;
    then.engine += c->embed_engine;
    then.weights += c->embed_weights;
    decode.input = whole(d->files) + d->decode;
    then.input += whole(d->files) + d->prepare;
    then.pools = d->visual * s->d_visual * sizeof(float);
    ph_memory_sum(&decode);
    ph_memory_sum(&then);
    *out = decode.total > then.total ? decode : then;
}

/* The language part takes over the scratch that was seen with. */
static void instead(const ph_memory *see, ph_memory *p) {
    if (see->activations > p->activations) p->activations = see->activations;
    if (see->input > p->input) p->input = see->input;
}

/* Or it has its own, and the next picture is on its way. */
static void beside(const ph_done *d, const ph_memory *see, ph_memory *p) {
    p->base += BESIDE_BYTES;
    p->activations += see->activations;
    p->input += see->input + (d->prepare > d->decode ? d->prepare : d->decode) +
                (d->turns > 1 ? d->turns - 1 : 0) * whole(d->files);
}

/* The pictures of a question are on their way while those before are seen and answered. */
static void ahead(const ph_done *d, ph_memory *p) {
    p->base += BESIDE_BYTES;
    p->input += (d->prepare > d->decode ? d->prepare : d->decode) + whole(d->files);
}

ph_rc ph_session_predict(const ph_session *s, const ph_done *given, ph_plan *out, ph_err *err) {
    ph_done   d;
    ph_syms   tiles = {{0}}, rows = {{0}};
    ph_memory see = {0}, language = {0}, *p;
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
                              .threads = h->threads,
                              .beside = h->beside,
                              .ahead = h->ahead}};
    tiles.at[PH_SYM_I] = d.tiles;
    tiles.at[PH_SYM_N] = d.patches;
    rows.at[PH_SYM_R] = d.chunk;
    rows.at[PH_SYM_V] = least((size_t)d.chunk, d.visual / (d.turns ? d.turns : 1));
    rows.at[PH_SYM_S] = d.logits;
    PH_TRY(need_of(s, PH_PART_LANGUAGE, &rows, d.different, &language, out, err));
    PH_TRY(embedding(s, &rows, d.different, &language, out, err));
    if (d.tiles || d.patches) {
        PH_TRY(need_of(s, PH_PART_VISION, &tiles, 0, &see, out, err));
        PH_TRY(need_of(s, PH_PART_BRIDGE, &tiles, 0, &see, out, err));
    }
    if (s->model->cross && d.beside) {
        ph_syms   fill = {{0}};
        ph_memory cross = {0};
        fill.at[PH_SYM_R] = least((size_t)h->chunk, d.beside);
        PH_TRY(need_of(s, PH_PART_CROSS, &fill, 0, &cross, out, err));
        language.weights += cross.weights;
        if (cross.activations > language.activations) language.activations = cross.activations;
        if (cross.input > language.input) language.input = cross.input;
    }
    copies held;
    PH_TRY(copies_of(s, &held, err));
    see.engine += engines_own(s);
    loading(s, &held, &out->phase[PH_PHASE_LOAD]);
    seeing(s, &d, &held, &see, &out->phase[PH_PHASE_SEE]);
    /* The language part takes over the scratch; the weights that were seen with stay. */
    p = &out->phase[PH_PHASE_PREFILL];
    *p = language;
    process(s, p);
    p->base += CODE_BYTES + (d.prepare ? PICTURE_CODE_BYTES : 0);
    p->weights += d.tiles || d.patches ? see.weights + held.embed_weights : held.weights;
    whole_weights(s, p);
    if (h->beside)
        beside(&d, &see, p);
    else
        instead(&see, p);
    if (held.engine)
        p->engine += held.engine; /* beside the scratch; what its runs took is given back */
    else if (h->beside)
        p->engine += see.engine;
    else if (see.engine > language.engine)
        p->engine += see.engine - language.engine;
    p->input += whole(d.files);
    if (h->ahead && d.prepare) ahead(&d, p);
    cache(s, &d, p);
    tables(s, &d, p);
    out->phase[PH_PHASE_STEP] = *p;
    ph_plan_finish(out);
    return PH_OK;
}
