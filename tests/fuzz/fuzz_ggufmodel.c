/* seeds: tests/golden/formats tests/golden/gguf */
/* fuzz_ggufmodel.c - a whole model from a GGUF file whose first bytes are anybody's and whose rest is a good
 * one's: an error with a message, or a plan of finite memory. */
#include "tests/fuzz/fuzz_model_law.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ph_file good;
    char           path[64];
    ph_err         e = {0};
    ph_model      *m;
    int            fd = fuzz_begins_with(bytes, n, &good, "tests/golden/formats/llama.Q4_0.gguf", path);
    if (fd < 0) return 0;
    ph_rc rc = ph_model_open(&m, path, NULL, &e);
    fuzz_opened_law(rc, m, &e);
    close(fd);
    return 0;
}
