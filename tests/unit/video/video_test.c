/* video_test.c - frames of small videos against the formula that they were made by, and ffmpeg's own
 * conversion. Built without ffmpeg's libraries, or run where they are not: only that this is said. */
#include "base/asan.h"
#include "base/file.h"
#include "tests/unit/unit.h"
#include "video/video.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/video/tests.def"
#undef PH_TEST

#define VIDEOS "tests/golden/video/"

enum { W = 10, H = 6, N = 13 };

/* Every step-th frame from first on, and the last once more. */
typedef struct choice {
    int first, step;
} choice;

static ph_rc choose(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err) {
    choice *c = arg;
    (void)err;
    *n = 0;
    for (int i = c->first; i < info->n_frames; i += c->step) index[(*n)++] = i;
    index[(*n)++] = info->n_frames - 1;
    return PH_OK;
}

static ph_rc read_how(ph_video *v, const char *name, const ph_video_how *how, ph_err *err) {
    int   file;
    ph_rc rc = ph_file_descriptor(&file, name, err);
    CHECK_SAY(!rc, "%s: %s", name, err->msg);
    if (rc) return rc;
    rc = ph_video_read(v, file, how, err);
    close(file);
    return rc;
}

/* Bytes that stand in no folder. */
static ph_rc read_bytes(ph_video *v, const void *bytes, size_t n, const ph_video_how *how, ph_err *err) {
    int file = memfd_create("video", MFD_CLOEXEC);
    CHECK(file >= 0 && write(file, bytes, n) == (ssize_t)n);
    ph_rc rc = ph_video_read(v, file, how, err);
    close(file);
    return rc;
}

static ph_rc read_file(ph_video *v, const char *name, choice *c, uint64_t pixels_max, ph_err *err) {
    const ph_video_how how = {.choose = choose, .arg = c, .pixels_max = pixels_max};
    return read_how(v, name, &how, err);
}

/* Is there anything to test here? */
static int can_read(void) {
    ph_video v;
    ph_err   err = {0};
    choice   c = {.step = 1};
    ph_rc    rc = read_file(&v, VIDEOS "plain.mov", &c, 0, &err);
    if (!rc) ph_video_close(&v);
    if (rc != PH_EMACHINE) return 1;
    CHECK_SAY(strstr(err.msg, "ffmpeg's libraries"), "%s", err.msg);
    return 0;
}

static void formula(uint8_t out[3], int k, int x, int y) {
    out[0] = (uint8_t)(7 * k + 3 * x + 5 * y);
    out[1] = (uint8_t)(11 * k + x);
    out[2] = (uint8_t)(13 * k + 9 * y);
}

/* Frame i of v is frame k of the formula, turned clockwise. */
static void same(const ph_video *v, int i, int k, int degrees, const char *name) {
    int wrong = 0, w = degrees % 180 ? H : W, h = degrees % 180 ? W : H;
    CHECK_SAY(v->info.width == w && v->info.height == h, "%s: %d x %d", name, v->info.width, v->info.height);
    if (v->info.width != w || v->info.height != h) return;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            uint8_t want[3];
            int     from_x = degrees == 90 ? y : degrees == 180 ? W - 1 - x : degrees == 270 ? W - 1 - y : x;
            int     from_y = degrees == 90 ? H - 1 - x : degrees == 180 ? H - 1 - y : degrees == 270 ? x : y;
            formula(want, k, from_x, from_y);
            wrong +=
                memcmp(v->frame[i] + PH_VIDEO_BMP_HEADER + (size_t)y * ph_video_stride(w) + 3 * (size_t)x,
                       want, 3) != 0;
        }
    CHECK_SAY(!wrong, "%s, frame %d: %d pixels differ", name, k, wrong);
}

static void frames_of(const char *name, int n, int first, int step) {
    ph_video v;
    ph_err   err = {0};
    choice   c = {.first = first, .step = step};
    ph_rc    rc = read_file(&v, name, &c, 0, &err);
    CHECK_SAY(!rc, "%s: %s", name, err.msg);
    if (rc) return;
    CHECK_SAY(v.info.n_frames == n, "%s: %d frames", name, v.info.n_frames);
    CHECK(v.n_frames == (n - first + step - 1) / step + 1 && v.info.fps > 9.9 && v.info.fps < 10.1);
    for (int i = 0; i < v.n_frames; i++) same(&v, i, i == v.n_frames - 1 ? n - 1 : first + i * step, 0, name);
    ph_video_close(&v);
}

