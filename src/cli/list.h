/* list.h - `run --list`: many questions from lines of JSON, see cli_list.c. */
#ifndef PH_CLI_LIST_H
#define PH_CLI_LIST_H

#include "cli/command.h"
#include "sched/many.h"

typedef struct ph_cli_list {
    const char *text; /* [n], lines */
    size_t      n;
    const char *name;     /* for messages */
    const char *system;   /* or NULL */
    ph_question question; /* what all have in common; its cancel is not NULL */
    ph_overlap  overlap;
    uint64_t    bandwidth; /* bytes a second; 0: not known */
    int         shows_stats;
} ph_cli_list;

/* --pipeline; NULL: auto.  Errors: PH_EUSAGE. */
ph_rc ph_cli_pipeline(const char *name, ph_overlap *out, ph_err *err);

/* Ask the opened model all of them; an answer, or an error, a line on standard output.  Errors: PH_EFORMAT no
 * question; PH_EVERDICT some were not answered (they are told of); those of sessions. */
ph_rc ph_cli_run_list(const ph_cli *c, const ph_cli_list *how, ph_err *err);

/* Shared with `run` (cmd_run.c). */
json_t *ph_cli_stages_json(const ph_answer *a);
json_t *ph_cli_ids_json(const ph_answer *a);

#endif
