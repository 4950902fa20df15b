/* flow.h - the corridor: a question with its pictures in, an answer out.
 *
 *     decode ► prepare ► see ► drop ► bridge ► splice ► prefill ► ( sample ► speak ► step )*
 *
 * The session is the loaded model made able to run: threads, engines, programs,
 * KV cache, scratch laid out by the plan.  A turn is one question on one sequence:
 * a state machine that knows its next stage.  Each stage is one function over a
 * batch of turns; ph_ask() drives one turn to its end, a scheduler may drive many
 * through the same functions.  Nothing else calls an engine.
 */
#ifndef PH_FLOW_FLOW_H
#define PH_FLOW_FLOW_H

#include "base/log.h"
#include "base/threads.h"
#include "base/trace.h"
#include "engine/costs.h"
#include "engine/engine.h"
#include "engine/route.h"
#include "graph/kv.h"
#include "graph/plan.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "text/speak.h"

/* ---- the session ---- */

/* The time until the first token that is aimed at where nothing else is said, and the question that parts are
 * placed for: a picture of the load's size, so many tokens of text with it and so many answered. */
#define PH_LATENCY_MS 380.0
enum { PH_ROUTE_TEXT_TOKENS = 32, PH_ROUTE_STEPS = 32 };
#define PH_ENGINE_AUTO "auto"

typedef struct ph_session_options {
    int threads;     /* 0: as many as processors */
    int beside;      /* turns whose pictures are seen beside an answer (sched/pipeline.h): the vision part has
                      * workers      and scratch of its own, and the plan counts as many features; 0: none, one after
                      * the other */
    int see_threads; /* with `beside`, of `threads`: those that see; 0: half of them.  Each side has one at
                        least, so of one thread there are two */
    int ahead;     /* 1: the next question's pictures are decoded and prepared by a thread of its own, one of
                    * `threads`; the plan counts one more picture on its way */
    int context;   /* tokens a sequence; 0: the smaller of the model's own and 4096 */
    int sequences; /* 0: 1 */
    int chunk;     /* prefill rows a run, at most; 0: 512 */
    int tiles;     /* tiles seen at once, at most; 0: 4 */
    int patches;   /* packed patches seen at once: whole pictures up to so many, or one; 0: as many as
                    * the load's picture has */
    int      images;                    /* pictures a prompt that the plan is for; 0: 1 */
    int      image_width, image_height; /* of the picture that the plan is for, pixels; 0: 1024 x 768 */
    int      image_min_tokens, image_max_tokens; /* that a picture takes; 0: as the model's trainer had it */
    ph_dtype kv_dtype;                           /* F32 (0), F16, BF16, Q8_0 or Q4_1 */
    const char *isa;                             /* PINHOLE_ISA's value; NULL: the best */
    /* Names, with a device where an engine has several ("ort:cuda"); NULL: native; "auto": the router chooses
     * (route.h).  The bridge's NULL: as vision. */
    const char *engine_vision, *engine_bridge, *engine_language;
    const char *engine_embed; /* of ids to rows, which else is the language part's; NULL: that's engine */
    double      latency_ms;   /* until the first token: what the parts' budgets share; 0: PH_LATENCY_MS */
    uint64_t    memory_max;   /* bytes that the plan of a placement by the router may come to; 0: no limit */
    const char *costs; /* file of measured times; NULL: where they are kept (ph_costs_place), if there */
    const ph_costs *measured; /* they themselves, instead of a file; or NULL */
    int has_all_devices;      /* the router looks at every device that is here, not only at those that were
                               * measured or named: all engines are loaded for it */
    int is_engine_strict; /* 1: an engine that is not here is PH_EMACHINE; 0: native answers, and says so */
    uint64_t pixels_max;  /* 0: 100 megapixels */
    ph_alpha alpha;
    int      is_exact;   /* 1: block-typed weights meet floats (ph_engine_env) */
    int      is_rows8;   /* 1: they meet rows of 8 bits; not both.  PH_EUSAGE of ph_session_open */
    unsigned unfused;    /* bits 1 << PH_FUSE_*: steps that are not joined (ph_engine_env) */
    int copies_features; /* 1: visual tokens are copied from where the bridge made them, as engines that share
                          * no memory would do: to measure what that costs (bench --border) */
    int    all_logits;   /* 1: logits for every prompt row, not only the last (verify) */
    int    is_profiled;  /* spans that cost time too: operators of engines that run parts as one step */
    size_t trace_spans;  /* that the trace keeps; 0: 4096 */
    const ph_log
        *log; /* or NULL: WARN what is done otherwise than asked, INFO the session, DEBUG each stage */
    /* Values to observe, by name; the observer is called for every run.  Borrowed; live as long as the
     * session. */
    const struct ph_session_tap *tap;
    size_t                       n_taps;
} ph_session_options;

