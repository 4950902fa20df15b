/* decoder.h - pieces of the language graph, for builders in model/ that add layers of their own.
 *
 * decoder.c builds the Llama line with them, cross.c the layers that attend to pictures.
 */
#ifndef PH_MODEL_DECODER_H
#define PH_MODEL_DECODER_H

#include "model/family.h"

/* What a layer's builder needs beside its number. */
typedef struct ph_deck {
    ph_graph         *g;
    const ph_spec    *spec;
    const ph_decoder *d;
    ph_names          names;
    int               rows, kv;
    int               added;           /* the table of the added vocabulary */
    int               cross, seen;     /* the state that pictures fill; "cross_seen"; -1: none */
    int               n_self, n_cross; /* layers built so far: each kind has a cache of its own */
    int               cos[PH_LAYER_KINDS_MAX], sin[PH_LAYER_KINDS_MAX];
} ph_deck;

/* RMS norm of x [.., n] by the weight `name`. */
int ph_deck_norm(ph_deck *b, int x, int n, const char *name, const char *as);
/* Each head by itself: x [R, heads * d_head]. */
int ph_deck_head_norm(ph_deck *b, int x, int heads, const char *name, const char *as);
/* The gated feed-forward of the block "layers.3". */
int ph_deck_feed_forward(ph_deck *b, int x, const char *block);

/* The next cross-attention block, standing at layer i; its output is called `as`. */
int ph_cross_layer(ph_deck *b, int x, int i, const char *as);

#endif
