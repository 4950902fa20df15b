/* file.c - files as read-only maps, and the check that a name stays in its folder.
 *
 * A name that comes from a file (a shard's, a template's) is data of a stranger:
 * ph_file_open_in looks at the text of the name first and then at where its
 * links really lead.  Not done: a file that another process cuts short while it
 * is mapped ends the process with SIGBUS, as with every mapped file.
 */
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The end of a path says more than its beginning, and a message has little room. */
static const char *tail(const char *path) {
    size_t n = strlen(path);
    return n > 160 ? path + n - 160 : path;
}

static const char *kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISSOCK(mode)) return "a socket";
    return "no regular file";
}

ph_rc ph_file_may_replace(const char *path, ph_err *err) {
    struct stat st;
    if (!*path) return PH_FAIL(err, PH_EPATH, "an empty path names no file to write");
    if (stat(path, &st) || S_ISREG(st.st_mode)) return PH_OK; /* what cannot be looked at fails when opened */
    return PH_FAIL(err, PH_EPATH, "%s: is %s, not a file that may be replaced; name a file to write",
                   tail(path), kind_of(st.st_mode));
}

/* A regular file, and how many bytes it has. */
static ph_rc measure(size_t *n, int fd, size_t most, const char *path, ph_err *err) {
    struct stat st;
    if (fstat(fd, &st)) return PH_FAIL(err, PH_EPATH, "%s: %s", tail(path), strerror(errno));
    if (!S_ISREG(st.st_mode))
        return PH_FAIL(err, PH_EPATH, "%s: is %s, not a file; name a regular file", tail(path),
                       kind_of(st.st_mode));
    if (st.st_size > 0 && (uintmax_t)st.st_size > most)
        return PH_FAIL(err, PH_ELIMIT, "%s: %jd bytes of text; at most %zu are read", tail(path),
                       (intmax_t)st.st_size, most);
    if (st.st_size > 0 && (uintmax_t)st.st_size > SIZE_MAX / 2)
        return PH_FAIL(err, PH_ELIMIT, "%s: %jd bytes do not fit the address space", tail(path),
                       (intmax_t)st.st_size);
    *n = st.st_size > 0 ? (size_t)st.st_size : 0;
    return PH_OK;
}

static ph_rc map(ph_file *f, int fd, size_t most, const char *path, ph_err *err) {
    size_t n;
    PH_TRY(measure(&n, fd, most, path, err));
    if (!n) return PH_OK; /* an empty map is an error to mmap, not to us */
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return PH_FAIL(err, PH_ENOMEM, "%s: mapping %zu bytes: %s", tail(path), n, strerror(errno));
    f->bytes = p;
    f->n = n;
    return PH_OK;
}

static ph_rc open_to_read(int *fd, const char *path, int flags, const char *shown, ph_err *err) {
    /* O_NONBLOCK: opening a pipe without a writer must not hang. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (*fd >= 0) return PH_OK;
    return PH_FAIL(err, PH_EPATH, "%s: %s; check the path and its permissions", tail(shown), strerror(errno));
}

static ph_rc open_with(ph_file *f, const char *path, int flags, size_t most, const char *shown, ph_err *err) {
    int fd;
    PH_TRY(open_to_read(&fd, path, flags, shown, err));
    ph_rc rc = map(f, fd, most, shown, err);
    close(fd); /* the map keeps the file */
    return rc;
}

ph_rc ph_file_descriptor(int *fd, const char *path, ph_err *err) {
    size_t n;
    *fd = -1;
    if (!path || !*path) return PH_FAIL(err, PH_EPATH, "an empty path names no file");
    PH_TRY(open_to_read(fd, path, 0, path, err));
    ph_rc rc = measure(&n, *fd, SIZE_MAX, path, err);
    if (!rc) return PH_OK;
    close(*fd);
    *fd = -1;
    return rc;
}

ph_rc ph_file_map(ph_file *f, int fd, const char *name, ph_err *err) {
    *f = (ph_file){0};
    return map(f, fd, SIZE_MAX, name, err);
}

