/* seeds: tests/golden/images */
/* fuzz_image_gif.c - any bytes that begin like GIF: pixels of the announced size, or a clean refusal. */
#include "tests/fuzz/fuzz_image_law.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_image_law(bytes, n, "GIF");
    return 0;
}
