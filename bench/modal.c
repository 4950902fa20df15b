/* modal.c - `ph-modal`: multimodal operators against what they stand for, in turns, in one run.
 *
 * Each pair is a graph spelled out in plain operators, and the same graph after our passes; their answers are
 * held to each other first.  A round times one and then the other; what is printed is the median of the
 * rounds' ratios, so that a slow moment of the machine meets both.
 *
 *     ph-modal [-t THREADS] [--rounds N] [--only PART-OF-A-NAME] [--cpu-time] [--json]
 *
 * --cpu-time: by the processor time of the process, where other programs take turns with it (one thread).
 *
 * Leaves with 1 where a ratio misses what it is held to.
 */
#include "base/clock.h"
#include "engine/bare.h"
#include "graph/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 101, ROUND_NS = 20000000 };

static uint64_t seed = 1;
static float    next(void) {
       seed = seed * 6364136223846793005u + 1442695040888963407u;
       return (float)((double)(uint32_t)(seed >> 33) / 2147483648.0 * 2 - 1);
}

static void die(const char *what, const ph_err *err) {
    fprintf(stderr, "ph-modal: %s: %s\n", what, err ? err->msg : "");
    exit(5);
}

/* ---- graphs ---- */

/* A weight of its own bytes, or of the bytes that another has: `like` is where they are. */
static int weight(ph_graph *g, const char *name, int64_t rows, int64_t cols, float **like) {
    size_t n = (size_t)(rows * cols);
    float *w = malloc(n * sizeof *w); /* stands until the program ends, as a map would */
    if (!w) die(name, NULL);
    for (size_t i = 0; i < n; i++) w[i] = *like ? (*like)[i] : next() * 0.05F;
    *like = w;
    return ph_graph_weight(g, name, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols)),
                           ph_storage_of(PH_F32, w, n * sizeof *w, (size_t)cols * sizeof *w));
}

typedef struct sizes { /* what they are is each builder's own */
    int64_t at[4];
    int     is_twice;
} sizes;

/* Text of at[0] rows and pictures of at[1], of width at[2] in at[3] heads; weights written once or twice. */
static int couple(ph_graph *g, const sizes *s) {
    int64_t width = s->at[2];
    int     in[3], x[2];
    for (int i = 0; i < 2; i++)
        x[i] = ph_graph_input(g, i ? "vision" : "text", PH_F32,
                              ph_shape_of(3, ph_dim_of(1), ph_dim_of(s->at[i]), ph_dim_of(width)));
    for (int j = 0; j < 3; j++) {
        float *bytes = NULL;
        char   name[16];
        int    y[2], w = -1;
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "w%d.%d", j, i);
            if (!i || s->is_twice) w = weight(g, name, width, width, &bytes);
            y[i] = ph_graph_node(g, "Linear", PH_IN(x[i], w), PH_NO_ATTRS, "part.%d.%d", j, i);
        }
        in[j] = ph_graph_node(g, "Concat", PH_IN(y[0], y[1]), PH_ATTRS(PH_INT("axis", 1)), "joined.%d", j);
    }
    return ph_graph_node(g, "Attention", PH_IN(in[0], in[1], in[2]),
                         PH_ATTRS(PH_INT("q_num_heads", s->at[3]), PH_INT("kv_num_heads", s->at[3])), "o");
}

/* at[0] queries and keys, at[1] heads of at[2]; of each row of squares all but 7 of 10 are met. */
static int masked(ph_graph *g, const sizes *s) {
    int64_t     t = s->at[0], squares = t / 8;
    const float by = 1 / sqrtf((float)s->at[2]);
    float      *mask = malloc((size_t)(t * t) * sizeof *mask);
    if (!mask) die("mask", NULL);
    for (int64_t r = 0; r < squares; r++)
        for (int64_t c = 0; c < squares; c++) {
            int is_met = (r * 7 + c * 3 + r * c) % 10 < 3;
            for (int i = 0; i < 64; i++) mask[(r * 8 + i / 8) * t + c * 8 + i % 8] = is_met ? 0 : -INFINITY;
        }
    ph_dim one = ph_dim_of(1), h = ph_dim_of(s->at[1]), n = ph_dim_of(t), d = ph_dim_of(s->at[2]);
    int    q = ph_graph_input(g, "q", PH_F32, ph_shape_of(4, one, h, n, d));
    int    k = ph_graph_input(g, "kt", PH_F32, ph_shape_of(4, one, h, d, n));
    int    v = ph_graph_input(g, "v", PH_F32, ph_shape_of(4, one, h, n, d));
    int    c = ph_graph_constant(g, "by", PH_F32, ph_shape_of(0), &by);
    int    m = ph_graph_constant(g, "mask", PH_F32, ph_shape_of(2, n, n), mask);
    free(mask);
    int y = ph_graph_node(g, "MatMul", PH_IN(q, k), PH_NO_ATTRS, "scores");
    y = ph_graph_node(g, "Mul", PH_IN(y, c), PH_NO_ATTRS, "scaled");
    y = ph_graph_node(g, "Add", PH_IN(y, m), PH_NO_ATTRS, "masked");
    y = ph_graph_node(g, "Softmax", PH_IN(y), PH_ATTRS(PH_INT("axis", -1)), "weights");
    return ph_graph_node(g, "MatMul", PH_IN(y, v), PH_NO_ATTRS, "o");
}

