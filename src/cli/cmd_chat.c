/* cmd_chat.c - a conversation, a line a turn.
 *
 * The whole conversation goes through the template each time; rows that the cache
 * already holds are not run again, so a turn costs what is new.
 */
#include "cli/command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { MESSAGES_MAX = 512 };

/* A picture or a video, as long as the conversation. */
typedef struct shown {
    ph_file   file;
    ph_video *video; /* NULL: a picture */
    size_t    n;     /* of the pictures */
} shown;

typedef struct job {
    ph_cli          cli;
    ph_texts        videos;
    int             answer_max;
    ph_turn        *turn;
    ph_arena        arena; /* of the conversation's texts */
    ph_chat_message message[MESSAGES_MAX];
    size_t          n_messages;
    shown           show[PH_TEXTS_MAX];
    size_t      n_shown, n_new; /* pictures and videos of the conversation; of them not yet in a message */
    ph_picture *picture;        /* [n_pictures]: of each picture one, of each video its frames */
    size_t      n_pictures, pictures_max;
    char        last;
} job;

static atomic_int cancel;

static void interrupted(int signal) {
    (void)signal;
    if (atomic_exchange(&cancel, 1)) _exit(130); /* twice: leave */
}

static int print_piece(void *arg, const char *bytes, size_t n) {
    job *j = arg;
    j->last = bytes[n - 1];
    return ph_cli_put(bytes, n);
}

