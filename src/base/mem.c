/* mem.c - what this process holds, and sizes as a human writes them.
 *
 * /proc/self/status is read with plain system calls into the stack: a memory
 * figure can be taken in the middle of a step that may not allocate.
 */
#include "base/mem.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* "VmRSS:  12345 kB" of the text at status, in bytes; 0 when the line is missing. */
static size_t field(const char *status, const char *key) {
    size_t n = strlen(key), kb = 0;
    for (const char *line = status; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) || line[n] != ':') continue;
        line += n + 1;
        while (*line == ' ' || *line == '\t') line++;
        for (; *line >= '0' && *line <= '9'; line++) kb = kb * 10 + (size_t)(*line - '0');
        return kb * 1024;
    }
    return 0;
}

/* A small text of /proc whole, terminated; 0: it cannot be read. */
static int slurp(const char *path, char *text, size_t size) {
    size_t  n = 0;
    ssize_t got = 0;
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    while (n < size - 1 && (got = read(fd, text + n, size - 1 - n)) > 0) n += (size_t)got;
    close(fd);
    text[n] = 0;
    return got >= 0 && n;
}

size_t ph_mem_available(void) {
    char text[8192];
    return slurp("/proc/meminfo", text, sizeof text) ? field(text, "MemAvailable") : 0;
}

int ph_mem_read(ph_mem *out) {
    char text[8192];
    *out = (ph_mem){0};
    if (!slurp("/proc/self/status", text, sizeof text)) return 0;
    out->rss = field(text, "VmRSS");
    out->rss_peak = field(text, "VmHWM");
    out->rss_anon = field(text, "RssAnon");
    out->rss_file = field(text, "RssFile");
    out->swap = field(text, "VmSwap");
    out->locked = field(text, "VmLck");
    return out->rss != 0;
}

size_t ph_mem_resident(void) {
    ph_mem m;
    return ph_mem_read(&m) ? m.rss : 0;
}

ph_heap ph_mem_heap(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 m = mallinfo2();
    return (ph_heap){.used = m.uordblks + m.hblkhd, .free = m.fordblks, .system = m.arena + m.hblkhd};
#else
    return (ph_heap){0};
#endif
}

/* The factor that a unit's letters stand for; 0: no such unit.  Letter case is ignored. */
static uint64_t unit_of(const char *s) {
    static const struct {
        const char *decimal, *binary;
        uint64_t    d, b;
    } units[] = {
        {"k", "ki", 1000u, 1ull << 10},
        {"m", "mi", 1000000u, 1ull << 20},
        {"g", "gi", 1000000000u, 1ull << 30},
        {"t", "ti", 1000000000000u, 1ull << 40},
    };
    char   u[4] = "";
    size_t n = strlen(s);
    if (n >= sizeof u) return 0;
    memcpy(u, s, n + 1);
    if (n && (u[n - 1] == 'B' || u[n - 1] == 'b')) u[n - 1] = 0;
    if (!*u) return 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!strcasecmp(u, units[i].decimal)) return units[i].d;
        if (!strcasecmp(u, units[i].binary)) return units[i].b;
    }
    return 0;
}

/* Integers throughout, so that 1.8GB is 1800000000 and no locale has a say. */
int ph_size_parse(const char *s, uint64_t *out) {
    uint64_t whole = 0, part = 0, scale = 1, unit, bytes;
    int      n_digits = 0;
    while (*s == ' ') s++;
    for (; *s >= '0' && *s <= '9'; s++, n_digits++)
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*s - '0'), &whole))
            return 0;
    int has_point = *s == '.';
    if (has_point) {
        s++;
        if (*s < '0' || *s > '9') return 0;
        for (; *s >= '0' && *s <= '9'; s++, n_digits++)
            if (scale < 1000000u) { /* finer than a millionth of the unit: no matter */
                part = part * 10 + (uint64_t)(*s - '0');
                scale *= 10;
            }
    }
    if (!n_digits) return 0;
    while (*s == ' ') s++;
    unit = unit_of(s);
    if (!unit || (has_point && unit == 1)) return 0;
    /* part * unit < 10^6 * 2^40 < 2^60. */
    if (__builtin_mul_overflow(whole, unit, &bytes) ||
        __builtin_add_overflow(bytes, part * unit / scale, &bytes))
        return 0;
    *out = bytes;
    return 1;
}

void ph_size_print(char *out, size_t size, uint64_t bytes) {
    static const char *const names[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    enum { N = sizeof names / sizeof *names };
    uint64_t unit = 1000, hundredths = 0;
    size_t   i = 0;
    if (bytes < 1000) {
        snprintf(out, size, "%u B", (unsigned)bytes);
        return;
    }
    for (;; i++, unit *= 1000) {
        uint64_t step = unit / 100;
        hundredths = bytes / step + (bytes % step >= step / 2);
        if (hundredths < 100000 || i == N - 1) break; /* 999 999 is 1.00 MB, not 1000.00 kB */
    }
    snprintf(out, size, "%llu.%02u %s", (unsigned long long)(hundredths / 100), (unsigned)(hundredths % 100),
             names[i]);
}
