/* safetensors.h - tensors in Hugging Face's container, one file or a set of shards.
 *
 *     u64 n, header[n] (JSON: name -> dtype, shape, data_offsets), data
 *
 * The data must be covered by the tensors without gap or overlap, as the
 * reference library demands.
 *
 * Source: github.com/huggingface/safetensors, README "Format".
 */
#ifndef PH_FORMATS_SAFETENSORS_H
#define PH_FORMATS_SAFETENSORS_H

#include "base/arena.h"
#include "base/file.h"
#include "formats/produce.h"
#include "formats/weights.h"

typedef struct ph_safetensors {
    ph_file   *files; /* [n_files], mapped; owned */
    int        n_files;
    ph_weights weights;
} ph_safetensors;

/* Open F.safetensors, or a sharded set by its F.safetensors.index.json.
 * Tables are carved from arena (a growing one); both must live as long as the weights.
 * Errors: PH_EPATH a file or shard is missing; PH_EFORMAT what is malformed, naming file and tensor;
 * PH_EMISMATCH index and shards disagree; PH_EUNSUP a dtype we do not read; PH_ELIMIT the header is over
 * PH_SAFETENSORS_HEADER_MAX. */
enum { PH_SAFETENSORS_HEADER_MAX = 100000000, PH_SAFETENSORS_SHARDS_MAX = 4096 };
ph_rc ph_safetensors_open(ph_safetensors *s, const char *path, ph_arena *arena, ph_err *err);
void  ph_safetensors_close(ph_safetensors *s); /* accepts a zeroed one */

/* List the tensors of a file in memory.  bytes live as long as the weights; `name` begins every message.
 * The list is in the order of the data; no index is built. */
ph_rc ph_safetensors_view(ph_weights *w, const uint8_t *bytes, size_t n, const char *name, int file,
                          ph_arena *arena, ph_err *err);

/* Write at[n], in this order, data from byte 8-aligned on; each file appears whole or not at all.
 * safetensors_write.c.  Errors: PH_EUNSUP a block type, which the container has no name for; PH_EIO with
 * errno's text; those of the producer. */
ph_rc ph_safetensors_write(const char *path, const ph_weight *at, size_t n, ph_err *err);
/* The same with tensors made on the way (p may be NULL), into dir/model.safetensors; or, if the data are more
 * than shard_bytes (0: never), into dir/model-00001-of-0000N.safetensors and an index, each shard as full as
 * whole tensors allow. */
ph_rc ph_safetensors_write_dir(const char *dir, const ph_weight *at, size_t n, size_t shard_bytes,
                               const ph_producer *p, ph_err *err);
/* Would that write a file of this name? */
int ph_safetensors_dir_has(const ph_weight *at, size_t n, size_t shard_bytes, const char *file);

#endif
