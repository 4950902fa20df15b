/* tokjson.h - the parts of reading tokenizer.json; for this room only. */
#ifndef PH_TEXT_TOKJSON_H
#define PH_TEXT_TOKJSON_H

#include "formats/json.h"
#include "text/tokenizer_tables.h"

enum { PH_TOKJSON_DEPTH_MAX = 4 }; /* sequences in sequences */

/* A step or a Sequence of steps, appended to the list of operations; absent or null is no step.
 * Errors: PH_EUNSUP an unknown type, named; PH_EFORMAT. */
ph_rc ph_tokjson_normalizer(ph_tok_build *b, const ph_json *j, int depth, ph_err *err);
/* prefix_space: what a top-level step's add_prefix_space becomes; -1: as the file says. */
ph_rc ph_tokjson_pretokenizer(ph_tok_build *b, const ph_json *j, int prefix_space, int depth, ph_err *err);
ph_rc ph_tokjson_decoder(ph_tok_build *b, const ph_json *j, int depth, ph_err *err);
/* CLIP: the end-of-word suffix reads as a space, and the text is trimmed. */
ph_rc ph_tokjson_end_of_word(ph_tok_build *b, ph_err *err);

/* --- the long lists (tokjson_lists.c) --- */
typedef struct ph_tokjson_list {
    ph_blob text; /* borrowed from the file, brackets included; NULL bytes: it was not taken out */
    size_t  n;    /* items */
} ph_tokjson_list;
typedef struct ph_tokjson_lists {
    ph_tokjson_list vocab, merges; /* model.vocab, an object; model.merges */
    ph_bytes        rest;          /* the file with {} and [] in their places; nothing when neither is out */
} ph_tokjson_lists;
/* Take out those whose items all are as trainers write them.  Errors: PH_ENOMEM. */
ph_rc ph_tokjson_take(ph_tokjson_lists *l, ph_blob file, ph_err *err);
void  ph_tokjson_lists_close(ph_tokjson_lists *l); /* accepts a zeroed one */
/* Pieces with their index, and merges.  Errors: those of ph_build_piece_put and ph_build_merge; PH_EFORMAT a
 * piece twice. */
ph_rc ph_tokjson_vocab(ph_tok_build *b, const ph_tokjson_list *list, ph_err *err);
ph_rc ph_tokjson_merges(ph_tok_build *b, const ph_tokjson_list *list, ph_err *err);

#endif
