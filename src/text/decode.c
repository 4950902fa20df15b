/* decode.c - ids to text, see decode.h.
 *
 * Token stages see each token whole; text stages see a stream of bytes in pieces of any size.  The border is
 * the Fuse or ByteLevel decoder.  Calls go from stage to stage, so the depth is the number of stages. The
 * first text stage makes ill-formed UTF-8 into U+FFFD and passes on whole characters only.
 *
 * With hold_max, a run of byte tokens longer than that is given out as far as it is valid; only there
 * a stream may differ from the whole, which would turn a run that ends ill-formed into U+FFFD from its start.
 *
 * Source: Hugging Face tokenizers 0.22 (decoders/); transformers 4.57 (clean_up_tokenization, CLIP's
 * end of word).
 */
#include "text/decode.h"

#include "text/utf8.h"

#include <string.h>

enum { STAGE_JOIN_SPACE = 1000, STAGE_LOSSY };

static ph_rc token(ph_decoder *d, int i, const uint8_t *bytes, size_t n, ph_err *err);
static ph_rc text(ph_decoder *d, int i, const uint8_t *bytes, size_t n, ph_err *err);

/* Hand on to stage i, whichever side of the join it is. */
static ph_rc give(ph_decoder *d, int i, const uint8_t *bytes, size_t n, ph_err *err) {
    if (i < d->n_token_stages) return token(d, i, bytes, n, err);
    return n ? text(d, i, bytes, n, err) : PH_OK;
}

/* --- token stages --- */

static ph_rc replaced(ph_bytes *out, const uint8_t *in, size_t n, const ph_decode_stage *s, ph_err *err) {
    size_t from = 0;
    out->n = 0;
    for (size_t i = 0; s->n_a && i + s->n_a <= n;) {
        if (memcmp(in + i, s->a, s->n_a)) {
            i++;
            continue;
        }
        PH_TRY(ph_bytes_push(out, in + from, i - from, err));
        PH_TRY(ph_bytes_push(out, s->b, s->n_b, err));
        from = i += s->n_a;
    }
    return ph_bytes_push(out, in + from, n - from, err);
}

static int hex_digit(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}
static int byte_token(const uint8_t *p, size_t n) {
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>' || hex_digit(p[3]) < 0 || hex_digit(p[4]) < 0) return -1;
    return hex_digit(p[3]) << 4 | hex_digit(p[4]);
}

/* The end of a run of byte tokens: text when valid as a whole, else U+FFFD for each byte. */
static ph_rc end_run(ph_decoder *d, int i, ph_err *err) {
    ph_bytes *hold = &d->stage[i].hold;
    size_t    n = hold->n;
    hold->n = 0;
    if (!n) return PH_OK;
    if (ph_utf8_is_valid(hold->at, n)) return give(d, i + 1, hold->at, n, err);
    for (size_t k = 0; k < n; k++) PH_TRY(give(d, i + 1, (const uint8_t *)"\xEF\xBF\xBD", 3, err));
    return PH_OK;
}

static ph_rc byte_fallback(ph_decoder *d, int i, const uint8_t *bytes, size_t n, ph_err *err) {
    ph_bytes *hold = &d->stage[i].hold;
    int       b = byte_token(bytes, n);
    if (b < 0) {
        PH_TRY(end_run(d, i, err));
        return give(d, i + 1, bytes, n, err);
    }
    uint8_t byte = (uint8_t)b;
    if (hold->n + 4 > d->hold_max) { /* too much kept back: give out what is surely text */
        size_t good = 0;
        while (good < hold->n) {
            ph_utf8_step s = ph_utf8_read(hold->at + good, hold->n - good);
            if (!s.is_valid) break;
            good += (size_t)s.n;
        }
        if (!good) {
            PH_TRY(end_run(d, i, err));
        } else {
            PH_TRY(give(d, i + 1, hold->at, good, err));
            memmove(hold->at, hold->at + good, hold->n - good);
            hold->n -= good;
        }
    }
    return ph_bytes_push(hold, &byte, 1, err);
}

static ph_rc metaspace(ph_decode_stage *s, const uint8_t *in, size_t n, ph_err *err) {
    int drops = s->seen == 0 && s->flag != 0;
    s->scratch.n = 0;
    for (size_t i = 0; i < n;) {
        if (s->n_a && i + s->n_a <= n && !memcmp(in + i, s->a, s->n_a)) {
            if (!drops) PH_TRY(ph_bytes_push(&s->scratch, " ", 1, err));
            i += s->n_a;
        } else {
            PH_TRY(ph_bytes_push(&s->scratch, in + i++, 1, err));
        }
    }
    return PH_OK;
}

