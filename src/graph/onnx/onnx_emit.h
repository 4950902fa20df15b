/* onnx_emit.h - what operators write themselves with: names, constants and nodes of the ONNX model.
 *
 * Names stand for values.  As in building a graph the first failure sticks, later calls do nothing, and the
 * export reports it; so an operator reads as straight-line algebra.  Only graph/onnx/ and graph/op/ include
 * this.
 */
#ifndef PH_GRAPH_ONNX_ONNX_EMIT_H
#define PH_GRAPH_ONNX_ONNX_EMIT_H

#include "graph/onnx/onnx_out.h"

typedef struct ph_oo {
    const ph_graph           *g;
    const ph_onnx_export_how *how;
    ph_onnx_exported         *x;
    int64_t                   opset;
    const ph_node            *node;    /* being written */
    int                       n_temps; /* of it */
    const char **name, **turned;       /* [n_values] of g: as an array, and transposed; NULL: not yet */
    void        *taken, *once;         /* names in use; what is made once, by key (trees) */
    const char  *batch;                /* [B, T] of an expanded graph as a list; NULL: rows stay rows */
    const char  *rows;                 /* its input [B, T, PH_ROW_FIELDS] as i64 */
    ph_rc        rc;
    ph_err       err;
} ph_oo;

#define PH_OO_INT(n, v)   ((ph_onnx_attr){.name = (n), .type = PH_ONNX_A_INT, .i = (v)})
#define PH_OO_FLOAT(n, v) ((ph_onnx_attr){.name = (n), .type = PH_ONNX_A_FLOAT, .f = (v)})
#define PH_OO_TEXT(nm, v) ((ph_onnx_attr){.name = (nm), .type = PH_ONNX_A_TEXT, .text = (v)})
#define PH_OO_INTS(nm, v, count)                                                                             \
    ((ph_onnx_attr){.name = (nm), .type = PH_ONNX_A_INTS, .ints = (v), .n = (count)})
/* ph_oo_make(o, "Concat", PH_OO_IN(a, b), PH_OO_ATTRS(PH_OO_INT("axis", 1))) */
#define PH_OO_IN(...)                                                                                        \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
#define PH_OO_ATTRS(...)                                                                                     \
    (const ph_onnx_attr[]){__VA_ARGS__}, sizeof((ph_onnx_attr[]){__VA_ARGS__}) / sizeof(ph_onnx_attr)
#define PH_OO_NO_ATTRS NULL, 0

enum { PH_OO_FLOAT32 = 1, PH_OO_INT64 = 7, PH_OO_BOOL = 9 }; /* types that Cast is asked for */

/* ---- the node being written ---- */
const char     *ph_oo_in(ph_oo *o, const ph_node *n, int i);          /* "": left out */
const char     *ph_oo_out(ph_oo *o, const ph_node *n, int k);         /* "": left out */
const ph_shape *ph_oo_shape(const ph_oo *o, const ph_node *n, int i); /* an empty one: left out */
int             ph_oo_has(const ph_node *n, int i);
/* W[N, K] of input i as [K, N]; one transposition, however often it is asked for. */
const char *ph_oo_turned(ph_oo *o, const ph_node *n, int i);

/* ---- nodes ---- */
/* A helper value: the first output of a node. */
const char *ph_oo_make(ph_oo *o, const char *op, const char *const *in, size_t n_in, const ph_onnx_attr *attr,
                       size_t n_attr);
/* A node that gives all outputs of n. */
void ph_oo_emit(ph_oo *o, const ph_node *n, const char *domain, const char *op, const char *const *in,
                size_t n_in, const ph_onnx_attr *attr, size_t n_attr);
/* n as it is: its own name, inputs and attributes, which the opset must have. */
void ph_oo_plain(ph_oo *o, const ph_node *n);
/* The same with these inputs, and without the attributes of the list ("to real", apart by spaces). */
void ph_oo_plain_with(ph_oo *o, const ph_node *n, const char *const *in, size_t n_in, const char *without);
/* n under its own domain, with its inputs and attributes: what only we read back (onnx_pinhole.c), or who has
 * the plug-in that it is of. */
