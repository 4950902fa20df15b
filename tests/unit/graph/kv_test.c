/* kv_test.c - the KV cache against a plain model of it. */
#include "graph/kv_page.h"
#include "tests/unit/graph/graph_help.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/graph/tests.def"
#undef PH_TEST

enum { LAYERS = 3, SEQUENCES = 5, CONTEXT = 300 };
static ph_kv_layer layers[LAYERS] = {{2, 4, 4}, {1, 8, 6}, {3, 2, 2}};

static ph_kv_spec spec_of(size_t tokens, ph_dtype dtype) {
    return (ph_kv_spec){layers, LAYERS, SEQUENCES, CONTEXT, tokens, dtype, 0};
}

/* What a token's first key number must be. */
static float mark(int layer, int stamp, int index) {
    return (float)(layer * 1000000 + stamp * 1000 + index);
}

static float *key_at(const ph_kv *kv, int layer, int sequence, int index) {
    ph_kv_page *p = ph_kv_at(kv, layer, sequence, index);
    return p ? (float *)p->k + index % PH_KV_PAGE : NULL;
}

/* Random begin, extend, truncate and end; every token written must still be there. */
void test_kv_random(void) {
    ph_kv     *kv;
    ph_err     err = {0};
    ph_kv_spec spec = spec_of(SEQUENCES * CONTEXT, PH_F32);
    uint64_t   state = 99;
    int        length[SEQUENCES], stamp[SEQUENCES] = {0}, stamps = 0;
    size_t     bytes;
    CHECK(!ph_kv_open(&kv, &spec, &err) && !ph_kv_bytes(&spec, &bytes, &err));
    for (int i = 0; i < SEQUENCES; i++) length[i] = -1;
    for (int step = 0; step < 3000; step++) {
        int s = gh_below(&state, SEQUENCES), what = gh_below(&state, 8);
        if (what == 0 && length[s] >= 0) {
            ph_kv_end(kv, s);
            length[s] = -1;
        } else if (what == 1 && length[s] >= 0) {
            int to = gh_below(&state, length[s] + 1);
            ph_kv_truncate(kv, s, to);
            length[s] = to;
        } else if (length[s] < 0) {
            int got;
            CHECK(!ph_kv_begin(kv, &got, &err) && length[got] == -1);
            length[got] = 0;
            stamp[got] = ++stamps % 900;
        } else {
            int   to = length[s] + 1 + gh_below(&state, 100);
            ph_rc rc = ph_kv_extend(kv, s, to, &err);
            CHECK(rc == (to > CONTEXT ? PH_ECONTEXT : PH_OK));
            for (int i = length[s]; !rc && i < to; i++)
                for (int l = 0; l < LAYERS; l++) *key_at(kv, l, s, i) = mark(l, stamp[s], i);
            if (!rc) length[s] = to;
        }
        size_t used = 0;
        for (int i = 0; i < SEQUENCES; i++) {
            CHECK(ph_kv_length(kv, i) == (length[i] < 0 ? 0 : length[i]));
            for (int l = 0; l < LAYERS; l++) {
                used += (size_t)((length[i] < 0 ? 0 : length[i] + 63) / 64) * ph_kv_page_bytes(&spec, l);
                CHECK(!ph_kv_at(kv, l, i, length[i] < 0 ? 0 : length[i]));
                if (length[i] <= 0) continue;
                int at = gh_below(&state, length[i]);
                CHECK(*key_at(kv, l, i, at) >= mark(l, stamp[i], at) &&
                      *key_at(kv, l, i, at) <= mark(l, stamp[i], at));
                ph_kv_page *last = ph_kv_at(kv, l, i, length[i] - 1);
                CHECK(last->count == (length[i] - 1) % 64 + 1 &&
                      last->position == (length[i] - 1) / 64 * 64 && last->layer == l &&
                      last->references == 1);
            }
        }
        CHECK(ph_kv_used_bytes(kv) == used);
    }
    ph_slab_stats stats;
    ph_kv_stats(kv, &stats);
    CHECK(stats.used == ph_kv_used_bytes(kv) && stats.size <= bytes);
    ph_kv_close(kv);
    ph_kv_close(NULL);
}

