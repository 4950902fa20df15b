/* onnx_write.c - the model's message around weights that are not in memory: every length is known beforehand.
 *
 *     ModelProto: ir_version, producer, graph { nodes, name, initializer* , inputs, outputs }, opsets, props
 *
 * Only the heads of weights are made here; their bytes are written, or shared, between them.
 */
#include "formats/onnx_write.h"

#include "base/file.h"
#include "base/mem.h"
#include "formats/produce.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AUTO_BYTES = 1024, PAGE = 4096 };

/* One way to write a model: which weights stand beside it, under which name. */
typedef struct plan {
    const ph_onnx_writer *w;
    uint64_t              external; /* weights of more bytes than this */
    const char           *location; /* of the data */
    const ph_onnx_shared *shared;   /* those beside it, where offsets are their addresses; else NULL */
    int                   is_addressed;
    ph_pbw                head, tail; /* in front of the weights and behind them */
    uint64_t              inside;     /* bytes of the weights' fields */
    uint64_t              data;       /* bytes beside the model */
} plan;

static int is_beside(const plan *p, const ph_onnx_stored *s) {
    return !s->is_inside && s->n_bytes > p->external;
}

static uint64_t on_page(uint64_t at) {
    return (at + PAGE - 1) / PAGE * PAGE;
}

static void put_entry(ph_pbw *w, const char *key, const char *value) {
    size_t at = ph_pbw_open(w, 13);
    ph_pbw_text(w, 1, key);
    ph_pbw_text(w, 2, value);
    ph_pbw_end(w, at);
}

/* The fields of a TensorProto but for its bytes, which are its last field. */
static void tensor_fields(const plan *p, const ph_onnx_stored *s, uint64_t offset, ph_pbw *w) {
    char number[24];
    for (int i = 0; i < s->rank; i++) ph_pbw_int(w, 1, s->dim[i]);
    ph_pbw_int(w, 2, s->type);
    ph_pbw_text(w, 8, s->name);
    if (!is_beside(p, s)) {
        ph_pbw_head(w, 9, s->n_bytes);
        return;
    }
    put_entry(w, "location", p->location);
    /* Addresses are not known when sizes are reckoned: they take as many digits whatever they are. */
    snprintf(number, sizeof number, p->is_addressed ? "%020" PRIu64 : "%" PRIu64, offset);
    put_entry(w, "offset", number);
    snprintf(number, sizeof number, "%zu", s->n_bytes);
    put_entry(w, "length", number);
    ph_pbw_int(w, 14, 1); /* EXTERNAL */
}

/* What stands in front of the weight's bytes: the head of its field, and its other fields. */
static void tensor_head(const plan *p, const ph_onnx_stored *s, uint64_t offset, ph_pbw *w) {
    ph_pbw fields = {0};
    tensor_fields(p, s, offset, &fields);
    ph_pbw_head(w, 5, fields.n + (is_beside(p, s) ? 0 : s->n_bytes));
    ph_pbw_raw(w, fields.bytes, fields.n);
    w->is_broken |= fields.is_broken;
    ph_pbw_close(&fields);
}

static void plan_close(plan *p) {
    ph_pbw_close(&p->head);
    ph_pbw_close(&p->tail);
}

/* Bytes of all weights' fields, and of the data beside them. */
static ph_rc measure_weights(plan *p, ph_err *err) {
    ph_pbw one = {0};
    int    over = 0;
    p->inside = p->data = 0;
    for (size_t i = 0; i < p->w->n_weights && !over; i++) {
        const ph_onnx_stored *s = &p->w->weight[i];
        one.n = 0;
        if (is_beside(p, s)) p->data = on_page(p->data);
        tensor_head(p, s, p->data, &one);
        uint64_t *to = is_beside(p, s) ? &p->data : &p->inside;
        over |= __builtin_add_overflow(p->inside, one.n, &p->inside);
        over |= __builtin_add_overflow(*to, s->n_bytes, to) || *to > INT64_MAX;
    }
    int is_broken = one.is_broken;
    ph_pbw_close(&one);
    if (is_broken) return PH_FAIL(err, PH_ENOMEM, "the heads of weights");
    return over ? PH_FAIL(err, PH_ELIMIT, "weights of more than 2^63 bytes") : PH_OK;
}

