/* tokjson_lists.c - the two long lists of tokenizer.json, read where they stand.
 *
 *     {..., "model": {..., "vocab": {"a": 0, ...}, "merges": ["a b", ["c", "d"], ...]}}
 *                                   └─ looked over ─► pieces        └─► merges
 *     {..., "model": {..., "vocab": {},            "merges": []}}          ─► the parser (formats/json.h)
 *
 * They are nearly all of such a file, and a tree of their nodes took ten times what is kept of them, and most
 * of the time of opening.  A list is taken out only where every item is as trainers write it; else it stays,
 * and the parser reads it or says what is wrong, and where.
 */
#include "text/tokjson.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

static int peek(const cursor *c) {
    return c->at < c->end ? *c->at : -1;
}
static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t')) c->at++;
}
/* The next character that is no white space, if it is this one. */
static int take(cursor *c, int what) {
    skip_space(c);
    if (peek(c) != what) return 0;
    c->at++;
    return 1;
}

/* ---- strings ---- */

static int hex4(cursor *c, uint32_t *out) {
    *out = 0;
    if (c->end - c->at < 4) return 0;
    for (int i = 0; i < 4; i++) {
        int h = *c->at++, low = h | 32;
        int digit = h >= '0' && h <= '9' ? h - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0) return 0;
        *out = *out << 4 | (uint32_t)digit;
    }
    return 1;
}

/* What stands behind a backslash; 0: nothing that is read here.  NUL is left to the parser. */
static int escaped(cursor *c, uint32_t *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t          second;
    const char       *name;
    int               which = peek(c);
    if (which <= 0) return 0;
    c->at++;
    if (which != 'u') {
        name = strchr(names, which);
        if (name) *out = (uint8_t)values[name - names];
        return name != NULL;
    }
    if (!hex4(c, out) || !*out || (*out >= 0xDC00 && *out <= 0xDFFF)) return 0;
    if (*out < 0xD800 || *out > 0xDBFF) return 1;
    if (c->end - c->at < 6 || *c->at++ != '\\' || *c->at++ != 'u' || !hex4(c, &second)) return 0;
    *out = 0x10000 + ((*out - 0xD800) << 10) + (second - 0xDC00);
    return second >= 0xDC00 && second <= 0xDFFF;
}

/* The string at c: its bytes between the quotes, and whether there are escapes among them.  0: none that is
 * read here. */
static int raw_string(cursor *c, ph_blob *out, int *has_escapes) {
    uint32_t code;
    *has_escapes = 0;
    if (!take(c, '"')) return 0;
    const uint8_t *begin = c->at;
    for (;;) {
        int ch = peek(c);
        if (ch < 0x20) return 0; /* the end, or a control character */
        c->at++;
        if (ch == '"') break;
        if (ch != '\\') continue;
        *has_escapes = 1;
        if (!escaped(c, &code)) return 0;
    }
    *out = (ph_blob){begin, (size_t)(c->at - 1 - begin)};
    return ph_utf8_is_valid(begin, out->n);
}

/* The same as text, in `into` where it has escapes.  It was looked over before. */
static ph_rc text_at(cursor *c, ph_bytes *into, ph_blob *out, ph_err *err) {
    int      has_escapes;
    uint32_t code;
    raw_string(c, out, &has_escapes);
    if (!has_escapes) return PH_OK;
    cursor in = {out->bytes, (const uint8_t *)out->bytes + out->n};
    into->n = 0;
    while (in.at < in.end) {
        if (*in.at != '\\') {
            PH_TRY(ph_bytes_push(into, in.at++, 1, err));
            continue;
        }
        in.at++;
        escaped(&in, &code);
        PH_TRY(ph_bytes_push_char(into, code, err));
    }
    *out = (ph_blob){into->at, into->n};
    return PH_OK;
}

/* ---- looking over ---- */

enum { DIGITS_MAX = 15 };

static int whole_number(cursor *c, int64_t *out) {
    int n = 0;
    skip_space(c);
    for (*out = 0; peek(c) >= '0' && peek(c) <= '9' && n <= DIGITS_MAX; n++)
        *out = *out * 10 + *c->at++ - '0';
    int is_padded = n > 1 && c->at[-n] == '0', goes_on = peek(c) >= 0 && strchr(".eE0123456789", peek(c));
    return n && n <= DIGITS_MAX && !is_padded && !goes_on;
}

