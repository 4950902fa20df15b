/* bundle.c - a sealed GGUF file taken apart into the files that it was made of.  See bundle.h.
 *
 * The head was held against the seal when the file was opened, so what is checked here are contradictions
 * that a writer sealed.  All tables point into the one map.
 */
#include "formats/bundle.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_A_THREAD = 8 << 20, THREADS_MAX = 64, NAME_BYTES = 64 };

static int begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

/* ---- is it one? ---- */

/* Where the last tensor and the padding behind it end. */
static size_t data_end(const ph_gguf *g) {
    size_t end = 0;
    for (size_t i = 0; i < g->weights.n; i++) {
        size_t at = (size_t)(g->weights.at[i].bytes - g->seal.bytes) + g->weights.at[i].n_bytes;
        if (at > end) end = at;
    }
    return ph_round_up(end, g->alignment);
}

static ph_rc no_seal(const ph_gguf *g, ph_err *err) {
    char why[120] = "its parts are files of their own";
    if (g->n_files <= 1) ph_seal_explain(g->seal.bytes, g->seal.n, data_end(g), why, sizeof why);
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: a bundle without its seal: %s; fetch the file again, or make it anew", g->name, why);
}

static ph_rc read_version(ph_bundle *b, const ph_gguf *g, int has_keys, ph_err *err) {
    int64_t version = 0;
    if (!g->seal.version || g->n_files > 1) return no_seal(g, err);
    if (!has_keys)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: a seal without the keys of a bundle, " PH_BUNDLE_KEY "*: make it anew", g->name);
    PH_TRY(ph_gguf_int(g, PH_BUNDLE_VERSION_KEY, &version, err));
    if (version != g->seal.version)
        return PH_FAIL(err, PH_EUNSUP,
                       "%s: key " PH_BUNDLE_VERSION_KEY
                       " is %lld, but its seal is of version %u: make the bundle anew",
                       g->name, (long long)version, g->seal.version);
    b->version = (uint32_t)version;
    return PH_OK;
}

/* ---- its parts ---- */

/* Tensors [first, first + n) of the whole. */
static ph_rc take_tensors(ph_gguf *to, const ph_weights *all, size_t first, size_t n, ph_arena *arena,
                          ph_err *err) {
    to->weights = (ph_weights){.at = all->at + first, .n = n};
    return ph_weights_index(&to->weights, arena, err);
}

/* Keys for which `part` is right, each without its first `skip` bytes. */
static ph_rc take_keys(ph_gguf *to, const ph_gguf *from, int part, size_t skip, ph_arena *arena,
                       ph_err *err) {
    void  *kv;
    size_t n = 0;
    PH_TRY(ph_arena_zero(arena, &kv, from->n_kv + 1, sizeof *from->kv, err));
    for (size_t i = 0; i < from->n_kv; i++) {
        const ph_gguf_kv *k = &from->kv[i];
        int               is_own = begins(k->key, PH_BUNDLE_KEY);
        int               is_mmproj = is_own && begins(k->key, PH_BUNDLE_MMPROJ_KEY) && k->key[skip];
        if ((is_mmproj ? 2 : is_own ? 1 : 0) != part) continue;
        ph_gguf_kv *one = (ph_gguf_kv *)kv + n++;
        *one = *k;
        one->key += part == 2 ? skip : 0;
    }
    return ph_gguf_take_keys(to, kv, n, arena, err);
}

static ph_rc read_count(const ph_gguf *g, const char *key, size_t most, size_t *out, ph_err *err) {
    int64_t n;
    PH_TRY(ph_gguf_int_or(g, key, 0, &n, err));
    if (n < 0 || (uint64_t)n > most)
        return PH_FAIL(err, PH_EFORMAT, "%s: key %s is %lld, but %zu tensors are left: make the bundle anew",
                       g->name, key, (long long)n, most);
    *out = (size_t)n;
    return PH_OK;
}