/* The same sizes without a mask, by the fast dense attention. */
static int dense(ph_graph *g, const sizes *s) {
    ph_shape x = ph_shape_of(3, ph_dim_of(1), ph_dim_of(s->at[0]), ph_dim_of(s->at[1] * s->at[2]));
    int      q = ph_graph_input(g, "q", PH_F32, x), k = ph_graph_input(g, "k", PH_F32, x);
    int      v = ph_graph_input(g, "v", PH_F32, x);
    return ph_graph_node(g, "Attention", PH_IN(q, k, v),
                         PH_ATTRS(PH_INT("q_num_heads", s->at[1]), PH_INT("kv_num_heads", s->at[1])), "o");
}

/* at[0] tokens, at[1] modalities. */
static int gate(ph_graph *g, const sizes *s) {
    int x = ph_graph_input(g, "x", PH_F32, ph_shape_of(2, ph_dim_of(s->at[0]), ph_dim_of(s->at[1])));
    int pick = ph_graph_input(g, "pick", PH_I32, ph_shape_of(2, ph_dim_of(s->at[0]), ph_dim_of(1)));
    int y = ph_graph_node(g, "Softmax", PH_IN(x), PH_ATTRS(PH_INT("axis", -1)), "soft");
    return ph_graph_node(g, "GatherElements", PH_IN(y, pick), PH_ATTRS(PH_INT("axis", 1)), "o");
}

/* ---- pairs ---- */

typedef int build_fn(ph_graph *g, const sizes *s);
typedef struct pair {
    const char *name;
    build_fn   *plain, *ours; /* ours goes through the passes */
    const char *op;           /* that the passes must find */
    sizes       s;
    double      time_at_most, memory_at_most; /* ours / plain; 0: only said */
    int         is_other; /* plain computes something else of the same sizes: answers are not compared */
} pair;

static const pair pairs[] = {
    {"couple 16+64 x 768", couple, couple, "MultiModalAttention", {{16, 64, 768, 12}, 1}, 1 / 1.18, 0.89, 0},
    {"couple 8+49 x 1024", couple, couple, "MultiModalAttention", {{8, 49, 1024, 16}, 1}, 1 / 1.18, 0.89, 0},
    {"couple 32+196 x 768", couple, couple, "MultiModalAttention", {{32, 196, 768, 12}, 1}, 0, 0.89, 0},
    {"couple 16+64 x 768, one weight",
     couple,
     couple,
     "MultiModalAttention",
     {{16, 64, 768, 12}, 0},
     0,
     0,
     0},
    {"sparse 512 x 8 x 64", masked, masked, "SparseAttention", {{512, 8, 64, 0}, 0}, 1, 0, 0},
    {"sparse 512, to dense attention", dense, masked, "SparseAttention", {{512, 8, 64, 0}, 0}, 1, 0, 1},
    {"sparse 1024, to dense attention", dense, masked, "SparseAttention", {{1024, 8, 64, 0}, 0}, 1, 0, 1},
    {"gate 4096 x 4", gate, gate, "ModalGate", {{4096, 4, 0, 0}, 0}, 0.37, 0, 0},
    {"gate 256 x 3", gate, gate, "ModalGate", {{256, 3, 0, 0}, 0}, 0.37, 0, 0},
};
enum { N_PAIRS = (int)(sizeof pairs / sizeof *pairs) };

typedef struct side {
    ph_graph *g;
    ph_bare   b;
} side;

static int has_op(const ph_graph *g, const char *op) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->node[i].op->name, op)) return 1;
    return 0;
}

static void fill(const side *s) {
    seed = 7;
    for (size_t i = 0; i < s->g->n_values; i++) {
        const ph_value *v = &s->g->value[i];
        int64_t         n;
        if (v->cls != PH_VALUE_INPUT || ph_shape_count(&v->shape, NULL, &n, NULL)) continue;
        void *at = ph_bare_buffer(&s->b, v->name);
        for (int64_t k = 0; k < n; k++)
            if (v->dtype == PH_F32)
                ((float *)at)[k] = next();
            else
                ((int32_t *)at)[k] = (int32_t)(k % 3);
    }
}