typedef struct ph_session_tap {
    const char *graph, *value; /* "vision", "vision.hidden.2" */
    void (*see)(void *arg, const char *value, const float *data, const ph_shape *shape, const ph_syms *syms);
    void *arg;
} ph_session_tap;

typedef struct ph_session ph_session;

/* What a session would take, without opening one: nothing is allocated but small tables, no weight is read.
 * Errors: as ph_session_open. */
ph_rc ph_session_plan(const ph_model *m, const ph_session_options *o, ph_plan *out, ph_err *err);

/* The same with what the router found: its n_parts is 0 where no part was left to it.  Where no placement
 * fits memory_max, the plan is of the one that takes the least, and route->fits is 0. */
ph_rc ph_session_plan_route(const ph_model *m, const ph_session_options *o, ph_plan *out, ph_route *route,
                            ph_err *err);

/* Errors: PH_EUSAGE an option out of range or an unknown engine; PH_EMACHINE; PH_ENOMEM; PH_EBUDGET no
 * placement fits; those of a file of measured times. */
ph_rc ph_session_open(ph_session **s, const ph_model *m, const ph_session_options *o, ph_err *err);
/* Do threads, those that see among them, leave one that answers?  Errors: PH_EUSAGE. */
ph_rc ph_session_check_threads(const ph_session_options *o, ph_err *err);
void  ph_session_close(ph_session *s);

const ph_plan *ph_session_plan_of(const ph_session *s);
ph_trace      *ph_session_trace(ph_session *s);
const char    *ph_session_isa(const ph_session *s); /* "avx512": of the kernels in use */
/* The engine that runs the graph called so ("vision", "bridge", "language", "cross"); NULL: no such graph. */
const char *ph_session_engine(const ph_session *s, const char *graph);
/* Where the parts run, in the order in which they do; how many.  The part embed is one where it has an engine
 * apart from the language part's; cross goes with that. */
enum { PH_PLACES_MAX = 4 };
typedef struct ph_place {
    const char *part; /* "vision"; static */
    char        engine[PH_ROUTE_NAME];
    char why[PH_ROUTE_TEXT]; /* of the router, or what native stands in for; "": it was named, or not */
} ph_place;
size_t ph_session_places(const ph_session *s, ph_place out[PH_PLACES_MAX]);
/* Where the router put each part and why; NULL: none was left to it. */
const ph_route *ph_session_route(const ph_session *s);
/* What measured times of this session are kept under, and the sizes of the stages' work for the question that
 * parts are placed for.  Errors: PH_ENOMEM; those of a picture's layout. */
ph_rc ph_session_cost_key(const ph_session *s, ph_cost_key *out, ph_err *err);
ph_rc ph_session_cost_sizes(const ph_session *s, ph_syms out[PH_N_COST_STAGES], ph_err *err);
/* The engines' own spans of what a part ran so far enter the trace (is_profiled); of "vision" and the like.
 * Errors: those of the engine; PH_EUSAGE no such graph. */
ph_rc ph_session_profile(ph_session *s, const char *graph, ph_err *err);
/* Bytes that this graph's engine holds itself; 0: none, or no such graph. */
size_t   ph_session_holds(const ph_session *s, const char *graph);
uint64_t ph_session_barriers(const ph_session *s); /* of its crews, since it was opened */
int ph_session_beside(const ph_session *s); /* ph_session_options.beside as it is: 0 without a vision part */
int ph_session_ahead(const ph_session *s);  /* the same of `ahead` */
int ph_session_threads(const ph_session *s, int is_seeing); /* of a side's crew */
/* Room for a turn's features, those of the longest prompt: rows of a visual token, and their bytes; 0: the
 * model sees nothing. */
size_t ph_session_features_rows(const ph_session *s);
size_t ph_session_features_bytes(const ph_session *s);
/* Bytes of weights that one run reads: of vision and bridge, or of the language part.  Errors: PH_ENOMEM. */
ph_rc ph_session_weights(const ph_session *s, int is_seeing, size_t *out, ph_err *err);

/* ---- a turn ---- */