static int plain_pair(cursor *c) {
    ph_blob text;
    int     has_escapes;
    int64_t id;
    return raw_string(c, &text, &has_escapes) && take(c, ':') && whole_number(c, &id);
}

static int plain_merge(cursor *c) {
    ph_blob text;
    int     has_escapes;
    if (!take(c, '['))
        return raw_string(c, &text, &has_escapes) && text.n && memchr(text.bytes, ' ', text.n) != NULL;
    return raw_string(c, &text, &has_escapes) && take(c, ',') && raw_string(c, &text, &has_escapes) &&
           take(c, ']');
}

/* The list at c, if all its items are plain: its bytes, brackets included, and c behind it.  0: it stays. */
static int look_over(cursor *at, const char brackets[2], int (*item)(cursor *c), ph_tokjson_list *out) {
    cursor c = *at;
    size_t n = 0;
    if (out->text.bytes || !take(&c, brackets[0])) return 0;
    if (!take(&c, brackets[1])) {
        do {
            if (!item(&c)) return 0;
            n++;
        } while (take(&c, ','));
        if (!take(&c, brackets[1])) return 0;
    }
    *out = (ph_tokjson_list){{at->at, (size_t)(c.at - at->at)}, n};
    *at = c;
    return 1;
}

/* Behind the value at c, in text that the parser will find well-formed or refuse. */
static void skip_value(cursor *c) {
    int depth = 0;
    do {
        skip_space(c);
        int ch = peek(c);
        if (ch < 0) return;
        c->at++;
        depth += (ch == '{' || ch == '[') - (ch == '}' || ch == ']');
        if (ch == '"')
            for (; c->at < c->end && *c->at != '"'; c->at++)
                if (*c->at == '\\' && c->at + 1 < c->end) c->at++;
        if (ch == '"' && c->at < c->end) c->at++;
        int is_word = !strchr("{}[]\",:", ch);
        while (is_word && c->at < c->end && !strchr("{}[]\",: \t\r\n", *c->at)) c->at++;
    } while (depth > 0);
}

/* Is the member called so, without escapes?  c stands at its value then, or behind it. */
static int next_member(cursor *c, int *is_first, ph_blob *key) {
    int has_escapes;
    if (!*is_first && !take(c, ',')) return 0;
    *is_first = 0;
    if (!raw_string(c, key, &has_escapes) || !take(c, ':')) return 0;
    skip_space(c);
    return 1;
}
static int is_called(ph_blob key, const char *name) {
    return key.n == strlen(name) && !memcmp(key.bytes, name, key.n);
}

/* c: at the model, then behind it. */
static void look_into_model(cursor *c, ph_tokjson_lists *l) {
    ph_blob key;
    int     is_first = 1;
    if (peek(c) != '{') {
        skip_value(c);
        return;
    }
    c->at++;
    while (next_member(c, &is_first, &key)) {
        int is_out = is_called(key, "vocab")    ? look_over(c, "{}", plain_pair, &l->vocab)
                     : is_called(key, "merges") ? look_over(c, "[]", plain_merge, &l->merges)
                                                : 0;
        if (!is_out) skip_value(c);
    }
    take(c, '}');
}

/* ---- taking out ---- */

static ph_rc push_until(ph_tokjson_lists *l, const uint8_t **at, const ph_tokjson_list *list,
                        const char *instead, ph_err *err) {
    const uint8_t *begin = list->text.bytes;
    if (!begin) return PH_OK;
    PH_TRY(ph_bytes_push(&l->rest, *at, (size_t)(begin - *at), err));
    *at = begin + list->text.n;
    return ph_bytes_push(&l->rest, instead, 2, err);
}

