/* jinja_expr.c - tokens to expression trees, by Jinja's own precedence:
 *
 *   cond:    or [if or [else cond]]          or, and, not      as in Python
 *   compare: math1 {(== != < > <= >= in, not in) math1}
 *   math1:   concat {(+ -) concat}           concat: math2 {~ math2}
 *   math2:   pow {(* / // %) pow}            pow: unary {** unary}, from the left
 *   unary:   (- +) unary | primary, then postfix (.x [x] (...)), then |filter, "is" test
 *
 * Recursion is bounded by the run's depth limit.
 */
#include "text/jinja_impl.h"

#include <stdio.h>

static ph_rc parse_or(ph_jparser *p, ph_jnode **out);
static ph_rc parse_unary(ph_jparser *p, int with_filter, ph_jnode **out);

/* ---- tokens */

ph_jtoken *ph_jp_now(ph_jparser *p) {
    ph_jtoken *t = &p->tokens.t[p->at < p->tokens.n ? p->at : p->tokens.n - 1];
    p->r->line = t->line;
    return t;
}

ph_jtoken *ph_jp_look(ph_jparser *p) {
    return &p->tokens.t[p->at + 1 < p->tokens.n ? p->at + 1 : p->tokens.n - 1];
}

static int op_code(const char *op) {
    return op[0] | op[1] << 8;
}

int ph_jp_is_op(ph_jparser *p, const char *op) {
    const ph_jtoken *t = ph_jp_now(p);
    return t->type == PH_JT_OP && t->op == op_code(op);
}

static int token_is_name(const ph_jtoken *t, const char *name) {
    return t->type == PH_JT_NAME && t->n == strlen(name) && !memcmp(t->p, name, t->n);
}

int ph_jp_is_name(ph_jparser *p, const char *name) {
    return token_is_name(ph_jp_now(p), name);
}

int ph_jp_skip_op(ph_jparser *p, const char *op) {
    int is = ph_jp_is_op(p, op);
    p->at += (size_t)is;
    return is;
}

int ph_jp_skip_name(ph_jparser *p, const char *name) {
    int is = ph_jp_is_name(p, name);
    p->at += (size_t)is;
    return is;
}

ph_rc ph_jp_unexpected(ph_jparser *p, const char *wanted) {
    static const char *const names[] = {"end of template",        "template data", "'{{'",
                                        "end of print statement", "'{%'",          "end of statement block"};
    const ph_jtoken         *t = ph_jp_now(p);
    char                     room[80];
    const char              *got = room;
    if (t->type <= PH_JT_BLOCK_END)
        got = names[t->type];
    else if (t->type == PH_JT_OP)
        snprintf(room, sizeof room, "'%c%.1s'", (char)(t->op & 0xFF), (char[2]){(char)(t->op >> 8), 0});
    else
        snprintf(room, sizeof room, "'%.*s'", (int)(t->n < 40 ? t->n : 40), t->p);
    return PH_J_FAIL(p->r, "expected %s, got %s", wanted, got);
}

ph_rc ph_jp_expect_op(ph_jparser *p, const char *op) {
    char wanted[8];
    if (ph_jp_skip_op(p, op)) return PH_OK;
    snprintf(wanted, sizeof wanted, "'%s'", op);
    return ph_jp_unexpected(p, wanted);
}

static ph_rc name_of(ph_jparser *p, const ph_jtoken *t, const ph_jstr **out) {
    ph_jv v;
    PH_TRY(ph_js_make(p->r, t->p, t->n, PH_JINJA_TRUSTED, &v));
    *out = v.u.p;
    return PH_OK;
}

ph_rc ph_jp_expect_name(ph_jparser *p, const ph_jstr **out) {
    if (ph_jp_now(p)->type != PH_JT_NAME) return ph_jp_unexpected(p, "a name");
    PH_TRY(name_of(p, ph_jp_now(p), out));
    p->at++;
    return PH_OK;
}

/* ---- nodes */

ph_rc ph_jp_node(ph_jparser *p, int kind, ph_jnode **out) {
    PH_TRY(ph_j_step(p->r, 1));
    PH_TRY(ph_j_carve(p->r, out, 1, sizeof **out));
    (*out)->kind = kind;
    (*out)->line = ph_jp_now(p)->line;
    return PH_OK;
}

