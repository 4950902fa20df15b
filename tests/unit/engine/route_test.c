/* route_test.c - the rule at its exact borders, and placements by measured times under a limit of memory. */
#include "engine/ort/ort.h"
#include "engine/route.h"

#include "tests/unit/engine/engine_help.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CPU, GPU, NPU, OTHER };

/* An engine of each class, and a second of the CPU's; every part of a thousand microseconds. */
static void make(ph_route *r, size_t n_parts) {
    static const char *const names[] = {"native", "gpu0", "npu0", "ort"};
    static const char *const parts[] = {"vision", "bridge", "language", "cross", "more", "last"};
    memset(r, 0, sizeof *r);
    r->n_engines = 4;
    r->n_parts = n_parts;
    for (int e = 0; e < 4; e++) {
        snprintf(r->engine[e].name, sizeof r->engine[e].name, "%s", names[e]);
        r->engine[e].cls = e == OTHER ? PH_ENGINE_CPU : (ph_engine_class)e;
    }
    for (size_t p = 0; p < n_parts; p++) {
        ph_route_part *part = &r->part[p];
        snprintf(part->name, sizeof part->name, "%s", parts[p]);
        *part =
            (ph_route_part){.nodes = 10, .largest = 10, .has_products = 1, .budget_us = 1000, .asked = -1};
        snprintf(part->name, sizeof part->name, "%s", parts[p]);
        for (int e = 0; e < 4; e++)
            part->cell[e] = (ph_route_cell){.estimate_us = e == NPU ? 2000 : 100, .measured_us = -1};
    }
}

static void refuse(ph_route_cell *c, const char *why) {
    snprintf(c->fault, sizeof c->fault, "%s", why);
}

static int takes(ph_route *r) {
    ph_err err = {0};
    ph_rc  rc = ph_route_decide(r, NULL, NULL, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    return rc ? -1 : r->part[0].engine;
}

static int says(const ph_route *r, const char *words) {
    int is = strstr(r->part[0].why, words) != NULL;
    if (!is) printf("  '%s' instead of '%s'\n", r->part[0].why, words);
    return is;
}

void test_route_rule_npu(void) {
    static const struct {
        double estimate, budget;
        size_t nodes;
        int    goes_by_data, is_npu;
    } rows[] = {
        {700, 1000, 512, 0, 1}, /* exactly 0.7 of it, and exactly 512 */
        {700.0000001, 1000, 512, 0, 0},
        {700, 999.9999, 512, 0, 0},
        {700, 1000, 513, 0, 0},
        {700, 1000, 512, 1, 0},
        {266000, 380000, 1, 0, 1}, /* 0.7 of 380 ms */
        {266000.001, 380000, 1, 0, 0},
        {0, 0, 1, 0, 1},
        {1e-9, 0, 1, 0, 0},
        {INFINITY, 1000, 1, 0, 0},
    };
    static ph_route r;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make(&r, 1);
        r.part[0].cell[NPU].estimate_us = rows[i].estimate;
        r.part[0].budget_us = rows[i].budget;
        r.part[0].nodes = rows[i].nodes;
        r.part[0].goes_by_data = rows[i].goes_by_data;
        int got = takes(&r);
        CHECK_SAY(got == (rows[i].is_npu ? NPU : CPU), "row %zu: engine %d", i, got);
    }
    CHECK(says(&r, "the first engine of its class that takes it; no npu: inf ms"));
    make(&r, 1);
    r.part[0].cell[NPU].estimate_us = 700;
    takes(&r);
    CHECK(says(&r, "by rule, npu: 0.7 ms estimated, at most 0.7 of 1.0 ms; 10 nodes; nothing goes by data"));
    r.part[0].nodes = 513;
    takes(&r);
    CHECK(says(&r, "; no npu: 513 nodes, more than 512"));
    r.part[0].goes_by_data = 1;
    takes(&r);
    CHECK(says(&r, "; no npu: what it does goes by data"));
}

