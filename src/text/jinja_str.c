/* jinja_str.c - strings whose every byte knows where it came from.
 *
 * A string is bytes [n] and marks [n] (or one mark for all).  Both are shared, never changed: a slice
 * points into its source.  The one exception is growth: a string that ends where its buffer's used part
 * ends is extended in place by concatenation, so "ns.s = ns.s + x" in a loop is linear.
 *
 * Positions inside are bytes; the language counts code points, converted at the edges.  Bytes that are
 * no UTF-8 count as one character each and are passed through.
 */
#include "text/jinja_impl.h"

#include <utf8proc.h>

/* ---- building */

static ph_rc reserve(ph_jrun *r, ph_jbuf *b, size_t n) {
    size_t need, cap = b->cap ? b->cap : 32;
    char  *p;
    if (ph_add_over(b->used, n, &need) || need > r->limits.bytes)
        return PH_J_FAIL(r, "memory limit of %zu bytes reached", r->limits.bytes);
    if (b == r->out && need > r->limits.out_bytes)
        return PH_J_FAIL(r, "output limit of %zu bytes reached", r->limits.out_bytes);
    if (need <= b->cap) return PH_OK;
    while (cap < need) cap *= 2;
    PH_TRY(ph_j_carve(r, &p, cap, 2));
    if (b->used) {
        memcpy(p, b->p, b->used);
        memcpy(p + cap, b->mark, b->used);
    }
    b->p = p;
    b->mark = (uint8_t *)p + cap;
    b->cap = cap;
    return PH_OK;
}

ph_rc ph_js_put(ph_jrun *r, ph_jbuf *b, const char *p, size_t n, int mark) {
    if (!n) return PH_OK;
    PH_TRY(ph_j_step(r, n / 64));
    PH_TRY(reserve(r, b, n));
    memcpy(b->p + b->used, p, n);
    memset(b->mark + b->used, mark, n);
    b->used += n;
    return PH_OK;
}

ph_rc ph_js_puts(ph_jrun *r, ph_jbuf *b, const char *z, int mark) {
    return ph_js_put(r, b, z, strlen(z), mark);
}

ph_rc ph_js_put_part(ph_jrun *r, ph_jbuf *b, const ph_jstr *s, size_t at, size_t n) {
    if (!n) return PH_OK;
    PH_TRY(ph_js_put(r, b, s->p + at, n, s->all));
    if (s->mark) memcpy(b->mark + b->used - n, s->mark + at, n);
    return PH_OK;
}

ph_rc ph_js_put_str(ph_jrun *r, ph_jbuf *b, const ph_jstr *s) {
    return ph_js_put_part(r, b, s, 0, s->n);
}

ph_rc ph_js_put_cp(ph_jrun *r, ph_jbuf *b, uint32_t cp, int mark) {
    utf8proc_uint8_t u[4];
    utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)cp, u);
    return ph_js_put(r, b, (const char *)u, n > 0 ? (size_t)n : 0, mark);
}

/* The buffer is copied to the heap of the run so that the string may grow in place later. */
ph_rc ph_js_done(ph_jrun *r, ph_jbuf *b, ph_jv *out) {
    ph_jstr *s;
    PH_TRY(ph_j_carve(r, &s, 1, sizeof *s));
    s->p = b->used ? b->p : "";
    s->n = b->used;
    s->all = PH_JINJA_TRUSTED;
    if (b->used) {
        s->mark = b->mark;
        PH_TRY(ph_j_carve(r, &s->buf, 1, sizeof *s->buf));
        *s->buf = *b;
    }
    *out = ph_j_ptr(PH_J_STR, s);
    return PH_OK;
}

ph_rc ph_js_part(ph_jrun *r, const ph_jstr *s, size_t at, size_t n, ph_jv *out) {
    ph_jstr *t;
    PH_TRY(ph_j_carve(r, &t, 1, sizeof *t));
    t->p = s->p + at;
    t->mark = s->mark ? s->mark + at : NULL;
    t->n = n;
    t->all = s->all;
    *out = ph_j_ptr(PH_J_STR, t);
    return PH_OK;
}

ph_rc ph_js_make(ph_jrun *r, const char *p, size_t n, int mark, ph_jv *out) {
    ph_jstr *s;
    char    *copy;
    PH_TRY(ph_j_carve(r, &s, 1, sizeof *s));
    PH_TRY(ph_j_carve(r, &copy, n, 1));
    if (n) memcpy(copy, p, n);
    s->p = copy;
    s->n = n;
    s->all = (uint8_t)mark;
    *out = ph_j_ptr(PH_J_STR, s);
    return PH_OK;
}

