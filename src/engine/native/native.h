/* native.h - inside the native engine: what a program is made of.
 *
 *     nodes --lowerings--> steps --lives--> offsets --bind--> pointers --run--> values
 *
 * A program is flat: an array of steps, each with the function that does its units,
 * the buffers that it reads and writes, and sizes that are evaluated once a run.
 * Only this folder includes this header.
 *
 * A lowering is one file that defines one const ph_lowering, and one line in
 * lowering.def.  It turns a node (and neighbours that it fuses) into steps.
 */
#ifndef PH_ENGINE_NATIVE_NATIVE_H
#define PH_ENGINE_NATIVE_NATIVE_H

#include "base/arena.h"
#include "engine/engine.h"
#include "graph/op.h"

#include <stdatomic.h>

typedef struct ph_native ph_native;
typedef struct ph_step   ph_step;

/* Multiply-adds that one unit of work aims at: about 0.1 ms vectorised, 1 ms in plain C.  Products of many
 * rows take up to 32 of them: vectorised that is still below 1 ms. */
enum { PH_UNIT_MACS = 1 << 20, PH_UNIT_ITEMS = 1 << 14 };
/* The same of attention, where a unit's queries share what it takes to bring keys and values. */
enum { PH_ATTEND_MACS = 24 * PH_UNIT_MACS };

/* ---- memory ---- */
typedef enum ph_home {
    PH_HOME_INPUT,    /* the caller fills it; it stands during the whole run */
    PH_HOME_CONSTANT, /* bytes of the map or of the graph */
    PH_HOME_TEMP,     /* placed by lifetime */
    PH_HOME_STATE     /* the KV cache: no bytes of ours */
} ph_home;

typedef struct ph_buffer {
    ph_home home;
    int     value;       /* whose shape and type give the size; -1: `fixed` is the size */
    int     same;        /* the buffer that this one shares memory with (in-place work), or itself */
    int     is_lent;     /* always the caller's: no bytes of ours */
    int     first, last; /* steps in which it stands */
    size_t  fixed;       /* bytes, of one without a value */
    size_t  bytes;       /* at the bound sizes */
    void   *own;         /* the program's memory for it, after bind */
    void   *at;          /* where it is: own, lent by the caller, or constant bytes */
} ph_buffer;

/* Bytes of each part of a program's memory. */
typedef struct ph_places {
    size_t input, temps, hand, scratch, total; /* hand: of one worker */
} ph_places;

/* A worker's private memory, and what it last left there. */
typedef struct ph_hand {
    _Alignas(64) unsigned char *memory; /* [hand_bytes], 64-byte aligned */
    size_t        held;                 /* row block whose prologue stands in `memory`; SIZE_MAX: none */
    atomic_size_t taken;                /* of the units dealt to it in this step, those that somebody does */
} ph_hand;

/* ---- steps ---- */
typedef struct ph_step_kind {
    const char *name; /* of its trace spans */
    /* Bytes of private memory a worker wants when sizes are at most `size`; never less for larger sizes. */
    ph_rc (*scratch)(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err);
    /* Serial, once a run, before the first unit: check indices that came as data; set units and piece. */
    ph_rc (*prepare)(ph_native *p, ph_step *s, ph_err *err);
    /* Units [begin, end).  Never fails: what can fail is checked in prepare. */
    void (*work)(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand);
    /* Instead of work: the whole step, alone, with `bytes` of memory. */
    ph_rc (*alone)(ph_native *p, const ph_step *s, void *memory, size_t bytes, ph_err *err);
} ph_step_kind;

struct ph_step {
    const ph_step_kind *kind;
    int                 node;           /* of the graph: for messages */
    int                *reads, *writes; /* buffers */
    int                 n_reads, n_writes;
    int                 over;         /* a read buffer that writes[0] may take the place of, or -1 */
    void               *data;         /* the kind's own */
    size_t              units, piece; /* of this run */
};

