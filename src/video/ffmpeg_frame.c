/* ffmpeg_frame.c - a decoded frame becomes a bitmap: colours as the libraries' own `scale` filter converts
 * them, turned upright by the display matrix.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "video/ffmpeg.h"

#include <string.h>

static int32_t size_of(int32_t a) {
    return a < 0 ? (a == INT32_MIN ? INT32_MAX : -a) : a;
}

static int is_sideways(const ph_ff_reader *r) {
    return size_of(r->matrix[1]) > size_of(r->matrix[0]);
}

/* A row as the scaler writes it: in whole blocks, or it leaves the last columns out. */
static size_t wide_stride(int width) {
    enum { BLOCK = 64 };
    return (3 * (size_t)width + 2 * BLOCK - 1) / BLOCK * BLOCK;
}

/* From r->stored to its place: x and y of the display as the matrix says. */
static void turn(const ph_ff_reader *r, int w, int h, uint8_t *rows) {
    int       swapped = is_sideways(r), out_w = swapped ? h : w;
    int       back_x = swapped ? r->matrix[1] < 0 : r->matrix[0] < 0; /* stored columns run backwards */
    int       back_y = swapped ? r->matrix[3] < 0 : r->matrix[4] < 0;
    ptrdiff_t line = (ptrdiff_t)ph_video_stride(out_w), step_x = swapped ? line : 3,
              step_y = swapped ? 3 : line;
    if (back_x) rows += step_x * (w - 1), step_x = -step_x;
    if (back_y) rows += step_y * (h - 1), step_y = -step_y;
    for (int y = 0; y < h; y++) {
        const uint8_t *from = r->stored + (size_t)y * wide_stride(w);
        if (step_x == 3)
            memcpy(rows + y * step_y, from, 3 * (size_t)w);
        else
            for (int x = 0; x < w; x++) memcpy(rows + y * step_y + x * step_x, from + 3 * (size_t)x, 3);
    }
}

/* Into r->stored. */
static ph_rc to_bgr(ph_ff_reader *r, ph_err *err) {
    ph_ffmpeg *ff = r->ff;
    AVFrame   *f = r->frame;
    size_t     stride = wide_stride(f->width);
    r->scaler =
        ff->sws_getCachedContext(r->scaler, f->width, f->height, (enum AVPixelFormat)f->format, f->width,
                                 f->height, AV_PIX_FMT_BGR24, SWS_BICUBIC, NULL, NULL, NULL);
    if (!r->scaler)
        return PH_FAIL(err, PH_EUNSUP, "the video's pixel format (%d) cannot be converted", f->format);
    ff->av_freep(&r->stored);
    r->stored = ff->av_malloc(stride * (size_t)f->height);
    if (!r->stored) return PH_FAIL(err, PH_ENOMEM, "a frame of %d x %d pixels", f->width, f->height);
    const int *of = ff->sws_getCoefficients((int)f->colorspace);
    ff->sws_setColorspaceDetails(r->scaler, of, f->color_range == AVCOL_RANGE_JPEG,
                                 ff->sws_getCoefficients(SWS_CS_DEFAULT), 0, 0, 1 << 16, 1 << 16);
    uint8_t *const to[4] = {r->stored};
    const int      strides[4] = {(int)stride};
    int            lines =
        ff->sws_scale(r->scaler, (const uint8_t *const *)f->data, f->linesize, 0, f->height, to, strides);
    return lines == f->height ? PH_OK : PH_FAIL(err, PH_EFORMAT, "a frame of the video cannot be converted");
}

ph_rc ph_ff_keep(ph_ff_reader *r, ph_video *v, ph_err *err) {
    int      w = r->frame->width, h = r->frame->height, swapped = is_sideways(r);
    uint8_t *rows;
    if (w < 1 || h < 1 || (uint64_t)w * (uint64_t)h > r->how->pixels_max)
        return PH_FAIL(err, PH_ELIMIT, "frames of %d x %d pixels: the limit is %llu", w, h,
                       (unsigned long long)r->how->pixels_max);
    PH_TRY(ph_video_add(v, swapped ? h : w, swapped ? w : h, r->how->kept_max, &rows, err));
    PH_TRY(to_bgr(r, err));
    turn(r, w, h, rows);
    return PH_OK;
}

#endif
