/* pattern.c - from Oniguruma's syntax to PCRE2's, and the loop over matches.
 *
 * The translator reads the source once, left to right, and writes PCRE2.  It keeps no
 * tree: the only things it looks back for are the start of the last atom (for "{n,m}+")
 * and, inside a class, what has been gathered so far (for "&&" and nested classes).
 * Not translated: absent operators, \X-like extensions of Ruby, negated nested classes
 * inside a class with other members; these are refused by name.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include "text/bytebuf.h"

#include <pcre2.h>
#include <string.h>

enum { STEPS_MAX = 20000000, HEAP_KIB_MAX = 256 * 1024, PATTERN_MAX = 1 << 16, CLASS_DEPTH_MAX = 8 };

/* What all matches in a text may take together, in steps: the limits of PCRE2 are of a match each, and do not
 * see how far an item looks.  The field's patterns take up to 13 a byte. */
enum { STEPS_A_BYTE = 256, STEPS_ANYWAY = 100000 };

#define SPACES                                                                                               \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORDS                                                                                                \
    "\\p{L}\\p{M}\\p{N}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"                 \
    "\\x{1f170}-\\x{1f189}"

#if PCRE2_MAJOR > 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR >= 40)
#define ALPHABETIC "\\p{Alphabetic}"
#else
#define ALPHABETIC "\\p{L}\\p{Nl}" /* older PCRE2 knows no such property: alphabetic marks are missed */
#endif

typedef struct onig {
    const char *in;
    size_t      n, i;
    ph_bytes    out;
    size_t      atom;   /* where the last atom begins in out */
    size_t      repeat; /* the most that a repeat in braces counts to */
    const char *where;
    ph_err     *err;
} onig;

static ph_rc put(onig *o, const char *s) {
    return ph_bytes_push(&o->out, s, strlen(s), o->err);
}
static ph_rc put_n(onig *o, const char *s, size_t n) {
    return ph_bytes_push(&o->out, s, n, o->err);
}
static ph_rc refuse(onig *o, const char *what) {
    return PH_FAIL(o->err, PH_EUNSUP, "%s: regular expression, byte %zu: %s is not supported", o->where, o->i,
                   what);
}
static ph_rc cut(onig *o) {
    return PH_FAIL(o->err, PH_EFORMAT, "%s: regular expression ends inside a group, class or escape",
                   o->where);
}

/* \p{Name}, \P{Name}, \p{^Name}; o->i stands behind the p. */
static ph_rc property(onig *o, int negated) {
    static const struct {
        const char *onig, *pcre;
    } names[] = {
        {"Letter", "L"},
        {"Lowercase_Letter", "Ll"},
        {"Uppercase_Letter", "Lu"},
        {"Titlecase_Letter", "Lt"},
        {"Mark", "M"},
        {"Nonspacing_Mark", "Mn"},
        {"Number", "N"},
        {"Decimal_Number", "Nd"},
        {"Punctuation", "P"},
        {"Punct", "P"},
        {"Symbol", "S"},
        {"Separator", "Z"},
        {"Other", "C"},
        {"Control", "Cc"},
        {"Alpha", "L&"},
    };
    static const char *const scripts[] = {"Han",  "Hiragana", "Katakana", "Hangul", "Latin",      "Greek",
                                          "Thai", "Cyrillic", "Arabic",   "Hebrew", "Devanagari", "Bopomofo"};
    if (o->i >= o->n || o->in[o->i] != '{') return refuse(o, "a property without braces");
    const char *close = memchr(o->in + o->i, '}', o->n - o->i);
    if (!close) return cut(o);
    const char *name = o->in + o->i + 1;
    size_t      n = (size_t)(close - name);
    if (n && *name == '^') negated = !negated, name++, n--;
    o->i = (size_t)(close - o->in) + 1;
    PH_TRY(put(o, negated ? "\\P{" : "\\p{"));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (n == strlen(names[k].onig) && !memcmp(names[k].onig, name, n)) {
            PH_TRY(put(o, names[k].pcre));
            return put(o, "}");
        }
#if PCRE2_MAJOR > 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR >= 40)
    for (size_t k = 0; k < sizeof scripts / sizeof *scripts; k++)
        if (n == strlen(scripts[k]) && !memcmp(scripts[k], name, n)) PH_TRY(put(o, "sc:"));
#else
    (void)scripts; /* older PCRE2 has only the plain script property */
#endif
    PH_TRY(put_n(o, name, n));
    return put(o, "}");
}

