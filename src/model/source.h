/* source.h - an opened checkpoint before it is understood: keys and weights.
 *
 * Families read config keys under their Hugging Face names and weights under
 * logical names; this file hides whether they come from a Hugging Face
 * directory or from GGUF files (keys.c and names.c hold the dictionaries).
 * A GGUF file that carries a directory (formats/carried.h) is one: only the map
 * that its bytes are in is another.
 */
#ifndef PH_MODEL_SOURCE_H
#define PH_MODEL_SOURCE_H

#include "base/arena.h"
#include "formats/bundle.h"
#include "formats/gguf.h"
#include "formats/hfdir.h"
#include "formats/weights.h"
#include "model/spec.h"

struct ph_family;

typedef struct ph_source {
    int         is_gguf; /* keys and tensors have the field's GGUF names; 0: Hugging Face's */
    ph_hfdir    hf;      /* is_gguf 0 */
    ph_gguf     gguf;    /* the language model; is_gguf 0: the file that carries hf, if one does */
    ph_gguf     mmproj;  /* the vision part; has_mmproj */
    int         has_mmproj;
    ph_bundle   bundle; /* the file at path, of which gguf and mmproj are parts then; version 0: it is none */
    const char *type;   /* model_type, or general.architecture */
    const char *projector; /* GGUF: clip.projector_type of the vision part; else NULL */
    ph_storage  quant;     /* config.json's quantization_config: form (NULL: none), bits, group; no planes */
    const char *path;      /* as given */
    ph_arena    arena;     /* small things that live as long as the model */
    /* Which read it, as in ph_model; NULL before that is known.  Their own keys and names are asked first. */
    const struct ph_family *family, *text_family;
} ph_source;

/* Open a Hugging Face directory, or a GGUF file with the file of its vision part (NULL: none).
 * Of a bundle the data are not held against the seal yet: ph_bundle_check.
 * Errors: those of the readers; PH_EUSAGE --mmproj with a directory, a file that carries one, or a bundle;
 * PH_EMISMATCH an mmproj that is none. */
ph_rc ph_source_open(ph_source *s, const char *path, const char *mmproj, ph_err *err);
void  ph_source_close(ph_source *s);
/* What the bytes stand in: "gguf", "safetensors" or "bundle". */
const char *ph_source_container(const ph_source *s);

const ph_weights *ph_source_weights(const ph_source *s);        /* of the language model, or of everything */
const ph_weights *ph_source_vision_weights(const ph_source *s); /* GGUF: of the vision file */

/* GGUF, our own: ids of all tokens that end an answer.  The field's files name one, and tools know the
 * others. */
#define PH_STOP_KEY "pinhole.stop_token_ids"

/* GGUF: the key of a config key; "%" stands for the part's prefix. */
typedef struct ph_key_row {
    const char *group, *name, *key; /* group: as in ph_keys */
} ph_key_row;

/* A place to read keys from: a JSON object, or a GGUF with the dictionary for one part. */
typedef struct ph_keys {
    ph_json                 object;    /* HF: config.json or one of its parts */
    const ph_gguf          *gguf;      /* GGUF; else NULL */
    const char             *prefix;    /* GGUF: "llama", "clip.vision" */
    char                    group[24]; /* GGUF: the dictionary's group: "", "rope_scaling" */
    const char             *where;     /* for messages: the file's name */
    const struct ph_family *family; /* whose rows (GGUF) and defaults go before the shared; NULL: nobody's */
} ph_keys;

ph_keys ph_keys_text(const ph_source *s);   /* text_config, or the whole config; GGUF: the language model */
ph_keys ph_keys_vision(const ph_source *s); /* vision_config; GGUF: the mmproj */
ph_keys ph_keys_top(const ph_source *s);
ph_keys ph_keys_under(const ph_keys *k, const char *name); /* a nested object: "rope_scaling"; may be empty */
int     ph_keys_empty(const ph_keys *k);
const char *
ph_keys_type(const ph_keys *k); /* model_type of this object, or the GGUF architecture; NULL: none */

/* Required forms fail with PH_EFORMAT that names file and key; the `or` forms give a default when absent. */
int   ph_keys_has(const ph_keys *k, const char *name);
ph_rc ph_keys_int(const ph_keys *k, const char *name, int least, int most, int *out, ph_err *err);
ph_rc ph_keys_int_or(const ph_keys *k, const char *name, int least, int most, int otherwise, int *out,
                     ph_err *err);
ph_rc ph_keys_float_or(const ph_keys *k, const char *name, double otherwise, double *out, ph_err *err);
/* The same within least .. most, else PH_EFORMAT with the bounds (otherwise is not judged). */
ph_rc ph_keys_float_in(const ph_keys *k, const char *name, double least, double most, double otherwise,
                       double *out, ph_err *err);
