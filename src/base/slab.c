/* slab.c - first fit over one region, and pools of equal items.
 *
 * The region's head holds three tables: nodes (one a block, given out or free,
 * linked in the order of their addresses), the stack of unused nodes, and a hash
 * table from a block's place to its node, so that giving back needs no search:
 *
 *     [ ph_slab | nodes | spare | slots ] [ .... size bytes of blocks .... ]
 *
 * Taking looks at the free blocks from the lowest address on.  A free block never
 * has a free neighbour.
 */
#include "base/slab.h"

#include "base/asan.h"
#include "base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NONE = UINT32_MAX };
enum { HUGE_FROM = 20 * PH_HUGE_PAGE };

typedef struct node {
    size_t   at, bytes; /* from the first block on; multiples of PH_SLAB_ALIGN */
    uint32_t prev, next;
    int      is_free;
} node;

struct ph_slab {
    unsigned char *bytes; /* [size] */
    size_t         size, used, peak, n_blocks, blocks_max;
    node          *nodes; /* [n_nodes] */
    uint32_t      *spare; /* [n_spare] of [n_nodes]: nodes not in use */
    uint32_t      *slots; /* [n_slots]: node + 1 of a block given out, 0: empty */
    size_t         n_nodes, n_spare, n_slots;
    uint32_t       first, lowest_free; /* nodes; lowest_free may be stale, but none below it is free */
};

/* How the head is laid out; one place, so that overhead and open agree. */
typedef struct layout {
    size_t nodes, spare, slots, all; /* byte offsets */
    size_t n_nodes, n_slots;
} layout;

/* 0: the numbers do not fit. */
static int lay(layout *l, size_t blocks_max) {
    if (blocks_max > UINT32_MAX / 8) return 0;
    /* Between n blocks there are at most n + 1 free ones. */
    l->n_nodes = 2 * blocks_max + 1;
    l->n_slots = 4;
    while (l->n_slots < 2 * blocks_max) l->n_slots *= 2;
    l->nodes = ph_round_up(sizeof(ph_slab), sizeof(void *) * 2);
    l->spare = l->nodes + l->n_nodes * sizeof(node);
    l->slots = l->spare + l->n_nodes * sizeof(uint32_t);
    l->all = ph_round_up(l->slots + l->n_slots * sizeof(uint32_t), PH_SLAB_ALIGN);
    return 1;
}

size_t ph_slab_overhead(size_t blocks_max) {
    layout l;
    return lay(&l, blocks_max) ? l.all : 0;
}

/* A slab that caches cannot hold is read from memory: with pages of 4 KiB a tenth of that goes to their
 * tables.  Its begin has small pages, whatever the system likes to give: one huge page that is hardly used is
 * then at most a twentieth of what is, and a plan's figures hold.  So has its last piece: no byte behind the
 * slab is ever touched. */
static unsigned char *take_memory(size_t bytes) {
    size_t         align = bytes < HUGE_FROM + PH_HUGE_PAGE ? PH_SLAB_ALIGN : PH_HUGE_PAGE;
    unsigned char *p = aligned_alloc(align, ph_round_up(bytes, align));
    if (!p || align != PH_HUGE_PAGE) return p;
    madvise(p, HUGE_FROM, MADV_NOHUGEPAGE);
    madvise(p + HUGE_FROM, bytes / PH_HUGE_PAGE * PH_HUGE_PAGE - HUGE_FROM, MADV_HUGEPAGE);
    return p;
}

ph_rc ph_slab_open(ph_slab **out, size_t size, size_t blocks_max, ph_err *err) {
    layout l;
    size_t all;
    *out = NULL;
    if (!size || !blocks_max || !lay(&l, blocks_max) || size > SIZE_MAX / 2 ||
        ph_add_over(l.all, ph_round_up(size, PH_SLAB_ALIGN), &all))
        return PH_FAIL(err, PH_ELIMIT, "slab: %zu bytes in %zu blocks", size, blocks_max);
    unsigned char *p = take_memory(all);
    if (!p) return PH_FAIL(err, PH_ENOMEM, "slab: %zu bytes", all);
    ph_slab *s = (ph_slab *)(void *)p;
    *s = (ph_slab){
        .bytes = p + l.all,
        .size = ph_round_up(size, PH_SLAB_ALIGN),
        .blocks_max = blocks_max,
        .nodes = (node *)(void *)(p + l.nodes),
        .spare = (uint32_t *)(void *)(p + l.spare),
        .slots = (uint32_t *)(void *)(p + l.slots),
        .n_nodes = l.n_nodes,
        .n_slots = l.n_slots,
    };
    memset(s->slots, 0, l.n_slots * sizeof *s->slots);
    for (size_t i = l.n_nodes; i-- > 1;) s->spare[s->n_spare++] = (uint32_t)i;
    s->nodes[0] = (node){.bytes = s->size, .prev = NONE, .next = NONE, .is_free = 1};
    PH_POISON(s->bytes, s->size);
    *out = s;
    return PH_OK;
}

void ph_slab_close(ph_slab *s) {
    if (!s) return;
    PH_UNPOISON(s->bytes, s->size);
    free(s);
}

