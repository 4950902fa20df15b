/* cmd_verify.c - reference cases, a line a case, and how many hold. */
#include "cli/command.h"

#include "engine/engine.h"
#include "kernels/kernels.h"
#include "measure/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    ph_verify_options how;
    const char       *kv, *unfuse, *root;
    ph_texts          eps;
    ph_cli_parts      engines;
    ph_cli_plugins    plugins;
    int               is_json, is_verbose;
} job;

/* "models/x/case", as seen from the folder that was given. */
static const char *below(const job *j, const char *folder) {
    size_t n = strlen(j->root);
    if (!strncmp(folder, j->root, n) && folder[n] == '/') return folder + n + 1;
    const char *slash = strrchr(folder, '/');
    return slash && slash[1] ? slash + 1 : folder;
}

static void print_line(const job *j, const ph_verify_row *row) {
    printf("%-8s%s/%s", ph_verdict_name[row->verdict], below(j, row->folder), row->name);
    if (row->worst[0]) printf("  %s %.3g of %.3g", row->worst, row->value, row->tolerance);
    if (row->n_figures > 1) printf(" (worst of %d)", row->n_figures);
    if (row->reason[0]) printf(": %s", row->reason);
    putchar('\n');
    if (j->is_verbose && row->notes[0]) printf("        note: %s\n", row->notes);
}

/* JSON knows no infinity. */
static json_t *number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

static void print_object(const job *j, const ph_verify_row *row) {
    json_t *o = json_pack("{ss ss so ss si}", "kind", row->kind, "folder", below(j, row->folder), "case",
                          ph_cli_text_json(row->name, strlen(row->name)), "verdict",
                          row->verdict == PH_VERDICT_FAILED ? "failed" : ph_verdict_name[row->verdict],
                          "figures", row->n_figures);
    if (row->worst[0]) {
        json_object_set_new(o, "worst", ph_cli_text_json(row->worst, strlen(row->worst)));
        json_object_set_new(o, "value", number(row->value));
        json_object_set_new(o, "tolerance", number(row->tolerance));
    }
    if (row->reason[0]) json_object_set_new(o, "reason", ph_cli_text_json(row->reason, strlen(row->reason)));
    if (row->notes[0]) json_object_set_new(o, "notes", ph_cli_text_json(row->notes, strlen(row->notes)));
    ph_cli_print_json(o);
}

static void print(void *arg, const ph_verify_row *row) {
    const job *j = arg;
    if (j->is_json)
        print_object(j, row);
    else
        print_line(j, row);
}

/* vision=native --against E is vision=E --against native: two engines, one held to the other. */
static void turn_around(ph_verify_options *how) {
    if (!how->against || !strcmp(how->against, "native") || !how->engine_vision ||
        strcmp(how->engine_vision, "native"))
        return;
    how->engine_vision = how->against;
    how->against = "native";
}

static ph_rc settle(job *j, ph_err *err) {
    unsigned features;
    j->how.isa = getenv("PINHOLE_ISA");
    PH_TRY(ph_kernels_features(j->how.isa, &features, err));
    j->how.real_gguf = getenv("PINHOLE_REAL_GGUF");
    j->how.ep = j->eps.at;
    j->how.n_eps = j->eps.n;
    if (j->how.engine && strchr(j->how.engine, '=')) {
        PH_TRY(ph_cli_engine_parts(j->how.engine, &j->engines, err));
        if (j->engines.bridge[0])
            return PH_FAIL(err, PH_EUSAGE, "verify runs bridges where it runs vision: leave out bridge=%s",
                           j->engines.bridge);
        j->how.engine_vision = j->engines.vision[0] ? j->engines.vision : NULL;
        j->how.engine_language = j->engines.language[0] ? j->engines.language : NULL;
        j->how.engine_embed = j->engines.embed[0] ? j->engines.embed : NULL;
        j->how.engine = NULL;
        turn_around(&j->how);
    }
    if (j->kv && (!ph_dtype_from_name(j->kv, &j->how.kv) || (j->how.kv != PH_F32 && j->how.kv != PH_F16)))
        return PH_FAIL(err, PH_EUSAGE, "--kv takes f32 or f16, not '%s'", j->kv);
    return ph_fusions_of(j->unfuse, &j->how.unfused, err);
}

static void print_sum(const ph_verify_sum *sum) {
    json_t *o = json_pack("{sI sI sI}", "passed", (json_int_t)sum->passed, "failed", (json_int_t)sum->failed,
                          "skipped", (json_int_t)sum->skipped);
    if (sum->guest) {
        json_t *guest = json_pack("{ss}", "release", sum->release);
        if (sum->peak) json_object_set_new(guest, "peak", json_integer((json_int_t)sum->peak));
        json_object_set_new(o, sum->guest, guest);
    }
    ph_cli_print_json(o);
}

