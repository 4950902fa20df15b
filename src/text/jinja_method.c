/* jinja_method.c - the method table, and the methods of everything that is no string.
 * What changes its object (append, update, pop ...) is refused as the immutable sandbox refuses it. */
#include "text/jinja_method.h"

#include <math.h>
#include <stdio.h>

static const struct {
    int         kind;
    ph_jbuiltin fn;
} methods[] = {
#define PH_JINJA_METHOD(kind, name, fn, params) {PH_J_##kind, {name, ph_jm_##fn, params}},
#include "text/jinja_method.def"
#undef PH_JINJA_METHOD
};

const ph_jbuiltin *ph_j_method(ph_jv obj, const ph_jstr *name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == obj.kind && ph_js_is(name, methods[i].fn.name)) return &methods[i].fn;
    return NULL;
}

int ph_j_is_mutator(ph_jv obj, const ph_jstr *name) {
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const       *p = obj.kind == PH_J_LIST ? of_list : obj.kind == PH_J_DICT ? of_dict : NULL;
    for (; p && *p; p++)
        if (ph_js_is(name, *p)) return 1;
    return 0;
}

ph_rc ph_jm_copy(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)r, (void)arg;
    *out = self; /* nothing can change it, so it is its own copy */
    return PH_OK;
}

/* ---- dict */

ph_rc ph_jm_dict_get(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    PH_TRY(ph_j_dict_get(r, self.u.p, arg[0], out));
    if (out->kind == PH_J_MISSING) *out = arg[1].kind == PH_J_MISSING ? ph_j_none() : arg[1];
    return PH_OK;
}

static ph_rc view(ph_jrun *r, ph_jlist *l, const char *name, ph_jv *out) {
    snprintf(l->view, sizeof l->view, "%s", name);
    return ph_j_list_make(r, PH_J_VIEW, l, out);
}

ph_rc ph_jm_dict_items(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jdict *d = self.u.p;
    ph_jlist        l = {0};
    (void)arg;
    for (size_t i = 0; i < d->n; i++) {
        ph_jlist pair = {0};
        ph_jv    v;
        PH_TRY(ph_j_list_push(r, &pair, d->key[i]));
        PH_TRY(ph_j_list_push(r, &pair, d->val[i]));
        PH_TRY(ph_j_list_make(r, PH_J_TUPLE, &pair, &v));
        PH_TRY(ph_j_list_push(r, &l, v));
    }
    return view(r, &l, "items", out);
}

ph_rc ph_jm_dict_keys(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jdict *d = self.u.p;
    ph_jlist        l = {.v = d->key, .n = d->n, .cap = d->n};
    (void)arg;
    return view(r, &l, "keys", out);
}

ph_rc ph_jm_dict_values(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jdict *d = self.u.p;
    ph_jlist        l = {.v = d->val, .n = d->n, .cap = d->n};
    (void)arg;
    return view(r, &l, "values", out);
}

/* ---- list, tuple, range */

ph_rc ph_jm_seq_count(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    int64_t  n = 0;
    PH_TRY(ph_j_items(r, self, &l));
    for (size_t i = 0; i < l.n; i++) {
        int same;
        PH_TRY(ph_j_equal(r, l.v[i], arg[0], &same));
        n += same;
    }
    *out = ph_j_int(n);
    return PH_OK;
}

ph_rc ph_jm_seq_index(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    int64_t  lo = 0, hi;
    PH_TRY(ph_j_items(r, self, &l));
    hi = (int64_t)l.n;
    if (arg[1].kind != PH_J_MISSING) PH_TRY(ph_j_as_index(r, arg[1], &lo));
    if (arg[2].kind != PH_J_MISSING) PH_TRY(ph_j_as_index(r, arg[2], &hi));
    if (lo < 0) lo = lo < -(int64_t)l.n ? 0 : lo + (int64_t)l.n;
    if (hi < 0) hi = hi < -(int64_t)l.n ? 0 : hi + (int64_t)l.n;
    for (int64_t i = lo; i < hi && i < (int64_t)l.n; i++) {
        int same;
        PH_TRY(ph_j_equal(r, l.v[i], arg[0], &same));
        if (!same) continue;
        *out = ph_j_int(i);
        return PH_OK;
    }
    return PH_J_FAIL(r, "ValueError: the value is not in the %s", ph_j_type(self));
}

/* ---- the rest */

ph_rc ph_jm_float_is_integer(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)r, (void)arg;
    *out = ph_j_bool(isfinite(self.u.f) && !(floor(self.u.f) < self.u.f));
    return PH_OK;
}

ph_rc ph_jm_loop_cycle(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jargs *args = arg[0].u.p;
    const ph_jloop *l = self.u.p;
    if (!args->n) return PH_J_FAIL(r, "TypeError: no items for cycling given");
    *out = args->pos[l->at % args->n];
    return PH_OK;
}

ph_rc ph_jm_loop_changed(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jargs *args = arg[0].u.p;
    ph_jlist        l = {.v = args->pos, .n = args->n, .cap = args->n};
    ph_jloop       *loop;
    ph_jv           now;
    int             same = 0;
    memcpy(&loop, &self.u.p, sizeof loop);
    PH_TRY(ph_j_list_make(r, PH_J_TUPLE, &l, &now));
    if (loop->changed.kind != PH_J_MISSING) PH_TRY(ph_j_equal(r, loop->changed, now, &same));
    loop->changed = now;
    *out = ph_j_bool(!same);
    return PH_OK;
}

ph_rc ph_jm_cycler_next(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jcycler *c;
    (void)r, (void)arg;
    memcpy(&c, &self.u.p, sizeof c);
    *out = c->v[c->at];
    c->at = (c->at + 1) % c->n;
    return PH_OK;
}

ph_rc ph_jm_cycler_reset(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jcycler *c;
    (void)r, (void)arg, (void)out;
    memcpy(&c, &self.u.p, sizeof c);
    c->at = 0;
    return PH_OK;
}
