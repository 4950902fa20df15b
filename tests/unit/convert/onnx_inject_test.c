/* onnx_inject_test.c - a language part with injected features, written as ONNX and read back, gives for a
 * prompt with pictures the logits that a session of the same model gives. */
#include "base/file.h"
#include "convert/onnx.h"
#include "engine/bare.h"
#include "flow/flow.h"
#include "graph/inject.h"
#include "graph/onnx/onnx_in.h"
#include "graph/pass.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SET "tests/golden/set/"
enum { LAYER = 1, FLOATS = 1 << 16, VOCAB_MAX = 4096, ROWS_MAX = 256 };
#define ALPHA 0.5

/* What the session was given and made. */
typedef struct asked {
    float   visual[FLOATS], logits[VOCAB_MAX];
    int64_t n_visual, d;
    int32_t id[ROWS_MAX], position[ROWS_MAX][3];
    int32_t image_token;
    size_t  n, vocab;
} asked;

static void see(void *arg, const char *value, const float *data, const ph_shape *shape, const ph_syms *syms) {
    asked  *a = arg;
    int64_t n = 1, k;
    (void)value;
    for (int i = 0; i < shape->rank; i++) {
        CHECK(!ph_dim_eval(shape->dim[i], syms, &k, NULL));
        n *= k;
        a->d = k;
    }
    if (a->n_visual + n > FLOATS) return;
    memcpy(a->visual + a->n_visual, data, (size_t)n * sizeof *data);
    a->n_visual += n;
}

/* Walk a question up to its first logits. */
static ph_rc ask(const char *path, asked *a, ph_err *err) {
    const ph_model_options how = {.injects = 1, .inject_layer = LAYER, .inject_alpha = ALPHA};
    const ph_session_tap   tap = {"bridge", "visual", see, a};
    ph_session_options     o = {.threads = 2, .chunk = 37, .tap = &tap, .n_taps = 1};
    ph_chat_part           part[2] = {{0}, {.text = "What is it?", .n = 11}};
    ph_chat_message        message = {.role = "user", .parts = part, .n_parts = 2};
    ph_model              *m = NULL;
    ph_session            *s = NULL;
    ph_turn               *t = NULL;
    ph_file                f = {0};
    *a = (asked){.n = 0};
    ph_rc rc = ph_model_open(&m, path, &how, err);
    if (!rc) rc = ph_file_open(&f, SET "images/scene.png", err);
    ph_picture  picture = {.bytes = f.bytes, .n = f.n, .name = "scene.png"};
    ph_question q = {.messages = &message, .n_messages = 1, .pictures = &picture, .n_pictures = 1};
    if (!rc) rc = ph_session_open(&s, m, &o, err);
    if (!rc) rc = ph_turn_open(&t, s, err);
    if (!rc) rc = ph_turn_begin(t, &q, err);
    if (!rc) rc = ph_turn_walk_until(t, PH_STAGE_sample, err);
    if (!rc) {
        const int32_t *id = ph_turn_prompt_ids(t, &a->n);
        CHECK(a->n <= ROWS_MAX);
        memcpy(a->id, id, a->n * sizeof *id);
        memcpy(a->position, ph_turn_positions(t), a->n * sizeof *a->position);
        a->vocab = (size_t)m->spec.text.vocab;
        a->image_token = m->spec.image_token;
        memcpy(a->logits, ph_turn_logits(t), a->vocab * sizeof(float));
    }
    ph_turn_close(t);
    ph_session_close(s);
    ph_file_close(&f);
    ph_model_close(m);
    return rc;
}

/* ---- the exported part ---- */

typedef struct part {
    ph_onnx       file;
    ph_onnx_graph g;
    ph_bare       bare;
    ph_onnx_given given[64];
    size_t        n_given;
} part;

static int is_input(const part *p, const char *name) {
    return ph_graph_find(p->g.graph, name) >= 0;
}

static void give(part *p, const ph_onnx_value *v, const asked *a) {
    ph_onnx_given *g = &p->given[p->n_given++];
    int64_t        n = (int64_t)a->n, rows = a->n_visual / a->d;
    *g = (ph_onnx_given){.name = v->name, .rank = v->rank};
    for (int i = 0; i < v->rank; i++) g->dim[i] = v->dim[i].size;
    if (!strncmp(v->name, "past.", 5))
        g->dim[0] = 1, g->dim[2] = 0;
    else if (!strcmp(v->name, "visual") || !strcmp(v->name, "visual_rows") ||
             !strcmp(v->name, PH_INJECT_FEATURES))
        g->dim[0] = rows;
    else if (!strcmp(v->name, "out_rows"))
        g->dim[0] = 1;
    else
        g->dim[0] = 1, g->dim[1] = n;
}

