/* onnx_make.h - ONNX files made field by field, for tests of the reader and of the import. */
#ifndef PH_TESTS_ONNX_MAKE_H
#define PH_TESTS_ONNX_MAKE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct om_bytes {
    uint8_t at[1 << 14];
    size_t  n;
} om_bytes;

static inline void om_varint(om_bytes *b, uint64_t v) {
    for (; v >= 0x80 && b->n < sizeof b->at; v >>= 7) b->at[b->n++] = (uint8_t)(v | 0x80);
    if (b->n < sizeof b->at) b->at[b->n++] = (uint8_t)v;
}

static inline void om_int(om_bytes *b, unsigned field, int64_t v) {
    om_varint(b, field << 3);
    om_varint(b, (uint64_t)v);
}

static inline void om_data(om_bytes *b, unsigned field, const void *data, size_t n) {
    om_varint(b, field << 3 | 2);
    om_varint(b, n);
    if (b->n > sizeof b->at || n > sizeof b->at - b->n) abort();
    if (n) memcpy(b->at + b->n, data, n);
    b->n += n;
}

static inline void om_text(om_bytes *b, unsigned field, const char *text) {
    om_data(b, field, text, strlen(text));
}

static inline void om_sub(om_bytes *b, unsigned field, const om_bytes *inner) {
    om_data(b, field, inner->at, inner->n);
}

/* "a,b,,c" as repeated texts; "" is none. */
static inline void om_names(om_bytes *b, unsigned field, const char *list) {
    for (const char *p = list; *list; p++) {
        if (*p && *p != ',') continue;
        om_data(b, field, list, (size_t)(p - list));
        if (!*p) return;
        list = p + 1;
        if (!*list) om_data(b, field, "", 0);
    }
}

/* A node without attributes; add them to *n with om_ints and om_number, then om_sub(graph, 1, n). */
static inline om_bytes om_node(const char *op, const char *domain, const char *in, const char *out) {
    om_bytes n = {.n = 0};
    om_names(&n, 1, in);
    om_names(&n, 2, out);
    om_text(&n, 3, out);
    om_text(&n, 4, op);
    if (*domain) om_text(&n, 7, domain);
    return n;
}

static inline void om_number(om_bytes *node, const char *name, int64_t v) {
    om_bytes a = {.n = 0};
    om_text(&a, 1, name);
    om_int(&a, 3, v);
    om_int(&a, 20, 2);
    om_sub(node, 5, &a);
}

static inline void om_ints(om_bytes *node, const char *name, int n, const int64_t *v) {
    om_bytes a = {.n = 0};
    om_text(&a, 1, name);
    for (int i = 0; i < n; i++) om_int(&a, 8, v[i]);
    om_int(&a, 20, 7);
    om_sub(node, 5, &a);
}

static inline void om_fixed(om_bytes *b, unsigned field, float v) {
    om_varint(b, field << 3 | 5);
    if (b->n > sizeof b->at - sizeof v) abort();
    memcpy(b->at + b->n, &v, sizeof v);
    b->n += sizeof v;
}

/* A float; list: as one of floats. */
static inline void om_float(om_bytes *node, const char *name, float v, int list) {
    om_bytes a = {.n = 0};
    om_text(&a, 1, name);
    om_fixed(&a, list ? 7 : 2, v);
    om_int(&a, 20, list ? 6 : 1);
    om_sub(node, 5, &a);
}

static inline void om_word(om_bytes *node, const char *name, const char *text) {
    om_bytes a = {.n = 0};
    om_text(&a, 1, name);
    om_text(&a, 4, text);
    om_int(&a, 20, 3);
    om_sub(node, 5, &a);
}

/* An attribute of a function's node that the call gives. */
static inline void om_ref(om_bytes *node, const char *name, const char *from, int type) {
    om_bytes a = {.n = 0};
    om_text(&a, 1, name);
    om_text(&a, 21, from);
    om_int(&a, 20, type);
    om_sub(node, 5, &a);
}

/* A tensor's name, type and dims; add its data, then om_sub(graph, 5, &t). */
static inline om_bytes om_tensor(const char *name, int type, int rank, const int64_t *dim) {
    om_bytes t = {.n = 0};
    for (int i = 0; i < rank; i++) om_int(&t, 1, dim[i]);
    om_int(&t, 2, type);
    om_text(&t, 8, name);
    return t;
}

static inline void om_list(om_bytes *graph, const char *name, int n, const int64_t *v) {
    om_bytes t = om_tensor(name, 7, 1, (const int64_t[]){n});
    om_data(&t, 9, v, (size_t)n * sizeof *v);
    om_sub(graph, 5, &t);
}

/* An input (field 11) or output (12): dims apart by commas, "batch,3"; "?" has no name. */
static inline void om_value(om_bytes *graph, unsigned field, const char *name, int type, const char *dims) {
    om_bytes v = {.n = 0}, t = {.n = 0}, tensor = {.n = 0}, shape = {.n = 0};
    for (const char *p = dims; *p;) {
        om_bytes d = {.n = 0};
        size_t   n = strcspn(p, ",");
        char    *end;
        long     size = strtol(p, &end, 10);
        if (end == p + n)
            om_int(&d, 1, size);
        else if (*p != '?')
            om_data(&d, 2, p, n);
        om_sub(&shape, 1, &d);
        p += n + (p[n] == ',');
    }
    om_int(&tensor, 1, type);
    om_sub(&tensor, 2, &shape);
    om_sub(&t, 1, &tensor);
    om_text(&v, 1, name);
    om_sub(&v, 2, &t);
    om_sub(graph, field, &v);
}

static inline void om_opset(om_bytes *b, unsigned field, const char *domain, int64_t version) {
    om_bytes o = {.n = 0};
    if (*domain) om_text(&o, 1, domain);
    om_int(&o, 2, version);
    om_sub(b, field, &o);
}

static inline om_bytes om_model(const om_bytes *graph, int64_t opset) {
    om_bytes m = {.n = 0};
    om_int(&m, 1, 8);
    om_opset(&m, 8, "", opset);
    om_sub(&m, 7, graph);
    return m;
}

#endif
