/* to_hf.c - writes Hugging Face directories: of GGUF files, or of another directory.
 *
 *     GGUF (+ mmproj) ── export.h: rows ── names, types, files as they once were ──► directory
 *                                          else: names of the family, config from the spec,
 *                                          tokenizer.json from the lists
 *     GGUF that carries a directory ── carry.c: as it was ──► directory
 *
 * Tensors of a file that we wrote get the type that they had; of any other file a
 * matrix keeps a plain type, and a block type becomes F32, in which it is exact.
 */
#include "convert/stream.h"
#include "convert/use.h"

#include "base/file.h"
#include "formats/carried.h"
#include "model/export.h"
#include "text/tokexport.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct work {
    const ph_convert  *c;
    ph_convert_report *report;
    ph_model          *m;
    ph_arena           arena;
    ph_export          rows;
} work;

/* ---- small files ---- */

ph_rc ph_convert_put_bytes(const char *dir, const char *name, const void *bytes, size_t n, ph_err *err) {
    char         path[4096];
    ph_part_file f;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", dir);
    PH_TRY(ph_part_open(&f, path, err));
    if (n) fwrite(bytes, 1, n, f.to); /* an empty file has no bytes to point at */
    return ph_part_close(&f, PH_OK, err);
}

/* Takes the reference. */
static ph_rc put_json(const char *dir, const char *name, json_t *o, ph_err *err) {
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(o);
    if (!text) return PH_FAIL(err, PH_ENOMEM, "%s", name);
    ph_rc rc = ph_convert_put_bytes(dir, name, text, strlen(text), err);
    free(text);
    return rc;
}

/* The file that came along; *found says whether there is one. */
static ph_rc put_original(const work *w, const char *name, int *found, ph_err *err) {
    ph_file f;
    PH_TRY(ph_carried_file(&w->m->source.gguf, name, &f, found, err));
    return *found ? ph_convert_put_bytes(w->c->out, name, f.bytes, f.n, err) : PH_OK;
}

static ph_rc put_tokenizer(const work *w, ph_err *err) {
    json_t *tokenizer = NULL, *config = NULL;
    PH_TRY(ph_tokenizer_to_json(w->m->tokenizer, &tokenizer, err));
    PH_TRY(put_json(w->c->out, "tokenizer.json", tokenizer, err));
    PH_TRY(ph_tokenizer_config_to_json(w->m->tokenizer, w->m->spec.text.context, &config, err));
    return put_json(w->c->out, "tokenizer_config.json", config, err);
}

static ph_rc put_generation(const work *w, ph_err *err) {
    json_t *eos = json_array();
    for (int i = 0; i < w->m->spec.n_eos; i++) json_array_append_new(eos, json_integer(w->m->spec.eos[i]));
    json_t *o = json_pack("{so}", "eos_token_id", eos);
    if (w->m->spec.bos >= 0) json_object_set_new(o, "bos_token_id", json_integer(w->m->spec.bos));
    return put_json(w->c->out, "generation_config.json", o, err);
}

/* What configs call the type that most of the weights have. */
static const char *dtype_word(const ph_stream *s) {
    size_t bytes[3] = {0};
    for (size_t i = 0; i < s->n; i++)
        bytes[s->to[i].dtype == PH_F16 ? 1 : s->to[i].dtype == PH_BF16 ? 2 : 0] += s->to[i].n_bytes;
    if (bytes[1] > bytes[0] && bytes[1] > bytes[2]) return "float16";
    return bytes[2] > bytes[0] ? "bfloat16" : "float32";
}

/* From what is known of the model, where nothing came along. */
static ph_rc put_made(const work *w, const ph_stream *s, int has_config, int has_tokenizer, ph_err *err) {
    json_t *config = NULL, *video;
    if (!has_config) {
        PH_TRY(ph_export_config(&config, w->m, dtype_word(s), err));
        PH_TRY(put_json(w->c->out, "config.json", config, err));
        PH_TRY(put_generation(w, err));
        if (w->m->spec.has_vision && !w->m->source.hf.preprocessor.root)
            PH_TRY(put_json(w->c->out, "preprocessor_config.json", ph_export_preprocessor(w->m), err));
        if (!w->m->source.hf.video_preprocessor.root && (video = ph_export_video_preprocessor(w->m)))
            PH_TRY(put_json(w->c->out, "video_preprocessor_config.json", video, err));
    }
    return has_tokenizer ? PH_OK : put_tokenizer(w, err);
}