static void fill(const part *p, const asked *a) {
    int32_t *ids = ph_bare_buffer(&p->bare, "ids"), *rows = ph_bare_buffer(&p->bare, "rows"),
            *visual_rows = ph_bare_buffer(&p->bare, "visual_rows"),
            *takes = ph_bare_buffer(&p->bare, PH_INJECT_ROWS);
    int32_t n_visual = (int32_t)(a->n_visual / a->d), at = 0;
    CHECK(ids && rows && visual_rows && takes);
    if (!ids || !rows || !visual_rows || !takes) return;
    memset(rows, 0, a->n * PH_ROW_FIELDS * sizeof *rows);
    for (size_t i = 0; i < a->n; i++) {
        int32_t *row = rows + i * PH_ROW_FIELDS;
        ids[i] = a->id[i];
        row[PH_ROW_INDEX] = (int32_t)i;
        row[PH_ROW_POS_T] = a->position[i][0];
        row[PH_ROW_POS_H] = a->position[i][1];
        row[PH_ROW_POS_W] = a->position[i][2];
        row[PH_ROW_SPAN] = (int32_t)i + 1;
        takes[2 * i] = 0;
        takes[2 * i + 1] = n_visual;
        if (a->id[i] == a->image_token && at < n_visual) visual_rows[at++] = (int32_t)i;
    }
    CHECK_SAY(at == n_visual, "%d image tokens, %d features", at, n_visual);
    memcpy(ph_bare_buffer(&p->bare, "visual"), a->visual, (size_t)a->n_visual * sizeof(float));
    memcpy(ph_bare_buffer(&p->bare, PH_INJECT_FEATURES), a->visual, (size_t)a->n_visual * sizeof(float));
    *(int32_t *)ph_bare_buffer(&p->bare, "out_rows") = (int32_t)a->n - 1;
}

static ph_rc run_part(part *p, const char *path, const asked *a, ph_err *err) {
    ph_kernels kernels;
    ph_syms    syms = {{0}};
    ph_kernels_init(&kernels, 0);
    PH_TRY(ph_onnx_open(&p->file, path, err));
    for (size_t i = 0; i < p->file.n_inputs && p->n_given < 64; i++) give(p, &p->file.input[i], a);
    const ph_onnx_import_how how = {.kernels = &kernels, .given = p->given, .n_given = p->n_given};
    ph_pass_env              env = {.kernels = &kernels};
    PH_TRY(ph_onnx_import(&p->g, &p->file, &how, err));
    PH_TRY(ph_passes_run(p->g.graph, &env, NULL, err));
    CHECK(is_input(p, PH_INJECT_FEATURES) && is_input(p, PH_INJECT_ROWS));
    PH_TRY(ph_bare_open(&p->bare, p->g.graph, &syms, 1, 0, err));
    fill(p, a);
    return ph_bare_run(&p->bare, err);
}

static void compare(const char *path, int is_ours) {
    static asked           a;
    static part            p;
    char                   out[64];
    ph_err                 err = {0};
    ph_convert_onnx_report report;
    double                 worst = 0, most = 0;
    snprintf(out, sizeof out, "/tmp/pinhole-inject-%d.onnx", (int)getpid());
    const ph_convert_onnx c = {.in = path,
                               .out = out,
                               .part = "language",
                               .external = PH_ONNX_EXTERNAL_AUTO,
                               .how = {.is_ours = is_ours},
                               .injects = 1,
                               .inject_layer = LAYER,
                               .inject_alpha = ALPHA};
    p = (part){.n_given = 0};
    ph_rc rc = ask(path, &a, &err);
    if (!rc) rc = ph_convert_onnx_run(&c, &report, &err);
    if (!rc) rc = run_part(&p, out, &a, &err);
    CHECK_SAY(!rc, "%s: %s; %s", path, err.msg, err.note[0]);
    const float *got = rc ? NULL : ph_bare_buffer(&p.bare, "logits");
    for (size_t i = 0; got && i < a.vocab; i++) {
        worst = fmax(worst, fabs((double)got[i] - (double)a.logits[i]));
        most = fmax(most, fabs((double)a.logits[i]));
    }
    CHECK_SAY(got && most > 0.1 && worst <= 1e-4 * fmax(1, most), "%s: %g apart, up to %g", path, worst,
              most);
    ph_bare_close(&p.bare);
    ph_onnx_graph_close(&p.g);
    ph_onnx_close(&p.file);
    unlink(out);
}

void test_onnx_inject(void) {
    compare("models/panel-vlm", 0);
    compare("models/panel-vlm", 1);
    compare(SET "models/vlm_llava15", 0);
    compare(SET "models/vlm_idefics3", 1);
    compare(SET "models/vlm_qwen2vl", 0);
}
