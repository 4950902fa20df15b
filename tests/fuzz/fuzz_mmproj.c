/* seeds: tests/golden/gguf */
/* fuzz_mmproj.c - a model with pictures whose vision file's first bytes are anybody's and whose rest is a
 * good one's: an error with a message, or a plan of finite memory and tensors that convert: put together from
 * parts, as many numbers as they have. */
#include "model/export.h"
#include "tests/fuzz/fuzz_model_law.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Which good file the bytes are most like, by words that its keys have; the last is like all. */
static const struct {
    const char *word, *mmproj, *text;
} kinds[] = {
    {"merger", "tests/golden/gguf/vlm_qwen25vl.mmproj.gguf", "tests/golden/gguf/vlm_qwen25vl.gguf"},
    {"pinpoints", "tests/golden/gguf/vlm_llava_next.mmproj.gguf", "tests/golden/gguf/vlm_llava15.gguf"},
    {"idefics3", "tests/golden/gguf/vlm_idefics3.mmproj.gguf", "tests/golden/gguf/vlm_idefics3.gguf"},
    {"", "tests/golden/gguf/vlm_llava15.mmproj.gguf", "tests/golden/gguf/vlm_llava15.gguf"}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static size_t elements(int rank, const int64_t *dim) {
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= (size_t)dim[i];
    return n;
}

static void rows(const ph_model *m) {
    ph_arena  arena = {0};
    ph_export out;
    ph_err    e = {0};
    if (ph_arena_open_growing(&arena, 4096, &e)) abort();
    if (ph_export_rows(&out, m, &arena, &e)) {
        if (!e.msg[0]) abort();
        out.n = 0;
    }
    for (size_t i = 0; i < out.n; i++) {
        const ph_export_parts *p = out.row[i].parts;
        size_t                 n = 0;
        for (int k = 0; p && k < p->n; k++) n += elements(p->at[k]->rank, p->at[k]->dim);
        if (p && (!p->is_joined || n != elements(p->rank, p->dim) || n % ((size_t)p->chunk * (size_t)p->n)))
            abort();
    }
    ph_arena_close(&arena);
}

static size_t kind_of(const uint8_t *bytes, size_t n) {
    size_t k = 0;
    while (*kinds[k].word && !memmem(bytes, n, kinds[k].word, strlen(kinds[k].word))) k++;
    return k;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static ph_file good[N_KINDS];
    char           path[64];
    ph_err         e = {0};
    ph_model      *m;
    size_t         k = kind_of(bytes, n);
    int            fd = fuzz_begins_with(bytes, n, &good[k], kinds[k].mmproj, path);
    if (fd < 0) return 0;
    const ph_model_options o = {.mmproj = path};
    ph_rc                  rc = ph_model_open(&m, kinds[k].text, &o, &e);
    if (!rc) rows(m);
    fuzz_opened_law(rc, m, &e);
    close(fd);
    return 0;
}
