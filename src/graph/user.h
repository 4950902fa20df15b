/* user.h - operators of plug-ins (pinhole_op.h): checked, and as operators of ours.
 *
 *     pinhole_op_table ─► ph_user_ops_add ─► ph_op, by domain, name and version ─► nodes of imported graphs
 *
 * A registry is a handle that whoever imports a model hands down (ph_onnx_import_how.user): two graphs of one
 * process may have different ones, and nothing is global.  Nodes point into it: it outlives its graphs.
 * Loading libraries is engine/plugin.h.
 */
#ifndef PH_GRAPH_USER_H
#define PH_GRAPH_USER_H

#include "graph/op.h"

#include "pinhole_op.h"

#include <pthread.h>

enum { PH_USER_NAME = 64 }; /* bytes of a domain, a name, a plug-in's name or version, with the terminator */

/* A plug-in. */
typedef struct ph_user_lib {
    char             name[PH_USER_NAME], version[PH_USER_NAME];
    const char      *path; /* for messages */
    size_t           n_ops;
    pthread_mutex_t *lock; /* held in its functions, unless they may be called at the same time; not owned */
} ph_user_lib;

/* One of its operators: ph_op.user. */
typedef struct ph_user {
    ph_op                     op; /* op.user is this */
    pinhole_op                theirs;
    ph_user_lib              *lib;
    const struct ph_user_ops *all; /* the registry that it is in */
    char        domain[PH_USER_NAME], name[PH_USER_NAME], full[2 * PH_USER_NAME + 2]; /* "com.acme::Gate" */
    const char *attrs;                                                                /* or NULL: any */
} ph_user;

typedef struct ph_user_ops ph_user_ops;

ph_rc ph_user_ops_open(ph_user_ops **u, ph_err *err);
void  ph_user_ops_close(ph_user_ops *u); /* accepts NULL; before the libraries are unloaded */

/* All operators of the table that the plug-in at path gave, or none.  lock: of its code, one for all
 * registries that have it; it outlives u.
 * Errors: PH_EUNSUP another ABI; PH_EFORMAT no table, names or functions that are not there, counts, flags;
 * PH_EMISMATCH a domain that is not for plug-ins, an operator that is there already, naming both; PH_ENOMEM.
 */
ph_rc ph_user_ops_add(ph_user_ops *u, const pinhole_op_table *table, const char *path, pthread_mutex_t *lock,
                      ph_err *err);

/* What a plug-in's entry is given. */
const pinhole_op_api *ph_user_api(void);

ph_dtype ph_user_dtype(int type);  /* of a pinhole_type; PH_N_DTYPES: none */
int      ph_user_type(ph_dtype t); /* PINHOLE_NONE: none of theirs */

/* The newest of an operator that is there since `version` of its domain, or NULL.  u may be NULL.  *oldest,
 * where it is not NULL: the version since which there is any; 0: there is none. */
const ph_op *ph_user_op_find(const ph_user_ops *u, const char *domain, const char *name, int64_t version,
                             int *oldest);
/* May a plug-in bring operators of it? */
int ph_user_domain(const char *domain);

size_t             ph_user_op_count(const ph_user_ops *u); /* 0 for NULL */
const ph_user     *ph_user_op_at(const ph_user_ops *u, size_t i);
size_t             ph_user_lib_count(const ph_user_ops *u);
const ph_user_lib *ph_user_lib_at(const ph_user_ops *u, size_t i);

/* ---- for graph/ ---- */
/* The functions of a ph_op that call those of a plug-in (op/op_user.c), and what says it in ONNX. */
void ph_user_op_fill(ph_op *op);

#endif
