/* toknormal.c - the normalizers: text to the spelling that the vocabulary was trained on.
 *
 * Each step reads the text and writes the next one; two buffers take turns.  Characters are treated one by
 * one, without context (no final sigma), as Hugging Face tokenizers does.
 * Source: tokenizers 0.22 (normalizers/); Unicode forms by utf8proc.
 */
#include "text/tokenizer_tables.h"

#include "base/mem.h"
#include "text/utf8.h"

#include <limits.h>
#include <string.h>
#include <utf8proc.h>

/* The characters that text becomes, the marks not yet in order, as far as cap goes; how many they are, or
 * less than 0. */
static utf8proc_ssize_t decompose(const ph_bytes *in, utf8proc_int32_t *at, size_t cap, int options) {
    size_t n = 0;
    int    boundary = 0;
    for (size_t i = 0; i < in->n;) {
        ph_utf8_step     s = ph_utf8_read(in->at + i, in->n - i);
        size_t           used = n < cap ? n : cap;
        utf8proc_ssize_t more =
            utf8proc_decompose_char((utf8proc_int32_t)s.code_point, at + used, (utf8proc_ssize_t)(cap - used),
                                    (utf8proc_option_t)options, &boundary);
        if (more < 0) return more;
        n += (size_t)more;
        i += (size_t)s.n;
    }
    return (utf8proc_ssize_t)n;
}

static int mark_class(utf8proc_int32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class & 255;
}

/* A run of marks by their classes, equal ones as they stood; spare[n].  Counted, not exchanged as utf8proc
 * does: a megabyte of marks without a letter must not take hours. */
static void order_run(utf8proc_int32_t *at, utf8proc_int32_t *spare, size_t n) {
    size_t place[257] = {0};
    for (size_t i = 0; i < n; i++) place[mark_class(at[i]) + 1]++;
    for (size_t k = 1; k < 257; k++) place[k] += place[k - 1];
    for (size_t i = 0; i < n; i++) spare[place[mark_class(at[i])]++] = at[i];
    memcpy(at, spare, n * sizeof *at);
}

static void order_marks(utf8proc_int32_t *at, utf8proc_int32_t *spare, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t first = i;
        int    is_ordered = 1;
        while (i < n && mark_class(at[i])) {
            if (i > first && mark_class(at[i]) < mark_class(at[i - 1])) is_ordered = 0;
            i++;
        }
        if (!is_ordered) order_run(at + first, spare, i - first);
        if (i == first) i++;
    }
}

/* utf8proc works on code points in place; `out` holds them and room to order as many, then their UTF-8. */
static ph_rc unicode_form(const ph_bytes *in, ph_bytes *out, int options, ph_err *err) {
    size_t           bytes, cap = 0;
    utf8proc_ssize_t n = (utf8proc_ssize_t)in->n;
    while (cap < (size_t)n) { /* once, twice where characters become longer than their bytes */
        void *at = out->at;
        out->n = 0;
        cap = (size_t)n;
        if (ph_mul_over(cap + 1, 2 * sizeof(utf8proc_int32_t), &bytes))
            return PH_FAIL(err, PH_ELIMIT, "text: %zu characters", cap);
        PH_TRY(ph_room_grow(&at, &out->cap, 0, bytes, 1, err));
        out->at = at;
        n = decompose(in, at, cap, options);
        if (n < 0) return PH_FAIL(err, PH_EBUG, "text: utf8proc: %s", utf8proc_errmsg(n));
    }
    utf8proc_int32_t *at = (utf8proc_int32_t *)(void *)out->at;
    if (n) order_marks(at, at + n + 1, (size_t)n);
    if (n) n = utf8proc_reencode(at, n, (utf8proc_option_t)options);
    if (n < 0) return PH_FAIL(err, PH_EBUG, "text: utf8proc: %s", utf8proc_errmsg(n));
    out->n = (size_t)n;
    return PH_OK;
}

