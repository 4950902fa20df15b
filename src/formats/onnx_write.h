/* onnx_write.h - ONNX files, written in one pass: nodes are collected in memory, weights stream.
 *
 *     ph_onnx_writer w = {.ir_version = 8, .opset = 17, .graph_name = "vision"};
 *     ph_onnx_put_value(&w, 0, &input);  ph_onnx_put_node(&w, &node, NULL, 0);  ph_onnx_put_weight(&w, &weight);
 *     ph_onnx_write("vision.onnx", &w, &producer, PH_ONNX_EXTERNAL_AUTO, &size, err);
 *     ph_onnx_writer_close(&w);
 *
 * The structs are those of the reader (onnx.h).  A weight larger than `external` bytes goes into a file
 * beside the model, "NAME.onnx.data", on a page of its own; or, for a model in memory, into a list of
 * pointers that ONNX Runtime takes as external initializers.
 *
 * Source: github.com/onnx/onnx onnx/onnx.proto, docs/ExternalData.md.
 */
#ifndef PH_FORMATS_ONNX_WRITE_H
#define PH_FORMATS_ONNX_WRITE_H

#include "formats/onnx.h"
#include "formats/protobuf_write.h"

typedef struct ph_onnx_stored { /* an initializer to be written */
    const char *name;           /* lives as long as the writer; so do bytes */
    int         type;           /* TensorProto.DataType */
    int         rank;
    int64_t     dim[PH_ONNX_RANK_MAX];
    size_t      n_bytes, row; /* row: bytes of one row, of which `make` gives whole numbers */
    const void *bytes;        /* [n_bytes] as they are written; NULL: made on the way */
    int         is_inside;    /* never beside the model: axes and shapes, which readers look at first */
} ph_onnx_stored;

/* Rows [first, first + n) of weight i into out, packed. */
typedef ph_rc ph_onnx_make_rows(const void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err);
typedef struct ph_onnx_producer {
    ph_onnx_make_rows *make; /* NULL: all weights have bytes */
    const void        *arg;
} ph_onnx_producer;

typedef struct ph_onnx_writer {
    int64_t         ir_version, opset; /* of ai.onnx */
    const char     *graph_name;
    ph_pbw          nodes, values, props; /* fields of GraphProto, of GraphProto, of ModelProto; owned */
    ph_onnx_stored *weight;               /* [n_weights]; owned */
    size_t          n_weights, weights_max, n_nodes;
    ph_onnx_opset  *others; /* [n_others] of other domains; owned, their names are not */
    size_t          n_others;
    int             is_broken; /* out of memory */
} ph_onnx_writer;

void ph_onnx_writer_close(ph_onnx_writer *w); /* accepts a zeroed one */

/* Texts and lists are copied.  Putting does not fail: writing reports what went wrong. */
void ph_onnx_put_node(ph_onnx_writer *w, const ph_onnx_node *n, const ph_onnx_prop *props, size_t n_props);
void ph_onnx_put_value(ph_onnx_writer *w, int is_output, const ph_onnx_value *v);
void ph_onnx_put_weight(ph_onnx_writer *w, const ph_onnx_stored *s);
/* A domain beside ai.onnx: imported once, in the newest version that was put.  Its name outlives the writer.
 */
void ph_onnx_put_opset(ph_onnx_writer *w, const char *domain, int64_t version);
void ph_onnx_put_prop(ph_onnx_writer *w, const char *key, const char *value); /* of the model */

/* Weights above this many bytes stand beside the model. */
#define PH_ONNX_EXTERNAL_AUTO  ((uint64_t)-2) /* those above 1 KiB, if all in one file would pass 2 GB */
#define PH_ONNX_EXTERNAL_NEVER ((uint64_t)-1)
#define PH_ONNX_FILE_MAX       ((uint64_t)0x7FFFFFFF) /* a protobuf message has no more bytes */

typedef struct ph_onnx_size {
    uint64_t model, data; /* bytes of the file and of the one beside it; data 0: there is none */
} ph_onnx_size;

/* Write the model to path, and its large weights to path.data; each appears whole or not at all, the data
 * first, when both are written.  Errors: PH_ELIMIT more than 2 GB in one file; PH_EPATH also a name that the
 * model cannot give for its data (a backslash, a control character); PH_EIO, PH_ENOMEM; those of p. */
ph_rc ph_onnx_write(const char *path, const ph_onnx_writer *w, const ph_onnx_producer *p, uint64_t external,
                    ph_onnx_size *size, ph_err *err);
/* How large that would be, and whether there would be a data file.  Errors: PH_ELIMIT, PH_ENOMEM. */
ph_rc ph_onnx_measure(const ph_onnx_writer *w, uint64_t external, ph_onnx_size *size, ph_err *err);

/* A model in memory whose weights above `external` bytes are shared: as ONNX Runtime's
 * AddExternalInitializers takes them. */
typedef struct ph_onnx_shared {
    const ph_onnx_stored *weight;   /* name, type and dimensions; of the writer */
    const void           *bytes;    /* [weight->n_bytes] */
    int                   is_owned; /* made for this; else the writer's own pointer, the map mostly */
} ph_onnx_shared;
typedef struct ph_onnx_memory {
    uint8_t        *model; /* [n]; owned */
    size_t          n;
    ph_onnx_shared *shared; /* [n_shared]; owned */
    size_t          n_shared;
} ph_onnx_memory;
/* Errors: as ph_onnx_write.  The writer must outlive *m. */
ph_rc ph_onnx_write_memory(ph_onnx_memory *m, const ph_onnx_writer *w, const ph_onnx_producer *p,
                           uint64_t external, ph_err *err);
/* The same, and the model says where in this process each of them lies, in the words that ONNX Runtime has
 * for compilers that it hands models to; OpenVINO reads them.  Only for a reader that takes this very model:
 * from elsewhere such a model would make it read any address.  The bytes must stay until it is read. */
ph_rc ph_onnx_write_addressed(ph_onnx_memory *m, const ph_onnx_writer *w, const ph_onnx_producer *p,
                              uint64_t external, ph_err *err);
void  ph_onnx_memory_close(ph_onnx_memory *m); /* accepts a zeroed one */

#endif
