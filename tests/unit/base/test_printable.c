/* test_printable.c - nothing that a terminal acts on leaves as it came. */
#include "base/err.h"
#include "base/printable.h"
#include "tests/unit/unit.h"

#include <string.h>

static void is(const char *from, size_t n, const char *want, size_t size) {
    char   out[64];
    size_t got = ph_printable(out, size, from, n);
    CHECK_SAY(!strcmp(out, want) && got == strlen(want), "\"%s\", want \"%s\"", out, want);
}

void test_printable_bytes(void) {
    is("", 0, "", 64);
    is("plain \\ text", 12, "plain \\ text", 64);
    is("\x1b[31mred\x07", 9, "\\x1b[31mred\\x07", 64);
    is("a\nb\tc\0d\x7f", 8, "a\\x0ab\\x09c\\x00d\\x7f", 64);
    is("caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", 14, "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", 64);
    is("\xc2\x9b"
       "31m",
       5, "\\xc2\\x9b31m", 64); /* CSI as one character */
    is("\xe2\x80\xae"
       "x",
       4, "\\xe2\\x80\\xaex", 64); /* right to left */
    is("\xc0\x80\xff\xed\xa0\x80", 6, "\\xc0\\x80\\xff\\xed\\xa0\\x80",
       64);                              /* overlong, no byte, surrogate */
    is("\xe6\xbc", 2, "\\xe6\\xbc", 64); /* cut */
}

void test_printable_long(void) {
    is("abcdefgh", 8, "abcdefgh", 9);
    is("abcdefghi", 9, "abcde...", 9);
    is("abcd\xe6\xbc\xa2x", 8, "abcd\xe6\xbc\xa2x", 9);
    is("abcd\xe6\xbc\xa2xy", 9, "abcd...", 9);
    is("\x1b\x1b\x1b", 3, "\\x1b...", 9);
    is("\x1b\x1b", 2, "...", 4);
}

/* Messages quote files. */
void test_printable_messages(void) {
    ph_err e = {0};
    ph_note(&e, PH_FAIL(&e, PH_EFORMAT, "tensor '%s'", "\x1b]0;x\x07"), "in %s", "\x1b[2J");
    CHECK_SAY(!strcmp(e.msg, "tensor '\\x1b]0;x\\x07'"), "%s", e.msg);
    CHECK_SAY(!strcmp(e.note[0], "in \\x1b[2J"), "%s", e.note[0]);
    PH_FAIL(&e, PH_EFORMAT, "%0400d", 1);
    CHECK_SAY(!strcmp(e.msg + sizeof e.msg - 4, "..."), "%s", e.msg);
    PH_FAIL(&e, PH_EFORMAT, "again: %s", e.msg);
    CHECK_SAY(!strncmp(e.msg, "again: 000", 10), "%s", e.msg);
}
