/* image.h - bytes in, upright pixels out.
 *
 *     bytes[n] --measure--> width, height, what it will cost     (header only)
 *     bytes[n] --decode---> pixels [height, width, 3] u8, upright, no alpha
 *
 * The one place where a picture is turned upright (EXIF), freed of its alpha
 * and brought to 8-bit RGB, for every front end.  Gray is repeated into the
 * three channels, palettes are looked up, 16 bits a channel keep their high
 * byte, CMYK and YCCK follow Adobe's inverted convention.  ICC profiles and
 * gamma are ignored, as the trainers' loaders ignore them.
 *
 * Everything here reads untrusted input.  Declared sizes are checked against
 * the limits before anything of that size exists.
 */
#ifndef PH_IMAGE_IMAGE_H
#define PH_IMAGE_IMAGE_H

#include "base/arena.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* What becomes of transparency. */
typedef enum ph_alpha {
    PH_ALPHA_COMPOSITE = 0, /* blended over white: what a person sees */
    PH_ALPHA_DROP,          /* the colours stored under it: what trainers' loaders give */
} ph_alpha;

/* Zeroed: the defaults. */
typedef struct ph_image_options {
    uint64_t pixels_max; /* width x height above this is refused; 0: PH_IMAGE_PIXELS_MAX */
    ph_alpha alpha;
} ph_image_options;

#define PH_IMAGE_PIXELS_MAX 100000000u /* 100 megapixels; the command's --max-pixels */

typedef struct ph_image_format ph_image_format;

typedef struct ph_image_info {
    const ph_image_format *format;
    int                    width, height;               /* upright: after the EXIF turn */
    int                    stored_width, stored_height; /* as in the file */
    int                    orientation;                 /* EXIF: 1 .. 8, 1 when absent */
    int                    channels;                    /* as stored: 1 gray, 2 gray+alpha, 3, 4 */
    int                    bits;                        /* a channel, as stored */
    int                    has_alpha;
    size_t                 heap_bytes; /* see ph_image_decode_bytes */
} ph_image_info;

typedef struct ph_pixels {
    int      width, height; /* 1 .. */
    uint8_t *rgb;           /* [height, width, 3], rows packed; NULL on a ruler */
} ph_pixels;

/* Read the header alone: no pixel is decoded, no memory kept.
 * Errors: PH_EFORMAT empty, malformed, or cut short within the header; PH_EUNSUP a
 * format or variant that is not read (named); PH_ELIMIT more pixels than allowed. */
ph_rc ph_image_measure(ph_image_info *out, const uint8_t *bytes, size_t n, const ph_image_options *options,
                       ph_err *err);

/* Upper estimate of the heap that decoding takes and gives back, beside the
 * pixels: the decoder library's own buffers.  Tables that a crafted file can
 * inflate (WebP's Huffman groups) are bounded by the library, not by this. */
size_t ph_image_decode_bytes(const ph_image_info *info);

/* Decode bytes[n] of any format in format.def.
 *
 *   out      filled on PH_OK, zeroed otherwise; lives as long as arena
 *   bytes    borrowed for the call
 *   options  NULL: the defaults
 *   arena    gets 3 * width * height bytes; with a ruler only the header is read
 *
 * Errors: as ph_image_measure; PH_EFORMAT also for data that ends early or is
 * damaged (never half a picture); PH_ENOMEM. */
ph_rc ph_image_decode(ph_pixels *out, const uint8_t *bytes, size_t n, const ph_image_options *options,
                      ph_arena *arena, ph_err *err);

/* "JPEG, PNG, WebP, GIF, BMP" into out[size]: for messages and help. */
void                   ph_image_list(char *out, size_t size);
const ph_image_format *ph_image_format_at(size_t i); /* NULL past the last */
const char            *ph_image_format_name(const ph_image_format *format);
const char            *ph_image_format_mime(const ph_image_format *format);

/* A name for bytes in a format that is not read ("TIFF", "HEIC"), or NULL. */
const char *ph_image_sniff(const uint8_t *bytes, size_t n);

#endif