void test_video_frames(void) {
    if (!can_read()) return;
    frames_of(VIDEOS "plain.mov", N, 0, 1);
    frames_of(VIDEOS "plain.mov", N, 3, 4);
    frames_of(VIDEOS "plain.mov", N, 12, 1);  /* the last twice */
    frames_of(VIDEOS "counted.mkv", N, 0, 5); /* does not say how many it holds */
    frames_of(VIDEOS "one.mkv", 1, 0, 1);
}

void test_video_turned(void) {
    static const int degrees[] = {90, 180, 270};
    if (!can_read()) return;
    for (int i = 0; i < 3; i++) {
        char     name[64];
        ph_video v;
        ph_err   err = {0};
        choice   c = {.step = 1};
        snprintf(name, sizeof name, VIDEOS "turned%d.mov", degrees[i]);
        ph_rc rc = read_file(&v, name, &c, 0, &err);
        CHECK_SAY(!rc, "%s: %s", name, err.msg);
        if (rc) continue;
        same(&v, 0, 0, degrees[i], name);
        same(&v, 1, 1, degrees[i], name);
        ph_video_close(&v);
    }
}

/* A video that the tool of the same libraries makes, how many frames, and which of them are read at what
 * cost. */
typedef struct made {
    const char *how, *file;
    int         n, step;
    uint64_t    frames_decoded; /* at most; 0: no matter */
} made;

enum { MADE_W = 66, MADE_H = 50, MADE_BYTES = 3 * MADE_W * MADE_H };

/* Frame i of v, which is frame k of the file, against the raw ones. */
static void compare(const made *m, const ph_video *v, int i, int k, FILE *raw) {
    static uint8_t want[MADE_BYTES];
    int            wrong = 0;
    CHECK(!fseek(raw, (long)MADE_BYTES * k, SEEK_SET) && fread(want, MADE_BYTES, 1, raw) == 1);
    for (size_t y = 0; y < MADE_H; y++)
        for (size_t x = 0; x < 3 * MADE_W; x++) {
            int d =
                want[3 * MADE_W * y + x] - v->frame[i][PH_VIDEO_BMP_HEADER + ph_video_stride(MADE_W) * y + x];
            wrong += d < -1 || d > 1;
        }
    CHECK_SAY(!wrong, "%s, frame %d: %d numbers differ by more than 1", m->how, k, wrong);
}

/* As the tool itself shows them. */
static void as_made(const char *folder, const made *m) {
    char               command[800], name[200];
    ph_video           v;
    ph_err             err = {0};
    choice             c = {.step = m->step};
    const ph_video_how how = {
        .choose = choose, .arg = &c, .decoded_max = m->frames_decoded * MADE_W * MADE_H};
    snprintf(command, sizeof command,
             "ffmpeg -v error -y -f lavfi -i testsrc2=size=%dx%d:rate=5 -frames:v %d %s %s/%s && "
             "ffmpeg -v error -y -i %s/%s -f rawvideo -pix_fmt bgr24 %s/a.raw",
             MADE_W, MADE_H, m->n, m->how, folder, m->file, folder, m->file, folder);
    CHECK_SAY(!system(command), "%s", command);
    snprintf(name, sizeof name, "%s/%s", folder, m->file);
    ph_rc rc = read_how(&v, name, &how, &err);
    CHECK_SAY(!rc && v.info.n_frames == m->n, "%s: %s", m->how, err.msg);
    snprintf(name, sizeof name, "%s/a.raw", folder);
    FILE *f = rc ? NULL : fopen(name, "rb");
    for (int i = 0; f && i < v.n_frames; i++)
        compare(m, &v, i, i == v.n_frames - 1 ? m->n - 1 : m->step * i, f);
    if (f) fclose(f);
    if (!rc) ph_video_close(&v);
}

/* A folder for what the tool makes; 0: there is no tool.  Golden videos need none. */
static int make_folder(char *folder) {
    if (system("ffmpeg -version > /dev/null 2>&1") || !can_read()) return 0;
    CHECK(mkdtemp(folder) != NULL);
    return 1;
}

static void remove_folder(const char *folder) {
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(!system(command));
}

