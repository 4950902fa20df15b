/* cmd_run.c - one question, one answer, streamed. */
#include "base/file.h"
#include "cli/command.h"
#include "cli/list.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct job {
    ph_cli      cli;
    const char *prompt, *raw, *audio;
    ph_file     sound;
    ph_texts    stop, videos;
    ph_video   *video[PH_TEXTS_MAX];
    ph_picture *picture; /* [n_pictures]: pictures, then the frames of each video */
    size_t      n_pictures;
    int         answer_max, ignore_stop, shows_stats;
    const char *list, *pipeline;
    uint64_t    bandwidth;
    ph_file     list_file;
    char       *list_text; /* of standard input; owned */
    ph_turn    *turn;
    char        last; /* the byte printed last */
} job;

static atomic_int cancel;

static void interrupted(int signal) {
    (void)signal;
    atomic_store(&cancel, 1);
}

static int print_piece(void *arg, const char *bytes, size_t n) {
    job *j = arg;
    j->last = bytes[n - 1];
    return ph_cli_put(bytes, n); /* nobody listens: stop */
}

/* --prompt - reads standard input. */
static char *read_all(FILE *f, size_t *out) {
    size_t n = 0, max = 4096;
    char  *text = malloc(max);
    while (text) {
        n += fread(text + n, 1, max - 1 - n, f);
        text[n] = 0;
        *out = n;
        if (n < max - 1) return text;
        char *more = realloc(text, max *= 2);
        if (!more) free(text);
        text = more;
    }
    return NULL;
}

json_t *ph_cli_stages_json(const ph_answer *a) {
    json_t *o = json_object();
    for (int i = 0; i < PH_N_STAGES; i++) json_object_set_new(o, ph_stage_name[i], json_real(a->stage_ms[i]));
    return o;
}

json_t *ph_cli_ids_json(const ph_answer *a) {
    json_t *ids = json_array();
    for (size_t i = 0; i < a->n_ids; i++) json_array_append_new(ids, json_integer(a->ids[i]));
    return ids;
}

static json_t *engines_json(const ph_session *s) {
    const char *vision = ph_session_engine(s, "vision"), *bridge = ph_session_engine(s, "bridge");
    int         is_apart = vision && bridge && strcmp(vision, bridge);
    return json_pack("{ss* ss* ss* ss*}", "vision", vision, "bridge", is_apart ? bridge : NULL, "embed",
                     ph_session_engine(s, "embed"), "language", ph_session_engine(s, "language"));
}

static void print_json(const job *j, const ph_answer *a) {
    json_t *memory =
        json_pack("{sI sI sI sI so}", "predicted", (json_int_t)a->predicted.total, "measured",
                  (json_int_t)a->measured_peak, "measured_anon", (json_int_t)a->measured_anon, "locked",
                  (json_int_t)a->measured_locked, "kinds", ph_cli_memory_json(&a->predicted));
    if (j->videos.n) json_object_set_new(memory, "video_decoder", ph_cli_decoder_json(&j->cli));
    const ph_route *route = ph_session_route(j->cli.running);
    ph_cli_print_json(
        json_pack("{so so si si si ss so so so ss si so*}", "text", ph_cli_text_json(a->text, a->n_text),
                  "ids", ph_cli_ids_json(a), "prompt_tokens", a->prompt_tokens, "image_tokens",
                  a->image_tokens, "cached_tokens", a->cached_tokens, "stop", ph_stop_name[a->stop], "stages",
                  ph_cli_stages_json(a), "memory", memory, "engines", engines_json(j->cli.running), "isa",
                  ph_session_isa(j->cli.running), "threads", ph_session_plan_of(j->cli.running)->load.threads,
                  "route", route ? ph_cli_route_json(route) : NULL));
}

static void print_stats(const job *j, const ph_answer *a) {
    const double   *ms = a->stage_ms;
    const ph_route *route = ph_session_route(j->cli.running);
    ph_place        place[PH_PLACES_MAX];
    double picture = ms[PH_STAGE_decode] + ms[PH_STAGE_prepare] + ms[PH_STAGE_see] + ms[PH_STAGE_drop] +
                     ms[PH_STAGE_bridge];
    fprintf(stderr, "\npicture %.1f ms, prefill %.1f ms (%d tokens, %d of pictures), %zu tokens at %.1f ms\n",
            picture, ms[PH_STAGE_prefill], a->prompt_tokens, a->image_tokens, a->n_ids,
            a->n_ids > 1
                ? (ms[PH_STAGE_step] + ms[PH_STAGE_sample] + ms[PH_STAGE_speak]) / (double)(a->n_ids - 1)
                : 0.0);
    fprintf(stderr, "memory: %.1f MB predicted, %.1f MB measured\n", (double)a->predicted.total / 1e6,
            (double)a->measured_peak / 1e6);
    if (route) ph_cli_print_route(stderr, route);
    ph_cli_print_places(stderr, &j->cli, place, ph_session_places(j->cli.running, place), route);
}

