/* image_help.h - what the tests of this room share: files, checksums, pictures. */
#ifndef PH_TESTS_IMAGE_HELP_H
#define PH_TESTS_IMAGE_HELP_H

#include "image/image.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGES     "tests/golden/images/"
#define PREPROCESS "tests/golden/preprocess/"

/* A whole file, malloc'ed, one spare byte behind it for an ending NUL; NULL (and a failed check) when it
 * cannot be read.  folder and name are joined. */
uint8_t *ut_slurp(const char *folder, const char *name, size_t *n);

uint32_t ut_crc32(const void *bytes, size_t n);

/* "noise:WxH:seed" or the name of a picture in IMAGES, alpha dropped; rgb malloc'ed. 0 when it fails. */
int ut_picture(ph_pixels *out, const char *source);

/* The next line of a table that is no comment, or NULL; *at moves on. The line ends with NUL. */
char *ut_line(char **at);

#endif
