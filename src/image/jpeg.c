/* jpeg.c - JPEG by libjpeg-turbo: baseline, progressive, gray, YCbCr, RGB, CMYK, YCCK.
 *
 * The library does the arithmetic (islow IDCT, fancy upsampling: its defaults,
 * and the trainers').  This file guards it: errors come back by longjmp into the
 * frame that owns the decoder, nothing is printed, the source never waits for
 * more bytes, and a file that costs many scans is refused.
 *
 * Damage: libjpeg would fill the missing part with gray and go on.  Warnings
 * that mean lost picture data are therefore errors here, and so is a missing end
 * marker; stray bytes between markers and odd version numbers are not.
 *
 * CMYK: every four-channel file is taken as inverted (255 = no ink), with or
 * without Adobe's marker, as Pillow does.  The spec is silent and writers are not.
 * Source: ITU-T T.81; libjpeg.txt; Adobe Technical Note 5116.
 */
#include "image/format.h"

/* jpeglib.h wants size_t and FILE declared before it. */
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <jpeglib.h>

#include <jerror.h>

enum {
    SCANS_MAX = 100, /* real progressive files have about ten */
    SCANS_MAX_LARGE = 25,
    LARGE_PIXELS = 1 << 24,
    PIXELS_PER_BYTE_MAX = 512, /* one Huffman bit for each block of 8 x 8 is the least */
    HEAP_BASE = 256 * 1024,    /* the library's small tables, generously */
};

typedef struct decoder {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr         errors;
    struct jpeg_source_mgr        source;
    struct jpeg_progress_mgr      progress;
    jmp_buf                       back;
    ph_err                       *err;
    ph_rc                         rc;
    int                           is_cut; /* the source ran dry */
    JOCTET                        end[2]; /* the end marker that it then gives */
} decoder;

/* The decoder that libjpeg's object belongs to: c is its first member. */
static decoder *owner(void *c) {
    return (decoder *)c;
}

_Noreturn static void give_up(decoder *d, ph_rc rc, const char *what) {
    d->rc = PH_FAIL(d->err, rc, "the JPEG data %s", what);
    longjmp(d->back, 1);
}

static void on_error(j_common_ptr c) {
    decoder *d = owner(c);
    char     text[JMSG_LENGTH_MAX], what[JMSG_LENGTH_MAX + 64];
    d->errors.format_message(c, text);
    if (d->is_cut) give_up(d, PH_EFORMAT, "ends early: the file is cut short");
    snprintf(what, sizeof what, "can not be decoded (%s)", text);
    int is_variant = d->errors.msg_code == JERR_SOF_UNSUPPORTED || d->errors.msg_code == JERR_BAD_PRECISION ||
                     d->errors.msg_code == JERR_ARITH_NOTIMPL ||
                     d->errors.msg_code == JERR_CONVERSION_NOTIMPL;
    if (d->errors.msg_code == JERR_OUT_OF_MEMORY) give_up(d, PH_ENOMEM, what);
    give_up(d, is_variant ? PH_EUNSUP : PH_EFORMAT, what);
}

/* level -1: a warning. Those about lost data end the decoding. */
static void on_message(j_common_ptr c, int level) {
    decoder *d = owner(c);
    if (level >= 0) return;
    switch (d->errors.msg_code) {
    case JWRN_EXTRANEOUS_DATA: /* bytes between markers */
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_PROGRESSION:
        return;
    case JWRN_HIT_MARKER:
    case JWRN_JPEG_EOF:
        give_up(d, PH_EFORMAT, "ends early: the file is cut short or damaged");
    default:
        on_error(c);
    }
}

static void on_print(j_common_ptr c) {
    (void)c;
}

/* A thousand passes over one picture: the larger it is, the fewer are let through. */
static void on_progress(j_common_ptr c) {
    decoder *d = owner(c);
    int      is_large = (uint64_t)d->c.image_width * d->c.image_height > LARGE_PIXELS;
    if (d->c.input_scan_number <= (is_large ? SCANS_MAX_LARGE : SCANS_MAX)) return;
    give_up(d, PH_ELIMIT,
            is_large ? "has more than 25 scans of a large picture: refused; save it as baseline JPEG"
                     : "has more than 100 scans: refused; save it as baseline JPEG");
}

