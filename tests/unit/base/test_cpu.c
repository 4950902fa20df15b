/* test_cpu.c - features against the compiler's own reading, quotas against made-up cgroup trees. */
#include "base/clock.h"
#include "base/cpu.h"
#include "tests/unit/unit.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int may_use_tiles(void) {
#if defined(__x86_64__)
    uint64_t permitted = 0;
    return !syscall(SYS_arch_prctl, 0x1022, &permitted) && (permitted >> 18 & 1);
#else
    return 0;
#endif
}

void test_cpu_features(void) {
    unsigned f = ph_cpu_features();
    char     name[64], tiny[4];
#if defined(__x86_64__)
    CHECK(!(f & PH_CPU_AVX2) == !__builtin_cpu_supports("avx2"));
    CHECK(!(f & PH_CPU_FMA) == !__builtin_cpu_supports("fma"));
    CHECK(!(f & PH_CPU_AVX512F) == !__builtin_cpu_supports("avx512f"));
    CHECK(!(f & PH_CPU_AVX512BW) == !__builtin_cpu_supports("avx512bw"));
    CHECK(!(f & PH_CPU_AVX512VNNI) == !__builtin_cpu_supports("avx512vnni"));
    CHECK(!(f & (PH_CPU_NEON | PH_CPU_DOTPROD | PH_CPU_I8MM)));
#elif defined(__aarch64__)
    CHECK((f & PH_CPU_NEON) && !(f & (PH_CPU_AVX2 | PH_CPU_AVX512F)));
#endif
    /* The parts of a group never come without its base. */
    if (f & (PH_CPU_AVX512BW | PH_CPU_AVX512VL | PH_CPU_AVX512VNNI | PH_CPU_AVX512BF16))
        CHECK(f & PH_CPU_AVX512F);
    if (f & (PH_CPU_AMX_INT8 | PH_CPU_AMX_BF16)) CHECK(f & PH_CPU_AMX_TILE);
    CHECK(ph_cpu_l1() >= 4 << 10 && ph_cpu_l1() <= 4 << 20 && ph_cpu_l1() == ph_cpu_l1());
    /* AMX is there only with the permission to use it, and asking again changes nothing. */
    CHECK(!(f & PH_CPU_AMX_TILE) || may_use_tiles());
    CHECK(ph_cpu_features() == f);
    ph_cpu_name(name, sizeof name);
    CHECK_SAY(*name && name[strlen(name) - 1] != ' ' && !strstr(name, "  "), "\"%s\"", name);
    ph_cpu_name(tiny, sizeof tiny);
    CHECK(strlen(tiny) <= 3);
    ph_cpu_name(tiny, 0);
}

/* root/path with text in it, folders made as needed. */
static void put(const char *root, const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(full, 0755);
    }
    FILE *f = fopen(full, "w");
    CHECK(f);
    if (!f) return;
    fputs(text, f);
    fclose(f);
}

typedef struct tree {
    int         want;
    const char *file[4][2];
} tree;

void test_cpu_quota(void) {
    static const tree trees[] = {
        {0, {{"other", ""}}},
        {0, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}},
        {2, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "200000 100000\n"}}},
        {2, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "150000 100000\n"}}},
        {1, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "5000 100000\n"}}},
        {0, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "nonsense\n"}}},
        {0, {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "100 0\n"}}},
        /* A parent's limit holds too, and the smallest one wins. */
        {3,
         {{"proc/self/cgroup", "0::/a/b\n"},
          {"sys/fs/cgroup/a/b/cpu.max", "800000 100000\n"},
          {"sys/fs/cgroup/a/cpu.max", "300000 100000\n"}}},
        /* The group that is named is not to be seen from inside: the mount's own limit. */
        {4, {{"proc/self/cgroup", "0::/docker/xyz\n"}, {"sys/fs/cgroup/cpu.max", "400000 100000\n"}}},
        /* v1, under both names of the controller's mount; other controllers do not matter. */
        {2,
         {{"proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/c\n"},
          {"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n"},
          {"sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n"}}},
        {2,
         {{"proc/self/cgroup", "4:cpuacct,cpu:/c\n"},
          {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"},
          {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}}},
        {0,
         {{"proc/self/cgroup", "4:cpu:/\n"},
          {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
          {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
        {0,
         {{"proc/self/cgroup", "4:cpuset:/\n"},
          {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
          {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    };
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        char root[] = "/tmp/ph-unit-XXXXXX", command[64];
        CHECK(mkdtemp(root));
        for (int k = 0; k < 4 && trees[i].file[k][0]; k++)
            put(root, trees[i].file[k][0], trees[i].file[k][1]);
        int got = ph_cpu_quota(root);
        CHECK_SAY(got == trees[i].want, "tree %zu: %d instead of %d", i, got, trees[i].want);
        snprintf(command, sizeof command, "rm -rf '%s'", root);
        CHECK(!system(command));
    }
}

void test_cpu_count(void) {
    cpu_set_t before, one;
    int       n = ph_cpu_count();
    CHECK(n >= 1);
    CHECK(!sched_getaffinity(0, sizeof before, &before));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    CHECK(!sched_setaffinity(0, sizeof one, &one));
    CHECK(ph_cpu_count() == 1);
    CHECK(!sched_setaffinity(0, sizeof before, &before));
    CHECK(ph_cpu_count() == n);
}

void test_clock_forward(void) {
    uint64_t first = ph_clock_ns(), last = first;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = ph_clock_ns();
        CHECK(now >= last);
        last = now;
    }
    usleep(2000);
    CHECK(ph_clock_ns() - first >= 2000000);
}
