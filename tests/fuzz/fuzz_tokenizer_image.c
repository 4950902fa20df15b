/* seeds: tests/golden/seeds/text */
/* fuzz_tokenizer_image.c - ready-made tables of a tokenizer, changed: the first byte picks the tokenizer,
 * then come changes of six bytes (where: 4, what becomes of the byte, 1, how far on once more, 1), then the
 * text. Refused with a message, or a tokenizer for which the law of fuzz_tokenizer_law.h holds. */
#include "tests/fuzz/fuzz_tokenizer_law.h"

#include "base/file.h"
#include "text/tokimage.h"

#define DIR "tests/golden/tokenizers/"

static const char *const dirs[] = {DIR "bpe_gpt2",       DIR "bpe_clip",  DIR "bpe_qwen2",
                                   DIR "spm_llama2",     DIR "spm_gemma", DIR "spm_unigram",
                                   DIR "wordpiece_bert", DIR "bpe_llama3"};
enum { N_DIRS = sizeof dirs / sizeof *dirs, CHANGES_MAX = 8, CHANGE = 6 };

/* A copy of the image of tokenizer i. */
static uint8_t *image_of(size_t i, size_t *n) {
    static uint8_t *all[N_DIRS]; /* made once a process; fuzz targets have no other place for it */
    static size_t   size[N_DIRS];
    ph_tokenizer   *t;
    if (!all[i]) {
        if (ph_tokenizer_open_dir(&t, dirs[i], NULL)) abort();
        if (ph_tokenizer_to_image(t, &all[i], &size[i], NULL) || !all[i]) abort();
        ph_tokenizer_close(t);
    }
    uint8_t *copy = malloc(size[i]);
    if (copy) memcpy(copy, all[i], size[i]);
    *n = size[i];
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    size_t        n, at = 1;
    if (!size) return 0;
    uint8_t *image = image_of(data[0] % N_DIRS, &n);
    if (!image) return 0;
    for (int i = 0; i < CHANGES_MAX && at + CHANGE <= size; i++, at += CHANGE) {
        size_t where = ((size_t)data[at] | (size_t)data[at + 1] << 8 | (size_t)data[at + 2] << 16) % n;
        if (data[at + 3] & 1) where %= sizeof(ph_tokimage_head); /* where most is said */
        image[where] = data[at + 4];
        if (data[at + 5]) image[(where + data[at + 5]) % n] = data[at + 4];
    }
    ph_rc rc = ph_tokenizer_open_image(&t, image, n, "fuzz", &err);
    if (rc && (t || !err.msg[0])) abort();
    if (t) fuzz_tokenizer_law(t, data, size);
    ph_tokenizer_close(t);
    free(image);
    return 0;
}
