/* cli_model.c - the options that open a model and a session, and what they open. */
#include "cli/command.h"

#include "base/file.h"
#include "base/mem.h"
#include "graph/kv_page.h"
#include "graph/modal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(void *arg, ph_log_level level, const char *line) {
    const ph_cli *c = arg;
    if (c->is_quiet && level > PH_LOG_ERROR) return;
    fprintf(stderr, "pinhole: %s\n", line);
}

void ph_cli_init(ph_cli *c) {
    memset(c, 0, sizeof *c);
    c->log = (ph_log){.write = say, .arg = c, .most = PH_LOG_WARN};
    c->sampling.repeat_penalty = 1;
    c->sampling.top_p = 1;
    c->inject = -1;
    c->inject_alpha = PH_INJECT_ALPHA;
}

void ph_cli_leave_out(ph_option *rows, const char *name) {
    ph_option *to = rows;
    for (; rows->name; rows++)
        if (strcmp(rows->name, name)) *to++ = *rows;
    *to = *rows;
}

void ph_cli_copy_rows(ph_option *to, const ph_option *from, size_t n) {
    memcpy(to, from, n * sizeof *from);
    memset(&to[n], 0, sizeof *to);
}

void ph_cli_model_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]) {
    const ph_option r[] = {
        {"--model", 'm', "PATH",
         "a Hugging Face directory, a .gguf file or a bundle; without it the built-in model", PH_OPTION_TEXT,
         &c->model},
        {"--mmproj", 0, "FILE", "the vision part of a .gguf model", PH_OPTION_TEXT, &c->mmproj},
        {"--chat-template", 0, "FILE", "use this Jinja template instead of the model's own", PH_OPTION_TEXT,
         &c->template_path},
        {"--mlock", 0, NULL, "read all weights and lock them in memory; fails where the limit forbids it",
         PH_OPTION_FLAG, &c->is_locked},
        {"--no-mmap", 0, NULL, "read all weights into memory of the process instead of mapping their files",
         PH_OPTION_FLAG, &c->is_read_whole},
        {"--no-read-ahead", 0, NULL, "mapped weights are read when they are used, not by a thread before",
         PH_OPTION_FLAG, &c->reads_no_ahead},
        {"--trust", 0, NULL, "of a bundle only size and keys are held against its checksums, not the weights",
         PH_OPTION_FLAG, &c->is_trusted},
        {"--json", 0, NULL, "print one JSON object and nothing else", PH_OPTION_FLAG, &c->is_json},
        {"--quiet", 'q', NULL, "neither warnings nor progress", PH_OPTION_FLAG, &c->is_quiet},
    };
    ph_cli_copy_rows(rows, r, sizeof r / sizeof *r);
}

void ph_cli_session_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]) {
    ph_session_options *s = &c->session;
    const ph_option     r[] = {
            {"--threads", 't', "N", "workers; default: as many as processors",
             PH_OPTION_INT(0, PH_CLI_THREADS_MAX), &s->threads},
            {"--context", 'c', "N",
             "tokens of prompt and answer; default: the smaller of the model's own and 4096",
             PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &s->context},
            {"--chunk", 0, "N", "prompt tokens a run, at most (512): bounds scratch, never changes answers",
             PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &s->chunk},
            {"--tiles", 0, "N", "picture tiles a run, at most (4): bounds scratch, never changes answers",
             PH_OPTION_INT(0, PH_CLI_TILES_MAX), &s->tiles},
            {"--patches", 0, "N",
             "packed patches a run: whole pictures up to so many, or one picture (those of the planned one)",
             PH_OPTION_INT(0, PH_CLI_PATCHES_MAX), &s->patches},
            {"--image-min-tokens", 0, "N", "a picture takes at least N tokens; refused where the model cannot",
             PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &s->image_min_tokens},
            {"--image-max-tokens", 0, "N", "a picture takes at most N tokens; refused where the model cannot",
             PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &s->image_max_tokens},
            {"--kv", 0, "TYPE", "the KV cache's type: f32 (default), f16, bf16, q8_0 or q4_1", PH_OPTION_TEXT,
             &c->kv},
            {"--exact", 0, NULL,
             "block-typed weights meet floats instead of rows of 16 bits: slower, nearest the reference",
             PH_OPTION_FLAG, &s->is_exact},
            {"--rows8", 0, NULL,
             "block-typed weights meet rows of 8 bits, and pictures attend in bfloat16 where that is faster; "
                 "coarser; not "
                 "with --exact",
             PH_OPTION_FLAG, &s->is_rows8},
            {"--unfuse", 0, "LIST",
             "joins of steps that are not done: all, or some of norm, group, act, gate, ...; same answers, "
                 "slower",
             PH_OPTION_TEXT, &c->unfuse},
            {"--engine", 0, "E",
             "for all parts, or vision=E,bridge=E,embed=E,language=E; auto chooses; where one is not here, "
                 "native runs",
             PH_OPTION_TEXT, &c->engine},
            {"--engine-strict", 0, NULL, "an engine that is not here is an error", PH_OPTION_FLAG,
             &s->is_engine_strict},
            {"--latency-budget", 0, "MS",
             "with --engine auto: until the first token (380), shared among the parts by their work",
             PH_OPTION_REAL, &s->latency_ms},
            {"--memory-budget", 0, "SIZE", "with --engine auto: the plan holds no more than this", PH_OPTION_SIZE,
             &s->memory_max},
            {"--costs", 0, "FILE",
             "with --engine auto: times that profile --save-costs measured; default: where it keeps them",
             PH_OPTION_TEXT, &s->costs},
            {"--alpha", 0, "HOW", "transparency: white (blended over white, default) or drop (as trainers do)",
             PH_OPTION_TEXT, &c->alpha},
            {"--max-pixels", 0, "N", "refuse pictures with more pixels (100 million)",
             PH_OPTION_U64(0, INT32_MAX), &c->max_pixels},
    };
    ph_cli_copy_rows(rows, r, sizeof r / sizeof *r);
}

