/* exif.c - reads the Orientation tag and nothing else.
 *
 * An EXIF block is a small TIFF file: byte order, 42, the offset of a directory
 * of 12-byte entries {tag, type, count, value}.  Only this directory is visited;
 * no offset is followed from it, so there is nothing to loop or to escape.
 * A malformed block turns nothing, as for Pillow's ImageOps.exif_transpose: a
 * picture is not refused for its metadata.
 */
#include "image/exif.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4, ENTRY_BYTES = 12 };

typedef struct reader {
    const uint8_t *bytes;
    int            is_big; /* "MM" */
} reader;

static uint32_t get16(const reader *r, size_t at) {
    const uint8_t *p = r->bytes + at;
    return r->is_big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t get32(const reader *r, size_t at) {
    uint32_t a = get16(r, at), b = get16(r, at + 2);
    return r->is_big ? a << 16 | b : b << 16 | a;
}

/* The value of a one-element entry; 0 when it is no whole number. */
static uint32_t entry_value(const reader *r, size_t at) {
    if (get32(r, at + 4) != 1) return 0;
    switch (get16(r, at + 2)) {
    case TYPE_BYTE:
        return r->bytes[at + 8];
    case TYPE_SHORT:
        return get16(r, at + 8);
    case TYPE_LONG:
        return get32(r, at + 8);
    default:
        return 0;
    }
}

int ph_exif_orientation(const uint8_t *bytes, size_t n) {
    if (n < 8) return 1;
    reader r = {bytes, bytes[0] == 'M'};
    if (bytes[0] != bytes[1] || (bytes[0] != 'M' && bytes[0] != 'I') || get16(&r, 2) != 42) return 1;
    size_t at = get32(&r, 4);
    if (at > n - 2) return 1;
    size_t   n_entries = get16(&r, at);
    uint32_t found = 0;
    at += 2;
    for (size_t i = 0; i < n_entries && n - at >= ENTRY_BYTES; i++, at += ENTRY_BYTES)
        if (get16(&r, at) == TAG_ORIENTATION) found = entry_value(&r, at);
    return found >= 1 && found <= 8 ? (int)found : 1;
}
