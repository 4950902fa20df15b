/* jinja_exec.c - runs statements: output, branches, loops, assignments, macros.
 *
 * Scopes are Jinja's: for, with, macro, call, filter, block set and generation open one, if does not.
 * A macro sees the scope that it was defined in, as it is when the macro runs.  break and continue
 * travel in r->flow to the loop around them.
 */
#include "text/jinja_impl.h"

#include <stdio.h>

ph_rc ph_j_scope_set(ph_jrun *r, ph_jscope *s, const ph_jstr *name, ph_jv v) {
    for (size_t i = 0; i < s->n; i++)
        if (ph_js_equal(s->name[i], name)) {
            s->val[i] = v;
            return PH_OK;
        }
    if (s->n == s->cap) {
        size_t          cap = s->cap ? s->cap * 2 : 4;
        const ph_jstr **names;
        ph_jv          *vals;
        PH_TRY(ph_j_carve(r, &names, cap, sizeof *names));
        PH_TRY(ph_j_carve(r, &vals, cap, sizeof *vals));
        for (size_t i = 0; i < s->n; i++) names[i] = s->name[i], vals[i] = s->val[i];
        s->name = names;
        s->val = vals;
        s->cap = cap;
    }
    s->name[s->n] = name;
    s->val[s->n++] = v;
    return PH_OK;
}

static ph_rc scope_open(ph_jrun *r, ph_jscope *up, ph_jscope **out) {
    PH_TRY(ph_j_carve(r, out, 1, sizeof **out));
    (*out)->up = up;
    return PH_OK;
}

static ph_rc set_attr(ph_jrun *r, const ph_jnode *target, ph_jv v, ph_jscope *s) {
    ph_jv     ns;
    ph_jdict *d;
    PH_TRY(ph_j_eval(r, target->a, s, &ns));
    if (ns.kind != PH_J_NS)
        return PH_J_FAIL(r, "TemplateRuntimeError: cannot assign attribute on non-namespace object");
    memcpy(&d, &ns.u.p, sizeof d);
    return ph_j_dict_set(r, d, ph_j_ptr(PH_J_STR, target->name), v);
}

ph_rc ph_j_assign(ph_jrun *r, const ph_jnode *target, ph_jv v, ph_jscope *s) {
    ph_jlist l;
    if (target->kind == PH_JN_NAME) return ph_j_scope_set(r, s, target->name, v);
    if (target->kind == PH_JN_ATTR) return set_attr(r, target, v, s);
    if (v.kind == PH_J_NONE || ph_j_is_num(v))
        return PH_J_FAIL(r, "TypeError: cannot unpack non-iterable %s object", ph_j_type(v));
    PH_TRY(ph_j_items(r, v, &l));
    if (l.n != target->n)
        return PH_J_FAIL(r, "ValueError: %s values to unpack (expected %zu, got %zu)",
                         l.n < target->n ? "not enough" : "too many", target->n, l.n);
    PH_TRY(ph_j_enter(r));
    for (size_t i = 0; i < l.n; i++) PH_TRY(ph_j_assign(r, target->kid[i], l.v[i], s));
    ph_j_leave(r);
    return PH_OK;
}

/* Run a body and keep its output as a string. */
ph_rc ph_j_capture(ph_jrun *r, const ph_jnode *body, ph_jscope *s, ph_jv *out) {
    ph_jbuf  b = {0};
    ph_jbuf *before = r->out;
    r->out = &b;
    ph_rc rc = ph_j_exec(r, body, s);
    r->out = before;
    return rc ? rc : ph_js_done(r, &b, out);
}

/* ---- loops */

static ph_rc keep_wanted(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jlist *items) {
    ph_jlist kept = {0};
    for (size_t i = 0; i < items->n; i++) {
        ph_jscope *inner;
        ph_jv      is;
        PH_TRY(scope_open(r, s, &inner));
        PH_TRY(ph_j_assign(r, n->a, items->v[i], inner));
        PH_TRY(ph_j_eval(r, n->c, inner, &is));
        if (ph_j_truth(is)) PH_TRY(ph_j_list_push(r, &kept, items->v[i]));
    }
    *items = kept;
    return PH_OK;
}

