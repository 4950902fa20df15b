/* bpe_heap.h - the symbols of a word and the heap of merges that wait, for both kinds of BPE.
 *
 * All memory stands in the caller's scratch, so that the words of a text share it.
 */
#ifndef PH_TEXT_BPE_HEAP_H
#define PH_TEXT_BPE_HEAP_H

#include "text/tokenizer_tables.h"

typedef struct ph_bpe_symbol {
    int32_t  id;         /* -1: not in the vocabulary (merges by score only) */
    int32_t  prev, next; /* -1: none */
    uint32_t at, n;      /* bytes of the word (merges by score); n = 0: joined into its left neighbour */
} ph_bpe_symbol;

typedef struct ph_bpe_candidate {
    uint32_t rank; /* lowest first; of equals the leftmost */
    int32_t  at;   /* left symbol */
    int32_t  id;   /* what the pair becomes; merges by score: also the bytes it spans, see spm.c */
} ph_bpe_candidate;

typedef struct ph_bpe {
    ph_bpe_symbol    *symbol; /* [n] */
    ph_bpe_candidate *heap;   /* [n_heap] */
    size_t            n, n_heap;
    ph_model_scratch *scratch;
} ph_bpe;

void  ph_bpe_begin(ph_bpe *w, ph_model_scratch *scratch);
ph_rc ph_bpe_push(ph_bpe *w, int32_t id, size_t at, size_t n, ph_err *err);
void  ph_bpe_link(ph_bpe *w);
void  ph_bpe_join(ph_bpe *w, int32_t left, int32_t id); /* left takes its right neighbour in */
ph_rc ph_bpe_offer(ph_bpe *w, ph_bpe_candidate c, ph_err *err);
int   ph_bpe_take(ph_bpe *w, ph_bpe_candidate *out); /* 0: the heap is empty */

#endif