/* The number of kids is its own capacity: it grows at powers of two. */
ph_rc ph_jp_push(ph_jparser *p, ph_jnode *parent, ph_jnode *kid) {
    if ((parent->n & (parent->n - 1)) == 0) {
        ph_jnode **grown;
        PH_TRY(ph_j_carve(p->r, &grown, parent->n ? parent->n * 2 : 1, sizeof(ph_jnode *)));
        if (parent->n) memcpy(grown, parent->kid, parent->n * sizeof(ph_jnode *));
        parent->kid = grown;
    }
    parent->kid[parent->n++] = kid;
    return PH_OK;
}

static ph_rc two(ph_jparser *p, int kind, int op, ph_jnode *a, ph_jnode *b, ph_jnode **out) {
    PH_TRY(ph_jp_node(p, kind, out));
    (*out)->line = a->line;
    (*out)->op = op;
    (*out)->a = a;
    (*out)->b = b;
    return PH_OK;
}

/* ---- primaries */

static void note_use(ph_jparser *p, const ph_jtoken *t) {
    if (!p->uses) return;
    if (token_is_name(t, "varargs")) *p->uses |= PH_JN_USES_VARARGS;
    if (token_is_name(t, "kwargs")) *p->uses |= PH_JN_USES_KWARGS;
    if (token_is_name(t, "caller")) *p->uses |= PH_JN_USES_CALLER;
}

static ph_rc parse_name(ph_jparser *p, ph_jnode **out) {
    const ph_jtoken *t = ph_jp_now(p);
    PH_TRY(ph_jp_node(p, PH_JN_CONST, out));
    p->at++;
    if (token_is_name(t, "true") || token_is_name(t, "True"))
        (*out)->value = ph_j_bool(1);
    else if (token_is_name(t, "false") || token_is_name(t, "False"))
        (*out)->value = ph_j_bool(0);
    else if (token_is_name(t, "none") || token_is_name(t, "None"))
        (*out)->value = ph_j_none();
    else {
        (*out)->kind = PH_JN_NAME;
        note_use(p, t);
        return name_of(p, t, &(*out)->name);
    }
    return PH_OK;
}

static ph_rc parse_string(ph_jparser *p, ph_jnode **out) {
    ph_jbuf b = {0};
    PH_TRY(ph_jp_node(p, PH_JN_CONST, out));
    for (const ph_jtoken *t; (t = ph_jp_now(p))->type == PH_JT_STRING; p->at++)
        PH_TRY(ph_js_put(p->r, &b, t->p, t->n, PH_JINJA_TRUSTED));
    return ph_js_make(p->r, b.used ? b.p : "", b.used, PH_JINJA_TRUSTED, &(*out)->value);
}

static ph_rc parse_list(ph_jparser *p, ph_jnode **out) {
    PH_TRY(ph_jp_node(p, PH_JN_LIST, out));
    PH_TRY(ph_jp_expect_op(p, "["));
    while (!ph_jp_is_op(p, "]")) {
        ph_jnode *kid;
        if ((*out)->n) PH_TRY(ph_jp_expect_op(p, ","));
        if (ph_jp_is_op(p, "]")) break;
        PH_TRY(ph_jp_expr(p, &kid));
        PH_TRY(ph_jp_push(p, *out, kid));
    }
    return ph_jp_expect_op(p, "]");
}

static ph_rc parse_dict(ph_jparser *p, ph_jnode **out) {
    PH_TRY(ph_jp_node(p, PH_JN_DICT, out));
    PH_TRY(ph_jp_expect_op(p, "{"));
    while (!ph_jp_is_op(p, "}")) {
        ph_jnode *kid;
        if ((*out)->n) PH_TRY(ph_jp_expect_op(p, ","));
        if (ph_jp_is_op(p, "}")) break;
        PH_TRY(ph_jp_expr(p, &kid));
        PH_TRY(ph_jp_push(p, *out, kid));
        PH_TRY(ph_jp_expect_op(p, ":"));
        PH_TRY(ph_jp_expr(p, &kid));
        PH_TRY(ph_jp_push(p, *out, kid));
    }
    return ph_jp_expect_op(p, "}");
}

