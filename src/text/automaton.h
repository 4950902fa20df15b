/* automaton.h - which of many texts end at a byte, in time that depends on neither their number nor length.
 *
 *     texts ─ sort ─ trie ─ links ─► ph_automaton      text ─ one step a byte ─► the longest text ending here
 *
 * Aho-Corasick (doi:10.1145/360825.360855): a node stands for the longest beginning of any text that the
 * bytes read so far end with.  Fed back to front, the same says which texts BEGIN at a byte: how added tokens
 * are found, longest first at every place.  A step may fall back over several nodes, but in all over no more
 * than it has climbed, so n bytes cost at most 2 n moves.
 *
 * Nodes are numbered in depth-first order: the first child of node v is v + 1, and needs no entry; the other
 * children are in a hash table.  So long texts cost ten bytes a node.
 */
#ifndef PH_TEXT_AUTOMATON_H
#define PH_TEXT_AUTOMATON_H

#include "base/arena.h"

#include <stdint.h>

typedef struct ph_span_of {
    uint32_t at, n; /* bytes of the blob */
} ph_span_of;

typedef struct ph_trie_edge { /* to the second child of a node, and those behind it */
    uint32_t from, to, byte;  /* to = 0: an empty slot */
} ph_trie_edge;

typedef struct ph_automaton {
    uint32_t     *root;    /* [256] node by first byte; 0: none.  NULL: there are no texts */
    uint32_t     *fail;    /* [n_nodes] the longest shorter ending that is a node */
    uint32_t     *hit;     /* [n_nodes] index + 1 of the longest text that ends here; 0: none */
    uint16_t     *first;   /* [n_nodes] the byte that leads to node + 1; 256: no child there */
    ph_trie_edge *edges;   /* [n_edges] hashed; at most half full */
    uint32_t     *shorter; /* [n_texts] index + 1 of the next shorter text that ends where this one does */
    uint32_t      n_nodes, n_edges, n_texts;
} ph_automaton;

/* Over text[n], spans of blob; empty ones are never found.  Of equal texts the last comes first, the others
 * are its `shorter`.  is_backward: the automaton will be fed from the end.  The tables are the heap's; close
 * it. Errors: PH_ENOMEM, PH_ELIMIT more than 2^32 bytes of texts. */
ph_rc ph_automaton_open(ph_automaton *a, const uint8_t *blob, const ph_span_of *text, uint32_t n,
                        int is_backward, ph_err *err);
void  ph_automaton_close(ph_automaton *a); /* accepts a zeroed one */
/* The same tables in an arena (a ruler: only counted).  `to` is not closed. */
ph_rc ph_automaton_copy(ph_automaton *to, const ph_automaton *from, ph_arena *arena, ph_err *err);
/* The next node; begin with 0.  *moves counts what it took. */
uint32_t ph_automaton_step(const ph_automaton *a, uint32_t node, uint8_t byte, uint64_t *moves);

#endif
