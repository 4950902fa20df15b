/* onnx_tensor.c - TensorProto: where a tensor's numbers are, and that they are as many as its shape says.
 *
 * raw_data, one packed float_data or double_data, and external data are used where they lie.  The other
 * typed fields (varints) are decoded into the model's arena: exporters write only small tensors so.
 */
#include "formats/onnx_read.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTERNAL_MAX = 4096 };

/* TensorProto.DataType, by number. */
static const struct {
    const char *name;
    ph_dtype    dtype;
} types[] = {
    {"undefined", PH_N_DTYPES},
    {"float", PH_F32},
    {"uint8", PH_U8},
    {"int8", PH_I8},
    {"uint16", PH_U16},
    {"int16", PH_I16},
    {"int32", PH_I32},
    {"int64", PH_I64},
    {"string", PH_N_DTYPES},
    {"bool", PH_BOOL},
    {"float16", PH_F16},
    {"double", PH_F64},
    {"uint32", PH_U32},
    {"uint64", PH_U64},
    {"complex64", PH_N_DTYPES},
    {"complex128", PH_N_DTYPES},
    {"bfloat16", PH_BF16},
    {"float8e4m3fn", PH_N_DTYPES},
    {"float8e4m3fnuz", PH_N_DTYPES},
    {"float8e5m2", PH_N_DTYPES},
    {"float8e5m2fnuz", PH_N_DTYPES},
    {"uint4", PH_U8},
    {"int4", PH_I8},
};
enum { N_TYPES = (int)(sizeof types / sizeof *types) };

const char *ph_onnx_type_name(int type) {
    return type >= 0 && type < N_TYPES ? types[type].name : "?";
}

ph_dtype ph_onnx_dtype(int type) {
    return type >= 0 && type < N_TYPES ? types[type].dtype : PH_N_DTYPES;
}

/* The fields of one TensorProto as they stand. */
typedef struct parts {
    ph_pb_field raw;
    ph_pb_field list; /* the last typed field, when it is packed */
    int         has_raw, is_external, n_lists;
    size_t      n_numbers; /* in all typed fields */
    const char *location;
    uint64_t    offset, length;
    int         has_length;
} parts;

static int is_list(unsigned number) {
    return number == 4 || number == 5 || number == 7 || number == 10 || number == 11;
}

static size_t item_of(unsigned number) { /* bytes of a fixed-size item; 0: varints */
    return number == 4 ? 4 : number == 10 ? 8 : 0;
}

static ph_rc read_dim(const ph_pb *m, ph_onnx_tensor *t, uint64_t value, ph_err *err) {
    if (t->rank == PH_ONNX_RANK_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%.120s: byte %zu: tensor '%.80s' has more than %d dimensions",
                       m->name, t->at, t->name, PH_ONNX_RANK_MAX);
    t->dim[t->rank++] = (int64_t)value;
    return PH_OK;
}

static ph_rc read_dims(const ph_pb *m, const ph_pb_field *f, ph_onnx_tensor *t, ph_err *err) {
    if (f->wire == PH_PB_VARINT) return read_dim(m, t, f->value, err);
    PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, "dims", err));
    for (ph_pb packed = ph_pb_into(m, f); packed.at != packed.end;) {
        uint64_t value;
        PH_TRY(ph_pb_varint(&packed, &value, err));
        PH_TRY(read_dim(m, t, value, err));
    }
    return PH_OK;
}

ph_rc ph_onnx_count_numbers(const ph_pb *m, const ph_pb_field *f, size_t item, const char *what, size_t *n,
                            ph_err *err) {
    unsigned alone = item == 4 ? PH_PB_FIXED32 : item == 8 ? PH_PB_FIXED64 : PH_PB_VARINT;
    if (f->wire == alone) {
        ++*n;
        return PH_OK;
    }
    PH_TRY(ph_onnx_wire(m, f, PH_PB_BYTES, what, err));
    if (item && f->n % item)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: %zu bytes are no list of numbers of %zu", m->name,
                       (size_t)(f->at - m->base), f->n, item);
    if (item)
        *n += f->n / item;
    else
        for (size_t i = 0; i < f->n; i++) *n += f->at[i] < 0x80; /* each varint has one last byte */
    return PH_OK;
}

