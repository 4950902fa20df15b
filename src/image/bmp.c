/* bmp.c - Windows bitmaps without compression: 1, 4, 8 bits with a palette, 16, 24, 32 bits.
 *
 *     file header 14 | info header 12 or 40.. | masks | palette | rows, bottom first, padded to 4 bytes
 *
 * Height below zero: rows run downwards.  BI_BITFIELDS masks are honoured; the
 * alpha of a 32-bit file counts only when a mask names it, since the plain form
 * leaves that byte undefined.  Run-length, JPEG and PNG payloads are refused by name.
 * Source: Microsoft, "Bitmap Storage" (BITMAPFILEHEADER .. BITMAPV5HEADER).
 */
#include "image/format.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, V3_HEADER = 56, BI_RGB = 0, BI_BITFIELDS = 3 };

typedef struct bitmap {
    int            width, height, is_top_down;
    int            bits;
    uint32_t       mask[4]; /* red, green, blue, alpha; 16 and 32 bits only */
    const uint8_t *palette; /* [n_colors, entry]: blue, green, red */
    int            n_colors, entry;
    const uint8_t *rows; /* bytes left from here: rows_bytes */
    size_t         rows_bytes, stride;
} bitmap;

static int claims(const uint8_t *bytes, size_t n) {
    /* Reserved words are zero: "BM" alone is too little of a mark. */
    return n >= FILE_HEADER && bytes[0] == 'B' && bytes[1] == 'M' && !ph_le32(bytes + 6);
}

static ph_rc read_masks(bitmap *b, uint32_t compression, const uint8_t *bytes, size_t n, size_t header,
                        ph_err *err) {
    if (compression == BI_BITFIELDS) {
        size_t at = FILE_HEADER + INFO_HEADER, count = header >= V3_HEADER ? 4 : 3;
        if (n < at + 4 * count) return PH_FAIL(err, PH_EFORMAT, "the BMP ends within its channel masks");
        for (size_t i = 0; i < count; i++) b->mask[i] = ph_le32(bytes + at + 4 * i);
        if (!b->mask[0] || !b->mask[1] || !b->mask[2])
            return PH_FAIL(err, PH_EFORMAT, "a BMP channel mask is 0");
    } else if (b->bits == 16) {
        b->mask[0] = 0x7C00, b->mask[1] = 0x03E0, b->mask[2] = 0x001F;
    } else {
        b->mask[0] = 0xFF0000, b->mask[1] = 0xFF00, b->mask[2] = 0xFF;
    }
    return PH_OK;
}

static ph_rc read_palette(bitmap *b, const uint8_t *bytes, size_t n, size_t header, uint32_t declared,
                          ph_err *err) {
    size_t at = FILE_HEADER + header;
    b->entry = header == CORE_HEADER ? 3 : 4;
    b->n_colors = 1 << b->bits;
    if (declared && declared < (uint32_t)b->n_colors) b->n_colors = (int)declared;
    if (at > n || (size_t)b->n_colors * (size_t)b->entry > n - at)
        return PH_FAIL(err, PH_EFORMAT, "the BMP ends within its palette of %d colours", b->n_colors);
    b->palette = bytes + at;
    return PH_OK;
}

static ph_rc read_header(bitmap *b, const uint8_t *bytes, size_t n, ph_err *err) {
    *b = (bitmap){0};
    if (n < FILE_HEADER + CORE_HEADER)
        return PH_FAIL(err, PH_EFORMAT, "the BMP header ends early: %zu bytes", n);
    size_t   header = ph_le32(bytes + 14), rows_at = ph_le32(bytes + 10);
    uint32_t compression = BI_RGB, n_colors = 0;
    if ((header != CORE_HEADER && header < INFO_HEADER) || header > 1024 || n < FILE_HEADER + header)
        return PH_FAIL(err, PH_EFORMAT, "a BMP info header of %zu bytes in a file of %zu", header, n);
    if (header == CORE_HEADER) {
        b->width = (int)ph_le16(bytes + 18);
        b->height = (int)ph_le16(bytes + 20);
        b->bits = (int)ph_le16(bytes + 24);
    } else {
        int64_t h = (int32_t)ph_le32(bytes + 22);
        b->is_top_down = h < 0;
        b->width = (int32_t)ph_le32(bytes + 18);
        b->height = (int)(h < 0 && h > INT32_MIN ? -h : h);
        b->bits = (int)ph_le16(bytes + 28);
        compression = ph_le32(bytes + 30);
        n_colors = ph_le32(bytes + 46);
    }
    if (b->width < 1 || b->height < 1)
        return PH_FAIL(err, PH_EFORMAT, "the BMP header declares %d x %d pixels", b->width, b->height);
    int is_wide = b->bits == 16 || b->bits == 32;
    if (compression != BI_RGB && !(compression == BI_BITFIELDS && is_wide))
        return PH_FAIL(err, PH_EUNSUP, "a compressed BMP (kind %u), which is not read", compression);
    if (is_wide)
        PH_TRY(read_masks(b, compression, bytes, n, header, err));
    else if (b->bits == 1 || b->bits == 4 || b->bits == 8)
        PH_TRY(read_palette(b, bytes, n, header, n_colors, err));
    else if (b->bits != 24)
        return PH_FAIL(err, PH_EUNSUP, "a BMP of %d bits a pixel, which is not read", b->bits);
    b->stride = (((size_t)b->width * (size_t)b->bits + 31) / 32) * 4;
    b->rows = rows_at < n ? bytes + rows_at : bytes + n;
    b->rows_bytes = rows_at < n ? n - rows_at : 0;
    return PH_OK;
}

