/* layout.c - lifetimes to offsets, greedy by size.
 *
 * The largest buffer is placed first; each next one goes to the smallest gap that
 * holds it between the buffers already placed whose lives touch its own, or behind
 * them.  Equal sizes keep their order, so the same input gives the same offsets.
 * Source: Pisarchyk and Lee, arXiv:2001.03288, §5.1.
 */
#include "graph/plan.h"

#include "base/mem.h"

#include <stdint.h>

enum { ALIGN = 64 };

static size_t padded(const ph_life *l) {
    return ph_round_up(l->bytes, ALIGN);
}

static int touch(const ph_life *a, const ph_life *b) {
    return a->first <= b->last && b->first <= a->last;
}

static ph_rc check(const ph_life *life, size_t n, ph_err *err) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (life[i].first > life[i].last)
            return PH_FAIL(err, PH_EBUG, "layout: buffer %zu lives from %d to %d", i, life[i].first,
                           life[i].last);
        if (life[i].bytes > SIZE_MAX / 2 || ph_add_over(sum, padded(&life[i]), &sum))
            return PH_FAIL(err, PH_ELIMIT, "layout: %zu buffers are larger than memory can be", n);
    }
    return PH_OK;
}

/* Does life a stand before life b in the order of placing? */
static int before(const ph_life *life, size_t a, size_t b) {
    if (life[a].bytes != life[b].bytes) return life[a].bytes > life[b].bytes;
    return a < b;
}

/* order[n] as a heap, then sorted in place: no allocation, no recursion, no worst case. */
static void sift(const ph_life *life, size_t *order, size_t at, size_t n) {
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(life, order[child], order[child + 1])) child++;
        if (!before(life, order[at], order[child])) return;
        size_t swap = order[at];
        order[at] = order[child];
        order[child] = swap;
    }
}

static void sort_by_size(const ph_life *life, size_t *order, size_t n) {
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t i = n / 2; i-- > 0;) sift(life, order, i, n);
    for (size_t end = n; end-- > 1;) {
        size_t swap = order[0];
        order[0] = order[end];
        order[end] = swap;
        sift(life, order, 0, end);
    }
}

/* Put placed[n-1], the newest, where it belongs by offset. */
static void insert_by_offset(const ph_life *life, size_t *placed, size_t n) {
    for (size_t i = n - 1; i > 0 && life[placed[i - 1]].offset > life[placed[i]].offset; i--) {
        size_t swap = placed[i];
        placed[i] = placed[i - 1];
        placed[i - 1] = swap;
    }
}

/* The smallest gap for l between those placed, sorted by offset, that it touches. */
static size_t best_gap(const ph_life *life, const size_t *placed, size_t n, const ph_life *l) {
    size_t end = 0, best = SIZE_MAX, best_gap_bytes = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const ph_life *p = &life[placed[i]];
        if (!touch(p, l)) continue;
        if (p->offset >= end && p->offset - end >= padded(l) && p->offset - end < best_gap_bytes) {
            best = end;
            best_gap_bytes = p->offset - end;
        }
        if (p->offset + padded(p) > end) end = p->offset + padded(p);
    }
    return best == SIZE_MAX ? end : best;
}

ph_rc ph_layout(ph_life *life, size_t n, size_t *order, size_t *peak, ph_err *err) {
    *peak = 0;
    PH_TRY(check(life, n, err));
    sort_by_size(life, order, n);
    /* order's head becomes the list of those placed, by offset; its tail is still by size. */
    for (size_t i = 0; i < n; i++) {
        ph_life *l = &life[order[i]];
        l->offset = padded(l) ? best_gap(life, order, i, l) : 0;
        if (l->offset + padded(l) > *peak) *peak = l->offset + padded(l);
        insert_by_offset(life, order, i + 1);
    }
    return PH_OK;
}

/* Buffers alive at once need at least their sum; lives are intervals, so the worst step begins one of them.
 */
size_t ph_layout_bound(const ph_life *life, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t sum = 0;
        for (size_t k = 0; k < n; k++)
            if (life[k].first <= life[i].first && life[i].first <= life[k].last) sum += padded(&life[k]);
        if (sum > most) most = sum;
    }
    return most;
}
