/* cpu.c - CPU features and the number of processors that are really ours.
 *
 * On x86 the bits come from CPUID, and each is believed only if XCR0 says that
 * the operating system saves the registers it needs (Intel SDM vol. 1, 13.3 and
 * 14.3).  AMX needs the kernel's permission on top (Documentation/arch/x86/xstate.rst):
 * it is asked for here, once a process, and AMX is not there where it is refused.  On aarch64 the kernel
 * tells in the auxiliary vector.
 *
 * A container may own half a core of a machine with a hundred: the count honours
 * the affinity mask and the CPU quota of cgroup v2 or v1, the quota rounded up.
 */
#include "base/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <sys/syscall.h>

static uint64_t xcr0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Which register states, as XCR0 numbers them, a group of features needs. */
enum { SAVES_AVX = 0x6, SAVES_AVX512 = 0xe6, SAVES_AMX = 0x60000 };

static unsigned bit(unsigned reg, int at, unsigned feature) {
    return reg >> at & 1 ? feature : 0;
}

/* Tiles are large and saved only for who may have them: a process asks once, for all its threads, and the
 * kernel says no when a signal stack is too small for them.  Older kernels know neither call. */
static int may_use_tiles(void) {
    enum { GET_PERMITTED = 0x1022, REQUEST = 0x1023, TILE_DATA = 18 }; /* Linux's asm/prctl.h */
    uint64_t permitted = 0;
#if defined(__x86_64__)
    if (!syscall(SYS_arch_prctl, GET_PERMITTED, &permitted) && permitted >> TILE_DATA & 1) return 1;
    return !syscall(SYS_arch_prctl, REQUEST, TILE_DATA);
#else
    return (int)permitted;
#endif
}

unsigned ph_cpu_features(void) {
    unsigned a, b, c, d, f = 0, leaves1;
    uint64_t saved;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0; /* OSXSAVE */
    saved = xcr0();
    if ((saved & SAVES_AVX) != SAVES_AVX || !(c >> 28 & 1)) return 0; /* AVX */
    f |= bit(c, 12, PH_CPU_FMA) | bit(c, 29, PH_CPU_F16C);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    leaves1 = a;
    f |= bit(b, 5, PH_CPU_AVX2);
    if ((saved & SAVES_AVX512) == SAVES_AVX512 && (b >> 16 & 1))
        f |= PH_CPU_AVX512F | bit(b, 17, PH_CPU_AVX512DQ) | bit(b, 30, PH_CPU_AVX512BW) |
             bit(b, 31, PH_CPU_AVX512VL) | bit(c, 11, PH_CPU_AVX512VNNI);
    if ((saved & SAVES_AMX) == SAVES_AMX && (d >> 24 & 1) && may_use_tiles())
        f |= PH_CPU_AMX_TILE | bit(d, 25, PH_CPU_AMX_INT8) | bit(d, 22, PH_CPU_AMX_BF16);
    if (leaves1 < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return f;
    f |= bit(a, 4, PH_CPU_AVXVNNI);
    if (f & PH_CPU_AVX512F) f |= bit(a, 5, PH_CPU_AVX512BF16);
    return f;
}

static int brand(char text[64]) {
    unsigned r[12];
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3])) return 0;
    memcpy(text, r, sizeof r);
    text[sizeof r] = 0;
    return 1;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

unsigned ph_cpu_features(void) {
    /* Bits of Linux's arch/arm64/include/uapi/asm/hwcap.h; ASIMD = 1, ASIMDDP = 20, and I8MM = 13 of the
     * second. */
    unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    return (caps >> 1 & 1 ? PH_CPU_NEON : 0u) | (caps >> 20 & 1 ? PH_CPU_DOTPROD : 0u) |
           (caps2 >> 13 & 1 ? PH_CPU_I8MM : 0u);
}

#else
unsigned ph_cpu_features(void) {
    return 0;
}
#endif

/* Up to size - 1 bytes of a small file; 0 when it cannot be read. */
static int slurp(const char *path, char *out, size_t size) {
    size_t  n = 0;
    ssize_t got;
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    while (n < size - 1 && (got = read(fd, out + n, size - 1 - n)) > 0) n += (size_t)got;
    close(fd);
    out[n] = 0;
    return n > 0;
}

