/* session.h - inside the corridor: what a session and a turn are made of.  Only flow/ includes this. */
#ifndef PH_FLOW_SESSION_H
#define PH_FLOW_SESSION_H

#include "base/region.h"
#include "flow/flow.h"

enum { PH_PICTURES_MAX = 64, PH_TURNS_MAX = 256, PH_PEERS_MAX = 64 };

/* EMBED: what follows from ids alone, cut off the language graph where it has an engine of its own. */
typedef enum ph_part {
    PH_PART_VISION,
    PH_PART_BRIDGE,
    PH_PART_EMBED,
    PH_PART_LANGUAGE,
    PH_PART_CROSS,
    PH_N_PARTS
} ph_part;

/* One graph, compiled; where its program stands in the session's scratch. */
typedef struct ph_ready {
    const ph_graph *graph;
    ph_engine      *engine;
    ph_program     *program;
    ph_syms         max;   /* compiled for */
    ph_syms         bound; /* laid out for, when is_bound */
    int             is_bound;
    ph_tap         *tap; /* [n_taps] */
    size_t          n_taps;
    size_t          compiled_bytes; /* that became resident while compiling: small weights are read then */
} ph_ready;

/* What was done, for a prediction of it; NULL: the load that the session's options state. */
typedef struct ph_done {
    int    chunk;           /* rows of the largest prefill */
    int    logits;          /* rows of the largest head */
    int    tiles;           /* of the largest run of the vision part; 0: nothing was seen */
    int    patches;         /* the same of towers over packed patches */
    size_t tokens;          /* in the KV cache, of all sequences together: the most */
    size_t pages;           /* KV pages a layer that they took */
    size_t sequences;       /* that the pages are of, as many each */
    size_t staged;          /* whole pages between the first and the last of a prefill: the most */
    size_t visual;          /* visual tokens kept */
    size_t beside;          /* of them, in the cross cache: the most */
    size_t different;       /* ids looked up */
    size_t turns;           /* that held features or sampled, with `beside`; else 0 */
    size_t gathered;        /* rows of features that were gathered to be injected: the most */
    size_t files;           /* bytes of the pictures' files, mapped and read */
    size_t decode, prepare; /* bytes of pixels with the decoder's heap; of pixels with tiles */
} ph_done;

struct ph_session {
    const ph_model    *model;
    ph_session_options how;    /* defaults resolved */
    ph_recipe          recipe; /* the model's, within the options' budget */
    ph_kernels         kernels;
    ph_threads        *threads;     /* of all parts; with `beside`, of the language side */
    ph_threads        *see_threads; /* of the vision side; NULL: the same crew */
    ph_trace          *trace;
    ph_graph          *embed, *rest;                           /* the language graph in two; NULL: in one */
    const ph_graph    *language;                               /* rest, or the model's */
    char               engine_name[PH_N_PARTS][PH_ROUTE_NAME]; /* asked for, or chosen; then those that run */
    char engine_absent[PH_N_PARTS][PH_ROUTE_NAME]; /* was asked for, and native stands in for it; or "" */
    ph_engine  *engine[PH_N_PARTS];                /* one object a name; the same pointer may stand twice */
    ph_route    route;                             /* n_parts 0: nothing was left to the router */
    ph_ready    part[PH_N_PARTS];
    ph_kv      *kv;
    ph_kv_spec  kv_spec;
    ph_kv      *cross; /* keys and values of pictures, where the decoder attends to them; or NULL */
    ph_kv_spec  cross_spec;
    size_t      d_visual; /* width of a visual token */
    size_t      n_out;    /* of the language part's output: the vocabulary, or a vector's numbers */
    ph_region   scratch;  /* the programs of one phase at a time */
    size_t      scratch_bytes;
    ph_region   see_scratch; /* with `beside`: of vision and bridge, which run while the language part does */
    const char *isa;         /* of the kernels in use */
    int         tiles_seen;  /* in the newest run of the vision part; or packed patches */
    ph_plan     plan;
    int         n_turns;
    /* With `beside`, of the side that answers: the most so far of all turns, and of each peer the rows of
     * features that it held when it answered last, plus 1. */
    ph_done   most;
    ph_memory stands; /* else: what the greatest answer so far left standing, its pictures' files without */
    size_t    held[PH_PEERS_MAX];
    int       is_plan_only;    /* nothing is bound or run */
    size_t    left_bytes;      /* resident of engines that were opened, or tried to be, and run nothing */
    int       has_said_absent; /* that an engine that was asked for is not here */
    /* Values of the graphs that the stages fill and read; -1: the graph has none. */
    int pixels, features, bridge_in, visual_out, ids, rows, out_rows, visual_rows, visual_in, logits;
    int embedded, embedded_in;  /* what EMBED makes, and the language part's input for it */
    int inject_in, inject_rows; /* features that the language part pools, and which ones each row takes */
    ph_region gathered;         /* features of turns that have memory of their own, for one run */
    size_t    tile_floats;      /* of the vision graph's input, a tile */
    int       tile_ids, cross_visual, cross_rows, cross_seen, positions;
    int       patches, patch_rows, segments, windows, order; /* towers over packed patches */
};

