/* test_mem.c - checked sizes, this process's memory, sizes in words. */
#include "base/mem.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

void test_mem_checked(void) {
    size_t r = 7;
    CHECK(!ph_mul_over(6, 7, &r) && r == 42);
    CHECK(ph_mul_over(SIZE_MAX / 2 + 1, 2, &r) && r == 42);
    CHECK(!ph_add_over(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
    CHECK(ph_add_over(SIZE_MAX, 1, &r) && r == SIZE_MAX);
    CHECK(ph_round_up(0, 64) == 0 && ph_round_up(1, 64) == 64 && ph_round_up(128, 64) == 128);
}

void test_mem_process(void) {
    enum { MORE = 32 << 20 };
    ph_mem before, with, after;
    CHECK(ph_mem_read(&before) && before.rss > 0 && before.rss_peak > 0);
    CHECK(before.rss >= before.rss_anon && before.rss_anon > 0);
    CHECK(ph_mem_available() > 0);
    ph_heap        lean = ph_mem_heap();
    volatile char *p = malloc(MORE);
    ph_heap        more = ph_mem_heap();
    CHECK(p);
    CHECK_SAY(!lean.system || (more.used >= lean.used + MORE && more.system >= more.used),
              "%zu then %zu of %zu", lean.used, more.used, more.system);
    for (size_t i = 0; p && i < MORE; i += 4096) p[i] = 1;
    CHECK(ph_mem_read(&with));
    CHECK_SAY(with.rss_anon + with.swap > before.rss_anon + before.swap + MORE / 2, "%zu then %zu",
              before.rss_anon, with.rss_anon);
    CHECK(with.rss_peak >= with.rss_anon);
    free((void *)(uintptr_t)p);
    CHECK(ph_mem_read(&after) && after.rss_peak >= with.rss_peak / 2);
}

void test_mem_size_parse(void) {
    static const struct {
        const char *text;
        uint64_t    bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"17B", 17},
        {"1.8GB", 1800000000},
        {"1.8GiB", 1932735283},
        {"512M", 512000000},
        {"512m", 512000000},
        {"2k", 2000},
        {"2KiB", 2048},
        {"2Ki", 2048},
        {"0.5MB", 500000},
        {".5MB", 500000},
        {" 3 GB", 3000000000},
        {"16T", 16000000000000},
        {"1TiB", UINT64_C(1) << 40},
        {"1.0000000009GB", 1000000000},
        {"18446744073709551615", UINT64_MAX},
        {"0.123456MB", 123456},
    };
    static const char *const bad[] = {
        "",
        " ",
        "GB",
        ".",
        "1.",
        "1.GB",
        "-1",
        "+1",
        "1e9",
        "1.5",
        "1.5B",
        "1X",
        "1 G B",
        "1GB x",
        "0x10",
        "18446744073709551616",
        "20000000000000G",
        "1,5GB",
        "nan",
        "inf",
        "1GiBB",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t got = 1;
        int      ok = ph_size_parse(good[i].text, &got);
        CHECK_SAY(ok && got == good[i].bytes, "\"%s\": %d, %llu", good[i].text, ok, (unsigned long long)got);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t got = 77;
        CHECK_SAY(!ph_size_parse(bad[i], &got) && got == 77, "\"%s\" was taken for %llu", bad[i],
                  (unsigned long long)got);
    }
}

void test_mem_size_print(void) {
    static const struct {
        uint64_t    bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1.00 kB"},
        {1004, "1.00 kB"},
        {1005, "1.01 kB"},
        {999994, "999.99 kB"},
        {999999, "1.00 MB"},
        {1800000000, "1.80 GB"},
        {UINT64_C(2500000000000), "2.50 TB"},
        {UINT64_MAX, "18.45 EB"},
    };
    char out[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_size_print(out, sizeof out, rows[i].bytes);
        CHECK_SAY(!strcmp(out, rows[i].text), "%llu: \"%s\"", (unsigned long long)rows[i].bytes, out);
    }
    ph_size_print(out, 4, 123456789);
    CHECK(!strcmp(out, "123"));
}
