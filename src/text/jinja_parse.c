/* jinja_parse.c - tokens to statements.
 *
 * A body is a PH_JN_BODY of kids.  A table of statement words; each parser is entered after its word
 * and leaves after its end tag.  include, import, extends and autoescape are refused by name.
 */
#include "text/jinja_impl.h"

#include <stdio.h>

static ph_rc parse_body(ph_jparser *p, const char *const *ends, ph_jnode **out);

static ph_rc end_of_tag(ph_jparser *p) {
    if (ph_jp_now(p)->type != PH_JT_BLOCK_END) return ph_jp_unexpected(p, "end of statement block");
    p->at++;
    return PH_OK;
}

/* The body up to {% end %}, the end tag included. */
static ph_rc body_until(ph_jparser *p, const char *end, ph_jnode **out) {
    const char *const ends[] = {end, NULL};
    PH_TRY(end_of_tag(p));
    PH_TRY(parse_body(p, ends, out));
    p->at++;
    return PH_OK;
}

static ph_rc parse_if(ph_jparser *p, ph_jnode *n) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    ph_jnode                *kid;
    n->kind = PH_JN_IF;
    do {
        PH_TRY(ph_jp_tuple(p, PH_JP_NO_COND, NULL, &kid));
        PH_TRY(ph_jp_push(p, n, kid));
        PH_TRY(end_of_tag(p));
        PH_TRY(parse_body(p, ends, &kid));
        PH_TRY(ph_jp_push(p, n, kid));
    } while (ph_jp_skip_name(p, "elif"));
    if (ph_jp_skip_name(p, "else")) return body_until(p, "endif", &n->c);
    p->at++;
    return PH_OK;
}

static ph_rc parse_for(ph_jparser *p, ph_jnode *n) {
    static const char *const ends[] = {"endfor", "else", NULL};
    ph_jnode                *body;
    n->kind = PH_JN_FOR;
    PH_TRY(ph_jp_target(p, 0, &n->a));
    if (!ph_jp_skip_name(p, "in")) return ph_jp_unexpected(p, "'in'");
    PH_TRY(ph_jp_tuple(p, PH_JP_NO_COND, "recursive", &n->b));
    if (ph_jp_skip_name(p, "if")) PH_TRY(ph_jp_expr(p, &n->c));
    if (ph_jp_skip_name(p, "recursive")) n->flags |= PH_JN_RECURSIVE;
    PH_TRY(end_of_tag(p));
    p->loops++;
    PH_TRY(parse_body(p, ends, &body));
    p->loops--;
    PH_TRY(ph_jp_push(p, n, body));
    if (ph_jp_skip_name(p, "else")) return body_until(p, "endfor", &n->d);
    p->at++;
    return PH_OK;
}

/* A filter chain over what a block captured: its innermost input is the name "\1". */
static ph_rc parse_block_filter(ph_jparser *p, int start_inline, ph_jnode **out) {
    ph_jnode *input;
    ph_jv     name;
    PH_TRY(ph_jp_node(p, PH_JN_NAME, &input));
    PH_TRY(ph_js_lit(p->r, "\1", &name));
    input->name = ph_j_str(name);
    return ph_jp_filters(p, input, start_inline, out);
}

static ph_rc parse_set(ph_jparser *p, ph_jnode *n) {
    ph_jnode *body;
    n->kind = PH_JN_SET;
    PH_TRY(ph_jp_target(p, 1, &n->a));
    if (ph_jp_skip_op(p, "=")) {
        PH_TRY(ph_jp_tuple(p, 0, NULL, &n->b));
        return end_of_tag(p);
    }
    n->kind = PH_JN_SETBLOCK;
    if (ph_jp_is_op(p, "|")) PH_TRY(parse_block_filter(p, 0, &n->b));
    PH_TRY(body_until(p, "endset", &body));
    return ph_jp_push(p, n, body);
}

