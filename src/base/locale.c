/* locale.c - a thread's locale, put aside for the time of a call. */
#include "base/locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The C library has this locale ready and makes none, so nothing is to be freed; (locale_t)0, were there
 * none, leaves the thread its own. */
static locale_t put_aside(void) {
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

int ph_plain_vprint(char *out, size_t size, const char *fmt, va_list ap) {
    locale_t was = put_aside();
    int      n = vsnprintf(out, size, fmt, ap);
    uselocale(was);
    return n;
}

int ph_plain_print(char *out, size_t size, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = ph_plain_vprint(out, size, fmt, ap);
    va_end(ap);
    return n;
}

size_t ph_plain_time(char *out, size_t size, const char *fmt, const struct tm *tm) {
    locale_t was = put_aside();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the caller's */
    size_t n = strftime(out, size, fmt, tm);
#pragma GCC diagnostic pop
    uselocale(was);
    return n;
}

double ph_plain_double(const char *text, char **end) {
    locale_t was = put_aside();
    double   x = strtod(text, end);
    uselocale(was);
    return x;
}

float ph_plain_float(const char *text, char **end) {
    locale_t was = put_aside();
    float    x = strtof(text, end);
    uselocale(was);
    return x;
}
