/* spec.h - what a checkpoint's config says, in one form for all families.
 *
 * A family reads its config into a ph_spec; the builders (decoder.c, tower.c)
 * and the family's own bridge turn it into graphs.  Numbers are checked at the
 * door: every count is positive and small enough to multiply.
 */
#ifndef PH_MODEL_SPEC_H
#define PH_MODEL_SPEC_H

#include "base/err.h"
#include "graph/graph.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum ph_act { PH_ACT_SILU, PH_ACT_GELU, PH_ACT_GELU_TANH, PH_ACT_GELU_QUICK, PH_ACT_RELU } ph_act;

/* Rotary embedding: frequencies theta^(-2i/dim), then a scaling. */
typedef struct ph_rope_spec {
    int         dim; /* elements of a head that rotate */
    double      theta;
    const char *kind; /* "none", "linear", "llama3", "yarn", "factors": static */
    double      factor, low_freq_factor, high_freq_factor;
    double      original_context;
    double      beta_fast, beta_slow, attention_factor; /* yarn; attention_factor 0: from factor */
    int64_t
        mrope[3]; /* frequencies that turn by time, height, width (arXiv:2409.12191 §2.1); 0: one position */
    int is_interleaved; /* pairs (2i, 2i+1): GGUF's llama layout; Hugging Face's is (i, i + dim/2) */
} ph_rope_spec;

enum { PH_LAYERS_MAX = 1024, PH_LAYER_KINDS_MAX = 2, PH_DIVISORS_MAX = 2048, PH_STOPS_MAX = 16 };

/* Where a cross-attention layer stands. */
enum { PH_CROSS_NONE, PH_CROSS_INSTEAD, PH_CROSS_BEFORE };

/* Layers of one decoder may differ in what they see and how they rotate. */
typedef struct ph_layer_kind {
    int          window; /* 0: none; else a row sees the last `window` tokens */
    ph_rope_spec rope;
} ph_layer_kind;

/* A causal decoder of the Llama line: [R, d_model] in, [S, vocab] out.  Zero is Llama's own choice
 * everywhere. */
typedef struct ph_decoder {
    int           n_layers, d_model, n_heads, n_kv_heads, d_head, d_ff, vocab;
    int           context; /* the longest that the model was made for, tokens */
    ph_act        act;
    float         norm_eps;
    int           has_qkv_bias, has_o_bias, has_mlp_bias;
    int           is_tied;     /* the head reads the embedding table */
    int           has_qk_norm; /* q and k are normalised a head at a time, before rotation (Qwen3, Gemma 3) */
    int           has_post_norms; /* also after attention and feed-forward, before each sum (Gemma 2, 3) */
    int           norm_adds_one;  /* norms multiply by 1 + w (Gemma); GGUF files hold the sum already */
    int           is_fused;       /* q, k, v in one product, gate and up in another (Phi-3) */
    float         embed_scale;    /* embeddings are multiplied by it; 0: no */
    float         attn_scale;     /* of q . k; 0: 1 / sqrt(d_head) */
    float         attn_softcap, logit_softcap; /* cap * tanh(x / cap); 0: no */
    int           n_embed; /* rows of the embedding table, where it has more than the head; 0: vocab */
    int           n_added; /* of vocab, the last: they have tables of their own (Idefics) */
    uint8_t       cross_at[PH_LAYERS_MAX]; /* PH_CROSS_*: instead of layer i, or before it */
    ph_layer_kind kind[PH_LAYER_KINDS_MAX];
    int           n_kinds;                        /* 1 or 2 */
    uint8_t       layer_kind[PH_LAYERS_MAX];      /* index into kind */
    float         rope_divisors[PH_DIVISORS_MAX]; /* [rope.dim / 2], those of short texts */
    int           context_whole;                  /* with the divisors of long texts; 0: context */
} ph_decoder;

enum { PH_FEATURES_MAX = 16 };

/* LongRoPE: kind[0]'s frequencies are divided by rope_divisors. */
static inline int ph_decoder_is_divided(const ph_decoder *d) {
    return d->kind[0].rope.kind && !strcmp(d->kind[0].rope.kind, "factors");
}

/* What a checkpoint calls the parts of its tower.  NULL stands for CLIP's own word. */
typedef struct ph_tower_words {
    const char *patch, *class_token, *position; /* patch: without ".weight" */
    const char *layer;                          /* "encoder.layers": what stands before a layer's number */
    const char *norm1, *norm2, *q, *k, *v, *out;
    const char *qkv;             /* of a fused product */
    const char *scale1, *scale2; /* of layer scales: whole names */
    const char *post_norm;
} ph_tower_words;

/* Rows of its embedding table: the ids that a prompt may hold. */
static inline int ph_decoder_ids(const ph_decoder *d) {
    return d->n_embed ? d->n_embed : d->vocab;
}

/* A vision transformer of the CLIP / SigLIP line: [I, 3, image, image] in, [I, n_patches, d] out.  Zero is
 * CLIP's own choice. */
