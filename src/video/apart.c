/* apart.c - the process that decodes a video, and how long it may.
 *
 *     this process                         child
 *     poll, deadline, cancel ◄── pipe ──── libraries ─ limits ─ decode ─ frames ─ _exit
 *     kill, reap
 *
 * The libraries take tens of megabytes and meet a stranger's bytes: they are loaded by a child that sends the
 * frames through a pipe and ends.  The process that answers never holds them, and a decoder that crashes is a
 * bad file.  The child's processor time and memory are limited by the kernel, its time by the clock from
 * here.
 *
 * AddressSanitizer reserves more address space than there is memory: under it memory is not limited.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "base/asan.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* ---- in the child ---- */

/* No more than this, and no more than before.  0, or -1 and errno. */
static int limit(int what, rlim_t soft, rlim_t hard) {
    struct rlimit now;
    if (getrlimit(what, &now)) return -1;
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > hard) now.rlim_max = hard;
    if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > soft) now.rlim_cur = soft;
    if (now.rlim_cur > now.rlim_max) now.rlim_cur = now.rlim_max;
    return setrlimit(what, &now);
}

/* Signals as in a new process; its end follows ours. */
static void be_apart(pid_t parent, int seconds) {
    static const int all[] = {SIGXCPU, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM};
    sigset_t         none;
    sigemptyset(&none);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) signal(all[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1);
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_CPU, (rlim_t)seconds, (rlim_t)seconds + 1);
}

/* Bytes beyond what is mapped now: ours, shared since the fork, and the libraries.  *given: how many it comes
 * to, less where this process has a limit already.  Without a limit nothing is decoded. */
static ph_rc limit_memory(uint64_t bytes, uint64_t *given, ph_err *err) {
    *given = bytes;
#if !defined(__SANITIZE_ADDRESS__)
    unsigned long pages = 0;
    FILE         *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    rlim_t        now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE), most = now + bytes;
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

