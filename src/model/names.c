/* names.c - weights under logical names, whatever the container calls them.
 *
 * Logical names are Hugging Face's without the prefix that says which part of a
 * composite model they belong to.  GGUF files use the field's shorter names: the
 * table below turns one into the other, piece by piece, so that a family writes
 * each name once.  What only one family has stands in its own rows (ph_family
 * names), which are asked first.
 */
#include "model/family.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longest first where one is the start of another. Source: the GGUF specification's standardized tensor
 * names. */
static const struct {
    const char *logical, *gguf;
} pieces[] = {
    {"encoder.layers.", "v.blk."},
    {"blocks.", "v.blk."},
    {"layers.", "blk."},
    {"embed_tokens.", "token_embd."},
    {"lm_head.", "output."},
    {"post_attention_layernorm.", "ffn_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
    {"self_attn.qkv_proj.", "attn_qkv."},
    {"mlp.gate_up_proj.", "ffn_up."},
    {"input_layernorm.", "attn_norm."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.out_proj.", "attn_out."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
    {"mlp.fc1.", "ffn_up."},
    {"mlp.fc2.", "ffn_down."},
    {"layer_norm1.", "ln1."},
    {"layer_norm2.", "ln2."},
    {"layer_scale1.", "ls1."},
    {"layer_scale2.", "ls2."},
    {"embeddings.patch_embedding.", "v.patch_embd."},
    {"embeddings.class_embedding", "v.class_embd"},
    {"embeddings.position_embedding.", "v.position_embd."},
    {"pre_layrnorm.", "v.pre_ln."},
    {"post_layernorm.", "v.post_ln."},
    {"linear_1.", "mm.0."},
    {"linear_2.", "mm.2."},
    {"attn.qkv.", "attn_qkv."},
    {"attn.q.", "attn_q."},
    {"attn.k.", "attn_k."},
    {"attn.v.", "attn_v."},
    {"attn.proj.", "attn_out."},
    {"norm1.", "ln1."},
    {"norm2.", "ln2."},
    {"patch_embed.proj.", "v.patch_embd."},
    {"merger.ln_q.", "v.post_ln."},
    {"merger.mlp.", "mm."},
    {"norm.", "output_norm."},
};

/* Append at most what fits; out stays terminated. */
static void append(char *out, size_t size, const char *text, size_t n) {
    size_t at = strlen(out);
    if (at + 1 >= size) return;
    if (n > size - 1 - at) n = size - 1 - at;
    memcpy(out + at, text, n);
    out[at + n] = 0;
}

static void to_gguf(const ph_names *names, const char *name, char *out, size_t size) {
    out[0] = 0;
    while (*name) {
        size_t i, n_pieces = sizeof pieces / sizeof *pieces;
        for (i = 0; i < n_pieces; i++)
            if (!strncmp(name, pieces[i].logical, strlen(pieces[i].logical))) break;
        if (i < n_pieces) {
            int         is_post = names->has_post_norms && !strncmp(name, "post_attention_layernorm.", 25);
            const char *gguf = is_post ? "post_attention_norm." : pieces[i].gguf;
            append(out, size, gguf, strlen(gguf));
            name += strlen(pieces[i].logical);
            continue;
        }
        /* Not in the table: a layer number, or "weight": up to the next dot as it stands. */
        size_t n = strcspn(name, ".");
        n += name[n] == '.';
        append(out, size, name, n);
        name += n;
    }
}

/* What the family's own row makes of a name, with its ending; without one the name itself. */
static const char *own_name(const ph_family *f, const char *name, char *out, size_t size) {
    for (size_t i = 0; f && i < f->n_names; i++) {
        const ph_name_row *row = &f->names[i];
        size_t             n = strlen(row->name);
        if (!row->gguf || strncmp(name, row->name, n) || (name[n] && name[n] != '.')) continue;
        snprintf(out, size, "%s%s", row->gguf, name + n);
        return out;
    }
    return name;
}

void ph_names_full(const ph_names *n, const char *name, char *out, size_t size) {
    char own[256];
    if (n->is_gguf) {
        to_gguf(n, own_name(n->family, name, own, sizeof own), out, size);
    } else if (!strncmp(name, "lm_head.", 8)) {
        snprintf(out, size, "%s%s", n->head_prefix, name);
    } else {
        snprintf(out, size, "%s%s", n->prefix, name);
    }
}

const ph_weight *ph_names_find(const ph_names *n, const char *name) {
    char full[256];
    ph_names_full(n, name, full, sizeof full);
    return ph_weights_find(n->weights, full);
}

/* The first of the usual prefixes under which `probe` stands. */
static int find_prefix(const ph_weights *w, const char *const (*prefixes)[2], size_t n,
                       const char *const *probes, ph_names *out) {
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; probes[p]; p++) {
            char full[256];
            snprintf(full, sizeof full, "%s%s", prefixes[i][0], probes[p]);
            if (!ph_weights_find(w, full)) continue;
            out->prefix = prefixes[i][0];
            out->head_prefix = prefixes[i][1];
            return 1;
        }
    return 0;
}

/* Under the family's own prefix, any of its own names: a layout that no other family has. */
static int find_own(const ph_source *s, ph_name_part part, ph_names *out) {
    static const ph_name_row embeddings = {PH_NAMES_TEXT, PH_NAME_WEIGHT, "embed_tokens", NULL};
    const ph_family         *f = s->family;
    static const int         at[] = {[PH_NAMES_TEXT] = 0, [PH_NAMES_VISION] = 2, [PH_NAMES_BRIDGE] = 3};
    if (!f || !f->hf_prefix) return 0;
    const ph_name_row *rows = part == PH_NAMES_TEXT     ? &embeddings
                              : part == PH_NAMES_VISION ? f->tower_names
                                                        : f->names;
    size_t n = part == PH_NAMES_TEXT ? 1 : part == PH_NAMES_VISION ? f->n_tower_names : f->n_names;
    for (size_t i = 0; i < n; i++) {
        char        full[256];
        const char *prefix = f->hf_prefix[at[part]];
        if (rows[i].part != part || strchr(rows[i].name, '#')) continue;
        snprintf(full, sizeof full, "%s%s%s", prefix, rows[i].name,
                 rows[i].what & PH_NAME_BARE ? "" : ".weight");
        if (!ph_weights_find(out->weights, full)) continue;
        out->prefix = prefix;
        out->head_prefix = part == PH_NAMES_TEXT ? f->hf_prefix[1] : "";
        return 1;
    }
    return 0;
}

ph_rc ph_names_text(const ph_source *s, ph_names *out, ph_err *err) {
    static const char *const prefixes[][2] = {
        {"model.", ""},
        {"language_model.model.", "language_model."},
        {"model.language_model.", ""},
        {"model.text_model.", ""},
        {"text_model.", ""},
        {"", ""},
    };
    static const char *const probes[] = {"embed_tokens.weight", NULL};
    *out = (ph_names){.quant = &s->quant,
                      .weights = ph_source_weights(s),
                      .is_gguf = s->is_gguf,
                      .prefix = "",
                      .head_prefix = ""};
    if (out->is_gguf || find_own(s, PH_NAMES_TEXT, out)) return PH_OK;
    if (find_prefix(out->weights, prefixes, sizeof prefixes / sizeof *prefixes, probes, out)) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH,
                   "the weights of %s hold no embed_tokens.weight under model., language_model.model., "
                   "model.language_model. or model.text_model.: is this a complete checkpoint?",
                   s->path);
}