void test_route_rule_gpu(void) {
    static const struct {
        int64_t largest;
        int     has_products, is_gpu;
    } rows[] = {{1000000, 1, 0}, {1000001, 1, 1}, {1000001, 0, 0}, {INT64_MAX, 1, 1}, {0, 1, 0}};
    static ph_route r;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make(&r, 1);
        r.part[0].largest = rows[i].largest;
        r.part[0].has_products = rows[i].has_products;
        int got = takes(&r);
        CHECK_SAY(got == (rows[i].is_gpu ? GPU : CPU), "row %zu: engine %d", i, got);
        CHECK(says(&r, rows[i].is_gpu          ? "by rule, gpu: its largest value has "
                       : !rows[i].has_products ? "; no gpu: it multiplies no matrices"
                                               : "elements, not above 1000000"));
    }
    make(&r, 1); /* both would take it: the npu comes first */
    r.part[0].largest = 2000000;
    r.part[0].cell[NPU].estimate_us = 1;
    CHECK(takes(&r) == NPU);
    refuse(&r.part[0].cell[NPU], "it is shy");
    CHECK(takes(&r) == GPU);
    refuse(&r.part[0].cell[GPU], "it is shy");
    CHECK(takes(&r) == CPU);
    refuse(&r.part[0].cell[CPU], "it is shy");
    CHECK(takes(&r) == OTHER);
}

/* What a graph is to the rule: exactly so many elements, with and without a product. */
static void look(int64_t rows, int is_product, int64_t largest) {
    ph_graph     *g;
    ph_err        err = {0};
    ph_route_part p;
    ph_syms       syms = {{0}};
    CHECK(!ph_graph_open(&g, "looked", &err));
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_sym(PH_SYM_R), ph_dim_of(1000)));
    int y = is_product ? ph_graph_node(g, "MatMul",
                                       PH_IN(x, ph_graph_node(g, "Transpose", PH_IN(x), PH_NO_ATTRS, "t")),
                                       PH_NO_ATTRS, "y")
                       : ph_graph_node(g, "Relu", PH_IN(x), PH_NO_ATTRS, "y");
    ph_graph_output(g, y, "out");
    CHECK_SAY(!ph_graph_finish(g, &err), "%s", err.msg);
    syms.at[PH_SYM_R] = rows;
    ph_route_look(&p, g, &syms);
    CHECK(p.nodes == (is_product ? 2u : 1u) && p.has_products == is_product && !p.goes_by_data);
    CHECK_SAY(p.largest == largest, "%lld", (long long)p.largest);
    ph_graph_close(g);
}

void test_route_look(void) {
    look(1000, 0, 1000000);
    look(1001, 0, 1001000);
    look(1000, 1, 1000000);
    look(2000, 1, 4000000);
    look(INT64_MAX / 2, 0, INT64_MAX); /* beyond counting */
    const ph_op *cached = ph_op_find("CachedAttention");
    CHECK(cached && cached->goes_by_data && cached->is_product);
    for (size_t i = 0; i < ph_op_count(); i++) {
        const char *name = ph_op_at(i)->name;
        if (strstr(name, "MatMul") || strstr(name, "Attention") || strstr(name, "Conv") ||
            !strcmp(name, "Linear"))
            CHECK_SAY(ph_op_at(i)->is_product, "%s", name);
    }
}

/* ---- measured ---- */

static void measure(ph_route *r, size_t part, double native, double gpu, double npu, double ort) {
    const double us[] = {native, gpu, npu, ort};
    for (int e = 0; e < 4; e++) r->part[part].cell[e].measured_us = us[e];
}

typedef struct table {
    size_t of[PH_ROUTE_PARTS][PH_ROUTE_ENGINES];
    size_t n_parts, asked;
} table;

static ph_rc bytes_of(void *arg, const int *engine, size_t *out, ph_err *err) {
    table *t = arg;
    (void)err;
    *out = 0;
    for (size_t p = 0; p < t->n_parts; p++) *out += t->of[p][engine[p]];
    t->asked++;
    return PH_OK;
}

static ph_rc fails(void *arg, const int *engine, size_t *out, ph_err *err) {
    (void)arg, (void)engine, (void)out;
    return PH_FAIL(err, PH_ELIMIT, "not to be counted");
}

