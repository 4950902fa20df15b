/* seal.h - checksums at the end of a file, by which a file that was changed is known.
 *
 *     head                      what has to be right before anything else is read
 *     data                      in pieces, so that many can be checked at once
 *     "PHSEALED"                the seal
 *     u64 n_seal                its bytes, from the word before to the end of the file
 *     u64 n_head, u64 n_data
 *     u64 n_pieces
 *     u8  digest[16]            of the head
 *     n_pieces x u64 end, u8 digest[16]      where each piece ends, counted from the data's beginning
 *     u8  digest[16]            of the seal so far
 *     u64 n_seal, u32 version, u32 0, "PHBUNDLE"
 *
 * Little-endian.  A digest is XXH3's of 128 bits, in its canonical form: it finds damage and change, and
 * stops nobody who wants to deceive.  The first word and the last 24 bytes are the same in all versions.
 * Every byte of the file is under a digest or compared.
 *
 * Docs: docs/adr/0177.  Source: github.com/Cyan4973/xxHash doc/xxhash_spec.md.
 */
#ifndef PH_FORMATS_SEAL_H
#define PH_FORMATS_SEAL_H

#include "base/err.h"
#include "base/file.h"
#include "base/threads.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PH_SEAL_VERSION = 1, PH_SEAL_PIECE = 4 << 20 /* bytes of a piece that we write, at most */ };

typedef struct ph_seal {
    uint32_t       version; /* 0: the file has none */
    size_t         head, data;
    size_t         n_pieces;
    const uint8_t *bytes; /* [n] the whole file; mapped, as the rest */
    size_t         n;
    const uint8_t *piece; /* [n_pieces] rows */
} ph_seal;

/* ---- reading ---- */

/* The seal of a file's bytes, held against itself, the file's size and the head; of the data nothing is
 * read.  A file without one, both words and its size, is PH_OK and version 0.  name begins messages.
 * Errors: PH_EUNSUP a later version, with its number; PH_EFORMAT the seal, the size or the head is not what
 * it was. */
ph_rc ph_seal_read(ph_seal *s, const uint8_t *bytes, size_t n, const char *name, ph_err *err);

/* Where a file that has no seal at its end was cut, or goes on: text for a message.  data_end: where its data
 * end. */
void ph_seal_explain(const uint8_t *bytes, size_t n, size_t data_end, char *out, size_t size);

/* Hold all data against their digests, on all workers.  0: a piece is not what it was; *begin .. *end are the
 * bytes of the first such, counted from the file's beginning.  Pages of f that were read are given back; f
 * NULL: the bytes are no file's. */
int ph_seal_holds(const ph_seal *s, const ph_file *f, ph_threads *threads, size_t *begin, size_t *end);

/* ---- writing ---- */

typedef struct ph_sealer {
    struct XXH3_state_s *state; /* of the piece that is open; owned */
    uint8_t             *row;   /* [n] digests with ends; owned */
    size_t               n, cap;
    size_t               head, data; /* bytes so far */
    size_t               in_piece;   /* bytes since the last cut */
    uint8_t              head_digest[16];
    int                  has_head, is_broken;
} ph_sealer;

/* All that goes into the file passes here too, in order.  The first cut ends the head; each other one ends a
 * piece, as PH_SEAL_PIECE bytes do.  Adding cannot fail where it stands: the end reports it. */
ph_rc ph_sealer_open(ph_sealer *s, ph_err *err);
void  ph_sealer_close(ph_sealer *s); /* accepts a zeroed one */
void  ph_sealer_add(ph_sealer *s, const void *bytes, size_t n);
void  ph_sealer_cut(ph_sealer *s);
/* The seal behind what was written.  Errors: PH_ENOMEM; PH_EIO. */
ph_rc ph_sealer_end(ph_sealer *s, FILE *to, ph_err *err);

/* Another head of as many bytes for a sealed file that is open for writing: head and seal are written anew.
 * s: the file's seal.  Errors: PH_ENOMEM; PH_EIO. */
ph_rc ph_seal_change_head(FILE *to, const ph_seal *s, const uint8_t *head, ph_err *err);

/* The parts of a seal, which reader and writer share: bytes before the pieces, of a row, behind them. */
#define PH_SEAL_BEGINS "PHSEALED"
#define PH_SEAL_ENDS   "PHBUNDLE" /* of the file */
enum { PH_SEAL_FRONT = 56, PH_SEAL_ROW = 24, PH_SEAL_DIGEST = 16, PH_SEAL_BACK = 16 + 24 };

#endif
