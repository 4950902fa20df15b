/* hfdir.c - opens a Hugging Face model directory.
 *
 * A table says which document or file stands under which name.  Files that are
 * not there stay zeroed; a file that is there and broken is an error, since
 * answering with half a configuration would be worse.
 */
#include "formats/hfdir.h"
#include "formats/container.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t      at; /* offset of the ph_json_doc within ph_hfdir */
} documents[] = {
    {"config.json", offsetof(ph_hfdir, config)},
    {"generation_config.json", offsetof(ph_hfdir, generation)},
    {"tokenizer_config.json", offsetof(ph_hfdir, tokenizer_config)},
    {"special_tokens_map.json", offsetof(ph_hfdir, special_tokens_map)},
    {"added_tokens.json", offsetof(ph_hfdir, added_tokens)},
    {"preprocessor_config.json", offsetof(ph_hfdir, preprocessor)},
    {"processor_config.json", offsetof(ph_hfdir, processor)},
    {"video_preprocessor_config.json", offsetof(ph_hfdir, video_preprocessor)},
    {"chat_template.json", offsetof(ph_hfdir, chat_template_doc)},
};

/* Of two lines with one place, the first that is there counts. */
static const struct {
    const char *name;
    size_t      at; /* offset of the ph_file within ph_hfdir */
} files[] = {
    {"tokenizer.json", offsetof(ph_hfdir, tokenizer_json)},
    {"tokenizer.model", offsetof(ph_hfdir, tokenizer_model)},
    {"spiece.model", offsetof(ph_hfdir, tokenizer_model)},
    {"vocab.json", offsetof(ph_hfdir, vocab_json)},
    {"merges.txt", offsetof(ph_hfdir, merges_txt)},
    {"chat_template.jinja", offsetof(ph_hfdir, chat_template_jinja)},
};

enum { N_DOCUMENTS = sizeof documents / sizeof *documents, N_FILES = sizeof files / sizeof *files };

static ph_json_doc *document(ph_hfdir *d, size_t i) {
    return (ph_json_doc *)(void *)((char *)d + documents[i].at);
}

static ph_file *file(ph_hfdir *d, size_t i) {
    return (ph_file *)(void *)((char *)d + files[i].at);
}

/* dir/name in the arena. */
static ph_rc join(const ph_hfdir *d, const char *name, char **out, ph_arena *arena, ph_err *err) {
    size_t n = strlen(d->path), m = strlen(name);
    void  *at;
    PH_TRY(ph_arena_carve(arena, &at, n + m + 2, 1, err));
    *out = at;
    snprintf(*out, n + m + 2, "%s/%s", d->path, name);
    return PH_OK;
}

/* dir/name in the arena, and whether such a file is there.  A link without its file is told from no file: a
 * folder of links was copied without what they point to. */
static ph_rc find(const ph_hfdir *d, const char *name, char **path, int *is_there, ph_arena *arena,
                  ph_err *err) {
    PH_TRY(join(d, name, path, arena, err));
    *is_there = ph_path_is_file(*path);
    if (*is_there || !ph_path_is_dead_link(*path)) return PH_OK;
    return PH_FAIL(err, PH_EPATH,
                   "%.200s: the link %s leads nowhere; copy the directory with what its links point to",
                   d->path, name);
}

static ph_rc open_document(ph_hfdir *d, size_t i, ph_arena *arena, ph_err *err) {
    char   *path;
    int     is_there;
    ph_file f = {0};
    PH_TRY(find(d, documents[i].name, &path, &is_there, arena, err));
    if (!is_there) return PH_OK;
    PH_TRY(ph_file_open(&f, path, err));
    ph_json_doc *doc = document(d, i);
    ph_rc        rc = ph_json_parse(doc, f.bytes, f.n, documents[i].name, err);
    ph_file_close(&f);
    ph_json root = ph_json_root(doc);
    if (!rc && ph_json_kind_of(&root) != PH_JSON_OBJECT)
        rc = PH_FAIL(err, PH_EFORMAT, "%s: expected an object, found an array", documents[i].name);
    return rc;
}

static ph_rc open_file(ph_hfdir *d, size_t i, ph_arena *arena, ph_err *err) {
    char *path;
    int   is_there;
    PH_TRY(find(d, files[i].name, &path, &is_there, arena, err));
    return file(d, i)->bytes || !is_there ? PH_OK : ph_file_open(file(d, i), path, err);
}

