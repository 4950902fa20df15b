/* fuzz_image_law.h - what must hold for any bytes given to the picture decoder. */
#ifndef PH_TESTS_FUZZ_IMAGE_LAW_H
#define PH_TESTS_FUZZ_IMAGE_LAW_H

#include "image/image.h"

#include <assert.h>
#include <string.h>

/* The ruler's bytes are enough and none is left; the size is the one announced; a failure says why. */
static inline void fuzz_image_law(const uint8_t *bytes, size_t n, const char *format) {
    const ph_image_options options = {.pixels_max = 1 << 18,
                                      .alpha = n & 1 ? PH_ALPHA_DROP : PH_ALPHA_COMPOSITE};
    ph_image_info          info;
    ph_pixels              px;
    ph_err                 err = {0};
    ph_arena               ruler = ph_arena_ruler(), arena = {0};
    if (ph_image_measure(&info, bytes, n, &options, &err)) {
        assert(err.msg[0] && ph_image_decode(&px, bytes, n, &options, &ruler, NULL));
        return;
    }
    if (strcmp(ph_image_format_name(info.format), format)) return; /* another target's */
    assert(info.width > 0 && info.height > 0 &&
           (size_t)info.width * (size_t)info.height <= options.pixels_max);
    assert(!ph_image_decode(&px, bytes, n, &options, &ruler, &err) && !px.rgb);
    if (ph_arena_open(&arena, ruler.used, &err)) return;
    if (ph_image_decode(&px, bytes, n, &options, &arena, &err))
        assert(err.msg[0] && !px.rgb);
    else
        assert(px.width == info.width && px.height == info.height && arena.used == ruler.used);
    ph_arena_close(&arena);
}

#endif
