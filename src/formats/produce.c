/* produce.c - the loop over pieces of a tensor, and files that appear whole.  See produce.h. */
#include "formats/produce.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ph_rc row_bytes(const ph_weight *w, size_t *out, ph_err *err) {
    ph_rc rc = ph_dtype_row_bytes(w->dtype, w->rank ? w->dim[w->rank - 1] : 1, out, err);
    return rc ? ph_note(err, rc, "in tensor %.120s", w->name) : PH_OK;
}

ph_rc ph_produce_buffer(uint8_t **out, const ph_weight *at, size_t n, ph_err *err) {
    size_t most = PH_PRODUCE_BYTES;
    for (size_t i = 0; i < n; i++) {
        size_t row = 0;
        PH_TRY(row_bytes(&at[i], &row, err));
        most = row > most ? row : most;
    }
    *out = malloc(most);
    return *out ? PH_OK : PH_FAIL(err, PH_ENOMEM, "%zu bytes to write through", most);
}

static void put(FILE *to, ph_sealer *sealer, const void *bytes, size_t n) {
    fwrite(bytes, 1, n, to);
    if (sealer) ph_sealer_add(sealer, bytes, n);
}

ph_rc ph_produce_write(FILE *to, ph_sealer *sealer, const ph_weight *at, size_t i, const ph_producer *p,
                       uint8_t *buffer, ph_err *err) {
    const ph_weight *w = &at[i];
    size_t           row = 0, done = 0;
    PH_TRY(row_bytes(w, &row, err));
    if (!row || !w->n_bytes) return PH_OK;
    size_t rows = w->n_bytes / row, some = PH_PRODUCE_BYTES / row ? PH_PRODUCE_BYTES / row : 1;
    if (!p || !p->make) {
        put(to, sealer, w->bytes, w->n_bytes);
        done = rows;
    }
    while (done < rows && !ferror(to)) {
        size_t n = rows - done < some ? rows - done : some;
        ph_rc  rc = p->make(p->arg, i, done, n, buffer, err);
        if (rc) return ph_note(err, rc, "while making tensor %.120s", w->name);
        put(to, sealer, buffer, row * n);
        done += n;
    }
    if (ferror(to)) return PH_FAIL(err, PH_EIO, "writing tensor %.120s: %s", w->name, strerror(errno));
    return PH_OK;
}

/* ---- files that appear whole ---- */

enum { TRIES = 100 };

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup("./");
}

/* Another name on every call, in the folder of path: long names of files stay possible.  NULL: no memory. */
static char *fresh_name(const char *path) {
    static atomic_uint calls;
    char              *folder = folder_of(path), *name = NULL;
    uint64_t mixed = ph_clock_ns() ^ (uint64_t)getpid() << 40 ^ (uint64_t)atomic_fetch_add(&calls, 1) << 20;
    mixed *= 0x9e3779b97f4a7c15u;
    if (folder && asprintf(&name, "%s.pinhole-%08x.part", folder, (unsigned)(mixed >> 32)) < 0) name = NULL;
    free(folder);
    return name;
}

static ph_rc cannot(const ph_part_file *f, ph_err *err) {
    return PH_FAIL(err, PH_EIO, "cannot write %.200s: %s", f->path, strerror(errno));
}

static ph_rc begin(ph_part_file *f, const char *path, ph_err *err) {
    *f = (ph_part_file){0};
    PH_TRY(ph_file_may_replace(path, err));
    f->path = strdup(path);
    return f->path ? PH_OK : PH_FAIL(err, PH_ENOMEM, "the name of %.200s", path);
}

static ph_rc take(ph_part_file *f, int fd, ph_err *err) {
    f->to = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f->to) return PH_OK;
    ph_rc rc = cannot(f, err);
    if (fd >= 0) close(fd);
    if (fd >= 0 && f->part) unlink(f->part);
    return ph_part_close(f, rc, err);
}