typedef enum ph_stage {
#define PH_STAGE(name) PH_STAGE_##name,
#include "flow/stage.def"
#undef PH_STAGE
    PH_STAGE_done,
    PH_N_STAGES = PH_STAGE_done
} ph_stage;
extern const char *const ph_stage_name[PH_N_STAGES + 1];

typedef enum ph_stop {
    PH_STOP_NONE,
    PH_STOP_TOKEN,
    PH_STOP_WORD,
    PH_STOP_LENGTH,
    PH_STOP_CONTEXT,
    PH_STOP_CANCEL
} ph_stop;
extern const char *const ph_stop_name[];

typedef struct ph_picture {
    const uint8_t *bytes; /* [n], an image file as it is; borrowed until the prompt has been prefilled */
    size_t         n;
    const char    *name;     /* for messages */
    int            n_frames; /* above 1: this and the next are the frames of one video, so many in all */
    double         fps;      /* of a video, as sampled; 0: not known */
    int            is_video; /* also with one frame */
} ph_picture;

typedef struct ph_recording {
    const uint8_t *bytes; /* [n], a sound file as it is; borrowed until the prompt has been prefilled */
    size_t         n;
    const char    *name;    /* for messages */
    int            stretch; /* of those that the model hears at once, from 0 (ph_answer.stretches) */
} ph_recording;

typedef struct ph_question {
    const ph_chat_message
          *messages; /* [n_messages], the whole conversation; pictures are numbered in order of their parts */
    size_t n_messages;
    const ph_picture   *pictures;
    size_t              n_pictures;
    const ph_recording *sound; /* what it is about instead of pictures; or NULL */
    const char *raw; /* instead of messages: the prompt as it is, no template; trusted: control tokens are
                      * parsed, and the model's image marker stands for each picture in order */
    const int32_t     *ids; /* instead of both: the prompt's ids; visual rows where spec.image_token stands */
    size_t             n_ids;
    int                add_special;  /* with raw: 1 adds BOS and what else the tokenizer adds */
    int                answer_max;   /* tokens; 0: until the context is full */
    int                ignore_stop;  /* 1: EOS does not stop */
    int                is_embedding; /* a vector is wanted, no answer (flow_embed.c) */
    ph_sampling        sampling;
    const char *const *stop; /* [n_stop] words that end the answer and are not part of it */
    size_t             n_stop;
    /* Pieces of the answer as they come; whole UTF-8 characters.  NULL: none wanted. Non-zero return: cancel.
     */
    int (*piece)(void *arg, const char *bytes, size_t n);
    void             *arg;
    const atomic_int *cancel; /* or NULL: looked at between steps of the engine */
} ph_question;

typedef struct ph_answer {
    const char    *text; /* [n_text], UTF-8, terminated; lives until the turn's next question */
    size_t         n_text;
    const int32_t *ids; /* [n_ids], without the token that stopped it */
    size_t         n_ids;
    int            stretches;     /* of the question's recording */
    size_t         picture_bytes; /* of its pictures' files, pixels and tiles, if they were prepared */
    int            prompt_tokens, image_tokens, cached_tokens; /* cached: already in the KV cache */
    ph_stop        stop;
    double         stage_ms[PH_N_STAGES];
    ph_memory      predicted;                             /* for what was done */
    size_t measured_peak, measured_anon, measured_locked; /* VmHWM, RssAnon, VmLck at the end: bytes */
} ph_answer;

typedef struct ph_turn ph_turn;

ph_rc ph_turn_open(ph_turn **t, ph_session *s, ph_err *err); /* takes a sequence; PH_ELIMIT: all are in use */
void  ph_turn_close(ph_turn *t);
/* A turn without a sequence: it walks up to splice, and from there in the cache of another. */
ph_rc ph_turn_open_beside(ph_turn **t, ph_session *s, ph_err *err);
/* The two change sequences, with what is known of their rows.  Neither stands between splice and its end. */
void ph_turn_swap_cache(ph_turn *a, ph_turn *b);
/* After a failure: nothing of the question is kept; the cache holds what was complete. */
void ph_turn_abandon(ph_turn *t);
/* Features stand in the caller's memory: rows [first, first + ph_session_features_rows) from `at` on,
 * which outlives the turn.  A picture that one of peer[n], which have rows of the same memory, has seen
 * already is not seen again; peer[] is borrowed (64 at most), the turn itself is peer[own]. */
