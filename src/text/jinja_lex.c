/* jinja_lex.c - source to tokens; all whitespace control happens here.
 *
 * Outside tags the source is data up to the next "{{", "{%" or "{#".  What a tag does to the data
 * around it:
 *     {%-  {{-  {#-     the data before loses its trailing whitespace
 *     -%}  -}}  -#}     the data after loses its leading whitespace
 *     {%   {#           (lstrip_blocks) blanks back to the start of the line go, unless {%+
 *     %}   #}           (trim_blocks) one newline after goes, unless +%}
 * One newline at the very end of the source is dropped; \r\n and \r become \n.
 */
#include "text/jinja_impl.h"

#include "base/locale.h"

#include <errno.h>
#include <stdlib.h>
#include <utf8proc.h>

typedef struct lexer {
    ph_jrun    *r;
    ph_jtokens *out;
    const char *s;
    size_t      n, at;
    size_t      line_at; /* r->line is the line of this position */
    int         line_starts;
    char        open[64]; /* brackets open in this tag */
    size_t      n_open;
} lexer;

static void count_lines(lexer *x, size_t to) {
    for (; x->line_at < to; x->line_at++) x->r->line += x->s[x->line_at] == '\n';
}

static ph_rc push(lexer *x, ph_jtoken t) {
    ph_jtokens *k = x->out;
    if (k->n == k->cap) {
        size_t     cap = k->cap ? k->cap * 2 : 256;
        ph_jtoken *grown;
        PH_TRY(ph_j_carve(x->r, &grown, cap, sizeof *grown));
        if (k->n) memcpy(grown, k->t, k->n * sizeof *grown);
        k->t = grown;
        k->cap = cap;
    }
    t.line = x->r->line;
    k->t[k->n++] = t;
    return ph_j_step(x->r, 1);
}

static int looking_at(const lexer *x, size_t at, const char *z) {
    size_t k = strlen(z);
    return at <= x->n && k <= x->n - at && !memcmp(x->s + at, z, k);
}

static size_t skip_space(const lexer *x, size_t at) {
    size_t len;
    while (at < x->n && ph_js_space(ph_js_cp(x->s + at, x->n - at, &len))) at += len;
    return at;
}

static int is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* The end of a tag at position at: its length, 0 if there is none. */
static size_t tag_end(const lexer *x, size_t at, const char *end, int trims) {
    if (looking_at(x, at, "-") && looking_at(x, at + 1, end)) return skip_space(x, at + 1 + strlen(end)) - at;
    if (trims && looking_at(x, at, "+") && looking_at(x, at + 1, end)) return 1 + strlen(end);
    if (!looking_at(x, at, end)) return 0;
    return strlen(end) + (size_t)(trims && looking_at(x, at + strlen(end), "\n"));
}

static void move(lexer *x, size_t to) {
    if (to > x->at) x->line_starts = x->s[to - 1] == '\n';
    x->at = to;
    count_lines(x, to);
}

/* Data [from, to) before a tag that begins at to with the given sign. */
static ph_rc push_data(lexer *x, size_t from, size_t to, char sign, int lstrips) {
    size_t end = to, line = to, len;
    if (sign == '-') {
        for (end = from; line > from;) { /* the end after the last character that is not blank */
            for (line--; line > from && ((unsigned char)x->s[line] & 0xC0) == 0x80;) line--;
            uint32_t cp = ph_js_cp(x->s + line, to - line, &len);
            if (ph_js_space(cp)) continue;
            for (end = line + 1; end < to && ((unsigned char)x->s[end] & 0xC0) == 0x80;) end++;
            break;
        }
    } else if (sign != '+' && lstrips) {
        while (line > from && x->s[line - 1] != '\n') line--;
        if ((line > from || x->line_starts) && line < to) {
            size_t i = line;
            while (i < to && ph_js_space(ph_js_cp(x->s + i, to - i, &len))) i += len;
            if (i == to) end = line;
        }
    }
    if (end == from) return PH_OK;
    return push(x, (ph_jtoken){.type = PH_JT_DATA, .p = x->s + from, .n = end - from});
}

