/* plugin.h - libraries with operators of the user's own (pinhole_op.h): loaded by path when they are asked
 * for.
 *
 *     path ─► is it whole? ─► dlopen ─► pinhole_operators(api) ─► ph_user_ops
 *
 * Only a path that a person gave is loaded: never one that a model, a folder or the environment names, and
 * never by a name that the system's loader would look for.
 */
#ifndef PH_ENGINE_PLUGIN_H
#define PH_ENGINE_PLUGIN_H

#include "graph/user.h"

enum { PH_PLUGINS_MAX = 64 };

/* Code in memory, which the process has once however often its file is opened: what must hold of its calls
 * holds over all that opened it. */
typedef struct ph_plugin_image ph_plugin_image;

typedef struct ph_plugins {
    ph_user_ops     *ops; /* owned; NULL: none was asked for */
    ph_plugin_image *image[PH_PLUGINS_MAX];
    size_t           n;
} ph_plugins;

/* Load all of path[n]; on failure *p is zeroed.  n 0 is no error: *p stays empty.
 * Errors: PH_EPATH no such file; PH_EMACHINE it is no library, cut short, or what it needs is not here;
 * PH_EFORMAT no entry; PH_ELIMIT more than PH_PLUGINS_MAX; those of ph_user_ops_add; each with the path.
 * From any thread: a file that is open already shares the lock of its calls. */
ph_rc ph_plugins_open(ph_plugins *p, const char *const *path, size_t n, ph_err *err);
/* After all graphs that were imported with p->ops, and traces of their runs.  Accepts a zeroed one. */
void ph_plugins_close(ph_plugins *p);

#endif