static ph_rc parse_primary(ph_jparser *p, ph_jnode **out) {
    const ph_jtoken *t = ph_jp_now(p);
    switch (t->type) {
    case PH_JT_NAME:
        return parse_name(p, out);
    case PH_JT_STRING:
        return parse_string(p, out);
    case PH_JT_INT:
    case PH_JT_FLOAT:
        PH_TRY(ph_jp_node(p, PH_JN_CONST, out));
        (*out)->value = t->type == PH_JT_INT ? ph_j_int(t->i) : ph_j_float(t->f);
        p->at++;
        return PH_OK;
    default:
        break;
    }
    if (ph_jp_is_op(p, "[")) return parse_list(p, out);
    if (ph_jp_is_op(p, "{")) return parse_dict(p, out);
    if (!ph_jp_skip_op(p, "(")) return ph_jp_unexpected(p, "an expression");
    PH_TRY(ph_jp_tuple(p, PH_JP_PARENS, NULL, out));
    return ph_jp_expect_op(p, ")");
}

/* ---- postfix */

static ph_rc parse_subscribed(ph_jparser *p, ph_jnode **out) {
    ph_jnode *part[3] = {0};
    ph_jnode *slice;
    int       k = 0;
    if (!ph_jp_is_op(p, ":")) {
        PH_TRY(ph_jp_expr(p, &part[0]));
        if (!ph_jp_is_op(p, ":")) {
            *out = part[0];
            return PH_OK;
        }
    }
    while (k < 2 && ph_jp_skip_op(p, ":")) {
        k++;
        if (ph_jp_is_op(p, ":") || ph_jp_is_op(p, "]") || ph_jp_is_op(p, ",")) continue;
        PH_TRY(ph_jp_expr(p, &part[k]));
    }
    PH_TRY(ph_jp_node(p, PH_JN_SLICE, &slice));
    slice->a = part[0];
    slice->b = part[1];
    slice->c = part[2];
    *out = slice;
    return PH_OK;
}

static ph_rc parse_brackets(ph_jparser *p, ph_jnode *obj, ph_jnode **out) {
    ph_jnode *tuple = NULL, *key = NULL;
    while (!ph_jp_is_op(p, "]")) {
        if (key) PH_TRY(ph_jp_expect_op(p, ","));
        if (key && !tuple) {
            PH_TRY(ph_jp_node(p, PH_JN_TUPLE, &tuple));
            PH_TRY(ph_jp_push(p, tuple, key));
        }
        PH_TRY(parse_subscribed(p, &key));
        if (tuple) PH_TRY(ph_jp_push(p, tuple, key));
    }
    PH_TRY(ph_jp_expect_op(p, "]"));
    if (!key) PH_TRY(ph_jp_node(p, PH_JN_TUPLE, &key));
    return two(p, PH_JN_ITEM, 0, obj, tuple ? tuple : key, out);
}

static ph_rc parse_dot(ph_jparser *p, ph_jnode *obj, ph_jnode **out) {
    const ph_jtoken *t = ph_jp_now(p);
    if (t->type == PH_JT_NAME) {
        PH_TRY(two(p, PH_JN_ATTR, 0, obj, NULL, out));
        return ph_jp_expect_name(p, &(*out)->name);
    }
    if (t->type != PH_JT_INT) return ph_jp_unexpected(p, "a name or number after '.'");
    ph_jnode *key;
    PH_TRY(parse_primary(p, &key));
    return two(p, PH_JN_ITEM, 0, obj, key, out);
}

ph_rc ph_jp_call_args(ph_jparser *p, ph_jnode *call) {
    int stars = 0, named = 0;
    PH_TRY(ph_jp_expect_op(p, "("));
    while (!ph_jp_is_op(p, ")")) {
        ph_jnode *kid, *value;
        if (call->n) PH_TRY(ph_jp_expect_op(p, ","));
        if (call->n && ph_jp_is_op(p, ")")) break;
        const ph_jtoken *next = ph_jp_look(p);
        PH_TRY(ph_jp_node(p, PH_JN_KWARG, &kid));
        if (ph_jp_skip_op(p, "*")) {
            kid->kind = PH_JN_STAR;
            if (stars) return PH_J_FAIL(p->r, "invalid syntax for function call expression");
            stars |= 1;
        } else if (ph_jp_skip_op(p, "**")) {
            kid->kind = PH_JN_STARSTAR;
            stars |= 2;
        } else if (ph_jp_now(p)->type == PH_JT_NAME && next->type == PH_JT_OP && next->op == '=') {
            PH_TRY(ph_jp_expect_name(p, &kid->name));
            p->at++;
            named = 1;
        } else if (stars || named) {
            return PH_J_FAIL(p->r, "invalid syntax for function call expression");
        }
        PH_TRY(ph_jp_expr(p, &value));
        kid->a = value;
        PH_TRY(ph_jp_push(p, call, kid->kind == PH_JN_KWARG && !kid->name ? value : kid));
    }
    return ph_jp_expect_op(p, ")");
}

