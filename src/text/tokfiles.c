/* tokfiles.c - vocab.json and merges.txt without a tokenizer.json, and opening from files in general.
 *
 * The older pair says nothing of splits; they follow from tokenizer_class, GPT-2's where it is not known.
 * Source: transformers 4.57, convert_slow_tokenizer.py (GPT2, Qwen2, CLIP, Roberta converters).
 */
#include "text/tokenizer_tables.h"

#include "base/file.h"
#include "formats/carried.h"
#include "formats/json.h"
#include "text/pretok.h"
#include "text/tokjson.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static ph_rc vocab(ph_tok_build *b, ph_blob file, ph_err *err) {
    ph_json_doc doc = {0};
    ph_json     value;
    const char *key;
    PH_TRY(ph_json_parse(&doc, file.bytes, file.n, "vocab.json", err));
    ph_json root = ph_json_root(&doc);
    ph_rc   rc = PH_OK;
    b->n_expected = ph_json_count(&root);
    for (ph_json_iter it = ph_json_members(&root); !rc && ph_json_next(&it, &key, &value);) {
        int64_t id = 0;
        rc = ph_json_to_int(&value, &id, err);
        if (!rc) rc = ph_build_piece_put(b, id, key, strlen(key), 0, PH_TOK_MODEL, err);
    }
    ph_json_close(&doc);
    return rc ? rc : ph_build_index(b, err);
}

static ph_rc merges(ph_tok_build *b, ph_blob file, ph_err *err) {
    const char *at = file.bytes, *end = at + file.n;
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t      n = (size_t)((stop ? stop : end) - at);
        const char *space = NULL;
        if (n && at[n - 1] == '\r') n--;
        if (n && !(line == 1 && n > 8 && !memcmp(at, "#version", 8))) {
            space = memchr(at, ' ', n);
            if (!space) return PH_FAIL(err, PH_EFORMAT, "merges.txt: line %zu is no pair of pieces", line);
            size_t left = (size_t)(space - at);
            PH_TRY(ph_note(err, ph_build_merge(b, at, left, space + 1, n - left - 1, err),
                           "reading line %zu of merges.txt", line));
        }
        if (!stop) break;
        at = stop + 1;
    }
    if (!b->n_merge) return PH_FAIL(err, PH_EFORMAT, "merges.txt: no merges: no word can be encoded");
    return PH_OK;
}

static ph_rc kind(ph_tok_build *b, ph_text_op *list, int *n, ph_op_kind k, ph_err *err) {
    ph_text_op *op;
    PH_TRY(ph_build_op(b, list, n, &op, err));
    op->kind = k;
    return PH_OK;
}

static ph_rc lower_words(ph_tok_build *b, ph_err *err) {
    ph_tokenizer *t = b->t;
    ph_text_op   *op;
    ph_span_of    source;
    PH_TRY(kind(b, t->norm_op, &t->n_norm_op, PH_OP_NFC, err));
    PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
    op->kind = PH_OP_REPLACE;
    PH_TRY(ph_build_text(b, " ", 1, &op->b, err));
    PH_TRY(ph_build_text(b, "\\s+", 3, &source, err));
    PH_TRY(ph_build_pattern(b, op, source, 0, err));
    PH_TRY(kind(b, t->norm_op, &t->n_norm_op, PH_OP_LOWER, err));
    PH_TRY(ph_build_split(b, "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+",
                          PH_SPLIT_REMOVED, 1, err));
    return ph_build_bytelevel(b, 1, err);
}

static ph_rc around(ph_tok_build *b, const ph_tok_config *c, ph_err *err) {
    ph_tokenizer *t = b->t;
    int both = !strcmp(c->class_name, "CLIPTokenizer") || !strcmp(c->class_name, "RobertaTokenizer");
    if (both) return ph_build_wrap(b, t->bos, t->eos, err);
    return ph_build_wrap(b, c->add_bos == 1 ? t->bos : -1, c->add_eos == 1 ? t->eos : -1, err);
}

