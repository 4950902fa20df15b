/* graph.h - the MultiModalGraph: everything that computes, in one form.
 *
 * Values are arrays (or states), nodes are operators with ONNX names and
 * semantics.  Families build graphs, passes and decisions rewrite them, the
 * plan measures them, engines run them.  A graph owns its small tables in one
 * arena; weight bytes stay in the mapped files.
 *
 *     value --in--> node(op, attributes) --out--> value
 *
 * Building is done with a sticky error: after the first failure every ph_graph_*
 * builder call does nothing and returns -1, and ph_graph_finish() reports it.
 * So a family reads as straight-line algebra.
 */
#ifndef PH_GRAPH_GRAPH_H
#define PH_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/err.h"
#include "tensor/storage.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_RANK_MAX = 8 };

/* Symbols that a dimension may hold. */
typedef enum ph_sym {
    PH_SYM_R, /* rows: all tokens of this step, of all sequences */
    PH_SYM_S, /* rows whose logits are wanted (usually one a sequence) */
    PH_SYM_V, /* rows of this step that take a visual token */
    PH_SYM_I, /* tiles of this chunk */
    PH_SYM_N, /* patches, for families with packed patches */
    PH_SYM_A, /* of imported graphs: axes that the file gives names of its own */
    PH_SYM_B,
    PH_SYM_C,
    PH_N_SYMS
} ph_sym;
extern const char ph_sym_letters[PH_N_SYMS + 1]; /* "RSVINABC" */

/* The numbers of one run, or the largest of a plan. */
typedef struct ph_syms {
    int64_t at[PH_N_SYMS];
} ph_syms;

/* mul * R^a S^b V^c I^d N^e .. / div + add, the division exact or rounded down.  A plain number has no powers
 * and div 1, add 0. */
typedef struct ph_dim {
    int64_t mul, div, add;
    uint8_t pow[PH_N_SYMS];
} ph_dim;

ph_dim ph_dim_of(int64_t n);
ph_dim ph_dim_sym(ph_sym s);
int    ph_dim_is_fixed(ph_dim d);
int    ph_dim_has_rest(ph_dim d); /* a floor such as N/2, of which two are N only by promise */
int    ph_dim_same(ph_dim a, ph_dim b);
/* 0 on overflow or a form that a ph_dim cannot hold. */
int ph_dim_mul(ph_dim a, ph_dim b, ph_dim *out); /* a division is taken as exact */
int ph_dim_div(ph_dim a, ph_dim b, ph_dim *out); /* exact division a / b as polynomials */
int ph_dim_add(ph_dim a, ph_dim b, ph_dim *out); /* one side fixed, or equal monomials without a rest */
/* Errors: PH_ELIMIT overflow or a negative size. */
ph_rc ph_dim_eval(ph_dim d, const ph_syms *syms, int64_t *out, ph_err *err);
void  ph_dim_print(ph_dim d, char *out, size_t size); /* "4R", "I", "N/4", "1+64I" */

typedef struct ph_shape {
    int    rank;
    ph_dim dim[PH_RANK_MAX]; /* outermost first */
} ph_shape;
ph_shape ph_shape_of(int rank, ...); /* rank ph_dim arguments */
int      ph_shape_same(const ph_shape *a, const ph_shape *b);
ph_rc    ph_shape_count(const ph_shape *s, const ph_syms *syms, int64_t *out, ph_err *err); /* elements */
void     ph_shape_print(const ph_shape *s, char *out, size_t size);                         /* "[R, 256]" */

typedef enum ph_modality { PH_MOD_NONE, PH_MOD_VISION, PH_MOD_TEXT, PH_MOD_AUDIO, PH_MOD_FUSED } ph_modality;
typedef enum ph_fusion {
    PH_FUSION_NONE,
    PH_FUSION_CONCAT,
    PH_FUSION_INJECT,
    PH_FUSION_CROSS_ATTENTION,
    PH_FUSION_GATED
} ph_fusion;

const char *ph_modality_name(ph_modality m); /* "vision"; so below */
const char *ph_fusion_policy_name(ph_fusion f);
/* 0: no such name. */
int ph_modality_find(const char *name, ph_modality *out);
int ph_fusion_policy_find(const char *name, ph_fusion *out);

