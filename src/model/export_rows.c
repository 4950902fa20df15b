/* export_rows.c - each tensor of an opened checkpoint under its names in both containers.
 *
 * The logical names below are all that families of this room ask for.  For each
 * that the checkpoint holds, names.c gives the full name in either style.  What
 * is left over has no name on the other side, and is refused: a conversion that
 * drops weights would answer nonsense elsewhere.
 */
#include "model/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum part { TEXT, VISION, BRIDGE } part;

enum {
    WEIGHT = 1,
    BIAS = 2,
    BARE = 4,
    NORM = 8,
    QUERY = 16,
    KEY = 32,
    WIDE = 64,
    FUSED = 128,
    APART = 256,
    POSTS = 512
};

/* WEIGHT, BIAS: endings that occur; BARE: the name as it stands.  FUSED, APART: only of decoders that fuse q,
 * k, v and gate, up, or that do not.  POSTS: only with norms after attention and feed-forward. */
static const struct {
    part        part;
    int         is_layered;
    const char *name;
    int         what;
} names[] = {
    {TEXT, 0, "embed_tokens", WEIGHT},
    {TEXT, 1, "input_layernorm", WEIGHT | NORM},
    {TEXT, 1, "self_attn.q_proj", WEIGHT | BIAS | QUERY | APART},
    {TEXT, 1, "self_attn.k_proj", WEIGHT | BIAS | KEY | APART},
    {TEXT, 1, "self_attn.v_proj", WEIGHT | BIAS | APART},
    {TEXT, 1, "self_attn.qkv_proj", WEIGHT | BIAS | FUSED},
    {TEXT, 1, "self_attn.o_proj", WEIGHT | BIAS},
    {TEXT, 1, "self_attn.q_norm", WEIGHT | NORM},
    {TEXT, 1, "self_attn.k_norm", WEIGHT | NORM},
    {TEXT, 1, "post_attention_layernorm", WEIGHT | NORM},
    {TEXT, 1, "pre_feedforward_layernorm", WEIGHT | NORM | POSTS},
    {TEXT, 1, "post_feedforward_layernorm", WEIGHT | NORM | POSTS},
    {TEXT, 1, "mlp.gate_proj", WEIGHT | BIAS | APART},
    {TEXT, 1, "mlp.up_proj", WEIGHT | BIAS | APART},
    {TEXT, 1, "mlp.gate_up_proj", WEIGHT | BIAS | FUSED},
    {TEXT, 1, "mlp.down_proj", WEIGHT | BIAS},
    {TEXT, 0, "norm", WEIGHT | NORM},
    {TEXT, 0, "lm_head", WEIGHT | BIAS},
    {VISION, 0, "embeddings.class_embedding", BARE | WIDE},
    {VISION, 0, "embeddings.patch_embedding", WEIGHT | BIAS | WIDE},
    {VISION, 0, "embeddings.position_embedding", WEIGHT | WIDE},
    {VISION, 0, "pre_layrnorm", WEIGHT | BIAS},
    {VISION, 1, "layer_norm1", WEIGHT | BIAS},
    {VISION, 1, "self_attn.q_proj", WEIGHT | BIAS},
    {VISION, 1, "self_attn.k_proj", WEIGHT | BIAS},
    {VISION, 1, "self_attn.v_proj", WEIGHT | BIAS},
    {VISION, 1, "self_attn.out_proj", WEIGHT | BIAS},
    {VISION, 1, "layer_norm2", WEIGHT | BIAS},
    {VISION, 1, "mlp.fc1", WEIGHT | BIAS},
    {VISION, 1, "mlp.fc2", WEIGHT | BIAS},
    {VISION, 0, "post_layernorm", WEIGHT | BIAS},
    {BRIDGE, 0, "linear_1", WEIGHT | BIAS},
    {BRIDGE, 0, "linear_2", WEIGHT | BIAS},
    {BRIDGE, 0, "modality_projection.proj", WEIGHT | BIAS},
};
enum { N_NAMES = sizeof names / sizeof *names };

