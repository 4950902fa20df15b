/* image.c - picks the format, checks the size, turns the picture upright.
 *
 *     claims? -> measure -> limits -> EXIF turn -> carve -> decode rows into the sink
 *
 * The three things that every format shares are done here and nowhere else: the
 * limit on declared pixels (before memory is carved), the turn by EXIF, and the
 * blending of alpha.  How bytes become rows is each format's own file.
 */
#include "image/image.h"
#include "base/mem.h"
#include "image/exif.h"
#include "image/format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PH_IMAGE(name) extern const ph_image_format ph_image_##name;
#include "image/format.def"
#undef PH_IMAGE

static const ph_image_format *const formats[] = {
#define PH_IMAGE(name) &ph_image_##name,
#include "image/format.def"
#undef PH_IMAGE
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

void ph_image_list(char *out, size_t size) {
    if (size) out[0] = 0;
    for (size_t i = 0, n = 0; i < N_FORMATS && n < size; i++, n = strlen(out))
        snprintf(out + n, size - n, "%s%s", i ? ", " : "", formats[i]->name);
}
const ph_image_format *ph_image_format_at(size_t i) {
    return i < N_FORMATS ? formats[i] : NULL;
}
const char *ph_image_format_name(const ph_image_format *format) {
    return format->name;
}
const char *ph_image_format_mime(const ph_image_format *format) {
    return format->mime;
}

/* blend: c * a/255 over white, rounded to nearest.  t/255 as (t + t/256) / 256 is exact over this range. */
static uint8_t over_white(uint8_t c, uint8_t a) {
    unsigned t = (unsigned)c * a + 255u * (255u - a) + 128u;
    return (uint8_t)((t + (t >> 8)) >> 8);
}

void ph_sink_row(const ph_sink *sink, int y, int x, int step, const uint8_t *row, int n, int channels) {
    assert(y >= 0 && y < sink->height && x >= 0 && (n == 0 || x + (int64_t)(n - 1) * step < sink->width));
    uint8_t  *to = sink->rgb + sink->start + y * sink->step_y + x * sink->step_x;
    ptrdiff_t next = sink->step_x * step;
    int       is_gray = channels < 3;
    int       has_alpha = channels == 2 || channels == 4;
    for (int i = 0; i < n; i++, row += channels, to += next) {
        uint8_t r = row[0], g = row[is_gray ? 0 : 1], b = row[is_gray ? 0 : 2];
        if (has_alpha && sink->alpha == PH_ALPHA_COMPOSITE) {
            uint8_t a = row[channels - 1];
            r = over_white(r, a), g = over_white(g, a), b = over_white(b, a);
        }
        to[0] = r, to[1] = g, to[2] = b;
    }
}

/* EXIF orientation as two bits and a swap: where stored (x, y) of a W x H picture lands.
 *     1 (x, y)        2 (W-1-x, y)      3 (W-1-x, H-1-y)    4 (x, H-1-y)
 *     5 (y, x)        6 (H-1-y, x)      7 (H-1-y, W-1-x)    8 (y, W-1-x)   */
static ph_sink sink_for(uint8_t *rgb, const ph_image_info *info, ph_alpha alpha) {
    int       o = info->orientation;
    int       is_swapped = o >= 5;
    int       back_x = o == 2 || o == 3 || o == 7 || o == 8; /* stored columns run backwards */
    int       back_y = o == 3 || o == 4 || o == 6 || o == 7; /* stored rows run backwards */
    ptrdiff_t line = 3 * (ptrdiff_t)info->width;
    ph_sink   s = {.rgb = rgb, .width = info->stored_width, .height = info->stored_height, .alpha = alpha};
    s.step_x = is_swapped ? line : 3;
    s.step_y = is_swapped ? 3 : line;
    if (back_x) s.start += s.step_x * (s.width - 1), s.step_x = -s.step_x;
    if (back_y) s.start += s.step_y * (s.height - 1), s.step_y = -s.step_y;
    return s;
}

/* Nobody's: say what it is, as far as that can be told. */
static ph_rc refuse(const uint8_t *bytes, size_t n, ph_err *err) {
    const char *name = ph_image_sniff(bytes, n);
    char        first[3 * 8 + 1] = "", list[80];
    ph_image_list(list, sizeof list);
    if (name)
        return PH_FAIL(err, PH_EUNSUP,
                       "this is %s, which is not read (%s are): convert the picture to one of them", name,
                       list);
    for (size_t i = 0; i < n && i < 8; i++) snprintf(first + 3 * i, 4, " %02x", bytes[i]);
    return PH_FAIL(err, PH_EUNSUP, "no known picture format: the %zu bytes begin with%s; %s are read", n,
                   first, list);
}

static ph_rc check_size(const ph_image_info *info, uint64_t max, ph_err *err) {
    int64_t w = info->stored_width, h = info->stored_height;
    if (w < 1 || h < 1)
        return PH_FAIL(err, PH_EFORMAT, "the %s header declares %lld x %lld pixels", info->format->name,
                       (long long)w, (long long)h);
    if ((uint64_t)w * (uint64_t)h > max)
        return PH_FAIL(
            err, PH_ELIMIT,
            "the picture declares %lld x %lld = %llu pixels, the limit is %llu: shrink it or raise "
            "--max-pixels",
            (long long)w, (long long)h, (unsigned long long)w * (unsigned long long)h,
            (unsigned long long)max);
    return PH_OK;
}

ph_rc ph_image_measure(ph_image_info *out, const uint8_t *bytes, size_t n, const ph_image_options *options,
                       ph_err *err) {
    uint64_t      max = options && options->pixels_max ? options->pixels_max : PH_IMAGE_PIXELS_MAX;
    ph_image_info info = {.orientation = 1};
    *out = info;
    if (!n) return PH_FAIL(err, PH_EFORMAT, "the picture is empty: 0 bytes");
    for (size_t i = 0; i < N_FORMATS && !info.format; i++)
        if (formats[i]->claims(bytes, n)) info.format = formats[i];
    if (!info.format) return refuse(bytes, n, err);
    PH_TRY(info.format->measure(&info, bytes, n, err));
    PH_TRY(check_size(&info, max, err));
    size_t         exif_bytes = 0;
    const uint8_t *exif = info.format->exif(bytes, n, &exif_bytes);
    if (exif) info.orientation = ph_exif_orientation(exif, exif_bytes);
    int is_swapped = info.orientation >= 5;
    info.width = is_swapped ? info.stored_height : info.stored_width;
    info.height = is_swapped ? info.stored_width : info.stored_height;
    *out = info;
    return PH_OK;
}

size_t ph_image_decode_bytes(const ph_image_info *info) {
    return info->heap_bytes;
}

ph_rc ph_image_decode(ph_pixels *out, const uint8_t *bytes, size_t n, const ph_image_options *options,
                      ph_arena *arena, ph_err *err) {
    ph_image_info info;
    void         *rgb;
    *out = (ph_pixels){0};
    PH_TRY(ph_image_measure(&info, bytes, n, options, err));
    size_t rows = (size_t)info.height, row_bytes = 3 * (size_t)info.width;
    PH_TRY(ph_arena_carve(arena, &rgb, rows, row_bytes, err));
    if (rgb) {
        ph_sink sink = sink_for(rgb, &info, options ? options->alpha : PH_ALPHA_COMPOSITE);
        ph_rc   rc = info.format->decode(&sink, &info, bytes, n, err);
        if (rc)
            return ph_note(err, rc, "while decoding a %s picture of %d x %d from %zu bytes",
                           info.format->name, info.stored_width, info.stored_height, n);
    }
    *out = (ph_pixels){.width = info.width, .height = info.height, .rgb = rgb};
    return PH_OK;
}
