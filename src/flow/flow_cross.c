/* flow_cross.c - models whose decoder attends to pictures or sound beside the rows: what each row sees, and
 * the cache that it sees.
 *
 *     cross cache of a sequence    [ view 0 | view 1 | ... | blank tiles of all views ]
 *     a row                        [begin, end) of it
 *
 * What stands in the cache follows from the turn's views alone; it is filled by the cross graph before the
 * first row is run, and again only when the views are others.  What a row sees follows from the image tokens
 * before it, and is part of the row's key: a row is not taken from the cache when it would see something
 * else.
 */
#include "flow/session.h"

#include <string.h>

size_t ph_cross_capacity(const ph_session *s) {
    enum { PICTURES_LEAST = 8 }; /* address space until they are there */
    const ph_cross_spec *c = &s->model->spec.cross;
    size_t               pictures = s->how.images > PICTURES_LEAST ? (size_t)s->how.images : PICTURES_LEAST;
    return c->n_layers ? pictures * (size_t)c->tokens_max : 0;
}

ph_rc ph_cross_check(const ph_turn *t, size_t tokens, ph_err *err) {
    size_t most = ph_cross_capacity(t->session);
    if (tokens <= most) return PH_OK;
    return PH_FAIL(
        err, PH_ELIMIT,
        "the %zu pictures of this prompt make %zu visual tokens, but this session has room for %zu: "
        "use fewer pictures, or open it for more of them",
        t->n_views, tokens, most);
}

static int blanks_of(const ph_turn *t, const ph_view *v) {
    return v->layout.n_blank * t->session->model->spec.bridge.tokens_per_tile;
}

static uint64_t mix(uint64_t key, uint64_t with) {
    key = (key ^ with) * 0x9e3779b97f4a7c15u;
    return key ^ key >> 29;
}

/* The key of views [from, to), never 0. */
static uint64_t key_of(const ph_turn *t, size_t from, size_t to) {
    uint64_t key = 0x3c6ef372fe94f82bu;
    for (size_t i = from; i < to; i++) key = mix(mix(key, t->view[i].key[0]), t->view[i].key[1]);
    return key | 1;
}

static ph_sight blind(const ph_turn *t) {
    const ph_cross_look *l = &t->look;
    if (!t->n_views || !t->session->model->spec.cross.blind_sees_all) return (ph_sight){0};
    return (ph_sight){.end = l->total, .key = key_of(t, 0, t->n_views)};
}

void ph_cross_begin(ph_turn *t) {
    const ph_cross_spec *c = &t->session->model->spec.cross;
    int32_t              at = 0;
    t->look = (ph_cross_look){0};
    for (size_t i = 0; i < t->n_views; i++) {
        t->look.begin[i] = at;
        at += t->view[i].n_visual - blanks_of(t, &t->view[i]);
    }
    t->look.begin[t->n_views] = at;
    for (size_t i = 0; i < t->n_views; i++) at += blanks_of(t, &t->view[i]);
    t->look.total = at;
    t->look.now = blind(t);
    if (c->sees_always && t->n_views)
        t->look.now = (ph_sight){.end = at, .sees = 1, .key = key_of(t, 0, t->n_views)};
}

static void meet_mark(ph_turn *t) {
    const ph_cross_spec *c = &t->session->model->spec.cross;
    ph_cross_look       *l = &t->look;
    size_t               last = l->n_marks++;
    if (!c->sees_run || !l->was_mark) l->first = last;
    l->is_hidden = 0;
    l->now = (ph_sight){.begin = l->begin[l->first],
                        .end = l->begin[last + 1],
                        .sees = 1,
                        .key = key_of(t, l->first, last + 1)};
}

ph_sight ph_cross_look_from(ph_turn *t, int32_t id) {
    const ph_spec *spec = &t->session->model->spec;
    ph_cross_look *l = &t->look;
    if (spec->cross.sees_always) return l->now;
    int is_mark = id == spec->image_token && l->n_marks < t->n_views;
    if (is_mark) meet_mark(t);
    l->was_mark = is_mark;
    ph_sight now = l->is_hidden ? (ph_sight){0} : l->now;
    if (spec->cross.hides_after_eos && id == ph_tokenizer_eos(t->session->model->tokenizer)) l->is_hidden = 1;
    return now;
}

/* ---- the cache ---- */

static ph_rc fill(ph_turn *t, size_t feature, int32_t at, int32_t n, ph_err *err) {
    ph_session                 *s = t->session;
    const ph_ready             *r = &s->part[PH_PART_CROSS];
    const struct ph_engine_def *def = r->engine->def;
    while (n > 0) {
        int32_t take = n < s->how.chunk ? n : s->how.chunk;
        ph_syms syms = {{0}};
        syms.at[PH_SYM_R] = take;
        PH_TRY(ph_part_ready(s, PH_PART_CROSS, &syms, err));
        PH_TRY(def->lend(r->program, s->cross_visual, t->features + feature * s->d_visual, err));
        int32_t *row = def->buffer(r->program, s->cross_rows);
        memset(row, 0, (size_t)take * PH_ROW_FIELDS * sizeof *row);
        for (int32_t i = 0; i < take; i++, row += PH_ROW_FIELDS) {
            row[PH_ROW_SEQUENCE] = t->sequence;
            row[PH_ROW_INDEX] = at + i;
            row[PH_ROW_SPAN] = at + i + 1;
        }
        PH_TRY(ph_part_run(s, PH_PART_CROSS, &syms, t->question->cancel, err));
        feature += (size_t)take;
        at += take;
        n -= take;
    }
    return PH_OK;
}

ph_rc ph_cross_fill(ph_turn *t, ph_err *err) {
    ph_session *s = t->session;
    uint64_t    key = t->n_views ? key_of(t, 0, t->n_views) : 0;
    if (!s->cross || t->cross_key == key) return PH_OK;
    t->cross_key = 0; /* half filled is not filled */
    ph_kv_truncate(s->cross, t->sequence, 0);
    if (!t->n_views) return PH_OK;
    PH_TRY(ph_kv_extend(s->cross, t->sequence, t->look.total, err));
    if ((size_t)t->look.total > t->cross_most) t->cross_most = (size_t)t->look.total;
    int32_t blank = t->look.begin[t->n_views];
    for (size_t i = 0; i < t->n_views; i++) {
        const ph_view *v = &t->view[i];
        int32_t        n_blank = blanks_of(t, v), n = v->n_visual - n_blank;
        PH_TRY(fill(t, v->row, t->look.begin[i], n, err));
        PH_TRY(fill(t, v->row + (size_t)n, blank, n_blank, err));
        blank += n_blank;
    }
    t->cross_key = key;
    return PH_OK;
}
