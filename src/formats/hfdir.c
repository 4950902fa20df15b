/* hfdir.c - opens a Hugging Face model directory.
 *
 * hffile.def says which document or file stands under which name.  Where their bytes
 * come from, ph_hfdir_take alone knows.  Files that are not there stay zeroed; a file that is there and
 * broken is an error, since answering with half a configuration would be worse.
 */
#include "formats/hfdir.h"

#include "formats/carried.h"
#include "formats/container.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct row {
    const char *name;
    size_t      at; /* offset within ph_hfdir */
} row;

static const row documents[] = {
#define PH_HF_DOCUMENT(name, place)              {name, offsetof(ph_hfdir, place)},
#define PH_HF_DOCUMENT_OF_TOKENS(name, place, _) {name, offsetof(ph_hfdir, place)},
#include "formats/hffile.def"
};

/* Of two lines with one place, the first that is there counts. */
static const row files[] = {
#define PH_HF_FILE(name, place)              {name, offsetof(ph_hfdir, place)},
#define PH_HF_FILE_OF_TOKENS(name, place, _) {name, offsetof(ph_hfdir, place)},
#include "formats/hffile.def"
};

const char *const ph_hfdir_files[] = {
#define PH_HF_DOCUMENT(name, place)              name,
#define PH_HF_DOCUMENT_OF_TOKENS(name, place, _) name,
#define PH_HF_FILE(name, place)                  name,
#define PH_HF_FILE_OF_TOKENS(name, place, _)     name,
#include "formats/hffile.def"
    NULL};

enum { N_DOCUMENTS = sizeof documents / sizeof *documents, N_FILES = sizeof files / sizeof *files };

static ph_json_doc *document(ph_hfdir *d, size_t i) {
    return (ph_json_doc *)(void *)((char *)d + documents[i].at);
}

static ph_file *file(ph_hfdir *d, size_t i) {
    return (ph_file *)(void *)((char *)d + files[i].at);
}

static ph_rc join(const ph_hfdir *d, const char *name, char out[4096], ph_err *err) {
    if (snprintf(out, 4096, "%s/%s", d->path, name) < 4096) return PH_OK;
    return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", d->path);
}

/* Where dir/name is, and whether such a file is there.  What is there and no file, as a pipe, is told from no
 * file; so is a link without its file: a folder of links was copied without what they point to. */
static ph_rc find(const ph_hfdir *d, const char *name, char path[4096], int *is_there, ph_err *err) {
    PH_TRY(join(d, name, path, err));
    *is_there = ph_path_is_file(path);
    if (*is_there) return PH_OK;
    if (ph_path_is_there(path))
        return PH_FAIL(err, PH_EPATH, "%.200s: %s is no regular file; put the file itself there", d->path,
                       name);
    if (!ph_path_is_dead_link(path)) return PH_OK;
    return PH_FAIL(err, PH_EPATH,
                   "%.200s: the link %s leads nowhere; copy the directory with what its links point to",
                   d->path, name);
}

ph_rc ph_hfdir_take(const ph_hfdir *d, const char *name, ph_file *out, int *found, ph_err *err) {
    char path[4096];
    *out = (ph_file){0};
    *found = 0;
    if (d->carrier) return ph_carried_file(d->carrier, name, out, found, err);
    PH_TRY(find(d, name, path, found, err));
    return *found ? ph_file_open(out, path, err) : PH_OK;
}

void ph_hfdir_give(const ph_hfdir *d, ph_file *f) {
    if (!d->carrier) ph_file_close(f); /* else it is the carrier's */
    *f = (ph_file){0};
}

static ph_rc open_document(ph_hfdir *d, size_t i, ph_err *err) {
    ph_file f;
    int     found;
    PH_TRY(ph_hfdir_take(d, documents[i].name, &f, &found, err));
    if (!found) return PH_OK;
    ph_json_doc *doc = document(d, i);
    ph_rc        rc = ph_json_parse(doc, f.bytes, f.n, documents[i].name, err);
    ph_hfdir_give(d, &f);
    ph_json root = ph_json_root(doc);
    if (!rc && ph_json_kind_of(&root) != PH_JSON_OBJECT)
        rc = PH_FAIL(err, PH_EFORMAT, "%s: expected an object, found an array", documents[i].name);
    return rc;
}

static ph_rc open_file(ph_hfdir *d, size_t i, ph_err *err) {
    int found;
    return file(d, i)->bytes ? PH_OK : ph_hfdir_take(d, files[i].name, file(d, i), &found, err);
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
    if (d->carrier) return ph_carried_weights(d->carrier, &d->weights.weights, &d->was, arena, err);
    for (size_t i = 0; i < 2; i++) {
        char path[4096];
        int  is_there;
        PH_TRY(find(d, names[i], path, &is_there, err));
        if (is_there) return ph_safetensors_open(&d->weights, path, arena, err);
    }
    return no_weights(d, err);
}

/* ---- all of it ---- */

static ph_rc no_config(const ph_hfdir *d, ph_err *err) {
    if (d->carrier)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: key " PH_ORIGINAL_KEY
                       "config.json is missing: a file of architecture " PH_CARRIED_ARCHITECTURE
                       " is read by it",
                       d->carrier->name);
    return PH_FAIL(err, PH_EPATH,
                   "%.200s: no config.json; expected a Hugging Face directory (config.json, "
                   "model.safetensors, tokenizer.json)",
                   d->path);
}

static ph_rc open_all(ph_hfdir *d, int need, ph_arena *arena, ph_err *err) {
    for (size_t i = 0; i < N_DOCUMENTS; i++) PH_TRY(open_document(d, i, err));
    if (need & PH_HFDIR_CONFIG && !d->config.root) return no_config(d, err);
    for (size_t i = 0; i < N_FILES; i++) PH_TRY(open_file(d, i, err));
    PH_TRY(find_template(d, err));
    return need & PH_HFDIR_WEIGHTS ? open_weights(d, arena, err) : PH_OK;
}

static ph_rc open_at(ph_hfdir *d, const char *path, int need, ph_arena *arena, ph_err *err) {
    char *copy;
    PH_TRY(ph_arena_copy_text(arena, &copy, path, strlen(path), err));
    d->path = copy;
    ph_rc rc = open_all(d, need, arena, err);
    if (!rc) return PH_OK;
    ph_hfdir_close(d);
    return ph_note(err, rc, "while opening %.140s", path);
}

ph_rc ph_hfdir_open(ph_hfdir *d, const char *path, int need, ph_arena *arena, ph_err *err) {
    *d = (ph_hfdir){0};
    if (!ph_path_is_dir(path)) return PH_FAIL(err, PH_EPATH, "%.250s: no such directory", path);
    return open_at(d, path, need, arena, err);
}

ph_rc ph_hfdir_open_carried(ph_hfdir *d, const ph_gguf *g, const char *path, ph_arena *arena, ph_err *err) {
    *d = (ph_hfdir){.carrier = g};
    return open_at(d, path, PH_HFDIR_MODEL, arena, err);
}

void ph_hfdir_close(ph_hfdir *d) {
    for (size_t i = 0; i < N_DOCUMENTS; i++) ph_json_close(document(d, i));
    for (size_t i = 0; i < N_FILES; i++) ph_hfdir_give(d, file(d, i));
    ph_safetensors_close(&d->weights);
    *d = (ph_hfdir){0};
}
