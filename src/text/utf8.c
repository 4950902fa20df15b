/* utf8.c - reading UTF-8 that may be broken, writing it, and two character classes. */
#include "text/utf8.h"

#include <utf8proc.h>

/* How many bytes may follow `first`, and the range of the first of them (D92, table 3-7). */
static int sequence_of(uint8_t first, uint8_t *low, uint8_t *high) {
    *low = 0x80, *high = 0xBF;
    if (first < 0x80) return 0;
    if (first < 0xC2) return -1;
    if (first < 0xE0) return 1;
    if (first < 0xF0) {
        if (first == 0xE0) *low = 0xA0;
        if (first == 0xED) *high = 0x9F; /* surrogates */
        return 2;
    }
    if (first > 0xF4) return -1;
    if (first == 0xF0) *low = 0x90;
    if (first == 0xF4) *high = 0x8F;
    return 3;
}

ph_utf8_step ph_utf8_read(const uint8_t *bytes, size_t n) {
    uint8_t      low, high;
    ph_utf8_step step = {.code_point = 0xFFFD, .n = 1};
    int          tail = sequence_of(bytes[0], &low, &high);
    if (tail < 0) return step;
    uint32_t c = tail == 0 ? bytes[0] : bytes[0] & (0x3Fu >> tail);
    for (int i = 1; i <= tail; i++) {
        if ((size_t)i >= n) {
            step.is_short = 1;
            return step;
        }
        if (bytes[i] < low || bytes[i] > high) return step;
        c = c << 6 | (bytes[i] & 0x3Fu);
        step.n = i + 1;
        low = 0x80, high = 0xBF;
    }
    step.code_point = c;
    step.is_valid = 1;
    return step;
}

size_t ph_utf8_write(uint8_t out[4], uint32_t c) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | (c >> 18 & 7));
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

size_t ph_utf8_length(uint8_t first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

int ph_utf8_is_valid(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n;) {
        if (bytes[i] < 0x80) {
            i++;
            continue;
        }
        ph_utf8_step s = ph_utf8_read(bytes + i, n - i);
        if (!s.is_valid) return 0;
        i += (size_t)s.n;
    }
    return 1;
}

size_t ph_utf8_before(const uint8_t *bytes, size_t end) {
    size_t i = end - 1;
    while (i > 0 && (bytes[i] & 0xC0) == 0x80) i--;
    return i;
}

int ph_char_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

int ph_char_is_word(uint32_t c) {
    if (c == 0x200C || c == 0x200D) return 1; /* Join_Control */
    /* Other_Alphabetic outside M and Nl: the circled and squared Latin letters. */
    if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
        (c >= 0x1F170 && c <= 0x1F189))
        return 1;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return 1;
    default:
        return 0;
    }
}
