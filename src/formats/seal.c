/* seal.c - a file's bytes against the checksums at its end.  See seal.h.
 *
 * The seal is read before anything else of the file, so what it says is believed only as far as its own
 * digest and the file's size bear it out.
 */
#include "formats/seal.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

static uint64_t u64_at(const uint8_t *at) {
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static uint32_t u32_at(const uint8_t *at) {
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static int is_digest_of(const uint8_t *digest, const uint8_t *bytes, size_t n) {
    XXH128_canonical_t now;
    XXH128_canonicalFromHash(&now, XXH3_128bits(bytes, n));
    return !memcmp(now.digest, digest, PH_SEAL_DIGEST);
}

static int is_word(const uint8_t *at, const char *word) {
    return !memcmp(at, word, 8);
}

/* ---- the seal itself ---- */

static ph_rc damaged(const char *name, size_t from, size_t n, ph_err *err) {
    return PH_FAIL(
        err, PH_EFORMAT,
        "%s: the seal of this bundle (bytes %zu to %zu, its end) was changed or damaged: fetch the "
        "file again, or make it anew",
        name, from, n);
}

static ph_rc check_version(uint32_t version, const char *name, ph_err *err) {
    if (version == PH_SEAL_VERSION) return PH_OK;
    return PH_FAIL(err, PH_EUNSUP,
                   "%s: a bundle of version %u; this program reads version %d: take a newer program, or make "
                   "the bundle anew",
                   name, version, PH_SEAL_VERSION);
}

/* Where each piece ends goes up, to the end of the data. */
static int are_ends_right(const ph_seal *s) {
    uint64_t last = 0;
    for (size_t i = 0; i < s->n_pieces; i++) {
        uint64_t end = u64_at(s->piece + i * PH_SEAL_ROW);
        if (end <= last) return 0;
        last = end;
    }
    return last == s->data;
}

/* Both words stand where its size says.  Data of a plain file may end in the last one by chance. */
static int is_there(const uint8_t *bytes, size_t n) {
    if (n < PH_SEAL_FRONT + PH_SEAL_BACK || !is_word(bytes + n - 8, PH_SEAL_ENDS)) return 0;
    uint64_t size = u64_at(bytes + n - 24);
    return size <= n && size >= PH_SEAL_FRONT + PH_SEAL_BACK && is_word(bytes + n - size, PH_SEAL_BEGINS);
}

/* All of it by its own digest. */
static ph_rc read_seal(ph_seal *s, const uint8_t *bytes, size_t n, size_t *n_seal, const char *name,
                       ph_err *err) {
    uint64_t       size = u64_at(bytes + n - 24);
    const uint8_t *seal = bytes + n - size;
    size_t         back = (size_t)size - PH_SEAL_BACK;
    if (u64_at(seal + 8) != size || u32_at(bytes + n - 12) ||
        u64_at(seal + 32) != (back - PH_SEAL_FRONT) / PH_SEAL_ROW || (back - PH_SEAL_FRONT) % PH_SEAL_ROW ||
        !is_digest_of(seal + back, seal, back))
        return damaged(name, n - (size_t)size, n, err);
    s->head = u64_at(seal + 16);
    s->data = u64_at(seal + 24);
    s->n_pieces = u64_at(seal + 32);
    s->piece = seal + PH_SEAL_FRONT;
    *n_seal = (size_t)size;
    return PH_OK;
}

ph_rc ph_seal_read(ph_seal *s, const uint8_t *bytes, size_t n, const char *name, ph_err *err) {
    size_t whole = 0, n_seal = 0;
    *s = (ph_seal){.bytes = bytes, .n = n};
    if (!is_there(bytes, n)) return PH_OK;
    s->version = u32_at(bytes + n - 16);
    PH_TRY(check_version(s->version, name, err));
    PH_TRY(read_seal(s, bytes, n, &n_seal, name, err));
    if (ph_add_over(s->head, s->data, &whole) || whole != n - n_seal)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: %zu bytes stand before the seal of this bundle, which says %zu: something was cut "
            "out or put in; fetch the file again, or make it anew",
            name, n - n_seal, whole);
    if (!are_ends_right(s)) return damaged(name, n - n_seal, n, err);
    if (is_digest_of(s->bytes + whole + 40, bytes, s->head)) return PH_OK;
    return PH_FAIL(
        err, PH_EFORMAT,
        "%s: the keys or the table of tensors (the first %zu bytes) are not those that the bundle was "
        "sealed with: the file was changed or damaged; fetch it again, or make it anew",
        name, s->head);
}

void ph_seal_explain(const uint8_t *bytes, size_t n, size_t data_end, char *out, size_t size) {
    uint64_t n_seal, whole;
    if (data_end > n || n - data_end < 16 || !is_word(bytes + data_end, PH_SEAL_BEGINS)) {
        if (n >= 8 && is_word(bytes + n - 8, PH_SEAL_ENDS))
            snprintf(out, size, "what stands before its last 8 bytes was changed");
        else
            snprintf(out, size, "the file ends at byte %zu, cut short", n);
        return;
    }
    n_seal = u64_at(bytes + data_end + 8);
    whole = n_seal > UINT64_MAX - data_end ? UINT64_MAX : n_seal + data_end;
    if (whole > n)
        snprintf(out, size, "cut short: %zu of its %llu bytes are there", n, (unsigned long long)whole);
    else if (whole < n)
        snprintf(out, size, "%llu bytes were appended to its %llu", (unsigned long long)(n - whole),
                 (unsigned long long)whole);
    else
        snprintf(out, size, "its last 24 bytes were changed");
}

/* ---- the data ---- */

typedef struct check {
    const ph_seal *s;
    const ph_file *f;
    atomic_size_t  bad; /* the first piece that is not right; n_pieces: none yet */
} check;

enum { WANTED = 128 << 10 }; /* what a fault brings anyway */

static size_t begin_of(const ph_seal *s, size_t i) {
    return s->head + (i ? (size_t)u64_at(s->piece + (i - 1) * PH_SEAL_ROW) : 0);
}

static void check_pieces(void *arg, size_t from, size_t to, int worker) {
    check         *c = arg;
    const ph_seal *s = c->s;
    (void)worker;
    for (size_t i = from; i < to; i++) {
        size_t begin = begin_of(s, i), n = begin_of(s, i + 1) - begin, bad = atomic_load(&c->bad);
        if (i > bad) return;
        if (c->f && n >= WANTED) ph_file_want_part(c->f, begin, n);
        int is_right = is_digest_of(s->piece + i * PH_SEAL_ROW + 8, s->bytes + begin, n);
        while (!is_right && i < bad && !atomic_compare_exchange_weak(&c->bad, &bad, i)) continue;
        /* Read once, and not part of what the process holds. */
        if (c->f) ph_file_forget_part(c->f, begin, n);
    }
}

int ph_seal_holds(const ph_seal *s, const ph_file *f, ph_threads *threads, size_t *begin, size_t *end) {
    check c = {.s = s, .f = f};
    atomic_init(&c.bad, s->n_pieces);
    ph_threads_run(threads, check_pieces, &c, 0, s->n_pieces, 1, NULL);
    size_t bad = atomic_load(&c.bad);
    if (bad == s->n_pieces) return 1;
    *begin = begin_of(s, bad);
    *end = begin_of(s, bad + 1);
    return 0;
}