ph_rc ph_file_open_text(ph_file *f, const char *path, size_t most, ph_err *err) {
    *f = (ph_file){0};
    if (!path || !*path) return PH_FAIL(err, PH_EPATH, "an empty path names no file");
    return open_with(f, path, 0, most, path, err);
}

ph_rc ph_file_open(ph_file *f, const char *path, ph_err *err) {
    return ph_file_open_text(f, path, SIZE_MAX, err);
}

void ph_file_close(ph_file *f) {
    /* munmap takes a pointer to non-const, but writes nothing through it. */
    if (f->bytes) munmap((void *)(uintptr_t)f->bytes, f->n);
    *f = (ph_file){0};
}

void ph_file_forget(const ph_file *f, size_t n) {
    if (f->is_loaded) return; /* memory of its own would come back as zeros */
    /* Advice only: where it is not taken, the pages stay. */
    if (f->bytes) madvise((void *)(uintptr_t)f->bytes, n < f->n ? n : f->n, MADV_DONTNEED);
}

enum { PAGE = 4096, COPY_PIECE = 4 << 20 };

void ph_file_forget_part(const ph_file *f, size_t from, size_t n) {
    size_t begin = (from + PAGE - 1) / PAGE * PAGE, end = (from + n) / PAGE * PAGE;
    if (f->is_loaded || !f->bytes || from > f->n || n > f->n - from || begin >= end) return;
    madvise((void *)(uintptr_t)(f->bytes + begin), end - begin, MADV_DONTNEED);
}

void ph_file_want_part(const ph_file *f, size_t from, size_t n) {
    size_t begin = from / PAGE * PAGE;
    if (f->is_loaded || !f->bytes || from > f->n || n > f->n - from) return;
    madvise((void *)(uintptr_t)(f->bytes + begin), from + n - begin, MADV_WILLNEED);
}