/* What English detokenizers tidy; also transformers' clean_up_tokenization (without "do not"). */
static const struct {
    const char *from, *to;
    int         only_wordpiece;
} tidy[] = {{" .", ".", 0},   {" ?", "?", 0},     {" !", "!", 0},    {" ,", ",", 0},
            {" ' ", "'", 0},  {" n't", "n't", 0}, {" 'm", "'m", 0},  {" do not", " don't", 1},
            {" 's", "'s", 0}, {" 've", "'ve", 0}, {" 're", "'re", 0}};
enum { N_TIDY = sizeof tidy / sizeof *tidy };

static ph_rc wordpiece(ph_decode_stage *s, const uint8_t *in, size_t n, ph_err *err) {
    int is_inner = s->n_a && n >= s->n_a && !memcmp(in, s->a, s->n_a);
    s->scratch.n = 0;
    if (s->seen && !is_inner) PH_TRY(ph_bytes_push(&s->scratch, " ", 1, err));
    if (s->seen && is_inner) in += s->n_a, n -= s->n_a;
    PH_TRY(ph_bytes_push(&s->scratch, in, n, err));
    for (int k = 0; s->flag && k < N_TIDY; k++) {
        ph_decode_stage one = {.a = (const uint8_t *)tidy[k].from, .n_a = strlen(tidy[k].from)};
        one.b = (const uint8_t *)tidy[k].to, one.n_b = strlen(tidy[k].to);
        PH_TRY(replaced(&s->hold, s->scratch.at, s->scratch.n, &one, err));
        ph_bytes swap = s->hold;
        s->hold = s->scratch;
        s->scratch = swap;
    }
    s->hold.n = 0;
    return PH_OK;
}

/* At most `start` and `stop` times the character a off the ends of one token. */
static void strip_token(const ph_decode_stage *s, const uint8_t **in, size_t *n) {
    for (uint32_t k = 0; k < s->start && *n >= s->n_a && !memcmp(*in, s->a, s->n_a); k++)
        *in += s->n_a, *n -= s->n_a;
    for (uint32_t k = 0; k < s->stop && *n >= s->n_a && !memcmp(*in + *n - s->n_a, s->a, s->n_a); k++)
        *n -= s->n_a;
}

/* ByteLevel: the bytes its glyphs stand for, or the token's own bytes when one of its characters is no glyph.
 */
static ph_rc byte_level(ph_decoder *d, int i, const uint8_t *in, size_t n, ph_err *err) {
    ph_decode_stage *s = &d->stage[i];
    s->scratch.n = 0;
    for (size_t k = 0; k < n;) {
        ph_utf8_step c = ph_utf8_read(in + k, n - k);
        int          b = c.is_valid ? ph_glyph_byte(c.code_point) : -1;
        uint8_t      byte = (uint8_t)b;
        if (b < 0) return give(d, i + 1, in, n, err);
        PH_TRY(ph_bytes_push(&s->scratch, &byte, 1, err));
        k += (size_t)c.n;
    }
    return give(d, i + 1, s->scratch.at, s->scratch.n, err);
}

/* The suffix of a token's end is a space, but not after the last token: so one token waits in `hold`. */
static ph_rc suffix(ph_decoder *d, int i, const uint8_t *in, size_t n, int is_end, ph_err *err) {
    ph_decode_stage *s = &d->stage[i], one = *s;
    if (s->seen) {
        one.b = (const uint8_t *)" ", one.n_b = is_end ? 0 : 1;
        PH_TRY(replaced(&s->scratch, s->hold.at, s->hold.n, &one, err));
        PH_TRY(give(d, i + 1, s->scratch.at, s->scratch.n, err));
    }
    s->seen = 1;
    s->hold.n = 0;
    return ph_bytes_push(&s->hold, in, n, err);
}

