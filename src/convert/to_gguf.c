/* to_gguf.c - writes GGUF files: of a Hugging Face directory, or of another GGUF file.
 *
 *     directory ─┬ export.h: rows, keys ── tokenizer ── originals ──► language file, vision file
 *                └ no names for all of it: carry.c ─────────────────► one file
 *     GGUF file ── keys as they stand ──────────────────────────────► one file, other types
 *     bundle of GGUF files ── the same of each part ────────────────► language file, vision file
 *
 * From a directory the family must be known; from a file nothing need be understood, unless it carries one.
 */
#include "convert/stream.h"

#include "formats/bundle.h"
#include "formats/carried.h"
#include "model/export.h"
#include "text/tokexport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* general.file_type of the field, by the type that most of the weights have. */
static int64_t file_type(const ph_stream *s) {
    static const struct {
        ph_dtype type;
        int      number;
    } known[] = {{PH_F32, 0},    {PH_F16, 1},     {PH_Q4_0, 2},     {PH_Q4_1, 3},    {PH_Q8_0, 7},
                 {PH_Q5_0, 8},   {PH_Q5_1, 9},    {PH_Q2_K, 10},    {PH_Q3_K, 12},   {PH_Q4_K, 15},
                 {PH_Q5_K, 17},  {PH_Q6_K, 18},   {PH_IQ2_XXS, 19}, {PH_IQ2_XS, 20}, {PH_IQ3_XXS, 23},
                 {PH_IQ1_S, 24}, {PH_IQ4_NL, 25}, {PH_IQ3_S, 26},   {PH_IQ2_S, 28},  {PH_IQ4_XS, 30},
                 {PH_IQ1_M, 31}, {PH_BF16, 32},   {PH_TQ1_0, 36},   {PH_TQ2_0, 37},  {PH_MXFP4, 38},
                 {PH_NVFP4, 39}};
    size_t best = 0, elements[sizeof known / sizeof *known] = {0};
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (s->to[i].dtype == known[k].type)
                elements[k] +=
                    s->to[i].n_bytes / ph_dtype_bytes(known[k].type) * ph_dtype_block(known[k].type);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (elements[k] > elements[best]) best = k;
    return known[best].number;
}

void ph_convert_put_type(ph_gguf_meta *meta, const ph_stream *s) {
    int64_t type = file_type(s);
    ph_gguf_put_int(meta, "general.file_type", PH_GGUF_U32, type);
    if (type > 1 && type != 32) ph_gguf_put_int(meta, "general.quantization_version", PH_GGUF_U32, 2);
}

void ph_convert_note_fall_back(ph_convert_report *report, const char *name) {
    if (!report->fell_back++) snprintf(report->fell_back_first, sizeof report->fell_back_first, "%s", name);
}

/* The type for one tensor.  Whole numbers and other types that GGUF readers do not multiply become F32. */
static ph_dtype choose(const ph_stream *s, const char *name, const ph_weight *from, int is_wide, int is_gguf,
                       int has_output) {
    int           fell_back;
    ph_recipe_ask ask = {.name = name,
                         .stored = ph_dtype_gguf(from->dtype) >= 0 ? from->dtype : PH_F32,
                         .rank = from->rank,
                         .row = from->rank ? from->dim[from->rank - 1] : 1,
                         .is_gguf = is_gguf,
                         .is_wide = is_wide,
                         .is_output = !strcmp(name, has_output ? "output.weight" : "token_embd.weight")};
    ph_dtype      type = ph_recipe_choose(s->c->types, &ask, &fell_back);
    ph_recipe_meet(s->c->types, ask.name);
    if (fell_back) ph_convert_note_fall_back(s->report, name);
    return type;
}

ph_rc ph_convert_write_gguf(ph_stream *s, const char *path, ph_gguf_meta *meta, ph_err *err) {
    ph_producer p;
    if (s->c->is_bundle) return ph_convert_write_bundle(s, path, meta, err);
    PH_TRY(ph_stream_ready(s, &p, err));
    return ph_gguf_write(path, meta, s->to, s->n, &p, err);
}

/* ---- from a directory ---- */

typedef struct work {
    const ph_convert  *c;
    ph_convert_report *report;
    ph_model          *m;
    ph_arena           arena;
    ph_export          rows;
} work;

/* A file of the directory under its key: as text, or as bytes if its name says that it is none. */
static ph_rc put_file(ph_gguf_meta *meta, const ph_hfdir *hf, const char *name, ph_err *err) {
    char    key[128];
    ph_file f;
    int     found;
    size_t  n = strlen(name);
    ph_carried_key(key, name);
    PH_TRY(ph_hfdir_take(hf, name, &f, &found, err));
    if (!found) return PH_OK;
    if (n > 6 && !strcmp(name + n - 6, ".model")) {
        ph_gguf_put_array(meta, key, PH_GGUF_U8, f.n);
        for (size_t i = 0; i < f.n; i++) ph_gguf_add_int(meta, f.bytes[i]);
    } else {
        ph_gguf_put_text(meta, key, (const char *)f.bytes, f.n);
    }
    ph_hfdir_give(hf, &f);
    return PH_OK;
}

