/* seeds: tests/golden/tokenizers/bpe_gpt2 */
/* fuzz_tokenizer_text.c - any text through a byte-level tokenizer: decode(encode(x)) is x (ill-formed bytes
 * as U+FFFD), untrusted text makes no control token, and cutting it into spans changes nothing. */
#include "tests/fuzz/fuzz_tokenizer_law.h"

#include "text/utf8.h"

static ph_tokenizer *the_tokenizer(void) {
    static ph_tokenizer *t; /* opened once a process; fuzz targets have no other place for it */
    if (!t && ph_tokenizer_open_dir(&t, "tests/golden/tokenizers/bpe_llama3", NULL)) abort();
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ph_tokenizer *t = the_tokenizer();
    ph_ids        ids = {0}, again = {0};
    ph_bytes      back = {0};
    size_t        cut = size ? data[0] % size : 0;
    if (ph_tokenizer_encode(t, (const char *)data, size, PH_ENCODE_PLAIN, &ids, NULL)) abort();
    for (size_t i = 0; i < ids.n; i++)
        if (ph_tokenizer_is_control(t, ids.at[i])) abort();
    if (ph_tokenizer_decode_as(t, ids.at, ids.n, 0, 0, &back, NULL)) abort();
    if (ph_utf8_is_valid(data, size)) {
        if (back.n != size || (size && memcmp(back.at, data, size))) abort();
        while (cut && (data[cut] & 0xC0) == 0x80) cut--;
        ph_text_span s[2] = {{.bytes = (const char *)data, .n = cut},
                             {.bytes = (const char *)data + cut, .n = size - cut}};
        if (ph_tokenizer_encode_spans(t, s, 2, PH_ENCODE_PLAIN, &again, NULL, NULL, NULL)) abort();
        if (again.n != ids.n || (ids.n && memcmp(again.at, ids.at, ids.n * sizeof *ids.at))) abort();
    }
    ph_ids_close(&ids);
    ph_ids_close(&again);
    ph_bytes_close(&back);
    return 0;
}