/* What somebody left at the name, a link to elsewhere perhaps, is neither written through nor removed. */
ph_rc ph_part_open_named(ph_part_file *f, const char *path, ph_err *err) {
    int fd = -1;
    PH_TRY(begin(f, path, err));
    for (int i = 0; i < TRIES && fd < 0; i++) {
        free(f->part);
        f->part = fresh_name(path);
        if (!f->part) return ph_part_close(f, PH_FAIL(err, PH_ENOMEM, "the name of %.200s", path), err);
        fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    return take(f, fd, err);
}

/* /proc gives a file without a name its name at the end. */
ph_rc ph_part_open(ph_part_file *f, const char *path, ph_err *err) {
    PH_TRY(begin(f, path, err));
    char *folder = folder_of(path);
    int   fd =
        folder && !access("/proc/self/fd", X_OK) ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    free(folder);
    if (fd >= 0) return take(f, fd, err);
    (void)ph_part_close(f, PH_EIO, NULL);
    return ph_part_open_named(f, path, err);
}

/* One link further: where `path` leads, from its own folder; NULL: it is no link, or no memory. */
static char *led_to(const char *path) {
    char    target[PATH_MAX], *folder, *to = NULL;
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) return NULL;
    target[n] = 0;
    if (*target == '/') return strdup(target);
    folder = folder_of(path);
    if (folder && asprintf(&to, "%s%s", folder, target) < 0) to = NULL;
    free(folder);
    return to;
}

ph_rc ph_part_open_through(ph_part_file *f, const char *path, ph_err *err) {
    enum { LINKS_MAX = 40 }; /* as the kernel's own */
    char *at = strdup(path), *next = NULL;
    ph_rc rc = at ? PH_OK : PH_FAIL(err, PH_ENOMEM, "the name of %.200s", path);
    for (int i = 0; !rc && (next = led_to(at)); i++) {
        free(at);
        at = next;
        if (i == LINKS_MAX)
            rc = PH_FAIL(err, PH_EPATH, "%.200s: more than %d links in a row", path, LINKS_MAX);
    }
    if (!rc) rc = ph_part_open(f, at, err);
    free(at);
    return rc;
}

ph_rc ph_part_may_open(const char *path, ph_err *err) {
    ph_part_file f;
    PH_TRY(ph_part_open_through(&f, path, err));
    (void)ph_part_close(&f, PH_EIO, NULL);
    return PH_OK;
}

/* A name for the file that has none: at once its own if that is free. */
static int give_name(ph_part_file *f) {
    char from[64];
    int  is_free = 0;
    snprintf(from, sizeof from, "/proc/self/fd/%d", fileno(f->to));
    if (!linkat(AT_FDCWD, from, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW)) return 1;
    for (int i = 0; i < TRIES && !is_free && errno == EEXIST; i++) {
        free(f->part);
        f->part = fresh_name(f->path);
        is_free = f->part && !linkat(AT_FDCWD, from, AT_FDCWD, f->part, AT_SYMLINK_FOLLOW);
    }
    if (is_free && !rename(f->part, f->path)) return 1;
    int why = errno;
    if (is_free) unlink(f->part);
    errno = why;
    return 0;
}

ph_rc ph_part_close(ph_part_file *f, ph_rc rc, ph_err *err) {
    int is_open = f->to != NULL, is_named = f->part != NULL;
    int is_good = is_open && !ferror(f->to) && !fflush(f->to);
    if (!rc && is_good && !is_named) is_good = give_name(f);
    if (!rc && !is_good) rc = cannot(f, err);
    if (is_open && fclose(f->to) && !rc) rc = cannot(f, err);
    if (!rc && is_named && rename(f->part, f->path)) rc = cannot(f, err);
    if (rc && is_open && is_named) unlink(f->part);
    free(f->part);
    free(f->path);
    *f = (ph_part_file){0};
    return rc;
}
