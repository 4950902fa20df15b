/* test_ahead.c - reading ahead touches nothing, keeps to its bound and ends when it is told to; files in
 * memory of our own, and locked ones.
 */
#include "base/ahead.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/unit/unit.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = (5 << 20) + 1234, LARGE = 1 << 30 };

/* A file of n bytes, mapped, and gone by name; the first `known` are numbers of their place. */
static void file_of(ph_file *f, size_t n, size_t known) {
    char   path[] = "/tmp/ph-unit-XXXXXX";
    ph_err err = {0};
    int    fd = mkstemp(path);
    FILE  *out = fd >= 0 ? fdopen(fd, "wb") : NULL;
    *f = (ph_file){0};
    CHECK(out);
    if (!out) return;
    for (size_t i = 0; i < known; i++) fputc((int)(i * 31 >> 3 & 255), out);
    fflush(out);
    CHECK(!ftruncate(fd, (off_t)n));
    fclose(out);
    CHECK_SAY(!ph_file_open(f, path, &err), "%s", err.msg);
    unlink(path);
}

static int is_as_written(const ph_file *f) {
    for (size_t i = 0; i < f->n; i++)
        if (f->bytes[i] != (i * 31 >> 3 & 255)) return 0;
    return 1;
}

void test_ahead_ranges(void) {
    ph_file   f;
    ph_ahead *a;
    ph_mem    before, after;
    ph_err    err = {0};
    file_of(&f, SIZE, SIZE);
    const ph_ahead_range r[] = {{f.bytes + 100, 5000}, {f.bytes + (1 << 20), 3 << 20}, {f.bytes, 4096}};
    CHECK(ph_mem_read(&before) && !ph_ahead_open(&a, r, 3, 1, SIZE_MAX, &err));
    CHECK(ph_ahead_asked(a) >= 5000); /* the first before open returned */
    while (!ph_ahead_is_over(a)) usleep(1000);
    CHECK_SAY(ph_ahead_asked(a) == 5100 + (3 << 20) + 4096, "%zu", ph_ahead_asked(a));
    CHECK(ph_mem_read(&after));
    CHECK_SAY(after.rss_file < before.rss_file + (1 << 20), "%zu then %zu: pages were touched",
              before.rss_file, after.rss_file);
    ph_ahead_close(a);
    /* No more than it may; none at all. */
    CHECK(!ph_ahead_open(&a, r, 3, 3, 2 << 20, &err) && ph_ahead_is_over(a));
    CHECK(ph_ahead_asked(a) == 5100 + (1 << 20));
    ph_ahead_close(a);
    CHECK(!ph_ahead_open(&a, NULL, 0, 0, 0, &err) && ph_ahead_is_over(a) && !ph_ahead_asked(a));
    ph_ahead_close(a);
    ph_ahead_close(NULL);
    ph_file_close(&f);
}

/* Closed at once, again and again: it stops before its end, and nobody reads a map that is gone. */
void test_ahead_cancelled(void) {
    ph_err err = {0};
    int    n_short = 0;
    for (int i = 0; i < 20; i++) {
        ph_file   f;
        ph_ahead *a;
        file_of(&f, LARGE, 0);
        const ph_ahead_range r[] = {{f.bytes, f.n}};
        CHECK(!ph_ahead_open(&a, r, f.n ? 1 : 0, 0, SIZE_MAX, &err));
        n_short += !ph_ahead_is_over(a);
        ph_ahead_close(a);
        ph_file_close(&f);
    }
    CHECK_SAY(n_short > 0, "%d of 20 were still reading", n_short);
}

