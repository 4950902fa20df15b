/* use.c - walks the graphs of an opened model: constant to tensor by where its bytes stand, node to use.
 *
 * A constant that was computed at opening (1 + w, tanh of a gate) has no bytes in the files, and its tensor
 * counts as not read: it stays as it is stored, which is right for it.  Only planes are also known by name:
 * tensor/storage.def says what stands beside what.
 */
#include "convert/use.h"

#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const ph_weights *w;
    const ph_weight **sorted; /* [w->n] by place */
    unsigned         *use;
} walk;

static int by_place(const void *a, const void *b) {
    const ph_weight *const *x = a, *const *y = b;
    return ((*x)->bytes > (*y)->bytes) - ((*x)->bytes < (*y)->bytes);
}

/* The tensor whose bytes these are among; NULL: none. */
static const ph_weight *find(const walk *k, const uint8_t *at) {
    size_t low = 0, high = k->w->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (k->sorted[middle]->bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    const ph_weight *w = low ? k->sorted[low - 1] : NULL;
    return w && at && (size_t)(at - w->bytes) < w->n_bytes ? w : NULL;
}

/* Rows as long as the file's: another view of the same bytes cannot be had of blocks. */
static int is_matrix_of(const ph_value *v, const ph_weight *w) {
    return w->rank == 2 && v->shape.rank == 2 && v->shape.dim[1].mul == w->dim[1];
}

static int is_named(const ph_node *n, const char *op) {
    return !strcmp(n->op->name, op);
}

/* A table of pieces: its rows are looked up by the input "ids", as it is or moved (a second table behind). */
static int is_by_ids(const ph_graph *g, const ph_node *n) {
    int v = is_named(n, "Gather") ? n->in[1] : -1;
    for (int steps = 0; v >= 0 && steps < 16; steps++) {
        const ph_value *x = &g->value[v];
        if (x->producer < 0) return x->cls == PH_VALUE_INPUT && !strcmp(x->name, "ids");
        v = g->node[x->producer].n_in ? g->node[x->producer].in[0] : -1;
    }
    return 0;
}

static void note(const walk *k, const ph_graph *g, const ph_node *n, int place) {
    const ph_value *v = &g->value[n->in[place]];
    for (int p = 0; p < PH_N_PLANES; p++) {
        const ph_weight *w = find(k, v->storage.plane[p].bytes);
        if (!w) continue;
        unsigned *use = &k->use[w - k->w->at];
        int       is_table = place == 0 && is_by_ids(g, n);
        int       is_whole = is_matrix_of(v, w) && ((is_named(n, "Linear") && place == 1) || is_table);
        *use |= v->storage.form ? PH_USE_PLANE : is_whole ? PH_USE_MATRIX : PH_USE_NUMBERS;
        if (is_table) *use |= PH_USE_TABLE;
    }
}

/* The Linear behind "logits", over what is done to them (a soft cap). */
static void note_output(const walk *k, const ph_graph *g) {
    int v = ph_graph_find(g, "logits");
    for (int steps = 0; v >= 0 && steps < 8; steps++) {
        const ph_node *n = g->value[v].producer >= 0 ? &g->node[g->value[v].producer] : NULL;
        if (!n) return;
        if (is_named(n, "Linear")) {
            const ph_weight *w = find(k, g->value[n->in[1]].storage.plane[PH_PLANE_DATA].bytes);
            if (w) k->use[w - k->w->at] |= PH_USE_OUTPUT;
            return;
        }
        v = n->n_in ? n->in[0] : -1;
    }
}

static void walk_graph(const walk *k, const ph_graph *g) {
    for (size_t i = 0; g && i < g->n_nodes; i++)
        for (int place = 0; place < g->node[i].n_in; place++)
            if (g->node[i].in[place] >= 0 && g->value[g->node[i].in[place]].cls == PH_VALUE_CONSTANT)
                note(k, g, &g->node[i], place);
}

/* ---- by name ---- */

enum { NAME_MAX_BYTES = 4096 };

/* The tensor that has `other` where name ends with `own`; what both begin with may be part of a longer word
 * (X_scale beside X, as X.weight_scale beside X.weight).  NULL: none. */
static const ph_weight *beside(const ph_weights *all, const char *name, const char *own, const char *other) {
    char text[NAME_MAX_BYTES];
    while (*own && *own == *other) own++, other++;
    size_t n = strlen(name), tail = strlen(own), more = strlen(other);
    if (n < tail || strcmp(name + n - tail, own) || n - tail + more >= sizeof text) return NULL;
    memcpy(text, name, n - tail);
    memcpy(text + n - tail, other, more + 1);
    return ph_weights_find(all, text);
}

/* Whole numbers, or floats of a byte. */
static int is_levels(const ph_weight *w) {
    return w && ph_dtype_block(w->dtype) == 1 &&
           (ph_dtype_bytes(w->dtype) == 1 || !ph_dtype_get(w->dtype)->pack);
}

int ph_use_is_plane(const ph_weights *all, const ph_weight *w) {
    const ph_storage_form *form;
    for (size_t i = 0; (form = ph_storage_form_at(i)); i++) {
        const char *data = form->part[PH_PLANE_DATA];
        if (is_levels(w) && beside(all, w->name, data, form->part[PH_PLANE_SCALE])) return 1;
        for (int p = PH_PLANE_SCALE; p < PH_N_PLANES; p++)
            if (form->part[p] && is_levels(beside(all, w->name, form->part[p], data))) return 1;
    }
    return 0;
}

ph_rc ph_use_find(unsigned **use, const ph_model *m, const ph_weights *w, ph_arena *arena, ph_err *err) {
    const ph_graph *all[] = {m->language, m->vision, m->bridge, m->cross};
    void           *sorted, *bits;
    PH_TRY(ph_arena_carve(arena, &sorted, w->n + 1, sizeof(const ph_weight *), err));
    PH_TRY(ph_arena_zero(arena, &bits, w->n + 1, sizeof **use, err));
    walk k = {.w = w, .sorted = sorted, .use = bits};
    for (size_t i = 0; i < w->n; i++) {
        k.sorted[i] = &w->at[i];
        if (ph_use_is_plane(w, &w->at[i])) k.use[i] = PH_USE_PLANE;
    }
    qsort(k.sorted, w->n, sizeof *k.sorted, by_place);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) walk_graph(&k, all[i]);
    note_output(&k, m->language);
    *use = bits;
    return PH_OK;
}