static ph_rc verify(job *j, const char *path, ph_err *err) {
    ph_verify_sum sum;
    char          root[4096];
    snprintf(root, sizeof root, "%s", path);
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--) root[n - 1] = 0;
    j->root = root;
    PH_TRY(settle(j, err));
    PH_TRY(ph_cli_plugins_open(&j->plugins, err));
    j->how.user = j->plugins.opened.ops;
    ph_rc rc = ph_verify(path, &j->how, print, j, &sum, err);
    if (rc && rc != PH_EVERDICT) return rc;
    if (j->is_json)
        print_sum(&sum);
    else
        printf("%zu passed, %zu failed, %zu skipped\n", sum.passed, sum.failed, sum.skipped);
    if (rc && !sum.failed) fprintf(stderr, "pinhole verify: %s\n", err->msg);
    return rc;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    job             j = {0};
    int             is_over;
    const ph_option own[] = {
        {"--threads", 't', "N", "workers; default: as many as processors",
         PH_OPTION_INT(0, PH_CLI_THREADS_MAX), &j.how.threads},
        {"--chunk", 0, "N", "prompt tokens a run, at most (512)", PH_OPTION_INT(0, PH_CLI_TOKENS_MAX),
         &j.how.chunk},
        {"--kv", 0, "TYPE", "the KV cache's type: f32 (default), or f16 with the reference's loose limits",
         PH_OPTION_TEXT, &j.kv},
        {"--fast", 0, NULL,
         "meet block-typed weights by integers, as `run` does, with limits ten times as wide", PH_OPTION_FLAG,
         &j.how.is_fast},
        {"--rows8", 0, NULL, "the same by rows of 8 bits, with limits a thousand times as wide",
         PH_OPTION_FLAG, &j.how.is_rows8},
        {"--unfuse", 0, "LIST",
         "joins of steps that are not done: all, or some of norm, group, act, gate, ...", PH_OPTION_TEXT,
         &j.unfuse},
        {"--tight", 0, NULL, "hold logits to what a clean f32 engine reaches", PH_OPTION_FLAG,
         &j.how.is_tight},
        {"--engine", 0, "E",
         "what runs ONNX models: native (default), ort (ONNX Runtime) or openvino; vision=ort: parts of "
         "models",
         PH_OPTION_TEXT, &j.how.engine},
        {"--against", 0, "NAME",
         "two engines, one held to the other: ort or openvino of ONNX models, or of a vision "
         "part: --engine vision=native --against ort",
         PH_OPTION_TEXT, &j.how.against},
        {"--ep", 0, "EP", "an execution provider of ort with options: openvino,device=cpu; repeats",
         PH_OPTION_TEXTS, &j.eps},
        {"--filter", 0, "WORD", "only cases whose folder or name holds this", PH_OPTION_TEXT, &j.how.filter},
        {"--verbose", 'v', NULL, "also name what was not compared", PH_OPTION_FLAG, &j.is_verbose},
        {"--json", 0, NULL, "one JSON object a case, then one with the sums", PH_OPTION_FLAG, &j.is_json},
        {0},
    };
    ph_option  plugin[2];
    ph_options o = {.group = {own, plugin}, .n_groups = 2};
    ph_cli_plugin_option(&j.plugins, plugin);
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n != 1) return PH_FAIL(err, PH_EUSAGE, "give one folder of reference cases");
    ph_rc rc = verify(&j, o.rest.at[0], err);
    ph_cli_plugins_close(&j.plugins);
    return rc;
}

const ph_command ph_command_verify = {
    .name = "verify",
    .summary = "compare with what other implementations computed",
    .usage = "PATH",
    .about =
        "Runs every reference case under PATH: a set, a kind's folder, a model's folder or its golden/. A "
        "line a case:\n"
        "ok, FAILED or skipped, and the figure nearest to its limit. Exits 1 when a case failed or none "
        "ran.\n"
        "A model's folder may hold a .gguf (and its mmproj-*.gguf) in place of config.json and weights.\n"
        "PINHOLE_ISA chooses the kernels; PINHOLE_REAL_GGUF names the checkpoint that some cases need; "
        "PINHOLE_ORT and\n"
        "PINHOLE_OPENVINO the libraries of those engines (inspect --engines says which are here).\n\n"
        "  pinhole verify tests/golden/set --tight",
    .run = run,
};
