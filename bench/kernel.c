/* kernel.c - `ph-kernel`: one kernel's work by itself, in the shapes that a model gives it.
 *
 *     ph-kernel linear [--type q4_0] [--rows 1] [--cols 5632] [-k 2048] [--copies N] [-t 2] [--rows8] [--norm]
 *                      [--unfused] [--rounds 5]
 *         y = x W^T for each of N weights of their own, 256 MB or 8 of them without --copies: a single row finds
 *         none in a cache.  --norm: of layer-normalised rows; --unfused: with the norm as a step of its own.
 *         JSON: milliseconds of each round, operations, bytes of weights.
 *
 *     ph-kernel headnorm [-d 128] [--heads 32] [--rows 64] [--pairs] [--rounds 15]
 *         RMSNorm and rotation of heads, in one kernel and in two.  JSON: nanoseconds a number, and the median of
 *         the rounds' ratios.
 *
 * Beside the same of a peer, in turns: bench/kernels.py.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "engine/bare.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 101, COPIES_MAX = 4096, THREADS_MAX = 1024, SOME_ROWS = 64, ROUND_NS = 20000000 };
enum { SIZE_MOST = 1 << 24, HEADS_MOST = 1 << 28 }; /* of one side; numbers of all heads */

static uint64_t seed = 1;

static float next(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(uint32_t)(seed >> 33) / 2147483648.0 * 2 - 1);
}

static _Noreturn void die(const char *what, const ph_err *err) {
    fprintf(stderr, "ph-kernel: %s: %s\n", what, err->msg);
    exit(5);
}

/* What was asked for cannot be. */
static _Noreturn void refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void refuse(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fputs("ph-kernel: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static void *memory(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) refuse("%zu bytes of memory are not to be had", bytes);
    return p;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct words { /* of the command line */
    ph_dtype type;
    size_t   rows, cols, k, copies, d, heads, threads, rounds;
    int      is_rows8, has_norm, is_unfused, is_pairs;
} words;

/* ---- linear ---- */

/* Stored rows of their own, as many random ones as are soon made, over and over. */
static const void *stored(const words *w, size_t row) {
    size_t         all = w->cols * w->copies, made = all < SOME_ROWS ? all : SOME_ROWS;
    float         *x = memory(w->k * sizeof *x);
    unsigned char *to = memory(all * row);
    for (size_t r = 0; r < made; r++) {
        for (size_t i = 0; i < w->k; i++) x[i] = next();
        ph_dtype_get(w->type)->pack(to + r * row, x, w->k);
    }
    for (size_t r = made; r < all; r++) memcpy(to + r * row, to + r % made * row, row);
    free(x);
    return to;
}

static int normalised(ph_graph *g, const words *w, int x) {
    float *ones = memory(w->k * sizeof *ones);
    for (size_t i = 0; i < w->k; i++) ones[i] = 1;
    ph_shape s = ph_shape_of(1, ph_dim_of((int64_t)w->k));
    int      gain = ph_graph_constant(g, "gain", PH_F32, s, ones),
        bias = ph_graph_constant(g, "bias", PH_F32, s, ones);
    free(ones);
    return ph_graph_node(g, "LayerNormalization", PH_IN(x, gain, bias),
                         PH_ATTRS(PH_INT("axis", -1), PH_FLOAT("epsilon", 1e-5F)), "norm");
}

static ph_graph *graph_of(const words *w, size_t row) {
    ph_err               err = {0};
    ph_graph            *g;
    const unsigned char *bytes = stored(w, row);
    if (ph_graph_open(&g, "linear", &err)) die("graph", &err);
    int x =
        ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_of((int64_t)w->rows), ph_dim_of((int64_t)w->k)));
    if (w->has_norm) x = normalised(g, w, x);
    for (size_t c = 0; c < w->copies; c++) {
        char name[32];
        snprintf(name, sizeof name, "w%zu", c);
        int of =
            ph_graph_weight(g, name, ph_shape_of(2, ph_dim_of((int64_t)w->cols), ph_dim_of((int64_t)w->k)),
                            ph_storage_of(w->type, bytes + c * w->cols * row, w->cols * row, row));
        snprintf(name, sizeof name, "y%zu", c);
        ph_graph_output(g, ph_graph_node(g, "Linear", PH_IN(x, of), PH_NO_ATTRS, "part.%zu", c), name);
    }
    if (ph_graph_finish(g, &err)) die("graph", &err);
    return g;
}

