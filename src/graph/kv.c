/* kv.c - pages of the KV cache: given out, shared, given back.
 *
 * Everything is carved once, when the cache is opened: a slab for the pages'
 * numbers, a pool of page headers, and per sequence and layer a table of page
 * pointers long enough for the whole context.  After that nothing here calls
 * malloc, and ph_kv_bytes, which runs the same carving on a ruler, says what is held.
 *
 *     table[sequence][layer][index / 64] ─► ph_kv_page ─► block of the slab: K | V
 *
 * A page that several sequences list is read by all and written by none: extending a
 * sequence into a shared page copies it first.
 */
#include "graph/kv.h"

#include "base/arena.h"
#include "base/mem.h"
#include "graph/kv_hold.h"
#include "graph/kv_page.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 1 << 16, SEQUENCES_MAX = 1 << 20, HEADS_MAX = 1 << 16, UNUSED = -1 };

struct ph_kv {
    ph_arena     arena;
    ph_kv_layer *layer;      /* [n_layers] */
    size_t      *page_bytes; /* [n_layers] */
    int          n_layers, n_sequences, context;
    int          row; /* pages a sequence and layer can list */
    ph_dtype     dtype;
    ph_slab     *slab;
    ph_pool      headers;
    ph_kv_page **table;  /* [n_sequences, n_layers, row] */
    int         *length; /* [n_sequences], UNUSED when free */
    size_t       used;
    int          is_settled; /* then full pages only are of dtype, and hold has the others */
    ph_hold      hold;
};

static int pages_for(int tokens) {
    return tokens / PH_KV_PAGE + (tokens % PH_KV_PAGE != 0);
}

/* Bytes of one page's block; 0 when they do not fit. */
static size_t block_bytes(const ph_kv_layer *l, ph_dtype dtype) {
    size_t k = ph_kv_key_bytes(l, dtype), v = ph_kv_value_bytes(l, dtype);
    return k && v ? ph_round_up(k + v, PH_SLAB_ALIGN) : 0;
}

size_t ph_kv_page_bytes(const ph_kv_spec *spec, int layer) {
    return layer < 0 || layer >= spec->n_layers ? 0 : block_bytes(&spec->layer[layer], spec->dtype);
}

size_t ph_kv_token_bytes(const ph_kv_spec *s, int layer) {
    const ph_kv_layer *l = &s->layer[layer];
    return (ph_kv_key_bytes(l, s->dtype) + ph_kv_value_bytes(l, s->dtype)) / PH_KV_PAGE;
}

size_t ph_kv_held_bytes(const ph_kv_spec *s, size_t n_sequences, size_t pages, size_t staged) {
    size_t places = pages < PH_HOLD_PLACES ? pages : PH_HOLD_PLACES, all = 0, stage = 0;
    if (!ph_kv_is_settled(s->dtype)) return 0;
    for (int i = 0; i < s->n_layers; i++) {
        size_t one = ph_hold_page_bytes(&s->layer[i]);
        all += n_sequences * places * one;
        if (one > stage) stage = one;
    }
    return all + staged * stage;
}

static ph_kv_spec settled(const ph_kv_spec *s) {
    ph_kv_spec out = *s;
    if (out.rows <= 0) out.rows = out.context;
    return out;
}

static ph_rc check_spec(const ph_kv_spec *s, ph_err *err) {
    if (s->n_layers < 1 || s->n_layers > LAYERS_MAX || s->n_sequences < 1 || s->n_sequences > SEQUENCES_MAX ||
        s->context < 1 || !s->tokens)
        return PH_FAIL(err, PH_ELIMIT, "KV cache: %d layers, %d sequences, context %d, %zu tokens",
                       s->n_layers, s->n_sequences, s->context, s->tokens);
    if (!ph_kv_is_known(s->dtype))
        return PH_FAIL(err, PH_EUNSUP, "KV cache: pages of %s, only F32, F16, BF16, Q8_0 and Q4_1 are done",
                       ph_dtype_name(s->dtype));
    for (int i = 0; i < s->n_layers; i++) {
        const ph_kv_layer *l = &s->layer[i];
        if (l->n_heads < 1 || l->n_heads > HEADS_MAX || l->d_k < 1 || l->d_v < 1 || !block_bytes(l, s->dtype))
            return PH_FAIL(err, PH_ELIMIT, "KV cache: layer %d has %d heads of %d and %d", i, l->n_heads,
                           l->d_k, l->d_v);
    }
    if (ph_kv_is_settled(s->dtype) && !ph_hold_bytes(s))
        return PH_FAIL(err, PH_ELIMIT, "KV cache: %d sequences in %d layers, steps of %d rows",
                       s->n_sequences, s->n_layers, s->rows);
    return PH_OK;
}

