/* jinja_value.c - lists, dicts, truth, equality, order, iteration: Python's rules. */
#include "text/jinja_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *ph_j_type(ph_jv v) {
    static const char *const names[] = {
        [PH_J_MISSING] = "missing", [PH_J_UNDEF] = "Undefined", [PH_J_NONE] = "NoneType",
        [PH_J_BOOL] = "bool",       [PH_J_INT] = "int",         [PH_J_FLOAT] = "float",
        [PH_J_STR] = "str",         [PH_J_LIST] = "list",       [PH_J_TUPLE] = "tuple",
        [PH_J_DICT] = "dict",       [PH_J_RANGE] = "range",     [PH_J_VIEW] = "dict_items",
        [PH_J_ITER] = "generator",  [PH_J_NS] = "Namespace",    [PH_J_LOOP] = "LoopContext",
        [PH_J_MACRO] = "Macro",     [PH_J_FUNC] = "function",   [PH_J_BOUND] = "builtin_function_or_method",
        [PH_J_CYCLER] = "Cycler",   [PH_J_JOINER] = "Joiner",   [PH_J_SLICE] = "slice"};
    return names[v.kind];
}

ph_rc ph_j_undef(ph_jrun *r, ph_jv *out, const char *error, const char *fmt, ...) {
    char       text[240];
    char      *copy;
    ph_jundef *u;
    va_list    ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    PH_TRY(ph_j_carve(r, &u, 1, sizeof *u));
    PH_TRY(ph_j_carve(r, &copy, strlen(text) + 1, 1));
    memcpy(copy, text, strlen(text) + 1);
    u->message = copy;
    u->error = error;
    *out = ph_j_ptr(PH_J_UNDEF, u);
    return PH_OK;
}

ph_rc ph_j_undef_used(ph_jrun *r, ph_jv v) {
    const ph_jundef *u = v.u.p;
    return PH_J_FAIL(r, "%s: %s", u->error, u->message);
}

int ph_j_truth(ph_jv v) {
    switch (v.kind) {
    case PH_J_MISSING:
    case PH_J_UNDEF:
    case PH_J_NONE:
        return 0;
    case PH_J_BOOL:
    case PH_J_INT:
        return v.u.i != 0;
    case PH_J_FLOAT:
        return v.u.f < 0 || v.u.f > 0 || isnan(v.u.f);
    case PH_J_STR:
        return ph_j_str(v)->n != 0;
    case PH_J_LIST:
    case PH_J_TUPLE:
    case PH_J_VIEW:
        return ((const ph_jlist *)v.u.p)->n != 0;
    case PH_J_DICT:
        return ((const ph_jdict *)v.u.p)->n != 0;
    case PH_J_RANGE:
        return ((const ph_jrange *)v.u.p)->n != 0;
    default:
        return 1;
    }
}

/* ---- lists */

ph_rc ph_j_list_push(ph_jrun *r, ph_jlist *l, ph_jv v) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        ph_jv *grown;
        PH_TRY(ph_j_carve(r, &grown, cap, sizeof *grown));
        if (l->n) memcpy(grown, l->v, l->n * sizeof *grown);
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return ph_j_step(r, 1);
}

ph_rc ph_j_list_make(ph_jrun *r, int kind, const ph_jlist *from, ph_jv *out) {
    ph_jlist *l;
    PH_TRY(ph_j_carve(r, &l, 1, sizeof *l));
    *l = *from;
    l->next = 0;
    *out = ph_j_ptr(kind, l);
    return PH_OK;
}

/* ---- equality and order */

static ph_rc equal_lists(ph_jrun *r, const ph_jlist *a, const ph_jlist *b, int *out) {
    *out = a->n == b->n;
    if (a == b) return PH_OK;
    for (size_t i = 0; i < a->n && *out; i++) PH_TRY(ph_j_equal(r, a->v[i], b->v[i], out));
    return PH_OK;
}

