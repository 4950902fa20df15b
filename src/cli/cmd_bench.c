/* cmd_bench.c - a model's speed here, beside what this machine can do. */
#include "cli/command.h"

#include "base/file.h"
#include "measure/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    ph_cli           cli;
    ph_bench_options how;
    const char      *threads, *size, *compare;
    double           worse;
    uint64_t         read_bytes;
    int              no_cold, no_limits, is_border;
    ph_bench_border  border;
    ph_bench         result;
    ph_bench_ratio   ratio[PH_BENCH_ROWS_MAX];
    size_t           n_ratios;
} job;

/* ---- options ---- */

/* "1,2,4" */
static ph_rc read_threads(job *j, ph_err *err) {
    const char *at = j->threads;
    if (!at) {
        j->how.threads[j->how.n_threads++] = ph_cpu_count();
        return PH_OK;
    }
    for (;;) {
        char *end;
        long  n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > 256 || (*end && *end != ','))
            return PH_FAIL(err, PH_EUSAGE, "-t takes thread counts of 1 to 256 such as 1,2; not '%s'",
                           j->threads);
        if (j->how.n_threads == PH_BENCH_THREADS_MAX)
            return PH_FAIL(err, PH_EUSAGE, "-t %s: at most %d thread counts at once", j->threads,
                           PH_BENCH_THREADS_MAX);
        for (size_t i = 0; i < j->how.n_threads; i++)
            if (j->how.threads[i] == n)
                return PH_FAIL(err, PH_EUSAGE, "-t %s: %ld stands there twice", j->threads, n);
        j->how.threads[j->how.n_threads++] = (int)n;
        if (!*end) return PH_OK;
        at = end + 1;
    }
}

static void say(void *arg, const char *line) {
    const job *j = arg;
    if (!j->cli.is_quiet) fprintf(stderr, "pinhole bench: %s\n", line);
}

static ph_rc settle(job *j, ph_err *err) {
    PH_TRY(read_threads(j, err));
    if (j->size)
        PH_TRY(ph_cli_read_image_size(j->size, 99999, &j->how.image_width, &j->how.image_height, err));
    if (j->cli.images.n > 1) return PH_FAIL(err, PH_EUSAGE, "one --image at most, not %zu", j->cli.images.n);
    if (!(j->worse > 0 && j->worse <= 1))
        return PH_FAIL(err, PH_EUSAGE, "--worse takes a number above 0 and up to 1, not %g", j->worse);
    PH_TRY(ph_cli_open_images(&j->cli, err));
    /* Finds the built-in model and says what is wrong with a given one, before anything takes its time. */
    j->cli.is_shown_only = 1;
    PH_TRY(ph_cli_open_model(&j->cli, err));
    ph_model_close(j->cli.opened);
    j->cli.opened = NULL;
    PH_TRY(ph_cli_settle(&j->cli, err));
    j->how.model = j->cli.path;
    j->cli.is_shown_only = 0;
    j->how.open = ph_cli_model_how(&j->cli);
    j->how.open.reads_ahead = 0; /* a cold load is measured by who uses the weights */
    j->how.session = &j->cli.session;
    j->how.picture = j->cli.images.n ? &j->cli.picture[0] : NULL;
    j->how.is_cold = !j->no_cold;
    j->how.has_limits = !j->no_limits;
    j->how.read_bytes = j->read_bytes;
    j->how.say = say;
    j->how.arg = j;
    return PH_OK;
}

/* ---- JSON ---- */

static json_t *figure(double x) {
    return x >= 0 ? json_real(x) : json_null();
}

static json_t *machine_json(const ph_machine *m) {
    return json_pack("{ss ss si so so so so so ss ss sI sI}", "cpu", m->cpu, "isa", m->isa, "threads",
                     m->threads, "read_gbs", figure(m->read_gbs), "f32_gflops", figure(m->f32_gflops),
                     "int8_gops", figure(m->int8_gops), "f32_kernel_gflops", figure(m->f32_kernel_gflops),
                     "int8_kernel_gops", figure(m->int8_kernel_gops), "f32_by", m->f32_by, "int8_by",
                     m->int8_by, "read_bytes", (json_int_t)m->read_bytes, "cache_bytes",
                     (json_int_t)m->cache);
}

