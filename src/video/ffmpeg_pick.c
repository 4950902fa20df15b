/* ffmpeg_pick.c - chosen frames of a long video without decoding the rest.
 *
 *     packets   K p p b p | K p p p | K p p p p | K b p ...        K: keyframe
 *     chosen          *                   *         *
 *     decoded   └─────┘             └─────┘     └───┘              a run each: keyframe to chosen
 *
 * Packets are read one after the other and most are dropped: no container's index of seek points is believed.
 * A frame is known by its time stamp; frame k is the k-th in time.  That holds for streams of which each
 * packet is one frame, so it is done for containers and codecs where it is the rule, and checked: a run must
 * give the frames of its packets, each once, in the order of time, none of them marked as damaged.  A frame
 * that is shown before the keyframe in front of it (an open group) needs the group before as well.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "video/ffmpeg_pick.h"

#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

static ph_rc grow(ph_ff_list *l, int *max, ph_err *err) {
    if (l->n < *max) return PH_OK;
    int          more = *max ? 2 * *max : 1024;
    ph_ff_coded *coded = realloc(l->coded, (size_t)more * sizeof *coded);
    if (coded) l->coded = coded;
    ph_ff_shown *shown = coded ? realloc(l->shown, (size_t)more * sizeof *shown) : NULL;
    if (!shown) return PH_FAIL(err, PH_ENOMEM, "a list of %d packets of a video", more);
    l->shown = shown;
    *max = more;
    return PH_OK;
}

static void add(ph_ff_list *l, const AVPacket *p) {
    int n = l->n++, is_key = (p->flags & AV_PKT_FLAG_KEY) != 0;
    l->coded[n] = (ph_ff_coded){.key = is_key ? n : n ? l->coded[n - 1].key : 0};
    l->shown[n] = (ph_ff_shown){.pts = p->pts, .packet = n};
    if (p->pts == AV_NOPTS_VALUE || p->size <= 0 || (!n && !is_key) ||
        (p->flags & (AV_PKT_FLAG_DISCARD | AV_PKT_FLAG_CORRUPT)))
        l->can_skip = 0;
}

/* Containers that write time stamps and keyframes down, codecs of which a packet is a frame. */
static int is_regular(const ph_ff_reader *r) {
    static const enum AVCodecID known[] = {AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_VP9,
                                           AV_CODEC_ID_AV1};
    const AVCodecParameters    *p = r->stream->codecpar;
    const char                 *container = r->format->iformat->name;
    const AVCodecDescriptor    *d = r->ff->avcodec_descriptor_get(p->codec_id);
    if (strcmp(container, "mov,mp4,m4a,3gp,3g2,mj2") && strcmp(container, "matroska,webm")) return 0;
    if (p->field_order != AV_FIELD_UNKNOWN && p->field_order != AV_FIELD_PROGRESSIVE) return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == p->codec_id) return 1;
    return d && (d->props & AV_CODEC_PROP_INTRA_ONLY);
}

static int by_time(const void *a, const void *b) {
    int64_t x = ((const ph_ff_shown *)a)->pts, y = ((const ph_ff_shown *)b)->pts;
    return (x > y) - (x < y);
}

static void order(ph_ff_list *l) {
    qsort(l->shown, (size_t)l->n, sizeof *l->shown, by_time);
    for (int k = 0; k < l->n; k++) {
        l->coded[l->shown[k].packet].frame = k;
        if (k && l->shown[k].pts == l->shown[k - 1].pts) l->can_skip = 0;
    }
}

ph_rc ph_ff_list_open(ph_ff_list *l, ph_ff_reader *r, ph_err *err) {
    int max = 0, is_over;
    *l = (ph_ff_list){.can_skip = is_regular(r)};
    for (;;) {
        PH_TRY(ph_ff_next(r, &is_over, err));
        if (is_over) break;
        ph_rc rc = l->n < PH_VIDEO_LENGTH_MAX ? grow(l, &max, err) : PH_OK;
        int   is_long = l->n >= PH_VIDEO_LENGTH_MAX;
        if (!rc && !is_long) add(l, r->packet);
        r->ff->av_packet_unref(r->packet);
        PH_TRY(rc);
        if (is_long) l->n = l->can_skip = 0;
        if (is_long) break;
    }
    if (l->n) order(l);
    return PH_OK;
}

void ph_ff_list_close(ph_ff_list *l) {
    free(l->coded);
    free(l->shown);
    *l = (ph_ff_list){0};
}