static size_t slot_of(const ph_slab *s, size_t at) {
    return (size_t)((at / PH_SLAB_ALIGN) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (s->n_slots - 1);
}

static void slot_put(ph_slab *s, uint32_t n) {
    size_t i = slot_of(s, s->nodes[n].at);
    while (s->slots[i]) i = (i + 1) & (s->n_slots - 1);
    s->slots[i] = n + 1;
}

/* Empty slot i and pull back those behind it that would no longer be found. */
static void slot_clear(ph_slab *s, size_t i) {
    size_t mask = s->n_slots - 1;
    for (size_t j = (i + 1) & mask; s->slots[j]; j = (j + 1) & mask) {
        size_t home = slot_of(s, s->nodes[s->slots[j] - 1].at);
        if (((j - home) & mask) >= ((j - i) & mask)) {
            s->slots[i] = s->slots[j];
            i = j;
        }
    }
    s->slots[i] = 0;
}

/* The node of the block at `at`, and its slot; NONE: no block was given out there. */
static uint32_t slot_find(const ph_slab *s, size_t at, size_t *slot) {
    for (size_t i = slot_of(s, at); s->slots[i]; i = (i + 1) & (s->n_slots - 1))
        if (s->nodes[s->slots[i] - 1].at == at) {
            *slot = i;
            return s->slots[i] - 1;
        }
    return NONE;
}

/* Cut n after `bytes`; the rest becomes a free node behind it. */
static void split(ph_slab *s, uint32_t n, size_t bytes) {
    assert(s->n_spare);
    node    *block = &s->nodes[n];
    uint32_t r = s->spare[--s->n_spare];
    s->nodes[r] = (node){
        .at = block->at + bytes, .bytes = block->bytes - bytes, .prev = n, .next = block->next, .is_free = 1};
    if (block->next != NONE) s->nodes[block->next].prev = r;
    block->next = r;
    block->bytes = bytes;
}

/* Node b, right behind a, becomes part of a. */
static void merge(ph_slab *s, uint32_t a, uint32_t b) {
    s->nodes[a].bytes += s->nodes[b].bytes;
    s->nodes[a].next = s->nodes[b].next;
    if (s->nodes[b].next != NONE) s->nodes[s->nodes[b].next].prev = a;
    s->spare[s->n_spare++] = b;
}

void *ph_slab_take(ph_slab *s, size_t bytes) {
    if (bytes > s->size || s->n_blocks == s->blocks_max) return NULL;
    size_t   want = ph_round_up(bytes ? bytes : 1, PH_SLAB_ALIGN);
    uint32_t n = s->lowest_free, seen = 0;
    for (; n != NONE; n = s->nodes[n].next) {
        if (!s->nodes[n].is_free) continue;
        if (!seen++) s->lowest_free = n;
        if (s->nodes[n].bytes >= want) break;
    }
    if (n == NONE) return NULL;
    if (s->nodes[n].bytes > want) split(s, n, want);
    s->nodes[n].is_free = 0;
    slot_put(s, n);
    s->n_blocks++;
    s->used += want;
    if (s->used > s->peak) s->peak = s->used;
    unsigned char *p = s->bytes + s->nodes[n].at;
    PH_UNPOISON(p, bytes);
    return p;
}

void ph_slab_give(ph_slab *s, void *block) {
    size_t slot = 0;
    if (!block) return;
    size_t   at = (size_t)((unsigned char *)block - s->bytes);
    uint32_t n = slot_find(s, at, &slot);
    assert(n != NONE && "given back twice, or never taken");
    if (n == NONE) return;
    slot_clear(s, slot);
    s->n_blocks--;
    s->used -= s->nodes[n].bytes;
    PH_POISON(block, s->nodes[n].bytes);
    s->nodes[n].is_free = 1;
    uint32_t prev = s->nodes[n].prev, next = s->nodes[n].next;
    if (next != NONE && s->nodes[next].is_free) {
        if (s->lowest_free == next) s->lowest_free = n;
        merge(s, n, next);
    }
    if (prev != NONE && s->nodes[prev].is_free) {
        if (s->lowest_free == n) s->lowest_free = prev;
        merge(s, prev, n);
        n = prev;
    }
    if (s->nodes[n].at < s->nodes[s->lowest_free].at) s->lowest_free = n;
}

void ph_slab_measure(const ph_slab *s, ph_slab_stats *out) {
    *out = (ph_slab_stats){.size = s->size, .used = s->used, .peak = s->peak, .n_blocks = s->n_blocks};
    for (uint32_t n = s->first; n != NONE; n = s->nodes[n].next)
        if (s->nodes[n].is_free && s->nodes[n].bytes > out->largest_free)
            out->largest_free = s->nodes[n].bytes;
    size_t left = s->size - s->used;
    if (left) out->fragmentation = 1.0 - (double)out->largest_free / (double)left;
}

void ph_pool_init(ph_pool *p, void *base, size_t item, size_t n) {
    assert(item >= sizeof(void *) && item % sizeof(void *) == 0);
    *p = (ph_pool){.base = base, .item = item, .n = n};
}

/* Items are threaded onto the free list when they come back, not before: a pool
 * never touches memory that was not taken.  While the list is empty, the first
 * `peak` items are all out, so the next one is number `peak`. */
void *ph_pool_take(ph_pool *p) {
    void *item = p->free;
    if (item)
        memcpy(&p->free, item, sizeof(void *));
    else if (p->peak < p->n)
        item = p->base + p->item * p->peak++;
    else
        return NULL;
    p->used++;
    return item;
}

void ph_pool_give(ph_pool *p, void *item) {
    if (!item) return;
    assert(p->used);
    memcpy(item, &p->free, sizeof(void *));
    p->free = item;
    p->used--;
}
