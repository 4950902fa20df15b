/* jinja_eval.c - evaluates expression trees, and calls whatever can be called. */
#include "text/jinja_impl.h"

#include <math.h>
#include <stdio.h>

ph_rc ph_j_lookup(ph_jrun *r, const ph_jscope *s, const ph_jstr *name, ph_jv *out) {
    for (; s; s = s->up)
        for (size_t i = s->n; i-- > 0;)
            if (ph_js_equal(s->name[i], name)) {
                *out = s->val[i];
                return PH_OK;
            }
    *out = ph_j_global(name);
    if (out->kind != PH_J_MISSING) return PH_OK;
    return ph_j_undef(r, out, "UndefinedError", "'%.*s' is undefined", (int)(name->n < 100 ? name->n : 100),
                      name->p);
}

/* ---- calls */

static ph_rc args_push(ph_jrun *r, ph_jlist *pos, ph_jv v) {
    return ph_j_list_push(r, pos, v);
}

static ph_rc kw_push(ph_jrun *r, ph_jlist *names, ph_jlist *vals, const ph_jstr *name, ph_jv v) {
    for (size_t i = 0; i < names->n; i++)
        if (ph_js_equal(names->v[i].u.p, name))
            return PH_J_FAIL(r, "TypeError: got multiple values for keyword argument '%.*s'",
                             (int)(name->n < 60 ? name->n : 60), name->p);
    PH_TRY(ph_j_list_push(r, names, ph_j_ptr(PH_J_STR, name)));
    return ph_j_list_push(r, vals, v);
}

static ph_rc kw_spread(ph_jrun *r, ph_jv v, ph_jlist *names, ph_jlist *vals) {
    if (v.kind != PH_J_DICT)
        return PH_J_FAIL(r, "TypeError: argument after ** must be a mapping, not %s", ph_j_type(v));
    const ph_jdict *d = v.u.p;
    for (size_t i = 0; i < d->n; i++) {
        if (d->key[i].kind != PH_J_STR) return PH_J_FAIL(r, "TypeError: keywords must be strings");
        PH_TRY(kw_push(r, names, vals, d->key[i].u.p, d->val[i]));
    }
    return PH_OK;
}

ph_rc ph_j_eval_args(ph_jrun *r, const ph_jnode *call, ph_jscope *s, ph_jargs *out) {
    ph_jlist pos = {0}, names = {0}, vals = {0}, more;
    *out = (ph_jargs){0};
    for (size_t i = 0; i < call->n; i++) {
        const ph_jnode *kid = call->kid[i];
        const int       is_plain =
            kid->kind != PH_JN_KWARG && kid->kind != PH_JN_STAR && kid->kind != PH_JN_STARSTAR;
        ph_jv v;
        PH_TRY(ph_j_eval(r, is_plain ? kid : kid->a, s, &v));
        if (kid->kind == PH_JN_KWARG) {
            PH_TRY(kw_push(r, &names, &vals, kid->name, v));
        } else if (kid->kind == PH_JN_STARSTAR) {
            PH_TRY(kw_spread(r, v, &names, &vals));
        } else if (kid->kind == PH_JN_STAR) {
            PH_TRY(ph_j_items(r, v, &more));
            for (size_t k = 0; k < more.n; k++) PH_TRY(args_push(r, &pos, more.v[k]));
        } else {
            PH_TRY(args_push(r, &pos, v));
        }
    }
    PH_TRY(ph_j_carve(r, &out->name, names.n, sizeof *out->name));
    for (size_t i = 0; i < names.n; i++) out->name[i] = names.v[i].u.p;
    out->pos = pos.v;
    out->n = pos.n;
    out->kw = vals.v;
    out->n_kw = names.n;
    return PH_OK;
}

/* The index of a parameter by name in "a b|c", or -1. */
static int param_index(const char *params, const ph_jstr *name) {
    int k = 0;
    for (const char *p = params; *p; k++) {
        size_t n = strcspn(p, " |");
        if (n == name->n && !memcmp(p, name->p, n)) return k;
        p += n + (p[n] != 0);
    }
    return -1;
}

