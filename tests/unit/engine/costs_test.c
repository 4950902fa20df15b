/* costs_test.c - measured times in a file and back, and files that are none. */
#include "engine/costs.h"

#include "base/file.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char good[] =
    "{\"pinhole_costs\":1,\"device\":{\"cpu\":\"one\",\"isa\":\"ref\",\"processors\":2},\"threads\":2,"
    "\"model\":\"0123456789abcdef0123456789abcdef\",\"options\":\"exact 0\",\"rounds\":3,\"costs\":["
    "{\"stage\":\"see\",\"engine\":\"native\",\"release\":\"\",\"sizes\":{\"I\":4},\"holds\":7,\"us\":5.5,"
    "\"least\":5,"
    "\"most\":6},"
    "{\"stage\":\"see\",\"engine\":\"ort\",\"release\":\"1.32.0\",\"sizes\":{\"I\":4},\"holds\":7,\"us\":4,"
    "\"least\":4,"
    "\"most\":4}]}";

/* good with `from` made `to`. */
static ph_rc changed(ph_costs *c, const char *from, const char *to, ph_err *err) {
    static char text[2 * sizeof good];
    const char *at = strstr(good, from);
    CHECK_SAY(at, "%s", from);
    *err = (ph_err){0};
    if (!at) return PH_OK;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return ph_costs_read(c, text, strlen(text), "costs.json", err);
}

void test_costs_read(void) {
    static ph_costs c;
    ph_err          err = {0};
    CHECK_SAY(!ph_costs_read(&c, good, sizeof good - 1, "costs.json", &err), "%s", err.msg);
    CHECK(c.n == 2 && c.rounds == 3 && c.key.threads == 2 && c.key.processors == 2 &&
          !strcmp(c.key.cpu, "one"));
    CHECK(c.at[1].stage == PH_COST_SEE && !strcmp(c.at[1].engine, "ort") &&
          !strcmp(c.at[1].release, "1.32.0"));
    CHECK(c.at[1].us == 4 && c.at[1].sizes.at[PH_SYM_I] == 4 && c.at[0].us == 5.5 && c.at[0].most == 6);
    /* What is not known yet stands beside what is. */
    CHECK(!changed(&c, "\"rounds\"", "\"note\":[1,{}],\"rounds\"", &err));
}

