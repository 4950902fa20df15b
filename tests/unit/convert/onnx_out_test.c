/* onnx_out_test.c - parts of the set's models as ONNX files: the native engine gives from the file, read
 * back, what it gives from the model itself.  And what is refused. */
#include "convert/onnx.h"
#include "engine/bare.h"
#include "graph/onnx/onnx_in.h"
#include "graph/pass.h"
#include "model/model.h"
#include "tests/unit/convert/set_models.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILES = 4, PATCHES = 16 }; /* of a run; mllama takes four tiles at a time */

typedef struct place {
    char folder[32], file[64];
} place;

static void open_place(place *p) {
    *p = (place){.folder = "/tmp/ph-onnx-XXXXXX"};
    CHECK(mkdtemp(p->folder) != NULL);
    snprintf(p->file, sizeof p->file, "%s/part.onnx", p->folder);
}

static void close_place(const place *p) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    CHECK(!system(command));
}

static int64_t size_at(ph_dim d, const ph_syms *syms) {
    int64_t n = -1;
    CHECK(!ph_dim_eval(d, syms, &n, NULL));
    return n;
}

/* Numbers for input v: floats about 0; of whole numbers those that the graph takes. */
static void fill(const ph_value *v, void *to, const ph_syms *syms) {
    int64_t  n = 1, width = v->shape.rank > 1 ? size_at(v->shape.dim[1], syms) : 1;
    uint64_t seed = 17;
    for (int i = 0; i < v->shape.rank; i++) n *= size_at(v->shape.dim[i], syms);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t row = i / width, half = PATCHES / 2;
        if (v->dtype == PH_F32)
            ((float *)to)[i] = (float)(seed >> 40) / 8388608.0F - 1;
        else if (!strcmp(v->name, "segments") || !strcmp(v->name, "windows")) /* two halves */
            ((int32_t *)to)[i] = (int32_t)((row / half + i % 2) * half);
        else if (!strcmp(v->name, "order"))
            ((int32_t *)to)[i] = (int32_t)(n - 1 - i);
        else
            ((int32_t *)to)[i] = (int32_t)(seed >> 33) % 4;
    }
}

typedef struct result {
    float  *at;
    int64_t n;
} result;

/* The graph's only output. */
static ph_rc run(const ph_graph *g, const ph_graph *like, const ph_syms *syms, const ph_syms *as, result *out,
                 ph_err *err) {
    ph_bare b;
    PH_TRY(ph_bare_open(&b, g, syms, 1, 0, err));
    for (size_t i = 0; i < like->n_values; i++)
        if (like->value[i].cls == PH_VALUE_INPUT) {
            void *to = ph_bare_buffer(&b, like->value[i].name);
            CHECK_SAY(to != NULL, "%s", like->value[i].name);
            if (to) fill(&like->value[i], to, as);
        }
    ph_rc rc = ph_bare_run(&b, err);
    for (size_t i = 0; i < like->n_values && !rc; i++)
        if (like->value[i].is_output) {
            out->n = 1;
            for (int d = 0; d < like->value[i].shape.rank; d++)
                out->n *= size_at(like->value[i].shape.dim[d], as);
            out->at = malloc((size_t)out->n * sizeof(float));
            if (out->at)
                memcpy(out->at, ph_bare_buffer(&b, like->value[i].name), (size_t)out->n * sizeof(float));
        }
    ph_bare_close(&b);
    return rc;
}

/* The symbols of the file from the sizes that the model's own inputs have. */
static ph_rc syms_of(const ph_onnx_graph *back, const ph_graph *g, const ph_syms *syms, ph_syms *out,
                     ph_err *err) {
    ph_onnx_given given[8];
    size_t        n = 0;
    for (size_t i = 0; i < g->n_values && n < 8; i++) {
        const ph_value *v = &g->value[i];
        if (v->cls != PH_VALUE_INPUT) continue;
        given[n] = (ph_onnx_given){.name = v->name, .rank = v->shape.rank};
        for (int d = 0; d < v->shape.rank; d++) given[n].dim[d] = size_at(v->shape.dim[d], syms);
        n++;
    }
    return ph_onnx_syms(back, given, n, out, err);
}

static ph_rc run_file(const char *path, const ph_graph *g, const ph_syms *syms, result *out, ph_err *err) {
    ph_onnx       file;
    ph_onnx_graph back;
    ph_kernels    kernels;
    ph_syms       own;
    ph_kernels_init(&kernels, 0);
    const ph_onnx_import_how how = {.kernels = &kernels};
    ph_pass_env              env = {.kernels = &kernels};
    PH_TRY(ph_onnx_open(&file, path, err));
    ph_rc rc = ph_onnx_import(&back, &file, &how, err);
    if (!rc) rc = ph_passes_run(back.graph, &env, NULL, err);
    if (!rc) rc = syms_of(&back, g, syms, &own, err);
    if (!rc) rc = run(back.graph, g, &own, syms, out, err);
    ph_onnx_graph_close(&back);
    ph_onnx_close(&file);
    return rc;
}