/* ---- inside a tag */

static int digit_of(char c, int base) {
    int d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : 99;
    return d < base ? d : -1;
}

/* Digits with single underscores between them: the end, or at when there are none. */
static size_t digits_end(const lexer *x, size_t at, int base) {
    size_t i = at;
    while (i < x->n) {
        if (digit_of(x->s[i], base) >= 0)
            i++;
        else if (i > at && x->s[i] == '_' && i + 1 < x->n && digit_of(x->s[i + 1], base) >= 0)
            i += 2;
        else
            break;
    }
    return i;
}

static size_t float_end(const lexer *x, size_t at) {
    size_t i = digits_end(x, at, 10), j;
    size_t whole = i;
    if (at && x->s[at - 1] == '.') return at;
    if (i < x->n && x->s[i] == '.' && (j = digits_end(x, i + 1, 10)) > i + 1) i = j;
    if (i < x->n && (x->s[i] == 'e' || x->s[i] == 'E')) {
        size_t k = i + 1;
        if (k < x->n && (x->s[k] == '+' || x->s[k] == '-')) k++;
        if ((j = digits_end(x, k, 10)) > k) i = j;
    }
    return i > whole ? i : at;
}

static ph_rc lex_float(lexer *x, size_t end) {
    char   text[64];
    size_t k = 0;
    for (size_t i = x->at; i < end; i++) {
        if (x->s[i] == '_') continue;
        if (k + 1 >= sizeof text) return PH_J_FAIL(x->r, "a number of more than %zu digits", sizeof text - 2);
        text[k++] = x->s[i];
    }
    text[k] = 0;
    PH_TRY(push(
        x, (ph_jtoken){
               .type = PH_JT_FLOAT, .f = ph_plain_double(text, NULL), .p = x->s + x->at, .n = end - x->at}));
    move(x, end);
    return PH_OK;
}

static ph_rc lex_int(lexer *x) {
    static const char prefixes[] = "bBoOxX";
    static const int  bases[] = {2, 2, 8, 8, 16, 16};
    int               base = 10;
    size_t            start = x->at, end;
    const char *prefix = x->s[start] == '0' && start + 1 < x->n ? memchr(prefixes, x->s[start + 1], 6) : NULL;
    int64_t     v = 0;
    if (prefix) {
        base = bases[prefix - prefixes];
        start += 2;
        if (start < x->n && x->s[start] == '_') start++;
    }
    end = digits_end(x, start, base);
    if (end == start) base = 10, start = x->at, end = start + 1;
    for (size_t i = start; i < end; i++) {
        if (x->s[i] == '_') continue;
        if (__builtin_mul_overflow(v, (int64_t)base, &v) ||
            __builtin_add_overflow(v, (int64_t)digit_of(x->s[i], base), &v))
            return PH_J_FAIL(x->r, "an integer beyond 64 bits");
    }
    if (base == 10 && end - start > 1 && x->s[start] == '0' && v)
        return PH_J_FAIL(x->r, "an integer that begins with 0");
    PH_TRY(push(x, (ph_jtoken){.type = PH_JT_INT, .i = v, .p = x->s + x->at, .n = end - x->at}));
    move(x, end);
    return PH_OK;
}

/* \x41, \u00e9, \U0001F600, \101: the code point and how many bytes it took; 0 if it is none of these. */
static size_t numeric_escape(const char *p, size_t n, uint32_t *cp) {
    size_t want = p[0] == 'x' ? 2 : p[0] == 'u' ? 4 : p[0] == 'U' ? 8 : 0, i;
    *cp = 0;
    if (!want) {
        for (i = 0; i < 3 && i < n && digit_of(p[i], 8) >= 0; i++)
            *cp = *cp * 8 + (uint32_t)digit_of(p[i], 8);
        return i;
    }
    for (i = 1; i <= want; i++) {
        if (i >= n || digit_of(p[i], 16) < 0) return 0;
        *cp = *cp * 16 + (uint32_t)digit_of(p[i], 16);
    }
    return want + 1;
}

