/* jinja_filter_seq.c - the filters over lists and dicts.
 * Those that are generators in Python give a PH_J_ITER: it can be read once, and has no length. */
#include "text/jinja_filter.h"

#include <stdio.h>

ph_rc ph_jf_length(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    size_t n;
    (void)arg;
    PH_TRY(ph_j_len(r, self, &n));
    *out = ph_j_int((int64_t)n);
    return PH_OK;
}

ph_rc ph_jf_list(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    (void)arg;
    PH_TRY(ph_j_items(r, self, &l));
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

ph_rc ph_jf_first(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    (void)arg;
    if (self.kind == PH_J_ITER) { /* takes one item, leaves the others */
        ph_jlist *it;
        memcpy(&it, &self.u.p, sizeof it);
        if (it->next < it->n) {
            *out = it->v[it->next++];
            return PH_OK;
        }
    }
    PH_TRY(ph_j_items(r, self, &l));
    if (!l.n) return ph_j_undef(r, out, "UndefinedError", "No first item, sequence was empty.");
    *out = l.v[0];
    return PH_OK;
}

ph_rc ph_jf_last(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    (void)arg;
    if (self.kind == PH_J_ITER) return PH_J_FAIL(r, "TypeError: 'generator' object is not reversible");
    PH_TRY(ph_j_items(r, self, &l));
    if (!l.n) return ph_j_undef(r, out, "UndefinedError", "No last item, sequence was empty.");
    *out = l.v[l.n - 1];
    return PH_OK;
}

ph_rc ph_jf_random_of(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    (void)arg;
    (void)out;
    return PH_J_FAIL(r, "the filter random is not supported: a prompt must be the same every time (%s)",
                     ph_j_type(self));
}

ph_rc ph_jf_reverse(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l, back = {0};
    ph_jbuf  b = {0};
    (void)arg;
    if (self.kind == PH_J_ITER) return PH_J_FAIL(r, "FilterArgumentError: argument must be iterable");
    PH_TRY(ph_j_items(r, self, &l));
    for (size_t i = l.n; i-- > 0;) PH_TRY(ph_j_list_push(r, &back, l.v[i]));
    if (self.kind != PH_J_STR) return ph_j_list_make(r, PH_J_ITER, &back, out);
    for (size_t i = 0; i < back.n; i++) PH_TRY(ph_js_put_str(r, &b, back.v[i].u.p));
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_join(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *sep;
    ph_jlist       l;
    ph_jbuf        b = {0};
    if (!ph_jf_given(arg[0])) PH_TRY(ph_js_lit(r, "", &arg[0]));
    PH_TRY(ph_jf_str(r, arg[0], &sep));
    PH_TRY(ph_j_items(r, self, &l));
    for (size_t i = 0; i < l.n; i++) {
        ph_jv v = l.v[i];
        if (ph_jf_given(arg[1]) && arg[1].kind != PH_J_NONE) PH_TRY(ph_j_attr_path(r, v, arg[1], &v));
        if (i) PH_TRY(ph_js_put_str(r, &b, sep));
        PH_TRY(ph_j_put_str(r, &b, v));
    }
    return ph_js_done(r, &b, out);
}

ph_rc ph_jf_default_of(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    *out = self;
    if (self.kind != PH_J_UNDEF && !(ph_j_truth(arg[1]) && !ph_j_truth(self))) return PH_OK;
    if (!ph_jf_given(arg[0])) return ph_js_lit(r, "", out);
    *out = arg[0];
    return PH_OK;
}

ph_rc ph_jf_attr(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jstr *name;
    PH_TRY(ph_jf_str(r, arg[0], &name));
    if (self.kind == PH_J_DICT) { /* attributes only, never items */
        const ph_jbuiltin *fn = ph_j_method(self, name);
        if (!fn)
            return ph_j_undef(r, out, "UndefinedError", "'dict object' has no attribute '%.*s'",
                              (int)(name->n < 60 ? name->n : 60), name->p);
    }
    return ph_j_getattr(r, self, name, out);
}

ph_rc ph_jf_items(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist        l = {0};
    const ph_jdict *d = self.u.p;
    (void)arg;
    if (self.kind == PH_J_UNDEF) return ph_j_list_make(r, PH_J_ITER, &l, out);
    if (self.kind != PH_J_DICT) return PH_J_FAIL(r, "TypeError: Can only get item pairs from a mapping.");
    for (size_t i = 0; i < d->n; i++) {
        ph_jlist pair = {0};
        ph_jv    v;
        PH_TRY(ph_j_list_push(r, &pair, d->key[i]));
        PH_TRY(ph_j_list_push(r, &pair, d->val[i]));
        PH_TRY(ph_j_list_make(r, PH_J_TUPLE, &pair, &v));
        PH_TRY(ph_j_list_push(r, &l, v));
    }
    return ph_j_list_make(r, PH_J_ITER, &l, out);
}

/* ---- order */

ph_rc ph_jf_key(ph_jrun *r, ph_jv item, ph_jv attribute, int case_sensitive, ph_jv *out) {
    *out = item;
    if (ph_jf_given(attribute) && attribute.kind != PH_J_NONE)
        PH_TRY(ph_j_attr_path(r, item, attribute, out));
    if (case_sensitive || out->kind != PH_J_STR) return PH_OK;
    return ph_js_case(r, out->u.p, PH_JS_LOWER, out);
}

/* sort's attribute may name several, "a,b.c": the keys are lists. */
static ph_rc sort_key(ph_jrun *r, ph_jv item, ph_jv attribute, int case_sensitive, ph_jv *out) {
    ph_jlist       l = {0};
    ph_jv          v, path;
    const ph_jstr *s = attribute.u.p;
    if (attribute.kind == PH_J_STR) {
        for (size_t at = 0, end; at <= s->n; at = end + 1) {
            const char *comma = at < s->n ? memchr(s->p + at, ',', s->n - at) : NULL;
            end = comma ? (size_t)(comma - s->p) : s->n;
            PH_TRY(ph_js_part(r, s, at, end - at, &path));
            PH_TRY(ph_jf_key(r, item, path, case_sensitive, &v));
            PH_TRY(ph_j_list_push(r, &l, v));
        }
    } else {
        PH_TRY(ph_jf_key(r, item, attribute, case_sensitive, &v));
        PH_TRY(ph_j_list_push(r, &l, v));
    }
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

static ph_rc sorted(ph_jrun *r, ph_jv self, ph_jv attribute, int case_sensitive, int reverse, ph_jlist *out) {
    ph_jlist l;
    ph_jv   *keys, *vals;
    PH_TRY(ph_j_items(r, self, &l));
    PH_TRY(ph_j_carve(r, &keys, l.n, sizeof *keys));
    PH_TRY(ph_j_carve(r, &vals, l.n, sizeof *vals));
    for (size_t i = 0; i < l.n; i++) {
        vals[i] = l.v[i];
        PH_TRY(sort_key(r, l.v[i], attribute, case_sensitive, &keys[i]));
    }
    PH_TRY(ph_j_sort(r, keys, vals, l.n, reverse));
    *out = (ph_jlist){.v = vals, .n = l.n, .cap = l.n};
    return PH_OK;
}

ph_rc ph_jf_sort(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    PH_TRY(sorted(r, self, arg[2], ph_j_truth(arg[1]), ph_j_truth(arg[0]), &l));
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

ph_rc ph_jf_dictsort(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jv    pairs, by = ph_j_int(0);
    ph_jlist l;
    if (ph_jf_given(arg[1])) {
        if (arg[1].kind != PH_J_STR || !(ph_js_is(arg[1].u.p, "key") || ph_js_is(arg[1].u.p, "value")))
            return PH_J_FAIL(r, "FilterArgumentError: You can only sort by either \"key\" or \"value\"");
        by = ph_j_int(ph_js_is(arg[1].u.p, "value"));
    }
    if (self.kind != PH_J_DICT)
        return PH_J_FAIL(r, "UndefinedError: '%s object' has no attribute 'items'", ph_j_type(self));
    PH_TRY(ph_jf_items(r, self, NULL, &pairs));
    PH_TRY(sorted(r, pairs, by, ph_j_truth(arg[0]), ph_j_truth(arg[2]), &l));
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

static ph_rc extreme(ph_jrun *r, ph_jv self, ph_jv *arg, int want_max, ph_jv *out) {
    ph_jlist l;
    ph_jv    best, key;
    int      better;
    PH_TRY(ph_j_items(r, self, &l));
    if (!l.n) return ph_j_undef(r, out, "UndefinedError", "No aggregated item, sequence was empty.");
    *out = l.v[0];
    PH_TRY(ph_jf_key(r, l.v[0], arg[1], ph_j_truth(arg[0]), &best));
    for (size_t i = 1; i < l.n; i++) {
        PH_TRY(ph_jf_key(r, l.v[i], arg[1], ph_j_truth(arg[0]), &key));
        PH_TRY(want_max ? ph_j_less(r, best, key, ">", &better) : ph_j_less(r, key, best, "<", &better));
        if (!better) continue;
        best = key;
        *out = l.v[i];
    }
    return PH_OK;
}
ph_rc ph_jf_max(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return extreme(r, self, arg, 1, out);
}
ph_rc ph_jf_min(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return extreme(r, self, arg, 0, out);
}

ph_rc ph_jf_unique(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist  l, kept = {0};
    ph_jdict *seen;
    PH_TRY(ph_j_items(r, self, &l));
    PH_TRY(ph_j_dict_make(r, &seen));
    for (size_t i = 0; i < l.n; i++) {
        ph_jv key, old;
        PH_TRY(ph_jf_key(r, l.v[i], arg[1], ph_j_truth(arg[0]), &key));
        PH_TRY(ph_j_dict_get(r, seen, key, &old));
        if (old.kind != PH_J_MISSING) continue;
        PH_TRY(ph_j_dict_set(r, seen, key, ph_j_none()));
        PH_TRY(ph_j_list_push(r, &kept, l.v[i]));
    }
    return ph_j_list_make(r, PH_J_ITER, &kept, out);
}

ph_rc ph_jf_sum(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l;
    PH_TRY(ph_j_items(r, self, &l));
    *out = ph_jf_given(arg[1]) ? arg[1] : ph_j_int(0);
    if (out->kind == PH_J_STR)
        return PH_J_FAIL(r, "TypeError: sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < l.n; i++) {
        ph_jv v = l.v[i];
        if (ph_jf_given(arg[0]) && arg[0].kind != PH_J_NONE) PH_TRY(ph_j_attr_path(r, v, arg[0], &v));
        PH_TRY(ph_j_binary(r, PH_JO_ADD, *out, v, out));
    }
    return PH_OK;
}

static ph_rc push_group(ph_jrun *r, ph_jlist *groups, ph_jv grouper, const ph_jlist *members) {
    ph_jlist  two = {0};
    ph_jlist *tuple;
    ph_jv     list;
    PH_TRY(ph_j_list_make(r, PH_J_LIST, members, &list));
    PH_TRY(ph_j_list_push(r, &two, grouper));
    PH_TRY(ph_j_list_push(r, &two, list));
    PH_TRY(ph_j_carve(r, &tuple, 1, sizeof *tuple));
    *tuple = two;
    tuple->is_group = 1;
    return ph_j_list_push(r, groups, ph_j_ptr(PH_J_TUPLE, tuple));
}

static ph_rc group_key(ph_jrun *r, ph_jv item, const ph_jv *arg, int case_sensitive, ph_jv *out) {
    PH_TRY(ph_j_attr_path(r, item, arg[0], out));
    if (out->kind == PH_J_UNDEF && ph_jf_given(arg[1]) && arg[1].kind != PH_J_NONE) *out = arg[1];
    if (case_sensitive || out->kind != PH_J_STR) return PH_OK;
    return ph_js_case(r, out->u.p, PH_JS_LOWER, out);
}

ph_rc ph_jf_groupby(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l, members = {0}, groups = {0};
    ph_jv   *keys, *vals, label;
    int      sensitive = ph_j_truth(arg[2]), same;
    PH_TRY(ph_j_items(r, self, &l));
    PH_TRY(ph_j_carve(r, &keys, l.n, sizeof *keys));
    PH_TRY(ph_j_carve(r, &vals, l.n, sizeof *vals));
    for (size_t i = 0; i < l.n; i++) {
        vals[i] = l.v[i];
        PH_TRY(group_key(r, l.v[i], arg, sensitive, &keys[i]));
    }
    PH_TRY(ph_j_sort(r, keys, vals, l.n, 0));
    for (size_t i = 0; i < l.n; i++) {
        PH_TRY(ph_j_list_push(r, &members, vals[i]));
        same = 0;
        if (i + 1 < l.n) PH_TRY(ph_j_equal(r, keys[i], keys[i + 1], &same));
        if (same) continue;
        PH_TRY(group_key(r, members.v[0], arg, 1, &label)); /* as written in the first member */
        PH_TRY(push_group(r, &groups, label, &members));
        members = (ph_jlist){0};
    }
    return ph_j_list_make(r, PH_J_LIST, &groups, out);
}

/* ---- pieces */

ph_rc ph_jf_batch(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l, rows = {0}, row = {0};
    int64_t  n;
    ph_jv    v;
    PH_TRY(ph_j_items(r, self, &l));
    PH_TRY(ph_j_as_index(r, arg[0], &n));
    for (size_t i = 0; i < l.n; i++) {
        if (i && (int64_t)row.n == n) {
            PH_TRY(ph_j_list_make(r, PH_J_LIST, &row, &v));
            PH_TRY(ph_j_list_push(r, &rows, v));
            row = (ph_jlist){0};
        }
        PH_TRY(ph_j_list_push(r, &row, l.v[i]));
    }
    if (row.n) {
        while (ph_jf_given(arg[1]) && arg[1].kind != PH_J_NONE && (int64_t)row.n < n)
            PH_TRY(ph_j_list_push(r, &row, arg[1]));
        PH_TRY(ph_j_list_make(r, PH_J_LIST, &row, &v));
        PH_TRY(ph_j_list_push(r, &rows, v));
    }
    return ph_j_list_make(r, PH_J_ITER, &rows, out);
}

ph_rc ph_jf_slice(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    ph_jlist l, rows = {0};
    int64_t  n;
    size_t   at = 0;
    PH_TRY(ph_j_items(r, self, &l));
    PH_TRY(ph_j_as_index(r, arg[0], &n));
    if (n == 0) return PH_J_FAIL(r, "ZeroDivisionError: integer division or modulo by zero");
    for (int64_t k = 0; k < n; k++) {
        ph_jlist row = {0};
        ph_jv    v;
        int      longer = k < (int64_t)l.n % n;
        size_t   want = l.n / (size_t)n + (size_t)longer;
        for (size_t i = 0; i < want; i++) PH_TRY(ph_j_list_push(r, &row, l.v[at++]));
        if (ph_jf_given(arg[1]) && arg[1].kind != PH_J_NONE && !longer)
            PH_TRY(ph_j_list_push(r, &row, arg[1]));
        PH_TRY(ph_j_list_make(r, PH_J_LIST, &row, &v));
        PH_TRY(ph_j_list_push(r, &rows, v));
    }
    return ph_j_list_make(r, PH_J_ITER, &rows, out);
}

/* ---- map, select, reject */

/* None and 0 are as good as an empty list here. */
static ph_rc items_if_any(ph_jrun *r, ph_jv v, ph_jlist *out) {
    *out = (ph_jlist){0};
    return ph_j_truth(v) ? ph_j_items(r, v, out) : PH_OK;
}

static ph_rc map_attribute(ph_jrun *r, ph_jv self, const ph_jargs *args, ph_jlist *kept) {
    ph_jv    path = {0}, otherwise = {0};
    ph_jlist l;
    for (size_t i = 0; i < args->n_kw; i++) {
        if (ph_js_is(args->name[i], "attribute"))
            path = args->kw[i];
        else if (ph_js_is(args->name[i], "default"))
            otherwise = args->kw[i];
        else
            return PH_J_FAIL(r, "FilterArgumentError: Unexpected keyword argument '%.*s'",
                             (int)(args->name[i]->n < 40 ? args->name[i]->n : 40), args->name[i]->p);
    }
    if (path.kind == PH_J_MISSING) return PH_J_FAIL(r, "FilterArgumentError: map requires a filter argument");
    PH_TRY(items_if_any(r, self, &l));
    for (size_t i = 0; i < l.n; i++) {
        ph_jv v;
        PH_TRY(ph_j_attr_path(r, l.v[i], path, &v));
        if (v.kind == PH_J_UNDEF && otherwise.kind != PH_J_MISSING && otherwise.kind != PH_J_NONE)
            v = otherwise;
        PH_TRY(ph_j_list_push(r, kept, v));
    }
    return PH_OK;
}

ph_rc ph_jf_map(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jargs *args = arg[0].u.p;
    ph_jargs        more = *args;
    const ph_jstr  *name;
    ph_jlist        l, kept = {0};
    if (!args->n) {
        PH_TRY(map_attribute(r, self, args, &kept));
        return ph_j_list_make(r, PH_J_ITER, &kept, out);
    }
    PH_TRY(ph_jf_str(r, args->pos[0], &name));
    more.pos++;
    more.n--;
    PH_TRY(items_if_any(r, self, &l));
    for (size_t i = 0; i < l.n; i++) {
        ph_jv v;
        PH_TRY(ph_j_enter(r));
        PH_TRY(ph_j_apply_filter(r, name, l.v[i], &more, &v));
        ph_j_leave(r);
        PH_TRY(ph_j_list_push(r, &kept, v));
    }
    return ph_j_list_make(r, PH_J_ITER, &kept, out);
}

/* Keep the items whose test (of an attribute, if by_attr) comes out as wanted. */
static ph_rc pick(ph_jrun *r, ph_jv self, const ph_jargs *args, int by_attr, int wanted, ph_jv *out) {
    ph_jargs       more = *args;
    const ph_jstr *name = NULL;
    ph_jlist       l, kept = {0};
    if (by_attr && !args->n) return PH_J_FAIL(r, "FilterArgumentError: Missing parameter for attribute name");
    if (by_attr) more.pos++, more.n--;
    if (more.n) {
        PH_TRY(ph_jf_str(r, more.pos[0], &name));
        more.pos++;
        more.n--;
    }
    PH_TRY(items_if_any(r, self, &l));
    for (size_t i = 0; i < l.n; i++) {
        ph_jv v = l.v[i];
        int   is;
        if (by_attr) PH_TRY(ph_j_attr_path(r, v, args->pos[0], &v));
        if (name)
            PH_TRY(ph_j_apply_test(r, name, v, &more, &is));
        else
            is = ph_j_truth(v);
        if (is == wanted) PH_TRY(ph_j_list_push(r, &kept, l.v[i]));
    }
    return ph_j_list_make(r, PH_J_ITER, &kept, out);
}
ph_rc ph_jf_select_of(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return pick(r, self, arg[0].u.p, 0, 1, out);
}
ph_rc ph_jf_reject(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return pick(r, self, arg[0].u.p, 0, 0, out);
}
ph_rc ph_jf_selectattr(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return pick(r, self, arg[0].u.p, 1, 1, out);
}
ph_rc ph_jf_rejectattr(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    return pick(r, self, arg[0].u.p, 1, 0, out);
}

ph_rc ph_jf_xmlattr(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out) {
    const ph_jdict *d = self.u.p;
    ph_jbuf         b = {0};
    if (self.kind != PH_J_DICT)
        return PH_J_FAIL(r, "TypeError: xmlattr takes a dict, not %s", ph_j_type(self));
    for (size_t i = 0; i < d->n; i++) {
        const ph_jstr *key, *val;
        ph_jv          k, v;
        if (d->val[i].kind == PH_J_NONE || d->val[i].kind == PH_J_UNDEF) continue;
        PH_TRY(ph_jf_str(r, d->key[i], &key));
        for (size_t c = 0; c < key->n; c++)
            if (!key->p[c] || strchr(" \t\n\f\r/>=", key->p[c]))
                return PH_J_FAIL(r, "ValueError: Invalid character in attribute name");
        PH_TRY(ph_jf_str(r, d->val[i], &val));
        PH_TRY(ph_js_to_markup(r, key, !key->is_markup, &k));
        PH_TRY(ph_js_to_markup(r, val, !val->is_markup, &v));
        if (b.used || !ph_jf_given(arg[0]) || ph_j_truth(arg[0]))
            PH_TRY(ph_js_puts(r, &b, " ", PH_JINJA_TRUSTED));
        PH_TRY(ph_js_put_str(r, &b, k.u.p));
        PH_TRY(ph_js_puts(r, &b, "=\"", PH_JINJA_TRUSTED));
        PH_TRY(ph_js_put_str(r, &b, v.u.p));
        PH_TRY(ph_js_puts(r, &b, "\"", PH_JINJA_TRUSTED));
    }
    return ph_js_done(r, &b, out);
}
