/* cmd_profile.c - what the parts of a model take on each engine that is here, and where they go by that. */
#include "cli/command.h"

#include "formats/container.h"
#include "formats/produce.h"
#include "measure/memory_peak.h"
#include "measure/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct job {
    ph_cli             cli;
    ph_profile_options how;
    const char        *size, *costs, *trace, *peaks;
    int                is_saved;
    char               saved[4096];
    ph_profile         result;
} job;

/* ---- options ---- */

static void say(void *arg, const char *line) {
    const job *j = arg;
    if (!j->cli.is_quiet) fprintf(stderr, "pinhole profile: %s\n", line);
}

static ph_rc settle(job *j, ph_err *err) {
    if (j->size)
        PH_TRY(ph_cli_read_image_size(j->size, 99999, &j->how.image_width, &j->how.image_height, err));
    if (j->cli.images.n > 1) return PH_FAIL(err, PH_EUSAGE, "one --image at most, not %zu", j->cli.images.n);
    if (j->costs && !j->is_saved)
        return PH_FAIL(err, PH_EUSAGE, "--costs names the file that --save-costs writes: add it");
    PH_TRY(ph_cli_open_images(&j->cli, err));
    j->cli.is_shown_only = 1; /* finds the built-in model, says what is wrong with a given one */
    PH_TRY(ph_cli_open_model(&j->cli, err));
    ph_model_close(j->cli.opened);
    j->cli.opened = NULL;
    PH_TRY(ph_cli_settle(&j->cli, err));
    j->cli.is_shown_only = 0;
    j->how.model = j->cli.path;
    j->how.open = ph_cli_model_how(&j->cli);
    j->how.session = &j->cli.session;
    j->how.picture = j->cli.images.n ? &j->cli.picture[0] : NULL;
    j->how.has_kinds = 1;
    j->how.has_spans = j->trace != NULL;
    j->how.say = say;
    j->how.arg = j;
    return PH_OK;
}

/* ---- JSON ---- */

static json_t *costs_json(const ph_costs *c) {
    json_t *a = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const ph_cost *x = &c->at[i];
        json_array_append_new(a,
                              json_pack("{ss ss ss sf sf sf}", "stage", ph_cost_stage_name(x->stage),
                                        "engine", x->engine, "release", x->release, "median_ms", x->us / 1e3,
                                        "least_ms", x->least / 1e3, "most_ms", x->most / 1e3));
    }
    return a;
}

static json_t *kinds_json(const ph_costs *c) {
    json_t *a = json_array();
    for (size_t i = 0; i < c->n_kinds; i++) {
        const ph_cost_kind *k = &c->kind[i];
        json_array_append_new(a,
                              json_pack("{ss ss ss sf sf}", "stage", ph_cost_stage_name(k->stage), "engine",
                                        k->engine, "kind", k->kind, "ms", k->us / 1e3, "runs", k->runs));
    }
    return a;
}

enum { N_PEAKS = PH_N_MEMORY_PEAKS + PH_N_MEMORY_BESIDE };

static void list_peaks(const ph_plan *p, ph_memory_peak out[N_PEAKS]) {
    ph_memory_peaks(p, out);
    ph_memory_beside(p, out + PH_N_MEMORY_PEAKS);
}

static json_t *peaks_json(const ph_plan *p) {
    ph_memory_peak peaks[N_PEAKS];
    json_t        *o = json_object();
    list_peaks(p, peaks);
    for (int i = 0; i < N_PEAKS; i++)
        json_object_set_new(o, peaks[i].kind,
                            json_pack("{sI ss}", "bytes", (json_int_t)peaks[i].bytes, "phase",
                                      ph_phase_name[peaks[i].phase]));
    return o;
}

