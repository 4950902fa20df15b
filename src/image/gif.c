/* gif.c - the first frame of a GIF, by giflib.
 *
 *     header | screen size, global colours | extensions | frame, its own colours, LZW rows | ... | trailer
 *
 * A frame may be smaller than the screen, or reach beyond it, and then the picture is as large as both
 * together.  Where the frame does not reach, the picture is transparent, or of the first colour where the
 * frame knows no transparency: as Pillow has it, and so do the trainers' loaders.  The blocks behind the
 * first frame are walked over and not decoded: a file that is cut short is refused, as of the other formats.
 * Source: GIF89a specification (CompuServe 1990); gif_lib.h; Pillow's GifImagePlugin.
 */
#include "image/format.h"

#include <stdlib.h>
#include <string.h>

#include <gif_lib.h>

enum { HEAP_BASE = 96 << 10, TRAILER = 0x3B, EXTENSION = 0x21, FRAME = 0x2C };

/* What giflib reads from. */
typedef struct reel {
    const uint8_t *bytes;
    size_t         n, at;
} reel;

typedef struct frame {
    GifFileType          *gif;
    const ColorMapObject *colors;        /* NULL: gray levels */
    int                   clear;         /* the transparent index; -1: none */
    int                   x, y, w, h;    /* of the frame */
    int                   width, height; /* of the picture */
} frame;

static int claims(const uint8_t *bytes, size_t n) {
    return n >= 6 && (!memcmp(bytes, "GIF87a", 6) || !memcmp(bytes, "GIF89a", 6));
}

static int take(GifFileType *gif, GifByteType *to, int n) {
    reel  *r = gif->UserData;
    size_t left = r->n - r->at, wanted = n > 0 ? (size_t)n : 0, got = wanted < left ? wanted : left;
    if (got) memcpy(to, r->bytes + r->at, got);
    r->at += got;
    return (int)got;
}

static ph_rc fail(int code, const reel *r, ph_err *err) {
    const char *what = GifErrorString(code);
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM) return PH_FAIL(err, PH_ENOMEM, "gif: no memory for the decoder");
    if (r->at >= r->n)
        return PH_FAIL(err, PH_EFORMAT, "the GIF data ends early, at byte %zu: the file is cut short", r->n);
    return PH_FAIL(err, PH_EFORMAT, "the GIF data is damaged before byte %zu (giflib: %s)", r->at,
                   what ? what : "no details");
}

/* An extension; of the graphics control ones the last before the frame counts. */
static int skip_extension(frame *f) {
    GraphicsControlBlock gcb;
    GifByteType         *block;
    int                  kind;
    if (DGifGetExtension(f->gif, &kind, &block) == GIF_ERROR) return 0;
    if (block && kind == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &gcb) == GIF_OK)
        f->clear = gcb.TransparentColor;
    while (block)
        if (DGifGetExtensionNext(f->gif, &block) == GIF_ERROR) return 0;
    return 1;
}

static ph_rc read_frame(frame *f, const reel *r, ph_err *err) {
    GifFileType  *gif = f->gif;
    GifRecordType kind;
    for (;;) {
        if (DGifGetRecordType(gif, &kind) == GIF_ERROR) return fail(gif->Error, r, err);
        if (kind == IMAGE_DESC_RECORD_TYPE) break;
        if (kind != EXTENSION_RECORD_TYPE) return PH_FAIL(err, PH_EFORMAT, "the GIF holds no picture");
        if (!skip_extension(f)) return fail(gif->Error, r, err);
    }
    if (DGifGetImageDesc(gif) == GIF_ERROR) return fail(gif->Error, r, err);
    const GifImageDesc *d = &gif->Image;
    f->x = d->Left, f->y = d->Top, f->w = d->Width, f->h = d->Height;
    if (f->w < 1 || f->h < 1)
        return PH_FAIL(err, PH_EFORMAT, "the GIF's first frame declares %d x %d pixels", f->w, f->h);
    f->width = gif->SWidth > f->x + f->w ? gif->SWidth : f->x + f->w;
    f->height = gif->SHeight > f->y + f->h ? gif->SHeight : f->y + f->h;
    f->colors = d->ColorMap ? d->ColorMap : gif->SColorMap;
    return PH_OK;
}

static void close_frame(frame *f) {
    int ignored;
    if (f->gif) DGifCloseFile(f->gif, &ignored);
    f->gif = NULL;
}

/* Up to the first frame's rows. */
static ph_rc open_frame(frame *f, reel *r, ph_err *err) {
    int code = 0;
    *f = (frame){.clear = NO_TRANSPARENT_COLOR};
    f->gif = DGifOpen(r, take, &code);
    if (!f->gif) return fail(code, r, err);
    ph_rc rc = read_frame(f, r, err);
    if (rc) close_frame(f);
    return rc;
}

static ph_rc measure(ph_image_info *out, const uint8_t *bytes, size_t n, ph_err *err) {
    reel  r = {.bytes = bytes, .n = n};
    frame f;
    PH_TRY(open_frame(&f, &r, err));
    close_frame(&f);
    out->stored_width = f.width;
    out->stored_height = f.height;
    out->has_alpha = f.clear >= 0;
    out->channels = out->has_alpha ? 4 : 3;
    out->bits = 8;
    out->heap_bytes = HEAP_BASE + 5 * ((size_t)f.width + (size_t)f.w);
    return PH_OK;
}