static void put_opset(ph_pbw *w, const char *domain, int64_t version) {
    size_t at = ph_pbw_open(w, 8);
    ph_pbw_text(w, 1, domain);
    ph_pbw_int(w, 2, version);
    ph_pbw_end(w, at);
}

/* All of the model but the weights. */
static ph_rc plan_open(plan *p, ph_err *err) {
    const ph_onnx_writer *w = p->w;
    ph_pbw                name = {0};
    PH_TRY(measure_weights(p, err));
    ph_pbw_text(&name, 2, w->graph_name);
    ph_pbw_int(&p->head, 1, w->ir_version);
    ph_pbw_text(&p->head, 2, "pinhole");
    ph_pbw_text(&p->head, 3, PH_VERSION);
    ph_pbw_head(&p->head, 7, w->nodes.n + name.n + p->inside + w->values.n);
    ph_pbw_raw(&p->head, w->nodes.bytes, w->nodes.n);
    ph_pbw_raw(&p->head, name.bytes, name.n);
    ph_pbw_raw(&p->tail, w->values.bytes, w->values.n);
    put_opset(&p->tail, "", w->opset);
    for (size_t i = 0; i < w->n_others; i++) put_opset(&p->tail, w->others[i].domain, w->others[i].version);
    ph_pbw_raw(&p->tail, w->props.bytes, w->props.n);
    int is_broken = w->is_broken || w->nodes.is_broken || w->values.is_broken || w->props.is_broken ||
                    name.is_broken || p->head.is_broken || p->tail.is_broken;
    ph_pbw_close(&name);
    return is_broken ? PH_FAIL(err, PH_ENOMEM, "the nodes of a model") : PH_OK;
}

static uint64_t whole(const plan *p) {
    return p->head.n + p->inside + p->tail.n;
}

/* The plan for `external`, with AUTO settled.  Errors: PH_ELIMIT more than one file may have. */
static ph_rc settle(plan *p, uint64_t external, ph_err *err) {
    int is_auto = external == PH_ONNX_EXTERNAL_AUTO;
    p->external = is_auto ? PH_ONNX_EXTERNAL_NEVER : external;
    ph_rc rc = plan_open(p, err);
    if (!rc && is_auto && whole(p) > PH_ONNX_FILE_MAX) {
        plan_close(p);
        *p = (plan){.w = p->w, .location = p->location, .external = AUTO_BYTES};
        rc = plan_open(p, err);
    }
    if (!rc && whole(p) > PH_ONNX_FILE_MAX)
        rc = PH_FAIL(err, PH_ELIMIT,
                     "the model would have %" PRIu64 " bytes, an ONNX file at most %" PRIu64
                     ": more of its weights must stand beside it (--external 1KiB)",
                     whole(p), PH_ONNX_FILE_MAX);
    if (rc) plan_close(p);
    return rc;
}

ph_rc ph_onnx_measure(const ph_onnx_writer *w, uint64_t external, ph_onnx_size *size, ph_err *err) {
    plan p = {.w = w, .location = "data"};
    PH_TRY(settle(&p, external, err));
    *size = (ph_onnx_size){whole(&p), p.data};
    plan_close(&p);
    return PH_OK;
}

/* ---- weights ---- */

typedef struct sink { /* where bytes go: a file, or memory that has room */
    FILE    *to;
    uint8_t *at;
} sink;

static ph_rc put(sink *s, const void *bytes, size_t n, ph_err *err) {
    if (!n) return PH_OK;
    if (s->at) {
        memcpy(s->at, bytes, n);
        s->at += n;
    } else if (fwrite(bytes, 1, n, s->to) != n) {
        return PH_FAIL(err, PH_EIO, "writing an ONNX file: %s", strerror(errno));
    }
    return PH_OK;
}

