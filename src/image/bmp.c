/* bmp.c - Windows bitmaps: 1, 4, 8 bits with a palette, also run-length coded; 16, 24, 32 bits.
 *
 *     file header 14 | info header 12 or 40.. | masks | palette | rows, bottom first, padded to 4 bytes
 *
 * Height below zero: rows run downwards.  BI_BITFIELDS masks are honoured; the
 * alpha of a 32-bit file counts only when a mask names it, since the plain form
 * leaves that byte undefined.  JPEG, PNG and other payloads are refused by name.
 * Source: Microsoft, "Bitmap Storage" (BITMAPFILEHEADER .. BITMAPV5HEADER).
 */
#include "image/format.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, V3_HEADER = 56 };
enum { BI_RGB = 0, BI_RLE8 = 1, BI_RLE4 = 2, BI_BITFIELDS = 3 };

typedef struct bitmap {
    int            width, height, is_top_down;
    int            bits;
    uint32_t       mask[4]; /* red, green, blue, alpha; 16 and 32 bits only */
    const uint8_t *palette; /* [n_colors, entry]: blue, green, red */
    int            n_colors, entry;
    const uint8_t *rows; /* bytes left from here: rows_bytes */
    size_t         rows_bytes, stride;
    int            is_rle; /* rows are runs, without stride */
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
        if (count == 4 && b->bits == 32 && !(b->mask[0] | b->mask[1] | b->mask[2] | b->mask[3])) {
            b->mask[0] = 0xFF0000, b->mask[1] = 0xFF00, b->mask[2] = 0xFF, b->mask[3] = 0xFF000000;
            return PH_OK;
        }
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
    b->is_rle = (compression == BI_RLE8 && b->bits == 8) || (compression == BI_RLE4 && b->bits == 4);
    if (b->is_rle && b->is_top_down)
        return PH_FAIL(err, PH_EFORMAT, "a run-length coded BMP whose rows run downwards");
    int is_plain = compression == BI_RGB || (compression == BI_BITFIELDS && (is_wide || b->bits == 24));
    if (!is_plain && !b->is_rle)
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

static void look_up(const bitmap *b, unsigned i, uint8_t *out) {
    static const uint8_t black[3] = {0}; /* where there is no such colour */
    const uint8_t       *c = i < (unsigned)b->n_colors ? b->palette + i * (unsigned)b->entry : black;
    out[0] = c[2], out[1] = c[1], out[2] = c[0];
}

static void palette_row(const bitmap *b, const uint8_t *in, uint8_t *out) {
    for (int x = 0; x < b->width; x++, out += 3) {
        size_t bit = (size_t)x * (size_t)b->bits;
        look_up(b, in[bit / 8] >> (8 - b->bits - (int)(bit % 8)) & ((1u << b->bits) - 1), out);
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

/* ---- runs ---- */

/* Where the runs have come to.  Pixels that are skipped, or that a row lacks, are of the first colour. */
typedef struct running {
    const bitmap  *b;
    const ph_sink *sink;
    uint8_t       *row;  /* [width, 3] */
    int            x, y; /* y: from the bottom */
} running;

static void run_pixels(running *r, unsigned index, int n) {
    for (; n && r->x < r->b->width; n--, r->x++) look_up(r->b, index, r->row + 3 * (size_t)r->x);
}

static void run_line_end(running *r) {
    run_pixels(r, 0, r->b->width);
    ph_sink_row(r->sink, r->b->height - 1 - r->y, 0, 1, r->row, r->b->width, 3);
    r->x = 0;
    r->y++;
}

/* As many rows up and pixels on. */
static void run_delta(running *r, int right, int up) {
    int x = r->x;
    for (; up && r->y < r->b->height; up--) run_line_end(r);
    if (r->y < r->b->height) run_pixels(r, 0, x + right - r->x);
}

/* Pixel i of a run's bytes: of 4 bits two by two. */
static unsigned run_index(const bitmap *b, const uint8_t *bytes, int i) {
    if (b->bits == 8) return bytes[i];
    return i & 1 ? bytes[i / 2] & 15u : bytes[i / 2] >> 4;
}

static size_t run_literal(running *r, const uint8_t *bytes, size_t left, int n) {
    size_t own = r->b->bits == 8 ? (size_t)n : ((size_t)n + 1) / 2;
    if (own > left) return left + 1;
    for (int i = 0; i < n; i++) run_pixels(r, run_index(r->b, bytes, i), 1);
    return own + (own & 1);
}

static ph_rc decode_runs(running *r, ph_err *err) {
    enum { LINE_END, BITMAP_END, DELTA };
    const uint8_t *bytes = r->b->rows;
    size_t         n = r->b->rows_bytes, at = 0;
    while (r->y < r->b->height && at < n && n - at >= 2) {
        int count = bytes[at], what = bytes[at + 1];
        at += 2;
        if (count) {
            const uint8_t pair = (uint8_t)what;
            for (int i = 0; i < count; i++)
                run_pixels(r, r->b->bits == 8 ? pair : run_index(r->b, &pair, i & 1), 1);
        } else if (what == LINE_END) {
            run_line_end(r);
        } else if (what == BITMAP_END) {
            if (r->x == r->b->width) run_line_end(r);
            break;
        } else if (what == DELTA) {
            if (n - at < 2) break;
            run_delta(r, bytes[at], bytes[at + 1]);
            at += 2;
        } else {
            at += run_literal(r, bytes + at, n - at, what);
        }
    }
    if (r->y == r->b->height) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "the BMP's runs end early: %d of %d rows are there", r->y, r->b->height);
}

static ph_rc decode(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err) {
    bitmap b;
    PH_TRY(read_header(&b, bytes, n, err));
    if (!b.is_rle && b.rows_bytes / b.stride < (size_t)b.height)
        return PH_FAIL(err, PH_EFORMAT,
                       "the BMP file is cut short: %d rows of %zu bytes declared, %zu bytes left", b.height,
                       b.stride, b.rows_bytes);
    uint8_t *row = malloc(4 * (size_t)b.width);
    if (!row) return PH_FAIL(err, PH_ENOMEM, "bmp: no memory for a row of %d pixels", b.width);
    if (b.is_rle) {
        running r = {.b = &b, .sink = sink, .row = row};
        ph_rc   rc = decode_runs(&r, err);
        free(row);
        return rc;
    }
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
