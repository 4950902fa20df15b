/* ort_memory.c - the allocator that ORT has its memory from: malloc, with a count.
 *
 * A block begins LEAD bytes before what is handed out; its size stands there.  Nothing is kept when it is
 * given back, so pictures of many sizes leave nothing behind.  ORT goes on with whatever it is given, NULL
 * too: what cannot be given is an exception of its own language, which unwinds this file's frames (both kinds
 * of processor have tables for that) and comes back as a status.
 */
#include "engine/ort/ort_env.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LEAD = 64 }; /* ORT wants this alignment */

static struct count {
    atomic_size_t        now, peak, most, limit;
    atomic_uint_fast64_t allocations, refused;
} count;

static const ph_ort_api *the_api;
static ort_place        *the_place;

static void *refuse(void) {
    atomic_fetch_add(&count.refused, 1);
    if (the_api->throw_bad_alloc) the_api->throw_bad_alloc();
    return NULL;
}

static int has_room(size_t now) {
    size_t limit = atomic_load(&count.limit);
    return !limit || now <= limit;
}

static void lift(atomic_size_t *peak, size_t to) {
    size_t was = atomic_load(peak);
    while (to > was && !atomic_compare_exchange_weak(peak, &was, to)) {}
}

static void *alloc(ort_allocator *a, size_t n) {
    (void)a;
    if (n > SIZE_MAX / 2) return refuse();
    size_t whole = (n + 2 * LEAD - 1) / LEAD * LEAD;
    size_t now = atomic_fetch_add(&count.now, whole) + whole;
    char  *block = has_room(now) ? aligned_alloc(LEAD, whole) : NULL;
    if (!block) {
        atomic_fetch_sub(&count.now, whole);
        return refuse();
    }
    memcpy(block, &whole, sizeof whole);
    atomic_fetch_add(&count.allocations, 1);
    lift(&count.peak, now);
    lift(&count.most, now);
    return block + LEAD;
}

static void release(ort_allocator *a, void *p) {
    size_t whole;
    (void)a;
    if (!p) return;
    char *block = (char *)p - LEAD;
    memcpy(&whole, block, sizeof whole);
    atomic_fetch_sub(&count.now, whole);
    free(block);
}

static const ort_place *place(const ort_allocator *a) {
    (void)a;
    return the_place;
}

ort_allocator *ph_ort_allocator(const ph_ort_api *api, ort_place *where) {
    static ort_allocator the = {18, alloc, release, place, alloc};
    the_api = api;
    the_place = where;
    return &the;
}

ph_ort_memory ph_ort_memory_read(void) {
    return (ph_ort_memory){.now = atomic_load(&count.now),
                           .peak = atomic_load(&count.peak),
                           .most = atomic_load(&count.most),
                           .allocations = atomic_load(&count.allocations),
                           .refused = atomic_load(&count.refused)};
}

void ph_ort_memory_mark(void) {
    atomic_store(&count.peak, atomic_load(&count.now));
}

void ph_ort_memory_limit(size_t bytes) {
    atomic_store(&count.limit, bytes);
}