static int is_named(const ph_pb_field *f, const char *name) {
    return f->n == strlen(name) && !memcmp(f->at, name, f->n);
}

static ph_rc read_number(const ph_pb *m, const ph_pb_field *f, uint64_t *out, ph_err *err) {
    uint64_t n = 0;
    int      fits = f->n > 0;
    for (size_t i = 0; i < f->n && fits; i++)
        fits = f->at[i] >= '0' && f->at[i] <= '9' && !__builtin_mul_overflow(n, 10u, &n) &&
               !__builtin_add_overflow(n, (uint64_t)(f->at[i] - '0'), &n);
    if (!fits)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: byte %zu: '%.*s' is no offset or length of external data",
                       m->name, (size_t)(f->at - m->base), f->n > 24 ? 24 : (int)f->n, (const char *)f->at);
    *out = n;
    return PH_OK;
}

/* One key and value of external_data. */
static ph_rc read_entry(ph_onnx_reader *r, ph_pb m, parts *p, ph_err *err) {
    ph_pb_field key = {0}, value = {0}, f;
    int         more;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) break;
        if (f.number > 2) continue;
        PH_TRY(ph_onnx_wire(&m, &f, PH_PB_BYTES, "an entry of external_data", err));
        if (f.number == 1) key = f;
        if (f.number == 2) value = f;
    }
    if (!value.at || !key.at) return PH_OK;
    if (is_named(&key, "location")) return ph_onnx_text(r, &m, &value, &p->location, err);
    if (is_named(&key, "offset")) return read_number(&m, &value, &p->offset, err);
    p->has_length |= is_named(&key, "length");
    return is_named(&key, "length") ? read_number(&m, &value, &p->length, err) : PH_OK;
}

/* name: read first, so that every message can say it. */
static ph_rc read_name(ph_onnx_reader *r, ph_pb m, ph_onnx_tensor *t, ph_err *err) {
    ph_pb_field f;
    int         more;
    t->name = "";
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number == 8) PH_TRY(ph_onnx_text(r, &m, &f, &t->name, err));
    }
}

static ph_rc read_parts(ph_onnx_reader *r, ph_pb m, ph_onnx_tensor *t, parts *p, ph_err *err) {
    ph_pb_field f;
    int         more;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number == 1) PH_TRY(read_dims(&m, &f, t, err));
        if (f.number == 2 || f.number == 14)
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_VARINT, "a tensor's type", err));
        if (f.number == 2) t->type = f.value < N_TYPES ? (int)f.value : N_TYPES;
        if (f.number == 14) p->is_external = f.value == 1;
        if (f.number == 13) {
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_BYTES, "external_data", err));
            PH_TRY(read_entry(r, ph_pb_into(&m, &f), p, err));
        }
        if (f.number == 9) {
            PH_TRY(ph_onnx_wire(&m, &f, PH_PB_BYTES, "raw_data", err));
            p->raw = f;
            p->has_raw = 1;
        }
        if (is_list(f.number)) {
            PH_TRY(ph_onnx_count_numbers(&m, &f, item_of(f.number), "a list of numbers", &p->n_numbers, err));
            p->list = f;
            p->n_lists++;
        }
    }
}

static ph_rc count_elements(const ph_pb *m, ph_onnx_tensor *t, size_t *bytes, ph_err *err) {
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] < 0)
            return PH_FAIL(err, PH_EFORMAT,
                           "%.120s: tensor '%.80s' has the dimension %" PRId64 " at place %d", m->name,
                           t->name, t->dim[i], i);
        if (__builtin_mul_overflow(t->count, t->dim[i], &t->count))
            return PH_FAIL(err, PH_ELIMIT, "%.120s: tensor '%.80s' has more than 2^63 elements", m->name,
                           t->name);
    }
    t->dtype = ph_onnx_dtype(t->type);
    t->is_nibbles = t->type == PH_ONNX_UINT4 || t->type == PH_ONNX_INT4;
    *bytes = 0;
    if (t->dtype == PH_N_DTYPES) return PH_OK;
    *bytes = t->is_nibbles ? (size_t)t->count / 2 + (size_t)t->count % 2 : (size_t)t->count;
    if (ph_mul_over(*bytes, ph_dtype_bytes(t->dtype), bytes))
        return PH_FAIL(err, PH_ELIMIT, "%.120s: tensor '%.80s' has more than 2^64 bytes", m->name, t->name);
    return PH_OK;
}

