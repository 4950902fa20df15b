/* api_model.c - models: open, describe, draw. */
#include "api/api.h"

#include "graph/modal.h"

#include <stdlib.h>
#include <string.h>

static ph_rc open_model(pinhole_model **out, const char *path, const pinhole_model_options *options,
                        ph_err *err) {
    pinhole_model_options o;
    pinhole_model        *m;
    PH_TRY(ph_api_take(&o, sizeof o, options, "pinhole_model_options", err));
    const ph_model_options how = {.mmproj = o.mmproj,
                                  .template_ = o.chat_template,
                                  .is_read_whole = o.no_mmap != 0,
                                  .is_locked = o.mlock != 0,
                                  .reads_ahead = o.read_ahead != 0,
                                  .is_trusted = o.trust != 0,
                                  .injects = o.inject != 0,
                                  .inject_layer = o.inject_layer,
                                  .inject_alpha = o.inject_alpha == 0 ? PH_INJECT_ALPHA : o.inject_alpha};
    m = calloc(1, sizeof *m);
    if (!m) return PH_FAIL(err, PH_ENOMEM, "a model's handle");
    ph_rc rc = ph_model_open(&m->opened, path, &how, err);
    if (rc) {
        free(m);
        return rc;
    }
    atomic_init(&m->n_users, 1);
    *out = m;
    return PH_OK;
}

static ph_rc check_open(pinhole_model **model, const char *path, ph_err *err) {
    PH_API_WANT(model);
    *model = NULL;
    PH_API_WANT(path);
    return PH_OK;
}

int pinhole_model_open(pinhole_model **model, const char *path, const pinhole_model_options *options,
                       pinhole_error *error) {
    ph_err err = {0};
    ph_rc  rc = check_open(model, path, &err);
    if (!rc) rc = open_model(model, path, options, &err);
    return ph_api_end(rc, &err, error);
}

void ph_api_model_give(pinhole_model *m) {
    if (!m || atomic_fetch_sub(&m->n_users, 1) != 1) return;
    ph_model_close(m->opened);
    free(m);
}

void pinhole_model_close(pinhole_model *model) {
    ph_api_model_give(model);
}

static uint64_t bytes_of(const ph_weights *w) {
    uint64_t sum = 0;
    for (size_t i = 0; i < w->n; i++) sum += w->at[i].n_bytes;
    return sum;
}

static ph_rc describe(const pinhole_model *model, pinhole_model_facts *facts, ph_err *err) {
    PH_API_WANT(model);
    PH_API_WANT(facts);
    const ph_model           *m = model->opened;
    const ph_source          *s = &m->source;
    const pinhole_model_facts known = {
        .family = m->family->name,
        .text_family = m->text_family->name,
        .container = ph_source_container(s),
        .processor = m->vision ? m->recipe.processor : NULL,
        .context = m->spec.text.context,
        .vocabulary = m->spec.text.vocab,
        .n_layers = m->spec.text.n_layers,
        .d_model = m->spec.text.d_model,
        .has_vision = m->vision != NULL,
        .tile_tokens = m->vision ? m->spec.bridge.tokens_per_tile : 0,
        .weight_bytes =
            bytes_of(ph_source_weights(s)) + (s->has_mmproj ? bytes_of(ph_source_vision_weights(s)) : 0),
    };
    return ph_api_give(facts, &known, sizeof known, "pinhole_model_facts", err);
}

int pinhole_model_describe(const pinhole_model *model, pinhole_model_facts *facts, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(describe(model, facts, &err), &err, error);
}

/* ---- the graph ---- */

typedef struct drawing {
    pinhole_sink *sink;
    void         *arg;
    int           is_over;
} drawing;

static void draw(void *to, const char *text, size_t n) {
    drawing *d = to;
    if (!d->is_over && n) d->is_over = d->sink(d->arg, text, n) != 0;
}

static ph_rc draw_graph(const pinhole_model *model, const char *name, drawing *d, ph_err *err) {
    PH_API_WANT(model);
    PH_API_WANT(name);
    pinhole_sink *sink = d->sink;
    PH_API_WANT(sink);
    const ph_graph *all[] = {model->opened->language, model->opened->vision, model->opened->bridge};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && !strcmp(all[i]->name, name)) {
            ph_graph_dot(all[i], draw, d);
            return d->is_over ? PH_FAIL(err, PH_ECANCEL, "the listener wanted no more of the graph") : PH_OK;
        }
    return PH_FAIL(err, PH_EUSAGE, "this model has no graph '%s'; it has language%s", name,
                   model->opened->vision ? ", vision and bridge" : "");
}

int pinhole_model_graph(const pinhole_model *model, const char *graph, pinhole_sink *sink, void *arg,
                        pinhole_error *error) {
    ph_err  err = {0};
    drawing d = {.sink = sink, .arg = arg};
    return ph_api_end(draw_graph(model, graph, &d, &err), &err, error);
}
