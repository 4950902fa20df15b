/* bench.h - how fast a model runs here, beside what this machine can do.
 *
 *     machine.h limits ─┐
 *     graph ─ work ─────┼─► rows: median, spread, share of the limit
 *     corridor ─ times ─┘
 *
 * Everything timed walks through flow/; the work is counted from the graphs, so no family and no file is
 * known here.  Stages of a row: load, first (load and the first token), both also _cold, decode, prepare,
 * see, bridge, prefill, step, answer (step with sampling and text).
 *
 * Thread counts take turns within a round, so that a machine that slows down slows all of them.
 */
#ifndef PH_MEASURE_BENCH_H
#define PH_MEASURE_BENCH_H

#include "flow/flow.h"
#include "graph/op.h"
#include "measure/machine.h"

enum { PH_BENCH_THREADS_MAX = 8, PH_BENCH_ROWS_MAX = 16 * PH_BENCH_THREADS_MAX, PH_BENCH_ROUNDS_MAX = 101 };

/* ---- work: bench_work.c ---- */

/* What running a graph once means, in multiply-adds and bytes. */
typedef struct ph_work {
    double f32_macs,
        int8_macs;       /* of Linear, Conv, MatMul and the attentions, by the arithmetic that is used */
    double weight_bytes; /* constants that are read; of tables the rows that are looked up */
    double kv_bytes;     /* keys and values that are read from the cache */
} ph_work;

typedef struct ph_work_how {
    const ph_kernels *kernels;
    int               is_exact; /* as the session runs: no integer products */
    ph_meets          meets;
    double            kv_item; /* bytes of a cached number */
} ph_work_how;

/* Errors: PH_ELIMIT a size that overflows. */
ph_rc ph_work_count(const ph_graph *g, const ph_syms *syms, const ph_work_how *how, ph_work *out,
                    ph_err *err);

/* ---- measuring: bench.c, bench_load.c, bench_picture.c ---- */

typedef struct ph_bench_options {
    const char               *model; /* path */
    ph_model_options          open;
    const ph_session_options *session; /* threads and context are set here; the rest as given */
    int                       threads[PH_BENCH_THREADS_MAX];
    size_t                    n_threads;
    int               prompt, answer; /* tokens of prefill and step; negative: 512 and 64, or what fits */
    int               depth;          /* tokens in the cache before the first step; 0: 1 */
    int               rounds;
    const ph_picture *picture;                   /* NULL: one is made */
    int               image_width, image_height; /* of the made one; 0: 1024 x 768 */
    int               is_cold;                   /* also load with the files' pages dropped */
    int               has_limits;                /* 0: no limits are measured, no shares given */
    int               has_steps;              /* see, prefill and step also by kind of the engine's steps */
    uint64_t          read_bytes;             /* ph_machine_options */
    void (*say)(void *arg, const char *line); /* progress; or NULL */
    void *arg;
} ph_bench_options;

/* Time of one kind of the engine's steps in a row's work: means of rounds of their own. */
enum { PH_BENCH_PARTS_MAX = 24 };
typedef struct ph_bench_part {
    const char *kind; /* static: "linear" */
    double      ms, runs;
} ph_bench_part;

typedef struct ph_bench_row {
    const char   *stage; /* static */
    int           threads;
    int           n; /* what one round does: tokens, tiles, patches, or 1 */
    double        median, least, most;
    const char   *unit;            /* "ms", or "tok/s"; static */
    double        spread;          /* (most - least) / median */
    double        limit_share;     /* of what the limit allows; negative: the stage has none */
    const char   *limit;           /* "read", "f32", "int8", or both: "f32+int8"; "" */
    ph_work       work;            /* of n together, but of one token for step; zero where none was counted */
    double        bytes_per_token; /* step: weights and cache read; else 0 */
    ph_bench_part part[PH_BENCH_PARTS_MAX]; /* [n_parts], the longest first; of see with the bridge */
    size_t        n_parts;
} ph_bench_row;

typedef struct ph_bench {
    ph_machine   machine[PH_BENCH_THREADS_MAX]; /* [n_threads] */
    size_t       n_threads;
    ph_bench_row row[PH_BENCH_ROWS_MAX];
    size_t       n_rows;
    char         isa[32];
    int          rounds, prompt, answer, depth;
    int          image_width, image_height, n_tiles, n_patches, image_tokens; /* 0: the model sees nothing */
    double       cold_left; /* share of the files' pages that could not be dropped; negative: not tried */
} ph_bench;

/* Errors: PH_EUSAGE counts out of range; PH_ECONTEXT prompt and answer are longer than the model's context;
 * those of opening and of the corridor. */
ph_rc ph_bench_run(ph_bench *out, const ph_bench_options *how, ph_err *err);

/* ---- the border between engines: bench_border.c ---- */

typedef struct ph_border_row {
    const char *what;  /* "wide": synthetic, the copy is most of it; "model": the given one's own */
    size_t      bytes; /* that cross it */
    double      shared_ms, copied_ms;
    size_t      shared_held, copied_held; /* bytes of anonymous memory that it took, at most */
    size_t      copied_when_shared;       /* bytes, in two questions; not 0 where tokens change their order */
} ph_border_row;

typedef struct ph_bench_border {
    ph_border_row row[2];
    size_t        n; /* 1: the model sees nothing, or makes vectors */
} ph_bench_border;

/* With how->threads[0].  Errors: those of opening and of the corridor. */
ph_rc ph_bench_border_run(ph_bench_border *out, const ph_bench_options *how, ph_err *err);

/* ---- comparing: bench_compare.c ---- */

typedef struct ph_bench_ratio {
    const ph_bench_row *now;
    double              before, ratio; /* above 1: faster than before, whatever the unit */
    int                 is_worse;
} ph_bench_ratio;

/* The rows of `json` (what `pinhole bench --json` printed) that *now has too: same stage, threads and n.
 * A row is worse when it is slower than `worse` times (0.9) the one before.  name begins messages.
 * Errors: PH_EFORMAT not such a file; PH_EMISMATCH no row in common. */
ph_rc ph_bench_compare(const ph_bench *now, const void *json, size_t n, const char *name, double worse,
                       ph_bench_ratio out[PH_BENCH_ROWS_MAX], size_t *n_out, ph_err *err);

#endif
