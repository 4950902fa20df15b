/* tokenizer.h - text to ids and back, with the ids of the model's own trainer.
 *
 *     Hugging Face folder   tokenizer.json, or vocab.json + merges.txt ┐
 *     SentencePiece         tokenizer.model                           ├─► ph_tokenizer ─► ids ◄─► text
 *     GGUF metadata         tokenizer.ggml.*                          ┘
 *
 * A tokenizer is tables in one arena and some compiled patterns; once open it never changes, so
 * threads may share it.  Text is UTF-8; bytes that are not become U+FFFD, one for each maximal
 * ill-formed subpart.
 *
 * Control tokens ("special" ones: <|im_end|>, <s>, ...) come only from text that the caller
 * trusts, that is from a chat template.  Typed by a user they are ordinary text.
 * Added tokens that are not special are matched in any text, as their trainer did.
 */
#ifndef PH_TEXT_TOKENIZER_H
#define PH_TEXT_TOKENIZER_H

#include "base/err.h"
#include "formats/gguf.h"
#include "text/bytebuf.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_tokenizer ph_tokenizer;

typedef struct ph_blob {
    const void *bytes; /* borrowed; NULL: there is no such file */
    size_t      n;
} ph_blob;

/* The files of a Hugging Face folder.  One of tokenizer_json, spm, vocab (+ merges) must be there;
 * the first of these that is there gives the model, the others are not read. */
typedef struct ph_tokenizer_files {
    ph_blob tokenizer_json, config /* tokenizer_config.json */, special_tokens_map, added_tokens;
    ph_blob spm /* tokenizer.model */, vocab /* vocab.json */, merges /* merges.txt */;
} ph_tokenizer_files;

/* Open.  *out is NULL on failure.  Errors: PH_EFORMAT malformed (names file and key), PH_EUNSUP a kind of
 * model, normalizer, split or pattern that is not known (named), PH_ELIMIT, PH_ENOMEM; PH_EPATH from _dir
 * when no tokenizer file is there. */
ph_rc ph_tokenizer_open_dir(ph_tokenizer **out, const char *dir, ph_err *err);
ph_rc ph_tokenizer_open_files(ph_tokenizer **out, const ph_tokenizer_files *files, ph_err *err);
ph_rc ph_tokenizer_open_gguf(ph_tokenizer **out, const ph_gguf *gguf, ph_err *err); /* tokenizer.ggml.* */
/* From the files that a GGUF file carries (formats/carried.h): as _dir from their folder. */
ph_rc ph_tokenizer_open_carried(ph_tokenizer **out, const ph_gguf *gguf, ph_err *err);
void  ph_tokenizer_close(ph_tokenizer *t); /* accepts NULL */

/* Kinds of model that are read, as tokenizer.json calls them: "BPE".  NULL past the last. */
const char *ph_tokenizer_model_name(size_t i);

size_t ph_tokenizer_bytes(const ph_tokenizer *t);  /* tables and patterns, in memory of its own */
size_t ph_tokenizer_mapped(const ph_tokenizer *t); /* ready-made tables, used where they stand; 0: none */

/* --- ids --- */
int32_t ph_tokenizer_count(const ph_tokenizer *t); /* ids are 0 .. count - 1; some may be holes */
/* The piece of an id, as the model's files spell it (byte-level glyphs, U+2581); n = 0 and "" for a hole or
 * an id out of range.  Lives as long as the tokenizer; not NUL-terminated. */
const char *ph_tokenizer_piece(const ph_tokenizer *t, int32_t id, size_t *n);
int32_t     ph_tokenizer_id(const ph_tokenizer *t, const char *piece, size_t n); /* -1: no such piece */
int         ph_tokenizer_is_control(const ph_tokenizer *t, int32_t id);
int32_t     ph_tokenizer_bos(const ph_tokenizer *t); /* -1: none; so below */
int32_t     ph_tokenizer_eos(const ph_tokenizer *t);
int32_t     ph_tokenizer_pad(const ph_tokenizer *t);

/* The ids that end an answer: the tokenizer's eos and `more` (generation_config's eos_token_id may be a
 * list), without doubles, those out of range left out.  Returns how many were written, at most out_max. */
size_t ph_tokenizer_eos_set(const ph_tokenizer *t, const int64_t *more, size_t n_more, int32_t *out,
                            size_t out_max);

/* --- encode --- */
enum {
    PH_ENCODE_PLAIN = 0,
    PH_ENCODE_BEFORE = 1,  /* what the post-processor puts before a text: mostly BOS */
    PH_ENCODE_AFTER = 2,   /* and after it: EOS of some encoders */
    PH_ENCODE_SPECIAL = 3, /* both: Hugging Face's add_special_tokens=True */
    PH_ENCODE_CONTROL = 4, /* _encode only: the text is trusted, its control tokens are parsed */
    PH_ENCODE_ONCE = 8 /* BEFORE adds no id that the text itself already begins with, nor AFTER at the end */
};

/* text[n] to ids, appended to *ids.  Errors: PH_ENOMEM, PH_ELIMIT. */
ph_rc ph_tokenizer_encode(const ph_tokenizer *t, const char *text, size_t n, unsigned how, ph_ids *ids,
                          ph_err *err);

typedef enum ph_span_kind { PH_SPAN_TEXT, PH_SPAN_SLOT } ph_span_kind;

/* A prompt in pieces.  Neighbouring text spans are one text for the splits and merges; a control token is
 * recognised only where all its bytes are trusted.  A slot stands where an image's tokens will stand: it
 * separates like a control token, and is never looked for in text. */
typedef struct ph_text_span {
    ph_span_kind kind;
    const char  *bytes; /* [n], borrowed; TEXT */
    size_t       n;
    int          is_trusted; /* TEXT: written by the template, not by a user */
    int          slot;       /* SLOT: the caller's number, an image's index */
} ph_text_span;

typedef struct ph_slot_at {
    int    slot;
    size_t at; /* in front of ids[at]; equal to the count of ids at the very end */
} ph_slot_at;

/* Spans to ids, appended, with each slot's place (slots[] must have room for every SLOT span).
 * PH_ENCODE_ONCE is implied: exactly one BOS, whoever wants it. */
ph_rc ph_tokenizer_encode_spans(const ph_tokenizer *t, const ph_text_span *spans, size_t n_spans,
                                unsigned how, ph_ids *ids, ph_slot_at *slots, size_t *n_slots, ph_err *err);

/* --- decode --- */
/* ids[n] to UTF-8, appended to *text; ids out of range and holes give nothing.
 * The whole at once; text/speak.h does the same id by id. */
ph_rc ph_tokenizer_decode(const ph_tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                          ph_bytes *text, ph_err *err);
/* As above, with clean_up_tokenization_spaces given instead of taken from the configuration. */
ph_rc ph_tokenizer_decode_as(const ph_tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                             int clean_up, ph_bytes *text, ph_err *err);

#endif
