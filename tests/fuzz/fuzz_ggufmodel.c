/* seeds: tests/golden/formats tests/golden/gguf */
/* fuzz_ggufmodel.c - a whole model from a GGUF file whose first bytes are anybody's and whose rest is a good
 * one's: an error with a message, or a plan of finite memory. */
#include "flow/flow.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void plan(const ph_model *m) {
    const ph_session_options o = {.threads = 1, .context = 1, .chunk = 1, .tiles = 1};
    ph_plan                  p;
    ph_err                   e = {0};
    ph_rc                    rc = ph_session_plan(m, &o, &p, &e);
    if (rc ? !e.msg[0] : !p.peak.total || p.peak.total >> 47) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ph_file good;
    char           path[64];
    ph_err         e = {0};
    ph_model      *m;
    if (!good.bytes && ph_file_open(&good, "tests/golden/formats/llama.Q4_0.gguf", &e)) abort();
    int fd = memfd_create("fuzz", 0);
    if (fd < 0) return 0;
    if (write(fd, bytes, n) != (ssize_t)n) abort();
    if (n < good.n && write(fd, good.bytes + n, good.n - n) < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ph_model_open(&m, path, NULL, &e)) {
        if (!e.msg[0]) abort();
    } else {
        plan(m);
    }
    ph_model_close(m);
    close(fd);
    return 0;
}
