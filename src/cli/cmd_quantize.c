/* cmd_quantize.c - weights into block types or int8, by one type or by a recipe. */
#include "cli/cmd_convert.h"
#include "cli/command.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RECIPE_BYTES_MAX = 1 << 20 };

typedef struct job {
    ph_convert      c;
    ph_recipe_types types;
    ph_arena        arena;
    const char     *to, *recipe, *names;
    int             is_json, is_quiet, threads;
} job;

static ph_rc read_recipe(job *j, ph_err *err) {
    ph_file     f = {0};
    const char *slash = strrchr(j->recipe, '/');
    PH_TRY(ph_file_open_text(&f, j->recipe, RECIPE_BYTES_MAX, err));
    ph_rc rc = ph_recipe_types_read(&j->types, f.bytes, f.n, slash ? slash + 1 : j->recipe, &j->arena, err);
    ph_file_close(&f);
    return rc;
}

/* A wrong name in an option is wrong usage, not a bad input. */
static ph_rc read_type(job *j, ph_err *err) {
    ph_err why = {0};
    if (!j->to || !strcmp(j->to, "keep")) return PH_OK;
    j->types.has_type = 1;
    return ph_recipe_type(j->to, &j->types.type, &why) ? PH_FAIL(err, PH_EUSAGE, "--to: %s", why.msg) : PH_OK;
}

/* A directory holds int8 and no blocks, so it is meant only where the recipe has int8. */
static int is_file(const job *j) {
    return !ph_recipe_has_int8(&j->types) || ph_name_ends_with(j->c.out, ".gguf");
}

static void say_unmet(const job *j) {
    const ph_recipe_types *t = &j->types;
    char                   shown[PH_CLI_SHOWN];
    for (size_t i = 0; (i = ph_recipe_unmet(t, i)) < t->n; i++)
        fprintf(stderr, "pinhole: no tensor matches the rule '%s' of the recipe\n",
                ph_cli_shown(shown, t->rule[i].pattern));
}

static ph_rc work(job *j, ph_err *err) {
    ph_convert_report report;
    PH_TRY(ph_arena_open_growing(&j->arena, 16 << 10, err));
    if (j->recipe) PH_TRY(read_recipe(j, err));
    PH_TRY(read_type(j, err));
    j->c.to_gguf = j->c.is_bundle || is_file(j);
    PH_TRY(ph_cli_convert_shards(&j->c, err));
    PH_TRY(ph_convert_run(&j->c, &report, err));
    say_unmet(j);
    ph_cli_convert_report(&j->c, &report, j->is_json);
    return PH_OK;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    job             j = {.types = {.is_quantize = 1}};
    const ph_option own[] = {
        {"--out", 'o', "PATH", "the .gguf to write; with int8 also a directory", PH_OPTION_TEXT, &j.c.out},
        {"--to", 0, "TYPE",
         "of matrices that no rule names: q8_0, q4_k, mxfp4, int8, f16 ..., keep; inspect --known lists "
         "those that are written",
         PH_OPTION_TEXT, &j.to},
        {"--recipe", 0, "FILE", "rules, one a line: pattern = type; or a JSON object", PH_OPTION_TEXT,
         &j.recipe},
        {"--mmproj-out", 0, "FILE", "of a directory: where the vision part goes", PH_OPTION_TEXT,
         &j.c.mmproj_out},
        {"--mmproj", 0, "FILE", "with --bundle: the vision part of a .gguf model", PH_OPTION_TEXT,
         &j.c.mmproj},
        {"--bundle", 0, NULL, "write a bundle: one sealed file with all parts", PH_OPTION_FLAG,
         &j.c.is_bundle},
        {"--names", 0, "WHOSE", PH_CLI_NAMES_HELP, PH_OPTION_TEXT, &j.names},
        {"--shard-size", 0, "SIZE", "of a directory to write: largest file (5GB); 0: one, however large",
         PH_OPTION_SIZE, &j.c.shard_bytes},
        {"--bare", 0, NULL, "of a directory, into a .gguf: leave out the keys that only serve the way back",
         PH_OPTION_FLAG, &j.c.is_bare},
        {"--threads", 't', "N", "workers; default: as many as processors",
         PH_OPTION_INT(0, PH_CLI_THREADS_MAX), &j.threads},
        {"--json", 0, NULL, "print one JSON object and nothing else", PH_OPTION_FLAG, &j.is_json},
        {"--quiet", 'q', NULL, "no progress", PH_OPTION_FLAG, &j.is_quiet},
        {0},
    };
    int is_over;
    j.c.shard_bytes = PH_CLI_SHARD_BYTES;
    ph_options o = {.group = {own}, .n_groups = 1};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n != 1 || !j.c.out)
        return PH_FAIL(err, PH_EUSAGE, "one model to read and -o PATH to write are wanted");
    if (j.c.mmproj && !j.c.is_bundle)
        return PH_FAIL(err, PH_EUSAGE, "--mmproj goes with --bundle: else a file is quantised by itself");
    if (!j.to && !j.recipe) return PH_FAIL(err, PH_EUSAGE, "--to TYPE, --recipe FILE or both are wanted");
    j.c.in = o.rest.at[0];
    j.c.types = &j.types;
    j.c.recipe = j.recipe;
    PH_TRY(ph_cli_convert_names(&j.c, j.names, err));
    j.c.say = ph_cli_convert_progress;
    j.c.say_arg = &j.is_quiet;
    j.c.threads = j.threads > 0 ? j.threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    ph_rc rc = work(&j, err);
    ph_arena_close(&j.arena);
    return rc;
}

const ph_command ph_command_quantize = {
    .name = "quantize",
    .summary = "weights into block types or int8, by one type or a recipe",
    .usage = "IN -o OUT.gguf|DIR --to TYPE [--recipe FILE] [--bundle]",
    .about =
        "Reads a GGUF file, a Hugging Face directory or a bundle and writes GGUF: of a bundle the files that "
        "it is made\n"
        "of, or with --bundle a bundle. Norms and biases stay f32, convolutions and position tables are left "
        "as they\n"
        "are, the output matrix gets at least q6_k. Rows that are no whole blocks of the type get a finer "
        "one. A recipe's\n"
        "first rule whose pattern (* and ?) matches a tensor's name decides.\n\n"
        "int8 is bytes with a scale a row, of what Linears multiply by: under Hugging Face's names, into a "
        "directory\n"
        "(compressed-tensors) or a .gguf that carries one. Tables and the head stay as they are.\n\n"
        "  pinhole quantize smollm2.gguf -o smollm2.q4_k.gguf --to q4_k\n"
        "  echo 'blk.0.* = q8_0' > recipe && pinhole quantize SmolLM2/ -o small.gguf --to q4_k --recipe "
        "recipe\n"
        "  echo 'model.vision_model.* = int8' > recipe && pinhole quantize SmolVLM/ -o small.gguf --to q4_0 "
        "--recipe recipe",
    .run = run,
};
