/* bytebuf.c - growing runs, see bytebuf.h. */
#include "text/bytebuf.h"

#include "base/mem.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

ph_rc ph_room_grow(void **at, size_t *cap, size_t n, size_t more, size_t item, ph_err *err) {
    size_t want, bytes;
    if (ph_add_over(n, more, &want)) return PH_FAIL(err, PH_ELIMIT, "text: %zu + %zu items", n, more);
    if (want <= *cap) return PH_OK;
    if (*cap <= SIZE_MAX / 2 && want < 2 * *cap) want = 2 * *cap;
    if (want < 16) want = 16;
    if (ph_mul_over(want, item, &bytes))
        return PH_FAIL(err, PH_ELIMIT, "text: %zu items of %zu bytes", want, item);
    void *grown = realloc(*at, bytes);
    if (!grown) return PH_FAIL(err, PH_ENOMEM, "text: %zu bytes of scratch", bytes);
    *at = grown;
    *cap = want;
    return PH_OK;
}

ph_rc ph_bytes_push(ph_bytes *b, const void *from, size_t n, ph_err *err) {
    void *at = b->at;
    if (!n) return PH_OK;
    PH_TRY(ph_room_grow(&at, &b->cap, b->n, n, 1, err));
    b->at = at;
    memcpy(b->at + b->n, from, n);
    b->n += n;
    return PH_OK;
}

ph_rc ph_bytes_push_char(ph_bytes *b, uint32_t code_point, ph_err *err) {
    uint8_t out[4];
    return ph_bytes_push(b, out, ph_utf8_write(out, code_point), err);
}

void ph_bytes_close(ph_bytes *b) {
    free(b->at);
    *b = (ph_bytes){0};
}

ph_rc ph_ids_push(ph_ids *ids, int32_t id, ph_err *err) {
    void *at = ids->at;
    PH_TRY(ph_room_grow(&at, &ids->cap, ids->n, 1, sizeof *ids->at, err));
    ids->at = at;
    ids->at[ids->n++] = id;
    return PH_OK;
}

void ph_ids_close(ph_ids *ids) {
    free(ids->at);
    *ids = (ph_ids){0};
}
