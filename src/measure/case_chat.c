/* case_chat.c - conversations through chat templates, against the reference's Jinja.
 *
 * A case is a rendered text, or an error: then rendering must fail too, and where the template itself
 * raised it (raise_exception), with the same message.
 */
#include "measure/case.h"

#include "base/file.h"
#include "text/chat.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { VARIABLES_MAX = 64 };

static int claims(const char *dir) {
    char templates[4096];
    snprintf(templates, sizeof templates, "%s/templates", dir);
    return ph_golden_json_has(dir, "golden.json", "cases") && ph_path_is_dir(templates);
}

/* Special tokens are the model's own; what else is set is a client's. */
static size_t variables(ph_chat_variable out[VARIABLES_MAX], const json_t *item) {
    size_t      n = 0;
    const char *name;
    json_t     *value, *extra = json_object_get(item, "extra_variables");
    json_object_foreach(extra, name, value) {
        if (n < VARIABLES_MAX) out[n++] = (ph_chat_variable){.name = name, .value = value};
    }
    return n;
}

static ph_rc compare_error(ph_report *r, const char *expected, ph_rc rendered, const ph_chat_text *text,
                           const ph_err *why, ph_err *err) {
    static const char raised[] = "TemplateError: ";
    if (!rendered) return PH_FAIL(err, PH_EMISMATCH, "rendered, where the reference fails with %s", expected);
    if (rendered != PH_ETEMPLATE) {
        *err = *why;
        return rendered;
    }
    if (strncmp(expected, raised, sizeof raised - 1)) {
        ph_figure(r, 0, 0, "it fails, as the reference does");
        return PH_OK;
    }
    const char *message = text->raised ? text->raised : why->msg;
    ph_figure_text(r, message, strlen(message), expected + sizeof raised - 1,
                   strlen(expected) - (sizeof raised - 1), "raised message");
    return PH_OK;
}

static ph_rc render(ph_chat_text *text, const ph_file *file, const json_t *item, ph_arena *arena,
                    ph_err *err) {
    ph_chat_variable variable[VARIABLES_MAX];
    ph_jinja        *t;
    const json_t    *tools = json_object_get(item, "tools");
    *text = (ph_chat_text){0};
    const ph_chat chat = {.tools = json_is_array(tools) ? tools : NULL,
                          .add_generation_prompt =
                              json_is_true(json_object_get(item, "add_generation_prompt")),
                          .bos_token = json_string_value(json_object_get(item, "bos_token")),
                          .eos_token = json_string_value(json_object_get(item, "eos_token")),
                          .variables = variable,
                          .n_variables = variables(variable, item),
                          .now_s = -1};
    PH_TRY(ph_jinja_compile(&t, (const char *)file->bytes, file->n, NULL, arena, err));
    return ph_chat_render_json(text, t, json_object_get(item, "messages"), &chat, arena, err);
}

static ph_rc check_with(ph_report *r, const ph_file *file, const json_t *item, ph_arena *arena, ph_err *err) {
    ph_chat_text  text;
    ph_err        why = {0};
    const json_t *rendered = json_object_get(item, "rendered");
    const char   *error = json_string_value(json_object_get(item, "error"));
    ph_rc         rc = render(&text, file, item, arena, &why);
    if (error) return compare_error(r, error, rc, &text, &why, err);
    if (!json_is_string(rendered))
        return PH_FAIL(err, PH_EFORMAT, "the case has neither 'rendered' nor 'error'");
    if (rc) {
        *err = why;
        return rc;
    }
    ph_figure_text(r, text.bytes, text.n, json_string_value(rendered), json_string_length(rendered),
                   "rendered");
    return PH_OK;
}

static ph_rc check(ph_report *r, const char *dir, const char *name, const json_t *item, ph_err *err) {
    char     templates[4096];
    ph_file  file;
    ph_arena arena;
    snprintf(templates, sizeof templates, "%s/templates", dir);
    PH_TRY(ph_file_open_in(&file, templates, name, err));
    ph_rc rc = ph_arena_open_growing(&arena, 64 << 10, err);
    if (!rc) {
        rc = check_with(r, &file, item, &arena, err);
        ph_arena_close(&arena);
    }
    ph_file_close(&file);
    return rc;
}

static const char *text_or(const json_t *item, const char *key, const char *otherwise) {
    const char *s = json_string_value(json_object_get(item, key));
    return s ? s : otherwise;
}

static void run(ph_report *r, const char *dir) {
    char         path[4096];
    json_error_t why;
    ph_err       err = {0};
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_t *root = json_load_file(path, 0, &why), *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *item = json_array_get(cases, i);
        const char   *name = text_or(item, "template", "");
        int           is_asked = json_is_true(json_object_get(item, "add_generation_prompt"));
        err = (ph_err){0};
        if (!ph_case_begin(r, "%s %s%s", name, text_or(item, "conversation", "?"),
                           is_asked ? "" : " (closed)"))
            continue;
        ph_rc rc = check(r, dir, name, item, &err);
        ph_case_end(r, rc, &err);
    }
    if (!json_array_size(cases) && ph_case_begin(r, "golden.json"))
        ph_case_end(r, PH_FAIL(&err, PH_EFORMAT, "golden.json holds no cases"), &err);
    json_decref(root);
}

const ph_case_kind ph_case_chat = {"chat", "conversations through chat templates", claims, run, 0, 0};
