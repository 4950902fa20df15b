/* printable.c - UTF-8 read strictly, and what a terminal would act on spelt out. */
#include "base/printable.h"

#include <stdint.h>
#include <string.h>

enum { MARK = 3 }; /* "..." */

/* Bytes of the character that begins here, and *c; 0: it is no UTF-8. */
static size_t read_char(const unsigned char *at, size_t n, uint32_t *c) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t                len = at[0] < 0x80   ? 1
                                : at[0] < 0xC2 ? 0
                                : at[0] < 0xE0 ? 2
                                : at[0] < 0xF0 ? 3
                                : at[0] < 0xF5 ? 4
                                               : 0;
    if (!len || len > n) return 0;
    *c = len == 1 ? at[0] : at[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xC0) != 0x80) return 0;
        *c = *c << 6 | (at[i] & 0x3Fu);
    }
    return *c < least[len] || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000) ? 0 : len;
}

static int acts(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

/* The next character as it is written to piece; bytes of it, *taken of those read. */
static size_t spell(char piece[16], const unsigned char *at, size_t n, size_t *taken) {
    static const char digits[] = "0123456789abcdef";
    uint32_t          c = 0;
    size_t            len = read_char(at, n, &c), out = 0;
    *taken = len ? len : 1;
    if (len && !acts(c)) {
        memcpy(piece, at, len);
        return len;
    }
    for (size_t i = 0; i < *taken; i++) {
        piece[out++] = '\\';
        piece[out++] = 'x';
        piece[out++] = digits[at[i] >> 4];
        piece[out++] = digits[at[i] & 15];
    }
    return out;
}

size_t ph_printable(char *out, size_t size, const char *bytes, size_t n) {
    const unsigned char *at = (const unsigned char *)bytes;
    size_t               used = 0, safe = 0; /* safe: up to here, and the mark behind it, there is room */
    for (size_t i = 0, taken; i < n; i += taken) {
        char   piece[16];
        size_t len = spell(piece, at + i, n - i, &taken);
        if (used + len > size - 1) {
            memcpy(out + safe, "...", MARK);
            used = safe + MARK;
            break;
        }
        memcpy(out + used, piece, len);
        used += len;
        if (used + MARK <= size - 1) safe = used;
    }
    out[used] = 0;
    return used;
}
