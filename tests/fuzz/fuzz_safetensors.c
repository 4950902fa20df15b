/* seeds: tests/golden/formats */
/* fuzz_safetensors.c - whatever the bytes: an error, or weights that tile the data exactly. */
#include "formats/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_arena   arena = {0};
    ph_weights w;
    if (ph_arena_open_growing(&arena, 1 << 14, NULL)) return 0;
    if (!ph_safetensors_view(&w, bytes, n, "fuzz", 0, &arena, NULL)) {
        size_t total = 0, want;
        for (size_t i = 0; i < w.n; i++) {
            const ph_weight *t = &w.at[i];
            if (ph_weight_bytes(t->dtype, t->rank, t->dim, &want, NULL) || want != t->n_bytes) abort();
            if (t->bytes < bytes + 8 || t->bytes + t->n_bytes > bytes + n) abort();
            if (i && t->bytes != w.at[i - 1].bytes + w.at[i - 1].n_bytes) abort();
            total += t->n_bytes;
        }
        if (w.n && w.at[0].bytes + total != bytes + n) abort();
        if (ph_weights_index(&w, &arena, NULL))
            abort(); /* JSON has no duplicate keys, so names are distinct */
    }
    ph_arena_close(&arena);
    return 0;
}
