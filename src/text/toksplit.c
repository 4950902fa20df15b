/* toksplit.c - the pre-tokenizers: where words begin and end, before the model sees them.
 *
 * State is a text and a list of cuts over it.  A split only makes new cuts; a rewriting step (Metaspace, byte
 * glyphs) makes a new text as well.  Empty cuts vanish, as in Hugging Face tokenizers.
 * Source: tokenizers 0.22 (pre_tokenizers/, tokenizer/pattern.rs, normalizer.rs: SplitDelimiterBehavior).
 */
#include "text/tokenizer_tables.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

/* GPT-2's byte alphabet: printable Latin-1 stands for itself, the 68 others for U+0100 and up, in order. */
static int is_own_glyph(unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}
uint32_t ph_byte_glyph(uint8_t byte) {
    if (is_own_glyph(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x100u + 33 + (byte - 0x7Fu);
    return 0x100u + 67; /* 0xAD */
}
int ph_glyph_byte(uint32_t c) {
    if (c < 0x100) return is_own_glyph(c) ? (int)c : -1;
    if (c <= 0x120) return (int)(c - 0x100);
    if (c <= 0x142) return (int)(c - 0x121 + 0x7F);
    return c == 0x143 ? 0xAD : -1;
}

void ph_cuts_close(ph_cuts *c) {
    ph_bytes_close(&c->text);
    free(c->at);
    *c = (ph_cuts){0};
}

static ph_rc push_cut(ph_cuts *c, size_t begin, size_t n, int is_first, ph_err *err) {
    void *at = c->at;
    PH_TRY(ph_room_grow(&at, &c->cap, c->n, 1, sizeof *c->at, err));
    c->at = at;
    c->at[c->n++] = (ph_cut){begin, n, is_first};
    return PH_OK;
}

/* One part between or of matches, joined to the cut before as the behavior says.  `mark` is the first cut of
 * the text being split; was_match says what the last part was (-1: there was none). */
static ph_rc part(const ph_text_op *op, ph_cuts *out, size_t mark, size_t begin, size_t end, int is_match,
                  int *was_match, ph_err *err) {
    int     before = *was_match, joins = 0;
    ph_cut *last = out->n > mark ? &out->at[out->n - 1] : NULL;
    *was_match = is_match;
    switch (op->behavior) {
    case PH_SPLIT_REMOVED:
        if (is_match) return PH_OK;
        break;
    case PH_SPLIT_ISOLATED:
        break;
    case PH_SPLIT_PREVIOUS:
        joins = is_match && before != 1;
        break;
    case PH_SPLIT_NEXT:
        joins = before == 1 && !is_match;
        break;
    case PH_SPLIT_CONTIGUOUS:
        joins = before == is_match;
        break;
    }
    if (joins && last) {
        last->n = end - last->begin;
        return PH_OK;
    }
    return push_cut(out, begin, end - begin, 0, err);
}

static ph_rc split_one(const ph_text_op *op, ph_search *s, const uint8_t *text, ph_cut cut, ph_cuts *out,
                       ph_err *err) {
    size_t from = 0, begin, end, mark = out->n, keep;
    int    found, was_match = -1;
    ph_search_begin(s, text + cut.begin, cut.n);
    for (;;) {
        PH_TRY(ph_search_next(s, &found, &begin, &end, err));
        if (!found) break;
        if (from != begin)
            PH_TRY(part(op, out, mark, cut.begin + from, cut.begin + begin, op->invert, &was_match, err));
        PH_TRY(part(op, out, mark, cut.begin + begin, cut.begin + end, !op->invert, &was_match, err));
        from = end;
    }
    if (from != cut.n)
        PH_TRY(part(op, out, mark, cut.begin + from, cut.begin + cut.n, op->invert, &was_match, err));
    keep = mark;
    for (size_t i = mark; i < out->n; i++) /* empty cuts took part in the joining, now they go */
        if (out->at[i].n) out->at[keep++] = out->at[i];
    out->n = keep;
    for (size_t i = mark; i < out->n; i++)
        out->at[i].is_first = cut.is_first && out->at[i].begin == cut.begin;
    return PH_OK;
}

static ph_rc split(const ph_text_op *op, ph_cuts *c, ph_cuts *out, ph_err *err) {
    ph_search s;
    PH_TRY(ph_search_open(&s, &op->pattern, c->text.n, err));
    ph_rc rc = PH_OK;
    out->n = 0;
    for (size_t i = 0; i < c->n && !rc; i++) rc = split_one(op, &s, c->text.at, c->at[i], out, err);
    ph_search_close(&s);
    return rc;
}

static ph_rc rewrite_one(const ph_tokenizer *t, const ph_text_op *op, const uint8_t *in, ph_cut cut,
                         ph_cuts *out, ph_err *err) {
    const uint8_t *a = ph_tok_text(t, op->a);
    size_t         begin = out->text.n;
    if (op->kind == PH_OP_BYTES) {
        for (size_t i = 0; i < cut.n; i++) PH_TRY(ph_bytes_push_char(&out->text, ph_byte_glyph(in[i]), err));
    } else if (op->kind == PH_OP_PREFIX_SPACE) {
        if (cut.n < op->a.n || memcmp(in, a, op->a.n)) PH_TRY(ph_bytes_push(&out->text, a, op->a.n, err));
        PH_TRY(ph_bytes_push(&out->text, in, cut.n, err));
    } else { /* Metaspace: spaces become a, and a is put in front where the scheme says so */
        int has = in[0] == ' ' || (cut.n >= op->a.n && !memcmp(in, a, op->a.n));
        if (!has && (op->flag == 2 || (op->flag == 1 && cut.is_first)))
            PH_TRY(ph_bytes_push(&out->text, a, op->a.n, err));
        for (size_t i = 0; i < cut.n; i++)
            PH_TRY(in[i] == ' ' ? ph_bytes_push(&out->text, a, op->a.n, err)
                                : ph_bytes_push(&out->text, in + i, 1, err));
    }
    return push_cut(out, begin, out->text.n - begin, cut.is_first, err);
}

ph_rc ph_pretokenize(const ph_tokenizer *t, ph_cuts *c, ph_cuts *spare, ph_err *err) {
    for (int i = 0; i < t->n_split_op; i++) {
        const ph_text_op *op = &t->split_op[i];
        if (op->kind == PH_OP_SPLIT) {
            PH_TRY(split(op, c, spare, err));
            ph_cut *at = c->at;
            size_t  cap = c->cap;
            c->at = spare->at, c->n = spare->n, c->cap = spare->cap;
            spare->at = at, spare->cap = cap, spare->n = 0;
            continue;
        }
        spare->n = spare->text.n = 0;
        for (size_t k = 0; k < c->n; k++)
            if (c->at[k].n) PH_TRY(rewrite_one(t, op, c->text.at + c->at[k].begin, c->at[k], spare, err));
        ph_cuts swap = *c;
        *c = *spare;
        *spare = swap;
    }
    return PH_OK;
}
