/* onnx_write_test.c - ONNX files as they are written: read again by our reader, with weights inside, beside
 * and shared. */
#include "formats/onnx_write.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 300, COLS = 5 };

typedef struct model {
    ph_onnx_writer w;
    float          small[4], large[ROWS * COLS];
} model;

/* Row r of a made weight: r, r + 1 .. */
static ph_rc make(const void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err) {
    (void)arg;
    if (i != 2) return PH_FAIL(err, PH_EBUG, "weight %zu", i);
    for (size_t k = 0; k < n * COLS; k++) {
        float x = (float)(first + k / COLS + k % COLS);
        memcpy(out + k * sizeof x, &x, sizeof x);
    }
    return PH_OK;
}
static const ph_onnx_producer producer = {make, NULL};

static void put_weight(model *m, const char *name, int64_t rows, const float *bytes) {
    ph_onnx_stored s = {
        .name = name, .type = PH_ONNX_FLOAT, .rank = 2, .dim = {rows, rows < ROWS ? 2 : COLS}};
    s.row = (size_t)s.dim[1] * sizeof(float);
    s.n_bytes = (size_t)rows * s.row;
    s.bytes = bytes;
    ph_onnx_put_weight(&m->w, &s);
}

static void open_model(model *m, int with_values) {
    static const int64_t ints[2] = {-1, 300};
    static const double  reals[2] = {0.5, -2};
    static const char   *texts[2] = {"Tanh", ""};
    static const uint8_t seven[8] = {7};
    const ph_onnx_tensor one = {.type = PH_ONNX_INT64, .rank = 1, .dim = {1}, .bytes = seven, .n_bytes = 8};
    const ph_onnx_attr   attr[] = {
          {.name = "i", .type = PH_ONNX_A_INT, .i = -5},
          {.name = "f", .type = PH_ONNX_A_FLOAT, .f = 0.25},
          {.name = "s", .type = PH_ONNX_A_TEXT, .text = "none"},
          {.name = "is", .type = PH_ONNX_A_INTS, .ints = ints, .n = 2},
          {.name = "fs", .type = PH_ONNX_A_FLOATS, .floats = reals, .n = 2},
          {.name = "ss", .type = PH_ONNX_A_TEXTS, .texts = texts, .n = 2},
          {.name = "t", .type = PH_ONNX_A_TENSOR, .tensor = &one},
    };
    const char        *in[3] = {"x", "", "small"}, *out[1] = {"y"};
    const ph_onnx_prop prop = {"pinhole.modality", "vision"};
    ph_onnx_node       n = {
              .name = "a node", .op = "Made", .domain = "com.microsoft", .in = in, .n_in = 3, .out = out};
    n.n_out = 1;
    n.attr = attr;
    n.n_attrs = 7;
    *m = (model){.w = {.ir_version = 10, .opset = 21, .graph_name = "vision"}};
    ph_onnx_put_opset(&m->w, "com.microsoft", 1);
    ph_onnx_put_opset(&m->w, "com.acme", 3);
    ph_onnx_put_opset(&m->w, "com.acme", 2); /* of one domain the newest */
    for (int i = 0; i < 4; i++) m->small[i] = (float)i;
    for (int i = 0; i < ROWS * COLS; i++) m->large[i] = (float)i;
    ph_onnx_put_node(&m->w, &n, &prop, 1);
    ph_onnx_put_prop(&m->w, "pinhole.modality", "fused");
    ph_onnx_put_prop(&m->w, "other", "not ours");
    ph_onnx_put_value(
        &m->w, 0,
        &(ph_onnx_value){.name = "x", .type = PH_ONNX_FLOAT, .rank = 2, .dim = {{-1, "I"}, {3, ""}}});
    ph_onnx_put_value(&m->w, 1, &(ph_onnx_value){.name = "y", .type = PH_ONNX_INT64});
    put_weight(m, "small", 2, with_values ? m->small : NULL);
    put_weight(m, "large", ROWS, with_values ? m->large : NULL);
    put_weight(m, "made", ROWS, NULL);
}

static void expect_attrs(const ph_onnx_node *n) {
    const ph_onnx_attr *a = n->attr;
    CHECK(n->n_attrs == 7 && a[0].i == -5 && a[1].f >= 0.25 && a[1].f <= 0.25 && !strcmp(a[2].text, "none"));
    CHECK(a[3].n == 2 && a[3].ints[0] == -1 && a[3].ints[1] == 300 && a[4].n == 2 && a[4].floats[1] <= -2);
    CHECK(a[5].n == 2 && !strcmp(a[5].texts[0], "Tanh") && !*a[5].texts[1]);
    CHECK(a[6].tensor && a[6].tensor->count == 1 && a[6].tensor->bytes[0] == 7);
}

