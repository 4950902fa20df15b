/* video.c - the frames' bitmaps, and the process that decodes them.
 *
 * The libraries take tens of megabytes and meet a stranger's bytes: they are loaded by a child that sends the
 * frames through a pipe and ends.  The process that answers never holds them, and a decoder that crashes is a
 * bad file.
 */
#include "video/video.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (8 * i));
}

size_t ph_video_stride(int width) {
    return ph_round_up(3 * (size_t)width, 4);
}

ph_rc ph_video_add(ph_video *v, int width, int height, uint8_t **rows, ph_err *err) {
    size_t n = PH_VIDEO_BMP_HEADER + ph_video_stride(width) * (size_t)height;
    if (v->n_frames && (width != v->info.width || height != v->info.height))
        return PH_FAIL(err, PH_EFORMAT, "the video's frames change their size to %d x %d", width, height);
    if (v->n_frames == PH_VIDEO_FRAMES_MAX)
        return PH_FAIL(err, PH_ELIMIT, "more than %d frames of a video", PH_VIDEO_FRAMES_MAX);
    if ((uint64_t)(v->n_frames + 1) * (uint64_t)width * (uint64_t)height > PH_VIDEO_PIXELS_MAX)
        return PH_FAIL(
            err, PH_ELIMIT,
            "frame %d of %d x %d pixels: the limit is %d million in all; take fewer with --video-frames",
            v->n_frames + 1, width, height, PH_VIDEO_PIXELS_MAX / 1000000);
    uint8_t *b = calloc(1, n);
    if (!b) return PH_FAIL(err, PH_ENOMEM, "a frame of %d x %d pixels", width, height);
    memcpy(b, "BM", 2);
    put32(b + 2, (uint32_t)n);
    put32(b + 10, PH_VIDEO_BMP_HEADER);
    put32(b + 14, 40);
    put32(b + 18, (uint32_t)width);
    put32(b + 22, (uint32_t)-height); /* downwards */
    put32(b + 26, 1 | 24u << 16);
    v->info.width = width;
    v->info.height = height;
    v->frame_bytes = n;
    v->frame[v->n_frames++] = b;
    *rows = b + PH_VIDEO_BMP_HEADER;
    return PH_OK;
}

void ph_video_close(ph_video *v) {
    for (int i = 0; i < v->n_frames; i++) free(v->frame[i]);
    v->n_frames = 0;
}

/* ---- in a process of its own ---- */
#ifdef PH_HAS_FFMPEG

/* What comes through the pipe before the frames. */
typedef struct reply {
    ph_rc         rc;
    ph_err        err;
    ph_video_info info;
    int           n_frames;
    size_t        frame_bytes;
} reply;

static int send_all(int to, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    while (n) {
        ssize_t got = write(to, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        at += got;
        n -= (size_t)got;
    }
    return 1;
}

static int receive_all(int from, void *bytes, size_t n) {
    unsigned char *at = bytes;
    while (n) {
        ssize_t got = read(from, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        at += got;
        n -= (size_t)got;
    }
    return 1;
}

/* Frames are given back as they are sent: both processes together hold each once. */
static void child(int to, const uint8_t *bytes, size_t n, const ph_video_how *how) {
    ph_video *v = calloc(1, sizeof *v);
    reply    *r = calloc(1, sizeof *r);
    if (!v || !r) _exit(1);
    r->rc = ph_ffmpeg_read(v, bytes, n, how, &r->err);
    r->info = v->info;
    r->n_frames = r->rc ? 0 : v->n_frames;
    r->frame_bytes = v->frame_bytes;
    int ok = send_all(to, r, sizeof *r);
    for (int i = 0; ok && i < r->n_frames; i++) {
        ok = send_all(to, v->frame[i], v->frame_bytes);
        free(v->frame[i]);
    }
    _exit(0);
}

static ph_rc take_frames(ph_video *out, int from, const reply *r, ph_err *err) {
    out->info = r->info;
    out->frame_bytes = r->frame_bytes;
    for (int i = 0; i < r->n_frames; i++) {
        uint8_t *b = malloc(r->frame_bytes);
        if (!b) return PH_FAIL(err, PH_ENOMEM, "frame %d of a video, %zu bytes", i, r->frame_bytes);
        out->frame[out->n_frames++] = b;
        if (!receive_all(from, b, r->frame_bytes))
            return PH_FAIL(err, PH_EFORMAT, "the video's decoder ended early, at frame %d of %d", i,
                           r->n_frames);
    }
    return PH_OK;
}

static ph_rc take_reply(ph_video *out, int from, ph_err *err) {
    reply *r = calloc(1, sizeof *r);
    ph_rc  rc = PH_OK;
    if (!r) return PH_FAIL(err, PH_ENOMEM, "a video's table");
    if (!receive_all(from, r, sizeof *r)) {
        rc = PH_FAIL(err, PH_EFORMAT, "the video's decoder crashed: the file is damaged");
    } else if (r->rc) {
        rc = r->rc;
        if (err) *err = r->err;
    } else {
        rc = take_frames(out, from, r, err);
    }
    free(r);
    return rc;
}

static ph_rc read_apart(ph_video *out, const uint8_t *bytes, size_t n, const ph_video_how *how, ph_err *err) {
    int pipes[2], status;
    if (pipe(pipes)) return PH_FAIL(err, PH_EMACHINE, "no pipe to a video's decoder: %s", strerror(errno));
    pid_t pid = fork();
    if (!pid) {
        close(pipes[0]);
        child(pipes[1], bytes, n, how);
    }
    close(pipes[1]);
    ph_rc rc = pid < 0 ? PH_FAIL(err, PH_EMACHINE, "no process for a video's decoder: %s", strerror(errno))
                       : take_reply(out, pipes[0], err);
    close(pipes[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return rc;
}

#endif

ph_rc ph_video_read(ph_video *out, const uint8_t *bytes, size_t n, const ph_video_how *how, ph_err *err) {
    memset(out, 0, sizeof *out);
    if (!n) return PH_FAIL(err, PH_EFORMAT, "the video is empty: 0 bytes");
#ifdef PH_HAS_FFMPEG
    ph_rc rc = read_apart(out, bytes, n, how, err);
    if (rc) ph_video_close(out);
    return rc;
#else
    (void)bytes, (void)how;
    return PH_FAIL(
        err, PH_EMACHINE,
        "this program was built without ffmpeg's libraries, which read videos: install libavformat-dev, "
        "libavcodec-dev and libswscale-dev and build it again, or give frames with --image");
#endif
}
