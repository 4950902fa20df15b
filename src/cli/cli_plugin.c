/* cli_plugin.c - --plugin: operators of the user's own, for the commands that read ONNX models. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

void ph_cli_plugin_option(ph_cli_plugins *p, ph_option rows[2]) {
    const ph_option r[] = {
        {"--plugin", 0, "FILE",
         "a shared library with operators of your own for ONNX models (pinhole_op.h); it runs with this "
         "process's "
         "rights; repeats",
         PH_OPTION_TEXTS, &p->path},
    };
    ph_cli_copy_rows(rows, r, sizeof r / sizeof *r);
}

ph_rc ph_cli_plugins_open(ph_cli_plugins *p, ph_err *err) {
    return ph_plugins_open(&p->opened, p->path.at, p->path.n, err);
}

void ph_cli_plugins_close(ph_cli_plugins *p) {
    ph_plugins_close(&p->opened);
}

/* ---- a listing ---- */

static json_t *counts(int least, int most) {
    return json_pack("[i i]", least, most);
}

static json_t *operator_json(const ph_user *o) {
    json_t *how = json_array();
    if (o->theirs.flags & PINHOLE_OP_PURE) json_array_append_new(how, json_string("pure"));
    if (o->theirs.flags & PINHOLE_OP_FOLD) json_array_append_new(how, json_string("fold"));
    if (o->theirs.flags & PINHOLE_OP_THREADS) json_array_append_new(how, json_string("threads"));
    return json_pack("{ss ss si so so so}", "domain", o->domain, "name", o->name, "since",
                     (int)o->theirs.since, "inputs", counts(o->op.in_min, o->op.in_max), "outputs",
                     counts(o->op.out_min, o->op.out_max), "flags", how);
}

json_t *ph_cli_plugins_json(const ph_plugins *p) {
    json_t *all = json_array();
    for (size_t i = 0; i < ph_user_lib_count(p->ops); i++) {
        const ph_user_lib *lib = ph_user_lib_at(p->ops, i);
        json_t            *operators = json_array();
        for (size_t k = 0; k < ph_user_op_count(p->ops); k++)
            if (ph_user_op_at(p->ops, k)->lib == lib)
                json_array_append_new(operators, operator_json(ph_user_op_at(p->ops, k)));
        json_array_append_new(all, json_pack("{ss ss so so}", "name", lib->name, "version", lib->version,
                                             "path", ph_cli_text_json(lib->path, strlen(lib->path)),
                                             "operators", operators));
    }
    return all;
}

static const char *text_of(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static int number(const json_t *o, const char *key, size_t i) {
    return (int)json_integer_value(json_array_get(json_object_get(o, key), i));
}

void ph_cli_print_plugins(const json_t *plugins) {
    size_t  i, k;
    json_t *p, *o;
    char    shown[PH_CLI_SHOWN];
    json_array_foreach(plugins, i, p) {
        printf("  %-12s %s, %s\n", text_of(p, "name"), text_of(p, "version"),
               ph_cli_shown(shown, text_of(p, "path")));
        json_array_foreach(json_object_get(p, "operators"), k, o) printf(
            "    %s::%s since %d, %d to %d inputs, %d to %d outputs\n", text_of(o, "domain"),
            text_of(o, "name"), (int)json_integer_value(json_object_get(o, "since")), number(o, "inputs", 0),
            number(o, "inputs", 1), number(o, "outputs", 0), number(o, "outputs", 1));
    }
}
