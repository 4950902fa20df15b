/* ffmpeg.c - videos by ffmpeg's libraries, loaded when they are needed.
 *
 *     memory ─ demuxer ─ packets ─ decoder ─ frames ─┬─ not chosen: counted
 *                                                    └─ chosen: to BGR, turned upright, into a bitmap
 *
 * A container may not say how many frames it holds, or say it wrong: they are counted by decoding then, and
 * the choice is made again.  Only demuxers of single files are let in, they read from memory, and what would
 * open another file is refused. Source: the libraries' headers; colours as the libraries' own `scale` filter
 * converts them.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>

enum { READ_BYTES = 64 << 10, PIXELS_MAX = 100000000, MATRIX = 9 };

static const char demuxers[] =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,ogg,asf,gif,apng,"
    "h264,hevc,ivf,obu,m4v,mjpeg";

typedef struct libraries {
    void *avutil, *avcodec, *avformat, *swscale;
#define PH_FF(library, function) __typeof__(function) *function;
#include "video/ffmpeg.def"
#undef PH_FF
} libraries;

typedef struct reader {
    libraries         *ff;
    const uint8_t     *bytes;
    size_t             n, at;
    uint64_t           pixels_max;
    AVIOContext       *io;
    AVFormatContext   *format;
    AVCodecContext    *codec;
    AVPacket          *packet;
    AVFrame           *frame;
    struct SwsContext *scaler;
    uint8_t           *stored; /* a frame before it is turned */
    const AVStream    *stream;
    int32_t            matrix[MATRIX]; /* of display; all 0: upright as it is */
} reader;

/* ---- the libraries ---- */

#define SO_NAME_(library, major) "lib" #library ".so." #major
#define SO_NAME(library, major)  SO_NAME_(library, major)

static ph_rc load_one(void **out, const char *name, ph_err *err) {
    *out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (*out) return PH_OK;
    return PH_FAIL(err, PH_EMACHINE, "%s, which reads videos, is not there: install ffmpeg's libraries (%s)",
                   name, dlerror());
}