static int linear(words *w) {
    ph_err        err = {0};
    ph_bare       b;
    ph_syms       syms = {{0}};
    double        ms[ROUNDS_MAX];
    size_t        block = ph_dtype_block(w->type), row = w->k / block * ph_dtype_bytes(w->type);
    ph_engine_env how = {.is_rows8 = w->is_rows8, .unfused = w->is_unfused ? 1u << PH_FUSE_norm : 0};
    if (!ph_dtype_get(w->type)->pack)
        refuse("--type %s: numbers cannot be packed to it; take q4_0 or f32", ph_dtype_name(w->type));
    if (w->k % block) refuse("-k %zu: %s stands in blocks of %zu", w->k, ph_dtype_name(w->type), block);
    if (!w->copies) {
        w->copies = w->rows > 1 ? 8 : ((size_t)256 << 20) / (w->cols * row) + 1;
        if (w->copies > COPIES_MAX) w->copies = COPIES_MAX;
    }
    ph_graph *g = graph_of(w, row);
    if (ph_bare_open_as(&b, g, &syms, (int)w->threads, ph_cpu_features(), &how, &err)) die("engine", &err);
    float *x = ph_bare_buffer(&b, "x");
    for (size_t i = 0; i < w->rows * w->k; i++) x[i] = next();
    for (int r = -1; r < (int)w->rounds; r++) { /* one unseen */
        uint64_t begin = ph_clock_ns(), now;
        int      n = 0;
        do {
            if (ph_bare_run(&b, &err)) die("run", &err);
            n++;
        } while ((now = ph_clock_ns()) - begin < ROUND_NS);
        if (r >= 0) ms[r] = (double)(now - begin) / n / 1e6;
    }
    printf("{\"ms\": [");
    for (size_t r = 0; r < w->rounds; r++) printf("%s%.4f", r ? ", " : "", ms[r]);
    printf("], \"operations\": %.0f, \"weight_bytes\": %zu, \"activation_bytes\": %zu}\n",
           2.0 * (double)(w->rows * w->cols * w->copies) * (double)w->k, w->cols * w->copies * row,
           b.need.input + b.need.activations);
    ph_bare_close(&b);
    ph_graph_close(g);
    return 0;
}

/* ---- headnorm ---- */

typedef struct heads {
    float *x, *y, *g, *cos, *sin;
} heads;

static void together(const ph_kernels *k, const words *w, const heads *h) {
    k->rmsnorm_rope(h->y, h->x, h->g, h->cos, h->sin, w->rows * w->heads, w->d, w->d / 2, w->is_pairs, 1e-6F,
                    0);
}

static void apart(const ph_kernels *k, const words *w, const heads *h) {
    k->rmsnorm(h->y, h->x, h->g, w->rows * w->heads, w->d, 1e-6F, 0);
    k->rope(h->y, h->cos, h->sin, w->rows * w->heads, w->d, w->d / 2, w->is_pairs);
}

static double time_of(void (*fn)(const ph_kernels *, const words *, const heads *), const ph_kernels *k,
                      const words *w, const heads *h) {
    uint64_t begin = ph_clock_ns(), now;
    int      n = 0;
    do {
        fn(k, w, h);
        n++;
    } while ((now = ph_clock_ns()) - begin < ROUND_NS);
    return (double)(now - begin) / n / (double)(w->rows * w->heads * w->d);
}