static ph_rc put_files(const work *w, const ph_stream *s, ph_err *err) {
    int          has_config = 0, has_tokenizer = 0, found;
    ph_gguf_text template_;
    for (size_t i = 0; ph_hfdir_files[i]; i++) {
        const char *name = ph_hfdir_files[i];
        PH_TRY(put_original(w, name, &found, err));
        has_config |= found && !strcmp(name, "config.json");
        has_tokenizer |= found && (strstr(name, ".model") || !strcmp(name, "tokenizer.json") ||
                                   !strcmp(name, "merges.txt"));
    }
    if (!has_config && ph_gguf_find(&w->m->source.gguf, "tokenizer.chat_template")) {
        PH_TRY(ph_gguf_text_of(&w->m->source.gguf, "tokenizer.chat_template", &template_, err));
        PH_TRY(ph_convert_put_bytes(w->c->out, "chat_template.jinja", template_.at, template_.n, err));
    }
    return put_made(w, s, has_config, has_tokenizer, err);
}

/* ---- tensors ---- */

/* "BF16 model.norm.weight" for each tensor of one of our files; walked once, kept by index. */
typedef struct past {
    ph_gguf_text     *line; /* [n] NULL: none */
    const ph_weights *of;
} past;

static ph_rc read_past(const ph_gguf *g, past *out, ph_arena *arena, ph_err *err) {
    const ph_gguf_kv *kv = ph_gguf_find(g, PH_CARRIED_TENSORS_KEY);
    void             *lines;
    *out = (past){.of = &g->weights};
    if (!kv || kv->type != PH_GGUF_TEXT || kv->count != g->weights.n) return PH_OK;
    PH_TRY(ph_arena_zero(arena, &lines, kv->count + 1, sizeof *out->line, err));
    out->line = lines;
    size_t        i = 0;
    ph_gguf_text  text;
    ph_gguf_texts it = ph_gguf_texts_of(kv);
    while (ph_gguf_next(&it, &text)) out->line[i++] = text;
    return PH_OK;
}

/* The type and name that a tensor had; 0: not known. */
static int recall(const past *p, const ph_weight *from, ph_dtype *type, const char **name, ph_arena *arena) {
    char        *copy;
    ph_gguf_text once, line = p->line ? p->line[from - p->of->at] : (ph_gguf_text){0};
    if (!ph_carried_line(line, type, &once) || !ph_dtype_get(*type)->pack || !once.n ||
        memchr(once.at, 0, once.n) || ph_arena_copy_text(arena, &copy, once.at, once.n, NULL))
        return 0;
    *name = copy;
    return 1;
}

static ph_rc add_rows(work *w, ph_stream *s, ph_err *err) {
    past           text, vision;
    const ph_dtype plain = PH_F32;
    PH_TRY(read_past(&w->m->source.gguf, &text, &w->arena, err));
    PH_TRY(read_past(&w->m->source.mmproj, &vision, &w->arena, err));
    for (size_t i = 0; i < w->rows.n; i++) {
        const ph_export_row *r = &w->rows.row[i];
        ph_dtype             type = ph_dtype_block(r->from->dtype) == 1 ? r->from->dtype : plain;
        const char          *name = r->hf;
        (void)recall(r->is_vision ? &vision : &text, r->from, &type, &name, &w->arena);
        if (w->c->types->has_type) type = w->c->types->type;
        if (r->parts) {
            PH_TRY(ph_stream_add_parts(s, name, type, r->from, r->parts, err));
            continue;
        }
        PH_TRY(ph_stream_add(s, name, type, r->from, r->turn == PH_EXPORT_PAIRS ? -r->heads : 0,
                             r->turn == PH_EXPORT_PLUS_ONE ? -1 : 0, err));
    }
    return PH_OK;
}

