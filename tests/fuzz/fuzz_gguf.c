/* seeds: tests/golden/formats */
/* fuzz_gguf.c - whatever the bytes: an error, or aligned weights inside the file and values that can be
 * walked. */
#include "formats/gguf.h"

#include <stdlib.h>

static void walk(const ph_gguf_kv *kv, const uint8_t *end) {
    size_t       n = 0;
    ph_gguf_text text;
    for (ph_gguf_texts it = ph_gguf_texts_of(kv); ph_gguf_next(&it, &text); n++)
        if ((const uint8_t *)text.at + text.n > end) abort();
    if (kv->type == PH_GGUF_TEXT && n != kv->count) abort();
    for (size_t i = 0; kv->type != PH_GGUF_TEXT && i < kv->count; i++) {
        int64_t whole;
        double  real;
        if (ph_gguf_item_int(kv, i, &whole) + ph_gguf_item_real(kv, i, &real) == 0 && kv->type != PH_GGUF_U64)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_arena arena = {0};
    ph_gguf  g;
    if (ph_arena_open_growing(&arena, 1 << 14, NULL)) return 0;
    if (!ph_gguf_view(&g, bytes, n, "fuzz", &arena, NULL)) {
        for (size_t i = 0; i < g.weights.n; i++) {
            const ph_weight *t = &g.weights.at[i];
            size_t           want;
            if (ph_weight_bytes(t->dtype, t->rank, t->dim, &want, NULL) || want != t->n_bytes || !want)
                abort();
            if (t->bytes < bytes || t->bytes + t->n_bytes > bytes + n) abort();
            if ((size_t)(t->bytes - bytes) % g.alignment || ph_weights_find(&g.weights, t->name) != t)
                abort();
        }
        for (size_t i = 0; i < g.n_kv; i++) {
            if (ph_gguf_find(&g, g.kv[i].key) != &g.kv[i]) abort();
            walk(&g.kv[i], bytes + n);
        }
    }
    ph_arena_close(&arena);
    return 0;
}
