/* recipe.h - which type each tensor gets.
 *
 *     pattern = type           a line a rule; the first that matches a tensor's name counts
 *     { "pattern": "type" }    the same as a JSON object, in its order
 *
 * A pattern is matched against the whole name as the written file has it; "*" is
 * any text, "?" any character.  A type is one of dtype.def, "int8", or "keep".  "#"
 * begins a comment.
 *
 *     # the output decides words, so it gets more bits
 *     output.weight     = q8_0
 *     blk.0.*           = q6_k
 *     *ffn_down.weight  = q5_k
 *
 * int8 is bytes with a scale a row in a tensor beside them (tensor/storage_channels.c), so only what Linears
 * multiply by can have it, under Hugging Face's names: "model.vision_model.* = int8".
 */
#ifndef PH_CONVERT_RECIPE_H
#define PH_CONVERT_RECIPE_H

#include "base/arena.h"
#include "base/err.h"
#include "formats/weights.h"

#include <stddef.h>

/* int8 as a type to write: nothing else is ever made I8. */
#define PH_RECIPE_INT8 PH_I8

typedef struct ph_recipe_rule {
    const char *pattern; /* in the arena */
    int         is_keep;
    ph_dtype    type;
} ph_recipe_rule;

typedef struct ph_recipe_types {
    const ph_recipe_rule *rule; /* [n] */
    size_t                n;
    size_t               *met;         /* [n] tensors whose name each rule matches, so far; or NULL */
    int                   has_type;    /* 0: what no rule names stays as it is stored */
    ph_dtype              type;        /* for everything else that is a matrix */
    int                   is_quantize; /* raise the output's type, as the field does, when `type` is coarse */
} ph_recipe_types;

/* Rules from bytes[n]; name begins messages.  Errors: PH_EFORMAT a line that is none (with its number);
 * PH_EUNSUP a type that is not known or only read (lists those that are written); PH_ELIMIT. */
ph_rc ph_recipe_types_read(ph_recipe_types *out, const void *bytes, size_t n, const char *name,
                           ph_arena *arena, ph_err *err);
/* A type by name, one that can be written.  Errors: PH_EUNSUP, listing them. */
ph_rc ph_recipe_type(const char *name, ph_dtype *out, ph_err *err);

int ph_recipe_has_int8(const ph_recipe_types *r); /* for everything else, or by a rule */

int ph_recipe_matches(const char *pattern, const char *name);

/* A tensor that may be written: each rule that matches its name is counted in `met`. */
void ph_recipe_meet(const ph_recipe_types *r, const char *name);
/* The first rule from `from` on that matched nothing so far; n: there is none, or they are not counted. */
size_t ph_recipe_unmet(const ph_recipe_types *r, size_t from);

/* What is known of a tensor that is to be written. */
typedef struct ph_recipe_ask {
    const char *name;
    ph_dtype    stored;
    int         rank;
    int64_t     row;       /* elements of a row */
    int         is_gguf;   /* it stands in a GGUF file already, so as it is stored will do */
    int         is_wide;   /* must stay F32 when it is converted at all */
    int         is_output; /* the head, or the table that serves as one */
} ph_recipe_ask;

/* The type to write; *fell_back: another than was asked for, since a row is no whole number of blocks.  Of
 * vectors, and unless a rule says so of the output, int8 leaves what is stored. */
ph_dtype ph_recipe_choose(const ph_recipe_types *r, const ph_recipe_ask *ask, int *fell_back);

#endif