static void expect_weights(const ph_onnx *o, const model *m) {
    CHECK(o->n_initializers == 3);
    if (o->n_initializers != 3) return;
    CHECK(!memcmp(o->initializer[0].bytes, m->small, sizeof m->small));
    CHECK(!memcmp(o->initializer[1].bytes, m->large, sizeof m->large));
    float x;
    memcpy(&x, o->initializer[2].bytes + sizeof x * (ROWS * COLS - 1), sizeof x);
    CHECK(x >= ROWS - 1 + COLS - 1 && x <= ROWS - 1 + COLS - 1);
}

void test_onnx_written(void) {
    model          m;
    ph_onnx_memory bytes;
    ph_onnx        o;
    ph_err         err = {0};
    open_model(&m, 1);
    CHECK_SAY(!ph_onnx_write_memory(&bytes, &m.w, &producer, PH_ONNX_EXTERNAL_NEVER, &err), "%s", err.msg);
    CHECK(!bytes.n_shared);
    CHECK_SAY(!ph_onnx_view(&o, bytes.model, bytes.n, "written", &err), "%s", err.msg);
    CHECK(o.ir_version == 10 && !strcmp(o.producer, "pinhole") && !strcmp(o.graph_name, "vision"));
    CHECK(o.n_opsets == 3 && o.opset[0].version == 21 && !strcmp(o.opset[1].domain, "com.microsoft"));
    CHECK(!strcmp(o.opset[2].domain, "com.acme") && o.opset[2].version == 3);
    CHECK(o.n_nodes == 1 && o.node[0].n_in == 3 && !*o.node[0].in[1] && !strcmp(o.node[0].name, "a node"));
    CHECK(o.node[0].n_props == 1 && !strcmp(o.node[0].prop[0].value, "vision"));
    CHECK(o.n_props == 2 && !strcmp(o.prop[0].value, "fused") && !*o.prop[1].key); /* others' is left alone */
    CHECK(o.n_inputs == 1 && o.input[0].dim[0].size == -1 && !strcmp(o.input[0].dim[0].param, "I"));
    CHECK(o.n_outputs == 1 && o.output[0].has_shape && o.output[0].rank == 0);
    if (o.n_nodes) expect_attrs(&o.node[0]);
    expect_weights(&o, &m);
    ph_onnx_close(&o);
    ph_onnx_memory_close(&bytes);
    ph_onnx_writer_close(&m.w);
}

/* A folder of a test's own, with a model's path in it and that of its data. */
typedef struct place {
    char folder[32], path[64], data[80];
} place;

static void open_place(place *p) {
    *p = (place){.folder = "/tmp/ph-onnx-XXXXXX"};
    CHECK(mkdtemp(p->folder) != NULL);
    snprintf(p->path, sizeof p->path, "%s/m.onnx", p->folder);
    snprintf(p->data, sizeof p->data, "%s.data", p->path);
}

/* Nothing else is there. */
static void close_place(place *p) {
    unlink(p->path);
    unlink(p->data);
    CHECK(!rmdir(p->folder));
}

/* Large weights beside the model: whole pages, under the model's own name in its own folder. */
void test_onnx_written_beside(void) {
    place        at;
    model        m;
    char         data[80];
    ph_onnx_size size;
    ph_onnx      o;
    ph_err       err = {0};
    open_model(&m, 1);
    open_place(&at);
    CHECK_SAY(!ph_onnx_write(at.path, &m.w, &producer, 1000, &size, &err), "%s", err.msg);
    CHECK(size.data == 8192 + sizeof m.large && size.model < 1000);
    CHECK_SAY(!ph_onnx_open(&o, at.path, &err), "%s", err.msg);
    CHECK(o.n_external == 1 && !strcmp(o.external_name[0], "m.onnx.data"));
    expect_weights(&o, &m);
    if (o.n_external && o.n_initializers == 3)
        CHECK(o.initializer[2].bytes == o.external[0].bytes + 8192 && o.external[0].n == size.data);
    ph_onnx_close(&o);
    m.w.weight[1].is_inside = 1;
    CHECK(!ph_onnx_measure(&m.w, 1000, &size, &err) && size.data == sizeof m.large);
    CHECK(!ph_onnx_write(at.path, &m.w, &producer, PH_ONNX_EXTERNAL_AUTO, &size, &err) && !size.data);
    unlink(at.data);
    CHECK_SAY(!ph_onnx_open(&o, at.path, &err) && !o.n_external, "%s", err.msg);
    ph_onnx_close(&o);
    CHECK(ph_onnx_write(at.folder, &m.w, &producer, 1000, &size, &err) == PH_EPATH);
    snprintf(data, sizeof data, "%s.data", at.folder);
    unlink(data);
    close_place(&at);
    ph_onnx_writer_close(&m.w);
}

static ph_rc make_none(const void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err) {
    (void)arg, (void)i, (void)first, (void)n, (void)out;
    return PH_FAIL(err, PH_EFORMAT, "no number");
}