void ph_cli_sampling_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]) {
    ph_sampling    *s = &c->sampling;
    const ph_option r[] = {
        {"--temp", 0, "X", "temperature; 0 (default) is greedy", PH_OPTION_REAL, &s->temperature},
        {"--top-k", 0, "N", "keep the N likeliest tokens; 0 (default): all",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &s->top_k},
        {"--top-p", 0, "P", "keep the likeliest tokens up to probability P; 1 (default): all", PH_OPTION_REAL,
         &s->top_p},
        {"--min-p", 0, "P", "drop tokens below P times the likeliest one's probability", PH_OPTION_REAL,
         &s->min_p},
        {"--repeat-penalty", 0, "X", "make what was said less likely; 1 (default): off", PH_OPTION_REAL,
         &s->repeat_penalty},
        {"--repeat-last", 0, "N", "tokens that the penalty looks back on; 0 (default): all",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &s->repeat_last},
        {"--seed", 0, "N", "of the random numbers; the same seed gives the same answer",
         PH_OPTION_U64(0, UINT64_MAX), &s->seed},
    };
    ph_cli_copy_rows(rows, r, sizeof r / sizeof *r);
}

void ph_cli_inject_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]) {
    const ph_option r[] = {
        {"--inject", 0, "LAYER",
         "the pooled features of a question's pictures are added to what this layer of the decoder reads, "
         "which is normalised (LayerNorm of h + alpha * mean(v))",
         PH_OPTION_INT(0, 1000000), &c->inject},
        {"--inject-alpha", 0, "A", PH_CLI_ALPHA_HELP, PH_OPTION_TEXT, &c->inject_share},
    };
    ph_cli_copy_rows(rows, r, sizeof r / sizeof *r);
}

ph_rc ph_cli_inject_alpha(const char *text, int layer, double *out, ph_err *err) {
    *out = PH_INJECT_ALPHA;
    if (!text) return PH_OK;
    if (layer < 0) return PH_FAIL(err, PH_EUSAGE, "--inject-alpha goes with --inject LAYER");
    if (ph_real_parse(text, out) && fabs(*out) <= PH_INJECT_MOST) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE, "--inject-alpha takes a number from %g to %g, not '%s'", -PH_INJECT_MOST,
                   PH_INJECT_MOST, text);
}

/* Where the built-in model is: PINHOLE_MODEL, beside a build folder, or where `make install` puts it. */
static ph_rc built_in(ph_cli *c, ph_err *err) {
    static const char *const places[] = {"../models/panel-vlm", "../share/pinhole/models/panel-vlm",
                                         "models/panel-vlm"};
    const char              *given = getenv("PINHOLE_MODEL");
    char                     exe[3072];
    if (given && *given) {
        snprintf(c->path, sizeof c->path, "%s", given);
        return PH_OK;
    }
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(c->path, sizeof c->path, "%s/%s", exe, places[i]);
        c->is_built_in = ph_path_is_dir(c->path);
        if (c->is_built_in) return PH_OK;
    }
    return PH_FAIL(
        err, PH_EPATH,
        "the built-in model was not found near %s: give a model with -m, or its folder in PINHOLE_MODEL",
        exe);
}

enum { TEMPLATE_BYTES_MAX = 16 << 20 };

