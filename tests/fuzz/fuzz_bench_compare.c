/* seeds: tests/golden/bench */
/* fuzz_bench_compare.c - whatever the older run says: an error, or each row at most once, with a ratio that
 * can be a speed's. */
#include "measure/bench.h"

#include <math.h>
#include <stdlib.h>

static const ph_bench now = {.row = {{.stage = "see", .threads = 1, .n = 1, .median = 50, .unit = "ms"},
                                     {.stage = "step", .threads = 2, .n = 8, .median = 90, .unit = "tok/s"},
                                     {.stage = "step", .threads = 1, .n = 4, .median = 60, .unit = "tok/s"}},
                             .n_rows = 3};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_bench_ratio r[PH_BENCH_ROWS_MAX];
    size_t         found;
    if (ph_bench_compare(&now, bytes, n, "fuzz", 0.9, r, &found, NULL)) return 0;
    if (!found || found > now.n_rows) abort();
    for (size_t i = 0; i < found; i++) {
        if (!(r[i].ratio >= 0) || !(r[i].before > 0) || r[i].is_worse != (r[i].ratio < 0.9)) abort();
        for (size_t k = 0; k < i; k++)
            if (r[k].now == r[i].now) abort();
    }
    return 0;
}