static ph_rc token(ph_decoder *d, int i, const uint8_t *in, size_t n, ph_err *err) {
    ph_decode_stage *s = &d->stage[i];
    switch (s->kind) {
    case PH_OP_REPLACE:
        PH_TRY(replaced(&s->scratch, in, n, s, err));
        break;
    case PH_OP_BYTE_FALLBACK:
        return byte_fallback(d, i, in, n, err);
    case PH_OP_METASPACE:
        PH_TRY(metaspace(s, in, n, err));
        break;
    case PH_OP_WORDPIECE:
        PH_TRY(wordpiece(s, in, n, err));
        break;
    case PH_OP_BPE_SUFFIX:
        return suffix(d, i, in, n, 0, err);
    case PH_OP_BYTES:
        return byte_level(d, i, in, n, err);
    case PH_OP_STRIP:
        strip_token(s, &in, &n);
        return give(d, i + 1, in, n, err);
    case STAGE_JOIN_SPACE:
        if (s->seen++) PH_TRY(give(d, i + 1, (const uint8_t *)" ", 1, err));
        return give(d, i + 1, in, n, err);
    default:
        return give(d, i + 1, in, n, err); /* Fuse */
    }
    s->seen++;
    return give(d, i + 1, s->scratch.at, s->scratch.n, err);
}

/* --- text stages --- */

static int is_beginning(const ph_decode_stage *s) {
    return s->hold.n <= s->n_a && !memcmp(s->hold.at, s->a, s->hold.n);
}

/* a becomes b wherever it comes first; the longest end that may still become a is kept back. */
static ph_rc replace_text(ph_decoder *d, int i, const uint8_t *in, size_t n, ph_err *err) {
    ph_decode_stage *s = &d->stage[i];
    size_t           from = 0;
    for (size_t k = 0, step; k < n; k += step) { /* by characters: the next stage may count on whole ones */
        step = ph_utf8_length(in[k]);
        if (!s->hold.n && in[k] != s->a[0]) continue;
        if (!s->hold.n && from < k) PH_TRY(text(d, i + 1, in + from, k - from, err));
        PH_TRY(ph_bytes_push(&s->hold, in + k, step, err));
        from = k + step;
        while (s->hold.n && !is_beginning(s)) { /* the first character cannot be the beginning of a */
            size_t gone = ph_utf8_length(s->hold.at[0]);
            PH_TRY(text(d, i + 1, s->hold.at, gone, err));
            memmove(s->hold.at, s->hold.at + gone, s->hold.n -= gone);
        }
        if (s->hold.n < s->n_a) continue;
        s->hold.n = 0;
        if (s->n_b) PH_TRY(text(d, i + 1, s->b, s->n_b, err));
    }
    return from < n ? text(d, i + 1, in + from, n - from, err) : PH_OK;
}

/* At most `start` times a off the front; up to `stop` times a are kept back until more comes.
 * A separate replace stage cannot do it: only the ends count. */
static ph_rc strip_text(ph_decoder *d, int i, const uint8_t *in, size_t n, ph_err *err) {
    ph_decode_stage *s = &d->stage[i];
    for (size_t k = 0; k < n;) {
        size_t step = ph_utf8_length(in[k]);
        if (step > n - k) step = n - k;
        int is_a = step == s->n_a && !memcmp(in + k, s->a, step);
        if (is_a && s->seen < s->start) {
            s->seen++;
        } else if (is_a && s->hold.n < s->stop * s->n_a) {
            s->seen = s->start;
            PH_TRY(ph_bytes_push(&s->hold, in + k, step, err));
        } else {
            s->seen = s->start;
            if (!is_a && s->hold.n) {
                PH_TRY(text(d, i + 1, s->hold.at, s->hold.n, err));
                s->hold.n = 0;
            }
            PH_TRY(text(d, i + 1, in + k, step, err));
        }
        k += step;
    }
    return PH_OK;
}

/* Python's str.strip(): its white space is Unicode's and the four information separators. */
static int is_trimmed(uint32_t c) {
    return ph_char_is_space(c) || (c >= 0x1C && c <= 0x1F);
}
static ph_rc trim(ph_decoder *d, int i, const uint8_t *in, size_t n, ph_err *err) {
    ph_decode_stage *s = &d->stage[i];
    for (size_t k = 0; k < n;) {
        ph_utf8_step c = ph_utf8_read(in + k, n - k);
        if (is_trimmed(c.code_point)) {
            if (s->hold.n + (size_t)c.n > d->hold_max) {
                PH_TRY(text(d, i + 1, s->hold.at, s->hold.n, err));
                s->hold.n = 0;
            }
            if (s->seen) PH_TRY(ph_bytes_push(&s->hold, in + k, (size_t)c.n, err));
        } else {
            if (s->hold.n) PH_TRY(text(d, i + 1, s->hold.at, s->hold.n, err));
            s->hold.n = 0;
            s->seen = 1;
            PH_TRY(text(d, i + 1, in + k, (size_t)c.n, err));
        }
        k += (size_t)c.n;
    }
    return PH_OK;
}