/* Weight i, a few rows at a time through `buffer`. */
static ph_rc put_weight(sink *s, const ph_onnx_writer *w, size_t i, const ph_onnx_producer *p,
                        uint8_t *buffer, ph_err *err) {
    const ph_onnx_stored *weight = &w->weight[i];
    if (weight->bytes) return put(s, weight->bytes, weight->n_bytes, err);
    if (!weight->n_bytes) return PH_OK;
    if (!p || !p->make || !weight->row || weight->n_bytes % weight->row)
        return PH_FAIL(err, PH_EBUG, "weight %.120s has no bytes", weight->name);
    size_t rows = weight->n_bytes / weight->row,
           some = PH_PRODUCE_BYTES / weight->row ? PH_PRODUCE_BYTES / weight->row : 1;
    for (size_t first = 0; first < rows; first += some) {
        size_t n = rows - first < some ? rows - first : some;
        ph_rc  rc = p->make(p->arg, i, first, n, buffer, err);
        if (rc) return ph_note(err, rc, "while making weight %.120s", weight->name);
        PH_TRY(put(s, buffer, n * weight->row, err));
    }
    return PH_OK;
}

static ph_rc open_buffer(uint8_t **out, const ph_onnx_writer *w, ph_err *err) {
    size_t most = PH_PRODUCE_BYTES;
    for (size_t i = 0; i < w->n_weights; i++) most = w->weight[i].row > most ? w->weight[i].row : most;
    *out = malloc(most);
    return *out ? PH_OK : PH_FAIL(err, PH_ENOMEM, "%zu bytes to write through", most);
}

/* The whole model's message. */
static ph_rc put_model(sink *s, const plan *p, const ph_onnx_producer *from, uint8_t *buffer, ph_err *err) {
    ph_pbw   head = {0};
    uint64_t at = 0;
    size_t   n_shared = 0;
    ph_rc    rc = put(s, p->head.bytes, p->head.n, err);
    for (size_t i = 0; i < p->w->n_weights && !rc; i++) {
        const ph_onnx_stored *weight = &p->w->weight[i];
        head.n = 0;
        if (is_beside(p, weight)) at = on_page(at);
        tensor_head(p, weight,
                    is_beside(p, weight) && p->shared ? (uintptr_t)p->shared[n_shared++].bytes : at, &head);
        if (head.is_broken) rc = PH_FAIL(err, PH_ENOMEM, "the head of a weight");
        if (!rc) rc = put(s, head.bytes, head.n, err);
        if (is_beside(p, weight))
            at += weight->n_bytes;
        else if (!rc)
            rc = put_weight(s, p->w, i, from, buffer, err);
    }
    ph_pbw_close(&head);
    return rc ? rc : put(s, p->tail.bytes, p->tail.n, err);
}

static ph_rc put_data(sink *s, const plan *p, const ph_onnx_producer *from, uint8_t *buffer, ph_err *err) {
    static const uint8_t none[PAGE];
    uint64_t             at = 0;
    for (size_t i = 0; i < p->w->n_weights; i++) {
        const ph_onnx_stored *weight = &p->w->weight[i];
        if (!is_beside(p, weight)) continue;
        PH_TRY(put(s, none, (size_t)(on_page(at) - at), err));
        PH_TRY(put_weight(s, p->w, i, from, buffer, err));
        at = on_page(at) + weight->n_bytes;
    }
    return PH_OK;
}

/* ---- files ---- */

static ph_rc written(ph_rc rc, const char *path, ph_err *err) {
    return rc ? ph_note(err, rc, "while writing %.120s", path) : PH_OK;
}

/* Both are written before one has its name: a model that cannot be finished leaves the data of an older one
 * alone. */
static ph_rc write_files(const char *path, const char *data, const plan *p, const ph_onnx_producer *from,
                         uint8_t *buffer, ph_err *err) {
    ph_part_file model, beside = {0};
    PH_TRY(ph_part_open(&model, path, err));
    ph_rc rc = p->data ? ph_part_open(&beside, data, err) : PH_OK;
    if (!rc && p->data) rc = written(put_data(&(sink){.to = beside.to}, p, from, buffer, err), data, err);
    if (!rc) rc = written(put_model(&(sink){.to = model.to}, p, from, buffer, err), path, err);
    if (!rc && fflush(model.to)) rc = PH_FAIL(err, PH_EIO, "cannot write %.200s: %s", path, strerror(errno));
    if (beside.to) rc = ph_part_close(&beside, rc, err);
    return ph_part_close(&model, rc, err);
}

/* The name of the data is read as a stranger's: one that every reader would refuse is not written. */
static ph_rc check_location(const plan *p, const char *path, ph_err *err) {
    const char *fault = p->data ? ph_file_name_fault(p->location) : NULL;
    if (!fault) return PH_OK;
    return PH_FAIL(
        err, PH_EPATH,
        "%.200s: no reader takes weights from a file beside it, %.100s: %s; name another file to write", path,
        p->location, fault);
}

