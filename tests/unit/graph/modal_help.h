/* modal_help.h - what the tests of multimodal operators share: a graph with its inputs, its two ONNX forms,
 * and what is refused. */
#ifndef PH_TESTS_MODAL_HELP_H
#define PH_TESTS_MODAL_HELP_H

#include "graph/onnx/onnx_in.h"
#include "graph/onnx/onnx_out.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

enum { MH_INPUTS = 8 };

/* A graph whose output is "y", the numbers of its inputs, and memory for all of it. */
typedef struct mh {
    ph_graph *g;
    ph_arena  arena;
    ph_feed   feed[MH_INPUTS];
    size_t    n_feeds;
    ph_syms   syms;
    uint64_t  seed;
} mh;

void mh_open(mh *m);
void mh_close(mh *m);
void mh_rows(mh *m, int64_t rows); /* what dimensions of -1 are; a file's own symbol is the same */
/* An input f32 of random numbers, and one i32 of these; dims -1: symbol R (mh.syms says how large). */
int mh_floats(mh *m, const char *name, int rank, int64_t a, int64_t b, int64_t c, int64_t d);
int mh_ints(mh *m, const char *name, int rank, int64_t a, int64_t b, const int32_t *data);
/* A constant f32 of random numbers. */
int mh_weight(mh *m, const char *name, int rank, int64_t a, int64_t b);
/* The node's first output becomes "y" and the graph is finished; 0: it was refused, *err says how. */
int mh_finish(mh *m, int y, ph_err *err);
/* y by definition; in m's arena. */
ph_rc mh_eval(mh *m, ph_array *y, ph_err *err);
/* Spelled out in opsets 17 and 21 the numbers stay within `bound` of the largest; as our own operator `op`
 * they stay to the bit, and the node is there again. */
void mh_onnx(mh *m, const char *op, double bound, const char *what);
/* |a - b| within bound of the largest |b|. */
int mh_close_to(const float *a, const float *b, int64_t n, double bound, const char *what);

/* The numbers of an input, and of a weight. */
static inline const float *mh_fed(const mh *m, const char *name) {
    for (size_t i = 0; i < m->n_feeds; i++)
        if (!strcmp(m->feed[i].name, name)) return m->feed[i].array.data;
    return NULL;
}

static inline const float *mh_numbers(const mh *m, const char *name) {
    return m->g->value[ph_graph_find(m->g, name)].storage.plane[0].bytes;
}

/* Sizes of what MH_REFUSED makes. */
enum { ROWS = 5, D = 12, FEATURES = 70 };

/* One line for each sentence; `build` makes the node from h [R, D], v [FEATURES, D] and s [D]. */
#define MH_REFUSED(want_rc, word, op, ...)                                                                   \
    do {                                                                                                     \
        mh     m;                                                                                            \
        ph_err err = {0};                                                                                    \
        mh_open(&m);                                                                                         \
        mh_rows(&m, ROWS);                                                                                   \
        int h = mh_floats(&m, "h", 2, -1, D, 0, 0), v = mh_floats(&m, "v", 2, FEATURES, D, 0, 0);            \
        int s = mh_weight(&m, "s", 1, D, 0);                                                                 \
        (void)h, (void)v, (void)s;                                                                           \
        int is_done = mh_finish(&m, ph_graph_node(m.g, op, __VA_ARGS__, "y"), &err);                         \
        CHECK_SAY(!is_done && err.code == (want_rc) && strstr(err.msg, word), "line %d: %s %s", __LINE__,    \
                  ph_rc_name(err.code), err.msg);                                                            \
        mh_close(&m);                                                                                        \
    } while (0)

#endif
