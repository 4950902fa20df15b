/* seeds: tests/golden/set/models/vlm_llava15 tests/golden/set/models/vlm_idefics3 */
/* fuzz_hfmodel.c - a whole model from a directory in which one file is anybody's: an error with a message, or
 * a plan of finite memory.  Which file it is shows in its bytes, so that a good file is its own seed. */
#include "tests/fuzz/fuzz_model_law.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    "config.json",           "tokenizer.json",         "preprocessor_config.json",
    "tokenizer_config.json", "generation_config.json", "special_tokens_map.json",
    "chat_template.jinja",   "model.safetensors",      "processor_config.json"};
enum { N_NAMES = sizeof names / sizeof *names };

static ph_file good[N_NAMES];
static char    dir[] = "/tmp/fuzz-hfmodel-XXXXXX";

static void put(size_t i, const uint8_t *bytes, size_t n, size_t tail_from) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, 1, n, f) != n)) abort();
    if (tail_from < good[i].n) fwrite(good[i].bytes + tail_from, 1, good[i].n - tail_from, f);
    fclose(f);
}

static void clear(void) {
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void begin(void) {
    ph_err e = {0};
    if (!mkdtemp(dir)) abort();
    atexit(clear);
    for (size_t i = 0; i < N_NAMES; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/set/models/vlm_llava15/%s", names[i]);
        if (ph_file_open(&good[i], path, &e)) abort();
        put(i, good[i].bytes, good[i].n, good[i].n);
    }
}

static size_t which(const uint8_t *bytes, size_t n) {
    static const struct {
        const char *holds;
        size_t      file;
    } signs[] = {{"\"model_type\"", 0},      {"\"added_tokens\"", 1},         {"\"image_mean\"", 2},
                 {"\"tokenizer_class\"", 3}, {"\"transformers_version\"", 4}, {"\"bos_token\"", 5},
                 {"\"processor_class\"", 8}};
    if (n > 8 && bytes[8] == '{') return 7;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (memmem(bytes, n, signs[i].holds, strlen(signs[i].holds))) return signs[i].file;
    return 6;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    ph_err    e = {0};
    ph_model *m;
    if (!good[0].bytes) begin();
    size_t i = which(bytes, n);
    put(i, bytes, n, i == 7 ? n : good[i].n);
    ph_rc rc = ph_model_open(&m, dir, NULL, &e);
    fuzz_opened_law(rc, m, &e);
    put(i, good[i].bytes, good[i].n, good[i].n);
    return 0;
}