/* A picture on its way to visual tokens. */
typedef struct ph_view {
    ph_picture        file;  /* of a video: the first frame's */
    const ph_picture *frame; /* [n_frames], the question's; one for a picture */
    int               n_frames;
    int               is_sound, stretch; /* a recording: the part of it that is heard */
    ph_audio_info     heard;
    ph_sound          sound;
    ph_image_info     info;
    ph_pixels        *pixels; /* [n_frames] */
    ph_tile_layout    layout;
    ph_tiles          tiles;
    uint64_t          key[2];   /* of its prepared pixels and recipe: equal pictures, equal keys */
    size_t            row;      /* of its first visual token in the turn's features */
    int               n_visual; /* tokens */
    int               is_seen;  /* its features stand already */
} ph_view;

/* What a row sees of the pictures beside the rows. */
typedef struct ph_sight {
    int32_t  begin, end; /* of the cross cache */
    int32_t  sees;       /* 0: it is blind, whatever it attends to */
    uint64_t key;        /* of what it sees; 0: nothing */
} ph_sight;

/* Features that the rows of a turn take where they are injected: [begin, end) of its features, and where they
 * stand in the array of the run. */
typedef struct ph_injected {
    size_t   begin, end, at;
    uint64_t key; /* 0: nothing is injected */
} ph_injected;

/* Splicing: the image tokens met so far, and where the pictures stand in the cross cache. */
typedef struct ph_cross_look {
    int32_t  begin[PH_PICTURES_MAX + 1], total; /* of each view without its blank tiles; these follow */
    size_t   n_marks, first;                    /* the first of the run of neighbours that ends here */
    int      was_mark, is_hidden;
    ph_sight now;
} ph_cross_look;

struct ph_turn {
    ph_session        *session;
    int                sequence;
    ph_stage           stage;
    const ph_question *question;
    ph_arena           picture_arena; /* pixels and tiles: until seen */
    ph_arena           text_arena;    /* spans and template values: until spliced */
    ph_view            view[PH_PICTURES_MAX];
    size_t             n_views;
    ph_view            old[PH_PICTURES_MAX]; /* of the question before: their features may serve again */
    size_t             n_old;
    float             *features;       /* rows of d_visual; this turn's are [features_first, + context) */
    size_t             features_first; /* 0 unless the memory is lent */
    size_t             features_rows;  /* used */
    ph_turn *const    *peer;           /* [n_peers] turns with rows of the same memory; borrowed */
    size_t             n_peers, own;   /* peer[own] is this one */
    int                is_placed;      /* the question's pictures have their rows */
    uint64_t           borrows;        /* bits of peers whose rows the question's pictures have */
    /* The sequence as it is, and as it shall be: ids, feature rows (-1: text), and keys that tell equal rows.
     */
    int32_t *id, *feature;
    int32_t (*position)[3]; /* time, height, width */
    int32_t  *span, *back;  /* keys [0, span) are seen; `back` keys before the row's own by whatever window */
    int32_t   view_position; /* where the picture that is being spliced begins */
    int32_t   next_position; /* of the row after the last */
    uint64_t *key;
    ph_sight *sight; /* NULL: the model has no cross layers */
    ph_injected   inject;
    ph_cross_look look;
    size_t        cross_most; /* visual tokens that the cross cache has held */
    uint64_t      cross_key;  /* of what the cross cache holds; 0: nothing */
    size_t        n_prompt;   /* rows of the prompt */
    size_t        n_cached;   /* of them already in the KV cache */
    size_t        n_kept;     /* rows of the cache whose keys are known: what was run */
    size_t        at;         /* next row to prefill */
    int           n_image_tokens;
    size_t        take;        /* rows of it in the chunk that is being run */
    int           n_stretches; /* of the question's recording; 0: there is none */
    size_t        see_view;    /* the picture being seen, and its next tile */
    int           see_tile;
    int           tile_at, tile_n; /* its tiles (or packed patches) in the chunk that is being seen */
    ph_done       done;
    size_t        decode_heap, picture_peak; /* bytes: the decoder's heap, pixels and tiles */
    const float  *logits;                    /* [vocab], until the next run of the language part */
    int32_t       next;                      /* the sampled id */
    /* The answer. */
    int32_t         *answer; /* [context] */
    size_t           n_answer;
    ph_speaker      *speaker;
    ph_sampler_state sampler;
    void            *sampler_scratch;
    ph_stop          stop;
    char            *text; /* [text_max] */
    size_t           n_text, text_max;
    ph_region        memory; /* everything above that is sized by the context */
    double           stage_ms[PH_N_STAGES];
};

