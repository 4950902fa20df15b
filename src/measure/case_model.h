/* case_model.h - one case of a model: prompt and pictures in, the reference's tensors beside ours. */
#ifndef PH_MEASURE_CASE_MODEL_H
#define PH_MEASURE_CASE_MODEL_H

#include "measure/probe.h"

enum { PH_CASE_PICTURES_MAX = 64 };

/* Cases of a model share the model, its sessions and the set's pictures. */
typedef struct ph_model_desk {
    ph_report  *r;
    const char *dir;
    char        images[4200]; /* the set's pictures */
    ph_tensors  decoded;      /* another decoder's pixels of them; zeroed: none */
    ph_model   *model;
    ph_probe    probe;
    ph_probe    other; /* on the native engine, where two are compared */
    ph_arena    arena; /* of one case */
} ph_model_desk;

typedef struct ph_model_case {
    ph_model_desk *desk;
    ph_report     *r;
    ph_probe      *probe;
    ph_json        item; /* of the manifest */
    ph_tensors     t;
    double         atol, atol_final, rtol; /* of logits; of hidden states, relative to the tensor's max */
    double         language_rtol;
    size_t         stable;
    int32_t       *ids, *greedy; /* the reference's */
    size_t         n_ids, n_greedy;
    const char    *prompt;
    int            is_answer_same;
    int            n_outputs; /* figures beyond the inputs */
    ph_picture     picture[PH_CASE_PICTURES_MAX];
    ph_file        file[PH_CASE_PICTURES_MAX];
    ph_tiles       tiles[PH_CASE_PICTURES_MAX];
    size_t         n_pictures, n_views; /* files; what the model sees: a video is one */
    /* [n_tiles]: equal pictures are seen once; where each tile was seen.  Of packed patches a tile is what
     * becomes one visual token. */
    int   *tile_of;
    size_t n_tiles, n_seen_tiles;
} ph_model_case;

/* model_picture.c: open, decode and prepare the case's pictures. */
ph_rc ph_model_case_pictures(ph_model_case *c, ph_err *err);
void  ph_model_case_close_pictures(ph_model_case *c);

/* model_tensor.c: every tensor of the case's file against ours. */
ph_rc ph_model_case_tensors(ph_model_case *c, ph_err *err);

/* model_parts.c: the vision part on two engines; all that is seen inside it. */
ph_rc ph_model_parts_open(ph_model_desk *d, ph_err *err);
ph_rc ph_model_case_parts(ph_model_case *c, const ph_question *q, ph_err *err);

#endif