/* NFC of text that is all below U+0300 is the text itself: no need to ask. */
static int is_plain(const ph_bytes *in) {
    for (size_t i = 0; i < in->n; i++)
        if (in->at[i] >= 0xCC) return 0;
    return 1;
}

static ph_rc lower_char(ph_bytes *out, uint32_t c, ph_err *err) {
    if (c == 0x130) return ph_bytes_push(out, "i\xCC\x87", 3, err); /* the one lower case of two characters */
    return ph_bytes_push_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c), err);
}

static int is_nmt_dropped(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}
static int is_nmt_space(uint32_t c) {
    return c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}
static int is_cjk(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}
static int is_bert_dropped(uint32_t c) {
    if (c == 0 || c == 0xFFFD) return 1;
    if (c == '\t' || c == '\n' || c == '\r') return 0;
    /* Format characters that are younger than the trainer's tables stay, as unassigned ones do. */
    if (c == 0x890 || c == 0x891 || c == 0x8E2 || c == 0x110CD || (c >= 0x13430 && c <= 0x1343F)) return 0;
    int k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

/* Steps that look at one character at a time. */
static ph_rc one_char(const ph_text_op *op, uint32_t c, ph_bytes *out, ph_err *err) {
    switch (op->kind) {
    case PH_OP_LOWER:
        return lower_char(out, c, err);
    case PH_OP_STRIP_ACCENTS: {
        int k = utf8proc_category((utf8proc_int32_t)c);
        int is_mark = k == UTF8PROC_CATEGORY_MN ||
                      (!op->flag && (k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME));
        return is_mark ? PH_OK : ph_bytes_push_char(out, c, err);
    }
    case PH_OP_NMT:
        if (is_nmt_dropped(c)) return PH_OK;
        return ph_bytes_push_char(out, is_nmt_space(c) ? ' ' : c, err);
    case PH_OP_BERT: /* cleaning and CJK; accents and case are steps of their own */
        if ((op->flag & 1) && is_bert_dropped(c)) return PH_OK;
        if ((op->flag & 1) && ph_char_is_space(c)) c = ' ';
        if (!(op->flag & 2) || !is_cjk(c)) return ph_bytes_push_char(out, c, err);
        PH_TRY(ph_bytes_push(out, " ", 1, err));
        PH_TRY(ph_bytes_push_char(out, c, err));
        return ph_bytes_push(out, " ", 1, err);
    default:
        return ph_bytes_push_char(out, c, err);
    }
}

static ph_rc char_by_char(const ph_text_op *op, const ph_bytes *in, ph_bytes *out, ph_err *err) {
    for (size_t i = 0; i < in->n;) {
        ph_utf8_step s = ph_utf8_read(in->at + i, in->n - i);
        PH_TRY(one_char(op, s.code_point, out, err));
        i += (size_t)s.n;
    }
    return PH_OK;
}

/* A chain of replacements grows text by powers: what no prompt needs is refused before it is held. */
enum { NORMAL_BYTES_MAX = 512 << 20 };

static ph_rc replace(const ph_tokenizer *t, const ph_text_op *op, const ph_bytes *in, ph_bytes *out,
                     ph_err *err) {
    ph_search s;
    size_t    from = 0, begin, end;
    int       found = 0;
    PH_TRY(ph_search_open(&s, &op->pattern, in->n, err));
    ph_search_begin(&s, in->at, in->n);
    ph_rc rc = ph_search_next(&s, &found, &begin, &end, err);
    while (!rc && found) {
        rc = ph_bytes_push(out, in->at + from, begin - from, err);
        if (!rc && out->n > NORMAL_BYTES_MAX)
            rc =
                PH_FAIL(err, PH_ELIMIT, "text: the tokenizer's replacements make %zu bytes into more than %d",
                        in->n, NORMAL_BYTES_MAX);
        if (!rc) rc = ph_bytes_push(out, ph_tok_text(t, op->b), op->b.n, err);
        from = end;
        if (!rc) rc = ph_search_next(&s, &found, &begin, &end, err);
    }
    if (!rc) rc = ph_bytes_push(out, in->at + from, in->n - from, err);
    ph_search_close(&s);
    return rc;
}

static ph_rc strip(const ph_text_op *op, const ph_bytes *in, ph_bytes *out, int *lead_lost, ph_err *err) {
    size_t begin = 0, end = in->n;
    while (op->start && begin < end) {
        ph_utf8_step s = ph_utf8_read(in->at + begin, end - begin);
        if (!ph_char_is_space(s.code_point)) break;
        begin += (size_t)s.n;
    }
    while (op->stop && end > begin) {
        size_t at = ph_utf8_before(in->at, end);
        if (!ph_char_is_space(ph_utf8_read(in->at + at, end - at).code_point)) break;
        end = at;
    }
    if (begin) *lead_lost = 1;
    return ph_bytes_push(out, in->at + begin, end - begin, err);
}

/* SentencePiece's remove_extra_whitespaces: none at the ends, one where there were several. */
static ph_rc squeeze(const ph_bytes *in, ph_bytes *out, int *lead_lost, ph_err *err) {
    if (in->n && in->at[0] == ' ') *lead_lost = 1;
    for (size_t i = 0; i < in->n; i++) {
        if (in->at[i] == ' ' && (!out->n || out->at[out->n - 1] == ' ')) continue;
        PH_TRY(ph_bytes_push(out, in->at + i, 1, err));
    }
    if (out->n && out->at[out->n - 1] == ' ') out->n--;
    return PH_OK;
}

static ph_rc glyphs(const ph_bytes *in, ph_bytes *out, ph_err *err) {
    for (size_t i = 0; i < in->n; i++) PH_TRY(ph_bytes_push_char(out, ph_byte_glyph(in->at[i]), err));
    return PH_OK;
}

static ph_rc step(const ph_tokenizer *t, const ph_text_op *op, const ph_bytes *in, ph_bytes *out,
                  int *lead_lost, ph_err *err) {
    switch (op->kind) {
    case PH_OP_NFC:
        return unicode_form(in, out, UTF8PROC_STABLE | UTF8PROC_COMPOSE, err);
    case PH_OP_NFD:
        return unicode_form(in, out, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, err);
    case PH_OP_NFKC:
        return unicode_form(in, out, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, err);
    case PH_OP_NFKD:
        return unicode_form(in, out, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, err);
    case PH_OP_PREPEND:
        if (in->n) PH_TRY(ph_bytes_push(out, ph_tok_text(t, op->a), op->a.n, err));
        return ph_bytes_push(out, in->at, in->n, err);
    case PH_OP_REPLACE:
        return replace(t, op, in, out, err);
    case PH_OP_STRIP:
        return strip(op, in, out, lead_lost, err);
    case PH_OP_SQUEEZE:
        return squeeze(in, out, lead_lost, err);
    case PH_OP_BYTES:
        return glyphs(in, out, err);
    case PH_OP_CHARSMAP:
        return ph_precompiled_map(ph_tok_text(t, op->a), op->a.n, in->at, in->n, op->flag, out, err);
    default:
        return char_by_char(op, in, out, err);
    }
}

ph_rc ph_normalize(const ph_tokenizer *t, ph_bytes *text, ph_bytes *spare, int *lead_lost, ph_err *err) {
    for (int i = 0; i < t->n_norm_op; i++) {
        const ph_text_op *op = &t->norm_op[i];
        if (op->kind <= PH_OP_NFD && is_plain(text) && op->kind == PH_OP_NFC) continue;
        if (!text->n) continue;
        spare->n = 0;
        PH_TRY(step(t, op, text, spare, lead_lost, err));
        ph_bytes swap = *text;
        *text = *spare;
        *spare = swap;
    }
    return PH_OK;
}
