/* decode.h - the decoder as a machine that takes one id at a time.
 *
 *     id ─► piece ─► token stages ─► join ─► text stages ─► sink
 *
 * ph_tokenizer_decode and speak.c drive the same machine, so what is streamed and what is decoded at once
 * cannot differ.  A stage keeps back only what later ids may still change.
 */
#ifndef PH_TEXT_DECODE_H
#define PH_TEXT_DECODE_H

#include "text/tokenizer_tables.h"

typedef ph_rc ph_decode_sink(void *arg, const uint8_t *bytes, size_t n, ph_err *err);

enum { PH_DECODE_STAGES_MAX = PH_TOK_OPS_MAX + 16 };

typedef struct ph_decode_stage {
    int            kind; /* a ph_op_kind, or a stage of decode.c's own */
    int            flag;
    uint32_t       start, stop;
    const uint8_t *a, *b; /* [n_a], [n_b]; live as long as the tokenizer */
    size_t         n_a, n_b;
    size_t         seen;    /* tokens, or characters dropped at the front */
    ph_bytes       hold;    /* kept back, see each stage */
    ph_bytes       scratch; /* a rewritten token */
} ph_decode_stage;

typedef struct ph_decoder {
    const ph_tokenizer *t;
    int                 skip_special;
    ph_decode_stage     stage[PH_DECODE_STAGES_MAX];
    int                 n_stages, n_token_stages; /* the first n_token_stages see single tokens */
    size_t              hold_max;                 /* bytes a stage may keep back; SIZE_MAX: no limit */
    ph_decode_sink     *sink;
    void               *arg;
} ph_decoder;

/* hold_max limits what is kept back (and taken from the heap while decoding) for streaming. */
ph_rc ph_decoder_open(ph_decoder *d, const ph_tokenizer *t, int skip_special, int clean_up, size_t hold_max,
                      ph_decode_sink *sink, void *arg, ph_err *err);
void  ph_decoder_close(ph_decoder *d); /* accepts a zeroed one */
void  ph_decoder_begin(ph_decoder *d); /* forget: the next id is the first */
ph_rc ph_decoder_push(ph_decoder *d, int32_t id, ph_err *err);
ph_rc ph_decoder_end(ph_decoder *d, ph_err *err); /* give out all that was kept back */

#endif
