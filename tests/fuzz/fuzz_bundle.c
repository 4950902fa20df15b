/* seeds: tests/golden/bundle */
/* fuzz_bundle.c - a bundle whose first bytes are anybody's and whose rest is a good one's.  As it is: an
 * error with a message, or a file of which no byte can be changed without one.  Sealed anew, so that readers
 * see what the writer of a seal may have written: an error, or parts that lie in the file, and a model whose
 * plan is of finite memory. */
#include "tests/fuzz/fuzz_model_law.h"

#include "base/file.h"
#include "formats/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_weights(const ph_weights *w, const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < w->n; i++) {
        const ph_weight *one = &w->at[i];
        if (ph_weights_find(w, one->name) != one || one->bytes < bytes || one->n_bytes > n ||
            (size_t)(one->bytes - bytes) > n - one->n_bytes)
            abort();
    }
}

/* 1: it is a bundle, and right. */
static int opens(const uint8_t *bytes, size_t n) {
    ph_arena  arena = {0};
    ph_gguf   g, vision;
    ph_bundle b = {0};
    ph_err    e = {0};
    if (ph_arena_open_growing(&arena, 1 << 16, &e)) abort();
    ph_rc rc = ph_gguf_view(&g, bytes, n, "fuzz", &arena, &e);
    if (!rc) rc = ph_bundle_open(&b, &g, &vision, &arena, &e);
    if (!rc) rc = ph_bundle_check(&b, &e);
    if (rc && !e.msg[0]) abort();
    if (!rc && b.version) {
        check_weights(&g.weights, bytes, n);
        check_weights(&vision.weights, bytes, n);
        check_weights(&b.own.weights, bytes, n);
        if (g.weights.n + vision.weights.n + b.own.weights.n != b.all.n) abort();
    }
    ph_arena_close(&arena);
    return !rc && b.version;
}

/* A byte of a right one, changed. */
static void as_it_is(const uint8_t *bytes, size_t n, size_t at) {
    uint8_t *copy = malloc(n);
    if (!copy) return;
    memcpy(copy, bytes, n);
    if (opens(copy, n)) {
        copy[at % n] ^= 0x10;
        if (opens(copy, n)) abort();
    }
    free(copy);
}

/* The bytes before the seal under one that is right for them. */
static int seal_anew(const uint8_t *bytes, size_t head, size_t n, char path[64]) {
    ph_sealer s = {0};
    int       fd = memfd_create("sealed", 0);
    FILE     *to = fd < 0 ? NULL : fdopen(dup(fd), "wb");
    if (!to || ph_sealer_open(&s, NULL)) abort();
    ph_sealer_add(&s, bytes, head);
    ph_sealer_cut(&s);
    ph_sealer_add(&s, bytes + head, n - head);
    fwrite(bytes, 1, n, to);
    if (ph_sealer_end(&s, to, NULL) || fclose(to)) abort();
    ph_sealer_close(&s);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ph_file good;
    static ph_seal seal;
    ph_file        whole = {0};
    char           path[64];
    ph_err         e = {0};
    ph_model      *m;
    int            fd = fuzz_begins_with(bytes, n, &good, "tests/golden/bundle/llava.bundle", path);
    if (fd < 0) return 0;
    if (!seal.version && (ph_seal_read(&seal, good.bytes, good.n, "good", &e) || !seal.version)) abort();
    if (!ph_file_open(&whole, path, &e) && whole.n >= good.n) {
        as_it_is(whole.bytes, whole.n, n ? bytes[n - 1] * (size_t)7919 : 0);
        int   again = seal_anew(whole.bytes, seal.head, seal.head + seal.data, path);
        ph_rc rc = ph_model_open(&m, path, NULL, &e);
        fuzz_opened_law(rc, m, &e);
        close(again);
    }
    ph_file_close(&whole);
    close(fd);
    return 0;
}