void test_route_measured(void) {
    static ph_route r;
    make(&r, 2);
    r.part[0].cell[NPU].estimate_us = 1; /* the rule would say the npu */
    measure(&r, 0, 50, 40, 90, 60);
    measure(&r, 1, 5, 40, 90, 4);
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL));
    CHECK(r.is_measured && r.fits && r.part[0].engine == GPU && r.part[1].engine == OTHER && r.us == 44);
    CHECK(says(&r, "measured 0.04 ms; native 0.05 ms, npu0 0.09 ms, ort 0.06 ms"));
    /* A border that has to be crossed costs what is handed over: 30 us each way out of the gpu. */
    r.engine[GPU].border_bytes_a_us = 10;
    r.part[0].border_bytes = 300;
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL));
    CHECK(r.part[0].engine == CPU && r.part[1].engine == OTHER && r.us == 54);
    measure(&r, 0, 75, 40, 90, 76);
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL)); /* 40 + 30 + 4 = 74 beats 75 + 4 = 79 */
    CHECK(r.part[0].engine == GPU && r.part[1].engine == OTHER && r.us == 74);
    measure(&r, 1, 5, 33, 90, 4);
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL)); /* nothing to cross: 40 + 33 = 73 */
    CHECK(r.part[0].engine == GPU && r.part[1].engine == GPU && r.us == 73);
    /* Equal times: the engine that is preferred. */
    measure(&r, 0, 7, 7, 7, 7);
    measure(&r, 1, 7, 7, 7, 7);
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL));
    CHECK(r.part[0].engine == CPU && r.part[1].engine == CPU);
    /* One that nobody measured is none, one that cannot take it neither, however fast. */
    measure(&r, 0, 9, -1, 0.5, 1);
    refuse(&r.part[0].cell[NPU], "it keeps a state");
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL));
    CHECK(r.part[0].engine == OTHER && says(&r, "gpu0 not measured") && !strstr(r.part[0].why, "npu0"));
    /* Without times for a part the rule decides for all. */
    measure(&r, 1, -1, -1, -1, -1);
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL));
    CHECK(!r.is_measured && r.part[0].engine == CPU && r.us == 0);
}

void test_route_asked(void) {
    static ph_route r;
    ph_err          err = {0};
    make(&r, 2);
    measure(&r, 0, 1, 2, 3, 4);
    r.part[1].asked = OTHER; /* what nobody measured and nobody is to choose does not matter */
    CHECK(!ph_route_decide(&r, NULL, NULL, &err));
    CHECK(r.is_measured && r.part[0].engine == CPU && r.part[1].engine == OTHER);
    CHECK(!strcmp(r.part[1].why, "asked for"));
    refuse(&r.part[1].cell[OTHER], "it keeps the state 'kv'");
    CHECK(ph_route_decide(&r, NULL, NULL, &err) == PH_EUNSUP);
    CHECK(!strcmp(err.msg, "engine ort cannot take the part bridge: it keeps the state 'kv'"));
    make(&r, 1);
    for (int e = 0; e < 4; e++) refuse(&r.part[0].cell[e], "Nothing");
    CHECK(ph_route_decide(&r, NULL, NULL, &err) == PH_EUNSUP &&
          strstr(err.msg, "no engine takes the part vision"));
    r.n_engines = 0;
    CHECK(ph_route_decide(&r, NULL, NULL, &err) == PH_EUNSUP && strstr(err.msg, "there is no engine"));
}

