/* ring.h - slots of one shared buffer that go from a stage to the next, and stay for a while.
 *
 *     empty ─ claim ─► filling ─ give ─► queued ─ take ─► read ─ keep ─► kept ─ claim (evicts) ─► filling ...
 *
 * What the one side writes into a slot the other reads there: nothing is copied.  Who claims gets a slot that
 * is empty, else evicts a kept one; what is queued or read is never evicted, so nothing is lost, and who
 * claims waits instead: that bounds the queue.  A kept slot's content may serve again until then (a picture
 * that is asked about twice); a reader beside the first holds it.
 *
 * Evicted is the slot whose time is over first: its stamp, which is when it was kept, plus the stay of its
 * modality.  Stays are longer the shorter the answer that is waited for: text 8 s, sound 4 s, a picture 2 s,
 * a video 1 s.  So among slots of one age the low-latency modalities stay longest, and yet none stays forever
 * beside newer ones.  Of equal times the lower slot goes.
 *
 * One side gives, one takes; they may be two threads.
 */
#ifndef PH_SCHED_RING_H
#define PH_SCHED_RING_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_RING_SLOTS_MAX = 16 };

typedef enum ph_stay { PH_STAY_TEXT, PH_STAY_SOUND, PH_STAY_PICTURE, PH_STAY_VIDEO, PH_N_STAYS } ph_stay;
extern const uint64_t ph_stay_ns[PH_N_STAYS];

typedef struct ph_ring ph_ring;

/* One buffer of n_slots * slot_bytes, slots without gaps; address space until it is touched.  Errors:
 * PH_EUSAGE no slot or too many; PH_ELIMIT; PH_ENOMEM. */
ph_rc ph_ring_open(ph_ring **r, int n_slots, size_t slot_bytes, ph_err *err);
void  ph_ring_close(ph_ring *r); /* accepts NULL */
void *ph_ring_at(const ph_ring *r, int slot);
int   ph_ring_slots(const ph_ring *r);

/* ---- the side that gives ---- */
int  ph_ring_claim(ph_ring *r);                        /* a slot to fill; waits until there is one */
void ph_ring_give(ph_ring *r, int slot, ph_stay what); /* to the end of the queue */
void ph_ring_end(ph_ring *r);                          /* nothing more is given */
/* A slot that is queued, read or kept is read by the one that is being filled, too: it stays until drop(). */
void ph_ring_hold(ph_ring *r, int slot);

/* ---- the side that takes ---- */
/* The next in the order in which they were given; waits for it.  -1: none will come. */
int  ph_ring_take(ph_ring *r);
void ph_ring_keep(ph_ring *r, int slot, uint64_t now_ns); /* read: stays until it is evicted */
void ph_ring_empty(ph_ring *r, int slot);                 /* read, and nothing in it is of use */
void ph_ring_drop(ph_ring *r, int slot);                  /* what hold() began */
/* May be given to and taken from again after end(), when neither side is at work; what was kept stays. */
void ph_ring_begin(ph_ring *r);

/* How often a kept slot was evicted for another. */
size_t ph_ring_evicted(const ph_ring *r);

#endif
