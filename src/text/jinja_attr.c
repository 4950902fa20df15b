/* jinja_attr.c - a.b, a[b], slices, and the undefined values they give.
 *
 * "a.b" asks for the Python attribute (a method) first and the item after; "a['b']" the other way
 * round, as the sandbox does.  Names that begin with an underscore, and methods that change their
 * object, give an undefined value that says SecurityError when used.
 */
#include "text/jinja_impl.h"

#include <stdio.h>

static const char *undefined_type(ph_jv v, char *room, size_t size) {
    if (v.kind == PH_J_NONE) return "None";
    if (v.kind == PH_J_NS) return "jinja2.utils.Namespace object";
    if (v.kind == PH_J_LOOP) return "jinja2.runtime.LoopContext object";
    snprintf(room, size, "%s object", ph_j_type(v));
    return room;
}

static ph_rc no_attr(ph_jrun *r, ph_jv obj, const ph_jstr *name, ph_jv *out) {
    char room[64];
    return ph_j_undef(r, out, "UndefinedError", "'%s' has no attribute '%.*s'",
                      undefined_type(obj, room, sizeof room), (int)(name->n < 100 ? name->n : 100), name->p);
}

static ph_rc no_item(ph_jrun *r, ph_jv obj, ph_jv key, ph_jv *out) {
    char    room[64];
    ph_jbuf b = {0};
    if (key.kind == PH_J_STR) return no_attr(r, obj, key.u.p, out);
    PH_TRY(ph_j_put_repr(r, &b, key));
    return ph_j_undef(r, out, "UndefinedError", "%s has no element %.*s",
                      undefined_type(obj, room, sizeof room), (int)(b.used < 80 ? b.used : 80),
                      b.used ? b.p : "");
}

static ph_rc loop_attr(ph_jrun *r, const ph_jloop *l, const ph_jstr *name, ph_jv *out) {
    const int64_t at = (int64_t)l->at, n = (int64_t)l->n;
    (void)r;
    if (ph_js_is(name, "index"))
        *out = ph_j_int(at + 1);
    else if (ph_js_is(name, "index0"))
        *out = ph_j_int(at);
    else if (ph_js_is(name, "revindex"))
        *out = ph_j_int(n - at);
    else if (ph_js_is(name, "revindex0"))
        *out = ph_j_int(n - at - 1);
    else if (ph_js_is(name, "first"))
        *out = ph_j_bool(at == 0);
    else if (ph_js_is(name, "last"))
        *out = ph_j_bool(at == n - 1);
    else if (ph_js_is(name, "length"))
        *out = ph_j_int(n);
    else if (ph_js_is(name, "depth"))
        *out = ph_j_int(l->depth0 + 1);
    else if (ph_js_is(name, "depth0"))
        *out = ph_j_int(l->depth0);
    else if (ph_js_is(name, "previtem") && at)
        *out = l->items[at - 1];
    else if (ph_js_is(name, "nextitem") && at + 1 < n)
        *out = l->items[at + 1];
    else if (ph_js_is(name, "previtem"))
        return ph_j_undef(r, out, "UndefinedError", "there is no previous item");
    else if (ph_js_is(name, "nextitem"))
        return ph_j_undef(r, out, "UndefinedError", "there is no next item");
    return PH_OK;
}

static ph_rc macro_attr(ph_jrun *r, const ph_jmacro *m, const ph_jstr *name, ph_jv *out) {
    if (ph_js_is(name, "name"))
        *out = m->name ? ph_j_ptr(PH_J_STR, m->name) : ph_j_none();
    else if (ph_js_is(name, "caller"))
        *out = ph_j_bool(m->node->flags & PH_JN_USES_CALLER);
    else if (ph_js_is(name, "catch_kwargs"))
        *out = ph_j_bool(m->node->flags & PH_JN_USES_KWARGS);
    else if (ph_js_is(name, "catch_varargs"))
        *out = ph_j_bool(m->node->flags & PH_JN_USES_VARARGS);
    else if (ph_js_is(name, "arguments")) {
        ph_jlist l = {0};
        for (size_t i = 0; i < m->node->n; i++)
            PH_TRY(ph_j_list_push(r, &l, ph_j_ptr(PH_J_STR, m->node->kid[i]->name)));
        return ph_j_list_make(r, PH_J_TUPLE, &l, out);
    }
    return PH_OK;
}

