/* cached_attend.c - the attend step of CachedAttention: queries meet their sequence's pages, in order.
 *
 *     whole   a unit is a block of rows and some query heads that share a key head
 *     split   few rows that see much: a unit is one row, some query heads that share a key head, and a stretch
 *             of its keys; whoever ends the last stretch of a row and heads adds them up (Flash-Decoding, Dao et al. 2023; arXiv:2311.01282 looks
 *             back on it)
 *
 * Queries of one sequence that stand side by side walk its pages together; each takes from a page the keys
 * that it may see.  A row's keys are cut into stretches where its own span says, each has a softmax of its
 * own, and these are added up in order: in a whole unit as in split ones.  So a query's bits are always the
 * same.
 */
#include "engine/native/cached.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* STRETCH_MIN keys are worth a unit; a row has at most STRETCHES.  SPLIT_ROWS: more rows give units enough.
 * QUERIES_MIN: fewer in a unit would wait for the bytes of keys and values. */
enum { STRETCH_MIN = 512, STRETCHES = 16, SPLIT_ROWS = 4, QUERIES_MIN = 24, QUERIES_MAX = 96 };

/* ---- spans and stretches ---- */

/* First key that a row may see, and the one behind the last. */
static void span_of(const ph_cached *c, const int32_t *row, int32_t *lo, int32_t *hi) {
    if (c->is_cross) { /* the row's own index is of another cache, and nobody has checked it */
        *lo = row[PH_ROW_CROSS_BEGIN];
        *hi = row[PH_ROW_CROSS_END];
        return;
    }
    *hi = row[PH_ROW_SPAN];
    *lo = c->window > 0 && row[PH_ROW_INDEX] + 1 > c->window ? row[PH_ROW_INDEX] + 1 - c->window : 0;
    if (row[PH_ROW_INDEX] - row[PH_ROW_BACK] < *lo) *lo = row[PH_ROW_INDEX] - row[PH_ROW_BACK];
    if (*lo > *hi) *lo = *hi;
}

/* Stretches begin at multiples of this, whole pages; [lo, hi) touches at most STRETCHES of them. */
static int32_t stretch_of(int32_t lo, int32_t hi) {
    int32_t keys = STRETCH_MIN;
    while ((hi - lo) / keys >= STRETCHES - 1) keys *= 2;
    return keys;
}

static size_t stretches_of(int32_t lo, int32_t hi) {
    int32_t keys = stretch_of(lo, hi);
    return lo < hi ? (size_t)((hi - 1) / keys - lo / keys + 1) : 0;
}

/* ---- what is known of a query so far ---- */

typedef struct tally {
    float *acc, *m, *l; /* as ph_attend's */
} tally;

static tally tally_at(const ph_query_block *b, size_t i, size_t dv) {
    return (tally){&b->acc[i * dv], &b->m[i], &b->l[i]};
}

static void clear(tally t, size_t dv) {
    *t.m = -INFINITY;
    *t.l = 0;
    memset(t.acc, 0, dv * sizeof *t.acc);
}

static void copy(tally to, tally of, size_t dv) {
    *to.m = *of.m;
    *to.l = *of.l;
    memcpy(to.acc, of.acc, dv * sizeof *to.acc);
}

/* `to` absorbs what a later stretch gave; `of` is used up. */
static void fold(const ph_kernels *k, tally to, tally of, size_t dv) {
    if (*to.m == -INFINITY && *to.l == 0) { /* no key was seen: as if there had been no stretch before */
        copy(to, of, dv);
        return;
    }
    float most = *of.m > *to.m ? *of.m : *to.m, base = most > -INFINITY ? most : 0;
    float keep = expf(*to.m - base), add = expf(*of.m - base);
    k->scale(to.acc, to.acc, keep, dv);
    k->scale(of.acc, of.acc, add, dv);
    k->add(to.acc, to.acc, of.acc, dv);
    *to.l = *to.l * keep + *of.l * add;
    *to.m = most;
}

/* ---- memory ---- */

/* A worker's: the queries of a unit and their sums over the stretches before. */
typedef struct desk {
    ph_query_block b, sums; /* sums: acc, m and l alone */
} desk;

static size_t desk_bytes(size_t d, size_t dv) {
    size_t sums = ph_whole_lines(QUERIES_MAX * dv) + 2 * ph_whole_lines(QUERIES_MAX);
    return ph_query_bytes(QUERIES_MAX, d, dv, 0) + sums * sizeof(float);
}

static desk desk_in(unsigned char *memory, size_t d, size_t dv) {
    desk k = {.b = ph_query_in(memory, QUERIES_MAX, d, dv)};
    k.sums.acc = (float *)(void *)(memory + ph_query_bytes(QUERIES_MAX, d, dv, 0));
    k.sums.m = k.sums.acc + ph_whole_lines(QUERIES_MAX * dv);
    k.sums.l = k.sums.m + ph_whole_lines(QUERIES_MAX);
    return k;
}

