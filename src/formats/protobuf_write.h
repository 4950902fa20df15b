/* protobuf_write.h - protobuf's wire format, written into memory that grows.
 *
 *     size_t at = ph_pbw_open(&w, 7);      a message as field 7
 *     ph_pbw_int(&w, 1, 8);
 *     ph_pbw_end(&w, at);
 *
 * Putting cannot fail where it stands: what does not fit memory leaves `is_broken`, which the caller asks for
 * once.  Source: protobuf.dev/programming-guides/encoding.
 */
#ifndef PH_FORMATS_PROTOBUF_WRITE_H
#define PH_FORMATS_PROTOBUF_WRITE_H

#include <stddef.h>
#include <stdint.h>

typedef struct ph_pbw {
    uint8_t *bytes; /* [n]; owned */
    size_t   n, cap;
    int      is_broken; /* out of memory: what was put is not whole */
} ph_pbw;

void ph_pbw_close(ph_pbw *w); /* accepts a zeroed one */

void ph_pbw_raw(ph_pbw *w, const void *bytes, size_t n); /* fields that are encoded already */
void ph_pbw_int(ph_pbw *w, unsigned field, int64_t value);
void ph_pbw_float(ph_pbw *w, unsigned field, float value);
void ph_pbw_bytes(ph_pbw *w, unsigned field, const void *bytes, size_t n);
void ph_pbw_text(ph_pbw *w, unsigned field, const char *text);
/* The head of a field of n bytes that the caller writes behind it. */
void ph_pbw_head(ph_pbw *w, unsigned field, uint64_t n);

/* A message inside: all that is put until ph_pbw_end is its contents.  Messages nest. */
size_t ph_pbw_open(ph_pbw *w, unsigned field);
void   ph_pbw_end(ph_pbw *w, size_t at);

#endif
