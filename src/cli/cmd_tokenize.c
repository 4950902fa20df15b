/* cmd_tokenize.c - the ids of a text, to compare with a trainer's. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 256 << 20 };

typedef struct job {
    ph_cli        cli;
    const char   *text, *file;
    int           is_plain, is_trusted;
    ph_tokenizer *tokenizer;
    ph_bytes      input;
    ph_ids        ids;
} job;

/* The text: -p, a file, or standard input. */
static ph_rc read_text(job *j, ph_err *err) {
    char    chunk[65536];
    ssize_t n;
    ph_file f;
    if (j->text) return ph_bytes_push(&j->input, j->text, strlen(j->text), err);
    if (j->file) {
        PH_TRY(ph_file_open_text(&f, j->file, TEXT_BYTES_MAX, err));
        ph_rc rc = ph_bytes_push(&j->input, f.bytes, f.n, err);
        ph_file_close(&f);
        return rc;
    }
    while ((n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0) {
        if (j->input.n > (size_t)(TEXT_BYTES_MAX - n))
            return PH_FAIL(err, PH_ELIMIT, "standard input: more text than the %d bytes that are read",
                           TEXT_BYTES_MAX);
        PH_TRY(ph_bytes_push(&j->input, chunk, (size_t)n, err));
    }
    return n < 0 ? PH_FAIL(err, PH_EIO, "standard input cannot be read") : PH_OK;
}

static void print_pieces(const job *j, const ph_tokenizer *t) {
    for (size_t i = 0; i < j->ids.n; i++) {
        size_t      n;
        const char *piece = ph_tokenizer_piece(t, j->ids.at[i], &n);
        printf("%8d  %.*s\n", j->ids.at[i], (int)n, piece);
    }
}

static void print_json(const job *j, const ph_tokenizer *t) {
    json_t *ids = json_array(), *pieces = json_array();
    for (size_t i = 0; i < j->ids.n; i++) {
        size_t      n;
        const char *piece = ph_tokenizer_piece(t, j->ids.at[i], &n);
        json_array_append_new(ids, json_integer(j->ids.at[i]));
        json_array_append_new(pieces, ph_cli_text_json(piece, n));
    }
    ph_cli_print_json(json_pack("{so so}", "ids", ids, "pieces", pieces));
}

static ph_rc work(job *j, ph_err *err) {
    const char *path = j->cli.model;
    unsigned    how =
        (j->is_plain ? PH_ENCODE_PLAIN : PH_ENCODE_SPECIAL) | (j->is_trusted ? PH_ENCODE_CONTROL : 0u);
    PH_TRY(read_text(j, err));
    /* A folder with a tokenizer alone will do; everything else is opened as a model. */
    const ph_tokenizer *t = NULL;
    if (path && ph_path_is_dir(path)) {
        PH_TRY(ph_tokenizer_open_dir(&j->tokenizer, path, err));
        t = j->tokenizer;
    } else {
        j->cli.is_shown_only = 1;
        PH_TRY(ph_cli_open_model(&j->cli, err));
        t = j->cli.opened->tokenizer;
    }
    PH_TRY(ph_tokenizer_encode(t, (const char *)j->input.at, j->input.n, how, &j->ids, err));
    if (j->cli.is_json)
        print_json(j, t);
    else
        print_pieces(j, t);
    return PH_OK;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--prompt", 'p', "TEXT", "the text; without -p and -f it is read from standard input",
         PH_OPTION_TEXT, &j.text},
        {"--file", 'f', "FILE", "read the text from a file", PH_OPTION_TEXT, &j.file},
        {"--plain", 0, NULL, "add neither BOS nor what else the tokenizer adds", PH_OPTION_FLAG, &j.is_plain},
        {"--control", 0, NULL, "the text is a template's: its control tokens are parsed", PH_OPTION_FLAG,
         &j.is_trusted},
        {0},
    };
    int is_over;
    ph_cli_init(&j.cli);
    ph_cli_model_options(&j.cli, model);
    ph_options o = {.group = {own, model}, .n_groups = 2};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n > 1 || (o.rest.n && j.text))
        return PH_FAIL(err, PH_EUSAGE, "one text at a time: quote it, or use -f");
    if (o.rest.n) j.text = o.rest.at[0];
    ph_rc rc = work(&j, err);
    ph_ids_close(&j.ids);
    ph_bytes_close(&j.input);
    ph_tokenizer_close(j.tokenizer);
    ph_cli_close(&j.cli);
    return rc;
}

const ph_command ph_command_tokenize = {
    .name = "tokenize",
    .summary = "the ids of a text",
    .usage = "[-m MODEL] [-p TEXT | -f FILE]",
    .about = "Prints each id with its piece as the model's files spell it. Control tokens typed in the text "
             "are text, unless\n"
             "--control says that the text is a template's own.\n\n"
             "  pinhole tokenize -p \"what is on the display?\" --json",
    .run = run,
};
