/* onnx.h - an ONNX file (onnx.proto's ModelProto) as tables over its map.
 *
 *     ir_version, opset_import[], functions[], graph: nodes, initializers, inputs, outputs
 *
 * Weights stay where they are: raw_data and packed float_data in the map of the file, external data in
 * the maps of its files.  Names and lists are copied into the model's arena; so are tensors whose
 * numbers are stored as varints.  Everything is checked at opening: every length against the bytes left,
 * every tensor's bytes against its shape.  Graphs inside attributes (If, Loop, Scan) are noted, not read.
 *
 * Source: github.com/onnx/onnx onnx/onnx.proto, docs/IR.md, docs/ExternalData.md.
 */
#ifndef PH_FORMATS_ONNX_H
#define PH_FORMATS_ONNX_H

#include "base/arena.h"
#include "base/file.h"
#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_ONNX_RANK_MAX = 8 };

/* TensorProto.DataType: the numbers that are used by name. */
enum {
    PH_ONNX_FLOAT = 1,
    PH_ONNX_UINT8 = 2,
    PH_ONNX_INT8 = 3,
    PH_ONNX_INT32 = 6,
    PH_ONNX_INT64 = 7,
    PH_ONNX_STRING = 8,
    PH_ONNX_BOOL = 9,
    PH_ONNX_UINT4 = 21,
    PH_ONNX_INT4 = 22
};

typedef struct ph_onnx_tensor {
    const char *name; /* "" inside attributes, mostly */
    int         type; /* TensorProto.DataType */
    ph_dtype dtype; /* PH_N_DTYPES: none of ours (texts, complex numbers; 8-bit floats are not taken); 4 bits:
                       U8, I8 */
    int            is_nibbles; /* two elements a byte, the lower half first */
    int            rank;
    int64_t        dim[PH_ONNX_RANK_MAX], count; /* outermost first; elements */
    const uint8_t *bytes; /* unaligned; lives as long as the ph_onnx.  NULL: no numbers */
    size_t         n_bytes;
    size_t         at; /* byte of the file where the tensor's message begins */
} ph_onnx_tensor;

/* AttributeProto.AttributeType. */
typedef enum ph_onnx_attr_type {
    PH_ONNX_A_NONE,
    PH_ONNX_A_FLOAT,
    PH_ONNX_A_INT,
    PH_ONNX_A_TEXT,
    PH_ONNX_A_TENSOR,
    PH_ONNX_A_GRAPH,
    PH_ONNX_A_FLOATS,
    PH_ONNX_A_INTS,
    PH_ONNX_A_TEXTS,
    PH_ONNX_A_OTHER /* lists of tensors or graphs, sparse tensors, types */
} ph_onnx_attr_type;

typedef struct ph_onnx_attr {
    const char           *name;
    const char           *ref; /* in functions: the caller's attribute that gives the value; or "" */
    ph_onnx_attr_type     type;
    int64_t               i;
    double                f;
    const char           *text;
    const int64_t        *ints;
    const double         *floats;
    const char *const    *texts;
    size_t                n; /* of ints, floats or texts */
    const ph_onnx_tensor *tensor;
    size_t                at;
} ph_onnx_attr;

typedef struct ph_onnx_prop { /* an entry of metadata_props */
    const char *key, *value;
} ph_onnx_prop;

typedef struct ph_onnx_node {
    const char         *name, *op, *domain, *overload; /* may be "" but op */
    const char *const  *in;                            /* [n_in]; "": left out */
    const char *const  *out;                           /* [n_out] */
    size_t              n_in, n_out, n_attrs;
    const ph_onnx_attr *attr;
    const ph_onnx_prop *prop; /* [n_props] */
    size_t              n_props;
    size_t              at; /* byte of the file */
} ph_onnx_node;

typedef struct ph_onnx_dim {
    int64_t     size;  /* -1: not a number */
    const char *param; /* its name; "" : it has none */
} ph_onnx_dim;

typedef struct ph_onnx_value {
    const char *name;
    int         type; /* TensorProto.DataType; 0: no tensor (a sequence, a map), or unknown */
    int         has_shape, rank;
    ph_onnx_dim dim[PH_ONNX_RANK_MAX];
    size_t      at;
} ph_onnx_value;

typedef struct ph_onnx_opset {
    const char *domain; /* "": ai.onnx, under either of its names */
    int64_t     version;
} ph_onnx_opset;

typedef struct ph_onnx_function {
    const char        *name, *domain, *overload;
    const char *const *in, *const *out, *const *param; /* names; param: attributes without a default */
    size_t               n_in, n_out, n_params, n_defaults, n_nodes, n_opsets;
    const ph_onnx_attr  *defaults; /* attributes with one */
    const ph_onnx_node  *node;
    const ph_onnx_opset *opset;
    size_t               at;
} ph_onnx_function;

typedef struct ph_onnx {
    int64_t                 ir_version;
    const char             *producer, *producer_version, *graph_name;
    const ph_onnx_opset    *opset;
    const ph_onnx_function *function; /* by domain, name, overload; none twice */
    const ph_onnx_node     *node;
    const ph_onnx_tensor   *initializer;
    const char *const      *initializer_name; /* [n_initializers] sorted */
    const ph_onnx_value    *input, *output;   /* graph inputs may be initializers too (IR below 4) */
    const ph_onnx_prop     *prop;
    size_t                  n_opsets, n_functions, n_nodes, n_initializers, n_inputs, n_outputs, n_props;
    /* Owned. */
    char     name[96]; /* of the file, for messages */
    ph_arena arena;
    ph_file  file;
    ph_file *external;      /* [n_external] maps of external data */
    char   **external_name; /* [n_external] their names in the model's folder; the list is owned */
    size_t   n_external;
} ph_onnx;

/* Open the file at path.  On failure *m is zeroed.
 * Errors: PH_EPATH no such file, or one of its external data; PH_EFORMAT malformed, a path that leads out of
 * the model's folder; PH_EMISMATCH a tensor's bytes against its shape; PH_ELIMIT counts, ranks; PH_ENOMEM. */
ph_rc ph_onnx_open(ph_onnx *m, const char *path, ph_err *err);
/* The same of bytes that outlive *m.  External data is refused: there is no folder. */
ph_rc ph_onnx_view(ph_onnx *m, const uint8_t *bytes, size_t n, const char *name, ph_err *err);
void  ph_onnx_close(ph_onnx *m); /* accepts a zeroed one */

/* The model's own function that a node calls; NULL: none. */
const ph_onnx_function *ph_onnx_function_of(const ph_onnx *m, const ph_onnx_node *n);

int ph_onnx_is_initializer(const ph_onnx *m, const char *name);

/* How people find a node: its name, else its first output, else its operator. */
const char *ph_onnx_node_label(const ph_onnx_node *n);

/* A type's name in ONNX: "float16"; "?" for numbers that are none. */
const char *ph_onnx_type_name(int type);
/* The element type that our graphs have for it; PH_N_DTYPES: none. */
ph_dtype ph_onnx_dtype(int type);

#endif