static ph_rc put_all(const ph_convert *c, const ph_stream *s, const void *arg, ph_err *err) {
    work w = *(const work *)arg;
    w.c = c;
    return put_files(&w, s, err);
}

static ph_rc write_all(work *w, ph_err *err) {
    ph_stream s = {0};
    if (w->m->source.hf.carrier) return ph_convert_carried_to_hf(w->c, w->report, w->m, &w->arena, err);
    PH_TRY(ph_export_rows(&w->rows, w->m, &w->arena, err));
    ph_rc rc = ph_stream_open(&s, w->c, w->report, w->rows.n, &w->arena, err);
    if (!rc) rc = add_rows(w, &s, err);
    if (!rc) rc = ph_convert_write_dir(&s, put_all, w, err);
    ph_stream_close(&s);
    return rc;
}

ph_rc ph_convert_to_hf(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    work                   w = {.c = c, .report = report};
    const ph_model_options o = {.mmproj = c->mmproj};
    PH_TRY(ph_model_open(&w.m, c->in, &o, err));
    ph_rc rc = ph_arena_open_growing(&w.arena, 64 << 10, err);
    if (!rc) rc = write_all(&w, err);
    ph_arena_close(&w.arena);
    ph_model_close(w.m);
    return rc ? ph_note(err, rc, "while converting to %.120s", c->out) : PH_OK;
}

/* ---- from another directory: types change, names and files stay ---- */

/* All small files but the weights and their index. */
ph_rc ph_convert_put_folder(const ph_convert *c, const char *without, ph_err *err) {
    DIR  *dir = opendir(c->in);
    ph_rc rc = dir ? PH_OK : PH_FAIL(err, PH_EPATH, "cannot list %.200s: %s", c->in, strerror(errno));
    for (const struct dirent *e; !rc && (e = readdir(dir));) {
        char    path[4096];
        ph_file f = {0};
        if (ph_name_ends_with(e->d_name, ".safetensors") || ph_name_ends_with(e->d_name, ".index.json") ||
            (without && !strcmp(e->d_name, without)))
            continue;
        if (snprintf(path, sizeof path, "%s/%s", c->in, e->d_name) >= (int)sizeof path ||
            !ph_path_is_file(path))
            continue;
        rc = ph_file_open(&f, path, err);
        if (!rc) rc = ph_convert_put_bytes(c->out, e->d_name, f.bytes, f.n, err);
        ph_file_close(&f);
    }
    if (dir) closedir(dir);
    return rc;
}

static ph_rc copy_files(const ph_convert *c, const ph_stream *s, const void *arg, ph_err *err) {
    (void)s, (void)arg;
    return ph_convert_put_folder(c, NULL, err);
}

ph_dtype ph_convert_type_in_dir(const ph_convert *c, const ph_weights *all, size_t i, ph_dtype was) {
    int is_real = ph_dtype_get(was)->pack != NULL;
    return c->types->has_type && is_real && !ph_use_is_plane(all, &all->at[i]) ? c->types->type : was;
}

static ph_rc again(const ph_convert *c, ph_convert_report *report, const ph_weights *all, ph_arena *arena,
                   ph_err *err) {
    ph_stream s = {0};
    ph_rc     rc = ph_stream_open(&s, c, report, all->n, arena, err);
    for (size_t i = 0; i < all->n && !rc; i++) {
        const ph_weight *from = &all->at[i];
        ph_dtype         type = ph_convert_type_in_dir(c, all, i, from->dtype);
        rc = ph_stream_add(&s, from->name, type, from, 0, 0, err);
    }
    if (!rc) rc = ph_convert_write_dir(&s, copy_files, NULL, err);
    ph_stream_close(&s);
    return rc;
}

ph_rc ph_convert_hf_again(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    ph_hfdir d = {0};
    ph_arena arena = {0};
    PH_TRY(ph_arena_open_growing(&arena, 64 << 10, err));
    ph_rc rc = ph_hfdir_open(&d, c->in, PH_HFDIR_MODEL, &arena, err);
    if (!rc) rc = again(c, report, &d.weights.weights, &arena, err);
    ph_hfdir_close(&d);
    ph_arena_close(&arena);
    return rc;
}