/* Nothing but a blank line looks like a fault: a person is told why there is no more. */
static void say_empty(const job *j, const ph_answer *a) {
    static const char *const why[] = {[PH_STOP_TOKEN] = "the model ended it at once",
                                      [PH_STOP_WORD] = "a word of --stop came first",
                                      [PH_STOP_LENGTH] = "its tokens are no text yet",
                                      [PH_STOP_CONTEXT] = "the context is full",
                                      [PH_STOP_CANCEL] = "it was interrupted"};
    if (a->n_text || j->cli.is_json || j->cli.is_quiet || !isatty(STDERR_FILENO)) return;
    fprintf(stderr, "(empty answer: %s)\n", a->stop != PH_STOP_NONE ? why[a->stop] : "nothing was said");
}

/* A recording alone is transcribed: the model knows how a transcript opens. */
static ph_rc hear(const job *j, ph_question *q, const ph_recording *sound, ph_err *err) {
    const ph_model *m = j->cli.opened;
    q->sound = sound;
    if (j->prompt || j->raw) return PH_OK;
    if (!m->n_start)
        return PH_FAIL(err, PH_EUSAGE,
                       "this model does not say how a transcript opens: give a prompt with "
                       "-p or --raw");
    q->ids = m->start;
    q->n_ids = m->n_start;
    return PH_OK;
}

static ph_rc ask(job *j, ph_err *err) {
    ph_chat_part parts[2 * PH_TEXTS_MAX + 1];
    ph_chat_part system = {.text = j->cli.system, .n = j->cli.system ? strlen(j->cli.system) : 0};
    size_t       n = 0;
    ph_answer    a;
    for (; n < j->cli.images.n + j->videos.n; n++) parts[n] = (ph_chat_part){0};
    if (j->prompt) parts[n++] = (ph_chat_part){.text = j->prompt, .n = strlen(j->prompt)};
    const ph_chat_message messages[2] = {{.role = "system", .parts = &system, .n_parts = 1},
                                         {.role = "user", .parts = parts, .n_parts = n}};
    const int             from = j->cli.system ? 0 : 1;
    ph_recording          sound = {.bytes = j->sound.bytes, .n = j->sound.n, .name = j->audio};
    ph_question           q = {.messages = messages + from,
                               .n_messages = (size_t)(2 - from),
                               .raw = j->raw,
                               .add_special = 1,
                               .pictures = j->picture,
                               .n_pictures = j->n_pictures,
                               .answer_max = j->answer_max,
                               .ignore_stop = j->ignore_stop,
                               .sampling = j->cli.sampling,
                               .stop = j->stop.at,
                               .n_stop = j->stop.n,
                               .piece = j->cli.is_json ? NULL : print_piece,
                               .arg = j,
                               .cancel = &cancel};
    if (j->audio) PH_TRY(hear(j, &q, &sound, err));
    do { /* a long recording: each stretch is a question of its own */
        PH_TRY(ph_ask(j->turn, &q, &a, err));
        if (j->cli.is_json) print_json(j, &a);
        say_empty(j, &a);
        if (j->shows_stats) print_stats(j, &a);
    } while (++sound.stretch < a.stretches && a.stop != PH_STOP_CANCEL);
    /* Nothing at all is an empty line to a program, and told to a person. */
    if (!j->cli.is_json && j->last != '\n' && (j->last || !isatty(STDOUT_FILENO))) ph_cli_put("\n", 1);
    return PH_OK;
}

/* Pictures, then videos, each the frames that the model takes of it. */
static ph_rc gather(job *j, ph_err *err) {
    size_t n = j->cli.images.n;
    for (size_t i = 0; i < j->videos.n; i++) {
        PH_TRY(ph_cli_read_video(&j->cli, j->videos.at[i], &j->video[i], err));
        n += (size_t)j->video[i]->n_frames;
    }
    j->picture = calloc(n + 1, sizeof *j->picture);
    if (!j->picture) return PH_FAIL(err, PH_ENOMEM, "a list of %zu pictures", n);
    memcpy(j->picture, j->cli.picture, j->cli.images.n * sizeof *j->picture);
    j->n_pictures = j->cli.images.n;
    for (size_t i = 0; i < j->videos.n; i++) {
        ph_cli_video_pictures(j->video[i], j->videos.at[i], j->picture + j->n_pictures);
        j->n_pictures += (size_t)j->video[i]->n_frames;
    }
    return PH_OK;
}

/* ---- a list ---- */