static const uint8_t *exif(const uint8_t *bytes, size_t n, size_t *exif_bytes) {
    (void)bytes, (void)n, (void)exif_bytes;
    return NULL;
}

/* n indices to colours; those beyond the table are black. */
static void color(const frame *f, const GifPixelType *in, int n, uint8_t *out) {
    for (int i = 0; i < n; i++) {
        int v = in[i], n_colors = f->colors ? f->colors->ColorCount : 256;
        if (!f->colors) {
            out[0] = out[1] = out[2] = (uint8_t)v;
        } else if (v < n_colors) {
            const GifColorType *c = &f->colors->Colors[v];
            out[0] = c->Red, out[1] = c->Green, out[2] = c->Blue;
        } else {
            out[0] = out[1] = out[2] = 0;
        }
        if (f->clear >= 0) out[3] = v == f->clear ? 0 : 255;
        out += f->clear >= 0 ? 4 : 3;
    }
}

/* The picture around the frame. */
static void surround(const frame *f, const ph_sink *sink, uint8_t *row, int channels) {
    const GifPixelType v = (GifPixelType)(f->clear >= 0 ? f->clear : 0);
    int                right = f->x + f->w;
    for (int x = 0; x < f->width; x++) color(f, &v, 1, row + x * channels);
    for (int y = 0; y < f->height; y++) {
        int is_beside = y >= f->y && y < f->y + f->h;
        ph_sink_row(sink, y, 0, 1, row, is_beside ? f->x : f->width, channels);
        if (is_beside && right < f->width) ph_sink_row(sink, y, right, 1, row, f->width - right, channels);
    }
}

static ph_rc frame_row(const frame *f, const reel *r, const ph_sink *sink, int y, GifPixelType *line,
                       uint8_t *row, int channels, ph_err *err) {
    if (DGifGetLine(f->gif, line, f->w) == GIF_ERROR) return fail(f->gif->Error, r, err);
    color(f, line, f->w, row);
    ph_sink_row(sink, f->y + y, f->x, 1, row, f->w, channels);
    return PH_OK;
}

/* Interlaced: every 8th row, then those between, in four passes. */
static ph_rc frame_rows(const frame *f, const reel *r, const ph_sink *sink, GifPixelType *line, uint8_t *row,
                        int channels, ph_err *err) {
    static const int first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    int              is_laced = f->gif->Image.Interlace;
    for (int pass = 0; pass < (is_laced ? 4 : 1); pass++)
        for (int y = is_laced ? first[pass] : 0; y < f->h; y += is_laced ? step[pass] : 1)
            PH_TRY(frame_row(f, r, sink, y, line, row, channels, err));
    return PH_OK;
}

/* Sub-blocks from at on; where they end, or n: they do not. */
static size_t skip_blocks(const reel *r, size_t at) {
    while (at < r->n && r->bytes[at]) at += 1 + (size_t)r->bytes[at];
    return at < r->n ? at + 1 : r->n;
}

/* Walk over what stands between the first frame and the trailer. */
static ph_rc to_trailer(const reel *r, ph_err *err) {
    enum { FRAME_BYTES = 10 };
    size_t at = r->at;
    while (at < r->n && r->bytes[at] != TRAILER) {
        size_t own = r->bytes[at] == FRAME ? FRAME_BYTES : 2;
        if (r->bytes[at] != FRAME && r->bytes[at] != EXTENSION)
            return PH_FAIL(err, PH_EFORMAT, "the GIF data is damaged at byte %zu: no block begins with %02x",
                           at, r->bytes[at]);
        if (r->n - at < own) break;
        if (own == FRAME_BYTES && r->bytes[at + 9] & 0x80) own += 3u << ((r->bytes[at + 9] & 7) + 1);
        if (r->bytes[at] == FRAME) own++; /* the code size */
        at = own < r->n - at ? skip_blocks(r, at + own) : r->n;
    }
    if (at < r->n && r->bytes[at] == TRAILER) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "the GIF data ends early, at byte %zu: the file is cut short", r->n);
}

static ph_rc decode(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err) {
    reel  r = {.bytes = bytes, .n = n};
    frame f;
    PH_TRY(open_frame(&f, &r, err));
    GifPixelType *line = malloc((size_t)f.w);
    uint8_t      *row = malloc(4 * (size_t)f.width);
    ph_rc         rc = line && row ? PH_OK : PH_FAIL(err, PH_ENOMEM, "gif: no memory for a row");
    if (!rc) surround(&f, sink, row, info->channels);
    if (!rc) rc = frame_rows(&f, &r, sink, line, row, info->channels, err);
    if (!rc) rc = to_trailer(&r, err);
    free(row);
    free(line);
    close_frame(&f);
    return rc;
}

const ph_image_format ph_image_gif = {
    .name = "GIF",
    .mime = "image/gif",
    .claims = claims,
    .measure = measure,
    .exif = exif,
    .decode = decode,
};
