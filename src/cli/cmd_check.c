/* cmd_check.c - can these ONNX models be deployed, alone and together? */
#include "cli/command.h"

#include "measure/deploy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    ph_deploy      d;
    ph_cli_plugins plugins;
    int            is_json;
} job;

static void print_part(const ph_deploy_part *p) {
    char shown[2][PH_CLI_SHOWN], name[PH_ONNX_AXIS_NAME];
    printf("%s\n  modality     %s\n", ph_cli_shown(shown[0], p->path), ph_modality_name(p->modality));
    ph_cli_print_opsets(&p->file);
    for (size_t i = 0; i < p->n_axes; i++)
        printf("  dynamic axis %s\n", ph_cli_shown(shown[0], ph_onnx_axis_name(&p->axis[i], name)));
    for (size_t i = 0; i < p->n_cuts; i++)
        printf("  can be cut   at %s, where %s ends\n", ph_cli_shown(shown[0], p->cut[i]),
               ph_modality_name(p->cut_modality[i]));
    for (size_t i = 0; i < p->n_problems; i++) {
        const ph_deploy_problem *q = &p->problem[i];
        printf("  %-12s %s%s%s%s\n", q->is_fatal ? "PROBLEM" : "note", ph_cli_shown(shown[0], q->message),
               *q->node ? "  [" : "", ph_cli_shown(shown[1], q->node), *q->node ? "]" : "");
    }
    if (p->n_notes_left_out) printf("  note         and %zu more\n", p->n_notes_left_out);
    if (p->n_fatal_left_out) printf("  PROBLEM      and %zu more\n", p->n_fatal_left_out);
}

static json_t *text(const char *s) {
    return ph_cli_text_json(s, strlen(s));
}

static json_t *part_json(const ph_deploy_part *p) {
    json_t *problems = json_array(), *opsets = json_object(), *cuts = json_array(), *axes = json_array();
    char    name[PH_ONNX_AXIS_NAME];
    for (size_t i = 0; i < p->n_problems; i++) {
        const ph_deploy_problem *q = &p->problem[i];
        json_array_append_new(problems, json_pack("{ss so so sb}", "code", q->code, "node",
                                                  *q->node ? text(q->node) : json_null(), "message",
                                                  text(q->message), "fatal", q->is_fatal));
    }
    for (size_t i = 0; i < p->file.n_opsets; i++)
        ph_cli_set_json(opsets, *p->file.opset[i].domain ? p->file.opset[i].domain : "ai.onnx",
                        json_integer(p->file.opset[i].version));
    for (size_t i = 0; i < p->n_cuts; i++)
        json_array_append_new(cuts, json_pack("{so ss}", "value", text(p->cut[i]), "modality",
                                              ph_modality_name(p->cut_modality[i])));
    for (size_t i = 0; i < p->n_axes; i++)
        json_array_append_new(axes, text(ph_onnx_axis_name(&p->axis[i], name)));
    return json_pack("{so ss so so so so}", "file", text(p->path), "modality", ph_modality_name(p->modality),
                     "opsets", opsets, "problems", problems, "axes", axes, "cuts", cuts);
}

static ph_rc work(job *j, const ph_texts *files, ph_err *err) {
    ph_kernels kernels;
    unsigned   features;
    PH_TRY(ph_kernels_features(getenv("PINHOLE_ISA"), &features, err));
    ph_kernels_init(&kernels, features);
    PH_TRY(ph_cli_plugins_open(&j->plugins, err));
    PH_TRY(ph_deploy_open(&j->d, files->at, files->n, &kernels, j->plugins.opened.ops, err));
    if (j->is_json) {
        json_t *parts = json_array();
        for (size_t i = 0; i < j->d.n; i++) json_array_append_new(parts, part_json(&j->d.part[i]));
        ph_cli_print_json(json_pack("{sb so}", "deployable", j->d.is_deployable, "parts", parts));
    } else {
        for (size_t i = 0; i < j->d.n; i++) print_part(&j->d.part[i]);
        printf("%s\n", j->d.is_deployable ? "deployable" : "not deployable");
    }
    return j->d.is_deployable ? PH_OK : PH_FAIL(err, PH_EVERDICT, "not deployable: see the problems");
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    const ph_option own[] = {
        {"--json", 0, NULL, "print one JSON object and nothing else", PH_OPTION_FLAG, &j.is_json},
        {0},
    };
    int        is_over;
    ph_option  plugin[2];
    ph_options o = {.group = {own, plugin}, .n_groups = 2};
    ph_cli_plugin_option(&j.plugins, plugin);
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (!o.rest.n) return PH_FAIL(err, PH_EUSAGE, "give one or more ONNX files");
    ph_rc rc = work(&j, &o.rest, err);
    ph_deploy_close(&j.d);
    ph_cli_plugins_close(&j.plugins);
    return rc;
}

const ph_command ph_command_check = {
    .name = "check",
    .summary = "opsets, modalities, dynamic axes, cuts: can these ONNX models be deployed together",
    .usage = "M.onnx ... [--plugin FILE]",
    .about = "Each part by itself: its opsets, operators that are not there, dynamic axes of its inputs, "
             "values at which it can\n"
             "be cut between modalities. Together: opsets that differ, and types and shapes where an output "
             "of one is an input\n"
             "of another by name. Operators of --plugin count as there, and are told of. A file that cannot "
             "be read:\n"
             "status 3; one that cannot be deployed: 1.\n\n"
             "  pinhole check vision.onnx language.onnx",
    .run = run,
};