static ph_rc parse_call(ph_jparser *p, ph_jnode *callee, ph_jnode **out) {
    PH_TRY(two(p, PH_JN_CALL, 0, callee, NULL, out));
    return ph_jp_call_args(p, *out);
}

static ph_rc parse_postfix(ph_jparser *p, ph_jnode **node) {
    for (;;) {
        if (ph_jp_skip_op(p, "."))
            PH_TRY(parse_dot(p, *node, node));
        else if (ph_jp_skip_op(p, "["))
            PH_TRY(parse_brackets(p, *node, node));
        else if (ph_jp_is_op(p, "("))
            PH_TRY(parse_call(p, *node, node));
        else
            return PH_OK;
    }
}

/* ---- filters and tests */

static ph_rc dotted_name(ph_jparser *p, const ph_jstr **out) {
    ph_jbuf        b = {0};
    const ph_jstr *part;
    ph_jv          v;
    do {
        PH_TRY(ph_jp_expect_name(p, &part));
        if (b.used) PH_TRY(ph_js_puts(p->r, &b, ".", PH_JINJA_TRUSTED));
        PH_TRY(ph_js_put_str(p->r, &b, part));
    } while (ph_jp_skip_op(p, "."));
    PH_TRY(ph_js_done(p->r, &b, &v));
    *out = v.u.p;
    return PH_OK;
}

ph_rc ph_jp_filters(ph_jparser *p, ph_jnode *first, int start_inline, ph_jnode **out) {
    *out = first;
    while (start_inline || ph_jp_skip_op(p, "|")) {
        start_inline = 0;
        PH_TRY(two(p, PH_JN_FILTER, 0, *out, NULL, out));
        PH_TRY(dotted_name(p, &(*out)->name));
        if (ph_jp_is_op(p, "(")) PH_TRY(ph_jp_call_args(p, *out));
    }
    return PH_OK;
}

static int begins_test_argument(ph_jparser *p) {
    const ph_jtoken *t = ph_jp_now(p);
    if (t->type == PH_JT_NAME)
        return !token_is_name(t, "else") && !token_is_name(t, "or") && !token_is_name(t, "and");
    return t->type == PH_JT_STRING || t->type == PH_JT_INT || t->type == PH_JT_FLOAT || ph_jp_is_op(p, "[") ||
           ph_jp_is_op(p, "{");
}

static ph_rc parse_test(ph_jparser *p, ph_jnode **node) {
    ph_jnode *test, *arg;
    PH_TRY(two(p, PH_JN_TEST, 0, *node, NULL, &test));
    if (ph_jp_skip_name(p, "not")) test->flags |= PH_JN_NEGATED;
    PH_TRY(dotted_name(p, &test->name));
    *node = test;
    if (ph_jp_is_op(p, "(")) return ph_jp_call_args(p, test);
    if (!begins_test_argument(p)) return PH_OK;
    if (ph_jp_is_name(p, "is")) return PH_J_FAIL(p->r, "you cannot chain multiple tests with is");
    PH_TRY(parse_primary(p, &arg));
    PH_TRY(parse_postfix(p, &arg));
    return ph_jp_push(p, test, arg);
}

static ph_rc parse_filter_expr(ph_jparser *p, ph_jnode **node) {
    for (;;) {
        if (ph_jp_is_op(p, "|"))
            PH_TRY(ph_jp_filters(p, *node, 0, node));
        else if (ph_jp_skip_name(p, "is"))
            PH_TRY(parse_test(p, node));
        else if (ph_jp_is_op(p, "("))
            PH_TRY(parse_call(p, *node, node));
        else
            return PH_OK;
    }
}

/* ---- operators */

static ph_rc unary(ph_jparser *p, int with_filter, ph_jnode **out) {
    ph_jnode *inner;
    if (ph_jp_is_op(p, "-") || ph_jp_is_op(p, "+")) {
        PH_TRY(ph_jp_node(p, ph_jp_is_op(p, "-") ? PH_JN_NEG : PH_JN_POS, out));
        p->at++;
        PH_TRY(parse_unary(p, 0, &inner));
        (*out)->a = inner;
    } else {
        PH_TRY(parse_primary(p, out));
    }
    PH_TRY(parse_postfix(p, out));
    return with_filter ? parse_filter_expr(p, out) : PH_OK;
}