/* Pages that were touched go back, those that are wanted are not touched, and all is readable as before. */
void test_file_parts(void) {
    ph_file f, loaded = {.is_loaded = 1};
    ph_mem  before, touched, after;
    file_of(&f, SIZE, SIZE);
    ph_file_forget_part(&f, 0, SIZE);
    CHECK(ph_mem_read(&before));
    ph_file_want_part(&f, 1000, SIZE - 1000);
    CHECK(ph_mem_read(&after));
    CHECK_SAY(after.rss_file < before.rss_file + (1 << 20), "%zu then %zu: pages were touched",
              before.rss_file, after.rss_file);
    CHECK(is_as_written(&f) && ph_mem_read(&touched));
    CHECK(touched.rss_file >= before.rss_file + (4 << 20));
    ph_file_forget_part(&f, 5, SIZE - 10);
    CHECK(ph_mem_read(&after));
    CHECK_SAY(after.rss_file + (4 << 20) <= touched.rss_file, "%zu then %zu", touched.rss_file,
              after.rss_file);
    CHECK(is_as_written(&f));
    /* Nothing that is no part of it. */
    ph_file_forget_part(&f, SIZE, 1);
    ph_file_forget_part(&f, 1, SIZE_MAX);
    ph_file_want_part(&f, SIZE + 1, 0);
    ph_file_want_part(&f, 4096, SIZE);
    ph_file_forget_part(&loaded, 0, 0);
    ph_file_want_part(&(ph_file){0}, 0, 0);
    CHECK(is_as_written(&f));
    ph_file_close(&f);
}

void test_file_load(void) {
    ph_file f, none = {0};
    ph_mem  mapped, loaded, after;
    ph_err  err = {0};
    file_of(&f, SIZE, SIZE);
    const uint8_t *at = f.bytes;
    CHECK(is_as_written(&f) && ph_mem_read(&mapped));
    CHECK_SAY(!ph_file_load(&f, "it", &err), "%s", err.msg);
    CHECK(f.bytes == at && f.n == SIZE && is_as_written(&f) && ph_mem_read(&loaded));
    if (ut_can_hold_malloc()) /* a sanitizer's shadow counts too */
        CHECK_SAY(loaded.rss_anon >= mapped.rss_anon + SIZE - (64 << 10) &&
                      loaded.rss_file + SIZE <= mapped.rss_file + (256 << 10),
                  "anonymous %zu then %zu, of files %zu then %zu", mapped.rss_anon, loaded.rss_anon,
                  mapped.rss_file, loaded.rss_file);
    ph_file_close(&f);
    CHECK(ph_mem_read(&after) && after.rss_anon + SIZE / 2 < loaded.rss_anon);
    CHECK(!ph_file_load(&none, "nothing", &err) && !ph_file_lock(&none, "nothing", &err));
}

/* Leave to lock whatever the limit says is a capability; a child gives it up. */
static void without_leave(rlim_t most) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct   data[2];
    struct rlimit                   limit = {most, most};
    if (!syscall(SYS_capget, &head, data)) {
        for (int i = 0; i < 2; i++) data[i].inheritable = 0;
        data[CAP_IPC_LOCK / 32].effective &= ~(1u << CAP_IPC_LOCK % 32);
        data[CAP_IPC_LOCK / 32].permitted &= ~(1u << CAP_IPC_LOCK % 32);
        syscall(SYS_capset, &head, data);
    }
    setrlimit(RLIMIT_MEMLOCK, &limit);
}

void test_file_lock(void) {
    ph_file f;
    ph_mem  before, locked, after;
    ph_err  err = {0};
    int     status = 0;
    if (!ut_can_hold_malloc()) {
        printf("  a sanitizer makes nothing of mlock: nothing tried\n");
        return;
    }
    file_of(&f, SIZE, SIZE);
    ph_rc rc = ph_mem_read(&before) ? ph_file_lock(&f, "it", &err) : PH_EBUG;
    if (rc == PH_EMACHINE) /* this machine's limit is below 5 MB */
        printf("  %s\n", err.msg);
    else
        CHECK_SAY(!rc && ph_mem_read(&locked) && locked.locked >= before.locked + SIZE, "%zu then %zu locked",
                  before.locked, locked.locked);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        without_leave(64 << 10);
        rc = ph_file_lock(&f, "dir/weights", &err);
        _exit(rc == PH_EMACHINE && strstr(err.msg, "dir/weights") && strstr(err.msg, "65536") &&
                      strstr(err.msg, "ulimit -l")
                  ? 0
                  : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_SAY(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with %d", status);
    ph_file_close(&f);
    CHECK(ph_mem_read(&after) && after.locked == before.locked);
}
