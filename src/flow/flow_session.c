/* flow_session.c - a model made able to run: threads, engines, programs, cache, scratch.
 *
 * The programs of one phase stand in the scratch at a time: first vision and
 * bridge, then the language part over the same bytes.  So the scratch is as large
 * as the larger phase, and the plan's peak is the largest phase.
 */
#include "flow/session.h"

#include "base/mem.h"
#include "graph/cut.h"
#include "graph/inject.h"
#include "graph/kv_page.h"

#include <stdlib.h>
#include <string.h>

const char *const ph_stage_name[PH_N_STAGES + 1] = {
#define PH_STAGE(name) #name,
#include "flow/stage.def"
#undef PH_STAGE
    "done",
};
const char *const ph_stop_name[] = {"none", "token", "word", "length", "context", "cancel"};

static int or_else(int given, int otherwise) {
    return given > 0 ? given : otherwise;
}

/* Names are the caller's for the time of the call only. */
static ph_rc name_engine(ph_session *s, ph_part part, const char *name, ph_err *err) {
    const ph_engine_def *def = NULL;
    const char          *device;
    ph_engine_class      cls;
    ph_rc rc = strcmp(name, PH_ENGINE_AUTO) ? ph_engine_named(name, &def, &device, &cls, err) : PH_OK;
    if (rc) return def ? rc : ph_note(err, rc, "or " PH_ENGINE_AUTO ", which chooses among them");
    if (strlen(name) >= PH_ROUTE_NAME)
        return PH_FAIL(err, PH_EUSAGE, "engine '%s': at most %d bytes are a name", name, PH_ROUTE_NAME - 1);
    snprintf(s->engine_name[part], PH_ROUTE_NAME, "%s", name);
    return PH_OK;
}

/* Threads of the crews: one decodes. */
static int working(const ph_session_options *h) {
    return h->threads - h->ahead > 0 ? h->threads - h->ahead : 1;
}

ph_rc ph_session_check_threads(const ph_session_options *o, ph_err *err) {
    int all = or_else(o->threads, ph_cpu_count()), work = o->ahead > 0 && all > 1 ? all - 1 : all;
    int most = work > 1 ? work - 1 : 1;
    if (o->see_threads <= most) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE,
                   "%d of %d thread%s are to see (--see-threads, --threads): at most %d, the rest answers%s",
                   o->see_threads, all, all == 1 ? "" : "s", most, work < all ? ", and one decodes" : "");
}

