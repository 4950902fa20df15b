/* tokmatch.c - added tokens in a text: of each place where one stands, the longest.
 *
 * The automaton is fed from the end to the front, so that after byte i it knows the rows that the text from i
 * on begins with.  Trust makes it two walks in one: a control token must lie in one trusted run, so one node
 * starts anew at each run's end and any row counts; the other walks the whole, and only plain rows count.
 */
#include "text/tokenizer_tables.h"

#include <stdlib.h>

static ph_rc push(ph_tok_places *p, size_t at, uint32_t row, ph_err *err) {
    void *items = p->place;
    PH_TRY(ph_room_grow(&items, &p->cap, p->n, 1, sizeof *p->place, err));
    p->place = items;
    p->place[p->n++] = (ph_tok_place){at, row};
    return PH_OK;
}

/* The longer of two rows that stand at one place (index + 1; 0: none).  As long: one text, `any` is the
 * later. */
static uint32_t longer(const ph_added_set *set, uint32_t any, uint32_t plain) {
    if (!any || !plain) return any ? any : plain;
    return set->row[plain - 1].text.n > set->row[any - 1].text.n ? plain : any;
}

ph_rc ph_tok_find_added(const ph_added_set *set, const uint8_t *text, size_t begin, size_t end,
                        const ph_trust_run *runs, size_t n_runs, ph_tok_places *out, ph_err *err) {
    uint32_t whole = 0, in_run = 0;
    size_t   r = n_runs;
    out->n = 0;
    if (!set->find.root) return PH_OK;
    while (r && (r == 1 ? 0 : runs[r - 2].end) >= end) r--; /* runs[r - 1] holds the last byte */
    int is_all = r && runs[r - 1].is_trusted && (r == 1 || runs[r - 2].end <= begin);
    for (size_t i = end; i-- > begin;) {
        uint32_t any = 0, plain = 0;
        if (r > 1 && i < runs[r - 2].end) { /* empty runs do not occur: see add_text of encode.c */
            r--;
            in_run = 0;
        }
        if (r && runs[r - 1].is_trusted) {
            in_run = ph_automaton_step(&set->find, in_run, text[i], &out->moves);
            any = set->find.hit[in_run];
        }
        if (!is_all) {
            whole = ph_automaton_step(&set->find, whole, text[i], &out->moves);
            plain = set->find.hit[whole];
            if (plain) plain = set->row[plain - 1].plain;
        }
        uint32_t row = longer(set, any, plain);
        if (row) PH_TRY(push(out, i, row - 1, err));
    }
    return PH_OK;
}

int ph_tok_next_place(ph_tok_places *p, size_t from, ph_tok_place *out) {
    while (p->n) {
        *out = p->place[--p->n];
        if (out->at >= from) return 1;
    }
    return 0;
}

void ph_tok_places_close(ph_tok_places *p) {
    free(p->place);
    *p = (ph_tok_places){0};
}
