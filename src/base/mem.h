/* mem.h - checked size arithmetic, and what this process holds (Linux /proc). */
#ifndef PH_BASE_MEM_H
#define PH_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Return 1 and leave *out alone when the exact result does not fit. */
static inline int ph_mul_over(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return 1;
    *out = r;
    return 0;
}
static inline int ph_add_over(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return 1;
    *out = r;
    return 0;
}
static inline size_t ph_round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

enum { PH_HUGE_PAGE = 2 << 20 }; /* bytes, where pages have 4 KiB */

typedef struct ph_mem {
    size_t rss, rss_peak;      /* VmRSS, VmHWM: bytes */
    size_t rss_anon, rss_file; /* RssAnon, RssFile: bytes */
    size_t swap;               /* VmSwap: bytes */
    size_t locked;             /* VmLck: bytes */
} ph_mem;
int    ph_mem_read(ph_mem *out); /* 0 when /proc/self/status cannot be read: *out is zeroed */
size_t ph_mem_resident(void);    /* VmRSS alone; 0 when it cannot be read */

/* What malloc holds; all 0 where it does not say (under a sanitizer, or before glibc 2.33). */
typedef struct ph_heap {
    size_t used, free; /* bytes handed out; given back to it, and at hand */
    size_t system;     /* that it has from the system: both */
} ph_heap;
ph_heap ph_mem_heap(void);

/* Bytes that could be had without swapping (MemAvailable); 0 when that cannot be read. */
size_t ph_mem_available(void);

/* "1.8GB" (10^9), "1.8GiB" (2^30), "512M", "4096": bytes.  Returns 0 and leaves *out alone if s is no size.
 */
int ph_size_parse(const char *s, uint64_t *out);
/* "1.80 GB" with 10^9-based units into out[size]. */
void ph_size_print(char *out, size_t size, uint64_t bytes);

#endif
