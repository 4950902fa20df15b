/* chat_golden.c - whole templates against transformers' rendering, and the laws of spans. */
#include "tests/unit/text/jinja_help.h"

#include <stdlib.h>

static char *slurp(const char *name, size_t *n) {
    char  path[200];
    char *bytes = NULL;
    snprintf(path, sizeof path, "tests/golden/chat/templates/%s", name);
    FILE *f = fopen(path, "rb");
    *n = 0;
    CHECK_SAY(f, "%s", path);
    if (!f) return NULL;
    if ((bytes = malloc(1 << 16))) *n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

/* The spans cover the text, one after the other. */
static void check_spans(const ph_chat_text *t, const char *name) {
    size_t at = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        CHECK_SAY(t->spans[i].bytes == t->bytes + at && t->spans[i].n > 0, "%s: span %zu", name, i);
        at += t->spans[i].n;
    }
    CHECK_SAY(at == t->n, "%s: spans hold %zu of %zu bytes", name, at, t->n);
}

static void check_outcome(const json_t *c, const char *name, ph_rc rc, const ph_chat_text *got,
                          const ph_err *err) {
    const json_t *want = json_object_get(c, "rendered");
    const char   *error = json_string_value(json_object_get(c, "error"));
    if (want) {
        int same =
            !rc && got->n == json_string_length(want) && !memcmp(got->bytes, json_string_value(want), got->n);
        CHECK_SAY(same, "%s: %s\n  got  %.*s\n  want %s", name, rc ? err->msg : "differs", (int)got->n,
                  got->n ? got->bytes : "", json_string_value(want));
        if (!rc) check_spans(got, name);
        return;
    }
    CHECK_SAY(rc == PH_ETEMPLATE, "%s: rendered, should fail: %s", name, error);
    if (!strncmp(error, "TemplateError: ", 15))
        CHECK_SAY(got->raised && !strcmp(got->raised, error + 15), "%s: raised '%s', not '%s'", name,
                  got->raised ? got->raised : "", error + 15);
}

static void one_case(const json_t *c) {
    const char      *name = json_string_value(json_object_get(c, "template"));
    ph_chat_variable extra[8];
    ph_chat          chat = {.now_s = JH_NOW, .variables = extra};
    size_t           n;
    char            *source = slurp(name, &n);
    ph_arena         a;
    ph_err           err = {0};
    ph_jinja        *t;
    ph_chat_text     text = {0};
    const char      *key;
    json_t          *value;
    chat.tools = json_object_get(c, "tools");
    if (json_is_null(chat.tools)) chat.tools = NULL;
    chat.add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt"));
    chat.bos_token = json_string_value(json_object_get(c, "bos_token"));
    chat.eos_token = json_string_value(json_object_get(c, "eos_token"));
    json_object_foreach(json_object_get(c, "extra_variables"), key, value) if (chat.n_variables < 8)
        extra[chat.n_variables++] = (ph_chat_variable){key, value, 0};
    if (source && !ph_arena_open_growing(&a, 1 << 16, &err)) {
        ph_rc rc = ph_jinja_compile(&t, source, n, NULL, &a, &err);
        if (!rc) rc = ph_chat_render_json(&text, t, json_object_get(c, "messages"), &chat, &a, &err);
        check_outcome(c, name, rc, &text, &err);
        ph_arena_close(&a);
    }
    free(source);
}

static void all_cases(const char *file, size_t at_least) {
    json_t *all = jh_load(file), *cases = json_object_get(all, "cases"), *c;
    size_t  i;
    CHECK(json_array_size(cases) >= at_least);
    json_array_foreach(cases, i, c) one_case(c);
    json_decref(all);
}

void test_chat_golden(void) {
    all_cases("golden.json", 72);
}

void test_chat_field(void) {
    all_cases("field.json", 80);
}