ph_rc ph_convert_put_originals(ph_gguf_meta *meta, const ph_hfdir *hf, const char *only,
                               const ph_int8_config *config, ph_err *err) {
    for (size_t i = 0; ph_hfdir_files[i]; i++) {
        const char *name = ph_hfdir_files[i];
        char        key[128];
        if (only && !strstr(name, only)) continue;
        if (!config || !config->text || strcmp(name, "config.json")) {
            PH_TRY(put_file(meta, hf, name, err));
            continue;
        }
        ph_carried_key(key, name);
        ph_gguf_put_text(meta, key, config->text, config->n);
    }
    return PH_OK;
}

/* What each tensor of this file was called and stored as, in the file's order. */
static ph_rc put_tensor_names(const work *w, const ph_stream *s, int is_vision, ph_gguf_meta *meta,
                              ph_err *err) {
    if (w->c->is_bare) return PH_OK;
    ph_gguf_put_array(meta, PH_CARRIED_TENSORS_KEY, PH_GGUF_TEXT, s->n);
    size_t left = s->n;
    for (size_t i = 0; i < w->rows.n; i++) {
        const ph_export_row *r = &w->rows.row[i];
        if (r->is_vision != is_vision) continue;
        PH_TRY(ph_carried_put_line(meta, r->from->dtype, r->hf, err));
        left--;
    }
    while (left--) ph_gguf_add_text(meta, "", 0); /* tables that no directory has */
    return PH_OK;
}

static ph_rc put_tokenizer(work *w, ph_gguf_meta *meta, ph_err *err) {
    const ph_hfdir *hf = &w->m->source.hf;
    int             known = 1;
    ph_rc           rc = ph_tokenizer_to_gguf(w->m->tokenizer, meta, &known, err);
    w->report->pre_unknown = !known;
    if (!rc && hf->chat_template)
        ph_gguf_put_text(meta, "tokenizer.chat_template", hf->chat_template, hf->chat_template_n);
    return rc;
}

static ph_rc add_rows(const work *w, ph_stream *s, int is_vision, ph_err *err) {
    int has_output = 0;
    for (size_t i = 0; i < w->rows.n; i++) has_output |= !strcmp(w->rows.row[i].gguf, "output.weight");
    for (size_t i = 0; i < w->rows.n; i++) {
        const ph_export_row *r = &w->rows.row[i];
        if (r->is_vision != is_vision) continue;
        ph_dtype type = choose(s, r->gguf, r->from, r->is_wide, 0, has_output || is_vision);
        if (r->parts) {
            PH_TRY(ph_stream_add_parts(s, r->gguf, type, r->from, r->parts, err));
            continue;
        }
        PH_TRY(ph_stream_add(s, r->gguf, type, r->from, r->turn == PH_EXPORT_PAIRS ? r->heads : 0,
                             r->turn == PH_EXPORT_PLUS_ONE ? 1 : 0, err));
    }
    return PH_OK;
}

static ph_rc add_rope(work *w, ph_stream *s, ph_err *err) {
    void  *table;
    size_t max = (size_t)w->m->spec.text.d_head;
    PH_TRY(ph_arena_carve(&w->arena, &table, max, sizeof(float), err));
    size_t n = ph_export_rope_freqs(w->m, table, max);
    return n ? ph_stream_add_made(s, "rope_freqs.weight", table, (int64_t)n, err) : PH_OK;
}

void ph_convert_put_name(ph_gguf_meta *meta, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t at = n;
    while (at && path[at - 1] != '/') at--;
    ph_gguf_put_text(meta, "general.name", path + at, n - at);
}

static ph_rc write_part(work *w, const char *path, int is_vision, ph_err *err) {
    ph_gguf_meta meta = {0};
    ph_stream    s = {0};
    ph_rc        rc = ph_stream_open(&s, w->c, w->report, w->rows.n + 1, &w->arena, err);
    if (!rc) rc = add_rows(w, &s, is_vision, err);
    if (!rc && !is_vision) rc = add_rope(w, &s, err);
    if (!rc) {
        (is_vision ? ph_export_vision_keys : ph_export_text_keys)(&meta, w->m);
        ph_convert_put_name(&meta, w->c->in);
        ph_convert_put_type(&meta, &s);
        rc = put_tensor_names(w, &s, is_vision, &meta, err);
    }
    if (!rc && !is_vision) rc = put_tokenizer(w, &meta, err);
    /* Bare files have of the originals only what answers need: how pictures are prepared, where no key says
     * it. */
    const char *only = w->c->is_bare ? "processor_config.json" : NULL;
    if (!rc && !is_vision && !(only && ph_export_recipe_is_said(w->m)))
        rc = ph_convert_put_originals(&meta, &w->m->source.hf, only, NULL, err);
    if (!rc) rc = ph_convert_write_gguf(&s, path, &meta, err);
    ph_stream_close(&s);
    ph_gguf_meta_close(&meta);
    return rc ? ph_note(err, rc, "while writing %.120s", path) : PH_OK;
}

