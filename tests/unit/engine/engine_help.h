/* engine_help.h - what the engine's tests share: small random graphs, and running them. */
#ifndef PH_TESTS_ENGINE_HELP_H
#define PH_TESTS_ENGINE_HELP_H

#include "engine/engine.h"
#include "graph/op.h"
#include "tests/unit/unit.h"

#include <stdint.h>

/* ---- numbers ---- */
extern uint64_t eh_seed;
uint32_t        eh_random(void);
size_t          eh_below(size_t n);
float           eh_float(void); /* about -1 .. 1 */
void            eh_fill(float *x, size_t n);

/* ---- a place for weights of one test ---- */
typedef struct eh_store {
    ph_arena arena;
} eh_store;
void eh_store_open(eh_store *s);
void eh_store_close(eh_store *s);
/* Random numbers stored as t, rows `gap` bytes apart beyond their own size. */
int eh_weight(ph_graph *g, eh_store *s, const char *name, ph_shape shape, ph_dtype t, float about,
              float spread, size_t gap);

/* The same as signed bytes with one scale a row, each of the plain type `scales`; rows behind the first
 * `first`. */
int eh_bytes(ph_graph *g, eh_store *s, const char *name, size_t first, size_t rows, size_t cols,
             ph_dtype scales);

/* ---- an engine and a bound program ---- */
typedef struct eh_run {
    ph_threads    *threads;
    ph_kernels     kernels;
    ph_engine     *engine;
    ph_program    *program;
    unsigned char *block, *memory; /* memory: scratch bytes in the middle of block, guards on both sides */
    size_t         bytes;
} eh_run;
enum { EH_GUARD = 4096 };
/* Of engines opened from here on. */
extern unsigned  eh_unfused;
extern int       eh_rows8;
extern ph_trace *eh_trace;
/* features: of ph_kernels_init; taps may be NULL.  Fails the test and returns 0 when something cannot be
 * opened. */
int  eh_open(eh_run *r, const ph_graph *g, int threads, unsigned features, ph_syms max, const ph_tap *tap,
             size_t n_taps);
int  eh_bind(eh_run *r, ph_syms syms, ph_kv *kv);
int  eh_go(eh_run *r, ph_syms syms); /* to the end, no `until` */
void eh_close(eh_run *r);
int  eh_guards_stand(const eh_run *r);

/* Fill every input of the graph with random floats (small whole numbers for i32, i64), evaluate by
 * definition, run on 1, 2 and 4 threads, and compare all outputs: with the plain kernels bit by bit, else
 * within `bound` of the largest. */
void eh_compare(const ph_graph *g, ph_syms syms, int64_t index_below, float bound);

/* ---- a language model ---- */
typedef struct eh_lm {
    int      layers, d, heads, kv_heads, head, ff, vocab, window, is_pairs, has_bias, is_visual;
    int      factors;  /* 1: what is added to the rows is halved first */
    int      normed;   /* 1: odd layers norm their heads, and what they add to the rows; 2: all layers */
    int      together; /* the first tokens all see each other, in both directions */
    ph_dtype weights, norms, embed, kv;
    float    softcap;
} eh_lm;
extern const eh_lm eh_lm_small;
ph_graph          *eh_lm_graph(const eh_lm *m, eh_store *s);
ph_kv             *eh_lm_cache(const eh_lm *m, int sequences, int context);
/* Rows of a sequence's tokens [from, from + n): records and ids (ids from a hash of sequence salt and index).
 */
void eh_lm_rows(const eh_lm *m, int32_t *ids, int32_t *rows, int sequence, int salt, int from, int n);

ph_syms eh_syms(int64_t r, int64_t s, int64_t v, int64_t i, int64_t n);
/* Same bits?  Says where not. */
int eh_same(const float *a, const float *b, size_t n, const char *what);
int eh_close_to(const float *got, const float *want, size_t n, float bound, const char *what);

#endif
