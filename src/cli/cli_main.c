/* cli_main.c - the command: find the subcommand, run it, say what went wrong. */
#include "cli/command.h"

#include "base/printable.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const ph_command *const commands[] = {
#define PH_COMMAND(name) &ph_command_##name,
#include "cli/command.def"
#undef PH_COMMAND
};

size_t ph_command_count(void) {
    return sizeof commands / sizeof *commands;
}

const ph_command *ph_command_at(size_t i) {
    return commands[i];
}

const ph_command *ph_command_find(const char *name) {
    for (size_t i = 0; i < ph_command_count(); i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

ph_rc ph_command_options(const ph_command *self, ph_options *o, int argc, char **argv, int *is_over,
                         ph_err *err) {
    PH_TRY(ph_options_parse(o, argc, argv, err));
    *is_over = o->wants_help;
    if (!o->wants_help) return PH_OK;
    printf("pinhole %s - %s\n\nusage: pinhole %s %s\n\n%s\n\noptions:\n", self->name, self->summary,
           self->name, self->usage, self->about);
    ph_options_print(o);
    return PH_OK;
}

static void print_help(FILE *to) {
    fprintf(to,
            "pinhole %s - vision-language models on small devices\n\nusage: pinhole COMMAND [options]\n\n",
            PH_VERSION);
    for (size_t i = 0; i < ph_command_count(); i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "\n`pinhole COMMAND --help` says more. Without -m the built-in model answers:\n"
                "  pinhole run --image examples/panel1.png -p \"what is on the display?\"\n");
}

const char *ph_cli_shown(char out[PH_CLI_SHOWN], const char *text) {
    ph_printable(out, PH_CLI_SHOWN, text, strlen(text));
    return out;
}

void ph_cli_complain(const char *command, const ph_err *err) {
    fprintf(stderr, "pinhole %s: %s\n", command, err->msg[0] ? err->msg : ph_rc_text(err->code));
    for (int i = 0; i < err->n_notes; i++) fprintf(stderr, "  %s\n", err->note[i]);
    if (err->code == PH_EUSAGE) fprintf(stderr, "`pinhole %s --help` says how it is used\n", command);
    if (err->code == PH_EBUG) fprintf(stderr, "  at %s:%d: please report this\n", err->file, err->line);
}

/* Whoever starts the program with a stream closed gets its number for the next file opened, and messages into
 * that file.  The numbers are taken, such that reading and writing fail as on the closed one. */
static void hold_streams(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

static int finish(const char *command, ph_rc rc) {
    if (!fflush(stdout) && !ferror(stdout)) return ph_rc_exit(rc);
    fprintf(stderr, "pinhole %s: standard output cannot be written\n", command);
    return ph_rc_exit(PH_EIO);
}

int main(int argc, char **argv) {
    ph_err      err = {0};
    const char *name = argc > 1 ? argv[1] : "";
    ph_video_child(argc, argv);
    hold_streams();
    signal(SIGCHLD, SIG_DFL); /* how a child ended is asked for, whatever the caller ignores */
    /* OpenVINO's products are compiled for each size, and 1024 of them kept unless this says otherwise: it is
     * read once, and other threads may be reading the environment by the time that library is loaded. */
    setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64", 0);
    /* ONNX Runtime opens a store of what it would report, and an id of the device, before it can be told not
     * to. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of writing, with its message */
    if (!strcmp(name, "help") && argc > 2 && ph_command_find(argv[2])) {
        static char help[] = "--help";
        char       *only[] = {help};
        return finish(name, ph_command_find(argv[2])->run(ph_command_find(argv[2]), 1, only, &err));
    }
    if (!strcmp(name, "--version") || !strcmp(name, "version")) {
        printf("pinhole %s\n", PH_VERSION);
        return finish(name, PH_OK);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return finish(name, PH_OK);
    }
    const ph_command *c = ph_command_find(name);
    if (!c) {
        if (*name) fprintf(stderr, "pinhole: no command '%s'\n\n", name);
        print_help(stderr);
        return ph_rc_exit(PH_EUSAGE);
    }
    ph_rc rc = c->run(c, argc - 2, argv + 2, &err);
    if (rc && rc != PH_EVERDICT) ph_cli_complain(name, &err);
    return finish(name, rc);
}
