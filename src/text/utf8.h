/* utf8.h - the few things about UTF-8 and characters that this room needs.
 *
 * Source: The Unicode Standard, 3.9 (D92 UTF-8; "substitution of maximal subparts"),
 * the same rule as the WHATWG Encoding Standard's decoder.
 */
#ifndef PH_TEXT_UTF8_H
#define PH_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* One step over bytes[n], n >= 1. */
typedef struct ph_utf8_step {
    uint32_t code_point; /* 0xFFFD when is_valid is 0 */
    int      n;          /* bytes taken: of the character, or of the ill-formed maximal subpart; >= 1 */
    int      is_valid;
    int      is_short; /* the bytes end inside what may still become a character */
} ph_utf8_step;

ph_utf8_step ph_utf8_read(const uint8_t *bytes, size_t n);
size_t       ph_utf8_write(uint8_t out[4], uint32_t code_point); /* bytes written, 1 .. 4 */
size_t       ph_utf8_length(uint8_t first); /* of a character in VALID text, by its first byte */
int          ph_utf8_is_valid(const uint8_t *bytes, size_t n);
/* Start of the character that ends before `end` in VALID text, end >= 1. */
size_t ph_utf8_before(const uint8_t *bytes, size_t end);

int ph_char_is_space(uint32_t c); /* Unicode White_Space */
int ph_char_is_word(uint32_t c);  /* \w of Unicode regular expressions (UTS 18, annex C) */

#endif
