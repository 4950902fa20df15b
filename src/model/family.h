/* family.h - model families: one file each, one const ph_family, one line in family.def.
 *
 * A family turns a config and named weights into graphs and a prompt layout.
 * Nobody outside this room knows a family's name.
 *
 *     config ──spec()──► ph_spec ──language(), vision(), bridge()──► graphs
 *     picture's tiles ──image()──► the pieces that stand in the prompt for one picture
 */
#ifndef PH_MODEL_FAMILY_H
#define PH_MODEL_FAMILY_H

#include "graph/graph.h"
#include "image/recipe.h"
#include "model/source.h"
#include "model/spec.h"

typedef enum ph_family_kind { PH_FAMILY_TEXT, PH_FAMILY_VISION_LANGUAGE, PH_FAMILY_DUAL } ph_family_kind;

/* What stands in the prompt for a picture: trusted text, or a run of visual tokens, in order. */
typedef struct ph_piece {
    char text[96]; /* template text: may hold control tokens; empty for a run */
    int  n_visual; /* tokens of a run; 0: text */
} ph_piece;
typedef struct ph_pieces {
    ph_piece *at; /* [n], the caller's */
    size_t    n, max;
} ph_pieces;
ph_rc ph_pieces_text(ph_pieces *p, ph_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
ph_rc ph_pieces_run(ph_pieces *p, int n_visual, ph_err *err);

/* A logical name for conversion, and how GGUF stores what it names. */
typedef enum ph_name_part {
    PH_NAMES_TEXT,
    PH_NAMES_VISION,
    PH_NAMES_BRIDGE,
    PH_NAMES_LOOSE, /* beside the parts: ph_names_loose */
    PH_N_NAME_PARTS
} ph_name_part;
enum {
    PH_NAME_WEIGHT = 1, /* the endings that occur: .weight, .bias, none */
    PH_NAME_BIAS = 2,
    PH_NAME_BARE = 4,
    PH_NAME_NORM = 8, /* 1 + w where the family's norms are */
    PH_NAME_QUERY = 16,
    PH_NAME_KEY = 32,
    PH_NAME_WIDE = 64,   /* F32 there: read by elements */
    PH_NAME_FUSED = 128, /* only of decoders that fuse q, k, v and gate, up; APART: only of others */
    PH_NAME_APART = 256,
    PH_NAME_POSTS = 512, /* only with norms after attention and feed-forward */
    PH_NAME_THIRDS =
        1024, /* q, k and v as one: there a tensor each, "qkv" in the name giving way to a letter */
    PH_NAME_FRAMES = 2048, /* [d, 3, frames, ..]: there a tensor a frame, "name.weight", "name.weight.1" */
    PH_NAME_GATED = 4096,  /* only of packed towers whose MLP is gated; UNGATED: only of others */
    PH_NAME_UNGATED = 8192,
    PH_NAME_PARTS = 1 << 16 /* times how many parts THIRDS and FRAMES are; at most 15 */
};
typedef struct ph_name_row {
    ph_name_part part;
    int          what;
    const char  *name; /* "#" stands for a layer's number */
    const char  *gguf; /* the logical name that GGUF's style is made from; NULL: the same */
} ph_name_row;

/* What a part's config may leave out, where it is its class's default; 0: it must be there.  type: the
 * model_type that this is of; NULL ends a list. */
typedef struct ph_tower_defaults {
    const char *type;
    ph_act      act;
    double      eps;
    int         layers, d, heads, d_ff, image, patch;
} ph_tower_defaults;
/* Of the text_config of a composite model; 0: it must be there, or follows from the others. */
typedef struct ph_decoder_defaults {
    const char *type;
    int         layers, d, heads, kv_heads, d_head, d_ff, vocab, context;
} ph_decoder_defaults;

struct json_t;
struct ph_gguf_meta;
struct ph_model;

typedef struct ph_family {
    const char    *name;
    ph_family_kind kind;
    const char *const
               *types;     /* NULL-ended: model_type values and GGUF architectures that this family reads */
    const char *projector; /* GGUF: clip.projector_type of the vision part; NULL: none */
    const char
        *projector_key; /* a key that tells its files from those of another family with this projector */
    /* Read the config into *spec.  For vision-language families spec->text has been read already, by the text
     * family that its text_config names.  Errors name the key. */
    ph_rc (*spec)(const ph_source *s, ph_spec *spec, ph_err *err);
    /* Build into an open graph; failures are sticky in the graph.  NULL: ph_decoder_build for language; no
     * such part otherwise. */
    void (*language)(ph_graph *g, const ph_spec *spec, const ph_source *s);
    void (*vision)(ph_graph *g, const ph_spec *spec, const ph_source *s);
    void (*bridge)(ph_graph *g, const ph_spec *spec, const ph_source *s);
    /* For a spec with cross layers: what fills their cache from visual tokens.  Inputs: visual f32 [R, d_in],
     * rows; state PH_STATE_CROSS.  NULL: ph_cross_build. */
    void (*cross)(ph_graph *g, const ph_spec *spec, const ph_source *s);
    /* The pieces for one prepared picture. */
    ph_rc (*image)(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err);
    /* Rope positions (time, height, width) of visual token `token` of a picture that begins at position
     * `from`; returns the position of what follows the picture.  NULL: one after the other, all three equal.
     */
    int32_t (*place)(const ph_spec *spec, const ph_tile_layout *tiles, int32_t from, int token,
                     int32_t out[3]);
    /* For conversion.  Text families: the GGUF architecture that files are written under (NULL: none has been
     * settled, conversion is refused by name); whether its files keep rows of q and k that rotate together
     * side by side; the class that config.json names. */
    const char *gguf;
    const char *gguf_mrope; /* the same, where positions have three axes */
    int         gguf_pairs;
    ph_act      gguf_act; /* what its files' feed-forward means: no key says it */
    const char *hf_class;
    const char *hf_windowed; /* the text family (by type) that says config.json when layers have a window,
                              * where this one has no key for it; NULL: this one */
    /* Vision-language families: what stands before text, lm_head, vision and bridge names in a Hugging Face
     * checkpoint.  NULL: a text family's "model." and "". */
    const char *const *hf_prefix;
    const char        *hf_vision;       /* model_type of vision_config */
    const char        *hf_vision_plain; /* the same of towers without a class token; NULL: hf_vision */
    const char        *hf_text;         /* model_type of text_config; NULL: the text family's */
    const ph_name_row *tower_names;     /* [n_tower_names] of the vision part; NULL: those of the CLIP line */
    size_t             n_tower_names;
    const ph_name_row *names; /* [n_names] of the bridge and beside the parts; gguf: also how they are read */
    size_t             n_names;
    int                is_llava_projector; /* GGUF: clip.has_llava_projector */
    /* Either kind of family: GGUF keys of its own, read under their Hugging Face names (keys.c has those that
     * several share); its keys of the language or of the vision file, and its own of config.json and
     * vision_config.  What export.h writes for all is there already.  NULL: none. */
    const ph_key_row *keys; /* [n_keys] */
    size_t            n_keys;
    void (*export_keys)(struct ph_gguf_meta *to, const struct ph_model *m);
    void (*export_config)(struct json_t *config, struct json_t *vision, const struct ph_model *m);
    /* Which of its learned forms tile `tile` of a picture takes: fills the vision graph's input tile_ids i32
     * [I].  NULL: that graph has no such input. */
    int32_t (*tile_id)(const ph_spec *spec, const ph_tile_layout *tiles, int tile);
    const ph_decoder_defaults *defaults;       /* NULL: text_config must say everything */
    const ph_tower_defaults   *tower_defaults; /* of towers that no other family has; NULL: none */
    const char *const
        *start;       /* NULL-ended: tokens that open a prompt where none is given; NULL: there must be one */
    const char *text; /* the text family where the config names none: "llama"; NULL: it must */
    const char *template_; /* chat form to use when the checkpoint brings none: a name that ph_chat knows */
    const char *source;    /* paper and reference implementation */
} ph_family;

#define PH_FAMILY(name) extern const ph_family ph_family_##name;
#include "model/family.def"
#undef PH_FAMILY

const ph_family *ph_family_find(const char *type, ph_family_kind kind); /* or NULL */
const ph_family *ph_family_of_projector(const ph_source *s);            /* GGUF; or NULL */
/* The architecture that language files are written under; NULL: none has been settled. */
const char      *ph_family_gguf(const ph_family *text, const ph_spec *spec);
size_t           ph_family_count(void);
const ph_family *ph_family_at(size_t i);
void             ph_family_list(char *out, size_t size); /* "llama, llava, idefics3 ..." for messages */

/* A family as other rooms may list it. */
typedef struct ph_known_family {
    const char        *name, *kind; /* kind: "text", "multimodal", "dual" */
    const char *const *types;       /* NULL-ended, as in ph_family; so below */
    const char        *projector, *gguf, *chat_form, *source;
} ph_known_family;
int ph_known_family_at(size_t i, ph_known_family *out); /* 0: past the last */

/* ---- builders that families share ---- */

/* The config keys of the Llama line, under their Hugging Face names, into *d. */
#define PH_THETA_MAX 1e15 /* far above every base in use, and no overflow as a float */
ph_rc ph_rope_read(const ph_keys *k, ph_rope_spec *r, ph_err *err); /* rope_theta, rope_scaling; not dim */
ph_rc ph_decoder_read(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err);
/* Of ph_decoder_read: the lists of divisors, once the context and the rotating dimension are known. */
ph_rc ph_longrope_read(const ph_keys *k, const ph_source *s, ph_decoder *d, ph_err *err);
/* For conversion: the short or the long list, [rope.dim / 2]; what multiplies cos and sin where nothing says
 * it. */
ph_rc  ph_longrope_list(const ph_source *s, const ph_decoder *d, int is_long, float *out, ph_err *err);
double ph_longrope_magnitude(const ph_decoder *d);
extern const char *const ph_longrope_tensor[2]; /* their GGUF names: short, long */
ph_rc                    ph_layer_types_read(const ph_keys *k, ph_decoder *d,
                                             ph_err *err);          /* layer_types, where the config has it */
ph_rc ph_window_read(const ph_keys *k, ph_decoder *d, ph_err *err); /* use_sliding_window and its company */
ph_rc ph_gemma_read(const ph_source *s, ph_decoder *d, ph_err *err); /* what the Gemma families share */
enum { PH_N_GEMMA_KEYS = 4 };
extern const ph_key_row ph_gemma_keys[PH_N_GEMMA_KEYS];
/* The language graph.  Inputs: ids i32 [R], rows i32 [R, PH_ROW_FIELDS], out_rows i32 [S], and with vision
 * visual_rows i32 [V, 1], visual f32 [V, d_model]; state kv; output logits [S, vocab].  The embeddings and
 * each layer's output are named hidden.0 .. hidden.L, the final norm's output hidden.norm. */
void ph_decoder_build(ph_graph *g, const ph_spec *spec, const ph_source *s);
/* The cross graph of decoders whose layers of that kind ph_decoder_build makes. */
void ph_cross_build(ph_graph *g, const ph_spec *spec, const ph_source *s);

ph_rc ph_tower_read(const ph_keys *k, ph_tower *t, ph_err *err);
/* The vision graph.  Input: pixels f32 [I, 3, image, image]; output: features [I, n_patches, d].  The
 * embeddings and each layer's output are named vision.hidden.0 ... */
void ph_tower_build(ph_graph *g, const ph_tower *t, const ph_names *n);
/* The same for families whose vision part is spec->tower and nothing else: their `vision`. */
void ph_tower_vision(ph_graph *g, const ph_spec *spec, const ph_source *s);
int  ph_tower_patches(const ph_tower *t); /* of one tile, CLS not counted */

/* A tower over packed patches: its keys, and its graphs.
 * Vision inputs: patches f32 [N, 3 * temporal * patch^2], rows i32 [N, PH_ROW_FIELDS] (of which the height
 * and width positions are read), segments i32 [N, 2], with windows also windows i32 [N, 2]; output features
 * [N, d], in window order.  The bridge: features, with windows order i32 [N / merge^2]; output visual
 * [N / merge^2, d_model] in the picture's own order. */
ph_rc ph_packed_read(const ph_source *s, ph_spec *spec, ph_err *err);
/* Windows, of those that have them: their size, and which layers see the whole frame; after ph_packed_read.
 */
ph_rc ph_packed_read_windows(const ph_source *s, ph_spec *spec, ph_err *err);
/* For conversion, of all of them: packed_export.c. */
enum { PH_N_PACKED_NAMES = 10, PH_N_PACKED_BRIDGE_NAMES = 3 };
extern const ph_name_row ph_packed_names[PH_N_PACKED_NAMES];
extern const ph_name_row ph_packed_bridge_names[PH_N_PACKED_BRIDGE_NAMES];
void                     ph_packed_export_keys(struct ph_gguf_meta *to, const struct ph_model *m);
void ph_packed_export_config(struct json_t *config, struct json_t *vision, const struct ph_model *m);
/* Every n-th layer sees the whole frame; 0: these layers follow no such rule. */
int   ph_packed_period(const ph_spec *spec);
void  ph_packed_vision(ph_graph *g, const ph_spec *spec, const ph_source *s);
void  ph_packed_bridge(ph_graph *g, const ph_spec *spec, const ph_source *s);
ph_rc ph_packed_image(const ph_spec *spec, const ph_tile_layout *tiles, ph_pieces *out, ph_err *err);
/* M-RoPE (arXiv:2409.12191 §2.1): axes count from the picture's begin; what follows stands behind the
 * largest.
 */
int32_t ph_packed_place(const ph_spec *spec, const ph_tile_layout *tiles, int32_t from, int token,
                        int32_t out[3]);

/* One picture's part of these inputs, its rows from `first` on. */
typedef struct ph_packed_inputs {
    float   *patches;
    int32_t *rows, *segments;
    int32_t *windows, *order; /* NULL: the graphs have none */
} ph_packed_inputs;
void ph_packed_fill(const ph_spec *spec, const ph_tiles *picture, int first, const ph_packed_inputs *in);

/* A text encoder of the CLIP / SigLIP line, under `names`, up to the row that is pooled: [S, d].  Inputs:
 * ids, rows, positions i32 [R], out_rows; state kv; values hidden.0 .. hidden.L, hidden.norm. */
ph_rc ph_encoder_read(const ph_keys *k, ph_spec *spec, ph_err *err);
int   ph_encoder_build(ph_graph *g, const ph_spec *spec, const ph_names *names);
/* x [.., d] to length 1, as the graph's output `name`. */
void ph_encoder_unit(ph_graph *g, int x, int d, const char *name);
/* A number of the checkpoint: "logit_scale".  Errors: PH_EMISMATCH it is not there, or not one number. */
ph_rc ph_encoder_number(const ph_source *s, const char *name, double *out, ph_err *err);

/* Anyres (LLaVA-NeXT): the whole picture's tokens, then those of the grid, row by row across its tiles,
 * without the rows or columns that are padding, each row with a newline behind. */
int ph_anyres_tokens(const ph_spec *spec, const ph_tile_layout *tiles);
/* Where token `token` stands among the bridge's rows of all tiles, tokens_per_tile + 1 a tile. */
int ph_anyres_source(const ph_spec *spec, const ph_tile_layout *tiles, int token);

/* Visual tokens of a picture, whatever the tower; at most INT32_MAX, which no context holds. */
static inline int ph_spec_tokens(const ph_spec *spec, const ph_tile_layout *tiles) {
    if (spec->bridge.has_newline) return ph_anyres_tokens(spec, tiles);
    if (tiles->n_patches) return ph_tile_tokens(tiles);
    int64_t n = (int64_t)tiles->n_tiles * spec->bridge.tokens_per_tile;
    return n < INT32_MAX ? (int)n : INT32_MAX;
}

/* y = x W^T (+ b) with W [n_out, n_in] under "name.weight", b under "name.bias"; `has_bias` decides. */
int ph_build_linear(ph_graph *g, const ph_names *n, int x, int n_in, int n_out, int has_bias,
                    const char *name, ...) __attribute__((format(printf, 7, 8)));
/* The same with rows [from, from + n_out) of a weight that has `of`: q, k, v of a fused product.  No bias. */
int ph_build_linear_rows(ph_graph *g, const ph_names *n, int x, int n_in, int of, int from, int n_out,
                         const char *name, ...) __attribute__((format(printf, 8, 9)));
/* Reshape to dims[n]: 0 keeps a dimension, -1 is what is left. */
int ph_build_reshape(ph_graph *g, int x, const int64_t *dims, int n, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
int ph_build_act(ph_graph *g, int x, ph_act act, const char *name);
/* [I, side * side, d] to [I, (side / r)^2, r * r * d]: the r x r patches of a cell, row by row, side by side.
 */
int ph_build_shuffle(ph_graph *g, int x, int64_t side, int64_t r, int64_t d);
/* How a bridge over tiles begins: `names` opened, its input "features" [I, n, d].  -1 with the graph failed.
 */
int ph_build_bridge_input(ph_graph *g, const ph_source *s, ph_names *names, int64_t n, int64_t d);
/* LLaVA's projector: linear_1 [d_hidden, d_in], the bridge's activation, linear_2 [d_out, d_hidden]. */
int ph_build_projector(ph_graph *g, const ph_bridge_spec *b, const ph_names *names, int x);
/* Its names, and the newline beside it, for conversion. */
enum { PH_N_PROJECTOR_NAMES = 3 };
extern const ph_name_row ph_projector_names[PH_N_PROJECTOR_NAMES];
/* Rows w [n, d] once a tile of `like` [I, N, k]: [I, n, d]. */
int ph_build_repeat(ph_graph *g, int like, int w, const char *name);
/* Rows [from, to) of each tile of x [I, N, d]; to INT64_MAX: all that follow. */
int ph_build_rows(ph_graph *g, int x, int64_t from, int64_t to, const char *name);
/* LayerNormalization over the last dimension, n wide, with "name.weight" and "name.bias". */
int ph_build_norm(ph_graph *g, const ph_names *names, int x, int n, double eps, const char *name,
                  const char *as);

#endif