ph_rc ph_j_call_builtin(ph_jrun *r, const ph_jbuiltin *fn, ph_jv self, const ph_jargs *args, ph_jv *out) {
    ph_jv  arg[PH_JARGS_MAX] = {{0}};
    size_t n_params = *fn->params ? 1 : 0, n_needed = 0;
    *out = ph_j_none();
    if (*fn->params == '*') {
        arg[0].u.p = args;
        return fn->fn(r, self, arg, out);
    }
    for (const char *p = fn->params; *p; p++) n_params += *p == ' ' || *p == '|';
    if (*fn->params == '|') n_params--;
    const char *params = fn->params + (*fn->params == '|');
    for (const char *p = fn->params; *p && *p != '|'; p++) n_needed += p == fn->params || p[-1] == ' ';
    if (args->n > n_params)
        return PH_J_FAIL(r, "TypeError: %s() takes at most %zu arguments (%zu given)", fn->name, n_params,
                         args->n);
    for (size_t i = 0; i < args->n; i++) arg[i] = args->pos[i];
    for (size_t i = 0; i < args->n_kw; i++) {
        int k = param_index(params, args->name[i]);
        if (k < 0)
            return PH_J_FAIL(r, "TypeError: %s() got an unexpected keyword argument '%.*s'", fn->name,
                             (int)(args->name[i]->n < 40 ? args->name[i]->n : 40), args->name[i]->p);
        if (arg[k].kind != PH_J_MISSING)
            return PH_J_FAIL(r, "TypeError: %s() got multiple values for an argument", fn->name);
        arg[k] = args->kw[i];
    }
    for (size_t i = 0; i < n_needed; i++)
        if (arg[i].kind == PH_J_MISSING)
            return PH_J_FAIL(r, "TypeError: %s() misses required argument %zu of %zu", fn->name, i + 1,
                             n_needed);
    return fn->fn(r, self, arg, out);
}

static ph_rc call(ph_jrun *r, ph_jv fn, ph_jargs *args, ph_jv *out) {
    switch (fn.kind) {
    case PH_J_UNDEF:
        return ph_j_undef_used(r, fn);
    case PH_J_MACRO:
        return ph_j_call_macro(r, fn.u.p, args, out);
    case PH_J_FUNC:
        return ph_j_call_builtin(r, fn.u.p, ph_j_none(), args, out);
    case PH_J_BOUND: {
        const ph_jbound *b = fn.u.p;
        return ph_j_call_builtin(r, b->fn, b->self, args, out);
    }
    case PH_J_LOOP:
        if (args->n != 1 || args->n_kw) return PH_J_FAIL(r, "TypeError: loop() takes one argument");
        return ph_j_call_loop(r, fn.u.p, args->pos[0], out);
    case PH_J_JOINER: {
        ph_jlist *j;
        memcpy(&j, &fn.u.p, sizeof j);
        if (j->next++)
            *out = j->v[0];
        else
            PH_TRY(ph_js_lit(r, "", out));
        return PH_OK;
    }
    default:
        return PH_J_FAIL(r, "TypeError: '%s' object is not callable", ph_j_type(fn));
    }
}

ph_rc ph_j_call(ph_jrun *r, ph_jv fn, ph_jargs *args, ph_jv *out) {
    int line = r->line;
    PH_TRY(ph_j_enter(r));
    ph_rc rc = call(r, fn, args, out);
    ph_j_leave(r);
    if (!rc) r->line = line;
    return rc;
}

ph_rc ph_j_apply_filter(ph_jrun *r, const ph_jstr *name, ph_jv v, const ph_jargs *more, ph_jv *out) {
    const ph_jbuiltin *fn = ph_j_filter(name);
    if (!fn) return PH_J_FAIL(r, "No filter named '%.*s'.", (int)(name->n < 60 ? name->n : 60), name->p);
    return ph_j_call_builtin(r, fn, v, more, out);
}

ph_rc ph_j_apply_test(ph_jrun *r, const ph_jstr *name, ph_jv v, const ph_jargs *more, int *out) {
    const ph_jbuiltin *fn = ph_j_test(name);
    ph_jv              b;
    if (!fn) return PH_J_FAIL(r, "No test named '%.*s'.", (int)(name->n < 60 ? name->n : 60), name->p);
    PH_TRY(ph_j_call_builtin(r, fn, v, more, &b));
    *out = ph_j_truth(b);
    return PH_OK;
}