/* Pages that one layer can need: each sequence may leave its last one partly empty. */
static size_t pages_max(const ph_kv_spec *s) {
    size_t n = (size_t)s->n_sequences, full = n * (size_t)pages_for(s->context);
    size_t most = s->tokens < n ? s->tokens : (s->tokens - n) / PH_KV_PAGE + n;
    return most < full ? most : full;
}

/* Bytes and blocks of the slab. */
static ph_rc slab_size(const ph_kv_spec *s, size_t *bytes, size_t *blocks, ph_err *err) {
    *bytes = 0;
    if (ph_mul_over(pages_max(s), (size_t)s->n_layers, blocks) || *blocks > UINT32_MAX / 16)
        return PH_FAIL(err, PH_ELIMIT, "KV cache: %zu pages in %d layers", pages_max(s), s->n_layers);
    for (int i = 0; i < s->n_layers; i++) {
        size_t all;
        if (ph_mul_over(pages_max(s), ph_kv_page_bytes(s, i), &all) || ph_add_over(*bytes, all, bytes))
            return PH_FAIL(err, PH_ELIMIT, "KV cache: %zu tokens in %d layers", s->tokens, s->n_layers);
    }
    return PH_OK;
}

/* The tables; on a ruler only their bytes. */
static ph_rc carve(ph_kv *kv, ph_arena *a, const ph_kv_spec *s, size_t blocks, ph_err *err) {
    void  *p;
    size_t lists;
    PH_TRY(ph_arena_carve(a, &p, (size_t)s->n_layers, sizeof *kv->layer, err));
    kv->layer = p;
    PH_TRY(ph_arena_carve(a, &p, (size_t)s->n_layers, sizeof *kv->page_bytes, err));
    kv->page_bytes = p;
    PH_TRY(ph_arena_carve(a, &p, (size_t)s->n_sequences, sizeof *kv->length, err));
    kv->length = p;
    if (ph_mul_over((size_t)s->n_sequences * (size_t)s->n_layers, (size_t)pages_for(s->context), &lists))
        return PH_FAIL(err, PH_ELIMIT, "KV cache: %d sequences of %d tokens", s->n_sequences, s->context);
    PH_TRY(ph_arena_carve(a, &p, lists, sizeof(ph_kv_page *), err));
    kv->table = p;
    PH_TRY(ph_arena_carve(a, &p, blocks, sizeof(ph_kv_page), err));
    kv->headers.base = p;
    return ph_kv_is_settled(s->dtype) ? ph_hold_carve(&kv->hold, a, s, err) : PH_OK;
}

ph_rc ph_kv_bytes(const ph_kv_spec *given, size_t *out, ph_err *err) {
    size_t     bytes, blocks, all;
    ph_kv      kv;
    ph_arena   ruler = ph_arena_ruler();
    ph_kv_spec spec = settled(given);
    *out = 0;
    PH_TRY(check_spec(&spec, err));
    PH_TRY(slab_size(&spec, &bytes, &blocks, err));
    PH_TRY(carve(&kv, &ruler, &spec, blocks, err));
    if (ph_add_over(bytes, ph_slab_overhead(blocks), &all) ||
        ph_add_over(all, ruler.used + sizeof kv, &all) ||
        ph_add_over(all, ph_kv_is_settled(spec.dtype) ? ph_hold_bytes(&spec) : 0, &all))
        return PH_FAIL(err, PH_ELIMIT, "KV cache: more bytes than can be counted");
    *out = all;
    return PH_OK;
}

