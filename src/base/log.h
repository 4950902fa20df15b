/* log.h - messages for a human, handed to a callback; the library itself never prints. */
#ifndef PH_BASE_LOG_H
#define PH_BASE_LOG_H

typedef enum ph_log_level { PH_LOG_ERROR, PH_LOG_WARN, PH_LOG_INFO, PH_LOG_DEBUG } ph_log_level;

typedef struct ph_log {
    void (*write)(void *arg, ph_log_level level, const char *line); /* NULL: silent */
    void        *arg;
    ph_log_level most; /* the most talkative level that is written */
} ph_log;

void ph_log_say(const ph_log *log, ph_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* log may be NULL */

#endif
