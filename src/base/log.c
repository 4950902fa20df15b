/* log.c - one message, one line, to whoever asked for it.
 *
 * Names and texts of strangers end up in messages, so a control character
 * becomes '?': nobody forges a second line or drives a terminal.
 */
#include "base/log.h"

#include "base/locale.h"

#include <stdarg.h>
#include <stdio.h>

void ph_log_say(const ph_log *log, ph_log_level level, const char *fmt, ...) {
    char    line[1024];
    va_list ap;
    if (!log || !log->write || level > log->most) return;
    va_start(ap, fmt);
    ph_plain_vprint(line, sizeof line, fmt, ap);
    va_end(ap);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    log->write(log->arg, level, line);
}
