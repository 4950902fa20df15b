/* cli_list.c - `run --list`: a question a line in, an answer a line out.
 *
 *     {"prompt": "what is it?", "image": "a.png"}   ►   {"line": 1, "text": "64", "ids": [...], ...}
 *
 * Lines are read when their turn comes, by the side that sees, and let go when they are answered: what is
 * held at a time follows from the pipeline's slots, not from the list.  A line that cannot be asked has its
 * error in its own answer line, and the others go on.
 */
#include "cli/list.h"

#include "base/file.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line that is on its way. */
typedef struct asked {
    ph_json_doc     doc; /* its texts are in use until it is answered */
    ph_file         file[PH_TEXTS_MAX];
    ph_picture      picture[PH_TEXTS_MAX];
    ph_chat_part    part[PH_TEXTS_MAX + 1], system;
    ph_chat_message message[2];
    ph_question     q;
} asked;

typedef struct line {
    const char *text; /* [n] */
    size_t      n, number;
    json_t     *id;    /* as it was given; or NULL */
    asked      *asked; /* while it is on its way */
} line;

typedef struct work {
    const ph_cli_list *how;
    const char        *name;
    line              *line; /* [n] those that are not blank */
    size_t             n, answered;
} work;

static const char *const keys[] = {"prompt", "image", "tokens", "id"};

/* ---- a line in ---- */

static int is_key(const char *key) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return 1;
    return 0;
}