/* What getattr() of Python would find; PH_J_MISSING: an AttributeError. */
static ph_rc py_attr(ph_jrun *r, ph_jv obj, const ph_jstr *name, ph_jv *out) {
    const ph_jbuiltin *fn;
    *out = (ph_jv){PH_J_MISSING, {0}};
    if (ph_j_is_mutator(obj, name) || (name->n > 1 && name->p[0] == '_' && name->p[1] == '_'))
        return ph_j_undef(r, out, "SecurityError", "access to attribute '%.*s' of '%s' object is unsafe.",
                          (int)(name->n < 60 ? name->n : 60), name->p, ph_j_type(obj));
    if (obj.kind == PH_J_NS) {
        *out = ph_j_dict_str(obj.u.p, name->p, name->n);
        return PH_OK;
    }
    if (obj.kind == PH_J_LOOP) PH_TRY(loop_attr(r, obj.u.p, name, out));
    if (obj.kind == PH_J_MACRO) PH_TRY(macro_attr(r, obj.u.p, name, out));
    if (obj.kind == PH_J_TUPLE && ((const ph_jlist *)obj.u.p)->is_group) {
        if (ph_js_is(name, "grouper")) *out = ((const ph_jlist *)obj.u.p)->v[0];
        if (ph_js_is(name, "list")) *out = ((const ph_jlist *)obj.u.p)->v[1];
    }
    if (obj.kind == PH_J_CYCLER && ph_js_is(name, "current")) {
        const ph_jcycler *c = obj.u.p;
        *out = c->v[c->at];
    }
    if (obj.kind == PH_J_RANGE) {
        const ph_jrange *g = obj.u.p;
        if (ph_js_is(name, "start")) *out = ph_j_int(g->start);
        if (ph_js_is(name, "stop")) *out = ph_j_int(g->stop);
        if (ph_js_is(name, "step")) *out = ph_j_int(g->step);
    }
    if (ph_j_is_num(obj) && (ph_js_is(name, "real") || ph_js_is(name, "numerator"))) *out = obj;
    if (ph_j_is_num(obj) && ph_js_is(name, "imag"))
        *out = obj.kind == PH_J_FLOAT ? ph_j_float(0) : ph_j_int(0);
    if (out->kind != PH_J_MISSING || !(fn = ph_j_method(obj, name))) return PH_OK;
    ph_jbound *m;
    PH_TRY(ph_j_carve(r, &m, 1, sizeof *m));
    m->self = obj;
    m->fn = fn;
    *out = ph_j_ptr(PH_J_BOUND, m);
    return PH_OK;
}

/* ---- subscripts */

/* Python's slice.indices: positions first, first + step, ... count of them. */
static ph_rc slice_indices(ph_jrun *r, const ph_jslice *sl, int64_t n, int64_t *first, int64_t *step,
                           int64_t *count) {
    int64_t lo, hi;
    *step = 1;
    if (sl->step.kind != PH_J_NONE) PH_TRY(ph_j_as_index(r, sl->step, step));
    if (*step == 0) return PH_J_FAIL(r, "ValueError: slice step cannot be zero");
    if (*step == INT64_MIN) *step = -INT64_MAX;
    lo = *step > 0 ? 0 : n - 1;
    hi = *step > 0 ? n : -1;
    for (int k = 0; k < 2; k++) {
        ph_jv    v = k ? sl->hi : sl->lo;
        int64_t *to = k ? &hi : &lo, i;
        if (v.kind == PH_J_NONE) continue;
        PH_TRY(ph_j_as_index(r, v, &i));
        if (i < 0) i = i < -n ? -1 : i + n;
        if (*step > 0)
            *to = i < 0 ? 0 : i > n ? n : i;
        else
            *to = i < 0 ? -1 : i >= n ? n - 1 : i;
    }
    *first = lo;
    if (*step > 0)
        *count = hi > lo ? (hi - lo - 1) / *step + 1 : 0;
    else
        *count = lo > hi ? (lo - hi - 1) / -*step + 1 : 0;
    return PH_OK;
}

static ph_rc slice_str(ph_jrun *r, const ph_jstr *s, const ph_jslice *sl, ph_jv *out) {
    int64_t  first, step, count;
    ph_jlist chars;
    ph_jbuf  b = {0};
    PH_TRY(ph_j_step(r, s->n / 64));
    PH_TRY(slice_indices(r, sl, (int64_t)ph_js_chars(s), &first, &step, &count));
    if (step == 1 || count == 0) {
        size_t  lo = count ? ph_js_offset(s, (size_t)first) : 0;
        ph_jstr rest = {.p = s->p + lo, .n = s->n - lo};
        return ph_js_part(r, s, lo, ph_js_offset(&rest, (size_t)count), out);
    }
    PH_TRY(ph_j_items(r, ph_j_ptr(PH_J_STR, s), &chars));
    for (int64_t i = 0; i < count; i++) PH_TRY(ph_js_put_str(r, &b, chars.v[first + i * step].u.p));
    return ph_js_done(r, &b, out);
}

static ph_rc slice_list(ph_jrun *r, ph_jv v, const ph_jslice *sl, ph_jv *out) {
    int64_t         first, step, count;
    ph_jlist        l = {0};
    const ph_jlist *from = v.u.p;
    PH_TRY(slice_indices(r, sl, (int64_t)from->n, &first, &step, &count));
    if (step == 1) {
        l = (ph_jlist){.v = count ? from->v + first : NULL, .n = (size_t)count, .cap = (size_t)count};
    } else {
        for (int64_t i = 0; i < count; i++) PH_TRY(ph_j_list_push(r, &l, from->v[first + i * step]));
    }
    return ph_j_list_make(r, v.kind, &l, out);
}

