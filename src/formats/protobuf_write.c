/* protobuf_write.c - fields appended; a message's length is put in front of it when it ends. */
#include "formats/protobuf_write.h"

#include "base/mem.h"
#include "formats/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 256, VARINT_MAX = 10 };

void ph_pbw_close(ph_pbw *w) {
    free(w->bytes);
    *w = (ph_pbw){0};
}

/* Room for n more bytes; 0: there is none. */
static int reserve(ph_pbw *w, size_t n) {
    size_t want, cap = w->cap ? w->cap : FIRST;
    if (w->is_broken || ph_add_over(w->n, n, &want) || want > SIZE_MAX / 2) {
        w->is_broken = 1;
        return 0;
    }
    while (cap < want) cap *= 2;
    if (cap == w->cap) return 1;
    uint8_t *bigger = realloc(w->bytes, cap);
    if (!bigger) {
        w->is_broken = 1;
        return 0;
    }
    w->bytes = bigger;
    w->cap = cap;
    return 1;
}

static size_t encode(uint8_t out[VARINT_MAX], uint64_t v) {
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

static void varint(ph_pbw *w, uint64_t v) {
    uint8_t bytes[VARINT_MAX];
    ph_pbw_raw(w, bytes, encode(bytes, v));
}

void ph_pbw_raw(ph_pbw *w, const void *bytes, size_t n) {
    if (!n || !reserve(w, n)) return;
    memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

void ph_pbw_int(ph_pbw *w, unsigned field, int64_t value) {
    varint(w, (uint64_t)field << 3 | PH_PB_VARINT);
    varint(w, (uint64_t)value);
}

void ph_pbw_float(ph_pbw *w, unsigned field, float value) {
    varint(w, (uint64_t)field << 3 | PH_PB_FIXED32);
    ph_pbw_raw(w, &value, sizeof value); /* little-endian */
}

void ph_pbw_head(ph_pbw *w, unsigned field, uint64_t n) {
    varint(w, (uint64_t)field << 3 | PH_PB_BYTES);
    varint(w, n);
}

void ph_pbw_bytes(ph_pbw *w, unsigned field, const void *bytes, size_t n) {
    ph_pbw_head(w, field, n);
    ph_pbw_raw(w, bytes, n);
}

void ph_pbw_text(ph_pbw *w, unsigned field, const char *text) {
    ph_pbw_bytes(w, field, text, strlen(text));
}

size_t ph_pbw_open(ph_pbw *w, unsigned field) {
    varint(w, (uint64_t)field << 3 | PH_PB_BYTES);
    return w->n;
}

void ph_pbw_end(ph_pbw *w, size_t at) {
    uint8_t head[VARINT_MAX];
    if (w->is_broken) return;
    size_t n = w->n - at, size = encode(head, n);
    if (!reserve(w, size)) return;
    memmove(w->bytes + at + size, w->bytes + at, n);
    memcpy(w->bytes + at, head, size);
    w->n += size;
}
