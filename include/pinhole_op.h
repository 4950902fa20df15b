/* pinhole_op.h - operators of your own, in a shared library that pinhole loads with --plugin.
 *
 *     your .c + this header ─► cc -shared -fPIC ─► acme.so ─► pinhole verify cases/ --plugin ./acme.so
 *
 * An exported ONNX model may hold operators of a domain of its own, com.acme::Gate say.  A plug-in says of
 * each which types and shapes it gives (infer) and computes it (eval); the native engine then runs the model
 * with it.  The plug-in is built with this header and nothing else, and exports one function:
 *
 *     static int infer(const pinhole_op_node *n, const pinhole_op_value *in, int n_in,
 *                      pinhole_op_value *out, int n_out) {
 *         if (in[0].type != PINHOLE_F32) return n->api->fail(n, PINHOLE_OP_EMISMATCH, "x is no f32");
 *         out[0] = in[0];
 *         return 0;
 *     }
 *     static int eval(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
 *                     int n_out, void *scratch, size_t bytes) { ... fill out[0].data ... return 0; }
 *     static const pinhole_op ops[] = {{"com.acme", "Gate", 1, PINHOLE_OP_PURE, 1, 1, 1, 1, "alpha", infer,
 *                                       eval, NULL, NULL}};
 *     static const pinhole_op_table table = {PINHOLE_OP_ABI, sizeof(pinhole_op), sizeof(pinhole_op_table),
 *                                            "acme", "1.0", ops, 1};
 *     PINHOLE_OP_EXPORT const pinhole_op_table *pinhole_operators(const pinhole_op_api *api) {
 *         (void)api;
 *         return &table;
 *     }
 *
 * Trust.  A plug-in is your code: it runs in the process, with the process's rights, and a fault in it is a
 * fault of the process.  None is ever loaded because a model, a folder or the environment names it.
 *
 * Memory.  Arrays are dense, in C order, aligned to the size of their element, and borrowed for the call:
 * inputs may only be read, outputs are written whole and never overlap an input or each other.  eval should
 * allocate nothing: what it needs beside them is what `scratch` asked for, which the plan counts.  No
 * function here takes or gives ownership of anything.
 *
 * Numbers.  Graphs compute in f32: an f16, bf16 or f64 of the model reaches an operator as f32, and outputs
 * of floats are f32.  Whole numbers and booleans are what they are.
 *
 * Threads.  Calls of one plug-in come one at a time, from any thread, unless PINHOLE_OP_THREADS says that
 * they may come at the same time.  That holds over the whole process: a file that is opened several times is
 * loaded once, and all that opened it wait for one another.  No C++ exception and no longjmp may leave a
 * function of the plug-in.
 */
#ifndef PINHOLE_OP_H
#define PINHOLE_OP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PINHOLE_OP_EXPORT             __attribute__((visibility("default")))
#define PINHOLE_OP_PRINTF(text, from) __attribute__((format(printf, text, from)))
#else
#define PINHOLE_OP_EXPORT
#define PINHOLE_OP_PRINTF(text, from)
#endif

/* What both sides must agree on.  A change that an older plug-in would not survive raises it. */
#define PINHOLE_OP_ABI 1

enum {
    PINHOLE_RANK_MAX = 8,   /* dimensions of an array */
    PINHOLE_OP_IO_MAX = 64, /* inputs, and outputs, of a node */
    PINHOLE_OPS_MAX = 1024  /* operators of a plug-in */
};

/* Element types, under ONNX's numbers (TensorProto.DataType). */
typedef enum pinhole_type {
    PINHOLE_NONE = 0, /* an optional input that is left out */
    PINHOLE_F32 = 1,
    PINHOLE_U8 = 2,
    PINHOLE_I8 = 3,
    PINHOLE_U16 = 4,
    PINHOLE_I16 = 5,
    PINHOLE_I32 = 6,
    PINHOLE_I64 = 7,
    PINHOLE_BOOL = 9, /* a byte, 0 or 1 */
    PINHOLE_F16 = 10, /* of attributes only; so F64 and BF16 */
    PINHOLE_F64 = 11,
    PINHOLE_U32 = 12,
    PINHOLE_U64 = 13,
    PINHOLE_BF16 = 16
} pinhole_type;