static void print_json(const job *j) {
    const ph_profile  *p = &j->result;
    const ph_cost_key *k = &p->costs.key;
    json_t            *o =
        json_pack("{s{ss ss si} si ss si si si so so so so}", "device", "cpu", k->cpu, "isa", k->isa,
                  "processors", k->processors, "threads", k->threads, "fingerprint", k->model, "rounds",
                  p->costs.rounds, "prompt", p->prompt, "steps", p->steps, "costs", costs_json(&p->costs),
                  "kinds", kinds_json(&p->costs), "route", ph_cli_route_json(&p->route), "saved",
                  *j->saved ? ph_cli_text_json(j->saved, strlen(j->saved)) : json_null());
    json_object_set_new(o, "peaks", peaks_json(&p->plan));
    json_object_set_new(o, "model", ph_cli_text_json(j->how.model, strlen(j->how.model)));
    if (p->image_width)
        json_object_set_new(o, "picture",
                            json_pack("{si si sb}", "width", p->image_width, "height", p->image_height,
                                      "made", !j->how.picture));
    ph_cli_print_json(o);
}

/* ---- text ---- */

static void print_kinds(const ph_costs *c, const ph_cost *of) {
    double sum = 0;
    for (size_t i = 0; i < c->n_kinds; i++)
        if (c->kind[i].stage == of->stage && !strcmp(c->kind[i].engine, of->engine)) sum += c->kind[i].us;
    for (size_t i = 0; i < c->n_kinds; i++) {
        const ph_cost_kind *k = &c->kind[i];
        if (k->stage != of->stage || strcmp(k->engine, of->engine)) continue;
        printf("    %-24s %10.3f ms %5.1f %% in %.0f runs\n", k->kind, k->us / 1e3,
               sum > 0 ? 100 * k->us / sum : 0.0, k->runs);
    }
}

static void print_peaks(const ph_plan *p) {
    ph_memory_peak peaks[N_PEAKS];
    char           about[96];
    list_peaks(p, peaks);
    printf("\npeaks of memory, by the plan of that placement for %d tokens of context:\n", p->load.context);
    for (int i = 0; i < N_PEAKS; i++) {
        snprintf(about, sizeof about, "in %s: %s", ph_phase_name[peaks[i].phase], peaks[i].what);
        ph_cli_print_size(peaks[i].kind, peaks[i].bytes, about);
    }
}

static void print_text(const job *j) {
    const ph_profile *p = &j->result;
    const ph_costs   *c = &p->costs;
    printf("%s, kernels %s, %d thread%s; medians of %d round%s\n", c->key.cpu, c->key.isa, c->key.threads,
           c->key.threads == 1 ? "" : "s", c->rounds, c->rounds == 1 ? "" : "s");
    if (p->image_width)
        printf("a picture of %dx%d%s, ", p->image_width, p->image_height, j->how.picture ? "" : " (made)");
    printf("a prompt of %d tokens, then %d steps\n\n", p->prompt, p->steps);
    printf("%-8s %-12s %13s %13s %13s\n", "stage", "engine", "median", "least", "most");
    for (size_t i = 0; i < c->n; i++) {
        const ph_cost *x = &c->at[i];
        printf("%-8s %-12s %10.3f ms %10.3f ms %10.3f ms%s\n", ph_cost_stage_name(x->stage), x->engine,
               x->us / 1e3, x->least / 1e3, x->most / 1e3, x->stage == PH_COST_STEP ? " a token" : "");
        print_kinds(c, x);
    }
    printf("\n--engine auto places the parts by these times%s:\n",
           j->is_saved ? "" : ", once --save-costs keeps them");
    ph_cli_print_route(stdout, &p->route);
    print_peaks(&p->plan);
    if (*j->saved) printf("\nkept in %s\n", j->saved);
}

/* ---- the command ---- */

static ph_rc save(job *j, ph_err *err) {
    const ph_costs *c = &j->result.costs;
    if (!j->is_saved) return PH_OK;
    if (j->costs)
        snprintf(j->saved, sizeof j->saved, "%s", j->costs);
    else
        PH_TRY(ph_costs_place(j->saved, sizeof j->saved, &c->key, 1, err));
    return ph_costs_write(c, j->saved, err);
}

/* By whatever name: a redirection's, /dev/stdout, a link. */
static int is_standard_output(const char *path) {
    struct stat file, out;
    return !stat(path, &file) && !fstat(STDOUT_FILENO, &out) && file.st_dev == out.st_dev &&
           file.st_ino == out.st_ino;
}

