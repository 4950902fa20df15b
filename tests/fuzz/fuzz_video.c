/* seeds: tests/golden/video */
/* fuzz_video.c - any bytes as a video: the chosen frames, all of the size that is said, or a clean refusal.
 */
#include "video/video.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static ph_rc choose(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err) {
    (void)arg, (void)err;
    assert(info->n_frames > 0 && info->n_frames <= PH_VIDEO_LENGTH_MAX);
    index[0] = 0;
    index[1] = info->n_frames - 1;
    *n = 2;
    return PH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    const ph_video_how how = {.pixels_max = 1 << 16, .choose = choose};
    ph_video           v;
    ph_err             err = {0};
    memset(&v, 0, sizeof v);
#ifdef PH_HAS_FFMPEG /* not in a process of its own */
    static ph_ffmpeg *ff;
    if (!ff && ph_ffmpeg_load(&ff, &err)) abort();
    ph_rc rc = n ? ph_ffmpeg_read(ff, &v, bytes, n, &how, &err) : PH_FAIL(&err, PH_EFORMAT, "nothing");
#else
    (void)bytes, (void)n;
    ph_rc rc = ph_video_read(&v, -1, &how, &err);
#endif
    if (rc) {
        assert(err.msg[0]);
        ph_video_close(&v);
        return 0;
    }
    assert(v.n_frames == 2);
    assert(v.frame_bytes == PH_VIDEO_BMP_HEADER + ph_video_stride(v.info.width) * (size_t)v.info.height);
    assert((uint64_t)v.info.width * (uint64_t)v.info.height <= how.pixels_max);
    ph_video_close(&v);
    return 0;
}