/* ---- runs ---- */

typedef struct run {
    int first, last; /* packets */
    int from, to;    /* index [from .. to) comes out of it */
    int frame, n;    /* the frame that came last, how many came */
} run;

/* The keyframe at which decoding begins for frame k; -1: there is none. */
static int begin_of(const ph_ff_list *l, int k) {
    if (k < 0 || k >= l->n) return -1;
    int key = l->coded[l->shown[k].packet].key;
    if (k < l->coded[key].frame) key = key ? l->coded[key - 1].key : 0;
    return k < l->coded[key].frame ? -1 : key;
}

/* The run of index[from] and of what follows within it.  0: the list makes no sense. */
static int plan(run *out, const ph_ff_list *l, const int *index, int n, int from) {
    int begin = begin_of(l, index[from]);
    if (begin < 0) return 0;
    *out = (run){
        .first = begin, .last = l->shown[index[from]].packet, .from = from, .to = from + 1, .frame = -1};
    for (; out->to < n; out->to++) {
        int k = index[out->to], next = begin_of(l, k);
        if (next < out->first || k < index[out->to - 1]) return 0;
        if (next > out->last) break;
        if (l->shown[k].packet > out->last) out->last = l->shown[k].packet;
    }
    return 1;
}

static int frame_of(const ph_ff_list *l, int64_t pts) {
    const ph_ff_shown  key = {.pts = pts};
    const ph_ff_shown *s = bsearch(&key, l->shown, (size_t)l->n, sizeof key, by_time);
    return s ? (int)(s - l->shown) : -1;
}

/* Frames that the decoder has ready. */
static ph_rc receive(ph_ff_reader *r, ph_video *v, const ph_ff_list *l, const int *index, run *u,
                     int *is_right, ph_err *err) {
    int code = AVERROR(EAGAIN);
    while (*is_right && (code = r->ff->avcodec_receive_frame(r->codec, r->frame)) >= 0) {
        int k = frame_of(l, r->frame->pts);
        if (k >= 0 && k < l->coded[u->first].frame)
            continue; /* shown before, and stands on what was dropped */
        *is_right = k > u->frame && l->shown[k].packet >= u->first && l->shown[k].packet <= u->last &&
                    !(r->frame->flags & AV_FRAME_FLAG_CORRUPT);
        if (!*is_right) break;
        u->frame = k;
        u->n++;
        for (; u->from < u->to && index[u->from] == k; u->from++) PH_TRY(ph_ff_keep(r, v, err));
    }
    if (*is_right) *is_right = code == AVERROR(EAGAIN) || code == AVERROR_EOF;
    return PH_OK;
}

static ph_rc decode(ph_ff_reader *r, ph_video *v, const ph_ff_list *l, const int *index, run *u, int *at,
                    int *is_right, ph_err *err) {
    int is_over = 0, wanted = 0;
    r->ff->avcodec_flush_buffers(r->codec);
    for (; *at <= u->last && *is_right; (*at)++) {
        PH_TRY(ph_ff_next(r, &is_over, err));
        if (is_over) *is_right = 0;
        if (is_over) break;
        int   is_dropped = *at < u->first;
        ph_rc rc = is_dropped ? PH_OK : ph_ff_charge(r, err);
        if (!rc && !is_dropped) {
            wanted += l->coded[*at].frame >= l->coded[u->first].frame;
            *is_right = r->ff->avcodec_send_packet(r->codec, r->packet) >= 0;
            rc = receive(r, v, l, index, u, is_right, err);
        }
        r->ff->av_packet_unref(r->packet);
        PH_TRY(rc);
    }
    if (*is_right) *is_right = r->ff->avcodec_send_packet(r->codec, NULL) >= 0;
    PH_TRY(receive(r, v, l, index, u, is_right, err));
    *is_right = *is_right && u->n == wanted && u->from == u->to;
    return PH_OK;
}

ph_rc ph_ff_pick(ph_ff_reader *r, ph_video *v, const ph_ff_list *l, const int *index, int n, int *is_right,
                 ph_err *err) {
    int at = 0;
    run u;
    *is_right = n > 0;
    for (int from = 0; from < n && *is_right; from = u.to) {
        *is_right = plan(&u, l, index, n, from) && u.first >= at;
        if (*is_right) PH_TRY(decode(r, v, l, index, &u, &at, is_right, err));
    }
    return PH_OK;
}

#endif