static ph_rc equal_dicts(ph_jrun *r, const ph_jdict *a, const ph_jdict *b, int *out) {
    *out = a->n == b->n;
    if (a == b) return PH_OK;
    for (size_t i = 0; i < a->n && *out; i++) {
        ph_jv other;
        PH_TRY(ph_j_dict_get(r, b, a->key[i], &other));
        *out = 0;
        if (other.kind != PH_J_MISSING) PH_TRY(ph_j_equal(r, a->val[i], other, out));
    }
    return PH_OK;
}

static int equal_numbers(ph_jv a, ph_jv b) {
    if (ph_j_is_int(a) && ph_j_is_int(b)) return a.u.i == b.u.i;
    double x = ph_j_num(a), y = ph_j_num(b);
    return !(x < y) && !(x > y) && !isnan(x) && !isnan(y);
}

ph_rc ph_j_equal(ph_jrun *r, ph_jv a, ph_jv b, int *out) {
    ph_rc rc = PH_OK;
    *out = 0;
    PH_TRY(ph_j_step(r, 1));
    if (ph_j_is_num(a) && ph_j_is_num(b)) {
        *out = equal_numbers(a, b);
        return PH_OK;
    }
    if (a.kind != b.kind) return PH_OK;
    PH_TRY(ph_j_enter(r));
    switch (a.kind) {
    case PH_J_UNDEF:
    case PH_J_NONE:
        *out = 1;
        break;
    case PH_J_STR:
        *out = ph_js_equal(a.u.p, b.u.p);
        break;
    case PH_J_LIST:
    case PH_J_TUPLE:
    case PH_J_VIEW:
        rc = equal_lists(r, a.u.p, b.u.p, out);
        break;
    case PH_J_DICT:
        rc = equal_dicts(r, a.u.p, b.u.p, out);
        break;
    case PH_J_RANGE: {
        const ph_jrange *x = a.u.p, *y = b.u.p;
        *out = x->n == y->n && (!x->n || (x->start == y->start && (x->n == 1 || x->step == y->step)));
        break;
    }
    default:
        *out = a.u.p == b.u.p;
    }
    ph_j_leave(r);
    return rc;
}

static ph_rc less_lists(ph_jrun *r, const ph_jlist *a, const ph_jlist *b, const char *op, int *out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        int same;
        PH_TRY(ph_j_equal(r, a->v[i], b->v[i], &same));
        if (!same) return ph_j_less(r, a->v[i], b->v[i], op, out);
    }
    *out = a->n < b->n;
    return PH_OK;
}

ph_rc ph_j_less(ph_jrun *r, ph_jv a, ph_jv b, const char *op, int *out) {
    *out = 0;
    PH_TRY(ph_j_step(r, 1));
    if (a.kind == PH_J_UNDEF) return ph_j_undef_used(r, a);
    if (b.kind == PH_J_UNDEF) return ph_j_undef_used(r, b);
    if (ph_j_is_int(a) && ph_j_is_int(b)) {
        *out = a.u.i < b.u.i;
        return PH_OK;
    }
    if (ph_j_is_num(a) && ph_j_is_num(b)) {
        *out = ph_j_num(a) < ph_j_num(b);
        return PH_OK;
    }
    if (a.kind == PH_J_STR && b.kind == PH_J_STR) {
        const ph_jstr *x = a.u.p, *y = b.u.p;
        int            c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
        *out = c < 0 || (c == 0 && x->n < y->n);
        return PH_OK;
    }
    if (a.kind == b.kind && (a.kind == PH_J_LIST || a.kind == PH_J_TUPLE)) {
        PH_TRY(ph_j_enter(r));
        ph_rc rc = less_lists(r, a.u.p, b.u.p, op, out);
        ph_j_leave(r);
        return rc;
    }
    return PH_J_FAIL(r, "TypeError: '%s' not supported between instances of '%s' and '%s'", op, ph_j_type(a),
                     ph_j_type(b));
}