static int has_encoder(const char *name) {
    char command[120];
    snprintf(command, sizeof command, "ffmpeg -v error -h encoder=%s 2> /dev/null | grep -q ^Encoder", name);
    return !system(command);
}

/* Sub-sampled colours, both ranges and matrices. */
void test_video_colors(void) {
    static const made all[] = {
        {"-c:v mpeg4 -q:v 3", "a.mp4", 10, 3, 0},
        {"-c:v mpeg4 -q:v 3 -bf 2", "a.mp4", 10, 3, 0}, /* frames that are stored in another order */
        {"-c:v mjpeg -q:v 3 -pix_fmt yuvj420p", "a.mp4", 10, 3, 0},
        {"-c:v mpeg4 -q:v 3 -colorspace bt709", "a.mp4", 10, 3, 0},
    };
    char folder[] = "/tmp/pinhole-video-XXXXXX";
    if (!make_folder(folder)) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) as_made(folder, &all[i]);
    remove_folder(folder);
}

/* Few frames of many: what lies between is not decoded, and they are the same. */
void test_video_far(void) {
    static const made all[] = {
        {"-c:v mjpeg -q:v 3 -pix_fmt yuvj420p", "a.mp4", 240, 67, 5},
        {"-c:v mjpeg -q:v 3 -pix_fmt yuvj420p", "a.mkv", 240, 67, 5},
    };
    static const made h264[] = {
        {"-c:v libx264 -bf 0 -g 12 -keyint_min 12 -sc_threshold 0", "a.mp4", 240, 67, 60},
        {"-c:v libx264 -bf 3 -g 12 -keyint_min 12 -sc_threshold 0", "a.mkv", 240, 67, 60},
        {"-c:v libx264 -bf 3 -g 12 -sc_threshold 0 -x264-params open-gop=1", "a.mp4", 240, 7, 0},
        {"-c:v libx264 -bf 3 -g 12 -sc_threshold 0 -x264-params open-gop=1", "a.mkv", 240, 67, 0},
        {"-c:v libx264 -g 240 -x264-params intra-refresh=1", "a.mp4", 240, 67,
         0}, /* no keyframes to begin at */
        {"-c:v libx264 -bf 3 -g 12", "a.ts", 60, 17, 0},
    };
    static const made hevc[] = {
        {"-c:v libx265 -x265-params log-level=none:keyint=12:bframes=3:scenecut=0", "a.mp4", 120, 37, 100}};
    static const made vp9[] = {
        {"-c:v libvpx-vp9 -g 12 -b:v 200k -auto-alt-ref 1 -lag-in-frames 8", "a.webm", 60, 17, 0}};
    char folder[] = "/tmp/pinhole-video-XXXXXX";
    if (!make_folder(folder)) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) as_made(folder, &all[i]);
    for (size_t i = 0; has_encoder("libx264") && i < sizeof h264 / sizeof *h264; i++)
        as_made(folder, &h264[i]);
    if (has_encoder("libx265")) as_made(folder, hevc);
    if (has_encoder("libvpx-vp9")) as_made(folder, vp9);
    remove_folder(folder);
}

static void refused(const char *name, uint64_t pixels_max, ph_rc want, const char *words) {
    ph_video v;
    ph_err   err = {0};
    choice   c = {.step = 1};
    ph_rc    rc = read_file(&v, name, &c, pixels_max, &err);
    CHECK_SAY(rc == want && strstr(err.msg, words), "%s: %s %s", name, ph_rc_name(rc), err.msg);
    if (!rc) ph_video_close(&v);
}

void test_video_refused(void) {
    ph_video           v;
    ph_err             err = {0};
    choice             c = {.step = 1};
    const ph_video_how how = {.choose = choose, .arg = &c};
    if (!can_read()) return;
    CHECK(read_bytes(&v, "", 0, &how, &err) == PH_EFORMAT && strstr(err.msg, "0 bytes"));
    static const char list[] =
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n";
    CHECK(read_bytes(&v, list, sizeof list - 1, &how, &err) && !v.n_frames);
    refused("tests/golden/video/make_video.py", 0, PH_EFORMAT, "opening the video failed");
    refused(VIDEOS "plain.mov", W * H - 1, PH_EUNSUP, "video"); /* the decoder itself refuses such frames */
    refused("tests/golden/images/tiny.png", 0, PH_EUNSUP, "opening the video failed");
}

