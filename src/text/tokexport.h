/* tokexport.h - an open tokenizer, written down for the other container. */
#ifndef PH_TEXT_TOKEXPORT_H
#define PH_TEXT_TOKEXPORT_H

#include "formats/gguf_write.h"
#include "text/tokenizer.h"

#include <jansson.h>

/* tokenizer.ggml.* of t.  *pre_known: 0 when t is byte-level and no pre-tokenizer
 * that GGUF names splits as it does; the file then says "default".
 * Errors: PH_EUNSUP a kind of model or pipeline that GGUF's lists cannot say. */
ph_rc ph_tokenizer_to_gguf(const ph_tokenizer *t, ph_gguf_meta *to, int *pre_known, ph_err *err);

/* tokenizer.json and tokenizer_config.json of a tokenizer that was opened from GGUF; new references.
 * Errors: PH_EFORMAT a piece that is no UTF-8, which JSON cannot hold; PH_ENOMEM. */
ph_rc ph_tokenizer_to_json(const ph_tokenizer *t, json_t **out, ph_err *err);
ph_rc ph_tokenizer_config_to_json(const ph_tokenizer *t, int64_t context, json_t **out, ph_err *err);

#endif