/* Fewer pages than sequences want: the one that fails changes nothing, and goes on when another ends. */
void test_kv_exhaustion(void) {
    ph_kv     *kv;
    ph_err     err = {0};
    ph_kv_spec spec = spec_of(320, PH_F16);
    int        a = -1, b = -1, more;
    CHECK(!ph_kv_open(&kv, &spec, &err));
    CHECK(!ph_kv_begin(kv, &a, &err) && !ph_kv_begin(kv, &b, &err));
    CHECK(!ph_kv_extend(kv, a, 300, &err));
    size_t used = ph_kv_used_bytes(kv);
    CHECK(!ph_kv_extend(kv, b, 20, &err) && ph_kv_used_bytes(kv) > used);
    used = ph_kv_used_bytes(kv);
    ph_rc rc = ph_kv_extend(kv, b, 300, &err);
    CHECK_SAY(rc == PH_ENOMEM && ph_kv_length(kv, b) == 20 && ph_kv_used_bytes(kv) == used, "%s %s",
              ph_rc_name(rc), err.msg);
    CHECK(strstr(err.msg, "20 to 300"));
    ph_kv_end(kv, a);
    CHECK(!ph_kv_extend(kv, b, 300, &err) && ph_kv_length(kv, b) == 300);
    CHECK(ph_kv_extend(kv, a, 3, &err) == PH_EBUG); /* ended */
    for (int i = 1; i < SEQUENCES; i++) CHECK(!ph_kv_begin(kv, &more, &err));
    CHECK(ph_kv_begin(kv, &more, &err) == PH_ELIMIT && more == -1);
    for (int i = 0; i < SEQUENCES; i++) ph_kv_end(kv, i);
    ph_kv_end(kv, 17);
    CHECK(!ph_kv_used_bytes(kv));
    ph_kv_close(kv);
}

/* Pages listed by two: read by both, copied before one of them writes, given back by the last. */
void test_kv_share(void) {
    ph_kv     *kv;
    ph_err     err = {0};
    ph_kv_spec spec = spec_of(SEQUENCES * CONTEXT, PH_F32);
    int        a = -1, b = -1;
    CHECK(!ph_kv_open(&kv, &spec, &err) && !ph_kv_begin(kv, &a, &err) && !ph_kv_begin(kv, &b, &err));
    CHECK(!ph_kv_extend(kv, a, 200, &err));
    for (int i = 0; i < 200; i++) *key_at(kv, 0, a, i) = mark(0, 1, i);
    CHECK(ph_kv_share(kv, a, 150, b) == 128 && ph_kv_length(kv, b) == 128);
    CHECK(ph_kv_at(kv, 0, a, 100) == ph_kv_at(kv, 0, b, 100) && ph_kv_at(kv, 0, b, 100)->references == 2);
    CHECK(ph_kv_share(kv, a, 64, b) == 0 && ph_kv_share(kv, a, 64, a) == 0); /* b is not empty */
    ph_kv_truncate(kv, b, 70);
    CHECK(ph_kv_at(kv, 0, a, 100)->count == 64);
    CHECK(!ph_kv_extend(kv, b, 80, &err));
    CHECK(ph_kv_at(kv, 0, a, 100) != ph_kv_at(kv, 0, b, 69) &&
          ph_kv_at(kv, 0, b, 5) == ph_kv_at(kv, 0, a, 5));
    CHECK(*key_at(kv, 0, b, 69) >= mark(0, 1, 69) && *key_at(kv, 0, b, 69) <= mark(0, 1, 69));
    *key_at(kv, 0, b, 75) = -1;
    CHECK(*key_at(kv, 0, a, 75) > 0);
    ph_kv_end(kv, a);
    CHECK(*key_at(kv, 0, b, 5) > 0 && ph_kv_at(kv, 0, b, 5)->references == 1);
    ph_kv_end(kv, b);
    CHECK(!ph_kv_used_bytes(kv));
    ph_kv_close(kv);
}

