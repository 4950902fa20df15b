/* onnx_read.h - what the files that read ONNX share.  Only formats/onnx*.c include this. */
#ifndef PH_FORMATS_ONNX_READ_H
#define PH_FORMATS_ONNX_READ_H

#include "formats/onnx.h"
#include "formats/protobuf.h"

typedef struct ph_onnx_reader {
    ph_onnx    *m;
    const char *dir; /* of the model, for external data; NULL: there is none */
    /* Names are packed into blocks: the arena alone would spend a cache line on each. */
    char    *text;
    size_t   text_left;
    char   **location; /* [m->n_external] names of the files that are mapped already */
    uint64_t items;    /* entries of tables so far: bounded */
} ph_onnx_reader;

/* How often each field number below 32 occurs in a message. */
typedef struct ph_onnx_counts {
    size_t of[32];
} ph_onnx_counts;

ph_rc ph_onnx_count(const ph_pb *m, ph_onnx_counts *c, ph_err *err);
/* Zeroed room for n entries.  Errors: PH_ELIMIT more than a model may have. */
ph_rc ph_onnx_table(ph_onnx_reader *r, void *out_p, size_t n, size_t item, ph_err *err);
/* A field's bytes as a name.  Errors: PH_EFORMAT not bytes, or a NUL inside. */
ph_rc ph_onnx_text(ph_onnx_reader *r, const ph_pb *m, const ph_pb_field *f, const char **out, ph_err *err);
/* The field has this wire type.  Errors: PH_EFORMAT. */
ph_rc ph_onnx_wire(const ph_pb *m, const ph_pb_field *f, unsigned wire, const char *what, ph_err *err);
/* More numbers in *n: those of one occurrence of a list, packed or alone; item: bytes of each, 0 varints. */
ph_rc ph_onnx_count_numbers(const ph_pb *m, const ph_pb_field *f, size_t item, const char *what, size_t *n,
                            ph_err *err);
ph_rc ph_onnx_read_tensor(ph_onnx_reader *r, ph_pb m, ph_onnx_tensor *out, ph_err *err);

#endif