static ph_rc unescape(lexer *x, const char *p, size_t n, ph_jbuf *b) {
    static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
    for (size_t i = 0; i < n;) {
        const char *c;
        uint32_t    cp;
        size_t      len;
        if (p[i] != '\\' || i + 1 == n) {
            PH_TRY(ph_js_put(x->r, b, p + i++, 1, PH_JINJA_TRUSTED));
        } else if ((c = memchr(from, p[i + 1], sizeof from - 1))) {
            PH_TRY(ph_js_put(x->r, b, &to[c - from], 1, PH_JINJA_TRUSTED));
            i += 2;
        } else if (p[i + 1] == '\n') {
            i += 2;
        } else if ((len = numeric_escape(p + i + 1, n - i - 1, &cp)) > 0) {
            if (!utf8proc_codepoint_valid((utf8proc_int32_t)cp))
                return PH_J_FAIL(x->r, "no character U+%04X", cp);
            PH_TRY(ph_js_put_cp(x->r, b, cp, PH_JINJA_TRUSTED));
            i += 1 + len;
        } else if (strchr("xuUN", p[i + 1])) {
            return PH_J_FAIL(x->r, "a string with a broken \\%c escape", p[i + 1]);
        } else {
            PH_TRY(ph_js_put(x->r, b, p + i, 2, PH_JINJA_TRUSTED));
            i += 2;
        }
    }
    return PH_OK;
}

static ph_rc lex_string(lexer *x) {
    const char quote = x->s[x->at];
    size_t     i = x->at + 1;
    ph_jbuf    b = {0};
    while (i < x->n && x->s[i] != quote) i += x->s[i] == '\\' ? 2 : 1;
    if (i >= x->n) return PH_J_FAIL(x->r, "a string without its closing %c", quote);
    PH_TRY(unescape(x, x->s + x->at + 1, i - x->at - 1, &b));
    PH_TRY(push(x, (ph_jtoken){.type = PH_JT_STRING, .p = b.used ? b.p : "", .n = b.used}));
    move(x, i + 1);
    return PH_OK;
}

