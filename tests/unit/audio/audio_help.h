/* audio_help.h - what the tests of this room share: files, golden numbers, recipes. */
#ifndef PH_TESTS_AUDIO_HELP_H
#define PH_TESTS_AUDIO_HELP_H

#include "audio/audio_recipe.h"

#define AUDIO "tests/golden/audio/"

/* A whole file, malloc'ed, one spare byte behind it for an ending NUL; NULL (and a failed check) when it
 * cannot be read. */
uint8_t *ut_slurp(const char *name, size_t *n);

/* The next line of a table, or NULL; *at moves on.  The line ends with NUL. */
char *ut_line(char **at);

/* Decode a file of AUDIO into a growing arena; 0 (and a failed check) when it fails. */
int ut_sound(ph_sound *out, const char *name, ph_arena *arena);

/* A recipe from a config's text. */
ph_rc ut_recipe(ph_audio_recipe *out, const char *text, size_t n, ph_err *err);

/* A tensor of golden.safetensors; *n its numbers. NULL (and a failed check): there is none. */
const void *ut_golden(const char *name, size_t *n);
void        ut_golden_close(void);

/* Largest difference of x[n] from a golden tensor that holds every 17th number from `first` on; -1: another
 * count. */
double ut_golden_differs(const char *name, const float *x, size_t n, size_t first);

#endif
