/* onnx_given.c - shapes of all inputs from numbers of named axes, for models whose shapes symbols cannot
 * hold. */
#include "graph/onnx/onnx_in.h"

#include <stdlib.h>
#include <string.h>

/* The number of name[n] in "batch=4,past=0"; 0: it is not there. */
static int listed(const char *list, const char *name, size_t n, int64_t *out) {
    for (const char *p = list; p && *p;) {
        size_t word = strcspn(p, ","), key = strcspn(p, "=,");
        if (key == n && !strncmp(p, name, n) && p[key] == '=') {
            *out = strtol(p + key + 1, NULL, 10);
            return 1;
        }
        p += word + (p[word] == ',');
    }
    return 0;
}

static int holds_past(const char *name, size_t n) {
    for (size_t i = 0; i + 4 <= n; i++)
        if (!strncmp(name + i, "past", 4)) return 1;
    return 0;
}

/* One axis; a sum such as "past_length + 1" is that of its terms. */
static int64_t size_of(const char *list, const char *name) {
    int64_t sum = 0, one;
    if (listed(list, name, strlen(name), &one)) return one;
    for (const char *p = name;; p++) {
        while (*p == ' ') p++;
        size_t n = strcspn(p, "+"), used = n;
        while (used && p[used - 1] == ' ') used--;
        if (used && *p >= '0' && *p <= '9')
            one = strtol(p, NULL, 10);
        else if (!listed(list, p, used, &one))
            one = !holds_past(p, used);
        if (__builtin_add_overflow(sum, one, &sum)) return 1;
        p += n;
        if (!*p) return sum;
    }
}

size_t ph_onnx_given_of(const ph_onnx *m, const char *list, ph_onnx_given *out, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_inputs && n < max; i++) {
        const ph_onnx_value *v = &m->input[i];
        if (!v->has_shape) continue;
        ph_onnx_given *g = &out[n++];
        *g = (ph_onnx_given){.name = v->name, .rank = v->rank};
        for (int d = 0; d < v->rank; d++)
            g->dim[d] = v->dim[d].size >= 0 ? v->dim[d].size : size_of(list, v->dim[d].param);
    }
    return n;
}
