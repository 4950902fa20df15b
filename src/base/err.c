/* err.c - the table of failures and the two ways to write one down. */
#include "base/err.h"

#include "base/locale.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    ph_rc       code;
    int         http, exit;
    const char *name, *text;
} table[] = {
    {PH_OK, 200, 0, "OK", "ok"},
#define PH_ERR(name, code, http, exit, text) {PH_##name, http, exit, #name, text},
#include "base/err.def"
#undef PH_ERR
};

/* Messages quote files: what a terminal would act on is spelt out, what is too long ends with "...". */
static void write_text(char *out, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
static void write_text(char *out, size_t size, const char *fmt, va_list ap) {
    char text[2 * sizeof((ph_err *)0)->msg];
    if (ph_plain_vprint(text, sizeof text, fmt, ap) < 0) text[0] = 0;
    ph_printable(out, size, text, strlen(text));
}

ph_rc ph_fail(ph_err *err, ph_rc code, const char *file, int line, const char *fmt, ...) {
    if (err) {
        va_list ap;
        err->code = code;
        err->file = file;
        err->line = line;
        err->n_notes = 0;
        va_start(ap, fmt);
        write_text(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
    }
    return code;
}

ph_rc ph_note(ph_err *err, ph_rc code, const char *fmt, ...) {
    if (err && code && err->n_notes < 3) {
        va_list ap;
        va_start(ap, fmt);
        write_text(err->note[err->n_notes++], sizeof err->note[0], fmt, ap);
        va_end(ap);
    }
    return code;
}

static size_t row_of(ph_rc code) {
    size_t n = sizeof table / sizeof *table;
    for (size_t i = 0; i < n; i++)
        if (table[i].code == code) return i;
    return n;
}

const char *ph_rc_name(ph_rc code) {
    size_t i = row_of(code);
    return i < sizeof table / sizeof *table ? table[i].name : "?";
}
const char *ph_rc_text(ph_rc code) {
    size_t i = row_of(code);
    return i < sizeof table / sizeof *table ? table[i].text : "?";
}
int ph_rc_http(ph_rc code) {
    size_t i = row_of(code);
    return i < sizeof table / sizeof *table ? table[i].http : 500;
}
int ph_rc_exit(ph_rc code) {
    size_t i = row_of(code);
    return i < sizeof table / sizeof *table ? table[i].exit : 5;
}
