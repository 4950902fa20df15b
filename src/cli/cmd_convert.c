/* cmd_convert.c - a checkpoint in the other container: names, keys and types of the field. */
#include "cli/cmd_convert.h"
#include "cli/command.h"

#include "base/mem.h"
#include "convert/onnx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ph_cli_convert_progress(void *arg, size_t done, size_t n, const char *name) {
    const int *is_quiet = arg;
    char       shown[PH_CLI_SHOWN];
    if (*is_quiet) return;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%zu of %zu  %.60s%s", done, n, ph_cli_shown(shown, name),
                done == n ? "\n" : "");
    else if (done == n)
        fprintf(stderr, "%zu of %zu tensors\n", done, n);
}

static json_t *report_json(const ph_convert *c, const ph_convert_report *r) {
    json_t *o = json_pack("{sosIsIsIsI}", "out", ph_cli_text_json(c->out, strlen(c->out)), "tensors",
                          (json_int_t)r->tensors, "bytes_in", (json_int_t)r->bytes_in, "bytes_out",
                          (json_int_t)r->bytes_out, "fell_back", (json_int_t)r->fell_back);
    if (r->mmproj_out[0])
        json_object_set_new(o, "mmproj_out", ph_cli_text_json(r->mmproj_out, strlen(r->mmproj_out)));
    if (c->is_bundle) json_object_set_new(o, "bundle", json_true());
    if (c->to_gguf) json_object_set_new(o, "names", json_string(r->is_carried ? "huggingface" : "gguf"));
    return o;
}

void ph_cli_convert_report(const ph_convert *c, const ph_convert_report *r, int is_json) {
    char in[32], out[32], shown[PH_CLI_SHOWN];
    if (r->fell_back)
        fprintf(
            stderr,
            "pinhole: %zu tensor%s (%s%s) cannot have the type asked for, by their rows or by how they are "
            "read: a finer one was taken\n",
            r->fell_back, r->fell_back == 1 ? "" : "s", ph_cli_shown(shown, r->fell_back_first),
            r->fell_back == 1 ? "" : ", ...");
    if (r->carried_why[0])
        fprintf(
            stderr,
            "pinhole: no other program has names for this model's parts: kept the Hugging Face names (%s)\n",
            r->carried_why);
    if (r->pre_unknown)
        fprintf(stderr,
                "pinhole: GGUF has no name for how this tokenizer splits text; programs that do not read its "
                "tokenizer.json will split otherwise\n");
    if (is_json) {
        ph_cli_print_json(report_json(c, r));
        return;
    }
    ph_size_print(in, sizeof in, r->bytes_in);
    ph_size_print(out, sizeof out, r->bytes_out);
    printf("%s: %zu tensors, %s (from %s)%s\n", c->out, r->tensors, out, in, c->is_bundle ? ", sealed" : "");
    if (r->mmproj_out[0]) printf("%s: the vision part\n", r->mmproj_out);
}

ph_rc ph_cli_convert_names(ph_convert *c, const char *names, ph_err *err) {
    if (!names) return PH_OK;
    if (strcmp(names, "gguf") && strcmp(names, "huggingface"))
        return PH_FAIL(err, PH_EUSAGE, "--names takes gguf or huggingface, not '%s'", names);
    c->names = !strcmp(names, "gguf") ? PH_CONVERT_NAMES_GGUF : PH_CONVERT_NAMES_HF;
    return PH_OK;
}

ph_rc ph_cli_convert_shards(const ph_convert *c, ph_err *err) {
    if (!c->to_gguf || c->shard_bytes == PH_CLI_SHARD_BYTES) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE,
                   "--shard-size goes with a directory to write, of safetensors: a %s is one file",
                   c->is_bundle ? "bundle" : ".gguf");
}

static ph_rc read_words(ph_convert *c, ph_recipe_types *types, const char *to, const char *dtype,
                        ph_err *err) {
    if (!to) return PH_FAIL(err, PH_EUSAGE, "say --to FORMAT: gguf, safetensors, bundle or onnx");
    if (strcmp(to, "gguf") && strcmp(to, "safetensors") && strcmp(to, "bundle") && strcmp(to, "onnx"))
        return PH_FAIL(err, PH_EUSAGE, "--to takes gguf, safetensors, bundle or onnx, not '%s'", to);
    c->is_bundle = !strcmp(to, "bundle");
    c->to_gguf = c->is_bundle || !strcmp(to, "gguf");
    if (!dtype || !strcmp(dtype, "keep")) return PH_OK;
    types->has_type = 1;
    if (ph_dtype_from_name(dtype, &types->type) &&
        (types->type == PH_F32 || types->type == PH_F16 || types->type == PH_BF16))
        return PH_OK;
    return PH_FAIL(err, PH_EUSAGE,
                   "--dtype takes f32, f16, bf16 or keep, not '%s'; block types: pinhole quantize", dtype);
}

