/* malloc_guard.c - an allocator that can be told to abort: "this allocates nothing" as a fact.
 *
 * glibc offers its allocator under second names, so the usual ones can be taken
 * over here.  Sanitizers do the same and cannot share; then this file only says so.
 */
#include "tests/unit/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#endif

static atomic_int held;

void ut_hold_malloc(int hold) {
    atomic_store(&held, hold);
}

#if defined(HAS_SANITIZER) || !defined(__GLIBC__)

int ut_can_hold_malloc(void) {
    return 0;
}

#else

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t item);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void  __libc_free(void *p);

int ut_can_hold_malloc(void) {
    return 1;
}

static void ask(void) {
    static const char text[] = "an allocation or a release while none is allowed\n";
    if (!atomic_load(&held)) return;
    if (write(2, text, sizeof text - 1) < 0) abort();
    abort();
}

void *malloc(size_t n) {
    ask();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t item) {
    ask();
    return __libc_calloc(n, item);
}
void *realloc(void *p, size_t n) {
    ask();
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    ask();
    return __libc_memalign(align, n);
}
void free(void *p) {
    ask();
    __libc_free(p);
}

#endif