/* A dimension: a number, or an expression of axes that only a run gives numbers ("batch", "4*batch+1").  Its
 * fields are pinhole's own: make and compare dimensions with pinhole_op_api.  Copying it is allowed. */
typedef struct pinhole_dim {
    uint64_t own[6];
} pinhole_dim;

/* What is known of an input or output before a run.  type PINHOLE_NONE: left out. */
typedef struct pinhole_op_value {
    int32_t     type; /* a pinhole_type */
    int32_t     rank; /* 0 to PINHOLE_RANK_MAX */
    pinhole_dim dim[PINHOLE_RANK_MAX];
} pinhole_op_value;

/* An array of a run: dim[0] x .. x dim[rank - 1] elements in C order, at data.  An input that is left out has
 * type PINHOLE_NONE and data NULL; where a dimension is 0, data may be NULL. */
typedef struct pinhole_array {
    void   *data;
    int32_t type, rank;
    int64_t dim[PINHOLE_RANK_MAX];
} pinhole_array;

/* Codes for fail(); what they are called in pinhole.h. */
enum {
    PINHOLE_OP_EFORMAT = -3,   /* numbers that may not come */
    PINHOLE_OP_ELIMIT = -4,    /* more than the operator takes */
    PINHOLE_OP_EUNSUP = -6,    /* an attribute's value, a type, that is not done */
    PINHOLE_OP_EMISMATCH = -9, /* types or shapes that do not go together */
    PINHOLE_OP_ENOMEM = -1
};

typedef struct pinhole_op_api pinhole_op_api;

/* The node that a call is about; it lives for the call. */
typedef struct pinhole_op_node {
    const pinhole_op_api *api;
} pinhole_op_node;

/* What pinhole does for a plug-in.  It lives as long as the process.  Functions that take a node may only be
 * called with the one that the running call was given. */
struct pinhole_op_api {
    size_t      size;    /* of this struct: a later pinhole has more behind what stands here */
    const char *pinhole; /* the version that runs: "0.1.0" */

    /* ---- the node ---- */
    /* Say why the call fails, as printf does; the message is given the operator's, the plug-in's and the
     * node's name.  The first one counts.  Returns code, for `return n->api->fail(...)`. */
    int (*fail)(const pinhole_op_node *n, int code, const char *fmt, ...) PINHOLE_OP_PRINTF(3, 4);
    const char *(*name)(const pinhole_op_node *n); /* of the node, in the graph */

    /* Attributes.  1: it is there, and *out is set; 0: it is not, and *out is as it was; negative: it is of
     * another type, which the call then fails with.  Lists, texts and arrays live as long as the graph. */
    int (*attr_int)(const pinhole_op_node *n, const char *name, int64_t *out);
    int (*attr_float)(const pinhole_op_node *n, const char *name, double *out);
    int (*attr_text)(const pinhole_op_node *n, const char *name, const char **out); /* terminated */
    int (*attr_ints)(const pinhole_op_node *n, const char *name, const int64_t **out, size_t *count);
    int (*attr_floats)(const pinhole_op_node *n, const char *name, const double **out, size_t *count);
    int (*attr_texts)(const pinhole_op_node *n, const char *name, const char *const **out, size_t *count);
    int (*attr_tensor)(const pinhole_op_node *n, const char *name, pinhole_array *out); /* read only */

    /* The whole numbers of input i where it is a constant of type I32 or I64 and rank 0 or 1: a list of axes,
     * a shape.  How many there are, of which at most max are written to out; -1: it is no such constant. */
    int (*input_ints)(const pinhole_op_node *n, int i, int64_t *out, int max);