static ph_rc resolve(ph_session *s, const ph_session_options *o, ph_err *err) {
    ph_session_options *h = &s->how;
    int                 own = s->model->spec.text.context;
    *h = o ? *o : (ph_session_options){0};
    PH_TRY(ph_session_check_threads(h, err));
    h->threads = or_else(h->threads, ph_cpu_count());
    h->context = or_else(h->context, own < 4096 ? own : 4096);
    h->sequences = or_else(h->sequences, 1);
    if (!s->model->vision || h->beside < 0) h->beside = 0; /* nothing is seen */
    if (!s->model->vision || h->ahead < 0) h->ahead = 0;
    h->ahead = h->ahead > 0;
    if (h->beside > PH_PEERS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%d turns beside each other; at most %d", h->beside, PH_PEERS_MAX);
    h->see_threads = or_else(h->see_threads, working(h) / 2);
    if (h->see_threads < 1) h->see_threads = 1;
    h->chunk = or_else(h->chunk, 512);
    h->tiles = or_else(h->tiles, 4);
    h->images = h->images > 0 ? h->images : 1;
    h->image_width = or_else(h->image_width, 1024);
    h->image_height = or_else(h->image_height, 768);
    PH_TRY(ph_model_budget(s->model, h->image_min_tokens, h->image_max_tokens, &s->recipe, err));
    if (s->model->spec.packed.merge && h->patches <= 0) {
        ph_tile_layout l;
        PH_TRY(ph_recipe_layout(&l, &s->recipe, h->image_width, h->image_height, err));
        h->patches = l.n_patches;
    }
    int together = s->model->spec.tower.tiles;
    if (together > 1) h->tiles = (h->tiles + together - 1) / together * together;
    if (!h->engine_vision) h->engine_vision = "native";
    if (!h->engine_bridge) h->engine_bridge = h->engine_vision;
    if (!h->engine_language) h->engine_language = "native";
    PH_TRY(name_engine(s, PH_PART_VISION, h->engine_vision, err));
    PH_TRY(name_engine(s, PH_PART_BRIDGE, h->engine_bridge, err));
    PH_TRY(name_engine(s, PH_PART_LANGUAGE, h->engine_language, err));
    PH_TRY(name_engine(s, PH_PART_CROSS, h->engine_language, err));
    if (h->engine_embed && strcmp(h->engine_embed, PH_ENGINE_AUTO))
        PH_TRY(name_engine(s, PH_PART_EMBED, h->engine_embed, err));
    if (!(h->latency_ms >= 0 && h->latency_ms <= 1e9))
        return PH_FAIL(err, PH_EUSAGE, "a latency budget of %g ms; up to 10^9 are possible", h->latency_ms);
    if (h->latency_ms == 0) h->latency_ms = PH_LATENCY_MS;
    if (h->threads > 256) return PH_FAIL(err, PH_EUSAGE, "%d threads; at most 256", h->threads);
    if (h->is_exact && h->is_rows8)
        return PH_FAIL(err, PH_EUSAGE, "weights meet either floats (--exact) or rows of 8 bits (--rows8)");
    if (h->sequences > PH_TURNS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%d sequences; at most %d", h->sequences, PH_TURNS_MAX);
    if (h->context > own)
        return PH_FAIL(err, PH_EUSAGE, "a context of %d tokens; this model was made for %d at most",
                       h->context, own);
    if (s->model->spec.image_sees_itself && h->chunk < s->model->spec.bridge.tokens_per_tile)
        h->chunk = s->model->spec.bridge.tokens_per_tile;         /* they are run together */
    if (s->model->spec.embed.is_both_ways) h->chunk = h->context; /* a text is run as a whole */
    if (h->chunk > h->context) h->chunk = h->context;
    if (h->chunk < h->sequences) h->chunk = h->sequences;
    if (h->images > PH_PICTURES_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%d images a prompt; at most %d", h->images, PH_PICTURES_MAX);
    if (!ph_kv_is_known(h->kv_dtype))
        return PH_FAIL(err, PH_EUSAGE,
                       "the KV cache cannot be of type %s; F32, F16, BF16, Q8_0 and Q4_1 are known",
                       ph_dtype_name(h->kv_dtype));
    return PH_OK;
}

/* What was asked for and is done otherwise: answers never change by it, memory does. */
static void say_changes(const ph_session *s, const ph_session_options *o) {
    const ph_session_options *h = &s->how;
    if (o && o->chunk > 0 && h->chunk > o->chunk)
        ph_log_say(
            h->log, PH_LOG_WARN,
            "a chunk of %d prompt tokens is too small here and becomes one of %d: what is run together "
            "(a picture, a text, a token of each sequence) must fit in",
            o->chunk, h->chunk);
    if (o && o->tiles > 0 && h->tiles > o->tiles)
        ph_log_say(h->log, PH_LOG_WARN, "%d tiles a run become %d: this model sees %d of them together",
                   o->tiles, h->tiles, s->model->spec.tower.tiles);
}

static void say_opened(const ph_session *s) {
    const ph_session_options *h = &s->how;
    ph_log_say(h->log, PH_LOG_INFO,
               "%s: %d sequence%s of %d tokens, chunks of %d, %d thread%s, %s kernels; %.1f MB by the plan",
               s->model->source.path, h->sequences, h->sequences == 1 ? "" : "s", h->context, h->chunk,
               h->threads, h->threads == 1 ? "" : "s", s->isa, (double)s->plan.peak.total / 1e6);
}

/* What is not on this machine costs time, not the answer. */
ph_rc ph_engine_absent(ph_session *s, const char *name, const ph_err *why, ph_err *err) {
    if (s->how.is_engine_strict) {
        if (err) *err = *why;
        return PH_EMACHINE;
    }
    if (!s->has_said_absent++)
        ph_log_say(s->how.log, PH_LOG_WARN, "engine %s is not here, native runs its part (%s)", name,
                   why->msg);
    return PH_OK;
}

static ph_threads *crew_of(const ph_session *s, ph_part part) {
    return s->see_threads && ph_part_sees(part) ? s->see_threads : s->threads;
}

static int is_engine(const ph_engine *e, const ph_engine_def *def, const ph_engine_env *env) {
    if (!e || e->def != def || e->env.threads != env->threads || !e->env.device != !env->device) return 0;
    return !env->device || !strcmp(e->env.device, env->device);
}

ph_rc ph_part_engine(ph_session *s, ph_part part, const char *name, ph_engine **out, ph_err *err) {
    const ph_engine_def *def;
    ph_engine_class      cls;
    ph_engine_env        env = {.threads = crew_of(s, part),
                                .kernels = &s->kernels,
                                .trace = s->trace,
                                .is_profiled = s->how.is_profiled,
                                .is_deterministic = 1,
                                .is_exact = s->how.is_exact,
                                .is_rows8 = s->how.is_rows8,
                                .unfused = s->how.unfused};
    PH_TRY(ph_engine_named(name, &def, &env.device, &cls, err));
    for (int i = 0; i < PH_N_PARTS; i++)
        if (is_engine(s->engine[i], def, &env)) {
            *out = s->engine[i];
            return PH_OK;
        }
    size_t before = ph_mem_resident();
    ph_rc  rc = def->probe(err);
    if (!rc) rc = def->open(out, &env, err);
    size_t after = ph_mem_resident();
    if (rc && after > before) s->left_bytes += after - before; /* a library that was loaded for nothing */
    return rc;
}

static ph_rc open_or_native(ph_session *s, ph_part part, ph_err *err) {
    ph_err why = {0};
    ph_rc  rc = ph_part_engine(s, part, s->engine_name[part], &s->engine[part], &why);
    if (rc != PH_EMACHINE) {
        if (rc && err) *err = why;
        return rc;
    }
    PH_TRY(ph_engine_absent(s, s->engine_name[part], &why, err));
    memcpy(s->engine_absent[part], s->engine_name[part], PH_ROUTE_NAME);
    snprintf(s->engine_name[part], PH_ROUTE_NAME, "native");
    return ph_part_engine(s, part, "native", &s->engine[part], err);
}

/* The observer's name and argument travel through the engine's tap. */
static void seen(void *arg, int value, const float *data, const ph_shape *shape, const ph_syms *syms) {
    const ph_session_tap *t = arg;
    (void)value;
    t->see(t->arg, t->value, data, shape, syms);
}

/* Of a graph that was cut in two: is this value made in the other half? */
static int is_of_other(const ph_session *s, const ph_graph *g, int value, const char *name) {
    const ph_graph *other = g == s->embed ? s->rest : g == s->rest ? s->embed : NULL;
    int             v = other ? ph_graph_find(other, name) : -1;
    return v >= 0 && other->value[v].cls == PH_VALUE_TEMP &&
           (value < 0 || g->value[value].cls != PH_VALUE_TEMP);
}

static ph_rc find_taps(ph_session *s, ph_ready *r, ph_err *err) {
    r->tap = calloc(s->how.n_taps + 1, sizeof *r->tap);
    if (!r->tap) return PH_FAIL(err, PH_ENOMEM, "%zu taps", s->how.n_taps);
    for (size_t i = 0; i < s->how.n_taps; i++) {
        const ph_session_tap *t = &s->how.tap[i];
        if (strcmp(t->graph, r->graph == s->embed ? s->rest->name : r->graph->name)) continue;
        int value = ph_graph_find(r->graph, t->value);
        if (is_of_other(s, r->graph, value, t->value)) continue;
        if (value < 0)
            return PH_FAIL(err, PH_EUSAGE, "the %s graph has no value '%s' to tap", t->graph, t->value);
        r->tap[r->n_taps++] = (ph_tap){.value = value, .see = seen, .arg = (void *)(uintptr_t)t};
    }
    return PH_OK;
}

/* As it is compiled: the language graph may be cut. */
static const ph_graph *graph_of(const ph_session *s, ph_part part) {
    return part == PH_PART_EMBED      ? s->embed
           : part == PH_PART_LANGUAGE ? s->language
                                      : ph_part_graph(s->model, part);
}

size_t ph_part_lent(const ph_session *s, ph_part part, const ph_graph *g, int out[2]) {
    size_t n = 0;
    if (part != PH_PART_LANGUAGE) return 0;
    if (s->embed) out[n++] = s->embedded_in;
    out[n] = ph_graph_find(g, PH_INJECT_FEATURES);
    return n + (out[n] >= 0);
}

static ph_rc compile(ph_session *s, ph_part part, ph_err *err) {
    int       lent[2];
    ph_ready *r = &s->part[part];
    *r = (ph_ready){.graph = graph_of(s, part)};
    ph_part_most(s, part, &r->max);
    PH_TRY(find_taps(s, r, err));
    PH_TRY(open_or_native(s, part, err));
    r->engine = s->engine[part];
    const ph_compile how = {.max = r->max,
                            .tap = r->tap,
                            .n_taps = r->n_taps,
                            .lent = lent,
                            .n_lent = ph_part_lent(s, part, r->graph, lent),
                            .is_plan_only = s->is_plan_only};
    ph_mem           before, after;
    ph_mem_read(&before);
    ph_rc rc = r->engine->def->compile(r->engine, r->graph, &how, &r->program, err); /* it notes for whom */
    if (ph_mem_read(&after) && after.rss > before.rss) r->compiled_bytes = after.rss - before.rss;
    return rc;
}

/* What rows of ids are called before pictures come among them or positions on top; the first that there is.
 */
static const char *embedded_name(const ph_graph *g) {
    static const char *const names[] = {"embedded.scaled", "embedded", "hidden.0"};
    size_t                   i = 0;
    while (i + 1 < sizeof names / sizeof *names && ph_graph_find(g, names[i]) < 0) i++;
    return names[i];
}

/* Where what makes rows of ids has an engine of its own, it is a graph of its own. */
static ph_rc cut_language(ph_session *s, ph_err *err) {
    const ph_graph *whole = s->model->language;
    char           *own = s->engine_name[PH_PART_EMBED];
    if (!*own) snprintf(own, PH_ROUTE_NAME, "%s", s->engine_name[PH_PART_LANGUAGE]);
    if (!strcmp(own, s->engine_name[PH_PART_LANGUAGE])) return PH_OK;
    const char *name = embedded_name(whole);
    PH_TRY(ph_graph_cut(whole, name, "embed", &s->embed, &s->rest, err));
    s->language = s->rest;
    s->embedded = ph_graph_find(s->embed, name);
    s->embedded_in = ph_graph_find(s->rest, name);
    return PH_OK;
}

/* A seam between two graphs: what one makes is what the other takes, number for number in a row. */
static ph_rc check_seam(const ph_graph *from, int out, const ph_graph *to, int in, ph_err *err) {
    const ph_shape *a = &from->value[out].shape, *b = &to->value[in].shape;
    ph_dim          last_a = a->dim[a->rank - 1], last_b = b->dim[b->rank - 1];
    char            text_a[64], text_b[64];
    if (a->rank && b->rank && !memcmp(&last_a, &last_b, sizeof last_a)) return PH_OK;
    ph_shape_print(a, text_a, sizeof text_a);
    ph_shape_print(b, text_b, sizeof text_b);
    return PH_FAIL(err, PH_EMISMATCH, "the %s part makes '%s' of %s, and the %s part takes '%s' of %s",
                   from->name, from->value[out].name, text_a, to->name, to->value[in].name, text_b);
}

static ph_rc check_seams(const ph_session *s, ph_err *err) {
    const ph_model *m = s->model;
    if (s->embed) PH_TRY(check_seam(s->embed, s->embedded, s->language, s->embedded_in, err));
    if (!m->vision) return PH_OK;
    if (s->features >= 0 && s->bridge_in >= 0)
        PH_TRY(check_seam(m->vision, s->features, m->bridge, s->bridge_in, err));
    if (s->visual_out < 0 || s->visual_in < 0) return PH_OK;
    return check_seam(m->bridge, s->visual_out, s->language, s->visual_in, err);
}

/* Of the language graph, once it is cut. */
static void find_language(ph_session *s) {
    const ph_graph *language = s->language;
    s->ids = ph_graph_find(s->embed ? s->embed : language, "ids");
    s->rows = ph_graph_find(language, "rows");
    s->out_rows = ph_graph_find(language, "out_rows");
    s->visual_rows = ph_graph_find(language, "visual_rows");
    s->visual_in = ph_graph_find(language, "visual");
    s->logits = ph_graph_find(language, s->model->spec.embed.d ? "embedding" : "logits");
    s->cross_seen = ph_graph_find(language, "cross_seen");
    s->positions = ph_graph_find(language, "positions");
    s->inject_in = ph_graph_find(language, PH_INJECT_FEATURES);
    s->inject_rows = ph_graph_find(language, PH_INJECT_ROWS);
}

/* Of the others, and what follows from the model alone: placing leans on them. */
static void find_others(ph_session *s) {
    const ph_model *m = s->model;
    s->n_out = (size_t)(m->spec.embed.d ? m->spec.embed.d : m->spec.text.vocab);
    s->cross_visual = m->cross ? ph_graph_find(m->cross, "visual") : -1;
    s->cross_rows = m->cross ? ph_graph_find(m->cross, "rows") : -1;
    s->tile_ids = -1;
    s->d_visual = (size_t)m->spec.text.d_model;
    s->pixels = s->features = s->bridge_in = s->visual_out = -1;
    s->patches = s->patch_rows = s->segments = s->windows = s->order = -1;
    if (!m->vision) return;
    s->pixels = ph_graph_find(m->vision, m->spec.n_mels ? "mels" : "pixels");
    s->tile_floats = 1;
    for (int i = 1; s->pixels >= 0 && i < m->vision->value[s->pixels].shape.rank; i++)
        s->tile_floats *= (size_t)m->vision->value[s->pixels].shape.dim[i].mul;
    s->features = ph_graph_find(m->vision, "features");
    s->bridge_in = ph_graph_find(m->bridge, "features");
    s->visual_out = ph_graph_find(m->bridge, "visual");
    s->tile_ids = ph_graph_find(m->vision, "tile_ids");
    if (m->cross) s->d_visual = (size_t)m->spec.cross.d_in;
    if (m->spec.embed.d) s->d_visual = (size_t)m->spec.embed.d;
    if (!m->spec.packed.merge) return;
    s->patches = ph_graph_find(m->vision, "patches");
    s->patch_rows = ph_graph_find(m->vision, "rows");
    s->segments = ph_graph_find(m->vision, "segments");
    s->windows = ph_graph_find(m->vision, "windows");
    s->order = ph_graph_find(m->bridge, "order");
}

/* A picture that is larger than planned is still one run; what fits in the context bounds it. */
static int64_t most_patches(const ph_session *s) {
    int64_t merge = s->model->spec.packed.merge, most = merge * merge * s->how.context;
    return most > s->how.patches ? most : s->how.patches;
}

const ph_graph *ph_part_graph(const ph_model *m, ph_part part) {
    const ph_graph *const all[PH_N_PARTS] = {[PH_PART_VISION] = m->vision,
                                             [PH_PART_BRIDGE] = m->bridge,
                                             [PH_PART_LANGUAGE] = m->language,
                                             [PH_PART_CROSS] = m->cross};
    return all[part];
}

void ph_part_most(const ph_session *s, ph_part part, ph_syms *most) {
    *most = (ph_syms){{0}};
    if (ph_part_sees(part)) {
        most->at[PH_SYM_I] = s->how.tiles;
        most->at[PH_SYM_N] = most_patches(s);
        return;
    }
    most->at[PH_SYM_R] = s->how.chunk;
    if (part == PH_PART_CROSS) return;
    most->at[PH_SYM_V] = s->how.chunk;
    most->at[PH_SYM_S] = s->how.all_logits ? s->how.chunk : s->how.sequences;
    if (ph_graph_find(s->model->language, PH_INJECT_FEATURES) >= 0)
        most->at[PH_SYM_N] = (int64_t)ph_inject_rows(s);
}

static ph_rc compile_all(ph_session *s, ph_err *err) {
    static const ph_part order[PH_N_PARTS] = {PH_PART_EMBED, PH_PART_LANGUAGE, PH_PART_VISION, PH_PART_BRIDGE,
                                              PH_PART_CROSS};
    for (int i = 0; i < PH_N_PARTS; i++)
        if (graph_of(s, order[i])) PH_TRY(compile(s, order[i], err));
    return PH_OK;
}

/* One crew, or one a side where both run at a time. */
static ph_rc open_crews(ph_session *s, ph_err *err) {
    const ph_session_options *h = &s->how;
    if (!h->beside) return ph_threads_open(&s->threads, working(h), err);
    int rest = working(h) - h->see_threads;
    PH_TRY(ph_threads_open(&s->see_threads, h->see_threads, err));
    return ph_threads_open(&s->threads, rest < 1 ? 1 : rest, err);
}

static ph_rc cache_specs(ph_session *s, ph_err *err) {
    const ph_model *m = s->model;
    s->kv_spec = (ph_kv_spec){.layer = m->kv_layer,
                              .n_layers = m->n_kv_layers,
                              .n_sequences = s->how.sequences,
                              .context = s->how.context,
                              .tokens = (size_t)s->how.context * (size_t)s->how.sequences,
                              .dtype = s->how.kv_dtype,
                              .rows = s->how.chunk};
    if (!m->cross) return PH_OK;
    size_t most = ph_cross_capacity(s);
    if (most > INT32_MAX / (size_t)s->how.sequences)
        return PH_FAIL(err, PH_ELIMIT, "%zu visual tokens in each of %d sequences", most, s->how.sequences);
    s->cross_spec = s->kv_spec;
    s->cross_spec.layer = m->cross_layer;
    s->cross_spec.n_layers = m->n_cross_layers;
    /* Rows begin and end anywhere in it, and it is filled anew for other pictures: by token only. */
    if (ph_kv_is_settled(s->how.kv_dtype)) s->cross_spec.dtype = PH_Q8_0;
    s->cross_spec.context = (int)most;
    s->cross_spec.tokens = most * (size_t)s->how.sequences;
    return PH_OK;
}

/* All but memory: what a plan needs. */
static ph_rc ready(ph_session *s, const ph_model *m, const ph_session_options *o, ph_err *err) {
    unsigned features;
    s->model = m;
    PH_TRY(resolve(s, o, err));
    say_changes(s, o);
    PH_TRY(ph_kernels_features(s->how.isa, &features, err));
    ph_kernels_init(&s->kernels, features);
    s->isa = ph_kernels_isa(features);
    PH_TRY(open_crews(s, err));
    PH_TRY(ph_trace_open(&s->trace, s->how.trace_spans ? s->how.trace_spans : 4096, err));
    s->language = m->language;
    s->embedded = s->embedded_in = -1;
    find_others(s);
    PH_TRY(cache_specs(s, err));
    PH_TRY(ph_session_place(s, err));
    PH_TRY(cut_language(s, err));
    find_language(s);
    PH_TRY(check_seams(s, err));
    PH_TRY(ph_inject_check(s, err));
    return compile_all(s, err);
}

static void close_ready(ph_session *s) {
    for (int i = 0; i < PH_N_PARTS; i++) {
        if (s->part[i].program) s->part[i].engine->def->close_program(s->part[i].program);
        free(s->part[i].tap);
    }
    for (int i = 0; i < PH_N_PARTS; i++) {
        ph_engine *e = s->engine[i];
        for (int j = i; j < PH_N_PARTS; j++)
            if (s->engine[j] == e) s->engine[j] = NULL;
        if (e) e->def->close(e);
    }
    ph_graph_close(s->embed);
    ph_graph_close(s->rest);
    ph_threads_close(s->threads);
    ph_threads_close(s->see_threads);
    ph_trace_close(s->trace);
}

ph_rc ph_session_plan_route(const ph_model *m, const ph_session_options *o, ph_plan *out, ph_route *route,
                            ph_err *err) {
    ph_session *s = calloc(1, sizeof *s);
    if (!s) return PH_FAIL(err, PH_ENOMEM, "a session's tables");
    s->is_plan_only = 1;
    ph_rc rc = ready(s, m, o, err);
    if (!rc) rc = ph_session_predict(s, NULL, out, err);
    if (!rc) *route = s->route;
    close_ready(s);
    free(s);
    return rc;
}

ph_rc ph_session_plan(const ph_model *m, const ph_session_options *o, ph_plan *out, ph_err *err) {
    ph_route route;
    return ph_session_plan_route(m, o, out, &route, err);
}

/* What compiling brought to light may be more than what was planned to choose by. */
static ph_rc check_budget(const ph_session *s, ph_err *err) {
    if (!s->route.n_parts || !s->how.memory_max || s->plan.peak.total <= s->how.memory_max) return PH_OK;
    return PH_FAIL(err, PH_EBUDGET, "the parts as they were placed take %zu bytes, %llu are given",
                   s->plan.peak.total, (unsigned long long)s->how.memory_max);
}

static ph_rc room(ph_session *s, ph_err *err) {
    size_t see = 0, language = 0, bytes;
    for (int i = 0; i < PH_N_PARTS; i++) {
        ph_need need;
        if (!s->part[i].program) continue;
        PH_TRY(s->part[i].engine->def->need(s->part[i].program, &s->part[i].max, &need, &bytes, err));
        bytes = ph_round_up(bytes, PH_ALIGN);
        if (i == PH_PART_CROSS && bytes > s->scratch_bytes) s->scratch_bytes = bytes;
        size_t *phase = ph_part_sees(i) ? &see : &language;
        if (i != PH_PART_CROSS && ph_add_over(*phase, bytes, phase))
            return PH_FAIL(err, PH_ELIMIT, "the %s part wants more memory than an address can name",
                           s->part[i].graph->name);
    }
    if (s->how.beside) PH_TRY(ph_region_open(&s->see_scratch, see, err));
    if (!s->how.beside && see > s->scratch_bytes) s->scratch_bytes = see;
    if (language > s->scratch_bytes) s->scratch_bytes = language;
    PH_TRY(ph_region_open(&s->scratch, s->scratch_bytes, err));
    if (ph_inject_gathered_bytes(s)) PH_TRY(ph_region_open(&s->gathered, ph_inject_gathered_bytes(s), err));
    PH_TRY(ph_kv_open(&s->kv, &s->kv_spec, err));
    return s->model->cross ? ph_kv_open(&s->cross, &s->cross_spec, err) : PH_OK;
}

ph_rc ph_session_open(ph_session **out, const ph_model *m, const ph_session_options *o, ph_err *err) {
    ph_session *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return PH_FAIL(err, PH_ENOMEM, "a session's tables");
    ph_rc rc = ready(s, m, o, err);
    if (!rc) rc = ph_session_predict(s, NULL, &s->plan, err);
    if (!rc) rc = check_budget(s, err);
    if (!rc) rc = room(s, err);
    if (rc) {
        ph_session_close(s);
        return rc;
    }
    say_opened(s);
    *out = s;
    return PH_OK;
}

void ph_session_close(ph_session *s) {
    if (!s) return;
    close_ready(s);
    ph_kv_close(s->kv);
    if (s->cross) ph_kv_close(s->cross);
    ph_region_close(&s->scratch);
    ph_region_close(&s->see_scratch);
    ph_region_close(&s->gathered);
    free(s);
}

static int fits(const ph_syms *small, const ph_syms *large) {
    for (int i = 0; i < PH_N_SYMS; i++)
        if (small->at[i] > large->at[i]) return 0;
    return 1;
}

ph_rc ph_part_ready(ph_session *s, ph_part part, const ph_syms *syms, ph_err *err) {
    ph_ready                   *r = &s->part[part];
    const struct ph_engine_def *def = r->engine->def;
    const ph_region            *scratch = s->how.beside && ph_part_sees(part) ? &s->see_scratch : &s->scratch;
    ph_bind                     b = {.memory = scratch->at, .bytes = scratch->bytes};
    ph_need                     need;
    size_t                      before = 0;
    if (r->is_bound && fits(syms, &r->bound)) return PH_OK;
    if (part == PH_PART_BRIDGE || (part == PH_PART_LANGUAGE && s->embed)) {
        /* Stands behind the program of which it reads what it made. */
        ph_ready *v = &s->part[part == PH_PART_BRIDGE ? PH_PART_VISION : PH_PART_EMBED];
        PH_TRY(v->engine->def->need(v->program, &v->max, &need, &before, err));
        before = ph_round_up(before, PH_ALIGN);
        b.memory = (unsigned char *)scratch->at + before;
        b.bytes -= before;
    }
    if (part == PH_PART_LANGUAGE) b.kv = s->kv;
    b.cross = s->cross;
    PH_TRY(def->bind(r->program, syms, &b, err));
    r->bound = *syms;
    r->is_bound = 1;
    return PH_OK;
}

ph_rc ph_part_run(ph_session *s, ph_part part, const ph_syms *syms, const atomic_int *cancel, ph_err *err) {
    ph_ready    *r = &s->part[part];
    ph_until     until = {.cancel = cancel};
    ph_run_state state;
    PH_TRY(r->engine->def->run(r->program, syms, cancel ? &until : NULL, &state, err));
    if (state == PH_RUN_DONE) return PH_OK;
    r->engine->def->reset(r->program);
    return PH_FAIL(err, PH_ECANCEL, "cancelled while running the %s graph", r->graph->name);
}

const char *ph_session_engine(const ph_session *s, const char *graph) {
    for (int i = 0; i < PH_N_PARTS; i++)
        if (s->part[i].program && !strcmp(s->part[i].graph->name, graph)) return s->engine_name[i];
    return NULL;
}

/* Of a part that was left to the router, what it says. */
static void say_why(const ph_session *s, ph_part part, ph_place *out) {
    if (s->engine_absent[part][0]) snprintf(out->why, sizeof out->why, PH_STANDS_IN, s->engine_absent[part]);
    for (size_t i = 0; i < s->route.n_parts; i++)
        if (!strcmp(s->route.part[i].name, out->part))
            memcpy(out->why, s->route.part[i].why, sizeof out->why);
}

size_t ph_session_places(const ph_session *s, ph_place out[PH_PLACES_MAX]) {
    static const struct {
        ph_part     part;
        const char *name;
    } shown[PH_PLACES_MAX] = {{PH_PART_VISION, "vision"},
                              {PH_PART_BRIDGE, "bridge"},
                              {PH_PART_EMBED, "embed"},
                              {PH_PART_LANGUAGE, "language"}};
    size_t n = 0;
    for (size_t i = 0; i < PH_PLACES_MAX; i++) {
        if (!s->part[shown[i].part].program) continue;
        ph_place *p = &out[n++];
        *p = (ph_place){.part = shown[i].name};
        snprintf(p->engine, sizeof p->engine, "%s", s->engine_name[shown[i].part]);
        say_why(s, shown[i].part, p);
    }
    return n;
}

static const ph_ready *ready_of(const ph_session *s, const char *graph) {
    for (int i = 0; i < PH_N_PARTS; i++)
        if (s->part[i].program && !strcmp(s->part[i].graph->name, graph)) return &s->part[i];
    return NULL;
}

ph_rc ph_session_profile(ph_session *s, const char *graph, ph_err *err) {
    const ph_ready *r = ready_of(s, graph);
    if (!r) return PH_FAIL(err, PH_EUSAGE, "this model has no graph '%s'", graph);
    return r->engine->def->profile ? r->engine->def->profile(r->program, err) : PH_OK;
}

size_t ph_session_holds(const ph_session *s, const char *graph) {
    const ph_ready *r = ready_of(s, graph);
    return r && r->engine->def->holds ? r->engine->def->holds(r->engine) : 0;
}

const ph_route *ph_session_route(const ph_session *s) {
    return s->route.n_parts ? &s->route : NULL;
}

const ph_plan *ph_session_plan_of(const ph_session *s) {
    return &s->plan;
}
ph_trace *ph_session_trace(ph_session *s) {
    return s->trace;
}
uint64_t ph_session_barriers(const ph_session *s) {
    return ph_threads_barriers(s->threads) + (s->see_threads ? ph_threads_barriers(s->see_threads) : 0);
}
int ph_session_beside(const ph_session *s) {
    return s->how.beside;
}
int ph_session_ahead(const ph_session *s) {
    return s->how.ahead;
}
int ph_session_threads(const ph_session *s, int is_seeing) {
    return ph_threads_count(crew_of(s, is_seeing ? PH_PART_VISION : PH_PART_LANGUAGE));
}

size_t ph_session_features_rows(const ph_session *s) {
    if (!s->model->vision) return 0;
    return s->model->cross ? ph_cross_capacity(s) : (size_t)s->how.context;
}
size_t ph_session_features_bytes(const ph_session *s) {
    return ph_session_features_rows(s) * s->d_visual * sizeof(float);
}

ph_rc ph_session_weights(const ph_session *s, int is_seeing, size_t *out, ph_err *err) {
    *out = 0;
    for (int i = 0; i < PH_N_PARTS; i++) {
        ph_need need = {0};
        if (!s->part[i].program || ph_part_sees(i) != !!is_seeing) continue;
        PH_TRY(ph_engine_weigh(s->part[i].graph, &need, err));
        *out += need.weights;
    }
    return PH_OK;
}
const char *ph_session_isa(const ph_session *s) {
    return s->isa;
}
