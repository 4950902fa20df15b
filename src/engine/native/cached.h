/* cached.h - what the two files of CachedAttention share: low_cached.c appends and lowers, cached_attend.c
 * attends. */
#ifndef PH_ENGINE_NATIVE_CACHED_H
#define PH_ENGINE_NATIVE_CACHED_H

#include "engine/native/native.h"
#include "graph/kv_page.h"

/* A rotation that was left to us, and the norm of each head before it; cos < 0: none. */
typedef struct ph_turn {
    int     cos, sin; /* buffers */
    ph_spin spin;
    ph_norm norm; /* of kind NONE: none */
} ph_turn;

typedef struct ph_cached {
    int     q, turned, k, v, rows, y; /* buffers; turned: the queries as attend reads them */
    int     parts;                    /* the buffer of answers by stretch; -1: one worker, which needs none */
    int     value, state;             /* rows: [R, fields]; the cache */
    ph_turn turn_q, turn_k;
    int     layer, window, is_cross;
    size_t  heads, kv_heads, d, dv;
    float   scale, softcap;
    /* of this run */
    ph_kv        *kv;
    ph_kv_layer   shape;
    ph_attend_fn *attend, *attend_held; /* pages of the cache's own type, and those held as F16 */
    size_t        n, row_block, row_blocks, head_block, head_blocks; /* head blocks of one key head */
    size_t        stretches; /* of a row and head block, each a unit; 0: units are whole */
} ph_cached;

/* Rows and cache of this run fit the layer, or PH_EMISMATCH; sets what belongs to the run up to attend_held.
 */
ph_rc ph_cached_check(ph_native *p, ph_cached *c, ph_err *err);

extern const ph_step_kind ph_cached_attend;
size_t                    ph_cached_parts_bytes(const ph_cached *c); /* of the buffer `parts` */

#endif
