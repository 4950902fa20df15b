/* ort_api.h - ONNX Runtime (ORT) by its C API: found, loaded, its functions by their places in its table.
 *
 *     find a library ─► OrtGetApiBase ─► its version ─► the table ─► entries by place
 *
 * No header of ORT is needed to build, and no ORT to run anything else.  A library that was loaded stays
 * until the process ends.  Only engine/ort/ and its tests include this; ort.h is for the others.
 */
#ifndef PH_ENGINE_ORT_ORT_API_H
#define PH_ENGINE_ORT_ORT_API_H

#include "engine/ort/ort.h"

/* Its objects; none is looked into. */
typedef struct ort_status      ort_status;
typedef struct ort_env         ort_env;
typedef struct ort_session     ort_session;
typedef struct ort_options     ort_options;
typedef struct ort_run_options ort_run_options;
typedef struct ort_type        ort_type;
typedef struct ort_shape       ort_shape;
typedef struct ort_value       ort_value;
typedef struct ort_place       ort_place; /* where memory lies */
typedef struct ort_binding     ort_binding;
typedef struct ort_threading   ort_threading;
typedef struct ort_provider    ort_provider; /* options of an execution provider, before they are appended */
typedef struct ort_device      ort_device;   /* an execution provider of a plug-in, with hardware */
typedef struct ort_hardware    ort_hardware;

/* An allocator of ours, as ORT calls it.  Later versions have more functions behind these. */
typedef struct ort_allocator {
    uint32_t version; /* of the API that its functions are of */
    void *(*alloc)(struct ort_allocator *a, size_t n);
    void (*free)(struct ort_allocator *a, void *p);
    const ort_place *(*info)(const struct ort_allocator *a);
    void *(*reserve)(struct ort_allocator *a, size_t n); /* since 18 */
} ort_allocator;

typedef void  ort_log(void *arg, int severity, const char *category, const char *id, const char *where,
                      const char *message);
typedef void *ort_thread_start(void *arg, void (*work)(void *), void *work_arg); /* NULL: failed */
typedef void  ort_thread_join(void *thread);

enum {
    PH_ORT_API_MIN = 19,         /* 1.19: the oldest release that was run */
    PH_ORT_API_MAX = 22,         /* the newest entry below */
    PH_ORT_ALLOCATOR_DEVICE = 0, /* OrtAllocatorType */
    PH_ORT_MEMORY_DEFAULT = 0,   /* OrtMemType */
    PH_ORT_LOG_FATAL = 4         /* OrtLoggingLevel */
};

typedef struct ph_ort_api {
#define PH_ORT_CALL(place, since, name, params)      ort_status *(*name)params;
#define PH_ORT_FREE(place, name, type)               void (*name)(type *);
#define PH_ORT_GET(place, since, type, name, params) type(*name) params;
#include "engine/ort/ort_api.def"
#undef PH_ORT_CALL
#undef PH_ORT_FREE
#undef PH_ORT_GET
    /* std::bad_alloc of the C++ library that it uses, thrown; NULL: not found.  ORT takes no NULL for an
     * answer from an allocator. */
    void (*throw_bad_alloc)(void);
    int  version;       /* of the API that was asked for: entries of later ones are NULL */
    char release[32];   /* "1.32.0" */
    char path[1024];    /* of the library, as far as it is known */
    int  release_minor; /* 32 */
} ph_ort_api;

/* The library of this process, loaded at the first call.  Safe from any thread.
 * Errors: PH_EMACHINE none is there, or what is there is no library, no ORT, or of a version that is not
 * taken; the message names the place and what to do. */
ph_rc ph_ort_api_get(const ph_ort_api **out, ph_err *err);
/* The same of one library, path, which is loaded anew: for tests. */
ph_rc ph_ort_api_load(ph_ort_api *out, const char *path, ph_err *err);
/* What a call came to.  A status is released; its code becomes one of ours, its text the message:
 * "ONNX Runtime, DOING: TEXT". */
ph_rc ph_ort_take(const ph_ort_api *api, ort_status *status, const char *doing, ph_err *err);

#endif