/* Without limits the machine is still named; its figures are null. */
static json_t *machines_json(const job *j, json_t **most) {
    json_t *all = json_array();
    *most = NULL;
    int threads = 0;
    for (size_t i = 0; i < j->result.n_threads; i++) {
        ph_machine m = j->result.machine[i];
        if (j->no_limits) {
            m = (ph_machine){.isa = j->result.isa,
                             .threads = j->how.threads[i],
                             .read_gbs = -1,
                             .f32_gflops = -1,
                             .int8_gops = -1,
                             .f32_kernel_gflops = -1,
                             .int8_kernel_gops = -1,
                             .f32_by = "",
                             .int8_by = "",
                             .cache = ph_machine_cache()};
            ph_cpu_name(m.cpu, sizeof m.cpu);
        }
        json_t *one = machine_json(&m);
        if (m.threads > threads) {
            threads = m.threads;
            json_decref(*most);
            *most = json_incref(one);
        }
        json_array_append_new(all, one);
    }
    return all;
}

static json_t *row_json(const ph_bench_row *r) {
    const ph_work *w = &r->work;
    json_t *o = json_pack("{ss si si sf ss so sf sf sf}", "stage", r->stage, "threads", r->threads, "n", r->n,
                          "median", r->median, "unit", r->unit, "limit_share", figure(r->limit_share),
                          "least", r->least, "most", r->most, "spread", r->spread);
    if (r->limit_share >= 0) json_object_set_new(o, "limit", json_string(r->limit));
    json_t *parts = json_array();
    for (size_t i = 0; i < r->n_parts; i++)
        json_array_append_new(parts, json_pack("{ss sf sf}", "kind", r->part[i].kind, "ms", r->part[i].ms,
                                               "runs", r->part[i].runs));
    if (r->n_parts) json_object_set(o, "steps", parts);
    json_decref(parts);
    if (r->bytes_per_token > 0) json_object_set_new(o, "bytes_per_token", json_real(r->bytes_per_token));
    if (w->f32_macs > 0 || w->int8_macs > 0)
        json_object_set_new(o, "work",
                            json_pack("{sf sf sf sf}", "f32_flop", 2 * w->f32_macs, "int8_op",
                                      2 * w->int8_macs, "weight_bytes", w->weight_bytes, "kv_bytes",
                                      w->kv_bytes));
    return o;
}

static json_t *compare_json(const job *j) {
    json_t *list = json_array();
    for (size_t i = 0; i < j->n_ratios; i++) {
        const ph_bench_ratio *r = &j->ratio[i];
        json_array_append_new(list, json_pack("{ss si si sf sf sf sb}", "stage", r->now->stage, "threads",
                                              r->now->threads, "n", r->now->n, "before", r->before, "now",
                                              r->now->median, "ratio", r->ratio, "worse", r->is_worse));
    }
    return list;
}

static void print_json(const job *j) {
    const ph_bench *b = &j->result;
    json_t         *machine, *limits = machines_json(j, &machine), *rows = json_array();
    for (size_t i = 0; i < b->n_rows; i++) json_array_append_new(rows, row_json(&b->row[i]));
    json_t *o = json_pack("{so so so si si si si so}", "machine", machine, "limits", limits, "rows", rows,
                          "rounds", b->rounds, "prompt", b->prompt, "answer", b->answer, "depth", b->depth,
                          "cold_left", figure(b->cold_left));
    json_object_set_new(o, "model", ph_cli_text_json(j->how.model, strlen(j->how.model)));
    if (b->image_width)
        json_object_set_new(o, "picture",
                            json_pack("{si si si si si sb}", "width", b->image_width, "height",
                                      b->image_height, "tiles", b->n_tiles, "patches", b->n_patches, "tokens",
                                      b->image_tokens, "made", !j->how.picture));
    if (j->compare) json_object_set_new(o, "compare", compare_json(j));
    ph_cli_print_json(o);
}

/* ---- text ---- */

static void print_machine(const job *j) {
    const ph_bench *b = &j->result;
    if (j->no_limits) return;
    printf("%s, kernels %s\n", b->machine[0].cpu, b->machine[0].isa);
    for (size_t i = 0; i < b->n_threads; i++) {
        const ph_machine *m = &b->machine[i];
        printf("  %d thread%s: read %.1f GB/s, f32 %.0f GFLOP/s", m->threads, m->threads == 1 ? "" : "s",
               m->read_gbs, m->f32_gflops);
        if (m->int8_gops > 0) printf(", int8 %.0f Gop/s", m->int8_gops);
        printf(" (our kernels in the cache: %.0f", m->f32_kernel_gflops);
        if (m->int8_gops > 0) printf(" and %.0f", m->int8_kernel_gops);
        puts(")");
    }
    printf("  f32 by %s", b->machine[0].f32_by);
    if (b->machine[0].int8_by[0]) printf("; int8 by %s", b->machine[0].int8_by);
    printf("; read through %.0f MB\n\n", (double)b->machine[0].read_bytes / 1e6);
}

