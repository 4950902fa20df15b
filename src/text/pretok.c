/* pretok.c - how the field's byte-level tokenizers split text, for files that only name it.
 *
 * The lists are facts about those tokenizers; sources are named in pretok.def.
 */
#include "text/pretok.h"

#include <stdio.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define TAIL         "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define EDGE         "[^\\r\\n\\p{L}\\p{N}]?"

const char ph_qwen2_split[] = CONTRACTIONS "|" EDGE "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL;

static const char *const gpt2[] = {GPT2, NULL};
static const char *const digits_gpt2[] = {"\\p{N}", GPT2, NULL};
static const char *const qwen2[] = {ph_qwen2_split, NULL};
static const char *const llama3[] = {
    CONTRACTIONS "|" EDGE "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" TAIL, NULL};
static const char *const o200k[] = {EDGE UPPER "*" LOWER "+" CONTRACTIONS "?|" EDGE UPPER "+" LOWER
                                               "*" CONTRACTIONS
                                               "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL,
                                    NULL};
static const char *const tekken[] = {
    EDGE UPPER "*" LOWER "+|" EDGE UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" TAIL, NULL};
static const char *const deepseek_v3[] = {
    "\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|" TAIL,
    NULL};
static const char *const deepseek_coder[] = {
    "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
    "\\p{N}",   NULL};
static const char *const deepseek_llm[] = {
    "[\\r\\n]",
    "\\s?["
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}"
    "-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}"
    "\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}"
    "-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-"
    "\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{3ce}\\x{1f80}-\\x{1fb4}\\x{1fb6}"
    "-\\x{1fbc}\\x{3b9}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{390}\\x{1fd6}-\\x{38a}\\x{1fe0}"
    "-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}"
    "-\\x{211d}\\x{2124}\\x{3a9}\\x{2128}K-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}"
    "-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cb3}"
    "\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}"
    "\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{"
    "10400}"
    "-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{"
    "118a0}"
    "-\\x{118df}\\x{1e900}-\\x{1e943}"
    "]+",
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
    "\\s+$",
    "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
    "\\p{N}+",
    NULL};
static const char *const falcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const fallback[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]", NULL};
#define NO_STOPS " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
static const char *const bloom[] = {NO_STOPS, NULL};
static const char *const viking[] = {NO_STOPS, "\\p{N}", NULL};

static const ph_pretok all[] = {
#define PH_PRETOK(name, flags, splits) {name, flags, splits},
#include "text/pretok.def"
#undef PH_PRETOK
};
enum { N_ALL = sizeof all / sizeof *all };

const ph_pretok *ph_pretok_find(const char *name, unsigned long n) {
    for (int i = 0; i < N_ALL; i++)
        if (strlen(all[i].name) == n && !memcmp(all[i].name, name, n)) return &all[i];
    return NULL;
}

const ph_pretok *ph_pretok_at(unsigned long i) {
    return i < N_ALL ? &all[i] : NULL;
}

const ph_pretok *ph_pretok_match(const char *const *splits, int n, unsigned flags) {
    for (int i = 0; i < N_ALL; i++) {
        int k = 0;
        while (k < n && all[i].splits[k] && !strcmp(all[i].splits[k], splits[k])) k++;
        if (k == n && !all[i].splits[k] && (all[i].flags & ~(unsigned)PH_PRETOK_BOS) == flags) return &all[i];
    }
    return NULL;
}

void ph_pretok_list(char *out, unsigned long size) {
    unsigned long n = 0;
    *out = 0;
    for (int i = 0; i < N_ALL && n + 1 < size; i++) {
        int k = snprintf(out + n, size - n, "%s%s", i ? ", " : "", all[i].name);
        if (k < 0) return;
        n += (unsigned long)k;
    }
}