/* Merge sort from the bottom up: stable, as Python's is; reverse keeps equal items in order. */
static ph_rc merge(ph_jrun *r, ph_jv *k, ph_jv *v, ph_jv *k2, ph_jv *v2, const size_t at[3], int reverse) {
    size_t i = at[0], j = at[1], o = at[0];
    while (i < at[1] || j < at[2]) {
        int right = i == at[1];
        if (!right && j < at[2])
            PH_TRY(reverse ? ph_j_less(r, k[i], k[j], "<", &right) : ph_j_less(r, k[j], k[i], "<", &right));
        size_t from = right ? j++ : i++;
        k2[o] = k[from];
        v2[o++] = v[from];
    }
    return PH_OK;
}

ph_rc ph_j_sort(ph_jrun *r, ph_jv *keys, ph_jv *vals, size_t n, int reverse) {
    ph_jv *k2, *v2;
    if (n < 2) return PH_OK;
    PH_TRY(ph_j_carve(r, &k2, n, sizeof *k2));
    PH_TRY(ph_j_carve(r, &v2, n, sizeof *v2));
    for (size_t w = 1; w < n; w *= 2) {
        for (size_t i = 0; i < n; i += 2 * w) {
            size_t at[3] = {i, i + w < n ? i + w : n, i + 2 * w < n ? i + 2 * w : n};
            PH_TRY(merge(r, keys, vals, k2, v2, at, reverse));
        }
        memcpy(keys, k2, n * sizeof *k2);
        memcpy(vals, v2, n * sizeof *v2);
    }
    return PH_OK;
}

/* ---- dicts */

static ph_rc hash(ph_jrun *r, ph_jv v, uint64_t *out) {
    uint64_t h = 1469598103934665603u;
    if (v.kind == PH_J_STR) {
        const ph_jstr *s = v.u.p;
        for (size_t i = 0; i < s->n; i++) h = (h ^ (unsigned char)s->p[i]) * 1099511628211u;
    } else if (ph_j_is_num(v)) {
        /* 1, 1.0 and True are one key */
        double f = ph_j_num(v) + 0.0;
        memcpy(&h, &f, sizeof h);
        h *= 0x9E3779B97F4A7C15u;
    } else if (v.kind == PH_J_TUPLE) {
        const ph_jlist *l = v.u.p;
        PH_TRY(ph_j_enter(r));
        for (size_t i = 0; i < l->n; i++) {
            uint64_t one;
            ph_rc    rc = hash(r, l->v[i], &one);
            if (rc) return rc;
            h = (h ^ one) * 1099511628211u;
        }
        ph_j_leave(r);
    } else if (v.kind == PH_J_LIST || v.kind == PH_J_DICT || v.kind == PH_J_VIEW) {
        return PH_J_FAIL(r, "TypeError: unhashable type: '%s'", ph_j_type(v));
    } else if (v.kind != PH_J_UNDEF && v.kind != PH_J_NONE) {
        h = (uint64_t)(uintptr_t)v.u.p * 0x9E3779B97F4A7C15u;
    }
    *out = (h ^ h >> 29) + (uint64_t)(ph_j_is_num(v) ? 0 : v.kind);
    return PH_OK;
}

ph_rc ph_j_dict_make(ph_jrun *r, ph_jdict **out) {
    return ph_j_carve(r, out, 1, sizeof **out);
}

static ph_rc dict_find(ph_jrun *r, const ph_jdict *d, ph_jv key, uint64_t h, size_t *out) {
    int same = 0;
    *out = SIZE_MAX;
    if (!d->index) {
        for (size_t i = 0; i < d->n && !same; i++) {
            PH_TRY(ph_j_equal(r, d->key[i], key, &same));
            if (same) *out = i;
        }
        return PH_OK;
    }
    for (size_t i = h & (d->index_cap - 1); d->index[i]; i = (i + 1) & (d->index_cap - 1)) {
        PH_TRY(ph_j_equal(r, d->key[d->index[i] - 1], key, &same));
        if (!same) continue;
        *out = d->index[i] - 1;
        break;
    }
    return PH_OK;
}