enum { BANDWIDTH_MIN = 1000000 };
#define BANDWIDTH_NONE UINT64_MAX /* it was not given */

static ph_rc check_list(job *j, ph_err *err) {
    int has_bandwidth = j->bandwidth != BANDWIDTH_NONE;
    if (!j->list && (j->pipeline || has_bandwidth || j->cli.session.see_threads))
        return PH_FAIL(err, PH_EUSAGE, "%s is for a list of questions: give one with --list FILE",
                       j->pipeline     ? "--pipeline"
                       : has_bandwidth ? "--bandwidth"
                                       : "--see-threads");
    if (has_bandwidth && j->bandwidth < BANDWIDTH_MIN)
        return PH_FAIL(err, PH_EUSAGE,
                       "--bandwidth is in bytes a second, 1MB at least, such as 6.4GB; %llu are less than a "
                       "memory gives",
                       (unsigned long long)j->bandwidth);
    if (j->list && (j->prompt || j->raw || j->audio || j->cli.images.n || j->videos.n))
        return PH_FAIL(
            err, PH_EUSAGE,
            "--list stands alone: its lines hold the prompts and the pictures; -p, --raw, --image, --video "
            "and --audio are for one question");
    if (!has_bandwidth) j->bandwidth = 0;
    return PH_OK;
}

/* Of a shell's <(...) too: a list is mapped, which a pipe cannot be. */
static int is_pipe(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISFIFO(st.st_mode);
}

static ph_rc open_list(job *j, ph_cli_list *l, ph_err *err) {
    int is_stdin = !strcmp(j->list, "-");
    PH_TRY(ph_cli_pipeline(j->pipeline, &l->overlap, err));
    if (l->overlap == PH_OVERLAP_SERIAL && (j->bandwidth || j->cli.session.see_threads))
        return PH_FAIL(err, PH_EUSAGE, "--%s, and --pipeline serial has one: leave one of them out",
                       j->bandwidth ? "bandwidth tells how many sides are at work at a time"
                                    : "see-threads shares the threads between two sides");
    if (is_stdin) {
        j->list_text = read_all(stdin, &l->n);
        if (!j->list_text) return PH_FAIL(err, PH_ENOMEM, "the list on standard input");
        l->text = j->list_text;
    } else {
        ph_rc rc = ph_file_open(&j->list_file, j->list, err);
        if (rc) return is_pipe(j->list) ? ph_note(err, rc, "or give it to `--list -` on standard input") : rc;
        l->text = (const char *)j->list_file.bytes;
        l->n = j->list_file.n;
    }
    l->name = is_stdin ? "standard input" : j->list;
    return PH_OK;
}

static ph_rc run_list(job *j, const struct sigaction *action, ph_err *err) {
    ph_cli_list l = {.system = j->cli.system,
                     .question = {.answer_max = j->answer_max,
                                  .ignore_stop = j->ignore_stop,
                                  .sampling = j->cli.sampling,
                                  .stop = j->stop.at,
                                  .n_stop = j->stop.n,
                                  .cancel = &cancel},
                     .bandwidth = j->bandwidth,
                     .shows_stats = j->shows_stats};
    PH_TRY(open_list(j, &l, err));
    PH_TRY(ph_cli_open_model(&j->cli, err));
    sigaction(SIGINT, action, NULL);
    return ph_cli_run_list(&j->cli, &l, err);
}