ph_rc ph_tokjson_take(ph_tokjson_lists *l, ph_blob file, ph_err *err) {
    cursor         c = {file.bytes, (const uint8_t *)file.bytes + file.n};
    const uint8_t *at = file.bytes;
    ph_blob        key;
    int            is_first = 1, seen = 0;
    *l = (ph_tokjson_lists){0};
    if (file.n > PH_JSON_BYTES_MAX || !take(&c, '{')) return PH_OK;
    while (next_member(&c, &is_first, &key))
        if (is_called(key, "model") && !seen++)
            look_into_model(&c, l);
        else
            skip_value(&c);
    if (!l->vocab.text.bytes && !l->merges.text.bytes) return PH_OK;
    int vocab_first = (uintptr_t)l->vocab.text.bytes < (uintptr_t)l->merges.text.bytes;
    if (vocab_first) PH_TRY(push_until(l, &at, &l->vocab, "{}", err));
    PH_TRY(push_until(l, &at, &l->merges, "[]", err));
    if (!vocab_first) PH_TRY(push_until(l, &at, &l->vocab, "{}", err));
    return ph_bytes_push(&l->rest, at, (size_t)(c.end - at), err);
}

void ph_tokjson_lists_close(ph_tokjson_lists *l) {
    ph_bytes_close(&l->rest);
    *l = (ph_tokjson_lists){0};
}

/* ---- reading what was taken ---- */

static ph_rc pairs(ph_tok_build *b, const ph_tokjson_list *list, ph_bytes *scratch, ph_err *err) {
    cursor c = {list->text.bytes, (const uint8_t *)list->text.bytes + list->text.n};
    c.at++;
    for (size_t i = 0; i < list->n; i++) {
        ph_blob text;
        int64_t id;
        PH_TRY(text_at(&c, scratch, &text, err));
        take(&c, ':');
        whole_number(&c, &id);
        take(&c, ',');
        PH_TRY(ph_build_piece_put(b, id, text.bytes, text.n, 0, PH_TOK_MODEL, err));
    }
    return PH_OK;
}

/* As the parser has it of every object: no key twice. */
static ph_rc no_doubles(const ph_tok_build *b, size_t n, ph_err *err) {
    size_t n_there = 0;
    for (size_t id = 0; id < b->n_piece; id++) {
        const ph_build_piece *p = &b->piece[id];
        const uint8_t        *text = b->blob.at + p->text.at;
        if (!(p->flags & PH_TOK_MODEL)) continue;
        n_there++;
        if (ph_build_find(b, text, p->text.n) != (int32_t)id)
            return PH_FAIL(err, PH_EFORMAT, "%s: model.vocab: \"%.*s\" is there twice", b->where,
                           p->text.n < 40 ? (int)p->text.n : 40, (const char *)text);
    }
    if (n_there == n) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s: model.vocab: %zu of its %zu pieces are there twice", b->where,
                   n - n_there, n);
}

ph_rc ph_tokjson_vocab(ph_tok_build *b, const ph_tokjson_list *list, ph_err *err) {
    ph_bytes scratch = {0};
    b->n_expected = list->n;
    ph_rc rc = pairs(b, list, &scratch, err);
    ph_bytes_close(&scratch);
    if (!rc) rc = ph_build_index(b, err);
    return rc ? rc : no_doubles(b, list->n, err);
}

/* One merge: "left right" or ["left", "right"]. */
static ph_rc merge(ph_tok_build *b, cursor *c, ph_bytes scratch[2], ph_err *err) {
    ph_blob     left, right;
    const char *space, *text;
    if (take(c, '[')) {
        PH_TRY(text_at(c, &scratch[0], &left, err));
        take(c, ',');
        PH_TRY(text_at(c, &scratch[1], &right, err));
        take(c, ']');
        return ph_build_merge(b, left.bytes, left.n, right.bytes, right.n, err);
    }
    PH_TRY(text_at(c, &scratch[0], &left, err));
    text = left.bytes;
    if (left.n >= 8 && !memcmp(text, "#version", 8)) return PH_OK;
    space = memchr(text, ' ', left.n);
    size_t n = (size_t)(space - text);
    return ph_build_merge(b, text, n, space + 1, left.n - n - 1, err);
}

ph_rc ph_tokjson_merges(ph_tok_build *b, const ph_tokjson_list *list, ph_err *err) {
    cursor   c = {list->text.bytes, (const uint8_t *)list->text.bytes + list->text.n};
    ph_bytes scratch[2] = {{0}};
    ph_rc    rc = PH_OK;
    c.at++;
    for (size_t i = 0; i < list->n && !rc; i++) {
        rc = merge(b, &c, scratch, err);
        take(&c, ',');
    }
    ph_bytes_close(&scratch[0]);
    ph_bytes_close(&scratch[1]);
    return rc;
}
