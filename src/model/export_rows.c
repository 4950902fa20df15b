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

static const ph_name_row text_names[] = {
    {PH_NAMES_TEXT, PH_NAME_WEIGHT, "embed_tokens", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM, "layers.#.input_layernorm", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_QUERY | PH_NAME_APART,
     "layers.#.self_attn.q_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_KEY | PH_NAME_APART, "layers.#.self_attn.k_proj",
     NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_APART, "layers.#.self_attn.v_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_FUSED, "layers.#.self_attn.qkv_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS, "layers.#.self_attn.o_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM, "layers.#.self_attn.q_norm", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM, "layers.#.self_attn.k_norm", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM, "layers.#.post_attention_layernorm", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM | PH_NAME_POSTS, "layers.#.pre_feedforward_layernorm",
     NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM | PH_NAME_POSTS, "layers.#.post_feedforward_layernorm",
     NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_APART, "layers.#.mlp.gate_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_APART, "layers.#.mlp.up_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_FUSED, "layers.#.mlp.gate_up_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS, "layers.#.mlp.down_proj", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_NORM, "norm", NULL},
    {PH_NAMES_TEXT, PH_NAME_WEIGHT | PH_NAME_BIAS, "lm_head", NULL},
};

/* The vision part of the CLIP and SigLIP line. */
static const ph_name_row clip_names[] = {
    {PH_NAMES_VISION, PH_NAME_BARE | PH_NAME_WIDE, "embeddings.class_embedding", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS | PH_NAME_WIDE, "embeddings.patch_embedding", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_WIDE, "embeddings.position_embedding", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "pre_layrnorm", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.layer_norm1", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.self_attn.q_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.self_attn.k_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.self_attn.v_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.self_attn.out_proj", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.layer_norm2", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.mlp.fc1", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "encoder.layers.#.mlp.fc2", NULL},
    {PH_NAMES_VISION, PH_NAME_WEIGHT | PH_NAME_BIAS, "post_layernorm", NULL},
};

typedef struct walk {
    const ph_model *m;
    ph_arena       *arena;
    ph_export      *out;
    size_t          max;
    /* By part: this checkpoint's, and the two styles. */
    ph_names from[PH_N_NAME_PARTS], hf[PH_N_NAME_PARTS], gguf[PH_N_NAME_PARTS];
    int      is_swapped; /* an old GGUF tower: fc1 is called ffn_down */
} walk;

/* ---- names ---- */

static ph_rc open_names(walk *w, ph_err *err) {
    const ph_source         *s = &w->m->source;
    static const char *const plain[4] = {"model.", "", "", ""};
    const char *const       *prefix = w->m->family->hf_prefix ? w->m->family->hf_prefix : plain;
    const char *const        of[PH_N_NAME_PARTS] = {prefix[0], prefix[2], prefix[3], ""};
    PH_TRY(ph_names_text(s, &w->from[PH_NAMES_TEXT], err));
    if (w->m->spec.has_vision) {
        PH_TRY(ph_names_vision(s, &w->from[PH_NAMES_VISION], err));
        PH_TRY(ph_names_bridge(s, &w->from[PH_NAMES_BRIDGE], err));
        ph_names_loose(s, &w->from[PH_NAMES_LOOSE]);
    }
    for (int p = 0; p < PH_N_NAME_PARTS; p++) {
        w->from[p].has_post_norms = w->m->spec.text.has_post_norms;
        w->gguf[p] = (ph_names){.is_gguf = 1, .has_post_norms = w->m->spec.text.has_post_norms};
        w->hf[p] = s->is_gguf ? (ph_names){.prefix = of[p], .head_prefix = prefix[1]} : w->from[p];
    }
    w->gguf[PH_NAMES_LOOSE] = (ph_names){.prefix = "v.", .head_prefix = ""};
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
    if (what & (PH_NAME_QUERY | PH_NAME_KEY) && w->m->text_family->gguf_pairs) return PH_EXPORT_PAIRS;
    return what & PH_NAME_NORM && w->m->spec.text.norm_adds_one ? PH_EXPORT_PLUS_ONE : PH_EXPORT_PLAIN;
}

/* name, "#" replaced, with an ending behind it. */
static void fill_in(char *out, size_t size, const char *name, int layer, const char *ending) {
    const char *mark = strchr(name, '#');
    if (mark)
        snprintf(out, size, "%.*s%d%s%s", (int)(mark - name), name, layer, mark + 1, ending);
    else
        snprintf(out, size, "%s%s", name, ending);
}

/* A tensor under its two logical names; parts NULL: as it stands. */
static ph_rc put_row(walk *w, const ph_name_row *row, const ph_weight *from, const ph_export_parts *parts,
                     const char *hf, const char *gguf, ph_err *err) {
    ph_name_part p = row->part;
    if (w->out->n == w->max) return PH_FAIL(err, PH_EBUG, "more than %zu tensors of a checkpoint", w->max);
    ph_export_row *r = &w->out->row[w->out->n++];
    *r = (ph_export_row){.from = from,
                         .parts = parts,
                         .turn = turn_of(w, row->what),
                         .is_vision = p != PH_NAMES_TEXT,
                         .is_wide = (row->what & PH_NAME_WIDE) != 0};
    if (r->turn == PH_EXPORT_PAIRS)
        r->heads = row->what & PH_NAME_QUERY ? w->m->spec.text.n_heads : w->m->spec.text.n_kv_heads;
    PH_TRY(copy_name(w, &w->hf[p], hf, &r->hf, err));
    return copy_name(w, &w->gguf[p], gguf, &r->gguf, err);
}

/* ---- rows of tensors that GGUF has in parts ---- */

/* Part i's logical name there. */
static void part_name(char *out, size_t size, const char *whole, int what, int i) {
    const char *qkv = strstr(whole, "qkv");
    if (what & PH_NAME_THIRDS && qkv)
        snprintf(out, size, "%.*s%c%s", (int)(qkv - whole), whole, "qkv"[i], qkv + 3);
    else if (i)
        snprintf(out, size, "%s.%d", whole, i);
    else
        snprintf(out, size, "%s", whole);
}

/* The shape of a part of w, or (is_joined) that of n of its kind put together; 0: it has none. */
static int shape_parts(ph_export_parts *p, const ph_weight *w, int what) {
    p->rank = w->rank;
    memcpy(p->dim, w->dim, sizeof p->dim);
    if (what & PH_NAME_THIRDS) {
        p->dim[0] = p->is_joined ? p->n * w->dim[0] : w->dim[0] / p->n;
        p->chunk = p->is_joined ? w->dim[0] : p->dim[0];
        return w->rank >= 1 && w->rank <= 2 && p->chunk > 0 && (p->is_joined || w->dim[0] % p->n == 0);
    }
    if (w->rank != 4 + !p->is_joined || (!p->is_joined && w->dim[2] != p->n)) return 0;
    p->rank = 4 + p->is_joined;
    p->dim[2] = p->n;
    memcpy(p->dim + 2 + p->is_joined, w->dim + 3 - p->is_joined, 2 * sizeof *p->dim);
    p->chunk = p->dim[p->rank - 2];
    return p->chunk > 0;
}

static ph_rc bad_parts(const walk *w, const ph_weight *whole, int n, ph_err *err) {
    char has[96];
    ph_weight_describe(whole, has, sizeof has);
    return PH_FAIL(err, PH_EUNSUP, "tensor %.160s of family %s is %s: GGUF files hold %d parts of it",
                   whole->name, w->m->family->name, has, n);
}

/* One tensor into a row a part. */
static ph_rc split(walk *w, const ph_name_row *row, const ph_weight *from, int n, const char *hf,
                   const char *gguf, ph_err *err) {
    for (int i = 0; i < n; i++) {
        char  name[200];
        void *at;
        PH_TRY(ph_arena_zero(w->arena, &at, 1, sizeof(ph_export_parts), err));
        ph_export_parts *p = at;
        *p = (ph_export_parts){.n = n, .part = i};
        if (!shape_parts(p, from, row->what)) return bad_parts(w, from, n, err);
        part_name(name, sizeof name, gguf, row->what, i);
        PH_TRY(put_row(w, row, from, p, hf, name, err));
    }
    return PH_OK;
}

static int is_like(const ph_weight *a, const ph_weight *b) {
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* The parts into one row. */
static ph_rc join(walk *w, const ph_name_row *row, int n, const char *hf, const char *gguf, ph_err *err) {
    void *at;
    PH_TRY(ph_arena_zero(w->arena, &at, 1, sizeof(ph_export_parts), err));
    ph_export_parts *p = at;
    *p = (ph_export_parts){.n = n, .is_joined = 1};
    for (int i = 0; i < n; i++) {
        char name[200], full[256], has[96];
        part_name(name, sizeof name, gguf, row->what, i);
        p->at[i] = ph_names_find(&w->from[row->part], name);
        if (!p->at[0]) return PH_OK;
        ph_names_full(&w->from[row->part], name, full, sizeof full);
        if (!p->at[i])
            return PH_FAIL(err, PH_EMISMATCH, "tensor %s is missing beside %s", full, p->at[0]->name);
        ph_weight_describe(p->at[i], has, sizeof has);
        if (!is_like(p->at[0], p->at[i]))
            return PH_FAIL(err, PH_EMISMATCH, "tensor %s is %s, another shape than %s", full, has,
                           p->at[0]->name);
    }
    if (!shape_parts(p, p->at[0], row->what)) return bad_parts(w, p->at[0], n, err);
    return put_row(w, row, p->at[0], p, hf, gguf, err);
}

/* ---- rows of all tensors ---- */

static ph_rc add_row(walk *w, const ph_name_row *row, int layer, const char *ending, ph_err *err) {
    char         hf[192], gguf[192], asked[192];
    ph_name_part p = row->part;
    int          is_gguf = w->m->source.is_gguf, n = row->what / PH_NAME_PARTS;
    fill_in(hf, sizeof hf, row->name, layer, ending);
    /* A GGUF name that is whole already has no ending to take. */
    fill_in(gguf, sizeof gguf, row->gguf ? row->gguf : row->name, layer,
            row->gguf && row->what & PH_NAME_BARE ? "" : ending);
    snprintf(asked, sizeof asked, "%s", is_gguf ? gguf : hf);
    if (w->is_swapped) swap_fc(asked);
    const ph_weight *from = ph_names_find(&w->from[p], asked);
    if (is_gguf && n > 1 && (!from || row->what & PH_NAME_FRAMES)) return join(w, row, n, hf, gguf, err);
    if (!from) return PH_OK;
    return !is_gguf && n > 1 ? split(w, row, from, n, hf, gguf, err)
                             : put_row(w, row, from, NULL, hf, gguf, err);
}

static ph_rc add_name(walk *w, const ph_name_row *row, int layer, ph_err *err) {
    if (row->what & PH_NAME_BARE) PH_TRY(add_row(w, row, layer, "", err));
    if (row->what & PH_NAME_WEIGHT) PH_TRY(add_row(w, row, layer, ".weight", err));
    return row->what & PH_NAME_BIAS ? add_row(w, row, layer, ".bias", err) : PH_OK;
}

static int occurs(const walk *w, const ph_name_row *row) {
    const ph_decoder *d = &w->m->spec.text;
    int               is_gated = w->m->spec.packed.is_gated;
    return !(row->what & PH_NAME_FUSED && !d->is_fused) && !(row->what & PH_NAME_APART && d->is_fused) &&
           !(row->what & PH_NAME_POSTS && !d->has_post_norms) && !(row->what & PH_NAME_GATED && !is_gated) &&
           !(row->what & PH_NAME_UNGATED && is_gated);
}

/* Neighbours of one layered kind go layer by layer. */
static ph_rc add_list(walk *w, const ph_name_row *row, size_t n, ph_err *err) {
    for (size_t i = 0, j; i < n; i = j) {
        int is_layered = strchr(row[i].name, '#') != NULL;
        int layers = row[i].part == PH_NAMES_TEXT ? w->m->spec.text.n_layers : w->m->spec.tower.n_layers;
        for (j = i + 1; is_layered && j < n && strchr(row[j].name, '#') && row[j].part == row[i].part;) j++;
        for (int layer = 0; layer < (is_layered ? layers : 1); layer++)
            for (size_t k = i; k < j; k++)
                if (occurs(w, &row[k])) PH_TRY(add_name(w, &row[k], layer, err));
    }
    return PH_OK;
}

/* LongRoPE's lists, which stand in config.json: tensors of GGUF files that no directory has. */
static ph_rc add_divisors(walk *w, ph_err *err) {
    const ph_decoder *d = &w->m->spec.text;
    size_t            n = (size_t)d->kind[0].rope.dim / 2;
    if (!ph_decoder_is_divided(d) || w->m->source.is_gguf) return PH_OK;
    for (int is_long = 1; is_long >= 0; is_long--) { /* in the field's order */
        void *list, *at;
        PH_TRY(ph_arena_carve(w->arena, &list, n, sizeof(float), err));
        PH_TRY(ph_arena_zero(w->arena, &at, 1, sizeof(ph_weight), err));
        PH_TRY(ph_longrope_list(&w->m->source, d, is_long, list, err));
        ph_weight *from = at;
        *from = (ph_weight){.name = ph_longrope_tensor[is_long],
                            .dtype = PH_F32,
                            .rank = 1,
                            .dim = {(int64_t)n},
                            .bytes = list,
                            .n_bytes = n * sizeof(float)};
        w->out->row[w->out->n++] = (ph_export_row){.from = from, .hf = "", .gguf = from->name};
    }
    return PH_OK;
}

static ph_rc add_all(walk *w, ph_err *err) {
    const ph_family *f = w->m->family;
    PH_TRY(add_list(w, text_names, sizeof text_names / sizeof *text_names, err));
    PH_TRY(add_divisors(w, err));
    if (!w->m->spec.has_vision) return PH_OK;
    if (f->tower_names)
        PH_TRY(add_list(w, f->tower_names, f->n_tower_names, err));
    else
        PH_TRY(add_list(w, clip_names, sizeof clip_names / sizeof *clip_names, err));
    return add_list(w, f->names, f->n_names, err);
}

/* ---- what is left over ---- */

/* Tables that follow from the config; no parameter of the model. */
static int is_derived(const char *name) {
    static const char *const endings[] = {
        "position_ids", "rotary_emb.inv_freq",       "rope_freqs.weight",
        "masked_bias",  "rope_factors_short.weight", "rope_factors_long.weight"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t k = strlen(endings[i]);
        if (n >= k && !strcmp(name + n - k, endings[i])) return 1;
    }
    return 0;
}

/* GGUF, of NVFP4: "X.scale" beside "X.weight". */
static int is_factor(const char *name) {
    size_t n = strlen(name);
    return n > 6 && !strcmp(name + n - 6, ".scale");
}

static int by_from(const void *a, const void *b) {
    const ph_weight *const *x = a, *const *y = b;
    return (*x > *y) - (*x < *y);
}

static ph_rc check_left_over(walk *w, const ph_weights *all, ph_err *err) {
    void *place;
    PH_TRY(ph_arena_carve(w->arena, &place, PH_EXPORT_PARTS_MAX * w->out->n + 1, sizeof(const ph_weight *),
                          err));
    const ph_weight **used = place;
    size_t            n = 0;
    for (size_t i = 0; i < w->out->n; i++) {
        const ph_export_parts *p = w->out->row[i].parts;
        used[n++] = w->out->row[i].from;
        for (int k = 1; p && p->is_joined && k < p->n; k++) used[n++] = p->at[k];
    }
    qsort(used, n, sizeof *used, by_from);
    for (size_t i = 0; i < all->n; i++) {
        const ph_weight *one = &all->at[i];
        if (bsearch(&one, used, n, sizeof *used, by_from)) continue;
        if (is_factor(one->name))
            return PH_FAIL(
                err, PH_EUNSUP,
                "tensor %.160s is a factor for a whole matrix, which a directory has no place for: use the "
                ".gguf as it is, or convert the checkpoint that it was made from",
                one->name);
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
                               ? ph_names_find(&w->from[PH_NAMES_VISION], "encoder.layers.0.mlp.fc1.weight")
                               : NULL;
    return fc1 && fc1->rank == 2 && fc1->dim[0] == t->d && fc1->dim[1] == t->d_ff && t->d != t->d_ff;
}

ph_rc ph_export_rows(ph_export *out, const ph_model *m, ph_arena *arena, ph_err *err) {
    walk              w = {.m = m, .arena = arena, .out = out};
    const ph_weights *text = ph_source_weights(&m->source), *vision = ph_source_vision_weights(&m->source);
    void             *rows;
    *out = (ph_export){0};
    if (!m->text_family || !ph_family_gguf(m->text_family, &m->spec) ||
        (m->spec.has_vision && (!m->family->hf_prefix || !m->family->projector)))
        return PH_FAIL(err, PH_EUNSUP, "GGUF has no names for models of family %s", m->family->name);
    if (m->spec.text.act != m->text_family->gguf_act)
        return PH_FAIL(err, PH_EUNSUP, "GGUF has no key for hidden_act '%s' of family %s",
                       ph_export_act_name(m->spec.text.act), m->text_family->name);
    PH_TRY(open_names(&w, err));
    w.is_swapped = is_swapped(&w);
    w.max = 2 + text->n + (m->spec.has_vision ? PH_EXPORT_PARTS_MAX * vision->n : 0);
    PH_TRY(ph_arena_zero(arena, &rows, w.max + 1, sizeof *out->row, err));
    out->row = rows;
    PH_TRY(add_all(&w, err));
    PH_TRY(check_left_over(&w, text, err));
    return m->spec.has_vision && vision != text ? check_left_over(&w, vision, err) : PH_OK;
}
