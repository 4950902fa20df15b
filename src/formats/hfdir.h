/* hfdir.h - a Hugging Face model directory: configs, tokenizer files, template, weights.
 *
 *     a folder, or a GGUF file that carries one (carried.h) ── files by name ──► ph_hfdir
 *
 * Opening parses the small JSON files and maps the large ones; what they mean
 * is the business of text/, image/ and model/.
 */
#ifndef PH_FORMATS_HFDIR_H
#define PH_FORMATS_HFDIR_H

#include "base/arena.h"
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/safetensors.h"

/* What must be there; everything else is optional. */
enum { PH_HFDIR_CONFIG = 1, PH_HFDIR_WEIGHTS = 2, PH_HFDIR_MODEL = 3 };

typedef struct ph_hfdir {
    const char    *path;    /* in arena; of the folder, or of the file that carries it */
    const ph_gguf *carrier; /* the GGUF file that carries it; NULL: a folder */
    /* A document whose root is NULL was not there. */
    ph_json_doc config;             /* config.json */
    ph_json_doc generation;         /* generation_config.json */
    ph_json_doc tokenizer_config;   /* tokenizer_config.json */
    ph_json_doc special_tokens_map; /* special_tokens_map.json */
    ph_json_doc added_tokens;       /* added_tokens.json */
    ph_json_doc preprocessor;       /* preprocessor_config.json */
    ph_json_doc processor;          /* processor_config.json */
    ph_json_doc video_preprocessor; /* video_preprocessor_config.json */
    ph_json_doc chat_template_doc;  /* chat_template.json */
    /* A file whose bytes are NULL was not there (or was empty). */
    ph_file tokenizer_json;  /* tokenizer.json, not parsed */
    ph_file tokenizer_model; /* tokenizer.model, else spiece.model */
    ph_file vocab_json;      /* vocab.json */
    ph_file merges_txt;      /* merges.txt */
    ph_file chat_template_jinja;
    /* The chat template: chat_template.jinja, else chat_template.json, else processor_config.json, else
     * tokenizer_config.json (of a list the one named "default", else the first).  NULL: none. */
    const char *chat_template;
    size_t      chat_template_n;    /* bytes */
    const char *chat_template_from; /* the file's name, static */

    ph_safetensors weights; /* with PH_HFDIR_WEIGHTS only; carried: no files, the carrier has the map */
    ph_dtype      *was;     /* carried: [weights.weights.n] what the folder stored each as; else NULL */
} ph_hfdir;

/* Open the directory at path.  `need` says what must be there; weights are opened only when asked for.
 * Tables are carved from arena (a growing one), which must live as long as the directory.
 * Errors: PH_EPATH no directory, or a needed file is missing (says which were expected, and what to do with
 * files in another format); those of JSON and safetensors, naming the file. */
ph_rc ph_hfdir_open(ph_hfdir *d, const char *path, int need, ph_arena *arena, ph_err *err);
/* The same of the directory that g carries; g lives longer, and nothing is copied out of its map but what
 * JSON takes.  Errors: PH_EFORMAT config.json is missing or a key has the wrong type; those of
 * ph_carried_weights. */
ph_rc ph_hfdir_open_carried(ph_hfdir *d, const ph_gguf *g, const char *path, ph_arena *arena, ph_err *err);
void  ph_hfdir_close(ph_hfdir *d); /* accepts a zeroed one */

/* Names of the small files that are read of a directory, and ride along when it is converted: hffile.def.
 * NULL ends. */
extern const char *const ph_hfdir_files[];

/* Any small file of it by name: one that the writer of this code chose, never one that a file names.  *found
 * 0: there is none.  Give it back with ph_hfdir_give.  Errors: PH_EPATH it cannot be read; PH_EFORMAT a
 * carrier's key that holds no bytes. */
ph_rc ph_hfdir_take(const ph_hfdir *d, const char *name, ph_file *out, int *found, ph_err *err);
void  ph_hfdir_give(const ph_hfdir *d, ph_file *f);

#endif