static ph_rc run_loop(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv over, int depth0) {
    static const ph_jstr loop_name = {.p = "loop", .n = 4, .all = PH_JINJA_TRUSTED};
    ph_jlist             items;
    ph_jloop            *loop;
    ph_jscope           *inner;
    PH_TRY(ph_j_items(r, over, &items));
    if (n->c) PH_TRY(keep_wanted(r, n, s, &items));
    PH_TRY(ph_j_carve(r, &loop, 1, sizeof *loop));
    *loop = (ph_jloop){.node = n, .scope = s, .items = items.v, .n = items.n, .depth0 = depth0};
    for (size_t i = 0; i < items.n; i++) {
        loop->at = i;
        PH_TRY(ph_j_step(r, 1));
        PH_TRY(scope_open(r, s, &inner));
        PH_TRY(ph_j_assign(r, n->a, items.v[i], inner));
        PH_TRY(ph_j_scope_set(r, inner, &loop_name, ph_j_ptr(PH_J_LOOP, loop)));
        PH_TRY(ph_j_exec(r, n->kid[0], inner));
        int flow = r->flow;
        r->flow = 0;
        if (flow == PH_JN_BREAK) break;
    }
    if (items.n || !n->d) return PH_OK;
    PH_TRY(scope_open(r, s, &inner));
    return ph_j_exec(r, n->d, inner);
}

ph_rc ph_j_call_loop(ph_jrun *r, const ph_jloop *l, ph_jv items, ph_jv *out) {
    ph_jbuf  b = {0};
    ph_jbuf *before = r->out;
    if (!(l->node->flags & PH_JN_RECURSIVE))
        return PH_J_FAIL(r, "TypeError: The loop must have the 'recursive' marker to be called recursively.");
    r->out = &b;
    ph_rc rc = run_loop(r, l->node, l->scope, items, l->depth0 + 1);
    r->out = before;
    return rc ? rc : ph_js_done(r, &b, out);
}

/* ---- macros */

static ph_rc bind_params(ph_jrun *r, const ph_jmacro *m, const ph_jargs *args, uint8_t *kw_used,
                         ph_jscope *s) {
    for (size_t i = 0; i < m->node->n; i++) {
        const ph_jnode *param = m->node->kid[i];
        ph_jv           v = i < args->n ? args->pos[i] : (ph_jv){PH_J_MISSING, {0}};
        const int       n = (int)(param->name->n < 60 ? param->name->n : 60);
        for (size_t k = 0; k < args->n_kw; k++) {
            if (!ph_js_equal(args->name[k], param->name)) continue;
            if (v.kind != PH_J_MISSING)
                return PH_J_FAIL(r, "TypeError: macro got multiple values for argument '%.*s'", n,
                                 param->name->p);
            kw_used[k] = 1;
            v = args->kw[k];
        }
        if (v.kind == PH_J_MISSING && param->a)
            PH_TRY(ph_j_eval(r, param->a, s, &v));
        else if (v.kind == PH_J_MISSING)
            PH_TRY(
                ph_j_undef(r, &v, "UndefinedError", "parameter '%.*s' was not provided", n, param->name->p));
        PH_TRY(ph_j_scope_set(r, s, param->name, v));
    }
    return PH_OK;
}

static ph_rc set_word(ph_jrun *r, ph_jscope *s, const char *word, ph_jv v) {
    ph_jv name;
    PH_TRY(ph_js_lit(r, word, &name));
    return ph_j_scope_set(r, s, name.u.p, v);
}

