/* openvino_api.h - OpenVINO by its C API: found, loaded, its functions by their names.
 *
 *     find a library ─► its entries by name ─► its version
 *
 * No header of it is needed to build.  What is numbered in its headers and not the same in all releases
 * (element types) is asked of the library.  A library that was loaded stays until the process ends.  Only
 * engine/openvino/ and its tests include this; openvino.h and openvino_model.h are for the others.
 */
#ifndef PH_ENGINE_OPENVINO_OPENVINO_API_H
#define PH_ENGINE_OPENVINO_OPENVINO_API_H

#include "engine/openvino/openvino.h"

#include <stddef.h>
#include <stdint.h>

/* Its objects; none is looked into. */
typedef struct openvino_core     openvino_core;
typedef struct openvino_read     openvino_read; /* a model that was read, before it is compiled */
typedef struct openvino_compiled openvino_compiled;
typedef struct openvino_request  openvino_request;
typedef struct openvino_port     openvino_port;
typedef struct openvino_tensor   openvino_tensor;

typedef struct openvino_version {
    const char *build, *description; /* "2026.4.1-22982-e213a147257" */
} openvino_version;

typedef struct openvino_shape {
    int64_t  rank;
    int64_t *dim;
} openvino_shape;

enum {
    PH_OPENVINO_YEAR_MIN =
        2025, /* 2025.4: the oldest release that was run, and that reads weights by address */
    PH_OPENVINO_MINOR_MIN = 4,
    PH_OPENVINO_NOT_READY = -9, /* statuses, of ov_common.h */
    PH_OPENVINO_CANCELLED = -13,
    PH_OPENVINO_BAD_CALL = -14
};

typedef struct ph_openvino_api {
#define PH_OPENVINO_CALL(name, params)      int(*name) params;
#define PH_OPENVINO_FREE(name, type)        void (*name)(type *);
#define PH_OPENVINO_GET(type, name, params) type(*name) params;
#include "engine/openvino/openvino_api.def"
#undef PH_OPENVINO_CALL
#undef PH_OPENVINO_FREE
#undef PH_OPENVINO_GET
    int  year, minor; /* 2026, 4 */
    char release[32]; /* "2026.4.1" */
    char path[1024];
} ph_openvino_api;

/* The library of this process, loaded at the first call.  Safe from any thread.  Errors: of
 * ph_openvino_probe. */
ph_rc ph_openvino_api_get(const ph_openvino_api **out, ph_err *err);
/* The same of one library, path, which is loaded anew: for tests. */
ph_rc ph_openvino_api_load(ph_openvino_api *out, const char *path, ph_err *err);

/* What a call came to: 0, or an error with the library's own words: "OpenVINO, DOING: TEXT". */
ph_rc ph_openvino_take(const ph_openvino_api *api, int status, const char *doing, ph_err *err);

#endif