static ph_rc read_template(ph_cli *c, ph_err *err) {
    ph_file f;
    if (!c->template_path) return PH_OK;
    PH_TRY(ph_file_open_text(&f, c->template_path, TEMPLATE_BYTES_MAX, err));
    c->template_text = malloc(f.n + 1);
    if (c->template_text) {
        if (f.n) memcpy(c->template_text, f.bytes, f.n);
        c->template_text[f.n] = 0;
    }
    ph_file_close(&f);
    return c->template_text ? PH_OK : PH_FAIL(err, PH_ENOMEM, "the template's text");
}

ph_model_options ph_cli_model_how(const ph_cli *c) {
    return (ph_model_options){.mmproj = c->mmproj,
                              .template_ = c->template_text,
                              .is_read_whole = c->is_read_whole,
                              .is_locked = c->is_locked,
                              .reads_ahead = !c->reads_no_ahead,
                              .is_plan_only = c->is_shown_only,
                              .is_trusted = c->is_trusted,
                              .injects = c->inject >= 0,
                              .inject_layer = c->inject,
                              .inject_alpha = c->inject_alpha};
}

ph_rc ph_cli_open_model(ph_cli *c, ph_err *err) {
    PH_TRY(read_template(c, err));
    if (c->model)
        snprintf(c->path, sizeof c->path, "%s", c->model);
    else
        PH_TRY(built_in(c, err));
    const ph_model_options o = ph_cli_model_how(c);
    return ph_model_open(&c->opened, c->path, &o, err);
}

/* The place of a part's name; NULL: no such part. */
static char *engine_of(ph_cli_parts *e, const char *part, size_t n) {
    if (n == 6 && !strncmp(part, "vision", n)) return e->vision;
    if (n == 6 && !strncmp(part, "bridge", n)) return e->bridge;
    if (n == 5 && !strncmp(part, "embed", n)) return e->embed;
    if (n == 8 && !strncmp(part, "language", n)) return e->language;
    return NULL;
}

/* A part has one engine: of two names, which one counts would be the order's secret. */
static ph_rc name_part(char to[PH_CLI_ENGINE], const char *part, const char *name, int n, ph_err *err) {
    if (*to)
        return PH_FAIL(err, PH_EUSAGE,
                       "--engine names two engines of the part %s, %s and %.*s (a name alone is of all "
                       "parts): leave one out",
                       part, to, n, name);
    snprintf(to, PH_CLI_ENGINE, "%.*s", n, name);
    return PH_OK;
}

ph_rc ph_cli_engine_parts(const char *text, ph_cli_parts *out, ph_err *err) {
    const char *at = text;
    *out = (ph_cli_parts){0};
    if (!*at) return PH_FAIL(err, PH_EUSAGE, "--engine names none: `pinhole inspect --known` lists them");
    while (*at) {
        size_t n = strcspn(at, ","), eq = strcspn(at, "=,");
        int    has_part = at[eq] == '=';
        char  *to = has_part ? engine_of(out, at, eq) : NULL;
        if (has_part && !to)
            return PH_FAIL(err, PH_EUSAGE,
                           "--engine knows the parts vision, bridge, embed and language, not '%.*s'", (int)eq,
                           at);
        const char *name = has_part ? at + eq + 1 : at;
        int         n_name = (int)(n - (size_t)(name - at));
        if (n_name <= 0 || (at[n] && !at[n + 1]))
            return PH_FAIL(err, PH_EUSAGE, "--engine '%s': a name is missing", text);
        if (n_name >= PH_CLI_ENGINE)
            return PH_FAIL(err, PH_EUSAGE, "--engine: a name of %d bytes: '%.32s...'; at most %d are one",
                           n_name, name, PH_CLI_ENGINE - 1);
        char part[16];
        snprintf(part, sizeof part, "%.*s", (int)eq, at);
        if (to) PH_TRY(name_part(to, part, name, n_name, err));
        if (!to) PH_TRY(name_part(out->vision, "vision", name, n_name, err));
        if (!to) PH_TRY(name_part(out->language, "language", name, n_name, err));
        at += n + (at[n] == ',');
    }
    return PH_OK;
}

static int is_auto(const char *engine) {
    return engine && !strcmp(engine, PH_ENGINE_AUTO);
}

static ph_rc read_engines(ph_cli *c, ph_err *err) {
    ph_session_options *s = &c->session;
    if (c->engine) PH_TRY(ph_cli_engine_parts(c->engine, &c->engines, err));
    if (c->engines.vision[0]) s->engine_vision = c->engines.vision;
    if (c->engines.bridge[0]) s->engine_bridge = c->engines.bridge;
    if (c->engines.embed[0]) s->engine_embed = c->engines.embed;
    if (c->engines.language[0]) s->engine_language = c->engines.language;
    if (is_auto(s->engine_vision) || is_auto(s->engine_bridge) || is_auto(s->engine_language)) return PH_OK;
    if (s->latency_ms > 0 || (s->memory_max && !c->is_judged) || s->costs)
        return PH_FAIL(err, PH_EUSAGE, "%s is for parts that are left to the router: add --engine auto",
                       s->latency_ms > 0 ? "--latency-budget"
                       : s->costs        ? "--costs"
                                         : "--memory-budget");
    return PH_OK;
}