ph_rc ph_js_lit(ph_jrun *r, const char *z, ph_jv *out) {
    ph_jstr *s;
    PH_TRY(ph_j_carve(r, &s, 1, sizeof *s));
    s->p = z;
    s->n = strlen(z);
    s->all = PH_JINJA_TRUSTED;
    *out = ph_j_ptr(PH_J_STR, s);
    return PH_OK;
}

ph_rc ph_js_concat(ph_jrun *r, const ph_jstr *a, const ph_jstr *b, ph_jv *out) {
    ph_jbuf *home = a->buf;
    if (home && a->p + a->n == home->p + home->used && b->n <= home->cap - home->used) {
        ph_jstr *s;
        PH_TRY(ph_js_put_str(r, home, b)); /* fits: nothing moves, older strings still end where they did */
        PH_TRY(ph_j_carve(r, &s, 1, sizeof *s));
        *s = (ph_jstr){.p = a->p, .mark = a->mark, .n = a->n + b->n, .buf = home, .all = a->all};
        *out = ph_j_ptr(PH_J_STR, s);
        return PH_OK;
    }
    ph_jbuf buf = {0};
    PH_TRY(ph_js_put_str(r, &buf, a));
    PH_TRY(ph_js_put_str(r, &buf, b));
    return ph_js_done(r, &buf, out);
}

ph_rc ph_js_to_markup(ph_jrun *r, const ph_jstr *s, int escape, ph_jv *out) {
    static const struct {
        char        c;
        const char *text;
    } table[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    ph_jbuf  b = {0};
    ph_jstr *t;
    for (size_t i = 0; i < s->n; i++) {
        const char *to = NULL;
        for (size_t k = 0; k < sizeof table / sizeof *table && escape; k++)
            if (s->p[i] == table[k].c) to = table[k].text;
        if (to)
            PH_TRY(ph_js_puts(r, &b, to, ph_js_mark(s, i)));
        else
            PH_TRY(ph_js_put_part(r, &b, s, i, 1));
    }
    PH_TRY(ph_j_carve(r, &t, 1, sizeof *t));
    *t = (ph_jstr){
        .p = b.used ? b.p : "", .mark = b.mark, .n = b.used, .all = PH_JINJA_TRUSTED, .is_markup = 1};
    *out = ph_j_ptr(PH_J_STR, t);
    return PH_OK;
}

/* ---- looking */

int ph_js_mark(const ph_jstr *s, size_t at) {
    return s->mark ? s->mark[at] : s->all;
}

uint32_t ph_js_cp(const char *p, size_t n, size_t *len) {
    utf8proc_int32_t cp;
    utf8proc_ssize_t k =
        utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)(n < 4 ? n : 4), &cp);
    if (k <= 0) {
        *len = 1;
        return 0xFFFD;
    }
    *len = (size_t)k;
    return (uint32_t)cp;
}

size_t ph_js_chars(const ph_jstr *s) {
    size_t count = 0, len;
    for (size_t i = 0; i < s->n; i += len, count++) ph_js_cp(s->p + i, s->n - i, &len);
    return count;
}

size_t ph_js_offset(const ph_jstr *s, size_t char_at) {
    size_t i = 0, len;
    for (; i < s->n && char_at; i += len, char_at--) ph_js_cp(s->p + i, s->n - i, &len);
    return i;
}

size_t ph_js_find(const ph_jstr *s, size_t from, const ph_jstr *what) {
    if (from > s->n || what->n > s->n - from) return SIZE_MAX;
    if (!what->n) return from;
    const char *p = memmem(s->p + from, s->n - from, what->p, what->n);
    return p ? (size_t)(p - s->p) : SIZE_MAX;
}

/* The last place at which what ends at or before end. */
size_t ph_js_rfind(const ph_jstr *s, size_t end, const ph_jstr *what) {
    if (what->n > end) return SIZE_MAX;
    for (size_t i = end - what->n + 1; i-- > 0;)
        if (!memcmp(s->p + i, what->p, what->n)) return i;
    return SIZE_MAX;
}

int ph_js_is(const ph_jstr *s, const char *z) {
    return s->n == strlen(z) && !memcmp(s->p, z, s->n);
}

