/* ffmpeg_walk.c - packets to frames: how many there are, which are kept, what that may cost.
 *
 *     packets ─ listed ─┬─ packets are frames, by its kind: only what chosen frames stand on is decoded
 *                       └─ else, or where that fails:       all is decoded, and counted
 *
 * A container may not say how many frames it holds, or say it wrong.  Where decoding counts another number
 * than was thought, the choice is made again.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "video/ffmpeg_pick.h"

#include <stdlib.h>

ph_rc ph_ff_next(ph_ff_reader *r, int *is_over, ph_err *err) {
    *is_over = 0;
    while (r->ff->av_read_frame(r->format, r->packet) >= 0) {
        if (r->n_packets++ >= r->how->packets_max) {
            r->ff->av_packet_unref(r->packet);
            return PH_FAIL(err, PH_ELIMIT, "the video's file holds more than %d packets: give it cut",
                           r->how->packets_max);
        }
        if (r->packet->stream_index == r->stream->index) return PH_OK;
        r->ff->av_packet_unref(r->packet);
    }
    *is_over = 1;
    return PH_OK;
}

ph_rc ph_ff_charge(ph_ff_reader *r, ph_err *err) {
    uint64_t w = r->codec->width > 0 ? (uint64_t)r->codec->width : 1;
    uint64_t h = r->codec->height > 0 ? (uint64_t)r->codec->height : 1;
    r->decoded += w * h;
    if (r->decoded <= r->how->decoded_max) return PH_OK;
    return PH_FAIL(err, PH_ELIMIT,
                   "the video's frames of %llu x %llu pixels come to more than %llu million to decode: take "
                   "fewer of them with --video-frames, or give it cut or scaled down",
                   (unsigned long long)w, (unsigned long long)h,
                   (unsigned long long)(r->how->decoded_max / 1000000));
}

/* Frames that the decoder has ready: those at index[*next ..] are kept. */
static ph_rc receive(ph_ff_reader *r, ph_video *v, const int *index, int n, int *next, int *count,
                     ph_err *err) {
    int code;
    while ((code = r->ff->avcodec_receive_frame(r->codec, r->frame)) >= 0) {
        for (; *next < n && index[*next] <= *count; (*next)++) PH_TRY(ph_ff_keep(r, v, err));
        if (++*count > PH_VIDEO_LENGTH_MAX)
            return PH_FAIL(err, PH_ELIMIT, "a video of more than %d frames: give it cut",
                           PH_VIDEO_LENGTH_MAX);
    }
    return code == AVERROR(EAGAIN) || code == AVERROR_EOF ? PH_OK : ph_ff_fail(r, code, "decoding", err);
}

/* The whole stream from its beginning, keeping index [n]; *count: the frames that it holds. */
static ph_rc walk(ph_ff_reader *r, ph_video *v, const int *index, int n, int *count, ph_err *err) {
    int   next = 0, is_over = 0;
    ph_rc rc = PH_OK;
    *count = 0;
    while (!rc && !(rc = ph_ff_next(r, &is_over, err)) && !is_over) {
        rc = ph_ff_charge(r, err);
        if (!rc) {
            int code = r->ff->avcodec_send_packet(r->codec, r->packet);
            rc = code < 0 ? ph_ff_fail(r, code, "decoding", err) : receive(r, v, index, n, &next, count, err);
        }
        r->ff->av_packet_unref(r->packet);
    }
    if (!rc) r->ff->avcodec_send_packet(r->codec, NULL);
    return rc ? rc : receive(r, v, index, n, &next, count, err);
}

static ph_rc walk_anew(ph_ff_reader *r, ph_video *v, const int *index, int n, int *count, ph_err *err) {
    if (v) ph_video_close(v);
    PH_TRY(ph_ff_reopen(r, err));
    return walk(r, v, index, n, count, err);
}

/* *told: frames that the container says it holds; 0: it does not say. */
static ph_rc describe(ph_ff_reader *r, ph_video_info *info, int *told, ph_err *err) {
    AVRational rate = r->stream->avg_frame_rate;
    if (rate.num <= 0 || rate.den <= 0)
        rate = r->ff->av_guess_frame_rate(r->format, (AVStream *)(uintptr_t)r->stream, NULL);
    info->fps = rate.num > 0 && rate.den > 0 ? (double)rate.num / rate.den : 0;
    int64_t n = r->stream->nb_frames;
    if (n > PH_VIDEO_LENGTH_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a video of %lld frames; the limit is %d: give it cut", (long long)n,
                       PH_VIDEO_LENGTH_MAX);
    *told = n > 0 ? (int)n : 0;
    return PH_OK;
}

static ph_rc choose(ph_ff_reader *r, ph_video *v, int *index, int *n, ph_err *err) {
    if (!v->info.n_frames) return PH_FAIL(err, PH_EFORMAT, "the video holds no frames");
    return r->how->choose(r->how->arg, &v->info, index, n, err);
}

static ph_rc take_by_decoding(ph_ff_reader *r, ph_video *v, int *index, ph_err *err) {
    int count, n;
    if (!v->info.n_frames) PH_TRY(walk_anew(r, NULL, NULL, 0, &v->info.n_frames, err));
    for (int trial = 0; trial < 2; trial++) {
        PH_TRY(choose(r, v, index, &n, err));
        PH_TRY(walk_anew(r, v, index, n, &count, err));
        if (count == v->info.n_frames) return PH_OK;
        v->info.n_frames = count;
    }
    return PH_FAIL(err, PH_EFORMAT, "the video holds %d frames one time and another number the next", count);
}

/* *is_done 0: the file is not what its packets say. */
static ph_rc take_by_packets(ph_ff_reader *r, ph_video *v, const ph_ff_list *l, int *index, int *is_done,
                             ph_err *err) {
    int n;
    PH_TRY(choose(r, v, index, &n, err));
    PH_TRY(ph_ff_reopen(r, err));
    PH_TRY(ph_ff_pick(r, v, l, index, n, is_done, err));
    if (!*is_done) ph_video_close(v);
    return PH_OK;
}

ph_rc ph_ff_take_chosen(ph_ff_reader *r, ph_video *v, ph_err *err) {
    ph_ff_list l = {0};
    int        told = 0, is_done = 0;
    PH_TRY(describe(r, &v->info, &told, err));
    int  *index = calloc(PH_VIDEO_FRAMES_MAX, sizeof *index);
    ph_rc rc = index ? ph_ff_list_open(&l, r, err) : PH_FAIL(err, PH_ENOMEM, "a list of frames");
    v->info.n_frames = told ? told : l.n;
    if (!rc && l.can_skip && v->info.n_frames == l.n) rc = take_by_packets(r, v, &l, index, &is_done, err);
    if (!rc && !is_done) rc = take_by_decoding(r, v, index, err);
    ph_ff_list_close(&l);
    free(index);
    return rc;
}

#endif
