/* plan.h - how much memory, exactly, before a weight byte is read.
 *
 * Two things live here.  ph_layout turns lifetimes into offsets (a pure function,
 * used by engines for their buffers).  ph_plan adds up what a model needs under a
 * stated load, by phase and by kind; its peak is the largest phase.  Engines are
 * asked through a function pointer, so this room includes none.
 */
#ifndef PH_GRAPH_PLAN_H
#define PH_GRAPH_PLAN_H

#include "graph/graph.h"

/* ---- lifetimes to offsets ---- */
typedef struct ph_life {
    size_t bytes;       /* rounded up to 64 by the layout */
    int    first, last; /* steps in which the buffer must stand, both included */
    size_t offset;      /* out */
} ph_life;
/* Greedy by size (Pisarchyk and Lee, arXiv:2001.03288): buffers whose lives touch never overlap.  Allocates
 * nothing: order[n] is scratch.  *peak is the end of the highest buffer.  Same input, same offsets. */
ph_rc ph_layout(ph_life *life, size_t n, size_t *order, size_t *peak, ph_err *err);
/* What no layout can go below: the largest sum of buffers that stand at one step. */
size_t ph_layout_bound(const ph_life *life, size_t n);

/* ---- what an engine says it needs for one part at given sizes, bytes ---- */
typedef struct ph_need {
    size_t input;       /* buffers the caller fills, padding included */
    size_t activations; /* values between steps: peak of the layout, outputs included */
    size_t engine;      /* temporaries of the engine: thread scratch, packed or converted weights, program */
    size_t reserve;     /* kept for shapes that vary */
    size_t weights;     /* bytes of mapped weights that the part reads, whole pages; tables apart */
    /* Constants that only Gather reads (an untied embedding): a run touches the rows it looks up, so after t
     * different ids min(table, t * table_row) bytes are resident. */
    size_t table;     /* all of them, whole pages */
    size_t table_row; /* pages that one look-up touches at most */
    size_t standing;  /* of `engine`: what an engine that loads a copy of the part holds whatever the sizes */
    size_t opening;   /* what it held beyond that while it was compiled, and gave back */
    int    is_estimate; /* part of `engine` is not known before a run at these sizes */
} ph_need;

/* The six kinds, and what stands beside them. */
typedef struct ph_memory {
    size_t input, activations, weights, engine, reserve, pools; /* the six kinds */
    size_t kv; /* pages touched by the load; pools holds the other pools only, so total counts each once */
    size_t tokenizer; /* tables, with the transient of loading them if that is the peak */
    size_t base;      /* the process itself: code, libraries, heap before a model is opened */
    size_t total;
} ph_memory;

typedef enum ph_phase { PH_PHASE_LOAD, PH_PHASE_SEE, PH_PHASE_PREFILL, PH_PHASE_STEP, PH_N_PHASES } ph_phase;
extern const char *const ph_phase_name[PH_N_PHASES];

/* A load that a plan is of. */
typedef struct ph_load {
    int context; /* tokens a sequence */
    int sequences;
    int images; /* a prompt */
    int tiles;  /* an image, at most */
    int chunk;  /* rows of a prefill chunk */
    int threads;
    int beside; /* turns of which one is seen while another is answered; 0: one at a time */
    int ahead;  /* 1: pictures of one more are decoded meanwhile */
} ph_load;

typedef struct ph_plan {
    ph_load   load;
    ph_memory phase[PH_N_PHASES];
    ph_memory peak; /* of the largest phase */
    ph_phase  peak_phase;
    int       is_estimate; /* an engine's memory is not its own to lay out, and was not measured yet */
} ph_plan;

void ph_memory_sum(ph_memory *m); /* total from the kinds */
void ph_plan_finish(ph_plan *p);  /* sums, peak and peak_phase from the phases */

/* Whole 4096-byte pages that [bytes, n) ranges touch, each page once: for resident weights.  Ranges are
 * sorted in place. */
typedef struct ph_range {
    uintptr_t begin, end;
} ph_range;
size_t ph_pages_touched(ph_range *r, size_t n);

#endif