/* Beside the language file: "dir/mmproj-name.gguf". */
static ph_rc vision_path(const ph_convert *c, char out[4096], ph_err *err) {
    const char *slash = strrchr(c->out, '/');
    int         n_dir = slash ? (int)(slash + 1 - c->out) : 0;
    int         n = c->mmproj_out ? snprintf(out, 4096, "%s", c->mmproj_out)
                                  : snprintf(out, 4096, "%.*smmproj-%s", n_dir, c->out, c->out + n_dir);
    return n < 4096 ? PH_OK : PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", c->out);
}

/* All that has a name in GGUF: the tensors, and the tokenizer's form. */
static ph_rc find_names(work *w, ph_err *err) {
    ph_gguf_meta meta = {0};
    int          known;
    PH_TRY(ph_export_rows(&w->rows, w->m, &w->arena, err));
    ph_rc rc = ph_tokenizer_to_gguf(w->m->tokenizer, &meta, &known, err);
    ph_gguf_meta_close(&meta);
    return rc;
}

/* The field's names where there are names for all of it, else Hugging Face's: in a file that stays as it is,
 * and where matrices are to have scales beside them. */
static ph_rc choose_names(work *w, int *carries, ph_err *err) {
    int    is_carried = w->m->source.hf.carrier != NULL, has_int8 = ph_recipe_has_int8(w->c->types);
    ph_err why = {0};
    if (has_int8 && w->c->names == PH_CONVERT_NAMES_GGUF)
        return PH_FAIL(
            err, PH_EUSAGE,
            "int8 has scales beside the weights, and GGUF's names have no place for them: leave --names "
            "gguf out, or take q8_0");
    *carries = has_int8 || w->c->names == PH_CONVERT_NAMES_HF ||
               (is_carried && w->c->names == PH_CONVERT_NAMES_AUTO);
    if (*carries) return PH_OK;
    ph_rc rc = find_names(w, &why);
    *carries = rc == PH_EUNSUP && w->c->names != PH_CONVERT_NAMES_GGUF;
    if (!*carries && rc && err) *err = why;
    if (!*carries) return rc;
    snprintf(w->report->carried_why, sizeof w->report->carried_why, "%.255s", why.msg);
    return PH_OK;
}

/* Some rule of the recipe is for one of the two files. */
static ph_rc check_rows(const work *w, ph_err *err) {
    for (size_t i = 0; i < w->rows.n; i++)
        if (ph_convert_is_wanted(w->c, w->rows.row[i].gguf)) return PH_OK;
    return w->rows.n ? ph_convert_no_rule(w->c, w->rows.row[0].gguf, err) : PH_OK;
}

static ph_rc write_all(work *w, ph_err *err) {
    int carries;
    PH_TRY(choose_names(w, &carries, err));
    if (w->c->mmproj_out && (carries || !w->m->spec.has_vision))
        return PH_FAIL(err, PH_EUSAGE, "--mmproj-out %.120s: %s: leave it out", w->c->mmproj_out,
                       carries ? "the vision part stays in the one file" : "the model has no vision part");
    if (carries) return ph_convert_carry(w->c, w->report, w->m, &w->arena, err);
    PH_TRY(check_rows(w, err));
    if (w->m->spec.has_vision) {
        PH_TRY(vision_path(w->c, w->report->mmproj_out, err));
        PH_TRY(ph_convert_may_write(w->c, w->report->mmproj_out, err));
    }
    PH_TRY(write_part(w, w->c->out, 0, err));
    return w->m->spec.has_vision ? write_part(w, w->report->mmproj_out, 1, err) : PH_OK;
}

ph_rc ph_convert_to_gguf(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    work                   w = {.c = c, .report = report};
    const ph_model_options o = {.mmproj = c->mmproj};
    PH_TRY(ph_model_open(&w.m, c->in, &o, err));
    ph_rc rc = ph_arena_open_growing(&w.arena, 64 << 10, err);
    if (!rc) rc = write_all(&w, err);
    ph_arena_close(&w.arena);
    ph_model_close(w.m);
    return rc;
}

/* ---- from another GGUF file ---- */

int ph_convert_is_of_the_file(const char *key) {
    return !strcmp(key, "general.file_type") || !strcmp(key, "general.quantization_version") ||
           !strncmp(key, "split.", 6);
}

