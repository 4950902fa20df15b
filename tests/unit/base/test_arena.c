/* test_arena.c - the three kinds of arena; a ruler agrees with what it measures. */
#include "base/arena.h"
#include "base/mem.h"
#include "tests/unit/unit.h"

#include <stdint.h>
#include <string.h>

void test_arena_ruler(void) {
    ph_arena r = ph_arena_ruler(), a;
    void    *p = &r;
    CHECK(ph_arena_carve(&r, &p, 10, 3, NULL) == PH_OK && !p);
    CHECK(ph_arena_carve(&r, &p, 1, 64, NULL) == PH_OK && r.used == 128);
    CHECK(ph_arena_carve(&r, &p, (size_t)-1, 8, NULL) == PH_ELIMIT && r.used == 128);
    CHECK(ph_arena_carve(&r, &p, SIZE_MAX - 10, 1, NULL) == PH_ELIMIT && r.used == 128);
    CHECK(ph_arena_zero(&r, &p, 3, 1, NULL) == PH_OK && !p && r.used == 192);
    CHECK(ph_arena_open(&a, r.used, NULL) == PH_OK);
    CHECK(ph_arena_carve(&a, &p, 10, 3, NULL) == PH_OK && p);
    CHECK(ph_arena_carve(&a, &p, 1, 64, NULL) == PH_OK);
    CHECK(ph_arena_zero(&a, &p, 3, 1, NULL) == PH_OK && a.used == r.used);
    CHECK(ph_arena_carve(&a, &p, 1, 1, NULL) == PH_ENOMEM && !p);
    ph_arena_close(&a);
    ph_arena_close(&r);
}

void test_arena_fixed(void) {
    ph_arena a;
    void    *p = NULL, *q = NULL;
    ph_err   err = {0};
    CHECK(ph_arena_open(&a, SIZE_MAX - 3, &err) == PH_ELIMIT && !a.base);
    CHECK(ph_arena_open(&a, 1000, NULL) == PH_OK && a.size == 1024);
    CHECK(!ph_arena_carve(&a, &p, 0, 4, NULL) && a.used == 0);
    CHECK(!ph_arena_carve(&a, &p, 1, 1, NULL) && !ph_arena_carve(&a, &q, 65, 1, NULL));
    CHECK((uintptr_t)p % PH_ALIGN == 0 && (char *)q - (char *)p == PH_ALIGN && a.used == 192);
    if (q) memset(q, 1, 65);
    ph_arena_reset(&a);
    CHECK(!ph_arena_zero(&a, &q, 1024, 1, NULL) && q == p);
    for (size_t i = 0; i < 1024; i++) CHECK(((char *)q)[i] == 0);
    CHECK(ph_arena_carve(&a, &q, 1, 1, &err) == PH_ENOMEM && strstr(err.msg, "0 left"));
    ph_arena_close(&a);
    ph_arena_close(&a);
}

enum { ITEMS = 600 };

/* Every item keeps its own bytes while the arena grows: nothing moves, nothing overlaps. */
void test_arena_growing(void) {
    static unsigned char *at[ITEMS];
    static size_t         bytes[ITEMS];
    ph_arena              a;
    size_t                total = 0;
    CHECK(ph_arena_open_growing(&a, SIZE_MAX, NULL) == PH_ELIMIT);
    CHECK(ph_arena_open_growing(&a, 1000, NULL) == PH_OK && a.base);
    for (int i = 0; i < ITEMS; i++) {
        void *p;
        bytes[i] = i % 17 == 0 ? 5000u : (size_t)(i * 37 % 300);
        CHECK(!ph_arena_carve(&a, &p, bytes[i], 1, NULL) && p && (uintptr_t)p % PH_ALIGN == 0);
        at[i] = p;
        memset(p, i, bytes[i]);
        total += ph_round_up(bytes[i], PH_ALIGN);
    }
    for (int i = 0; i < ITEMS; i++)
        for (size_t k = 0; k < bytes[i]; k++)
            if (at[i][k] != (unsigned char)i) {
                CHECK_SAY(0, "item %d, byte %zu", i, k);
                break;
            }
    CHECK_SAY(a.used == total, "%zu, %zu", a.used, total);
    CHECK_SAY(a.size >= total && a.size < total + total / 2 + 4096, "%zu held for %zu", a.size, total);
    void *p;
    CHECK(ph_arena_carve(&a, &p, SIZE_MAX / 2 + 999, 1, NULL) == PH_ENOMEM && !p);
    CHECK(ph_arena_carve(&a, &p, SIZE_MAX / 4, 8, NULL) == PH_ELIMIT && !p);
    ph_arena_reset(&a);
    CHECK(a.used == 0 && a.size == 1024 && a.base);
    CHECK(!ph_arena_zero(&a, &p, 200, 4, NULL) && p && a.size == 1024);
    ph_arena_close(&a);
    CHECK(!a.base && !a.chunk);
}

void test_arena_text(void) {
    ph_arena a, r = ph_arena_ruler();
    char    *s = NULL;
    CHECK(!ph_arena_open_growing(&a, 100, NULL));
    CHECK(!ph_arena_copy_text(&a, &s, "panel", 3, NULL) && s && !strcmp(s, "pan"));
    CHECK(!ph_arena_copy_text(&a, &s, NULL, 0, NULL) && s && !*s);
    CHECK(ph_arena_copy_text(&a, &s, "x", SIZE_MAX, NULL) == PH_ELIMIT && !s);
    CHECK(!ph_arena_copy_text(&r, &s, "panel", 5, NULL) && !s && r.used == PH_ALIGN);
    ph_arena_close(&a);
}
