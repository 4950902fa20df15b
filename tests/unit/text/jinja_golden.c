/* jinja_golden.c - expressions and templates against Python's jinja2, and a message for each kind of error.
 */
#include "tests/unit/text/jinja_help.h"

json_t *jh_load(const char *name) {
    char         path[200];
    json_error_t why;
    snprintf(path, sizeof path, "tests/golden/chat/%s", name);
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &why);
    CHECK_SAY(j, "%s: %s", path, why.text);
    return j;
}

/* Render source with every key of vars as data. */
ph_rc jh_render(ph_jinja_text *out, const char *source, size_t n, json_t *vars, ph_arena *a, ph_err *err) {
    ph_jinja   *t;
    ph_jrun    *r;
    const char *key;
    json_t     *value;
    PH_TRY(ph_jinja_compile(&t, source, n, NULL, a, err));
    PH_TRY(ph_jinja_begin(&r, NULL, JH_NOW, a, err));
    json_object_foreach(vars, key, value) {
        ph_jv v;
        PH_TRY(ph_jinja_json(r, &v, value, PH_JINJA_DATA, err));
        PH_TRY(ph_jinja_set(r, key, v, err));
    }
    return ph_jinja_render(r, t, out, err);
}

static void one_expression(json_t *c, json_t *vars) {
    json_t       *source = json_object_get(c, "template"), *want = json_object_get(c, "rendered");
    ph_arena      a;
    ph_err        err = {0};
    ph_jinja_text text = {0};
    if (ph_arena_open_growing(&a, 1 << 16, &err)) return;
    ph_rc rc = jh_render(&text, json_string_value(source), json_string_length(source), vars, &a, &err);
    if (!want) {
        CHECK_SAY(rc == PH_ETEMPLATE, "%s: rendered, should fail: %s", json_string_value(source),
                  json_string_value(json_object_get(c, "error")));
    } else {
        CHECK_SAY(!rc, "%s: %s", json_string_value(source), err.msg);
        int same =
            !rc && text.n == json_string_length(want) && !memcmp(text.bytes, json_string_value(want), text.n);
        CHECK_SAY(same, "%s\n  got  %.*s\n  want %s", json_string_value(source), (int)text.n,
                  text.bytes ? text.bytes : "", json_string_value(want));
    }
    ph_arena_close(&a);
}

void test_jinja_expressions(void) {
    json_t *all = jh_load("expressions.json"), *cases = json_object_get(all, "cases"), *c;
    size_t  i;
    CHECK(json_array_size(cases) > 1000);
    json_array_foreach(cases, i, c) one_expression(c, json_object_get(all, "variables"));
    json_decref(all);
}

void test_jinja_errors(void) {
    json_t *all = jh_load("errors.json"), *c;
    size_t  i;
    json_array_foreach(all, i, c) {
        json_t     *source = json_object_get(c, "template");
        const char *says = json_string_value(json_object_get(c, "says")),
                   *other = json_string_value(json_object_get(c, "or"));
        char          line[40];
        ph_arena      a;
        ph_err        err = {0};
        ph_jinja_text text;
        if (ph_arena_open_growing(&a, 1 << 16, &err)) return;
        ph_rc rc = jh_render(&text, json_string_value(source), json_string_length(source), NULL, &a, &err);
        snprintf(line, sizeof line, "line %d:", (int)json_integer_value(json_object_get(c, "line")));
        CHECK_SAY(rc == PH_ETEMPLATE, "%s", json_string_value(source));
        CHECK_SAY(strstr(err.msg, says) || (other && strstr(err.msg, other)), "%s: '%s' lacks '%s'",
                  json_string_value(source), err.msg, says);
        CHECK_SAY(strstr(err.msg, line), "%s: '%s' lacks '%s'", json_string_value(source), err.msg, line);
        ph_arena_close(&a);
    }
    json_decref(all);
}

/* Nesting in the source, in the data and in calls is refused, not followed into the stack's end. */
void test_jinja_depth(void) {
    static char       source[200000];
    const char *const open[] = {"(", "[", "not ", "-", "{1:", "x(", "x|f(", "{% if x %}", "1 if x else "};
    for (size_t k = 0; k < sizeof open / sizeof *open; k++) {
        size_t        n = 0, len = strlen(open[k]), in_tag = *open[k] != '{' || open[k][1] != '%';
        ph_arena      a;
        ph_err        err = {0};
        ph_jinja_text text;
        if (in_tag) n = (size_t)snprintf(source, sizeof source, "{{ ");
        for (int i = 0; i < 10000; i++) {
            memcpy(source + n, open[k], len);
            n += len;
        }
        n += (size_t)snprintf(source + n, sizeof source - n, in_tag ? "x }}" : "x");
        if (ph_arena_open_growing(&a, 1 << 16, &err)) return;
        ph_rc rc = jh_render(&text, source, n, NULL, &a, &err);
        CHECK_SAY(rc == PH_ETEMPLATE || !strcmp(open[k], "not "), "%s x 10000: %d", open[k], rc);
        ph_arena_close(&a);
    }
    json_t *deep = json_array(), *vars = json_object();
    for (int i = 0; i < 1000; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, deep);
        deep = outer;
    }
    json_object_set_new(vars, "x", deep);
    ph_arena      a;
    ph_err        err = {0};
    ph_jinja_text text;
    if (!ph_arena_open_growing(&a, 1 << 16, &err)) {
        CHECK(jh_render(&text, "{{ x }}", 7, vars, &a, &err) == PH_ETEMPLATE &&
              strstr(err.msg, "nesting limit"));
        ph_arena_close(&a);
    }
    json_decref(vars);
}
