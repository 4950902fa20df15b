/* pinhole.h - questions about pictures, answered by a vision-language model on this machine.
 *
 *     model ──► session ──► conversation ──► answer
 *     shared    threads,    what was said    text, ids, times, memory
 *     by all    memory      so far
 *
 *     pinhole_model        *model;
 *     pinhole_session      *session;
 *     pinhole_conversation *talk;
 *     const pinhole_answer *answer;
 *     pinhole_error         error;
 *     pinhole_part          parts[] = {{PINHOLE_PICTURE, bytes, n_bytes, "cup.jpg"},
 *                                      {PINHOLE_TEXT, "what is on the table?", PINHOLE_WHOLE, NULL}};
 *     pinhole_model_open(&model, "SmolVLM-256M-Instruct", NULL, &error);
 *     pinhole_session_open(&session, model, NULL, &error);
 *     pinhole_conversation_open(&talk, session, &error);
 *     pinhole_ask(talk, parts, 2, NULL, &answer, &error);
 *
 * Errors.  A function that can fail returns PINHOLE_OK (0) or a negative code, and takes a pinhole_error
 * last, which may be NULL.  The library never prints, exits or aborts.  A pointer that may not be NULL and is
 * gives PINHOLE_EUSAGE.  On failure an output pointer to a handle is NULL.
 *
 * Ownership.  What an _open function gives is yours until its _close, which accepts NULL.  Handles may be
 * closed in any order: a session keeps its model, a conversation its session, until they are closed too.
 * Arguments are borrowed for the call and may go afterwards, unless said otherwise.
 *
 * Threads.  A model is never changed: any number of threads may use it at once.  A session and all its
 * conversations belong to one thread at a time; only pinhole_cancel may be called from any thread, and from a
 * signal handler.  Sessions of one model in several threads are independent of each other.  An error belongs
 * to whoever passes it.
 *
 * Structs that begin with `size` are versioned: set it to sizeof the struct, and the rest to zero for the
 * defaults (`pinhole_asking how = {sizeof how};`).  A later library reads and fills no more of an older
 * program's struct than that program knew.  Structs without `size` are made by the library, or never change.
 *
 * Texts are UTF-8.  Sizes are bytes, times are milliseconds.
 */
#ifndef PINHOLE_H
#define PINHOLE_H

#include "pinhole_op.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PINHOLE_VERSION_MAJOR 0
#define PINHOLE_VERSION_MINOR 1
#define PINHOLE_VERSION_PATCH 0

/* "0.1.0": of the library that runs.  Static.  Any thread. */
const char *pinhole_version(void);

/* ---- errors ---- */

typedef enum pinhole_code {
    PINHOLE_OK = 0,
    PINHOLE_ENOMEM = -1,     /* out of memory */
    PINHOLE_EIO = -2,        /* input or output failed */
    PINHOLE_EFORMAT = -3,    /* malformed input */
    PINHOLE_ELIMIT = -4,     /* input larger than a limit */
    PINHOLE_EUSAGE = -5,     /* an argument that cannot be */
    PINHOLE_EUNSUP = -6,     /* not supported by this program or this model */
    PINHOLE_EBUG = -7,       /* our own fault: please report it, with the message */
    PINHOLE_EPATH = -8,      /* no such file, or not readable */
    PINHOLE_EMISMATCH = -9,  /* the parts of the input contradict each other */
    PINHOLE_ECONTEXT = -10,  /* the prompt is longer than the context */
    PINHOLE_ETEMPLATE = -11, /* the chat template failed */
    PINHOLE_EMACHINE = -12,  /* this machine lacks something */
    PINHOLE_ECANCEL = -13,   /* cancelled */
    PINHOLE_EVERDICT = -14,  /* the verdict is no */
    PINHOLE_EBUDGET = -15    /* does not fit the memory budget */
} pinhole_code;

enum { PINHOLE_NOTES_MAX = 3 };

/* Filled by the call that failed, cleared by one that did not.  Needs no release. */
typedef struct pinhole_error {
    int         code;                         /* a pinhole_code */
    int         exit_code;                    /* the status a command should end with: 0 ... 5 */
    int         http_status;                  /* the status a server should answer with */
    int         n_notes;                      /* of note[] that are used */
    const char *name;                         /* "EFORMAT"; static */
    char        message[320];                 /* what is wrong, where, and what to do */
    char        note[PINHOLE_NOTES_MAX][160]; /* "while ...", innermost first */
} pinhole_error;