/* Cut anywhere: frames, or a clean refusal. */
void test_video_cut(void) {
    static const char *const names[] = {VIDEOS "counted.mkv", VIDEOS "turned90.mov"};
    if (!can_read()) return;
    for (int i = 0; i < 2; i++) {
        ph_file f;
        ph_err  err = {0};
        CHECK(!ph_file_open(&f, names[i], &err));
        for (size_t cut = 1; cut < f.n; cut += 97) {
            ph_video           v;
            choice             c = {.step = 1};
            const ph_video_how how = {.choose = choose, .arg = &c};
            ph_rc              rc = read_bytes(&v, f.bytes, cut, &how, &err);
            CHECK_SAY(rc ? err.msg[0] && !v.n_frames : v.n_frames > 0, "%s cut at %zu", names[i], cut);
            if (!rc) ph_video_close(&v);
        }
        ph_file_close(&f);
    }
}

/* ---- what a video may cost ---- */

/* What a decoder might do instead of its work, with the limits that it has: the child looks here which it is
 * to be, and does as it should where this is not set. */
#define MISDEED "PH_TEST_DECODER"
#define OTHER   "PH_TEST_DESCRIPTOR"

/* After what was settled: the sender's own words. */
static void drip(void) { /* a byte now and then, of a reply that never ends */
    while (write(PH_VIDEO_SOCKET, "\0", 1) == 1) usleep(20000);
    _exit(0);
}

static void doze(void) {
    for (volatile int on = 1; on;) pause();
}

static void hang_up(void) {
    close(PH_VIDEO_SOCKET);
    doze();
}

static void spin(void) {
    for (volatile int on = 1; on;) continue;
}

/* 0 and a reason, which is none of its own: whether a descriptor of the other process is open here. */
static void look(void) {
    int                   open_there = atoi(getenv(OTHER) ? getenv(OTHER) : "0");
    static ph_video_reply r = {.rc = PH_EUNSUP, .message = "closed"};
    if (fcntl(open_there, F_GETFD) >= 0) memcpy(r.message, "it is open", sizeof "it is open");
    if (write(PH_VIDEO_SOCKET, &r, sizeof r) < 0) _exit(1);
    _exit(0);
}

static void hang_up_signal(void) {
    signal(SIGHUP, SIG_DFL); /* under nohup it is ignored, here too */
    raise(SIGHUP);
    doze();
}

static void crash(void) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's report is not wanted */
    raise(SIGSEGV);
}

static void vanish(void) {
    _exit(0);
}

/* ---- a decoder that a file has taken over ---- */

enum { GOOD, INFOS = 10, CODES = 3 }; /* forged replies: 0 is a right one */

typedef struct forged {
    ph_video_reply reply;
    int            n; /* frames behind it */
    ph_rc          want;
    const char    *words;
} forged;

/* Reply k; 0: there are no more. */
static int forge(forged *out, int k) {
    static const ph_video_reply good = {
        .info = {10, 6, 13, 8}, .n_frames = 2, .frame_bytes = PH_VIDEO_BMP_HEADER + 6 * 32};
    static const ph_video_info bad[INFOS] = {
        {10, 6, 0, 8},         {10, 6, -1, 8},   {10, 6, 13, -1}, {10, 6, PH_VIDEO_LENGTH_MAX + 1, 8},
        {10, 6, 13, INFINITY}, {10, 6, 13, NAN}, {0, 6, 13, 8},   {10, 0, 13, 8},
        {10, 7, 13, 8},        {-10, 6, 13, 8}};
    static const int codes[CODES] = {1, -1000, 0x7fffffff};
    *out = (forged){good, 2, PH_EFORMAT, "no frames that can be right"};
    if (k == GOOD) out->want = PH_OK, out->words = "";
    if (k == GOOD) return 1;
    if (--k < INFOS) out->reply.info = bad[k];
    if (k < INFOS) return 1;
    if ((k -= INFOS) == 0) out->reply.n_frames = PH_VIDEO_FRAMES_MAX + 1;
    if (k == 1) out->reply.frame_bytes++;
    if (k <= 1) return 1;
    out->n = 0, out->words = "without a reason";
    memset(out->reply.message, 'x', sizeof out->reply.message); /* without an end */
    if ((k -= 2) < CODES) out->reply.rc = (ph_rc)codes[k];
    if (k < CODES) return 1;
    out->reply.rc = PH_EUNSUP;
    if ((k -= CODES) == 0) out->want = PH_EUNSUP, out->words = "xxx";
    if (k == 1) out->reply.message[0] = 0;
    if (k <= 1) return 1;
    out->reply = good, out->reply.is_question = 1, out->words = "asked what cannot be right";
    if (k == 2) out->reply.info.n_frames = 0;
    if (k == 3) out->n = -10; /* again and again */
    return k <= 3;
}