typedef struct walk {
    const ph_model *m;
    ph_arena       *arena;
    ph_export      *out;
    size_t          max;
    ph_names        from[3], hf[3], gguf[3]; /* by part: this checkpoint's, and the two styles */
    int             is_swapped;              /* an old GGUF tower: fc1 is called ffn_down */
} walk;

/* ---- names ---- */

static ph_rc open_names(walk *w, ph_err *err) {
    const ph_source         *s = &w->m->source;
    static const char *const plain[4] = {"model.", "", "", ""};
    const char *const       *prefix = w->m->family->hf_prefix ? w->m->family->hf_prefix : plain;
    PH_TRY(ph_names_text(s, &w->from[TEXT], err));
    if (w->m->spec.has_vision) {
        PH_TRY(ph_names_vision(s, &w->from[VISION], err));
        PH_TRY(ph_names_bridge(s, &w->from[BRIDGE], err));
    }
    for (int p = 0; p < 3; p++) {
        w->from[p].has_post_norms = w->m->spec.text.has_post_norms;
        w->gguf[p] = (ph_names){.is_gguf = 1, .has_post_norms = w->m->spec.text.has_post_norms};
        w->hf[p] =
            s->is_gguf ? (ph_names){.prefix = prefix[p ? p + 1 : 0], .head_prefix = prefix[1]} : w->from[p];
    }
    return PH_OK;
}

static ph_rc copy_name(walk *w, const ph_names *style, const char *logical, const char **out, ph_err *err) {
    char full[256], *copy;
    ph_names_full(style, logical, full, sizeof full);
    PH_TRY(ph_arena_copy_text(w->arena, &copy, full, strlen(full), err));
    *out = copy;
    return PH_OK;
}

/* fc1 for fc2 and back. */
static void swap_fc(char *name) {
    char *fc = strstr(name, "mlp.fc");
    if (fc) fc[6] = fc[6] == '1' ? '2' : '1';
}

/* ---- rows ---- */

static ph_export_turn turn_of(const walk *w, int what) {
    if (what & (QUERY | KEY) && w->m->text_family->gguf_pairs) return PH_EXPORT_PAIRS;
    return what & NORM && w->m->spec.text.norm_adds_one ? PH_EXPORT_PLUS_ONE : PH_EXPORT_PLAIN;
}

static ph_rc add_row(walk *w, part p, int what, const char *logical, ph_err *err) {
    char asked[192];
    snprintf(asked, sizeof asked, "%s", logical);
    if (w->is_swapped) swap_fc(asked);
    const ph_weight *from = ph_names_find(&w->from[p], asked);
    if (!from || w->out->n >= w->max) return PH_OK;
    ph_export_row *r = &w->out->row[w->out->n++];
    *r = (ph_export_row){
        .from = from, .turn = turn_of(w, what), .is_vision = p != TEXT, .is_wide = what & WIDE};
    if (r->turn == PH_EXPORT_PAIRS)
        r->heads = what & QUERY ? w->m->spec.text.n_heads : w->m->spec.text.n_kv_heads;
    PH_TRY(copy_name(w, &w->hf[p], logical, &r->hf, err));
    return copy_name(w, &w->gguf[p], logical, &r->gguf, err);
}

static ph_rc add_name(walk *w, size_t i, int layer, ph_err *err) {
    char base[128], logical[160];
    int  what = names[i].what;
    part p = names[i].part;
    if (names[i].is_layered)
        snprintf(base, sizeof base, "%slayers.%d.%s", p == VISION ? "encoder." : "", layer, names[i].name);
    else
        snprintf(base, sizeof base, "%s", names[i].name);
    if (what & BARE) PH_TRY(add_row(w, p, what, base, err));
    static const char *const ending[] = {"weight", "bias"};
    for (int e = 0; e < 2; e++) {
        if (!(what & (e ? BIAS : WEIGHT))) continue;
        snprintf(logical, sizeof logical, "%s.%s", base, ending[e]);
        PH_TRY(add_row(w, p, what, logical, err));
    }
    return PH_OK;
}

