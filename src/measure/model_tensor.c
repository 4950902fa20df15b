/* model_tensor.c - the tensors of a model's case, by name: what each is compared with.
 *
 * A table: name, what to do.  Names that end in '_' are followed by a number.  A tensor that no row
 * knows is named in the case's notes; one that a row knows and that cannot be compared fails the case.
 */
#include "measure/case_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef ph_rc tensor_fn(ph_model_case *c, const ph_weight *ref, int index, ph_err *err);

/* Text alone: a reference that always wants a picture is fed a blank one, to which nothing attends. */
static int is_of_nothing(ph_model_case *c, const ph_weight *ref) {
    if (c->n_views || !c->desk->model->cross) return 0;
    ph_case_note(c->r, "%s is of a picture that nobody gave", ref->name);
    return 1;
}

/* ---- inputs ---- */

static ph_rc all_seen(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    size_t n = ph_ref_count(ref), hidden = 0;
    (void)index;
    if (n != c->probe->n_prompt) return ph_same_count(c->probe->n_prompt, ref, err);
    for (size_t i = 0; i < n; i++) hidden += !(ph_ref_at(ref, i) > 0);
    ph_figure(c->r, (double)hidden, 0, "%s: rows that are hidden from the model", ref->name);
    return PH_OK;
}

/* Where element `flat` of all pixel values stands in the case's pictures. */
typedef struct place {
    const ph_tiles *tiles;
    size_t          at; /* in the picture's own */
} place;

static size_t values_of(const ph_tile_layout *l) {
    return 3 * (size_t)l->n_tiles * (size_t)l->height * (size_t)l->width;
}

static int find_pixel(const ph_model_case *c, size_t flat, place *out) {
    for (size_t i = 0; i < c->n_views; i++) {
        size_t n = values_of(&c->tiles[i].layout);
        if (flat < n) {
            *out = (place){.tiles = &c->tiles[i], .at = flat};
            return 1;
        }
        flat -= n;
    }
    return 0;
}

static size_t count_pixels(const ph_model_case *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_views; i++) n += values_of(&c->tiles[i].layout);
    return n;
}

static double level(const place *p) {
    return p->tiles->u8[ph_tile_source(&p->tiles->layout, p->at)];
}

static double value(const place *p) {
    return (double)p->tiles->pixels[p->at];
}

static ph_rc levels(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    double worst = 0;
    place  p;
    (void)index;
    PH_TRY(ph_same_count(count_pixels(c), ref, err));
    for (size_t i = 0; find_pixel(c, i, &p); i++) worst = fmax(worst, fabs(level(&p) - ph_ref_at(ref, i)));
    ph_figure(c->r, worst, 0, "%s: levels apart", ref->name);
    return PH_OK;
}

