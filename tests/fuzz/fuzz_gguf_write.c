/* seeds: tests/golden/formats */
/* fuzz_gguf_write.c - what was read from a file and written again is read as the same. */
#include "formats/gguf_write.h"

#include <stdlib.h>
#include <string.h>

static void compare(const ph_gguf *a, const ph_gguf *b) {
    if (a->n_kv != b->n_kv || a->weights.n != b->weights.n) abort();
    for (size_t i = 0; i < a->n_kv; i++) {
        const ph_gguf_kv *x = &a->kv[i], *y = &b->kv[i];
        if (strcmp(x->key, y->key) || x->type != y->type || x->is_array != y->is_array ||
            x->count != y->count)
            abort();
    }
    for (size_t i = 0; i < a->weights.n; i++) {
        const ph_weight *x = &a->weights.at[i], *y = &b->weights.at[i];
        if (strcmp(x->name, y->name) || x->dtype != y->dtype || x->n_bytes != y->n_bytes ||
            memcmp(x->bytes, y->bytes, x->n_bytes))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    char         path[] = "/tmp/fuzz-gguf-XXXXXX";
    ph_arena     arena = {0};
    ph_gguf      g, again;
    ph_gguf_meta meta = {0};
    if (ph_arena_open_growing(&arena, 1 << 14, NULL)) return 0;
    if (!ph_gguf_view(&g, bytes, n, "fuzz", &arena, NULL) && g.alignment <= 4096) {
        int fd = mkstemp(path);
        if (fd < 0) abort();
        meta.alignment = (uint32_t)g.alignment;
        for (size_t i = 0; i < g.n_kv; i++)
            if (strncmp(g.kv[i].key, "split.", 6)) ph_gguf_put_copy(&meta, &g.kv[i]);
        if (meta.n_kv == g.n_kv && !ph_gguf_write(path, &meta, g.weights.at, g.weights.n, NULL, NULL)) {
            if (ph_gguf_open(&again, path, &arena, NULL)) abort();
            compare(&g, &again);
            ph_gguf_close(&again);
        }
        remove(path);
        fclose(fdopen(fd, "r"));
    }
    ph_gguf_meta_close(&meta);
    ph_arena_close(&arena);
    return 0;
}
