/* protobuf.h - protobuf's wire format, walked in place: nothing is copied, no length is trusted.
 *
 *     message  =  field*      field  =  varint (number << 3 | wire), then by wire
 *     0 varint     1 eight bytes     2 varint n, n bytes     5 four bytes
 *
 * Groups (wire 3 and 4) are refused.  Source: protobuf.dev/programming-guides/encoding.
 */
#ifndef PH_FORMATS_PROTOBUF_H
#define PH_FORMATS_PROTOBUF_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_PB_VARINT = 0, PH_PB_FIXED64 = 1, PH_PB_BYTES = 2, PH_PB_FIXED32 = 5 };

typedef struct ph_pb_field {
    unsigned       number, wire;
    uint64_t       value; /* PH_PB_VARINT */
    const uint8_t *at;    /* the others: [n] bytes in the message; varints: where the number stands */
    size_t         n;
} ph_pb_field;

typedef struct ph_pb { /* what is left of a message */
    const uint8_t *at, *end;
    const uint8_t *base; /* of the whole file: messages name bytes counted from here */
    const char    *name; /* of the file */
} ph_pb;

ph_pb ph_pb_of(const uint8_t *bytes, size_t n, const char *name);
ph_pb ph_pb_into(const ph_pb *outer, const ph_pb_field *f); /* the message that f's bytes are */

/* The next field; *more is 0 at the end.  Errors: PH_EFORMAT with the byte where it went wrong. */
ph_rc ph_pb_next(ph_pb *m, ph_pb_field *f, int *more, ph_err *err);
/* One bare varint, as in packed lists.  Errors: PH_EFORMAT. */
ph_rc ph_pb_varint(ph_pb *m, uint64_t *out, ph_err *err);

#endif
