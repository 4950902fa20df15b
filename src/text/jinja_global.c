/* jinja_global.c - the functions that every template has: range, dict, namespace, cycler, joiner,
 * raise_exception, strftime_now.  lipsum is left out: it is random. */
#include "text/jinja_impl.h"

#include "base/locale.h"

#include <stdio.h>
#include <time.h>

#define GLOBAL(name) static ph_rc name(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out)

GLOBAL(range) {
    enum { RANGE_MAX = 100000 }; /* the sandbox's own limit */
    int64_t    v[3] = {0, 0, 1};
    int        n = arg[2].kind != PH_J_MISSING ? 3 : arg[1].kind != PH_J_MISSING ? 2 : 1;
    ph_jrange *g;
    __int128   count;
    (void)self;
    for (int i = 0; i < n; i++) PH_TRY(ph_j_as_index(r, arg[i], n == 1 ? &v[1] : &v[i]));
    if (!v[2]) return PH_J_FAIL(r, "ValueError: range() arg 3 must not be zero");
    count = v[2] > 0 ? ((__int128)v[1] - v[0] + v[2] - 1) / v[2]
                     : ((__int128)v[0] - v[1] - v[2] - 1) / -(__int128)v[2];
    if (v[2] > 0 ? v[1] <= v[0] : v[1] >= v[0]) count = 0;
    if (count > RANGE_MAX)
        return PH_J_FAIL(
            r, "OverflowError: Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
            RANGE_MAX);
    PH_TRY(ph_j_carve(r, &g, 1, sizeof *g));
    *g = (ph_jrange){.start = v[0], .stop = v[1], .step = v[2], .n = (size_t)count};
    *out = ph_j_ptr(PH_J_RANGE, g);
    return PH_OK;
}

/* dict(pairs or dict, name=value, ...): also what namespace() starts from. */
static ph_rc fill(ph_jrun *r, const ph_jargs *args, ph_jdict **out) {
    ph_jlist l, pair;
    PH_TRY(ph_j_dict_make(r, out));
    if (args->n > 1) return PH_J_FAIL(r, "TypeError: dict expected at most 1 argument, got %zu", args->n);
    if (args->n && args->pos[0].kind == PH_J_DICT) {
        const ph_jdict *d = args->pos[0].u.p;
        for (size_t i = 0; i < d->n; i++) PH_TRY(ph_j_dict_set(r, *out, d->key[i], d->val[i]));
    } else if (args->n) {
        PH_TRY(ph_j_items(r, args->pos[0], &l));
        for (size_t i = 0; i < l.n; i++) {
            PH_TRY(ph_j_items(r, l.v[i], &pair));
            if (pair.n != 2)
                return PH_J_FAIL(
                    r, "ValueError: dictionary update sequence element #%zu has length %zu; 2 is required", i,
                    pair.n);
            PH_TRY(ph_j_dict_set(r, *out, pair.v[0], pair.v[1]));
        }
    }
    for (size_t i = 0; i < args->n_kw; i++)
        PH_TRY(ph_j_dict_set(r, *out, ph_j_ptr(PH_J_STR, args->name[i]), args->kw[i]));
    return PH_OK;
}

GLOBAL(dict) {
    ph_jdict *d;
    (void)self;
    PH_TRY(fill(r, arg[0].u.p, &d));
    *out = ph_j_ptr(PH_J_DICT, d);
    return PH_OK;
}

GLOBAL(namespace) {
    ph_jdict *d;
    (void)self;
    PH_TRY(fill(r, arg[0].u.p, &d));
    *out = ph_j_ptr(PH_J_NS, d);
    return PH_OK;
}

GLOBAL(cycler) {
    const ph_jargs *args = arg[0].u.p;
    ph_jcycler     *c;
    (void)self;
    if (!args->n) return PH_J_FAIL(r, "RuntimeError: at least one item has to be provided");
    PH_TRY(ph_j_carve(r, &c, 1, sizeof *c));
    *c = (ph_jcycler){.v = args->pos, .n = args->n};
    *out = ph_j_ptr(PH_J_CYCLER, c);
    return PH_OK;
}

GLOBAL(joiner) {
    ph_jlist l = {0};
    (void)self;
    if (arg[0].kind == PH_J_MISSING) PH_TRY(ph_js_lit(r, ", ", &arg[0]));
    PH_TRY(ph_j_list_push(r, &l, arg[0]));
    return ph_j_list_make(r, PH_J_JOINER, &l, out);
}

GLOBAL(raise_exception) {
    ph_jv   s;
    ph_jbuf b = {0};
    (void)self, (void)out;
    PH_TRY(ph_j_to_str(r, arg[0], &s));
    PH_TRY(ph_js_put_str(r, &b, s.u.p));
    PH_TRY(ph_js_put(r, &b, "", 1, PH_JINJA_DATA)); /* its terminator */
    r->raised = b.p;
    return PH_J_FAIL(r, "%s", b.p);
}

GLOBAL(strftime_now) {
    char      text[512];
    char      format[256];
    struct tm tm;
    time_t    now = (time_t)r->now_s;
    ph_jbuf   b = {0};
    (void)self;
    if (arg[0].kind != PH_J_STR)
        return PH_J_FAIL(r, "TypeError: strftime() argument 1 must be str, not %s", ph_j_type(arg[0]));
    const ph_jstr *f = arg[0].u.p;
    if (f->n >= sizeof format - 1 || memchr(f->p, 0, f->n))
        return PH_J_FAIL(r, "strftime_now: a format of %zu bytes", f->n);
    memcpy(format, f->p, f->n);
    format[f->n] = '!'; /* so that an empty result is not taken for a failure */
    format[f->n + 1] = 0;
    if (r->now_s >= 0) {
        gmtime_r(&now, &tm);
    } else {
        now = time(NULL);
        localtime_r(&now, &tm);
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = ph_plain_time(text, sizeof text, format, &tm);
#pragma GCC diagnostic pop
    if (!n) return PH_J_FAIL(r, "strftime_now: the result is longer than %zu bytes", sizeof text);
    int mark = PH_JINJA_TRUSTED;
    for (size_t i = 0; i < f->n; i++) mark &= ph_js_mark(f, i);
    PH_TRY(ph_js_put(r, &b, text, n - 1, mark));
    return ph_js_done(r, &b, out);
}

static const ph_jbuiltin globals[] = {
    {"range", range, "a|b c"},
    {"dict", dict, "*"},
    {"namespace", namespace, "*"},
    {"cycler", cycler, "*"},
    {"joiner", joiner, "|sep"},
    {"raise_exception", raise_exception, "message"},
    {"strftime_now", strftime_now, "format"},
};

ph_jv ph_j_global(const ph_jstr *name) {
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (ph_js_is(name, globals[i].name)) return ph_j_ptr(PH_J_FUNC, &globals[i]);
    return (ph_jv){PH_J_MISSING, {0}};
}
