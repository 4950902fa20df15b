/* asan.h - tell AddressSanitizer which bytes of our own regions are out of bounds.
 *
 * Arenas and slabs hand out parts of one allocation, which hides overruns from
 * the sanitizer unless it is told.  gcc and clang announce it differently.
 * Without the sanitizer both macros do nothing.
 */
#ifndef PH_BASE_ASAN_H
#define PH_BASE_ASAN_H

#if defined(__has_feature) /* clang; gcc defines __SANITIZE_ADDRESS__ itself */
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define PH_POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define PH_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define PH_POISON(p, n)   ((void)(p), (void)(n))
#define PH_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#endif
