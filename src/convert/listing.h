/* listing.h - the tensors that a directory's model is written as, under their own names.  Only convert/
 * includes this.
 *
 *     graphs ── use ─┐
 *     recipe ────────┴─► each tensor: kept, another type, or int8 (two for one) ──► names, types, config.json
 */
#ifndef PH_CONVERT_LISTING_H
#define PH_CONVERT_LISTING_H

#include "convert/int8_config.h"
#include "convert/stream.h"

typedef struct ph_listed {
    size_t         from;    /* of the model's weights */
    ph_stream_part part;    /* of int8 a plane, else whole */
    ph_dtype       type;    /* of a whole one */
    int            is_kept; /* a whole one whose type does not change */
} ph_listed;

typedef struct ph_listing {
    ph_weights     all; /* [n] as a directory has them: names, shapes, types; of kept ones the file's type */
    ph_listed     *at;  /* [all.n] */
    ph_dtype      *was; /* [all.n] what a directory stores each as, before blocks */
    ph_int8_config config; /* text NULL: config.json stays as it is */
} ph_listing;

/* Of m's directory, of a folder or of a carrying file; c->to_gguf says whether blocks may stay blocks.
 * With int8 the widest elements stand first, as safetensors' own library writes them: among others, bytes of
 * any number would leave floats at odd places, where other readers cannot address them.  Else the order
 * stays. Errors: PH_EUNSUP the model is quantised already and more is to become int8, or scales stand there
 * already; those of config.json. */
ph_rc ph_listing_make(ph_listing *out, const ph_convert *c, ph_convert_report *report, const ph_model *m,
                      ph_arena *arena, ph_err *err);

#endif