static ph_rc load(libraries *ff, ph_err *err) {
    PH_TRY(load_one(&ff->avutil, SO_NAME(avutil, LIBAVUTIL_VERSION_MAJOR), err));
    PH_TRY(load_one(&ff->avcodec, SO_NAME(avcodec, LIBAVCODEC_VERSION_MAJOR), err));
    PH_TRY(load_one(&ff->avformat, SO_NAME(avformat, LIBAVFORMAT_VERSION_MAJOR), err));
    PH_TRY(load_one(&ff->swscale, SO_NAME(swscale, LIBSWSCALE_VERSION_MAJOR), err));
#define PH_FF(library, function)                                                                             \
    *(void **)(void *)&ff->function = dlsym(ff->library, #function);                                         \
    if (!ff->function) return PH_FAIL(err, PH_EMACHINE, "lib" #library " has no " #function);
#include "video/ffmpeg.def"
#undef PH_FF
    ff->av_log_set_level(AV_LOG_QUIET);
    return PH_OK;
}

/* ---- reading from memory ---- */

static int take(void *arg, uint8_t *to, int n) {
    reader *r = arg;
    size_t  left = r->n - r->at, got = n > 0 && (size_t)n < left ? (size_t)n : left;
    if (!got) return AVERROR_EOF;
    memcpy(to, r->bytes + r->at, got);
    r->at += got;
    return (int)got;
}

static int64_t seek(void *arg, int64_t to, int whence) {
    reader *r = arg;
    int64_t from = whence == SEEK_CUR ? (int64_t)r->at : whence == SEEK_END ? (int64_t)r->n : 0;
    if (whence & AVSEEK_SIZE) return (int64_t)r->n;
    if (to < -from || to > (int64_t)r->n - from) return AVERROR(EINVAL);
    r->at = (size_t)(from + to);
    return (int64_t)r->at;
}

static int open_nothing(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                        AVDictionary **options) {
    (void)format, (void)io, (void)url, (void)flags, (void)options;
    return AVERROR(EPERM);
}

static ph_rc fail(const reader *r, int code, const char *what, ph_err *err) {
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    if (code == AVERROR(ENOMEM)) return PH_FAIL(err, PH_ENOMEM, "no memory for %s a video", what);
    r->ff->av_strerror(code, text, sizeof text);
    return PH_FAIL(err, code == AVERROR_INVALIDDATA ? PH_EFORMAT : PH_EUNSUP, "%s the video failed: %s", what,
                   text);
}

static ph_rc probe(reader *r, ph_err *err) {
    libraries     *ff = r->ff;
    unsigned       n = r->format->nb_streams;
    AVDictionary **o = calloc(n + 1, sizeof(AVDictionary *));
    if (!o) return PH_FAIL(err, PH_ENOMEM, "a video of %u streams", n);
    for (unsigned i = 0; i < n; i++) ff->av_dict_set_int(&o[i], "max_pixels", (int64_t)r->pixels_max, 0);
    int code = ff->avformat_find_stream_info(r->format, o);
    for (unsigned i = 0; i < n; i++) ff->av_dict_free(&o[i]);
    free(o);
    return code < 0 ? fail(r, code, "probing", err) : PH_OK;
}

static ph_rc open_format(reader *r, ph_err *err) {
    libraries    *ff = r->ff;
    AVDictionary *o = NULL;
    uint8_t      *buffer = ff->av_malloc(READ_BYTES);
    r->at = 0;
    r->io = buffer ? ff->avio_alloc_context(buffer, READ_BYTES, 0, r, take, NULL, seek) : NULL;
    r->format = ff->avformat_alloc_context();
    if (!r->io || !r->format) {
        if (!r->io) ff->av_freep(&buffer);
        return PH_FAIL(err, PH_ENOMEM, "a video's demuxer");
    }
    r->format->pb = r->io;
    r->format->io_open = open_nothing;
    ff->av_dict_set(&o, "format_whitelist", demuxers, 0);
    int code = ff->avformat_open_input(&r->format, NULL, NULL, &o); /* on failure the context is gone */
    ff->av_dict_free(&o);
    if (code < 0) return fail(r, code, "opening", err);
    return probe(r, err);
}

/* Where the stored picture's axes go on the display. */
static void read_matrix(reader *r) {
    const int32_t *m = NULL;
#if LIBAVFORMAT_VERSION_MAJOR >= 61
    const AVCodecParameters *p = r->stream->codecpar;
    for (int i = 0; i < p->nb_coded_side_data; i++)
        if (p->coded_side_data[i].type == AV_PKT_DATA_DISPLAYMATRIX && p->coded_side_data[i].size >= 36)
            m = (const int32_t *)(const void *)p->coded_side_data[i].data;
#else
    for (int i = 0; i < r->stream->nb_side_data; i++)
        if (r->stream->side_data[i].type == AV_PKT_DATA_DISPLAYMATRIX && r->stream->side_data[i].size >= 36)
            m = (const int32_t *)(const void *)r->stream->side_data[i].data;
#endif
    if (m) memcpy(r->matrix, m, sizeof r->matrix);
}

static ph_rc open_codec(reader *r, ph_err *err) {
    libraries *ff = r->ff;
#if LIBAVFORMAT_VERSION_MAJOR >= 59
    const AVCodec *decoder = NULL;
#else
    AVCodec *decoder = NULL;
#endif
    int at = ff->av_find_best_stream(r->format, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (at < 0 || !decoder)
        return PH_FAIL(err, PH_EUNSUP, "the file holds no video that can be decoded here");
    r->stream = r->format->streams[at];
    read_matrix(r);
    r->codec = ff->avcodec_alloc_context3(decoder);
    r->packet = ff->av_packet_alloc();
    r->frame = ff->av_frame_alloc();
    if (!r->codec || !r->packet || !r->frame) return PH_FAIL(err, PH_ENOMEM, "a video's decoder");
    int code = ff->avcodec_parameters_to_context(r->codec, r->stream->codecpar);
    r->codec->max_pixels = (int64_t)r->pixels_max;
    r->codec->pkt_timebase = r->stream->time_base;
    if (code >= 0) code = ff->avcodec_open2(r->codec, decoder, NULL);
    return code < 0 ? fail(r, code, "opening the decoder of", err) : PH_OK;
}

static void close_file(reader *r) {
    libraries *ff = r->ff;
    ff->av_frame_free(&r->frame);
    ff->av_packet_free(&r->packet);
    ff->avcodec_free_context(&r->codec);
    if (r->format) ff->avformat_close_input(&r->format);
    if (r->io) ff->av_freep(&r->io->buffer);
    ff->avio_context_free(&r->io);
}

static ph_rc open_file(reader *r, ph_err *err) {
    PH_TRY(open_format(r, err));
    return open_codec(r, err);
}

/* ---- frames ---- */

static int32_t size_of(int32_t a) {
    return a < 0 ? (a == INT32_MIN ? INT32_MAX : -a) : a;
}

static int is_sideways(const reader *r) {
    return size_of(r->matrix[1]) > size_of(r->matrix[0]);
}

/* A row as the scaler writes it: in whole blocks, or it leaves the last columns out. */
static size_t wide_stride(int width) {
    enum { BLOCK = 64 };
    return (3 * (size_t)width + 2 * BLOCK - 1) / BLOCK * BLOCK;
}

/* From r->stored to its place: x and y of the display as the matrix says. */
static void turn(const reader *r, int w, int h, uint8_t *rows) {
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
static ph_rc to_bgr(reader *r, ph_err *err) {
    libraries *ff = r->ff;
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

static ph_rc keep(reader *r, ph_video *v, ph_err *err) {
    int      w = r->frame->width, h = r->frame->height, swapped = is_sideways(r);
    uint8_t *rows;
    if (w < 1 || h < 1 || (uint64_t)w * (uint64_t)h > r->pixels_max)
        return PH_FAIL(err, PH_ELIMIT, "frames of %d x %d pixels: the limit is %llu", w, h,
                       (unsigned long long)r->pixels_max);
    PH_TRY(ph_video_add(v, swapped ? h : w, swapped ? w : h, &rows, err));
    PH_TRY(to_bgr(r, err));
    turn(r, w, h, rows);
    return PH_OK;
}

/* Frames that the decoder has ready: those at index[*next ..] are kept. */
static ph_rc receive(reader *r, ph_video *v, const int *index, int n, int *next, int *count, ph_err *err) {
    int code;
    while ((code = r->ff->avcodec_receive_frame(r->codec, r->frame)) >= 0) {
        for (; *next < n && index[*next] <= *count; (*next)++) PH_TRY(keep(r, v, err));
        if (++*count > PH_VIDEO_LENGTH_MAX)
            return PH_FAIL(err, PH_ELIMIT, "a video of more than %d frames", PH_VIDEO_LENGTH_MAX);
    }
    return code == AVERROR(EAGAIN) || code == AVERROR_EOF ? PH_OK : fail(r, code, "decoding", err);
}

/* The whole stream from its beginning, keeping index [n]; *count: the frames that it holds. */
static ph_rc walk(reader *r, ph_video *v, const int *index, int n, int *count, ph_err *err) {
    libraries *ff = r->ff;
    int        next = 0, code;
    ph_rc      rc = PH_OK;
    *count = 0;
    while (!rc && (code = ff->av_read_frame(r->format, r->packet)) >= 0) {
        if (r->packet->stream_index == r->stream->index) {
            code = ff->avcodec_send_packet(r->codec, r->packet);
            rc = code < 0 ? fail(r, code, "decoding", err) : receive(r, v, index, n, &next, count, err);
        }
        ff->av_packet_unref(r->packet);
    }
    if (!rc) ff->avcodec_send_packet(r->codec, NULL);
    return rc ? rc : receive(r, v, index, n, &next, count, err);
}

static ph_rc walk_anew(reader *r, ph_video *v, const int *index, int n, int *count, ph_err *err) {
    if (v) ph_video_close(v);
    close_file(r);
    PH_TRY(open_file(r, err));
    return walk(r, v, index, n, count, err);
}

static ph_rc describe(reader *r, ph_video_info *info, ph_err *err) {
    AVRational rate = r->stream->avg_frame_rate;
    if (rate.num <= 0 || rate.den <= 0)
        rate = r->ff->av_guess_frame_rate(r->format, (AVStream *)(uintptr_t)r->stream, NULL);
    info->fps = rate.num > 0 && rate.den > 0 ? (double)rate.num / rate.den : 0;
    info->n_frames = 0;
    int64_t told = r->stream->nb_frames;
    if (told > PH_VIDEO_LENGTH_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a video of %lld frames; the limit is %d", (long long)told,
                       PH_VIDEO_LENGTH_MAX);
    if (told > 0) info->n_frames = (int)told;
    return info->n_frames ? PH_OK : walk_anew(r, NULL, NULL, 0, &info->n_frames, err);
}

static ph_rc choose_and_walk(reader *r, ph_video *v, const ph_video_how *how, int *index, ph_err *err) {
    int count, n;
    PH_TRY(describe(r, &v->info, err));
    for (int trial = 0; trial < 2; trial++) {
        if (!v->info.n_frames) return PH_FAIL(err, PH_EFORMAT, "the video holds no frames");
        PH_TRY(how->choose(how->arg, &v->info, index, &n, err));
        PH_TRY(walk_anew(r, v, index, n, &count, err));
        if (count == v->info.n_frames) return PH_OK;
        v->info.n_frames = count;
    }
    return PH_FAIL(err, PH_EFORMAT, "the video holds %d frames one time and another number the next", count);
}

ph_rc ph_ffmpeg_read(ph_video *out, const uint8_t *bytes, size_t n, const ph_video_how *how, ph_err *err) {
    libraries ff = {0};
    reader    r = {.ff = &ff, .bytes = bytes, .n = n};
    PH_TRY(load(&ff, err));
    r.pixels_max = how->pixels_max && how->pixels_max < INT_MAX ? how->pixels_max : PIXELS_MAX;
    int  *index = calloc(PH_VIDEO_FRAMES_MAX, sizeof *index);
    ph_rc rc = index ? open_file(&r, err) : PH_FAIL(err, PH_ENOMEM, "a list of frames");
    if (!rc) rc = choose_and_walk(&r, out, how, index, err);
    close_file(&r);
    ff.sws_freeContext(r.scaler);
    ff.av_freep(&r.stored);
    free(index);
    return rc;
}

#endif