ph_rc ph_names_vision(const ph_source *s, ph_names *out, ph_err *err) {
    static const char *const prefixes[][2] = {
        {"vision_tower.vision_model.", ""},
        {"model.vision_tower.vision_model.", ""},
        {"model.vision_model.", ""},
        {"vision_model.", ""},
        {"visual.", ""},
        {"model.visual.", ""},
        {"vision_tower.", ""},
        {"model.vision_tower.", ""},
    };
    static const char *const probes[] = {"embeddings.patch_embedding.weight", "patch_embed.proj.weight",
                                         "embeddings.patch_embeddings.projection.weight", NULL};
    *out = (ph_names){.quant = &s->quant,
                      .weights = ph_source_vision_weights(s),
                      .is_gguf = s->is_gguf,
                      .prefix = "",
                      .head_prefix = "",
                      .family = s->family};
    if (out->is_gguf || find_own(s, PH_NAMES_VISION, out)) return PH_OK;
    if (find_prefix(out->weights, prefixes, sizeof prefixes / sizeof *prefixes, probes, out)) return PH_OK;
    return PH_FAIL(
        err, PH_EMISMATCH,
        "the weights of %s hold no embeddings.patch_embedding.weight under vision_tower.vision_model., "
        "model.vision_tower.vision_model. or model.vision_model.: the vision part is missing",
        s->path);
}