static ph_rc lex_op(lexer *x) {
    static const char *const ops[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const char              *op = NULL;
    for (size_t k = 0; k < sizeof ops / sizeof *ops && !op; k++)
        if (looking_at(x, x->at, ops[k])) op = ops[k];
    if (!op) return PH_J_FAIL(x->r, "unexpected character '%.1s'", x->s + x->at);
    if (strchr("([{", *op)) {
        if (x->n_open == sizeof x->open)
            return PH_J_FAIL(x->r, "more than %zu open brackets", sizeof x->open);
        x->open[x->n_open++] = *op;
    } else if (strchr(")]}", *op)) {
        if (!x->n_open || x->open[x->n_open - 1] != (*op == ')' ? '(' : *op == ']' ? '[' : '{'))
            return PH_J_FAIL(x->r, "unexpected '%c'", *op);
        x->n_open--;
    }
    PH_TRY(push(x, (ph_jtoken){.type = PH_JT_OP, .op = op[0] | op[1] << 8}));
    move(x, x->at + strlen(op));
    return PH_OK;
}

static ph_rc lex_tag(lexer *x, const char *end, int end_type, int trims) {
    x->n_open = 0;
    for (;;) {
        size_t k = x->n_open ? 0 : tag_end(x, x->at, end, trims), i;
        if (k) {
            PH_TRY(push(x, (ph_jtoken){.type = end_type}));
            move(x, x->at + k);
            return PH_OK;
        }
        if (x->at >= x->n) return PH_J_FAIL(x->r, "unexpected end of template, expected '%s'", end);
        const char c = x->s[x->at];
        if ((i = skip_space(x, x->at)) > x->at) {
            move(x, i);
        } else if (c >= '0' && c <= '9') {
            PH_TRY((i = float_end(x, x->at)) > x->at ? lex_float(x, i) : lex_int(x));
        } else if (is_word(c)) {
            for (i = x->at; i < x->n && is_word(x->s[i]);) i++;
            PH_TRY(push(x, (ph_jtoken){.type = PH_JT_NAME, .p = x->s + x->at, .n = i - x->at}));
            move(x, i);
        } else {
            PH_TRY(c == '\'' || c == '"' ? lex_string(x) : lex_op(x));
        }
    }
}

/* ---- outside */

/* "{%- raw -%}" at: the position after it, or 0. */
static size_t raw_begin(const lexer *x, size_t at, const char *word, int trims) {
    at += 2;
    if (at < x->n && (x->s[at] == '-' || x->s[at] == '+')) at++;
    at = skip_space(x, at);
    if (!looking_at(x, at, word)) return 0;
    at = skip_space(x, at + strlen(word));
    if (!trims && looking_at(x, at, "+")) return 0;
    size_t k = tag_end(x, at, "%}", trims);
    return k ? at + k : 0;
}

static ph_rc lex_raw(lexer *x, size_t begin) {
    move(x, begin);
    for (size_t i = begin; i + 1 < x->n; i++) {
        size_t end = x->s[i] == '{' && x->s[i + 1] == '%' ? raw_begin(x, i, "endraw", 1) : 0;
        if (!end) continue;
        PH_TRY(push_data(x, begin, i, i + 2 < x->n ? x->s[i + 2] : 0, 1));
        move(x, end);
        return PH_OK;
    }
    return PH_J_FAIL(x->r, "raw block without its endraw");
}

static ph_rc lex_comment(lexer *x, size_t begin) {
    for (size_t i = begin; i < x->n; i++) {
        size_t k = x->s[i] == '#' || x->s[i] == '-' || x->s[i] == '+' ? tag_end(x, i, "#}", 1) : 0;
        if (!k) continue;
        move(x, i + k);
        return PH_OK;
    }
    return PH_J_FAIL(x->r, "comment without its closing '#}'");
}

static ph_rc lex_all(lexer *x) {
    size_t from = 0;
    for (size_t i = 0; i + 1 < x->n;) {
        const char c = x->s[i + 1];
        if (x->s[i] != '{' || (c != '{' && c != '%' && c != '#')) {
            i++;
            continue;
        }
        const char   sign = i + 2 < x->n ? x->s[i + 2] : 0;
        const size_t inside = i + 2 + (size_t)(sign == '-' || sign == '+');
        size_t       raw = c == '%' ? raw_begin(x, i, "raw", 0) : 0;
        PH_TRY(push_data(x, from, i, sign, c != '{'));
        count_lines(x, i);
        x->at = i;
        if (raw) {
            PH_TRY(lex_raw(x, raw));
        } else if (c == '#') {
            PH_TRY(lex_comment(x, inside));
        } else {
            PH_TRY(push(x, (ph_jtoken){.type = c == '%' ? PH_JT_BLOCK_BEGIN : PH_JT_OUT_BEGIN}));
            move(x, inside);
            if (c == '%')
                PH_TRY(lex_tag(x, "%}", PH_JT_BLOCK_END, 1));
            else
                PH_TRY(lex_tag(x, "}}", PH_JT_OUT_END, 0));
        }
        from = i = x->at;
    }
    return push_data(x, from, x->n, '+', 0);
}

ph_rc ph_j_lex(ph_jrun *r, const char *source, size_t n, ph_jtokens *out) {
    lexer  x = {.r = r, .out = out, .line_starts = 1};
    char  *copy;
    size_t k = 0;
    PH_TRY(ph_j_carve(r, &copy, n, 1));
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        copy[k++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (k && copy[k - 1] == '\n') k--;
    x.s = copy;
    x.n = k;
    r->line = 1;
    PH_TRY(lex_all(&x));
    count_lines(&x, x.n);
    return push(&x, (ph_jtoken){.type = PH_JT_END});
}