/* ---- nodes */

static ph_rc eval_call(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jv    fn;
    ph_jargs args;
    PH_TRY(ph_j_eval(r, n->a, s, &fn));
    PH_TRY(ph_j_eval_args(r, n, s, &args));
    r->line = n->line;
    return ph_j_call(r, fn, &args, out);
}

static ph_rc eval_filter(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jv    v;
    ph_jargs args;
    PH_TRY(ph_j_eval(r, n->a, s, &v));
    PH_TRY(ph_j_eval_args(r, n, s, &args));
    r->line = n->line;
    return ph_j_apply_filter(r, n->name, v, &args, out);
}

static ph_rc eval_test(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jv    v;
    ph_jargs args;
    int      is;
    PH_TRY(ph_j_eval(r, n->a, s, &v));
    PH_TRY(ph_j_eval_args(r, n, s, &args));
    r->line = n->line;
    PH_TRY(ph_j_apply_test(r, n->name, v, &args, &is));
    *out = ph_j_bool(n->flags & PH_JN_NEGATED ? !is : is);
    return PH_OK;
}

static ph_rc eval_list(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jlist l = {0};
    for (size_t i = 0; i < n->n; i++) {
        ph_jv v;
        PH_TRY(ph_j_eval(r, n->kid[i], s, &v));
        PH_TRY(ph_j_list_push(r, &l, v));
    }
    return ph_j_list_make(r, n->kind == PH_JN_LIST ? PH_J_LIST : PH_J_TUPLE, &l, out);
}

static ph_rc eval_dict(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jdict *d;
    PH_TRY(ph_j_dict_make(r, &d));
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        ph_jv k, v;
        PH_TRY(ph_j_eval(r, n->kid[i], s, &k));
        PH_TRY(ph_j_eval(r, n->kid[i + 1], s, &v));
        PH_TRY(ph_j_dict_set(r, d, k, v));
    }
    *out = ph_j_ptr(PH_J_DICT, d);
    return PH_OK;
}

static ph_rc eval_slice(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jslice *sl;
    PH_TRY(ph_j_carve(r, &sl, 1, sizeof *sl));
    sl->lo = sl->hi = sl->step = ph_j_none();
    if (n->a) PH_TRY(ph_j_eval(r, n->a, s, &sl->lo));
    if (n->b) PH_TRY(ph_j_eval(r, n->b, s, &sl->hi));
    if (n->c) PH_TRY(ph_j_eval(r, n->c, s, &sl->step));
    *out = ph_j_ptr(PH_J_SLICE, sl);
    return PH_OK;
}

static ph_rc compare(ph_jrun *r, int op, ph_jv a, ph_jv b, int *out) {
    char name[3] = {(char)(op & 0xFF), (char)(op >> 8), 0};
    switch (op) {
    case 'i':
        return ph_j_contains(r, b, a, out);
    case 'n':
        PH_TRY(ph_j_contains(r, b, a, out));
        *out = !*out;
        return PH_OK;
    case '=' | '=' << 8:
        return ph_j_equal(r, a, b, out);
    case '!' | '=' << 8:
        PH_TRY(ph_j_equal(r, a, b, out));
        *out = !*out;
        return PH_OK;
    case '<':
        return ph_j_less(r, a, b, name, out);
    case '>':
        return ph_j_less(r, b, a, name, out);
    default:
        /* a <= b is not (b < a), but for NaN */
        PH_TRY(op == ('<' | '=' << 8) ? ph_j_less(r, b, a, name, out) : ph_j_less(r, a, b, name, out));
        *out = !*out && !(a.kind == PH_J_FLOAT && isnan(a.u.f)) && !(b.kind == PH_J_FLOAT && isnan(b.u.f));
        return PH_OK;
    }
}

static ph_rc eval_compare(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jv left, right;
    int   is = 1;
    PH_TRY(ph_j_eval(r, n->a, s, &left));
    for (size_t i = 0; i < n->n && is; i++) {
        PH_TRY(ph_j_eval(r, n->kid[i]->a, s, &right));
        r->line = n->line;
        PH_TRY(compare(r, n->kid[i]->op, left, right, &is));
        left = right;
    }
    *out = ph_j_bool(is);
    return PH_OK;
}