static ph_rc slice_range(ph_jrun *r, const ph_jrange *g, const ph_jslice *sl, ph_jv *out) {
    int64_t    first, step, count;
    ph_jrange *t;
    PH_TRY(slice_indices(r, sl, (int64_t)g->n, &first, &step, &count));
    PH_TRY(ph_j_carve(r, &t, 1, sizeof *t));
    t->start = ph_j_stepped(g->start, first, g->step);
    t->step = ph_j_stepped(0, g->step, step);
    t->n = (size_t)count;
    t->stop = ph_j_stepped(t->start, count, t->step);
    *out = ph_j_ptr(PH_J_RANGE, t);
    return PH_OK;
}

static ph_rc index_seq(ph_jrun *r, ph_jv obj, int64_t i, ph_jv *out) {
    size_t n, len;
    PH_TRY(ph_j_len(r, obj, &n));
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return PH_OK;
    if (obj.kind == PH_J_RANGE) {
        const ph_jrange *g = obj.u.p;
        *out = ph_j_int(ph_j_stepped(g->start, i, g->step));
        return PH_OK;
    }
    if (obj.kind != PH_J_STR) {
        *out = ((const ph_jlist *)obj.u.p)->v[i];
        return PH_OK;
    }
    const ph_jstr *s = obj.u.p;
    PH_TRY(ph_j_step(r, s->n / 64));
    size_t at = ph_js_offset(s, (size_t)i);
    ph_js_cp(s->p + at, s->n - at, &len);
    return ph_js_part(r, s, at, len, out);
}

/* obj[key]; PH_J_MISSING: a TypeError or LookupError of Python. */
static ph_rc py_item(ph_jrun *r, ph_jv obj, ph_jv key, ph_jv *out) {
    *out = (ph_jv){PH_J_MISSING, {0}};
    if (obj.kind == PH_J_DICT) {
        /* an unhashable key is a TypeError in Python, hence undefined here */
        if (key.kind == PH_J_LIST || key.kind == PH_J_DICT || key.kind == PH_J_SLICE) return PH_OK;
        return ph_j_dict_get(r, obj.u.p, key, out);
    }
    if (key.kind == PH_J_SLICE) {
        if (obj.kind == PH_J_STR) return slice_str(r, obj.u.p, key.u.p, out);
        if (obj.kind == PH_J_LIST || obj.kind == PH_J_TUPLE) return slice_list(r, obj, key.u.p, out);
        if (obj.kind == PH_J_RANGE) return slice_range(r, obj.u.p, key.u.p, out);
        return PH_OK;
    }
    if (!ph_j_is_int(key)) return PH_OK;
    if (obj.kind == PH_J_STR || obj.kind == PH_J_LIST || obj.kind == PH_J_TUPLE || obj.kind == PH_J_RANGE)
        return index_seq(r, obj, key.u.i, out);
    return PH_OK;
}

ph_rc ph_j_getattr(ph_jrun *r, ph_jv obj, const ph_jstr *name, ph_jv *out) {
    if (obj.kind == PH_J_UNDEF) return ph_j_undef_used(r, obj);
    PH_TRY(py_attr(r, obj, name, out));
    if (out->kind == PH_J_MISSING && obj.kind == PH_J_DICT)
        PH_TRY(py_item(r, obj, ph_j_ptr(PH_J_STR, name), out));
    return out->kind == PH_J_MISSING ? no_attr(r, obj, name, out) : PH_OK;
}

ph_rc ph_j_getitem(ph_jrun *r, ph_jv obj, ph_jv key, ph_jv *out) {
    if (obj.kind == PH_J_UNDEF) return ph_j_undef_used(r, obj);
    PH_TRY(py_item(r, obj, key, out));
    if (out->kind == PH_J_MISSING &&
        key.kind == PH_J_SLICE) /* slices do not go through the sandbox's lookup */
        return PH_J_FAIL(r, "TypeError: '%s' object is not subscriptable", ph_j_type(obj));
    if (out->kind == PH_J_MISSING && key.kind == PH_J_STR) PH_TRY(py_attr(r, obj, key.u.p, out));
    return out->kind == PH_J_MISSING ? no_item(r, obj, key, out) : PH_OK;
}

ph_rc ph_j_attr_path(ph_jrun *r, ph_jv obj, ph_jv path, ph_jv *out) {
    if (path.kind != PH_J_STR) return ph_j_getitem(r, obj, path, out);
    const ph_jstr *s = path.u.p;
    *out = obj;
    for (size_t at = 0, end; at <= s->n; at = end + 1) {
        int     is_number = 1;
        int64_t number = 0;
        ph_jv   part;
        for (end = at; end < s->n && s->p[end] != '.'; end++) {
            is_number = is_number && s->p[end] >= '0' && s->p[end] <= '9' && number < INT32_MAX;
            if (is_number) number = number * 10 + (s->p[end] - '0');
        }
        PH_TRY(ph_js_part(r, s, at, end - at, &part));
        PH_TRY(ph_j_getitem(r, *out, is_number && end > at ? ph_j_int(number) : part, out));
    }
    return PH_OK;
}