static void print_row(const ph_bench_row *r, double cache) {
    printf("%-10s %7d %6d %12.2f %-6s %7.1f %%", r->stage, r->threads, r->n, r->median, r->unit,
           100 * r->spread);
    if (r->limit_share >= 0)
        printf(" %6.1f %% of %-*s", 100 * r->limit_share, r->bytes_per_token > 0 ? 8 : 0, r->limit);
    if (r->bytes_per_token > 0) printf(" %.1f MB a token", r->bytes_per_token / 1e6);
    if (r->bytes_per_token > 0 && r->bytes_per_token < cache) printf(", which the cache can hold");
    putchar('\n');
    for (size_t i = 0; i < r->n_parts; i++)
        printf("  %-12s %10.2f ms in %.0f steps\n", r->part[i].kind, r->part[i].ms, r->part[i].runs);
}

static void print_text(const job *j) {
    const ph_bench *b = &j->result;
    double          cache = (double)ph_machine_cache();
    print_machine(j);
    if (b->image_width)
        printf("picture %dx%d%s: %d %s, %d tokens\n", b->image_width, b->image_height,
               j->how.picture ? "" : " (made)", b->n_patches ? b->n_patches : b->n_tiles,
               b->n_patches ? "patches" : "tiles", b->image_tokens);
    if (b->cold_left > 0.01)
        printf("load_cold was not quite cold: %.0f %% of the files stayed in memory\n", 100 * b->cold_left);
    printf("%-10s %7s %6s %12s %-6s %9s %s\n", "stage", "threads", "n", "median", "unit", "spread",
           "share of the limit");
    for (size_t i = 0; i < b->n_rows; i++) print_row(&b->row[i], cache);
    if (!j->compare) return;
    printf("\nagainst %s (above 1: faster now)\n", j->compare);
    for (size_t i = 0; i < j->n_ratios; i++) {
        const ph_bench_ratio *r = &j->ratio[i];
        printf("%-10s %7d %6d %12.2f -> %.2f %-6s %6.2f%s\n", r->now->stage, r->now->threads, r->now->n,
               r->before, r->now->median, r->now->unit, r->ratio, r->is_worse ? "  SLOWER" : "");
    }
}

/* ---- the border ---- */

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static void print_border_json(const job *j) {
    json_t *rows = json_array();
    for (size_t i = 0; i < j->border.n; i++) {
        const ph_border_row *r = &j->border.row[i];
        json_array_append_new(rows, json_pack("{ss sI sf sf sf sI sI sf sI}", "what", r->what, "bytes",
                                              (json_int_t)r->bytes, "shared_ms", r->shared_ms, "copied_ms",
                                              r->copied_ms, "time", ratio(r->shared_ms, r->copied_ms),
                                              "shared_held", (json_int_t)r->shared_held, "copied_held",
                                              (json_int_t)r->copied_held, "held",
                                              ratio((double)r->shared_held, (double)r->copied_held),
                                              "copied_when_shared", (json_int_t)r->copied_when_shared));
    }
    ph_cli_print_json(
        json_pack("{so si si}", "border", rows, "threads", j->how.threads[0], "rounds", j->how.rounds));
}

static void print_border(const job *j) {
    printf("%-7s %12s %12s %12s %7s %12s %12s %7s\n", "border", "crossing", "shared", "copied", "ratio",
           "held", "held", "ratio");
    for (size_t i = 0; i < j->border.n; i++) {
        const ph_border_row *r = &j->border.row[i];
        printf("%-7s %9.2f MB %9.2f ms %9.2f ms %7.3f %9.2f MB %9.2f MB %7.3f\n", r->what,
               (double)r->bytes / 1e6, r->shared_ms, r->copied_ms, ratio(r->shared_ms, r->copied_ms),
               (double)r->shared_held / 1e6, (double)r->copied_held / 1e6,
               ratio((double)r->shared_held, (double)r->copied_held));
        if (r->copied_when_shared)
            printf("        %zu bytes of it are copied all the same: tokens in another order\n",
                   r->copied_when_shared);
    }
}

/* ---- the command ---- */

static ph_rc compare(job *j, const ph_file *old, ph_err *err) {
    const char *slash = strrchr(j->compare, '/');
    return ph_bench_compare(&j->result, old->bytes, old->n, slash ? slash + 1 : j->compare, j->worse,
                            j->ratio, &j->n_ratios, err);
}

static ph_rc verdict(const job *j, ph_err *err) {
    size_t worse = 0;
    for (size_t i = 0; i < j->n_ratios; i++) worse += (size_t)j->ratio[i].is_worse;
    if (!worse) return PH_OK;
    return PH_FAIL(err, PH_EVERDICT, "%zu of %zu rows are slower than %g times what they were", worse,
                   j->n_ratios, j->worse);
}

