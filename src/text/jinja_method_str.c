/* jinja_method_str.c - the methods of strings, Python's. */
#include "text/jinja_method.h"

#include <utf8proc.h>

#define METHOD(name) ph_rc ph_jm_##name(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out)

static ph_rc need_str(ph_jrun *r, ph_jv v, const ph_jstr **out) {
    *out = NULL; /* gcc does not see that a failure is never PH_OK */
    if (v.kind == PH_J_UNDEF) return ph_j_undef_used(r, v);
    if (v.kind != PH_J_STR) return PH_J_FAIL(r, "TypeError: must be str, not %s", ph_j_type(v));
    *out = v.u.p;
    return PH_OK;
}

static ph_rc optional_int(ph_jrun *r, ph_jv v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    return v.kind == PH_J_MISSING || v.kind == PH_J_NONE ? PH_OK : ph_j_as_index(r, v, out);
}

/* ---- case */

METHOD(str_upper) {
    (void)arg;
    return ph_js_case(r, self.u.p, PH_JS_UPPER, out);
}
METHOD(str_lower) {
    (void)arg;
    return ph_js_case(r, self.u.p, PH_JS_LOWER, out);
}
METHOD(str_title) {
    (void)arg;
    return ph_js_case(r, self.u.p, PH_JS_TITLE, out);
}
METHOD(str_capitalize) {
    (void)arg;
    return ph_js_case(r, self.u.p, PH_JS_CAPITALIZE, out);
}
METHOD(str_swapcase) {
    (void)arg;
    return ph_js_case(r, self.u.p, PH_JS_SWAP, out);
}

/* ---- the ends */

static ph_rc strip(ph_jrun *r, ph_jv self, ph_jv chars, int sides, ph_jv *out) {
    const ph_jstr *c = NULL;
    if (chars.kind != PH_J_MISSING && chars.kind != PH_J_NONE) PH_TRY(need_str(r, chars, &c));
    return ph_js_strip(r, self.u.p, c, sides, out);
}
METHOD(str_strip) {
    return strip(r, self, arg[0], 3, out);
}
METHOD(str_lstrip) {
    return strip(r, self, arg[0], 1, out);
}
METHOD(str_rstrip) {
    return strip(r, self, arg[0], 2, out);
}

METHOD(str_removeprefix) {
    const ph_jstr *s = self.u.p, *p;
    PH_TRY(need_str(r, arg[0], &p));
    size_t n = p->n <= s->n && !memcmp(s->p, p->p, p->n) ? p->n : 0;
    return ph_js_part(r, s, n, s->n - n, out);
}
METHOD(str_removesuffix) {
    const ph_jstr *s = self.u.p, *p;
    PH_TRY(need_str(r, arg[0], &p));
    size_t n = p->n <= s->n && !memcmp(s->p + s->n - p->n, p->p, p->n) ? p->n : 0;
    return ph_js_part(r, s, 0, s->n - n, out);
}

/* The bytes [lo, hi) of s that the character positions start and end name; 0 when start is past the end. */
static ph_rc window(ph_jrun *r, const ph_jstr *s, const ph_jv *bounds, size_t *lo, size_t *hi, int *is_in) {
    int64_t n, a, b;
    *lo = 0;
    *hi = s->n;
    *is_in = 1;
    if (bounds[0].kind == PH_J_MISSING && bounds[1].kind == PH_J_MISSING) return PH_OK;
    n = (int64_t)ph_js_chars(s);
    PH_TRY(optional_int(r, bounds[0], 0, &a));
    PH_TRY(optional_int(r, bounds[1], n, &b));
    if (a < 0) a = a < -n ? 0 : a + n;
    if (b < 0) b = b < -n ? 0 : b + n;
    if (b > n) b = n;
    *is_in = a <= b;
    *lo = ph_js_offset(s, (size_t)a);
    *hi = ph_js_offset(s, (size_t)b);
    return PH_OK;
}