static ph_rc reindex(ph_jrun *r, ph_jdict *d) {
    size_t cap = d->cap * 2;
    if (d->cap > UINT32_MAX / 4) return PH_J_FAIL(r, "a dict of %zu entries", d->cap);
    PH_TRY(ph_j_carve(r, &d->index, cap, sizeof *d->index));
    d->index_cap = cap;
    for (size_t k = 0; k < d->n; k++) {
        uint64_t h;
        size_t   i;
        PH_TRY(hash(r, d->key[k], &h));
        for (i = h & (cap - 1); d->index[i];) i = (i + 1) & (cap - 1);
        d->index[i] = (uint32_t)k + 1;
    }
    return PH_OK;
}

static ph_rc dict_grow(ph_jrun *r, ph_jdict *d) {
    size_t cap = d->cap ? d->cap * 2 : 8;
    ph_jv *key, *val;
    PH_TRY(ph_j_carve(r, &key, cap, sizeof *key));
    PH_TRY(ph_j_carve(r, &val, cap, sizeof *val));
    if (d->n) {
        memcpy(key, d->key, d->n * sizeof *key);
        memcpy(val, d->val, d->n * sizeof *val);
    }
    d->key = key;
    d->val = val;
    d->cap = cap;
    return cap > 16 ? reindex(r, d) : PH_OK;
}

ph_rc ph_j_dict_set(ph_jrun *r, ph_jdict *d, ph_jv key, ph_jv val) {
    uint64_t h;
    size_t   at;
    PH_TRY(hash(r, key, &h));
    PH_TRY(dict_find(r, d, key, h, &at));
    if (at != SIZE_MAX) {
        d->val[at] = val;
        return PH_OK;
    }
    if (d->n == d->cap) PH_TRY(dict_grow(r, d));
    d->key[d->n] = key;
    d->val[d->n++] = val;
    if (!d->index) return PH_OK;
    for (at = h & (d->index_cap - 1); d->index[at];) at = (at + 1) & (d->index_cap - 1);
    d->index[at] = (uint32_t)d->n;
    return PH_OK;
}

ph_rc ph_j_dict_get(ph_jrun *r, const ph_jdict *d, ph_jv key, ph_jv *out) {
    uint64_t h;
    size_t   at;
    *out = (ph_jv){PH_J_MISSING, {0}};
    PH_TRY(hash(r, key, &h));
    PH_TRY(dict_find(r, d, key, h, &at));
    if (at != SIZE_MAX) *out = d->val[at];
    return PH_OK;
}

ph_jv ph_j_dict_str(const ph_jdict *d, const char *z, size_t n) {
    for (size_t i = 0; i < d->n; i++) {
        const ph_jstr *s = d->key[i].u.p;
        if (d->key[i].kind == PH_J_STR && s->n == n && !memcmp(s->p, z, n)) return d->val[i];
    }
    return (ph_jv){PH_J_MISSING, {0}};
}

/* ---- containers */

static ph_rc chars_of(ph_jrun *r, const ph_jstr *s, ph_jlist *out) {
    size_t len;
    for (size_t i = 0; i < s->n; i += len) {
        ph_jv c;
        ph_js_cp(s->p + i, s->n - i, &len);
        PH_TRY(ph_js_part(r, s, i, len, &c));
        PH_TRY(ph_j_list_push(r, out, c));
    }
    return PH_OK;
}

static ph_rc range_items(ph_jrun *r, const ph_jrange *g, ph_jlist *out) {
    PH_TRY(ph_j_step(r, g->n));
    PH_TRY(ph_j_carve(r, &out->v, g->n, sizeof *out->v));
    for (size_t i = 0; i < g->n; i++) out->v[i] = ph_j_int(ph_j_stepped(g->start, (int64_t)i, g->step));
    out->n = out->cap = g->n;
    return PH_OK;
}

