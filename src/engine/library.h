/* library.h - libraries of others that an engine stands on: where one is looked for, and loading it.
 *
 *     the variable's file or folder ─► beside this program or installed with it ─► the system's ─► dlopen
 *
 * Nothing of them is needed to build, and none of them to run anything else.
 */
#ifndef PH_ENGINE_LIBRARY_H
#define PH_ENGINE_LIBRARY_H

#include "base/err.h"

#include <pthread.h>
#include <stddef.h>

enum { PH_LIBRARY_PATH = 1024 };

typedef struct ph_library {
    const char *what;      /* "ONNX Runtime": for messages */
    const char *variable;  /* of the environment: its file, or the folder that it is in */
    const char *folder;    /* beside the program, and in lib/pinhole: where `make` puts it */
    const char *file;      /* its file there; in a folder that was named also with a version behind it */
    const char *system[2]; /* names by which a system may have it; NULL: no more */
    const char *remedy;    /* what to do where it is not */
    const char *renamed;   /* what to do where the variable says which, and that is none; NULL: remedy */
} ph_library;

/* Of an engine's library that `make NAME` unpacks into a folder of that name. */
#define PH_LIBRARY_MADE(name, where)                                                                         \
    .variable = where, .folder = name,                                                                       \
    .remedy = "`make " name "` unpacks one (and `make install` again for an installed pinhole); "            \
              "or name one in " where,                                                                       \
    .renamed = "unset " where ", or name another in it; `make " name "` unpacks one"

/* Which library would be taken: a path, or a name that the system's loader knows.
 * Errors: PH_EMACHINE none is here, or not where the variable says; the message says what to do. */
ph_rc ph_library_find(const ph_library *l, char path[PH_LIBRARY_PATH], ph_err *err);

/* What to do about one that cannot be used: remedy or renamed, by whether the variable is set. */
const char *ph_library_remedy(const ph_library *l);

/* Load it; on success *so stays until the process ends, unless the caller closes it.
 * Errors: PH_EMACHINE it is no library, or cut short, or what it needs is not here. */
ph_rc ph_library_open(const ph_library *l, const char *path, void **so, ph_err *err);

/* The loader of the system ends the process on a library whose end is missing, and says of one for another
 * machine that it is not there: such are told before.
 * Errors: PH_EMACHINE; of what is no ELF file or not there nothing is said. */
ph_rc ph_library_check_whole(const char *path, ph_err *err);

/* The one that this process uses: found and loaded at the first call that succeeds.  load() fills *api, which
 * lives as long as the process.  Errors: those of finding and of load. */
typedef struct ph_library_once {
    pthread_mutex_t lock;
    int             is_loaded;
} ph_library_once;
ph_rc ph_library_get(const ph_library *l, ph_library_once                *once,
                     ph_rc (*load)(void *, const char *, ph_err *), void *api, ph_err *err);

/* A library of the system was found by its name: where it lies, by the address of something in it. */
void ph_library_note_path(char path[PH_LIBRARY_PATH], const void *of);

#endif
