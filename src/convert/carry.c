/* carry.c - a Hugging Face directory under its own names: into one GGUF file that carries it, out again, and
 * with int8 matrices into another directory.
 *
 *     directory ──────┐                       ┌──► one file: tensors as they are called, small files as keys
 *     carrying file ──┴─ ph_model ── listing ─┤
 *                                             ├──► directory (int8)
 *                                             └──► directory (of a carrying file, as it was)
 *
 * For models whose parts no other program has GGUF names for, and for matrices with scales beside them.  What
 * the file says is formats/carried.h's business; what becomes of each tensor that of listing.h.
 */
#include "convert/listing.h"

#include "formats/carried.h"

#include <stdio.h>
#include <string.h>

typedef struct work {
    const ph_convert  *c;
    ph_convert_report *report;
    const ph_hfdir    *hf;
    const ph_source   *source; /* of hf; NULL: no bundle is made */
    const ph_weights  *w;      /* as the directory has them */
    ph_arena          *arena;
    ph_listing         list;
} work;

static const char config_name[] = "config.json";

/* ---- into a file ---- */

static ph_rc add_tensors(const work *w, ph_stream *s, ph_err *err) {
    void *placed;
    PH_TRY(ph_arena_zero(w->arena, &placed, w->list.all.n + 1, sizeof(ph_weight), err));
    for (size_t i = 0; i < w->list.all.n; i++) {
        const ph_listed *p = &w->list.at[i];
        ph_weight       *to = (ph_weight *)placed + i;
        PH_TRY(ph_carried_place(&w->list.all, i, to, w->arena, err));
        if (p->part) {
            PH_TRY(ph_stream_add_int8(s, to->name, &w->w->at[p->from], p->part, err));
            continue;
        }
        /* What stays is copied as what stands for it in the file; what changes is read as what it is. */
        if (!p->is_kept) to->dtype = w->w->at[p->from].dtype;
        PH_TRY(ph_stream_add(s, to->name, p->is_kept ? to->dtype : p->type, to, 0, 0, err));
    }
    return PH_OK;
}

/* Keys of a carrying file that are written anew: those of its types and of its tensors. */
static int is_written(const char *key) {
    return ph_convert_is_of_the_file(key) || !strcmp(key, PH_CARRIED_TENSORS_KEY) ||
           !strcmp(key, PH_CARRIED_SHAPES_KEY);
}

static ph_rc put_keys(const work *w, ph_gguf_meta *meta, const ph_stream *s, ph_err *err) {
    const ph_gguf        *g = w->hf->carrier;
    const ph_int8_config *config = &w->list.config;
    char                  key[128];
    ph_carried_key(key, config_name);
    for (size_t i = 0; g && i < g->n_kv; i++)
        if (config->text && !strcmp(g->kv[i].key, key))
            ph_gguf_put_text(meta, key, config->text, config->n);
        else if (!is_written(g->kv[i].key))
            ph_gguf_put_copy(meta, &g->kv[i]);
    if (!g) {
        ph_gguf_put_text(meta, "general.architecture", PH_CARRIED_ARCHITECTURE,
                         strlen(PH_CARRIED_ARCHITECTURE));
        ph_convert_put_name(meta, w->c->in);
        PH_TRY(ph_convert_put_originals(meta, w->hf, NULL, config, err));
    }
    ph_convert_put_type(meta, s);
    return ph_carried_put_lines(meta, w->list.all.at, w->list.was, w->list.all.n, err);
}

static ph_rc write_file(const work *w, ph_err *err) {
    const ph_gguf *g = w->hf->carrier;
    ph_gguf_meta   meta = {.alignment = g ? (uint32_t)g->alignment : 0};
    ph_stream      s = {0};
    ph_rc          rc = ph_stream_open(&s, w->c, w->report, w->list.all.n + 1, w->arena, err);
    s.source = w->source;
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
    w.source = &m->source;
    report->is_carried = 1;
    PH_TRY(ph_listing_make(&w.list, c, report, m, arena, err));
    return write_file(&w, err);
}

/* ---- into a directory ---- */

/* The small files; config->text stands for config.json, if there is one. */
static ph_rc put_carried(const ph_convert *c, const ph_hfdir *hf, const ph_int8_config *config, ph_err *err) {
    for (size_t i = 0; ph_hfdir_files[i]; i++) {
        const char *name = ph_hfdir_files[i];
        ph_file     f;
        int         found;
        if (config && config->text && !strcmp(name, config_name)) continue;
        PH_TRY(ph_hfdir_take(hf, name, &f, &found, err));
        if (found) PH_TRY(ph_convert_put_bytes(c->out, name, f.bytes, f.n, err));
    }
    return PH_OK;
}

static ph_rc put_listed(const ph_convert *c, const ph_stream *s, const void *arg, ph_err *err) {
    const work           *w = arg;
    const ph_int8_config *config = &w->list.config;
    (void)s;
    if (w->hf->carrier)
        PH_TRY(put_carried(c, w->hf, config, err));
    else
        PH_TRY(ph_convert_put_folder(c, config->text ? config_name : NULL, err));
    return config->text ? ph_convert_put_bytes(c->out, config_name, config->text, config->n, err) : PH_OK;
}

static ph_rc write_dir(work *w, const ph_model *m, ph_err *err) {
    ph_stream s = {0};
    PH_TRY(ph_listing_make(&w->list, w->c, w->report, m, w->arena, err));
    ph_rc rc = ph_stream_open(&s, w->c, w->report, w->list.all.n, w->arena, err);
    for (size_t i = 0; i < w->list.all.n && !rc; i++) {
        const ph_listed *p = &w->list.at[i];
        const ph_weight *from = &w->w->at[p->from];
        const char      *name = w->list.all.at[i].name;
        rc = p->part ? ph_stream_add_int8(&s, name, from, p->part, err)
                     : ph_stream_add(&s, name, p->type, from, 0, 0, err);
    }
    if (!rc) rc = ph_convert_write_dir(&s, put_listed, w, err);
    ph_stream_close(&s);
    return rc;
}

ph_rc ph_convert_int8_to_hf(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    ph_model *m;
    ph_arena  arena = {0};
    PH_TRY(ph_model_open(&m, c->in, NULL, err));
    work  w = {.c = c, .report = report, .hf = &m->source.hf, .w = ph_source_weights(&m->source)};
    ph_rc rc = m->source.is_gguf ? ph_convert_no_int8(c, err) : PH_OK;
    if (!rc) rc = ph_arena_open_growing(&arena, 64 << 10, err);
    w.arena = &arena;
    if (!rc) rc = write_dir(&w, m, err);
    ph_arena_close(&arena);
    ph_model_close(m);
    return rc;
}

/* As it was. */
static ph_rc put_files(const ph_convert *c, const ph_stream *s, const void *arg, ph_err *err) {
    (void)s;
    return put_carried(c, arg, NULL, err);
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