static ph_rc has_end(ph_jrun *r, ph_jv self, ph_jv *arg, int at_end, ph_jv *out) {
    const ph_jstr *s = self.u.p, *p;
    ph_jlist       one = {.v = arg, .n = 1}, *any = &one, many;
    size_t         lo, hi;
    int            is_in;
    if (arg[0].kind == PH_J_TUPLE) {
        PH_TRY(ph_j_items(r, arg[0], &many));
        any = &many;
    }
    PH_TRY(window(r, s, arg + 1, &lo, &hi, &is_in));
    *out = ph_j_bool(0);
    for (size_t i = 0; i < any->n; i++) {
        PH_TRY(need_str(r, any->v[i], &p));
        if (is_in && p->n <= hi - lo && !memcmp(at_end ? s->p + hi - p->n : s->p + lo, p->p, p->n))
            *out = ph_j_bool(1);
    }
    return PH_OK;
}
METHOD(str_startswith) {
    return has_end(r, self, arg, 0, out);
}
METHOD(str_endswith) {
    return has_end(r, self, arg, 1, out);
}

/* ---- searching */

static ph_rc find(ph_jrun *r, ph_jv self, ph_jv *arg, int from_right, int must, ph_jv *out) {
    const ph_jstr *s = self.u.p, *sub;
    size_t         lo, hi, at;
    int            is_in;
    PH_TRY(need_str(r, arg[0], &sub));
    PH_TRY(window(r, s, arg + 1, &lo, &hi, &is_in));
    PH_TRY(ph_j_step(r, from_right ? (sub->n / 64 + 1) * (s->n / 8 + 1) : s->n / 64));
    ph_jstr part = {.p = s->p, .n = hi};
    at = !is_in ? SIZE_MAX : from_right ? ph_js_rfind(&part, hi, sub) : ph_js_find(&part, lo, sub);
    if (at != SIZE_MAX && at < lo) at = SIZE_MAX;
    if (at == SIZE_MAX && must) return PH_J_FAIL(r, "ValueError: substring not found");
    part.n = at;
    *out = ph_j_int(at == SIZE_MAX ? -1 : (int64_t)ph_js_chars(&part));
    return PH_OK;
}
METHOD(str_find) {
    return find(r, self, arg, 0, 0, out);
}
METHOD(str_rfind) {
    return find(r, self, arg, 1, 0, out);
}
METHOD(str_index) {
    return find(r, self, arg, 0, 1, out);
}
METHOD(str_rindex) {
    return find(r, self, arg, 1, 1, out);
}

METHOD(str_count) {
    const ph_jstr *s = self.u.p, *sub;
    size_t         lo, hi, at;
    int            is_in;
    int64_t        n = 0;
    PH_TRY(need_str(r, arg[0], &sub));
    PH_TRY(window(r, s, arg + 1, &lo, &hi, &is_in));
    ph_jstr part = {.p = s->p + lo, .n = is_in ? hi - lo : 0};
    if (!sub->n)
        n = is_in ? (int64_t)ph_js_chars(&part) + 1 : 0;
    else
        for (lo = 0; (at = ph_js_find(&part, lo, sub)) != SIZE_MAX; lo = at + sub->n, n++)
            PH_TRY(ph_j_step(r, 1));
    *out = ph_j_int(n);
    return PH_OK;
}

METHOD(str_replace) {
    const ph_jstr *from, *to;
    int64_t        count;
    PH_TRY(need_str(r, arg[0], &from));
    PH_TRY(need_str(r, arg[1], &to));
    PH_TRY(optional_int(r, arg[2], -1, &count));
    return ph_js_replace(r, self.u.p, from, to, count, out);
}

/* ---- taking apart */

static ph_rc push_part(ph_jrun *r, const ph_jstr *s, size_t lo, size_t hi, ph_jlist *l) {
    ph_jv v;
    PH_TRY(ph_js_part(r, s, lo, hi - lo, &v));
    return ph_j_list_push(r, l, v);
}