typedef enum ph_value_class {
    PH_VALUE_INPUT,    /* filled by the caller before a run */
    PH_VALUE_CONSTANT, /* a stored weight, or a small folded array */
    PH_VALUE_TEMP,     /* made by a node */
    PH_VALUE_STATE     /* lives across runs: the KV cache */
} ph_value_class;

typedef struct ph_value {
    const char    *name; /* unique in the graph */
    ph_value_class cls;
    ph_dtype       dtype; /* element type seen by operators; a block-stored weight says PH_F32 */
    ph_shape       shape;
    ph_storage     storage;   /* constants only */
    int            producer;  /* node, or -1 */
    int            is_output; /* the caller reads it after a run */
    ph_modality    modality;
    const char    *relation;  /* "text->image": edges of attention; or NULL */
    ph_dtype       min_dtype; /* mixed precision may not go below; PH_F32 unless a pass says otherwise */
    int            is_device; /* space: 0 host, 1 device */
} ph_value;

typedef enum ph_attr_type {
    PH_ATTR_INT,
    PH_ATTR_FLOAT,
    PH_ATTR_TEXT,
    PH_ATTR_INTS,
    PH_ATTR_FLOATS,
    PH_ATTR_TEXTS, /* this and the next: of operators of plug-ins only */
    PH_ATTR_TENSOR
} ph_attr_type;
typedef struct ph_attr_tensor {
    ph_dtype    dtype; /* a plain one */
    int         rank;
    int64_t     dim[PH_RANK_MAX];
    const void *bytes; /* [n_bytes], C order */
    size_t      n_bytes;
} ph_attr_tensor;
typedef struct ph_attr {
    const char           *name;
    ph_attr_type          type;
    int64_t               i;
    double                f;
    const char           *text;
    const int64_t        *ints;
    const double         *floats;
    const char *const    *texts;
    const ph_attr_tensor *tensor;
    size_t                n; /* of ints, floats or texts */
} ph_attr;

struct ph_op;
typedef struct ph_node {
    const char         *name;
    const struct ph_op *op;
    int                *in; /* [n_in] value ids; -1: an optional input left out */
    int                 n_in;
    int                *out; /* [n_out] value ids; -1: an optional output left out */
    int                 n_out;
    ph_attr            *attr; /* [n_attr] */
    int                 n_attr;
    ph_modality         modality;
    ph_fusion           fusion_policy;
    float               quantization_scale; /* 0: none */
} ph_node;

typedef struct ph_graph {
    const char *name; /* "vision", "bridge", "language" */
    ph_arena    arena;
    ph_value   *value;
    size_t      n_values, values_max;
    ph_node    *node; /* in an order in which they can run */
    size_t      n_nodes, nodes_max;
    ph_rc       rc; /* sticky: the first failure of a builder call */
    ph_err      err;
    ph_modality modality;          /* given to nodes and values that builders add from now on */
    const char *symbol[PH_N_SYMS]; /* what a file calls the sizes, for messages; NULL: by their letters */
    size_t folded; /* bytes of constants that were computed: PH_FOLDED_MAX at most, then nodes stay nodes */
} ph_graph;

/* A small file may name any number of small results; together they are bounded too. */
enum { PH_FOLDED_MAX = 64 << 20 };

ph_rc ph_graph_open(ph_graph **g, const char *name, ph_err *err);
void  ph_graph_close(ph_graph *g); /* accepts NULL */

/* ---- building: all return a value id, or -1 after a failure (sticky) ---- */

int ph_graph_input(ph_graph *g, const char *name, ph_dtype dtype, ph_shape shape);
int ph_graph_state(ph_graph *g, const char *name);
/* A stored weight: shape is what operators see, [.., n_last]; storage is borrowed bytes of the map. */
int ph_graph_weight(ph_graph *g, const char *name, ph_shape shape, ph_storage storage);
/* A small constant, copied into the graph's arena: n elements of dtype F32, I64 or I32. */
int ph_graph_constant(ph_graph *g, const char *name, ph_dtype dtype, ph_shape shape, const void *data);

/* Add a node with n_in inputs (-1: left out) and the attributes; infers the shape; returns its first output.
 * Output values are named "<name>" (and "<name>.1" ...); name is a printf format for the builders'
 * convenience. */
