/* ffmpeg.c - ffmpeg's libraries, loaded when they are needed, and a video file opened with them.
 *
 *     memory ─ demuxer ─ packets ─ decoder ─ frames
 *
 * Only demuxers of single files are let in, they read from memory, and what would open another file is
 * refused. Source: the libraries' headers.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "video/ffmpeg.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 64 << 10 };

static const char demuxers[] =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,ogg,asf,gif,apng,"
    "h264,hevc,ivf,obu,m4v,mjpeg";

/* ---- the libraries ---- */

#define SO_NAME_(library, major) "lib" #library ".so." #major
#define SO_NAME(library, major)  SO_NAME_(library, major)

static ph_rc load_one(void **out, const char *name, ph_err *err) {
    *out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (*out) return PH_OK;
    return PH_FAIL(err, PH_EMACHINE, "%s, which reads videos, is not there: install ffmpeg's libraries (%s)",
                   name, dlerror());
}

static ph_rc load(ph_ffmpeg *ff, ph_err *err) {
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
    ph_ff_reader *r = arg;
    size_t        left = r->n - r->at, got = n > 0 && (size_t)n < left ? (size_t)n : left;
    if (!got) return AVERROR_EOF;
    memcpy(to, r->bytes + r->at, got);
    r->at += got;
    return (int)got;
}

static int64_t seek(void *arg, int64_t to, int whence) {
    ph_ff_reader *r = arg;
    int64_t       from = whence == SEEK_CUR ? (int64_t)r->at : whence == SEEK_END ? (int64_t)r->n : 0;
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

/* Not all of the libraries say that memory is what failed: is there room for another frame? */
static int has_room(const ph_ff_reader *r) {
    uint64_t w = r->codec && r->codec->width > 0 ? (uint64_t)r->codec->width : 1024;
    uint64_t h = r->codec && r->codec->height > 0 ? (uint64_t)r->codec->height : 1024;
    void    *p = w * h < SIZE_MAX / 4 ? r->ff->av_malloc((size_t)(4 * w * h)) : NULL;
    int      is_there = p != NULL;
    r->ff->av_freep(&p);
    return is_there;
}

ph_rc ph_ff_fail(const ph_ff_reader *r, int code, const char *what, ph_err *err) {
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    if (code == AVERROR(ENOMEM) || !has_room(r))
        return PH_FAIL(err, PH_ENOMEM, "no memory for %s a video", what);
    r->ff->av_strerror(code, text, sizeof text);
    return PH_FAIL(err, code == AVERROR_INVALIDDATA ? PH_EFORMAT : PH_EUNSUP, "%s the video failed: %s", what,
                   text);
}

static ph_rc probe(ph_ff_reader *r, ph_err *err) {
    ph_ffmpeg     *ff = r->ff;
    unsigned       n = r->format->nb_streams;
    AVDictionary **o = calloc(n + 1, sizeof(AVDictionary *));
    if (!o) return PH_FAIL(err, PH_ENOMEM, "a video of %u streams", n);
    for (unsigned i = 0; i < n; i++) ff->av_dict_set_int(&o[i], "max_pixels", (int64_t)r->how->pixels_max, 0);
    int code = ff->avformat_find_stream_info(r->format, o);
    for (unsigned i = 0; i < n; i++) ff->av_dict_free(&o[i]);
    free(o);
    return code < 0 ? ph_ff_fail(r, code, "probing", err) : PH_OK;
}

static ph_rc open_format(ph_ff_reader *r, ph_err *err) {
    ph_ffmpeg    *ff = r->ff;
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
    if (code < 0) return ph_ff_fail(r, code, "opening", err);
    return probe(r, err);
}

/* Where the stored picture's axes go on the display. */
static void read_matrix(ph_ff_reader *r) {
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

static ph_rc open_codec(ph_ff_reader *r, ph_err *err) {
    ph_ffmpeg *ff = r->ff;
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
    r->codec->max_pixels = (int64_t)r->how->pixels_max;
    r->codec->pkt_timebase = r->stream->time_base;
    if (code >= 0) code = ff->avcodec_open2(r->codec, decoder, NULL);
    return code < 0 ? ph_ff_fail(r, code, "opening the decoder of", err) : PH_OK;
}

static void close_file(ph_ff_reader *r) {
    ph_ffmpeg *ff = r->ff;
    ff->av_frame_free(&r->frame);
    ff->av_packet_free(&r->packet);
    ff->avcodec_free_context(&r->codec);
    if (r->format) ff->avformat_close_input(&r->format);
    if (r->io) ff->av_freep(&r->io->buffer);
    ff->avio_context_free(&r->io);
}

ph_rc ph_ff_reopen(ph_ff_reader *r, ph_err *err) {
    close_file(r);
    PH_TRY(open_format(r, err));
    return open_codec(r, err);
}

ph_rc ph_ffmpeg_load(ph_ffmpeg **out, ph_err *err) {
    ph_ffmpeg *ff = calloc(1, sizeof *ff);
    if (!ff) return PH_FAIL(err, PH_ENOMEM, "ffmpeg's functions");
    ph_rc rc = load(ff, err);
    if (rc)
        free(ff);
    else
        *out = ff;
    return rc;
}

ph_rc ph_ffmpeg_read(ph_ffmpeg *ff, ph_video *out, const uint8_t *bytes, size_t n, const ph_video_how *how,
                     ph_err *err) {
    const ph_video_how settled = ph_video_settled(how);
    ph_ff_reader       r = {.ff = ff, .how = &settled, .bytes = bytes, .n = n};
    ph_rc              rc = ph_ff_reopen(&r, err);
    if (!rc) rc = ph_ff_take_chosen(&r, out, err);
    close_file(&r);
    ff->sws_freeContext(r.scaler);
    ff->av_freep(&r.stored);
    return rc;
}

#endif