/* An escape; o->i stands on the backslash. */
static ph_rc escape(onig *o, int in_class) {
    if (o->i + 1 >= o->n) return cut(o);
    char c = o->in[o->i + 1];
    o->i += 2;
    switch (c) {
    case 's':
        return put(o, in_class ? SPACES : "[" SPACES "]");
    case 'S':
        return in_class ? put(o, "\\S") : put(o, "[^" SPACES "]");
    case 'w':
        return put(o, in_class ? WORDS : "[" WORDS "]");
    case 'W':
        return in_class ? put(o, "\\W") : put(o, "[^" WORDS "]");
    case 'h':
        return put(o, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
    case 'H':
        return in_class ? refuse(o, "\\H in a class") : put(o, "[^0-9a-fA-F]");
    case 'p':
    case 'P':
        return property(o, c == 'P');
    case 'u':
        if (o->n - o->i < 4) return cut(o);
        PH_TRY(put(o, "\\x{"));
        PH_TRY(put_n(o, o->in + o->i, 4));
        o->i += 4;
        return put(o, "}");
    default:
        PH_TRY(put(o, "\\"));
        return put_n(o, &c, 1);
    }
}

/* A class; o->i stands on '['.  Each side of "&&" becomes one PCRE2 class: [A&&B] is (?=[A])[B].
 * Nested positive classes are flattened into their parent. */
static ph_rc class_of(onig *o) {
    size_t begin = o->out.n, part = begin;
    int    depth = 1, negated = 0, n_parts = 1;
    o->i++;
    if (o->i < o->n && o->in[o->i] == '^') negated = 1, o->i++;
    PH_TRY(put(o, "["));
    if (o->i < o->n && o->in[o->i] == ']') { /* first: itself */
        PH_TRY(put(o, "\\]"));
        o->i++;
    }
    while (depth) {
        if (o->i >= o->n) return cut(o);
        char c = o->in[o->i];
        if (c == '\\') {
            PH_TRY(escape(o, 1));
        } else if (c == '[' && o->i + 1 < o->n && o->in[o->i + 1] == ':') {
            const char *close = memchr(o->in + o->i, ']', o->n - o->i);
            if (!close) return cut(o);
            size_t n = (size_t)(close - o->in) + 1 - o->i;
            if (n == 9 && !memcmp(o->in + o->i, "[:alpha:]", 9))
                PH_TRY(put(o, ALPHABETIC));
            else
                PH_TRY(put_n(o, o->in + o->i, n));
            o->i += n;
        } else if (c == '[') {
            int alone = o->out.n == part + 1;
            if (++depth > CLASS_DEPTH_MAX) return refuse(o, "a class nested this deep");
            o->i++;
            if (o->i < o->n && o->in[o->i] == '^') {
                if (!alone || n_parts == 1 || depth != 2) return refuse(o, "a negated class inside a class");
                PH_TRY(put(o, "^"));
                o->i++;
            }
        } else if (c == ']') {
            depth--, o->i++;
        } else if (c == '&' && o->i + 1 < o->n && o->in[o->i + 1] == '&' && depth == 1) {
            PH_TRY(put(o, "]"));
            part = o->out.n;
            PH_TRY(put(o, "["));
            n_parts++, o->i += 2;
        } else {
            PH_TRY(put_n(o, &c, 1));
            o->i++;
        }
    }
    PH_TRY(put(o, "]"));
    if (n_parts == 1 && !negated) return PH_OK;
    /* Put together what was written: "[A][B]" becomes "[^A]", "(?=[A])[B]" or "(?!(?=[A])[B])(?s:.)". */
    ph_bytes whole = {0};
    ph_rc    rc = PH_OK;
    size_t   n = o->out.n - begin;
    uint8_t *from = o->out.at + begin;
    if (n_parts == 1) {
        rc = ph_bytes_push(&whole, "[^", 2, o->err);
        if (!rc) rc = ph_bytes_push(&whole, from + 1, n - 1, o->err);
    } else if (n_parts > 2) {
        rc = refuse(o, "more than one && in a class");
    } else {
        size_t first = part - begin;
        rc = ph_bytes_push(&whole, negated ? "(?:(?!(?=" : "(?:(?=", negated ? 9 : 6, o->err);
        if (!rc) rc = ph_bytes_push(&whole, from, first, o->err);
        if (!rc) rc = ph_bytes_push(&whole, ")", 1, o->err);
        if (!rc) rc = ph_bytes_push(&whole, from + first, n - first, o->err);
        if (!rc) rc = ph_bytes_push(&whole, negated ? ")(?s:.))" : ")", negated ? 8 : 1, o->err);
    }
    o->out.n = begin;
    if (!rc) rc = ph_bytes_push(&o->out, whole.at, whole.n, o->err);
    ph_bytes_close(&whole);
    return rc;
}

/* "{n,m}" with a "+" behind it repeats the repetition in Ruby; PCRE2 would read a possessive one. */
static ph_rc braces(onig *o) {
    for (size_t i = o->i + 1, n = 0; i < o->n && strchr("0123456789,", o->in[i]) && o->in[i]; i++) {
        n = o->in[i] == ',' ? 0 : 10 * n + (size_t)(o->in[i] - '0');
        if (n > PATTERN_MAX) n = PATTERN_MAX; /* PCRE2 takes less */
        if (n > o->repeat) o->repeat = n;
    }
    const char *close = memchr(o->in + o->i, '}', o->n - o->i);
    size_t      n = close ? (size_t)(close - o->in) + 1 - o->i : 1;
    int         again = close && o->i + n < o->n && o->in[o->i + n] == '+';
    PH_TRY(put_n(o, o->in + o->i, n));
    o->i += n;
    if (!again) return PH_OK;
    size_t tail = o->out.n - o->atom;
    PH_TRY(put(o, "(?:)"));
    memmove(o->out.at + o->atom + 3, o->out.at + o->atom, tail);
    memcpy(o->out.at + o->atom, "(?:", 3);
    return PH_OK;
}

/* A group's opening; o->i stands on '('.  Ruby's (?m) is PCRE2's (?s). */
static ph_rc group(onig *o) {
    PH_TRY(put(o, "("));
    o->i++;
    if (o->i + 1 >= o->n || o->in[o->i] != '?') return PH_OK;
    if (o->in[o->i + 1] == '~') return refuse(o, "the absent operator (?~");
    size_t k = o->i + 1;
    while (k < o->n && strchr("imx-", o->in[k]) && o->in[k]) k++;
    if (k >= o->n || (o->in[k] != ')' && o->in[k] != ':')) k = o->i + 1; /* no option group */
    for (; o->i < k; o->i++) {
        char c = o->in[o->i] == 'm' ? 's' : o->in[o->i];
        PH_TRY(put_n(o, &c, 1));
    }
    return PH_OK;
}

static ph_rc translate(onig *o) {
    size_t open[64], n_open = 0;
    while (o->i < o->n) {
        char   c = o->in[o->i];
        size_t here = o->out.n;
        if (c == '\\') {
            PH_TRY(escape(o, 0));
            o->atom = here;
        } else if (c == '[') {
            PH_TRY(class_of(o));
            o->atom = here;
        } else if (c == '{') {
            PH_TRY(braces(o));
        } else if (c == '(') {
            if (n_open == 64) return refuse(o, "a group nested this deep");
            open[n_open++] = here;
            PH_TRY(group(o));
        } else if (c == ')') {
            PH_TRY(put(o, ")"));
            o->i++;
            if (n_open) o->atom = open[--n_open];
        } else {
            if (!strchr("*+?|", c)) {
                if ((c & 0xC0) != 0x80) o->atom = here;
            }
            PH_TRY(put_n(o, &c, 1));
            o->i++;
        }
    }
    return PH_OK;
}

static ph_rc compile(ph_pattern *p, const ph_bytes *source, const char *where, ph_err *err) {
    int        code;
    PCRE2_SIZE offset;
    uint32_t   backref = 0;
    uint32_t   options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                       PCRE2_AUTO_CALLOUT; /* steps are counted */
    *p = (ph_pattern){0};
    pcre2_code *re = pcre2_compile(source->at ? source->at : (const uint8_t *)"", source->n, options, &code,
                                   &offset, NULL);
    if (!re) {
        PCRE2_UCHAR text[120];
        if (code == PCRE2_ERROR_HEAP_FAILED) return PH_FAIL(err, PH_ENOMEM, "%s: regular expression", where);
        pcre2_get_error_message(code, text, sizeof text);
        return PH_FAIL(err, PH_EFORMAT, "%s: regular expression, near byte %zu: %s", where, offset,
                       (char *)text);
    }
    /* Without JIT (no support, or memory may not be made executable) the interpreter matches the same. */
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    pcre2_pattern_info(re, PCRE2_INFO_SIZE, &p->bytes);
    pcre2_pattern_info(re, PCRE2_INFO_BACKREFMAX, &backref);
    p->looks_back = backref > 0;
    p->code = re;
    return PH_OK;
}

/* Patterns of the field that try anew at every character of a run that has failed once, so that a run costs
 * its square; and how PCRE2 is told to match the same and look once. */
static const struct { const char *source, *once; } slow[] = {{"\\s+$", "(?:\\G|(?<!\\s))\\s+$"}};

ph_rc ph_pattern_open(ph_pattern *p, const char *source, size_t n, const char *where, ph_err *err) {
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (n == strlen(slow[i].source) && !memcmp(source, slow[i].source, n))
            source = slow[i].once, n = strlen(source);
    onig o = {.in = source, .n = n, .where = where, .err = err};
    *p = (ph_pattern){0};
    if (n > PATTERN_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: regular expression of %zu bytes (limit %d)", where, n,
                       PATTERN_MAX);
    ph_rc rc = translate(&o);
    if (!rc) rc = compile(p, &o.out, where, err);
    p->repeat = o.repeat;
    ph_bytes_close(&o.out);
    return rc;
}

ph_rc ph_pattern_open_literal(ph_pattern *p, const char *text, size_t n, const char *where, ph_err *err) {
    ph_bytes out = {0};
    ph_rc    rc = PH_OK;
    *p = (ph_pattern){0};
    if (n > PATTERN_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: pattern of %zu bytes (limit %d)", where, n, PATTERN_MAX);
    for (size_t i = 0; i < n && !rc; i++) {
        uint8_t c = (uint8_t)text[i];
        int     is_plain = c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        char    hex[8];
        if (is_plain) {
            rc = ph_bytes_push(&out, &c, 1, err);
        } else {
            static const char digits[] = "0123456789abcdef";
            memcpy(hex, "\\x", 2);
            hex[2] = digits[c >> 4], hex[3] = digits[c & 15];
            rc = ph_bytes_push(&out, hex, 4, err);
        }
    }
    if (!rc) rc = compile(p, &out, where, err);
    ph_bytes_close(&out);
    return rc;
}

void ph_pattern_close(ph_pattern *p) {
    pcre2_code_free(p->code);
    *p = (ph_pattern){0};
}

/* Before every item of the pattern: a step, and one for every character since the last.  What an item may
 * look at without getting on (a counted repeat, a group named again) is paid before. */
static int count_step(pcre2_callout_block *b, void *arg) {
    ph_search *s = arg;
    s->spent += 1 + s->pattern->repeat / 8;
    if (b->current_position > s->at) s->spent += b->current_position - s->at;
    if (s->pattern->looks_back) s->spent += b->current_position / 16;
    s->at = b->current_position;
    return s->spent > s->most ? PCRE2_ERROR_CALLOUT : 0;
}

ph_rc ph_search_open(ph_search *s, const ph_pattern *p, size_t n_all, ph_err *err) {
    *s = (ph_search){.pattern = p, .most = STEPS_ANYWAY + STEPS_A_BYTE * (uint64_t)n_all};
    s->data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    s->context = context;
    if (!s->data || !context) {
        ph_search_close(s);
        return PH_FAIL(err, PH_ENOMEM, "text: a regular expression's scratch");
    }
    pcre2_set_callout(context, count_step, s);
    pcre2_set_match_limit(context, STEPS_MAX);
    pcre2_set_heap_limit(context, HEAP_KIB_MAX);
    return PH_OK;
}

void ph_search_begin(ph_search *s, const uint8_t *text, size_t n) {
    s->text = text;
    s->n = n;
    s->from = 0;
    s->at = 0;
    s->last_end = SIZE_MAX;
}

ph_rc ph_search_next(ph_search *s, int *found, size_t *begin, size_t *end, ph_err *err) {
    *found = 0;
    while (s->from <= s->n) {
        const uint8_t *text = s->text ? s->text : (const uint8_t *)"";
        uint32_t       options = PCRE2_NO_UTF_CHECK;
        int            rc = pcre2_match(s->pattern->code, text, s->n, s->from, options, s->data, s->context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT || rc == PCRE2_ERROR_MATCHLIMIT)
            rc = pcre2_match(s->pattern->code, text, s->n, s->from, options | PCRE2_NO_JIT, s->data,
                             s->context);
        if (rc == PCRE2_ERROR_NOMATCH) return PH_OK;
        if (rc == PCRE2_ERROR_CALLOUT)
            return PH_FAIL(
                err, PH_ELIMIT,
                "text: the tokenizer's pattern takes too long on this text: at byte %zu of %zu more "
                "than %llu steps",
                s->from, s->n, (unsigned long long)s->most);
        if (rc < 0)
            return PH_FAIL(
                err, PH_ELIMIT,
                "text: a pattern of the tokenizer gives up at byte %zu of %zu (PCRE2 error %d): shorten the "
                "text, or split it",
                s->from, s->n, rc);
        PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->data);
        if (at[0] == at[1] && s->last_end == at[1]) { /* empty, right behind the last: one character on */
            if (s->from >= s->n) return PH_OK;
            s->from++;
            while (s->from < s->n && (text[s->from] & 0xC0) == 0x80) s->from++;
            continue;
        }
        *found = 1;
        *begin = at[0], *end = at[1];
        s->from = s->last_end = at[1];
        return PH_OK;
    }
    return PH_OK;
}

void ph_search_close(ph_search *s) {
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    *s = (ph_search){0};
}