/* Before it takes its time: what is read would be lost, and of two in one place one is, be it the report. */
static ph_rc check_places(const job *j, ph_err *err) {
    const char *const read[] = {j->cli.path, j->cli.mmproj, j->cli.template_path,
                                j->cli.images.n ? j->cli.images.at[0] : NULL};
    const char *const to[] = {j->costs, j->trace, j->peaks};
    for (size_t i = 0; i < 3; i++) {
        if (!to[i]) continue;
        PH_TRY(ph_container_may_write(to[i], read, 4, err));
        for (size_t k = 0; k < i; k++)
            if (to[k] && ph_container_is_same_place(to[i], to[k]))
                return PH_FAIL(err, PH_EUSAGE, "%.200s cannot hold both: write one somewhere else", to[i]);
        if (is_standard_output(to[i]))
            return PH_FAIL(err, PH_EUSAGE, "%.200s is where the report is printed: name another file", to[i]);
        PH_TRY(ph_part_may_open(to[i], err));
    }
    return j->peaks ? ph_memory_may_draw(j->peaks, err) : PH_OK;
}

static ph_rc work(job *j, ph_err *err) {
    PH_TRY(settle(j, err));
    PH_TRY(check_places(j, err));
    PH_TRY(ph_profile_run(&j->result, &j->how, err));
    PH_TRY(save(j, err));
    if (j->trace) PH_TRY(ph_profile_write_trace(j->result.span, j->result.n_spans, j->trace, err));
    if (j->peaks) PH_TRY(ph_memory_draw(&j->result.plan, j->peaks, err));
    if (j->cli.is_json)
        print_json(j);
    else
        print_text(j);
    return PH_OK;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX], session[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--image", 'i', "FILE", "look at this picture; default: one that is made", PH_OPTION_TEXTS,
         &j.cli.images},
        {"--image-size", 0, "WxH", "of the picture that is made; default 1024x768", PH_OPTION_TEXT, &j.size},
        {"--rounds", 0, "N", "measure so often (5); medians are given", PH_OPTION_INT(1, 101), &j.how.rounds},
        {"--save-costs", 0, NULL, "keep the times for --engine auto", PH_OPTION_FLAG, &j.is_saved},
        {"--costs", 0, "FILE", "in this file; default: one for this device and model in the user's cache",
         PH_OPTION_TEXT, &j.costs},
        {"--trace", 0, "FILE", "write the timeline of a question, as a Chrome trace", PH_OPTION_TEXT,
         &j.trace},
        {"--peaks", 0, "FILE", "draw memory by kind and phase: a .svg, or a .dot for Graphviz",
         PH_OPTION_TEXT, &j.peaks},
        {0},
    };
    int is_over;
    ph_cli_init(&j.cli);
    j.how.rounds = 5;
    ph_cli_model_options(&j.cli, model);
    ph_cli_session_options(&j.cli, session);
    ph_cli_leave_out(session, "--engine"); /* all of them */
    ph_cli_leave_out(session, "--engine-strict");
    ph_cli_leave_out(session, "--costs");
    j.cli.engine = PH_ENGINE_AUTO; /* whose budgets count for the placement that is shown */
    ph_options o = {.group = {own, model, session}, .n_groups = 3};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n > 1 || (o.rest.n && j.cli.model))
        return PH_FAIL(err, PH_EUSAGE, "one model is measured at a time");
    if (o.rest.n) j.cli.model = o.rest.at[0];
    ph_rc rc = work(&j, err);
    ph_profile_close(&j.result);
    ph_cli_close(&j.cli);
    return rc;
}

const ph_command ph_command_profile = {
    .name = "profile",
    .summary = "what the parts take on each engine, and where they run best",
    .usage = "[MODEL] [--image FILE] [--save-costs [--costs FILE]] [--trace FILE] [--peaks FILE]",
    .about = "Runs the parts of a model (vision, bridge, language) on every engine that is here and can take "
             "them, "
             "in turns, and\n"
             "prints what each took, whole and by kind of step or operator. With --save-costs the times are "
             "kept for "
             "this device,\n"
             "model, number of threads and release: `--engine auto` then gives each part to the engine that "
             "is fastest "
             "in all.\n\n"
             "  pinhole profile SmolVLM-256M/ --save-costs\n"
             "  pinhole run -m SmolVLM-256M/ --engine auto --image a.jpg -p \"what is it?\"\n"
             "  pinhole profile --trace question.json",
    .run = run,
};
