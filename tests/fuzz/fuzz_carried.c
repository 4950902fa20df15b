/* seeds: tests/golden/carried */
/* fuzz_carried.c - a GGUF file that carries a Hugging Face directory, whose first bytes are anybody's and
 * whose rest is a good one's: an error with a message, or a model of which every tensor is found by its name,
 * lies in the file and is as large as its shape and type say, and whose plan is of finite memory. */
#include "tests/fuzz/fuzz_model_law.h"

#include "base/file.h"
#include "formats/carried.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_weights(const ph_weights *w, const ph_dtype *was, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < w->n; i++) {
        const ph_weight *one = &w->at[i];
        size_t           size;
        if (ph_weights_find(w, one->name) != one || ph_dtype_block(was[i]) != 1) abort();
        if (ph_weight_bytes(one->dtype, one->rank, one->dim, &size, NULL) || size != one->n_bytes) abort();
        if (one->bytes < bytes || one->n_bytes > n || (size_t)(one->bytes - bytes) > n - one->n_bytes)
            abort();
    }
}

/* The lines alone, also where the rest of the file is no model. */
static void lines(const uint8_t *bytes, size_t n) {
    ph_arena   arena = {0};
    ph_gguf    g;
    ph_weights w;
    ph_dtype  *was;
    ph_err     e = {0};
    if (ph_arena_open_growing(&arena, 1 << 16, &e)) abort();
    if (!ph_gguf_view(&g, bytes, n, "fuzz", &arena, &e)) {
        if (!ph_carried_weights(&g, &w, &was, &arena, &e))
            check_weights(&w, was, bytes, n);
        else if (!e.msg[0])
            abort();
    }
    ph_arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ph_file good;
    ph_file        whole = {0};
    char           path[64];
    ph_err         e = {0};
    ph_model      *m;
    int            fd = fuzz_begins_with(bytes, n, &good, "tests/golden/carried/clip.gguf", path);
    if (fd < 0) return 0;
    if (!ph_file_open(&whole, path, &e)) lines(whole.bytes, whole.n);
    ph_file_close(&whole);
    ph_rc rc = ph_model_open(&m, path, NULL, &e);
    fuzz_opened_law(rc, m, &e);
    close(fd);
    return 0;
}
