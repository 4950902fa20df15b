/* ort.h - ONNX Runtime (ORT) in this process: its environment, threads, memory and execution providers.
 *
 *     ph_ort_open ─► ph_ort_session_open (ort_session.h) ─► bind ─► run
 *
 * One environment a process: all handles share it.  Its threads are a pool of as many as the first handle
 * asks for, which do not spin; its memory comes from an allocator of ours, which counts.
 */
#ifndef PH_ENGINE_ORT_ORT_H
#define PH_ENGINE_ORT_ORT_H

#include "base/err.h"
#include "engine/class.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_ort ph_ort;

/* threads: that a run may keep busy, the caller's included; at least 1.  Errors: of loading, PH_EMACHINE;
 * PH_ENOMEM. */
ph_rc ph_ort_open(ph_ort **ort, int threads, ph_err *err);
void  ph_ort_close(ph_ort *ort); /* accepts NULL; its sessions are closed before */

/* The library, loaded or not. */
typedef struct ph_ort_library {
    char path[1024];
    char release[32]; /* "1.32.0" */
} ph_ort_library;
ph_rc ph_ort_probe(ph_ort_library *out, ph_err *err);

/* ---- memory ---- */

/* Bytes that ORT holds by our allocator: weights that it packed or copied, scratch, outputs that nobody
 * bound. Of all sessions of this process. */
typedef struct ph_ort_memory {
    size_t   now, peak; /* bytes; peak since ph_ort_memory_mark */
    size_t   most;      /* the peak of this process */
    uint64_t allocations;
    uint64_t refused; /* that malloc, or the limit, did not give */
} ph_ort_memory;
ph_ort_memory ph_ort_memory_read(void);
void          ph_ort_memory_mark(void); /* peak begins anew from now */
/* What `now` may come to; 0: no limit.  A run that wants more fails with PH_ENOMEM. */
void ph_ort_memory_limit(size_t bytes);

/* Threads that ORT has running at this time. */
int ph_ort_threads(void);

/* ---- execution providers ---- */

enum { PH_ORT_OPTIONS_MAX = 32 };

/* An execution provider by one of our names ("openvino") or ORT's own ("OpenVINOExecutionProvider"), with its
 * options as ORT documents them.  Borrowed. */
typedef struct ph_ort_ep {
    const char *name;
    const char *key[PH_ORT_OPTIONS_MAX], *value[PH_ORT_OPTIONS_MAX];
    size_t      n;
} ph_ort_ep;

/* "openvino,device_type=CPU": text is cut into pieces in place, which *ep points to.  Errors: PH_EUSAGE. */
ph_rc ph_ort_ep_read(ph_ort_ep *ep, char *text, ph_err *err);

/* Can it be asked for?  Errors: PH_EMACHINE it is not here, with the reason; PH_EUSAGE its options. */
ph_rc ph_ort_ep_check(ph_ort *ort, const ph_ort_ep *ep, ph_err *err);

/* What it computes on, by its name and the option "device"; one that has no row is taken for a CPU's. */
ph_engine_class ph_ort_ep_class(const ph_ort_ep *ep);

/* Provider i of those that are known, and of those that only this library has. */
typedef struct ph_ort_ep_state {
    char            name[64], ort_name[64];
    ph_engine_class cls;
    int             is_here;
    unsigned        kinds; /* bits 1 << ph_engine_class of a plug-in's devices; 0: it has no such choice */
    char            reason[320]; /* why not; else "" */
} ph_ort_ep_state;
/* 0 past the last.  ort may be NULL: then none is here. */
int ph_ort_ep_at(ph_ort *ort, size_t i, ph_ort_ep_state *out);

#endif