int ph_graph_node(ph_graph *g, const char *op, const int *in, int n_in, const ph_attr *attr, int n_attr,
                  const char *name, ...) __attribute__((format(printf, 7, 8)));
/* The same of an operator that no name finds (user.h) and that must outlive the graph, with n_out outputs. */
int  ph_graph_node_of(ph_graph *g, const struct ph_op *op, int n_out, const int *in, int n_in,
                      const ph_attr *attr, int n_attr, const char *name);
int  ph_graph_output_of(const ph_graph *g, int value, int k); /* output k of the node that made `value` */
void ph_graph_fail(ph_graph *g, ph_rc rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define PH_INT(n, v)            ((ph_attr){.name = (n), .type = PH_ATTR_INT, .i = (v)})
#define PH_FLOAT(n, v)          ((ph_attr){.name = (n), .type = PH_ATTR_FLOAT, .f = (v)})
#define PH_TEXT(n, v)           ((ph_attr){.name = (n), .type = PH_ATTR_TEXT, .text = (v)})
#define PH_INTS(nm, v, count)   ((ph_attr){.name = (nm), .type = PH_ATTR_INTS, .ints = (v), .n = (count)})
#define PH_FLOATS(nm, v, count) ((ph_attr){.name = (nm), .type = PH_ATTR_FLOATS, .floats = (v), .n = (count)})
/* ph_graph_op(g, "Add", PH_IN(a, b), PH_ATTRS(PH_INT("axis", 1)), "layer.%d.sum", i) */
#define PH_IN(...) (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define PH_ATTRS(...)                                                                                        \
    (const ph_attr[]){__VA_ARGS__}, (int)(sizeof((ph_attr[]){__VA_ARGS__}) / sizeof(ph_attr))
#define PH_NO_ATTRS NULL, 0

void ph_graph_output(ph_graph *g, int value, const char *name); /* mark and rename */

/* Sticky error out; then check: names unique, inputs exist and precede, every shape and type agrees with the
 * operator's own inference.  Errors name the node, the tensor and both shapes. */
ph_rc ph_graph_finish(ph_graph *g, ph_err *err);
ph_rc ph_graph_check(const ph_graph *g, ph_err *err);
/* Infer one node's outputs into out[n_out] (dtype and shape), with the node's name in the error. */
ph_rc ph_node_infer(const ph_graph *g, const ph_node *n, ph_value *out, ph_err *err);

/* ---- reading ---- */
int            ph_graph_find(const ph_graph *g, const char *value_name); /* value id, or -1 */
const ph_attr *ph_node_attr(const ph_node *n, const char *name);         /* or NULL */
int64_t        ph_node_int(const ph_node *n, const char *name, int64_t otherwise);
double         ph_node_float(const ph_node *n, const char *name, double otherwise);
const char    *ph_node_text(const ph_node *n, const char *name, const char *otherwise);
/* The list of an INTS attribute and its length; NULL and 0 when it is missing. */
const int64_t *ph_node_ints(const ph_node *n, const char *name, size_t *count);
const double  *ph_node_floats(const ph_node *n, const char *name, size_t *count);

/* What these graphs compute, as 32 hexadecimal digits: operators, attributes, shapes, storage of the weights;
 * not their numbers, and no names.  g[i] may be NULL.  Errors: PH_ENOMEM. */
enum { PH_FINGERPRINT = 33 };
ph_rc ph_graph_fingerprint(const ph_graph *const *g, size_t n, char out[PH_FINGERPRINT], ph_err *err);

/* As ph_dim_print and ph_shape_print, by the names that symbols have in this graph's file: "2*past", "[batch,
 * 'past + 1']".  For messages. */
void ph_graph_dim_print(const ph_graph *g, ph_dim d, char *out, size_t size);
void ph_graph_shape_print(const ph_graph *g, const ph_shape *s, char *out, size_t size);

/* The graph as Graphviz DOT through a callback; clusters by modality, weights folded into their node. */
typedef void ph_write_fn(void *arg, const char *text, size_t n);
void         ph_graph_dot(const ph_graph *g, ph_write_fn *write, void *arg);

#endif
