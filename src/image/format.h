/* format.h - what a picture format has to offer, and where its rows go.
 *
 * For the files named in format.def and for image.c; other rooms use image.h.
 */
#ifndef PH_IMAGE_FORMAT_H
#define PH_IMAGE_FORMAT_H

#include "image/image.h"

/* Where decoded rows land.  A turn by EXIF is three numbers, so a row is
 * scattered to its upright place as it is decoded and no second picture exists. */
typedef struct ph_sink {
    uint8_t  *rgb;            /* upright picture */
    ptrdiff_t start;          /* bytes: where stored (0, 0) lands */
    ptrdiff_t step_x, step_y; /* bytes: one stored column, one stored row further */
    int       width, height;  /* as stored */
    ph_alpha  alpha;
} ph_sink;

/* Take n pixels of stored row y, from column x on, every step columns.
 * row: [n, channels] u8; channels 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA.  Out-of-range rows are a bug. */
void ph_sink_row(const ph_sink *sink, int y, int x, int step, const uint8_t *row, int n, int channels);

struct ph_image_format {
    const char *name, *mime;

    /* Do these bytes begin like this format? */
    int (*claims)(const uint8_t *bytes, size_t n);

    /* Fill stored_width, stored_height, channels, bits, has_alpha, heap_bytes from
     * the header.  Sizes may be anything that fits int: image.c checks them. */
    ph_rc (*measure)(ph_image_info *out, const uint8_t *bytes, size_t n, ph_err *err);

    /* The EXIF block (beginning with its TIFF header), or NULL. */
    const uint8_t *(*exif)(const uint8_t *bytes, size_t n, size_t *exif_bytes);

    /* Give every row to sink, or fail.  info was measured from the same bytes. */
    ph_rc (*decode)(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err);
};

/* Big- and little-endian fields of a header; the caller has checked the bounds. */
static inline uint32_t ph_be16(const uint8_t *p) {
    return (uint32_t)p[0] << 8 | p[1];
}
static inline uint32_t ph_be32(const uint8_t *p) {
    return ph_be16(p) << 16 | ph_be16(p + 2);
}
static inline uint32_t ph_le16(const uint8_t *p) {
    return (uint32_t)p[1] << 8 | p[0];
}
static inline uint32_t ph_le32(const uint8_t *p) {
    return ph_le16(p + 2) << 16 | ph_le16(p);
}

#endif
