/* test_locale.c - numbers with a point, in whatever locale the program around the library is (UT_LOCALE). */
#include "base/err.h"
#include "base/locale.h"
#include "base/log.h"
#include "tests/unit/unit.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

void test_plain_numbers(void) {
    char        text[32], *end;
    locale_t    before = uselocale((locale_t)0);
    const char *point = localeconv()->decimal_point;
    CHECK(ph_plain_print(text, sizeof text, "%.3f %g %d", 1.5, -0.25, 7) == 13);
    CHECK_SAY(!strcmp(text, "1.500 -0.25 7"), "%s", text);
    CHECK(ph_plain_print(text, 4, "%g", 0.125) == 5 && !strcmp(text, "0.1"));
    double d = ph_plain_double("0.03125x", &end);
    float  f = ph_plain_float("1.5", NULL);
    CHECK(d > 0.031 && d < 0.032 && !strcmp(end, "x") && f > 1.4F && f < 1.6F);
    CHECK(ph_plain_double("2,5", &end) < 2.1 && *end == ',');
    /* The program's own is as it was. */
    CHECK(uselocale((locale_t)0) == before && !strcmp(localeconv()->decimal_point, point));
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK(!strncmp(text + 1, point, strlen(point)));
}

static void take(void *arg, ph_log_level level, const char *line) {
    (void)level;
    snprintf(arg, 32, "%s", line);
}

void test_plain_messages(void) {
    char   line[32] = "";
    ph_err err = {0};
    CHECK(PH_FAIL(&err, PH_EUSAGE, "%g", 0.5) == PH_EUSAGE && !strcmp(err.msg, "0.5"));
    ph_note(&err, PH_EUSAGE, "%.2f", 2.25);
    CHECK(!strcmp(err.note[0], "2.25"));
    ph_log_say(&(ph_log){.write = take, .arg = line, .most = PH_LOG_DEBUG}, PH_LOG_INFO, "%.1f ms", 1.5);
    CHECK_SAY(!strcmp(line, "1.5 ms"), "%s", line);
}
