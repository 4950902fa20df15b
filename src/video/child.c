/* child.c - the process that decodes a video: this program, started anew by apart.c.
 *
 *     socket:  order ─► limits ─► begun ─ libraries ─► which frames? ─► choice ─► decode ─► reply, frames ─ _exit
 *     file:    the video, mapped
 *
 * AddressSanitizer reserves more address space than there is memory: under it memory is not limited.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "base/asan.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* ---- the socket ---- */

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

/* The chooser of the process that waits. */
static ph_rc ask(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err) {
    ph_video_reply *r = arg;
    (void)err;
    *r = (ph_video_reply){.is_question = 1, .info = *info};
    if (!send_all(PH_VIDEO_SOCKET, r, sizeof *r) || !receive_all(PH_VIDEO_SOCKET, n, sizeof *n) || *n < 0 ||
        *n > PH_VIDEO_FRAMES_MAX || !receive_all(PH_VIDEO_SOCKET, index, (size_t)*n * sizeof *index))
        _exit(1);
    return PH_OK;
}

/* ---- limits ---- */

/* No more than this, and no more than before.  0, or -1 and errno. */
static int limit(int what, rlim_t soft, rlim_t hard) {
    struct rlimit now;
    if (getrlimit(what, &now)) return -1;
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > hard) now.rlim_max = hard;
    if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > soft) now.rlim_cur = soft;
    if (now.rlim_cur > now.rlim_max) now.rlim_cur = now.rlim_max;
    return setrlimit(what, &now);
}

/* Its end follows that of the process that waits. */
static void be_apart(pid_t parent, int seconds) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1);
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_CPU, (rlim_t)seconds, (rlim_t)seconds + 1);
}

/* What the process that waits has open is none of ours. */
static void close_others(void) {
    enum { FEW = 1024 };
#ifdef SYS_close_range
    if (!syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0)) return;
#endif
    for (int fd = STDERR_FILENO + 1; fd < FEW; fd++) close(fd);
}

void ph_video_obey(ph_video_how *how) {
    ph_video_order order;
    if (!receive_all(PH_VIDEO_SOCKET, &order, sizeof order)) _exit(1);
    close_others();
    be_apart(order.parent, order.how.seconds_max);
    *how = order.how;
    if (!send_all(PH_VIDEO_SOCKET, "", 1)) _exit(1);
}

/* Bytes beyond what is mapped now: the program, the file and the libraries.  *given: how many it comes
 * to, less where this process has a limit already.  Without a limit nothing is decoded. */
static ph_rc limit_memory(uint64_t bytes, uint64_t *given, ph_err *err) {
    *given = bytes;
#if !defined(__SANITIZE_ADDRESS__)
    unsigned long pages = 0;
    FILE         *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    rlim_t        now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    rlim_t        most = bytes < RLIM_INFINITY / 2 - now ? now + bytes : RLIM_INFINITY / 2;
    struct rlimit set;
    if (!pages)
        return PH_FAIL(err, PH_EMACHINE,
                       "the memory of a video's decoder cannot be limited, so it does not run: "
                       "/proc/self/statm cannot be read; mount /proc, or give frames with --image");
    if (!getrlimit(RLIMIT_AS, &set) && set.rlim_cur < most)
        *given = set.rlim_cur > now ? set.rlim_cur - now : 0;
    else if (most > now && limit(RLIMIT_AS, most, most)) /* else there is not so much to be had */
        return PH_FAIL(err, PH_EMACHINE, "the memory of a video's decoder cannot be limited: %s",
                       strerror(errno));
#else
    (void)err;
#endif
    return PH_OK;
}

static ph_rc decode(ph_video *v, const uint8_t *bytes, size_t n, const ph_video_how *how, ph_err *err) {
    ph_ffmpeg *ff;
    char       size[32];
    PH_TRY(ph_ffmpeg_load(&ff, err));
    uint64_t given;
    PH_TRY(limit_memory(how->memory_max, &given, err));
    ph_rc rc = ph_ffmpeg_read(ff, v, bytes, n, how, err);
    if (rc != PH_ENOMEM) return rc;
    ph_size_print(size, sizeof size, given);
    if (given < how->memory_max)
        return PH_FAIL(
            err, PH_ENOMEM,
            "the video's decoder wants more than %s of memory, which is what the limit of this "
            "process (ulimit -v) leaves beside what it holds: raise that, or take fewer frames with "
            "--video-frames",
            size);
    return PH_FAIL(err, PH_ELIMIT,
                   "the video's decoder wants more than %s of memory: allow more with --video-memory, take "
                   "fewer frames with --video-frames, or give it scaled down",
                   size);
}

/* Frames are given back as they are sent: both processes together hold each once. */
static void work(const ph_video_how *how) {
    ph_video       *v = calloc(1, sizeof *v);
    ph_video_reply *r = calloc(1, sizeof *r);
    ph_file         f;
    ph_err          err = {0};
    if (!v || !r) _exit(1);
    ph_video_how asking = *how;
    asking.choose = ask, asking.arg = r;
    ph_rc rc = ph_file_map(&f, PH_VIDEO_FILE, "the video", &err);
    if (!rc) rc = decode(v, f.bytes, f.n, &asking, &err);
    *r = (ph_video_reply){
        .rc = rc, .info = v->info, .n_frames = rc ? 0 : v->n_frames, .frame_bytes = v->frame_bytes};
    memcpy(r->message, err.msg, sizeof r->message);
    int ok = send_all(PH_VIDEO_SOCKET, r, sizeof *r);
    for (int i = 0; ok && i < r->n_frames; i++) {
        ok = send_all(PH_VIDEO_SOCKET, v->frame[i], v->frame_bytes);
        free(v->frame[i]);
    }
}

void ph_video_child(int argc, char **argv) {
    ph_video_how how;
    struct stat  st;
    if (argc != 2 || strcmp(argv[1], PH_VIDEO_WORD) != 0) return;
    if (fstat(PH_VIDEO_SOCKET, &st) || !S_ISSOCK(st.st_mode)) return; /* somebody typed it */
    ph_video_obey(&how);
    work(&how);
    _exit(0);
}

#endif
