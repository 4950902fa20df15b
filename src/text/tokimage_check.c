/* tokimage_check.c - is a tokenizer with these tables harmless?  See tokimage.h.
 *
 * What the other files of this room rely on, table by table: indices within what they point to, a free slot
 * at the end of each walk through a hash table, texts that lie in the blob, an automaton that has read what
 * it says it found.  Time and scratch go with the image's size.
 *
 * The depth of a node is how many bytes led to it.  Where nodes have one parent each, before them, links lead
 * to less deep nodes and a hit is no longer than its node is deep, no walk ends outside the text.
 */
#include "text/tokimage.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUN_MAX = 1024,     /* taken slots in a row: a few dozen where the hash did its work */
    PARAM_MAX = 4096,   /* bytes of a text that an operation has */
    REPEATS_MAX = 1000, /* of what Strip strips; as tokjson_ops.c */
    WORD_CHARS_MAX = 100000,
    NO_CHILD = 256
};

typedef struct check {
    const ph_tokimage      *m;
    const ph_tokimage_head *h;
    const uint8_t          *blob;
    const ph_span_of       *piece;
    const uint16_t         *flags;
    const ph_text_model    *model;
    const char             *wrong; /* NULL: nothing so far */
} check;

/* 1: it holds; else what is wrong is kept. */
static int hold(check *c, int is_so, const char *what) {
    if (!is_so && !c->wrong) c->wrong = what;
    return is_so;
}

static int in_blob(const check *c, ph_span_of s) {
    return s.n <= c->h->n_blob && s.at <= c->h->n_blob - s.n;
}
static int is_text(const check *c, ph_span_of s, uint32_t most) {
    return in_blob(c, s) && s.n <= most && ph_utf8_is_valid(c->blob + s.at, s.n);
}
static int is_id(const check *c, int32_t id) {
    return id >= 0 && (uint32_t)id < c->h->n_ids;
}
static int is_id_or_none(const check *c, int32_t id) {
    return id == -1 || is_id(c, id);
}
static int is_power(uint32_t n) {
    return n && !(n & (n - 1));
}

/* ---- counts ---- */

static int counts(check *c) {
    const ph_tokimage_head *h = c->h;
    int n_texts = h->n_nodes ? (int)(h->n_texts == h->n_ids) : h->n_texts == 0 && h->n_edges == 0;
    if (!hold(c, memchr(h->model, 0, sizeof h->model) != NULL, "its model has no name")) return 0;
    c->model = ph_text_model_find(h->model);
    if (!hold(c, c->model != NULL, "its model is not known")) return 0;
    int by_score = c->model == &ph_text_model_spm;
    hold(c, h->n_blob && h->n_blob <= UINT32_MAX / 2, "the size of its texts");
    hold(c, h->n_ids && h->n_ids <= PH_TOK_IDS_MAX && h->n_model <= h->n_ids, "the count of ids");
    hold(c, h->n_score == (c->model->needs_scores && !by_score ? h->n_ids : 0), "the count of scores");
    hold(c, h->n_rank == (by_score ? h->n_ids : 0), "the count of ranks");
    hold(c, h->n_sorted == (c->model->needs_sorted ? h->n_model : 0), "the count of sorted pieces");
    hold(c, n_texts && (c->model->needs_pieces || !h->n_nodes), "the count of an automaton's texts");
    hold(c, is_power(h->n_slots) && (h->n_edges == 0 || is_power(h->n_edges)), "the size of a hash table");
    hold(c, h->n_merges ? is_power(h->n_merge_slots) : h->n_merge_slots == 0, "the size of a hash table");
    for (int k = 0; k < 3; k++) hold(c, h->n_row[k] <= h->n_ids, "the count of added tokens");
    return !c->wrong;
}

/* ---- pieces and hash tables ---- */

/* Texts do not share bytes, or a small file could be told to hold more text than there is memory. */
static int pieces(check *c) {
    uint64_t total = 0;
    uint32_t n_model = 0;
    int      fits = 1;
    for (uint32_t i = 0; i < c->h->n_ids; i++) {
        fits &= in_blob(c, c->piece[i]) && c->piece[i].n <= PH_TOK_PIECE_MAX;
        fits &= !(c->flags[i] & ~(unsigned)PH_TOK_FACTS);
        total += c->piece[i].n;
        n_model += (c->flags[i] & PH_TOK_MODEL) != 0;
    }
    hold(c, fits && total <= c->h->n_blob, "a piece outside its texts");
    return hold(c, n_model == c->h->n_model, "the count of the model's pieces") && !c->wrong;
}

