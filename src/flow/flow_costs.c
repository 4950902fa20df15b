/* flow_costs.c - the question that parts are placed for, and what was measured of it on this device. */
#include "flow/session.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the question ---- */

/* Visual tokens of the load's picture, tiles or patches of it. */
ph_rc ph_session_picture(const ph_session *s, ph_syms *tiles, size_t *tokens, ph_err *err) {
    const ph_model *m = s->model;
    ph_tile_layout  l;
    *tiles = (ph_syms){{0}};
    *tokens = 0;
    if (!m->vision) return PH_OK;
    if (m->spec.n_mels) {
        tiles->at[PH_SYM_I] = 1;
        *tokens = (size_t)m->spec.bridge.tokens_per_tile;
        return PH_OK;
    }
    PH_TRY(ph_recipe_layout(&l, &s->recipe, s->how.image_width, s->how.image_height, err));
    tiles->at[l.n_patches ? PH_SYM_N : PH_SYM_I] = l.n_patches ? l.n_patches : l.n_tiles;
    *tokens = (size_t)ph_spec_tokens(&m->spec, &l);
    return PH_OK;
}

ph_rc ph_session_cost_sizes(const ph_session *s, ph_syms out[PH_N_COST_STAGES], ph_err *err) {
    size_t tokens;
    PH_TRY(ph_session_picture(s, &out[PH_COST_SEE], &tokens, err));
    out[PH_COST_BRIDGE] = out[PH_COST_SEE];
    if (s->model->cross) tokens = 0; /* beside the rows */
    tokens += PH_ROUTE_TEXT_TOKENS;
    size_t most = s->how.context > 2 ? (size_t)s->how.context - 2 : 1; /* a token is answered, and one more */
    out[PH_COST_PREFILL] = out[PH_COST_STEP] = (ph_syms){{0}};
    out[PH_COST_PREFILL].at[PH_SYM_R] = (int64_t)(tokens < most ? tokens : most);
    out[PH_COST_STEP].at[PH_SYM_R] = 1;
    out[PH_COST_PREFILL].at[PH_SYM_S] = out[PH_COST_STEP].at[PH_SYM_S] = 1;
    return PH_OK;
}

ph_rc ph_session_cost_key(const ph_session *s, ph_cost_key *out, ph_err *err) {
    const ph_session_options *h = &s->how;
    const ph_graph           *g[PH_N_PARTS];
    memset(out, 0, sizeof *out);
    for (int i = 0; i < PH_N_PARTS; i++) g[i] = ph_part_graph(s->model, (ph_part)i);
    ph_cost_key_device(out, s->isa, h->threads);
    snprintf(out->options, sizeof out->options, "exact %d, rows8 %d, unfused %x, kv %s", h->is_exact,
             h->is_rows8, h->unfused, ph_dtype_name(h->kv_dtype));
    return ph_graph_fingerprint(g, PH_N_PARTS, out->model, err);
}

/* ---- measured times ---- */

static int is_same(const ph_session *s, const ph_costs *c, const char *path, const ph_cost_key *now) {
    char differs[300];
    if (ph_cost_key_same(&c->key, now, differs, sizeof differs)) return 1;
    ph_log_say(s->how.log, PH_LOG_WARN, "measured times in %s are not used: %s", path, differs);
    return 0;
}

/* A file that is damaged is an error: whoever left parts to it would not know.  One of another device or
 * version holds no times of this one. */
static ph_rc read_costs(const ph_session *s, ph_costs *c, const char *path, const ph_cost_key *now,
                        int *is_good, ph_err *err) {
    ph_err why = {0};
    ph_rc  rc = ph_costs_open(c, path, &why);
    *is_good = !rc && is_same(s, c, path, now);
    if (!rc) return PH_OK;
    if (rc == PH_EUNSUP) {
        ph_log_say(s->how.log, PH_LOG_WARN, "measured times are not used: %s", why.msg);
        return PH_OK;
    }
    if (err) *err = why;
    return ph_note(err, rc, "while reading measured times, which `pinhole profile --save-costs` makes anew");
}

ph_rc ph_session_costs(const ph_session *s, const ph_costs **out, ph_costs **owned, ph_err *err) {
    const ph_session_options *h = &s->how;
    const char               *path = h->costs;
    char                      place[4096];
    ph_cost_key               now;
    int                       is_good;
    *out = *owned = NULL;
    PH_TRY(ph_session_cost_key(s, &now, err));
    if (h->measured) {
        *out = is_same(s, h->measured, "memory", &now) ? h->measured : NULL;
        return PH_OK;
    }
    if (!path && !ph_costs_place(place, sizeof place, &now, 0, NULL) && ph_path_is_there(place)) path = place;
    if (!path) return PH_OK;
    *owned = malloc(sizeof **owned);
    if (!*owned) return PH_FAIL(err, PH_ENOMEM, "a table of %d costs", PH_COSTS_MAX);
    PH_TRY(read_costs(s, *owned, path, &now, &is_good, err));
    if (is_good) *out = *owned;
    return PH_OK;
}