/* ---- ONNX ---- */

/* What only ONNX files have. */
typedef struct onnx_words {
    const char    *part, *external, *alpha;
    int            opset, is_widened, is_ours, inject; /* inject: a layer; -1: none */
    ph_cli_plugins plugins;
} onnx_words;

static void report_onnx(const ph_convert_onnx_report *r, int is_json) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n; i++) {
        char size[32], data[32];
        ph_size_print(size, sizeof size, (size_t)r->part[i].size.model);
        ph_size_print(data, sizeof data, (size_t)r->part[i].size.data);
        json_array_append_new(list, json_pack("{sssosIsIsIsI}", "part", r->part[i].name, "out",
                                              ph_cli_text_json(r->part[i].path, strlen(r->part[i].path)),
                                              "nodes", (json_int_t)r->part[i].nodes, "weights",
                                              (json_int_t)r->part[i].weights, "bytes_out",
                                              (json_int_t)r->part[i].size.model, "bytes_data",
                                              (json_int_t)r->part[i].size.data));
        if (is_json) continue;
        printf("%s: %s, %zu nodes, %zu weights, %s\n", r->part[i].path, r->part[i].name, r->part[i].nodes,
               r->part[i].weights, size);
        if (r->part[i].size.data) printf("%s.data: %s of weights\n", r->part[i].path, data);
    }
    if (is_json)
        ph_cli_print_json(json_pack("{so}", "parts", list));
    else
        json_decref(list);
}