/* Whole characters only; the beginning of one is kept back (at most three bytes). */
static ph_rc lossy(ph_decoder *d, int i, const uint8_t *in, size_t n, ph_err *err) {
    ph_bytes *hold = &d->stage[i].hold;
    size_t    good = 0, k = 0;
    while (hold->n && k < n) { /* finish the character that waits, byte by byte */
        PH_TRY(ph_bytes_push(hold, in + k++, 1, err));
        ph_utf8_step c = ph_utf8_read(hold->at, hold->n);
        if (c.is_short) continue;
        if (c.is_valid) {
            PH_TRY(text(d, i + 1, hold->at, hold->n, err));
        } else {
            PH_TRY(text(d, i + 1, (const uint8_t *)"\xEF\xBF\xBD", 3, err));
            k--; /* the byte that did not fit may begin the next */
        }
        hold->n = 0;
    }
    for (good = k; k < n;) {
        ph_utf8_step c = ph_utf8_read(in + k, n - k);
        if (c.is_valid) {
            k += (size_t)c.n;
            continue;
        }
        if (good < k) PH_TRY(text(d, i + 1, in + good, k - good, err));
        if (c.is_short) return ph_bytes_push(hold, in + k, n - k, err);
        PH_TRY(text(d, i + 1, (const uint8_t *)"\xEF\xBF\xBD", 3, err));
        good = k += (size_t)c.n;
    }
    return good < n ? text(d, i + 1, in + good, n - good, err) : PH_OK;
}

static ph_rc text(ph_decoder *d, int i, const uint8_t *bytes, size_t n, ph_err *err) {
    if (i == d->n_stages) return d->sink(d->arg, bytes, n, err);
    switch (d->stage[i].kind) {
    case PH_OP_REPLACE:
        return replace_text(d, i, bytes, n, err);
    case PH_OP_STRIP:
        return strip_text(d, i, bytes, n, err);
    case PH_OP_TRIM:
        return trim(d, i, bytes, n, err);
    default:
        return lossy(d, i, bytes, n, err);
    }
}

/* --- the machine --- */

static ph_decode_stage *stage(ph_decoder *d, int kind, const void *a, size_t n_a, const void *b, size_t n_b) {
    ph_decode_stage *s = &d->stage[d->n_stages++];
    *s = (ph_decode_stage){.kind = kind, .a = a, .n_a = n_a, .b = b, .n_b = n_b};
    return s;
}

/* Room for all that streaming may need, so that an id costs no allocation. */
static ph_rc reserve(ph_decoder *d, ph_err *err) {
    size_t longest = 0, room;
    for (uint32_t id = 0; id < d->t->n_ids; id++)
        if (d->t->piece[id].n > longest) longest = d->t->piece[id].n;
    room = longest > d->hold_max ? longest : d->hold_max;
    for (int i = 0; i < d->n_stages; i++) {
        ph_decode_stage *s = &d->stage[i];
        void            *at = NULL;
        size_t           keeps = s->kind == STAGE_LOSSY                               ? 16
                                 : i >= d->n_token_stages && s->kind == PH_OP_REPLACE ? s->n_a
                                                                                      : room;
        if (s->n_b > s->n_a && s->n_a) room = room / s->n_a * s->n_b + s->n_b;
        PH_TRY(ph_room_grow(&at, &s->hold.cap, 0, keeps + 16, 1, err));
        s->hold.at = at;
        at = NULL;
        if (i >= d->n_token_stages) continue;
        PH_TRY(ph_room_grow(&at, &s->scratch.cap, 0, room + 16, 1, err));
        s->scratch.at = at;
    }
    return PH_OK;
}