static ph_rc eval_concat(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jbuf b = {0};
    for (size_t i = 0; i < n->n; i++) {
        ph_jv v;
        PH_TRY(ph_j_eval(r, n->kid[i], s, &v));
        PH_TRY(ph_j_put_str(r, &b, v));
    }
    return ph_js_done(r, &b, out);
}

static ph_rc eval_two(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jv a, b;
    PH_TRY(ph_j_eval(r, n->a, s, &a));
    if (n->kind == PH_JN_ATTR) return ph_j_getattr(r, a, n->name, out);
    PH_TRY(ph_j_eval(r, n->b, s, &b));
    r->line = n->line;
    return n->kind == PH_JN_ITEM ? ph_j_getitem(r, a, b, out) : ph_j_binary(r, n->op, a, b, out);
}

static ph_rc eval_sign(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jv v;
    PH_TRY(ph_j_eval(r, n->a, s, &v));
    if (v.kind == PH_J_UNDEF) return ph_j_undef_used(r, v);
    if (!ph_j_is_num(v))
        return PH_J_FAIL(r, "TypeError: bad operand type for unary %c: '%s'",
                         n->kind == PH_JN_NEG ? '-' : '+', ph_j_type(v));
    if (v.kind == PH_J_FLOAT)
        *out = ph_j_float(n->kind == PH_JN_NEG ? -v.u.f : v.u.f);
    else if (n->kind == PH_JN_NEG && v.u.i == INT64_MIN)
        return PH_J_FAIL(r, "OverflowError: an integer beyond 64 bits");
    else
        *out = ph_j_int(n->kind == PH_JN_NEG ? -v.u.i : v.u.i);
    return PH_OK;
}

static ph_rc eval_logic(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    PH_TRY(ph_j_eval(r, n->a, s, out));
    int is = ph_j_truth(*out);
    switch (n->kind) {
    case PH_JN_NOT:
        *out = ph_j_bool(!is);
        return PH_OK;
    case PH_JN_AND:
        return is ? ph_j_eval(r, n->b, s, out) : PH_OK;
    case PH_JN_OR:
        return is ? PH_OK : ph_j_eval(r, n->b, s, out);
    default:
        if (is) return ph_j_eval(r, n->b, s, out);
        if (n->c) return ph_j_eval(r, n->c, s, out);
        return ph_j_undef(
            r, out, "UndefinedError",
            "the inline if-expression on line %d evaluated to false and no else section was defined.",
            n->line);
    }
}

static ph_rc eval(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    switch (n->kind) {
    case PH_JN_NAME:
        return ph_j_lookup(r, s, n->name, out);
    case PH_JN_LIST:
    case PH_JN_TUPLE:
        return eval_list(r, n, s, out);
    case PH_JN_DICT:
        return eval_dict(r, n, s, out);
    case PH_JN_ATTR:
    case PH_JN_ITEM:
    case PH_JN_BINARY:
        return eval_two(r, n, s, out);
    case PH_JN_SLICE:
        return eval_slice(r, n, s, out);
    case PH_JN_CALL:
        return eval_call(r, n, s, out);
    case PH_JN_FILTER:
        return eval_filter(r, n, s, out);
    case PH_JN_TEST:
        return eval_test(r, n, s, out);
    case PH_JN_COND:
    case PH_JN_AND:
    case PH_JN_OR:
    case PH_JN_NOT:
        return eval_logic(r, n, s, out);
    case PH_JN_COMPARE:
        return eval_compare(r, n, s, out);
    case PH_JN_CONCAT:
        return eval_concat(r, n, s, out);
    case PH_JN_NEG:
    case PH_JN_POS:
        return eval_sign(r, n, s, out);
    default:
        return PH_FAIL(r->err, PH_EBUG, "jinja: node %d is no expression", n->kind);
    }
}

ph_rc ph_j_eval(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    if (n->kind == PH_JN_CONST) {
        *out = n->value;
        return PH_OK;
    }
    PH_TRY(ph_j_step(r, 1));
    PH_TRY(ph_j_enter(r));
    r->line = n->line;
    ph_rc rc = eval(r, n, s, out);
    ph_j_leave(r);
    return rc;
}
