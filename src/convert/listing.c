/* listing.c - chooses a type for each tensor of a directory.  See listing.h.
 *
 * What is no matrix stays as it is stored, unless a rule names it.  int8 is for what Linears multiply by and
 * nothing else reads: never for the table of pieces (other readers know no scales for one), nor by itself for
 * the head, as the tools of that format have it.
 */
#include "convert/listing.h"

#include "base/file.h"
#include "convert/use.h"

#include <stdio.h>
#include <string.h>

typedef struct work {
    ph_listing        *out;
    const ph_convert  *c;
    ph_convert_report *report;
    const ph_hfdir    *hf;
    const ph_weights  *w;   /* as the directory has them */
    unsigned          *use; /* [w->n] */
    ph_arena          *arena;
} work;

static int is_matrix(unsigned use) {
    return (use & PH_USE_MATRIX) && !(use & (PH_USE_NUMBERS | PH_USE_PLANE));
}

static int is_layers(const ph_weight *w) { /* "X.weight" of a layer that may be a Linear */
    return w->rank == 2 && ph_name_ends_with(w->name, ".weight");
}

static int may_be_int8(const ph_weight *w, unsigned use) {
    return is_matrix(use) && !(use & PH_USE_TABLE) && is_layers(w);
}

static ph_dtype was_of(const work *w, size_t i) {
    return w->hf->was ? w->hf->was[i] : w->w->at[i].dtype;
}

/* What means nothing alone and what are no real numbers stay in any case. */
static ph_listed choose(const work *w, size_t i, int *fell_back) {
    const ph_weight      *of = &w->w->at[i];
    unsigned              use = w->use[i];
    int                   is_free = is_matrix(use), may_int8 = may_be_int8(of, use);
    const ph_recipe_types rules = {.rule = w->c->types->rule, .n = w->c->types->n};
    const ph_recipe_ask   ask = {.name = of->name,
                                 .stored = w->c->to_gguf ? of->dtype : was_of(w, i),
                                 .rank = of->rank ? of->rank : 1,
                                 .row = of->rank ? of->dim[of->rank - 1] : 1,
                                 .is_gguf = 1,
                                 .is_output = (use & PH_USE_OUTPUT) != 0};
    ph_listed             out = {.from = i, .type = ask.stored, .is_kept = 1};
    *fell_back = 0;
    ph_recipe_meet(w->c->types, of->name);
    if (use & PH_USE_PLANE || !(ph_dtype_get(of->dtype)->pack || ph_dtype_block(of->dtype) > 1)) return out;
    int by_type = is_free && (may_int8 || w->c->types->type != PH_RECIPE_INT8);
    out.type = ph_recipe_choose(by_type ? w->c->types : &rules, &ask, fell_back);
    if (out.type == PH_RECIPE_INT8 && may_int8) return (ph_listed){.from = i, .part = PH_STREAM_LEVELS};
    int is_coarse = *fell_back || ph_dtype_block(out.type) > 1;
    if (out.type == PH_RECIPE_INT8 || (!is_free && is_coarse && out.type != ask.stored)) {
        out.type = ask.stored;
        *fell_back = 1;
    }
    out.is_kept = out.type == ask.stored;
    return out;
}

/* ---- the list ---- */

static void add(work *w, ph_listed p, ph_dtype type, ph_dtype was) {
    ph_weight *to = &w->out->all.at[w->out->all.n];
    *to = w->w->at[p.from];
    to->dtype = type;
    w->out->was[w->out->all.n] = was;
    w->out->at[w->out->all.n++] = p;
}

static ph_rc add_scales(work *w, ph_listed p, ph_err *err) {
    const ph_weight *of = &w->w->at[p.from];
    size_t           n = strlen(of->name), size = n + sizeof "_scale";
    void            *text;
    PH_TRY(ph_arena_zero(w->arena, &text, size, 1, err));
    snprintf(text, size, "%s_scale", of->name);
    if (ph_weights_find(w->w, text))
        return PH_FAIL(err, PH_EUNSUP,
                       "tensor %.160s cannot become int8: its _scale stands beside it already", of->name);
    p.part = PH_STREAM_SCALES;
    add(w, p, PH_F32, PH_F32);
    ph_weight *to = &w->out->all.at[w->out->all.n - 1];
    to->name = text;
    to->dim[1] = 1;
    to->n_bytes = (size_t)to->dim[0] * ph_dtype_bytes(PH_F32);
    return PH_OK;
}

