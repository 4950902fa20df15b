/* case_align.c - models that place texts and pictures side by side.
 *
 *     texts      ids, hidden states, the pooled rows, the vectors
 *     pictures   pixels, hidden states, the pooled rows, the vectors
 *     scores     cosines, logits, and what softmax or sigmoid makes of them
 *
 * golden/manifest.json lists texts and images; golden/case.safetensors holds one row of each tensor for each.
 */
#include "measure/case.h"

#include "base/file.h"
#include "flow/flow.h"
#include "measure/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_MAX = 64, VALUES_MAX = 96 };

/* The newest run of one value. */
typedef struct seen {
    char   name[48];
    float *at; /* [n], owned */
    size_t n, cap;
} seen;

typedef struct bench {
    ph_report     *r;
    const char    *dir;
    ph_json_doc    manifest;
    ph_tensors     t;
    ph_model      *model;
    ph_session    *session;
    ph_turn       *turn;
    seen           seen[VALUES_MAX];
    ph_session_tap tap[VALUES_MAX];
    size_t         n_seen;
    ph_arena       arena;
    int            d;
    float         *text, *picture; /* [n, d] */
    size_t         n_texts, n_pictures;
    int            has_texts, has_pictures; /* their vectors stand */
} bench;

static int claims(const char *dir) {
    char golden[4096];
    snprintf(golden, sizeof golden, "%.4080s/golden", dir);
    return ph_golden_has_model(dir) && ph_golden_json_has(golden, "manifest.json", "texts") &&
           !ph_golden_json_has(golden, "manifest.json", "cases");
}

/* ---- taps ---- */

static void keep(void *arg, const char *value, const float *data, const ph_shape *shape,
                 const ph_syms *syms) {
    seen   *s = arg;
    int64_t n;
    void   *at = s->at;
    (void)value;
    s->n = 0;
    if (ph_shape_count(shape, syms, &n, NULL) ||
        ph_room_grow(&at, &s->cap, 0, (size_t)n, sizeof *s->at, NULL))
        return;
    s->at = at;
    s->n = (size_t)n;
    memcpy(s->at, data, s->n * sizeof *data);
}

/* The value `stem`, or with a number behind it; -1: none. */
static void add_tap(bench *b, const ph_graph *g, const char *stem, int i) {
    char name[48];
    if (i < 0)
        snprintf(name, sizeof name, "%s", stem);
    else
        snprintf(name, sizeof name, "%s%d", stem, i);
    if (b->n_seen == VALUES_MAX || ph_graph_find(g, name) < 0) return;
    seen *s = &b->seen[b->n_seen];
    memcpy(s->name, name, sizeof name);
    b->tap[b->n_seen++] = (ph_session_tap){.graph = g->name, .value = s->name, .see = keep, .arg = s};
}

static const seen *find(const bench *b, const char *graph, const char *name) {
    for (size_t i = 0; i < b->n_seen; i++)
        if (!strcmp(b->tap[i].graph, graph) && !strcmp(b->seen[i].name, name)) return &b->seen[i];
    return NULL;
}

/* ---- figures ---- */

static double rtol(const bench *b) {
    return (b->r->how->is_tight ? 2e-5 : 1e-4) * ph_verify_looseness(b->r->how);
}

/* The reference's own scale: that of the whole tensor. */
static double scale_of(const ph_weight *ref) {
    double most = 0;
    for (size_t i = 0; i < ph_ref_count(ref); i++) most = fmax(most, fabs(ph_ref_at(ref, i)));
    return most;
}

/* ours[n] against row `row` of `rows` of a tensor, or the first n numbers of it. */
static ph_rc compare(bench *b, const float *ours, size_t n, const char *name, size_t row, size_t rows,
                     ph_err *err) {
    const ph_weight *ref = ph_weights_find(&b->t.file.weights, name);
    if (!ref || !rows) return PH_OK;
    size_t each = ph_ref_count(ref) / rows;
    if (n > each)
        return PH_FAIL(err, PH_EMISMATCH, "%s: ours has %zu numbers, the reference %zu", name, n, each);
    ph_figure(b->r, ph_gap_floats(ours, n, ref, row * each).diff, rtol(b) * scale_of(ref), "%s %zu", name,
              row);
    return PH_OK;
}