/* A model that cannot be finished leaves that which stands there, and the data of that. */
void test_onnx_unfinished(void) {
    static const ph_onnx_producer none = {make_none, NULL};
    char                          path[64];
    place                         at;
    model                         m;
    ph_onnx_size                  size;
    ph_onnx                       o;
    ph_err                        err = {0};
    open_model(&m, 1);
    open_place(&at);
    snprintf(path, sizeof path, "%s/m\\.onnx", at.folder);
    CHECK(ph_onnx_write(path, &m.w, &producer, 1000, &size, &err) == PH_EPATH &&
          strstr(err.msg, "a backslash"));
    CHECK_SAY(!ph_onnx_write(at.path, &m.w, &producer, 1000, &size, &err), "%s", err.msg);
    m.w.weight[2].is_inside = 1;
    CHECK(ph_onnx_write(at.path, &m.w, &none, 1000, &size, &err) == PH_EFORMAT);
    m.w.weight[2].is_inside = 0;
    CHECK_SAY(!ph_onnx_open(&o, at.path, &err), "%s", err.msg);
    expect_weights(&o, &m);
    ph_onnx_close(&o);
    close_place(&at);
    ph_onnx_writer_close(&m.w);
}

static int holds(const ph_onnx_memory *m, const char *text) {
    return memmem(m->model, m->n, text, strlen(text)) != NULL;
}

/* Or the model itself says where it lies; sizes are reckoned before that is known. */
void test_onnx_addressed(void) {
    model          m;
    ph_onnx_memory bytes;
    ph_err         err = {0};
    char           number[24];
    open_model(&m, 1);
    CHECK_SAY(!ph_onnx_write_addressed(&bytes, &m.w, &producer, 1000, &err), "%s", err.msg);
    CHECK(bytes.n_shared == 2 && holds(&bytes, "*/_ORT_MEM_ADDR_/*"));
    for (size_t i = 0; i < bytes.n_shared; i++) {
        snprintf(number, sizeof number, "%020llu", (unsigned long long)(uintptr_t)bytes.shared[i].bytes);
        CHECK_SAY(holds(&bytes, number), "weight %zu at %s", i, number);
    }
    ph_onnx_memory_close(&bytes);
    CHECK_SAY(!ph_onnx_write_addressed(&bytes, &m.w, &producer, PH_ONNX_EXTERNAL_NEVER, &err), "%s", err.msg);
    CHECK(!bytes.n_shared && !holds(&bytes, "_ORT_MEM_ADDR_"));
    ph_onnx_memory_close(&bytes);
    ph_onnx_writer_close(&m.w);
}

/* What is shared is the caller's own pointer, or made once. */
void test_onnx_shared(void) {
    model          m;
    ph_onnx_memory bytes;
    ph_onnx        o;
    ph_err         err = {0};
    float          x;
    open_model(&m, 1);
    CHECK_SAY(!ph_onnx_write_memory(&bytes, &m.w, &producer, 1000, &err), "%s", err.msg);
    CHECK(bytes.n_shared == 2 && bytes.n < 1000);
    CHECK(bytes.shared[0].bytes == m.large && !bytes.shared[0].is_owned);
    CHECK(bytes.shared[1].is_owned && !strcmp(bytes.shared[1].weight->name, "made"));
    memcpy(&x, (const char *)bytes.shared[1].bytes + 7 * COLS * sizeof x, sizeof x);
    CHECK(x >= 7 && x <= 7);
    CHECK(ph_onnx_view(&o, bytes.model, bytes.n, "shared", &err)); /* there is no folder to look in */
    ph_onnx_memory_close(&bytes);
    CHECK(ph_onnx_write_memory(&bytes, &m.w, NULL, 1000, &err) == PH_EBUG && !bytes.model);
    ph_onnx_writer_close(&m.w);
}

void test_onnx_too_large(void) {
    model        m;
    ph_onnx_size size;
    ph_err       err = {0};
    open_model(&m, 0);
    m.w.weight[1].n_bytes = (size_t)3 << 30;
    CHECK(!ph_onnx_measure(&m.w, PH_ONNX_EXTERNAL_AUTO, &size, &err) && size.data > (uint64_t)3 << 30 &&
          size.model < 1000);
    CHECK(ph_onnx_measure(&m.w, PH_ONNX_EXTERNAL_NEVER, &size, &err) == PH_ELIMIT &&
          strstr(err.msg, "--external") != NULL);
    CHECK(ph_onnx_measure(&m.w, (uint64_t)4 << 30, &size, &err) == PH_ELIMIT);
    m.w.weight[1].n_bytes = m.w.weight[2].n_bytes = (size_t)1 << 62;
    CHECK(ph_onnx_measure(&m.w, 0, &size, &err) == PH_ELIMIT);
    ph_onnx_writer_close(&m.w);
}