static ph_rc measure(ph_image_info *out, const uint8_t *bytes, size_t n, ph_err *err) {
    bitmap b;
    PH_TRY(read_header(&b, bytes, n, err));
    out->stored_width = b.width;
    out->stored_height = b.height;
    out->channels = b.mask[3] ? 4 : 3;
    out->bits = 8;
    out->has_alpha = b.mask[3] != 0;
    out->heap_bytes = 4 * (size_t)b.width + 4096;
    return PH_OK;
}

static const uint8_t *exif(const uint8_t *bytes, size_t n, size_t *exif_bytes) {
    (void)bytes, (void)n, (void)exif_bytes;
    return NULL;
}

/* The bits under mask, spread to 0 .. 255 (as Pillow: v * 255 / top, rounded down). */
static uint8_t field(uint32_t pixel, uint32_t mask) {
    if (!mask) return 255;
    int      shift = __builtin_ctz(mask);
    uint64_t top = mask >> shift, v = (pixel & mask) >> shift;
    return (uint8_t)(v * 255 / top);
}

static void palette_row(const bitmap *b, const uint8_t *in, uint8_t *out) {
    for (int x = 0; x < b->width; x++, out += 3) {
        size_t   bit = (size_t)x * (size_t)b->bits;
        unsigned i = in[bit / 8] >> (8 - b->bits - (int)(bit % 8)) & ((1u << b->bits) - 1);
        if (i >= (unsigned)b->n_colors) i = 0; /* no such colour: the first */
        const uint8_t *c = b->palette + i * (unsigned)b->entry;
        out[0] = c[2], out[1] = c[1], out[2] = c[0];
    }
}

static void color_row(const bitmap *b, const uint8_t *in, uint8_t *out) {
    for (int x = 0; x < b->width; x++) {
        if (b->bits == 24) {
            out[0] = in[2], out[1] = in[1], out[2] = in[0];
            in += 3, out += 3;
            continue;
        }
        uint32_t v = b->bits == 16 ? ph_le16(in) : ph_le32(in);
        for (int ch = 0; ch < 3; ch++) *out++ = field(v, b->mask[ch]);
        if (b->mask[3]) *out++ = field(v, b->mask[3]);
        in += b->bits / 8;
    }
}

static ph_rc decode(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err) {
    bitmap b;
    PH_TRY(read_header(&b, bytes, n, err));
    if (b.rows_bytes / b.stride < (size_t)b.height)
        return PH_FAIL(err, PH_EFORMAT,
                       "the BMP file is cut short: %d rows of %zu bytes declared, %zu bytes left", b.height,
                       b.stride, b.rows_bytes);
    uint8_t *row = malloc(4 * (size_t)b.width);
    if (!row) return PH_FAIL(err, PH_ENOMEM, "bmp: no memory for a row of %d pixels", b.width);
    for (int y = 0; y < b.height; y++) {
        const uint8_t *in = b.rows + (size_t)(b.is_top_down ? y : b.height - 1 - y) * b.stride;
        if (b.palette)
            palette_row(&b, in, row);
        else
            color_row(&b, in, row);
        ph_sink_row(sink, y, 0, 1, row, b.width, info->channels);
    }
    free(row);
    return PH_OK;
}

const ph_image_format ph_image_bmp = {
    .name = "BMP",
    .mime = "image/bmp",
    .claims = claims,
    .measure = measure,
    .exif = exif,
    .decode = decode,
};