ph_rc ph_onnx_write(const char *path, const ph_onnx_writer *w, const ph_onnx_producer *from,
                    uint64_t external, ph_onnx_size *size, ph_err *err) {
    char        data[4096];
    const char *slash = strrchr(path, '/');
    uint8_t    *buffer = NULL;
    if (snprintf(data, sizeof data, "%s.data", path) >= (int)sizeof data)
        return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", path);
    plan p = {.w = w, .location = slash ? data + (slash + 1 - path) : data};
    PH_TRY(settle(&p, external, err));
    *size = (ph_onnx_size){whole(&p), p.data};
    ph_rc rc = check_location(&p, path, err);
    if (!rc) rc = open_buffer(&buffer, w, err);
    if (!rc) rc = write_files(path, data, &p, from, buffer, err);
    free(buffer);
    plan_close(&p);
    return rc;
}

/* ---- memory ---- */

void ph_onnx_memory_close(ph_onnx_memory *m) {
    for (size_t i = 0; i < m->n_shared; i++) {
        void *bytes;
        memcpy(&bytes, &m->shared[i].bytes, sizeof bytes); /* it was allocated without the const */
        if (m->shared[i].is_owned) free(bytes);
    }
    free(m->shared);
    free(m->model);
    *m = (ph_onnx_memory){0};
}

static ph_rc share(ph_onnx_memory *m, const plan *p, size_t i, const ph_onnx_producer *from, uint8_t *buffer,
                   ph_err *err) {
    const ph_onnx_stored *weight = &p->w->weight[i];
    ph_onnx_shared       *out = &m->shared[m->n_shared];
    *out = (ph_onnx_shared){.weight = weight, .bytes = weight->bytes};
    if (!weight->bytes) {
        uint8_t *made = malloc(weight->n_bytes);
        sink     s = {.at = made};
        if (!made)
            return PH_FAIL(err, PH_ENOMEM, "%zu bytes of weight %.120s", weight->n_bytes, weight->name);
        *out = (ph_onnx_shared){weight, made, 1};
        m->n_shared++;
        return put_weight(&s, p->w, i, from, buffer, err);
    }
    m->n_shared++;
    return PH_OK;
}

static ph_rc write_memory(ph_onnx_memory *m, plan *p, const ph_onnx_producer *from, uint8_t *buffer,
                          ph_err *err) {
    m->n = (size_t)whole(p);
    m->model = malloc(m->n);
    m->shared = calloc(p->w->n_weights + 1, sizeof *m->shared);
    if (!m->model || !m->shared) return PH_FAIL(err, PH_ENOMEM, "a model of %zu bytes", m->n);
    for (size_t i = 0; i < p->w->n_weights; i++)
        if (is_beside(p, &p->w->weight[i])) PH_TRY(share(m, p, i, from, buffer, err));
    sink s = {.at = m->model};
    if (p->is_addressed) p->shared = m->shared;
    return put_model(&s, p, from, buffer, err);
}

static ph_rc write_planned(ph_onnx_memory *m, plan *p, const ph_onnx_producer *from, uint64_t external,
                           ph_err *err) {
    uint8_t *buffer = NULL;
    *m = (ph_onnx_memory){0};
    PH_TRY(settle(p, external, err));
    ph_rc rc = open_buffer(&buffer, p->w, err);
    if (!rc) rc = write_memory(m, p, from, buffer, err);
    free(buffer);
    plan_close(p);
    if (rc) ph_onnx_memory_close(m);
    return rc;
}

ph_rc ph_onnx_write_memory(ph_onnx_memory *m, const ph_onnx_writer *w, const ph_onnx_producer *from,
                           uint64_t external, ph_err *err) {
    plan p = {.w = w, .location = "shared"};
    return write_planned(m, &p, from, external, err);
}

ph_rc ph_onnx_write_addressed(ph_onnx_memory *m, const ph_onnx_writer *w, const ph_onnx_producer *from,
                              uint64_t external, ph_err *err) {
    plan p = {.w = w, .location = "*/_ORT_MEM_ADDR_/*", .is_addressed = 1};
    return write_planned(m, &p, from, external, err);
}
