/* seeds: tests/golden/images */
/* fuzz_image_webp.c - any bytes that begin like WebP: pixels of the announced size, or a clean refusal. */
#include "tests/fuzz/fuzz_image_law.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_image_law(bytes, n, "WebP");
    return 0;
}
