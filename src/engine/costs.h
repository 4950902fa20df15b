/* costs.h - what parts of a model took on the engines of a device: measured once, kept in a file, read by
 * whoever places parts (route.h).
 *
 *     {"pinhole_costs": 1,
 *      "device": {"cpu": "...", "isa": "avx512", "processors": 2}, "threads": 2,
 *      "model": "32 hexadecimal digits", "options": "exact 0, rows8 0, unfused 0, kv F32", "rounds": 5,
 *      "costs": [{"stage": "see", "engine": "ort", "release": "1.32.0", "sizes": {"I": 4},
 *                 "holds": 28311552, "us": 81234.5, "least": 80100, "most": 83000}, ...],
 *      "kinds": [{"stage": "see", "engine": "ort", "kind": "MatMul", "us": 60211.2, "runs": 96}, ...]}
 *
 * A cost is of a stage's whole work for one question, at its sizes.  Times hold for this device, model,
 * number of threads and options, and each for its engine's release; otherwise they say nothing.  `model` is
 * what the graphs compute (ph_graph_fingerprint): equal work in another file costs the same.  `kinds`
 * (operators, within a stage) is for people, and may be left out; where it is there, each cost has some
 * unless its engine tells of no steps (steps_hidden), or somebody put the cost there who timed nothing: that
 * is said when it is used.
 */
#ifndef PH_ENGINE_COSTS_H
#define PH_ENGINE_COSTS_H

#include "engine/class.h"
#include "graph/graph.h"

enum { PH_COSTS_VERSION = 1, PH_COSTS_MAX = 64, PH_COST_KINDS_MAX = 512, PH_COSTS_BYTES_MAX = 1 << 20 };

typedef struct ph_cost_key {
    char cpu[128], isa[16];
    int  processors, threads;
    char model[PH_FINGERPRINT];
    char options[96]; /* of the session, as far as they change times */
} ph_cost_key;

/* The stages of the corridor that run parts; what a cost is of. */
typedef enum ph_cost_stage {
    PH_COST_SEE,
    PH_COST_BRIDGE,
    PH_COST_PREFILL,
    PH_COST_STEP,
    PH_N_COST_STAGES
} ph_cost_stage;
const char *ph_cost_stage_name(ph_cost_stage s); /* "see" */

typedef struct ph_cost {
    ph_cost_stage stage;
    char          engine[PH_ENGINE_NAME], release[48];
    size_t        holds; /* bytes that the engine holds itself, whatever it runs (ph_engine_def.holds) */
    ph_syms       sizes;
    double        us, least, most; /* median and range of the rounds */
} ph_cost;

typedef struct ph_cost_kind { /* of an engine's steps or operators */
    ph_cost_stage stage;
    char          engine[PH_ENGINE_NAME], kind[48];
    double        us, runs; /* together, in one question */
} ph_cost_kind;

typedef struct ph_costs {
    ph_cost_key  key;
    int          rounds;
    ph_cost      at[PH_COSTS_MAX];
    size_t       n;
    ph_cost_kind kind[PH_COST_KINDS_MAX];
    size_t       n_kinds;
} ph_costs;

/* The processor as this process sees it; threads as given. */
void ph_cost_key_device(ph_cost_key *key, const char *isa, int threads);

/* name begins messages.  Errors: PH_EFORMAT no such file, or what it says is none: types, ranges, a cost that
 * stands twice; PH_EUNSUP another version; PH_ELIMIT more costs than there can be. */
ph_rc ph_costs_read(ph_costs *c, const void *bytes, size_t n, const char *name, ph_err *err);
/* Of a file: also PH_EPATH, and PH_ELIMIT one that is larger than such a file can be. */
ph_rc ph_costs_open(ph_costs *c, const char *path, ph_err *err);
/* How many kinds of steps the file has of this stage on this engine. */
int ph_costs_kinds_of(const ph_costs *c, ph_cost_stage stage, const char *engine);
/* The file appears whole or not at all, and takes the place of an older one.  Errors: PH_EPATH, PH_EIO,
 * PH_ENOMEM. */
ph_rc ph_costs_write(const ph_costs *c, const char *path, ph_err *err);

/* Were they measured for what `now` says?  Else what differs first, as text. */
int ph_cost_key_same(const ph_cost_key *kept, const ph_cost_key *now, char *why, size_t size);

/* Where costs for this key are kept unless a file is named: pinhole/costs-HASH.json in XDG_CACHE_HOME, or
 * in .cache of HOME; the folder is made when is_made.  Errors: PH_EPATH neither is set, or no folder can be
 * made. */
ph_rc ph_costs_place(char *out, size_t size, const ph_cost_key *key, int is_made, ph_err *err);

#endif