/* Frames are given back as they are sent: both processes together hold each once. */
static void child(int to, const uint8_t *bytes, size_t n, const ph_video_how *how) {
    ph_video       *v = calloc(1, sizeof *v);
    ph_video_reply *r = calloc(1, sizeof *r);
    ph_err          err = {0};
    if (!v || !r) _exit(1);
    r->rc = decode(v, bytes, n, how, &err);
    memcpy(r->message, err.msg, sizeof r->message);
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

/* ---- in the process that waits ---- */

typedef enum ending { RUNNING, ENDED, LATE, CANCELLED } ending;

typedef struct decoder {
    const ph_video_how *how;
    pid_t               pid;
    int                 from;
    uint64_t            deadline; /* of ph_clock_ns */
    ending              end;
} decoder;

/* Is its time up, whatever it does? */
static ending is_over(const decoder *d) {
    if (d->how->cancel && atomic_load(d->how->cancel)) return CANCELLED;
    return ph_clock_ns() > d->deadline ? LATE : RUNNING;
}

/* Until there is something to read: RUNNING, or the reason why no more is read.  The clock is asked each
 * time: a decoder may send a byte now and then, for ever. */
static ending wait_for(const decoder *d) {
    enum { SLICE_MS = 100 };
    for (;;) {
        struct pollfd p = {.fd = d->from, .events = POLLIN};
        int           ready = poll(&p, 1, SLICE_MS);
        int           is_ended = ready < 0 && errno != EINTR;
        ending        end = is_over(d);
        if (end != RUNNING) return end;
        if (is_ended) return ENDED;
        if (ready > 0) return RUNNING;
    }
}

static int receive_all(decoder *d, void *bytes, size_t n) {
    unsigned char *at = bytes;
    while (n) {
        if ((d->end = wait_for(d)) != RUNNING) return 0;
        ssize_t got = read(d->from, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) d->end = ENDED;
        if (got <= 0) return 0;
        at += got;
        n -= (size_t)got;
    }
    return 1;
}

/* Whatever it is doing, it is over; no zombie stays.  One that has closed the pipe is about to end, and its
 * status says how; if it does not end it is late. */
static void reap(decoder *d, int *status, struct rusage *usage) {
    enum { SLICE_MS = 100 };
    for (int ms = 1; d->end == ENDED; ms = ms < SLICE_MS / 2 ? 2 * ms : SLICE_MS) {
        pid_t got = wait4(d->pid, status, WNOHANG, usage);
        if (got == d->pid || (got < 0 && errno != EINTR)) return;
        ending end = is_over(d);
        if (end != RUNNING)
            d->end = end;
        else
            poll(NULL, 0, ms);
    }
    kill(d->pid, SIGKILL);
    while (wait4(d->pid, status, 0, usage) < 0 && errno == EINTR) continue;
}

/* Why nothing came. */
static ph_rc explain(const decoder *d, int status, const struct rusage *u, ph_err *err) {
    static const char help[] = "take fewer frames with --video-frames, allow more with --video-seconds, or "
                               "give it cut or scaled down";
    char              size[32];
    int               killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (d->end == LATE)
        return PH_FAIL(err, PH_ELIMIT, "decoding the video took more than %d s by the clock: %s",
                       d->how->clock_max, help);
    if (d->end == CANCELLED || killed_by == SIGINT || killed_by == SIGTERM)
        return PH_FAIL(err, PH_ECANCEL, "decoding the video was interrupted");
    if (killed_by == SIGXCPU ||
        (killed_by == SIGKILL && u->ru_utime.tv_sec + u->ru_stime.tv_sec + 1 >= d->how->seconds_max))
        return PH_FAIL(err, PH_ELIMIT, "decoding the video took more than %d s of processor time: %s",
                       d->how->seconds_max, help);
    ph_size_print(size, sizeof size, d->how->memory_max);
    if (killed_by == SIGKILL)
        return PH_FAIL(err, PH_ENOMEM, "the video's decoder was killed: the machine has no memory left");
    return PH_FAIL(err, PH_EFORMAT,
                   "the video's decoder crashed (%s): the file is damaged, or wants more than %s of memory",
                   killed_by ? strsignal(killed_by) : "it sent nothing", size);
}

/* A decoder that a file has taken over may send anything.  There may be more chosen frames than the file has:
 * one can be chosen twice. */
static int is_sound(const ph_video_reply *r) {
    uint64_t row = r->info.width > 0 ? ph_video_stride(r->info.width) : 0;
    return r->info.n_frames > 0 && r->info.n_frames <= PH_VIDEO_LENGTH_MAX && isfinite(r->info.fps) &&
           r->info.fps >= 0 && r->n_frames > 0 && r->n_frames <= PH_VIDEO_FRAMES_MAX && row &&
           r->info.height > 0 &&
           (uint64_t)r->n_frames * (uint64_t)r->info.width * (uint64_t)r->info.height <=
               PH_VIDEO_PIXELS_MAX &&
           r->frame_bytes == PH_VIDEO_BMP_HEADER + row * (uint64_t)r->info.height;
}

/* The reason that it gives, if it is one. */
static ph_rc pass_on(const ph_video_reply *r, ph_err *err) {
    if (!strcmp(ph_rc_name(r->rc), "?") || !r->message[0])
        return PH_FAIL(err, PH_EFORMAT, "the video's decoder gave up without a reason that can be right");
    return PH_FAIL(err, r->rc, "%.*s", (int)sizeof r->message - 1, r->message);
}

/* PH_EFORMAT with d->end other than RUNNING: it stopped sending. */
static ph_rc take_frames(ph_video *out, decoder *d, const ph_video_reply *r, ph_err *err) {
    if (!is_sound(r)) return PH_FAIL(err, PH_EFORMAT, "the video's decoder sent no frames that can be right");
    out->info = r->info;
    out->frame_bytes = r->frame_bytes;
    for (int i = 0; i < r->n_frames; i++) {
        uint8_t *b = malloc(r->frame_bytes);
        if (!b)
            return PH_FAIL(err, PH_ENOMEM,
                           "frame %d of %d of a video, %zu bytes each, which this process holds, not its "
                           "decoder: take fewer frames with --video-frames",
                           i + 1, r->n_frames, r->frame_bytes);
        out->frame[out->n_frames++] = b;
        if (!receive_all(d, b, r->frame_bytes)) return PH_EFORMAT;
    }
    return PH_OK;
}

static ph_rc take_reply(ph_video *out, decoder *d, ph_err *err) {
    ph_video_reply *r = calloc(1, sizeof *r);
    ph_rc           rc = PH_EFORMAT;
    if (!r) return PH_FAIL(err, PH_ENOMEM, "a video's table");
    if (receive_all(d, r, sizeof *r)) rc = r->rc ? pass_on(r, err) : take_frames(out, d, r, err);
    free(r);
    return rc;
}

ph_rc ph_video_read_apart(ph_video *out, const uint8_t *bytes, size_t n, const ph_video_how *how,
                          ph_err *err) {
    int           pipes[2], status = 0;
    pid_t         self = getpid();
    struct rusage usage = {0};
    decoder       d = {.how = how, .deadline = ph_clock_ns() + 1000000000u * (uint64_t)how->clock_max};
    if (pipe(pipes)) return PH_FAIL(err, PH_EMACHINE, "no pipe to a video's decoder: %s", strerror(errno));
    d.pid = fork();
    if (!d.pid) {
        close(pipes[0]);
        be_apart(self, how->seconds_max);
        child(pipes[1], bytes, n, how);
    }
    int no_child = d.pid < 0 ? errno : 0;
    close(pipes[1]);
    d.from = pipes[0];
    ph_rc rc = no_child
                   ? PH_FAIL(err, PH_EMACHINE, "no process for a video's decoder: %s", strerror(no_child))
                   : take_reply(out, &d, err);
    close(d.from);
    if (no_child) return rc;
    reap(&d, &status, &usage);
    return d.end == RUNNING ? rc : explain(&d, status, &usage, err);
}

#endif