int ph_js_equal(const ph_jstr *a, const ph_jstr *b) {
    return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

int ph_js_space(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

/* ---- transforming */

static int strippable(const ph_jstr *chars, uint32_t cp) {
    size_t len;
    if (!chars) return ph_js_space(cp);
    for (size_t i = 0; i < chars->n; i += len)
        if (ph_js_cp(chars->p + i, chars->n - i, &len) == cp) return 1;
    return 0;
}

static size_t char_before(const ph_jstr *s, size_t end, size_t start) {
    size_t i = end - 1;
    for (int k = 0; k < 3 && i > start && ((unsigned char)s->p[i] & 0xC0) == 0x80; k++) i--;
    size_t len;
    ph_js_cp(s->p + i, s->n - i, &len);
    return i + len == end ? i : end - 1;
}

ph_rc ph_js_strip(ph_jrun *r, const ph_jstr *s, const ph_jstr *chars, int sides, ph_jv *out) {
    size_t lo = 0, hi = s->n, len;
    PH_TRY(ph_j_step(r, 1 + (chars ? chars->n / 8 * (s->n / 64 + 1) : 0)));
    while (sides & 1 && lo < hi && strippable(chars, ph_js_cp(s->p + lo, s->n - lo, &len))) lo += len;
    while (sides & 2 && hi > lo) {
        size_t i = char_before(s, hi, lo);
        if (!strippable(chars, ph_js_cp(s->p + i, s->n - i, &len))) break;
        hi = i;
    }
    return ph_js_part(r, s, lo, hi - lo, out);
}

static int is_line_end(uint32_t cp) {
    return (cp >= 10 && cp <= 13) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

ph_rc ph_js_split_lines(ph_jrun *r, const ph_jstr *s, int keep_ends, ph_jlist *out) {
    size_t start = 0, len;
    ph_jv  line;
    for (size_t i = 0; i < s->n; i += len) {
        uint32_t cp = ph_js_cp(s->p + i, s->n - i, &len);
        if (!is_line_end(cp)) continue;
        if (cp == '\r' && i + 1 < s->n && s->p[i + 1] == '\n') len = 2;
        PH_TRY(ph_js_part(r, s, start, (keep_ends ? i + len : i) - start, &line));
        PH_TRY(ph_j_list_push(r, out, line));
        start = i + len;
    }
    if (start == s->n) return PH_OK;
    PH_TRY(ph_js_part(r, s, start, s->n - start, &line));
    return ph_j_list_push(r, out, line);
}

static ph_rc put_upper(ph_jrun *r, ph_jbuf *b, uint32_t cp, int mark, int title) {
    if (cp == 0xDF)
        return ph_js_puts(r, b, title ? "Ss" : "SS", mark); /* the common one of the full mappings */
    return ph_js_put_cp(
        r, b,
        (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)cp) : utf8proc_toupper((utf8proc_int32_t)cp)),
        mark);
}

static ph_rc put_cased(ph_jrun *r, ph_jbuf *b, uint32_t cp, int mark, int how, int at_start) {
    utf8proc_int32_t c = (utf8proc_int32_t)cp;
    switch (how) {
    case PH_JS_UPPER:
        return put_upper(r, b, cp, mark, 0);
    case PH_JS_SWAP:
        if (utf8proc_tolower(c) != c) break;
        return put_upper(r, b, cp, mark, 0);
    case PH_JS_TITLE:
    case PH_JS_CAPITALIZE:
        if (at_start) return put_upper(r, b, cp, mark, 1);
        break;
    default:
        break;
    }
    return ph_js_put_cp(r, b, (uint32_t)utf8proc_tolower(c), mark);
}

ph_rc ph_js_case(ph_jrun *r, const ph_jstr *s, int how, ph_jv *out) {
    ph_jbuf b = {0};
    size_t  len;
    int     start = 1;
    for (size_t i = 0; i < s->n; i += len) {
        uint32_t         cp = ph_js_cp(s->p + i, s->n - i, &len);
        utf8proc_int32_t c = (utf8proc_int32_t)cp;
        if (cp == 0xFFFD)
            PH_TRY(ph_js_put_part(r, &b, s, i, len));
        else
            PH_TRY(put_cased(r, &b, cp, ph_js_mark(s, i), how, start));
        /* title() begins a word after anything that has no case */
        start = how == PH_JS_TITLE && utf8proc_tolower(c) == c && utf8proc_toupper(c) == c && cp != 0xDF;
    }
    return ph_js_done(r, &b, out);
}

ph_rc ph_js_replace(ph_jrun *r, const ph_jstr *s, const ph_jstr *from, const ph_jstr *to, int64_t count,
                    ph_jv *out) {
    ph_jbuf b = {0};
    size_t  at = 0, len = 0;
    while (count != 0) {
        size_t i = from->n ? ph_js_find(s, at, from) : at;
        if (i == SIZE_MAX) break;
        PH_TRY(ph_j_step(r, 1));
        PH_TRY(ph_js_put_part(r, &b, s, at, i - at));
        PH_TRY(ph_js_put_str(r, &b, to));
        at = i + from->n;
        if (count > 0) count--;
        if (from->n) continue;
        if (at == s->n) break; /* an empty pattern stands between any two characters */
        ph_js_cp(s->p + at, s->n - at, &len);
        PH_TRY(ph_js_put_part(r, &b, s, at, len));
        at += len;
    }
    PH_TRY(ph_js_put_part(r, &b, s, at, s->n - at));
    return ph_js_done(r, &b, out);
}
