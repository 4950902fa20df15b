/* container.h - what kind of model stands at a path, by its content. */
#ifndef PH_FORMATS_CONTAINER_H
#define PH_FORMATS_CONTAINER_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum ph_container {
    PH_CONTAINER_HFDIR,       /* a directory with config.json */
    PH_CONTAINER_GGUF,        /* a file that begins with GGUF */
    PH_CONTAINER_SAFETENSORS, /* a .safetensors, or the index of a sharded set */
    PH_CONTAINER_ONNX         /* a protobuf that looks like an ONNX ModelProto */
} ph_container;

const char *ph_container_name(ph_container c);

/* Errors: PH_EPATH nothing there; PH_EUNSUP a format that is recognised but not read (named, with what to
 * do); PH_EFORMAT empty or unknown. */
ph_rc ph_container_detect(const char *path, ph_container *out, ph_err *err);
/* The same for a file's bytes; `name` begins the message. */
ph_rc ph_container_detect_bytes(const uint8_t *bytes, size_t n, const char *name, ph_container *out,
                                ph_err *err);

/* The first file in the folder at path that holds weights in another form, by its name's ending, and what to
 * do with it: "pytorch_model.bin: convert it to safetensors".  0: there is none, and out is empty. */
int ph_container_advise(const char *path, char *out, size_t size);

/* Would writing to `file` replace what reading the model at `path` reads?  Compared by device and inode, so
 * under any name: path itself, a file in that folder or below it (other models' .gguf and .bundle aside), a
 * part of a split GGUF.  0 when nothing stands at `file`. */
int ph_container_holds(const char *path, const char *file);
/* Of several that are read ([n], NULL: none).  Errors: PH_EUSAGE writing to `path` would replace one. */
ph_rc ph_container_may_write(const char *path, const char *const *read, size_t n, ph_err *err);
/* The same folder and the same name in it, whether there is such a file or not. */
int ph_container_is_same_place(const char *a, const char *b);

#endif
