/* threads.h - one crew of workers; the caller is worker 0.
 *
 * Work is a range [first, n) of units.  Workers claim small pieces of it from
 * one counter, so a worker that the machine slows down claims less and nobody
 * waits for it long.  Between two ranges idle workers spin briefly, then park.
 *
 *     begin ---- claim, claim, ... ---- all units done ---- return      (one barrier)
 */
#ifndef PH_BASE_THREADS_H
#define PH_BASE_THREADS_H

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ph_threads ph_threads;

/* Units [begin, end) are yours; worker is 0 .. count-1 and names a private scratch. */
typedef void ph_task(void *arg, size_t begin, size_t end, int worker);

/* When to stop claiming: at a time, or when someone sets *cancel.  Zeroed: never. */
typedef struct ph_until {
    uint64_t          deadline_ns; /* of ph_clock_ns; 0: none */
    const atomic_int *cancel;      /* borrowed; NULL: none */
} ph_until;
int ph_until_reached(const ph_until *until); /* NULL: 0 */

ph_rc ph_threads_open(ph_threads **t, int count, ph_err *err); /* count >= 1, the caller included */
void  ph_threads_close(ph_threads *t);                         /* accepts NULL */
int   ph_threads_count(const ph_threads *t);

/* Run task over units [first, n), pieces of at most `piece` units, on all workers; return when every
 * claimed piece is done.  The result is the first unit not done: n, or less when `until` was reached
 * (units below it are all done), from where a later call goes on.  Allocates nothing.  Calls may not nest. */
size_t ph_threads_run(ph_threads *t, ph_task *task, void *arg, size_t first, size_t n, size_t piece,
                      const ph_until *until);

/* How many ranges with more than one piece were handed to more than one worker: each is a barrier. */
uint64_t ph_threads_barriers(const ph_threads *t);

#endif