static int headnorm(const words *w) {
    ph_kernels k;
    if (w->rows > HEADS_MOST / w->heads || w->rows * w->heads > HEADS_MOST / w->d)
        refuse("%zu rows of %zu heads of %zu are more than 2^28 numbers; take fewer", w->rows, w->heads,
               w->d);
    size_t n = w->rows * w->heads * w->d;
    double one[ROUNDS_MAX], two[ROUNDS_MAX], ratio[ROUNDS_MAX];
    heads  h = {memory(n * 4), memory(n * 4), memory(w->d * 4), memory(w->d * 4), memory(w->d * 4)};
    ph_kernels_init(&k, ph_cpu_features());
    for (size_t i = 0; i < n; i++) h.x[i] = next();
    for (size_t i = 0; i < w->d; i++) h.g[i] = 1, h.cos[i] = 0.6F, h.sin[i] = 0.8F;
    for (size_t r = 0; r < w->rounds; r++) {
        two[r] = time_of(apart, &k, w, &h);
        one[r] = time_of(together, &k, w, &h);
        ratio[r] = one[r] / two[r];
    }
    qsort(one, w->rounds, sizeof *one, by_size);
    qsort(two, w->rounds, sizeof *two, by_size);
    qsort(ratio, w->rounds, sizeof *ratio, by_size);
    printf("{\"fused_ns\": %.4f, \"apart_ns\": %.4f, \"ratio\": %.3f}\n", one[w->rounds / 2],
           two[w->rounds / 2], ratio[w->rounds / 2]);
    free(h.x), free(h.y), free(h.g), free(h.cos), free(h.sin);
    return 0;
}

/* ---- the command ---- */

static size_t number(const char *word, const char *text, size_t most) {
    char              *end;
    unsigned long long n = text ? strtoull(text, &end, 10) : 0;
    if (!text || *end || *text < '0' || *text > '9' || n < 1 || n > most)
        refuse("%s %s: a number from 1 to %zu is wanted", word, text ? text : "", most);
    return (size_t)n;
}

/* 0: no such flag. */
static int flag(words *w, const char *word) {
    int                     *is[] = {&w->is_rows8, &w->has_norm, &w->is_unfused, &w->is_pairs};
    static const char *const name[] = {"--rows8", "--norm", "--unfused", "--pairs"};
    for (size_t i = 0; i < sizeof is / sizeof *is; i++)
        if (!strcmp(word, name[i])) return *is[i] = 1;
    return 0;
}

static void option(words *w, const char *word, const char *text) {
    size_t *const size[] = {&w->rows, &w->cols, &w->k, &w->copies, &w->d, &w->heads, &w->threads, &w->rounds};
    static const struct {
        const char *name;
        size_t      most;
    } known[] = {{"--rows", SIZE_MOST},    {"--cols", SIZE_MOST},   {"-k", SIZE_MOST},
                 {"--copies", COPIES_MAX}, {"-d", SIZE_MOST},       {"--heads", SIZE_MOST},
                 {"-t", THREADS_MAX},      {"--rounds", ROUNDS_MAX}};
    if (!strcmp(word, "--type")) {
        if (!text || !ph_dtype_from_name(text, &w->type))
            refuse("--type %s: a stored type is wanted, as q4_0", text ? text : "");
        return;
    }
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (!strcmp(word, known[i].name)) {
            *size[i] = number(word, text, known[i].most);
            return;
        }
    refuse("%s: no such option: the top of bench/kernel.c has them", word);
}

int main(int argc, char **argv) {
    words w = {.type = PH_Q4_0, .cols = 5632, .k = 2048, .d = 128, .heads = 32, .threads = 2};
    int   is_linear = argc > 1 && !strcmp(argv[1], "linear");
    if (!is_linear && (argc < 2 || strcmp(argv[1], "headnorm")))
        refuse("%s: linear or headnorm is wanted: the top of bench/kernel.c says more",
               argc > 1 ? argv[1] : "nothing");
    for (int i = 2; i < argc; i++) {
        if (flag(&w, argv[i])) continue;
        option(&w, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        i++;
    }
    if (!w.rows) w.rows = is_linear ? 1 : 64;
    if (!w.rounds) w.rounds = is_linear ? 5 : 15;
    return is_linear ? linear(&w) : headnorm(&w);
}
