/* automaton.c - builds and walks the automaton, see automaton.h.
 *
 * Texts are copied in the direction they will be met and sorted, so neighbours share their beginnings and
 * each node is made once, behind its parent.  Links are set by depth: a node's link needs only less deep
 * ones.
 */
#include "text/automaton.h"

#include "base/mem.h"
#include "text/tokhash.h"

#include <stdlib.h>
#include <string.h>

enum { NO_CHILD = 256 };

typedef struct entry {
    const uint8_t *at;
    uint32_t       n, index;
} entry;

typedef struct builder {
    ph_automaton *a;
    uint8_t      *bytes;  /* all texts, in their direction */
    entry        *entry;  /* [n] sorted */
    uint32_t     *parent; /* [n_nodes] */
    uint8_t      *into;   /* [n_nodes] the byte that leads there */
    uint32_t     *path;   /* [longest + 1] the nodes of the newest text */
    uint32_t     *order;  /* [n_nodes] nodes by depth; before that, their depths */
    uint32_t      n;
    size_t        longest;
} builder;

static int by_bytes(const void *x, const void *y) {
    const entry *a = x, *b = y;
    int          order = memcmp(a->at, b->at, a->n < b->n ? a->n : b->n);
    if (order) return order;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static ph_rc take(void *out, size_t n, size_t item, ph_err *err) {
    void *at = calloc(n ? n : 1, item);
    memcpy(out, &at, sizeof at);
    return at ? PH_OK : PH_FAIL(err, PH_ENOMEM, "an automaton: %zu items of %zu bytes", n, item);
}

static ph_rc gather(builder *b, const uint8_t *blob, const ph_span_of *text, uint32_t n, int is_backward,
                    ph_err *err) {
    size_t total = 0;
    for (uint32_t i = 0; i < n; i++) total += text[i].n;
    if (total >= UINT32_MAX) return PH_FAIL(err, PH_ELIMIT, "an automaton over %zu bytes of texts", total);
    PH_TRY(take(&b->bytes, total, 1, err));
    PH_TRY(take(&b->entry, n, sizeof *b->entry, err));
    uint8_t *to = b->bytes;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *from = blob + text[i].at;
        if (!text[i].n) continue;
        for (uint32_t k = 0; k < text[i].n; k++) to[k] = from[is_backward ? text[i].n - 1 - k : k];
        b->entry[b->n++] = (entry){to, text[i].n, i};
        if (text[i].n > b->longest) b->longest = text[i].n;
        to += text[i].n;
    }
    if (b->n) qsort(b->entry, b->n, sizeof *b->entry, by_bytes);
    return PH_OK;
}

/* Bytes that entry i has in common with the one before it. */
static uint32_t shared(const builder *b, uint32_t i) {
    const entry *x = &b->entry[i], *before = i ? x - 1 : x;
    uint32_t     n = 0;
    while (i && n < x->n && n < before->n && x->at[n] == before->at[n]) n++;
    return n;
}

/* How many nodes there will be, and how many edges to children that are not the first. */
static ph_rc count(builder *b, uint32_t n, ph_err *err) {
    ph_automaton *a = b->a;
    uint32_t      extra = 0;
    a->n_nodes = 1;
    a->n_texts = n;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t same = shared(b, i);
        a->n_nodes += b->entry[i].n - same;
        extra += same && same < b->entry[i].n && same < b->entry[i - 1].n;
    }
    a->n_edges = extra ? ph_hash_slots(extra) : 0;
    PH_TRY(take(&a->root, 256, sizeof *a->root, err));
    PH_TRY(take(&a->fail, a->n_nodes, sizeof *a->fail, err));
    PH_TRY(take(&a->hit, a->n_nodes, sizeof *a->hit, err));
    PH_TRY(take(&a->first, a->n_nodes, sizeof *a->first, err));
    PH_TRY(take(&a->edges, a->n_edges, sizeof *a->edges, err));
    PH_TRY(take(&a->shorter, n, sizeof *a->shorter, err));
    PH_TRY(take(&b->parent, a->n_nodes, sizeof *b->parent, err));
    PH_TRY(take(&b->into, a->n_nodes, 1, err));
    PH_TRY(take(&b->order, a->n_nodes, sizeof *b->order, err));
    return take(&b->path, b->longest + 1, sizeof *b->path, err);
}

static void link_child(ph_automaton *a, uint32_t from, uint8_t byte, uint32_t to) {
    if (!from) {
        a->root[byte] = to;
    } else if (from + 1 == to) {
        a->first[from] = byte;
    } else {
        uint32_t mask = a->n_edges - 1, i = ph_hash_pair((int32_t)from, byte) & mask;
        while (a->edges[i].to) i = (i + 1) & mask;
        a->edges[i] = (ph_trie_edge){from, to, byte};
    }
}

