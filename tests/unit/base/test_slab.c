/* test_slab.c - the slab against a model, and the pool. */
#include "base/mem.h"
#include "base/slab.h"
#include "tests/unit/unit.h"

#include <stdint.h>
#include <string.h>

static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

void test_slab_first_fit(void) {
    ph_slab      *s;
    ph_slab_stats m;
    CHECK(!ph_slab_open(&s, 10 * 256, 8, NULL));
    char *a = ph_slab_take(s, 256), *b = ph_slab_take(s, 500), *c = ph_slab_take(s, 1);
    CHECK((uintptr_t)a % PH_SLAB_ALIGN == 0 && b == a + 256 && c == b + 512);
    ph_slab_measure(s, &m);
    CHECK(m.size == 2560 && m.used == 1024 && m.peak == 1024 && m.n_blocks == 3 && m.largest_free == 1536);
    CHECK(m.fragmentation < 1e-9);
    ph_slab_give(s, b);
    ph_slab_measure(s, &m);
    CHECK(m.used == 512 && m.largest_free == 1536);
    CHECK_SAY(m.fragmentation > 0.249 && m.fragmentation < 0.251, "%f", m.fragmentation);
    CHECK(ph_slab_take(s, 1537) == NULL);
    CHECK(ph_slab_take(s, 256) == b); /* the lowest hole, not the largest */
    ph_slab_give(s, a);
    ph_slab_give(s, b); /* a, b and what is left of b's hole become one again */
    CHECK(ph_slab_take(s, 768) == a);
    ph_slab_give(s, a);
    ph_slab_give(s, c);
    ph_slab_give(s, NULL);
    ph_slab_measure(s, &m);
    CHECK(m.used == 0 && m.largest_free == 2560 && m.n_blocks == 0 && m.peak == 1024);
    ph_slab_close(s);
    ph_slab_close(NULL);
}

enum { GRAINS = 400, BLOCKS = 60 };

/* The model: a map of 256-byte grains; first fit is a search from the left. */
static int model_take(unsigned char *map, size_t grains) {
    for (size_t i = 0, run = 0; i < GRAINS; i++) {
        run = map[i] ? 0 : run + 1;
        if (run == grains) {
            memset(&map[i + 1 - grains], 1, grains);
            return (int)(i + 1 - grains);
        }
    }
    return -1;
}

static size_t model_largest(const unsigned char *map) {
    size_t best = 0, run = 0;
    for (size_t i = 0; i < GRAINS; i++) {
        run = map[i] ? 0 : run + 1;
        if (run > best) best = run;
    }
    return best;
}

void test_slab_model(void) {
    static unsigned char map[GRAINS];
    unsigned char       *block[BLOCKS] = {0}, *base;
    size_t               grains[BLOCKS] = {0}, used = 0, peak = 0, n_full = 0;
    int                  at[BLOCKS] = {0}, n_out = 0;
    ph_slab             *s;
    uint32_t             seed = 12345;
    memset(map, 0, sizeof map);
    CHECK(!ph_slab_open(&s, (size_t)GRAINS * 256, BLOCKS - 10, NULL));
    base = ph_slab_take(s, 1);
    ph_slab_give(s, base);
    for (int step = 0; step < 40000; step++) {
        uint32_t i = next_random(&seed) % BLOCKS;
        if (block[i]) {
            for (size_t k = 0; k < grains[i] * 256 - 7; k += 97) CHECK(block[i][k] == (unsigned char)i);
            ph_slab_give(s, block[i]);
            memset(&map[at[i]], 0, grains[i]);
            used -= grains[i];
            block[i] = NULL;
            n_out--;
        } else {
            uint32_t r = next_random(&seed);
            grains[i] = 1 + (r & 1 ? r / 2 % 4 : r / 2 % 30);
            block[i] = ph_slab_take(s, grains[i] * 256 - 7);
            if (n_out == BLOCKS - 10) {
                CHECK(!block[i]);
                continue;
            }
            at[i] = model_take(map, grains[i]);
            CHECK_SAY(block[i] == (at[i] < 0 ? NULL : base + at[i] * 256), "step %d, %zu grains", step,
                      grains[i]);
            n_full += at[i] < 0;
            if (!block[i]) continue;
            memset(block[i], (int)i, grains[i] * 256 - 7);
            used += grains[i];
            if (used > peak) peak = used;
            n_out++;
        }
        if (step % 64) continue;
        ph_slab_stats m;
        size_t        left = GRAINS - used, largest = model_largest(map);
        double        want = left ? 1.0 - (double)largest / (double)left : 0;
        ph_slab_measure(s, &m);
        CHECK(m.used == used * 256 && m.peak == peak * 256 && m.n_blocks == (size_t)n_out);
        CHECK(m.largest_free == largest * 256);
        CHECK(m.fragmentation > want - 1e-9 && m.fragmentation < want + 1e-9);
    }
    CHECK(n_full > 50); /* the region was too small often enough to be tested */
    ph_slab_close(s);
}

