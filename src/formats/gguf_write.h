/* gguf_write.h - GGUF files, version 3, written in one pass.
 *
 *     ph_gguf_meta m = {0};
 *     ph_gguf_put_text(&m, "general.architecture", "llama", 5);
 *     ph_gguf_put_int(&m, "llama.block_count", PH_GGUF_U32, 30);
 *     ...
 *     ph_gguf_write(path, &m, tensors, n, &producer, err);
 *     ph_gguf_meta_close(&m);
 *
 * Keys and values are collected in memory; tensors stream.  Putting cannot fail
 * where it stands: the first failure is kept and reported by ph_gguf_write.
 *
 * Source: github.com/ggml-org/ggml docs/gguf.md.
 */
#ifndef PH_FORMATS_GGUF_WRITE_H
#define PH_FORMATS_GGUF_WRITE_H

#include "formats/gguf.h"
#include "formats/produce.h"

typedef struct ph_gguf_meta {
    uint8_t     *bytes; /* [n], keys and values as the file has them; owned */
    size_t       n, cap;
    size_t      *key; /* [n_kv] where each begins; owned */
    size_t       n_kv, kv_cap;
    uint64_t     left;      /* items that an open array still wants */
    uint32_t     alignment; /* 0: 32 */
    ph_gguf_type item;      /* of the open array */
    int          is_broken; /* 1: out of memory; 2: used wrongly; reported by write */
} ph_gguf_meta;

void ph_gguf_meta_close(ph_gguf_meta *m); /* accepts a zeroed one */
int  ph_gguf_meta_has(const ph_gguf_meta *m, const char *key);

/* Single values.  put_int: any whole-number type, or BOOL; put_real: F32 or F64. */
void ph_gguf_put_int(ph_gguf_meta *m, const char *key, ph_gguf_type type, int64_t value);
void ph_gguf_put_real(ph_gguf_meta *m, const char *key, ph_gguf_type type, double value);
void ph_gguf_put_text(ph_gguf_meta *m, const char *key, const char *text, size_t n);
/* An array: its head, then exactly count items by the calls below. */
void ph_gguf_put_array(ph_gguf_meta *m, const char *key, ph_gguf_type item, size_t count);
void ph_gguf_add_int(ph_gguf_meta *m, int64_t value);
void ph_gguf_add_real(ph_gguf_meta *m, double value);
void ph_gguf_add_text(ph_gguf_meta *m, const char *text, size_t n);
/* A key as another file has it, bit by bit. */
void ph_gguf_put_copy(ph_gguf_meta *m, const ph_gguf_kv *kv);

/* Write metadata and tensors at[n], in this order, each on the alignment; the file appears whole or not at
 * all.  Errors: PH_EBUG a key or name twice, an array not filled, n_bytes against the shape; PH_EUNSUP a type
 * that GGUF has no number for, or more than 4 dimensions; PH_EIO, PH_ENOMEM. */
ph_rc ph_gguf_write(const char *path, const ph_gguf_meta *m, const ph_weight *at, size_t n,
                    const ph_producer *p, ph_err *err);
/* The same into an open file, from its beginning; path is for messages.  sealer, or NULL, is told of all that
 * is written: the head ends where the data begin, a piece at least where a tensor and the padding behind it
 * end.  The seal itself is the caller's. */
ph_rc ph_gguf_write_into(FILE *to, ph_sealer *sealer, const char *path, const ph_gguf_meta *m,
                         const ph_weight *at, size_t n, const ph_producer *p, ph_err *err);

#endif
