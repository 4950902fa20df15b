/* api_check.h - what the tests of the public header share.  They see what a stranger sees: pinhole.h and the
 * library.  Run from the project's root; each prints "N passed, M failed" and ends with 1 when any failed. */
#ifndef API_CHECK_H
#define API_CHECK_H

#include <pinhole.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL   "models/panel-vlm"
#define PICTURE "examples/panel1.png"

static int passed, failed;

#define CHECK(is_true)                                                                                       \
    do {                                                                                                     \
        if (is_true) {                                                                                       \
            passed++;                                                                                        \
        } else {                                                                                             \
            failed++;                                                                                        \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #is_true);                                     \
        }                                                                                                    \
    } while (0)

/* The call succeeds, or the test ends: nothing behind it would mean anything. */
#define MUST(call)                                                                                           \
    do {                                                                                                     \
        if (call) {                                                                                          \
            printf("%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, error.name, error.message);             \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static inline int sum(void) {
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || !passed;
}

static inline unsigned char *read_file(const char *path, size_t *n) {
    FILE          *f = fopen(path, "rb");
    unsigned char *bytes = malloc(1 << 22);
    if (!f || !bytes) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    *n = fread(bytes, 1, 1 << 22, f);
    fclose(f);
    return bytes;
}

/* A picture and a question. */
static inline void question(pinhole_part parts[2], const unsigned char *picture, size_t n, const char *text) {
    parts[0] = (pinhole_part){PINHOLE_PICTURE, picture, n, PICTURE};
    parts[1] = (pinhole_part){PINHOLE_TEXT, text, PINHOLE_WHOLE, NULL};
}

#endif