    /* ---- dimensions ---- */
    pinhole_dim (*dim)(int64_t n);                  /* a number */
    int (*dim_number)(pinhole_dim d, int64_t *out); /* 1: it is a number; 0: it is not */
    int (*dim_same)(pinhole_dim a, pinhole_dim b);  /* 1: in every run */
    int (*dim_add)(pinhole_dim a, pinhole_dim b,
                   pinhole_dim *out); /* 0: the sum has no such form; so below */
    int (*dim_mul)(pinhole_dim a, pinhole_dim b, pinhole_dim *out);
    int (*dim_div)(pinhole_dim a, pinhole_dim b, pinhole_dim *out); /* exact */
    void (*dim_print)(pinhole_dim d, char *out, size_t size);       /* "4A+1", terminated */
};

enum {
    /* The same inputs give the same outputs, and nothing else happens: of two equal nodes one may be run, and
     * one that nobody reads need not be. */
    PINHOLE_OP_PURE = 1,
    /* And it may be computed once, before any run, where its inputs are constants. */
    PINHOLE_OP_FOLD = 2,
    /* infer, eval, scratch and cost may be called in several threads at the same time. */
    PINHOLE_OP_THREADS = 4
};

/* An operator.  All functions but infer and eval may be NULL. */
typedef struct pinhole_op {
    const char
        *domain;       /* "com.acme": not "", ai.onnx and below, com.microsoft and below, pinhole and below */
    const char *name;  /* op_type in the model: "Gate" */
    int32_t     since; /* the version of the domain that it is there since, at least 1; a model takes the
                        * newest that is no newer than the version that it imports */
    uint32_t flags;    /* PINHOLE_OP_* */
    int32_t  in_min, in_max;      /* in_max -1: any number; at most PINHOLE_OP_IO_MAX.  Inputs from in_min on
                                   * may be left out */
    int32_t     out_min, out_max; /* out_min at least 1 */
    const char *attrs; /* names of its attributes, apart by blanks: others are refused.  NULL: any */

    /* Types and shapes of the outputs, out[n_out], from those of the inputs, in[n_in].  Dimensions may be
     * expressions: build with copies of the inputs' and the functions above, and fail where there is no such
     * form (the model then runs with shapes given beforehand).  Called more than once, with the same answer.
     * 0, or a code (after fail, which says why). */
    int (*infer)(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                 int n_out);
    /* Compute out[n_out], whose data, types and dimensions stand.  Outputs hold anything before.  scratch:
     * bytes as `scratch` asked for, 64-byte aligned.  0, or a code. */
    int (*eval)(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                int n_out, void *scratch, size_t bytes);
    /* Bytes of scratch that eval wants for arrays of these dimensions; their data are NULL.  Never less for
     * larger dimensions. */
    size_t (*scratch)(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                      int n_out);
    /* Multiply-adds of such a call, for estimates of time.  NULL: what it moves counts alone. */
    double (*cost)(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                   int n_out);
} pinhole_op;

/* What a plug-in brings; it and all that it points to stay as they are until the plug-in is unloaded. */
typedef struct pinhole_op_table {
    uint32_t          abi;            /* PINHOLE_OP_ABI */
    uint32_t          op_size;        /* sizeof(pinhole_op): the step from one of ops to the next */
    size_t            size;           /* sizeof(pinhole_op_table) */
    const char       *name, *version; /* of the plug-in, for people: "acme", "1.0" */
    const pinhole_op *ops;            /* [n_ops] */
    size_t            n_ops;
} pinhole_op_table;

/* What the plug-in defines: its table, or NULL when it cannot run with this pinhole.  Called once each time
 * that the plug-in is loaded. */
PINHOLE_OP_EXPORT const pinhole_op_table *pinhole_operators(const pinhole_op_api *api);

#ifdef __cplusplus
}
#endif

#endif