static ph_rc parse_params(ph_jparser *p, ph_jnode *n) {
    int has_default = 0;
    PH_TRY(ph_jp_expect_op(p, "("));
    while (!ph_jp_is_op(p, ")")) {
        ph_jnode *param;
        if (n->n) PH_TRY(ph_jp_expect_op(p, ","));
        PH_TRY(ph_jp_node(p, PH_JN_NAME, &param));
        PH_TRY(ph_jp_expect_name(p, &param->name));
        if (ph_jp_skip_op(p, "=")) {
            PH_TRY(ph_jp_expr(p, &param->a));
            has_default = 1;
        } else if (has_default) {
            return PH_J_FAIL(p->r, "non-default argument follows default argument");
        }
        PH_TRY(ph_jp_push(p, n, param));
    }
    return ph_jp_expect_op(p, ")");
}

/* Loops outside a macro are not its own; the names it uses are. */
static ph_rc macro_body(ph_jparser *p, ph_jnode *n, const char *end) {
    int  loops = p->loops;
    int *uses = p->uses;
    p->loops = 0;
    p->uses = &n->flags;
    PH_TRY(body_until(p, end, &n->a));
    p->loops = loops;
    p->uses = uses;
    if (uses) *uses |= n->flags & (PH_JN_USES_VARARGS | PH_JN_USES_KWARGS | PH_JN_USES_CALLER);
    return PH_OK;
}

static ph_rc parse_macro(ph_jparser *p, ph_jnode *n) {
    n->kind = PH_JN_MACRO;
    PH_TRY(ph_jp_expect_name(p, &n->name));
    PH_TRY(parse_params(p, n));
    return macro_body(p, n, "endmacro");
}

static ph_rc parse_callblock(ph_jparser *p, ph_jnode *n) {
    n->kind = PH_JN_CALLBLOCK;
    if (ph_jp_is_op(p, "(")) PH_TRY(parse_params(p, n));
    PH_TRY(ph_jp_expr(p, &n->b));
    if (n->b->kind != PH_JN_CALL) return PH_J_FAIL(p->r, "expected call");
    return macro_body(p, n, "endcall");
}

static ph_rc parse_filterblock(ph_jparser *p, ph_jnode *n) {
    n->kind = PH_JN_FILTERBLOCK;
    PH_TRY(parse_block_filter(p, 1, &n->b));
    return body_until(p, "endfilter", &n->a);
}

static ph_rc parse_with(ph_jparser *p, ph_jnode *n) {
    ph_jnode *kid;
    n->kind = PH_JN_WITH;
    while (ph_jp_now(p)->type != PH_JT_BLOCK_END) {
        if (n->n) PH_TRY(ph_jp_expect_op(p, ","));
        PH_TRY(ph_jp_target(p, 0, &kid));
        PH_TRY(ph_jp_push(p, n, kid));
        PH_TRY(ph_jp_expect_op(p, "="));
        PH_TRY(ph_jp_expr(p, &kid));
        PH_TRY(ph_jp_push(p, n, kid));
    }
    return body_until(p, "endwith", &n->a);
}

static ph_rc parse_generation(ph_jparser *p, ph_jnode *n) {
    n->kind = PH_JN_SCOPE;
    return macro_body(p, n, "endgeneration");
}

static ph_rc parse_block(ph_jparser *p, ph_jnode *n) {
    const ph_jstr *name, *again;
    n->kind = PH_JN_SCOPE;
    PH_TRY(ph_jp_expect_name(p, &name));
    (void)(ph_jp_skip_name(p, "scoped") || ph_jp_skip_name(p, "required"));
    PH_TRY(end_of_tag(p));
    static const char *const ends[] = {"endblock", NULL};
    PH_TRY(parse_body(p, ends, &n->a));
    p->at++;
    if (ph_jp_now(p)->type == PH_JT_NAME) {
        PH_TRY(ph_jp_expect_name(p, &again));
        if (!ph_js_equal(name, again)) return PH_J_FAIL(p->r, "endblock of another block");
    }
    return PH_OK;
}

static ph_rc parse_flow(ph_jparser *p, ph_jnode *n, int kind, const char *word) {
    n->kind = kind;
    if (!p->loops) return PH_J_FAIL(p->r, "'%s' outside loop", word);
    return end_of_tag(p);
}
static ph_rc parse_break(ph_jparser *p, ph_jnode *n) {
    return parse_flow(p, n, PH_JN_BREAK, "break");
}
static ph_rc parse_continue(ph_jparser *p, ph_jnode *n) {
    return parse_flow(p, n, PH_JN_CONTINUE, "continue");
}