/* Runs of taken slots, around the table's end too. */
typedef struct runs {
    uint32_t taken, run, first, longest; /* first: the run at the table's beginning */
    int      was_free;
} runs;

static void note(runs *r, int is_taken) {
    if (is_taken) {
        r->taken++;
        r->run++;
        if (!r->was_free) r->first = r->run;
        if (r->run > r->longest) r->longest = r->run;
    } else {
        r->run = 0;
        r->was_free = 1;
    }
}
static int are_short(const runs *r, uint32_t n) {
    return r->taken <= n / 2 && r->longest <= RUN_MAX && r->run + r->first <= RUN_MAX;
}

static void slots(check *c, ph_tokimage_table which, uint32_t n, uint32_t n_items) {
    const uint32_t *slot = ph_tokimage_at(c->m, which);
    runs            r = {0};
    int             fits = 1;
    for (uint32_t i = 0; i < n; i++) {
        fits &= slot[i] <= n_items;
        note(&r, slot[i] != 0);
    }
    hold(c, fits && are_short(&r, n), "a hash table");
}

static void merges(check *c) {
    const ph_merge *m = ph_tokimage_at(c->m, PH_TOKIMAGE_MERGES);
    int             fits = 1;
    for (uint32_t i = 0; i < c->h->n_merges; i++)
        fits &= is_id(c, m[i].left) && is_id(c, m[i].right) && is_id(c, m[i].id);
    hold(c, fits, "a merge of ids that are not there");
}

static void orders(check *c) {
    const uint32_t *sorted = ph_tokimage_at(c->m, PH_TOKIMAGE_SORTED);
    const double   *score = ph_tokimage_at(c->m, PH_TOKIMAGE_SCORE);
    int             fits = 1;
    for (uint32_t i = 0; i < c->h->n_sorted && fits; i++) {
        fits = sorted[i] < c->h->n_ids;
        if (fits && i) fits = ph_tok_order(c->blob, c->piece[sorted[i - 1]], c->piece[sorted[i]]) <= 0;
    }
    hold(c, fits, "pieces that are not in order");
    for (uint32_t i = 0; i < c->h->n_score; i++) fits &= score[i] == score[i];
    hold(c, fits && c->h->unk_score == c->h->unk_score, "a score that is no number");
}

/* ---- the automaton over pieces ---- */

/* Bytes of text k, counted from 1; 0: it may not be found. */
static uint32_t length_of(const check *c, uint32_t k) {
    uint32_t n = c->piece[k - 1].n, prefix = c->model->needs_pieces == 2 ? c->h->inner_prefix.n : 0;
    return n > prefix ? n - prefix : 0;
}

/* into[v]: the node that leads to v.  Each has one, before it. */
static int set_parent(uint32_t *into, uint32_t n, uint32_t from, uint32_t to) {
    if (to <= from || to >= n || into[to] != UINT32_MAX) return 0;
    into[to] = from;
    return 1;
}

static int parents(check *c, uint32_t *into) {
    const uint32_t     *root = ph_tokimage_at(c->m, PH_TOKIMAGE_ROOT);
    const uint16_t     *first = ph_tokimage_at(c->m, PH_TOKIMAGE_FIRST);
    const ph_trie_edge *edge = ph_tokimage_at(c->m, PH_TOKIMAGE_EDGES);
    uint32_t            n = c->h->n_nodes;
    runs                r = {0};
    int                 fits = 1;
    memset(into, 0xff, n * sizeof *into);
    for (int i = 0; i < 256; i++)
        if (root[i]) fits &= set_parent(into, n, 0, root[i]);
    for (uint32_t v = 1; v < n; v++)
        if (first[v] != NO_CHILD) fits &= set_parent(into, n, v, v + 1);
    for (uint32_t i = 0; i < c->h->n_edges; i++) {
        if (edge[i].to) fits &= edge[i].from && set_parent(into, n, edge[i].from, edge[i].to);
        note(&r, edge[i].to != 0);
    }
    for (uint32_t v = 1; v < n; v++) fits &= into[v] < v;
    return hold(c, fits && are_short(&r, c->h->n_edges), "an automaton's nodes");
}