static ph_rc bind_rest(ph_jrun *r, const ph_jmacro *m, const ph_jargs *args, const uint8_t *kw_used,
                       ph_jscope *s) {
    const int flags = m->node->flags;
    ph_jdict *kwargs;
    ph_jlist  varargs = {0};
    ph_jv     v, caller = {PH_J_MISSING, {0}};
    PH_TRY(ph_j_dict_make(r, &kwargs));
    for (size_t k = 0; k < args->n_kw; k++) {
        if (kw_used[k]) continue;
        if (flags & PH_JN_USES_CALLER && ph_js_is(args->name[k], "caller"))
            caller = args->kw[k];
        else if (flags & PH_JN_USES_KWARGS)
            PH_TRY(ph_j_dict_set(r, kwargs, ph_j_ptr(PH_J_STR, args->name[k]), args->kw[k]));
        else
            return PH_J_FAIL(r, "TypeError: macro takes no keyword argument '%.*s'",
                             (int)(args->name[k]->n < 60 ? args->name[k]->n : 60), args->name[k]->p);
    }
    for (size_t i = m->node->n; i < args->n; i++) PH_TRY(ph_j_list_push(r, &varargs, args->pos[i]));
    if (varargs.n && !(flags & PH_JN_USES_VARARGS))
        return PH_J_FAIL(r, "TypeError: macro takes not more than %zu argument(s)", m->node->n);
    if (flags & PH_JN_USES_KWARGS) PH_TRY(set_word(r, s, "kwargs", ph_j_ptr(PH_J_DICT, kwargs)));
    if (flags & PH_JN_USES_VARARGS) {
        PH_TRY(ph_j_list_make(r, PH_J_TUPLE, &varargs, &v));
        PH_TRY(set_word(r, s, "varargs", v));
    }
    if (!(flags & PH_JN_USES_CALLER)) return PH_OK;
    for (size_t i = 0; i < m->node->n; i++)
        if (ph_js_is(m->node->kid[i]->name, "caller")) return PH_OK;
    if (caller.kind == PH_J_MISSING) PH_TRY(ph_j_undef(r, &caller, "UndefinedError", "No caller defined"));
    return set_word(r, s, "caller", caller);
}

ph_rc ph_j_call_macro(ph_jrun *r, const ph_jmacro *m, ph_jargs *args, ph_jv *out) {
    ph_jscope *s;
    uint8_t   *kw_used;
    PH_TRY(scope_open(r, m->scope, &s));
    PH_TRY(ph_j_carve(r, &kw_used, args->n_kw, 1));
    PH_TRY(bind_params(r, m, args, kw_used, s));
    PH_TRY(bind_rest(r, m, args, kw_used, s));
    return ph_j_capture(r, m->node->a, s, out);
}

static ph_rc make_macro(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out) {
    ph_jmacro *m;
    PH_TRY(ph_j_carve(r, &m, 1, sizeof *m));
    *m = (ph_jmacro){.node = n, .scope = s, .name = n->name};
    *out = ph_j_ptr(PH_J_MACRO, m);
    return PH_OK;
}

static ph_rc exec_callblock(ph_jrun *r, const ph_jnode *n, ph_jscope *s) {
    ph_jv           fn, caller, name, text;
    ph_jargs        args, more;
    const ph_jstr **names;
    ph_jv          *vals;
    PH_TRY(ph_j_eval(r, n->b->a, s, &fn));
    PH_TRY(ph_j_eval_args(r, n->b, s, &args));
    PH_TRY(make_macro(r, n, s, &caller));
    PH_TRY(ph_js_lit(r, "caller", &name));
    PH_TRY(ph_j_carve(r, &names, args.n_kw + 1, sizeof *names));
    PH_TRY(ph_j_carve(r, &vals, args.n_kw + 1, sizeof *vals));
    for (size_t i = 0; i < args.n_kw; i++) names[i] = args.name[i], vals[i] = args.kw[i];
    names[args.n_kw] = name.u.p;
    vals[args.n_kw] = caller;
    more = (ph_jargs){.pos = args.pos, .n = args.n, .name = names, .kw = vals, .n_kw = args.n_kw + 1};
    PH_TRY(ph_j_call(r, fn, &more, &text));
    return ph_j_put_str(r, r->out, text);
}

