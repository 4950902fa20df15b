/* seeds: tests/golden/seeds/tokenizer_json */
/* fuzz_tokenizer_json.c - any bytes as tokenizer.json: refused with a message, or a tokenizer for which the
 * law of fuzz_tokenizer_law.h holds, over its own last bytes as text. */
#include "tests/fuzz/fuzz_tokenizer_law.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ph_tokenizer      *t = NULL;
    ph_err             err = {0};
    ph_tokenizer_files f = {.tokenizer_json = {data, size}};
    ph_rc              rc = ph_tokenizer_open_files(&t, &f, &err);
    if (rc && (t || !err.msg[0])) abort();
    if (!rc) fuzz_tokenizer_law(t, data, size);
    ph_tokenizer_close(t);
    return 0;
}
