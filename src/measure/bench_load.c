/* bench_load.c - how long until a model can be asked, and until its first token.
 *
 *     load    opening the model, a session and a turn
 *     first   that, and one token's way through the language part: its weights have been read then
 *
 * Warm: the files' pages are in memory.  Cold: they were dropped before, as far as the system did it; what is
 * left is counted, since a cold start that was not cold must not be taken for one.
 */
#include "measure/bench_impl.h"

#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLD_ROUNDS = 3, PAGE = 4096 };

/* ---- dropping a checkpoint's pages ---- */

typedef struct dropping {
    uint64_t pages, left;
} dropping;

/* Pages of the file that are in memory. */
static uint64_t resident(int fd, size_t bytes) {
    size_t         pages = (bytes + PAGE - 1) / PAGE;
    uint64_t       n = 0;
    unsigned char *in = malloc(pages);
    void          *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (in && map != MAP_FAILED && !mincore(map, bytes, in))
        for (size_t i = 0; i < pages; i++) n += in[i] & 1;
    if (map != MAP_FAILED) munmap(map, bytes);
    free(in);
    return n;
}

static void drop_file(dropping *d, const char *path) {
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
        fdatasync(fd); /* pages that were not written out yet cannot be dropped */
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        d->pages += ((uint64_t)st.st_size + PAGE - 1) / PAGE;
        d->left += resident(fd, (size_t)st.st_size);
    }
    close(fd);
}

static void drop_folder(dropping *d, const char *path) {
    char           file[4096];
    struct dirent *e;
    DIR           *dir = opendir(path);
    while (dir && (e = readdir(dir)))
        if (snprintf(file, sizeof file, "%s/%s", path, e->d_name) < (int)sizeof file) drop_file(d, file);
    if (dir) closedir(dir);
}

/* "x-00002-of-00003.gguf": all three; any other name: that file. */
static void drop_parts(dropping *d, const char *path) {
    size_t n = strlen(path), tail = sizeof "-00001-of-00001.gguf" - 1;
    int    part, of;
    char   name[4096];
    if (n <= tail || sscanf(path + n - tail, "-%5d-of-%5d.gguf", &part, &of) != 2 || of < 1) {
        drop_file(d, path);
        return;
    }
    for (int i = 1; i <= of; i++)
        if (snprintf(name, sizeof name, "%.*s-%05d-of-%05d.gguf", (int)(n - tail), path, i, of) <
            (int)sizeof name)
            drop_file(d, name);
}

/* The share that stayed in memory. */
static double drop(const ph_bench_options *how) {
    dropping d = {0};
    if (ph_path_is_dir(how->model))
        drop_folder(&d, how->model);
    else
        drop_parts(&d, how->model);
    if (how->open.mmproj) drop_parts(&d, how->open.mmproj);
    return d.pages ? (double)d.left / (double)d.pages : 1;
}

/* ---- one load ---- */

typedef struct loading {
    ph_model   *model;
    ph_session *session;
    ph_turn    *turn;
} loading;

static ph_rc first_token(ph_turn *t, const ph_question *q, ph_err *err) {
    PH_TRY(ph_turn_begin(t, q, err));
    while (ph_turn_stage(t) != PH_STAGE_sample) PH_TRY(ph_turn_walk(&t, 1, err));
    return PH_OK;
}

static ph_rc load(const ph_benching *b, size_t i, loading *l, double *ready, double *first, ph_err *err) {
    ph_session_options o = ph_bench_session(b, i);
    const int32_t      id = 0;
    const ph_question  q = {.ids = &id, .n_ids = 1, .answer_max = 1, .ignore_stop = 1};
    uint64_t           begin = ph_clock_ns();
    PH_TRY(ph_model_open(&l->model, b->how->model, &b->how->open, err));
    PH_TRY(ph_session_open(&l->session, l->model, &o, err));
    PH_TRY(ph_turn_open(&l->turn, l->session, err));
    *ready = (double)(ph_clock_ns() - begin) / 1e6;
    PH_TRY(first_token(l->turn, &q, err));
    *first = (double)(ph_clock_ns() - begin) / 1e6;
    return PH_OK;
}

static ph_rc load_once(const ph_benching *b, size_t i, double *ready, double *first, ph_err *err) {
    loading l = {0};
    ph_rc   rc = load(b, i, &l, ready, first, err);
    ph_turn_close(l.turn);
    ph_session_close(l.session);
    ph_model_close(l.model);
    return rc;
}

static ph_rc cold(ph_benching *b, ph_err *err) {
    double ready, first;
    int    rounds = b->how->rounds < COLD_ROUNDS ? b->how->rounds : COLD_ROUNDS;
    ph_bench_say(b, "loading, cold");
    for (int r = 0; r < rounds; r++)
        for (size_t i = 0; i < b->how->n_threads; i++) {
            double left = drop(b->how);
            if (left > b->out->cold_left) b->out->cold_left = left;
            PH_TRY(load_once(b, i, &ready, &first, err));
            ph_bench_keep(b, PH_TIMED_LOAD_COLD, i, ready);
            ph_bench_keep(b, PH_TIMED_FIRST_COLD, i, first);
        }
    return PH_OK;
}

ph_rc ph_bench_load(ph_benching *b, ph_err *err) {
    double ready, first;
    b->out->cold_left = -1;
    if (b->how->is_cold) PH_TRY(cold(b, err));
    ph_bench_say(b, "loading, warm");
    PH_TRY(load_once(b, 0, &ready, &first, err)); /* not counted: it makes the pages warm */
    for (int r = 0; r < b->how->rounds; r++)
        for (size_t i = 0; i < b->how->n_threads; i++) {
            PH_TRY(load_once(b, i, &ready, &first, err));
            ph_bench_keep(b, PH_TIMED_LOAD, i, ready);
            ph_bench_keep(b, PH_TIMED_FIRST, i, first);
        }
    return PH_OK;
}
