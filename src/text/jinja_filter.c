/* jinja_filter.c - the filter table, and the filters over text and numbers.
 * Source: jinja2/filters.py of 3.1 for behaviour (do_truncate, do_indent, do_round, ...). */
#include "text/jinja_filter.h"

#include "base/locale.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const ph_jbuiltin filters[] = {
#define PH_JINJA_FILTER(name, fn, params) {name, ph_jf_##fn, params},
#include "text/jinja_filter.def"
#undef PH_JINJA_FILTER
};

const ph_jbuiltin *ph_j_filter(const ph_jstr *name) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (ph_js_is(name, filters[i].name)) return &filters[i];
    return NULL;
}

ph_rc ph_jf_int(ph_jrun *r, ph_jv v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    return v.kind == PH_J_MISSING ? PH_OK : ph_j_as_index(r, v, out);
}

ph_rc ph_jf_str(ph_jrun *r, ph_jv v, const ph_jstr **out) {
    ph_jv s;
    PH_TRY(ph_j_to_str(r, v, &s));
    *out = s.u.p;
    return PH_OK;
}

/* ---- text */

static ph_rc cased(ph_jrun *r, ph_jv self, int how, ph_jv *out) {
    const ph_jstr *s;
    PH_TRY(ph_jf_str(r, self, &s));
    return ph_js_case(r, s, how, out);
}
ph_rc ph_jf_upper(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)arg;
    return cased(r, self, PH_JS_UPPER, out);
}
ph_rc ph_jf_lower(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)arg;
    return cased(r, self, PH_JS_LOWER, out);
}
ph_rc ph_jf_capitalize(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)arg;
    return cased(r, self, PH_JS_CAPITALIZE, out);
}