static uint32_t child(const ph_automaton *a, uint32_t node, uint8_t byte) {
    if (!node) return a->root[byte];
    if (a->first[node] == byte) return node + 1;
    if (!a->n_edges) return 0;
    uint32_t mask = a->n_edges - 1, i = ph_hash_pair((int32_t)node, byte) & mask;
    for (; a->edges[i].to; i = (i + 1) & mask)
        if (a->edges[i].from == node && a->edges[i].byte == byte) return a->edges[i].to;
    return 0;
}

/* The trie.  A node's depth stands in `order` until links are made. */
static void grow(builder *b) {
    ph_automaton *a = b->a;
    uint32_t      node = 0;
    for (uint32_t v = 0; v < a->n_nodes; v++) a->first[v] = NO_CHILD;
    for (uint32_t i = 0; i < b->n; i++) {
        const entry *e = &b->entry[i];
        for (uint32_t d = shared(b, i); d < e->n; d++) {
            b->path[d + 1] = ++node;
            b->parent[node] = b->path[d];
            b->into[node] = e->at[d];
            b->order[node] = d + 1;
            link_child(a, b->path[d], e->at[d], node);
        }
        uint32_t *hit = &a->hit[b->path[e->n]];
        a->shorter[e->index] = *hit; /* an equal text, listed earlier */
        *hit = e->index + 1;
    }
}

/* Nodes by depth: counted, then placed. */
static ph_rc sort_by_depth(builder *b, ph_err *err) {
    uint32_t *place = NULL, *sorted = NULL, n = b->a->n_nodes;
    PH_TRY(take(&place, b->longest + 2, sizeof *place, err));
    ph_rc rc = take(&sorted, n, sizeof *sorted, err);
    if (!rc) {
        for (uint32_t v = 0; v < n; v++) place[b->order[v] + 1]++;
        for (size_t d = 1; d < b->longest + 2; d++) place[d] += place[d - 1];
        for (uint32_t v = 0; v < n; v++) sorted[place[b->order[v]]++] = v;
        free(b->order);
        b->order = sorted;
    }
    free(place);
    return rc;
}

static void link_up(builder *b) {
    ph_automaton *a = b->a;
    for (uint32_t i = 1; i < a->n_nodes; i++) { /* the root, 0, is first */
        uint32_t v = b->order[i], f = b->parent[v], to = 0;
        while (f && !to) {
            f = a->fail[f];
            to = child(a, f, b->into[v]);
        }
        a->fail[v] = to;
        uint32_t *end = &a->hit[v];
        while (*end) end = &a->shorter[*end - 1];
        *end = a->hit[to];
    }
}

ph_rc ph_automaton_open(ph_automaton *a, const uint8_t *blob, const ph_span_of *text, uint32_t n,
                        int is_backward, ph_err *err) {
    builder b = {.a = a};
    *a = (ph_automaton){0};
    ph_rc rc = gather(&b, blob, text, n, is_backward, err);
    if (!rc && b.n) rc = count(&b, n, err);
    if (!rc && b.n) {
        grow(&b);
        rc = sort_by_depth(&b, err);
    }
    if (!rc && b.n) link_up(&b);
    free(b.bytes);
    free(b.entry);
    free(b.parent);
    free(b.into);
    free(b.path);
    free(b.order);
    if (rc) ph_automaton_close(a);
    return rc;
}

void ph_automaton_close(ph_automaton *a) {
    free(a->root);
    free(a->fail);
    free(a->hit);
    free(a->first);
    free(a->edges);
    free(a->shorter);
    *a = (ph_automaton){0};
}

static ph_rc copy(void *to, const void *from, size_t n, size_t item, ph_arena *arena, ph_err *err) {
    void *at = NULL;
    if (!from || !n) return PH_OK;
    PH_TRY(ph_arena_carve(arena, &at, n, item, err));
    if (at) memcpy(at, from, n * item);
    memcpy(to, &at, sizeof at);
    return PH_OK;
}

ph_rc ph_automaton_copy(ph_automaton *to, const ph_automaton *from, ph_arena *arena, ph_err *err) {
    *to = (ph_automaton){.n_nodes = from->n_nodes, .n_edges = from->n_edges, .n_texts = from->n_texts};
    PH_TRY(copy(&to->root, from->root, 256, sizeof *to->root, arena, err));
    PH_TRY(copy(&to->fail, from->fail, from->n_nodes, sizeof *to->fail, arena, err));
    PH_TRY(copy(&to->hit, from->hit, from->n_nodes, sizeof *to->hit, arena, err));
    PH_TRY(copy(&to->first, from->first, from->n_nodes, sizeof *to->first, arena, err));
    PH_TRY(copy(&to->edges, from->edges, from->n_edges, sizeof *to->edges, arena, err));
    return copy(&to->shorter, from->shorter, from->n_texts, sizeof *to->shorter, arena, err);
}

uint32_t ph_automaton_step(const ph_automaton *a, uint32_t node, uint8_t byte, uint64_t *moves) {
    for (;; node = a->fail[node]) {
        uint32_t to = child(a, node, byte);
        ++*moves;
        if (to || !node) return to;
    }
}
