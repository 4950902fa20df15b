/* ort_help.h - where ONNX Runtime cannot be tried: ThreadSanitizer does not know what its threads do. */
#ifndef PH_TESTS_ORT_HELP_H
#define PH_TESTS_ORT_HELP_H

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif

#endif
