/* kv_hold.c - places for pages of F16: two a sequence and layer, and stages that the layers share. */
#include "graph/kv_hold.h"

#include "base/mem.h"
#include "graph/kv_page.h"

#include <limits.h>
#include <string.h>

enum { NOTHING = -1 };

size_t ph_hold_page_bytes(const ph_kv_layer *l) {
    size_t k = ph_kv_key_bytes(l, PH_F16), v = ph_kv_value_bytes(l, PH_F16);
    return k && v ? ph_round_up(k + v, PH_ALIGN) : 0;
}

static int stages_of(const ph_kv_spec *s) {
    return s->rows / PH_KV_PAGE;
}

static size_t stage_bytes(const ph_kv_spec *s) {
    size_t most = 0;
    for (int i = 0; i < s->n_layers; i++)
        if (ph_hold_page_bytes(&s->layer[i]) > most) most = ph_hold_page_bytes(&s->layer[i]);
    return most;
}

size_t ph_hold_bytes(const ph_kv_spec *s) {
    size_t all = 0, stages;
    for (int i = 0; i < s->n_layers; i++) {
        size_t one = ph_hold_page_bytes(&s->layer[i]);
        if (!one || ph_mul_over(one, PH_HOLD_PLACES * (size_t)s->n_sequences, &one) ||
            ph_add_over(all, one, &all))
            return 0;
    }
    if (ph_mul_over(stage_bytes(s), (size_t)stages_of(s), &stages) || ph_add_over(all, stages, &all))
        return 0;
    return all;
}

ph_rc ph_hold_carve(ph_hold *h, ph_arena *a, const ph_kv_spec *s, ph_err *err) {
    size_t n = (size_t)s->n_sequences, stages = (size_t)stages_of(s), places;
    void  *p;
    if (ph_mul_over(n * PH_HOLD_PLACES, (size_t)s->n_layers, &places))
        return PH_FAIL(err, PH_ELIMIT, "KV cache: %d sequences in %d layers", s->n_sequences, s->n_layers);
    PH_TRY(ph_arena_carve(a, &p, places, sizeof *h->held, err));
    h->held = p;
    PH_TRY(ph_arena_carve(a, &p, stages, sizeof *h->stage, err));
    h->stage = p;
    PH_TRY(ph_arena_carve(a, &p, n, sizeof *h->span, err));
    h->span = p;
    PH_TRY(ph_arena_carve(a, &p, 2 * n + stages, sizeof *h->full, err));
    h->full = p;
    return PH_OK;
}

static void place(ph_kv_page *page, const ph_kv_layer *l, int layer, unsigned char *at) {
    *page = (ph_kv_page){.dtype = PH_F16,
                         .references = 1,
                         .layer = layer,
                         .position = NOTHING,
                         .k = at,
                         .v = at + ph_kv_key_bytes(l, PH_F16)};
}

static ph_kv_page *held(const ph_hold *h, int sequence, int layer) {
    return &h->held[((size_t)sequence * (size_t)h->n_layers + (size_t)layer) * PH_HOLD_PLACES];
}

ph_rc ph_hold_open(ph_hold *h, const ph_kv_spec *s, const ph_kv_layer *layer, ph_err *err) {
    h->layer = layer;
    h->n_layers = s->n_layers, h->n_sequences = s->n_sequences;
    h->n_stages = stages_of(s), h->rows = s->rows;
    PH_TRY(ph_region_open(&h->memory, ph_hold_bytes(s), err));
    unsigned char *at = h->memory.at;
    for (int i = 0; i < s->n_sequences; i++)
        for (int l = 0; l < s->n_layers; l++)
            for (int k = 0; k < PH_HOLD_PLACES; k++, at += ph_hold_page_bytes(&layer[l]))
                place(&held(h, i, l)[k], &layer[l], l, at);
    for (int i = 0; i < h->n_stages; i++, at += stage_bytes(s)) h->stage[i].k = at;
    return PH_OK;
}

void ph_hold_close(ph_hold *h) {
    ph_region_close(&h->memory);
}

void ph_hold_forget(ph_hold *h, int sequence, int length) {
    for (int l = 0; l < h->n_layers; l++)
        for (int k = 0; k < PH_HOLD_PLACES; k++) {
            ph_kv_page *p = &held(h, sequence, l)[k];
            if (p->position >= length) p->position = NOTHING;
        }
}

