/* ffmpeg.h - what the files share that call ffmpeg's libraries: one opened video.
 *
 *     ffmpeg.c          the libraries, the opened file
 *     ffmpeg_walk.c     packets to frames: which are decoded, which are kept, and what that may cost
 *     ffmpeg_pick.c     the packets of a stream listed, and only those decoded that chosen frames need
 *     ffmpeg_frame.c    a frame to a bitmap: colours, turning
 */
#ifndef PH_VIDEO_FFMPEG_H
#define PH_VIDEO_FFMPEG_H

#include "video/video.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>

enum { PH_FF_MATRIX = 9 };

struct ph_ffmpeg {
    void *avutil, *avcodec, *avformat, *swscale;
#define PH_FF(library, function) __typeof__(function) *function;
#include "video/ffmpeg.def"
#undef PH_FF
};

typedef struct ph_ff_reader {
    ph_ffmpeg          *ff;
    const ph_video_how *how; /* every limit in its place */
    const uint8_t      *bytes;
    size_t              n, at;
    AVIOContext        *io;
    AVFormatContext    *format;
    AVCodecContext     *codec;
    AVPacket           *packet;
    AVFrame            *frame;
    struct SwsContext  *scaler;
    uint8_t            *stored; /* a frame before it is turned */
    const AVStream     *stream;
    int32_t             matrix[PH_FF_MATRIX]; /* of display; all 0: upright as it is */
    uint64_t            decoded;              /* pixels so far, of all passes */
    int                 n_packets;            /* read so far */
} ph_ff_reader;

ph_rc ph_ff_reopen(ph_ff_reader *r, ph_err *err); /* the file from its beginning */
/* An error of the libraries: "WHAT the video failed". */
ph_rc ph_ff_fail(const ph_ff_reader *r, int code, const char *what, ph_err *err);
/* r->frame becomes the next bitmap of v. */
ph_rc ph_ff_keep(ph_ff_reader *r, ph_video *v, ph_err *err);
/* The chosen frames into v. */
ph_rc ph_ff_take_chosen(ph_ff_reader *r, ph_video *v, ph_err *err);

#endif
