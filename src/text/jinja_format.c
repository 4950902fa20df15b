/* jinja_format.c - "%s" % x and "{}".format(x): Python's two ways to fill in a text.
 *
 * The format's own bytes keep their marks, inserted strings theirs, digits are trusted.
 * Source: docs.python.org/3/library/stdtypes.html#old-string-formatting, string.html#formatspec.
 */
#include "text/jinja_impl.h"

#include "base/locale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct spec {
    char    fill[4];
    size_t  fill_n;
    char    align, sign, type, group; /* 0: not given */
    int     alt;
    int64_t width, precision; /* precision -1: not given */
} spec;

enum { WIDTH_MAX = 100000 };

/* Pads bytes already in b from start to the width; numbers pad after their sign when align is '='. */
static ph_rc pad(ph_jrun *r, ph_jbuf *out, const ph_jbuf *b, const spec *s, char align) {
    ph_jstr text = {.p = b->used ? b->p : "", .mark = b->mark, .n = b->used};
    int64_t n = (int64_t)ph_js_chars(&text), extra = s->width > n ? s->width - n : 0;
    int64_t before = align == '>' || align == '=' ? extra : align == '^' ? extra / 2 : 0;
    size_t  head = 0;
    /* blanks and zeros belong to the number; another filling may have been typed */
    int mark = s->fill[0] == ' ' || s->fill[0] == '0' ? PH_JINJA_TRUSTED : PH_JINJA_DATA;
    if (align == '=' && text.n) {
        head = text.p[0] == '-' || text.p[0] == '+' || text.p[0] == ' ';
        if (s->alt && text.n >= head + 2 && text.p[head] == '0' && strchr("xXob", text.p[head + 1]))
            head += 2;
    }
    PH_TRY(ph_js_put_part(r, out, &text, 0, head));
    for (int64_t i = 0; i < before; i++) PH_TRY(ph_js_put(r, out, s->fill, s->fill_n, mark));
    PH_TRY(ph_js_put_part(r, out, &text, head, text.n - head));
    for (int64_t i = before; i < extra; i++) PH_TRY(ph_js_put(r, out, s->fill, s->fill_n, mark));
    return PH_OK;
}

static void add_groups(const char *from, char *to, size_t size, char group) {
    size_t whole = strspn(from + (*from == '-'), "0123456789"), k = 0;
    if (*from == '-') to[k++] = *from++;
    for (size_t i = 0; from[i] && k + 2 < size; i++) {
        if (i && i < whole && (whole - i) % 3 == 0) to[k++] = group;
        to[k++] = from[i];
    }
    to[k] = 0;
}

static void int_text(int64_t v, const spec *s, char *out, size_t size) {
    char     digits[72];
    size_t   k = sizeof digits;
    uint64_t u = v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
    unsigned base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : s->type == 'b' ? 2 : 10;
    digits[--k] = 0;
    do digits[--k] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
    while (u /= base);
    snprintf(out, size, "%s%s%s", v < 0 ? "-" : "",
             s->alt && base == 16  ? (s->type == 'X' ? "0X" : "0x")
             : s->alt && base == 8 ? "0o"
             : s->alt && base == 2 ? "0b"
                                   : "",
             digits + k);
}

