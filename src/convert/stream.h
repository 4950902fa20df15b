/* stream.h - tensors on their way: where each comes from and what is done to it.  Only convert/ includes
 * this. */
#ifndef PH_CONVERT_STREAM_H
#define PH_CONVERT_STREAM_H

#include "convert/convert.h"

#include "base/threads.h"
#include "convert/int8_config.h"
#include "formats/gguf_write.h"
#include "formats/produce.h"
#include "model/export.h"
#include "model/model.h"

/* What of a tensor is written: itself, or one plane of int8. */
typedef enum ph_stream_part { PH_STREAM_WHOLE, PH_STREAM_LEVELS, PH_STREAM_SCALES } ph_stream_part;

typedef struct ph_stream_item {
    ph_stream_part         part;
    const ph_weight       *from;  /* NULL: `made` has the numbers */
    const ph_export_parts *parts; /* not NULL: from is whole and this a part of it, or at[] become one */
    const float           *made;  /* of tensors that no file has; in the arena */
    int   heads; /* not 0: rows (head, half, i) are read as (head, i, half); negative: the other way */
    float add;
} ph_stream_item;

/* A number that did not survive: the first of what one worker made. */
typedef struct ph_stream_fault {
    const ph_weight *from; /* NULL: none */
    size_t           made; /* row of the piece */
    size_t           row, at;
    float            value;
} ph_stream_fault;

typedef struct ph_stream {
    ph_weight         *to;   /* [n] names, types, shapes; bytes stay NULL */
    ph_stream_item    *item; /* [n] */
    size_t             n, max;
    ph_threads        *threads; /* owned */
    float             *scratch; /* [threads, row] owned */
    size_t             row;     /* elements of the longest row */
    ph_stream_fault   *fault;   /* [threads] owned */
    const ph_convert  *c;
    ph_convert_report *report;
    size_t             done;
    const ph_source *source; /* whose tokenizer goes ready-made into a bundle, in room for one tensor more */
} ph_stream;

ph_rc ph_stream_open(ph_stream *s, const ph_convert *c, ph_convert_report *report, size_t max,
                     ph_arena *arena, ph_err *err);
void  ph_stream_close(ph_stream *s); /* accepts a zeroed one */
/* One more tensor, of the shape of `from`. name lives as long as the stream. */
ph_rc ph_stream_add(ph_stream *s, const char *name, ph_dtype type, const ph_weight *from, int heads,
                    float add, ph_err *err);
/* A part of a tensor, or one of several. */
ph_rc ph_stream_add_parts(ph_stream *s, const char *name, ph_dtype type, const ph_weight *from,
                          const ph_export_parts *parts, ph_err *err);
ph_rc ph_stream_add_made(ph_stream *s, const char *name, const float *numbers, int64_t n, ph_err *err);
/* One plane of the matrix `from` [N, K] as int8: levels I8 [N, K], or scales F32 [N, 1].  Numbers by
 * tensor/int8.h, symmetric, a row under one scale. */
ph_rc ph_stream_add_int8(ph_stream *s, const char *name, const ph_weight *from, ph_stream_part part,
                         ph_err *err);
/* Allocate what producing needs. */
ph_rc ph_stream_ready(ph_stream *s, ph_producer *out, ph_err *err);

/* convert/convert.c: errors: PH_EUSAGE path is something that is read. */
ph_rc ph_convert_may_write(const ph_convert *c, const char *path, ph_err *err);

/* Whether a rule of the recipe matches the name (or there are no rules), and the error where none does for
 * any tensor: what is written would be what no recipe asks for.  Said before the first file is begun. */
int   ph_convert_is_wanted(const ph_convert *c, const char *name);
ph_rc ph_convert_no_rule(const ph_convert *c, const char *name, ph_err *err);

/* PH_EUNSUP: c->in has the field's names, and they have no place for scales. */
ph_rc ph_convert_no_int8(const ph_convert *c, ph_err *err);
/* convert/to_bundle.c: any checkpoint into a bundle; one more way to write what is in a stream.  meta gets
 * the keys of a bundle.  Errors: those of opening, and PH_EUNSUP two tensors of one name. */
ph_rc ph_convert_to_bundle(const ph_convert *c, ph_convert_report *report, ph_err *err);
ph_rc ph_convert_write_bundle(ph_stream *s, const char *path, ph_gguf_meta *meta, ph_err *err);

/* convert/to_gguf.c, to_hf.c */
ph_rc ph_convert_to_gguf(const ph_convert *c, ph_convert_report *report, ph_err *err);
ph_rc ph_convert_gguf_again(const ph_convert *c, ph_convert_report *report, ph_err *err);
ph_rc ph_convert_to_hf(const ph_convert *c, ph_convert_report *report, ph_err *err);
ph_rc ph_convert_hf_again(const ph_convert *c, ph_convert_report *report, ph_err *err);

/* convert/carry.c: m's directory, of a folder or of a carrying file, into one such file c->out. */
ph_rc ph_convert_carry(const ph_convert *c, ph_convert_report *report, const ph_model *m, ph_arena *arena,
                       ph_err *err);
/* Into the folder c->out, of a folder or a carrying file, with matrices of the recipe as int8; blocks become
 * again what they were. */
ph_rc ph_convert_int8_to_hf(const ph_convert *c, ph_convert_report *report, ph_err *err);
/* The directory that m's file carries into the folder c->out. */
ph_rc ph_convert_carried_to_hf(const ph_convert *c, ph_convert_report *report, const ph_model *m,
                               ph_arena *arena, ph_err *err);

/* What the writers of GGUF share (to_gguf.c): general.file_type, general.name, the small files (only: NULL,
 * or what their names must hold; config: what stands for config.json, NULL or without text: itself); whether
 * a key is about one file alone and so never copied; a tensor whose type is another than was asked for. */
void  ph_convert_put_type(ph_gguf_meta *meta, const ph_stream *s);
void  ph_convert_put_name(ph_gguf_meta *meta, const char *path);
ph_rc ph_convert_put_originals(ph_gguf_meta *meta, const ph_hfdir *hf, const char *only,
                               const ph_int8_config *config, ph_err *err);
int   ph_convert_is_of_the_file(const char *key);
void  ph_convert_note_fall_back(ph_convert_report *report, const char *name);
ph_rc ph_convert_write_gguf(ph_stream *s, const char *path, ph_gguf_meta *meta, ph_err *err);
/* All tensors of g with the types that c asks for. */
ph_rc ph_convert_add_again(ph_stream *s, const ph_gguf *g, ph_err *err);
/* And those of directories: the bytes of one small file, the small files of the folder c->in but `without`
 * (NULL: all; to_hf.c); a whole directory s->c->out, small files by `put` (into c->out, a folder apart), then
 * the weights (stage.c).  Errors: PH_EUSAGE the directory holds a file of a model that would stay; PH_EIO;
 * those of put and of the weights. */
typedef ph_rc ph_put_files(const ph_convert *c, const ph_stream *s, const void *arg, ph_err *err);
/* type_in_dir: of tensor i of a directory's `all`, once stored as `was`: whole numbers (ids, zero points) and
 * planes stay, whatever type is asked for. */
ph_dtype ph_convert_type_in_dir(const ph_convert *c, const ph_weights *all, size_t i, ph_dtype was);
ph_rc    ph_convert_put_folder(const ph_convert *c, const char *without, ph_err *err);
ph_rc    ph_convert_put_bytes(const char *dir, const char *name, const void *bytes, size_t n, ph_err *err);
ph_rc    ph_convert_write_dir(ph_stream *s, ph_put_files *put, const void *arg, ph_err *err);

#endif
