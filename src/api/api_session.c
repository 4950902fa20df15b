/* api_session.c - sessions, and the plan of what they will hold. */
#include "api/api.h"

#include <stdlib.h>

_Static_assert((int)PINHOLE_LEVEL_DEBUG == (int)PH_LOG_DEBUG && (int)PINHOLE_LEVEL_ERROR == (int)PH_LOG_ERROR,
               "levels");

/* By pinhole_kv. */
static const ph_dtype kv_of[] = {PH_F32, PH_F16, PH_BF16, PH_Q8_0, PH_Q4_1};
_Static_assert(PINHOLE_KV_Q4_1 + 1 == sizeof kv_of / sizeof *kv_of, "a dtype for each pinhole_kv");

static ph_rc not_negative(int value, const char *name, ph_err *err) {
    if (value >= 0) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE, "pinhole_session_options.%s is %d; 0 is the default", name, value);
}

ph_rc ph_api_session_options(const pinhole_session_options *o, ph_session_options *out, ph_err *err) {
    PH_TRY(not_negative(o->threads, "threads", err));
    PH_TRY(not_negative(o->context, "context", err));
    PH_TRY(not_negative(o->chunk, "chunk", err));
    PH_TRY(not_negative(o->tiles, "tiles", err));
    PH_TRY(not_negative(o->conversations, "conversations", err));
    PH_TRY(not_negative(o->images, "images", err));
    PH_TRY(not_negative(o->image_width, "image_width", err));
    PH_TRY(not_negative(o->image_height, "image_height", err));
    PH_TRY(not_negative(o->image_min_tokens, "image_min_tokens", err));
    PH_TRY(not_negative(o->image_max_tokens, "image_max_tokens", err));
    if (o->kv < 0 || o->kv >= (int)(sizeof kv_of / sizeof *kv_of))
        return PH_FAIL(err, PH_EUSAGE, "pinhole_session_options.kv is %d, which is no pinhole_kv", o->kv);
    if (o->alpha != PINHOLE_ALPHA_WHITE && o->alpha != PINHOLE_ALPHA_DROP)
        return PH_FAIL(err, PH_EUSAGE, "pinhole_session_options.alpha is %d, which is no pinhole_alpha",
                       o->alpha);
    *out = (ph_session_options){.threads = o->threads,
                                .context = o->context,
                                .sequences = o->conversations,
                                .chunk = o->chunk,
                                .tiles = o->tiles,
                                .images = o->images,
                                .image_width = o->image_width,
                                .image_height = o->image_height,
                                .image_min_tokens = o->image_min_tokens,
                                .image_max_tokens = o->image_max_tokens,
                                .kv_dtype = kv_of[o->kv],
                                .isa = o->isa,
                                .engine_vision = o->engine_vision,
                                .engine_language = o->engine_language,
                                .engine_embed = o->engine_embed,
                                .pixels_max = o->pixels_max,
                                .alpha = o->alpha == PINHOLE_ALPHA_DROP ? PH_ALPHA_DROP : PH_ALPHA_COMPOSITE};
    return PH_OK;
}

pinhole_memory ph_api_memory(const ph_memory *m) {
    return (pinhole_memory){.total = m->total,
                            .input = m->input,
                            .activations = m->activations,
                            .weights = m->weights,
                            .engine = m->engine,
                            .reserve = m->reserve,
                            .pools = m->pools,
                            .kv = m->kv,
                            .tokenizer = m->tokenizer,
                            .base = m->base};
}

ph_rc ph_api_plan(const ph_plan *p, pinhole_plan *out, ph_err *err) {
    const pinhole_plan known = {.context = p->load.context,
                                .conversations = p->load.sequences,
                                .images = p->load.images,
                                .tiles = p->load.tiles,
                                .chunk = p->load.chunk,
                                .threads = p->load.threads,
                                .peak_phase = ph_phase_name[p->peak_phase],
                                .peak = ph_api_memory(&p->peak),
                                .load = ph_api_memory(&p->phase[PH_PHASE_LOAD]),
                                .see = ph_api_memory(&p->phase[PH_PHASE_SEE]),
                                .prefill = ph_api_memory(&p->phase[PH_PHASE_PREFILL]),
                                .step = ph_api_memory(&p->phase[PH_PHASE_STEP])};
    return ph_api_give(out, &known, sizeof known, "pinhole_plan", err);
}