static void source_init(j_decompress_ptr c) {
    (void)c;
}

/* All bytes were given at the start: hand out an end marker, and remember. */
static boolean source_fill(j_decompress_ptr c) {
    decoder *d = owner(c);
    d->is_cut = 1;
    d->end[0] = 0xFF, d->end[1] = JPEG_EOI;
    d->source.next_input_byte = d->end;
    d->source.bytes_in_buffer = 2;
    return TRUE;
}

static void source_skip(j_decompress_ptr c, long n) {
    decoder *d = owner(c);
    if (n <= 0) return;
    if ((size_t)n > d->source.bytes_in_buffer) {
        source_fill(c);
        return;
    }
    d->source.next_input_byte += n;
    d->source.bytes_in_buffer -= (size_t)n;
}

/* Everything but the decompressor itself, which longjmp must find set up. */
static void prepare(decoder *d, const uint8_t *bytes, size_t n, ph_err *err) {
    memset(d, 0, sizeof *d);
    d->err = err;
    d->c.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->errors.output_message = on_print;
    d->progress.progress_monitor = on_progress;
    d->source.next_input_byte = bytes;
    d->source.bytes_in_buffer = n;
    d->source.init_source = source_init;
    d->source.fill_input_buffer = source_fill;
    d->source.skip_input_data = source_skip;
    d->source.resync_to_restart = jpeg_resync_to_restart;
    d->source.term_source = source_init;
}

/* Inside a setjmp frame. */
static void begin(decoder *d) {
    jpeg_create_decompress(&d->c);
    d->c.src = &d->source;
    d->c.progress = &d->progress;
    jpeg_read_header(&d->c, TRUE);
    if (d->is_cut) give_up(d, PH_EFORMAT, "ends within the header: the file is cut short");
    int n = d->c.num_components;
    if (n != 1 && n != 3 && n != 4) give_up(d, PH_EUNSUP, "has neither 1, 3 nor 4 channels");
}

/* Rows in flight: one MCU row of samples, its up-sampled neighbours, the output.
 * Several scans: the coefficients of the whole picture stay, two bytes each. */
static size_t heap_of(struct jpeg_decompress_struct *c) {
    size_t w = c->image_width, h = c->image_height, total = HEAP_BASE;
    for (int i = 0; i < c->num_components; i++) {
        const jpeg_component_info *comp = &c->comp_info[i];
        size_t                     hs = (size_t)comp->h_samp_factor, vs = (size_t)comp->v_samp_factor;
        size_t                     h_max = (size_t)c->max_h_samp_factor, v_max = (size_t)c->max_v_samp_factor;
        size_t                     cols = (w + 8 * h_max - 1) / (8 * h_max) * hs; /* blocks, whole MCUs */
        size_t                     rows = (h + 8 * v_max - 1) / (8 * v_max) * vs;
        if (jpeg_has_multiple_scans(c)) total += cols * rows * 64 * sizeof(JCOEF);
        total += cols * 8 * (vs * 8) * 2 + (w + 64) * v_max * 10; /* main and up-sampling buffers */
    }
    return total + 4 * w;
}

/* Fewer bytes than the blocks need, whatever they hold: known before a row is carved.  Arithmetic coding may
 * spend less than a bit on a block. */
static int is_hopeless(const struct jpeg_decompress_struct *c, size_t n) {
    return !c->arith_code && (uint64_t)c->image_width * c->image_height / PIXELS_PER_BYTE_MAX > n;
}

/* setjmp stands in functions of their own, which change no local: the decoder lives in the caller. */
static void measure_guarded(decoder *d, ph_image_info *out) {
    if (setjmp(d->back)) return;
    begin(d);
    out->stored_width = (int)d->c.image_width;
    out->stored_height = (int)d->c.image_height;
    out->channels = d->c.num_components;
    out->bits = d->c.data_precision;
    out->heap_bytes = heap_of(&d->c);
}

