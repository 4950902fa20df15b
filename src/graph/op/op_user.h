/* op_user.h - a call of a plug-in's function: what it is about, and what went wrong in it. */
#ifndef PH_GRAPH_OP_OP_USER_H
#define PH_GRAPH_OP_OP_USER_H

#include "graph/user.h"

typedef struct ph_user_call { /* a pinhole_op_node, first member */
    pinhole_op_node node;
    const ph_graph *g;
    const ph_node  *n;
    ph_err         *err; /* filled by the first fail() */
    ph_rc          *rc;  /* of it */
} ph_user_call;

int         ph_user_dim(const pinhole_dim *d, ph_dim *out); /* 0: it was not made by the api */
pinhole_dim ph_user_dim_of(const ph_dim *d);

/* "com.acme::Gate (plug-in acme), node 'x': ..." */
ph_rc ph_user_fail(const ph_user_call *c, ph_rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
