/* convert.h - checkpoints from one container to another, and weights into block types or int8.
 *
 *     Hugging Face directory ─┐            ┌─► .gguf (+ the vision part's own), or one carrying the directory
 *     .gguf (+ mmproj)       ─┼─ convert ──┼─► Hugging Face directory
 *     bundle                 ─┘            └─► bundle: one sealed file (formats/bundle.h)
 *
 * Weights stream: a few megabytes are held, whatever the model's size.  Nothing
 * is lost on the way: what the other container has no place for (names and types
 * of tensors, the small JSON files) rides along in keys of its own, and a
 * conversion back restores it.  Whatever the type allows comes back byte for byte.
 *
 * int8 has scales beside the weights, so it goes into a directory or a file that carries one, whatever names
 * the family has in GGUF.
 *
 * Recipes: recipe.h.
 */
#ifndef PH_CONVERT_CONVERT_H
#define PH_CONVERT_CONVERT_H

#include "base/err.h"
#include "convert/recipe.h"

#include <stddef.h>
#include <stdint.h>

/* Under which names tensors go into a GGUF file. */
typedef enum ph_convert_names {
    PH_CONVERT_NAMES_AUTO, /* the field's where it has them for the whole model, else Hugging Face's */
    PH_CONVERT_NAMES_GGUF, /* the field's, or refuse */
    PH_CONVERT_NAMES_HF    /* Hugging Face's: one file that carries the directory (formats/carried.h) */
} ph_convert_names;

typedef struct ph_convert {
    const char *in, *mmproj;      /* as -m and --mmproj; mmproj NULL: none */
    const char *out;              /* a .gguf, or a directory that is made if it is not there */
    const char *mmproj_out;       /* NULL: "mmproj-" in front of out's name */
    int         to_gguf;          /* else a Hugging Face directory */
    int         is_bundle;        /* with to_gguf: one sealed file with all parts, and the plan of memory for
                                   * `threads` */
    ph_convert_names       names; /* of a GGUF file made from a directory, or from a file that carries one */
    const ph_recipe_types *types;
    const char            *recipe;      /* the file that types came from, never written to; NULL: none */
    uint64_t               shard_bytes; /* of safetensors; 0: one file */
    int                    is_bare;     /* leave out what only serves the way back */
    int                    threads;     /* at least 1 */
    /* Told when a tensor is done; may be NULL. */
    void (*say)(void *arg, size_t done, size_t n, const char *name);
    void *say_arg;
} ph_convert;

typedef struct ph_convert_report {
    size_t tensors, bytes_in, bytes_out;
    size_t fell_back; /* tensors that cannot have the type asked for: rows of no whole blocks, mostly */
    char   fell_back_first[128]; /* the first of them */
    int    pre_unknown;      /* no name in GGUF for how this tokenizer splits: others will split otherwise */
    char   mmproj_out[4096]; /* where the vision part went; "" none */
    int    is_carried;       /* tensors kept Hugging Face's names */
    char   carried_why[256]; /* what had no name, if that was not asked for; "" */
} ph_convert_report;

/* Errors: those of opening, of the family (with names GGUF: what has none there), of writing; PH_EUSAGE block
 * types or names for safetensors, Hugging Face names for a file that has others, int8 under GGUF's names,
 * mmproj, mmproj_out or is_bare where nothing would come of them;
 * PH_EUNSUP int8 of a file that has these, or of more of a model that is quantised already; PH_EFORMAT,
 * PH_EUNSUP a number that the type asked for cannot hold. */
ph_rc ph_convert_run(const ph_convert *c, ph_convert_report *report, ph_err *err);

#endif