void test_costs_bad(void) {
    static const struct {
        const char *from, *to, *words;
        ph_rc       rc;
    } rows[] = {
        {"{\"pinhole_costs\":1,", "{", "pinhole_costs", PH_EFORMAT},
        {"costs\":1", "costs\":2", "costs of version 2; this program reads 1", PH_EUNSUP},
        {"costs\":1", "costs\":\"1\"", "pinhole_costs: expected an integer", PH_EFORMAT},
        {"\"cpu\":\"one\",", "", "device.cpu", PH_EFORMAT},
        {"\"ref\"", "\"a set of instructions\"", "device.isa: 21 bytes, at most 15", PH_EFORMAT},
        {"\"processors\":2", "\"processors\":0", "device: processors is 0", PH_EFORMAT},
        {"\"threads\":2", "\"threads\":257", "threads", PH_EFORMAT},
        {"0123456789abcdef0", "0123456789ABCDEF0", "model: no 32 hexadecimal digits", PH_EFORMAT},
        {"0123456789abcdef0", "0", "model: no 32 hexadecimal digits", PH_EFORMAT},
        {"\"rounds\":3", "\"rounds\":-3", "rounds", PH_EFORMAT},
        {"\"costs\":[", "\"cost\":[", "costs: there are none", PH_EFORMAT},
        {"\"costs\":[", "\"costs\":[7,", "costs[0]", PH_EFORMAT},
        {"\"see\"", "\"hear\"", "costs[0].stage: 'hear' is none of see, bridge, prefill, step", PH_EFORMAT},
        {"\"native\"",
         "\"an engine whose name is longer than any, even than ONNX Runtime's own of a provider with a "
         "device\"",
         "costs[0].engine: 97 bytes", PH_EFORMAT},
        {"\"ort\"", "\"native\"", "costs[1]: see on native stands there twice", PH_EFORMAT},
        {"\"I\":4", "\"Q\":4", "no size is called 'Q'", PH_EFORMAT},
        {"\"I\":4", "\"\":4", "no size is called ''", PH_EFORMAT},
        {"\"I\":4", "\"I\":-1", "a size of -1", PH_EFORMAT},
        {"\"I\":4", "\"I\":99999999999", "a size of 99999999999", PH_EFORMAT},
        {"\"I\":4", "\"I\":1.5", "sizes.I", PH_EFORMAT},
        {"{\"I\":4}", "[4]", "sizes", PH_EFORMAT},
        {"\"holds\":7", "\"holds\":-7", "costs[0].holds: -7 bytes", PH_EFORMAT},
        {"\"holds\":7", "\"holds\":9000000000000", "costs[0].holds: 9000000000000 bytes", PH_EFORMAT},
        {"\"holds\":7,", "", "costs[0].holds", PH_EFORMAT},
        {"5.5", "0", "costs[0].us: 0 microseconds are no time", PH_EFORMAT},
        {"5.5", "-1", "costs[0].us: -1 microseconds", PH_EFORMAT},
        {"5.5", "NaN", "costs[0].us: nan", PH_EFORMAT},
        {"5.5", "Infinity", "costs[0].us: inf", PH_EFORMAT},
        {"5.5", "1e14", "costs[0].us", PH_EFORMAT},
        {"5.5", "7", "a median of 7 outside 5 to 6", PH_EFORMAT},
        {"\"us\":5.5,", "", "costs[0].us", PH_EFORMAT},
        {"]}", "]", "costs.json", PH_EFORMAT},
        {"]}", "],\"kinds\":7}", "kinds", PH_EFORMAT},
        {"]}", "],\"kinds\":[7]}", "kinds[0]", PH_EFORMAT},
        {"]}", "],\"kinds\":[{\"stage\":\"hear\"}]}", "kinds[0].stage: 'hear'", PH_EFORMAT},
        {"]}", "],\"kinds\":[{\"stage\":\"see\",\"engine\":\"native\",\"kind\":7}]}", "kinds[0].kind",
         PH_EFORMAT},
        {"]}", "],\"kinds\":[{\"stage\":\"see\",\"engine\":\"native\",\"kind\":\"a\",\"us\":-1,\"runs\":1}]}",
         "kinds[0].us: -1 is out of range", PH_EFORMAT},
        {"]}", "],\"kinds\":[{\"stage\":\"see\",\"engine\":\"native\",\"kind\":\"a\",\"us\":1}]}",
         "kinds[0].runs", PH_EFORMAT},
    };
    static ph_costs c;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_err err;
        ph_rc  rc = changed(&c, rows[i].from, rows[i].to, &err);
        CHECK_SAY(rc == rows[i].rc, "row %zu: %s %s", i, ph_rc_name(rc), err.msg);
        CHECK_SAY(strstr(err.msg, rows[i].words), "row %zu: '%s' instead of '%s'", i, err.msg, rows[i].words);
    }
}