/* Jinja's own title(): a word begins after blanks, hyphens and opening brackets only. */
ph_rc ph_jf_title(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    ph_jbuf        b = {0};
    size_t         len, from = 0;
    ph_jv          word;
    (void)arg;
    PH_TRY(ph_jf_str(r, self, &s));
    for (size_t i = 0; i <= s->n; i += len) {
        uint32_t cp = i < s->n ? ph_js_cp(s->p + i, s->n - i, &len) : (len = 1, ' ');
        if (!ph_js_space(cp) && !(cp && cp < 0x80 && strchr("-({[<", (int)cp))) continue;
        PH_TRY(ph_js_part(r, s, from, i - from, &word));
        PH_TRY(ph_js_case(r, word.u.p, PH_JS_CAPITALIZE, &word));
        PH_TRY(ph_js_put_str(r, &b, word.u.p));
        if (i < s->n) PH_TRY(ph_js_put_part(r, &b, s, i, len));
        from = i + len;
    }
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_trim(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s, *chars = NULL;
    PH_TRY(ph_jf_str(r, self, &s));
    if (arg[0].kind == PH_J_STR)
        chars = arg[0].u.p;
    else if (ph_jf_given(arg[0]) && arg[0].kind != PH_J_NONE)
        return PH_J_FAIL(r, "TypeError: strip arg must be None or str");
    return ph_js_strip(r, s, chars, 3, out);
}

ph_rc ph_jf_string(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)arg;
    return ph_j_to_str(r, self, out);
}
ph_rc ph_jf_pprint(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jbuf b = {0};
    (void)arg;
    PH_TRY(ph_j_put_repr(r, &b, self));
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_escape(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    (void)arg;
    PH_TRY(ph_jf_str(r, self, &s));
    return ph_js_to_markup(r, s, !s->is_markup, out);
}
ph_rc ph_jf_forceescape(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    (void)arg;
    PH_TRY(ph_jf_str(r, self, &s));
    return ph_js_to_markup(r, s, 1, out);
}
ph_rc ph_jf_safe(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    (void)arg;
    PH_TRY(ph_jf_str(r, self, &s));
    return ph_js_to_markup(r, s, 0, out);
}

ph_rc ph_jf_replace(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s, *from, *to;
    int64_t        count = -1;
    PH_TRY(ph_jf_str(r, self, &s));
    PH_TRY(ph_jf_str(r, arg[0], &from));
    PH_TRY(ph_jf_str(r, arg[1], &to));
    if (arg[2].kind != PH_J_NONE) PH_TRY(ph_jf_int(r, arg[2], -1, &count));
    return ph_js_replace(r, s, from, to, count, out);
}

ph_rc ph_jf_center(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    int64_t        width, n;
    ph_jbuf        b = {0};
    PH_TRY(ph_jf_str(r, self, &s));
    PH_TRY(ph_jf_int(r, arg[0], 80, &width));
    n = (int64_t)ph_js_chars(s);
    int64_t pad = width > n ? width - n : 0, left = pad / 2 + (pad & width & 1);
    for (int64_t i = 0; i < left; i++) PH_TRY(ph_js_put(r, &b, " ", 1, PH_JINJA_TRUSTED));
    PH_TRY(ph_js_put_str(r, &b, s));
    for (int64_t i = left; i < pad; i++) PH_TRY(ph_js_put(r, &b, " ", 1, PH_JINJA_TRUSTED));
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_indent(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    ph_jlist       lines = {0};
    ph_jbuf        b = {0}, pad = {0};
    ph_jv          text, margin;
    int64_t        width = 4;
    PH_TRY(ph_jf_str(r, self, &s));
    if (arg[0].kind == PH_J_STR)
        PH_TRY(ph_js_put_str(r, &pad, arg[0].u.p));
    else
        PH_TRY(ph_jf_int(r, arg[0], 4, &width));
    for (int64_t i = 0; i < width && arg[0].kind != PH_J_STR; i++)
        PH_TRY(ph_js_put(r, &pad, " ", 1, PH_JINJA_TRUSTED));
    PH_TRY(ph_js_done(r, &pad, &margin));
    if (self.kind == PH_J_UNDEF) return ph_j_undef_used(r, self);
    if (self.kind != PH_J_STR) return PH_J_FAIL(r, "TypeError: indent takes a str, not %s", ph_j_type(self));
    /* an added newline keeps the last empty line, as the original does */
    PH_TRY(ph_js_lit(r, "\n", &text));
    PH_TRY(ph_js_concat(r, s, text.u.p, &text));
    PH_TRY(ph_js_split_lines(r, text.u.p, 0, &lines));
    for (size_t i = 0; i < lines.n; i++) {
        const ph_jstr *line = lines.v[i].u.p;
        int            padded = i == 0 ? ph_j_truth(arg[1]) : line->n || ph_j_truth(arg[2]);
        if (i) PH_TRY(ph_js_puts(r, &b, "\n", PH_JINJA_TRUSTED));
        if (padded) PH_TRY(ph_js_put_str(r, &b, margin.u.p));
        PH_TRY(ph_js_put_str(r, &b, line));
    }
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_truncate_of(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s, *end;
    int64_t        length, leeway;
    ph_jv          cut;
    ph_jstr        space = {.p = " ", .n = 1};
    size_t         size;
    PH_TRY(ph_j_len(r, self, &size));
    PH_TRY(ph_jf_str(r, self, &s));
    PH_TRY(ph_jf_int(r, arg[0], 255, &length));
    if (!ph_jf_given(arg[2])) PH_TRY(ph_js_lit(r, "...", &arg[2]));
    PH_TRY(ph_jf_str(r, arg[2], &end));
    PH_TRY(ph_jf_int(r, arg[3].kind == PH_J_NONE ? (ph_jv){0} : arg[3], 5, &leeway));
    int64_t keep = length - (int64_t)ph_js_chars(end);
    if (keep < 0)
        return PH_J_FAIL(r, "AssertionError: expected length >= %zu, got %lld", ph_js_chars(end),
                         (long long)length);
    if (leeway < 0) return PH_J_FAIL(r, "AssertionError: expected leeway >= 0, got %lld", (long long)leeway);
    *out = self;
    if ((int64_t)size <= length || (int64_t)size - length <= leeway) return PH_OK;
    if (self.kind != PH_J_STR)
        return PH_J_FAIL(r, "TypeError: truncate takes a str, not %s", ph_j_type(self));
    PH_TRY(ph_js_part(r, s, 0, ph_js_offset(s, (size_t)keep), &cut));
    size_t at = ph_j_truth(arg[1]) ? SIZE_MAX : ph_js_rfind(cut.u.p, ph_j_str(cut)->n, &space);
    if (at != SIZE_MAX) PH_TRY(ph_js_part(r, s, 0, at, &cut));
    return ph_js_concat(r, cut.u.p, end, out);
}

ph_rc ph_jf_wordcount(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    int64_t        n = 0;
    int            in_word = 0;
    size_t         len;
    (void)arg;
    PH_TRY(ph_jf_str(r, self, &s));
    for (size_t i = 0; i < s->n; i += len) { /* \w+: letters, digits, underscore */
        uint32_t cp = ph_js_cp(s->p + i, s->n - i, &len);
        int      word = cp == '_' || ph_j_alnum(cp);
        n += word && !in_word;
        in_word = word;
    }
    *out = ph_j_int(n);
    return PH_OK;
}

ph_rc ph_jf_striptags(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    ph_jbuf        b = {0};
    size_t         len;
    int            in_tag = 0, gap = 0;
    (void)arg;
    PH_TRY(ph_jf_str(r, self, &s));
    for (size_t i = 0; i < s->n; i += len) {
        uint32_t cp = ph_js_cp(s->p + i, s->n - i, &len);
        if (cp == '<' && memchr(s->p + i, '>', s->n - i)) in_tag = 1;
        if (!in_tag && ph_js_space(cp))
            gap = 1;
        else if (!in_tag) {
            if (gap && b.used) PH_TRY(ph_js_put(r, &b, " ", 1, ph_js_mark(s, i)));
            gap = 0;
            PH_TRY(ph_js_put_part(r, &b, s, i, len));
        }
        if (cp == '>') in_tag = 0;
    }
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_urlencode(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s;
    ph_jbuf        b = {0};
    (void)arg;
    if (self.kind == PH_J_DICT || self.kind == PH_J_LIST || self.kind == PH_J_TUPLE)
        return PH_J_FAIL(r, "TypeError: urlencode takes a string here, not %s", ph_j_type(self));
    PH_TRY(ph_jf_str(r, self, &s));
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->p[i];
        char          hex[4];
        if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("_.-~/", c))) {
            PH_TRY(ph_js_put_part(r, &b, s, i, 1));
            continue;
        }
        snprintf(hex, sizeof hex, "%%%02X", c);
        PH_TRY(ph_js_put(r, &b, hex, 3, ph_js_mark(s, i)));
    }
    return ph_js_done(r, &b, out);
}

/* Greedy wrapping of single lines at blanks; words longer than the width are cut. */
static ph_rc wrap_line(ph_jrun *r, const ph_jstr *line, size_t width, int cuts, const ph_jstr *sep,
                       ph_jbuf *b) {
    size_t column = 0, at = 0, len, gap_at = 0, gap = 0;
    while (at < line->n) {
        size_t start = at, chars = 0;
        int    blank = line->p[at] == ' ';
        for (; at < line->n && (line->p[at] == ' ') == blank; at += len, chars++)
            ph_js_cp(line->p + at, line->n - at, &len);
        if (blank && (column || start == 0)) {
            gap_at = start;
            gap = chars;
            continue;
        }
        if (blank) continue;
        if (cuts && chars > width && column + gap < width) {
            if (column)
                PH_TRY(ph_js_put_part(r, b, line, gap_at, gap)); /* a long word starts in what is left */
            column += column ? gap : 0;
        } else if (column && column + gap + chars > width) {
            PH_TRY(ph_js_put_str(r, b, sep));
            column = 0;
        } else if (gap) {
            PH_TRY(ph_js_put_part(r, b, line, gap_at, gap));
            column += gap;
        }
        gap = 0;
        for (; cuts && column + chars > width; chars -= width - column, column = 0) {
            ph_jstr rest = {.p = line->p + start, .n = line->n - start};
            size_t  n = ph_js_offset(&rest, width - column);
            PH_TRY(ph_js_put_part(r, b, line, start, n));
            PH_TRY(ph_js_put_str(r, b, sep));
            start += n;
        }
        PH_TRY(ph_js_put_part(r, b, line, start, at - start));
        column += chars;
    }
    return PH_OK;
}

ph_rc ph_jf_wordwrap(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *s, *sep;
    ph_jlist       lines = {0};
    ph_jbuf        b = {0};
    int64_t        width;
    PH_TRY(ph_jf_str(r, self, &s));
    PH_TRY(ph_jf_int(r, arg[0], 79, &width));
    if (width <= 0) return PH_J_FAIL(r, "ValueError: invalid width %lld (must be > 0)", (long long)width);
    if (!ph_jf_given(arg[2]) || arg[2].kind == PH_J_NONE) PH_TRY(ph_js_lit(r, "\n", &arg[2]));
    PH_TRY(ph_jf_str(r, arg[2], &sep));
    PH_TRY(ph_js_split_lines(r, s, 0, &lines));
    for (size_t i = 0; i < lines.n; i++) {
        if (i) PH_TRY(ph_js_put_str(r, &b, sep));
        PH_TRY(
            wrap_line(r, lines.v[i].u.p, (size_t)width, !ph_jf_given(arg[1]) || ph_j_truth(arg[1]), sep, &b));
    }
    return ph_js_done(r, &b, out);
}

/* ---- numbers */

/* Python's int("..."): blanks around, a sign, digits with single underscores, a prefix that suits the base.
 */
static int int_of_text(const ph_jstr *s, int base, int64_t *out) {
    char   text[72];
    size_t k = 0, lo = 0, hi = s->n;
    char  *end;
    while (lo < hi && ph_js_space((unsigned char)s->p[lo])) lo++;
    while (hi > lo && ph_js_space((unsigned char)s->p[hi - 1])) hi--;
    for (size_t i = lo; i < hi; i++) {
        if (s->p[i] == '_' && i > lo && i + 1 < hi && s->p[i - 1] != '_') continue;
        if (k + 1 >= sizeof text || !s->p[i]) return 0;
        text[k++] = s->p[i];
    }
    text[k] = 0;
    const char *digits = text + (*text == '-' || *text == '+');
    if (base == 2 && digits[0] == '0' && (digits[1] | 32) == 'b')
        memmove(text + (digits - text), digits + 2, strlen(digits + 2) + 1);
    if (base == 8 && digits[0] == '0' && (digits[1] | 32) == 'o')
        memmove(text + (digits - text), digits + 2, strlen(digits + 2) + 1);
    if (base == 10 && !(*digits >= '0' && *digits <= '9')) return 0;
    errno = 0;
    *out = strtoll(text, &end, base);
    return k && !*end && !errno && end != text;
}

static int float_of_text(const ph_jstr *s, double *out) {
    char   text[80];
    size_t k = 0, lo = 0, hi = s->n;
    char  *end;
    while (lo < hi && ph_js_space((unsigned char)s->p[lo])) lo++;
    while (hi > lo && ph_js_space((unsigned char)s->p[hi - 1])) hi--;
    for (size_t i = lo; i < hi; i++) {
        if (s->p[i] == '_' && i > lo && i + 1 < hi && s->p[i - 1] != '_') continue;
        if (k + 1 >= sizeof text || !s->p[i] || s->p[i] == 'x' || s->p[i] == 'X' || s->p[i] == '(') return 0;
        text[k++] = s->p[i];
    }
    text[k] = 0;
    *out = ph_plain_double(text, &end);
    return k && !*end && end != text;
}

static int float_to_int(double f, int64_t *out) {
    if (!(f > -9.2e18 && f < 9.2e18)) return 0;
    *out = (int64_t)f;
    return 1;
}

ph_rc ph_jf_to_int(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    int64_t base, i;
    double  f;
    PH_TRY(ph_jf_int(r, arg[1], 10, &base));
    *out = ph_jf_given(arg[0]) ? arg[0] : ph_j_int(0);
    if (self.kind == PH_J_UNDEF) return ph_j_undef_used(r, self);
    if (self.kind == PH_J_FLOAT && !float_to_int(self.u.f, &i) && !isnan(self.u.f))
        return PH_J_FAIL(r, "OverflowError: an integer beyond 64 bits");
    if (ph_j_is_int(self))
        *out = ph_j_int(self.u.i);
    else if (self.kind == PH_J_FLOAT && float_to_int(self.u.f, &i))
        *out = ph_j_int(i);
    else if (self.kind == PH_J_STR && base >= 2 && base <= 36 && int_of_text(self.u.p, (int)base, &i))
        *out = ph_j_int(i);
    else if (self.kind == PH_J_STR && float_of_text(self.u.p, &f) && float_to_int(f, &i))
        *out = ph_j_int(i);
    return PH_OK;
}

ph_rc ph_jf_to_float(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    double f;
    *out = ph_jf_given(arg[0]) ? arg[0] : ph_j_float(0);
    if (self.kind == PH_J_UNDEF) return ph_j_undef_used(r, self);
    if (ph_j_is_num(self))
        *out = ph_j_float(ph_j_num(self));
    else if (self.kind == PH_J_STR && float_of_text(self.u.p, &f))
        *out = ph_j_float(f);
    return PH_OK;
}

ph_rc ph_jf_abs_of(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)arg;
    if (self.kind == PH_J_UNDEF) return ph_j_undef_used(r, self);
    if (self.kind == PH_J_FLOAT)
        *out = ph_j_float(fabs(self.u.f));
    else if (ph_j_is_int(self) && self.u.i != INT64_MIN)
        *out = ph_j_int(self.u.i < 0 ? -self.u.i : self.u.i);
    else
        return PH_J_FAIL(r, "TypeError: bad operand type for abs(): '%s'", ph_j_type(self));
    return PH_OK;
}