/* flow_session.c */
const ph_graph *ph_part_graph(const ph_model *m, ph_part part);                 /* or NULL */
void            ph_part_most(const ph_session *s, ph_part part, ph_syms *most); /* that it is compiled for */
/* Inputs of the part's graph g that are always lent to its program, into out[2]; how many. */
size_t ph_part_lent(const ph_session *s, ph_part part, const ph_graph *g, int out[2]);
/* The engine called so, opened once however many parts of a crew ask for it.  Errors: PH_EMACHINE it is not
 * here. */
ph_rc ph_part_engine(ph_session *s, ph_part part, const char *name, ph_engine **out, ph_err *err);
/* An engine that is not here: native stands in for it, which is said, once; strictly it is the error `why`.
 */
ph_rc ph_engine_absent(ph_session *s, const char *name, const ph_err *why, ph_err *err);

/* flow_costs.c: tiles or patches of the load's picture, or of a stretch of sound, and its visual tokens. */
ph_rc ph_session_picture(const ph_session *s, ph_syms *tiles, size_t *tokens, ph_err *err);
/* Measured times that hold here: *out, or NULL.  *owned (or NULL) is the caller's to free, also after an
 * error. Errors: those of a file that is damaged, or was named and is not there. */
ph_rc ph_session_costs(const ph_session *s, const ph_costs **out, ph_costs **owned, ph_err *err);

#define PH_STANDS_IN "in place of %s, which is not here"

/* flow_route.c: engine_name of the parts that are left to the router. */
ph_rc ph_session_place(ph_session *s, ph_err *err);

static inline int ph_part_sees(ph_part part) {
    return part == PH_PART_VISION || part == PH_PART_BRIDGE;
}

ph_rc ph_session_predict(const ph_session *s, const ph_done *done, ph_plan *out, ph_err *err);

/* The key of a row of text: equal ids, equal keys; a picture's rows have keys of its own. */
static inline uint64_t ph_turn_text_key(int32_t id) {
    return (uint64_t)(uint32_t)id;
}
/* The same of a row that sees something beside the rows. */
static inline uint64_t ph_turn_sight_key(uint64_t key, const ph_sight *sight) {
    return sight->key ? (key ^ sight->key) * 0xd6e8feb86659fd93u | (uint64_t)1 << 63 : key;
}
/* And of one that takes injected features. */
static inline uint64_t ph_turn_inject_key(const ph_turn *t, uint64_t key) {
    return t->inject.key ? (key ^ t->inject.key) * 0x9e3779b97f4a7c15u | (uint64_t)1 << 63 : key;
}
int ph_turn_hear(void *turn, const char *piece, size_t n);

/* stage_picture.c: where the features of the turn's pictures will stand, once a question, before it sees. */
ph_rc ph_turn_place(ph_turn *t, ph_err *err);

/* flow_sound.c */
ph_rc ph_sound_measure(ph_turn *t, ph_view *v, ph_err *err);
ph_rc ph_sound_decode(ph_turn *t, ph_view *v, ph_err *err);
ph_rc ph_sound_prepare(ph_turn *t, ph_view *v, ph_err *err);
ph_rc ph_sound_stated(const ph_session *s, ph_done *d, ph_err *err); /* one stretch */

/* flow_cross.c.  Capacity: visual tokens a sequence; 0: no cross layers. */
size_t   ph_cross_capacity(const ph_session *s);
ph_rc    ph_cross_check(const ph_turn *t, size_t tokens, ph_err *err);
void     ph_cross_begin(ph_turn *t);                 /* views are prepared; before the first row */
ph_sight ph_cross_look_from(ph_turn *t, int32_t id); /* rows in order */
ph_rc    ph_cross_fill(ph_turn *t, ph_err *err);     /* before rows are run; does nothing when all is there */

/* flow_inject.c.  All do nothing where the model injects no features. */
ph_rc  ph_inject_check(const ph_session *s, ph_err *err); /* once the language part's inputs are known */
size_t ph_inject_rows(const ph_session *s); /* of the array that a run of such a model may read, at most */
size_t ph_inject_gathered_bytes(const ph_session *s); /* room for what is gathered; 0: nothing ever is */
int    ph_inject_is_piece(const ph_turn *t); /* do its pictures' features stand one after the other? */
void   ph_inject_begin(ph_turn *t);          /* pictures are placed; before the first row */
/* The features of these turns for one run of the language part, which is bound: their rows in syms. */
ph_rc ph_inject_lend(ph_session *s, ph_turn *const *turns, size_t n, ph_syms *syms, ph_err *err);

/* Bind a part's program for at least these sizes, unless it is so already. */
ph_rc ph_part_ready(ph_session *s, ph_part part, const ph_syms *syms, ph_err *err);
/* Run it to its end.  Errors: PH_ECANCEL when *cancel was set. */
ph_rc ph_part_run(ph_session *s, ph_part part, const ph_syms *syms, const atomic_int *cancel, ph_err *err);

#endif