/* ---- statements */

static ph_rc exec_if(ph_jrun *r, const ph_jnode *n, ph_jscope *s) {
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        ph_jv is;
        PH_TRY(ph_j_eval(r, n->kid[i], s, &is));
        if (ph_j_truth(is)) return ph_j_exec(r, n->kid[i + 1], s);
    }
    return n->c ? ph_j_exec(r, n->c, s) : PH_OK;
}

/* What a block captured, through its filters. */
static ph_rc filtered(ph_jrun *r, const ph_jnode *body, const ph_jnode *filters, ph_jscope *s, ph_jv *out) {
    ph_jscope *inner;
    PH_TRY(scope_open(r, s, &inner));
    PH_TRY(ph_j_capture(r, body, inner, out));
    if (!filters) return PH_OK;
    PH_TRY(set_word(r, inner, "\1", *out));
    return ph_j_eval(r, filters, inner, out);
}

static ph_rc exec_with(ph_jrun *r, const ph_jnode *n, ph_jscope *s) {
    ph_jscope *inner;
    ph_jv      v;
    PH_TRY(scope_open(r, s, &inner));
    for (size_t i = 0; i + 1 < n->n; i += 2) {
        PH_TRY(ph_j_eval(r, n->kid[i + 1], s, &v)); /* values see the scope outside, not each other */
        PH_TRY(ph_j_assign(r, n->kid[i], v, inner));
    }
    return ph_j_exec(r, n->a, inner);
}

static ph_rc exec_body(ph_jrun *r, const ph_jnode *n, ph_jscope *s) {
    for (size_t i = 0; i < n->n && !r->flow; i++) PH_TRY(ph_j_exec(r, n->kid[i], s));
    return PH_OK;
}

static ph_rc exec(ph_jrun *r, const ph_jnode *n, ph_jscope *s) {
    ph_jv      v;
    ph_jscope *inner;
    switch (n->kind) {
    case PH_JN_BODY:
        return exec_body(r, n, s);
    case PH_JN_DATA:
        return ph_js_put_str(r, r->out, n->value.u.p);
    case PH_JN_OUTPUT:
        PH_TRY(ph_j_eval(r, n->a, s, &v));
        return ph_j_put_str(r, r->out, v);
    case PH_JN_IF:
        return exec_if(r, n, s);
    case PH_JN_FOR:
        PH_TRY(ph_j_eval(r, n->b, s, &v));
        return run_loop(r, n, s, v, 0);
    case PH_JN_SET:
        PH_TRY(ph_j_eval(r, n->b, s, &v));
        return ph_j_assign(r, n->a, v, s);
    case PH_JN_SETBLOCK:
        PH_TRY(filtered(r, n->kid[0], n->b, s, &v));
        return ph_j_assign(r, n->a, v, s);
    case PH_JN_MACRO:
        PH_TRY(make_macro(r, n, s, &v));
        return ph_j_scope_set(r, s, n->name, v);
    case PH_JN_CALLBLOCK:
        return exec_callblock(r, n, s);
    case PH_JN_FILTERBLOCK:
        PH_TRY(filtered(r, n->a, n->b, s, &v));
        return ph_j_put_str(r, r->out, v);
    case PH_JN_WITH:
        return exec_with(r, n, s);
    case PH_JN_SCOPE:
        PH_TRY(scope_open(r, s, &inner));
        return ph_j_exec(r, n->a, inner);
    case PH_JN_BREAK:
    case PH_JN_CONTINUE:
        r->flow = n->kind;
        return PH_OK;
    default:
        return PH_FAIL(r->err, PH_EBUG, "jinja: node %d is no statement", n->kind);
    }
}

ph_rc ph_j_exec(ph_jrun *r, const ph_jnode *n, ph_jscope *s) {
    PH_TRY(ph_j_step(r, 1));
    PH_TRY(ph_j_enter(r));
    r->line = n->line;
    ph_rc rc = exec(r, n, s);
    ph_j_leave(r);
    return rc;
}