/* All workers': [SPLIT_ROWS, heads] stretches that are not done yet, then a part for each row, head and
 * stretch. */
static size_t part_floats(const ph_cached *c) {
    return ph_whole_lines(c->dv + 2);
}

static size_t counts_bytes(const ph_cached *c) {
    return (SPLIT_ROWS * c->heads * sizeof(atomic_uint) + PH_ALIGN - 1) / PH_ALIGN * PH_ALIGN;
}

size_t ph_cached_parts_bytes(const ph_cached *c) {
    return counts_bytes(c) + SPLIT_ROWS * c->heads * STRETCHES * part_floats(c) * sizeof(float);
}

static atomic_uint *left_of(const ph_native *p, const ph_cached *c, size_t group) {
    return (atomic_uint *)ph_native_at(p, c->parts) + group;
}

static tally part_of(const ph_native *p, const ph_cached *c, size_t row, size_t head, size_t stretch) {
    float *parts = (float *)(void *)((unsigned char *)ph_native_at(p, c->parts) + counts_bytes(c));
    float *at = &parts[((row * c->heads + head) * STRETCHES + stretch) * part_floats(c)];
    return (tally){at, &at[c->dv], &at[c->dv + 1]};
}

static ph_rc scratch(const ph_native *p, const ph_step *s, const int64_t *size, size_t *out, ph_err *err) {
    const ph_cached *c = s->data;
    (void)p, (void)size, (void)err;
    *out = desk_bytes(c->d, c->dv);
    return PH_OK;
}

/* ---- units of this run ---- */

/* The most keys that a row sees, and the most stretches. */
static void look(const ph_native *p, const ph_cached *c, size_t *keys, size_t *stretches) {
    const int32_t *rows = ph_native_at(p, c->rows);
    *keys = *stretches = 1;
    for (size_t i = 0; i < c->n; i++) {
        int32_t lo, hi;
        span_of(c, &rows[i * PH_ROW_FIELDS], &lo, &hi);
        if ((size_t)(hi - lo) > *keys) *keys = (size_t)(hi - lo);
        if (stretches_of(lo, hi) > *stretches) *stretches = stretches_of(lo, hi);
    }
}

/* As many queries a unit as PH_ATTEND_MACS allow, or QUERIES_MIN; few enough that every worker finds some. */
static size_t queries_of(const ph_cached *c, size_t keys, size_t hands) {
    size_t queries = PH_ATTEND_MACS / (keys * (c->d + c->dv) + 1);
    if (queries < QUERIES_MIN) queries = QUERIES_MIN;
    if (hands > 1 && queries > c->n * c->heads / (2 * hands)) queries = c->n * c->heads / (2 * hands);
    if (queries > QUERIES_MAX) queries = QUERIES_MAX;
    return queries ? queries : 1;
}

static void share_out(ph_native *p, ph_step *s, ph_cached *c, size_t keys, size_t stretches) {
    size_t group = c->heads / c->kv_heads, hands = (size_t)p->n_hands, queries;
    int    is_split = c->parts >= 0 && stretches > 1 && c->n <= SPLIT_ROWS && c->n * c->kv_heads < 4 * hands;
    c->stretches = is_split ? stretches : 0;
    queries = is_split ? QUERIES_MAX : queries_of(c, keys, hands);
    c->head_block = group < queries ? group : queries;
    c->head_blocks = (group + c->head_block - 1) / c->head_block;
    c->row_block = is_split ? 1 : queries / c->head_block;
    c->row_blocks = (c->n + c->row_block - 1) / c->row_block;
    s->units = c->row_blocks * c->kv_heads * c->head_blocks * (is_split ? stretches : 1);
}

static ph_rc prepare(ph_native *p, ph_step *s, ph_err *err) {
    ph_cached *c = s->data;
    size_t     keys, stretches;
    if (c->is_cross) PH_TRY(ph_cached_check(p, c, err)); /* else the append step has */
    look(p, c, &keys, &stretches);
    share_out(p, s, c, keys, stretches);
    if (c->n * c->heads * keys * (c->d + c->dv) < PH_UNIT_MACS / 32)
        s->piece = s->units; /* not worth a barrier */
    for (size_t i = 0; c->stretches && i < s->units / c->stretches; i++)
        atomic_init(left_of(p, c, i), (unsigned)c->stretches);
    return PH_OK;
}

/* ---- pages ---- */