typedef struct ph_tower {
    int    n_layers, d, n_heads, d_ff;
    int    image, patch; /* pixels a side */
    ph_act act;
    float  norm_eps;
    int    tiles;         /* of one picture, seen together; 0: each tile by itself */
    int    has_class;     /* a CLS token stands first */
    int    has_pre_norm;  /* layer norm after the embeddings (CLIP) */
    int    has_post_norm; /* layer norm after the last layer (SigLIP) */
    int    has_patch_bias;
    int    n_used;                /* layers that are run: those above the chosen feature layer are not */
    int    n_features;            /* hidden states that stand side by side in the features; 0: n_used's */
    int feature[PH_FEATURES_MAX]; /* [n_features] their layers, 0 the embeddings, in order of the features */
    int drop_class;               /* the features leave the CLS token out */
    int is_rms;                   /* layers' norms are RMSNorm (InternViT-6B) */
    int has_qk_norm;              /* q and k are normalised, all heads together */
    int is_fused;                 /* q, k, v are one weight (BLIP-2) */
    int has_no_qkv_bias, has_no_position;
    int has_scale;               /* what a layer adds is scaled, an element at a time (InternViT) */
    const ph_tower_words *words; /* NULL: CLIP's */
} ph_tower;

/* What a tower over packed patches has besides: rows [N, d] with segments instead of tiles (Qwen2-VL's line).
 * Pictures keep their own ratio; merge x merge neighbours become one visual token. */
typedef struct ph_packed {
    int     merge, temporal;        /* merge 0: the tower takes tiles */
    int     is_gated;               /* RMSNorm and gate * up (Qwen2.5-VL); else LayerNorm and fc1, fc2 */
    int     window;                 /* side of an attention window, in visual tokens; 0: none */
    int     tokens_per_second;      /* of a video's time axis; 0: one a step, whatever its length */
    uint8_t is_full[PH_LAYERS_MAX]; /* with windows: layers that see the whole frame nevertheless */
} ph_packed;

/* How visual tokens are made from tower features. */
typedef struct ph_bridge_spec {
    int    shuffle; /* side of a pixel shuffle: shuffle^2 patches become one token; 1: none */
    int    d_in, d_hidden, d_out;
    ph_act act;
    int    has_bias;
    int    tokens_per_tile;
    int    has_newline; /* anyres: rows of the grid end in a learned vector, the last of each tile's rows */
} ph_bridge_spec;

/* A bridge of queries: learned rows that attend to a tile's features, layer by layer (BLIP-2's Q-Former). */
typedef struct ph_query_spec {
    int    n_layers, n_heads, d, d_ff, n_queries, d_features;
    int    every; /* layers i with i % every == 0 attend to the features */
    ph_act act;
    float  norm_eps;
} ph_query_spec;

/* Cross attention: visual tokens do not stand among the rows; some layers of the decoder attend to them.
 * What a row sees follows from the image tokens before it:
 *     the last picture, or the whole run of neighbouring pictures (sees_run)
 * A row before any picture sees none, or all of them with their blank tiles (blind_sees_all). */
typedef struct ph_cross_spec {
    int n_layers; /* 0: visual tokens stand among the rows */
    int d_in;     /* of a visual token */
    int n_kv_heads;
    int sees_run, blind_sees_all;
    int hides_after_eos; /* a row behind an end-of-text token sees none until the next picture */
    int sees_always;     /* there are no image tokens: every row sees everything (sound) */
    int gates_ff;        /* the feed-forward of rows that see no picture counts nothing: input cross_seen */
    int tokens_max;      /* of one picture, blank tiles included */
    /* Names of the weights: block "gated_cross_attn_layers" with the block's number, or "layers" with the
     * layer's. */
    const char *block, *q_norm, *k_norm, *attn_gate, *ff_gate;
    int         is_block_number;
} ph_cross_spec;

/* Dual encoders: a text or a picture becomes one vector of length 1; their product is how well they agree. */
typedef struct ph_embed_spec {
    int     d;            /* numbers of a vector; 0: the model answers instead */
    int     is_both_ways; /* tokens of a text all see each other (SigLIP) */
    int     is_canonical; /* texts are lower-cased and lose their punctuation first (SigLIP) */
    int32_t pad;          /* fills texts up to the context; -1: they are as long as they are */
    int32_t pool;         /* a text's vector is that of its first token of this id, or PH_POOL_* */
    int     is_sigmoid;   /* scores go through a sigmoid each; else a softmax over the texts */
    double  scale, bias;  /* of a cosine, before that */
} ph_embed_spec;
enum { PH_POOL_LAST = -1, PH_POOL_LARGEST = -2 };

typedef struct ph_spec {
    ph_decoder     text;
    int            has_vision;
    ph_tower       tower;
    ph_packed      packed;
    ph_bridge_spec bridge;
    ph_query_spec  query;
    ph_embed_spec  embed;
    ph_cross_spec  cross;
    int         bos_is_text;  /* a raw prompt begins with BOS as text, before anything is split into words */
    int         n_mels;       /* of a frame of sound; 0: it takes pictures */
    int32_t     image_token;  /* id that marks a visual row; -1: none */
    const char *image_marker; /* its text in the chat template: "<image>"; NULL: none */
    int32_t     video_token;  /* the same for videos; -1 and NULL: the family has none */
    const char *video_marker;
    int         images_lead;       /* pictures stand before everything, BOS included (BLIP-2) */
    int         image_sees_itself; /* tokens of one run of visual tokens see each other, both ways */
    const char
           *image_after; /* stands behind the marker where a template takes plain strings; NULL: nothing */
    int32_t bos, eos[PH_STOPS_MAX]; /* [n_eos] all that end an answer */
    int     n_eos;
} ph_spec;

#endif
