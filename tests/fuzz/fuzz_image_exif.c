/* seeds: tests/golden/images */
/* fuzz_image_exif.c - an orientation is one of eight, whatever the block holds; and a name for unread bytes
 * is text. */
#include "image/exif.h"
#include "image/image.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    int         turn = ph_exif_orientation(bytes, n);
    const char *name = ph_image_sniff(bytes, n);
    assert(turn >= 1 && turn <= 8);
    assert(!name || strlen(name) < 40);
    return 0;
}
