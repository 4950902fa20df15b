/* hostile.c - plug-ins that are wrong, one a CASE: built by tests/unit/engine/plugin_test.c and
 * tests/flow/plugin.sh. */
#include "pinhole_op.h"

#include <stddef.h>

#if CASE != 1 /* 1: a library without the entry */
static int infer(const pinhole_op_node *n, const pinhole_op_value *in, int n_in, pinhole_op_value *out,
                 int n_out) {
    (void)n_in, (void)n_out;
    out[0] = in[0];
#if CASE == 5
    out[0].dim[0] = n->api->dim(-3);
#elif CASE == 6
    out[0].rank = 9;
#elif CASE == 7
    out[0].dim[0] = n->api->dim((int64_t)1 << 62);
#elif CASE == 8
    return n->api->fail(n, PINHOLE_OP_EUNSUP, "rows of %d are not done", 24);
#endif
    (void)n;
    return 0;
}

#if CASE == 14 /* y: how many calls were in it at the same time, at most */
#include <stdatomic.h>
#include <time.h>

static int eval(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                int n_out, void *scratch, size_t bytes) {
    static atomic_int inside, most;
    int               now = atomic_fetch_add(&inside, 1) + 1, was = atomic_load(&most);
    (void)n, (void)in, (void)n_in, (void)n_out, (void)scratch, (void)bytes;
    while (now > was && !atomic_compare_exchange_weak(&most, &was, now)) {}
    for (clock_t end = clock() + CLOCKS_PER_SEC / 2000; clock() < end;) {}
    for (int i = 0; i < out[0].dim[0]; i++) ((float *)out[0].data)[i] = (float)atomic_load(&most);
    atomic_fetch_sub(&inside, 1);
    return 0;
}
#else
static int eval(const pinhole_op_node *n, const pinhole_array *in, int n_in, const pinhole_array *out,
                int n_out, void *scratch, size_t bytes) {
    (void)in, (void)n_in, (void)out, (void)n_out, (void)scratch, (void)bytes;
    return n->api->fail(n, PINHOLE_OP_EFORMAT, "row %d holds the number %g", 2, 0.5);
}
#endif

static const pinhole_op ops[] = {{.domain = CASE == 9 ? "com.microsoft" : "com.acme",
                                  .name = CASE == 4 ? NULL : "AdapterDispatch",
                                  .since = 1,
                                  .in_min = 1,
                                  .in_max = -1,
                                  .out_min = 1,
                                  .out_max = CASE == 10 ? 1000 : 1,
                                  .infer = infer,
                                  .eval = CASE == 11 ? NULL : eval},
                                 {.domain = "com.acme", /* from here on: 13, which is sound but for eval */
                                  .name = "AdapterDispatch",
                                  .since = 3,
                                  .in_min = 1,
                                  .in_max = 1,
                                  .out_min = 1,
                                  .out_max = 1,
                                  .infer = infer,
                                  .eval = eval},
                                 {.domain = "com.acme",
                                  .name = "AdapterDispatchMore",
                                  .since = 1,
                                  .in_min = 1,
                                  .in_max = 1,
                                  .out_min = 1,
                                  .out_max = 1,
                                  .infer = infer,
                                  .eval = eval}};

static const pinhole_op_table table = {.abi = PINHOLE_OP_ABI + (CASE == 2),
                                       .op_size = sizeof(pinhole_op),
                                       .size = sizeof(pinhole_op_table),
                                       .name = "hostile",
                                       .version = "0.1",
                                       .ops = ops,
                                       .n_ops = CASE == 13 ? 3 : 1};

const pinhole_op_table *pinhole_operators(const pinhole_op_api *api) {
    (void)api;
    return CASE == 3 ? NULL : &table;
}
#else
int nothing_of_ours(void);
int nothing_of_ours(void) {
    return 1;
}
#endif