/* The epsilon of a norm: 0 .. 1. */
ph_rc ph_keys_eps_or(const ph_keys *k, const char *name, double otherwise, double *out, ph_err *err);
ph_rc ph_keys_bool_or(const ph_keys *k, const char *name, int otherwise, int *out, ph_err *err);
ph_rc ph_keys_text_or(const ph_keys *k, const char *name, const char *otherwise, const char **out,
                      ph_err *err);
/* A list of whole numbers: out[max], *n of them; none when absent. */
ph_rc ph_keys_ints_or(const ph_keys *k, const char *name, int64_t *out, size_t max, size_t *n, ph_err *err);
ph_rc ph_keys_act_or(const ph_keys *k, const char *name, ph_act otherwise, ph_act *out, ph_err *err);
/* The id that stands for a visual token, under its newer name or its older one; -1: the config has none. */
ph_rc ph_keys_image_token(const ph_keys *top, int32_t *out, ph_err *err);

/* Read config.json's quantization_config into s->quant.  Errors: PH_EUNSUP a method that is not known. */
ph_rc ph_source_read_quant(ph_source *s, ph_err *err);

/* ---- weights under logical names ---- */

/* Where a part's weights are: container style and, for Hugging Face, the prefix that this checkpoint uses. */
typedef struct ph_names {
    const ph_weights *weights;
    int               is_gguf;
    const char       *prefix;      /* HF: "model.", "language_model.model.", ... */
    const char       *head_prefix; /* HF: what stands before "lm_head." */
    const ph_storage *quant; /* how layers without a plain weight are stored; NULL or without form: no such */
    int has_post_norms;      /* GGUF: post_attention_layernorm is a norm of its own, not the one before the
                              * feed-forward */
    const struct ph_family *family; /* GGUF: whose names go before names.c's; NULL: nobody's */
} ph_names;

/* The text part: the prefix among the usual ones under which embed_tokens.weight stands.
 * Errors: PH_EMISMATCH none (lists what was looked for). */
ph_rc ph_names_text(const ph_source *s, ph_names *out, ph_err *err);
ph_rc ph_names_vision(const ph_source *s, ph_names *out, ph_err *err);
ph_rc ph_names_bridge(const ph_source *s, ph_names *out, ph_err *err);
/* Tensors of the vision files that belong to none of these: names as they are, behind "" or "model."; GGUF:
 * "v." or, in older files, "model.". */
void ph_names_loose(const ph_source *s, ph_names *out);

/* For names.c: the matrix called full ("X.weight") in separate planes "X.qweight", "X.scales" ..., or with
 * scales beside it, if that is how it stands in the files; else out->form is NULL.  Errors: PH_EMISMATCH,
 * PH_EUNSUP planes that contradict the shape or each other, naming the layer. */
ph_rc ph_names_planes(const ph_names *n, const char *full, const ph_shape *shape, ph_storage *out,
                      ph_err *err);

/* The full name of logical name `name` ("layers.3.self_attn.q_proj.weight") in out. */
void             ph_names_full(const ph_names *n, const char *name, char *out, size_t size);
const ph_weight *ph_names_find(const ph_names *n, const char *name); /* or NULL */
/* The same with printf; into the graph as a weight of the given shape.  A shape that the file does not have
 * fails the graph (sticky) with PH_EMISMATCH: the tensor's name, its shape, and what the config says.
 * Value ids; -1 after a failure. */
int ph_names_weight(const ph_names *n, ph_graph *g, ph_shape shape, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* Rows [from, from + rows) of a weight of `of` rows and n_in columns: a view, nothing is copied. */
int ph_names_weight_rows(const ph_names *n, ph_graph *g, int of, int n_in, int from, int rows,
                         const char *name);
/* The same of a vector [of], whose type must not be a block type. */
int ph_names_vector_rows(const ph_names *n, ph_graph *g, int of, int from, int rows, const char *name);
/* A weight [rows, ...] of any rank as [rows, cols]: its other dimensions must multiply to cols.  Scales
 * beside it are those of the matrix. */
int ph_names_weight_flat(const ph_names *n, ph_graph *g, int rows, int cols, const char *name);
/* A vector [n] of the files with `add` added, as a constant of the graph: "name.weight" plus add. */
int ph_names_weight_plus(const ph_names *n, ph_graph *g, int length, float add, const char *name);
/* A weight of one shape in the file, seen in another with as many elements: a view.  With scales beside it,
 * there must be one for all of them, else PH_EUNSUP. */
int ph_names_weight_as(const ph_names *n, ph_graph *g, ph_shape shape, ph_shape as, const char *name);
/* tanh of a gate's numbers (one, or one a column) as a constant of the graph. */
int ph_names_weight_tanh(const ph_names *n, ph_graph *g, const char *name);
int ph_names_weight_if(const ph_names *n, ph_graph *g, int is_there, ph_shape shape, const char *name, ...)
    __attribute__((format(printf, 5, 6))); /* is_there 0: -1 without failing */

#endif