static ph_rc parse_unary(ph_jparser *p, int with_filter, ph_jnode **out) {
    PH_TRY(ph_j_enter(p->r));
    ph_rc rc = unary(p, with_filter, out);
    ph_j_leave(p->r);
    return rc;
}

static ph_rc parse_pow(ph_jparser *p, ph_jnode **out) {
    ph_jnode *right;
    PH_TRY(parse_unary(p, 1, out));
    while (ph_jp_skip_op(p, "**")) {
        PH_TRY(parse_unary(p, 1, &right));
        PH_TRY(two(p, PH_JN_BINARY, PH_JO_POW, *out, right, out));
    }
    return PH_OK;
}

static ph_rc parse_math2(ph_jparser *p, ph_jnode **out) {
    ph_jnode *right;
    PH_TRY(parse_pow(p, out));
    while (ph_jp_is_op(p, "*") || ph_jp_is_op(p, "/") || ph_jp_is_op(p, "//") || ph_jp_is_op(p, "%")) {
        int op = ph_jp_now(p)->op;
        p->at++;
        PH_TRY(parse_pow(p, &right));
        PH_TRY(two(p, PH_JN_BINARY, op, *out, right, out));
    }
    return PH_OK;
}

static ph_rc parse_concat(ph_jparser *p, ph_jnode **out) {
    ph_jnode *first, *right;
    PH_TRY(parse_math2(p, &first));
    *out = first;
    if (!ph_jp_is_op(p, "~")) return PH_OK;
    PH_TRY(ph_jp_node(p, PH_JN_CONCAT, out));
    PH_TRY(ph_jp_push(p, *out, first));
    while (ph_jp_skip_op(p, "~")) {
        PH_TRY(parse_math2(p, &right));
        PH_TRY(ph_jp_push(p, *out, right));
    }
    return PH_OK;
}

static ph_rc parse_math1(ph_jparser *p, ph_jnode **out) {
    ph_jnode *right;
    PH_TRY(parse_concat(p, out));
    while (ph_jp_is_op(p, "+") || ph_jp_is_op(p, "-")) {
        int op = ph_jp_now(p)->op;
        p->at++;
        PH_TRY(parse_concat(p, &right));
        PH_TRY(two(p, PH_JN_BINARY, op, *out, right, out));
    }
    return PH_OK;
}

/* The comparison at hand, consumed; 0 if there is none.  'i' is in, 'n' is not in. */
static int compare_op(ph_jparser *p) {
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ph_jp_skip_op(p, ops[i])) return op_code(ops[i]);
    if (ph_jp_skip_name(p, "in")) return 'i';
    if (!ph_jp_is_name(p, "not") || !token_is_name(ph_jp_look(p), "in")) return 0;
    p->at += 2;
    return 'n';
}

static ph_rc parse_compare(ph_jparser *p, ph_jnode **out) {
    ph_jnode *first, *operand, *right;
    int       op;
    PH_TRY(parse_math1(p, &first));
    *out = first;
    while ((op = compare_op(p)) != 0) {
        if (*out == first) {
            PH_TRY(ph_jp_node(p, PH_JN_COMPARE, out));
            (*out)->a = first;
        }
        PH_TRY(parse_math1(p, &right));
        PH_TRY(two(p, PH_JN_COMPARE, op, right, NULL, &operand));
        PH_TRY(ph_jp_push(p, *out, operand));
    }
    return PH_OK;
}

static ph_rc parse_not(ph_jparser *p, ph_jnode **out) {
    int n = 0;
    while (ph_jp_is_name(p, "not")) p->at++, n++;
    PH_TRY(parse_compare(p, out));
    if (!n) return PH_OK;
    PH_TRY(two(p, PH_JN_NOT, 0, *out, NULL, out));
    return n % 2 ? PH_OK : two(p, PH_JN_NOT, 0, *out, NULL, out);
}

static ph_rc parse_and(ph_jparser *p, ph_jnode **out) {
    ph_jnode *right;
    PH_TRY(parse_not(p, out));
    while (ph_jp_skip_name(p, "and")) {
        PH_TRY(parse_not(p, &right));
        PH_TRY(two(p, PH_JN_AND, 0, *out, right, out));
    }
    return PH_OK;
}