/* A code's name ("EFORMAT"; "?" if there is none) and its one-line meaning.  Static.  Any thread. */
const char *pinhole_code_name(int code);
const char *pinhole_code_text(int code);

/* ---- models ---- */

typedef struct pinhole_model pinhole_model;

typedef struct pinhole_model_options {
    size_t      size;          /* sizeof(pinhole_model_options) */
    const char *mmproj;        /* path of the vision part of a .gguf model; NULL: none */
    const char *chat_template; /* a Jinja template's text, instead of the model's own; NULL: its own */
    int         no_mmap;       /* 1: read all weights into memory of the process instead of mapping them */
    int         mlock;      /* 1: read all weights and lock them in memory; EMACHINE where that is refused */
    int         read_ahead; /* 1: a thread asks for mapped weights in the order of their use; it ends with
                             * the model */
    int trust;  /* 1: of a bundle only size and keys are held against its checksums, not the weights */
    int inject; /* 1: what layer inject_layer of the decoder reads becomes LayerNorm(h + alpha * mean(v)),
                 * v the visual tokens of a question's pictures; without pictures it stays h */
    int    inject_layer; /* from 0; EUSAGE where the decoder has no such layer */
    double inject_alpha; /* -1e4 to 1e4, else EUSAGE; 0: 0.3 (1e-9 or less beside h is as good as nothing) */
} pinhole_model_options;

/* Open a checkpoint: a Hugging Face directory, or a .gguf file.  Weights are mapped and none is read,
 * unless the options say so; the files must stay as they are until the model is closed.  options NULL: the
 * defaults. Errors: EPATH; EFORMAT, ELIMIT, EMISMATCH, ETEMPLATE a bad checkpoint; EUNSUP a family or a type
 * of numbers that is not known; ENOMEM; EMACHINE.  Any thread. */
int  pinhole_model_open(pinhole_model **model, const char *path, const pinhole_model_options *options,
                        pinhole_error *error);
void pinhole_model_close(pinhole_model *model); /* no other call may be using this handle */

typedef struct pinhole_model_facts {
    size_t      size;                 /* sizeof(pinhole_model_facts) */
    const char *family, *text_family; /* "llava", "llama"; of a text model both are the same */
    const char *container;            /* "gguf", "safetensors" or "bundle" */
    const char *processor;         /* the image processor that pictures are prepared as; NULL: a text model */
    int         context;           /* the longest that the model was made for, tokens */
    int         vocabulary;        /* rows of its embedding table */
    int         n_layers, d_model; /* of the decoder */
    int         has_vision;        /* 1: it takes pictures */
    int         tile_tokens;       /* tokens that one tile of a picture takes; 0: a text model */
    uint64_t    weight_bytes;      /* of all tensors in its files */
} pinhole_model_facts;

/* Texts live as long as the model.  Any thread. */
int pinhole_model_describe(const pinhole_model *model, pinhole_model_facts *facts, pinhole_error *error);

/* A piece of text or of an answer: bytes[n], n >= 1, not terminated, whole UTF-8 characters; borrowed for the
 * call.  Not 0: no more is wanted. */
typedef int pinhole_sink(void *arg, const char *bytes, size_t n);

/* A graph of the model ("language", "vision" or "bridge") in Graphviz's language, piece by piece.
 * Errors: EUSAGE no such graph; ECANCEL the sink wanted no more.  Any thread. */
int pinhole_model_graph(const pinhole_model *model, const char *graph, pinhole_sink *sink, void *arg,
                        pinhole_error *error);

/* ---- sessions: what it takes to answer ---- */