ph_rc ph_convert_add_again(ph_stream *s, const ph_gguf *g, ph_err *err) {
    int has_output = ph_weights_find(&g->weights, "output.weight") != NULL;
    for (size_t i = 0; i < g->weights.n; i++) {
        const ph_weight *from = &g->weights.at[i];
        PH_TRY(ph_stream_add(s, from->name, choose(s, from->name, from, 0, 1, has_output), from, 0, 0, err));
    }
    return PH_OK;
}

static ph_rc again(const ph_convert *c, ph_convert_report *report, const ph_gguf *g, const char *path,
                   ph_arena *arena, ph_err *err) {
    ph_gguf_meta meta = {.alignment = (uint32_t)g->alignment};
    ph_stream    s = {0};
    ph_rc        rc = ph_stream_open(&s, c, report, g->weights.n, arena, err);
    if (!rc) rc = ph_convert_add_again(&s, g, err);
    for (size_t i = 0; i < g->n_kv && !rc; i++)
        if (!ph_convert_is_of_the_file(g->kv[i].key)) ph_gguf_put_copy(&meta, &g->kv[i]);
    if (!rc) {
        if (g->alignment != 32 && !ph_gguf_find(g, PH_GGUF_ALIGNMENT_KEY)) /* a part of a bundle */
            ph_gguf_put_int(&meta, PH_GGUF_ALIGNMENT_KEY, PH_GGUF_U32, (int64_t)g->alignment);
        ph_convert_put_type(&meta, &s);
        rc = ph_convert_write_gguf(&s, path, &meta, err);
    }
    ph_stream_close(&s);
    ph_gguf_meta_close(&meta);
    return rc;
}

static ph_rc check_again(const ph_convert *c, const ph_bundle *b, ph_err *err) {
    if (c->names == PH_CONVERT_NAMES_HF)
        return PH_FAIL(
            err, PH_EUSAGE,
            "%.200s has the field's names: --names huggingface wants a directory (--to safetensors "
            "makes one)",
            c->in);
    if (c->mmproj && b->version)
        return PH_FAIL(err, PH_EUSAGE, "%.200s is a bundle, with all parts of its model: leave --mmproj out",
                       c->in);
    if (c->mmproj)
        return PH_FAIL(err, PH_EUSAGE,
                       "--mmproj goes with --to safetensors, bundle or onnx: of two .gguf files each is "
                       "converted by itself");
    if (c->is_bare)
        return PH_FAIL(err, PH_EUSAGE, "--bare goes with a directory: the keys of %.200s stay as they are",
                       c->in);
    if (c->mmproj_out && !b->has_vision)
        return PH_FAIL(err, PH_EUSAGE,
                       "--mmproj-out goes with a directory: %.200s is one file, and stays one", c->in);
    return PH_OK;
}

static int is_any_wanted(const ph_convert *c, const ph_gguf *g) {
    size_t i = 0;
    while (i < g->weights.n && !ph_convert_is_wanted(c, g->weights.at[i].name)) i++;
    return i < g->weights.n;
}

/* A bundle becomes the files that it was made of. */
static ph_rc parts_again(const ph_convert *c, ph_convert_report *report, const ph_bundle *b, const ph_gguf *g,
                         const ph_gguf *vision, ph_arena *arena, ph_err *err) {
    PH_TRY(check_again(c, b, err));
    PH_TRY(ph_bundle_check(b, err));
    if (g->weights.n && !is_any_wanted(c, g) && !(b->has_vision && is_any_wanted(c, vision)))
        return ph_convert_no_rule(c, g->weights.at[0].name, err);
    if (b->has_vision) {
        PH_TRY(vision_path(c, report->mmproj_out, err));
        PH_TRY(ph_convert_may_write(c, report->mmproj_out, err));
    }
    PH_TRY(again(c, report, g, c->out, arena, err));
    return b->has_vision ? again(c, report, vision, report->mmproj_out, arena, err) : PH_OK;
}

ph_rc ph_convert_gguf_again(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    ph_gguf   g = {0}, vision = {0};
    ph_bundle b = {0};
    ph_arena  arena = {0};
    PH_TRY(ph_arena_open_growing(&arena, 64 << 10, err));
    ph_rc rc = ph_gguf_open(&g, c->in, &arena, err);
    if (!rc) rc = ph_bundle_open(&b, &g, &vision, &arena, err);
    int is_carried = !rc && ph_carried_is(&g);
    if (!rc && !is_carried && ph_recipe_has_int8(c->types)) rc = ph_convert_no_int8(c, err);
    if (!rc && !is_carried) rc = parts_again(c, report, &b, &g, &vision, &arena, err);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
    return is_carried ? ph_convert_to_gguf(c, report, err) : rc;
}
