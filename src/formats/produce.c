/* produce.c - the loop over pieces of a tensor, and files that appear whole.  See produce.h. */
#include "formats/produce.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
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

ph_rc ph_produce_write(FILE *to, const ph_weight *at, size_t i, const ph_producer *p, uint8_t *buffer,
                       ph_err *err) {
    const ph_weight *w = &at[i];
    size_t           row = 0, done = 0;
    PH_TRY(row_bytes(w, &row, err));
    if (!row || !w->n_bytes) return PH_OK;
    size_t rows = w->n_bytes / row, some = PH_PRODUCE_BYTES / row ? PH_PRODUCE_BYTES / row : 1;
    if (!p || !p->make) {
        fwrite(w->bytes, 1, w->n_bytes, to);
        done = rows;
    }
    while (done < rows && !ferror(to)) {
        size_t n = rows - done < some ? rows - done : some;
        ph_rc  rc = p->make(p->arg, i, done, n, buffer, err);
        if (rc) return ph_note(err, rc, "while making tensor %.120s", w->name);
        fwrite(buffer, row, n, to);
        done += n;
    }
    if (ferror(to)) return PH_FAIL(err, PH_EIO, "writing tensor %.120s: %s", w->name, strerror(errno));
    return PH_OK;
}

/* A name that somebody left there, a link to elsewhere perhaps, is not written through. */
static FILE *open_new(const char *path) {
    if (unlink(path) && errno != ENOENT) return NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? NULL : fdopen(fd, "wb");
}

ph_rc ph_part_open(ph_part_file *f, const char *path, ph_err *err) {
    *f = (ph_part_file){0};
    PH_TRY(ph_file_may_replace(path, err));
    f->path = strdup(path);
    if (!f->path || asprintf(&f->part, "%s.part", path) < 0) {
        f->part = NULL;
        return ph_part_close(f, PH_FAIL(err, PH_ENOMEM, "the name of %.200s", path), err);
    }
    f->to = open_new(f->part);
    if (f->to) return PH_OK;
    return ph_part_close(f, PH_FAIL(err, PH_EIO, "cannot write %.200s: %s", path, strerror(errno)), err);
}

ph_rc ph_part_close(ph_part_file *f, ph_rc rc, ph_err *err) {
    int is_open = f->to != NULL, is_good = is_open && !ferror(f->to) && !fflush(f->to);
    if (is_open && fclose(f->to)) is_good = 0;
    if (!rc && (!is_good || rename(f->part, f->path)))
        rc = PH_FAIL(err, PH_EIO, "cannot write %.200s: %s", f->path, strerror(errno));
    if (rc && is_open) unlink(f->part);
    free(f->part);
    free(f->path);
    *f = (ph_part_file){0};
    return rc;
}
