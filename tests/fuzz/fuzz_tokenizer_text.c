/* seeds: tests/golden/seeds/text */
/* fuzz_tokenizer_text.c - any text through a tokenizer of each kind: the first byte picks it and whether the
 * text is trusted, the second where the text is cut, the rest is the text.
 *
 * Beside the law of fuzz_tokenizer_law.h: decode(encode(x)) is x where the tokenizer loses nothing, and
 * cutting a text into spans of one trust changes no id.  All tokenizers are opened once. */
#include "tests/fuzz/fuzz_tokenizer_law.h"

#include "base/file.h"

#define DIR "tests/golden/tokenizers/"

enum { LOSSY, ASCII, NO_MARKS, NO_BEGIN, LOSSLESS }; /* what comes back as it went in */
static const struct {
    const char *path;
    int         is_spm; /* path is a .model; else a folder */
    int         keeps;
} kinds[] = {
    {DIR "bpe_llama3", 0, LOSSLESS},
    {DIR "bpe_gpt2", 0, LOSSLESS},
    {DIR "bpe_o200k", 0, LOSSLESS},
    {DIR "bpe_deepseek", 0, LOSSLESS},
    {DIR "bpe_smollm", 0, LOSSLESS},
    {DIR "bpe_qwen2", 0, ASCII}, /* NFC */
    {DIR "bpe_clip", 0, LOSSY},
    {DIR "spm_llama2", 0, NO_MARKS},
    {DIR "spm_llama2_metaspace", 0, NO_BEGIN}, /* a space in front stands for the one that is left out */
    {DIR "spm_gemma", 0, NO_MARKS},
    {DIR "spm_unigram", 0, LOSSY},
    {DIR "wordpiece_bert", 0, LOSSY},
    {DIR "spm_llama2/tokenizer.model", 1, NO_MARKS},
    {DIR "spm_gemma/tokenizer.model", 1, NO_MARKS},
    {DIR "spm_unigram/spiece.model", 1, LOSSY}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static ph_tokenizer *the_tokenizer(size_t i) {
    static ph_tokenizer *all[N_KINDS]; /* opened once a process; fuzz targets have no other place for it */
    ph_tokenizer_files   files = {0};
    ph_file              f;
    if (all[i]) return all[i];
    if (!kinds[i].is_spm) {
        if (ph_tokenizer_open_dir(&all[i], kinds[i].path, NULL)) abort();
        return all[i];
    }
    if (ph_file_open(&f, kinds[i].path, NULL)) abort();
    files.spm = (ph_blob){f.bytes, f.n};
    if (ph_tokenizer_open_files(&all[i], &files, NULL)) abort();
    ph_file_close(&f);
    return all[i];
}

static int comes_back(int keeps, const uint8_t *text, size_t n) {
    if (keeps == LOSSY || !ph_utf8_is_valid(text, n)) return 0;
    if (keeps == NO_BEGIN && n && text[0] == ' ') return 0;
    for (size_t i = 0; i < n; i++) {
        if (keeps == ASCII && text[i] >= 0x80) return 0;
        if ((keeps == NO_MARKS || keeps == NO_BEGIN) && i + 3 <= n && !memcmp(text + i, "\xE2\x96\x81", 3))
            return 0; /* a space */
    }
    return 1;
}

static void cut_law(const ph_tokenizer *t, const uint8_t *text, size_t n, size_t cut, int trusted,
                    const ph_ids *want) {
    ph_ids       ids = {0};
    ph_text_span s[2] = {{.bytes = (const char *)text, .n = cut, .is_trusted = trusted},
                         {.bytes = (const char *)text + cut, .n = n - cut, .is_trusted = trusted}};
    if (ph_tokenizer_encode_spans(t, s, 2, PH_ENCODE_PLAIN, &ids, NULL, NULL, NULL)) abort();
    if (ids.n != want->n || (ids.n && memcmp(ids.at, want->at, ids.n * sizeof *ids.at))) abort();
    ph_ids_close(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t         i = data[0] % N_KINDS, n = size - 2 < FUZZ_TEXT_MAX ? size - 2 : FUZZ_TEXT_MAX;
    const uint8_t *text = data + 2;
    int            trusted = data[0] / N_KINDS % 2;
    size_t         cut = n ? data[1] % n : 0;
    ph_tokenizer  *t = the_tokenizer(i);
    ph_ids         ids = {0};
    ph_bytes       back = {0};
    if (!fuzz_encode_law(t, text, n, trusted ? PH_ENCODE_CONTROL : PH_ENCODE_PLAIN, &ids)) abort();
    fuzz_decode_law(t, &ids, &back);
    if (!trusted && comes_back(kinds[i].keeps, text, n) && (back.n != n || (n && memcmp(back.at, text, n))))
        abort();
    if (ph_utf8_is_valid(text, n)) {
        while (cut && (text[cut] & 0xC0) == 0x80) cut--;
        cut_law(t, text, n, cut, trusted, &ids);
    }
    ph_ids_close(&ids);
    ph_bytes_close(&back);
    return 0;
}