static void fill(ph_kv *kv, const ph_kv_spec *s, size_t blocks) {
    kv->n_layers = s->n_layers;
    kv->n_sequences = s->n_sequences;
    kv->context = s->context;
    kv->row = pages_for(s->context);
    kv->dtype = s->dtype;
    kv->is_settled = ph_kv_is_settled(s->dtype);
    memcpy(kv->layer, s->layer, (size_t)s->n_layers * sizeof *s->layer);
    for (int i = 0; i < s->n_layers; i++) kv->page_bytes[i] = ph_kv_page_bytes(s, i);
    for (int i = 0; i < s->n_sequences; i++) kv->length[i] = UNUSED;
    ph_pool_init(&kv->headers, kv->headers.base, sizeof(ph_kv_page), blocks);
}

ph_rc ph_kv_open(ph_kv **out, const ph_kv_spec *given, ph_err *err) {
    size_t     bytes, blocks;
    ph_kv      measured;
    ph_arena   ruler = ph_arena_ruler();
    ph_kv_spec whole = settled(given), *spec = &whole;
    *out = NULL;
    PH_TRY(check_spec(spec, err));
    PH_TRY(slab_size(spec, &bytes, &blocks, err));
    PH_TRY(carve(&measured, &ruler, spec, blocks, err));
    ph_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return PH_FAIL(err, PH_ENOMEM, "KV cache: %zu bytes", sizeof *kv);
    ph_rc rc = ph_arena_open(&kv->arena, ruler.used, err);
    if (!rc) rc = carve(kv, &kv->arena, spec, blocks, err);
    if (!rc) fill(kv, spec, blocks);
    if (!rc) rc = ph_slab_open(&kv->slab, bytes, blocks, err);
    if (!rc && ph_kv_is_settled(spec->dtype)) rc = ph_hold_open(&kv->hold, spec, kv->layer, err);
    if (rc) {
        ph_kv_close(kv);
        return ph_note(err, rc, "while opening a KV cache for %zu tokens", spec->tokens);
    }
    *out = kv;
    return PH_OK;
}

void ph_kv_close(ph_kv *kv) {
    if (!kv) return;
    ph_slab_close(kv->slab);
    ph_hold_close(&kv->hold);
    ph_arena_close(&kv->arena);
    free(kv);
}

static ph_kv_page **slot(const ph_kv *kv, int sequence, int layer, int page) {
    return &kv->table[((size_t)sequence * (size_t)kv->n_layers + (size_t)layer) * (size_t)kv->row +
                      (size_t)page];
}

static int is_open(const ph_kv *kv, int sequence) {
    return sequence >= 0 && sequence < kv->n_sequences && kv->length[sequence] != UNUSED;
}

/* A page of its own for one place of a list; 0: none left. */
static int page_take(ph_kv *kv, int sequence, int layer, int page) {
    const ph_kv_layer *l = &kv->layer[layer];
    ph_kv_page        *p = ph_pool_take(&kv->headers);
    void              *block = p ? ph_slab_take(kv->slab, kv->page_bytes[layer]) : NULL;
    if (!block) {
        if (p) ph_pool_give(&kv->headers, p);
        return 0;
    }
    size_t k_bytes = ph_kv_key_bytes(l, kv->dtype);
    *p = (ph_kv_page){.dtype = kv->dtype,
                      .references = 1,
                      .layer = layer,
                      .position = page * PH_KV_PAGE,
                      .k = block,
                      .v = (char *)block + k_bytes};
    kv->used += kv->page_bytes[layer];
    *slot(kv, sequence, layer, page) = p;
    return 1;
}

static void page_give(ph_kv *kv, ph_kv_page *p) {
    if (--p->references) return;
    kv->used -= kv->page_bytes[p->layer];
    ph_slab_give(kv->slab, p->k);
    ph_pool_give(&kv->headers, p);
}

/* Pages first .. last-1 of a sequence go back, in every layer. */
static void pages_give(ph_kv *kv, int sequence, int first, int last) {
    for (int layer = 0; layer < kv->n_layers; layer++)
        for (int page = first; page < last; page++) page_give(kv, *slot(kv, sequence, layer, page));
}