ph_rc ph_decoder_open(ph_decoder *d, const ph_tokenizer *t, int skip_special, int clean_up, size_t hold_max,
                      ph_decode_sink *sink, void *arg, ph_err *err) {
    int joined = 0;
    *d = (ph_decoder){.t = t, .skip_special = skip_special, .hold_max = hold_max, .sink = sink, .arg = arg};
    if (!t->has_decoder) stage(d, STAGE_JOIN_SPACE, NULL, 0, NULL, 0);
    for (int i = 0; i < t->n_decode_op; i++) {
        const ph_text_op *op = &t->decode_op[i];
        if (joined && (op->kind == PH_OP_FUSE || op->kind == PH_OP_BYTES)) continue;
        ph_decode_stage *s =
            stage(d, (int)op->kind, ph_tok_text(t, op->a), op->a.n, ph_tok_text(t, op->b), op->b.n);
        s->flag = op->flag, s->start = op->start, s->stop = op->stop;
        if (joined || (op->kind != PH_OP_FUSE && op->kind != PH_OP_BYTES)) continue;
        joined = 1;
        d->n_token_stages = d->n_stages;
        stage(d, STAGE_LOSSY, NULL, 0, NULL, 0);
    }
    if (!joined) {
        d->n_token_stages = d->n_stages;
        stage(d, STAGE_LOSSY, NULL, 0, NULL, 0);
    }
    for (int k = 0; clean_up && k < N_TIDY; k++)
        if (!tidy[k].only_wordpiece)
            stage(d, PH_OP_REPLACE, tidy[k].from, strlen(tidy[k].from), tidy[k].to, strlen(tidy[k].to));
    ph_rc rc = hold_max == SIZE_MAX ? PH_OK : reserve(d, err);
    if (rc) ph_decoder_close(d);
    return rc;
}

void ph_decoder_close(ph_decoder *d) {
    for (int i = 0; i < d->n_stages; i++) {
        ph_bytes_close(&d->stage[i].hold);
        ph_bytes_close(&d->stage[i].scratch);
    }
    *d = (ph_decoder){0};
}

void ph_decoder_begin(ph_decoder *d) {
    for (int i = 0; i < d->n_stages; i++) d->stage[i].seen = d->stage[i].hold.n = d->stage[i].scratch.n = 0;
}

ph_rc ph_decoder_push(ph_decoder *d, int32_t id, ph_err *err) {
    size_t      n;
    const char *piece = ph_tokenizer_piece(d->t, id, &n);
    if (id < 0 || (uint32_t)id >= d->t->n_ids || !(d->t->flags[id] & PH_TOK_PRESENT)) return PH_OK;
    if (d->skip_special && (d->t->flags[id] & PH_TOK_CONTROL)) return PH_OK;
    return give(d, 0, (const uint8_t *)piece, n, err);
}

ph_rc ph_decoder_end(ph_decoder *d, ph_err *err) {
    for (int i = 0; i < d->n_stages; i++) { /* in order: what one gives out, the next may keep */
        ph_decode_stage *s = &d->stage[i];
        size_t           n = s->hold.n;
        if (i < d->n_token_stages) {
            if (s->kind == PH_OP_BYTE_FALLBACK) PH_TRY(end_run(d, i, err));
            if (s->kind == PH_OP_BPE_SUFFIX && s->seen) PH_TRY(suffix(d, i, NULL, 0, 1, err));
        } else if (n && s->kind == PH_OP_REPLACE) {
            PH_TRY(text(d, i + 1, s->hold.at, n, err));
        } else if (n && s->kind == STAGE_LOSSY) {
            PH_TRY(text(d, i + 1, (const uint8_t *)"\xEF\xBF\xBD", 3, err));
        }
        s->hold.n = 0; /* Strip and Trim: the end is reached, what they kept is dropped */
    }
    return PH_OK;
}

/* --- the whole at once --- */

static ph_rc append(void *arg, const uint8_t *bytes, size_t n, ph_err *err) {
    return ph_bytes_push(arg, bytes, n, err);
}

ph_rc ph_tokenizer_decode_as(const ph_tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                             int clean_up, ph_bytes *out, ph_err *err) {
    ph_decoder d;
    PH_TRY(ph_decoder_open(&d, t, skip_special, clean_up, SIZE_MAX, append, out, err));
    ph_rc rc = PH_OK;
    for (size_t i = 0; i < n && !rc; i++) rc = ph_decoder_push(&d, ids[i], err);
    if (!rc) rc = ph_decoder_end(&d, err);
    ph_decoder_close(&d);
    return rc;
}

ph_rc ph_tokenizer_decode(const ph_tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                          ph_bytes *out, ph_err *err) {
    return ph_tokenizer_decode_as(t, ids, n, skip_special, t->clean_up, out, err);
}