static ph_rc to_onnx(const ph_convert *c, onnx_words *w, int has_threads, int is_json, ph_err *err) {
    ph_convert_onnx        x = {.in = c->in, .mmproj = c->mmproj, .out = c->out, .part = w->part};
    ph_convert_onnx_report r;
    x.external = PH_ONNX_EXTERNAL_AUTO;
    x.injects = w->inject >= 0;
    x.inject_layer = w->inject;
    PH_TRY(ph_cli_inject_alpha(w->alpha, w->inject, &x.inject_alpha, err));
    x.how = (ph_onnx_export_how){.opset = w->opset,
                                 .has_type = c->types->has_type,
                                 .type = c->types->type,
                                 .is_widened = w->is_widened,
                                 .is_ours = w->is_ours};
    if (w->external && !ph_size_parse(w->external, &x.external))
        return PH_FAIL(err, PH_EUSAGE, "--external takes a size such as 1KiB or 0, not '%s'", w->external);
    if (c->names || c->mmproj_out || c->is_bare)
        return PH_FAIL(err, PH_EUSAGE, "--names, --mmproj-out and --bare go with --to gguf");
    if (c->shard_bytes != PH_CLI_SHARD_BYTES)
        return PH_FAIL(
            err, PH_EUSAGE,
            "--shard-size goes with --to safetensors; of an ONNX file --external parts the weights");
    if (has_threads)
        return PH_FAIL(err, PH_EUSAGE,
                       "--threads goes with the other formats: an ONNX file is written by one worker");
    PH_TRY(ph_cli_plugins_open(&w->plugins, err));
    x.user = w->plugins.opened.ops;
    ph_rc rc = ph_convert_onnx_run(&x, &r, err);
    if (!rc) report_onnx(&r, is_json);
    ph_cli_plugins_close(&w->plugins);
    return rc;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    const char       *to = NULL, *dtype = NULL, *names = NULL;
    onnx_words        words = {.inject = -1};
    int               is_json = 0, is_quiet = 0, threads = 0, is_over;
    ph_recipe_types   types = {0};
    ph_convert        c = {.types = &types, .say = ph_cli_convert_progress, .say_arg = &is_quiet};
    ph_convert_report report;
    const ph_option   own[] = {
          {"--out", 'o', "PATH", "the file or directory to write", PH_OPTION_TEXT, &c.out},
          {"--to", 0, "FORMAT",
           "gguf, safetensors (a Hugging Face directory), bundle (one sealed file), or onnx", PH_OPTION_TEXT,
           &to},
          {"--mmproj", 0, "FILE", "the vision part of a .gguf model", PH_OPTION_TEXT, &c.mmproj},
          {"--mmproj-out", 0, "FILE", "where the vision part goes; default: mmproj-NAME beside the output",
           PH_OPTION_TEXT, &c.mmproj_out},
          {"--dtype", 0, "TYPE", "of matrices: f32, f16, bf16, or keep (default)", PH_OPTION_TEXT, &dtype},
          {"--names", 0, "WHOSE", PH_CLI_NAMES_HELP, PH_OPTION_TEXT, &names},
          {"--shard-size", 0, "SIZE", "largest safetensors file (5GB); 0: one file, however large",
           PH_OPTION_SIZE, &c.shard_bytes},
          {"--part", 0, "PART", "for onnx: vision, bridge, cross, language; or all, into a directory",
           PH_OPTION_TEXT, &words.part},
          {"--opset", 0, "N", "for onnx: 17 (default) to 23",
           PH_OPTION_INT(PH_ONNX_OUT_OPSET_MIN, PH_ONNX_OUT_OPSET_MAX), &words.opset},
          {"--external", 0, "SIZE",
           "for onnx: weights above this go to OUT.data; default: 1KiB, if the file would pass 2 GB",
           PH_OPTION_TEXT, &words.external},
          {"--widen", 0, NULL, "for onnx: weights of types that ONNX lacks become f16, not an error",
           PH_OPTION_FLAG, &words.is_widened},
          {"--inject", 0, "LAYER",
           "for onnx: pooled features are added to what this layer of the language part reads, "
             "which is normalised (PoolInject: LayerNorm of h + alpha * mean(v))",
           PH_OPTION_INT(0, 1000000), &words.inject},
          {"--inject-alpha", 0, "A", PH_CLI_ALPHA_HELP, PH_OPTION_TEXT, &words.alpha},
          {"--own-operators", 0, NULL,
           "for onnx: multimodal operators stay our own (domain pinhole), for pinhole alone to read",
           PH_OPTION_FLAG, &words.is_ours},
          {"--bare", 0, NULL, "leave out the keys that only serve the way back", PH_OPTION_FLAG, &c.is_bare},
          {"--threads", 't', "N", "workers; default: as many as processors",
           PH_OPTION_INT(0, PH_CLI_THREADS_MAX), &threads},
          {"--json", 0, NULL, "print one JSON object and nothing else", PH_OPTION_FLAG, &is_json},
          {"--quiet", 'q', NULL, "no progress", PH_OPTION_FLAG, &is_quiet},
          {0},
    };
    c.shard_bytes = PH_CLI_SHARD_BYTES;
    ph_option  plugin[2];
    ph_options o = {.group = {own, plugin}, .n_groups = 2};
    ph_cli_plugin_option(&words.plugins, plugin);
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n != 1 || !c.out)
        return PH_FAIL(err, PH_EUSAGE, "one model to read and -o PATH to write are wanted");
    c.in = o.rest.at[0];
    c.threads = threads > 0 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    PH_TRY(read_words(&c, &types, to, dtype, err));
    PH_TRY(ph_cli_convert_names(&c, names, err));
    if (!strcmp(to, "onnx")) return to_onnx(&c, &words, threads > 0, is_json, err);
    if (words.part || words.external || words.opset || words.is_widened || words.is_ours ||
        words.inject >= 0 || words.alpha || words.plugins.path.n)
        return PH_FAIL(
            err, PH_EUSAGE,
            "--part, --opset, --external, --widen, --inject, --own-operators and --plugin go with --to onnx");
    PH_TRY(ph_cli_convert_shards(&c, err));
    PH_TRY(ph_convert_run(&c, &report, err));
    ph_cli_convert_report(&c, &report, is_json);
    return PH_OK;
}

const ph_command ph_command_convert = {
    .name = "convert",
    .summary = "a checkpoint in another format, without loss",
    .usage = "IN -o OUT --to gguf|safetensors|bundle|onnx",
    .about =
        "Between Hugging Face directories and GGUF files (the vision part goes into a file of its own), "
        "with the "
        "names\n"
        "and keys that other programs read. Types stay unless --dtype says otherwise, and what the "
        "other format has "
        "no\n"
        "place for rides along, so that converting back gives the same bytes. Models for whose parts "
        "other programs\n"
        "have no names go into one file under their Hugging Face names, which this program reads. A bundle "
        "is one file\n"
        "with all parts, the memory planned for them (with -t threads) and checksums: once it was changed it "
        "is refused.\n"
        "A part of a model becomes an ONNX file for other compilers and runtimes (docs/reference/onnx.md "
        "says with\n"
        "which inputs), and so does an ONNX file in another opset.\n\n"
        "  pinhole convert SmolVLM-256M/ -o smolvlm.gguf --to gguf\n"
        "  pinhole convert smolvlm.gguf --mmproj mmproj-smolvlm.gguf -o SmolVLM-again/ --to safetensors\n"
        "  pinhole convert smolvlm.gguf --mmproj mmproj-smolvlm.gguf -o smolvlm.bundle --to bundle\n"
        "  pinhole convert SmolVLM-256M/ -o vision.onnx --to onnx --part vision",
    .run = run,
};
