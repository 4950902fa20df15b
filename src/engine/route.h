/* route.h - which engine runs which part of a model, and why.
 *
 *     parts × engines, what each can take and costs ─► decide ─► an engine a part, the reason as text
 *
 * With measured times (costs.h): the placement whose times, and the copies at borders between engines, add up
 * to the least.  Without: a rule by class of engine,
 *
 *     npu    estimate <= 0.7 of the part's latency budget, at most 512 nodes, no control flow by data
 *     gpu    its largest value or constant has more than 10^6 elements, and it multiplies matrices
 *     cpu    everything else
 *
 * Either way the plan of the placement fits the memory that is given: placements are tried from the best on.
 * An engine that cannot take a part never gets it.  Pure: nothing is measured, opened or printed here, and
 * equal questions have equal answers.
 */
#ifndef PH_ENGINE_ROUTE_H
#define PH_ENGINE_ROUTE_H

#include "engine/engine.h"

enum {
    PH_ROUTE_PARTS = 6,
    PH_ROUTE_ENGINES = 8,
    PH_ROUTE_NPU_NODES = 512,        /* at most */
    PH_ROUTE_GPU_ELEMENTS = 1000000, /* more than */
    PH_ROUTE_NAME = PH_ENGINE_NAME,
    PH_ROUTE_TEXT = 200
};

typedef struct ph_route_engine {
    char            name[PH_ROUTE_NAME];
    ph_engine_class cls;
    double          border_bytes_a_us; /* as in ph_engine_def */
} ph_route_engine;

/* A part on an engine. */
typedef struct ph_route_cell {
    char   fault[PH_ROUTE_TEXT]; /* why the engine cannot take it; "": it can, or nobody tried */
    double estimate_us;          /* by its own rough constants; negative: nobody tried, it is fast enough */
    double measured_us;          /* of a question's whole work; negative: nobody measured */
} ph_route_cell;

typedef struct ph_route_part {
    char          name[16];
    size_t        nodes;
    int64_t       largest; /* elements of its largest value or constant, at the sizes of the load */
    int           has_products, goes_by_data;
    double        budget_us;    /* of latency */
    double        border_bytes; /* that it hands to the next part */
    int           asked;        /* the engine that the caller named; -1: one is to be chosen */
    ph_route_cell cell[PH_ROUTE_ENGINES];
    /* decided */
    int  engine;
    char why[PH_ROUTE_TEXT];
} ph_route_part;

typedef struct ph_route {
    ph_route_engine engine[PH_ROUTE_ENGINES]; /* [n_engines], in order of preference */
    ph_route_part   part[PH_ROUTE_PARTS];     /* [n_parts], in the order in which they run */
    size_t          n_engines, n_parts;
    uint64_t        memory_max; /* bytes that the plan may come to; 0: no limit */
    /* decided */
    int    is_measured;
    double us;     /* measured: of all parts and borders */
    size_t bytes;  /* of the plan, where there is a limit */
    size_t passed; /* better placements whose plans did not fit */
    int    fits;
} ph_route;

/* Bytes of the whole plan with these engines, one a part. */
typedef ph_rc ph_route_bytes(void *arg, const int *engine, size_t *out, ph_err *err);

/* Choose.  bytes is asked only where there is a limit, and may then be NULL for none.
 * Errors: PH_EUNSUP a part that no engine takes, or not the one that was asked for, with the reason;
 * PH_EBUDGET no placement fits: the one that holds the least stands in *r, with fits 0; PH_ELIMIT too many
 * placements; PH_ENOMEM; those of bytes. */
ph_rc ph_route_decide(ph_route *r, ph_route_bytes *bytes, void *arg, ph_err *err);

/* nodes, largest, has_products and goes_by_data of a graph at these sizes; a value whose size is beyond
 * counting is the largest there can be. */
void ph_route_look(ph_route_part *part, const ph_graph *g, const ph_syms *syms);

/* Does the rule let an engine of this class have the part? */
int ph_route_rule(const ph_route_part *part, ph_engine_class cls, double estimate_us);

#endif
