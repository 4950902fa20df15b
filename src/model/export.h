/* export.h - a checkpoint's tensors and keys under the names of the other container.
 *
 *     ph_model ──┬─ rows   each tensor: where it is, its Hugging Face name, its GGUF name, what changes
 *                ├─ keys   GGUF metadata of the language and of the vision part
 *                └─ config config.json
 *
 * The dictionaries of names.c and keys.c, walked the other way.  These files write
 * what a spec says; what only one family has stands in its file: rows of names
 * and keys, and two hooks (export_keys, export_config) that write with the
 * helpers at the end of this header.
 */
#ifndef PH_MODEL_EXPORT_H
#define PH_MODEL_EXPORT_H

#include "formats/gguf_write.h"
#include "model/model.h"

#include <jansson.h>

/* How GGUF stores a tensor otherwise than Hugging Face. */
typedef enum ph_export_turn {
    PH_EXPORT_PLAIN,
    PH_EXPORT_PAIRS,   /* rows (head, half, i) of q and k stand as (head, i, half) */
    PH_EXPORT_PLUS_ONE /* a norm's w as 1 + w */
} ph_export_turn;

/* A tensor that stands in several, `chunk` rows of each by turns (of a vector: elements):
 *
 *     whole     [a0 a1][b0 b1][a2 a3][b2 b3]     chunk 2
 *     parts     [a0 a1 a2 a3]  [b0 b1 b2 b3]     all of one shape
 *
 * Whole to parts, `from` is the whole, and the row its part `part`; else it is put together from `at`. */
enum { PH_EXPORT_PARTS_MAX = 3 };
typedef struct ph_export_parts {
    int              n, is_joined, part;
    int64_t          chunk;
    const ph_weight *at[PH_EXPORT_PARTS_MAX]; /* is_joined */
    int              rank;                    /* of what is made, with dim */
    int64_t          dim[PH_WEIGHT_RANK_MAX];
} ph_export_parts;

typedef struct ph_export_row {
    const ph_weight       *from;      /* in the opened checkpoint; of a tensor put together the first part */
    const ph_export_parts *parts;     /* NULL: as it stands */
    const char            *hf, *gguf; /* hf "": no directory has it, config.json does */
    ph_export_turn         turn;
    int                    heads;     /* PH_EXPORT_PAIRS */
    int                    is_vision; /* stands in the vision file of a GGUF pair (the bridge too) */
    int is_wide; /* read by elements elsewhere (convolution, positions): F32 in GGUF files */
} ph_export_row;

typedef struct ph_export {
    ph_export_row *row; /* [n], in a fixed order: embeddings, layers, head; vision; bridge */
    size_t         n;
    size_t         n_left_out; /* tensors that hold no parameter: position ids, rotation tables */
} ph_export;

/* Every tensor of the checkpoint; tables are carved from arena.
 * Errors: PH_EUNSUP a family that GGUF has no names for, or a tensor that the other container has no name
 * for, both named; or what GGUF files cannot say. PH_EMISMATCH parts of one tensor that differ. */
ph_rc ph_export_rows(ph_export *out, const ph_model *m, ph_arena *arena, ph_err *err);

/* Keys of the language file and of the vision file, general.architecture first; nothing of the tokenizer. */
void ph_export_text_keys(ph_gguf_meta *to, const ph_model *m);
void ph_export_vision_keys(ph_gguf_meta *to, const ph_model *m);
/* 1: these keys say how pictures, and frames of videos, are prepared; 0: only the processor's files do. */
int ph_export_recipe_is_said(const ph_model *m);
/* What rope_freqs.weight holds for a scaling that GGUF has no keys for: [n] divisors, n = dim / 2.
 * 0: the model needs none. */
size_t ph_export_rope_freqs(const ph_model *m, float *out, size_t max);

/* config.json from what is known of the model; *out is a new reference.  dtype: what its weights are stored
 * as, in PyTorch's words ("bfloat16").  Errors: PH_EUNSUP a rotation that config.json cannot say; PH_ENOMEM.
 */
ph_rc ph_export_config(json_t **out, const ph_model *m, const char *dtype, ph_err *err);
/* preprocessor_config.json; NULL for a text model, or without memory. */
json_t *ph_export_preprocessor(const ph_model *m);
/* video_preprocessor_config.json; NULL: frames are prepared as pictures are, or it takes none. */
json_t *ph_export_video_preprocessor(const ph_model *m);

/* ---- for the hooks of families ---- */

/* GGUF keys under their whole names: u32, f32, a text. */
void ph_export_put_int(ph_gguf_meta *to, const char *name, int64_t value);
void ph_export_put_real(ph_gguf_meta *to, const char *name, double value);
void ph_export_put_word(ph_gguf_meta *to, const char *name, const char *word);
/* Members of a JSON object; a real as the shortest decimal that is still this float. */
void ph_export_set_int(json_t *o, const char *name, int64_t value);
void ph_export_set_real(json_t *o, const char *name, double value);
void ph_export_set_text(json_t *o, const char *name, const char *word); /* NULL: none */
/* The id of a mark that the reference looks for beside pictures, where the tokenizer has it. */
void ph_export_set_mark(json_t *o, const ph_model *m, const char *name, const char *text);
/* An activation as configs call it. */
const char *ph_export_act_name(ph_act act);

#endif