void test_route_memory(void) {
    static ph_route r;
    table           t = {.of = {{10, 50, 20, 30}, {10, 50, 20, 30}}, .n_parts = 2};
    ph_err          err = {0};
    make(&r, 2);
    measure(&r, 0, 40, 10, 20, 30);
    measure(&r, 1, 400, 100, 200, 300);
    r.memory_max = 100; /* exactly what the best takes */
    CHECK(!ph_route_decide(&r, bytes_of, &t, &err));
    CHECK(r.part[0].engine == GPU && r.part[1].engine == GPU && r.bytes == 100 && t.asked == 1 && !r.passed);
    r.memory_max = 99; /* the smaller part gives way */
    CHECK(!ph_route_decide(&r, bytes_of, &t, &err));
    CHECK(r.part[0].engine == NPU && r.part[1].engine == GPU && r.bytes == 70 && r.us == 120 &&
          r.passed == 1);
    CHECK(says(&r, "; 1 better placement did not fit the memory"));
    r.memory_max = 20;
    CHECK(!ph_route_decide(&r, bytes_of, &t, &err));
    CHECK(r.part[0].engine == CPU && r.part[1].engine == CPU && r.bytes == 20 && r.us == 440);
    r.memory_max = 19;
    CHECK(ph_route_decide(&r, bytes_of, &t, &err) == PH_EBUDGET);
    CHECK(strstr(err.msg, "no placement of the parts on engines fits 19 bytes, the least takes 20:"));
    CHECK(!r.fits && r.part[0].engine == CPU && r.part[1].engine == CPU && r.bytes == 20);
    CHECK(says(&r, "no placement fits the memory"));
    CHECK(ph_route_decide(&r, fails, NULL, &err) == PH_ELIMIT);
    r.memory_max = 0; /* no limit: nobody is asked */
    CHECK(!ph_route_decide(&r, fails, NULL, &err) && r.fits);
}

/* By rule too: as few parts as possible leave the class that the rule names, the last first. */
void test_route_rule_memory(void) {
    static ph_route r;
    table           t = {.of = {{10, 50, 20, 5}, {10, 50, 20, 5}}, .n_parts = 2};
    make(&r, 2);
    r.part[0].largest = r.part[1].largest = 2000000;
    r.memory_max = 99;
    CHECK(!ph_route_decide(&r, bytes_of, &t, NULL));
    CHECK(r.part[0].engine == GPU && r.part[1].engine == CPU && r.bytes == 60);
    r.memory_max = 20;
    CHECK(!ph_route_decide(&r, bytes_of, &t, NULL));
    CHECK(r.part[0].engine == CPU && r.part[1].engine == CPU);
    r.memory_max = 15;
    CHECK(!ph_route_decide(&r, bytes_of, &t, NULL));
    CHECK(r.part[0].engine == CPU && r.part[1].engine == OTHER);
}

/* The best of all placements, by trying each here in another way. */
static double search(const ph_route *r, const table *t, size_t p, int before, double us, size_t held) {
    double best = INFINITY;
    if (p == r->n_parts) return held <= r->memory_max ? us : INFINITY;
    for (int e = 0; e < (int)r->n_engines; e++) {
        const ph_route_cell *c = &r->part[p].cell[e];
        double               cross = 0;
        if (c->fault[0] || c->measured_us < 0) continue;
        for (int side = 0; p && e != before && side < 2; side++) {
            double rate = r->engine[side ? e : before].border_bytes_a_us;
            if (rate > 0) cross += r->part[p - 1].border_bytes / rate;
        }
        double found = search(r, t, p + 1, e, us + c->measured_us + cross, held + t->of[p][e]);
        if (found < best) best = found;
    }
    return best;
}

void test_route_search(void) {
    static ph_route r;
    table           t;
    int             n_fits = 0;
    for (int trial = 0; trial < 200; trial++) {
        make(&r, 1 + eh_below(5));
        t = (table){.n_parts = r.n_parts};
        for (size_t p = 0; p < r.n_parts; p++) {
            r.part[p].border_bytes = (double)eh_below(50);
            for (int e = 0; e < 4; e++) {
                r.part[p].cell[e].measured_us = eh_below(9) ? (double)(1 + eh_below(100)) : -1;
                if (!eh_below(9)) refuse(&r.part[p].cell[e], "not today");
                t.of[p][e] = eh_below(100);
            }
            r.part[p].cell[CPU] = (ph_route_cell){.measured_us = (double)(1 + eh_below(100))};
        }
        for (int e = 1; e < 3; e++) r.engine[e].border_bytes_a_us = (double)eh_below(3);
        r.memory_max = 1 + eh_below(100 * r.n_parts);
        double best = search(&r, &t, 0, 0, 0, 0);
        ph_rc  rc = ph_route_decide(&r, bytes_of, &t, NULL);
        CHECK(rc == (best < INFINITY ? PH_OK : PH_EBUDGET));
        n_fits += !rc;
        if (!rc) CHECK_SAY(fabs(r.us - best) < 1e-9, "%g instead of %g", r.us, best);
    }
    CHECK(n_fits > 20 && n_fits < 200);
}

