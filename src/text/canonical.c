/* canonical.c - one pass over the characters: ASCII punctuation goes, runs of space become one, letters are
 * lower-cased one by one.  Bytes that are no UTF-8 become U+FFFD. */
#include "text/canonical.h"

#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

static int is_punctuation(uint32_t c) {
    return c < 128 && c && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c) != NULL;
}

ph_rc ph_text_canonical(const char *text, size_t n, ph_bytes *out, ph_err *err) {
    const uint8_t *at = (const uint8_t *)text;
    int            has_any = 0, is_spaced = 0;
    while (n) {
        uint8_t      bytes[4];
        ph_utf8_step step = ph_utf8_read(at, n);
        uint32_t     c = step.code_point;
        at += step.n;
        n -= (size_t)step.n;
        if (is_punctuation(c)) continue;
        if (ph_char_is_space(c)) {
            is_spaced = 1;
            continue;
        }
        if (is_spaced && has_any) PH_TRY(ph_bytes_push(out, " ", 1, err));
        is_spaced = 0;
        has_any = 1;
        size_t m = ph_utf8_write(bytes, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        PH_TRY(ph_bytes_push(out, (const char *)bytes, m, err));
    }
    return PH_OK;
}
