/* machine_test.c - the sizes chosen, and figures that are there and of the right kind.  No test can say how
 * fast a machine is; that more threads do not lose a factor, and that a limit is at least what a kernel
 * reached, it can. */
#include "measure/machine.h"
#include "tests/unit/unit.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

void test_machine_read_size(void) {
    CHECK(ph_machine_read_size(0, 0) == 256 * MIB);
    CHECK(ph_machine_read_size(300 * MIB, 0) == 1200 * MIB);
    CHECK(ph_machine_read_size(300 * MIB, 2000 * MIB) == 500 * MIB);
    CHECK(ph_machine_read_size(2 * MIB, 100000 * MIB) == 256 * MIB);
    CHECK(ph_machine_read_size(2 * MIB, 1 * MIB) == 4 * MIB);
    CHECK(ph_machine_read_size(UINT64_MAX, 64 * MIB) == 16 * MIB);
}

static void measured(const char *isa) {
    ph_machine               m;
    ph_err                   e = {0};
    const ph_machine_options o = {.threads = 2, .rounds = 2, .isa = isa, .read_bytes = 5 * MIB + 100};
    ph_rc                    rc = ph_machine_measure(&m, &o, &e);
    CHECK_SAY(!rc, "%s", e.msg);
    if (rc) return;
    CHECK(m.threads == 2 && m.cpu[0]);
    CHECK(!isa || !strcmp(m.isa, isa));
    CHECK(m.read_bytes >= o.read_bytes && m.read_bytes < o.read_bytes + 4096);
    CHECK(m.read_gbs > 0);
    CHECK(m.f32_kernel_gflops > 0 && m.f32_gflops >= m.f32_kernel_gflops && m.f32_by[0]);
    CHECK(m.int8_gops >= m.int8_kernel_gops);
    CHECK((m.int8_gops > 0) == (m.int8_by[0] != 0));
    /* The definition has no product by integers, and no loop knows it. */
    if (isa && !strcmp(isa, "ref")) CHECK(m.int8_gops == 0 && strstr(m.f32_by, "kernel"));
}

void test_machine_measured(void) {
    measured(NULL);
    measured("ref");
    CHECK(!ph_peak_f32(0) && !ph_peak_int8(0));
    const ph_peak *p = ph_peak_f32(ph_cpu_features()), *q = ph_peak_int8(ph_cpu_features());
    if (p) CHECK(p->run(1000) == 1000 * p->run(1) && p->name[0]);
    if (q) CHECK(q->run(1000) == 1000 * q->run(1) && q->name[0]);
}

void test_machine_refuses(void) {
    ph_machine         m;
    ph_err             e = {0};
    ph_machine_options o = {.threads = 1, .isa = "nosuch"};
    CHECK(ph_machine_measure(&m, &o, &e) == PH_EUSAGE);
}
