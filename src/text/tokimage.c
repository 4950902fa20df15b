/* tokimage.c - opens ready-made tables, see tokimage.h.
 *
 *     is it for us? ─ where tables stand ─ check ─► pointers into the image, patterns, added tokens' automata
 */
#include "text/tokimage.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The file has no other form of these than their bytes in memory. */
_Static_assert(sizeof(ph_span_of) == 8 && sizeof(ph_merge) == 12 && sizeof(ph_trie_edge) == 12 &&
                   sizeof(ph_tokimage_row) == 12 && sizeof(ph_tokimage_op) == 52 &&
                   sizeof(ph_tokimage_head) == 5840 && sizeof(double) == 8,
               "an image's layout is the same on every machine, or PH_TOKIMAGE_VERSION is another");

/* ---- where things stand ---- */

ph_tokimage ph_tokimage_lay(const ph_tokimage_head *h) {
    const struct {
        size_t   item;
        uint64_t n;
    } table[] = {
#define PH_TOKIMAGE_TABLE(name, type, count) {sizeof(type), count},
#include "text/tokimage.def"
#undef PH_TOKIMAGE_TABLE
    };
    ph_tokimage m = {.head = h, .bytes = (const uint8_t *)h};
    uint64_t    at = ph_round_up(sizeof *h, PH_ALIGN);
    for (int i = 0; i < PH_TOKIMAGE_TABLES; i++) { /* counts have 34 bits at most */
        m.at[i] = at;
        m.n[i] = table[i].n * table[i].item;
        at += (m.n[i] + PH_ALIGN - 1) / PH_ALIGN * PH_ALIGN;
    }
    m.n_bytes = at;
    return m;
}

const void *ph_tokimage_at(const ph_tokimage *m, ph_tokimage_table which) {
    return m->n[which] ? m->bytes + m->at[which] : NULL;
}

/* Tables have const pointers, an automaton has not: nothing writes through those of a tokenizer. */
static void *table(const ph_tokimage *m, ph_tokimage_table which) {
    const void *at = ph_tokimage_at(m, which);
    void       *out;
    memcpy(&out, &at, sizeof out);
    return out;
}

/* ---- parameters ---- */

static void take_params(ph_tokenizer *t, const ph_tokimage_head *h) {
    t->model = ph_text_model_find(h->model);
    t->n_before = (int)h->n_before, t->n_after = (int)h->n_after;
#define PH_TOKIMAGE_NUMBER(name) t->name = h->name;
#define PH_TOKIMAGE_ARRAY(name)  memcpy(t->name, h->name, sizeof t->name);
#include "text/tokimage_params.def"
#undef PH_TOKIMAGE_NUMBER
#undef PH_TOKIMAGE_ARRAY
}

static ph_rc take_op(ph_text_op *op, const ph_tokimage_op *from, const ph_tokenizer *t, ph_err *err) {
    const char *source = (const char *)ph_tok_text(t, from->source);
    *op = (ph_text_op){.kind = (ph_op_kind)from->kind,
                       .behavior = (ph_behavior)from->behavior,
                       .invert = from->invert,
                       .flag = from->flag,
                       .start = from->start,
                       .stop = from->stop,
                       .a = from->a,
                       .b = from->b,
                       .source = from->source,
                       .is_literal = from->pattern == 2};
    if (!from->pattern) return PH_OK;
    return op->is_literal ? ph_pattern_open_literal(&op->pattern, source, from->source.n, t->name, err)
                          : ph_pattern_open(&op->pattern, source, from->source.n, t->name, err);
}

static ph_rc take_ops(ph_tokenizer *t, const ph_tokimage_head *h, ph_err *err) {
    ph_text_op *list[PH_TOKIMAGE_LISTS] = {t->norm_op, t->split_op, t->decode_op};
    int        *n[PH_TOKIMAGE_LISTS] = {&t->n_norm_op, &t->n_split_op, &t->n_decode_op};
    for (int k = 0; k < PH_TOKIMAGE_LISTS; k++)
        for (uint32_t i = 0; i < h->n_op[k]; i++) {
            *n[k] = (int)i + 1;
            PH_TRY(take_op(&list[k][i], &h->op[k][i], t, err));
            t->pattern_bytes += list[k][i].pattern.bytes;
        }
    return PH_OK;
}

/* ---- tables ---- */

