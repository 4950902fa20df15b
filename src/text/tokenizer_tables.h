/* tokenizer_tables.h - what an open tokenizer is made of; for the files of this room only.
 *
 *     text ─ added tokens ─ normalizers ─ splits ─ model ─ ids       (encode.c)
 *     ids ─ pieces ─ decoders ─ text                                 (decode.c)
 *
 * Every reader (tokjson.c, tokspm.c, tokggml.c) fills a ph_tok_build; ph_tok_freeze
 * copies it into one arena of exactly known size.  After that nothing changes, so any number of
 * threads may encode and decode with one tokenizer.
 *
 * The order of steps and their edge cases are those of Hugging Face tokenizers 0.22
 * (tokenizer.json is its format) and, for .model files, of SentencePiece 0.2.
 */
#ifndef PH_TEXT_TOKENIZER_TABLES_H
#define PH_TEXT_TOKENIZER_TABLES_H

#include "base/arena.h"
#include "text/automaton.h"
#include "text/bytebuf.h"
#include "text/pattern.h"
#include "text/tokenizer.h"

enum {
    PH_TOK_OPS_MAX = 16,        /* normalizers, splits or decoders of one tokenizer, sequences flattened */
    PH_TOK_WRAP_MAX = 8,        /* ids that the post-processor puts before, and after, a text */
    PH_TOK_IDS_MAX = 1 << 24,   /* ids are below this */
    PH_TOK_PIECE_MAX = 1 << 16, /* bytes of one piece */
    PH_TOK_AFFIX_MAX = 64       /* bytes of what a word's pieces are spelled with: "##", "</w>" */
};

/* Facts of an id. */
enum {
    PH_TOK_PRESENT = 1,     /* not a hole */
    PH_TOK_MODEL = 2,       /* the model (BPE, ...) may produce it */
    PH_TOK_ADDED = 4,       /* matched in the text before the model sees it */
    PH_TOK_CONTROL = 8,     /* "special": only trusted text may produce it; left out by skip_special */
    PH_TOK_NORMALIZED = 16, /* matched in normalized text */
    PH_TOK_LSTRIP = 32,     /* a match takes the white space on its left too */
    PH_TOK_RSTRIP = 64,
    PH_TOK_SINGLE = 128, /* matches only between non-word characters */
    PH_TOK_UNUSED = 256, /* SentencePiece: never an output, only a step between merges */
    PH_TOK_BYTE = 512,   /* SentencePiece: stands for a byte, its spelling is never matched */
    PH_TOK_FACTS = 1023  /* all of them */
};

typedef struct ph_merge {
    int32_t left, right, id; /* ids: left and right become id; the index is the rank */
} ph_merge;

typedef struct ph_added_row {
    ph_span_of text; /* what to match: the piece, or its normalized form */
    int32_t    id;
    uint32_t   plain; /* index + 1 of the longest row that is no control token and begins this one; 0: none */
} ph_added_row;

typedef struct ph_added_set {
    ph_added_row *row; /* [n], sorted by text */
    uint32_t      n;
    ph_automaton  find; /* over the rows' texts, fed from the end; ill-formed UTF-8 is not in it */
} ph_added_set;

typedef enum ph_op_kind {
    /* normalizers */
    PH_OP_NFC,
    PH_OP_NFD,
    PH_OP_NFKC,
    PH_OP_NFKD,
    PH_OP_LOWER,
    PH_OP_PREPEND, /* a */
    PH_OP_REPLACE, /* pattern -> b; also a decoder (a: the fixed string) */
    PH_OP_STRIP,   /* start, stop: sides; as a decoder: at most so many times a */
    PH_OP_STRIP_ACCENTS,
    PH_OP_NMT,
    PH_OP_BERT,     /* flag: 1 clean, 2 CJK, 4 accents, 8 lower */
    PH_OP_CHARSMAP, /* a: a SentencePiece precompiled map; flag: by prefixes */
    PH_OP_SQUEEZE,  /* SentencePiece: no space at the ends, one inside */
    /* splits */
    PH_OP_SPLIT,        /* pattern, behavior, invert; b: the expression's text, a: a fixed string's */
    PH_OP_PREFIX_SPACE, /* a: put before a piece that does not begin with it */
    PH_OP_METASPACE,    /* a: what a space becomes; flag: 0 never, 1 first, 2 always; also a decoder */
    PH_OP_BYTES,        /* each byte becomes the character that stands for it; also normalizer and decoder */
    /* decoders */
    PH_OP_BYTE_FALLBACK,
    PH_OP_FUSE,
    PH_OP_WORDPIECE,  /* a: prefix; flag: clean up */
    PH_OP_BPE_SUFFIX, /* a: suffix */
    PH_OP_TRIM,       /* white space off both ends of the whole text */
} ph_op_kind;