static ph_rc split_at(ph_jrun *r, const ph_jstr *s, const ph_jstr *sep, int64_t most, int from_right,
                      ph_jlist *l) {
    size_t lo = 0, hi = s->n, at;
    if (!sep->n) return PH_J_FAIL(r, "ValueError: empty separator");
    while (most != 0 && (at = from_right ? ph_js_rfind(s, hi, sep) : ph_js_find(s, lo, sep)) != SIZE_MAX) {
        if (from_right) {
            PH_TRY(ph_j_step(r, (hi - at) / 16));
            PH_TRY(push_part(r, s, at + sep->n, hi, l));
            hi = at;
        } else {
            PH_TRY(push_part(r, s, lo, at, l));
            lo = at + sep->n;
        }
        most -= most > 0;
    }
    return push_part(r, s, lo, hi, l);
}

static size_t space_run(const ph_jstr *s, size_t at, int space) {
    size_t len;
    while (at < s->n && ph_js_space(ph_js_cp(s->p + at, s->n - at, &len)) == space) at += len;
    return at;
}

/* All words and where they begin; then those beyond the limit are joined again. */
static ph_rc split_words(ph_jrun *r, const ph_jstr *s, int64_t most, int from_right, ph_jlist *l) {
    ph_jlist words = {0};
    ph_jv    stripped;
    for (size_t at = space_run(s, 0, 1), end; at < s->n; at = space_run(s, end, 1)) {
        end = space_run(s, at, 0);
        PH_TRY(push_part(r, s, at, end, &words));
    }
    size_t n = words.n, keep = most < 0 || (uint64_t)most >= n ? n : (size_t)most;
    if (keep == n || !n) {
        *l = words;
        return PH_OK;
    }
    if (!from_right) {
        const ph_jstr *first = words.v[keep].u.p;
        for (size_t i = 0; i < keep; i++) PH_TRY(ph_j_list_push(r, l, words.v[i]));
        size_t at = (size_t)(first->p - s->p);
        PH_TRY(ph_js_part(r, s, at, s->n - at, &stripped));
        return ph_j_list_push(r, l, stripped);
    }
    const ph_jstr *last = words.v[n - keep - 1].u.p;
    for (size_t i = n; i-- > n - keep;) PH_TRY(ph_j_list_push(r, l, words.v[i]));
    PH_TRY(ph_js_part(r, s, 0, (size_t)(last->p - s->p) + last->n, &stripped));
    return ph_j_list_push(r, l, stripped);
}

static ph_rc split(ph_jrun *r, ph_jv self, ph_jv *arg, int from_right, ph_jv *out) {
    const ph_jstr *sep;
    ph_jlist       l = {0};
    int64_t        most;
    int            by_space = arg[0].kind == PH_J_MISSING || arg[0].kind == PH_J_NONE;
    PH_TRY(optional_int(r, arg[1], -1, &most));
    if (!by_space) PH_TRY(need_str(r, arg[0], &sep));
    PH_TRY(by_space ? split_words(r, self.u.p, most, from_right, &l)
                    : split_at(r, self.u.p, sep, most, from_right, &l));
    int is_reversed = from_right && !(by_space && (most < 0 || (uint64_t)most >= l.n));
    for (size_t i = 0; is_reversed && i < l.n / 2; i++) {
        ph_jv v = l.v[i];
        l.v[i] = l.v[l.n - 1 - i];
        l.v[l.n - 1 - i] = v;
    }
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}
METHOD(str_split) {
    return split(r, self, arg, 0, out);
}
METHOD(str_rsplit) {
    return split(r, self, arg, 1, out);
}