static void compare_part(const char *path, const char *part, const ph_graph *g, int64_t opset,
                         const place *p) {
    ph_convert_onnx_report report;
    ph_convert_onnx c = {.in = path, .out = p->file, .part = part, .external = 4096, .how = {.opset = opset}};
    ph_err          err = {0};
    result          want = {NULL, 0}, got = {NULL, 0};
    ph_syms         syms = {{0}};
    double          worst = 0, most = 0;
    syms.at[PH_SYM_I] = TILES;
    syms.at[PH_SYM_N] = PATCHES;
    ph_rc rc = ph_convert_onnx_run(&c, &report, &err);
    if (!rc) rc = run(g, g, &syms, &syms, &want, &err);
    if (!rc) rc = run_file(p->file, g, &syms, &got, &err);
    CHECK_SAY(!rc && want.at && got.at && want.n == got.n, "%s, %s: %s; %s", path, part, err.msg,
              err.note[0]);
    for (int64_t i = 0; !rc && want.at && got.at && i < want.n; i++) {
        worst = fmax(worst, fabs((double)want.at[i] - (double)got.at[i]));
        most = fmax(most, fabs((double)want.at[i]));
    }
    CHECK_SAY(worst <= 1e-4 * most && most > 0, "%s, %s, opset %lld: off by %g of %g", path, part,
              (long long)opset, worst, most);
    free(want.at);
    free(got.at);
}

void test_onnx_out_parts(void) {
    ph_set_model model[64];
    size_t       n = ph_set_models(model), compared = 0;
    place        p;
    open_place(&p);
    for (size_t i = 0; i < n; i++) {
        const ph_model_options plain = {.is_plan_only = 1};
        ph_model              *m;
        ph_err                 err = {0};
        CHECK_SAY(!ph_model_open(&m, model[i].path, &plain, &err), "%s", err.msg);
        if (m && m->vision) {
            compare_part(model[i].path, "vision", m->vision, 17 + (int64_t)i % 7, &p);
            compare_part(model[i].path, "bridge", m->bridge, 23 - (int64_t)i % 7, &p);
            compared++;
        }
        ph_model_close(m);
    }
    CHECK(compared >= 14);
    close_place(&p);
}

static void refuse(const ph_convert_onnx *c, ph_rc want, const char *word) {
    ph_convert_onnx_report report;
    ph_err                 err = {0};
    ph_rc                  rc = ph_convert_onnx_run(c, &report, &err);
    CHECK_SAY(rc == want && strstr(err.msg, word), "%s (%s), wanted %s with \"%s\"", ph_rc_name(rc), err.msg,
              ph_rc_name(want), word);
}

/* Parts that are not there, outputs that are inputs. */
void test_onnx_out_bad(void) {
    static const char *const llava = "tests/golden/set/models/vlm_llava15";
    static const char *const small = "tests/golden/set/onnx/good/external_small";
    char                     in[64], data[64], command[256], out[64];
    place                    p;
    open_place(&p);
    ph_convert_onnx c = {.in = llava, .out = p.file, .part = "visoin"};
    refuse(&c, PH_EUSAGE, "vision, bridge, language");
    c.part = NULL;
    refuse(&c, PH_EUSAGE, "--part");
    c.part = "vision";
    c.how.opset = 12;
    refuse(&c, PH_EUSAGE, "opset 12");
    /* An ONNX file is one part, and neither it nor its data is written over. */
    snprintf(in, sizeof in, "%s/external_small.onnx", p.folder);
    snprintf(command, sizeof command, "cp %s.onnx %s.data '%s'", small, small, p.folder);
    CHECK(!system(command));
    c = (ph_convert_onnx){.in = in, .out = p.file, .part = "vision"};
    refuse(&c, PH_EUSAGE, "--part");
    c = (ph_convert_onnx){.in = in, .out = in};
    refuse(&c, PH_EUSAGE, "is what is read");
    snprintf(data, sizeof data, "%s/external_small.data", p.folder);
    c.out = data;
    refuse(&c, PH_EUSAGE, "is what is read");
    snprintf(out, sizeof out, "%s/external_small", p.folder); /* whose data would be external_small.data */
    c.out = out;
    refuse(&c, PH_EUSAGE, "is what is read");
    close_place(&p);
}