void ph_turn_lend(ph_turn *t, float *at, size_t first, ph_turn *const *peer, size_t n, size_t own);
/* t, which stands before see, has from now on the memory of `before`, whose question is over, with what was
 * seen there; before has none until it succeeds another.  The caller puts t in its place among the peers. */
void ph_turn_succeed(ph_turn *t, ph_turn *before);
/* Bit i: the features of peer[i] are read by this turn's question, from see to its end. */
uint64_t ph_turn_borrows(const ph_turn *t);
/* Set a question; what the sequence's cache already holds of it is kept.  Borrowed until the answer is there.
 */
ph_rc    ph_turn_begin(ph_turn *t, const ph_question *q, ph_err *err);
ph_stage ph_turn_stage(const ph_turn *t); /* the next one */
void     ph_turn_answer(const ph_turn *t, ph_answer *out);

/* The stages: each takes n >= 1 turns of one session whose next stage it is, and moves them on.  A turn that
 * had no room in a run (tiles of see, a chunk of prefill) stays before the same stage; one with more to see
 * comes back to see from bridge; one with nothing to see goes from see to splice.
 *
 * What a run leaves behind stands in the session's scratch, so order matters:
 *
 *     see ► drop ► bridge       turns that see has moved to drop go through drop and bridge in one batch, in
 *                               the same order, before the session sees, prefills or steps anything else
 *     prefill, step ► sample    logits are valid until the next run (see, bridge, prefill or step of
 *                               whatever turn): sample every turn that has some before it
 *
 * decode, prepare, splice, sample and speak touch nothing but their turns.  A run is given up (PH_ECANCEL)
 * when the first turn's `cancel` says so.  After an error no turn of the batch goes on: each begins another
 * question or is closed; what its cache held before stays good. */
#define PH_STAGE(name) ph_rc ph_##name(ph_turn *const *turns, size_t n, ph_err *err);
#include "flow/stage.def"
#undef PH_STAGE

/* One stage over turns that all stand before the same one; the time counts for each. */
ph_rc ph_turn_walk(ph_turn *const *turns, size_t n, ph_err *err);

/* Walk one turn until it stands before `until`, or is over. */
ph_rc ph_turn_walk_until(ph_turn *t, ph_stage until, ph_err *err);
/* What walking came to: an answer (a cancelled one is what has been said so far), or the turn is abandoned.
 * Returns the error that remains. */
ph_rc ph_turn_end(ph_turn *t, ph_rc rc, ph_answer *out);

/* Drive one turn through the corridor to its end.  Errors: those of the stages, with the stage as a note. */
ph_rc ph_ask(ph_turn *t, const ph_question *q, ph_answer *out, ph_err *err);

/* ---- vectors of dual encoders ---- */

/* Numbers of a vector; 0: the model answers instead. */
int ph_session_embedding(const ph_session *s);
/* A text or a picture to a vector of length 1, out [ph_session_embedding()], through the same stages.  The
 * turn is over afterwards.  Errors: those of the stages; PH_EUNSUP a model that answers. */
ph_rc ph_embed_text(ph_turn *t, const char *text, size_t n, float *out, ph_err *err);
ph_rc ph_embed_picture(ph_turn *t, const ph_picture *picture, float *out, ph_err *err);
/* The same from ids as a trainer's tokenizer gave them. */
ph_rc ph_embed_ids(ph_turn *t, const int32_t *ids, size_t n, float *out, ph_err *err);
/* The ids of a text as ph_embed_text makes them, padding included; append to *ids. */
ph_rc ph_embed_tokenize(const ph_model *m, const char *text, size_t n, ph_ids *ids, ph_err *err);
/* Of two vectors. */
double ph_embed_cosine(const float *a, const float *b, int n);
/* cosine [n_texts] of one picture to scores [n_texts]: softmax over the texts, or a sigmoid each. */
void ph_embed_scores(const ph_model *m, const double *cosine, size_t n_texts, double *score);

/* For verification: the prompt as it was spliced, its positions, and the newest logits [vocab]; with
 * all_logits the logits of every row of the last prefill are seen through a tap on "logits". */
const int32_t *ph_turn_prompt_ids(const ph_turn *t, size_t *n);
const float   *ph_turn_logits(const ph_turn *t);
const int32_t (*ph_turn_positions(const ph_turn *t))[3]; /* time, height, width of each row of the prompt */
int32_t ph_turn_next_position(const ph_turn *t);         /* of the row behind them */

#endif