static ph_rc compare_seen(bench *b, const char *graph, const char *value, const char *name, size_t row,
                          size_t rows, ph_err *err) {
    const seen *s = find(b, graph, value);
    if (!s) return PH_OK;
    return compare(b, s->at, s->n, name, row, rows, err);
}

static ph_rc compare_layers(bench *b, const char *graph, const char *ours, const char *theirs, int n,
                            ph_err *err) {
    for (int i = 0; i <= n; i++) {
        char value[64], name[64];
        snprintf(value, sizeof value, "%s%d", ours, i);
        snprintf(name, sizeof name, "%s%d", theirs, i);
        PH_TRY(compare_seen(b, graph, value, name, 0, 1, err));
    }
    return PH_OK;
}

/* ---- texts ---- */

/* The reference pads its batch to one length: what follows our ids is its pad, the same all along. */
static ph_rc compare_ids(bench *b, const ph_ids *ids, size_t row, ph_err *err) {
    const ph_weight *ref;
    int32_t         *at;
    size_t           n;
    PH_TRY(ph_tensors_get(&b->t, &ref, "input_ids", err));
    PH_TRY(ph_ref_ids(&b->arena, ref, &at, &n, err));
    size_t each = n / b->n_texts, used = each;
    at += row * each;
    while (used > ids->n && at[used - 1] == at[each - 1]) used--;
    ph_figure_ids(b->r, ids->at, ids->n, at, used, "input_ids");
    return PH_OK;
}

static ph_rc one_text(bench *b, const char *text, size_t row, ph_err *err) {
    ph_ids ids = {0};
    float *out = b->text + row * (size_t)b->d;
    ph_rc  rc = ph_embed_tokenize(b->model, text, strlen(text), &ids, err);
    if (!rc) rc = compare_ids(b, &ids, row, err);
    if (!rc) rc = ph_embed_ids(b->turn, ids.at, ids.n, out, err);
    ph_ids_close(&ids);
    PH_TRY(rc);
    const seen *last = find(b, "language", "hidden.norm"), *pooled = find(b, "language", "pooled");
    size_t      d = (size_t)b->model->spec.text.d_model;
    PH_TRY(compare(b, out, (size_t)b->d, "text_embeds", row, b->n_texts, err));
    PH_TRY(compare_seen(b, "language", "hidden.norm", "text_last_hidden", row, b->n_texts, err));
    if (pooled) {
        d = (size_t)b->d;
        last = pooled;
    }
    if (last && last->n >= d)
        PH_TRY(compare(b, last->at + last->n - d, d, "text_pooled", row, b->n_texts, err));
    return row ? PH_OK
               : compare_layers(b, "language", "hidden.", "text_hidden_", b->model->spec.text.n_layers, err);
}

static ph_rc texts(bench *b, ph_err *err) {
    ph_json     root = ph_json_root(&b->manifest), list = ph_json_get(&root, "raw_texts");
    const char *text;
    if (!ph_json_count(&list)) list = ph_json_get(&root, "texts");
    for (size_t i = 0; i < b->n_texts; i++) {
        ph_json item = ph_json_at(&list, i);
        PH_TRY(ph_json_to_text(&item, &text, NULL, err));
        PH_TRY(one_text(b, text, i, err));
    }
    b->has_texts = 1;
    return PH_OK;
}

/* ---- pictures ---- */