static void send_forged(int k) {
    forged f;
    char   frame[1024] = {0};
    int    ok = forge(&f, k) && write(PH_VIDEO_SOCKET, &f.reply, sizeof f.reply) == (ssize_t)sizeof f.reply;
    for (int i = 0; ok && i < f.n; i++) ok = write(PH_VIDEO_SOCKET, frame, f.reply.frame_bytes) > 0;
    for (int i = f.n; ok && i < 0; i++) ok = write(PH_VIDEO_SOCKET, &f.reply, sizeof f.reply) > 0;
    doze(); /* it does not end either */
}

static const struct {
    const char *name;
    void (*run)(void);
} misdeeds[] = {{"drip", drip},   {"doze", doze},     {"hang_up", hang_up}, {"spin", spin},
                {"crash", crash}, {"vanish", vanish}, {"look", look},       {"hup", hang_up_signal}};

void ut_begin(int argc, char **argv) {
    const char  *name = getenv(MISDEED);
    ph_video_how how;
    if (name && argc == 2 && !strcmp(argv[1], PH_VIDEO_WORD)) {
#ifdef PH_HAS_FFMPEG
        ph_video_obey(&how);
#endif
        for (size_t i = 0; i < sizeof misdeeds / sizeof *misdeeds; i++)
            if (!strcmp(misdeeds[i].name, name)) misdeeds[i].run();
        send_forged(atoi(name));
    }
    (void)how;
    ph_video_child(argc, argv);
}

static void costs(const char *name, const ph_video_how *how, ph_rc want, const char *words) {
    ph_video v;
    ph_err   err = {0};
    ph_rc    rc = read_how(&v, name, how, &err);
    CHECK_SAY(rc == want && strstr(err.msg, words), "%s: %s %s", name, ph_rc_name(rc), err.msg);
    CHECK(!rc || !v.n_frames);
    CHECK_SAY(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "%s: a child is left", words);
    if (!rc) ph_video_close(&v);
}

static ph_rc refuse(void *arg, const ph_video_info *info, int *index, int *n, ph_err *err) {
    (void)arg, (void)info, (void)index, (void)n;
    return PH_FAIL(err, PH_EUSAGE, "none of them");
}

void test_video_limits(void) {
    choice             c = {.step = 1};
    const ph_video_how work = {.choose = choose, .arg = &c, .decoded_max = 12 * W * H},
                       enough = {.choose = choose, .arg = &c, .decoded_max = N * W * H},
                       packets = {.choose = choose, .arg = &c, .packets_max = 12},
                       nobody = {.choose = choose, .arg = &c, .program = "/no/such/program"},
                       another = {.choose = choose, .arg = &c, .program = "/bin/false"},
                       boundless = {.choose = choose, .arg = &c, .memory_max = UINT64_MAX},
                       unwilling = {.choose = refuse, .arg = &c};
    if (!can_read()) return;
    costs(VIDEOS "plain.mov", &work, PH_ELIMIT, "--video-frames");
    costs(VIDEOS "counted.mkv", &work, PH_ELIMIT, "frames of 10 x 6 pixels come to more than");
    costs(VIDEOS "plain.mov", &enough, PH_OK, "");
    costs(VIDEOS "counted.mkv", &enough, PH_OK, "");
    costs(VIDEOS "plain.mov", &packets, PH_ELIMIT, "more than 12 packets");
    costs(VIDEOS "plain.mov", &nobody, PH_EMACHINE, "cannot be started");
    costs(VIDEOS "plain.mov", &another, PH_EMACHINE,
          "/bin/false, started for a video's decoder, is none (status 1)");
    costs(VIDEOS "plain.mov", &boundless, PH_OK, "");
    costs(VIDEOS "plain.mov", &unwilling, PH_EUSAGE, "none of them");
}

