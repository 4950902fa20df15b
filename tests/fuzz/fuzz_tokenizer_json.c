/* seeds: tests/golden/seeds/tokenizer_json */
/* fuzz_tokenizer_json.c - any bytes as tokenizer.json: refused with a message, or a tokenizer for which the
 * law of fuzz_tokenizer_law.h holds, over its own last bytes as text.  With the model's key written as an
 * escape nothing is read past the parser (tokjson_lists.c): it is refused or opened all the same, with the
 * same tables.
 */
#include "tests/fuzz/fuzz_tokenizer_law.h"

#include "text/tokimage.h"

static ph_rc open_bytes(ph_tokenizer **t, const uint8_t *data, size_t size, ph_err *err) {
    ph_tokenizer_files f = {.tokenizer_json = {data, size}};
    return ph_tokenizer_open_files(t, &f, err);
}

static void parser_law(const ph_tokenizer *t, ph_rc rc, const uint8_t *data, size_t size) {
    static const char from[] = "\"model\"", to[] = "\"\\u006dodel\"";
    uint8_t          *copy = malloc(size * 2 + 1), *image[2] = {NULL, NULL};
    size_t            n = 0, n_image[2] = {0, 0}, step;
    ph_tokenizer     *other = NULL;
    ph_err            err = {0};
    if (!copy) return;
    for (size_t i = 0; i < size; i += step) {
        int is_key = size - i >= sizeof from - 1 && !memcmp(data + i, from, sizeof from - 1);
        step = is_key ? sizeof from - 1 : 1;
        memcpy(copy + n, is_key ? (const uint8_t *)to : data + i, is_key ? sizeof to - 1 : 1);
        n += is_key ? sizeof to - 1 : 1;
    }
    if (open_bytes(&other, copy, n, &err) != rc) abort();
    if (t && (ph_tokenizer_to_image(t, &image[0], &n_image[0], NULL) ||
              ph_tokenizer_to_image(other, &image[1], &n_image[1], NULL)))
        abort();
    if (n_image[0] != n_image[1] || (n_image[0] && memcmp(image[0], image[1], n_image[0]))) abort();
    ph_tokenizer_close(other);
    free(image[0]);
    free(image[1]);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ph_tokenizer *t = NULL;
    ph_err        err = {0};
    ph_rc         rc = open_bytes(&t, data, size, &err);
    if (rc && (t || !err.msg[0])) abort();
    parser_law(t, rc, data, size);
    if (!rc) fuzz_tokenizer_law(t, data, size);
    ph_tokenizer_close(t);
    return 0;
}
