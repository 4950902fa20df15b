/* pretok.h - the pre-tokenizers that GGUF names, see pretok.def. */
#ifndef PH_TEXT_PRETOK_H
#define PH_TEXT_PRETOK_H

enum { PH_PRETOK_IGNORE_MERGES = 1, PH_PRETOK_BOS = 2, PH_PRETOK_NFC = 4 };

typedef struct ph_pretok {
    const char        *name;
    unsigned           flags;
    const char *const *splits; /* regular expressions, Oniguruma syntax; ended by NULL */
} ph_pretok;

const ph_pretok *ph_pretok_find(const char *name, unsigned long n); /* NULL: unknown */
/* The first pre-tokenizer with exactly these splits [n] and these flags (BOS apart); NULL: none. */
const ph_pretok *ph_pretok_match(const char *const *splits, int n, unsigned flags);
const ph_pretok *ph_pretok_at(unsigned long i); /* NULL past the last */
/* All known names, separated by ", ", into out[size]. */
void ph_pretok_list(char *out, unsigned long size);

extern const char ph_qwen2_split[];

#endif