void test_costs_too_many(void) {
    static ph_costs c;
    static char     text[64 << 10];
    ph_err          err = {0};
    int n = snprintf(text, sizeof text, "%.*s", (int)(strstr(good, "\"costs\":[") - good + 9), good);
    for (int i = 0; i <= PH_COSTS_MAX; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%s{\"stage\":\"see\",\"engine\":\"e%d\",\"release\":\"\",\"holds\":7,\"us\":1,"
                      "\"least\":1,\"most\":1}",
                      i ? "," : "", i);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    CHECK(ph_costs_read(&c, text, strlen(text), "costs.json", &err) == PH_ELIMIT);
    CHECK_SAY(strstr(err.msg, "more than 64 costs"), "%s", err.msg);
}

/* Written, read, and written again: the same bytes. */
void test_costs_round(void) {
    static ph_costs c, back;
    char            folder[] = "/tmp/ph-costs-XXXXXX", path[64], again[64];
    ph_err          err = {0};
    ph_file         a = {0}, b = {0};
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/a.json", folder);
    snprintf(again, sizeof again, "%s/b.json", folder);
    CHECK(!ph_costs_read(&c, good, sizeof good - 1, "costs.json", &err));
    ph_cost_key_device(&c.key, "ref", 3);
    CHECK(c.key.processors >= 1 && c.key.cpu[0] && c.key.threads == 3);
    c.kind[c.n_kinds++] =
        (ph_cost_kind){.stage = PH_COST_STEP, .engine = "ort", .kind = "MatMul", .us = 2.5, .runs = 7};
    CHECK_SAY(!ph_costs_write(&c, path, &err), "%s", err.msg);
    CHECK_SAY(!ph_costs_open(&back, path, &err), "%s", err.msg);
    CHECK(back.n == c.n && !memcmp(&back.key, &c.key, sizeof c.key) && !memcmp(back.at, c.at, sizeof c.at));
    CHECK(!ph_file_open(&a, path, &err) && strstr((const char *)a.bytes, "\"kind\": \"MatMul\""));
    CHECK(back.n_kinds == 1 && !memcmp(back.kind, c.kind, sizeof *c.kind));
    CHECK(ph_costs_kinds_of(&back, PH_COST_STEP, "ort") == 1 &&
          !ph_costs_kinds_of(&back, PH_COST_SEE, "ort"));
    CHECK(!ph_costs_write(&back, again, &err));
    CHECK(!ph_file_open(&b, again, &err) && a.n == b.n && a.n && !memcmp(a.bytes, b.bytes, a.n));
    ph_file_close(&a);
    ph_file_close(&b);
    CHECK(ph_costs_open(&back, folder, &err) == PH_EPATH);
    CHECK(ph_costs_write(&c, folder, &err) == PH_EPATH);
    unlink(path);
    unlink(again);
    rmdir(folder);
}

void test_costs_key(void) {
    ph_cost_key a = {.cpu = "one", .isa = "ref", .processors = 2, .threads = 2, .model = "m", .options = "o"},
                b;
    char why[300];
    CHECK(ph_cost_key_same(&a, &a, why, sizeof why));
    for (int i = 0; i < 6; i++) {
        static const char *const words[] = {"processors 'two'", "3 processors", "kernels for avx2",
                                            "another model",    "of 1 thread",  "other options"};
        b = a;
        if (i == 0) snprintf(b.cpu, sizeof b.cpu, "two");
        if (i == 1) b.processors = 3;
        if (i == 2) snprintf(b.isa, sizeof b.isa, "avx2");
        if (i == 3) snprintf(b.model, sizeof b.model, "n");
        if (i == 4) b.threads = 1;
        if (i == 5) snprintf(b.options, sizeof b.options, "p");
        CHECK(!ph_cost_key_same(&b, &a, why, sizeof why));
        CHECK_SAY(strstr(why, words[i]), "%d: %s", i, why);
    }
}

void test_costs_place(void) {
    ph_cost_key a = {.cpu = "one", .threads = 2}, b = a;
    char        x[256], y[256], folder[] = "/tmp/ph-costs-XXXXXX";
    ph_err      err = {0};
    const char *cache = getenv("XDG_CACHE_HOME");
    char       *old = cache ? strdup(cache) : NULL;
    CHECK(mkdtemp(folder) != NULL);
    setenv("XDG_CACHE_HOME", folder, 1);
    b.threads = 1;
    CHECK(!ph_costs_place(x, sizeof x, &a, 0, &err) && !ph_costs_place(y, sizeof y, &b, 0, &err) &&
          strcmp(x, y));
    CHECK(!strncmp(x, folder, strlen(folder)) && strstr(x, "/pinhole/costs-") && access(folder, F_OK) == 0);
    snprintf(y, sizeof y, "%s/pinhole", folder);
    CHECK(access(y, F_OK)); /* asked for its name only */
    CHECK(!ph_costs_place(x, sizeof x, &a, 1, &err) && !access(y, F_OK));
    CHECK(ph_costs_place(x, 20, &a, 0, &err) == PH_EPATH);
    rmdir(y);
    FILE *f = fopen(y, "w"); /* a file where the folder should be */
    CHECK(f != NULL);
    if (f) fclose(f);
    setenv("XDG_CACHE_HOME", y, 1);
    CHECK(ph_costs_place(x, sizeof x, &a, 1, &err) == PH_EPATH && strstr(err.msg, "no folder can be made"));
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    CHECK(!ph_costs_place(x, sizeof x, &a, 0, &err) == (getenv("HOME") != NULL));
    if (getenv("HOME")) CHECK(strstr(x, "/.cache/pinhole/costs-") != NULL);
    unlink(y);
    rmdir(folder);
    if (old)
        setenv("XDG_CACHE_HOME", old, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(old);
}
