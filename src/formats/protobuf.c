/* protobuf.c - the wire format: varints of at most ten bytes, lengths that must lie inside what is left. */
#include "formats/protobuf.h"

#include <inttypes.h>

enum { NUMBER_MAX = 536870911 };

ph_pb ph_pb_of(const uint8_t *bytes, size_t n, const char *name) {
    static const uint8_t none[1];
    if (!bytes) bytes = none, n = 0;
    return (ph_pb){bytes, bytes + n, bytes, name};
}

ph_pb ph_pb_into(const ph_pb *outer, const ph_pb_field *f) {
    return (ph_pb){f->at, f->at + f->n, outer->base, outer->name};
}

static ph_rc bad(const ph_pb *m, const uint8_t *at, const char *what, ph_err *err) {
    return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: %s; the file is damaged or cut short", m->name,
                   (size_t)(at - m->base), what);
}

ph_rc ph_pb_varint(ph_pb *m, uint64_t *out, ph_err *err) {
    const uint8_t *first = m->at;
    uint64_t       v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (m->at == m->end) return bad(m, first, "a number ends with its message", err);
        uint8_t byte = *m->at++;
        if (shift == 63 && byte > 1) break;
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = v;
            return PH_OK;
        }
    }
    return bad(m, first, "a number of more than 64 bits", err);
}

/* Bytes of the field's contents, before they are compared with what is left. */
static ph_rc length(ph_pb *m, ph_pb_field *f, const uint8_t *first, uint64_t *n, ph_err *err) {
    *n = 0;
    switch (f->wire) {
    case PH_PB_VARINT:
        return ph_pb_varint(m, &f->value, err);
    case PH_PB_FIXED64:
        *n = 8;
        return PH_OK;
    case PH_PB_BYTES:
        return ph_pb_varint(m, n, err);
    case PH_PB_FIXED32:
        *n = 4;
        return PH_OK;
    default:
        return bad(m, first, "no field of a protobuf message", err);
    }
}

ph_rc ph_pb_next(ph_pb *m, ph_pb_field *f, int *more, ph_err *err) {
    const uint8_t *first = m->at;
    uint64_t       tag, n;
    *f = (ph_pb_field){0};
    *more = m->at != m->end;
    if (!*more) return PH_OK;
    PH_TRY(ph_pb_varint(m, &tag, err));
    if (tag >> 3 == 0 || tag >> 3 > NUMBER_MAX) return bad(m, first, "no field of a protobuf message", err);
    *f = (ph_pb_field){.number = (unsigned)(tag >> 3), .wire = (unsigned)(tag & 7), .at = m->at};
    PH_TRY(length(m, f, first, &n, err));
    if (n > (uint64_t)(m->end - m->at))
        return PH_FAIL(err, PH_EFORMAT,
                       "%.120s: byte %zu: field %u has %" PRIu64
                       " bytes, but %zu are left; the file is damaged or cut short",
                       m->name, (size_t)(first - m->base), f->number, n, (size_t)(m->end - m->at));
    if (f->wire != PH_PB_VARINT) f->at = m->at;
    f->n = (size_t)n;
    m->at += n;
    return PH_OK;
}