/* The place of a page, or NULL. */
static ph_kv_page *find(const ph_hold *h, int sequence, int layer, int page) {
    ph_kv_page *p = held(h, sequence, layer);
    for (int k = 0; k < PH_HOLD_PLACES; k++)
        if (p[k].position == page * PH_KV_PAGE) return &p[k];
    return NULL;
}

int ph_hold_has(const ph_hold *h, int sequence, int index) {
    for (int l = 0; l < h->n_layers; l++)
        if (!find(h, sequence, l, index / PH_KV_PAGE)) return 0;
    return 1;
}

/* Pages that the step leaves behind are settled; one that is looked at no more gives its place. */
static ph_kv_page *begin_page(const ph_hold *h, int sequence, int layer, int page, const ph_kv_page *keep) {
    ph_kv_page *p = held(h, sequence, layer), *to = NULL;
    for (int k = 0; k < PH_HOLD_PLACES; k++) { /* the empty one, or the one farther back */
        if (&p[k] == keep) continue;
        if (!to || p[k].position < to->position) to = &p[k];
    }
    to->position = page * PH_KV_PAGE;
    return to;
}

static ph_rc place_span(ph_hold *h, int layer, int sequence, int *n_staged, ph_err *err) {
    ph_hold_span *s = &h->span[sequence];
    s->first = s->low / PH_KV_PAGE, s->last = s->high / PH_KV_PAGE;
    s->staged = *n_staged;
    ph_kv_page *first = find(h, sequence, layer, s->first);
    if (!first && s->low % PH_KV_PAGE)
        return PH_FAIL(err, PH_EBUG, "KV cache: sequence %d goes on at token %d, whose page is not held",
                       sequence, s->low);
    ph_hold_forget(h, sequence, s->high + 1);
    if (!first) first = begin_page(h, sequence, layer, s->first, NULL);
    if (s->last > s->first && !find(h, sequence, layer, s->last))
        begin_page(h, sequence, layer, s->last, first);
    int between = s->last - s->first - 1;
    if (between > h->n_stages - *n_staged)
        return PH_FAIL(err, PH_ELIMIT, "KV cache: a step of more rows than the %d it was made for", h->rows);
    for (int i = 0; i < between; i++, ++*n_staged) {
        ph_kv_page *p = &h->stage[*n_staged];
        place(p, &h->layer[layer], layer, p->k);
        p->position = (s->first + 1 + i) * PH_KV_PAGE;
    }
    for (int page = s->first; page < (s->high + 1) / PH_KV_PAGE; page++)
        h->full[h->n_full++] = (ph_hold_full){sequence, page};
    return PH_OK;
}

ph_rc ph_hold_step(ph_hold *h, int layer, const int32_t *rows, size_t n, ph_err *err) {
    int n_staged = 0;
    h->n_full = 0;
    for (size_t i = 0; i < n; i++)
        h->span[rows[i * PH_ROW_FIELDS + PH_ROW_SEQUENCE]] =
            (ph_hold_span){.low = INT_MAX, .high = NOTHING, .staged = NOTHING};
    for (size_t i = 0; i < n; i++) {
        ph_hold_span *s = &h->span[rows[i * PH_ROW_FIELDS + PH_ROW_SEQUENCE]];
        int           index = rows[i * PH_ROW_FIELDS + PH_ROW_INDEX];
        if (index < s->low) s->low = index;
        if (index > s->high) s->high = index;
    }
    for (size_t i = 0; i < n; i++) {
        int sequence = rows[i * PH_ROW_FIELDS + PH_ROW_SEQUENCE];
        if (h->span[sequence].staged == NOTHING) PH_TRY(place_span(h, layer, sequence, &n_staged, err));
    }
    return PH_OK;
}

ph_kv_page *ph_hold_at(const ph_hold *h, int layer, int sequence, int page) {
    const ph_hold_span *s = &h->span[sequence];
    if (page < s->first || page > s->last) return NULL;
    if (page == s->first || page == s->last) return find(h, sequence, layer, page);
    return &h->stage[s->staged + page - s->first - 1];
}