void test_slab_limits(void) {
    ph_slab *s;
    CHECK(ph_slab_open(&s, 0, 4, NULL) == PH_ELIMIT && ph_slab_open(&s, 4096, 0, NULL) == PH_ELIMIT);
    CHECK(ph_slab_open(&s, SIZE_MAX, 4, NULL) == PH_ELIMIT && !s);
    CHECK(ph_slab_open(&s, 4096, SIZE_MAX, NULL) == PH_ELIMIT && !s);
    CHECK(ph_slab_overhead(100) >= 100 * 24 && ph_slab_overhead(100) < 100 * 200);
    CHECK(ph_slab_overhead(SIZE_MAX) == 0);
    CHECK(!ph_slab_open(&s, 4096, 2, NULL));
    void *a = ph_slab_take(s, 0), *b = ph_slab_take(s, 1);
    CHECK(a && b && a != b && !ph_slab_take(s, 1) && !ph_slab_take(s, SIZE_MAX));
    ph_slab_give(s, a);
    CHECK(ph_slab_take(s, 5) == a);
    ph_slab_close(s);
    CHECK(!ph_slab_open(&s, 4096, 1, NULL));
    a = ph_slab_take(s, 4096);
    CHECK(a && !ph_slab_take(s, 1));
    ph_slab_close(s);
}

/* What a plan says of blocks that are used holds of the process, within a twentieth: with huge pages too. */
void test_slab_touches(void) {
    enum { SIZE = 128 << 20, BLOCK = 192 << 10, SLACK = 256 << 10 };
    ph_slab *s;
    ph_mem   before, now;
    if (!ph_mem_heap().system) return; /* a sanitizer's own memory hides the slab's */
    CHECK(ph_mem_read(&before) && !ph_slab_open(&s, SIZE, SIZE / BLOCK, NULL));
    for (size_t used = BLOCK; used < SIZE * 3 / 4; used += BLOCK) {
        void *block = ph_slab_take(s, BLOCK);
        CHECK(block);
        if (block) memset(block, 1, BLOCK);
        if (used / BLOCK % 16 != 1) continue;
        CHECK(ph_mem_read(&now));
        size_t more = now.rss_anon + now.swap - before.rss_anon - before.swap;
        CHECK_SAY(more + SLACK > used && more < used + used / 20 + SLACK, "%zu bytes used, %zu more resident",
                  used, more);
    }
    ph_slab_close(s);
}

void test_pool_items(void) {
    enum { N = 50, ITEM = 24 };
    static void *bytes[N * ITEM / sizeof(void *)];
    void        *item[N];
    ph_pool      p;
    uint32_t     seed = 7;
    ph_pool_init(&p, bytes, ITEM, N);
    for (int i = 0; i < N; i++) {
        item[i] = ph_pool_take(&p);
        CHECK(item[i] == (char *)bytes + i * ITEM);
        memset(item[i], i, ITEM);
    }
    CHECK(!ph_pool_take(&p) && p.used == N && p.peak == N);
    for (int step = 0; step < 2000; step++) {
        int i = (int)(next_random(&seed) % N), k = (int)(next_random(&seed) % N);
        CHECK(((unsigned char *)item[i])[ITEM - 1] == (unsigned char)i);
        ph_pool_give(&p, item[i]);
        if (i != k) ph_pool_give(&p, item[k]);
        item[i] = ph_pool_take(&p);
        if (i != k) item[k] = ph_pool_take(&p);
        CHECK(item[i] && item[k] && !ph_pool_take(&p));
        memset(item[i], i, ITEM);
        memset(item[k], k, ITEM);
    }
    for (int i = 0; i < N; i++) ph_pool_give(&p, item[i]);
    ph_pool_give(&p, NULL);
    CHECK(p.used == 0 && p.peak == N);
}