typedef enum ph_behavior {
    PH_SPLIT_REMOVED,
    PH_SPLIT_ISOLATED,
    PH_SPLIT_PREVIOUS,
    PH_SPLIT_NEXT,
    PH_SPLIT_CONTIGUOUS
} ph_behavior;

typedef struct ph_text_op {
    ph_op_kind  kind;
    ph_behavior behavior;
    int         invert, flag;
    uint32_t    start, stop;
    ph_span_of  a, b;
    ph_pattern  pattern; /* owned */
    ph_span_of  source; /* what pattern was compiled from: an expression, or with is_literal a fixed string */
    int         is_literal;
} ph_text_op;

typedef struct ph_text_model ph_text_model; /* below: one file a kind, model.def */

struct ph_tokenizer {
    ph_arena arena; /* everything below that is a pointer, patterns apart, or what `mapped` counts */
    size_t   pattern_bytes;
    size_t   mapped; /* bytes of ready-made tables that are used where they stand (tokimage.h) */

    const uint8_t    *blob; /* [n_blob] all strings, back to back */
    uint32_t          n_blob;
    const ph_span_of *piece; /* [n_ids] */
    const uint16_t   *flags; /* [n_ids] */
    const double     *score; /* [n_ids] or NULL */
    uint32_t          n_ids;
    uint32_t          n_model; /* ids with PH_TOK_MODEL */
    const uint32_t   *slots;   /* [n_slots] hash of model pieces: id + 1; 0 empty */
    uint32_t          n_slots;
    ph_added_set      raw, norm;   /* added tokens that are matched before, and after normalizing */
    ph_added_set      spelled;     /* those of norm that are control tokens, by their own spelling */
    const ph_merge   *merges;      /* [n_merges] */
    const uint32_t   *merge_slots; /* [n_merge_slots]: index + 1; 0 empty */
    uint32_t          n_merges, n_merge_slots;
    const uint32_t   *sorted; /* [n_model] ids by piece; NULL unless the model asks */
    ph_automaton      pieces; /* over the pieces that the model may find, by id; empty unless it asks */
    const uint32_t   *rank;   /* [n_ids] for merges by score: 0 best; NULL otherwise */

    const ph_text_model *model;
    int32_t              byte_id[256];  /* "<0x00>" ..., -1 where there is none */
    int32_t              glyph_id[512]; /* the piece of one character below U+0200, -1 */
    int32_t              unk_id;        /* the model's; -1: none */
    int                  fuse_unk, byte_fallback, ignore_merges;
    int                  user_in_model; /* user-defined pieces are found by the model too (SentencePiece) */
    ph_span_of           inner_prefix, end_suffix;
    uint32_t             word_chars_max; /* WordPiece */
    double               unk_score;      /* Unigram */

    ph_text_op norm_op[PH_TOK_OPS_MAX], split_op[PH_TOK_OPS_MAX], decode_op[PH_TOK_OPS_MAX];
    int        n_norm_op, n_split_op, n_decode_op;
    int        has_decoder; /* 0: pieces are joined by spaces, as Hugging Face does */
    int        clean_up;    /* clean_up_tokenization_spaces */

    int32_t before[PH_TOK_WRAP_MAX], after[PH_TOK_WRAP_MAX]; /* ids around a text */
    int     n_before, n_after;
    int32_t bos, eos, unk, pad; /* -1: none */
    char    name[64];           /* the file, for messages */
};

static inline const uint8_t *ph_tok_text(const ph_tokenizer *t, ph_span_of s) {
    return t->blob + s.at;
}

/* --- lookups (toktables.c) --- */
int32_t ph_tok_find(const ph_tokenizer *t, const uint8_t *piece, size_t n); /* in the model; -1 */
int32_t ph_tok_find_hashed(const ph_tokenizer *t, uint32_t hash, const uint8_t *piece, size_t n);
int32_t ph_tok_merge(const ph_tokenizer *t, int32_t left, int32_t right, uint32_t *rank); /* -1: no merge */
/* Narrow [*lo, *hi) of t->sorted to pieces whose byte at `depth` is c; bytes before agree already. */
void ph_tok_narrow(const ph_tokenizer *t, uint32_t *lo, uint32_t *hi, size_t depth, uint8_t c);

/* --- added tokens in a text (tokmatch.c) --- */
typedef struct ph_trust_run { /* bytes from the run before up to `end`, at least one, have this trust */
    size_t end;
    int    is_trusted;
} ph_trust_run;
typedef struct ph_tok_place {
    size_t   at;
    uint32_t row; /* of the set */
} ph_tok_place;
typedef struct ph_tok_places { /* zeroed before first use; owned */
    ph_tok_place *place;       /* [n] from the end of the text to its front */
    size_t        n, cap;
    uint64_t      moves; /* of the automaton, in all: what tests count */
} ph_tok_places;
/* For each place of text[begin, end), VALID UTF-8, the longest row that stands there; control tokens only
 * where one trusted run holds them.  runs cover the text; out is written anew. */