static ph_rc check_keys(const ph_json *o, ph_err *err) {
    const char *key;
    ph_json     value;
    if (ph_json_kind_of(o) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: a question is an object such as {\"prompt\": ..., \"image\": ...}", o->where);
    for (ph_json_iter it = ph_json_members(o); ph_json_next(&it, &key, &value);)
        if (!is_key(key))
            return PH_FAIL(err, PH_EFORMAT,
                           "%s: no key '%s' is known; there are prompt, image, tokens and id", o->where, key);
    return PH_OK;
}

/* An id is a text or a whole number, and comes back with the answer. */
static ph_rc read_id(line *l, const ph_json *o, ph_err *err) {
    ph_json     id = ph_json_get(o, "id");
    const char *text;
    size_t      n;
    int64_t     number;
    switch (ph_json_kind_of(&id)) {
    case PH_JSON_ABSENT:
    case PH_JSON_NULL:
        return PH_OK;
    case PH_JSON_INT:
        PH_TRY(ph_json_to_int(&id, &number, err));
        l->id = json_integer((json_int_t)number);
        return PH_OK;
    default:
        PH_TRY(ph_json_to_text(&id, &text, &n, err));
        l->id = ph_cli_text_json(text, n);
        return PH_OK;
    }
}

static ph_rc read_images(asked *a, const ph_json *o, ph_err *err) {
    const char *path[PH_TEXTS_MAX];
    size_t      n = 0;
    ph_json     image = ph_json_get(o, "image");
    if (ph_json_kind_of(&image) == PH_JSON_TEXT) {
        PH_TRY(ph_json_to_text(&image, &path[0], NULL, err));
        n = 1;
    } else {
        PH_TRY(ph_json_texts(o, "image", path, PH_TEXTS_MAX, &n, err));
    }
    for (size_t i = 0; i < n; i++) {
        PH_TRY(ph_file_open(&a->file[i], path[i], err));
        a->picture[i] = (ph_picture){.bytes = a->file[i].bytes, .n = a->file[i].n, .name = path[i]};
    }
    a->q.n_pictures = n;
    return PH_OK;
}

static ph_rc read_line(const work *w, line *l, ph_err *err) {
    asked      *a = l->asked;
    const char *system = w->how->system, *prompt;
    char        where[80];
    size_t      n_messages = 0;
    snprintf(where, sizeof where, "%.40s, line %zu", w->name, l->number);
    PH_TRY(ph_json_parse(&a->doc, l->text, l->n, where, err));
    ph_json o = ph_json_root(&a->doc);
    PH_TRY(check_keys(&o, err));
    PH_TRY(read_id(l, &o, err));
    a->q = w->how->question;
    PH_TRY(read_images(a, &o, err));
    PH_TRY(ph_json_text_or(&o, "prompt", a->q.n_pictures ? "" : NULL, &prompt, err));
    if (!prompt) return PH_FAIL(err, PH_EFORMAT, "%s: neither a prompt nor an image", where);
    PH_TRY(ph_json_size_or(&o, "tokens", 0, PH_CLI_TOKENS_MAX, a->q.answer_max, &a->q.answer_max, err));
    size_t n = a->q.n_pictures; /* parts without text are the pictures' places */
    if (*prompt) a->part[n++] = (ph_chat_part){.text = prompt, .n = strlen(prompt)};
    if (system) {
        a->system = (ph_chat_part){.text = system, .n = strlen(system)};
        a->message[n_messages++] = (ph_chat_message){.role = "system", .parts = &a->system, .n_parts = 1};
    }
    a->message[n_messages++] = (ph_chat_message){.role = "user", .parts = a->part, .n_parts = n};
    a->q.messages = a->message;
    a->q.n_messages = n_messages;
    a->q.pictures = a->picture;
    return PH_OK;
}

static int next(void *arg, size_t index, const ph_question **q, ph_err *err) {
    work *w = arg;
    if (index >= w->n || atomic_load(w->how->question.cancel)) return 0;
    line *l = &w->line[index];
    l->asked = calloc(1, sizeof *l->asked);
    if (!l->asked) return PH_FAIL(err, PH_ENOMEM, "line %zu of the list", l->number);
    PH_TRY(read_line(w, l, err));
    *q = &l->asked->q;
    return 1;
}

static void let_go(line *l) {
    asked *a = l->asked;
    if (!a) return;
    for (size_t i = 0; i < PH_TEXTS_MAX; i++) ph_file_close(&a->file[i]);
    ph_json_close(&a->doc);
    free(a);
    l->asked = NULL;
}

/* ---- a line out ---- */

static json_t *error_json(ph_rc rc, const ph_err *err) {
    json_t *notes = json_array();
    for (int i = 0; i < err->n_notes; i++) json_array_append_new(notes, json_string(err->note[i]));
    return json_pack("{ss ss so}", "code", ph_rc_name(rc), "message", err->msg, "notes", notes);
}

static void add_answer(json_t *o, const ph_answer *a) {
    json_t *memory = json_pack("{sI sI sI}", "predicted", (json_int_t)a->predicted.total, "measured",
                               (json_int_t)a->measured_peak, "measured_anon", (json_int_t)a->measured_anon);
    json_object_set_new(o, "text", ph_cli_text_json(a->text, a->n_text));
    json_object_set_new(o, "ids", ph_cli_ids_json(a));
    json_object_set_new(o, "prompt_tokens", json_integer(a->prompt_tokens));
    json_object_set_new(o, "image_tokens", json_integer(a->image_tokens));
    json_object_set_new(o, "cached_tokens", json_integer(a->cached_tokens));
    json_object_set_new(o, "stop", json_string(ph_stop_name[a->stop]));
    json_object_set_new(o, "stages", ph_cli_stages_json(a));
    json_object_set_new(o, "memory", memory);
}

static int done(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err) {
    work   *w = arg;
    line   *l = &w->line[index];
    json_t *o = json_pack("{sI}", "line", (json_int_t)l->number);
    if (l->id) json_object_set_new(o, "id", l->id);
    l->id = NULL;
    if (a)
        add_answer(o, a);
    else
        json_object_set_new(o, "error", error_json(rc, err));
    w->answered += a != NULL;
    let_go(l);
    return ph_cli_print_json(o) || atomic_load(w->how->question.cancel); /* nobody listens, or wants more */
}

/* ---- the list ---- */

static size_t count_lines(const char *text, size_t n) {
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    return lines;
}

static ph_rc split(work *w, const char *text, size_t n, ph_err *err) {
    w->line = calloc(count_lines(text, n), sizeof *w->line);
    if (!w->line) return PH_FAIL(err, PH_ENOMEM, "the lines of %s", w->name);
    for (size_t at = 0, number = 1; at < n; number++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t      length = end ? (size_t)(end - text) - at : n - at, from = at;
        at += length + 1;
        while (length && strchr(" \t\r", text[from]) && text[from]) from++, length--;
        if (length) w->line[w->n++] = (line){.text = text + from, .n = length, .number = number};
    }
    if (w->n) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s holds no question: a line each, such as {\"prompt\": ..., \"image\": ...}", w->name);
}

static void print_stats(const work *w, const ph_many_report *r) {
    fprintf(stderr, "\n%zu questions, %zu without an answer, in %.1f ms: %zu serial, %zu double, %zu deep",
            w->n, w->n - w->answered, r->wall_ms, r->n_serial, r->n_double, r->n_deep);
    if (r->sides.beside)
        fprintf(stderr, "; at last %d thread%s saw and %d answered", r->see_threads,
                r->see_threads == 1 ? "" : "s", r->threads);
    else
        fprintf(stderr, "; %d thread%s", r->threads, r->threads == 1 ? "" : "s");
    fprintf(stderr, "%s\npipeline: %s", r->sides.ahead ? ", one prepared ahead" : "",
            ph_overlap_name[r->used]);
    if (r->why) fprintf(stderr, ", since %s", r->why);
    if (r->double_ms > 0)
        fprintf(stderr, " (a question: %.1f ms double, %.1f ms serial)", r->double_ms, r->serial_ms);
    if (r->cut.n)
        fprintf(stderr, "; %zu side%s of decode+prepare%ssee+bridge%sanswer draw %.2f GB/s at a time",
                r->cut.n, r->cut.n == 1 ? "" : "s", ph_many_sides(&r->cut).ahead ? " | " : " ",
                ph_many_sides(&r->cut).beside ? " | " : " ", r->cut.drawn / 1e9);
    fprintf(stderr, "\npictures %.1f ms, answers %.1f ms\n", r->picture_ms, r->answer_ms);
    fprintf(stderr, "memory: %.1f MB predicted, %.1f MB measured\n", (double)r->predicted.total / 1e6,
            (double)r->measured / 1e6);
}

ph_rc ph_cli_pipeline(const char *name, ph_overlap *out, ph_err *err) {
    int i = name ? ph_overlap_find(name) : PH_OVERLAP_AUTO;
    if (i < 0)
        return PH_FAIL(err, PH_EUSAGE, "--pipeline takes serial, double, deep or auto, not '%s'", name);
    *out = (ph_overlap)i;
    return PH_OK;
}

ph_rc ph_cli_run_list(const ph_cli *c, const ph_cli_list *how, ph_err *err) {
    work                    w = {.how = how, .name = how->name};
    const ph_pipeline_calls calls = {.next = next, .done = done, .arg = &w};
    ph_many_report          report;
    ph_rc                   rc = split(&w, how->text, how->n, err);
    ph_many                 m = {.model = c->opened,
                                 .session = c->session,
                                 .how = how->overlap,
                                 .n = w.n,
                                 .bytes_a_second = (double)how->bandwidth};
    if (!rc) rc = ph_many_run(&m, &calls, &report, err);
    if (!rc && how->shows_stats) {
        print_stats(&w, &report);
        ph_cli_print_places(stderr, c, report.place, report.n_places, NULL);
    }
    for (size_t i = 0; i < w.n; i++) {
        let_go(&w.line[i]);
        json_decref(w.line[i].id);
    }
    free(w.line);
    if (rc || w.answered == w.n) return rc;
    return PH_FAIL(err, PH_EVERDICT, "%zu of %zu questions were not answered", w.n - w.answered, w.n);
}
