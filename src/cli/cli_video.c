/* cli_video.c - a video file becomes pictures of a question: the frames that the model's trainer would have
 * taken. */
#include "cli/command.h"

#include "base/file.h"

#include <stdlib.h>
#include <unistd.h>

static ph_rc choose(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err) {
    const ph_cli *c = arg;
    PH_TRY(ph_recipe_sample(n, &c->opened->video_recipe, info->n_frames, info->fps, c->video_fps,
                            c->video_frames, err));
    if (*n > PH_VIDEO_FRAMES_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%d frames of a video; at most %d: take fewer with --video-frames", *n,
                       PH_VIDEO_FRAMES_MAX);
    for (int i = 0; i < *n; i++) index[i] = ph_recipe_sampled(i, *n, info->n_frames);
    return PH_OK;
}

/* Wrong with a video and without. */
ph_rc ph_cli_check_video(const ph_cli *c, ph_err *err) {
    if (c->video_fps >= 0 && c->video_fps <= 1e6) return PH_OK; /* not NaN either */
    return PH_FAIL(err, PH_EUSAGE, "--video-fps takes a number above 0, up to a million, not %g",
                   c->video_fps);
}

ph_rc ph_cli_read_video(ph_cli *c, const char *path, ph_video **out, ph_err *err) {
    const uint64_t     left = PH_VIDEO_PIXELS_MAX - c->video_pixels;
    const ph_video_how how = {.pixels_max = c->max_pixels,
                              .kept_max = left,
                              .memory_max = c->video_memory,
                              .seconds_max = c->video_seconds,
                              .cancel = c->cancel,
                              .choose = choose,
                              .arg = c};
    int                file;
    *out = NULL;
    if (!c->opened->video_recipe.kind)
        return PH_FAIL(
            err, PH_EUNSUP,
            "%s takes no videos: give pictures of it with --image, or a model that does (docs/models)",
            c->is_built_in ? "the built-in model" : c->path); /* of which nobody gave a path */
    if (!left)
        return PH_FAIL(err, PH_ELIMIT, "the videos before %s hold all %d million pixels that frames may have",
                       path, PH_VIDEO_PIXELS_MAX / 1000000);
    ph_video *v = calloc(1, sizeof *v);
    if (!v) return PH_FAIL(err, PH_ENOMEM, "a video's table");
    ph_rc rc = ph_file_descriptor(&file, path, err);
    if (!rc) {
        rc = ph_video_read(v, file, &how, err);
        close(file);
        if (rc) ph_note(err, rc, "in the video %s", path);
    }
    if (rc) {
        free(v);
        return rc;
    }
    c->video_pixels += ph_video_pixels(v);
    *out = v;
    return PH_OK;
}

json_t *ph_cli_decoder_json(const ph_cli *c) {
    const ph_video_how how = {.memory_max = c->video_memory, .seconds_max = c->video_seconds},
                       h = ph_video_settled(&how);
    return json_pack("{sI si}", "memory_max", (json_int_t)h.memory_max, "seconds_max", h.seconds_max);
}

void ph_cli_video_pictures(const ph_video *v, const char *name, ph_picture *out) {
    double fps = v->info.n_frames ? v->info.fps * v->n_frames / v->info.n_frames : 0;
    for (int i = 0; i < v->n_frames; i++)
        out[i] = (ph_picture){.bytes = v->frame[i], .n = v->frame_bytes, .name = name};
    if (!v->n_frames) return;
    out->n_frames = v->n_frames;
    out->fps = fps;
    out->is_video = 1;
}

void ph_cli_video_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]) {
    const ph_option r[] = {
        {"--video-frames", 0, "N", "take at most N frames of a video; default: as the model's trainer did",
         PH_OPTION_INT(0, PH_VIDEO_FRAMES_MAX), &c->video_frames},
        {"--video-fps", 0, "X", "take X frames a second of a video; default: as the model's trainer did",
         PH_OPTION_REAL, &c->video_fps},
        {"--video-seconds", 0, "N", "decode for N seconds of processor time at most (60), 4 N by the clock",
         PH_OPTION_INT(0, PH_CLI_SECONDS_MAX), &c->video_seconds},
        {"--video-memory", 0, "SIZE",
         "the decoder, a process of its own, takes SIZE of memory at most (2GiB)", PH_OPTION_SIZE,
         &c->video_memory},
    };
    ph_cli_copy_rows(rows, r, sizeof r / sizeof *r);
}

void ph_cli_free_video(ph_cli *c, ph_video *v) {
    if (!v) return;
    c->video_pixels -= ph_video_pixels(v);
    ph_video_close(v);
    free(v);
}