#if !defined(__x86_64__) && !defined(__i386__)
static int brand(char text[64]) {
    return slurp("/proc/device-tree/model", text, 64);
}
#endif

/* Runs of blanks become one, unprintable bytes none: the name goes into tables and JSON. */
void ph_cpu_name(char *out, size_t size) {
    char   text[64];
    size_t n = 0;
    if (!size) return;
    if (!brand(text)) strcpy(text, "");
    for (const char *p = text; *p && n + 1 < size; p++) {
        if (*p == ' ' && (!n || out[n - 1] == ' ')) continue;
        if (*p >= ' ' && *p <= '~') out[n++] = *p;
    }
    while (n && out[n - 1] == ' ') n--;
    out[n] = 0;
    if (!n) snprintf(out, size, "unknown");
}

/* Whole processors, rounded up, of a quota and its period in microseconds; 0: no limit. */
static int shares(long quota, long period) {
    if (quota <= 0 || period <= 0) return 0;
    long n = (quota - 1) / period + 1;
    return n > 1 << 20 ? 1 << 20 : (int)n;
}

static int smaller(int a, int b) {
    return !a || (b && b < a) ? b : a;
}

/* The limit that one cgroup folder states; 0: none. */
static int limit_of(const char *folder, int is_v2) {
    char path[1200], text[64];
    long quota, period;
    if (is_v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!slurp(path, text, sizeof text) || sscanf(text, "%ld %ld", &quota, &period) != 2) return 0;
        return shares(quota, period);
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!slurp(path, text, sizeof text) || sscanf(text, "%ld", &quota) != 1) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!slurp(path, text, sizeof text) || sscanf(text, "%ld", &period) != 1) return 0;
    return shares(quota, period);
}

/* The smallest limit of the group and of all above it; each may state one. */
static int limit_up(const char *mount, const char *group, int is_v2) {
    char folder[1024];
    int  n = 0;
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder) return 0;
    for (size_t top = strlen(mount);;) {
        n = smaller(n, limit_of(folder, is_v2));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < top) return n;
        *slash = 0;
    }
}

/* Does the list "cpu,cpuacct" of a v1 line name the cpu controller? */
static int has_cpu(const char *list, size_t n) {
    while (n) {
        const char *comma = memchr(list, ',', n);
        size_t      len = comma ? (size_t)(comma - list) : n;
        if (len == 3 && !memcmp(list, "cpu", 3)) return 1;
        list += comma ? len + 1 : len;
        n -= comma ? len + 1 : len;
    }
    return 0;
}

int ph_cpu_quota(const char *root) {
    static const char *const v1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char                     path[512], groups[4096], mount[512];
    int                      n = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!slurp(path, groups, sizeof groups)) return 0;
    /* Lines are "id:controllers:/group"; id 0 with no controllers is v2. */
    for (char *line = groups, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        if (group == list + 1) {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
            n = smaller(n, limit_up(mount, group + 1, 1));
        } else if (has_cpu(list + 1, (size_t)(group - list - 1))) {
            for (size_t i = 0; i < sizeof v1 / sizeof *v1; i++) {
                snprintf(mount, sizeof mount, "%s%s", root, v1[i]);
                n = smaller(n, limit_up(mount, group + 1, 0));
            }
        }
    }
    return n;
}

/* Asked once: the answer may cost a virtual machine as much as a small product. */
size_t ph_cpu_l1(void) {
    static atomic_size_t known;
    size_t               bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes) return bytes;
    long said = -1;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    said = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
    bytes = said > 0 ? (size_t)said : 32 << 10;
    atomic_store_explicit(&known, bytes, memory_order_relaxed);
    return bytes;
}

/* Processors of the affinity mask; a machine may have more than a cpu_set_t holds. */
static int affinity(void) {
    for (int most = 1024; most <= 1 << 16; most *= 4) {
        cpu_set_t *set = CPU_ALLOC(most);
        size_t     bytes = CPU_ALLOC_SIZE(most);
        if (!set) break;
        int rc = sched_getaffinity(0, bytes, set);
        int n = rc ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (n > 0) return n;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int ph_cpu_count(void) {
    int n = smaller(affinity(), ph_cpu_quota(""));
    return n > 0 ? n : 1;
}