/* Six parts on eight engines are the most; what is asked again is answered the same. */
void test_route_most(void) {
    static ph_route r, again;
    make(&r, PH_ROUTE_PARTS);
    r.n_engines = PH_ROUTE_ENGINES;
    for (int e = 4; e < PH_ROUTE_ENGINES; e++) r.engine[e] = r.engine[OTHER];
    for (size_t p = 0; p < PH_ROUTE_PARTS; p++)
        for (size_t e = 0; e < PH_ROUTE_ENGINES; e++)
            r.part[p].cell[e] = (ph_route_cell){.measured_us = (double)(1 + eh_below(3))};
    again = r;
    CHECK(!ph_route_decide(&r, NULL, NULL, NULL) && !ph_route_decide(&again, NULL, NULL, NULL));
    CHECK(!memcmp(&r, &again, sizeof r));
}

/* ---- names of engines and their devices ---- */

void test_route_names(void) {
    static const struct {
        const char     *name, *engine, *device;
        ph_engine_class cls;
        const char     *words; /* of the message, where it is none */
    } rows[] = {
        {"native", "native", NULL, PH_ENGINE_CPU, NULL},
        {"ort", "ort", NULL, PH_ENGINE_CPU, NULL},
        {"ort:cpu", "ort", "cpu", PH_ENGINE_CPU, NULL},
        {"ort:cuda", "ort", "cuda", PH_ENGINE_GPU, NULL},
        {"ort:TensorrtExecutionProvider", "ort", "TensorrtExecutionProvider", PH_ENGINE_GPU, NULL},
        {"ort:qnn", "ort", "qnn", PH_ENGINE_NPU, NULL},
        {"ort:cann", "ort", "cann", PH_ENGINE_NPU, NULL},
        {"ort:openvino", "ort", "openvino", PH_ENGINE_CPU, NULL},
        {"ort:openvino:gpu", "ort", "openvino:gpu", PH_ENGINE_GPU, NULL},
        {"ort:openvino:npu", "ort", "openvino:npu", PH_ENGINE_NPU, NULL},
        {"ort:unheard", "ort", "unheard", PH_ENGINE_CPU, NULL},
        {"ort:", NULL, NULL, 0, "is an execution provider"},
        {"ort:openvino:tpu", NULL, NULL, 0, "with cpu, gpu or npu behind it"},
        {"ort:openvino:", NULL, NULL, 0, "with cpu, gpu or npu behind it"},
        {"native:cuda", NULL, NULL, 0, "engine native runs on one device: leave out ':cuda'"},
        {"steam", NULL, NULL, 0, "no engine 'steam'; known are native, ort"},
        {"steam:cuda", NULL, NULL, 0, "no engine 'steam:cuda'"},
        {"", NULL, NULL, 0, "no engine ''"},
        {"or", NULL, NULL, 0, "no engine 'or'"},
        {"orts", NULL, NULL, 0, "no engine 'orts'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ph_engine_def *def;
        const char          *device;
        ph_engine_class      cls;
        ph_err               err = {0};
        ph_rc                rc = ph_engine_named(rows[i].name, &def, &device, &cls, &err);
        CHECK_SAY(rc == (rows[i].words ? PH_EUSAGE : PH_OK), "%s: %s", rows[i].name, err.msg);
        if (rows[i].words) {
            CHECK_SAY(strstr(err.msg, rows[i].words), "%s: %s", rows[i].name, err.msg);
            continue;
        }
        CHECK_SAY(!rc && !strcmp(def->name, rows[i].engine) && cls == rows[i].cls, "%s", rows[i].name);
        CHECK_SAY(!device == !rows[i].device && (!device || !strcmp(device, rows[i].device)), "%s",
                  rows[i].name);
    }
    char long_name[200] = "ort:";
    memset(long_name + 4, 'x', 150);
    const ph_engine_def *def;
    const char          *device;
    ph_engine_class      cls;
    CHECK(ph_engine_named(long_name, &def, &device, &cls, NULL) == PH_EUSAGE);
}
