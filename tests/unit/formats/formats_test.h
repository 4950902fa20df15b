/* formats_test.h - what the tests of formats/ share. */
#ifndef PH_TESTS_FORMATS_TEST_H
#define PH_TESTS_FORMATS_TEST_H

#include "formats/weights.h"

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/formats/tests.def"
#undef PH_TEST

#define GOLDEN "tests/golden/formats/"

/* A whole file in a heap block of exactly its size, so that a sanitizer sees one byte past it.
 * NULL and a failed check when it cannot be read. */
uint8_t *ft_load(const char *path, size_t *n);
int      ft_save(const char *path, const void *bytes, size_t n);
int      ft_copy(const char *from, const char *to);
uint32_t ft_crc32(const void *bytes, size_t n);

/* A fresh folder into out; ft_remove takes it and its files away. */
void ft_folder(char out[64]);
void ft_remove(const char *folder);

/* The law of every reader: each weight lies in bytes[n], is as large as its shape says, and is found by name.
 */
int ft_lawful(const ph_weights *w, const uint8_t *bytes, size_t n, int is_indexed);

ph_arena ft_arena(void); /* a growing one */

/* err must hold `code`, and its message or a note must contain `part`; counted and printed if not. */
void ft_expect(const char *what, ph_rc got, ph_rc code, const ph_err *err, const char *part);

#endif