ph_rc ph_tok_find_added(const ph_added_set *set, const uint8_t *text, size_t begin, size_t end,
                        const ph_trust_run *runs, size_t n_runs, ph_tok_places *out, ph_err *err);
/* Take the first place at or behind `from`, and forget those before it.  0: there is none. */
int  ph_tok_next_place(ph_tok_places *p, size_t from, ph_tok_place *out);
void ph_tok_places_close(ph_tok_places *p); /* accepts a zeroed one */

/* --- building (tokbuild.c, tokfreeze.c) --- */
typedef struct ph_build_piece {
    ph_span_of text;
    double     score;
    uint16_t   flags;
} ph_build_piece;

typedef struct ph_tok_build {
    ph_tokenizer   *t; /* owned until frozen; operations and parameters are written here directly */
    ph_bytes        blob;
    ph_build_piece *piece; /* [n_piece], by id */
    size_t          n_piece, piece_cap;
    ph_merge       *merge; /* [n_merge] */
    size_t          n_merge, merge_cap;
    uint32_t       *slots; /* of model pieces, while building */
    uint32_t        n_slots;
    size_t          n_expected; /* pieces the file lists: bounds the holes that ids may leave */
    int             by_score, need_score, need_sorted, need_pieces;
    const char     *where; /* file name for messages; lives as long as the build */
} ph_tok_build;

ph_rc ph_build_open(ph_tok_build *b, const char *where, ph_err *err);
void  ph_build_close(ph_tok_build *b);
ph_rc ph_build_text(ph_tok_build *b, const void *text, size_t n, ph_span_of *out, ph_err *err);
int   ph_build_is_text(const ph_tok_build *b, ph_span_of s, const void *text, size_t n);
/* Give id its piece.  The same piece for the same id again only adds flags.
 * Errors: PH_EFORMAT two pieces for one id, id out of range; PH_ELIMIT piece too long. */
ph_rc   ph_build_piece_put(ph_tok_build *b, int64_t id, const void *piece, size_t n, double score,
                           unsigned flags, ph_err *err);
ph_rc   ph_build_index(ph_tok_build *b, ph_err *err); /* once the model's pieces are in */
int32_t ph_build_find(const ph_tok_build *b, const void *piece,
                      size_t n); /* among the model's; needs the index */
int32_t ph_build_find_any(const ph_tok_build *b, const void *piece, size_t n); /* added tokens first */
/* An added token: under the model's id of that piece, else under *id, else (NULL: the file gives none) under
 * a new one at the end.  Errors: PH_EFORMAT *id is negative; those of ph_build_piece_put. */
ph_rc ph_build_added(ph_tok_build *b, const int64_t *id, const void *piece, size_t n, unsigned flags,
                     ph_err *err);
/* The merge "left right"; index is its rank.  Errors: PH_EFORMAT a piece that is not in the vocabulary. */
ph_rc ph_build_merge(ph_tok_build *b, const char *left, size_t n_left, const char *right, size_t n_right,
                     ph_err *err);
/* Compile blob[source] as op's pattern. */
ph_rc ph_build_pattern(ph_tok_build *b, ph_text_op *op, ph_span_of source, int is_literal, ph_err *err);
ph_rc ph_build_op(ph_tok_build *b, ph_text_op *list, int *n_list, ph_text_op **out, ph_err *err);
ph_rc ph_build_split(ph_tok_build *b, const char *regex, ph_behavior behavior, int invert, ph_err *err);
ph_rc ph_build_bytelevel(ph_tok_build *b, int use_regex, ph_err *err); /* the GPT-2 split, then bytes */
/* The operations that every SentencePiece model shares.  prefix: a dummy space goes in front of a text;
 * only_first: of the very first, not after each control token. */
ph_rc ph_build_sentencepiece(ph_tok_build *b, int prefix, int only_first, ph_err *err);
ph_rc ph_build_replace(ph_tok_build *b, ph_text_op *list, int *n_list, const char *from, const char *to,
                       ph_err *err);
/* Copy everything into the tokenizer's arena; b gives the tokenizer away and may be closed. */
ph_rc             ph_tok_freeze(ph_tok_build *b, ph_tokenizer **out, ph_err *err);
extern const char ph_gpt2_split[];

/* --- sets of added tokens (tokadded.c) --- */
/* The automaton over rows that stand in order, on the heap, and each row's `plain`: before, it is 0 for a
 * control token and anything else for another. */