static const struct statement {
    const char *word;
    ph_rc (*parse)(ph_jparser *p, ph_jnode *n); /* NULL: known, not supported */
    int ends_tag;                               /* the closing tag's "%}" is still to come */
} statements[] = {
    {"if", parse_if, 1},
    {"for", parse_for, 1},
    {"set", parse_set, 0},
    {"macro", parse_macro, 1},
    {"call", parse_callblock, 1},
    {"filter", parse_filterblock, 1},
    {"with", parse_with, 1},
    {"generation", parse_generation, 1},
    {"block", parse_block, 1},
    {"break", parse_break, 0},
    {"continue", parse_continue, 0},
    {"include", NULL, 0},
    {"import", NULL, 0},
    {"from", NULL, 0},
    {"extends", NULL, 0},
    {"autoescape", NULL, 0},
    {"do", NULL, 0},
    {"trans", NULL, 0},
};

static ph_rc parse_statement(ph_jparser *p, ph_jnode **out) {
    const ph_jtoken        *t = ph_jp_now(p);
    const struct statement *s = NULL;
    if (t->type != PH_JT_NAME) return ph_jp_unexpected(p, "a tag name");
    for (size_t i = 0; i < sizeof statements / sizeof *statements && !s; i++)
        if (ph_jp_is_name(p, statements[i].word)) s = &statements[i];
    if (!s) return PH_J_FAIL(p->r, "encountered unknown tag '%.*s'", (int)(t->n < 40 ? t->n : 40), t->p);
    if (!s->parse) return PH_J_FAIL(p->r, "tag '%s' is not supported in a chat template", s->word);
    PH_TRY(ph_jp_node(p, PH_JN_BODY, out));
    p->at++;
    PH_TRY(s->parse(p, *out));
    /* set x = 1 ends its own tag; set x ... endset and the others still stand before theirs */
    return s->ends_tag || (*out)->kind == PH_JN_SETBLOCK ? end_of_tag(p) : PH_OK;
}

static int at_end_word(ph_jparser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (ph_jp_is_name(p, *ends)) return 1;
    return 0;
}

static ph_rc parse_output(ph_jparser *p, ph_jnode **out) {
    PH_TRY(ph_jp_node(p, PH_JN_OUTPUT, out));
    PH_TRY(ph_jp_tuple(p, 0, NULL, &(*out)->a));
    if (ph_jp_now(p)->type != PH_JT_OUT_END) return ph_jp_unexpected(p, "end of print statement");
    p->at++;
    return PH_OK;
}

static ph_rc parse_data(ph_jparser *p, ph_jnode **out) {
    const ph_jtoken *t = ph_jp_now(p);
    PH_TRY(ph_jp_node(p, PH_JN_DATA, out));
    p->at++;
    return ph_js_make(p->r, t->p, t->n, PH_JINJA_TRUSTED, &(*out)->value);
}

/* Statements up to one of the end words (left to the caller), or to the end of the template. */
static ph_rc body_kids(ph_jparser *p, const char *const *ends, ph_jnode *body) {
    for (;;) {
        ph_jnode *kid = NULL;
        switch (ph_jp_now(p)->type) {
        case PH_JT_DATA:
            PH_TRY(parse_data(p, &kid));
            break;
        case PH_JT_OUT_BEGIN:
            p->at++;
            PH_TRY(parse_output(p, &kid));
            break;
        case PH_JT_BLOCK_BEGIN:
            p->at++;
            if (at_end_word(p, ends)) return PH_OK;
            PH_TRY(parse_statement(p, &kid));
            break;
        default:
            if (ends) return PH_J_FAIL(p->r, "unexpected end of template, '%s' is missing", ends[0]);
            return PH_OK;
        }
        PH_TRY(ph_jp_push(p, body, kid));
    }
}

static ph_rc parse_body(ph_jparser *p, const char *const *ends, ph_jnode **out) {
    PH_TRY(ph_jp_node(p, PH_JN_BODY, out));
    PH_TRY(ph_j_enter(p->r));
    ph_rc rc = body_kids(p, ends, *out);
    ph_j_leave(p->r);
    return rc;
}

ph_rc ph_j_parse(ph_jparser *p, ph_jnode **out) {
    return parse_body(p, NULL, out);
}