/* Rows of one sequence with query heads [head, head + heads), which share a key head. */
typedef struct meeting {
    const ph_kernels *kernels;
    const ph_cached  *c;
    const desk       *k;
    ph_attend         t;
    const int32_t    *rows; /* [n, fields] */
    size_t            n, head, heads;
} meeting;

/* The page at `base` as row i sees it. */
static const ph_kv_page *page_of(const meeting *w, size_t i, int32_t base) {
    const int32_t *row = &w->rows[i * PH_ROW_FIELDS];
    return ph_kv_seen(w->c->kv, w->c->layer, row[PH_ROW_SEQUENCE], row[PH_ROW_INDEX], base);
}

/* The queries whose rows see the page at `base` as `page` meet its keys. */
static void meet_form(meeting *w, int32_t base, const ph_kv_page *page, const ph_kv_page *next) {
    const ph_cached *c = w->c;
    for (size_t i = 0; i < w->n; i++) {
        const int32_t *row = &w->rows[i * PH_ROW_FIELDS];
        int32_t        lo, hi;
        span_of(c, row, &lo, &hi);
        lo = lo < base ? 0 : lo - base;
        hi = hi - base > PH_KV_PAGE ? PH_KV_PAGE : hi - base;
        if (hi < lo || page_of(w, i, base) != page) lo = hi = 0;
        for (size_t h = 0; h < w->heads; h++) {
            w->k->b.lo[i * w->heads + h] = lo;
            w->k->b.hi[i * w->heads + h] = hi;
        }
    }
    ph_kv_meet(page->dtype == PH_F16 ? c->attend_held : c->attend, page, next, &c->shape,
               w->head / (c->heads / c->kv_heads), &w->t);
}

/* All queries meet the keys that stand in one page, in each form that one of them sees: the later the row,
 * the sooner it is settled. */
static void meet_page(meeting *w, int32_t base, int32_t to) {
    const ph_kv_page *form[2] = {NULL, NULL};
    const ph_kv_page *next = to - base > PH_KV_PAGE ? page_of(w, 0, base + PH_KV_PAGE) : NULL;
    size_t            n_forms = 0;
    if (to - base > 2 * PH_KV_PAGE)
        __builtin_prefetch(page_of(w, 0, base + 2 * PH_KV_PAGE)); /* where its keys are */
    for (size_t i = 0; i < w->n; i++) {
        const ph_kv_page *page = page_of(w, i, base);
        if (page && page != form[0] && page != form[1]) form[n_forms++] = page;
    }
    for (size_t i = 0; i < n_forms; i++) meet_form(w, base, form[i], next);
}

/* Row i's answers so far go to its sums, and begin anew. */
static void put_by(const meeting *w, size_t i) {
    const desk *k = w->k;
    size_t      dv = w->c->dv;
    for (size_t q = i * w->heads; q < (i + 1) * w->heads; q++) {
        tally part = tally_at(&k->b, q, dv);
        fold(w->kernels, tally_at(&k->sums, q, dv), part, dv);
        clear(part, dv);
    }
}

/* Pages of keys [from, to); where a row's stretch begins within, those before are put by. */
static void walk(meeting *w, int32_t from, int32_t to) {
    from = from / PH_KV_PAGE * PH_KV_PAGE;
    for (int32_t base = from; base < to; base += PH_KV_PAGE) {
        for (size_t i = 0; base > from && base % STRETCH_MIN == 0 && i < w->n; i++) {
            int32_t lo, hi;
            span_of(w->c, &w->rows[i * PH_ROW_FIELDS], &lo, &hi);
            if (base > lo && base < hi && base % stretch_of(lo, hi) == 0) put_by(w, i);
        }
        meet_page(w, base, to);
    }
}

static meeting gather(ph_native *p, const ph_cached *c, const desk *k, size_t first, size_t n, size_t head,
                      size_t heads) {
    const float *q = ph_native_at(p, c->turned);
    meeting      w = {.kernels = ph_native_kernels(p),
                      .c = c,
                      .k = k,
                      .rows = (const int32_t *)ph_native_at(p, c->rows) + first * PH_ROW_FIELDS,
                      .n = n,
                      .head = head,
                      .heads = heads};
    w.t = (ph_attend){.acc = k->b.acc,
                      .m = k->b.m,
                      .l = k->b.l,
                      .lo = k->b.lo,
                      .hi = k->b.hi,
                      .scratch = k->b.scores,
                      .q = k->b.q,
                      .q_stride = c->d,
                      .n_q = n * heads,
                      .d = c->d,
                      .dv = c->dv,
                      .scale = c->scale,
                      .softcap = c->softcap};
    for (size_t i = 0; i < n; i++)
        memcpy(&k->b.q[i * heads * c->d], &q[((first + i) * c->heads + head) * c->d],
               heads * c->d * sizeof *q);
    ph_query_begin(&k->b, n * heads, c->dv);
    return w;
}

