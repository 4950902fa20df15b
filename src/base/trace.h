/* trace.h - what happened when: spans in a ring, counters, histograms.
 *
 * Recording never allocates and never blocks: a ring slot is claimed by one
 * atomic add, the oldest events are overwritten.  Names are static strings.
 */
#ifndef PH_BASE_TRACE_H
#define PH_BASE_TRACE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_trace ph_trace;

typedef struct ph_span {
    const char *name; /* static */
    uint64_t    begin_ns, end_ns;
    uint64_t    arg; /* what the span counted: tokens, bytes; 0 if nothing */
    int         thread;
} ph_span;

ph_rc ph_trace_open(ph_trace **t, size_t spans_max, ph_err *err);
void  ph_trace_close(ph_trace *t);
/* t may be NULL everywhere below: then nothing is recorded. */
uint64_t ph_trace_begin(ph_trace *t); /* the clock */
void     ph_trace_end(ph_trace *t, const char *name, uint64_t begin_ns, uint64_t arg);
/* A span that was over when it was told of: of another clock, brought to ours.  Its thread is the caller. */
void     ph_trace_put(ph_trace *t, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t arg);
size_t   ph_trace_spans(const ph_trace *t, ph_span *out, size_t out_max); /* oldest first */
uint64_t ph_trace_total_ns(const ph_trace *t, const char *name);          /* sum since open/reset */
uint64_t ph_trace_count(const ph_trace *t, const char *name);
/* Names that were ever recorded, in order of their first; NULL past the last. */
const char *ph_trace_name(const ph_trace *t, size_t i);
void        ph_trace_reset(ph_trace *t);
/* Histogram of a span name's durations: PH_TRACE_BUCKETS powers of two from 1 us. */
enum { PH_TRACE_BUCKETS = 32, PH_TRACE_NAMES = 64 };
int      ph_trace_histogram(const ph_trace *t, const char *name, uint64_t buckets[PH_TRACE_BUCKETS]);
void     ph_trace_add(ph_trace *t, const char *counter, uint64_t n);
uint64_t ph_trace_counter(const ph_trace *t, const char *counter);

#endif