typedef enum pinhole_kv { /* bits a number; docs/reference/cache.md says what each costs in accuracy */
                          PINHOLE_KV_F32 = 0,
                          PINHOLE_KV_F16 = 1,
                          PINHOLE_KV_BF16 = 2,
                          PINHOLE_KV_Q8_0 = 3, /* 8.5 */
                          PINHOLE_KV_Q4_1 = 4  /* 5; keys by channel, values by token */
} pinhole_kv;
typedef enum pinhole_alpha {
    PINHOLE_ALPHA_WHITE = 0, /* transparent pictures are blended over white: what a person sees */
    PINHOLE_ALPHA_DROP = 1   /* the colours stored beneath: what trainers' loaders give */
} pinhole_alpha;
typedef enum pinhole_level {
    PINHOLE_LEVEL_ERROR,
    PINHOLE_LEVEL_WARN,
    PINHOLE_LEVEL_INFO,
    PINHOLE_LEVEL_DEBUG
} pinhole_level;

typedef struct pinhole_session_options {
    size_t      size;    /* sizeof(pinhole_session_options) */
    int         threads; /* workers, the calling thread included; 0: as many as processors */
    int         context; /* tokens of prompt and answer; 0: the smaller of the model's own and 4096 */
    int         chunk;   /* prompt tokens a run, at most; 0: 512.  Bounds scratch, never changes answers */
    int         tiles;   /* picture tiles a run, at most; 0: 4.  The same */
    int         conversations;                   /* that can be open at once; 0: 1 */
    int         images;                          /* pictures a prompt that the plan is for; 0: 1 */
    int         image_width, image_height;       /* their size in pixels; 0: 1024 x 768 */
    int         kv;                              /* a pinhole_kv: the type of the cached keys and values */
    int         alpha;                           /* a pinhole_alpha */
    uint64_t    pixels_max;                      /* larger pictures are refused; 0: 100 million */
    const char *engine_vision, *engine_language; /* NULL: "native"; "auto": the one that suits,
                                                  * by times that `pinhole profile` kept, or a rule */
    const char *isa;                             /* instruction set at most ("ref", "avx2"); NULL: the best */
    /* Lines for a human; called in the thread that uses the session.  line lives for the call.  NULL: silent.
     */
    void (*log)(void *arg, pinhole_level level, const char *line);
    void         *log_arg;
    pinhole_level log_most; /* the most talkative level that is wanted */
    /* Tokens that a picture may take; 0: as the model's trainer had it.  EUSAGE where the model cannot be
     * held to them, with the range that is permitted. */
    int image_min_tokens, image_max_tokens;
    /* Of what makes rows of a prompt's ids; NULL: that of the language part, in one with it. */
    const char *engine_embed;
} pinhole_session_options;

/* Bytes, by kind. */
typedef struct pinhole_memory {
    uint64_t total;       /* the sum of all below */
    uint64_t input;       /* pictures, tiles, ids, rows; padding */
    uint64_t activations; /* values between steps */
    uint64_t weights;     /* pages of the files that are read */
    uint64_t engine;      /* workers' scratch, programs */
    uint64_t reserve;     /* kept for lengths that vary */
    uint64_t pools;       /* visual tokens, sampling, a conversation's tables */
    uint64_t kv;          /* keys and values of the context */
    uint64_t tokenizer;   /* its tables */
    uint64_t base;        /* the process as it was before the model was opened */
    uint64_t spare[6];    /* 0 */
} pinhole_memory;

typedef struct pinhole_plan {
    size_t         size;                                                  /* sizeof(pinhole_plan) */
    int            context, conversations, images, tiles, chunk, threads; /* the load that the plan is for */
    const char    *peak_phase;                                            /* "prefill"; static */
    pinhole_memory peak;                                                  /* of that phase */
    pinhole_memory load, see, prefill, step;                              /* of each phase */
} pinhole_plan;

/* What a session with these options will hold at its peak; no weight is read and nothing is kept.
 * options NULL: the defaults.  Errors: as pinhole_session_open.  Any thread. */
int pinhole_plan_memory(const pinhole_model *model, const pinhole_session_options *options,
                        pinhole_plan *plan, pinhole_error *error);

typedef struct pinhole_session pinhole_session;

/* Threads, programs, scratch and cache, for one thread at a time.  options NULL: the defaults; its texts are
 * borrowed for the call.
 * Errors: EUSAGE an option out of range, or an unknown engine (the known are listed); EMACHINE; ENOMEM.
 * Any thread may open sessions on a model. */
int  pinhole_session_open(pinhole_session **session, pinhole_model *model,
                          const pinhole_session_options *options, pinhole_error *error);
void pinhole_session_close(pinhole_session *session);

