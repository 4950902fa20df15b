/* webp.c - still WebP by libwebp: lossy, lossless, with or without alpha.
 *
 * A RIFF file of chunks.  The library decodes into its own buffer in one call;
 * rows then go to the sink (a picture without alpha that needs no turn is
 * decoded straight into its place).  An animation is refused by name: to answer
 * about its first frame alone would be a guess at what was meant.
 * Source: RFC 9649; webp/decode.h.
 */
#include "image/format.h"

#include <string.h>

#include <webp/decode.h>

enum { HEAP_BASE = 1 << 20, LOSSY_ROWS = 64 };

static int claims(const uint8_t *bytes, size_t n) {
    return n >= 12 && !memcmp(bytes, "RIFF", 4) && !memcmp(bytes + 8, "WEBP", 4);
}

static ph_rc fail(VP8StatusCode status, size_t n, ph_err *err) {
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return PH_FAIL(err, PH_ENOMEM, "webp: no memory for the decoder");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return PH_FAIL(err, PH_EFORMAT, "the WebP data ends early, at byte %zu: the file is cut short", n);
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return PH_FAIL(err, PH_EUNSUP,
                       "the WebP file has a feature that this libwebp does not read: save it again as plain "
                       "WebP or PNG");
    default:
        return PH_FAIL(err, PH_EFORMAT, "the WebP data is damaged (libwebp status %d)", (int)status);
    }
}

static const uint8_t *exif(const uint8_t *bytes, size_t n, size_t *exif_bytes) {
    size_t at = 12;
    while (n - at >= 8) {
        size_t len = ph_le32(bytes + at + 4), left = n - at - 8;
        if (len > left) return NULL;
        if (!memcmp(bytes + at, "EXIF", 4)) {
            /* Some writers keep JPEG's prefix. */
            size_t skip = len >= 6 && !memcmp(bytes + at + 8, "Exif\0\0", 6) ? 6 : 0;
            *exif_bytes = len - skip;
            return bytes + at + 8 + skip;
        }
        len += len & 1; /* chunks are padded to even sizes */
        if (len > left) return NULL;
        at += 8 + len;
    }
    return NULL;
}

static ph_rc measure(ph_image_info *out, const uint8_t *bytes, size_t n, ph_err *err) {
    WebPBitstreamFeatures f;
    size_t                declared = (size_t)ph_le32(bytes + 4) + 8;
    VP8StatusCode         status = WebPGetFeatures(bytes, n, &f);
    if (status != VP8_STATUS_OK) return fail(status, n, err);
    if (f.has_animation)
        return PH_FAIL(err, PH_EUNSUP, "this is an animated WebP, which is not read: give one frame of it");
    if (declared > n)
        return PH_FAIL(err, PH_EFORMAT, "the WebP file is cut short: it declares %zu bytes and has %zu",
                       declared, n);
    size_t w = (size_t)f.width, h = (size_t)f.height;
    out->stored_width = f.width;
    out->stored_height = f.height;
    out->channels = f.has_alpha ? 4 : 3;
    out->bits = 8;
    out->has_alpha = f.has_alpha;
    /* A buffer of our own, when rows are blended or turned; lossless: the library's ARGB picture and row
     * cache; lossy: rows in flight, and an alpha plane that is itself losslessly coded. */
    size_t area = w * h, exif_bytes;
    size_t own = f.has_alpha ? 4 * area : exif(bytes, n, &exif_bytes) ? 3 * area : 0;
    size_t inner = f.format != 1 ? 4 * area : f.has_alpha ? 6 * area : 0;
    out->heap_bytes = HEAP_BASE + own + inner + w * LOSSY_ROWS * 4;
    return PH_OK;
}

static int is_straight(const ph_sink *sink, const ph_image_info *info) {
    return !info->has_alpha && info->orientation == 1 && sink->step_x == 3;
}

static ph_rc decode(const ph_sink *sink, const ph_image_info *info, const uint8_t *bytes, size_t n,
                    ph_err *err) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return PH_FAIL(err, PH_EMACHINE, "libwebp is of another version");
    config.output.colorspace = info->has_alpha ? MODE_RGBA : MODE_RGB;
    if (is_straight(sink, info)) {
        config.output.is_external_memory = 1;
        config.output.u.RGBA.rgba = sink->rgb;
        config.output.u.RGBA.stride = 3 * sink->width;
        config.output.u.RGBA.size = 3 * (size_t)sink->width * (size_t)sink->height;
    }
    VP8StatusCode status = WebPDecode(bytes, n, &config);
    if (status == VP8_STATUS_OK && !config.output.is_external_memory)
        for (int y = 0; y < sink->height; y++)
            ph_sink_row(sink, y, 0, 1, config.output.u.RGBA.rgba + (ptrdiff_t)y * config.output.u.RGBA.stride,
                        sink->width, info->has_alpha ? 4 : 3);
    WebPFreeDecBuffer(&config.output);
    return status == VP8_STATUS_OK ? PH_OK : fail(status, n, err);
}

const ph_image_format ph_image_webp = {
    .name = "WebP",
    .mime = "image/webp",
    .claims = claims,
    .measure = measure,
    .exif = exif,
    .decode = decode,
};
