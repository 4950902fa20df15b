/* machine.c - the roofs, measured: reading memory, and the peak of the arithmetic in use.
 *
 *     read   one region, written once (a page that was never written is no memory), then read end to end by
 *            all workers, a few megabytes a piece, again and again; the best pass counts
 *     peaks  every worker runs the same loop of machine_peak.c, then our own product kernel on operands that
 *            fit its core's cache; the faster of the two is the limit
 *
 * The limit of the processor, not of ours, is what a share should be taken of; the kernels' figures stand
 * beside it, so that what a kernel loses and what the program around it loses can be told apart.
 */
#include "measure/machine.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/region.h"
#include "base/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ROUNDS = 7,
    PIECE = 4 << 20, /* bytes read at a stretch */
    PAGE = 4096,
    UNITS_A_WORKER = 4, /* of a peak's round: late ones are claimed by whoever is free */
};
#define READ_LEAST ((uint64_t)256 << 20)
#define UNIT_NS    2e6 /* a unit of a peak's round takes about this */

/* ---- sizes ---- */

/* "2048K", "300M" of sysfs; 0: there is no such file. */
static uint64_t cache_at(int index) {
    char     path[96], text[32];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fgets(text, sizeof text, f)) {
        char *unit;
        bytes = strtoull(text, &unit, 10);
        bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
    }
    fclose(f);
    return bytes;
}

uint64_t ph_machine_cache(void) {
    uint64_t most = 0;
    for (int i = 0; i < 8; i++) {
        uint64_t bytes = cache_at(i);
        if (bytes > most) most = bytes;
    }
    return most;
}

static uint64_t free_memory(void) {
    unsigned long long kib = 0;
    char               line[128];
    FILE              *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    return kib << 10;
}

uint64_t ph_machine_read_size(uint64_t cache, uint64_t free_mem) {
    uint64_t wanted = cache > UINT64_MAX / 4 ? UINT64_MAX : 4 * cache;
    if (wanted < READ_LEAST) wanted = READ_LEAST;
    if (free_mem && wanted > free_mem / 4) wanted = free_mem / 4;
    if (wanted < PIECE) wanted = PIECE;
    return wanted / PIECE * PIECE;
}

/* ---- reading ---- */

typedef uint64_t wide __attribute__((vector_size(64)));

typedef struct reading {
    unsigned char *at;
    size_t         bytes;
} reading;

static void fill(void *arg, size_t begin, size_t end, int worker) {
    const reading *r = arg;
    size_t         from = begin * PIECE, to = end * (size_t)PIECE;
    (void)worker;
    if (to > r->bytes) to = r->bytes;
    memset(r->at + from, 0x5a, to - from);
}

/* Four sums, so that an addition never waits for the one before. */
static void read_piece(void *arg, size_t begin, size_t end, int worker) {
    const reading *r = arg;
    size_t         from = begin * PIECE, to = end * (size_t)PIECE;
    wide           s[4] = {{0}};
    (void)worker;
    if (to > r->bytes) to = r->bytes;
    const wide *p = (const wide *)(const void *)(r->at + from), *last = p + (to - from) / sizeof *p;
    for (; p + 4 <= last; p += 4)
        for (int i = 0; i < 4; i++) s[i] += p[i];
    s[0] += s[1] + s[2] + s[3];
    for (int i = 0; i < 8; i++) __asm__ volatile("" : : "r"(s[0][i]));
}

static ph_rc measure_read(ph_machine *m, ph_threads *crew, int rounds, ph_err *err) {
    ph_region region;
    double    best = 0;
    PH_TRY(ph_region_open(&region, m->read_bytes, err));
    madvise(region.at, region.bytes, MADV_HUGEPAGE); /* the limit is memory, not page tables */
    reading r = {.at = region.at, .bytes = m->read_bytes};
    size_t  pieces = (r.bytes + PIECE - 1) / PIECE;
    ph_threads_run(crew, fill, &r, 0, pieces, 1, NULL);
    for (int i = 0; i < rounds; i++) {
        uint64_t before = ph_clock_ns();
        ph_threads_run(crew, read_piece, &r, 0, pieces, 1, NULL);
        double ns = (double)(ph_clock_ns() - before), rate = (double)r.bytes / (ns > 1 ? ns : 1);
        if (rate > best) best = rate;
    }
    ph_region_close(&region);
    m->read_gbs = best;
    return PH_OK;
}