static int occurs(const walk *w, size_t i) {
    const ph_decoder *d = &w->m->spec.text;
    int               what = names[i].what;
    if (names[i].part != TEXT && !w->m->spec.has_vision) return 0;
    return !(what & FUSED && !d->is_fused) && !(what & APART && d->is_fused) &&
           !(what & POSTS && !d->has_post_norms);
}

/* Rows [i, j) of the table are those of one layer: layer by layer. */
static ph_rc add_all(walk *w, ph_err *err) {
    for (size_t i = 0, j; i < N_NAMES; i = j) {
        int layers = names[i].part == TEXT ? w->m->spec.text.n_layers : w->m->spec.tower.n_layers;
        for (j = i + 1;
             names[i].is_layered && j < N_NAMES && names[j].is_layered && names[j].part == names[i].part;)
            j++;
        for (int layer = 0; layer < (names[i].is_layered ? layers : 1); layer++)
            for (size_t k = i; k < j; k++)
                if (occurs(w, k)) PH_TRY(add_name(w, k, layer, err));
    }
    return PH_OK;
}

/* ---- what is left over ---- */

/* Tables that follow from the config; no parameter of the model. */
static int is_derived(const char *name) {
    static const char *const endings[] = {"position_ids", "rotary_emb.inv_freq", "rope_freqs.weight",
                                          "masked_bias"};
    size_t                   n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n >= k && !strcmp(name + n - k, endings[i])) return 1;
    }
    return 0;
}

static int by_from(const void *a, const void *b) {
    const ph_weight *const *x = a, *const *y = b;
    return (*x > *y) - (*x < *y);
}

static ph_rc check_left_over(walk *w, const ph_weights *all, ph_err *err) {
    void *place;
    PH_TRY(ph_arena_carve(w->arena, &place, w->out->n + 1, sizeof(const ph_weight *), err));
    const ph_weight **used = place;
    for (size_t i = 0; i < w->out->n; i++) used[i] = w->out->row[i].from;
    qsort(used, w->out->n, sizeof *used, by_from);
    for (size_t i = 0; i < all->n; i++) {
        const ph_weight *one = &all->at[i];
        if (bsearch(&one, used, w->out->n, sizeof *used, by_from)) continue;
        if (!is_derived(one->name))
            return PH_FAIL(err, PH_EUNSUP, "tensor %.160s of family %s has no name in the other container",
                           one->name, w->m->family->name);
        w->out->n_left_out++;
    }
    return PH_OK;
}

static int is_swapped(const walk *w) {
    const ph_tower  *t = &w->m->spec.tower;
    const ph_weight *fc1 = w->m->spec.has_vision && w->m->source.is_gguf
                               ? ph_names_find(&w->from[VISION], "encoder.layers.0.mlp.fc1.weight")
                               : NULL;
    return fc1 && fc1->rank == 2 && fc1->dim[0] == t->d && fc1->dim[1] == t->d_ff && t->d != t->d_ff;
}

ph_rc ph_export_rows(ph_export *out, const ph_model *m, ph_arena *arena, ph_err *err) {
    walk              w = {.m = m, .arena = arena, .out = out};
    const ph_weights *text = ph_source_weights(&m->source), *vision = ph_source_vision_weights(&m->source);
    void             *rows;
    *out = (ph_export){0};
    if (!m->text_family->gguf || (m->spec.has_vision && !m->family->hf_prefix))
        return PH_FAIL(err, PH_EUNSUP, "models of family %s are not converted yet", m->family->name);
    PH_TRY(open_names(&w, err));
    w.is_swapped = is_swapped(&w);
    w.max = text->n + (m->spec.has_vision ? vision->n : 0);
    PH_TRY(ph_arena_zero(arena, &rows, w.max + 1, sizeof *out->row, err));
    out->row = rows;
    PH_TRY(add_all(&w, err));
    PH_TRY(check_left_over(&w, text, err));
    return m->spec.has_vision && vision != text ? check_left_over(&w, vision, err) : PH_OK;
}