static ph_rc work(job *j, ph_err *err) {
    struct sigaction action = {.sa_handler = interrupted, .sa_flags = (int)SA_RESETHAND};
    PH_TRY(ph_cli_settle(&j->cli, err));
    if (j->list) return run_list(j, &action, err);
    /* Pictures first: a wrong path is said before a model is opened. */
    PH_TRY(ph_cli_open_images(&j->cli, err));
    if (j->audio) PH_TRY(ph_file_open(&j->sound, j->audio, err));
    PH_TRY(ph_cli_open_model(&j->cli, err));
    PH_TRY(gather(j, err));
    PH_TRY(ph_cli_open_session(&j->cli, err));
    PH_TRY(ph_turn_open(&j->turn, j->cli.running, err));
    sigaction(SIGINT, &action, NULL);
    return ask(j, err);
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX], session[PH_CLI_ROWS_MAX], sampling[PH_CLI_ROWS_MAX];
    ph_option       video[PH_CLI_ROWS_MAX], inject[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--prompt", 'p', "TEXT", "the question; - reads it from standard input", PH_OPTION_TEXT, &j.prompt},
        {"--image", 'i', "FILE", "a picture; may be repeated", PH_OPTION_TEXTS, &j.cli.images},
        {"--video", 0, "FILE", "a video, as the frames that the model takes of it; may be repeated",
         PH_OPTION_TEXTS, &j.videos},
        {"--audio", 0, "FILE", "a recording (WAV or FLAC), for models that hear; alone: its transcript",
         PH_OPTION_TEXT, &j.audio},
        {"--system", 0, "TEXT", "a system message in front", PH_OPTION_TEXT, &j.cli.system},
        {"--tokens", 'n', "N", "answer with at most N tokens; 0 (default): until the model stops",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &j.answer_max},
        {"--stop", 0, "WORD", "end the answer before this word; may be repeated", PH_OPTION_TEXTS, &j.stop},
        {"--raw", 0, "TEXT", "instead of -p: the whole prompt as the model sees it, no template",
         PH_OPTION_TEXT, &j.raw},
        {"--list", 0, "FILE",
         "many questions, a line each: {\"prompt\": TEXT, \"image\": FILE or [FILE, ...], \"tokens\": N, "
         "\"id\": "
         "TEXT}; - reads standard input",
         PH_OPTION_TEXT, &j.list},
        {"--pipeline", 0, "HOW",
         "of a list: serial, double (a picture is seen while the answer before is said), deep (and the next "
         "one decoded), or auto (default): double where it is faster, measured; each side has a thread at "
         "least, so double has two of -t 1, and deep three of -t 2",
         PH_OPTION_TEXT, &j.pipeline},
        {"--see-threads", 0, "N",
         "of a list with double or deep: of --threads, those that see, fewer than all; default: by the time "
         "they take",
         PH_OPTION_INT(1, PH_CLI_THREADS_MAX), &j.cli.session.see_threads},
        {"--bandwidth", 0, "SIZE",
         "of a list: bytes a second that the memory gives (6.4GB); the first questions tell how many sides "
         "it feeds at a time, up to --pipeline's",
         PH_OPTION_SIZE, &j.bandwidth},
        {"--ignore-eos", 0, NULL, "do not stop where the model would", PH_OPTION_FLAG, &j.ignore_stop},
        {"--stats", 0, NULL, "print times, memory and, with --engine, where parts run to standard error",
         PH_OPTION_FLAG, &j.shows_stats},
        {0},
    };
    int    is_over;
    char  *input = NULL;
    size_t n_input = 0;
    ph_cli_init(&j.cli);
    j.bandwidth = BANDWIDTH_NONE;
    ph_cli_model_options(&j.cli, model);
    ph_cli_session_options(&j.cli, session);
    ph_cli_sampling_options(&j.cli, sampling);
    ph_cli_video_options(&j.cli, video);
    ph_cli_inject_options(&j.cli, inject);
    ph_options o = {.group = {own, video, model, session, inject, sampling}, .n_groups = 6};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n)
        return PH_FAIL(err, PH_EUSAGE,
                       "'%s' stands alone: give the question with -p and pictures with --image",
                       o.rest.at[0]);
    if (j.prompt && j.raw)
        return PH_FAIL(
            err, PH_EUSAGE,
            "-p and --raw exclude each other: a question for the template, or the whole prompt as it is");
    PH_TRY(check_list(&j, err));
    if (!j.list && !j.prompt && !j.raw && !(j.cli.images.n || j.videos.n || j.audio))
        return PH_FAIL(err, PH_EUSAGE, "give a question with -p (or a whole prompt with --raw)");
    if (j.prompt && !strcmp(j.prompt, "-")) j.prompt = input = read_all(stdin, &n_input);
    ph_rc rc = work(&j, err);
    ph_turn_close(j.turn);
    ph_file_close(&j.sound);
    ph_file_close(&j.list_file);
    free(j.list_text);
    for (size_t i = 0; i < j.videos.n; i++) ph_cli_free_video(&j.cli, j.video[i]);
    free(j.picture);
    ph_cli_close(&j.cli);
    free(input);
    return rc;
}

const ph_command ph_command_run = {
    .name = "run",
    .summary = "answer a question about pictures, or about nothing but words",
    .usage = "[-m MODEL] [--image FILE]... -p TEXT",
    .about =
        "Streams the answer to standard output. With --json the whole answer comes at the end in one object, "
        "with ids,\n"
        "token counts, milliseconds a stage, and memory as predicted and as measured. With --list a line of "
        "JSON\n"
        "comes for each question, an answer or what was wrong with it; the exit status is 1 if one has "
        "none.\n\n"
        "  pinhole run --image examples/panel1.png -p \"what is on the display?\"\n"
        "  pinhole run -m speech-model/ --audio speech.wav\n"
        "  pinhole run --list questions.jsonl > answers.jsonl\n"
        "  pinhole run -m model.gguf --mmproj mmproj.gguf --image a.jpg --image b.jpg -p \"what changed?\"",
    .run = run,
};
