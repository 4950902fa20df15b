/* apart.c - the process that decodes a video, and how long it may.
 *
 *     this process                            child: this program, started anew (child.c)
 *     start, order                  ────►     libraries ─ limits
 *     poll, deadline, cancel        ◄────►    which frames? ─ decode ─ frames ─ _exit
 *     kill, reap
 *
 * The libraries take tens of megabytes and meet a stranger's bytes: they are loaded by a child that sends the
 * frames through a socket and ends.  The process that answers never holds them, and a decoder that crashes is
 * a bad file.  The child's processor time and memory are limited by the kernel, its time by the clock from
 * here.  It begins as a program, not as a copy of this process: another thread may hold a lock of malloc, of
 * the loader or of a sanitizer at that moment, and a copy would wait for it for ever.
 */
#include "video/video.h"

#ifdef PH_HAS_FFMPEG

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- starting it ---- */

/* What ends it is not ignored, whatever this process does; the two descriptors in their places. */
static int spawn(pid_t *pid, const char *program, int socket, int file) {
    static const int all[] = {SIGXCPU, SIGXFSZ, SIGPIPE, SIGALRM};
    char name[] = "pinhole", word[] = PH_VIDEO_WORD, *const argv[] = {name, word, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t          how;
    sigset_t                   set;
    int                        e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    if ((e = posix_spawnattr_init(&how))) {
        posix_spawn_file_actions_destroy(&actions);
        return e;
    }
    sigemptyset(&set);
    e = posix_spawnattr_setsigmask(&how, &set);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) sigaddset(&set, all[i]);
    if (!e) e = posix_spawnattr_setsigdefault(&how, &set);
    if (!e) e = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (!e) e = posix_spawn_file_actions_adddup2(&actions, socket, PH_VIDEO_SOCKET);
    if (!e) e = posix_spawn_file_actions_adddup2(&actions, file, PH_VIDEO_FILE);
    if (!e) e = posix_spawn(pid, program, &actions, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

/* A number that is none of the places': what stands there first must not be overwritten. */
static int above(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* 0, or what errno would be.  *from: our end. */
static int start(pid_t *pid, int *from, const char *program, int file) {
    int ends[2], e;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return errno;
    int socket = above(ends[1]), video = above(file);
    e = socket < 0 || video < 0 ? errno : spawn(pid, program, socket, video);
    if (socket >= 0) close(socket);
    if (video >= 0) close(video);
    close(ends[1]);
    if (e)
        close(ends[0]);
    else
        *from = ends[0];
    return e;
}

/* ---- in the process that waits ---- */

typedef enum ending { RUNNING, ENDED, LATE, CANCELLED, LOST } ending;

typedef struct decoder {
    const ph_video_how *how;
    pid_t               pid;
    int                 from;
    uint64_t            deadline; /* of ph_clock_ns */
    ending              end;
    int                 has_begun; /* as a decoder: it has said so */
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

/* Whatever it is doing, it is over; no zombie stays.  One that has closed the socket is about to end, and its
 * status says how; if it does not end it is late. */
static void reap(decoder *d, int *status, struct rusage *usage) {
    enum { SLICE_MS = 100 };
    for (int ms = 1; d->end == ENDED; ms = ms < SLICE_MS / 2 ? 2 * ms : SLICE_MS) {
        pid_t got = wait4(d->pid, status, WNOHANG, usage);
        if (got < 0 && errno == ECHILD) d->end = LOST; /* who ignores SIGCHLD is not told */
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
    if (d->end == CANCELLED || killed_by == SIGINT || killed_by == SIGTERM || killed_by == SIGHUP ||
        killed_by == SIGQUIT)
        return PH_FAIL(err, PH_ECANCEL, "decoding the video was interrupted");
    if (d->end == LOST)
        return PH_FAIL(err, PH_EMACHINE,
                       "the video's decoder ended and its status is lost: this process ignores SIGCHLD");
    if (!d->has_begun && WIFEXITED(status))
        return PH_FAIL(err, PH_EMACHINE,
                       "%s, started for a video's decoder, is none (status %d): give frames with --image",
                       d->how->program, WEXITSTATUS(status));
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

/* A decoder that a file has taken over may send anything. */
static int is_info(const ph_video_info *i) {
    return i->n_frames > 0 && i->n_frames <= PH_VIDEO_LENGTH_MAX && isfinite(i->fps) && i->fps >= 0;
}

/* There may be more chosen frames than the file has: one can be chosen twice. */
static int is_sound(const ph_video_reply *r) {
    uint64_t row = r->info.width > 0 ? ph_video_stride(r->info.width) : 0;
    return is_info(&r->info) && r->n_frames > 0 && r->n_frames <= PH_VIDEO_FRAMES_MAX && row &&
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

/* 0: it does not take it; one that asked has read all that came before, so there is room. */
static int put(const decoder *d, const void *bytes, size_t n) {
    return send(d->from, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

/* Which frames?  It asks once, and again when the file turns out to hold another number of them. */
static ph_rc answer(decoder *d, const ph_video_info *asked, int n_asked, ph_err *err) {
    enum { QUESTIONS_MAX = 4 };
    const ph_video_info info = {.n_frames = asked->n_frames, .fps = asked->fps};
    int                 index[PH_VIDEO_FRAMES_MAX], n = 0;
    if (n_asked >= QUESTIONS_MAX || !is_info(asked))
        return PH_FAIL(err, PH_EFORMAT, "the video's decoder asked what cannot be right");
    PH_TRY(d->how->choose(d->how->arg, &info, index, &n, err));
    if (!put(d, &n, sizeof n) || !put(d, index, (size_t)n * sizeof *index)) d->end = ENDED;
    return d->end == ENDED ? PH_EFORMAT : PH_OK;
}

static ph_rc take_reply(ph_video *out, decoder *d, ph_err *err) {
    ph_video_reply *r = calloc(1, sizeof *r);
    ph_rc           rc = r ? PH_OK : PH_FAIL(err, PH_ENOMEM, "a video's table");
    char            begun;
    if (!rc && !receive_all(d, &begun, 1)) rc = PH_EFORMAT;
    d->has_begun = !rc;
    for (int n_asked = 0; !rc; n_asked++) {
        rc = receive_all(d, r, sizeof *r) ? PH_OK : PH_EFORMAT;
        if (rc || !r->is_question) break;
        rc = answer(d, &r->info, n_asked, err);
    }
    if (!rc) rc = r->rc ? pass_on(r, err) : take_frames(out, d, r, err);
    free(r);
    return rc;
}

ph_rc ph_video_read_apart(ph_video *out, int file, const ph_video_how *how, ph_err *err) {
    int            status = 0;
    ph_video_order order = {.parent = getpid(), .how = *how};
    struct rusage  usage = {0};
    decoder        d = {.how = how, .deadline = ph_clock_ns() + 1000000000u * (uint64_t)how->clock_max};
    int            e = start(&d.pid, &d.from, how->program, file);
    if (e)
        return PH_FAIL(err, PH_EMACHINE,
                       "the video's decoder, a process of its own, cannot be started (%s: %s): %sgive frames "
                       "with --image",
                       how->program, strerror(e),
                       e == ENOENT || e == EACCES ? "mount /proc if it is not there, or " : "");
    order.how.choose = NULL, order.how.arg = NULL, order.how.cancel = NULL, order.how.program = NULL;
    if (!put(&d, &order, sizeof order)) d.end = ENDED;
    ph_rc rc = d.end == ENDED ? PH_EFORMAT : take_reply(out, &d, err);
    close(d.from);
    reap(&d, &status, &usage);
    return d.end == RUNNING ? rc : explain(&d, status, &usage, err);
}

#endif
