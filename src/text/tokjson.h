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

#endif
