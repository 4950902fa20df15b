/* jinja_run.c - the door of the interpreter: compile, set variables, render; memory, time and depth.
 *
 * All memory comes from the caller's arena, cut here into small pieces; nothing is freed before the
 * arena is reset.  The four limits are checked here and nowhere else: every node evaluated, item
 * visited and piece carved passes through ph_j_step, ph_j_carve or ph_j_enter.
 */
#include "text/jinja_impl.h"

#include <stdarg.h>
#include <stdio.h>

const ph_jinja_limits ph_jinja_limits_default = {
    .steps = 4000000, .out_bytes = 16u << 20, .bytes = 128u << 20, .depth = 400};

ph_rc ph_j_fail(ph_jrun *r, const char *file, int line, const char *fmt, ...) {
    char    text[280];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ph_fail(r->err, PH_ETEMPLATE, file, line, "template line %d: %s", r->line, text);
}

void ph_jrun_init(ph_jrun *r, const ph_jinja_limits *limits, ph_arena *arena, ph_err *err) {
    *r = (ph_jrun){.arena = arena, .err = err, .line = 1, .now_s = -1};
    r->limits = limits ? *limits : ph_jinja_limits_default;
}

ph_rc ph_j_carve(ph_jrun *r, void *out, size_t n, size_t item) {
    enum { CHUNK = 16384, SMALL = 2048 };
    size_t bytes;
    void  *p = NULL;
    if (ph_mul_over(n, item, &bytes) || bytes > r->limits.bytes - r->bytes || bytes > SIZE_MAX / 2)
        return PH_J_FAIL(r, "memory limit of %zu bytes reached", r->limits.bytes);
    bytes = ph_round_up(bytes ? bytes : 1, 16);
    if (bytes > r->limits.bytes - r->bytes)
        return PH_J_FAIL(r, "memory limit of %zu bytes reached", r->limits.bytes);
    r->bytes += bytes;
    if (bytes > SMALL) {
        PH_TRY(ph_arena_carve(r->arena, &p, bytes, 1, r->err));
    } else {
        if (bytes > r->free_n) {
            PH_TRY(ph_arena_carve(r->arena, &p, CHUNK, 1, r->err));
            r->free = p;
            r->free_n = CHUNK;
        }
        p = r->free;
        r->free += bytes;
        r->free_n -= bytes;
    }
    memset(p, 0, bytes);
    memcpy(out, &p, sizeof p);
    return PH_OK;
}

ph_rc ph_j_step(ph_jrun *r, size_t n) {
    if (n > r->limits.steps - r->steps)
        return PH_J_FAIL(r, "step limit of %llu reached: an endless loop?",
                         (unsigned long long)r->limits.steps);
    r->steps += n;
    return PH_OK;
}

ph_rc ph_j_enter(ph_jrun *r) {
    if (r->depth >= r->limits.depth)
        return PH_J_FAIL(r, "nesting limit of %d levels reached", r->limits.depth);
    r->depth++;
    return PH_OK;
}

void ph_j_leave(ph_jrun *r) {
    r->depth--;
}

ph_rc ph_jinja_compile(ph_jinja **out, const char *source, size_t n, const ph_jinja_limits *limits,
                       ph_arena *arena, ph_err *err) {
    ph_jrun    r;
    ph_jparser p = {.r = &r};
    *out = NULL;
    ph_jrun_init(&r, limits, arena, err);
    PH_TRY(ph_j_carve(&r, out, 1, sizeof **out));
    ph_rc rc = ph_j_lex(&r, source, n, &p.tokens);
    if (!rc) rc = ph_j_parse(&p, &(*out)->body);
    if (rc) *out = NULL;
    return rc;
}

ph_rc ph_jinja_begin(ph_jrun **out, const ph_jinja_limits *limits, int64_t now_s, ph_arena *arena,
                     ph_err *err) {
    ph_jrun first;
    *out = NULL;
    ph_jrun_init(&first, limits, arena, err);
    first.now_s = now_s;
    PH_TRY(ph_j_carve(&first, out, 1, sizeof **out));
    **out = first;
    return PH_OK;
}

ph_rc ph_jinja_set(ph_jrun *r, const char *name, ph_jv value, ph_err *err) {
    ph_jv s;
    r->err = err;
    PH_TRY(ph_js_make(r, name, strlen(name), PH_JINJA_TRUSTED, &s));
    return ph_j_scope_set(r, &r->context, ph_j_str(s), value);
}

ph_jv ph_jinja_none(void) {
    return ph_j_none();
}
ph_jv ph_jinja_bool(int is_true) {
    return ph_j_bool(is_true);
}
ph_jv ph_jinja_int(int64_t i) {
    return ph_j_int(i);
}

ph_rc ph_jinja_string(ph_jrun *r, ph_jv *out, const char *s, size_t n, int mark, ph_err *err) {
    r->err = err;
    return ph_js_make(r, s, n, mark, out);
}

ph_rc ph_jinja_string_marked(ph_jrun *r, ph_jv *out, const char *s, const uint8_t *marks, size_t n,
                             ph_err *err) {
    ph_jbuf b = {0};
    r->err = err;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && marks[j] == marks[i];) j++;
        PH_TRY(ph_js_put(r, &b, s + i, j - i, marks[i]));
    }
    return ph_js_done(r, &b, out);
}

ph_rc ph_jinja_list(ph_jrun *r, ph_jv *out, const ph_jv *items, size_t n, ph_err *err) {
    ph_jlist l = {0};
    r->err = err;
    for (size_t i = 0; i < n; i++) PH_TRY(ph_j_list_push(r, &l, items[i]));
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

ph_rc ph_jinja_dict(ph_jrun *r, ph_jv *out, const char *const *keys, const ph_jv *values, size_t n,
                    ph_err *err) {
    ph_jdict *d;
    r->err = err;
    PH_TRY(ph_j_dict_make(r, &d));
    for (size_t i = 0; i < n; i++) {
        ph_jv k;
        PH_TRY(ph_js_make(r, keys[i], strlen(keys[i]), PH_JINJA_DATA, &k));
        PH_TRY(ph_j_dict_set(r, d, k, values[i]));
    }
    *out = ph_j_ptr(PH_J_DICT, d);
    return PH_OK;
}

ph_rc ph_jinja_render(ph_jrun *r, const ph_jinja *t, ph_jinja_text *out, ph_err *err) {
    ph_jbuf    text = {0};
    ph_jscope *root;
    *out = (ph_jinja_text){0};
    r->err = err;
    r->out = &text;
    r->raised = NULL;
    PH_TRY(ph_j_carve(r, &root, 1, sizeof *root));
    root->up = &r->context;
    ph_rc rc = ph_j_exec(r, t->body, root);
    r->out = NULL;
    if (rc) {
        out->raised = r->raised;
        return rc;
    }
    out->bytes = text.used ? text.p : "";
    out->marks = text.used ? text.mark : (const uint8_t *)"";
    out->n = text.used;
    return PH_OK;
}
