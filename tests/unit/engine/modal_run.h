/* modal_run.h - multimodal operators on the native engine against their definition. */
#ifndef PH_TESTS_MODAL_RUN_H
#define PH_TESTS_MODAL_RUN_H

#include "tests/unit/engine/engine_help.h"

/* "y" of one run; out: n_out floats, as many as y has.  What the run said. */
ph_rc mr_run(const ph_graph *g, ph_syms syms, const ph_feed *feed, size_t n_feeds, int threads,
             unsigned features, float *out, size_t n_out, ph_err *err);
/* "y" by definition with the plain kernels, then run on 1, 2 and 4 threads: with the plain kernels the same
 * bits, with the fastest within `bound` of the largest; never by the operator's eval.  Then ONNX Runtime on
 * the spelled-out form, where it is here.  Returns y's floats. */
size_t mr_compare(const ph_graph *g, ph_syms syms, const ph_feed *feed, size_t n_feeds, float bound);

#endif