static ph_rc measure(ph_image_info *out, const uint8_t *bytes, size_t n, ph_err *err) {
    decoder d;
    prepare(&d, bytes, n, err);
    measure_guarded(&d, out);
    jpeg_destroy_decompress(&d.c);
    return d.rc;
}

/* Inverted CMYK to RGB in place, [n, 4] -> [n, 3]: ink c over black k is (255-c)(255-k)/255 of
 * plain CMYK.  Pillow computes nk - c*nk/255 with the quotient rounded: so do we. */
static void cmyk_to_rgb(uint8_t *row, int n) {
    const uint8_t *in = row;
    for (int i = 0; i < n; i++, in += 4, row += 3) {
        unsigned nk = in[3]; /* 255 - k */
        for (int ch = 0; ch < 3; ch++) {
            unsigned t = (255u - in[ch]) * nk + 128u;
            row[ch] = (uint8_t)(nk - ((t + (t >> 8)) >> 8));
        }
    }
}

/* Inside a setjmp frame, after the size check. */
static void rows(decoder *d, const ph_sink *sink) {
    int n = d->c.num_components, channels = n == 1 ? 1 : 3;
    d->c.out_color_space = n == 1 ? JCS_GRAYSCALE : n == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&d->c);
    /* The library frees its own arrays with the decompressor, also after longjmp. */
    JSAMPARRAY line = d->c.mem->alloc_sarray((j_common_ptr)&d->c, JPOOL_IMAGE,
                                             d->c.output_width * (JDIMENSION)d->c.output_components, 1);
    while (d->c.output_scanline < d->c.output_height) {
        int y = (int)d->c.output_scanline;
        jpeg_read_scanlines(&d->c, line, 1);
        if (n == 4) cmyk_to_rgb(line[0], sink->width);
        ph_sink_row(sink, y, 0, 1, line[0], sink->width, channels);
    }
    jpeg_finish_decompress(&d->c);
    if (d->is_cut) give_up(d, PH_EFORMAT, "ends early: its end marker is missing, the file is cut short");
}

static void decode_guarded(decoder *d, const ph_sink *sink, size_t n) {
    if (setjmp(d->back)) return;
    begin(d);
    if (is_hopeless(&d->c, n)) give_up(d, PH_EFORMAT, "is far too short for the declared size");
    rows(d, sink);
}

static ph_rc decode(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err) {
    decoder d;
    (void)info;
    prepare(&d, bytes, n, err);
    decode_guarded(&d, sink, n);
    jpeg_destroy_decompress(&d.c);
    return d.rc;
}

static int claims(const uint8_t *bytes, size_t n) {
    /* FF D8 FF F7 is JPEG-LS, another codec: sniff.c names it. */
    return n >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3) && !(n >= 4 && bytes[3] == 0xF7);
}

/* The first APP1 segment that holds EXIF, among those before the first scan. */
static const uint8_t *exif(const uint8_t *bytes, size_t n, size_t *exif_bytes) {
    size_t at = 2;
    while (n - at >= 4) {
        if (bytes[at] != 0xFF) {
            at++; /* stray bytes between segments: the library skips them too */
            continue;
        }
        uint8_t code = bytes[at + 1];
        if (code == 0xFF) {
            at++; /* fill bytes */
            continue;
        }
        if (code == 0xDA || code == 0xD9) return NULL; /* scan, end */
        if (code == 0 || code == 0x01 || (code >= 0xD0 && code <= 0xD8)) {
            at += 2; /* markers without a length */
            continue;
        }
        size_t len = ph_be16(bytes + at + 2), left = n - at - 2;
        if (len < 2 || len > left) return NULL;
        if (code == 0xE1 && len >= 8 && !memcmp(bytes + at + 4, "Exif\0\0", 6)) {
            *exif_bytes = len - 8;
            return bytes + at + 10;
        }
        at += 2 + len;
    }
    return NULL;
}

const ph_image_format ph_image_jpeg = {
    .name = "JPEG",
    .mime = "image/jpeg",
    .claims = claims,
    .measure = measure,
    .exif = exif,
    .decode = decode,
};