/* The plan that the session was opened with. */
int pinhole_session_plan(const pinhole_session *session, pinhole_plan *plan, pinhole_error *error);
/* The instruction set in use: "avx512".  Static; "" for NULL. */
const char *pinhole_session_isa(const pinhole_session *session);

/* ---- conversations ---- */

enum { PINHOLE_TEXT = 0, PINHOLE_PICTURE = 1 };
#define PINHOLE_WHOLE ((size_t)-1)

/* A part of a message. */
typedef struct pinhole_part {
    int         kind;  /* PINHOLE_TEXT or PINHOLE_PICTURE */
    const void *bytes; /* a text, or an image file as it is: JPEG, PNG, WebP, GIF, BMP */
    size_t      n;     /* bytes; PINHOLE_WHOLE: of a text, up to its terminator */
    const char *name;  /* of a picture, for messages; NULL: "picture" */
} pinhole_part;

/* How to answer.  Zero is the default everywhere: greedy, until the model stops. */
typedef struct pinhole_asking {
    size_t             size;           /* sizeof(pinhole_asking) */
    int                answer_max;     /* tokens; 0: until the model stops or the context is full */
    int                ignore_stop;    /* 1: go on where the model would stop */
    double             temperature;    /* 0: greedy */
    int                top_k;          /* 0: all */
    double             top_p;          /* 0 or 1: all */
    double             min_p;          /* 0: all */
    double             repeat_penalty; /* 0 or 1: none */
    int                repeat_last;    /* tokens that the penalty looks back on; 0: all */
    uint64_t           seed;
    const char *const *stop; /* [n_stop] words that end the answer and are not part of it */
    size_t             n_stop;
    pinhole_sink      *sink; /* gets the answer as it comes, in the calling thread; NULL: only the whole */
    void              *arg;
} pinhole_asking;

typedef enum pinhole_stop {
    PINHOLE_STOP_NONE,
    PINHOLE_STOP_TOKEN,   /* the model ended its answer */
    PINHOLE_STOP_WORD,    /* one of pinhole_asking.stop */
    PINHOLE_STOP_LENGTH,  /* answer_max */
    PINHOLE_STOP_CONTEXT, /* the context is full */
    PINHOLE_STOP_CANCEL   /* pinhole_cancel, or the sink wanted no more */
} pinhole_stop;

/* Made by the library; it and all it points to live until the conversation's next question or its close. */
typedef struct pinhole_answer {
    const char    *text; /* [n_text], terminated: the sum of what the sink got */
    size_t         n_text;
    const int32_t *ids; /* [n_ids], without the one that stopped it */
    size_t         n_ids;
    int            prompt_tokens; /* of the whole conversation */
    int            image_tokens;  /* of them for pictures */
    int            cached_tokens; /* of them not run again */
    pinhole_stop   stop;
    const char    *stop_name; /* "token"; static */
    const double  *stage_ms;  /* [n_stages]; pinhole_stage_name(i) is its name */
    size_t         n_stages;
    pinhole_memory predicted;                    /* for what was done */
    uint64_t       measured_peak, measured_anon; /* VmHWM and RssAnon of this process; 0: not known */
} pinhole_answer;

/* "decode", "prepare", ...; NULL past the last.  Static.  Any thread. */
const char *pinhole_stage_name(size_t i);
/* "token", "length", ...; "?" if there is none.  Static.  Any thread. */
const char *pinhole_stop_name(int stop);

typedef struct pinhole_conversation pinhole_conversation;

/* Takes one of the session's places.  Errors: ELIMIT all are taken; EUSAGE; ENOMEM. */
int  pinhole_conversation_open(pinhole_conversation **conversation, pinhole_session *session,
                               pinhole_error *error);
void pinhole_conversation_close(pinhole_conversation *conversation); /* not from within a sink */

/* Forget what was said.  Errors: EUSAGE from within a sink. */
int pinhole_conversation_reset(pinhole_conversation *conversation, pinhole_error *error);

/* Add a message without asking: a system message, or what was said before.  role: "system", "user",
 * "assistant", or what else the template knows.  Texts and pictures are copied.
 * Errors: EUSAGE; ENOMEM. */
int pinhole_conversation_add(pinhole_conversation *conversation, const char *role, const pinhole_part *parts,
                             size_t n_parts, pinhole_error *error);

