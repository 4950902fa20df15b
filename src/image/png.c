/* png.c - PNG by libpng: gray, palette, RGB, alpha, tRNS, 1 to 16 bits, interlaced.
 *
 * The library unpacks, expands palettes and tRNS and drops the low byte of 16
 * (png_set_strip_16: no rounding).  Rows go straight to the sink; an interlaced
 * picture gives its seven small pictures, each of whose rows is scattered, so no
 * whole copy exists.  Ancillary chunks but tRNS are skipped unread: a zTXt or
 * iCCP bomb is never inflated, gamma and profiles are not applied.
 *
 * Errors come back by longjmp into the frame that owns the reader; nothing is
 * printed.  Everything to IEND must be there and whole.
 * Source: PNG 1.2 (RFC 2083) and its third edition (eXIf); libpng-manual.txt.
 */
#include "image/format.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

enum {
    SIDE_MAX = 0x7FFFFFFF,
    CHUNK_BYTES_MAX = 8 << 20, /* largest allocation for one chunk */
    HEAP_BASE = 160 * 1024,    /* inflate's window and state, the read struct */
    DEFLATE_RATIO = 1032,      /* the most that one byte can inflate to */
};

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

typedef struct source {
    const uint8_t *bytes;
    size_t         n, at;
    jmp_buf        back;
    ph_err        *err;
    ph_rc          rc;
    int            is_cut, is_full;
    png_structp    png;
    png_infop      info;
    uint8_t       *row; /* owned */
} source;

static void on_error(png_structp png, png_const_charp text) {
    source *s = png_get_error_ptr(png);
    if (s->is_full)
        s->rc = PH_FAIL(s->err, PH_ENOMEM, "png: no memory for a row");
    else if (s->is_cut)
        s->rc =
            PH_FAIL(s->err, PH_EFORMAT, "the PNG data ends early, at byte %zu: the file is cut short", s->n);
    else
        s->rc = PH_FAIL(s->err, PH_EFORMAT, "the PNG data is damaged before byte %zu (%s)", s->at, text);
    longjmp(s->back, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t n) {
    source *s = png_get_io_ptr(png);
    if (n > s->n - s->at) {
        s->is_cut = 1;
        png_error(png, "end of data");
    }
    memcpy(out, s->bytes + s->at, n);
    s->at += n;
}

/* Owns nothing until png is set: close is safe at any time. */
static ph_rc reader_open(source *s, const uint8_t *bytes, size_t n, ph_err *err) {
    *s = (source){.bytes = bytes, .n = n, .err = err};
    s->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, s, on_error, on_warning);
    if (s->png) s->info = png_create_info_struct(s->png);
    if (!s->info) return PH_FAIL(err, PH_ENOMEM, "png: no memory for the decoder");
    return PH_OK;
}

static void reader_close(source *s) {
    png_destroy_read_struct(&s->png, &s->info, NULL);
    free(s->row);
}

/* Every ancillary chunk that libpng knows is dropped, but tRNS; unknown ones are dropped anyway. */
static void skip_chunks(png_structp png) {
    static const png_byte names[] = "bKGD\0cHRM\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0"
                                    "sCAL\0sPLT\0sRGB\0tEXt\0tIME\0zTXt\0eXIf";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, names, (int)(sizeof names / 5));
}

/* Inside a setjmp frame. */
static void begin(source *s) {
    png_set_read_fn(s->png, s, on_read);
    png_set_user_limits(s->png, SIDE_MAX, SIDE_MAX);
    png_set_chunk_malloc_max(s->png, CHUNK_BYTES_MAX);
    png_set_chunk_cache_max(s->png, 64);
    skip_chunks(s->png);
    png_read_info(s->png, s->info);
}

static int claims(const uint8_t *bytes, size_t n) {
    return n >= 4 && !memcmp(bytes, signature, n < 8 ? n : 8);
}

static int channels_of(int color) {
    switch (color) {
    case PNG_COLOR_TYPE_GRAY:
        return 1;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA:
        return 4;
    case PNG_COLOR_TYPE_PALETTE:
        return 1;
    default:
        return 3;
    }
}

/* The signature and IHDR, which the standard puts first and fixes the length of, are read by hand: sizes are
 * known before the library allocates its rows. */