void test_kv_spec(void) {
    ph_err      err;
    ph_kv      *kv;
    size_t      n;
    ph_kv_layer huge = {1 << 16, INT32_MAX, INT32_MAX}, none = {0, 4, 4};
    ph_kv_spec  s = spec_of(100, PH_F32);
    s.dtype = PH_I8;
    CHECK(ph_kv_open(&kv, &s, &err) == PH_EUNSUP && !kv);
    s = spec_of(0, PH_F32);
    CHECK(ph_kv_bytes(&s, &n, &err) == PH_ELIMIT);
    s = spec_of(SIZE_MAX / 2, PH_F32);
    s.context = INT32_MAX, s.n_sequences = 1 << 20;
    CHECK(ph_kv_open(&kv, &s, &err) == PH_ELIMIT);
    s = spec_of(100, PH_F32);
    s.layer = &none, s.n_layers = 1;
    CHECK(ph_kv_open(&kv, &s, &err) == PH_ELIMIT);
    s.layer = &huge, s.tokens = SIZE_MAX / 2, s.context = INT32_MAX;
    CHECK(ph_kv_open(&kv, &s, &err) != PH_OK);
    CHECK(ph_kv_page_bytes(&s, 5) == 0);
    s = spec_of(64, PH_F16);
    CHECK(ph_kv_page_bytes(&s, 0) == 2 * 64 * 8 * 2);
    CHECK(!ph_kv_open(&kv, &s, &err) && ph_kv_layers(kv) == LAYERS && ph_kv_layer_at(kv, 1).d_v == 6);
    ph_kv_close(kv);
}

/* Bytes of each type, counted by hand: heads of 80 and 40 are three and two blocks of 32. */
void test_kv_types(void) {
    static const struct {
        ph_dtype dtype;
        size_t   page, held;
    } types[] = {{PH_F32, 2 * 64 * (80 + 40) * 4, 0},
                 {PH_F16, 2 * 64 * (80 + 40) * 2, 0},
                 {PH_BF16, 2 * 64 * (80 + 40) * 2, 0},
                 {PH_Q8_0, 2 * 64 * (3 + 2) * 34, 0},
                 {PH_Q4_1, 2 * (80 * 2 + 64 * 2) * 20, 2 * 64 * (80 + 40) * 2}};
    ph_kv_layer wide[] = {{2, 80, 40}, {2, 80, 40}};
    ph_err      err;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ph_kv_spec s = {wide, 2, 3, 640, 1920, types[i].dtype, 192};
        size_t     all, fewer, page = (types[i].page + 255) / 256 * 256, held = types[i].held;
        CHECK_SAY(ph_kv_page_bytes(&s, 1) == page, "%zu", ph_kv_page_bytes(&s, 1));
        CHECK(ph_kv_token_bytes(&s, 0) == types[i].page / 64);
        CHECK(ph_kv_held_bytes(&s, 3, 10, 3) == 2 * 3 * 2 * held + 3 * held);
        CHECK(ph_kv_held_bytes(&s, 3, 1, 0) == 2 * 3 * held);
        CHECK(!ph_kv_bytes(&s, &all, &err) && all >= 2 * 30 * page + 15 * held &&
              all < 2 * 30 * page + 15 * held + 30000);
        s.rows = 63;
        CHECK(!ph_kv_bytes(&s, &fewer, &err) && all - fewer >= 3 * held && all - fewer < 3 * held + 1000);
    }
}

/* A token's keys become one column of a page of plain numbers, its values one row, and nothing else is
 * touched; more channels than are narrowed at a time. */
void test_kv_columns(void) {
    enum { HEADS = 3, D = 50, DV = 6, SLOT = 37 };
    static const ph_dtype             types[] = {PH_F32, PH_F16, PH_BF16};
    static const ph_kv_layer          l = {HEADS, D, DV};
    static float                      k[HEADS * D], v[HEADS * DV], got[HEADS * D * PH_KV_PAGE];
    _Alignas(64) static unsigned char keys[sizeof got], values[sizeof(float) * HEADS * DV * PH_KV_PAGE];
    ph_kernels                        kernels = gh_kernels();
    for (int i = 0; i < HEADS * D; i++) k[i] = (float)(i + 1); /* exact in all of them */
    for (int i = 0; i < HEADS * DV; i++) v[i] = (float)(-i - 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ph_kv_page page = {.dtype = types[i], .k = keys, .v = values};
        memset(keys, 0, sizeof keys), memset(values, 0, sizeof values);
        ph_kv_store(&kernels, &page, &l, k, v, SLOT);
        ph_dtype_get(types[i])->unpack(got, keys, HEADS * D * PH_KV_PAGE);
        for (int e = 0; e < HEADS * D * PH_KV_PAGE; e++)
            CHECK(got[e] == (e % PH_KV_PAGE == SLOT ? k[e / PH_KV_PAGE] : 0));
        ph_dtype_get(types[i])->unpack(got, values, HEADS * DV * PH_KV_PAGE);
        for (int e = 0; e < HEADS * DV * PH_KV_PAGE; e++)
            CHECK(got[e] == (e / DV % PH_KV_PAGE == SLOT ? v[e / DV / PH_KV_PAGE * DV + e % DV] : 0));
    }
}