ph_rc ph_tokfiles_read(ph_tok_build *b, const ph_tokenizer_files *f, ph_err *err) {
    ph_tok_config c;
    ph_tokenizer *t = b->t;
    PH_TRY(ph_tokconfig_read(&c, f, err));
    if (!f->merges.bytes)
        return PH_FAIL(
            err, PH_EPATH,
            "vocab.json is there, but neither tokenizer.json nor merges.txt: no word can be encoded");
    PH_TRY(vocab(b, f->vocab, err));
    PH_TRY(merges(b, f->merges, err));
    t->model = &ph_text_model_bpe;
    t->has_decoder = 1;
    PH_TRY(kind(b, t->decode_op, &t->n_decode_op, PH_OP_BYTES, err));
    if (!strcmp(c.class_name, "CLIPTokenizer")) {
        PH_TRY(ph_build_text(b, "</w>", 4, &t->end_suffix, err));
        PH_TRY(lower_words(b, err));
        PH_TRY(ph_tokjson_end_of_word(b, err));
    } else if (!strcmp(c.class_name, "Qwen2Tokenizer")) {
        PH_TRY(kind(b, t->norm_op, &t->n_norm_op, PH_OP_NFC, err));
        PH_TRY(ph_build_split(b, ph_qwen2_split, PH_SPLIT_ISOLATED, 0, err));
        PH_TRY(ph_build_bytelevel(b, 0, err));
    } else {
        if (c.add_prefix_space == 1) {
            PH_TRY(kind(b, t->split_op, &t->n_split_op, PH_OP_PREFIX_SPACE, err));
            PH_TRY(ph_build_text(b, " ", 1, &t->split_op[t->n_split_op - 1].a, err));
        }
        PH_TRY(ph_build_bytelevel(b, 1, err));
    }
    PH_TRY(ph_tokconfig_apply(b, &c, f, err));
    t->unk_id = t->unk;
    return around(b, &c, err);
}

ph_rc ph_tokenizer_open_files(ph_tokenizer **out, const ph_tokenizer_files *f, ph_err *err) {
    ph_tok_build b;
    const char  *name = f->tokenizer_json.bytes ? "tokenizer.json"
                        : f->spm.bytes          ? "tokenizer.model"
                                                : "vocab.json";
    *out = NULL;
    if (!f->tokenizer_json.bytes && !f->spm.bytes && !f->vocab.bytes)
        return PH_FAIL(
            err, PH_EPATH,
            "no tokenizer: expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt");
    PH_TRY(ph_build_open(&b, name, err));
    ph_rc rc = f->tokenizer_json.bytes ? ph_tokjson_read(&b, f, err)
               : f->spm.bytes          ? ph_tokspm_read(&b, f, err)
                                       : ph_tokfiles_read(&b, f, err);
    if (!rc) rc = ph_tok_freeze(&b, out, err);
    ph_build_close(&b);
    return rc;
}

/* Of two files with one place, the first that is there counts. */
static const struct {
    const char *name;
    size_t      at; /* offset of the ph_blob within ph_tokenizer_files */
} files[] = {
#define PH_HF_DOCUMENT_OF_TOKENS(name, _, part) {name, offsetof(ph_tokenizer_files, part)},
#define PH_HF_FILE_OF_TOKENS(name, _, part)     {name, offsetof(ph_tokenizer_files, part)},
#include "formats/hffile.def"
};

enum { N_FILES = sizeof files / sizeof *files };

/* The file files[i], which must hold something. */
static ph_rc take_file(ph_tokenizer_files *f, int i, const ph_file *file, const char *of, ph_err *err) {
    ph_blob *into = (ph_blob *)(void *)((char *)f + files[i].at);
    if (!file->n) return PH_FAIL(err, PH_EFORMAT, "%.200s: %s is empty", of, files[i].name);
    if (!into->bytes) *into = (ph_blob){file->bytes, file->n};
    return PH_OK;
}

static ph_rc take_from_dir(ph_tokenizer_files *f, int i, ph_file *file, const char *dir, ph_err *err) {
    char path[4096];
    int  n = snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
    if (n < 0 || (size_t)n >= sizeof path) return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", dir);
    if (!ph_path_is_file(path)) return PH_OK;
    PH_TRY(ph_file_open_in(file, dir, files[i].name, err));
    return take_file(f, i, file, dir, err);
}

ph_rc ph_tokenizer_open_dir(ph_tokenizer **out, const char *dir, ph_err *err) {
    ph_file            file[N_FILES] = {{0}};
    ph_tokenizer_files f = {0};
    ph_rc              rc = PH_OK;
    *out = NULL;
    for (int i = 0; i < N_FILES && !rc; i++) rc = take_from_dir(&f, i, &file[i], dir, err);
    if (!rc) rc = ph_tokenizer_open_files(out, &f, err);
    for (int i = 0; i < N_FILES; i++) ph_file_close(&file[i]);
    return rc ? ph_note(err, rc, "while opening the tokenizer in %.120s", dir) : PH_OK;
}

ph_rc ph_tokenizer_open_carried(ph_tokenizer **out, const ph_gguf *gguf, ph_err *err) {
    ph_tokenizer_files f = {0};
    ph_rc              rc = PH_OK;
    *out = NULL;
    for (int i = 0; i < N_FILES && !rc; i++) {
        ph_file file;
        int     found;
        rc = ph_carried_file(gguf, files[i].name, &file, &found, err);
        if (!rc && found) rc = take_file(&f, i, &file, gguf->name, err);
    }
    if (!rc) rc = ph_tokenizer_open_files(out, &f, err);
    return rc ? ph_note(err, rc, "while opening the tokenizer that %.80s carries", gguf->name) : PH_OK;
}