/* "tensor W ([4, 6] of float) needs 96 bytes, raw_data has 88" */
static ph_rc wrong_size(const ph_pb *m, const ph_onnx_tensor *t, const char *where, uint64_t have,
                        size_t want, const char *unit, ph_err *err) {
    char   shape[160] = "";
    size_t at = 0;
    for (int i = 0; i < t->rank && at < sizeof shape - 24; i++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, i ? ", %" PRId64 : "%" PRId64, t->dim[i]);
    return PH_FAIL(err, PH_EMISMATCH, "%.100s: tensor '%.80s' ([%s] of %s) needs %zu %s, %s has %" PRIu64,
                   m->name, t->name, shape, ph_onnx_type_name(t->type), want, unit, where, have);
}

/* The map of an external file, opened once. */
static ph_rc external(ph_onnx_reader *r, const ph_onnx_tensor *t, const char *location, const ph_file **out,
                      ph_err *err) {
    ph_onnx *m = r->m;
    for (size_t i = 0; i < m->n_external; i++)
        if (!strcmp(r->location[i], location)) {
            *out = &m->external[i];
            return PH_OK;
        }
    if (m->n_external == EXTERNAL_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%.120s: more than %d files of external data", m->name, EXTERNAL_MAX);
    void *files = realloc(m->external, (m->n_external + 1) * sizeof *m->external);
    if (files) m->external = files;
    void *names = realloc(r->location, (m->n_external + 1) * sizeof *r->location);
    if (names) r->location = names;
    if (!files || !names) return PH_FAIL(err, PH_ENOMEM, "the list of external files");
    ph_rc rc = ph_file_open_in(&m->external[m->n_external], r->dir, location, err);
    if (rc) return ph_note(err, rc, "external data of tensor '%.60s' in %.60s", t->name, m->name);
    PH_TRY(ph_arena_copy_text(&m->arena, &r->location[m->n_external], location, strlen(location), err));
    *out = &m->external[m->n_external++];
    return PH_OK;
}

static ph_rc take_external(ph_onnx_reader *r, const ph_pb *m, ph_onnx_tensor *t, const parts *p, size_t want,
                           ph_err *err) {
    const ph_file *file = NULL;
    if (!p->location || !*p->location)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: tensor '%.80s' is external, and says not where", m->name,
                       t->name);
    if (!r->dir)
        return PH_FAIL(err, PH_EUNSUP, "%.120s: tensor '%.80s' is external, and there is no folder", m->name,
                       t->name);
    if (p->has_length && p->length != want)
        return wrong_size(m, t, "its external data", p->length, want, "bytes", err);
    PH_TRY(external(r, t, p->location, &file, err));
    if (p->offset > file->n || want > file->n - p->offset)
        return PH_FAIL(err, PH_EMISMATCH,
                       "%.80s: tensor '%.60s' needs %zu bytes from byte %" PRIu64 " of %.60s, which has %zu",
                       m->name, t->name, want, p->offset, p->location, file->n);
    t->bytes = want ? file->bytes + p->offset : NULL;
    return PH_OK;
}

/* Which typed field holds numbers of this type. */
static unsigned field_of(const ph_onnx_tensor *t) {
    switch (t->dtype) {
    case PH_F32:
        return 4;
    case PH_F64:
        return 10;
    case PH_I64:
        return 7;
    case PH_U32:
    case PH_U64:
        return 11;
    default:
        return 5; /* int32_data: all narrower whole numbers, and the bits of 16-bit floats */
    }
}

static uint64_t number_of(ph_dtype t, uint64_t value) {
    return t == PH_BOOL ? value != 0 : value;
}