/* Pages first .. last-1 in every layer, or none of them. */
static int pages_take(ph_kv *kv, int sequence, int first, int last) {
    for (int page = first; page < last; page++)
        for (int layer = 0; layer < kv->n_layers; layer++) {
            if (page_take(kv, sequence, layer, page)) continue;
            while (layer-- > 0) page_give(kv, *slot(kv, sequence, layer, page));
            pages_give(kv, sequence, first, page);
            return 0;
        }
    return 1;
}

/* Make page `page` of the sequence its own in every layer, copying what others share; 0: no page left. */
static int pages_own(ph_kv *kv, int sequence, int page) {
    for (int layer = 0; layer < kv->n_layers; layer++) {
        ph_kv_page *old = *slot(kv, sequence, layer, page);
        if (old->references == 1) continue;
        if (!page_take(kv, sequence, layer, page)) return 0; /* layers done so far are merely copies */
        ph_kv_page *mine = *slot(kv, sequence, layer, page);
        memcpy(mine->k, old->k, kv->page_bytes[layer]);
        mine->count = old->count;
        page_give(kv, old);
    }
    return 1;
}

/* What pages of their own say about a sequence of this length. */
static void set_counts(ph_kv *kv, int sequence, int first, int length) {
    for (int page = first; page < pages_for(length); page++)
        for (int layer = 0; layer < kv->n_layers; layer++) {
            ph_kv_page *p = *slot(kv, sequence, layer, page);
            int         left = length - page * PH_KV_PAGE;
            if (p->references == 1) p->count = left < PH_KV_PAGE ? left : PH_KV_PAGE;
        }
}

ph_rc ph_kv_begin(ph_kv *kv, int *sequence, ph_err *err) {
    for (int i = 0; i < kv->n_sequences; i++)
        if (kv->length[i] == UNUSED) {
            kv->length[i] = 0;
            *sequence = i;
            return PH_OK;
        }
    *sequence = -1;
    return PH_FAIL(err, PH_ELIMIT, "KV cache: all %d sequences are in use", kv->n_sequences);
}

void ph_kv_end(ph_kv *kv, int sequence) {
    if (!is_open(kv, sequence)) return;
    pages_give(kv, sequence, 0, pages_for(kv->length[sequence]));
    if (kv->is_settled) ph_hold_forget(&kv->hold, sequence, 0);
    kv->length[sequence] = UNUSED;
}

int ph_kv_length(const ph_kv *kv, int sequence) {
    return is_open(kv, sequence) ? kv->length[sequence] : 0;
}

ph_rc ph_kv_extend(ph_kv *kv, int sequence, int length, ph_err *err) {
    if (!is_open(kv, sequence)) return PH_FAIL(err, PH_EBUG, "KV cache: no sequence %d", sequence);
    int have = kv->length[sequence], first = pages_for(have), last = pages_for(length);
    if (length <= have) return PH_OK;
    if (length > kv->context)
        return PH_FAIL(err, PH_ECONTEXT, "%d tokens in a context of %d", length, kv->context);
    if ((have % PH_KV_PAGE && !pages_own(kv, sequence, first - 1)) ||
        !pages_take(kv, sequence, first, last)) {
        ph_slab_stats s;
        ph_slab_measure(kv->slab, &s);
        return PH_FAIL(err, PH_ENOMEM,
                       "KV cache: sequence %d from %d to %d tokens; %zu of %zu bytes are in use", sequence,
                       have, length, s.used, s.size);
    }
    kv->length[sequence] = length;
    set_counts(kv, sequence, have / PH_KV_PAGE, length);
    return PH_OK;
}

/* Where a sequence can go on that is cut off at `length`. */
static int going_on(const ph_kv *kv, int sequence, int length) {
    if (!kv->is_settled || length % PH_KV_PAGE == 0 || ph_hold_has(&kv->hold, sequence, length))
        return length;
    return length / PH_KV_PAGE * PH_KV_PAGE;
}

