/* cli_draw.c - a graph drawn by Graphviz: `dot` is started without a shell, and fed through a pipe.
 *
 * It may be missing, or end before it has read everything: then writing to it is no signal that ends us, but
 * an error with a name.  What it draws goes to standard output, what it says to standard error.
 */
#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* dot with `in` as its standard input; errno's number, 0: it runs.  What we ignore it does not. */
static int spawn(pid_t *pid, int in, posix_spawn_file_actions_t *actions, posix_spawnattr_t *how) {
    char *const argv[] = {(char[]){"dot"}, (char[]){"-Tsvg"}, NULL};
    sigset_t    set;
    int         e = posix_spawn_file_actions_adddup2(actions, in, STDIN_FILENO);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    if (!e) e = posix_spawnattr_setsigdefault(how, &set);
    if (!e) e = posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGDEF);
    return e ? e : posix_spawnp(pid, "dot", actions, how, argv, environ);
}

static int start(pid_t *pid, int in) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t          how;
    int                        e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    if (!(e = posix_spawnattr_init(&how))) {
        e = spawn(pid, in, &actions, &how);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

/* 1: all of the graph was taken.  Closes `to`. */
static int feed(const ph_graph *g, int to) {
    FILE *f = fdopen(to, "w");
    if (!f) {
        close(to);
        return 0;
    }
    ph_graph_dot(g, ph_cli_write, f);
    int failed = ferror(f);
    return !fclose(f) && !failed;
}

/* How it ended, as text; "": well. */
static void describe(char out[48], pid_t pid) {
    int   status;
    pid_t ended;
    while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {}
    snprintf(out, 48, "%s", ended == pid ? "" : "nobody knows how it ended");
    if (ended != pid) return;
    if (WIFSIGNALED(status)) snprintf(out, 48, "it was ended by signal %d", WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status))
        snprintf(out, 48, "it ended with status %d", WEXITSTATUS(status));
}

static ph_rc draw(const ph_graph *g, const int end[2], ph_err *err) {
    pid_t pid;
    char  how[48];
    int   e = start(&pid, end[0]);
    close(end[0]);
    if (e) {
        close(end[1]);
        return PH_FAIL(err, PH_EMACHINE,
                       "--svg is drawn by Graphviz, whose program dot cannot be started (%s): install "
                       "Graphviz (the package graphviz), or print the graph with --dot",
                       strerror(e));
    }
    int is_whole = feed(g, end[1]);
    describe(how, pid);
    if (is_whole && !*how) return PH_OK;
    return PH_FAIL(err, PH_EMACHINE,
                   "Graphviz's dot did not draw the graph: %s; --dot prints it without Graphviz",
                   *how ? how : "it did not read all of it");
}

ph_rc ph_cli_draw(const ph_graph *g, ph_err *err) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    int              end[2];
    fflush(stdout);
    if (pipe2(end, O_CLOEXEC)) return PH_FAIL(err, PH_EMACHINE, "no pipe to dot: %s", strerror(errno));
    sigaction(SIGPIPE, &ignore, &before);
    ph_rc rc = draw(g, end, err);
    sigaction(SIGPIPE, &before, NULL);
    return rc;
}
