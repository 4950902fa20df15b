/* guest_help.h - where libraries of others cannot be tried: ThreadSanitizer does not know what their threads
 * do. */
#ifndef PH_TESTS_GUEST_HELP_H
#define PH_TESTS_GUEST_HELP_H

#include <stdlib.h>

/* As the command has it: OpenVINO keeps few of the products that it compiled for sizes.  And its threads'
 * library loads another in a way that AddressSanitizer ends the process for, unless it is told. */
static inline void keep_few(void) {
    setenv("TBB_ENABLE_SANITIZERS", "1", 0);
    setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64", 0);
}

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif

#endif