METHOD(str_splitlines) {
    ph_jlist l = {0};
    PH_TRY(ph_js_split_lines(r, self.u.p, ph_j_truth(arg[0]), &l));
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

static ph_rc partition(ph_jrun *r, ph_jv self, ph_jv sep_v, int from_right, ph_jv *out) {
    const ph_jstr *s = self.u.p, *sep;
    ph_jlist       l = {0};
    PH_TRY(need_str(r, sep_v, &sep));
    if (!sep->n) return PH_J_FAIL(r, "ValueError: empty separator");
    size_t at = from_right ? ph_js_rfind(s, s->n, sep) : ph_js_find(s, 0, sep);
    size_t cut[4] = {0, at, at == SIZE_MAX ? 0 : at + sep->n, s->n};
    if (at == SIZE_MAX) cut[1] = cut[2] = from_right ? 0 : s->n;
    for (int i = 0; i < 3; i++) PH_TRY(push_part(r, s, cut[i], cut[i + 1], &l));
    return ph_j_list_make(r, PH_J_TUPLE, &l, out);
}
METHOD(str_partition) {
    return partition(r, self, arg[0], 0, out);
}
METHOD(str_rpartition) {
    return partition(r, self, arg[0], 1, out);
}

/* ---- putting together */

METHOD(str_join) {
    ph_jlist l;
    ph_jbuf  b = {0};
    PH_TRY(ph_j_items(r, arg[0], &l));
    for (size_t i = 0; i < l.n; i++) {
        if (l.v[i].kind != PH_J_STR)
            return PH_J_FAIL(r, "TypeError: sequence item %zu: expected str instance, %s found", i,
                             ph_j_type(l.v[i]));
        if (i) PH_TRY(ph_js_put_str(r, &b, self.u.p));
        PH_TRY(ph_js_put_str(r, &b, l.v[i].u.p));
    }
    return ph_js_done(r, &b, out);
}

METHOD(str_format) {
    return ph_j_str_format(r, self.u.p, arg[0].u.p, out);
}

METHOD(str_format_map) {
    ph_jlist names = {0}, vals = {0};
    ph_jargs args = {0};
    if (arg[0].kind != PH_J_DICT)
        return PH_J_FAIL(r, "TypeError: format_map() takes a dict, not %s", ph_j_type(arg[0]));
    const ph_jdict *d = arg[0].u.p;
    for (size_t i = 0; i < d->n; i++) {
        if (d->key[i].kind != PH_J_STR) continue;
        PH_TRY(ph_j_list_push(r, &names, d->key[i]));
        PH_TRY(ph_j_list_push(r, &vals, d->val[i]));
    }
    PH_TRY(ph_j_carve(r, &args.name, names.n, sizeof *args.name));
    for (size_t i = 0; i < names.n; i++) args.name[i] = names.v[i].u.p;
    args.kw = vals.v;
    args.n_kw = names.n;
    return ph_j_str_format(r, self.u.p, &args, out);
}

static ph_rc pad(ph_jrun *r, ph_jv self, ph_jv *arg, int left, int right, ph_jv *out) {
    static const ph_jstr blank = {.p = " ", .n = 1, .all = PH_JINJA_TRUSTED};
    const ph_jstr       *s = self.u.p, *fill = &blank;
    int64_t              width, n = (int64_t)ph_js_chars(s);
    ph_jbuf              b = {0};
    PH_TRY(ph_j_as_index(r, arg[0], &width));
    if (arg[1].kind != PH_J_MISSING) PH_TRY(need_str(r, arg[1], &fill));
    if (ph_js_chars(fill) != 1)
        return PH_J_FAIL(r, "TypeError: The fill character must be exactly one character long");
    int64_t extra = width > n ? width - n : 0;
    int64_t before = left && right ? extra / 2 + (extra & width & 1) : left ? extra : 0;
    for (int64_t i = 0; i < before; i++) PH_TRY(ph_js_put_str(r, &b, fill));
    PH_TRY(ph_js_put_str(r, &b, s));
    for (int64_t i = before; i < extra; i++) PH_TRY(ph_js_put_str(r, &b, fill));
    return ph_js_done(r, &b, out);
}
METHOD(str_center) {
    return pad(r, self, arg, 1, 1, out);
}
METHOD(str_ljust) {
    return pad(r, self, arg, 0, 1, out);
}
METHOD(str_rjust) {
    return pad(r, self, arg, 1, 0, out);
}

METHOD(str_zfill) {
    const ph_jstr *s = self.u.p;
    int64_t        width, n = (int64_t)ph_js_chars(s);
    ph_jbuf        b = {0};
    PH_TRY(ph_j_as_index(r, arg[0], &width));
    size_t sign = s->n && (s->p[0] == '-' || s->p[0] == '+');
    PH_TRY(ph_js_put_part(r, &b, s, 0, sign));
    for (; n < width; n++) PH_TRY(ph_js_put(r, &b, "0", 1, PH_JINJA_TRUSTED));
    PH_TRY(ph_js_put_part(r, &b, s, sign, s->n - sign));
    return ph_js_done(r, &b, out);
}

METHOD(str_expandtabs) {
    const ph_jstr *s = self.u.p;
    int64_t        size, column = 0;
    size_t         len;
    ph_jbuf        b = {0};
    PH_TRY(optional_int(r, arg[0], 8, &size));
    for (size_t i = 0; i < s->n; i += len) {
        uint32_t cp = ph_js_cp(s->p + i, s->n - i, &len);
        if (cp != '\t') {
            PH_TRY(ph_js_put_part(r, &b, s, i, len));
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
            continue;
        }
        for (int64_t k = size > 0 ? size - column % size : 0; k > 0; k--, column++)
            PH_TRY(ph_js_put(r, &b, " ", 1, ph_js_mark(s, i)));
    }
    return ph_js_done(r, &b, out);
}

/* ---- asking */

static int is_alpha(uint32_t cp) {
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
static int is_decimal(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND;
}
static int is_digit(uint32_t cp) { /* superscripts and circled digits are digits to Python */
    return is_decimal(cp) || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 || cp == 0x2070 ||
           (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468);
}
static int is_numeric(uint32_t cp) {
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)cp);
    return is_digit(cp) || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
int ph_j_alnum(uint32_t cp) {
    return is_alpha(cp) || is_numeric(cp);
}
static int is_ascii(uint32_t cp) {
    return cp < 0x80;
}
static int is_word(uint32_t cp) {
    return cp == '_' || ph_j_alnum(cp);
}

static ph_rc all_are(ph_jv self, int (*is)(uint32_t), int empty, ph_jv *out) {
    const ph_jstr *s = self.u.p;
    size_t         len;
    int            yes = s->n ? 1 : empty;
    for (size_t i = 0; i < s->n && yes; i += len) yes = is(ph_js_cp(s->p + i, s->n - i, &len));
    *out = ph_j_bool(yes);
    return PH_OK;
}
#define ASKS(name, is, empty)                                                                                \
    METHOD(name) {                                                                                           \
        (void)r, (void)arg;                                                                                  \
        return all_are(self, is, empty, out);                                                                \
    }
ASKS(str_isalpha, is_alpha, 0)
ASKS(str_isalnum, ph_j_alnum, 0)
ASKS(str_isascii, is_ascii, 1)
ASKS(str_isdecimal, is_decimal, 0)
ASKS(str_isdigit, is_digit, 0)
ASKS(str_isnumeric, is_numeric, 0)
ASKS(str_isspace, ph_js_space, 0)
ASKS(str_isprintable, ph_j_printable, 1)

METHOD(str_isidentifier) {
    const ph_jstr *s = self.u.p;
    (void)r, (void)arg;
    PH_TRY(all_are(self, is_word, 0, out));
    if (s->n && s->p[0] >= '0' && s->p[0] <= '9') *out = ph_j_bool(0);
    return PH_OK;
}

static ph_rc as_test(ph_jrun *r, ph_jv self, const char *test, ph_jv *out) {
    ph_jv    name;
    ph_jargs none = {0};
    int      is;
    PH_TRY(ph_js_lit(r, test, &name));
    PH_TRY(ph_j_apply_test(r, name.u.p, self, &none, &is));
    *out = ph_j_bool(is);
    return PH_OK;
}
METHOD(str_isupper) {
    (void)arg;
    return as_test(r, self, "upper", out);
}
METHOD(str_islower) {
    (void)arg;
    return as_test(r, self, "lower", out);
}
METHOD(str_istitle) {
    ph_jv titled;
    int   same, any = 0;
    (void)arg;
    const ph_jstr *s = self.u.p;
    size_t         len;
    for (size_t i = 0; i < s->n; i += len) {
        utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)ph_js_cp(s->p + i, s->n - i, &len));
        any |= k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT;
    }
    PH_TRY(ph_js_case(r, s, PH_JS_TITLE, &titled));
    same = ph_js_equal(s, titled.u.p);
    *out = ph_j_bool(any && same);
    return PH_OK;
}