/* Append the numbers of one occurrence; the counts were checked before. */
static ph_rc decode(const ph_pb *m, const ph_pb_field *f, ph_dtype t, uint8_t **to, ph_err *err) {
    size_t   item = ph_dtype_bytes(t);
    size_t   fixed = item_of(f->number);
    ph_pb    packed = ph_pb_into(m, f);
    uint64_t value;
    if (fixed) {
        memcpy(*to, f->at, f->n);
        *to += f->n;
        return PH_OK;
    }
    if (f->wire == PH_PB_VARINT) {
        value = number_of(t, f->value);
        memcpy(*to, &value, item); /* little-endian: the low bytes */
        *to += item;
        return PH_OK;
    }
    while (packed.at != packed.end) {
        PH_TRY(ph_pb_varint(&packed, &value, err));
        value = number_of(t, value);
        memcpy(*to, &value, item);
        *to += item;
    }
    return PH_OK;
}

static ph_rc take_lists(ph_onnx_reader *r, ph_pb m, ph_onnx_tensor *t, const parts *p, size_t bytes,
                        ph_err *err) {
    size_t      item = ph_dtype_bytes(t->dtype), want = bytes / item;
    unsigned    number = field_of(t);
    ph_pb_field f;
    void       *memory;
    uint8_t    *to;
    int         more;
    if (p->n_lists && p->list.number != number)
        return PH_FAIL(err, PH_EFORMAT, "%.100s: tensor '%.80s' of %s has its numbers in field %u, not %u",
                       m.name, t->name, ph_onnx_type_name(t->type), p->list.number, number);
    if (p->n_numbers != want) return wrong_size(&m, t, "it", p->n_numbers, want, "numbers", err);
    if (!want) return PH_OK;
    if (p->n_lists == 1 && p->list.wire == PH_PB_BYTES && item_of(number)) {
        t->bytes = p->list.at;
        return PH_OK;
    }
    PH_TRY(ph_arena_carve(&r->m->arena, &memory, want, item, err));
    t->bytes = to = memory;
    for (;;) {
        PH_TRY(ph_pb_next(&m, &f, &more, err));
        if (!more) return PH_OK;
        if (f.number == number) {
            PH_TRY(decode(&m, &f, t->dtype, &to, err));
        } else if (is_list(f.number)) {
            return PH_FAIL(err, PH_EFORMAT, "%.100s: tensor '%.80s' has numbers in fields %u and %u", m.name,
                           t->name, number, f.number);
        }
    }
}

/* Whatever is not 0 is true: where a byte says so otherwise than by 1, which kernels rely on, a copy does. */
static ph_rc settle_bools(ph_onnx_reader *r, ph_onnx_tensor *t, ph_err *err) {
    size_t   i = 0;
    void    *memory;
    uint8_t *to;
    if (t->dtype != PH_BOOL || !t->bytes) return PH_OK;
    while (i < t->n_bytes && t->bytes[i] <= 1) i++;
    if (i == t->n_bytes) return PH_OK;
    PH_TRY(ph_arena_carve(&r->m->arena, &memory, t->n_bytes, 1, err));
    to = memory;
    for (i = 0; i < t->n_bytes; i++) to[i] = t->bytes[i] != 0;
    t->bytes = to;
    return PH_OK;
}

ph_rc ph_onnx_read_tensor(ph_onnx_reader *r, ph_pb m, ph_onnx_tensor *t, ph_err *err) {
    parts  p = {0};
    size_t want = 0;
    *t = (ph_onnx_tensor){.at = (size_t)(m.at - m.base)};
    PH_TRY(read_name(r, m, t, err));
    PH_TRY(read_parts(r, m, t, &p, err));
    PH_TRY(count_elements(&m, t, &want, err));
    if (t->dtype == PH_N_DTYPES) return PH_OK; /* whoever asks for its numbers refuses it by type */
    t->n_bytes = want;
    if (p.is_external) {
        PH_TRY(take_external(r, &m, t, &p, want, err));
        return settle_bools(r, t, err);
    }
    if (!p.has_raw) return take_lists(r, m, t, &p, want, err);
    if (p.raw.n != want) return wrong_size(&m, t, "raw_data", p.raw.n, want, "bytes", err);
    if (p.n_lists)
        return PH_FAIL(err, PH_EFORMAT, "%.120s: tensor '%.80s' has numbers twice: raw_data and field %u",
                       m.name, t->name, p.list.number);
    t->bytes = want ? p.raw.at : NULL;
    return settle_bools(r, t, err);
}