ph_rc ph_j_items(ph_jrun *r, ph_jv v, ph_jlist *out) {
    *out = (ph_jlist){0};
    switch (v.kind) {
    case PH_J_UNDEF:
        return PH_OK;
    case PH_J_LIST:
    case PH_J_TUPLE:
    case PH_J_VIEW: {
        const ph_jlist *l = v.u.p;
        out->v = l->v;
        out->n = l->n;
        out->cap = l->n; /* pushing to it makes a copy */
        return PH_OK;
    }
    case PH_J_ITER: {
        ph_jlist *l;
        memcpy(&l, &v.u.p, sizeof l);
        out->v = l->v ? l->v + l->next : NULL;
        out->n = out->cap = l->n - l->next;
        l->next = l->n;
        return PH_OK;
    }
    case PH_J_DICT: {
        const ph_jdict *d = v.u.p;
        out->v = d->key;
        out->n = out->cap = d->n;
        return PH_OK;
    }
    case PH_J_STR:
        return chars_of(r, v.u.p, out);
    case PH_J_RANGE:
        return range_items(r, v.u.p, out);
    case PH_J_LOOP: {
        const ph_jloop *l = v.u.p;
        out->v = l->items;
        out->n = out->cap = l->n;
        return PH_OK;
    }
    default:
        return PH_J_FAIL(r, "TypeError: '%s' object is not iterable", ph_j_type(v));
    }
}

ph_rc ph_j_len(ph_jrun *r, ph_jv v, size_t *out) {
    *out = 0;
    switch (v.kind) {
    case PH_J_UNDEF:
        return PH_OK;
    case PH_J_STR:
        *out = ph_js_chars(v.u.p);
        return PH_OK;
    case PH_J_LIST:
    case PH_J_TUPLE:
    case PH_J_VIEW:
        *out = ((const ph_jlist *)v.u.p)->n;
        return PH_OK;
    case PH_J_DICT:
        *out = ((const ph_jdict *)v.u.p)->n;
        return PH_OK;
    case PH_J_RANGE:
        *out = ((const ph_jrange *)v.u.p)->n;
        return PH_OK;
    case PH_J_LOOP:
        *out = ((const ph_jloop *)v.u.p)->n;
        return PH_OK;
    default:
        return PH_J_FAIL(r, "TypeError: object of type '%s' has no len()", ph_j_type(v));
    }
}

ph_rc ph_j_contains(ph_jrun *r, ph_jv box, ph_jv item, int *out) {
    ph_jlist l;
    *out = 0;
    if (box.kind == PH_J_STR) {
        if (item.kind != PH_J_STR)
            return PH_J_FAIL(r, "TypeError: 'in <string>' requires string as left operand, not %s",
                             ph_j_type(item));
        PH_TRY(ph_j_step(r, ph_j_str(box)->n / 64));
        *out = ph_js_find(box.u.p, 0, item.u.p) != SIZE_MAX;
        return PH_OK;
    }
    if (box.kind == PH_J_DICT) {
        ph_jv v;
        PH_TRY(ph_j_dict_get(r, box.u.p, item, &v));
        *out = v.kind != PH_J_MISSING;
        return PH_OK;
    }
    if (box.kind == PH_J_NONE || ph_j_is_num(box) || box.kind >= PH_J_NS)
        return PH_J_FAIL(r, "TypeError: argument of type '%s' is not iterable", ph_j_type(box));
    PH_TRY(ph_j_items(r, box, &l));
    for (size_t i = 0; i < l.n && !*out; i++) PH_TRY(ph_j_equal(r, l.v[i], item, out));
    return PH_OK;
}

ph_rc ph_j_as_index(ph_jrun *r, ph_jv v, int64_t *out) {
    if (v.kind == PH_J_UNDEF) return ph_j_undef_used(r, v);
    if (!ph_j_is_int(v))
        return PH_J_FAIL(r, "TypeError: '%s' object cannot be interpreted as an integer", ph_j_type(v));
    *out = v.u.i;
    return PH_OK;
}