void ph_oo_as_it_is(ph_oo *o, const ph_node *n, const char *domain, const char *op);
/* `name` is output k of n. */
void ph_oo_is(ph_oo *o, const ph_node *n, int k, const char *name);

/* ---- constants: equal ones are one ---- */
const char *ph_oo_ints(ph_oo *o, const int64_t *list, size_t n); /* [n] i64 */
const char *ph_oo_int(ph_oo *o, int64_t x);                      /* rank 0, i64 */
const char *ph_oo_number(ph_oo *o, double x);                    /* rank 0, f32 */
const char *ph_oo_floats(ph_oo *o, const float *list, size_t n); /* [n] f32 */

/* ---- helpers ---- */
const char *ph_oo_reshape(ph_oo *o, const char *x, const int64_t *to, size_t n); /* 0 copies, -1 infers */
const char *ph_oo_transpose(ph_oo *o, const char *x, const int64_t *perm, size_t n);
const char *ph_oo_unsqueeze(ph_oo *o, const char *x, int64_t axis);
const char *ph_oo_slice(ph_oo *o, const char *x, int64_t axis, int64_t from, int64_t to, int64_t step);
const char *ph_oo_cast(ph_oo *o, const char *x, int to);
const char *ph_oo_size(ph_oo *o, const char *x, int64_t axis); /* [1] i64 */
const char *ph_oo_two(ph_oo *o, const char *op, const char *a, const char *b);
const char *ph_oo_one(ph_oo *o, const char *op, const char *a);

/* What was kept under this key, or NULL.  Keys are printf formats. */
const char *ph_oo_kept(ph_oo *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *ph_oo_keep(ph_oo *o, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

void ph_oo_fail(ph_oo *o, ph_rc rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* This node has no form in this opset: `why` says what is missing. */
void ph_oo_none(ph_oo *o, const ph_node *n, const char *why);

/* ---- attention (onnx_attend.c) ---- */
typedef struct ph_oo_attend {
    const char *q, *kt, *v; /* [B, Hq, T, d], [B, Hkv, d, S], [B, Hkv, S, dv] */
    int64_t     heads, kv_heads, d, dv;
    double      scale, softcap;
    const char *seen; /* bool, broadcast to [B, Hq, T, S]; NULL: all.  A query that sees nothing is zero */
    const char *bias; /* f32, likewise; NULL: none */
} ph_oo_attend;
const char *ph_oo_attention(ph_oo *o, const ph_oo_attend *a); /* [B, Hq, T, dv] */
/* The same as the node's output, all heads of a token side by side: of shape flat[rank], in Reshape's words.
 */
void ph_oo_attend_node(ph_oo *o, const ph_node *n, const ph_oo_attend *a, const int64_t *flat, int rank);
/* A row of places [0, size): i64 [S]; size: [1]. */
const char *ph_oo_places(ph_oo *o, const char *size);

/* ---- values (onnx_store.c, onnx_out.c) ---- */
const char *ph_oo_weight(ph_oo *o, const ph_value *v);
/* Planes of a weight in n-bit blocks as MatMulNBits takes them: data, scales, zero points ("": none); 0: it
 * is not stored so. */
int   ph_oo_nbits(ph_oo *o, const ph_value *w, const char *plane[3]);
void  ph_oo_put_input(ph_oo *o, const char *name, int type, const ph_onnx_dim *dim, int rank);
void  ph_oo_put_output(ph_oo *o, const char *name, int type, const ph_onnx_dim *dim, int rank);
ph_rc ph_oo_make_rows(const void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err);
char *ph_oo_text(ph_oo *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A name like this one that nothing has yet. */
const char *ph_oo_fresh(ph_oo *o, const char *like);
int         ph_oo_type(ph_dtype t); /* TensorProto.DataType; 0: none */

#endif