/* Add the user's message and answer it; the answer is added too.  With n_parts 0 the conversation is answered
 * as it stands.  Texts and pictures are copied; what the cache holds already is not run again.  how NULL: the
 * defaults.  answer may be NULL.
 *
 * A question that fails leaves the conversation as it was.  A cancelled one does not fail: what was said so
 * far is the answer, and it counts.
 *
 * Errors: EFORMAT, EUNSUP, ELIMIT, EMISMATCH a picture that cannot be read, or any to a text model; ECONTEXT;
 * ETEMPLATE; EUSAGE a setting out of range, or the session is answering already; ENOMEM. */
int pinhole_ask(pinhole_conversation *conversation, const pinhole_part *parts, size_t n_parts,
                const pinhole_asking *how, const pinhole_answer **answer, pinhole_error *error);

/* Continue a prompt as it is, without template: control tokens in it are parsed, and the model's own image
 * marker stands for each picture in order.  prompt[n]; PINHOLE_WHOLE as for a part.  pictures[n_pictures] are
 * borrowed.  The conversation's messages neither count nor change.  Errors: as pinhole_ask. */
int pinhole_complete(pinhole_conversation *conversation, const char *prompt, size_t n,
                     const pinhole_part *pictures, size_t n_pictures, const pinhole_asking *how,
                     const pinhole_answer **answer, pinhole_error *error);

/* End the answer that is being given, within a few milliseconds, at whatever stage; if none is, the next one.
 * Holds until pinhole_ask or pinhole_complete returns, or pinhole_cancel_clear.  Any thread; signal handlers.
 */
void pinhole_cancel(pinhole_conversation *conversation);
void pinhole_cancel_clear(pinhole_conversation *conversation);

/* ---- text ---- */

enum {
    PINHOLE_TOKENS_SPECIAL = 1, /* add BOS, and what else the tokenizer adds */
    PINHOLE_TOKENS_CONTROL = 2  /* the text is a template's: control tokens in it are parsed */
};

/* text[n] to ids.  *n_ids is how many there are; at most ids_max of them are written, so that a first call
 * with ids NULL and 0 asks for the count.  n may be PINHOLE_WHOLE.  Errors: EUSAGE; ELIMIT; ENOMEM.
 * Any thread. */
int pinhole_tokenize(const pinhole_model *model, const char *text, size_t n, unsigned how, int32_t *ids,
                     size_t ids_max, size_t *n_ids, pinhole_error *error);

/* ids[n_ids] to text, the same way: *n is its bytes; at most text_max - 1 are written, and a terminator.  Ids
 * out of range give nothing.  skip_control 1: control tokens are left out. */
int pinhole_detokenize(const pinhole_model *model, const int32_t *ids, size_t n_ids, int skip_control,
                       char *text, size_t text_max, size_t *n, pinhole_error *error);

/* ---- pictures ---- */

typedef struct pinhole_picture_options {
    size_t   size;                               /* sizeof(pinhole_picture_options) */
    int      alpha;                              /* a pinhole_alpha */
    uint64_t pixels_max;                         /* 0: 100 million */
    int      keep_u8;                            /* 1: pinhole_tiles.u8 too */
    int      image_min_tokens, image_max_tokens; /* as in pinhole_session_options */
} pinhole_picture_options;

/* What a model makes of a picture. */
typedef struct pinhole_tiles {
    int            picture_width, picture_height; /* upright, pixels */
    int            resized_width, resized_height; /* the whole, before crop or split */
    int            n_tiles, width, height;        /* each tile, pixels */
    int            rows, cols;                    /* of the grid; 0 x 0: no grid */
    int            n_tokens;                      /* that the tiles take in a prompt */
    const float   *pixels; /* [n_tiles, 3, height, width], normalised; NULL: measured only */
    const uint8_t *u8;     /* [n_tiles, height, width, 3], or NULL */
} pinhole_tiles;

/* The tiles of the image file bytes[n]: decoded, upright, resized and normalised as the model's trainer did.
 * Errors: EFORMAT; EUNSUP a format that is not read, or a text model; ELIMIT; ENOMEM.  Any thread. */