static ph_rc values(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    double worst = 0;
    place  p;
    (void)index;
    if (is_of_nothing(c, ref)) return PH_OK;
    PH_TRY(ph_same_count(count_pixels(c), ref, err));
    for (size_t i = 0; find_pixel(c, i, &p); i++) {
        double diff = fabs(value(&p) - ph_ref_at(ref, i));
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(c->r, worst, 1e-5, "%s", ref->name);
    return PH_OK;
}

static ph_rc samples(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    const ph_weight *at;
    double           worst = 0;
    (void)index;
    if (is_of_nothing(c, ref)) return PH_OK;
    char name[256];
    snprintf(name, sizeof name, "%.200s_index", ref->name);
    PH_TRY(ph_tensors_get(&c->t, &at, name, err));
    PH_TRY(ph_same_count(ph_ref_count(ref), at, err));
    for (size_t i = 0; i < ph_ref_count(ref); i++) {
        place  p;
        double flat = ph_ref_at(at, i);
        if (!(flat >= 0 && flat < 0x1p53) || !find_pixel(c, (size_t)flat, &p))
            return PH_FAIL(err, PH_EMISMATCH, "%s: index %g of %zu pixel values", at->name, flat,
                           count_pixels(c));
        double diff = fabs(value(&p) - ph_ref_at(ref, i));
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(c->r, worst, 1e-5, "%s", ref->name);
    return PH_OK;
}

static ph_rc valid(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    size_t at = 0, wrong = 0;
    (void)index;
    PH_TRY(ph_same_count(2 * c->n_tiles, ref, err));
    for (size_t i = 0; i < c->n_views; i++)
        for (int k = 0; k < 2 * c->tiles[i].layout.n_tiles; k++)
            wrong += (double)c->tiles[i].valid[k] != ph_ref_at(ref, at++);
    ph_figure(c->r, (double)wrong, 0, "%s", ref->name);
    return PH_OK;
}

/* Time, height and width of every picture's grid of patches. */
static ph_rc grids(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    size_t wrong = 0;
    (void)index;
    PH_TRY(ph_same_count(3 * c->n_views, ref, err));
    for (size_t i = 0; i < c->n_views; i++) {
        const ph_tile_layout *l = &c->tiles[i].layout;
        const int             grid[3] = {l->grid_t, l->grid_h, l->grid_w};
        for (size_t k = 0; k < 3; k++) wrong += !(fabs(grid[k] - ph_ref_at(ref, 3 * i + k)) < 0.5);
    }
    ph_figure(c->r, (double)wrong, 0, "%s", ref->name);
    return PH_OK;
}

/* ---- vision ---- */

static ph_rc seen(const ph_model_case *c, const char *name, const ph_seen **out, ph_err *err) {
    *out = ph_probe_seen(c->probe, name);
    if (!*out) return PH_FAIL(err, PH_EMISMATCH, "our graphs have no value %s", name);
    return (*out)->n ? PH_OK : PH_FAIL(err, PH_EMISMATCH, "%s was not computed for this prompt", name);
}

/* Tiles first .. first + n - 1 of a value [tiles, ...]. */
static ph_rc tiles(ph_model_case *c, const char *name, const ph_weight *ref, size_t first, size_t n,
                   ph_err *err) {
    const ph_seen *s;
    double         diff = 0, scale = 0;
    PH_TRY(seen(c, name, &s, err));
    size_t each = s->n / (c->n_seen_tiles ? c->n_seen_tiles : 1);
    if (!c->n_seen_tiles || s->n % c->n_seen_tiles)
        return PH_FAIL(err, PH_EBUG, "%s: %zu numbers of %zu tiles", name, s->n, c->n_seen_tiles);
    PH_TRY(ph_same_count(each * n, ref, err));
    for (size_t t = 0; t < n; t++) {
        ph_gap g = ph_gap_floats(s->at + (size_t)c->tile_of[first + t] * each, each, ref, t * each);
        diff = fmax(diff, g.diff);
        scale = fmax(scale, g.scale);
    }
    ph_figure(c->r, diff, c->rtol * scale, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

static ph_rc vision_hidden(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    char name[64];
    if (index > c->desk->model->spec.tower.n_used && index <= c->desk->model->spec.tower.n_layers) {
        ph_case_note(c->r, "%s lies above the feature layer and is not computed", ref->name);
        return PH_OK;
    }
    snprintf(name, sizeof name, "vision.hidden.%d", index);
    return tiles(c, name, ref, 0, c->n_tiles, err);
}

/* Where the features leave the class token out, a reference of whole rows is compared before that. */
static ph_rc last_rows(ph_model_case *c, const ph_weight *ref, size_t first, size_t n, ph_err *err) {
    const ph_tower *t = &c->desk->model->spec.tower;
    size_t          rows = (size_t)ph_tower_patches(t) + 1;
    char            name[64] = "features";
    if (t->drop_class && ph_ref_count(ref) == n * rows * (size_t)t->d)
        snprintf(name, sizeof name, t->has_post_norm ? "vision.normed" : "vision.hidden.%d", t->n_used);
    return tiles(c, name, ref, first, n, err);
}

static ph_rc features(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    if (is_of_nothing(c, ref)) return PH_OK;
    return last_rows(c, ref, 0, c->n_tiles, err);
}

static ph_rc first_tile(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    if (!c->n_tiles) return PH_FAIL(err, PH_EMISMATCH, "%s: the case has no pictures", ref->name);
    return last_rows(c, ref, 0, 1, err);
}

static ph_rc last_tile(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    if (!c->n_tiles) return PH_FAIL(err, PH_EMISMATCH, "%s: the case has no pictures", ref->name);
    return last_rows(c, ref, c->n_tiles - 1, 1, err);
}

static ph_rc visual(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    return tiles(c, "visual", ref, 0, c->n_tiles, err);
}

static ph_rc queries(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    return tiles(c, "bridge.queries", ref, 0, c->n_tiles, err);
}

/* ---- pictures beside the rows ---- */

/* The first tiles of each picture, as many as the reference kept: [pictures, k, ..]. */
static ph_rc first_tiles(ph_model_case *c, const char *name, const ph_weight *ref, size_t each,
                         size_t n_views, ph_err *err) {
    const ph_seen *s;
    double         diff = 0, scale = 0;
    size_t         at = 0, first = 0;
    PH_TRY(seen(c, name, &s, err));
    size_t tile = s->n / (c->n_seen_tiles ? c->n_seen_tiles : 1);
    PH_TRY(ph_same_count(tile * each * n_views, ref, err));
    for (size_t v = 0; v < n_views; v++) {
        for (size_t t = 0; t < each; t++, at += tile) {
            ph_gap g = ph_gap_floats(s->at + (size_t)c->tile_of[first + t] * tile, tile, ref, at);
            diff = fmax(diff, g.diff);
            scale = fmax(scale, g.scale);
        }
        first += (size_t)c->tiles[v].layout.n_tiles;
    }
    ph_figure(c->r, diff, c->rtol * scale, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

static ph_rc tower_output(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    if (ref->rank != 5 || ref->dim[1] != (int64_t)c->n_views || ref->dim[2] < 1 || !c->n_views ||
        ref->dim[2] > c->tiles[0].layout.n_tiles)
        return PH_FAIL(err, PH_EMISMATCH, "%s is no [1, pictures, tiles, places, numbers]", ref->name);
    return first_tiles(c, "features", ref, (size_t)ref->dim[2], c->n_views, err);
}

static ph_rc cross_states(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    int64_t tile = c->desk->model->spec.bridge.tokens_per_tile;
    (void)index;
    if (ref->rank != 3 || ref->dim[1] < tile || ref->dim[1] % tile || !c->n_views ||
        ref->dim[1] / tile > c->tiles[0].layout.n_tiles)
        return PH_FAIL(err, PH_EMISMATCH, "%s is no [1, tiles * %lld, numbers]", ref->name, (long long)tile);
    return first_tiles(c, "visual", ref, (size_t)(ref->dim[1] / tile), 1, err);
}

static ph_rc resampled(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    return is_of_nothing(c, ref) ? PH_OK : tiles(c, "visual", ref, 0, c->n_tiles, err);
}

/* Which grid each picture's tiles make. */
static ph_rc grid_forms(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    const ph_model *m = c->desk->model;
    size_t          wrong = 0;
    (void)index;
    PH_TRY(ph_same_count(c->n_views, ref, err));
    if (!m->family->tile_id) return PH_FAIL(err, PH_EMISMATCH, "%s: our tiles have no forms", ref->name);
    for (size_t i = 0; i < c->n_views; i++) {
        int32_t id = m->family->tile_id(&m->spec, &c->tiles[i].layout, 0);
        wrong += (double)(id / m->spec.tower.tiles) != ph_ref_at(ref, i);
    }
    ph_figure(c->r, (double)wrong, 0, "%s", ref->name);
    return PH_OK;
}

static ph_rc shown_tiles(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    size_t wrong = 0, at = 0;
    (void)index;
    PH_TRY(ph_same_count(c->n_tiles, ref, err));
    for (size_t i = 0; i < c->n_views; i++) {
        const ph_tile_layout *l = &c->tiles[i].layout;
        for (int t = 0; t < l->n_tiles; t++) wrong += ph_ref_at(ref, at++) != (t < l->n_tiles - l->n_blank);
    }
    ph_figure(c->r, (double)wrong, 0, "%s", ref->name);
    return PH_OK;
}

/* ---- language ---- */

/* Hidden state i of the reference: the last one is taken behind the final norm. */
static ph_rc hidden_value(const ph_model_case *c, int index, const ph_seen **out, ph_err *err) {
    int  n = c->desk->model->spec.text.n_layers;
    char name[64];
    if (index < 0 || index > n)
        return PH_FAIL(err, PH_EMISMATCH, "hidden state %d; the model has %d layers", index, n);
    snprintf(name, sizeof name, index == n ? "hidden.norm" : "hidden.%d", index);
    PH_TRY(seen(c, name, out, err));
    return PH_OK;
}

static ph_rc hidden(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    const ph_seen *s;
    PH_TRY(hidden_value(c, index, &s, err));
    PH_TRY(ph_same_count(s->n, ref, err));
    ph_gap g = ph_gap_floats(s->at, s->n, ref, 0);
    ph_figure(c->r, g.diff, c->language_rtol * g.scale, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

/* Layers that attend to pictures only are left out by the reference when there are none; here they add zero.
 */
static int is_skipped(const ph_model_case *c, int index) {
    return index && !c->n_views && c->desk->model->spec.text.cross_at[index - 1] == PH_CROSS_INSTEAD;
}

static ph_rc hidden_last(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    const ph_decoder *text = &c->desk->model->spec.text;
    size_t            d = (size_t)text->d_model, n = 0, at = 0;
    double            diff = 0, scale = 0;
    (void)index;
    for (int i = 0; i <= text->n_layers; i++) n += !is_skipped(c, i);
    PH_TRY(ph_same_count(n * d, ref, err));
    for (int i = 0; i <= text->n_layers; i++) {
        const ph_seen *s;
        if (is_skipped(c, i)) continue;
        /* The last layer that the reference ran is the one that it norms. */
        PH_TRY(hidden_value(c, at + 1 == n ? text->n_layers : i, &s, err));
        ph_gap g = ph_gap_floats(s->at + s->n - d, d, ref, at++ * d);
        diff = fmax(diff, g.diff);
        scale = fmax(scale, g.scale);
    }
    ph_figure(c->r, diff, c->language_rtol * scale, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

static size_t vocab(const ph_model_case *c) {
    return (size_t)c->desk->model->spec.text.vocab;
}

static ph_rc logits_last(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    c->n_outputs++;
    return ph_probe_figure_logits(c->r, c->probe->logits, vocab(c), ref, c->atol, ref->name, err);
}

/* Its ids hold our largest logits: nothing else may stand above the least of them by more than both errors.
 */
static ph_rc top_ids(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    int32_t     *ids;
    size_t       n;
    float        least = INFINITY, above = -INFINITY;
    const float *x = c->probe->logits;
    (void)index;
    PH_TRY(ph_ref_ids(&c->desk->arena, ref, &ids, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= vocab(c))
            return PH_FAIL(err, PH_EMISMATCH, "%s: id %d of %zu", ref->name, ids[i], vocab(c));
        least = fminf(least, x[ids[i]]);
    }
    for (size_t v = 0; v < vocab(c); v++) {
        size_t i = 0;
        while (i < n && (size_t)ids[i] != v) i++;
        if (i == n) above = fmaxf(above, x[v]);
    }
    double gap = (double)above - (double)least;
    ph_figure(c->r, gap > 0 ? gap : 0, 2 * c->atol, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

static ph_rc top_logits(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    const ph_weight *at;
    double           worst = 0;
    (void)index;
    PH_TRY(ph_tensors_get(&c->t, &at, "top5_ids", err));
    PH_TRY(ph_same_count(ph_ref_count(ref), at, err));
    for (size_t i = 0; i < ph_ref_count(ref); i++) {
        double id = ph_ref_at(at, i);
        if (!(id >= 0 && id < (double)vocab(c))) return PH_FAIL(err, PH_EMISMATCH, "%s: id %g", at->name, id);
        double diff = fabs((double)c->probe->logits[(size_t)id] - ph_ref_at(ref, i));
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(c->r, worst, c->atol, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

/* The reference's argmax is ours, or as good as ours. */
static ph_rc argmax(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    double worst = 0;
    (void)index;
    PH_TRY(ph_same_count(c->probe->rows.n, ref, err));
    for (size_t i = 0; i < c->probe->rows.n; i++)
        worst = c->probe->rows.gap[i] <= worst ? worst : c->probe->rows.gap[i];
    ph_figure(c->r, worst, 2 * c->atol, "%s: logits behind", ref->name);
    c->n_outputs++;
    return PH_OK;
}

static ph_rc lse(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    double worst = 0;
    (void)index;
    PH_TRY(ph_same_count(c->probe->rows.n, ref, err));
    for (size_t i = 0; i < c->probe->rows.n; i++) {
        double diff = fabs(c->probe->rows.lse[i] - ph_ref_at(ref, i));
        worst = diff <= worst ? worst : diff;
    }
    ph_figure(c->r, worst, c->atol, "%s", ref->name);
    c->n_outputs++;
    return PH_OK;
}

static ph_rc greedy(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)ref, (void)index, (void)err;
    ph_probe_figure_greedy(c->r, c->probe, c->greedy, c->n_greedy, c->stable, &c->is_answer_same);
    c->n_outputs++;
    return PH_OK;
}

/* Comparable only when all ids before it were the same. */
static ph_rc final_logits(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    size_t same = 0;
    (void)index;
    while (same < c->n_greedy && same < c->probe->n_ids && c->probe->ids[same] == c->greedy[same]) same++;
    if (same + 1 < c->n_greedy) {
        ph_case_note(c->r, "%s is of another answer", ref->name);
        return PH_OK;
    }
    return ph_probe_figure_logits(c->r, c->probe->final_logits, vocab(c), ref, c->atol_final, ref->name, err);
}

/* [3, rows]: where each row stands in time, height and width. */
static ph_rc positions(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    size_t wrong = 0, n = c->probe->n_prompt;
    (void)index;
    PH_TRY(ph_same_count(3 * n, ref, err));
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < n; i++)
            wrong += !(fabs(c->probe->positions[3 * i + k] - ph_ref_at(ref, k * n + i)) < 0.5);
    ph_figure(c->r, (double)wrong, 0, "%s", ref->name);
    return PH_OK;
}

/* How far positions are ahead of rows behind the prompt. */
static ph_rc position_delta(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)index;
    PH_TRY(ph_same_count(1, ref, err));
    double ours = (double)c->probe->next_position - (double)c->probe->n_prompt;
    ph_figure(c->r, fabs(ours - ph_ref_at(ref, 0)), 0, "%s", ref->name);
    return PH_OK;
}

/* ---- the table ---- */

static ph_rc nothing(ph_model_case *c, const ph_weight *ref, int index, ph_err *err) {
    (void)c, (void)ref, (void)index, (void)err;
    return PH_OK;
}

static const struct {
    const char *name;
    tensor_fn  *check;
} table[] = {
    {"input_ids", nothing}, /* compared before anything else, and always */
    {"attention_mask", all_seen},
    {"pixel_values", values},
    {"pixel_values_u8", levels},
    {"pixel_values_sample", samples},
    {"pixel_values_sample_index", nothing}, /* with pixel_values_sample */
    {"pixel_attention_valid_hw", valid},
    {"pixel_values_videos", values},
    {"pixel_values_videos_u8", levels},
    {"pixel_values_videos_sample", samples},
    {"pixel_values_videos_sample_index", nothing},
    {"video_frames_u8", nothing},    /* what was fed */
    {"second_per_grid_ts", nothing}, /* the same */
    {"image_grid_thw", grids},
    {"video_grid_thw", grids},
    {"position_ids_thw", positions},
    {"rope_delta", position_delta},
    {"vision_hidden_", vision_hidden},
    {"vision_selected", features},
    {"vision_last", features},
    {"vision_output", tower_output},
    {"cross_attention_states", cross_states},
    {"cross_attention_mask",
     nothing}, /* of the reference's own attention: hidden states and logits show it */
    {"image_attention_mask", nothing},
    {"aspect_ratio_ids", grid_forms},
    {"aspect_ratio_mask", shown_tiles},
    {"perceiver_output", resampled},
    {"vision_last_tile_first", first_tile},
    {"vision_last_tile_last", last_tile},
    {"qformer_output", queries},
    {"image_features", visual},
    {"video_features", visual},
    {"hidden_", hidden},
    {"hidden_last_pos", hidden_last},
    {"logits_last", logits_last},
    {"top5_ids", top_ids},
    {"top5_logits", top_logits},
    {"prompt_argmax", argmax},
    {"prompt_lse", lse},
    {"greedy_ids", greedy},
    {"greedy_margins", nothing}, /* they gave greedy_stable_len */
    {"greedy_final_step_logits", final_logits},
};

/* The row for a name; *index: the number behind a name that ends in '_'. */
static tensor_fn *find(const char *name, int *index) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n = strlen(table[i].name);
        *index = 0;
        if (!strcmp(name, table[i].name)) return table[i].check;
        if (table[i].name[n - 1] != '_' || strncmp(name, table[i].name, n)) continue;
        char *end;
        long  v = strtol(name + n, &end, 10);
        if (end == name + n || *end || v < 0 || v > 100000) continue;
        *index = (int)v;
        return table[i].check;
    }
    return NULL;
}

ph_rc ph_model_case_tensors(ph_model_case *c, ph_err *err) {
    const ph_weights *w = &c->t.file.weights;
    for (size_t i = 0; i < w->n; i++) {
        int        index;
        tensor_fn *check = find(w->at[i].name, &index);
        if (!check) {
            ph_case_note(c->r, "%s is not known", w->at[i].name);
            continue;
        }
        ph_rc rc = check(c, &w->at[i], index, err);
        if (rc) return ph_note(err, rc, "while comparing %s", w->at[i].name);
    }
    return PH_OK;
}