static ph_rc work(job *j, const ph_file *old, ph_err *err) {
    PH_TRY(settle(j, err));
    if (j->is_border) {
        PH_TRY(ph_bench_border_run(&j->border, &j->how, err));
        j->cli.is_json ? print_border_json(j) : print_border(j);
        return PH_OK;
    }
    if (j->compare) { /* with no rows yet: a file that is none is said before all rounds are run */
        ph_err why = {0};
        ph_rc  rc = compare(j, old, &why);
        if (rc && rc != PH_EMISMATCH) {
            *err = why;
            return rc;
        }
        j->n_ratios = 0;
    }
    PH_TRY(ph_bench_run(&j->result, &j->how, err));
    if (j->compare) PH_TRY(compare(j, old, err));
    if (j->cli.is_json)
        print_json(j);
    else
        print_text(j);
    return verdict(j, err);
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX], session[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--threads", 't', "LIST", "thread counts, which take turns: 1,2; default: as many as processors",
         PH_OPTION_TEXT, &j.threads},
        {"--prompt", 'p', "N", "tokens of prefill; default 512, or what the model's context holds",
         PH_OPTION_INT(1, PH_CLI_TOKENS_MAX), &j.how.prompt},
        {"--tokens", 'n', "N", "tokens of step; default 64", PH_OPTION_INT(1, PH_CLI_TOKENS_MAX),
         &j.how.answer},
        {"--depth", 0, "N", "tokens in the cache before the first step; default 1",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &j.how.depth},
        {"--rounds", 0, "N", "measure so often (5); medians are given", PH_OPTION_INT(1, PH_BENCH_ROUNDS_MAX),
         &j.how.rounds},
        {"--image", 'i', "FILE", "look at this picture; default: one that is made", PH_OPTION_TEXTS,
         &j.cli.images},
        {"--image-size", 0, "WxH", "of the picture that is made; default 1024x768", PH_OPTION_TEXT, &j.size},
        {"--compare", 0, "FILE", "print ratios to what --json printed before; exit 1 if a row is slower",
         PH_OPTION_TEXT, &j.compare},
        {"--worse", 0, "X", "slower means below X (0.9) times the speed before", PH_OPTION_REAL, &j.worse},
        {"--no-cold", 0, NULL, "do not drop the model's files from memory to load them cold", PH_OPTION_FLAG,
         &j.no_cold},
        {"--no-limits", 0, NULL, "do not measure the machine; no shares are given", PH_OPTION_FLAG,
         &j.no_limits},
        {"--steps", 0, NULL, "also say how long each kind of the engine's steps took, in rounds of their own",
         PH_OPTION_FLAG, &j.how.has_steps},
        {"--border", 0, NULL,
         "instead: what copying between the vision and the language part would cost, in time and memory",
         PH_OPTION_FLAG, &j.is_border},
        {"--read-size", 0, "SIZE", "stream through so much memory; default: four times the largest cache",
         PH_OPTION_SIZE, &j.read_bytes},
        {0},
    };
    ph_file old = {0};
    int     is_over;
    ph_cli_init(&j.cli);
    j.how.prompt = j.how.answer = -1;
    j.how.rounds = 5;
    j.worse = 0.9;
    ph_cli_model_options(&j.cli, model);
    ph_cli_session_options(&j.cli, session);
    ph_cli_leave_out(session, "--threads"); /* a list here */
    ph_cli_leave_out(session, "--context"); /* follows from the counts */
    ph_options o = {.group = {own, model, session}, .n_groups = 3};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n) return PH_FAIL(err, PH_EUSAGE, "'%s' stands alone: give the model with -m", o.rest.at[0]);
    if (j.is_border && (j.compare || j.how.has_steps))
        return PH_FAIL(err, PH_EUSAGE,
                       "--border measures something else than --compare and --steps: leave one out");
    if (j.compare) PH_TRY(ph_file_open(&old, j.compare, err));
    ph_rc rc = work(&j, &old, err);
    ph_file_close(&old);
    ph_cli_close(&j.cli);
    return rc;
}

const ph_command ph_command_bench = {
    .name = "bench",
    .summary = "how fast a model runs here, beside this machine's own limits",
    .usage = "[-m MODEL] [-t 1,2] [-p 512] [-n 64] [--json] [--compare OLD.json]",
    .about =
        "Measures what this machine can do (bytes read a second, f32 and int8 operations a second), then "
        "loading, seeing,\n"
        "prefill and step, as every other command does them: medians, spread, and the share of the limit "
        "that each reaches.\n"
        "docs/performance.md says how the figures are taken and read.\n\n"
        "  pinhole bench -t 1,2 --json > before.json\n"
        "  pinhole bench -t 1,2 --compare before.json",
    .run = run,
};