static void open_side(side *s, build_fn *build, const sizes *how, const char *op, int threads,
                      unsigned features) {
    ph_err     err = {0};
    ph_kernels kernels;
    ph_syms    syms = {{0}};
    seed = 3; /* the same weights on both sides */
    ph_kernels_init(&kernels, features);
    ph_pass_env env = {.kernels = &kernels};
    if (ph_graph_open(&s->g, "modal", &err)) die("graph", &err);
    ph_graph_output(s->g, build(s->g, how), "y");
    if (ph_graph_finish(s->g, &err) || (op && ph_passes_run(s->g, &env, NULL, &err))) die("graph", &err);
    if (op && !has_op(s->g, op)) die("the passes did not find it", NULL);
    if (ph_bare_open(&s->b, s->g, &syms, threads, features, &err)) die("engine", &err);
    fill(s);
}

static void close_side(side *s) {
    ph_bare_close(&s->b);
    ph_graph_close(s->g);
}

static void run(side *s) {
    ph_err err = {0};
    if (ph_bare_run(&s->b, &err)) die("run", &err);
}

static uint64_t now_ns(int is_cpu) {
    struct timespec t;
    if (!is_cpu || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)) return ph_clock_ns();
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds of a run, over as many as make a round. */
static double time_of(side *s, int is_cpu) {
    uint64_t begin = now_ns(is_cpu), now;
    int      n = 0;
    do {
        run(s);
        n++;
        now = now_ns(is_cpu);
    } while (now - begin < ROUND_NS);
    return (double)(now - begin) / n;
}

static void expect_same(const pair *p, const side *a, const side *b) {
    int64_t      n;
    double       worst = 0, most = 0;
    const float *x = ph_bare_buffer(&a->b, "y"), *y = ph_bare_buffer(&b->b, "y");
    if (p->is_other || ph_shape_count(&a->g->value[ph_graph_find(a->g, "y")].shape, NULL, &n, NULL)) return;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        most = fmax(most, fabs((double)x[i]));
    }
    if (!(worst <= 1e-4 * most)) die("the two do not agree", NULL);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double memory_of(const side *s) {
    const ph_need *n = &s->b.need;
    return (double)(n->input + n->activations + n->engine + n->weights);
}

typedef struct words { /* of the command line */
    int         threads, rounds, is_json, is_cpu;
    const char *only;
} words;

/* One pair; 0: it misses what it is held to. */
static int measure(const pair *p, const words *w, int is_first) {
    side     plain, ours;
    double   ratio[ROUNDS_MAX];
    unsigned features = ph_cpu_features();
    open_side(&plain, p->plain, &p->s, NULL, w->threads, features);
    open_side(&ours, p->ours, &p->s, p->op, w->threads, features);
    run(&plain), run(&ours);
    expect_same(p, &plain, &ours);
    for (int r = 0; r < w->rounds; r++) {
        double apart = time_of(&plain, w->is_cpu);
        ratio[r] = time_of(&ours, w->is_cpu) / apart;
    }
    qsort(ratio, (size_t)w->rounds, sizeof *ratio, by_size);
    double time = ratio[w->rounds / 2], memory = memory_of(&ours) / memory_of(&plain);
    int    is_met = (!(p->time_at_most > 0) || time <= p->time_at_most) &&
                 (!(p->memory_at_most > 0) || memory <= p->memory_at_most);
    if (w->is_json)
        printf(
            "%s{\"name\": \"%s\", \"threads\": %d, \"rounds\": %d, \"time\": %.4f, \"time_at_most\": %.4f, "
            "\"memory\": %.4f, \"memory_at_most\": %.4f, \"met\": %s}",
            is_first ? "[" : ",\n ", p->name, w->threads, w->rounds, time, p->time_at_most, memory,
            p->memory_at_most, is_met ? "true" : "false");
    else
        printf("%-32s time %6.3f (%.3f to %.3f; at most %.3f)  memory %6.3f (at most %.3f)  %s\n", p->name,
               time, ratio[0], ratio[w->rounds - 1], p->time_at_most, memory, p->memory_at_most,
               is_met ? "met" : "MISSED");
    fflush(stdout);
    close_side(&plain);
    close_side(&ours);
    return is_met;
}

int main(int argc, char **argv) {
    words w = {.threads = 1, .rounds = 15, .only = ""};
    int   n_met = 0, n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            w.is_json = 1;
        else if (!strcmp(argv[i], "--cpu-time"))
            w.is_cpu = 1;
        else if (!strcmp(argv[i], "-t") && i + 1 < argc)
            w.threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            w.rounds = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--only") && i + 1 < argc)
            w.only = argv[++i];
        else
            return fprintf(stderr,
                           "ph-modal [-t THREADS] [--rounds N] [--only PART] [--cpu-time] [--json]\n"),
                   2;
    }
    if (w.threads < 1 || w.rounds < 1 || w.rounds > ROUNDS_MAX)
        return fprintf(stderr, "ph-modal: -t is 1 or more, --rounds 1 to %d\n", ROUNDS_MAX), 2;
    for (int i = 0; i < N_PAIRS; i++) {
        if (!strstr(pairs[i].name, w.only)) continue;
        n_met += measure(&pairs[i], &w, !n);
        n++;
    }
    if (w.is_json) printf("%s]\n", n ? "" : "[");
    return n_met < n;
}