/* ---- peaks ---- */

typedef double unit_fn(void *arg, size_t rounds, int worker);

typedef struct peak {
    unit_fn *run;
    void    *arg;
    size_t   rounds; /* a unit */
} peak;

static void peak_unit(void *arg, size_t begin, size_t end, int worker) {
    const peak *p = arg;
    for (size_t i = begin; i < end; i++) p->run(p->arg, p->rounds, worker);
}

/* Rounds that make a unit long enough for the clock, found on this thread; then all workers together. */
static double operations_a_ns(unit_fn *run, void *arg, ph_threads *crew, int rounds) {
    peak   p = {.run = run, .arg = arg, .rounds = 1};
    double ops = 0, best = 0;
    for (double ns = 0; ns < UNIT_NS && p.rounds < (size_t)1 << 40; p.rounds *= 2) {
        uint64_t before = ph_clock_ns();
        ops = run(arg, p.rounds, 0);
        ns = (double)(ph_clock_ns() - before);
    }
    p.rounds /= 2;
    size_t units = (size_t)ph_threads_count(crew) * UNITS_A_WORKER;
    for (int i = 0; i < rounds; i++) {
        uint64_t before = ph_clock_ns();
        ph_threads_run(crew, peak_unit, &p, 0, units, 1, NULL);
        double ns = (double)(ph_clock_ns() - before), rate = ops * (double)units / (ns > 1 ? ns : 1);
        if (rate > best) best = rate;
    }
    return best;
}

static double in_registers(void *arg, size_t rounds, int worker) {
    const ph_peak *p = arg;
    (void)worker;
    return p->run(rounds);
}

/* A product whose operands stay in a core's cache; each worker has its own. */
enum { K = 256, COLS = 64, ROWS = 96 };
typedef struct tile {
    const ph_kernels *kernels;
    ph_dot_fn        *dot;      /* NULL: the f32 kernel */
    unsigned char    *memory;   /* [workers, a_worker], 64-byte aligned */
    size_t            a_worker; /* bytes */
    size_t            y, x, w;  /* where they stand in it; the kernel's scratch behind */
    size_t            w_stride, scratch;
} tile;

static double in_cache(void *arg, size_t rounds, int worker) {
    const tile    *t = arg;
    unsigned char *own = t->memory + (size_t)worker * t->a_worker;
    float         *y = (float *)(void *)(own + t->y), *x = (float *)(void *)(own + t->x);
    ph_qrows       qrows = t->dot ? ph_qrows_in(x, ROWS, K, 2, 32) : (ph_qrows){0};
    for (size_t i = 0; i < rounds; i++) {
        if (t->dot)
            t->dot(y, COLS, &qrows, own + t->w, t->w_stride, ROWS, COLS, own + t->scratch);
        else
            t->kernels->linear_F32(y, COLS, x, K, own + t->w, t->w_stride, ROWS, COLS, K,
                                   (float *)(void *)(own + t->scratch));
    }
    return 2.0 * ROWS * COLS * K * (double)rounds;
}

static size_t next(size_t *at, size_t bytes) {
    size_t here = *at;
    *at += ph_round_up(bytes, 64);
    return here;
}

/* Zeros would do for the clock of most processors; ones are what they cost. */
static void set_tile(const tile *t, int workers) {
    for (int i = 0; i < workers; i++) {
        unsigned char *own = t->memory + (size_t)i * t->a_worker;
        float         *w = (float *)(void *)(own + t->w);
        float          ones[ROWS * K];
        memset(own, 1, t->a_worker);
        for (size_t j = 0; j < ROWS * K; j++) ones[j] = 1;
        if (!t->dot) {
            memcpy(own + t->x, ones, sizeof ones);
            for (size_t j = 0; j < COLS * K; j++) w[j] = 1;
            continue;
        }
        ph_qrows qrows = ph_qrows_in(own + t->x, ROWS, K, 2, 32);
        t->kernels->qrows_of(&qrows, ones, K, ROWS);
        for (size_t j = 0; j < COLS; j++) {
            float row[K];
            memcpy(row, ones, sizeof row);
            ph_dtype_get(PH_Q8_0)->pack(own + t->w + j * t->w_stride, row, K);
        }
    }
}

