/* fuzz_model_law.h - what fuzz targets of whole models share. */
#ifndef PH_TESTS_FUZZ_MODEL_LAW_H
#define PH_TESTS_FUZZ_MODEL_LAW_H

#include "flow/flow.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* An error with a message, or a plan of finite memory. */
static inline void fuzz_plan_law(const ph_model *m) {
    const ph_session_options o = {.threads = 1, .context = 1, .chunk = 1, .tiles = 1};
    ph_plan                  p;
    ph_err                   e = {0};
    ph_rc                    rc = ph_session_plan(m, &o, &p, &e);
    if (rc ? !e.msg[0] : !p.peak.total || p.peak.total >> 47) abort();
}

/* An opening that failed said why; one that did not made a model that can be planned.  Closes it. */
static inline void fuzz_opened_law(ph_rc rc, ph_model *m, const ph_err *e) {
    if (rc && !e->msg[0]) abort();
    if (!rc) fuzz_plan_law(m);
    ph_model_close(m);
}

/* A file that begins with `bytes` and goes on as the good one, which is mapped once: its descriptor, or -1;
 * its path. */
static inline int fuzz_begins_with(const uint8_t *bytes, size_t n, ph_file *good, const char *path_of_good,
                                   char path[64]) {
    ph_err e = {0};
    if (!good->bytes && ph_file_open(good, path_of_good, &e)) abort();
    int fd = memfd_create("fuzz", 0);
    if (fd < 0) return fd;
    if (write(fd, bytes, n) != (ssize_t)n) abort();
    if (n < good->n && write(fd, good->bytes + n, good->n - n) < 0) abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
