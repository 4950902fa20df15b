/* model.h - a checkpoint made ready: config understood, graphs built and checked, tokenizer and template
 * open.
 *
 * Opening maps the weights and reads none of them, unless the options say so; those of a bundle are read
 * once, to hold them against its seal.  Everything here is const afterwards and shared by all sessions.
 */
#ifndef PH_MODEL_MODEL_H
#define PH_MODEL_MODEL_H

#include "audio/audio_recipe.h"
#include "graph/kv.h"
#include "image/recipe.h"
#include "model/family.h"
#include "text/chat.h"
#include "text/tokenizer.h"

typedef struct ph_model {
    ph_source        source;
    const ph_family *family;      /* the vision-language family, or the text family */
    const ph_family *text_family; /* of the decoder; the same for a text model */
    ph_spec          spec;
    ph_graph        *language; /* owned; so below */
    ph_graph        *vision;   /* NULL: a text model; so below */
    ph_graph        *bridge;
    ph_graph        *cross; /* NULL: pictures stand among the rows */
    ph_tokenizer    *tokenizer;
    ph_arena         chat_arena;
    ph_jinja        *chat;                /* the compiled template; in chat_arena; NULL: a dual encoder */
    const char      *bos_text, *eos_text; /* as templates print them; NULL: none */
    ph_recipe        recipe;              /* how its trainer prepared pictures; vision models */
    ph_recipe        video_recipe;        /* and frames of videos; kind NULL: it takes none */
    ph_audio_recipe  audio_recipe;        /* and sound; processor NULL: it takes none */
    int32_t          start[8];            /* [n_start] ids that open a prompt where none is given */
    size_t           n_start;
    ph_kv_layer     *kv_layer; /* [spec.text.n_layers] */
    int              n_kv_layers;
    ph_kv_layer     *cross_layer; /* [n_cross_layers] of the cache that the cross graph fills */
    int              n_cross_layers;
    int              has_orphans;     /* the tokenizer knows ids beyond the embedding table */
    size_t           tokenizer_bytes; /* tables that stay */
    size_t           resident_bytes;  /* of the process once the model is open: libraries, tables, headers */
    size_t           whole_bytes; /* of the weights' files, held in memory from the start; 0: as touched */
    const char      *passes_off;  /* of the options, while it is opened */
    struct ph_ahead *ahead;       /* reads them before they are used; or NULL */
    size_t load_peak_bytes; /* the most that was resident while opening; 0: no more than there was before */
} ph_model;

typedef struct ph_model_options {
    const char *mmproj;        /* the vision part of a GGUF model; NULL: none */
    const char *template_;     /* a chat template to use instead of the checkpoint's: its text; NULL: none */
    int         is_read_whole; /* weights are read into memory of our own instead of being mapped */
    int         is_locked;     /* and may not leave it (mlock) */
    int         reads_ahead;   /* mapped weights are asked for in the order of their use, by a thread */
    int         is_plan_only;  /* nothing will run: none of that is done, plans are as if it were */
    int         is_trusted;    /* of a bundle only size and head are held against its seal, not the data */
    const char *passes_off; /* names of passes (graph/pass.def) that are left out of its graphs; NULL: none */
    int         injects;    /* 1: ph_model_inject with these, once the graphs are built */
    int         inject_layer;
    double      inject_alpha;
} ph_model_options;

/* Errors: those of the readers, of ph_bundle_check, ph_model_inject and ph_model_reside; PH_EUNSUP an unknown
 * family (lists the known); PH_EMISMATCH config against weights, naming the tensor and both shapes. */
ph_rc ph_model_open(ph_model **m, const char *path, const ph_model_options *options, ph_err *err);
void  ph_model_close(ph_model *m);
/* The tokenizer of a checkpoint's own files, made anew even where a bundle has it ready-made. */
ph_rc ph_source_tokenizer(ph_tokenizer **out, const ph_source *s, ph_err *err);

/* Messages through the template: spans in arena. */
ph_rc ph_model_render(const ph_model *m, const ph_chat_message *messages, size_t n, ph_arena *arena,
                      ph_chat_text *out, ph_err *err);

/* The model's recipe for pictures that take min .. max visual tokens each; 0: as its trainer had it.  Videos
 * keep their own.  Errors: PH_EUSAGE it cannot be held to that, with the range that is permitted. */
ph_rc ph_model_budget(const ph_model *m, int min, int max, ph_recipe *out, ph_err *err);

/* Pooled features are added to what layer `layer` of the decoder reads (graph/inject.h), before anything is
 * made of the language graph.  Errors: PH_EUSAGE no such layer, with those that there are; a model without
 * pictures. */
ph_rc ph_model_inject(ph_model *m, int layer, double alpha, ph_err *err);

int ph_model_is_stop(const ph_model *m, int32_t id);

#endif
