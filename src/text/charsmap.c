/* charsmap.c - SentencePiece's precompiled normalization: a double-array trie from byte strings to strings.
 *
 *     u32 trie bytes | trie: u32 units | replacement strings, each ended by NUL
 *
 * A unit holds a label (low 8 bits), an offset (bits 10.., scaled by 256 when bit 9 is set) and, in bit 8,
 * whether a value hangs below it.  The map comes from a file: every index is checked.
 * Source: Darts-clone's unit layout.  Two walks: over grapheme clusters, first whole (shorter than six
 * bytes), then by character, as Hugging Face's spm_precompiled does for tokenizer.json; and by the longest
 * key that the rest of the text begins with, as the sentencepiece library does for its own .model files.
 */
#include "text/tokenizer_tables.h"

#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

typedef struct charsmap {
    const uint8_t *trie, *text;
    size_t         n_units, n_text;
} charsmap;

static uint32_t unit_at(const charsmap *m, size_t i) {
    const uint8_t *p = m->trie + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The replacement of the shortest key that key[n] begins with; NULL: none. */
static const char *look_up(const charsmap *m, const uint8_t *key, size_t n) {
    size_t at = 0;
    if (!m->n_units) return NULL;
    at ^= offset_of(unit_at(m, 0));
    for (size_t i = 0; i < n && key[i]; i++) {
        at ^= key[i];
        if (at >= m->n_units) return NULL;
        uint32_t unit = unit_at(m, at);
        if ((unit & 0x800000FFu) != key[i]) return NULL;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= m->n_units) return NULL;
        size_t value = unit_at(m, at) & 0x7FFFFFFFu;
        if (value >= m->n_text || !memchr(m->text + value, 0, m->n_text - value)) return NULL;
        return (const char *)m->text + value;
    }
    return NULL;
}

/* The same for the longest such key of whole characters; *used: its bytes. */
static const char *look_up_longest(const charsmap *m, const uint8_t *key, size_t n, size_t *used) {
    const char *best = NULL;
    size_t      at = 0;
    if (!m->n_units) return NULL;
    at ^= offset_of(unit_at(m, 0));
    for (size_t i = 0; i < n && key[i]; i++) {
        at ^= key[i];
        if (at >= m->n_units) break;
        uint32_t unit = unit_at(m, at);
        if ((unit & 0x800000FFu) != key[i]) break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1) || (i + 1 < n && (key[i + 1] & 0xC0) == 0x80)) continue;
        if (at >= m->n_units) break;
        size_t value = unit_at(m, at) & 0x7FFFFFFFu;
        if (value >= m->n_text || !memchr(m->text + value, 0, m->n_text - value)) break;
        best = (const char *)m->text + value;
        *used = i + 1;
    }
    return best;
}

static ph_rc by_prefixes(const charsmap *m, const uint8_t *in, size_t n, ph_bytes *out, ph_err *err) {
    for (size_t i = 0, step; i < n; i += step) {
        step = ph_utf8_length(in[i]);
        const char *to = look_up_longest(m, in + i, n - i, &step);
        PH_TRY(to ? ph_bytes_push(out, to, strlen(to), err) : ph_bytes_push(out, in + i, step, err));
    }
    return PH_OK;
}

static ph_rc cluster(const charsmap *m, const uint8_t *in, size_t n, ph_bytes *out, ph_err *err) {
    const char *to = n < 6 ? look_up(m, in, n) : NULL;
    if (to) return ph_bytes_push(out, to, strlen(to), err);
    for (size_t i = 0, step; i < n; i += step) {
        step = ph_utf8_length(in[i]);
        to = look_up(m, in + i, step);
        PH_TRY(to ? ph_bytes_push(out, to, strlen(to), err) : ph_bytes_push(out, in + i, step, err));
    }
    return PH_OK;
}

static size_t trie_bytes_of(const uint8_t *map) {
    return (size_t)map[0] | (size_t)map[1] << 8 | (size_t)map[2] << 16 | (size_t)map[3] << 24;
}

ph_rc ph_precompiled_check(const uint8_t *map, size_t n_map, const char *where, ph_err *err) {
    if (n_map < 4 || trie_bytes_of(map) <= n_map - 4) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT,
                   "%s: normalizer: the character map's trie of %zu bytes does not fit its %zu bytes", where,
                   trie_bytes_of(map), n_map);
}

ph_rc ph_precompiled_map(const uint8_t *map, size_t n_map, const uint8_t *in, size_t n, int is_prefixes,
                         ph_bytes *out, ph_err *err) {
    if (n_map < 4) return ph_bytes_push(out, in, n, err);
    size_t           trie_bytes = trie_bytes_of(map); /* checked when the tokenizer was opened */
    charsmap         m = {map + 4, map + 4 + trie_bytes, trie_bytes / 4, n_map - 4 - trie_bytes};
    utf8proc_int32_t before = -1, state = 0;
    size_t           begin = 0;
    if (is_prefixes) return by_prefixes(&m, in, n, out, err);
    for (size_t i = 0; i < n;) {
        ph_utf8_step s = ph_utf8_read(in + i, n - i);
        if (before >= 0 && utf8proc_grapheme_break_stateful(before, (utf8proc_int32_t)s.code_point, &state)) {
            PH_TRY(cluster(&m, in + begin, i - begin, out, err));
            begin = i;
        }
        before = (utf8proc_int32_t)s.code_point;
        i += (size_t)s.n;
    }
    return begin < n ? cluster(&m, in + begin, n - begin, out, err) : PH_OK;
}