static void take_tables(ph_tokenizer *t, const ph_tokimage *m) {
    const ph_tokimage_head *h = m->head;
    t->n_blob = h->n_blob, t->n_ids = h->n_ids, t->n_model = h->n_model, t->n_slots = h->n_slots;
    t->n_merges = h->n_merges, t->n_merge_slots = h->n_merge_slots;
    t->blob = table(m, PH_TOKIMAGE_BLOB);
    t->piece = table(m, PH_TOKIMAGE_PIECE);
    t->flags = table(m, PH_TOKIMAGE_FLAGS);
    t->score = table(m, PH_TOKIMAGE_SCORE);
    t->slots = table(m, PH_TOKIMAGE_SLOTS);
    t->merges = table(m, PH_TOKIMAGE_MERGES);
    t->merge_slots = table(m, PH_TOKIMAGE_MERGE_SLOTS);
    t->sorted = table(m, PH_TOKIMAGE_SORTED);
    t->rank = table(m, PH_TOKIMAGE_RANK);
    t->pieces = (ph_automaton){.root = table(m, PH_TOKIMAGE_ROOT),
                               .fail = table(m, PH_TOKIMAGE_FAIL),
                               .hit = table(m, PH_TOKIMAGE_HIT),
                               .first = table(m, PH_TOKIMAGE_FIRST),
                               .edges = table(m, PH_TOKIMAGE_EDGES),
                               .shorter = table(m, PH_TOKIMAGE_SHORTER),
                               .n_nodes = h->n_nodes,
                               .n_edges = h->n_edges,
                               .n_texts = h->n_texts};
    t->mapped = (size_t)m->n_bytes;
}

/* One set's rows with their automaton, on the heap. */
static ph_rc make_set(ph_added_set *set, const ph_tokenizer *t, const ph_tokimage_row *row, uint32_t n,
                      ph_err *err) {
    set->row = calloc((size_t)n + 1, sizeof *set->row);
    if (!set->row) return PH_FAIL(err, PH_ENOMEM, "%s: %u added tokens", t->name, n);
    for (uint32_t i = 0; i < n; i++)
        set->row[i] = (ph_added_row){row[i].text, row[i].id, !(t->flags[row[i].id] & PH_TOK_CONTROL)};
    set->n = n;
    return ph_added_link(set, t->blob, t->name, err);
}

static ph_rc carve_sets(ph_tokenizer *t, const ph_added_set *from, ph_arena *arena, ph_err *err) {
    PH_TRY(ph_added_carve(&t->raw, &from[0], arena, err));
    PH_TRY(ph_added_carve(&t->norm, &from[1], arena, err));
    return ph_added_carve(&t->spelled, &from[2], arena, err);
}

static ph_rc take_sets(ph_tokenizer *t, const ph_tokimage *m, ph_err *err) {
    ph_added_set           set[3] = {{0}};
    const ph_tokimage_row *row = ph_tokimage_at(m, PH_TOKIMAGE_ROWS);
    ph_arena               ruler = ph_arena_ruler();
    ph_rc                  rc = PH_OK;
    for (int i = 0; i < 3 && !rc; i++) {
        rc = make_set(&set[i], t, row, m->head->n_row[i], err);
        if (row) row += m->head->n_row[i];
    }
    if (!rc) rc = carve_sets(t, set, &ruler, err);
    if (!rc) rc = ph_arena_open(&t->arena, ruler.used, err);
    if (!rc) rc = carve_sets(t, set, &t->arena, err);
    for (int i = 0; i < 3; i++) ph_added_close(&set[i]);
    return rc;
}

/* ---- opening ---- */

/* *fits: the bytes are an image for this program and machine, as long as it says. */
static ph_rc look(ph_tokimage *m, const void *bytes, size_t n, const char *where, int *fits, ph_err *err) {
    const ph_tokimage_head *h = bytes;
    *fits = 0;
    if (n < sizeof *h || memcmp(bytes, PH_TOKIMAGE_MAGIC, sizeof h->magic))
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: the ready-made tokenizer: %zu bytes that are none: make the bundle anew", where,
                       n);
    if ((uintptr_t)bytes % sizeof(double) || h->version != PH_TOKIMAGE_VERSION ||
        h->order != PH_TOKIMAGE_ORDER)
        return PH_OK;
    *m = ph_tokimage_lay(h);
    if (m->n_bytes != h->n_bytes || m->n_bytes != n)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: the ready-made tokenizer: %zu bytes, %llu by its head and %llu by its counts: make "
            "the bundle anew",
            where, n, (unsigned long long)h->n_bytes, (unsigned long long)m->n_bytes);
    *fits = 1;
    return PH_OK;
}

ph_rc ph_tokenizer_open_image(ph_tokenizer **out, const void *bytes, size_t n, const char *where,
                              ph_err *err) {
    ph_tokimage m;
    int         fits;
    *out = NULL;
    PH_TRY(look(&m, bytes, n, where, &fits, err));
    if (!fits) return PH_OK;
    PH_TRY(ph_tokimage_check(&m, where, err));
    ph_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return PH_FAIL(err, PH_ENOMEM, "%s: %zu bytes", where, sizeof *t);
    size_t n_name = strlen(where) < sizeof t->name ? strlen(where) : sizeof t->name - 1;
    memcpy(t->name, where, n_name);
    take_params(t, m.head);
    take_tables(t, &m);
    ph_rc rc = take_ops(t, m.head, err);
    if (!rc) rc = take_sets(t, &m, err);
    if (rc) {
        ph_tokenizer_close(t);
        return rc;
    }
    *out = t;
    return PH_OK;
}
