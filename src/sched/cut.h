/* cut.h - how many slots of a pipeline a device's memory can feed.
 *
 *     stages  a | b | c | d      each moves bytes in a time of its own
 *     slots  [a   b] [c] [d]     members of a slot run one after the other, slots run at the same time
 *
 * A slot draws what the hungriest of its members draws (bytes / time); slots run at once, so what they draw
 * adds up.  Each stage begins with a slot of its own; while the sum passes the device's bandwidth, the two
 * neighbours whose joined time is least share one, since the longest slot is the pipeline's pace.  One slot
 * is always left.
 */
#ifndef PH_SCHED_CUT_H
#define PH_SCHED_CUT_H

#include <stddef.h>

enum { PH_CUT_STAGES_MAX = 16 };

typedef struct ph_cut_stage {
    double bytes,
        seconds; /* of one item: what it moves between memory and processor, and how long it takes */
} ph_cut_stage;

typedef struct ph_cut {
    size_t n;                            /* slots */
    size_t begin[PH_CUT_STAGES_MAX + 1]; /* stages [begin[i], begin[i + 1]) share slot i */
    double drawn;                        /* bytes a second, of all slots together */
    double pace;                         /* seconds an item: of the longest slot */
} ph_cut;

/* bytes_a_second: of the device; 0 or less: not known, nothing is joined for it.  most: slots at most, 0: as
 * many as stages.  n is 1 .. PH_CUT_STAGES_MAX; times that are not above 0 draw nothing. */
void ph_cut_stages(ph_cut *out, const ph_cut_stage *stage, size_t n, double bytes_a_second, size_t most);

#endif