static ph_rc kernel_rate(const ph_kernels *k, ph_dot_fn *dot, ph_threads *crew, int rounds, double *out,
                         ph_err *err) {
    tile     t = {.kernels = k, .dot = dot, .w_stride = K * sizeof(float)};
    int      workers = ph_threads_count(crew);
    ph_arena arena;
    void    *memory;
    size_t   at = 0;
    if (dot) PH_TRY(ph_dtype_row_bytes(PH_Q8_0, K, &t.w_stride, err));
    t.y = next(&at, sizeof(float) * ROWS * COLS);
    t.x = next(&at, dot ? ph_qrows_bytes(ROWS, K, 2, 32) : sizeof(float) * ROWS * K);
    t.w = next(&at, t.w_stride * COLS);
    t.scratch = next(&at, dot ? PH_DOT_SCRATCH(K) : PH_LINEAR_SCRATCH(K) * sizeof(float));
    t.a_worker = ph_round_up(at, PAGE);
    PH_TRY(ph_arena_open(&arena, t.a_worker * (size_t)workers + 64, err));
    ph_rc rc = ph_arena_carve(&arena, &memory, (size_t)workers, t.a_worker, err);
    if (!rc) {
        t.memory = memory;
        set_tile(&t, workers);
        *out = operations_a_ns(in_cache, &t, crew, rounds);
    }
    ph_arena_close(&arena);
    return rc;
}

static void loop_rate(const ph_peak *row, ph_threads *crew, int rounds, double *rate, const char **by) {
    *rate = row ? operations_a_ns(in_registers, (void *)(uintptr_t)row, crew, rounds) : 0;
    *by = row ? row->name : "";
}

static ph_rc measure_peaks(ph_machine *m, unsigned features, ph_threads *crew, int rounds, ph_err *err) {
    ph_kernels k;
    ph_kernels_init(&k, features);
    ph_dot_fn *dot = ph_dot_of(&k, PH_Q8_0);
    loop_rate(ph_peak_f32(features), crew, rounds, &m->f32_gflops, &m->f32_by);
    PH_TRY(kernel_rate(&k, NULL, crew, rounds, &m->f32_kernel_gflops, err));
    if (m->f32_kernel_gflops > m->f32_gflops) {
        m->f32_gflops = m->f32_kernel_gflops;
        m->f32_by = "kernel: linear_F32 in the cache";
    }
    m->int8_by = "";
    if (!dot) return PH_OK;
    loop_rate(ph_peak_int8(features), crew, rounds, &m->int8_gops, &m->int8_by);
    PH_TRY(kernel_rate(&k, dot, crew, rounds, &m->int8_kernel_gops, err));
    if (m->int8_kernel_gops > m->int8_gops) {
        m->int8_gops = m->int8_kernel_gops;
        m->int8_by = "kernel: dot_Q8_0 in the cache";
    }
    return PH_OK;
}

ph_rc ph_machine_measure(ph_machine *out, const ph_machine_options *how, ph_err *err) {
    ph_threads *crew = NULL;
    unsigned    features;
    int         rounds = how->rounds > 0 ? how->rounds : ROUNDS;
    *out = (ph_machine){.threads = how->threads, .cache = ph_machine_cache()};
    PH_TRY(ph_kernels_features(how->isa, &features, err));
    out->isa = ph_kernels_isa(features);
    /* The processor may have more than its best kernels use: only what they do counts. */
    PH_TRY(ph_kernels_features(out->isa, &features, err));
    ph_cpu_name(out->cpu, sizeof out->cpu);
    out->read_bytes = how->read_bytes ? ph_round_up(how->read_bytes, PAGE)
                                      : ph_machine_read_size(out->cache, free_memory());
    PH_TRY(ph_threads_open(&crew, how->threads, err));
    ph_rc rc = measure_read(out, crew, rounds, err);
    if (!rc) rc = measure_peaks(out, features, crew, rounds, err);
    ph_threads_close(crew);
    return rc;
}