int ph_kv_truncate(ph_kv *kv, int sequence, int length) {
    if (!is_open(kv, sequence)) return 0;
    if (length < 0 || length >= kv->length[sequence]) return kv->length[sequence];
    length = going_on(kv, sequence, length);
    if (kv->is_settled) ph_hold_forget(&kv->hold, sequence, length);
    pages_give(kv, sequence, pages_for(length), pages_for(kv->length[sequence]));
    kv->length[sequence] = length;
    if (length) set_counts(kv, sequence, (length - 1) / PH_KV_PAGE, length);
    return length;
}

int ph_kv_share(ph_kv *kv, int from, int length, int to) {
    if (!is_open(kv, from) || !is_open(kv, to) || from == to || kv->length[to]) return 0;
    if (length > kv->length[from]) length = kv->length[from];
    int pages = length < 0 ? 0 : length / PH_KV_PAGE;
    for (int layer = 0; layer < kv->n_layers; layer++)
        for (int page = 0; page < pages; page++) {
            ph_kv_page *p = *slot(kv, from, layer, page);
            p->references++;
            *slot(kv, to, layer, page) = p;
        }
    return kv->length[to] = pages * PH_KV_PAGE;
}

ph_kv_page *ph_kv_at(const ph_kv *kv, int layer, int sequence, int index) {
    if (!is_open(kv, sequence) || layer < 0 || layer >= kv->n_layers || index < 0 ||
        index >= kv->length[sequence])
        return NULL;
    return *slot(kv, sequence, layer, index / PH_KV_PAGE);
}

/* A row may see only keys that stand: those of the pages that this step writes, or before. */
static ph_rc check_seen(const ph_kv *kv, const int32_t *rows, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++) {
        const int32_t *row = &rows[i * PH_ROW_FIELDS];
        int            high = kv->hold.span[row[PH_ROW_SEQUENCE]].high;
        if (row[PH_ROW_SPAN] > high + 1)
            return PH_FAIL(err, PH_EMISMATCH, "row %zu sees %d keys; its sequence is written up to %d", i,
                           row[PH_ROW_SPAN], high);
    }
    return PH_OK;
}

ph_rc ph_kv_step(ph_kv *kv, int layer, const int32_t *rows, size_t n, ph_err *err) {
    if (!kv->is_settled) return PH_OK;
    PH_TRY(ph_hold_step(&kv->hold, layer, rows, n, err));
    return check_seen(kv, rows, n, err);
}

ph_kv_page *ph_kv_written(const ph_kv *kv, int layer, int sequence, int index) {
    if (kv->is_settled) return ph_hold_at(&kv->hold, layer, sequence, index / PH_KV_PAGE);
    return ph_kv_at(kv, layer, sequence, index);
}

size_t ph_kv_full(const ph_kv *kv) {
    return kv->is_settled ? kv->hold.n_full : 0;
}

void ph_kv_full_at(const ph_kv *kv, int layer, size_t i, const ph_kv_page **from, const ph_kv_page **to) {
    const ph_hold_full *f = &kv->hold.full[i];
    *from = ph_hold_at(&kv->hold, layer, f->sequence, f->page);
    *to = *slot(kv, f->sequence, layer, f->page);
}

const ph_kv_page *ph_kv_seen(const ph_kv *kv, int layer, int sequence, int index, int at) {
    if (kv->is_settled && at / PH_KV_PAGE >= index / PH_KV_PAGE)
        return ph_hold_at(&kv->hold, layer, sequence, at / PH_KV_PAGE);
    return ph_kv_at(kv, layer, sequence, at);
}

ph_dtype ph_kv_dtype(const ph_kv *kv) {
    return kv->dtype;
}

int ph_kv_layers(const ph_kv *kv) {
    return kv->n_layers;
}

ph_kv_layer ph_kv_layer_at(const ph_kv *kv, int layer) {
    return kv->layer[layer];
}

size_t ph_kv_used_bytes(const ph_kv *kv) {
    return kv->used;
}

void ph_kv_stats(const ph_kv *kv, ph_slab_stats *out) {
    ph_slab_measure(kv->slab, out);
}
