/* video.c - the frames' bitmaps, and what a video may cost. */
#include "video/video.h"

#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (8 * i));
}

size_t ph_video_stride(int width) {
    return ph_round_up(3 * (size_t)width, 4);
}

uint64_t ph_video_pixels(const ph_video *v) {
    return (uint64_t)v->n_frames * (uint64_t)v->info.width * (uint64_t)v->info.height;
}

ph_rc ph_video_add(ph_video *v, int width, int height, uint64_t kept_max, uint8_t **rows, ph_err *err) {
    size_t n = PH_VIDEO_BMP_HEADER + ph_video_stride(width) * (size_t)height;
    if (v->n_frames && (width != v->info.width || height != v->info.height))
        return PH_FAIL(err, PH_EFORMAT, "the video's frames change their size to %d x %d", width, height);
    if (v->n_frames == PH_VIDEO_FRAMES_MAX)
        return PH_FAIL(err, PH_ELIMIT, "more than %d frames of a video", PH_VIDEO_FRAMES_MAX);
    if ((uint64_t)(v->n_frames + 1) * (uint64_t)width * (uint64_t)height > kept_max)
        return PH_FAIL(
            err, PH_ELIMIT,
            "frame %d of %d x %d pixels: the limit is %d million in all, of all videos of a question "
            "together, and %llu are left; take fewer with --video-frames",
            v->n_frames + 1, width, height, PH_VIDEO_PIXELS_MAX / 1000000, (unsigned long long)kept_max);
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

ph_video_how ph_video_settled(const ph_video_how *how) {
    ph_video_how h = *how;
    if (!h.pixels_max || h.pixels_max > INT_MAX) h.pixels_max = PH_VIDEO_FRAME_PIXELS;
    if (!h.kept_max || h.kept_max > PH_VIDEO_PIXELS_MAX) h.kept_max = PH_VIDEO_PIXELS_MAX;
    if (!h.decoded_max) h.decoded_max = PH_VIDEO_DECODED;
    if (!h.memory_max) h.memory_max = PH_VIDEO_MEMORY;
    if (h.packets_max <= 0) h.packets_max = PH_VIDEO_PACKETS;
    if (h.seconds_max <= 0) h.seconds_max = PH_VIDEO_SECONDS;
    if (!h.program) h.program = PH_VIDEO_SELF;
    if (h.clock_max <= 0)
        h.clock_max =
            h.seconds_max < INT_MAX / PH_VIDEO_PATIENCE ? PH_VIDEO_PATIENCE * h.seconds_max : INT_MAX;
    return h;
}

#ifdef PH_HAS_FFMPEG

ph_rc ph_video_read(ph_video *out, int file, const ph_video_how *how, ph_err *err) {
    const ph_video_how settled = ph_video_settled(how);
    struct stat        st;
    memset(out, 0, sizeof *out);
    if (fstat(file, &st)) return PH_FAIL(err, PH_EPATH, "the video cannot be read: %s", strerror(errno));
    if (!st.st_size) return PH_FAIL(err, PH_EFORMAT, "the video is empty: 0 bytes");
    ph_rc rc = ph_video_read_apart(out, file, &settled, err);
    if (!rc && ph_video_pixels(out) > settled.kept_max) /* a decoder that a file has taken over */
        rc = PH_FAIL(err, PH_EFORMAT, "the video's decoder sent more frames than it may");
    if (rc) ph_video_close(out);
    return rc;
}

#else

void ph_video_child(int argc, char **argv) {
    (void)argc, (void)argv;
}

ph_rc ph_video_read(ph_video *out, int file, const ph_video_how *how, ph_err *err) {
    memset(out, 0, sizeof *out);
    (void)file, (void)how;
    return PH_FAIL(
        err, PH_EMACHINE,
        "this program was built without ffmpeg's libraries, which read videos: install libavformat-dev, "
        "libavcodec-dev and libswscale-dev and build it again, or give frames with --image");
}

#endif