/* ---- programs ---- */
struct ph_native { /* a ph_program */
    ph_program base;
    ph_arena   arena; /* all tables, widened norms and biases */

    ph_dim  *dim;  /* [n_dims] each polynomial once */
    int64_t *size; /* [n_dims] their values in this run */
    size_t   n_dims;
    int     *slot; /* [n_values, PH_RANK_MAX] dimension -> dim */

    ph_buffer *buffer; /* [n_buffers] */
    size_t     n_buffers;
    int       *home; /* [n_values] buffer of a value; -1: it is never materialised */

    ph_step *step; /* [n_steps] */
    size_t   n_steps;

    ph_tap *tap;      /* [n_taps], by step */
    int    *tap_step; /* -1: before the first */
    size_t  n_taps;

    ph_life *life; /* [n_buffers] of the bound sizes */
    size_t  *order;

    ph_hand *hand; /* [n_hands] */
    int      n_hands;

    size_t weights, table, table_row; /* bytes: see ph_need */

    /* Bound. */
    int            is_placed, is_bound; /* placed: `life` and `places` hold for the sizes `bound` */
    ph_syms        bound;
    ph_places      places;
    ph_kv         *kv, *cross;
    unsigned char *scratch; /* hands' memory, or a serial step's */
    size_t         scratch_bytes;

    /* A run under way. */
    int     is_half_done;
    ph_syms running;
    size_t  at_step, at_unit;
};

/* The cache of a state, by its name. */
ph_kv *ph_native_kv(const ph_native *p, int value);

static inline const ph_graph *ph_native_graph(const ph_native *p) {
    return p->base.graph;
}
static inline const ph_kernels *ph_native_kernels(const ph_native *p) {
    return p->base.engine->env.kernels;
}
static inline void *ph_native_at(const ph_native *p, int buffer) {
    return p->buffer[buffer].at;
}
/* Dimension k of a value under `size` (p->size during a run). */
static inline int64_t ph_native_dim(const ph_native *p, const int64_t *size, int value, int k) {
    return size[p->slot[(size_t)value * PH_RANK_MAX + (size_t)k]];
}
/* Product of dimensions [from, to): all fit, since place.c evaluated the whole product when it sized the
 * buffer. */
size_t ph_native_count(const ph_native *p, const int64_t *size, int value, int from, int to);
/* The same over all dimensions. */
size_t ph_native_items(const ph_native *p, const int64_t *size, int value);

/* ---- lowering ---- */
typedef struct ph_builder {
    ph_native        *p;
    const ph_graph   *g;
    const ph_compile *how;
    int              *first_use, *use; /* nodes that read value v: use[first_use[v] .. first_use[v + 1]) */
    unsigned char    *is_pinned;       /* [n_values] an output or tapped: must be materialised */
    unsigned char    *is_done;         /* [n_nodes] belongs to a step already, or is left to its readers */
    ph_step          *step;
    size_t            n_steps, steps_max;
    ph_buffer        *buffer;
    size_t            buffers_max;
    int               has_dots; /* a product so far is by integers */
} ph_builder;

typedef struct ph_lowering {
    const char *name;
    /* Turn `node` into steps and set *took, or leave it to the next row. */
    ph_rc (*lower)(ph_builder *b, int node, int *took, ph_err *err);
    /* Could it, given such a node?  NULL: a helper that answers for no operator. */
    int (*can)(const ph_graph *g, int node);
} ph_lowering;

#define PH_LOWERING(name) extern const ph_lowering ph_lowering_##name;
#include "engine/native/lowering.def"
#undef PH_LOWERING

