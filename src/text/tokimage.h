/* tokimage.h - a tokenizer's tables ready-made: bytes that are used where they stand, in a mapped file.
 *
 *     head     magic, version, order of bytes, size; counts, parameters, operations with their patterns' text
 *     tables   each on 64 bytes, in the order of tokimage.def; where each stands follows from the counts
 *
 * What is made anew at opening is little: patterns are compiled, and added tokens get their automata
 * (tokadded.c).  An image of another version or order of bytes is left alone, and its reader goes back to the
 * files that it was made of.  A change of the head, of tokimage.def, of tokhash.h, or of what any reader
 * makes of the same files needs a new version.
 *
 * Nobody need have made an image in good faith.  What is checked (tokimage_check.c) is that a wrong one does
 * no harm: no access outside, no walk without end or out of proportion.  That its ids are right is for
 * whoever holds its bytes against a checksum.
 */
#ifndef PH_TEXT_TOKIMAGE_H
#define PH_TEXT_TOKIMAGE_H

#include "text/tokenizer_tables.h"

#define PH_TOKIMAGE_MAGIC "PHTOKENS"

enum { PH_TOKIMAGE_VERSION = 1, PH_TOKIMAGE_ORDER = 0x01020304, PH_TOKIMAGE_NAME = 32 };

typedef enum ph_tokimage_list { PH_TOKIMAGE_NORM, PH_TOKIMAGE_SPLIT, PH_TOKIMAGE_DECODE } ph_tokimage_list;
enum { PH_TOKIMAGE_LISTS = 3 };

typedef struct ph_tokimage_op {
    uint32_t   kind, behavior;
    int32_t    invert, flag;
    uint32_t   start, stop;
    uint32_t   pattern; /* 0: none; 1: an expression; 2: a fixed string */
    ph_span_of source, a, b;
} ph_tokimage_op;

typedef struct ph_tokimage_row { /* of added tokens; sets in the order raw, norm, spelled */
    ph_span_of text;
    int32_t    id;
} ph_tokimage_row;

typedef struct ph_tokimage_head {
    char           magic[8];
    uint32_t       version, order; /* order: PH_TOKIMAGE_ORDER as the machine has it that made it */
    uint64_t       n_bytes;        /* of the image, a multiple of 64 */
    double         unk_score;
    char           model[PH_TOKIMAGE_NAME]; /* ends in NUL */
    uint32_t       n_blob, n_ids, n_model, n_score, n_slots, n_merges, n_merge_slots, n_sorted, n_rank;
    uint32_t       n_nodes, n_edges, n_texts, n_row[3];
    uint32_t       word_chars_max;
    ph_span_of     inner_prefix, end_suffix;
    int32_t        unk_id, bos, eos, unk, pad;
    int32_t        fuse_unk, byte_fallback, ignore_merges, user_in_model, has_decoder, clean_up;
    uint32_t       n_before, n_after;
    int32_t        before[PH_TOK_WRAP_MAX], after[PH_TOK_WRAP_MAX];
    uint32_t       n_op[PH_TOKIMAGE_LISTS];
    ph_tokimage_op op[PH_TOKIMAGE_LISTS][PH_TOK_OPS_MAX];
    int32_t        byte_id[256], glyph_id[512];
} ph_tokimage_head;

typedef enum ph_tokimage_table {
#define PH_TOKIMAGE_TABLE(name, type, count) PH_TOKIMAGE_##name,
#include "text/tokimage.def"
#undef PH_TOKIMAGE_TABLE
    PH_TOKIMAGE_TABLES
} ph_tokimage_table;

typedef struct ph_tokimage { /* an image, or the plan of one */
    const ph_tokimage_head *head;
    const uint8_t          *bytes;
    uint64_t                at[PH_TOKIMAGE_TABLES]; /* where each table begins */
    uint64_t                n[PH_TOKIMAGE_TABLES];  /* bytes of each */
    uint64_t                n_bytes;                /* of the whole, by the counts */
} ph_tokimage;

/* Where the tables stand, by the counts of head: whatever these say, nothing overflows. */
ph_tokimage ph_tokimage_lay(const ph_tokimage_head *head);
/* Table `which`; NULL when it is empty. */
const void *ph_tokimage_at(const ph_tokimage *m, ph_tokimage_table which);
/* Is a tokenizer with these tables harmless?  Sizes were compared.  Errors: PH_EFORMAT (says what), PH_ENOMEM
 * the scratch of the check. */
ph_rc ph_tokimage_check(const ph_tokimage *m, const char *where, ph_err *err);

/* Open the image bytes[n], which must live as long as the tokenizer and stand on 8 bytes; where begins
 * messages.  *out is NULL, with PH_OK, for an image that is not for this program or this machine: open the
 * plain files. Errors: PH_EFORMAT it contradicts itself; those of patterns; PH_ENOMEM. */
ph_rc ph_tokenizer_open_image(ph_tokenizer **out, const void *bytes, size_t n, const char *where,
                              ph_err *err);
/* The image of t: *bytes[*n], the caller's to free; NULL, with PH_OK, where the tables are beyond what the
 * check lets through.  Errors: PH_ENOMEM. */
ph_rc ph_tokenizer_to_image(const ph_tokenizer *t, uint8_t **bytes, size_t *n, ph_err *err);

#endif
