/* test_log.c - levels, length and control characters of a log line. */
#include "base/log.h"
#include "tests/unit/unit.h"

#include <string.h>

typedef struct heard {
    int          n;
    ph_log_level level;
    char         line[2048];
} heard;

static void hear(void *arg, ph_log_level level, const char *line) {
    heard *h = arg;
    h->n++;
    h->level = level;
    snprintf(h->line, sizeof h->line, "%s", line);
}

void test_log_lines(void) {
    heard  h = {0};
    ph_log log = {hear, &h, PH_LOG_INFO};
    ph_log_say(&log, PH_LOG_WARN, "%d of %s", 3, "four");
    CHECK(h.n == 1 && h.level == PH_LOG_WARN && !strcmp(h.line, "3 of four"));
    ph_log_say(&log, PH_LOG_DEBUG, "not wanted");
    CHECK(h.n == 1);
    ph_log_say(&log, PH_LOG_ERROR, "a\nb\x1b[2J gr\xc3\xbc\xc3\x9f e\x7f");
    CHECK_SAY(!strcmp(h.line, "a?b?[2J gr\xc3\xbc\xc3\x9f e?"), "%s", h.line);
    ph_log_say(&log, PH_LOG_INFO, "%01500d", 1);
    CHECK(strlen(h.line) == 1023);
    ph_log_say(NULL, PH_LOG_ERROR, "nobody");
    log.write = NULL;
    ph_log_say(&log, PH_LOG_ERROR, "silent");
    CHECK(h.n == 3);
}
