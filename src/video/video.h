/* video.h - frames out of a video file: those that a chooser picks, upright, as bitmaps.
 *
 *     file --count--> frames, rate --chooser--> which --decode--> BMP files [n_frames], all of one size
 *
 * Frames are handed on as BMP files in memory, so that they go the way of every picture.  Decoding is that of
 * ffmpeg's libraries, which a child process loads: this program, started anew; it ends with the last frame.
 * The process that answers does not hold them, and a machine without them runs everything else.
 *
 * Everything here reads untrusted input.  No other file and no network is opened, whatever a file refers to,
 * and the child has limits of work, memory and time.
 */
#ifndef PH_VIDEO_VIDEO_H
#define PH_VIDEO_VIDEO_H

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PH_VIDEO_FRAMES_MAX = 1024,      /* that can be chosen */
    PH_VIDEO_LENGTH_MAX = 1 << 20,   /* frames of the file: five hours at 60 a second */
    PH_VIDEO_PIXELS_MAX = 256 << 20, /* of all chosen frames together, also of several videos */
};

/* What a video may cost, unless ph_video_how says otherwise (decision 160). */
enum {
    PH_VIDEO_FRAME_PIXELS = 100000000,
    PH_VIDEO_PACKETS = 8 << 20, /* of all streams, in all passes */
    PH_VIDEO_SECONDS = 60,      /* of processor time */
    PH_VIDEO_PATIENCE = 4,      /* times as long by the clock: others may be at work too */
};
#define PH_VIDEO_DECODED (UINT64_C(1) << 36) /* pixels: eighteen minutes of 1920 x 1080 at 30 a second */
#define PH_VIDEO_MEMORY  (UINT64_C(2) << 30) /* bytes: the chosen frames take up to 0.75 GiB of them */

typedef struct ph_video_info {
    int    width, height; /* upright */
    int    n_frames;      /* of the file */
    double fps;           /* of the file, on average */
} ph_video_info;

typedef struct ph_video {
    ph_video_info info;
    uint8_t      *frame[PH_VIDEO_FRAMES_MAX]; /* [n_frames], each a BMP file of frame_bytes; owned */
    int           n_frames;
    size_t        frame_bytes;
} ph_video;

/* Limits that are 0 are those above. */
typedef struct ph_video_how {
    uint64_t pixels_max;      /* of a frame */
    uint64_t kept_max;        /* pixels of the chosen frames together; PH_VIDEO_PIXELS_MAX at most */
    uint64_t decoded_max;     /* pixels of all frames that are decoded, chosen or not */
    uint64_t memory_max;      /* bytes that the child takes, beside the program, the file and its libraries */
    int      packets_max;     /* read from the file */
    int      seconds_max;     /* of processor time */
    int      clock_max;       /* seconds by the clock; 0: PH_VIDEO_PATIENCE times seconds_max */
    const atomic_int *cancel; /* or NULL: looked at ten times a second */
    const char       *program; /* whose main begins with ph_video_child; NULL: PH_VIDEO_SELF */
    /* info: n_frames and fps, checked; the size is not known yet.  Fill index [PH_VIDEO_FRAMES_MAX] with the
     * frames that are wanted, ascending, and *n.  Called again when the file turns out to hold another number
     * of frames than it says. */
    ph_rc (*choose)(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err);
    void *arg;
} ph_video_how;

/* Read the chosen frames of a video: a regular file open for reading, which stays the caller's; where it
 * stands in it does not matter. Errors: PH_EMACHINE this program was built without ffmpeg's libraries, or
 * they are not there, or no process can be started; PH_EUNSUP no video that they read; PH_EFORMAT damaged;
 * PH_ELIMIT of the file, or of work, memory or time; PH_ECANCEL; PH_ENOMEM; those of the chooser.  The child
 * is gone when this returns. */
ph_rc ph_video_read(ph_video *out, int file, const ph_video_how *how, ph_err *err);
void  ph_video_close(ph_video *v);
/* Pixels of the frames that it holds. */
uint64_t ph_video_pixels(const ph_video *v);

/* What a program that reads videos calls first: if it was started as a decoder this does not return (decision
 * 176). */
void ph_video_child(int argc, char **argv);
#define PH_VIDEO_WORD "--decode-frames" /* its only argument then */
#define PH_VIDEO_SELF "/proc/self/exe"

/* ---- between the files of this room ---- */

ph_video_how ph_video_settled(const ph_video_how *how); /* with every limit in its place */

/* An empty BMP file whose rows run downwards; where they begin. */
enum { PH_VIDEO_BMP_HEADER = 54 };
size_t ph_video_stride(int width); /* bytes of a row: blue, green, red; padded */
/* Room for another frame. Errors: PH_ELIMIT more than kept_max pixels with it, or too many frames; PH_EFORMAT
 * another size than before; PH_ENOMEM. */
ph_rc ph_video_add(ph_video *v, int width, int height, uint64_t kept_max, uint8_t **rows, ph_err *err);

/* ---- between the two processes (apart.c, child.c), which are one program ---- */

/* The child's descriptors: what is said both ways, and the video. */
enum { PH_VIDEO_SOCKET = 0, PH_VIDEO_FILE = 1 };

/* To the child, first of all. */
typedef struct ph_video_order {
    pid_t        parent;
    ph_video_how how; /* without its pointers */
} ph_video_order;

/* From the child: one byte when it has begun; then a question, which an int n and index [n] answer, or the
 * end, with the frames behind it. */
typedef struct ph_video_reply {
    int           is_question; /* which frames, of a file of which info is known */
    ph_rc         rc;          /* PH_OK, or why there are none */
    char          message[sizeof(((ph_err *)0)->msg)];
    ph_video_info info;
    int           n_frames;
    size_t        frame_bytes;
} ph_video_reply;

ph_rc ph_video_read_apart(ph_video *out, int file, const ph_video_how *how, ph_err *err);
void  ph_video_obey(ph_video_how *how); /* in the child: take the order, and its limits */

/* Decoding in this process, with limits of work but not of memory or time (ffmpeg.c). */
typedef struct ph_ffmpeg ph_ffmpeg;
ph_rc                    ph_ffmpeg_load(ph_ffmpeg **out, ph_err *err); /* for the rest of the process */
ph_rc ph_ffmpeg_read(ph_ffmpeg *ff, ph_video *out, const uint8_t *bytes, size_t n, const ph_video_how *how,
                     ph_err *err);

#endif