static ph_rc float_text(ph_jrun *r, double f, const spec *s, char *out, size_t size) {
    char   type = s->type ? s->type : 's';
    int    precision = (int)(s->precision < 0 ? 6 : s->precision);
    double value = type == '%' ? f * 100 : f;
    if (precision > 60) return PH_J_FAIL(r, "ValueError: a precision of %d digits", precision);
    if (type == 's' && s->precision < 0) {
        ph_j_float_text(f, out);
        return PH_OK;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    char format[16];
    snprintf(format, sizeof format, "%%%s.*%c", s->alt ? "#" : "",
             type == '%' || type == 'F'   ? 'f'
             : type == 's' || type == 'n' ? 'g'
                                          : type);
    ph_plain_print(out, size, format, precision, value);
#pragma GCC diagnostic pop
    if (type == '%') strncat(out, "%", size - strlen(out) - 1);
    if (type == 's' && !strpbrk(out, ".en")) strncat(out, ".0", size - strlen(out) - 1);
    return PH_OK;
}

static ph_rc put_number(ph_jrun *r, ph_jbuf *out, ph_jv v, const spec *s) {
    char    text[480], grouped[640], *final = text;
    ph_jbuf b = {0};
    if (v.kind == PH_J_FLOAT || (s->type && strchr("eEfFgG%", s->type)))
        PH_TRY(float_text(r, ph_j_num(v), s, text, sizeof text));
    else
        int_text(v.u.i, s, text, sizeof text);
    if (s->group) {
        add_groups(text, grouped, sizeof grouped, s->group);
        final = grouped;
    }
    if (s->sign && s->sign != '-' && final[0] != '-') PH_TRY(ph_js_put(r, &b, &s->sign, 1, PH_JINJA_TRUSTED));
    PH_TRY(ph_js_puts(r, &b, final, PH_JINJA_TRUSTED));
    return pad(r, out, &b, s, s->align ? s->align : '>');
}

static ph_rc put_text(ph_jrun *r, ph_jbuf *out, const ph_jstr *text, const spec *s) {
    ph_jbuf b = {0};
    size_t  n = s->precision >= 0 ? ph_js_offset(text, (size_t)s->precision) : text->n;
    PH_TRY(ph_js_put_part(r, &b, text, 0, n));
    return pad(r, out, &b, s, s->align ? s->align : '<');
}

static ph_rc char_of(ph_jrun *r, ph_jv v, ph_jv *out) {
    ph_jbuf b = {0};
    if (v.kind == PH_J_STR && ph_js_chars(v.u.p) == 1) {
        *out = v;
        return PH_OK;
    }
    if (!ph_j_is_int(v)) return PH_J_FAIL(r, "TypeError: %%c requires int or char");
    if (v.u.i < 0 || v.u.i > 0x10FFFF) return PH_J_FAIL(r, "OverflowError: %%c arg not in range(0x110000)");
    PH_TRY(ph_js_put_cp(r, &b, (uint32_t)v.u.i, PH_JINJA_DATA)); /* never a letter made from a number */
    return ph_js_done(r, &b, out);
}

/* ---- percent */

static ph_rc percent_value(ph_jrun *r, ph_jbuf *b, ph_jv v, spec *s) {
    ph_jbuf repr = {0};
    if (s->type == 'r' || s->type == 'a') {
        PH_TRY(ph_j_put_repr(r, &repr, v));
        PH_TRY(ph_js_done(r, &repr, &v));
    } else if (s->type == 's') {
        PH_TRY(ph_j_to_str(r, v, &v));
    } else if (s->type == 'c') {
        PH_TRY(char_of(r, v, &v));
    } else {
        if (v.kind == PH_J_UNDEF) return ph_j_undef_used(r, v);
        int whole = strchr("diu", s->type) != NULL;
        if (!ph_j_is_num(v))
            return PH_J_FAIL(r, "TypeError: %%%c format: a real number is required, not %s", s->type,
                             ph_j_type(v));
        if (strchr("xXo", s->type) && v.kind == PH_J_FLOAT)
            return PH_J_FAIL(r, "TypeError: %%%c format: an integer is required, not float", s->type);
        if (whole && v.kind == PH_J_FLOAT) {
            if (!(fabs(v.u.f) < 9.2e18))
                return PH_J_FAIL(r, "OverflowError: cannot convert float to integer");
            v = ph_j_int((int64_t)v.u.f);
        }
        if (whole) s->type = 'd';
        if (s->type == 'd' &&
            s->precision >= 0) { /* the precision of an integer is its least number of digits */
            if (!s->align || s->align == '>')
                s->fill[0] = '0', s->align = '=',
                s->width = s->width > s->precision ? s->width : s->precision;
        }
        return put_number(r, b, v, s);
    }
    if (s->fill[0] == '0') s->fill[0] = ' ', s->align = '>';
    if (!s->align) s->align = '>';
    return put_text(r, b, v.u.p, s);
}

typedef struct percent_args {
    ph_jv  v;
    size_t at;
} percent_args;

static ph_rc next_arg(ph_jrun *r, percent_args *a, ph_jv *out) {
    const ph_jlist *l = a->v.u.p;
    if (a->v.kind == PH_J_TUPLE && a->at < l->n)
        *out = l->v[a->at++];
    else if (a->v.kind != PH_J_TUPLE && !a->at++)
        *out = a->v;
    else
        return PH_J_FAIL(r, "TypeError: not enough arguments for format string");
    return PH_OK;
}

static ph_rc number_at(ph_jrun *r, const ph_jstr *f, size_t *i, percent_args *a, int64_t *out) {
    ph_jv v;
    *out = 0;
    if (*i < f->n && f->p[*i] == '*' && a) {
        ++*i;
        PH_TRY(next_arg(r, a, &v));
        PH_TRY(ph_j_as_index(r, v, out));
    }
    for (; *i < f->n && f->p[*i] >= '0' && f->p[*i] <= '9'; ++*i)
        if (*out <= WIDTH_MAX) *out = *out * 10 + (f->p[*i] - '0');
    if (*out > WIDTH_MAX || *out < -WIDTH_MAX)
        return PH_J_FAIL(r, "ValueError: a width or precision beyond %d", WIDTH_MAX);
    return PH_OK;
}

static ph_rc keyed_arg(ph_jrun *r, const ph_jstr *f, size_t *i, percent_args *a, ph_jv *out) {
    const char *close = memchr(f->p + *i, ')', f->n - *i);
    ph_jv       key;
    if (!close) return PH_J_FAIL(r, "ValueError: incomplete format key");
    if (a->v.kind != PH_J_DICT) return PH_J_FAIL(r, "TypeError: format requires a mapping");
    size_t end = (size_t)(close - f->p);
    PH_TRY(ph_js_part(r, f, *i + 1, end - *i - 1, &key));
    PH_TRY(ph_j_dict_get(r, a->v.u.p, key, out));
    if (out->kind == PH_J_MISSING)
        return PH_J_FAIL(r, "KeyError: '%.*s'", (int)(end - *i - 1 < 60 ? end - *i - 1 : 60), f->p + *i + 1);
    *i = end + 1;
    return PH_OK;
}

/* One conversion after its '%', at *i. */
static ph_rc one_percent(ph_jrun *r, ph_jbuf *b, const ph_jstr *f, size_t *i, percent_args *a) {
    spec  s = {.fill = " ", .fill_n = 1, .precision = -1};
    ph_jv v = {PH_J_MISSING, {0}};
    if (*i < f->n && f->p[*i] == '(') PH_TRY(keyed_arg(r, f, i, a, &v));
    for (; *i < f->n && f->p[*i] && strchr("-+ #0", f->p[*i]); ++*i) {
        if (f->p[*i] == '-')
            s.align = '<', s.fill[0] = ' ';
        else if (f->p[*i] == '0' && s.align != '<')
            s.fill[0] = '0', s.align = '=';
        else if (f->p[*i] == '#')
            s.alt = 1;
        else if (f->p[*i] != '0' && s.sign != '+')
            s.sign = f->p[*i];
    }
    PH_TRY(number_at(r, f, i, a, &s.width));
    if (s.width < 0) s.width = -s.width, s.align = '<', s.fill[0] = ' ';
    if (*i < f->n && f->p[*i] == '.') {
        ++*i;
        PH_TRY(number_at(r, f, i, a, &s.precision));
    }
    while (*i < f->n && f->p[*i] && strchr("hlL", f->p[*i])) ++*i;
    if (*i >= f->n) return PH_J_FAIL(r, "ValueError: incomplete format");
    s.type = f->p[(*i)++];
    if (s.type == '%') return ph_js_put_part(r, b, f, *i - 1, 1);
    if (!s.type || !strchr("srdiuoxXeEfFgGca", s.type))
        return PH_J_FAIL(r, "ValueError: unsupported format character '%c'", s.type);
    if (v.kind == PH_J_MISSING) PH_TRY(next_arg(r, a, &v));
    return percent_value(r, b, v, &s);
}

ph_rc ph_j_percent(ph_jrun *r, const ph_jstr *f, ph_jv args, ph_jv *out) {
    percent_args a = {.v = args};
    ph_jbuf      b = {0};
    int          keyed = 0;
    for (size_t i = 0; i < f->n;) {
        size_t at = i;
        while (at < f->n && f->p[at] != '%') at++;
        PH_TRY(ph_js_put_part(r, &b, f, i, at - i));
        i = at + 1;
        if (at >= f->n) break;
        keyed |= i < f->n && f->p[i] == '(';
        PH_TRY(ph_j_step(r, 1));
        PH_TRY(one_percent(r, &b, f, &i, &a));
    }
    size_t given = args.kind == PH_J_TUPLE ? ((const ph_jlist *)args.u.p)->n : 1;
    if (a.at < given && !keyed && args.kind != PH_J_DICT && args.kind != PH_J_LIST &&
        args.kind != PH_J_RANGE && args.kind != PH_J_UNDEF)
        return PH_J_FAIL(r, "TypeError: not all arguments converted during string formatting");
    return ph_js_done(r, &b, out);
}

/* ---- str.format */

typedef struct formatter {
    ph_jrun        *r;
    const ph_jargs *args;
    size_t          next;
    int             manual; /* 0 not known, 1 "{0}", 2 "{}" */
} formatter;

static ph_rc by_name(formatter *x, const ph_jstr *f, size_t at, size_t n, ph_jv *out) {
    int64_t k = 0;
    int     is_number = n > 0;
    for (size_t i = at; i < at + n; i++) {
        is_number = is_number && f->p[i] >= '0' && f->p[i] <= '9' && k < INT32_MAX;
        if (is_number) k = k * 10 + (f->p[i] - '0');
    }
    if (!n || is_number) {
        int manual = is_number ? 1 : 2;
        if (x->manual && x->manual != manual)
            return PH_J_FAIL(x->r, "ValueError: cannot switch between automatic and manual field numbering");
        x->manual = manual;
        if (!n) k = (int64_t)x->next++;
        if (k >= (int64_t)x->args->n)
            return PH_J_FAIL(x->r,
                             "IndexError: Replacement index %lld out of range for positional args tuple",
                             (long long)k);
        *out = x->args->pos[k];
        return PH_OK;
    }
    for (size_t i = 0; i < x->args->n_kw; i++)
        if (x->args->name[i]->n == n && !memcmp(x->args->name[i]->p, f->p + at, n)) {
            *out = x->args->kw[i];
            return PH_OK;
        }
    return PH_J_FAIL(x->r, "KeyError: '%.*s'", (int)(n < 60 ? n : 60), f->p + at);
}

/* name.attr[0][key]: the name, then the path, by the sandbox's look-ups. */
static ph_rc field_value(formatter *x, const ph_jstr *f, size_t at, size_t end, ph_jv *out) {
    size_t i = at;
    while (i < end && f->p[i] != '.' && f->p[i] != '[') i++;
    PH_TRY(by_name(x, f, at, i - at, out));
    while (i < end) {
        int    is_item = f->p[i] == '[';
        size_t j = ++i;
        ph_jv  key;
        while (j < end && (is_item ? f->p[j] != ']' : f->p[j] != '.' && f->p[j] != '[')) j++;
        if (j == i || (is_item && j == end))
            return PH_J_FAIL(x->r, "ValueError: Empty attribute in format string");
        PH_TRY(ph_js_part(x->r, f, i, j - i, &key));
        char digits[20];
        if (is_item && j - i < sizeof digits && strspn(f->p + i, "0123456789") >= j - i) {
            memcpy(digits, f->p + i, j - i);
            digits[j - i] = 0;
            key = ph_j_int(strtoll(digits, NULL, 10));
        }
        PH_TRY(is_item ? ph_j_getitem(x->r, *out, key, out) : ph_j_getattr(x->r, *out, key.u.p, out));
        i = j + (size_t)is_item;
        if (out->kind == PH_J_UNDEF) return ph_j_undef_used(x->r, *out);
    }
    return PH_OK;
}

static ph_rc parse_spec(ph_jrun *r, const ph_jstr *f, spec *s) {
    size_t i = 0, len = 0;
    *s = (spec){.fill = " ", .fill_n = 1, .precision = -1};
    if (f->n) ph_js_cp(f->p, f->n, &len);
    if (f->n > len && f->p[len] && strchr("<>=^", f->p[len])) {
        memcpy(s->fill, f->p, len);
        s->fill_n = len;
        s->align = f->p[len];
        i = len + 1;
    } else if (f->n && *f->p && strchr("<>=^", *f->p)) {
        s->align = f->p[i++];
    }
    if (i < f->n && f->p[i] && strchr("+- ", f->p[i])) s->sign = f->p[i++];
    if (i < f->n && f->p[i] == '#') s->alt = 1, i++;
    if (i < f->n && f->p[i] == '0') {
        if (!s->align) s->align = '=', s->fill[0] = '0', s->fill_n = 1;
        i++;
    }
    PH_TRY(number_at(r, f, &i, NULL, &s->width));
    if (i < f->n && (f->p[i] == ',' || f->p[i] == '_')) s->group = f->p[i++];
    if (i < f->n && f->p[i] == '.') {
        size_t digits = ++i;
        PH_TRY(number_at(r, f, &i, NULL, &s->precision));
        if (i == digits) return PH_J_FAIL(r, "ValueError: Format specifier missing precision");
    }
    if (i < f->n) s->type = f->p[i++];
    if (i < f->n) return PH_J_FAIL(r, "ValueError: Invalid format specifier");
    return PH_OK;
}

static ph_rc put_formatted(ph_jrun *r, ph_jbuf *b, ph_jv v, const ph_jstr *spec_text) {
    spec s;
    PH_TRY(parse_spec(r, spec_text, &s));
    const char *types = ph_j_is_int(v) ? "bcdeEfFgGnoxX%" : v.kind == PH_J_FLOAT ? "eEfFgGn%" : "s";
    if (v.kind == PH_J_BOOL && !spec_text->n) return ph_j_put_str(r, b, v);
    if (v.kind != PH_J_STR && !ph_j_is_num(v)) {
        if (spec_text->n)
            return PH_J_FAIL(r, "TypeError: unsupported format string passed to %s.__format__", ph_j_type(v));
        return ph_j_put_str(r, b, v);
    }
    if (s.type && !strchr(types, s.type))
        return PH_J_FAIL(r, "ValueError: Unknown format code '%c' for object of type '%s'", s.type,
                         ph_j_type(v));
    if (v.kind == PH_J_STR) {
        if (s.align == '=')
            return PH_J_FAIL(r, "ValueError: '=' alignment not allowed in string format specifier");
        return put_text(r, b, v.u.p, &s);
    }
    if (s.type == 'c') {
        PH_TRY(char_of(r, v, &v));
        return put_text(r, b, v.u.p, &s);
    }
    return put_number(r, b, v, &s);
}

/* One field "{name!r:spec}": at the byte after '{'; end is its '}'. */
static ph_rc one_field(formatter *x, ph_jbuf *b, const ph_jstr *f, size_t at, size_t end) {
    ph_jv   v, spec_text;
    ph_jbuf repr = {0};
    size_t  name_end = at, depth = 0;
    for (; name_end < end && (depth || (f->p[name_end] != ':' && f->p[name_end] != '!')); name_end++) {
        if (f->p[name_end] == '[')
            depth++;
        else if (f->p[name_end] == ']' && depth)
            depth--;
    }
    PH_TRY(field_value(x, f, at, name_end, &v));
    if (name_end < end && f->p[name_end] == '!') {
        char how = name_end + 1 < end ? f->p[name_end + 1] : 0;
        name_end += 2;
        if (how == 's')
            PH_TRY(ph_j_to_str(x->r, v, &v));
        else if (how == 'r' || how == 'a') {
            PH_TRY(ph_j_put_repr(x->r, &repr, v));
            PH_TRY(ph_js_done(x->r, &repr, &v));
        } else
            return PH_J_FAIL(x->r, "ValueError: Unknown conversion specifier");
        if (name_end < end && f->p[name_end] != ':')
            return PH_J_FAIL(x->r, "ValueError: expected ':' after conversion specifier");
    }
    size_t from = name_end < end ? name_end + 1 : end;
    PH_TRY(ph_js_part(x->r, f, from, end - from, &spec_text));
    if (memchr(ph_j_str(spec_text)->p, '{', ph_j_str(spec_text)->n)) { /* a nested "{}" is filled in first */
        ph_jbuf        inner = {0};
        const ph_jstr *t = spec_text.u.p;
        for (size_t i = 0, j; i < t->n; i = j + 1) {
            for (j = i; j < t->n && t->p[j] != '{';) j++;
            PH_TRY(ph_js_put_part(x->r, &inner, t, i, j - i));
            if (j == t->n) break;
            for (i = j + 1; j < t->n && t->p[j] != '}';) j++;
            if (j == t->n) return PH_J_FAIL(x->r, "ValueError: expected '}' before end of string");
            PH_TRY(field_value(x, t, i, j, &spec_text));
            PH_TRY(ph_j_put_str(x->r, &inner, spec_text));
        }
        PH_TRY(ph_js_done(x->r, &inner, &spec_text));
    }
    return put_formatted(x->r, b, v, spec_text.u.p);
}

ph_rc ph_j_str_format(ph_jrun *r, const ph_jstr *f, const ph_jargs *args, ph_jv *out) {
    formatter x = {.r = r, .args = args};
    ph_jbuf   b = {0};
    for (size_t i = 0; i < f->n; i++) {
        const char c = f->p[i];
        if (c != '{' && c != '}') {
            PH_TRY(ph_js_put_part(r, &b, f, i, 1));
            continue;
        }
        if (i + 1 < f->n && f->p[i + 1] == c) {
            PH_TRY(ph_js_put_part(r, &b, f, i++, 1));
            continue;
        }
        if (c == '}') return PH_J_FAIL(r, "ValueError: Single '}' encountered in format string");
        size_t end = i + 1, depth = 1;
        for (; end < f->n; end++) {
            depth += f->p[end] == '{';
            depth -= f->p[end] == '}';
            if (!depth) break;
        }
        if (end >= f->n) return PH_J_FAIL(r, "ValueError: expected '}' before end of string");
        PH_TRY(ph_j_step(r, 1));
        PH_TRY(one_field(&x, &b, f, i + 1, end));
        i = end;
    }
    return ph_js_done(r, &b, out);
}