/* Python's round(): the decimal nearest to the exact value, ties to even. */
static double round_common(double f, int64_t digits) {
    char text[400];
    if (!isfinite(f) || digits > 22) return f;
    if (digits < 0) {
        double unit = pow(10, (double)-digits);
        return digits < -308 ? 0.0 : rint(f / unit) * unit;
    }
    ph_plain_print(text, sizeof text, "%.*f", (int)digits, f);
    return ph_plain_double(text, NULL);
}

ph_rc ph_jf_round_of(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    int64_t precision;
    double  unit, f;
    PH_TRY(ph_jf_int(r, arg[0], 0, &precision));
    int ceils = ph_jf_given(arg[1]) && arg[1].kind == PH_J_STR && ph_js_is(arg[1].u.p, "ceil");
    int floors = ph_jf_given(arg[1]) && arg[1].kind == PH_J_STR && ph_js_is(arg[1].u.p, "floor");
    if (ph_jf_given(arg[1]) && !ceils && !floors &&
        !(arg[1].kind == PH_J_STR && ph_js_is(arg[1].u.p, "common")))
        return PH_J_FAIL(r, "FilterArgumentError: method must be common, ceil or floor");
    if (self.kind == PH_J_UNDEF) return ph_j_undef_used(r, self);
    if (!ph_j_is_num(self))
        return PH_J_FAIL(r, "TypeError: type %s doesn't define __round__ method", ph_j_type(self));
    f = ph_j_num(self);
    if (!ceils && !floors) {
        *out = self.kind == PH_J_FLOAT ? ph_j_float(round_common(f, precision)) : ph_j_int(self.u.i);
        if (ph_j_is_int(self) && precision < 0) *out = ph_j_int((int64_t)round_common(f, precision));
        return PH_OK;
    }
    unit = pow(10, (double)precision);
    *out = ph_j_float((ceils ? ceil(f * unit) : floor(f * unit)) / unit);
    return PH_OK;
}

