/* command.h - subcommands, and what they share: options, models, output.
 *
 * The contract (exit codes, --json, --help) is that of docs/reference/commands.md:
 * results go to standard output, everything else to standard error; a command
 * returns an exit code, or a ph_rc that becomes one.
 */
#ifndef PH_CLI_COMMAND_H
#define PH_CLI_COMMAND_H

#include "base/err.h"
#include "base/log.h"
#include "engine/plugin.h"
#include "flow/flow.h"
#include "video/video.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* ---- options ---- */
typedef enum ph_option_kind {
    PH_TAKES_NONE,  /* int: becomes 1 */
    PH_TAKES_TEXT,  /* const char *: the argument */
    PH_TAKES_TEXTS, /* ph_texts: each use adds one */
    PH_TAKES_INT,   /* int within a range */
    PH_TAKES_REAL,  /* double */
    PH_TAKES_U64,   /* uint64_t within a range */
    PH_TAKES_SIZE   /* uint64_t: 1.8GB, 512MiB */
} ph_option_kind;

typedef struct ph_option_takes {
    ph_option_kind kind;
    uint64_t       least, most; /* of whole numbers: both may be given */
} ph_option_takes;

/* For rows. A count has its range: what is beyond is refused before anything is opened or planned. */
#define PH_OPTION_FLAG                                                                                       \
    { PH_TAKES_NONE, 0, 0 }
#define PH_OPTION_TEXT                                                                                       \
    { PH_TAKES_TEXT, 0, 0 }
#define PH_OPTION_TEXTS                                                                                      \
    { PH_TAKES_TEXTS, 0, 0 }
#define PH_OPTION_REAL                                                                                       \
    { PH_TAKES_REAL, 0, 0 }
#define PH_OPTION_SIZE                                                                                       \
    { PH_TAKES_SIZE, 0, 0 }
#define PH_OPTION_INT(least, most)                                                                           \
    { PH_TAKES_INT, least, most }
#define PH_OPTION_U64(least, most)                                                                           \
    { PH_TAKES_U64, least, most }

enum {
    PH_CLI_THREADS_MAX = 256,
    PH_CLI_TOKENS_MAX = 1 << 24, /* of a context, an answer, a vocabulary: above every model's */
    PH_CLI_TILES_MAX = 4096,     /* a run */
    PH_CLI_PATCHES_MAX = 1 << 20,
    PH_CLI_SECONDS_MAX = 24 * 3600
};
/* The parts of --engine, by name; "": not named. */
enum { PH_CLI_ENGINE = PH_ENGINE_NAME };
typedef struct ph_cli_parts {
    char vision[PH_CLI_ENGINE], bridge[PH_CLI_ENGINE], embed[PH_CLI_ENGINE], language[PH_CLI_ENGINE];
} ph_cli_parts;

enum { PH_TEXTS_MAX = 64 };
typedef struct ph_texts {
    const char *at[PH_TEXTS_MAX];
    size_t      n;
} ph_texts;

typedef struct ph_option {
    const char     *name;   /* "--image" */
    char            letter; /* 'm' for -m; 0: none */
    const char     *arg;    /* how help calls the argument; NULL: none */
    const char     *help;
    ph_option_takes takes;
    void           *to;
} ph_option;

/* Options in groups; each ends with a row without a name. */
enum { PH_OPTION_GROUPS_MAX = 8 };
typedef struct ph_options {
    const ph_option *group[PH_OPTION_GROUPS_MAX];
    size_t           n_groups;
    ph_texts         rest; /* arguments that are no options */
    int              wants_help;
} ph_options;

/* "-n 5", "-n5", "--tokens 5", "--tokens=5"; "--" ends options.
 * Errors: PH_EUSAGE an unknown option (names one that is near), an argument that is missing, unreadable or
 * out of range. */
ph_rc ph_options_parse(ph_options *o, int argc, char **argv, ph_err *err);
/* Whether a value was given to it that is not none, no flag or 0, which are the defaults of most. */
int  ph_option_is_given(const ph_option *r);
void ph_options_print(const ph_options *o); /* the option part of a command's help, to standard output */

/* ---- subcommands ---- */
typedef struct ph_command {
    const char *name;
    const char *summary; /* one line */
    const char *usage;   /* after "pinhole NAME " */
    const char *about;   /* a paragraph or two, with an example */
    ph_rc (*run)(const struct ph_command *self, int argc, char **argv, ph_err *err);
} ph_command;

#define PH_COMMAND(name) extern const ph_command ph_command_##name;
#include "cli/command.def"
#include "formats/onnx.h"
#undef PH_COMMAND