ph_rc ph_added_link(ph_added_set *set, const uint8_t *blob, const char *where, ph_err *err);
/* The same set in an arena (a ruler: only counted).  `to` is not closed. */
ph_rc ph_added_carve(ph_added_set *to, const ph_added_set *from, ph_arena *arena, ph_err *err);
void  ph_added_close(ph_added_set *set); /* one on the heap; accepts a zeroed one */
/* Text in the order of its bytes, as memcmp. */
int ph_tok_order(const uint8_t *blob, ph_span_of a, ph_span_of b);

/* --- readers: each fills an open build --- */
ph_rc ph_tokjson_read(ph_tok_build *b, const ph_tokenizer_files *f, ph_err *err);
ph_rc ph_tokfiles_read(ph_tok_build *b, const ph_tokenizer_files *f,
                       ph_err *err); /* vocab.json + merges.txt */
ph_rc ph_tokspm_read(ph_tok_build *b, const ph_tokenizer_files *f, ph_err *err);
/* tokenizer_config.json and its companions over what a reader found (tokconfig.c). */
typedef struct ph_tok_config {
    char class_name[48];                             /* tokenizer_class without "Fast"; "" unknown */
    char token[4][128];                              /* bos, eos, unk, pad as text; "" none */
    int  add_bos, add_eos, add_prefix_space, legacy; /* -1: not said */
} ph_tok_config;
ph_rc ph_tokconfig_read(ph_tok_config *c, const ph_tokenizer_files *f, ph_err *err);
ph_rc ph_tokconfig_apply(ph_tok_build *b, const ph_tok_config *c, const ph_tokenizer_files *f, ph_err *err);
ph_rc ph_build_wrap(ph_tok_build *b, int32_t before, int32_t after, ph_err *err); /* outermost; -1: nothing */

/* --- the text pipeline --- */
/* Apply ops to *text in place, by way of *spare.  *lead_lost is set when bytes at the front vanished. */
ph_rc ph_normalize(const ph_tokenizer *t, ph_bytes *text, ph_bytes *spare, int *lead_lost, ph_err *err);

typedef struct ph_cut { /* one piece of text between splits */
    size_t begin, n;
    int    is_first; /* it begins where the whole text begins */
} ph_cut;
typedef struct ph_cuts {
    ph_bytes text;
    ph_cut  *at; /* [n], owned */
    size_t   n, cap;
} ph_cuts;
/* Split c->text (one cut covers it) by t's split operations; spare is scratch. */
ph_rc    ph_pretokenize(const ph_tokenizer *t, ph_cuts *c, ph_cuts *spare, ph_err *err);
void     ph_cuts_close(ph_cuts *c);
uint32_t ph_byte_glyph(uint8_t byte);        /* GPT-2's printable character for a byte */
int      ph_glyph_byte(uint32_t code_point); /* -1: not one of them */
/* SentencePiece's character map.  Errors: PH_EFORMAT its trie does not fit it. */
ph_rc ph_precompiled_check(const uint8_t *map, size_t n_map, const char *where, ph_err *err);
/* A checked map over in.  is_prefixes: by longest keys, as the sentencepiece library; else by clusters, as
 * tokenizer.json's users. */
ph_rc ph_precompiled_map(const uint8_t *map, size_t n_map, const uint8_t *in, size_t n, int is_prefixes,
                         ph_bytes *out, ph_err *err);

/* --- models (model.def) --- */
enum { PH_SCRATCHES = 5 };
typedef struct ph_model_scratch { /* zeroed before first use; owned */
    void    *at[PH_SCRATCHES];
    size_t   cap[PH_SCRATCHES];
    ph_bytes text;
    uint64_t work; /* bytes compared and hashed, moves made: what tests count */
} ph_model_scratch;
void ph_model_scratch_close(ph_model_scratch *s);

struct ph_text_model {
    const char *name; /* as in tokenizer.json's model.type */
    /* word[n], n >= 1, to ids.  is_guarded: no control token may come out. */
    ph_rc (*encode)(const ph_tokenizer *t, const uint8_t *word, size_t n, int is_guarded,
                    ph_model_scratch *scratch, ph_ids *out, ph_err *err);
    int needs_merges, needs_scores; /* pairs that merge; a score for each piece */
    int needs_sorted;               /* ph_tokenizer's sorted */
    int needs_pieces; /* its pieces: 1 fed forward; 2 backward, those inside a word, without their prefix */
};
#define PH_TEXT_MODEL(name) extern const ph_text_model ph_text_model_##name;
#include "text/model.def"
#undef PH_TEXT_MODEL
const ph_text_model *ph_text_model_find(const char *name); /* NULL: unknown */

#endif
