/* seal_write.c - digests of what is written, while it is written.  See seal.h. */
#include "formats/seal.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

ph_rc ph_sealer_open(ph_sealer *s, ph_err *err) {
    *s = (ph_sealer){.state = XXH3_createState()};
    if (!s->state || XXH3_128bits_reset(s->state))
        return PH_FAIL(err, PH_ENOMEM, "the checksums of what is written");
    return PH_OK;
}

void ph_sealer_close(ph_sealer *s) {
    XXH3_freeState(s->state);
    free(s->row);
    *s = (ph_sealer){0};
}

static uint8_t *next_row(ph_sealer *s) {
    if (s->n == s->cap) {
        size_t   cap = s->cap ? 2 * s->cap : 256;
        uint8_t *more = realloc(s->row, cap * PH_SEAL_ROW);
        if (!more) {
            s->is_broken = 1;
            return NULL;
        }
        s->row = more;
        s->cap = cap;
    }
    return s->row + s->n++ * PH_SEAL_ROW;
}

static void digest_of(ph_sealer *s, uint8_t out[PH_SEAL_DIGEST]) {
    XXH128_canonical_t now;
    XXH128_canonicalFromHash(&now, XXH3_128bits_digest(s->state));
    memcpy(out, now.digest, PH_SEAL_DIGEST);
    XXH3_128bits_reset(s->state);
}

void ph_sealer_cut(ph_sealer *s) {
    uint64_t end = s->data;
    if (!s->has_head) {
        digest_of(s, s->head_digest);
        s->has_head = 1;
    } else if (s->in_piece) {
        uint8_t *row = next_row(s);
        if (!row) return;
        memcpy(row, &end, sizeof end);
        digest_of(s, row + sizeof end);
    }
    s->in_piece = 0;
}

void ph_sealer_add(ph_sealer *s, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    while (n && !s->is_broken) {
        size_t room = s->has_head ? PH_SEAL_PIECE - s->in_piece : n, some = n < room ? n : room;
        XXH3_128bits_update(s->state, at, some);
        *(s->has_head ? &s->data : &s->head) += some;
        s->in_piece += some;
        at += some;
        n -= some;
        if (s->has_head && s->in_piece == PH_SEAL_PIECE) ph_sealer_cut(s);
    }
}

/* ---- the seal ---- */

static void put_u64(uint8_t *at, uint64_t v) {
    memcpy(at, &v, sizeof v);
}

static void digest_into(uint8_t *out, const uint8_t *bytes, size_t n) {
    XXH128_canonical_t now;
    XXH128_canonicalFromHash(&now, XXH3_128bits(bytes, n));
    memcpy(out, now.digest, PH_SEAL_DIGEST);
}

/* What stands around the pieces, which are there already. */
static void fill(uint8_t *seal, size_t size, size_t head, size_t data, const uint8_t *head_digest) {
    uint32_t version = PH_SEAL_VERSION;
    size_t   back = size - PH_SEAL_BACK;
    memcpy(seal, PH_SEAL_BEGINS, 8);
    put_u64(seal + 8, size);
    put_u64(seal + 16, head);
    put_u64(seal + 24, data);
    put_u64(seal + 32, (back - PH_SEAL_FRONT) / PH_SEAL_ROW);
    memcpy(seal + 40, head_digest, PH_SEAL_DIGEST);
    digest_into(seal + back, seal, back);
    put_u64(seal + size - 24, size);
    put_u64(seal + size - 16, version);
    memcpy(seal + size - 8, PH_SEAL_ENDS, 8);
}

static ph_rc make(uint8_t **out, size_t *size, size_t n, ph_err *err) {
    *size = PH_SEAL_FRONT + n * PH_SEAL_ROW + PH_SEAL_BACK;
    *out = malloc(*size);
    return *out ? PH_OK : PH_FAIL(err, PH_ENOMEM, "a seal of %zu pieces", n);
}

ph_rc ph_sealer_end(ph_sealer *s, FILE *to, ph_err *err) {
    uint8_t *seal;
    size_t   size;
    ph_sealer_cut(s);
    if (s->is_broken) return PH_FAIL(err, PH_ENOMEM, "the checksums of what was written");
    PH_TRY(make(&seal, &size, s->n, err));
    if (s->n) memcpy(seal + PH_SEAL_FRONT, s->row, s->n * PH_SEAL_ROW);
    fill(seal, size, s->head, s->data, s->head_digest);
    size_t done = fwrite(seal, 1, size, to);
    free(seal);
    return done == size ? PH_OK : PH_FAIL(err, PH_EIO, "writing the seal: %s", strerror(errno));
}

static ph_rc write_at(FILE *to, const uint8_t *bytes, size_t n, size_t at, ph_err *err) {
    while (n) {
        ssize_t done = pwrite(fileno(to), bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return PH_FAIL(err, PH_EIO, "writing the keys: %s", strerror(errno));
        bytes += done;
        n -= (size_t)done;
        at += (size_t)done;
    }
    return PH_OK;
}

ph_rc ph_seal_change_head(FILE *to, const ph_seal *s, const uint8_t *head, ph_err *err) {
    uint8_t *seal, digest[PH_SEAL_DIGEST];
    size_t   size;
    PH_TRY(make(&seal, &size, s->n_pieces, err));
    memcpy(seal + PH_SEAL_FRONT, s->piece, s->n_pieces * PH_SEAL_ROW);
    digest_into(digest, head, s->head);
    fill(seal, size, s->head, s->data, digest);
    ph_rc rc = fflush(to) ? PH_FAIL(err, PH_EIO, "writing: %s", strerror(errno)) : PH_OK;
    if (!rc) rc = write_at(to, head, s->head, 0, err);
    if (!rc) rc = write_at(to, seal, size, s->head + s->data, err);
    free(seal);
    return rc;
}
