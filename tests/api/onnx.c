/* onnx.c - ONNX models by themselves, and operators of a plug-in in them, through the public header. */
#include "api_check.h"

#include <math.h>
#include <unistd.h>

#define FOLDER "tests/golden/plugin/ops/"
enum { K = 24, MOST = 12, IMG = 32000 };

static pinhole_error error;
static char          plugin[200];

static void build_plugin(const char *folder) {
    char        command[600];
    const char *cc = getenv("CC");
    snprintf(plugin, sizeof plugin, "%s/adapter.so", folder);
    snprintf(command, sizeof command,
             "%s -std=c11 -O1 -shared -fPIC -Iinclude -o '%s' examples/plugin/adapter_dispatch.c",
             cc && *cc ? cc : "cc", plugin);
    if (!system(command)) return;
    printf("the plug-in does not build: %s\n", command);
    exit(1);
}

static pinhole_named_array x_of(float *x, int64_t rows) {
    return (pinhole_named_array){"x", {x, PINHOLE_F32, 2, {rows, K}}};
}

static pinhole_named_array ids_of(int64_t *ids, int64_t rows) {
    return (pinhole_named_array){"ids", {ids, PINHOLE_I64, 1, {rows}}};
}

static pinhole_onnx *open_model(const char *path, pinhole_plugins *plugins, int threads) {
    pinhole_onnx_options o = {.size = sizeof o, .threads = threads, .plugins = plugins};
    pinhole_onnx        *m;
    MUST(pinhole_onnx_open(&m, path, &o, &error));
    return m;
}

/* y of this many rows, by the model. */
static void run(pinhole_onnx *m, int64_t rows, float *y) {
    float               x[MOST * K];
    int64_t             ids[MOST];
    pinhole_named_array out = {.name = "y"};
    for (int i = 0; i < rows * K; i++) x[i] = (float)((i * 7) % 23) / 11 - 1;
    for (int i = 0; i < rows; i++) ids[i] = i % 2 ? IMG : i;
    pinhole_named_array in[] = {ids_of(ids, rows), x_of(x, rows)}; /* in any order */
    MUST(pinhole_onnx_run(m, in, 2, &out, 1, &error));
    CHECK(out.array.type == PINHOLE_F32 && out.array.rank == 2 && out.array.dim[0] == rows &&
          out.array.dim[1] == K);
    if (rows) memcpy(y, out.array.data, (size_t)(rows * K) * sizeof *y);
}

/* The user's operator, pinhole's own, and ONNX's spelled out: one answer, whatever the rows and the threads.
 */
static void same_numbers(pinhole_plugins *plugins) {
    static const int64_t rows[] = {3, 3, MOST, 0, 1};
    for (int threads = 1; threads <= 2; threads++) {
        pinhole_onnx *user = open_model(FOLDER "user.onnx", plugins, threads);
        pinhole_onnx *ours = open_model(FOLDER "ours.onnx", NULL, threads);
        pinhole_onnx *spelled = open_model(FOLDER "spelled.onnx", plugins, threads);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            float a[MOST * K], b[MOST * K], c[MOST * K], most = 0, worst = 0;
            run(user, rows[i], a), run(ours, rows[i], b), run(spelled, rows[i], c);
            for (int k = 0; k < rows[i] * K; k++) {
                most = fmaxf(most, fabsf(a[k]));
                worst = fmaxf(worst, fmaxf(fabsf(a[k] - b[k]), fabsf(a[k] - c[k])));
            }
            CHECK(!rows[i] || (most > 0.1f && worst <= 1e-5f * most));
        }
        pinhole_onnx_close(user), pinhole_onnx_close(ours), pinhole_onnx_close(spelled);
    }
}

