/* use.h - what a model's graphs do with each tensor of its files, and so which may become blocks.  Only
 * convert/ includes this.
 *
 * Nothing here knows a name: a matrix is one because a Linear multiplies by it, a table of pieces because its
 * rows are looked up by ids.
 */
#ifndef PH_CONVERT_USE_H
#define PH_CONVERT_USE_H

#include "model/model.h"

enum {
    PH_USE_MATRIX = 1,  /* multiplied as it stands, or the table of pieces: rows of any type will do */
    PH_USE_NUMBERS = 2, /* read number by number at least once: convolutions, positions, norms */
    PH_USE_PLANE =
        4, /* part of a matrix in separate planes (AWQ, GPTQ, bytes with scales): means nothing alone */
    PH_USE_OUTPUT = 8, /* gives the logits */
    PH_USE_TABLE = 16  /* the table of pieces, whatever else it is */
};

/* use[n] of w's tensors, carved from arena, as bits; 0: the graphs as they are built do not read it.  Planes
 * are also those of layers that no graph has. */
ph_rc ph_use_find(unsigned **use, const ph_model *m, const ph_weights *w, ph_arena *arena, ph_err *err);

/* Whether w, one of all, is a plane by the tensors beside it, as the storage forms name them: levels with
 * their scales, or what belongs to such levels.  Levels alone mean nothing, and scales need all their digits.
 */
int ph_use_is_plane(const ph_weights *all, const ph_weight *w);

#endif