static ph_rc compare_pixels(bench *b, const ph_file *f, size_t row, ph_err *err) {
    const ph_image_options how = {.alpha = PH_ALPHA_DROP};
    ph_pixels              pixels;
    ph_tiles               tiles;
    const ph_weight       *ref = ph_weights_find(&b->t.file.weights, "pixel_values");
    if (!ref) return PH_OK;
    PH_TRY(ph_image_decode(&pixels, f->bytes, f->n, &how, &b->arena, err));
    PH_TRY(ph_recipe_run(&tiles, &b->model->recipe, &pixels, 0, &b->arena, err));
    size_t n = 3 * (size_t)tiles.layout.n_tiles * (size_t)tiles.layout.width * (size_t)tiles.layout.height;
    if (n * b->n_pictures != ph_ref_count(ref)) return ph_same_count(n * b->n_pictures, ref, err);
    ph_figure(b->r, ph_gap_floats(tiles.pixels, n, ref, row * n).diff, 1e-5, "pixel_values %zu", row);
    return PH_OK;
}

static ph_rc one_picture(bench *b, const char *name, size_t row, ph_err *err) {
    char    images[4200];
    ph_file f;
    float  *out = b->picture + row * (size_t)b->d;
    snprintf(images, sizeof images, "%.4080s/../../images", b->dir);
    PH_TRY(ph_file_open_in(&f, images, name, err));
    const ph_picture p = {.bytes = f.bytes, .n = f.n, .name = name};
    ph_rc            rc = compare_pixels(b, &f, row, err);
    if (!rc) rc = ph_embed_picture(b->turn, &p, out, err);
    ph_file_close(&f);
    PH_TRY(rc);
    PH_TRY(compare(b, out, (size_t)b->d, "image_embeds", row, b->n_pictures, err));
    PH_TRY(compare_seen(b, "vision", "features", "vision_last_hidden", row, b->n_pictures, err));
    PH_TRY(compare_seen(b, "bridge", "pooled", "vision_pooled", row, b->n_pictures, err));
    return row ? PH_OK
               : compare_layers(b, "vision", "vision.hidden.", "vision_hidden_",
                                b->model->spec.tower.n_layers, err);
}

static ph_rc pictures(bench *b, ph_err *err) {
    ph_json     root = ph_json_root(&b->manifest), list = ph_json_get(&root, "images");
    const char *name;
    for (size_t i = 0; i < b->n_pictures; i++) {
        ph_json item = ph_json_at(&list, i);
        PH_TRY(ph_json_to_text(&item, &name, NULL, err));
        PH_TRY(one_picture(b, name, i, err));
    }
    b->has_pictures = 1;
    return PH_OK;
}

/* ---- scores ---- */

static ph_rc scores(bench *b, ph_err *err) {
    const ph_embed_spec *e = &b->model->spec.embed;
    const char          *chance = e->is_sigmoid ? "sigmoid_per_image" : "softmax_per_image";
    double               cosine[N_MAX], score[N_MAX];
    float                row[N_MAX];
    if (!b->has_texts) PH_TRY(texts(b, err)); /* a filter left them out */
    if (!b->has_pictures) PH_TRY(pictures(b, err));
    for (size_t p = 0; p < b->n_pictures; p++) {
        for (size_t t = 0; t < b->n_texts; t++)
            row[t] = (float)(cosine[t] = ph_embed_cosine(b->picture + p * (size_t)b->d,
                                                         b->text + t * (size_t)b->d, b->d));
        PH_TRY(compare(b, row, b->n_texts, "cosine_image_text", p, b->n_pictures, err));
        for (size_t t = 0; t < b->n_texts; t++) row[t] = (float)(cosine[t] * e->scale + e->bias);
        PH_TRY(compare(b, row, b->n_texts, "logits_per_image", p, b->n_pictures, err));
        ph_embed_scores(b->model, cosine, b->n_texts, score);
        for (size_t t = 0; t < b->n_texts; t++) row[t] = (float)score[t];
        PH_TRY(compare(b, row, b->n_texts, chance, p, b->n_pictures, err));
    }
    return PH_OK;
}

/* ---- the folder ---- */