static void described(pinhole_plugins *plugins) {
    pinhole_operator    o = {.size = sizeof o};
    pinhole_named_array a;
    pinhole_onnx       *m = open_model(FOLDER "batch.onnx", plugins, 0);
    CHECK(pinhole_plugins_operator(plugins, 0, &o, &error) == 1 && !strcmp(o.domain, "com.acme") &&
          o.since == 1);
    CHECK(!strcmp(o.name, "AdapterDispatch") && !strcmp(o.plugin, "acme") &&
          !strcmp(o.plugin_version, "1.0"));
    CHECK(!strcmp(o.path, plugin) && pinhole_plugins_operator(plugins, 1, &o, &error) == 0 && !error.code);
    CHECK(pinhole_onnx_io(m, 0, 1, &a, &error) == 1 && !strcmp(a.name, "ids") && a.array.type == PINHOLE_I32);
    CHECK(a.array.rank == 2 && a.array.dim[0] == -1 && !a.array.data);
    CHECK(pinhole_onnx_io(m, 1, 0, &a, &error) == 1 && !strcmp(a.name, "y") && a.array.dim[2] == K);
    CHECK(pinhole_onnx_io(m, 0, 2, &a, &error) == 0 && pinhole_onnx_io(m, 1, 1, &a, &error) == 0);
    pinhole_onnx_close(m);
}

#define REFUSED(call, want, word)                                                                            \
    CHECK((call) == (want) && error.code == (want) && strstr(error.message, word))

