/* kv.h - the KV cache: a graph value of class state, made of pages.
 *
 * A page holds PH_KV_PAGE tokens of one layer:
 *
 *     K [n_kv_heads, d_k, 64] | V [n_kv_heads, 64, d_v]      stored as the page's dtype; Q8_0 differs (kv_page.h)
 *
 * A sequence is, per layer, a list of pages; pages may be shared by sequences
 * (references) and differ in dtype.  Keys are stored after rotation.  Pages come
 * from one slab, so appending a token never calls malloc.
 *
 * Q4_1 has blocks of keys by channel: its pages are F16 until they are full, and are held for that beside the
 * slab (kv_hold.h).
 */
#ifndef PH_GRAPH_KV_H
#define PH_GRAPH_KV_H

#include "base/err.h"
#include "base/slab.h"
#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_KV_PAGE = 64 };

typedef struct ph_kv_layer {
    int n_heads, d_k, d_v; /* KV heads of this layer and their sizes */
} ph_kv_layer;

typedef struct ph_kv_spec {
    ph_kv_layer *layer; /* [n_layers], borrowed */
    int          n_layers;
    int          n_sequences; /* at most */
    int          context;     /* tokens a sequence can hold, at most */
    size_t       tokens;      /* tokens of all sequences together, at most (pages are rounded up) */
    ph_dtype     dtype;       /* a type with an attend kernel: F32, F16, BF16, Q8_0, Q4_1 */
    int          rows;        /* of all sequences together in one step, at most; 0: `context`; for Q4_1 */
} ph_kv_spec;

typedef struct ph_kv_page {
    ph_dtype dtype;
    int      count;      /* tokens stored, 0..64 */
    int      references; /* sequences that list it */
    int      layer;
    int32_t  position; /* index in the sequence of its first token */
    void    *k, *v;    /* in this page's block, laid out as kv_page.h says */
} ph_kv_page;

typedef struct ph_kv ph_kv;

/* The states that a graph may have, by name: what its own rows append to and attend to, and keys and values
 * that another graph made of pictures or sound (cross attention). */
#define PH_STATE_OWN   "kv"
#define PH_STATE_CROSS "xkv"

ph_rc  ph_kv_bytes(const ph_kv_spec *spec, size_t *out, ph_err *err); /* all that open() will take */
size_t ph_kv_page_bytes(const ph_kv_spec *spec, int layer); /* one page's block, rounded as the slab does */
/* Bytes that a token takes in a layer, by its page's share. */
size_t ph_kv_token_bytes(const ph_kv_spec *spec, int layer);
/* Bytes of pages held as F16 beside the slab, for `n_sequences` of `pages` pages each and steps that begin
 * and end `staged` whole pages; 0 for types that hold none. */
size_t ph_kv_held_bytes(const ph_kv_spec *spec, size_t n_sequences, size_t pages, size_t staged);
ph_rc  ph_kv_open(ph_kv **kv, const ph_kv_spec *spec, ph_err *err);
void   ph_kv_close(ph_kv *kv);

ph_rc ph_kv_begin(ph_kv *kv, int *sequence,
                  ph_err *err);                    /* an empty sequence; PH_ELIMIT when all are in use */
void  ph_kv_end(ph_kv *kv, int sequence);          /* its pages go back */
int   ph_kv_length(const ph_kv *kv, int sequence); /* tokens, committed */
/* Make room for tokens up to `length` in every layer (pages are taken now, so that a step cannot fail), and
 * set the length.  Errors: PH_ECONTEXT beyond spec.context; PH_ENOMEM no page left (nothing changes then). */
ph_rc ph_kv_extend(ph_kv *kv, int sequence, int length, ph_err *err);
/* Forget tokens from `length` on.  Returns the length now: with Q4_1 the begin of a page may be all that can
 * be gone on from, so rows from there on must be run again. */
int ph_kv_truncate(ph_kv *kv, int sequence, int length);
/* Let the empty sequence `to` begin with the whole pages of the first `length` tokens of `from`, shared;
 * returns the tokens taken over, a multiple of PH_KV_PAGE.  A shared page that must be written is copied by
 * ph_kv_extend. */
int ph_kv_share(ph_kv *kv, int from, int length, int to);
/* Page that holds token `index`, already reserved; NULL: it is not. */
ph_kv_page *ph_kv_at(const ph_kv *kv, int layer, int sequence, int index);

/* A step in one layer, for whoever runs it: begin; write every row to ph_kv_written; settle every full page;
 * then each row looks at its keys page by page, as ph_kv_seen gives them.  rows: [n, PH_ROW_FIELDS], checked.
 * Errors: PH_ELIMIT more rows than spec.rows; PH_EMISMATCH a row sees beyond the rows that are written;
 * PH_EBUG as ph_hold_step. */
ph_rc       ph_kv_step(ph_kv *kv, int layer, const int32_t *rows, size_t n, ph_err *err);
ph_kv_page *ph_kv_written(const ph_kv *kv, int layer, int sequence, int index);
size_t      ph_kv_full(const ph_kv *kv); /* pages that this step fills and that must be settled */
void ph_kv_full_at(const ph_kv *kv, int layer, size_t i, const ph_kv_page **from, const ph_kv_page **to);
/* The page with token `at`, as the row at `index` sees it. */
const ph_kv_page *ph_kv_seen(const ph_kv *kv, int layer, int sequence, int index, int at);

ph_dtype    ph_kv_dtype(const ph_kv *kv);
int         ph_kv_layers(const ph_kv *kv);
ph_kv_layer ph_kv_layer_at(const ph_kv *kv, int layer);
size_t      ph_kv_used_bytes(const ph_kv *kv); /* pages given out, bytes */
void        ph_kv_stats(const ph_kv *kv, ph_slab_stats *out);

/* The rows input of a language graph: one record a row of this step, [R, PH_ROW_FIELDS] i32. */
enum {
    PH_ROW_SEQUENCE, /* sequence id of the KV cache */
    PH_ROW_INDEX,    /* where the row's key goes: its index in the sequence */
    PH_ROW_POS_T,    /* positions for rope; all three equal for plain text */
    PH_ROW_POS_H,
    PH_ROW_POS_W,
    PH_ROW_SPAN, /* keys [0, span) are seen (before the node's own window): index + 1 if causal, the end of a
                  * bidirectional span otherwise */
    PH_ROW_KIND, /* 0 text, 1 visual */
    PH_ROW_BACK, /* keys before the row's own that no window hides: back to where its bidirectional span
                    begins */
    PH_ROW_CROSS_BEGIN, /* keys [begin, end) of a cache that the step does not append to (cross attention) */
    PH_ROW_CROSS_END,
    PH_ROW_FIELDS
};

#endif