static ph_rc open_session(bench *b, ph_err *err) {
    const ph_model    *m = b->model;
    ph_session_options o = ph_verify_session(b->r->how);
    o.chunk = 0; /* a text in one run: what is seen of a run replaces what was seen before */
    o.alpha = PH_ALPHA_DROP;
    o.all_logits = 1;
    o.tap = b->tap;
    if (!m->spec.embed.d)
        return PH_FAIL(err, PH_EMISMATCH, "the reference holds vectors, but %s answers", m->source.path);
    for (int i = 0; i <= m->spec.text.n_layers; i++) add_tap(b, m->language, "hidden.", i);
    for (int i = 0; i <= m->spec.tower.n_layers; i++) add_tap(b, m->vision, "vision.hidden.", i);
    add_tap(b, m->language, "hidden.norm", -1);
    add_tap(b, m->language, "pooled", -1);
    add_tap(b, m->vision, "features", -1);
    add_tap(b, m->bridge, "pooled", -1);
    o.n_taps = b->n_seen;
    PH_TRY(ph_session_open(&b->session, m, &o, err));
    return ph_turn_open(&b->turn, b->session, err);
}

static ph_rc open_bench(bench *b, ph_err *err) {
    char  golden[4300];
    void *text, *picture;
    snprintf(golden, sizeof golden, "%.4080s/golden", b->dir);
    PH_TRY(ph_arena_open_growing(&b->arena, 256 << 10, err));
    PH_TRY(ph_golden_json(&b->manifest, golden, "manifest.json", err));
    PH_TRY(ph_tensors_open(&b->t, golden, "case.safetensors", err));
    PH_TRY(ph_golden_open_model(&b->model, b->dir, err));
    PH_TRY(open_session(b, err));
    ph_json root = ph_json_root(&b->manifest), list = ph_json_get(&root, "texts");
    b->n_texts = ph_json_count(&list);
    list = ph_json_get(&root, "images");
    b->n_pictures = ph_json_count(&list);
    b->d = ph_session_embedding(b->session);
    if (!b->n_texts || !b->n_pictures || b->n_texts > N_MAX || b->n_pictures > N_MAX)
        return PH_FAIL(err, PH_EMISMATCH, "%zu texts and %zu pictures; 1 .. %d of each are possible",
                       b->n_texts, b->n_pictures, N_MAX);
    PH_TRY(ph_arena_zero(&b->arena, &text, b->n_texts * (size_t)b->d, sizeof(float), err));
    PH_TRY(ph_arena_zero(&b->arena, &picture, b->n_pictures * (size_t)b->d, sizeof(float), err));
    b->text = text;
    b->picture = picture;
    return PH_OK;
}

static void close_bench(bench *b) {
    ph_turn_close(b->turn);
    ph_session_close(b->session);
    ph_model_close(b->model);
    ph_tensors_close(&b->t);
    ph_json_close(&b->manifest);
    for (size_t i = 0; i < b->n_seen; i++) free(b->seen[i].at);
    ph_arena_close(&b->arena);
}

static void run(ph_report *r, const char *dir) {
    static const struct {
        const char *name;
        ph_rc (*check)(bench *b, ph_err *err);
    } parts[] = {{"texts", texts}, {"pictures", pictures}, {"scores", scores}};
    bench *b = calloc(1, sizeof *b);
    ph_err closed = {0};
    if (!b) {
        if (ph_case_begin(r, "model")) ph_case_end(r, PH_FAIL(&closed, PH_ENOMEM, "a bench"), &closed);
        return;
    }
    b->r = r;
    b->dir = dir;
    ph_rc opened = open_bench(b, &closed);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ph_err err = closed;
        ph_rc  rc = opened;
        if (!ph_case_begin(r, "%s", parts[i].name)) continue;
        if (rc == PH_EUNSUP)
            ph_case_skip(r, "%s", closed.msg);
        else if (!rc)
            rc = parts[i].check(b, &err);
        ph_case_end(r, rc == PH_EUNSUP && opened ? PH_OK : rc, &err);
    }
    close_bench(b);
    free(b);
}

const ph_case_kind ph_case_align = {"align", "similarity of texts and pictures", claims, run, 0, 1};