const ph_command *ph_command_find(const char *name);
size_t            ph_command_count(void);
const ph_command *ph_command_at(size_t i);

/* Parse, and print help when it is asked for: then *is_over is 1 and the command returns PH_OK. */
ph_rc ph_command_options(const ph_command *self, ph_options *o, int argc, char **argv, int *is_over,
                         ph_err *err);

/* ---- models and sessions ---- */
typedef struct ph_cli {
    /* what options set */
    const char        *model, *mmproj, *template_path, *engine, *alpha, *kv, *unfuse;
    ph_texts           images;
    ph_session_options session;
    ph_sampling        sampling;
    uint64_t           max_pixels;
    int                video_frames; /* at most; 0: the model's own; so below */
    double             video_fps;
    int                video_seconds; /* 0: the defaults of video/video.h; so below */
    uint64_t           video_memory;
    uint64_t           video_pixels; /* of the frames that are held, of all videos */
    const atomic_int  *cancel;       /* of the command, or NULL */
    int                is_json, is_quiet;
    int                is_locked, is_read_whole, reads_no_ahead; /* --mlock --no-mmap --no-read-ahead */
    int                is_trusted;                               /* --trust */
    int                is_judged;     /* session.memory_max also judges the plan: inspect */
    int                is_shown_only; /* the command runs no model: such options count for plans only */
    int                inject;        /* a layer of the decoder; -1: nothing is injected */
    double             inject_alpha;
    const char        *inject_share; /* as it was given; or NULL */
    const char        *system;
    /* what open makes of them */
    ph_log       log;
    ph_model    *opened;
    ph_session  *running;
    ph_file      image_file[PH_TEXTS_MAX];
    ph_picture   picture[PH_TEXTS_MAX];
    char         path[4096];
    int          is_built_in; /* path is of the model that comes with the program */
    ph_cli_parts engines;
    char        *template_text;
} ph_cli;

/* Option groups that fill a ph_cli; rows of static storage duration inside `rows` of at least 16. */
enum { PH_CLI_ROWS_MAX = 24 };
void ph_cli_init(ph_cli *c);
void ph_cli_leave_out(ph_option *rows, const char *name); /* of rows that a command has another use for */
void ph_cli_copy_rows(ph_option *to, const ph_option *from, size_t n); /* and the end row behind them */
void ph_cli_model_options(ph_cli   *c,
                          ph_option rows[PH_CLI_ROWS_MAX]); /* -m --mmproj --chat-template --json ... */
void ph_cli_session_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]); /* -t -c --engine --alpha ... */
void ph_cli_sampling_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]);
void ph_cli_inject_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]); /* --inject --inject-alpha */
#define PH_CLI_ALPHA_HELP "alpha, how much of them (0.3); -10000 to 10000"
/* --inject-alpha as it was given (NULL: not).  Errors: PH_EUSAGE no layer (below 0), no number of the range.
 */
ph_rc ph_cli_inject_alpha(const char *text, int layer, double *out, ph_err *err);
int   ph_real_parse(const char *text, double *out); /* 0: it is no number, and nothing else */

void ph_cli_video_options(ph_cli *c, ph_option rows[PH_CLI_ROWS_MAX]);

/* What the options of a model say, once they are read. */
ph_model_options ph_cli_model_how(const ph_cli *c);
ph_rc            ph_cli_open_model(ph_cli *c, ph_err *err); /* -m, or the built-in model */
ph_rc            ph_cli_settle(ph_cli *c, ph_err *err);     /* read the words of --engine, --alpha, --kv */
/* "ort", "vision=ort,language=native": parts that are not named are ""; one name for all leaves out bridge
 * and embed, which go with vision and language unless they are named.  Errors: PH_EUSAGE no such part, none
 * or two names for one. */
ph_rc ph_cli_engine_parts(const char *text, ph_cli_parts *out, ph_err *err);
ph_rc ph_cli_open_session(ph_cli *c, ph_err *err); /* of the opened model, once settled */
ph_rc ph_cli_open_images(ph_cli *c, ph_err *err);  /* map the files of --image */
void  ph_cli_close(ph_cli *c);

ph_rc ph_cli_check_video(const ph_cli *c, ph_err *err); /* PH_EUSAGE: no such rate of frames */
/* The frames of a video file that the opened model takes; owned.  Errors: PH_EUNSUP it takes none; PH_ELIMIT
 * they and those of the videos that are held already are more than PH_VIDEO_PIXELS_MAX pixels. */
ph_rc   ph_cli_read_video(ph_cli *c, const char *path, ph_video **out, ph_err *err);
void    ph_cli_free_video(ph_cli *c, ph_video *v); /* or NULL */
json_t *ph_cli_decoder_json(const ph_cli *c);      /* the limits of the process that decodes videos */
/* They as pictures of a question, out [v->n_frames]; borrowed. */
void ph_cli_video_pictures(const ph_video *v, const char *name, ph_picture *out);

