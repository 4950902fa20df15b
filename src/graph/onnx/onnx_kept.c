/* onnx_kept.c - weights that the import lays out anew (turned, joined with their scales), each made once.
 *
 * They are found again by all that they are made of, never by a name: two products may read one matrix with
 * scales of their own, and a file may call a tensor of its own what we would call the turned one.  An open
 * table in the import's arena, at most half full.
 */
#include "graph/onnx/onnx_impl.h"

#include <stdio.h>
#include <string.h>

enum { SLOTS_MIN = 64 };

struct ph_oi_kept {
    int64_t key[PH_OI_KEY]; /* the first is 0 where the slot is free */
    int     id;
};

static size_t hash_of(const int64_t key[PH_OI_KEY]) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < PH_OI_KEY; i++) {
        h = (h ^ (uint64_t)key[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    return (size_t)h;
}

/* The slot of the key, or the free one where it belongs. */
static ph_oi_kept *slot_of(ph_oi_kept *at, size_t n, const int64_t key[PH_OI_KEY]) {
    size_t i = hash_of(key) & (n - 1);
    while (at[i].key[0] && memcmp(at[i].key, key, sizeof at[i].key)) i = (i + 1) & (n - 1);
    return &at[i];
}

int ph_oi_kept_find(const ph_oi *o, const int64_t key[PH_OI_KEY]) {
    if (!o->n_kept) return -1;
    const ph_oi_kept *k = slot_of(o->kept, o->kept_max, key);
    return k->key[0] ? k->id : -1;
}

static ph_rc grow(ph_oi *o) {
    size_t n = o->kept_max ? 2 * o->kept_max : SLOTS_MIN;
    void  *p;
    PH_TRY(ph_arena_zero(&o->arena, &p, n, sizeof(ph_oi_kept), &o->g->err));
    for (size_t i = 0; i < o->kept_max; i++)
        if (o->kept[i].key[0]) *slot_of(p, n, o->kept[i].key) = o->kept[i];
    o->kept = p;
    o->kept_max = n;
    return PH_OK;
}

/* "w#T.7": the number of values makes it another than all before, and none of the file's. */
static void name_of(const ph_oi *o, const char *base, const char *mark, char out[256]) {
    size_t n = o->g->n_values;
    do snprintf(out, 256, "%.200s#%s.%zu", base, mark, n++);
    while (ph_oi_is_taken(o, out));
}

int ph_oi_keep(ph_oi *o, const int64_t key[PH_OI_KEY], int base, const char *mark, int64_t n, int64_t k,
               ph_storage s) {
    char name[256];
    if (o->g->rc) return -1;
    if (2 * o->n_kept >= o->kept_max && grow(o)) {
        o->g->rc = o->g->err.code;
        return -1;
    }
    name_of(o, o->g->value[base].name, mark, name);
    int id = ph_graph_weight(o->g, name, ph_shape_of(2, ph_dim_of(n), ph_dim_of(k)), s);
    if (id < 0) return -1;
    ph_oi_kept *slot = slot_of(o->kept, o->kept_max, key);
    memcpy(slot->key, key, sizeof slot->key);
    slot->id = id;
    o->n_kept++;
    return id;
}