ph_rc ph_cli_settle(ph_cli *c, ph_err *err) {
    PH_TRY(read_engines(c, err));
    PH_TRY(ph_cli_check_video(c, err));
    PH_TRY(ph_cli_inject_alpha(c->inject_share, c->inject, &c->inject_alpha, err));
    if (c->alpha) {
        if (!strcmp(c->alpha, "drop"))
            c->session.alpha = PH_ALPHA_DROP;
        else if (strcmp(c->alpha, "white"))
            return PH_FAIL(err, PH_EUSAGE, "--alpha takes white or drop, not '%s'", c->alpha);
    }
    if (c->kv && (!ph_dtype_from_name(c->kv, &c->session.kv_dtype) || !ph_kv_is_known(c->session.kv_dtype)))
        return PH_FAIL(err, PH_EUSAGE, "--kv takes f32, f16, bf16, q8_0 or q4_1, not '%s'", c->kv);
    PH_TRY(ph_fusions_of(c->unfuse, &c->session.unfused, err));
    c->session.pixels_max = c->max_pixels;
    c->session.isa = getenv("PINHOLE_ISA");
    c->session.log = &c->log;
    return PH_OK;
}

ph_rc ph_cli_open_session(ph_cli *c, ph_err *err) {
    return ph_session_open(&c->running, c->opened, &c->session, err);
}

ph_rc ph_cli_open_images(ph_cli *c, ph_err *err) {
    for (size_t i = 0; i < c->images.n; i++) {
        PH_TRY(ph_file_open(&c->image_file[i], c->images.at[i], err));
        c->picture[i] =
            (ph_picture){.bytes = c->image_file[i].bytes, .n = c->image_file[i].n, .name = c->images.at[i]};
    }
    return PH_OK;
}

void ph_cli_close(ph_cli *c) {
    ph_session_close(c->running);
    ph_model_close(c->opened);
    for (size_t i = 0; i < c->images.n; i++) ph_file_close(&c->image_file[i]);
    free(c->template_text);
}

int ph_cli_put(const char *bytes, size_t n) {
    int failed = fflush(stdout) || ferror(stdout);
    while (n && !failed) {
        ssize_t k = write(STDOUT_FILENO, bytes, n);
        if (k > 0) bytes += k, n -= (size_t)k;
        failed = k <= 0 && errno != EINTR;
    }
    if (failed) fwrite(bytes, 1, n, stdout); /* meets the same, and the stream keeps that it failed */
    return fflush(stdout) || ferror(stdout);
}

void ph_cli_write(void *to, const char *text, size_t n) {
    fwrite(text, 1, n, to);
}

/* Of a number: those that tell floats apart, and nanoseconds of a second. */
enum { DIGITS = 9 };

int ph_cli_print_json(json_t *object) {
    char *line = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS));
    int   failed = !line || ph_cli_put(line, strlen(line)) || ph_cli_put("\n", 1);
    free(line);
    json_decref(object);
    return failed;
}

void ph_cli_print_list(json_t *object, int is_json, void (*text)(json_t *object)) {
    if (is_json) {
        ph_cli_print_json(object);
        return;
    }
    text(object);
    json_decref(object);
}

void ph_cli_print_size(const char *what, size_t n, const char *about) {
    char text[32];
    ph_size_print(text, sizeof text, n);
    printf("  %-12s %12s%s%s\n", what, text, *about ? "   " : "", about);
}

ph_rc ph_cli_judge_size(uint64_t total, uint64_t budget, int is_json, ph_err *err) {
    char have[32], want[32];
    int  fits = total <= budget;
    if (!budget) return PH_OK;
    ph_size_print(want, sizeof want, total);
    ph_size_print(have, sizeof have, budget);
    if (!is_json) printf("\n%s\n  %s wanted, %s given\n", fits ? "it fits:" : "it does not fit:", want, have);
    return fits ? PH_OK : PH_FAIL(err, PH_EVERDICT, "%s wanted, %s given", want, have);
}

json_t *ph_cli_memory_json(const ph_memory *m) {
    return json_pack("{sI sI sI sI sI sI sI sI sI sI}", "total", (json_int_t)m->total, "input",
                     (json_int_t)m->input, "activations", (json_int_t)m->activations, "weights",
                     (json_int_t)m->weights, "engine", (json_int_t)m->engine, "reserve",
                     (json_int_t)m->reserve, "pools", (json_int_t)m->pools, "kv", (json_int_t)m->kv,
                     "tokenizer", (json_int_t)m->tokenizer, "base", (json_int_t)m->base);
}