static ph_rc carve(work *w, size_t n, size_t size, void *out, ph_err *err) {
    void *at;
    PH_TRY(ph_arena_zero(w->arena, &at, n, size, err));
    memcpy(out, &at, sizeof at);
    return PH_OK;
}

/* What of choice p has elements of `size` bytes in a directory. */
static ph_rc add_of_size(work *w, ph_listed p, size_t size, ph_err *err) {
    ph_dtype was = was_of(w, p.from);
    if (p.part && size == ph_dtype_bytes(PH_F32)) return add_scales(w, p, err);
    if (p.part ? size == ph_dtype_bytes(PH_I8) : !size || size == ph_dtype_bytes(was))
        add(w, p, p.part ? PH_I8 : w->w->at[p.from].dtype, p.part ? PH_I8 : was);
    return PH_OK;
}

static ph_rc list_all(work *w, size_t *n_int8, ph_err *err) {
    size_t     n = w->w->n, max = 2 * n + 1;
    ph_listed *choice;
    PH_TRY(carve(w, max, sizeof *w->out->all.at, &w->out->all.at, err));
    PH_TRY(carve(w, max, sizeof *w->out->at, &w->out->at, err));
    PH_TRY(carve(w, max, sizeof *w->out->was, &w->out->was, err));
    PH_TRY(carve(w, n + 1, sizeof *choice, &choice, err));
    *n_int8 = 0;
    for (size_t i = 0; i < n; i++) {
        int fell_back;
        choice[i] = choose(w, i, &fell_back);
        *n_int8 += choice[i].part != PH_STREAM_WHOLE;
        if (fell_back) ph_convert_note_fall_back(w->report, w->w->at[i].name);
    }
    for (size_t size = *n_int8 ? 8 : 0;; size /= 2) { /* 0: all, in their order */
        for (size_t i = 0; i < n; i++) PH_TRY(add_of_size(w, choice[i], size, err));
        if (size <= 1) break;
    }
    return ph_weights_index(&w->out->all, w->arena, err);
}

/* ---- config.json ---- */

/* Linears that stayed; of what no graph reads it is not known, and saying so of too many does no harm. */
static ph_rc list_ignored(work *w, const char ***out, size_t *n, ph_err *err) {
    PH_TRY(carve(w, w->w->n + 1, sizeof **out, out, err));
    *n = 0;
    for (size_t i = 0; i < w->w->n; i++) {
        const ph_weight *of = &w->w->at[i];
        unsigned         use = w->use[i];
        int              fell_back, is_table = (use & PH_USE_TABLE) != 0;
        char            *name;
        if (is_table && use & PH_USE_OUTPUT) (*out)[(*n)++] = "re:.*lm_head"; /* a Linear without a tensor */
        if (is_table || (use && !(use & PH_USE_MATRIX)) || !is_layers(of) || choose(w, i, &fell_back).part)
            continue;
        PH_TRY(ph_arena_copy_text(w->arena, &name, of->name, strlen(of->name) - strlen(".weight"), err));
        (*out)[(*n)++] = name;
    }
    return PH_OK;
}

static ph_rc make_config(work *w, ph_err *err) {
    ph_json      root = ph_json_root(&w->hf->config);
    const char **ignored;
    size_t       n;
    ph_file      f;
    int          found;
    if (ph_json_has(&root, "quantization_config"))
        return PH_FAIL(
            err, PH_EUNSUP,
            "config.json: quantization_config: the model is quantised already, and one file cannot "
            "describe both: make int8 of the model as it was");
    PH_TRY(list_ignored(w, &ignored, &n, err));
    PH_TRY(ph_hfdir_take(w->hf, "config.json", &f, &found, err));
    ph_rc rc = ph_int8_config_make(&w->out->config, (const char *)f.bytes, f.n, ignored, n, w->arena, err);
    ph_hfdir_give(w->hf, &f);
    return rc;
}

ph_rc ph_listing_make(ph_listing *out, const ph_convert *c, ph_convert_report *report, const ph_model *m,
                      ph_arena *arena, ph_err *err) {
    size_t n_int8;
    work   w = {.out = out,
                .c = c,
                .report = report,
                .hf = &m->source.hf,
                .w = ph_source_weights(&m->source),
                .arena = arena};
    *out = (ph_listing){0};
    PH_TRY(ph_use_find(&w.use, m, w.w, arena, err));
    PH_TRY(list_all(&w, &n_int8, err));
    return n_int8 ? make_config(&w, err) : PH_OK;
}
