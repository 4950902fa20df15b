/* carry.c - a Hugging Face directory into one GGUF file that carries it, and out again.
 *
 *     directory ──────┐                    ┌──► one file: tensors under their own names, small files as keys
 *     carrying file ──┴─ ph_model ── use ──┤
 *                                          └──► directory (from a carrying file)
 *
 * For models whose parts no other program has GGUF names for.  What the file says is formats/carried.h's
 * business; which tensors may become blocks is asked of the graphs (use.h).
 */
#include "convert/stream.h"
#include "convert/use.h"

#include "formats/carried.h"

#include <stdio.h>
#include <string.h>

typedef struct work {
    const ph_convert  *c;
    ph_convert_report *report;
    const ph_hfdir    *hf;
    const ph_weights  *w;   /* as the directory has them */
    unsigned          *use; /* [w->n] */
    ph_arena          *arena;
} work;

/* ---- into a file ---- */

static int is_matrix(unsigned use) {
    return (use & PH_USE_MATRIX) && !(use & (PH_USE_NUMBERS | PH_USE_PLANE));
}

/* What is no matrix stays as it is stored, unless a rule names it; what means nothing alone and what are no
 * real numbers stay in any case. */
static ph_dtype choose(const work *w, const ph_stream *s, size_t i, const ph_weight *placed) {
    const ph_weight      *of = &w->w->at[i];
    const ph_recipe_types rules = {.rule = w->c->types->rule, .n = w->c->types->n};
    int                 fell_back, is_number = ph_dtype_get(of->dtype)->pack || ph_dtype_block(of->dtype) > 1;
    const ph_recipe_ask ask = {.name = of->name,
                               .stored = placed->dtype,
                               .rank = placed->rank,
                               .row = placed->dim[placed->rank - 1],
                               .is_gguf = 1,
                               .is_output = (w->use[i] & PH_USE_OUTPUT) != 0};
    if (w->use[i] & PH_USE_PLANE || !is_number) return placed->dtype;
    ph_dtype type = ph_recipe_choose(is_matrix(w->use[i]) ? w->c->types : &rules, &ask, &fell_back);
    if (!is_matrix(w->use[i]) && (fell_back || ph_dtype_block(type) > 1) && type != placed->dtype) {
        type = placed->dtype;
        fell_back = 1;
    }
    if (fell_back) ph_convert_note_fall_back(s, of->name);
    return type;
}

static ph_rc add_tensors(const work *w, ph_stream *s, ph_err *err) {
    void *placed;
    PH_TRY(ph_arena_zero(w->arena, &placed, w->w->n + 1, sizeof(ph_weight), err));
    for (size_t i = 0; i < w->w->n; i++) {
        ph_weight *to = (ph_weight *)placed + i;
        PH_TRY(ph_carried_place(w->w, i, to, w->arena, err));
        ph_dtype type = choose(w, s, i, to);
        /* What stays is copied as what stands for it in the file; what changes is read as what it is. */
        if (type != to->dtype) to->dtype = w->w->at[i].dtype;
        PH_TRY(ph_stream_add(s, to->name, type, to, 0, 0, err));
    }
    return PH_OK;
}

/* Keys of a carrying file that are written anew: those of its types and of its tensors. */
static int is_written(const char *key) {
    return ph_convert_is_of_the_file(key) || !strcmp(key, PH_CARRIED_TENSORS_KEY) ||
           !strcmp(key, PH_CARRIED_SHAPES_KEY);
}

static ph_rc put_keys(const work *w, ph_gguf_meta *meta, const ph_stream *s, ph_err *err) {
    const ph_gguf *g = w->hf->carrier;
    for (size_t i = 0; g && i < g->n_kv; i++)
        if (!is_written(g->kv[i].key)) ph_gguf_put_copy(meta, &g->kv[i]);
    if (!g) {
        ph_gguf_put_text(meta, "general.architecture", PH_CARRIED_ARCHITECTURE,
                         strlen(PH_CARRIED_ARCHITECTURE));
        ph_convert_put_name(meta, w->c->in);
        PH_TRY(ph_convert_put_originals(meta, w->hf, NULL, err));
    }
    ph_convert_put_type(meta, s);
    return ph_carried_put_lines(meta, w->w->at, w->hf->was, w->w->n, err);
}

static ph_rc write_file(const work *w, ph_err *err) {
    const ph_gguf *g = w->hf->carrier;
    ph_gguf_meta   meta = {.alignment = g ? (uint32_t)g->alignment : 0};
    ph_stream      s = {0};
    ph_rc          rc = ph_stream_open(&s, w->c, w->report, w->w->n, w->arena, err);
    if (!rc) rc = add_tensors(w, &s, err);
    if (!rc) rc = put_keys(w, &meta, &s, err);
    if (!rc) rc = ph_convert_write_gguf(&s, w->c->out, &meta, err);
    ph_stream_close(&s);
    ph_gguf_meta_close(&meta);
    return rc ? ph_note(err, rc, "while writing %.120s", w->c->out) : PH_OK;
}

ph_rc ph_convert_carry(const ph_convert *c, ph_convert_report *report, const ph_model *m, ph_arena *arena,
                       ph_err *err) {
    work w = {
        .c = c, .report = report, .hf = &m->source.hf, .w = ph_source_weights(&m->source), .arena = arena};
    report->is_carried = 1;
    PH_TRY(ph_use_find(&w.use, m, w.w, arena, err));
    return write_file(&w, err);
}

/* ---- out of a file ---- */

static ph_rc put_files(const ph_convert *c, const ph_stream *s, const void *arg, ph_err *err) {
    const ph_hfdir *hf = arg;
    (void)s;
    for (size_t i = 0; ph_hfdir_files[i]; i++) {
        const char *name = ph_hfdir_files[i];
        ph_file     f;
        int         found;
        PH_TRY(ph_hfdir_take(hf, name, &f, &found, err));
        if (found) PH_TRY(ph_convert_put_bytes(c->out, name, f.bytes, f.n, err));
    }
    return PH_OK;
}

ph_rc ph_convert_carried_to_hf(const ph_convert *c, ph_convert_report *report, const ph_model *m,
                               ph_arena *arena, ph_err *err) {
    const ph_hfdir   *hf = &m->source.hf;
    const ph_weights *w = ph_source_weights(&m->source);
    ph_stream         s = {0};
    ph_rc             rc = ph_stream_open(&s, c, report, w->n, arena, err);
    for (size_t i = 0; i < w->n && !rc; i++) {
        ph_dtype type = ph_convert_type_in_dir(c, w, i, hf->was[i]);
        rc = ph_stream_add(&s, w->at[i].name, type, &w->at[i], 0, 0, err);
    }
    if (!rc) rc = ph_convert_write_dir(&s, put_files, hf, err);
    ph_stream_close(&s);
    return rc;
}
