/* produce.h - tensors that are made while they are written, a few rows at a time.
 *
 *     writer ──"rows [first, first + n) of tensor i"──► ph_produce ──bytes──► file
 *
 * The writer knows names, types and shapes beforehand (ph_weight without bytes),
 * so no weight is ever held whole: a copy, a conversion and a quantisation take
 * the same few megabytes for a model of any size.
 */
#ifndef PH_FORMATS_PRODUCE_H
#define PH_FORMATS_PRODUCE_H

#include "formats/seal.h"
#include "formats/weights.h"

#include <stdio.h>

/* Rows [first, first + n) of tensor i into out, packed: a row is the last dimension. */
typedef ph_rc ph_produce(void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err);

typedef struct ph_producer {
    ph_produce *make; /* NULL: the tensors' own bytes are copied */
    void       *arg;
} ph_producer;

enum { PH_PRODUCE_BYTES = 8 << 20 }; /* of a piece, at most, unless one row is larger */

/* Write tensor i of at[] to `to`, and tell the sealer if there is one.  buffer: see ph_produce_buffer.
 * Errors: those of make; PH_EIO. */
ph_rc ph_produce_write(FILE *to, ph_sealer *sealer, const ph_weight *at, size_t i, const ph_producer *p,
                       uint8_t *buffer, ph_err *err);
/* A buffer large enough for pieces of every tensor of at[n]; the caller frees it. */
ph_rc ph_produce_buffer(uint8_t **out, const ph_weight *at, size_t n, ph_err *err);

/* A file that appears whole or not at all.  While it is written it has no name, so whatever ends the process
 * leaves nothing behind, and two that write to one path do not meet: the last to finish stays.  Where the
 * file system knows no files without names it has one that nobody else has, beside path: ".pinhole-*.part".
 * Errors: PH_EPATH the path names a folder, a device or a pipe, which a file would replace; PH_EIO. */
typedef struct ph_part_file {
    FILE *to;
    char *part, *path; /* owned; part NULL: no name yet */
} ph_part_file;
ph_rc ph_part_open(ph_part_file *f, const char *path, ph_err *err);
/* Where path is a link, the file that it leads to appears, there already or not, and the link stays: for
 * what is a note of a run, not a model.  Errors: also PH_EPATH links that go in a circle. */
ph_rc ph_part_open_through(ph_part_file *f, const char *path, ph_err *err);
/* Whether ph_part_open_through would, before what is to be written is made; nothing is left. */
ph_rc ph_part_may_open(const char *path, ph_err *err);
ph_rc ph_part_open_named(ph_part_file *f, const char *path, ph_err *err); /* with a name from the beginning */
ph_rc ph_part_close(ph_part_file *f, ph_rc rc, ph_err *err); /* rc not 0: nothing is left, rc returned */

#endif