ph_rc ph_names_bridge(const ph_source *s, ph_names *out, ph_err *err) {
    static const char *const prefixes[][2] = {
        {"multi_modal_projector.", ""},
        {"model.multi_modal_projector.", ""},
        {"model.connector.", ""},
        {"connector.", ""},
        {"visual.", ""},
        {"model.visual.", ""},
        {"", ""},
        {"model.", ""},
    };
    static const char *const probes[] = {
        "linear_1.weight",     "modality_projection.proj.weight", "mm_input_projection_weight",
        "merger.mlp.0.weight", "language_projection.weight",      NULL};
    *out = (ph_names){.quant = &s->quant,
                      .weights = ph_source_vision_weights(s),
                      .is_gguf = s->is_gguf,
                      .prefix = "",
                      .head_prefix = "",
                      .family = s->family};
    if (out->is_gguf || find_own(s, PH_NAMES_BRIDGE, out)) return PH_OK;
    if (find_prefix(out->weights, prefixes, sizeof prefixes / sizeof *prefixes, probes, out)) return PH_OK;
    return PH_FAIL(err, PH_EMISMATCH,
                   "the weights of %s hold neither multi_modal_projector.linear_1.weight nor "
                   "model.connector.modality_projection.proj.weight nor visual.merger.mlp.0.weight: the "
                   "bridge between vision and language is missing",
                   s->path);
}

void ph_names_loose(const ph_source *s, ph_names *out) {
    static const char *const hf[][2] = {{"", ""}, {"model.", ""}};
    static const char *const gguf[][2] = {{"v.", ""}, {"model.", ""}};
    static const char *const probes[] = {"image_newline", NULL};
    *out = (ph_names){.quant = &s->quant, .weights = ph_source_vision_weights(s), .head_prefix = ""};
    out->prefix = s->is_gguf ? gguf[0][0] : hf[0][0];
    (void)find_prefix(out->weights, s->is_gguf ? gguf : hf, 2, probes, out);
}

/* The operator's shape against the file's, ignoring ones in front (GGUF stores [d] for [1, 1, d]). */
static int same_shape(const ph_shape *want, const ph_weight *w) {
    int a = 0, b = 0;
    while (a < want->rank - 1 && want->dim[a].mul == 1) a++;
    while (b < w->rank - 1 && w->dim[b] == 1) b++;
    if (want->rank - a != w->rank - b) return 0;
    for (; a < want->rank; a++, b++)
        if (want->dim[a].mul != w->dim[b]) return 0;
    return 1;
}

static int take_storage(ph_graph *g, const ph_weight *w, const char *full, int64_t row_items,
                        ph_storage *out);

/* Where the numbers of a weight stand, if its shape is what the config makes it; else the graph fails and 0.
 */
static int find_storage(const ph_names *n, ph_graph *g, const ph_shape *shape, const char *name,
                        ph_storage *out) {
    char   full[256], has[96], wants[96];
    ph_err err = {0};
    ph_names_full(n, name, full, sizeof full);
    const ph_weight *w = ph_weights_find(n->weights, full);
    ph_rc            rc = ph_names_planes(n, full, shape, out, &err);
    if (rc) ph_graph_fail(g, rc, "%s", err.msg);
    if (rc || out->form) return !rc;
    if (!w) {
        ph_graph_fail(g, PH_EMISMATCH, "tensor %s is missing from the weights, but the config asks for it",
                      full);
        return 0;
    }
    if (!same_shape(shape, w)) {
        ph_shape_print(shape, wants, sizeof wants);
        ph_weight_describe(w, has, sizeof has);
        ph_graph_fail(g, PH_EMISMATCH, "tensor %s is %s in the file, but the config makes it %s", full, has,
                      wants);
        return 0;
    }
    return take_storage(g, w, full, w->dim[w->rank - 1], out);
}

/* Rows of row_items numbers. */
static int take_storage(ph_graph *g, const ph_weight *w, const char *full, int64_t row_items,
                        ph_storage *out) {
    size_t row_bytes;
    ph_err err;
    if (!ph_dtype_get(w->dtype)->unpack) {
        ph_graph_fail(g, PH_EUNSUP, "tensor %s is stored as %s, which holds no real numbers", full,
                      ph_dtype_name(w->dtype));
        return 0;
    }
    if (ph_dtype_row_bytes(w->dtype, row_items, &row_bytes, &err)) {
        ph_graph_fail(g, err.code, "tensor %s: %s", full, err.msg);
        return 0;
    }
    *out = ph_storage_of(w->dtype, w->bytes, w->n_bytes, row_bytes);
    return 1;
}