int         ph_build_is(const ph_builder *b, int node, const char *op);
int         ph_build_n_uses(const ph_builder *b, int value);
int         ph_build_use(const ph_builder *b, int value, int i); /* node */
int         ph_build_is_alone(const ph_builder *b, int value);   /* one reader, and nobody else sees it */
int         ph_build_is_ready(const ph_builder *b, int value); /* input, constant, or made by a step so far */
const char *ph_build_op_name(const ph_builder *b, int node);
/* May the engine do what this row of fusion.def says? */
static inline int ph_build_fuses(const ph_builder *b, int fusion) {
    return !(b->p->base.engine->env.unfused >> fusion & 1);
}
/* The buffer of a value, made at first use. */
ph_rc ph_build_buffer(ph_builder *b, int value, int *out, ph_err *err);
/* A buffer of `bytes` for no value: what the workers of a step tell each other. */
ph_rc ph_build_shared(ph_builder *b, size_t bytes, int *out, ph_err *err);
/* `value` is the same bytes as `of`. */
ph_rc ph_build_alias(ph_builder *b, int value, int of, ph_err *err);
/* A constant as floats: its own bytes if they are f32 in C order, else widened into the program's arena. */
int   ph_build_is_floats(const ph_graph *g, int value); /* a constant that can be had so */
ph_rc ph_build_floats(ph_builder *b, int value, const float **out, ph_err *err);
ph_rc ph_build_carve(ph_builder *b, void **out, size_t n, size_t item, ph_err *err); /* zeroed */
/* Append a step; the lists are copied. */
ph_rc ph_build_step(ph_builder *b, const ph_step_kind *kind, int node, void *data, const int *reads,
                    int n_reads, const int *writes, int n_writes, int over, ph_err *err);

/* Shared by lowerings. */
typedef void ph_map_fn(float *y, const float *x, size_t n);
/* The elementwise kernel of a node like Gelu; NULL: not one, or attributes that have no kernel. */
ph_map_fn *ph_map_of(const ph_graph *g, int node, const ph_kernels *k);
typedef enum ph_norm_kind { PH_NORM_NONE, PH_NORM_RMS, PH_NORM_LAYER } ph_norm_kind;
typedef struct ph_norm {
    ph_norm_kind kind;
    const float *g, *b; /* [n]; b may be NULL */
    float        eps, g_add;
    size_t       n;
} ph_norm;
/* Is it a norm over the last dimension with constant parameters?  Reads them into *out. */
int   ph_norm_can(const ph_graph *g, int node);
ph_rc ph_norm_of(ph_builder *b, int node, ph_norm *out, ph_err *err);
void  ph_norm_rows(const ph_kernels *k, const ph_norm *n, float *y, const float *x, size_t rows);
/* A rotation of heads that stand side by side in a row. */
typedef struct ph_spin {
    size_t heads, d, half;
    int    is_pairs;
} ph_spin;
int     ph_spin_can(const ph_graph *g, int node); /* a RotaryEmbedding of rows */
ph_spin ph_spin_of(const ph_graph *g, int node);
/* `all` rows or queries in as few units as `most` a unit allow: what one has at most, that they are alike, in
 * whole tiles of kernels where that is not more than `most`. */
size_t ph_native_share(size_t all, size_t most);
/* The unit that a claimed piece of `units` is, of blocks of rows of `each` units that follow one another.
 * Each worker has its own blocks, every n-th: so rows are made ready once, and the columns that it reads are
 * in the cache that all share for the others, who are about there too.  Whoever is done with its own helps
 * the next. */
size_t ph_native_dealt(ph_native *p, const ph_hand *hand, size_t units, size_t each);
/* The private memory of an attention unit: up to n queries of d, answers of dv (online softmax, kernels.h),
 * and `keys` floats that a kernel lays keys out in. */
enum { PH_QUERIES_MAX = 192, PH_QUERIES_ROUNDED = 384 };
typedef struct ph_query_block {
    float   *q, *acc, *m, *l, *scores, *keys;
    int32_t *lo, *hi;
} ph_query_block;
size_t ph_query_bytes(size_t n, size_t d, size_t dv, size_t keys);
/* For keys that all queries see: behind products by rows of 8 bits attend_rounded, where the set has one that
 * is fast, else attend_rows. */
