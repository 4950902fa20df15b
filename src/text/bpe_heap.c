/* bpe_heap.c - a binary heap of merges and a list of symbols, see bpe_heap.h. */
#include "text/bpe_heap.h"

#include <stdlib.h>

void ph_bpe_begin(ph_bpe *w, ph_model_scratch *scratch) {
    *w = (ph_bpe){.symbol = scratch->at[0], .heap = scratch->at[1], .scratch = scratch};
}

ph_rc ph_bpe_push(ph_bpe *w, int32_t id, size_t at, size_t n, ph_err *err) {
    ph_model_scratch *s = w->scratch;
    if (w->n >= INT32_MAX - 1 || at + n > UINT32_MAX)
        return PH_FAIL(err, PH_ELIMIT, "text: a word of more than %d symbols", INT32_MAX - 1);
    PH_TRY(ph_room_grow(&s->at[0], &s->cap[0], w->n, 1, sizeof *w->symbol, err));
    w->symbol = s->at[0];
    w->symbol[w->n++] = (ph_bpe_symbol){.id = id, .at = (uint32_t)at, .n = (uint32_t)n};
    return PH_OK;
}

void ph_bpe_link(ph_bpe *w) {
    for (size_t i = 0; i < w->n; i++) {
        w->symbol[i].prev = (int32_t)i - 1;
        w->symbol[i].next = i + 1 < w->n ? (int32_t)i + 1 : -1;
    }
}

void ph_bpe_join(ph_bpe *w, int32_t left, int32_t id) {
    ph_bpe_symbol *l = &w->symbol[left], *r = &w->symbol[l->next];
    l->id = id;
    l->n += r->n;
    l->next = r->next;
    if (r->next >= 0) w->symbol[r->next].prev = left;
    r->n = 0;
}

static int before(ph_bpe_candidate a, ph_bpe_candidate b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

ph_rc ph_bpe_offer(ph_bpe *w, ph_bpe_candidate c, ph_err *err) {
    ph_model_scratch *s = w->scratch;
    PH_TRY(ph_room_grow(&s->at[1], &s->cap[1], w->n_heap, 1, sizeof *w->heap, err));
    w->heap = s->at[1];
    size_t i = w->n_heap++;
    for (; i && before(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
    return PH_OK;
}

int ph_bpe_take(ph_bpe *w, ph_bpe_candidate *out) {
    if (!w->n_heap) return 0;
    *out = w->heap[0];
    ph_bpe_candidate last = w->heap[--w->n_heap];
    size_t           i = 0, n = w->n_heap;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(w->heap[child + 1], w->heap[child])) child++;
        if (!before(w->heap[child], last)) break;
        w->heap[i] = w->heap[child];
    }
    if (n) w->heap[i] = last;
    return 1;
}

void ph_model_scratch_close(ph_model_scratch *s) {
    for (int i = 0; i < PH_SCRATCHES; i++) free(s->at[i]);
    ph_bytes_close(&s->text);
    *s = (ph_model_scratch){0};
}