/* ---- the chat template ---- */

/* A text, or a list of {"name": ..., "template": ...}. */
static ph_rc take_template(ph_hfdir *d, const ph_json_doc *doc, const char *from, ph_err *err) {
    ph_json root = ph_json_root(doc), value = ph_json_get(&root, "chat_template");
    if (d->chat_template || !ph_json_has(&root, "chat_template")) return PH_OK;
    if (ph_json_kind_of(&value) == PH_JSON_ARRAY) {
        ph_json list = value, chosen = ph_json_at(&list, 0);
        for (size_t i = 0; i < ph_json_count(&list); i++) {
            const char *name = "";
            ph_json     item = ph_json_at(&list, i);
            PH_TRY(ph_json_text_or(&item, "name", "", &name, err));
            if (strcmp(name, "default") != 0) continue;
            chosen = item;
            break;
        }
        if (!ph_json_count(&list)) return PH_OK;
        value = ph_json_get(&chosen, "template");
    }
    PH_TRY(ph_json_to_text(&value, &d->chat_template, &d->chat_template_n, err));
    d->chat_template_from = from;
    return PH_OK;
}

static ph_rc find_template(ph_hfdir *d, ph_err *err) {
    if (d->chat_template_jinja.bytes) {
        d->chat_template = (const char *)d->chat_template_jinja.bytes;
        d->chat_template_n = d->chat_template_jinja.n;
        d->chat_template_from = "chat_template.jinja";
    }
    PH_TRY(take_template(d, &d->chat_template_doc, "chat_template.json", err));
    PH_TRY(take_template(d, &d->processor, "processor_config.json", err));
    return take_template(d, &d->tokenizer_config, "tokenizer_config.json", err);
}

/* ---- weights ---- */

/* What stands there instead of safetensors, so that the message can say what to do. */
static ph_rc no_weights(const ph_hfdir *d, ph_err *err) {
    char advice[128];
    if (ph_container_advise(d->path, advice, sizeof advice))
        return PH_FAIL(err, PH_EUNSUP, "%.120s: no model.safetensors, but %s", d->path, advice);
    return PH_FAIL(err, PH_EPATH,
                   "%.200s: expected model.safetensors or model.safetensors.index.json, found neither",
                   d->path);
}

static ph_rc open_weights(ph_hfdir *d, ph_arena *arena, ph_err *err) {
    /* A whole file wins over an index, as in the reference library. */
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < 2; i++) {
        char *path;
        int   is_there;
        PH_TRY(find(d, names[i], &path, &is_there, arena, err));
        if (is_there) return ph_safetensors_open(&d->weights, path, arena, err);
    }
    return no_weights(d, err);
}

/* ---- all of it ---- */

static ph_rc open_all(ph_hfdir *d, int need, ph_arena *arena, ph_err *err) {
    for (size_t i = 0; i < N_DOCUMENTS; i++) PH_TRY(open_document(d, i, arena, err));
    if (need & PH_HFDIR_CONFIG && !d->config.root)
        return PH_FAIL(err, PH_EPATH,
                       "%.200s: no config.json; expected a Hugging Face directory (config.json, "
                       "model.safetensors, tokenizer.json)",
                       d->path);
    for (size_t i = 0; i < N_FILES; i++) PH_TRY(open_file(d, i, arena, err));
    PH_TRY(find_template(d, err));
    return need & PH_HFDIR_WEIGHTS ? open_weights(d, arena, err) : PH_OK;
}

ph_rc ph_hfdir_open(ph_hfdir *d, const char *path, int need, ph_arena *arena, ph_err *err) {
    char *copy;
    *d = (ph_hfdir){0};
    if (!ph_path_is_dir(path)) return PH_FAIL(err, PH_EPATH, "%.250s: no such directory", path);
    PH_TRY(ph_arena_copy_text(arena, &copy, path, strlen(path), err));
    d->path = copy;
    ph_rc rc = open_all(d, need, arena, err);
    if (!rc) return PH_OK;
    ph_hfdir_close(d);
    return ph_note(err, rc, "while opening %.140s", path);
}

void ph_hfdir_close(ph_hfdir *d) {
    for (size_t i = 0; i < N_DOCUMENTS; i++) ph_json_close(document(d, i));
    for (size_t i = 0; i < N_FILES; i++) ph_file_close(file(d, i));
    ph_safetensors_close(&d->weights);
    *d = (ph_hfdir){0};
}