static void automaton(check *c, uint32_t *depth) {
    const uint32_t *fail = ph_tokimage_at(c->m, PH_TOKIMAGE_FAIL),
                   *hit = ph_tokimage_at(c->m, PH_TOKIMAGE_HIT);
    const uint32_t *shorter = ph_tokimage_at(c->m, PH_TOKIMAGE_SHORTER);
    int             fits = 1;
    if (!parents(c, depth)) return;
    depth[0] = 0;
    for (uint32_t v = 1; v < c->h->n_nodes; v++) depth[v] = depth[depth[v]] + 1; /* parents stand before */
    fits &= fail[0] == 0 && hit[0] == 0;
    for (uint32_t v = 1; v < c->h->n_nodes; v++) {
        fits &= fail[v] < c->h->n_nodes && depth[fail[v]] < depth[v];
        if (!hit[v]) continue;
        fits &= hit[v] <= c->h->n_texts && length_of(c, hit[v]) > 0 && length_of(c, hit[v]) <= depth[v];
        if (!fits) break;
    }
    for (uint32_t k = 1; k <= c->h->n_texts && fits; k++)
        if (shorter[k - 1])
            fits = shorter[k - 1] <= c->h->n_texts && length_of(c, shorter[k - 1]) > 0 &&
                   length_of(c, shorter[k - 1]) < length_of(c, k);
    hold(c, fits, "an automaton's links");
}

/* ---- added tokens ---- */

static void rows(check *c) {
    const ph_tokimage_row *row = ph_tokimage_at(c->m, PH_TOKIMAGE_ROWS);
    int                    fits = 1;
    for (int k = 0; k < 3; k++) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < c->h->n_row[k] && fits; i++) {
            fits = is_id(c, row[i].id) && in_blob(c, row[i].text);
            total += row[i].text.n;
            if (!fits || !i) continue;
            int order = ph_tok_order(c->blob, row[i - 1].text, row[i].text);
            fits = order < 0 || (order == 0 && row[i - 1].id < row[i].id);
        }
        fits &= total <= c->h->n_blob;
        if (row) row += c->h->n_row[k];
    }
    hold(c, fits, "its added tokens");
}

/* ---- parameters and operations ---- */

static void params(check *c) {
    const ph_tokimage_head *h = c->h;
    int                     fits = 1;
    hold(c, is_text(c, h->inner_prefix, PH_TOK_AFFIX_MAX) && is_text(c, h->end_suffix, PH_TOK_AFFIX_MAX),
         "what its words' pieces are spelled with");
    hold(c, h->word_chars_max <= WORD_CHARS_MAX, "how long a word may be");
    hold(c, h->n_before <= PH_TOK_WRAP_MAX && h->n_after <= PH_TOK_WRAP_MAX, "the ids around a text");
    for (int i = 0; i < PH_TOK_WRAP_MAX; i++) {
        fits &= h->n_before <= (uint32_t)i || is_id(c, h->before[i]);
        fits &= h->n_after <= (uint32_t)i || is_id(c, h->after[i]);
    }
    for (int i = 0; i < 512; i++) fits &= is_id_or_none(c, h->glyph_id[i]);
    for (int i = 0; i < 256; i++) fits &= is_id_or_none(c, h->byte_id[i]);
    fits &= is_id_or_none(c, h->unk_id) && is_id_or_none(c, h->unk) && is_id_or_none(c, h->bos);
    fits &= is_id_or_none(c, h->eos) && is_id_or_none(c, h->pad);
    if (!hold(c, fits, "an id that is not there")) return;
    for (int i = 0; i < 256; i++) /* typed text becomes bytes */
        fits &= h->byte_id[i] < 0 || !(c->flags[h->byte_id[i]] & PH_TOK_CONTROL);
    hold(c, fits, "a byte that is a control token");
}

