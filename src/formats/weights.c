/* weights.c - finding a tensor by name, and how many bytes a shape takes.
 *
 * The index is a sorted list and not a hash table: it has no bad case for an
 * attacker to aim at, finds duplicates on the way, and a model looks up a few
 * hundred names once.
 */
#include "formats/weights.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b, void *at) {
    const ph_weight *w = at;
    return strcmp(w[*(const uint32_t *)a].name, w[*(const uint32_t *)b].name);
}

ph_rc ph_weights_index(ph_weights *w, ph_arena *arena, ph_err *err) {
    void *sorted;
    if (w->n > UINT32_MAX) return PH_FAIL(err, PH_ELIMIT, "%zu tensors", w->n);
    PH_TRY(ph_arena_carve(arena, &sorted, w->n ? w->n : 1, sizeof *w->sorted, err));
    w->sorted = sorted;
    for (size_t i = 0; i < w->n; i++) w->sorted[i] = (uint32_t)i;
    qsort_r(w->sorted, w->n, sizeof *w->sorted, by_name, w->at);
    for (size_t i = 1; i < w->n; i++) {
        const ph_weight *a = &w->at[w->sorted[i - 1]], *b = &w->at[w->sorted[i]];
        if (!strcmp(a->name, b->name) && a->file == b->file)
            return PH_FAIL(err, PH_EFORMAT, "tensor %.160s is listed twice", a->name);
        if (!strcmp(a->name, b->name))
            return PH_FAIL(err, PH_EFORMAT, "tensor %.160s is listed twice (parts %d and %d)", a->name,
                           a->file + 1, b->file + 1);
    }
    return PH_OK;
}

const ph_weight *ph_weights_find(const ph_weights *w, const char *name) {
    size_t low = 0, high = w->n;
    while (low < high) {
        size_t           middle = low + (high - low) / 2;
        const ph_weight *here = &w->at[w->sorted[middle]];
        int              order = strcmp(name, here->name);
        if (!order) return here;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

ph_rc ph_weight_bytes(ph_dtype dtype, int rank, const int64_t *dim, size_t *out, ph_err *err) {
    size_t n, rows = 1;
    /* Zero dimensions first: [2^40, 2^40, 0] has no bytes and must not count as an overflow. */
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0) return PH_FAIL(err, PH_EFORMAT, "dimension %d is %lld", i, (long long)dim[i]);
    PH_TRY(ph_dtype_row_bytes(dtype, rank ? dim[rank - 1] : 1, &n, err));
    for (int i = 0; i < rank; i++)
        if (!dim[i]) rows = 0;
    for (int i = 0; rows && i < rank - 1; i++)
        if (ph_mul_over(rows, (size_t)dim[i], &rows))
            return PH_FAIL(err, PH_ELIMIT, "the product of the dimensions overflows");
    if (ph_mul_over(rows, n, out)) return PH_FAIL(err, PH_ELIMIT, "the product of the dimensions overflows");
    return PH_OK;
}

void ph_weight_describe(const ph_weight *w, char *out, size_t size) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < w->rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? ", " : "[", (long long)w->dim[i]);
    if (at < size) snprintf(out + at, size - at, "%s %s", w->rank ? "]" : "[]", ph_dtype_name(w->dtype));
}