/* Anonymous memory that stands to huge pages as `beside` does, so that moving it there splits none. */
static unsigned char *memory_like(const void *beside, size_t n) {
    unsigned char *all =
        mmap(NULL, n + PH_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    size_t before = ((uintptr_t)beside - (uintptr_t)all) % PH_HUGE_PAGE;
    if (before) munmap(all, before);
    munmap(all + before + n, PH_HUGE_PAGE - before);
    return all + before;
}

ph_rc ph_file_load(ph_file *f, const char *name, ph_err *err) {
    if (!f->n) return PH_OK;
    size_t         whole = ph_round_up(f->n, PAGE);
    unsigned char *to = memory_like(f->bytes, whole), *from = (unsigned char *)(uintptr_t)f->bytes;
    if (!to)
        return PH_FAIL(err, PH_ENOMEM, "%s: %zu bytes of weights do not fit in memory: %s; map them instead",
                       tail(name), whole, strerror(errno));
    madvise(to, whole, MADV_HUGEPAGE);
    for (size_t at = 0; at < f->n; at += COPY_PIECE) {
        size_t piece = f->n - at < COPY_PIECE ? f->n - at : COPY_PIECE;
        memcpy(to + at, from + at, piece);
        madvise(from + at, piece, MADV_DONTNEED); /* only one of the two counts */
    }
    if (mprotect(to, whole, PROT_READ) ||
        mremap(to, whole, whole, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED) {
        int why = errno;
        munmap(to, whole);
        return PH_FAIL(err, PH_ENOMEM, "%s: %zu bytes of weights cannot be moved to their place: %s",
                       tail(name), whole, strerror(why));
    }
    f->is_loaded = 1;
    return PH_OK;
}

ph_rc ph_file_lock(const ph_file *f, const char *name, ph_err *err) {
    struct rlimit limit;
    if (!f->n || !mlock(f->bytes, f->n)) return PH_OK;
    int why = errno;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return PH_FAIL(err, PH_EMACHINE, "%s: cannot lock %zu bytes in memory: %s", tail(name), f->n,
                       strerror(why));
    return PH_FAIL(err, PH_EMACHINE,
                   "%s: cannot lock %zu bytes in memory: %s; at most %ju may be locked here: raise that "
                   "(ulimit -l, LimitMEMLOCK= of a service), or do without locking",
                   tail(name), f->n, strerror(why), (uintmax_t)limit.rlim_cur);
}

int ph_name_ends_with(const char *name, const char *tail) {
    size_t n = strlen(name), m = strlen(tail);
    return n >= m && !strcmp(name + n - m, tail);
}

const char *ph_file_name_fault(const char *name) {
    if (!*name) return "it is empty";
    if (*name == '/') return "it is absolute";
    for (const char *p = name; *p; p++) {
        if ((unsigned char)*p < 0x20) return "it holds a control character";
        if (*p == '\\') return "it holds a backslash";
    }
    for (const char *part = name; *part;) {
        size_t n = strcspn(part, "/");
        if (n == 2 && !memcmp(part, "..", 2)) return "it holds \"..\"";
        part += n + (part[n] == '/');
    }
    return NULL;
}

static int is_under(const char *path, const char *dir, size_t dir_n) {
    if (dir_n && dir[dir_n - 1] == '/') dir_n--; /* the root */
    return !strncmp(path, dir, dir_n) && path[dir_n] == '/';
}

/* A Hugging Face cache keeps its files in P/blobs and links to them from
 * P/snapshots/REVISION.  Is dir such a snapshot, and path one of its blobs? */
static int is_blob_of(const char *path, const char *dir) {
    static const char mark[] = "/snapshots/";
    const char       *at = NULL;
    for (const char *p = strstr(dir, mark); p; p = strstr(p + 1, mark)) at = p;
    if (!at) return 0;
    size_t      n = (size_t)(at - dir);
    const char *rest = path + n;
    if (strncmp(path, dir, n) || strncmp(rest, "/blobs/", 7)) return 0;
    return rest[7] && !strchr(rest + 7, '/');
}

static char *join(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char  *path = malloc(n);
    if (path) snprintf(path, n, "%s/%s", dir, name);
    return path;
}

ph_rc ph_file_open_in(ph_file *f, const char *dir, const char *name, ph_err *err) {
    char *path = NULL, *real_dir = NULL, *real = NULL;
    ph_rc rc;

    *f = (ph_file){0};
    const char *fault = ph_file_name_fault(name);
    if (fault)
        return PH_FAIL(err, PH_EFORMAT, "file name \"%.120s\" in %s is refused: %s", name, tail(dir), fault);
    if (!*dir) dir = ".";
    path = join(dir, name);
    if (!path) return PH_FAIL(err, PH_ENOMEM, "a path in %s", tail(dir));

    real_dir = realpath(dir, NULL);
    if (!real_dir) {
        rc = PH_FAIL(err, PH_EPATH, "%s: %s; check the path and its permissions", tail(dir), strerror(errno));
        goto out;
    }
    real = realpath(path, NULL);
    if (!real) {
        rc = PH_FAIL(err, PH_EPATH, "%s: %s; check that the folder is complete", tail(path), strerror(errno));
        goto out;
    }
    if (!is_under(real, real_dir, strlen(real_dir)) && !is_blob_of(real, real_dir)) {
        rc = PH_FAIL(err, PH_EFORMAT, "%s: is a link that leads out of its folder, to %s", tail(path),
                     strlen(real) > 80 ? real + strlen(real) - 80 : real);
        goto out;
    }
    /* The path is resolved: a link that stands there now was put there since. */
    rc = open_with(f, real, O_NOFOLLOW, SIZE_MAX, path, err);
out:
    free(path);
    free(real_dir);
    free(real);
    return rc;
}

int ph_path_is_dir(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

int ph_path_is_file(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

int ph_path_is_there(const char *path) {
    struct stat st;
    return !stat(path, &st);
}

int ph_path_is_dead_link(const char *path) {
    struct stat st;
    return !lstat(path, &st) && S_ISLNK(st.st_mode) && stat(path, &st);
}