typedef struct ph_query_kernel {
    ph_attend_fn *fn;
    size_t        most, keys; /* keys that a call takes; floats to lay them out in */
    size_t        queries;    /* of a unit, at most: each lays all keys out anew */
} ph_query_kernel;
ph_query_kernel ph_query_attend(const ph_builder *b, size_t d, size_t dv);
/* All queries of `t` meet n keys from its k and v on, which move. */
void ph_query_meet(const ph_query_kernel *k, ph_attend *t, const ph_query_block *b, size_t n);
/* Queries of a unit, where `all` of each of `heads` meet n keys each: as many as PH_ATTEND_MACS allow (twice
 * as many if rounded), in units alike, of which every worker finds some. */
size_t ph_query_share(const ph_native *p, const ph_query_kernel *k, size_t all, size_t n, size_t heads,
                      size_t d, size_t dv);
ph_query_block ph_query_in(void *memory, size_t n, size_t d, size_t dv);
void           ph_query_begin(const ph_query_block *b, size_t n, size_t dv); /* nothing seen yet */
/* out[0 .. dv) = the answer of query i; zeros when it saw no key. */
void ph_query_answer(const ph_query_block *b, size_t i, size_t dv, float *out);
/* Will the one CachedAttention that reads this RotaryEmbedding rotate by itself? */
int ph_cached_takes(const ph_builder *b, int node);
/* And normalise the heads before it, as this node says?  Then both sides of the norm are one buffer. */
int ph_cached_norms(const ph_builder *b, int node);
/* Can low_linear.c run this node with its first input as rows? */
int ph_linear_can(const ph_graph *g, int node);
/* An array of a run, not a constant or a state. */
static inline int ph_native_is_array(const ph_graph *g, int value) {
    return g->value[value].cls == PH_VALUE_INPUT || g->value[value].cls == PH_VALUE_TEMP;
}
int ph_linear_is_weight(const ph_graph *g, int value); /* a stored matrix that it can read */
/* Products of rows that stand in several arrays [B, T_i, k], end to end in each batch: one step reads each
 * weight once for all of them.  Slices of one element type. */
typedef struct ph_slice {
    int    w, bias, out; /* values; bias -1: none; out [B, sum of T_i, rows] */
    size_t first, rows;  /* of w and of the bias */
} ph_slice;
ph_rc ph_linear_gathered(ph_builder *b, int node, const int *x, int n_x, const ph_slice *slice, int n_slices,
                         ph_err *err);
/* Attention of rows q [I, N, heads d], k and v [I, S, kv_heads ..] into y; mask -1: every key is seen. */
typedef struct ph_attention_of {
    int    q, k, v, y, mask; /* values */
    size_t heads, kv_heads;
    float  scale, softcap;
} ph_attention_of;
ph_rc ph_attention_step(ph_builder *b, int node, const ph_attention_of *how, ph_err *err);

/* ---- the rest of the engine ---- */
ph_rc ph_native_compile(ph_engine *e, const ph_graph *g, const ph_compile *how, ph_program **out,
                        ph_err *err);
void  ph_native_close(ph_program *p);
ph_rc ph_native_need(const ph_program *p, const ph_syms *syms, ph_need *out, size_t *scratch, ph_err *err);
ph_rc ph_native_bind(ph_program *p, const ph_syms *syms, const ph_bind *b, ph_err *err);
/* Evaluate all polynomials into size[n_dims]. */
ph_rc ph_native_sizes(const ph_native *p, const ph_syms *syms, int64_t *size, ph_err *err);
/* Bytes of a value, and of a buffer, under these sizes.  Errors: PH_ELIMIT overflow. */
ph_rc  ph_native_bytes(const ph_native *p, const int64_t *size, int value, size_t *out, ph_err *err);
ph_rc  ph_native_buffer_bytes(const ph_native *p, const int64_t *size, const ph_buffer *f, size_t *out,
                              ph_err *err);
ph_rc  ph_native_run(ph_program *p, const ph_syms *syms, const ph_until *until, ph_run_state *state,
                     ph_err *err);
void   ph_native_reset(ph_program *p);
double ph_native_estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms);

#endif