static int add_weight(const ph_names *n, ph_graph *g, const ph_shape *shape, const char *name) {
    char       full[256];
    ph_storage s;
    if (g->rc || !find_storage(n, g, shape, name, &s)) return -1;
    ph_names_full(n, name, full, sizeof full);
    return ph_graph_weight(g, full, *shape, s);
}

int ph_names_weight(const ph_names *n, ph_graph *g, ph_shape shape, const char *name, ...) {
    char    text[192];
    va_list ap;
    va_start(ap, name);
    vsnprintf(text, sizeof text, name, ap);
    va_end(ap);
    return add_weight(n, g, &shape, text);
}

int ph_names_weight_if(const ph_names *n, ph_graph *g, int is_there, ph_shape shape, const char *name, ...) {
    char    text[192];
    va_list ap;
    if (!is_there) return -1;
    va_start(ap, name);
    vsnprintf(text, sizeof text, name, ap);
    va_end(ap);
    return add_weight(n, g, &shape, text);
}

int ph_names_weight_rows(const ph_names *n, ph_graph *g, int of, int n_in, int from, int rows,
                         const char *name) {
    char     full[256];
    ph_shape whole = ph_shape_of(2, ph_dim_of(of), ph_dim_of(n_in));
    if (g->rc) return -1;
    ph_storage s;
    if (!find_storage(n, g, &whole, name, &s)) return -1;
    const ph_plane *p = &s.plane[PH_PLANE_DATA];
    const uint8_t  *at = p->bytes;
    ph_storage view = ph_storage_of(s.dtype, at + (size_t)from * p->row_stride, (size_t)rows * p->row_stride,
                                    p->row_stride);
    if (s.form) { /* planes are not cut: the form counts rows from here */
        view = s;
        view.first = (size_t)from;
    }
    ph_names_full(n, name, full, sizeof full);
    char named[288];
    snprintf(named, sizeof named, "%s[%d:%d]", full, from, from + rows);
    return ph_graph_weight(g, named, ph_shape_of(2, ph_dim_of(rows), ph_dim_of(n_in)), view);
}

/* The same numbers in rows of another length; separate planes only where one scale is for all of them. */
static int see_as(ph_storage *s, const ph_shape *as, ph_err *err) {
    const ph_plane *p = &s->plane[PH_PLANE_DATA], *scale = &s->plane[PH_PLANE_SCALE];
    int64_t         rows = 1, cols = as->dim[as->rank - 1].mul;
    size_t          row;
    for (int i = 0; i < as->rank - 1; i++) rows *= as->dim[i].mul;
    if (s->form) {
        int is_whole = !strcmp(s->form->part[PH_PLANE_DATA], "weight") && scale->bytes &&
                       scale->n == ph_dtype_bytes(scale->dtype);
        s->n_rows = (size_t)rows;
        s->group = s->group_rows = 0;
        return as->rank == 2 && is_whole && !s->form->check(s, (size_t)cols, err);
    }
    if (ph_dtype_row_bytes(s->dtype, cols, &row, err) || row * (size_t)rows != p->n) return 0;
    *s = ph_storage_of(s->dtype, p->bytes, p->n, row);
    return 1;
}

int ph_names_weight_as(const ph_names *n, ph_graph *g, ph_shape shape, ph_shape as, const char *name) {
    char       full[256], named[320], form[48];
    ph_storage s;
    ph_err     err;
    if (g->rc || !find_storage(n, g, &shape, name, &s)) return -1;
    ph_names_full(n, name, full, sizeof full);
    ph_shape_print(&as, form, sizeof form);
    if (!see_as(&s, &as, &err)) {
        ph_graph_fail(g, PH_EUNSUP, "tensor %s: %s numbers%s cannot be seen as %s", full,
                      ph_dtype_name(s.dtype), s.form ? " with these scales" : "", form);
        return -1;
    }
    snprintf(named, sizeof named, "%s%s", full, form);
    return ph_graph_weight(g, named, as, s);
}

