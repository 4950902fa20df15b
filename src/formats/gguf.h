/* gguf.h - metadata and tensors in GGUF, one file or split over several.
 *
 *     "GGUF", u32 version, u64 n_tensors, u64 n_kv,
 *     n_kv      x  key, u32 type, value
 *     n_tensors x  name, u32 n_dims, u64 dim[n_dims], u32 type, u64 offset
 *     padding to general.alignment, data
 *
 * Versions 2 and 3, little-endian.  Values stay in the map: a vocabulary of
 * 150,000 texts costs no memory here.  Everything is checked at opening, so
 * that the getters below cannot run past the file.
 *
 * Source: github.com/ggml-org/ggml docs/gguf.md.
 */
#ifndef PH_FORMATS_GGUF_H
#define PH_FORMATS_GGUF_H

#include "base/arena.h"
#include "base/file.h"
#include "formats/seal.h"
#include "formats/weights.h"

/* Keys under which a converted file carries the small files of the checkpoint that it came from:
 * "pinhole.original.config.json" and so on.  Other programs ignore them. */
#define PH_ORIGINAL_KEY "pinhole.original."

#define PH_GGUF_ALIGNMENT_KEY "general.alignment"

typedef enum ph_gguf_type {
    PH_GGUF_U8,
    PH_GGUF_I8,
    PH_GGUF_U16,
    PH_GGUF_I16,
    PH_GGUF_U32,
    PH_GGUF_I32,
    PH_GGUF_F32,
    PH_GGUF_BOOL,
    PH_GGUF_TEXT,
    PH_GGUF_ARRAY,
    PH_GGUF_U64,
    PH_GGUF_I64,
    PH_GGUF_F64,
    PH_GGUF_N_TYPES
} ph_gguf_type;

typedef struct ph_gguf_kv {
    const char    *key;
    ph_gguf_type   type; /* of an item: never PH_GGUF_ARRAY */
    int            is_array;
    size_t         count; /* items; 1 when no array */
    const uint8_t *at;    /* the first item, mapped, unaligned */
} ph_gguf_kv;

typedef struct ph_gguf_text {
    const char *at; /* mapped; not terminated, any bytes */
    size_t      n;
} ph_gguf_text;

typedef struct ph_gguf {
    ph_file    *files; /* [n_files], mapped; owned */
    int         n_files;
    char        name[64]; /* of the first file, for messages */
    uint32_t    version;
    size_t      alignment;
    ph_gguf_kv *kv; /* [n_kv], in file order; those of the first split */
    size_t      n_kv;
    uint32_t   *sorted; /* [n_kv] indices in order of key */
    ph_weights  weights;
    ph_seal     seal; /* of the first file; version 0: none */
} ph_gguf;

/* Open path; when it is one part of a split file, all parts.  A seal (seal.h) is held against size and head
 * before a key is read.  Tables are carved from arena (a growing one);
 * both must live as long as the weights.
 * Errors: those of ph_seal_read; PH_EPATH a file or part is missing; PH_EFORMAT what is malformed, naming
 * file, key or tensor; PH_EMISMATCH the parts disagree; PH_EUNSUP version, byte order or tensor type;
 * PH_ELIMIT counts. */
ph_rc ph_gguf_open(ph_gguf *g, const char *path, ph_arena *arena, ph_err *err);
void  ph_gguf_close(ph_gguf *g); /* accepts a zeroed one */
/* Give back the mapped pages of keys and tables, which have been read: a vocabulary takes megabytes of them.
 * All stays readable.  Advice without errors, as ph_file_forget: parts read into memory are left alone. */
void ph_gguf_forget(const ph_gguf *g);

/* kv[n], pointing into the map of another, as the keys of g.  The index is carved from arena.  Errors:
 * PH_EFORMAT a key twice. */
ph_rc ph_gguf_take_keys(ph_gguf *g, ph_gguf_kv *kv, size_t n, ph_arena *arena, ph_err *err);

/* One file in memory, not following splits.  bytes live as long as g; close frees nothing of it. */
ph_rc ph_gguf_view(ph_gguf *g, const uint8_t *bytes, size_t n, const char *name, ph_arena *arena,
                   ph_err *err);

const ph_gguf_kv *ph_gguf_find(const ph_gguf *g, const char *key); /* NULL: no such key */

/* Single values. Any integer type is an int if the value fits int64; an int is also a real.
 * Errors: PH_EFORMAT missing, or of another type, naming the key. */
ph_rc ph_gguf_int(const ph_gguf *g, const char *key, int64_t *out, ph_err *err);
ph_rc ph_gguf_real(const ph_gguf *g, const char *key, double *out, ph_err *err);
ph_rc ph_gguf_bool(const ph_gguf *g, const char *key, int *out, ph_err *err);
ph_rc ph_gguf_text_of(const ph_gguf *g, const char *key, ph_gguf_text *out, ph_err *err);
/* A count or size: an integer within min .. max, else PH_EFORMAT with the bounds. */
ph_rc ph_gguf_size(const ph_gguf *g, const char *key, int min, int max, int *out, ph_err *err);
/* The same with a fallback for a missing key; a wrong type is still an error. */
ph_rc ph_gguf_int_or(const ph_gguf *g, const char *key, int64_t fallback, int64_t *out, ph_err *err);
ph_rc ph_gguf_real_or(const ph_gguf *g, const char *key, double fallback, double *out, ph_err *err);
ph_rc ph_gguf_bool_or(const ph_gguf *g, const char *key, int fallback, int *out, ph_err *err);
ph_rc ph_gguf_size_or(const ph_gguf *g, const char *key, int min, int max, int fallback, int *out,
                      ph_err *err);
int   ph_gguf_text_is(ph_gguf_text t, const char *s); /* 1: the same bytes */

/* Items of an array (or the one value). Random access for all but texts: i < kv->count.
 * Return 0 when the item is no number of that kind or does not fit. */
int ph_gguf_item_int(const ph_gguf_kv *kv, size_t i, int64_t *out); /* booleans too */
int ph_gguf_item_real(const ph_gguf_kv *kv, size_t i, double *out);

/* Texts stand one after the other, so they are walked:
 *     for (ph_gguf_texts it = ph_gguf_texts_of(kv); ph_gguf_next(&it, &text);) ... */
typedef struct ph_gguf_texts {
    const uint8_t *at;
    size_t         left; /* items */
} ph_gguf_texts;
ph_gguf_texts ph_gguf_texts_of(const ph_gguf_kv *kv); /* none when kv is NULL or holds no texts */
int           ph_gguf_next(ph_gguf_texts *it, ph_gguf_text *out);

#endif
