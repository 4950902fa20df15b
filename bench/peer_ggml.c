/* peer_ggml.c - the products of `ph-kernel linear` by ggml's CPU backend; built and run by bench/kernels.py.
 *
 *     peer_ggml TYPE ROWS COLS K COPIES THREADS ROUNDS REPACK
 *
 * REPACK 1: weights stand in the first of the backend's buffer types of its own that takes this product
 * (copies in an order that its kernels like better), as llama.cpp would have them; it leaves with 77 where
 * there is none. JSON: milliseconds of each round.
 */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SOME_ROWS = 64, ROUND_NS = 20000000 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static float any(void) {
    return (float)rand() / (float)RAND_MAX * 2 - 1;
}

static enum ggml_type type_of(const char *name) {
    for (int t = 0; t < GGML_TYPE_COUNT; t++)
        if (ggml_type_name((enum ggml_type)t) && !strcmp(ggml_type_name((enum ggml_type)t), name))
            return (enum ggml_type)t;
    fprintf(stderr, "peer_ggml: no type %s\n", name);
    exit(2);
}

/* The first of the backend's own buffer types that takes op; NULL: none. */
static ggml_backend_buffer_type_t own_type(ggml_backend_dev_t device, struct ggml_tensor *w,
                                           struct ggml_tensor *op) {
    ggml_backend_dev_get_extra_bufts_t extra =
        (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t *t = extra ? extra(device) : NULL; t && *t; t++) {
        ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(*t, 0);
        w->buffer = empty;
        int takes = ggml_backend_dev_supports_op(device, op);
        w->buffer = NULL;
        ggml_backend_buffer_free(empty);
        if (takes) return *t;
    }
    return NULL;
}

static void fill(struct ggml_tensor *w, enum ggml_type type, int64_t cols, int64_t k) {
    int64_t        made = cols < SOME_ROWS ? cols : SOME_ROWS;
    size_t         row = ggml_row_size(type, k);
    float         *x = malloc((size_t)(made * k) * sizeof *x);
    unsigned char *to = malloc(row * (size_t)cols);
    for (int64_t i = 0; i < made * k; i++) x[i] = any();
    ggml_quantize_chunk(type, x, to, 0, made, k, NULL);
    for (int64_t r = made; r < cols; r++) memcpy(to + (size_t)r * row, to + (size_t)(r % made) * row, row);
    ggml_backend_tensor_set(w, to, 0, row * (size_t)cols);
    free(x);
    free(to);
}

int main(int argc, char **argv) {
    if (argc != 9) return fprintf(stderr, "peer_ggml TYPE ROWS COLS K COPIES THREADS ROUNDS REPACK\n"), 2;
    enum ggml_type type = type_of(argv[1]);
    int64_t        rows = atoll(argv[2]), cols = atoll(argv[3]), k = atoll(argv[4]);
    int copies = atoi(argv[5]), threads = atoi(argv[6]), rounds = atoi(argv[7]), repack = atoi(argv[8]);
    if (rows < 1 || cols < 1 || k < 1 || k % ggml_blck_size(type) || copies < 1 || threads < 1 || rounds < 1)
        return fprintf(stderr, "peer_ggml: sizes are from 1 on, and K is whole blocks of %s\n", argv[1]), 2;

    ggml_backend_t     cpu = ggml_backend_cpu_init();
    ggml_backend_dev_t device = ggml_backend_get_device(cpu);
    ggml_backend_cpu_set_n_threads(cpu, threads);

    struct ggml_init_params room = {.mem_size = ggml_tensor_overhead() * (size_t)(2 * copies + 16) +
                                                ggml_graph_overhead_custom((size_t)copies + 16, false),
                                    .no_alloc = true};
    struct ggml_context    *weights = ggml_init(room), *work = ggml_init(room);
    struct ggml_tensor     *x = ggml_new_tensor_2d(work, GGML_TYPE_F32, k, rows);
    struct ggml_cgraph     *graph = ggml_new_graph_custom(work, (size_t)copies + 16, false);
    struct ggml_tensor    **w = malloc((size_t)copies * sizeof *w);
    for (int c = 0; c < copies; c++) {
        w[c] = ggml_new_tensor_2d(weights, type, k, cols);
        ggml_build_forward_expand(graph, ggml_mul_mat(work, w[c], x));
    }
    ggml_backend_buffer_type_t where = ggml_backend_cpu_buffer_type();
    if (repack && !(where = own_type(device, w[0], ggml_graph_node(graph, 0)))) return 77;
    if (!ggml_backend_alloc_ctx_tensors_from_buft(weights, where) ||
        !ggml_backend_alloc_ctx_tensors_from_buft(work, ggml_backend_cpu_buffer_type()))
        return fprintf(stderr, "peer_ggml: no memory\n"), 5;
    for (int c = 0; c < copies; c++) fill(w[c], type, cols, k);
    for (int64_t i = 0; i < k * rows; i++) ((float *)x->data)[i] = any();

    printf("{\"ms\": [");
    for (int r = -1; r < rounds; r++) { /* one unseen */
        double begin = now_ns(), now;
        int    n = 0;
        do {
            if (ggml_backend_graph_compute(cpu, graph) != GGML_STATUS_SUCCESS) return 5;
            n++;
        } while ((now = now_ns()) - begin < ROUND_NS);
        if (r >= 0) printf("%s%.4f", r ? ", " : "", (now - begin) / n / 1e6);
    }
    printf("], \"buffers\": \"%s\"}\n", ggml_backend_buft_name(where));
    return 0;
}
