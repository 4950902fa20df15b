/* image_help.c - see image_help.h. */
#include "tests/unit/image/image_help.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

uint8_t *ut_slurp(const char *folder, const char *name, size_t *n) {
    char path[300];
    snprintf(path, sizeof path, "%s%s", folder, name);
    FILE *f = fopen(path, "rb");
    *n = 0;
    CHECK_SAY(f, "%s", path);
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *bytes = malloc((size_t)size + 1);
    if (bytes) *n = fread(bytes, 1, (size_t)size, f), bytes[*n] = 0;
    fclose(f);
    return bytes;
}

uint32_t ut_crc32(const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint32_t       c = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
    }
    return ~c;
}

static int noise(ph_pixels *out, const char *source) {
    unsigned seed;
    if (sscanf(source, "noise:%dx%d:%u", &out->width, &out->height, &seed) != 3) return 0;
    size_t n = 3 * (size_t)out->width * (size_t)out->height;
    out->rgb = malloc(n);
    for (size_t i = 0; out->rgb && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        out->rgb[i] = (uint8_t)(seed >> 24);
    }
    return out->rgb != NULL;
}

int ut_picture(ph_pixels *out, const char *source) {
    size_t           n;
    ph_image_info    info;
    ph_err           err = {0};
    ph_image_options options = {.alpha = PH_ALPHA_DROP};
    ph_arena         arena = {0};
    *out = (ph_pixels){0};
    if (!strncmp(source, "noise:", 6)) return noise(out, source);
    uint8_t *bytes = ut_slurp(IMAGES, source, &n);
    if (!bytes) return 0;
    if (!ph_image_measure(&info, bytes, n, &options, &err) &&
        !ph_arena_open(&arena, 3 * (size_t)info.width * (size_t)info.height, &err) &&
        !ph_image_decode(out, bytes, n, &options, &arena, &err)) {
        size_t   size = 3 * (size_t)out->width * (size_t)out->height;
        uint8_t *copy = malloc(size);
        if (copy) memcpy(copy, out->rgb, size);
        out->rgb = copy;
    }
    CHECK_SAY(out->rgb, "%s: %s", source, err.msg);
    ph_arena_close(&arena);
    free(bytes);
    return out->rgb != NULL;
}

char *ut_line(char **at) {
    for (;;) {
        char *line = *at, *end = strchr(line, '\n');
        if (!*line) return NULL;
        if (end) *end = 0;
        *at = end ? end + 1 : line + strlen(line);
        if (*line && *line != '#') return line;
    }
}
