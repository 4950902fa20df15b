/* carried.h - a Hugging Face directory inside a GGUF file, for models whose parts the field has no names for.
 *
 *     general.architecture         "huggingface"
 *     tokenizer.huggingface.json   tokenizer.json
 *     pinhole.original.NAME        each other small file: config.json, chat_template.jinja ...
 *     pinhole.original.tensors     a line a tensor, in the file's order: "BF16 model.norm.weight"
 *     pinhole.original.shapes      a line a tensor: "[64, 3, 2, 14, 14]" where GGUF cannot say it,
 *                                  else empty; only in files that have such a tensor
 *     tensors                      as the directory has them, under names of at most 63 bytes
 *
 * The key names are those of a converted file (gguf.h), which has them for the way back; here a model is read
 * by them.  What GGUF has no number for stands in the whole numbers of the same size, what has more than four
 * dimensions with the first of them multiplied, a scalar as a vector of one: the lines say what each is.
 * Docs: docs/adr/0164.
 */
#ifndef PH_FORMATS_CARRIED_H
#define PH_FORMATS_CARRIED_H

#include "formats/gguf_write.h"

#define PH_CARRIED_ARCHITECTURE "huggingface"
#define PH_CARRIED_TENSORS_KEY  PH_ORIGINAL_KEY "tensors"
#define PH_CARRIED_SHAPES_KEY   PH_ORIGINAL_KEY "shapes"

enum { PH_CARRIED_NAME_MAX = 63 /* bytes of a name in the file: what the field's readers hold */ };

/* ---- reading ---- */

int ph_carried_is(const ph_gguf *g); /* by its general.architecture */

/* The bytes of the directory's file `name`, borrowed from the map (never to be closed).  *found 0: it has no
 * such file; found and bytes NULL: the file is empty.  Any GGUF file may be asked: conversions carry some
 * too. Errors: PH_EFORMAT the key holds neither text nor bytes. */
ph_rc ph_carried_file(const ph_gguf *g, const char *name, ph_file *out, int *found, ph_err *err);

/* The tensors under their full names, with the types and shapes of the directory; a tensor that has been
 * given another type since (blocks, say) has that.  was[n]: what the directory stored each as.  Bytes stay in
 * the map of g, tables are carved from arena. Errors: PH_EFORMAT the lines are missing, are not as many as
 * the tensors, do not parse or contradict what is stored; a name twice.  All name the key, most the tensor.
 */
ph_rc ph_carried_weights(const ph_gguf *g, ph_weights *out, ph_dtype **was, ph_arena *arena, ph_err *err);

/* One line of PH_CARRIED_TENSORS_KEY taken apart: a type of safetensors, and the name, borrowed and not
 * looked at.  Any GGUF file may have such lines: conversions say there what their tensors once were.  0: it
 * is none. */
int ph_carried_line(ph_gguf_text line, ph_dtype *type, ph_gguf_text *name);

/* ---- writing ---- */

/* How tensor `i` of a directory stands in the file: *to is `from` under a name of at most PH_CARRIED_NAME_MAX
 * bytes, its type and shape such as GGUF can say; the bytes are the same.  Longer names are cut to their end
 * behind a number, and differ from all others of `all`.
 * Errors: PH_EUNSUP a tensor without elements, or with no name left for it; PH_ELIMIT a name of more than
 * 1023 bytes, PH_ENOMEM. */
ph_rc ph_carried_place(const ph_weights *all, size_t i, ph_weight *to, ph_arena *arena, ph_err *err);
/* The lines of tensors and shapes: at[n] as the directory has them, was[n] (NULL: their own types).
 * Errors: PH_ELIMIT as above. */
ph_rc ph_carried_put_lines(ph_gguf_meta *to, const ph_weight *at, const ph_dtype *was, size_t n, ph_err *err);
/* One of them, into the array of texts that is open.  Errors: PH_ELIMIT as above. */
ph_rc ph_carried_put_line(ph_gguf_meta *to, ph_dtype type, const char *name, ph_err *err);
/* The key for the directory's file `name`, which must be short. */
void ph_carried_key(char out[128], const char *name);

#endif