static ph_rc take_apart(ph_bundle *b, ph_gguf *g, ph_gguf *vision, ph_arena *arena, ph_err *err) {
    const ph_gguf whole = *g;
    size_t        n_vision, n_extra, n = g->weights.n;
    PH_TRY(read_count(g, PH_BUNDLE_EXTRA_KEY, n, &n_extra, err));
    PH_TRY(read_count(g, PH_BUNDLE_VISION_KEY, n - n_extra, &n_vision, err));
    n -= n_extra + n_vision;
    *vision = b->own = (ph_gguf){.version = g->version, .alignment = g->alignment};
    memcpy(vision->name, g->name, sizeof g->name);
    memcpy(b->own.name, g->name, sizeof g->name);
    PH_TRY(take_keys(g, &whole, 0, 0, arena, err));
    PH_TRY(take_keys(&b->own, &whole, 1, strlen(PH_BUNDLE_MMPROJ_KEY), arena, err));
    PH_TRY(take_keys(vision, &whole, 2, strlen(PH_BUNDLE_MMPROJ_KEY), arena, err));
    PH_TRY(take_tensors(g, &b->all, 0, n, arena, err));
    PH_TRY(take_tensors(vision, &b->all, n, n_vision, arena, err));
    PH_TRY(take_tensors(&b->own, &b->all, n + n_vision, n_extra, arena, err));
    b->has_vision = n_vision > 0;
    if (b->has_vision == (vision->n_kv > 0)) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: %zu tensors of a vision file, but %zu keys " PH_BUNDLE_MMPROJ_KEY
                   "*: make the bundle anew",
                   g->name, n_vision, vision->n_kv);
}

ph_rc ph_bundle_open(ph_bundle *b, ph_gguf *g, ph_gguf *vision, ph_arena *arena, ph_err *err) {
    int has_keys = 0;
    *b = (ph_bundle){.all = g->weights, .file = g->n_files ? g->files : NULL, .seal = g->seal};
    *vision = (ph_gguf){0};
    for (size_t i = 0; i < g->n_kv; i++) has_keys |= begins(g->kv[i].key, PH_BUNDLE_KEY);
    if (!has_keys && !g->seal.version) return PH_OK;
    PH_TRY(read_version(b, g, has_keys, err));
    return take_apart(b, g, vision, arena, err);
}

ph_rc ph_bundle_tokens(const ph_bundle *b, const ph_weight **out, ph_err *err) {
    ph_gguf_text name;
    char         text[NAME_BYTES] = "";
    *out = NULL;
    if (!b->version || !ph_gguf_find(&b->own, PH_BUNDLE_TOKENS_KEY)) return PH_OK;
    PH_TRY(ph_gguf_text_of(&b->own, PH_BUNDLE_TOKENS_KEY, &name, err));
    if (name.n < sizeof text) memcpy(text, name.at, name.n);
    *out = ph_weights_find(&b->own.weights, text);
    if (*out && (*out)->dtype == PH_I8) return PH_OK;
    *out = NULL;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: key " PH_BUNDLE_TOKENS_KEY
                   " does not name an extra tensor of bytes: make the bundle anew",
                   b->own.name);
}

/* ---- its data ---- */

/* The tensor in which byte `at` lies, or behind which it is padding. */
static const char *tensor_at(const ph_bundle *b, size_t at) {
    const ph_weight *last = NULL;
    for (size_t i = 0; i < b->all.n; i++) {
        const ph_weight *w = &b->all.at[i];
        if ((size_t)(w->bytes - b->seal.bytes) <= at && (!last || w->bytes > last->bytes)) last = w;
    }
    return last ? last->name : "?";
}

ph_rc ph_bundle_check(const ph_bundle *b, ph_err *err) {
    ph_threads *threads;
    size_t      begin = 0, end = 0, most = b->seal.data / BYTES_A_THREAD + 1;
    long        online = sysconf(_SC_NPROCESSORS_ONLN);
    if (!b->version) return PH_OK;
    if (online < 1) online = 1;
    if (most > THREADS_MAX) most = THREADS_MAX;
    PH_TRY(ph_threads_open(&threads, (size_t)online < most ? (int)online : (int)most, err));
    int holds = ph_seal_holds(&b->seal, b->file, threads, &begin, &end);
    ph_threads_close(threads);
    /* Pages at borders of pieces, and what came with them. */
    if (b->file) ph_file_forget_part(b->file, b->seal.head, b->seal.data);
    if (holds) return PH_OK;
    return PH_FAIL(
        err, PH_EFORMAT,
        "%s: tensor %.160s (bytes %zu to %zu of the file) is not what the bundle was sealed with: the file "
        "was changed or damaged; fetch it again, or make it anew",
        b->own.name, tensor_at(b, begin), begin, end);
}