static void does(const char *misdeed, const ph_video_how *how, ph_rc want, const char *words) {
    ph_video_how asking = *how;
    choice       c = {.step = 1};
    asking.choose = choose, asking.arg = &c;
    CHECK(!setenv(MISDEED, misdeed, 1));
    costs(VIDEOS "plain.mov", &asking, want, words);
    unsetenv(MISDEED);
}

void test_video_taken(void) {
    atomic_int         now = 1;
    const ph_video_how processor = {.seconds_max = 1, .clock_max = 60}, clock = {.clock_max = 1},
                       cancel = {.cancel = &now}, any = {.clock_max = 30};
    char   name[16];
    forged f;
    if (!can_read()) return;
    does("spin", &processor, PH_ELIMIT, "more than 1 s of processor time");
    does("doze", &clock, PH_ELIMIT, "more than 1 s by the clock");
    does("drip", &clock, PH_ELIMIT, "more than 1 s by the clock");
    does("hang_up", &clock, PH_ELIMIT, "more than 1 s by the clock");
    does("doze", &cancel, PH_ECANCEL, "interrupted");
    does("crash", &any, PH_EFORMAT, "crashed");
    does("vanish", &any, PH_EFORMAT, "sent nothing");
    does("hup", &any, PH_ECANCEL, "interrupted");
    int null = open("/dev/null", O_RDONLY), other = fcntl(null, F_DUPFD, 3); /* without FD_CLOEXEC */
    snprintf(name, sizeof name, "%d", other);
    CHECK(other > 2 && !setenv(OTHER, name, 1));
    does("look", &any, PH_EUNSUP, "closed");
    close(other);
    close(null);
    unsetenv(OTHER);
    signal(SIGCHLD, SIG_IGN);
    does("vanish", &any, PH_EMACHINE, "ignores SIGCHLD");
    signal(SIGCHLD, SIG_DFL);
    for (int k = 0; forge(&f, k); k++) {
        snprintf(name, sizeof name, "%d", k);
        does(name, &any, f.want, f.words);
    }
}

/* Threads that allocate and end at the moment of starting: none of their locks is waited for. */
static void *busy(void *arg) {
    atomic_int *on = arg;
    while (atomic_load(on)) free(malloc(4096));
    return NULL;
}

void test_video_beside_threads(void) {
    enum { THREADS = 4, ROUNDS = 20 };
    const ph_video_how how = {.choose = choose, .arg = &(choice){.step = 1}, .clock_max = 60};
    if (!can_read()) return;
    for (int round = 0; round < ROUNDS; round++) {
        atomic_int on = 1;
        pthread_t  id[THREADS];
        int        n = 0;
        while (n < THREADS && !pthread_create(&id[n], NULL, busy, &on)) n++;
        costs(VIDEOS "plain.mov", &how, PH_OK, "");
        atomic_store(&on, 0);
        while (n) pthread_join(id[--n], NULL);
    }
}

/* Frames of nothing that a few bytes each ask for: pixels, memory. */
void test_video_hostile(void) {
    char               folder[] = "/tmp/pinhole-video-XXXXXX", command[400], name[200];
    choice             c = {.step = 1000};
    const ph_video_how work = {.choose = choose, .arg = &c, .decoded_max = 1 << 26},
                       pixels = {.choose = choose, .arg = &c, .pixels_max = 1 << 20},
                       memory = {.choose = choose, .arg = &c, .memory_max = 8 << 20},
                       fitting = {.choose = choose, .arg = &c};
    if (!make_folder(folder)) return;
    snprintf(name, sizeof name, "%s/a.mkv", folder);
    snprintf(command, sizeof command,
             "ffmpeg -v error -y -f lavfi -i color=black:size=2048x2048 -frames:v 20 -c:v mpeg4 -g 100 %s",
             name);
    CHECK_SAY(!system(command), "%s", command);
    costs(name, &work, PH_ELIMIT, "come to more than 67 million to decode");
    costs(name, &pixels, PH_EUNSUP, "video");
    costs(name, &fitting, PH_OK, "");
#if !defined(__SANITIZE_ADDRESS__)
    costs(name, &memory, PH_ELIMIT, "more than 8.39 MB of memory");
#endif
    (void)memory;
    remove_folder(folder);
}
