/* main.c - `ph-check`: every kernel of every instruction set against ref.
 *
 * The instruction sets are laid over each other one at a time, slowest first.
 * A kernel whose pointer did not move was not touched by that set, and is not
 * checked twice.  Nothing here names a kernel: the rows come from kernels.def.
 *
 *     ph-check [--isa NAME] [--only PART-OF-A-KERNEL'S-NAME] [--seed N] [--bench]
 */
#include "tests/check/check.h"

#include "base/clock.h"
#include "kernels/isa.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long long seed = 1, state;

static unsigned next(void) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33);
}
unsigned ck_below(unsigned n) {
    return next() % n;
}
float ck_normal(void) {
    double s = 0;
    for (int i = 0; i < 12; i++) s += (double)next() / 2147483648.0;
    return (float)(s - 6);
}
float ck_any(void) {
    unsigned bits = next() << 16 ^ next();
    float    f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
void ck_normals(float *x, size_t n, float size) {
    for (size_t i = 0; i < n; i++) x[i] = size * ck_normal();
}

static struct {
    char  *base;
    size_t size;
} maps[256];
static size_t n_maps;

void *ck_buffer(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page) / page * page, all = body + 2 * page;
    char  *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || n_maps == sizeof maps / sizeof *maps || mprotect(p, page, PROT_NONE) ||
        mprotect(p + page + body, page, PROT_NONE))
        abort();
    maps[n_maps].base = p, maps[n_maps++].size = all;
    return ck_below(4) ? p + page + body - bytes : p + page;
}
void ck_free_all(void) {
    while (n_maps) {
        n_maps--;
        munmap(maps[n_maps].base, maps[n_maps].size);
    }
}

int ck_fail(const char *what, size_t at) {
    printf("\n    %s %zu (seed %llu)\n", what, at, seed);
    return 0;
}
int ck_close(float got, float want, double bound, const char *what, size_t at) {
    double d = fabs((double)got - (double)want);
    bound += (double)FLT_EPSILON * fabs((double)want) + (double)FLT_MIN;
    if (isnan(want) ? isnan(got) : isinf(want) ? got == want : d <= bound) return 1;
    printf("\n    %s %zu: got %.9g, want %.9g, off by %.3g, allowed %.3g (seed %llu)\n", what, at,
           (double)got, (double)want, d, bound, seed);
    return 0;
}
int ck_same(const void *got, const void *want, size_t bytes, const char *what) {
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            printf("\n    %s: byte %zu of %zu differs: got %02x, want %02x (seed %llu)\n", what, i, bytes,
                   a[i], b[i], seed);
            return 0;
        }
    return 1;
}
int ck_same_floats(const float *got, const float *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (!(isnan(got[i]) && isnan(want[i])) && memcmp(&got[i], &want[i], sizeof *got)) {
            printf("\n    %s %zu of %zu: got %.9g, want %.9g, exactly (seed %llu)\n", what, i, n,
                   (double)got[i], (double)want[i], seed);
            return 0;
        }
    return 1;
}

static const struct {
    const char *name;
    size_t      offset;
    int (*check)(const ph_kernels *, const ph_kernels *);
    ck_work (*bench)(const ph_kernels *, int many);
} rows[] = {
#define PH_KERNEL(name, args) {#name, offsetof(ph_kernels, name), check_##name, bench_##name},
#include "kernels/kernels.def"
#undef PH_KERNEL
};

/* In a child, so that a kernel that walks off its buffer costs one row. */
static const char *checked(size_t i, const ph_kernels *ref, const ph_kernels *k) {
    int   status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        state = seed;
        int ok = rows[i].check(ref, k);
        fflush(stdout);
        _exit(!ok);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) return "NOT RUN";
    if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGILL ? "ILLEGAL INSTRUCTION" : "CRASHED";
    return WEXITSTATUS(status) ? "FAILED" : "ok";
}

#define BENCH_FLOATS 64
static struct {
    float *p;
    size_t n;
} kept[BENCH_FLOATS];
static size_t n_kept, next_kept;

/* The same call order gives the same memory: benches stay warm and never free. */
float *ck_bench_floats(size_t n) {
    if (next_kept < n_kept && kept[next_kept].n == n) return kept[next_kept++].p;
    if (next_kept == BENCH_FLOATS) abort();
    n_kept = next_kept;
    float *p = aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
    if (!p) abort();
    for (size_t i = 0; i < n; i++) p[i] = (float)ck_below(1024) / 4096.0f - 0.125f;
    kept[n_kept].p = p, kept[n_kept++].n = n;
    return kept[next_kept++].p;
}

/* The best of many rounds of about a millisecond: what the kernel can do when nobody disturbs it. */
static void bench(const char *isa, size_t i, const ph_kernels *k) {
    for (int shape = 0; shape < 2; shape++) {
        double  best = 1e18;
        ck_work work = {0, 0};
        int     times = 1;
        for (int round = 0; round < 60; round++) {
            uint64_t t = ph_clock_ns();
            for (int j = 0; j < times; j++) next_kept = 0, work = rows[i].bench(k, shape);
            double each = (double)(ph_clock_ns() - t) / times;
            if (work.bytes <= 0) break;
            if (each < best) best = each;
            if (!round) times = each > 1e6 ? 1 : (int)(1e6 / (each + 100)) + 1;
            if (each > 2e7 && round == 4) break;
        }
        if (work.bytes > 0)
            printf("    %-12s %-8s %s %12.0f ns %8.2f GB/s %8.2f GFLOP/s\n", rows[i].name, isa,
                   shape ? "many" : "one ", best, work.bytes / best, work.flops / best);
    }
}

int main(int argc, char **argv) {
    int         failed = 0, passed = 0, benching = 0;
    const char *isa = NULL, *only = "";
    ph_kernels  ref, k, before;
    for (int i = 1; i < argc; i++) {
        int more = i + 1 < argc;
        if (!strcmp(argv[i], "--bench"))
            benching = 1;
        else if (!strcmp(argv[i], "--seed") && more)
            seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--isa") && more)
            isa = argv[++i];
        else if (!strcmp(argv[i], "--only") && more)
            only = argv[++i];
        else
            return fprintf(stderr, "usage: ph-check [--isa NAME] [--only PART] [--seed N] [--bench]\n"), 2;
    }
    printf("seed %llu\n", seed);
    ph_kernels_init(&ref, 0);
    memset(&k, 0, sizeof k);
    for (size_t s = 0; s < ph_n_isas; s++) {
        unsigned needs = ph_isas[s].needs & ~PH_ISA_UNTRIED; /* this is where it is tried */
        if ((ph_cpu_features() & needs) != needs) {
            printf("%-8s not on this CPU\n", ph_isas[s].name);
            continue;
        }
        before = k;
        ph_isas[s].install(&k);
        if (isa && strcmp(isa, ph_isas[s].name)) continue;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            size_t o = rows[i].offset;
            if (!strstr(rows[i].name, only)) continue;
            if (!memcmp((char *)&k + o, (char *)&before + o, sizeof(void (*)(void)))) continue;
            const char *verdict = checked(i, &ref, &k);
            if (strcmp(verdict, "ok"))
                failed++;
            else
                passed++;
            printf("%-8s %-12s %s\n", ph_isas[s].name, rows[i].name, verdict);
            if (benching) bench(ph_isas[s].name, i, &k);
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0 || !passed;
}