/* What stands in which list. */
#define OP(kind) (1u << (kind))
static const uint32_t allowed[PH_TOKIMAGE_LISTS] = {
    OP(PH_OP_NFC) | OP(PH_OP_NFD) | OP(PH_OP_NFKC) | OP(PH_OP_NFKD) | OP(PH_OP_LOWER) | OP(PH_OP_PREPEND) |
        OP(PH_OP_REPLACE) | OP(PH_OP_STRIP) | OP(PH_OP_STRIP_ACCENTS) | OP(PH_OP_NMT) | OP(PH_OP_BERT) |
        OP(PH_OP_CHARSMAP) | OP(PH_OP_SQUEEZE) | OP(PH_OP_BYTES),
    OP(PH_OP_SPLIT) | OP(PH_OP_PREFIX_SPACE) | OP(PH_OP_METASPACE) | OP(PH_OP_BYTES),
    OP(PH_OP_REPLACE) | OP(PH_OP_STRIP) | OP(PH_OP_METASPACE) | OP(PH_OP_BYTES) | OP(PH_OP_BYTE_FALLBACK) |
        OP(PH_OP_FUSE) | OP(PH_OP_WORDPIECE) | OP(PH_OP_BPE_SUFFIX) | OP(PH_OP_TRIM)};

static int op_fits(const check *c, ph_tokimage_list list, const ph_tokimage_op *op) {
    int is_map = op->kind == PH_OP_CHARSMAP;
    int searches = op->kind == PH_OP_SPLIT || (list == PH_TOKIMAGE_NORM && op->kind == PH_OP_REPLACE);
    int wants_a = list == PH_TOKIMAGE_DECODE && (op->kind == PH_OP_REPLACE || op->kind == PH_OP_STRIP);
    if (op->kind > PH_OP_TRIM || !(allowed[list] & OP(op->kind))) return 0;
    if (op->behavior > PH_SPLIT_CONTIGUOUS || op->start > REPEATS_MAX || op->stop > REPEATS_MAX) return 0;
    if (op->pattern > 2 || (searches && !op->pattern) || (wants_a && !op->a.n)) return 0;
    if (is_map ? !in_blob(c, op->a) : !is_text(c, op->a, PARAM_MAX)) return 0;
    if (!in_blob(c, op->source) || !is_text(c, op->b, op->kind == PH_OP_SPLIT ? UINT32_MAX : PARAM_MAX))
        return 0;
    return !is_map || !ph_precompiled_check(c->blob + op->a.at, op->a.n, "", NULL);
}

static void ops(check *c) {
    int fits = 1;
    for (int k = 0; k < PH_TOKIMAGE_LISTS; k++) {
        fits &= c->h->n_op[k] <= PH_TOK_OPS_MAX;
        for (uint32_t i = 0; fits && i < c->h->n_op[k]; i++)
            fits = op_fits(c, (ph_tokimage_list)k, &c->h->op[k][i]);
    }
    hold(c, fits, "a step of its text's way");
}

ph_rc ph_tokimage_check(const ph_tokimage *m, const char *where, ph_err *err) {
    check c = {.m = m, .h = m->head};
    c.blob = ph_tokimage_at(m, PH_TOKIMAGE_BLOB);
    c.piece = ph_tokimage_at(m, PH_TOKIMAGE_PIECE);
    c.flags = ph_tokimage_at(m, PH_TOKIMAGE_FLAGS);
    if (counts(&c) && pieces(&c)) {
        slots(&c, PH_TOKIMAGE_SLOTS, c.h->n_slots, c.h->n_ids);
        slots(&c, PH_TOKIMAGE_MERGE_SLOTS, c.h->n_merge_slots, c.h->n_merges);
        merges(&c);
        orders(&c);
        rows(&c);
        params(&c);
        ops(&c);
    }
    if (!c.wrong && c.h->n_nodes) {
        uint32_t *depth = malloc(c.h->n_nodes * sizeof *depth);
        if (!depth) return PH_FAIL(err, PH_ENOMEM, "%s: %u nodes of an automaton", where, c.h->n_nodes);
        automaton(&c, depth);
        free(depth);
    }
    if (!c.wrong) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: the ready-made tokenizer: %s is not as it should be: make the bundle anew", where,
                   c.wrong);
}
