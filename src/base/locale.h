/* locale.h - numbers and times as files have them: a point before the fraction, English names of months.
 *
 * A program that embeds the library may have set a locale in which 0.5 is "0,5".  What the library writes
 * into files, prompts and messages, and what it reads in files, goes through here instead of printf, strtod
 * and strftime.
 */
#ifndef PH_BASE_LOCALE_H
#define PH_BASE_LOCALE_H

#include <stdarg.h>
#include <stddef.h>
#include <time.h>

/* As snprintf and vsnprintf, in the locale "C". */
int ph_plain_print(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int ph_plain_vprint(char *out, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* As strftime, in the locale "C". */
size_t ph_plain_time(char *out, size_t size, const char *fmt, const struct tm *tm)
    __attribute__((format(strftime, 3, 0)));

/* As strtod and strtof, in the locale "C"; end: or NULL. */
double ph_plain_double(const char *text, char **end);
float  ph_plain_float(const char *text, char **end);

#endif