static ph_rc measure(ph_image_info *out, const uint8_t *bytes, size_t n, ph_err *err) {
    if (n < 33) return PH_FAIL(err, PH_EFORMAT, "the PNG header ends early: %zu bytes, 33 are needed", n);
    if (ph_be32(bytes + 8) != 13 || memcmp(bytes + 12, "IHDR", 4))
        return PH_FAIL(err, PH_EFORMAT, "the PNG does not begin with its header chunk");
    uint32_t w = ph_be32(bytes + 16), h = ph_be32(bytes + 20);
    if (!w || !h || w > SIDE_MAX || h > SIDE_MAX)
        return PH_FAIL(err, PH_EFORMAT, "the PNG header declares %u x %u pixels", w, h);
    out->stored_width = (int)w;
    out->stored_height = (int)h;
    out->bits = bytes[24];
    out->channels = channels_of(bytes[25]);
    out->has_alpha = (bytes[25] & PNG_COLOR_MASK_ALPHA) != 0;
    /* Three rows of up to 8 bytes a pixel: the library's two, each with room to expand, and ours. */
    out->heap_bytes = HEAP_BASE + 3 * 8 * ((size_t)w + 64);
    return PH_OK;
}

/* eXIf may stand before or after the pixels: walk the chunk headers. */
static const uint8_t *exif(const uint8_t *bytes, size_t n, size_t *exif_bytes) {
    size_t at = 8;
    while (n - at >= 12) {
        size_t len = ph_be32(bytes + at);
        if (len > n - at - 12) return NULL;
        if (!memcmp(bytes + at + 4, "eXIf", 4)) {
            *exif_bytes = len;
            return bytes + at + 8;
        }
        at += 12 + len;
    }
    return NULL;
}

/* Inside a setjmp frame: ask for 8-bit gray or RGB, with alpha where the file has some. */
static void ask_for_8_bits(source *s) {
    png_set_expand(s->png);
    png_set_strip_16(s->png);
    png_read_update_info(s->png, s->info);
}

static void one_pass(source *s, const ph_sink *sink, int pass, int channels) {
    uint32_t w = (uint32_t)sink->width, h = (uint32_t)sink->height;
    int      is_whole = pass < 0;
    int      cols = (int)(is_whole ? w : PNG_PASS_COLS(w, pass));
    int      n_rows = (int)(is_whole ? h : PNG_PASS_ROWS(h, pass));
    if (!cols) return; /* the file holds no rows of an empty pass */
    for (int r = 0; r < n_rows; r++) {
        png_read_row(s->png, s->row, NULL);
        if (is_whole)
            ph_sink_row(sink, r, 0, 1, s->row, cols, channels);
        else
            ph_sink_row(sink, PNG_ROW_FROM_PASS_ROW(r, pass), PNG_COL_FROM_PASS_COL(0, pass),
                        1 << PNG_PASS_COL_SHIFT(pass), s->row, cols, channels);
    }
}

/* Inside a setjmp frame. */
static void rows(source *s, const ph_sink *sink) {
    int is_interlaced = png_get_interlace_type(s->png, s->info) != PNG_INTERLACE_NONE;
    ask_for_8_bits(s);
    int    channels = png_get_channels(s->png, s->info);
    size_t row_bytes = png_get_rowbytes(s->png, s->info);
    s->row = malloc(row_bytes + 8);
    s->is_full = !s->row;
    if (s->is_full) png_error(s->png, "no memory");
    if (is_interlaced)
        for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++) one_pass(s, sink, pass, channels);
    else
        one_pass(s, sink, -1, channels);
    png_read_end(s->png, NULL);
}

/* No stream of n bytes can hold the declared pixels: known before the first row. */
static int is_hopeless(const ph_image_info *info, int color, size_t n) {
    int      samples = color == PNG_COLOR_TYPE_PALETTE ? 1 : info->channels;
    uint64_t row = ((uint64_t)info->stored_width * (unsigned)samples * (unsigned)info->bits + 7) / 8;
    return row * (uint64_t)info->stored_height / DEFLATE_RATIO > n;
}

/* setjmp stands in a function of its own, which changes no local: the reader lives in the caller. */
static void decode_guarded(source *s, const ph_sink *sink) {
    if (setjmp(s->back)) return;
    begin(s);
    rows(s, sink);
}

static ph_rc decode(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err) {
    source s;
    if (is_hopeless(info, bytes[25], n))
        return PH_FAIL(err, PH_EFORMAT, "the PNG data is far too short for the declared size");
    ph_rc rc = reader_open(&s, bytes, n, err);
    if (!rc) {
        decode_guarded(&s, sink);
        rc = s.rc;
    }
    reader_close(&s);
    return rc;
}

const ph_image_format ph_image_png = {
    .name = "PNG",
    .mime = "image/png",
    .claims = claims,
    .measure = measure,
    .exif = exif,
    .decode = decode,
};