static void refused(pinhole_plugins *plugins) {
    float                x[MOST * K] = {0};
    int64_t              ids[MOST] = {0};
    pinhole_plugins     *none = plugins;
    pinhole_onnx        *m = NULL, *closed = m;
    pinhole_onnx_options o = {.size = sizeof o, .threads = -1};
    const char          *hole[] = {NULL}, *missing[] = {"no/such.so"}, *text[] = {"Makefile"};
    pinhole_named_array  in[] = {x_of(x, 3), ids_of(ids, 3)}, out = {.name = "y"}, bad[2];
    REFUSED(pinhole_plugins_open(NULL, missing, 1, &error), PINHOLE_EUSAGE, "plugins is NULL");
    REFUSED(pinhole_plugins_open(&none, NULL, 1, &error), PINHOLE_EUSAGE, "paths is NULL");
    CHECK(!none);
    REFUSED(pinhole_plugins_open(&none, hole, 1, &error), PINHOLE_EUSAGE, "path 0 of 1 is NULL");
    REFUSED(pinhole_plugins_open(&none, hole, 0, &error), PINHOLE_EUSAGE, "no paths");
    REFUSED(pinhole_plugins_open(&none, missing, 1, &error), PINHOLE_EPATH,
            "no/such.so: there is no such file");
    REFUSED(pinhole_plugins_open(&none, text, 1, &error), PINHOLE_EMACHINE, "cannot be loaded as a plug-in");
    REFUSED(pinhole_plugins_operator(NULL, 0, NULL, &error), PINHOLE_EUSAGE, "plugins is NULL");
    REFUSED(pinhole_plugins_operator(plugins, 0, &(pinhole_operator){0}, &error), PINHOLE_EUSAGE,
            "sizeof(pinhole_operator)");
    REFUSED(pinhole_onnx_open(NULL, FOLDER "user.onnx", NULL, &error), PINHOLE_EUSAGE, "is NULL");
    REFUSED(pinhole_onnx_open(&m, NULL, NULL, &error), PINHOLE_EUSAGE, "path is NULL");
    REFUSED(pinhole_onnx_open(&m, FOLDER "user.onnx", &o, &error), PINHOLE_EUSAGE, "threads is -1");
    REFUSED(pinhole_onnx_open(&m, FOLDER "none.onnx", NULL, &error), PINHOLE_EPATH, "none.onnx");
    REFUSED(pinhole_onnx_open(&m, FOLDER "user.onnx", NULL, &error), PINHOLE_EUNSUP,
            "no operator AdapterDispatch of domain com.acme");
    CHECK(strstr(error.note[0], "at node 'adapter'") && !m && !closed);
    m = open_model(FOLDER "user.onnx", plugins, 1);
    REFUSED(pinhole_onnx_io(NULL, 0, 0, &out, &error), PINHOLE_EUSAGE, "model is NULL");
    REFUSED(pinhole_onnx_run(NULL, in, 2, &out, 1, &error), PINHOLE_EUSAGE, "model is NULL");
    REFUSED(pinhole_onnx_run(m, NULL, 2, &out, 1, &error), PINHOLE_EUSAGE, "in is NULL");
    REFUSED(pinhole_onnx_run(m, in, 1, &out, 1, &error), PINHOLE_EMISMATCH, "input 'ids' is given 0 times");
    out = (pinhole_named_array){.name = "z"};
    REFUSED(pinhole_onnx_run(m, in, 2, &out, 1, &error), PINHOLE_EUSAGE, "no output 'z'");
    out.name = NULL;
    REFUSED(pinhole_onnx_run(m, in, 2, &out, 1, &error), PINHOLE_EUSAGE, "output 0 has no name");
    out.name = "y";
#define WRONG(field, value, want, word)                                                                      \
    do {                                                                                                     \
        memcpy(bad, in, sizeof in);                                                                          \
        bad[0].field = (value);                                                                              \
        REFUSED(pinhole_onnx_run(m, bad, 2, &out, 1, &error), want, word);                                   \
    } while (0)
    WRONG(name, NULL, PINHOLE_EUSAGE, "input 0 has no name");
    WRONG(name, "w", PINHOLE_EMISMATCH, "input 'x' is given 0 times");
    WRONG(name, "ids", PINHOLE_EMISMATCH, "input 'x' is given 0 times");
    WRONG(array.data, NULL, PINHOLE_EUSAGE, "input 'x' has no data");
    WRONG(array.type, PINHOLE_I64, PINHOLE_EMISMATCH, "input 'x' is float in the model, given as int64");
    WRONG(array.rank, 9, PINHOLE_EMISMATCH, "has rank 9");
    WRONG(array.rank, 1, PINHOLE_EMISMATCH, "rank 2, given 1");
    WRONG(array.dim[0], -1, PINHOLE_EMISMATCH, "dimension 0 is -1");
    WRONG(array.dim[0], 2, PINHOLE_EMISMATCH, "is 2, and 3 as dimension 0");
    WRONG(array.dim[1], K + 1, PINHOLE_EMISMATCH, "dimension 1");
    WRONG(array.dim[0], (int64_t)1 << 62, PINHOLE_EMISMATCH, "dimension 0 is 4611686018427387904");
    MUST(pinhole_onnx_run(m, in, 2, &out, 1, &error)); /* after all that */
    MUST(pinhole_onnx_run(m, in, 2, NULL, 0, NULL));
    pinhole_onnx_close(m);
    pinhole_onnx_close(NULL);
    pinhole_plugins_close(NULL);
}

/* Plug-ins closed before the models that use them. */
static void closed_first(void) {
    const char      *paths[] = {plugin};
    pinhole_plugins *plugins;
    float            y[MOST * K];
    MUST(pinhole_plugins_open(&plugins, paths, 1, &error));
    pinhole_onnx *m = open_model(FOLDER "user.onnx", plugins, 1);
    pinhole_plugins_close(plugins);
    run(m, 2, y);
    pinhole_onnx_close(m);
}

int main(void) {
    char             folder[] = "/tmp/pinhole_api_XXXXXX";
    const char      *paths[] = {plugin};
    pinhole_plugins *plugins;
    if (!mkdtemp(folder)) return 1;
    build_plugin(folder);
    MUST(pinhole_plugins_open(&plugins, paths, 1, &error));
    same_numbers(plugins);
    described(plugins);
    refused(plugins);
    pinhole_plugins_close(plugins);
    closed_first();
    CHECK(!remove(plugin) && !rmdir(folder));
    return sum();
}