static ph_rc parse_or(ph_jparser *p, ph_jnode **out) {
    ph_jnode *right;
    PH_TRY(parse_and(p, out));
    while (ph_jp_skip_name(p, "or")) {
        PH_TRY(parse_and(p, &right));
        PH_TRY(two(p, PH_JN_OR, 0, *out, right, out));
    }
    return PH_OK;
}

static ph_rc parse_cond(ph_jparser *p, ph_jnode **out) {
    PH_TRY(parse_or(p, out));
    while (ph_jp_skip_name(p, "if")) {
        ph_jnode *cond;
        PH_TRY(ph_jp_node(p, PH_JN_COND, &cond));
        cond->b = *out;
        PH_TRY(parse_or(p, &cond->a));
        if (ph_jp_skip_name(p, "else")) PH_TRY(ph_jp_expr(p, &cond->c));
        *out = cond;
    }
    return PH_OK;
}

ph_rc ph_jp_expr(ph_jparser *p, ph_jnode **out) {
    PH_TRY(ph_j_enter(p->r));
    ph_rc rc = parse_cond(p, out);
    ph_j_leave(p->r);
    return rc;
}

static int at_tuple_end(ph_jparser *p, const char *end_word) {
    const ph_jtoken *t = ph_jp_now(p);
    return t->type == PH_JT_OUT_END || t->type == PH_JT_BLOCK_END || ph_jp_is_op(p, ")") ||
           (end_word && token_is_name(t, end_word));
}

ph_rc ph_jp_tuple(ph_jparser *p, int how, const char *end_word, ph_jnode **out) {
    ph_jnode *tuple, *kid;
    int       is_tuple = 0;
    PH_TRY(ph_jp_node(p, PH_JN_TUPLE, &tuple));
    *out = tuple;
    for (;;) {
        if (tuple->n) PH_TRY(ph_jp_expect_op(p, ","));
        if (at_tuple_end(p, end_word)) break;
        PH_TRY(how & PH_JP_NO_COND ? parse_or(p, &kid) : ph_jp_expr(p, &kid));
        PH_TRY(ph_jp_push(p, tuple, kid));
        if (!ph_jp_is_op(p, ",")) break;
        is_tuple = 1;
    }
    if (is_tuple) return PH_OK;
    if (tuple->n)
        *out = tuple->kid[0];
    else if (!(how & PH_JP_PARENS))
        return ph_jp_unexpected(p, "an expression");
    return PH_OK;
}

static ph_rc parse_target_item(ph_jparser *p, int allow_ns, ph_jnode **out) {
    if (ph_jp_skip_op(p, "(")) {
        PH_TRY(ph_j_enter(p->r));
        PH_TRY(ph_jp_target(p, allow_ns, out));
        ph_j_leave(p->r);
        return ph_jp_expect_op(p, ")");
    }
    if (ph_jp_now(p)->type != PH_JT_NAME) return ph_jp_unexpected(p, "a name to assign to");
    PH_TRY(parse_name(p, out));
    if ((*out)->kind != PH_JN_NAME) return PH_J_FAIL(p->r, "can't assign to a constant");
    if (!allow_ns || !ph_jp_skip_op(p, ".")) return PH_OK;
    PH_TRY(two(p, PH_JN_ATTR, 0, *out, NULL, out));
    return ph_jp_expect_name(p, &(*out)->name);
}

ph_rc ph_jp_target(ph_jparser *p, int allow_ns, ph_jnode **out) {
    ph_jnode *tuple, *kid;
    PH_TRY(parse_target_item(p, allow_ns, out));
    if (!ph_jp_is_op(p, ",")) return PH_OK;
    PH_TRY(ph_jp_node(p, PH_JN_TUPLE, &tuple));
    PH_TRY(ph_jp_push(p, tuple, *out));
    *out = tuple;
    while (ph_jp_skip_op(p, ",")) {
        if (ph_jp_now(p)->type != PH_JT_NAME && !ph_jp_is_op(p, "(")) break;
        if (ph_jp_is_name(p, "in")) break;
        PH_TRY(parse_target_item(p, allow_ns, &kid));
        PH_TRY(ph_jp_push(p, tuple, kid));
    }
    return PH_OK;
}