int pinhole_prepare(const pinhole_model *model, const void *bytes, size_t n,
                    const pinhole_picture_options *options, pinhole_tiles **tiles, pinhole_error *error);
/* The same from the header alone: sizes and tokens, no pixels. */
int  pinhole_measure(const pinhole_model *model, const void *bytes, size_t n,
                     const pinhole_picture_options *options, pinhole_tiles **tiles, pinhole_error *error);
void pinhole_tiles_close(pinhole_tiles *tiles);

/* ---- plug-ins: operators of your own (pinhole_op.h) ---- */

typedef struct pinhole_plugins pinhole_plugins;

/* Load the shared libraries paths[n_paths].  They are your code: they run in this process, with its rights. A
 * path without a slash is a file of the current folder, never one that the system's loader would look for.
 * Errors: EPATH no such file; EMACHINE it is no library, cut short, or what it needs is not here; EFORMAT,
 * EUNSUP it is no plug-in, or of another version of the interface; EMISMATCH an operator that may not be a
 * plug-in's, or that two have; ENOMEM.  Any thread. */
int  pinhole_plugins_open(pinhole_plugins **plugins, const char *const *paths, size_t n_paths,
                          pinhole_error *error);
void pinhole_plugins_close(
    pinhole_plugins *plugins); /* models that use them keep them until their own close */

typedef struct pinhole_operator {
    size_t      size;                           /* sizeof(pinhole_operator) */
    const char *domain, *name;                  /* "com.acme", "Gate" */
    int         since;                          /* version of the domain */
    const char *plugin, *plugin_version, *path; /* "acme", "1.0", as it was given */
} pinhole_operator;

/* Operator i, from 0 on, of all plug-ins together; texts live as long as the plug-ins.  1: there is one; 0: i
 * is past the last; negative: a code.  Any thread. */
int pinhole_plugins_operator(const pinhole_plugins *plugins, size_t i, pinhole_operator *out,
                             pinhole_error *error);

/* ---- ONNX models by themselves ---- */

typedef struct pinhole_onnx pinhole_onnx;

typedef struct pinhole_onnx_options {
    size_t           size;    /* sizeof(pinhole_onnx_options) */
    int              threads; /* workers, the calling thread included; 0: as many as processors */
    pinhole_plugins *plugins; /* NULL: none.  Kept until the model is closed */
    const char      *isa;     /* instruction set at most; NULL: the best */
} pinhole_onnx_options;

/* Open an .onnx file for the native engine (docs/reference/onnx.md says what is read); its weights are
 * mapped, and it must stay as it is until the close.  options NULL: the defaults. Errors: EPATH; EFORMAT,
 * ELIMIT, EMISMATCH a bad model; EUNSUP an operator that is not there, named with its node; EUSAGE; ENOMEM.
 * Any thread; one at a time may use the handle. */
int  pinhole_onnx_open(pinhole_onnx **model, const char *path, const pinhole_onnx_options *options,
                       pinhole_error *error);
void pinhole_onnx_close(pinhole_onnx *model);

/* An input or output by its name in the model. */
typedef struct pinhole_named_array {
    const char   *name;
    pinhole_array array; /* data in C order */
} pinhole_named_array;

/* What the model declares: input (is_output 0) or output i, from 0 on.  The name lives as long as the model;
 * a dimension that only a run knows is -1; data is NULL; a type that is not taken is PINHOLE_NONE.  1: there
 * is one; 0: i is past the last; negative: a code. */
int pinhole_onnx_io(const pinhole_onnx *model, int is_output, size_t i, pinhole_named_array *out,
                    pinhole_error *error);

/* Run it.  in[n_in]: every input of the model, with its data, type and dimensions, borrowed for the call.
 * out[n_out]: which outputs are wanted, by name; each array is filled, and its data live until the next run
 * or the close.  A run of the same dimensions as the one before allocates nothing; others lay the memory out
 * anew. Errors: EMISMATCH an input that is missing, of another type, or whose dimensions do not go together;
 * EUSAGE a name that is none; what an operator says of its numbers, a plug-in's too; ENOMEM. */
int pinhole_onnx_run(pinhole_onnx *model, const pinhole_named_array *in, size_t n_in,
                     pinhole_named_array *out, size_t n_out, pinhole_error *error);

#ifdef __cplusplus
}
#endif

#endif
