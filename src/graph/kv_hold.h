/* kv_hold.h - pages that are not full yet, where full ones have their keys by channel.
 *
 * A channel's scale is known when all tokens of its block are there, so a page begins as one of F16 that is
 * held beside the cache, and is settled (kv_page.h) when it is full.  What a row sees goes by positions
 * alone:
 *
 *     the row at index i sees pages before i / 64 settled, its own and later ones as F16
 *
 * Token by token that is one page of F16 a sequence and layer.  A chunk has rows on both sides of a page's
 * end, so within a step both forms of a page stand:
 *
 *     first page of the step    held; it may have begun in an earlier step
 *     pages between             staged: they begin and end in this step, so all layers share the room
 *     last page                 held, in the sequence's and layer's other place
 *
 * Cutting a sequence off inside a page needs that page as F16; where it is no longer held the cut falls back
 * to the page's begin.
 */
#ifndef PH_GRAPH_KV_HOLD_H
#define PH_GRAPH_KV_HOLD_H

#include "base/arena.h"
#include "base/region.h"
#include "graph/kv.h"

enum { PH_HOLD_PLACES = 2 };

typedef struct ph_hold_span { /* of a sequence in this step */
    int first, last;          /* pages */
    int low, high;            /* tokens */
    int staged;               /* the stage of page first + 1; -1: not placed yet */
} ph_hold_span;

typedef struct ph_hold_full {
    int sequence, page;
} ph_hold_full;

typedef struct ph_hold {
    const ph_kv_layer *layer; /* [n_layers], borrowed */
    int                n_layers, n_sequences, n_stages, rows;
    ph_kv_page        *held;  /* [n_sequences, n_layers, 2]; position -1: nothing in it */
    ph_kv_page        *stage; /* [n_stages] */
    ph_hold_span      *span;  /* [n_sequences] */
    ph_hold_full      *full;  /* [n_full] pages that this step fills */
    size_t             n_full;
    ph_region          memory;
} ph_hold;

/* Bytes of the pages themselves, whole; 0: more than can be counted. */
size_t ph_hold_page_bytes(const ph_kv_layer *l); /* one of F16 */
size_t ph_hold_bytes(const ph_kv_spec *spec);
/* The tables, from an arena; on a ruler only their bytes. */
ph_rc ph_hold_carve(ph_hold *h, ph_arena *a, const ph_kv_spec *spec, ph_err *err);
/* The pages, after carve; `layer` [n_layers] is borrowed. */
ph_rc ph_hold_open(ph_hold *h, const ph_kv_spec *spec, const ph_kv_layer *layer, ph_err *err);
void  ph_hold_close(ph_hold *h);

void ph_hold_forget(ph_hold *h, int sequence, int length); /* tokens from `length` on */
/* Is the page with token `index` held in every layer? */
int ph_hold_has(const ph_hold *h, int sequence, int index);
/* The rows [n, PH_ROW_FIELDS] of a step in one layer: finds the pages that they write, and h->full.
 * Errors: PH_ELIMIT more rows than spec.rows; PH_EBUG a sequence goes on inside a page that is not held. */
ph_rc ph_hold_step(ph_hold *h, int layer, const int32_t *rows, size_t n, ph_err *err);
/* A page of this step by its number; NULL: the step writes no such page. */
ph_kv_page *ph_hold_at(const ph_hold *h, int layer, int sequence, int page);

#endif
