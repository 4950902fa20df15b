/* tokadded.c - sets of added tokens: rows in order, and the automaton that finds them.
 *
 * They are made anew wherever a tokenizer comes from, ready-made tables included: they are few, and what the
 * encoder relies on here (a row's text is what the automaton has read, whole characters) need not be checked.
 */
#include "text/tokenizer_tables.h"

#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

int ph_tok_order(const uint8_t *blob, ph_span_of a, ph_span_of b) {
    uint32_t least = a.n < b.n ? a.n : b.n;
    int      order = least ? memcmp(blob + a.at, blob + b.at, least) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

ph_rc ph_added_link(ph_added_set *set, const uint8_t *blob, const char *where, ph_err *err) {
    ph_span_of *text = calloc((size_t)set->n + 1, sizeof *text);
    if (!text) return PH_FAIL(err, PH_ENOMEM, "%s: %u added tokens", where, set->n);
    for (uint32_t i = 0; i < set->n; i++) {
        ph_span_of s = set->row[i].text;
        if (ph_utf8_is_valid(blob + s.at, s.n)) text[i] = s;
    }
    ph_rc rc = ph_automaton_open(&set->find, blob, text, set->n, 1, err);
    /* Sorted: what begins a row, and an equal one, stand before it. */
    for (uint32_t i = 0; !rc && i < set->n; i++) {
        uint32_t next = set->find.root ? set->find.shorter[i] : 0;
        set->row[i].plain = set->row[i].plain ? i + 1 : next ? set->row[next - 1].plain : 0;
    }
    free(text);
    return rc;
}

ph_rc ph_added_carve(ph_added_set *to, const ph_added_set *from, ph_arena *arena, ph_err *err) {
    void *at;
    PH_TRY(ph_arena_carve(arena, &at, from->n, sizeof *from->row, err));
    if (at && from->n) memcpy(at, from->row, from->n * sizeof *from->row);
    to->row = at;
    to->n = from->n;
    return ph_automaton_copy(&to->find, &from->find, arena, err);
}

void ph_added_close(ph_added_set *set) {
    free(set->row);
    ph_automaton_close(&set->find);
    *set = (ph_added_set){0};
}