static ph_rc add_message(job *j, const char *role, size_t n_images, const char *text, size_t n, ph_err *err) {
    void *at;
    char *copy;
    if (j->n_messages == MESSAGES_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a conversation of more than %d messages", MESSAGES_MAX);
    PH_TRY(ph_arena_zero(&j->arena, &at, n_images + 1, sizeof(ph_chat_part), err));
    PH_TRY(ph_arena_copy_text(&j->arena, &copy, text, n, err));
    ph_chat_part *parts = at;
    parts[n_images] = (ph_chat_part){.text = copy, .n = n};
    j->message[j->n_messages++] = (ph_chat_message){.role = role, .parts = parts, .n_parts = n_images + 1};
    return PH_OK;
}

static ph_rc grow_pictures(job *j, size_t n, ph_err *err) {
    size_t max = 2 * (j->n_pictures + n) + 8;
    if (j->n_pictures + n <= j->pictures_max) return PH_OK;
    ph_picture *more = realloc(j->picture, max * sizeof *more);
    if (!more) return PH_FAIL(err, PH_ENOMEM, "a list of %zu pictures", max);
    j->picture = more;
    j->pictures_max = max;
    return PH_OK;
}

static ph_rc read_shown(job *j, shown *s, const char *path, int is_video, ph_err *err) {
    char *name;
    PH_TRY(ph_arena_copy_text(&j->arena, &name, path, strlen(path), err));
    if (is_video) {
        atomic_store(&cancel, 0);
        PH_TRY(ph_cli_read_video(&j->cli, path, &s->video, err));
    } else {
        PH_TRY(ph_file_open(&s->file, path, err));
    }
    s->n = is_video ? (size_t)s->video->n_frames : 1;
    PH_TRY(grow_pictures(j, s->n, err));
    if (is_video)
        ph_cli_video_pictures(s->video, name, j->picture + j->n_pictures);
    else
        j->picture[j->n_pictures] = (ph_picture){.bytes = s->file.bytes, .n = s->file.n, .name = name};
    return PH_OK;
}

static void close_shown(job *j, shown *s) {
    ph_cli_free_video(&j->cli, s->video);
    ph_file_close(&s->file);
    *s = (shown){0};
}

static ph_rc add_picture(job *j, const char *path, int is_video, ph_err *err) {
    shown *s = &j->show[j->n_shown];
    if (j->n_shown == PH_TEXTS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "more than %d pictures and videos", PH_TEXTS_MAX);
    ph_rc rc = read_shown(j, s, path, is_video, err);
    if (rc) {
        close_shown(j, s);
        return rc;
    }
    j->n_pictures += s->n;
    j->n_shown++;
    j->n_new++;
    return PH_OK;
}

/* The newest of what was shown is taken back. */
static void drop_shown(job *j, size_t n) {
    for (; n && j->n_shown; n--) {
        j->n_pictures -= j->show[--j->n_shown].n;
        close_shown(j, &j->show[j->n_shown]);
    }
}

static void print_json(const ph_answer *a) {
    ph_cli_print_json(json_pack("{so si si si ss}", "text", ph_cli_text_json(a->text, a->n_text),
                                "prompt_tokens", a->prompt_tokens, "image_tokens", a->image_tokens,
                                "cached_tokens", a->cached_tokens, "stop", ph_stop_name[a->stop]));
}

/* A turn that fails leaves the conversation as it was. */
static ph_rc answer(job *j, const char *text, size_t n, ph_err *err) {
    ph_answer a;
    size_t    n_new = j->n_new;
    PH_TRY(add_message(j, "user", n_new, text, n, err));
    const ph_question q = {.messages = j->message,
                           .n_messages = j->n_messages,
                           .pictures = j->picture,
                           .n_pictures = j->n_pictures,
                           .answer_max = j->answer_max,
                           .sampling = j->cli.sampling,
                           .piece = j->cli.is_json ? NULL : print_piece,
                           .arg = j,
                           .cancel = &cancel};
    j->last = 0;
    atomic_store(&cancel, 0);
    ph_rc rc = ph_ask(j->turn, &q, &a, err);
    if (rc) {
        j->n_messages--;
        drop_shown(j, n_new);
        j->n_new = 0;
        return rc;
    }
    j->n_new = 0;
    if (j->cli.is_json)
        print_json(&a);
    else if (j->last != '\n')
        ph_cli_put("\n", 1);
    return add_message(j, "assistant", 0, a.text, a.n_text, err);
}

static void start_anew(job *j) {
    j->n_messages = j->cli.system ? 1 : 0;
    drop_shown(j, j->n_shown);
    j->n_new = 0;
}

static int is_word(const char *line, const char *word) {
    size_t n = strlen(word);
    return !strncmp(line, word, n) && (!line[n] || line[n] == ' ');
}

/* "/image FILE", "/video FILE". */
static ph_rc show(job *j, const char *line, ph_err *err) {
    enum { WORD = 6 };
    const char *path = line + WORD + strspn(line + WORD, " ");
    if (!*path) return PH_FAIL(err, PH_EUSAGE, "%.*s wants a file", WORD, line);
    return add_picture(j, path, is_word(line, "/video"), err);
}

/* A command, or else a question. */
static ph_rc take(job *j, const char *line, size_t n, int *is_over, ph_err *err) {
    *is_over = !strcmp(line, "/quit") || !strcmp(line, "/exit");
    if (*is_over) return PH_OK;
    if (is_word(line, "/image") || is_word(line, "/video")) return show(j, line, err);
    if (!strcmp(line, "/reset")) {
        start_anew(j);
        return PH_OK;
    }
    if (strcmp(line, "/help")) return answer(j, line, n, err);
    fprintf(stderr, "/image FILE  show a picture with the next question\n"
                    "/video FILE  show a video\n"
                    "/reset       begin a new conversation\n"
                    "/quit        leave\n");
    return PH_OK;
}

/* A script hears of the first failure by the exit status, and no later question is answered without what
 * failed; a person is told, and may try again. */
static ph_rc talk(job *j, ph_err *err) {
    char   *line = NULL;
    size_t  max = 0;
    ssize_t n;
    int     is_person = isatty(STDIN_FILENO), is_over = 0;
    ph_rc   rc = PH_OK;
    if (is_person) fprintf(stderr, "a line is a question; /help lists what else there is\n");
    while (!is_over) {
        if (is_person) fprintf(stderr, "> ");
        if ((n = getline(&line, &max, stdin)) < 0) break;
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
        if (!n || !(rc = take(j, line, (size_t)n, &is_over, err))) continue;
        if (!is_person) break;
        ph_cli_complain(ph_command_chat.name, err);
        fprintf(stderr, "  this line was not taken; ask anew\n");
        tcflush(STDIN_FILENO, TCIFLUSH); /* what was typed before this was said counted on it */
        *err = (ph_err){0};
        rc = PH_OK;
    }
    free(line);
    return rc;
}

static ph_rc work(job *j, ph_err *err) {
    struct sigaction action = {.sa_handler = interrupted};
    PH_TRY(ph_cli_settle(&j->cli, err));
    PH_TRY(ph_arena_open_growing(&j->arena, 64 << 10, err));
    for (size_t i = 0; i < j->cli.images.n; i++) PH_TRY(add_picture(j, j->cli.images.at[i], 0, err));
    PH_TRY(ph_cli_open_model(&j->cli, err));
    for (size_t i = 0; i < j->videos.n; i++) PH_TRY(add_picture(j, j->videos.at[i], 1, err));
    PH_TRY(ph_cli_open_session(&j->cli, err));
    PH_TRY(ph_turn_open(&j->turn, j->cli.running, err));
    if (j->cli.system) PH_TRY(add_message(j, "system", 0, j->cli.system, strlen(j->cli.system), err));
    sigaction(SIGINT, &action, NULL);
    return talk(j, err);
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX], session[PH_CLI_ROWS_MAX], sampling[PH_CLI_ROWS_MAX];
    ph_option       video[PH_CLI_ROWS_MAX], inject[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--image", 'i', "FILE", "a picture for the first question; /image FILE shows more", PH_OPTION_TEXTS,
         &j.cli.images},
        {"--video", 0, "FILE", "a video for the first question; /video FILE shows more", PH_OPTION_TEXTS,
         &j.videos},
        {"--system", 0, "TEXT", "a system message in front", PH_OPTION_TEXT, &j.cli.system},
        {"--tokens", 'n', "N", "answer with at most N tokens; 0 (default): until the model stops",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &j.answer_max},
        {0},
    };
    int is_over;
    ph_cli_init(&j.cli);
    j.cli.cancel = &cancel;
    ph_cli_model_options(&j.cli, model);
    ph_cli_session_options(&j.cli, session);
    ph_cli_sampling_options(&j.cli, sampling);
    ph_cli_video_options(&j.cli, video);
    ph_cli_inject_options(&j.cli, inject);
    ph_options o = {.group = {own, video, model, session, inject, sampling}, .n_groups = 6};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n)
        return PH_FAIL(err, PH_EUSAGE, "'%s' stands alone: questions come from standard input, a line each",
                       o.rest.at[0]);
    ph_rc rc = work(&j, err);
    ph_turn_close(j.turn);
    start_anew(&j);
    free(j.picture);
    ph_arena_close(&j.arena);
    j.cli.images.n = 0; /* mapped by add_picture, closed with the conversation */
    ph_cli_close(&j.cli);
    return rc;
}

const ph_command ph_command_chat = {
    .name = "chat",
    .summary = "a conversation, in turns",
    .usage = "[-m MODEL] [--image FILE]...",
    .about =
        "Reads a question a line from standard input and answers it; what was said before counts. A line "
        "that begins with\n"
        "/image shows a picture with the next question, /video a video, /reset begins anew, /quit leaves.\n"
        "Interrupt stops an answer.\n"
        "At a terminal a line that fails is told and left out; else the first one ends the command with its "
        "exit status.\n"
        "With --json there is one object an answer.\n\n"
        "  printf '/image examples/panel1.png\\nwhat is on the display?\\nand the gauge?\\n' | pinhole chat",
    .run = run,
};