static ph_rc plan_memory(const pinhole_model *model, const pinhole_session_options *options,
                         pinhole_plan *plan, ph_err *err) {
    pinhole_session_options o;
    ph_session_options      how;
    ph_plan                 p;
    PH_API_WANT(model);
    PH_API_WANT(plan);
    PH_TRY(ph_api_take(&o, sizeof o, options, "pinhole_session_options", err));
    PH_TRY(ph_api_session_options(&o, &how, err));
    PH_TRY(ph_session_plan(model->opened, &how, &p, err));
    return ph_api_plan(&p, plan, err);
}

int pinhole_plan_memory(const pinhole_model *model, const pinhole_session_options *options,
                        pinhole_plan *plan, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(plan_memory(model, options, plan, &err), &err, error);
}

/* ---- sessions ---- */

static void say(void *arg, ph_log_level level, const char *line) {
    const pinhole_session *s = arg;
    s->say(s->say_arg, (pinhole_level)level, line);
}

static ph_rc open_session(pinhole_session **out, pinhole_model *model, const pinhole_session_options *options,
                          ph_err *err) {
    pinhole_session_options o;
    ph_session_options      how;
    PH_TRY(ph_api_take(&o, sizeof o, options, "pinhole_session_options", err));
    PH_TRY(ph_api_session_options(&o, &how, err));
    pinhole_session *s = calloc(1, sizeof *s);
    if (!s) return PH_FAIL(err, PH_ENOMEM, "a session's handle");
    s->say = o.log;
    s->say_arg = o.log_arg;
    if (o.log) s->log = (ph_log){.write = say, .arg = s, .most = (ph_log_level)o.log_most};
    how.log = &s->log;
    ph_rc rc = ph_session_open(&s->running, model->opened, &how, err);
    if (rc) {
        free(s);
        return rc;
    }
    atomic_init(&s->n_users, 1);
    atomic_init(&s->is_busy, 0);
    atomic_fetch_add(&model->n_users, 1);
    s->model = model;
    *out = s;
    return PH_OK;
}

static ph_rc check_open(pinhole_session **session, const pinhole_model *model, ph_err *err) {
    PH_API_WANT(session);
    *session = NULL;
    PH_API_WANT(model);
    return PH_OK;
}

int pinhole_session_open(pinhole_session **session, pinhole_model *model,
                         const pinhole_session_options *options, pinhole_error *error) {
    ph_err err = {0};
    ph_rc  rc = check_open(session, model, &err);
    if (!rc) rc = open_session(session, model, options, &err);
    return ph_api_end(rc, &err, error);
}

void ph_api_session_give(pinhole_session *s) {
    if (!s || atomic_fetch_sub(&s->n_users, 1) != 1) return;
    ph_session_close(s->running);
    ph_api_model_give(s->model);
    free(s);
}

void pinhole_session_close(pinhole_session *session) {
    ph_api_session_give(session);
}

static ph_rc plan_of(const pinhole_session *session, pinhole_plan *plan, ph_err *err) {
    PH_API_WANT(session);
    PH_API_WANT(plan);
    return ph_api_plan(ph_session_plan_of(session->running), plan, err);
}

int pinhole_session_plan(const pinhole_session *session, pinhole_plan *plan, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(plan_of(session, plan, &err), &err, error);
}

const char *pinhole_session_isa(const pinhole_session *session) {
    return session ? ph_session_isa(session->running) : "";
}

ph_rc ph_api_enter(pinhole_session *s, ph_err *err) {
    if (!atomic_exchange(&s->is_busy, 1)) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE,
                   "this session is answering already: wait for its answer, or open another session on the "
                   "same model");
}

void ph_api_leave(pinhole_session *s) {
    atomic_store(&s->is_busy, 0);
}