/* Where the answer of a row's head goes. */
static float *answer_at(const ph_native *p, const ph_cached *c, size_t row, size_t head) {
    return (float *)ph_native_at(p, c->y) + (row * c->heads + head) * c->dv;
}

/* ---- whole units ---- */

static void meet(ph_native *p, const ph_cached *c, const desk *k, size_t first, size_t n, size_t head,
                 size_t heads) {
    meeting w = gather(p, c, k, first, n, head, heads);
    int32_t from = INT32_MAX, to = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t lo, hi;
        span_of(c, &w.rows[i * PH_ROW_FIELDS], &lo, &hi);
        if (lo < from) from = lo;
        if (hi > to) to = hi;
    }
    ph_query_begin(&k->sums, n * heads, c->dv);
    walk(&w, from, to);
    for (size_t i = 0; i < n; i++) {
        put_by(&w, i);
        for (size_t h = 0; h < heads; h++)
            ph_query_answer(&k->sums, i * heads + h, c->dv, answer_at(p, c, first + i, head + h));
    }
}

static void whole_unit(ph_native *p, const ph_cached *c, const desk *k, size_t u, size_t head, size_t heads) {
    const int32_t *rows = ph_native_at(p, c->rows);
    size_t r = u % c->row_blocks * c->row_block, end = r + c->row_block < c->n ? r + c->row_block : c->n;
    while (r < end) { /* rows of one sequence at a time */
        size_t n = 1;
        while (r + n < end &&
               rows[(r + n) * PH_ROW_FIELDS + PH_ROW_SEQUENCE] == rows[r * PH_ROW_FIELDS + PH_ROW_SEQUENCE])
            n++;
        meet(p, c, k, r, n, head, heads);
        r += n;
    }
}

/* ---- split units ---- */

static void add_up(ph_native *p, const ph_cached *c, const desk *k, size_t row, size_t n, size_t head,
                   size_t heads) {
    for (size_t h = head; h < head + heads; h++) {
        tally sum = tally_at(&k->sums, 0, c->dv);
        ph_query_begin(&k->sums, 1, c->dv);
        for (size_t i = 0; i < n; i++) fold(ph_native_kernels(p), sum, part_of(p, c, row, h, i), c->dv);
        ph_query_answer(&k->sums, 0, c->dv, answer_at(p, c, row, h));
    }
}

/* Keys of one stretch, to its part. */
static void stretch_unit(ph_native *p, const ph_cached *c, const desk *k, size_t row, size_t stretch,
                         size_t head, size_t heads) {
    meeting w = gather(p, c, k, row, 1, head, heads);
    int32_t lo, hi;
    span_of(c, w.rows, &lo, &hi);
    int32_t keys = stretch_of(lo, hi), from = (lo / keys + (int32_t)stretch) * keys;
    int32_t to = hi - from > keys ? from + keys : hi;
    walk(&w, from > lo ? from : lo, to);
    for (size_t h = 0; h < heads; h++)
        copy(part_of(p, c, row, head + h, stretch), tally_at(&k->b, h, c->dv), c->dv);
}

static void split_unit(ph_native *p, const ph_cached *c, const desk *k, size_t u, size_t group, size_t head,
                       size_t heads) {
    size_t  row = u / c->stretches % c->row_blocks, stretch = u % c->stretches, n;
    int32_t lo, hi;
    span_of(c, (const int32_t *)ph_native_at(p, c->rows) + row * PH_ROW_FIELDS, &lo, &hi);
    n = stretches_of(lo, hi);
    if (stretch < n) stretch_unit(p, c, k, row, stretch, head, heads);
    if (atomic_fetch_sub_explicit(left_of(p, c, group), 1, memory_order_acq_rel) == 1)
        add_up(p, c, k, row, n, head, heads);
}

static void work(ph_native *p, const ph_step *s, size_t begin, size_t end, ph_hand *hand) {
    const ph_cached *c = s->data;
    size_t           group = c->heads / c->kv_heads, stretches = c->stretches ? c->stretches : 1;
    desk             k = desk_in(hand->memory, c->d, c->dv);
    for (size_t u = begin; u < end; u++) { /* [kv heads, head blocks, row blocks, stretches] */
        size_t block = u / stretches / c->row_blocks, part = block % c->head_blocks * c->head_block;
        size_t head = block / c->head_blocks * group + part;
        size_t heads = group - part < c->head_block ? group - part : c->head_block;
        if (c->stretches)
            split_unit(p, c, &k, u, u / stretches, head, heads);
        else
            whole_unit(p, c, &k, u, head, heads);
    }
}

const ph_step_kind ph_cached_attend = {
    .name = "attend", .scratch = scratch, .prepare = prepare, .work = work};