int ph_names_weight_tanh(const ph_names *n, ph_graph *g, const char *name) {
    char             full[256];
    const ph_weight *w = ph_names_find(n, name);
    ph_storage       s;
    void            *at;
    ph_err           err;
    int64_t          count = 1;
    ph_names_full(n, name, full, sizeof full);
    for (int i = 0; w && i < w->rank; i++) count = w->dim[i] > 0 && count <= 1 << 20 ? count * w->dim[i] : -1;
    if (count < 1 || count > 1 << 20) {
        ph_graph_fail(g, PH_EMISMATCH, "tensor %s is no gate", full);
        return -1;
    }
    ph_shape shape = ph_shape_of(1, ph_dim_of(count));
    if (g->rc || !find_storage(n, g, &shape, name, &s)) return -1;
    if (ph_arena_carve(&g->arena, &at, (size_t)count, sizeof(float), &err)) {
        ph_graph_fail(g, err.code, "%s", err.msg);
        return -1;
    }
    float *x = at;
    ph_storage_row(&s, 0, (size_t)count, x);
    for (int64_t i = 0; i < count; i++) x[i] = tanhf(x[i]);
    return ph_graph_constant(g, full, PH_F32, shape, x);
}

int ph_names_vector_rows(const ph_names *n, ph_graph *g, int of, int from, int rows, const char *name) {
    char       full[256], named[288];
    ph_shape   whole = ph_shape_of(1, ph_dim_of(of));
    ph_storage s;
    size_t     before = 0, bytes = 0;
    ph_err     err;
    if (g->rc || !find_storage(n, g, &whole, name, &s)) return -1;
    ph_names_full(n, name, full, sizeof full);
    if (ph_dtype_row_bytes(s.dtype, from, &before, &err) || ph_dtype_row_bytes(s.dtype, rows, &bytes, &err)) {
        ph_graph_fail(g, err.code, "tensor %s: %s", full, err.msg);
        return -1;
    }
    const uint8_t *at = s.plane[PH_PLANE_DATA].bytes;
    snprintf(named, sizeof named, "%s[%d:%d]", full, from, from + rows);
    return ph_graph_weight(g, named, ph_shape_of(1, ph_dim_of(rows)),
                           ph_storage_of(s.dtype, at + before, bytes, bytes));
}

int ph_names_weight_flat(const ph_names *n, ph_graph *g, int rows, int cols, const char *name) {
    char       full[256], has[96];
    ph_storage s;
    ph_err     err;
    int64_t    items = 1;
    if (g->rc) return -1;
    ph_names_full(n, name, full, sizeof full);
    const ph_weight *w = ph_weights_find(n->weights, full);
    if (!w) {
        ph_graph_fail(g, PH_EMISMATCH, "tensor %s is missing from the weights, but the config asks for it",
                      full);
        return -1;
    }
    for (int i = 1; i < w->rank && items <= cols; i++) items *= w->dim[i];
    if (w->rank < 2 || w->dim[0] != rows || items != cols) {
        ph_weight_describe(w, has, sizeof has);
        ph_graph_fail(g, PH_EMISMATCH, "tensor %s is %s in the file, but the config makes it %d rows of %d",
                      full, has, rows, cols);
        return -1;
    }
    ph_shape shape = ph_shape_of(2, ph_dim_of(rows), ph_dim_of(cols));
    ph_rc    rc = ph_names_planes(n, full, &shape, &s, &err);
    if (rc) {
        ph_graph_fail(g, rc, "%s", err.msg);
        return -1;
    }
    if (!s.form && !take_storage(g, w, full, cols, &s)) return -1;
    return ph_graph_weight(g, full, shape, s);
}

int ph_names_weight_plus(const ph_names *n, ph_graph *g, int length, float add, const char *name) {
    char       full[256], logical[224];
    float      small[1024], *x = small;
    ph_storage s;
    ph_shape   shape = ph_shape_of(1, ph_dim_of(length));
    void      *at = NULL;
    ph_err     err;
    snprintf(logical, sizeof logical, "%s.weight", name);
    if (g->rc || !find_storage(n, g, &shape, logical, &s)) return -1;
    if ((size_t)length > sizeof small / sizeof *small) {
        if (ph_arena_carve(&g->arena, &at, (size_t)length, sizeof *x, &err)) {
            ph_graph_fail(g, err.code, "%s", err.msg);
            return -1;
        }
        x = at;
    }
    ph_storage_row(&s, 0, (size_t)length, x);
    for (int i = 0; i < length; i++) x[i] += add;
    ph_names_full(n, logical, full, sizeof full);
    return ph_graph_constant(g, full, PH_F32, shape, x);
}