ph_rc ph_jf_filesizeformat(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    static const char units[] = "kMGTPEZY";
    ph_jv             f;
    char              text[64];
    int               binary = ph_j_truth(arg[0]), i = 0;
    ph_jbuf           b = {0};
    arg[0] = (ph_jv){0};
    PH_TRY(ph_jf_to_float(r, self, arg, &f));
    double base = binary ? 1024 : 1000, unit = base;
    if (f.u.f < base) {
        snprintf(text, sizeof text, f.u.f >= 1 && f.u.f < 1.0000000001 ? "1 Byte" : "%.0f Bytes",
                 trunc(f.u.f));
    } else {
        for (; i < 7 && f.u.f >= unit * base; i++) unit *= base;
        ph_plain_print(text, sizeof text, "%.1f %c%sB", f.u.f / unit, binary && i == 0 ? 'K' : units[i],
                       binary ? "i" : "");
    }
    PH_TRY(ph_js_puts(r, &b, text, PH_JINJA_TRUSTED));
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_format(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jargs *args = arg[0].u.p;
    const ph_jstr  *s;
    ph_jdict       *d;
    ph_jlist        l = {.v = args->pos, .n = args->n, .cap = args->n};
    ph_jv           v;
    PH_TRY(ph_jf_str(r, self, &s));
    if (args->n && args->n_kw)
        return PH_J_FAIL(
            r, "FilterArgumentError: can't handle positional and keyword arguments at the same time");
    if (!args->n_kw) {
        PH_TRY(ph_j_list_make(r, PH_J_TUPLE, &l, &v));
        return ph_j_percent(r, s, v, out);
    }
    PH_TRY(ph_j_dict_make(r, &d));
    for (size_t i = 0; i < args->n_kw; i++)
        PH_TRY(ph_j_dict_set(r, d, ph_j_ptr(PH_J_STR, args->name[i]), args->kw[i]));
    return ph_j_percent(r, s, ph_j_ptr(PH_J_DICT, d), out);
}

ph_rc ph_jf_tojson(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return ph_j_dump_json(r, self, ph_j_truth(arg[0]), arg[1], arg[2], ph_j_truth(arg[3]), out);
}