/* What this program knows, from its tables: families, types, tokenizers, chat forms, pictures, sound,
 * engines, instruction sets.  Errors: PH_EUSAGE, PH_EMACHINE of PINHOLE_ISA. */
ph_rc ph_cli_known(int is_json, ph_err *err);

/* Engines, execution providers and plug-ins, which are here, and why others are not.  Errors: PH_EUSAGE,
 * PH_EMACHINE of PINHOLE_ISA; what is absent is no error. */
ph_rc ph_cli_engines(int is_json, const ph_plugins *plugins, ph_err *err);

/* --plugin (cli_plugin.c), of the commands that read ONNX models: a group of one row, what it names loaded,
 * and unloaded after the last graph.  Errors: those of ph_plugins_open. */
typedef struct ph_cli_plugins {
    ph_texts   path;
    ph_plugins opened;
} ph_cli_plugins;
void  ph_cli_plugin_option(ph_cli_plugins *p, ph_option rows[2]);
ph_rc ph_cli_plugins_open(ph_cli_plugins *p, ph_err *err);
void  ph_cli_plugins_close(ph_cli_plugins *p); /* accepts one that nothing was loaded into */
/* A listing of them, as one array; as text. */
json_t *ph_cli_plugins_json(const ph_plugins *p);
void    ph_cli_print_plugins(const json_t *plugins);

/* `inspect` of an ONNX file (cli_onnx.c). */
typedef struct ph_cli_onnx {
    const char        *path, *axes; /* "batch=4,sequence=16" or NULL */
    uint64_t           budget;      /* 0: none */
    int                is_json, is_graph, threads;
    const ph_user_ops *user; /* of plug-ins; or NULL */
} ph_cli_onnx;
int   ph_cli_is_onnx(const char *path); /* by content, or by the name of a file that is damaged */
ph_rc ph_cli_inspect_onnx(const ph_cli_onnx *how, ph_err *err);

/* A graph as SVG on standard output, by Graphviz's dot.  Errors: PH_EMACHINE it is not here, or failed. */
ph_rc ph_cli_draw(const ph_graph *g, ph_err *err);

/* --image-size: "1024x768", 1 to most each.  Errors: PH_EUSAGE anything else. */
ph_rc ph_cli_read_image_size(const char *text, int most, int *width, int *height, ph_err *err);

/* ---- output ---- */
/* To standard error: the cause, then what was being done, innermost first. */
void ph_cli_complain(const char *command, const ph_err *err);
/* Text of a file as a terminal may be given it (printable.h), in out, which is returned. */
enum { PH_CLI_SHOWN = 320 };
const char *ph_cli_shown(char out[PH_CLI_SHOWN], const char *text);
void        ph_cli_print_opsets(const ph_onnx *m); /* a line of a listing */
/* Bytes to standard output, at once and whole: a signal that is caught ends stdio's writing in the middle
 * where a reader is slow, and what it held is lost.  Not 0: they cannot be written. */
int  ph_cli_put(const char *bytes, size_t n);
void ph_cli_write(void *to, const char *text, size_t n); /* a ph_write_fn: to a FILE */
int  ph_cli_print_json(json_t *object);                  /* one line, put; takes the reference */
/* A listing as one object, or by `text`; takes the reference. */
void ph_cli_print_list(json_t *object, int is_json, void (*text)(json_t *object));
/* Where parts run, and why, a line each, once --engine was given; but those that a route told of, or NULL
 * (cli_route.c). */
void ph_cli_print_places(FILE *to, const ph_cli *c, const ph_place *p, size_t n, const ph_route *told);
/* Where the router put each part, and why. */
json_t *ph_cli_route_json(const ph_route *r);
void    ph_cli_print_route(FILE *to, const ph_route *r);
json_t *ph_cli_memory_json(const ph_memory *m);
/* "  weights        14.50 MB   about it" */
void ph_cli_print_size(const char *what, size_t n, const char *about);
/* Does it fit a budget?  0: there is none.  Says so on standard output unless is_json.  Errors: PH_EVERDICT
 * it does not. */
ph_rc   ph_cli_judge_size(uint64_t total, uint64_t budget, int is_json, ph_err *err);
json_t *ph_cli_text_json(const char *bytes, size_t n); /* bytes that are no UTF-8 become U+FFFD */
/* A member whose key may be a stranger's bytes; takes the reference of value. */
void ph_cli_set_json(json_t *object, const char *key, json_t *value);

#endif
