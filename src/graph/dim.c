/* dim.c - dimensions as numbers or monomials over the symbols, and shapes of them.
 *
 * A dimension is kept in one normal form: a plain number has no powers, div 1
 * and add 0; otherwise mul and div share no factor.  So equal dimensions are
 * equal field by field.  Products and quotients take the division as exact: a
 * family that writes N/4 promises that N is a multiple of 4, and Reshape checks
 * the promise when the numbers are known.  Sums do not: N/2 + N/2 is no ph_dim.
 */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char ph_sym_letters[PH_N_SYMS + 1] = "RSVINABC";

enum { POWER_MAX = 8 };

static int64_t floor_div(int64_t a, int64_t b) { /* b > 0 */
    int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

static int has_powers(const ph_dim *d) {
    for (int s = 0; s < PH_N_SYMS; s++)
        if (d->pow[s]) return 1;
    return 0;
}

static int64_t common_factor(int64_t a, int64_t b) { /* both > 0 */
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* To the normal form; 0 when the numbers do not fit. */
static int settle(ph_dim *d) {
    if (d->div <= 0 || d->mul < 0) return 0;
    if (!has_powers(d) || !d->mul) {
        int64_t n;
        if (__builtin_add_overflow(floor_div(d->mul, d->div), d->add, &n)) return 0;
        *d = ph_dim_of(n);
        return 1;
    }
    int64_t f = common_factor(d->mul, d->div);
    d->mul /= f;
    d->div /= f;
    return 1;
}

ph_dim ph_dim_of(int64_t n) {
    return (ph_dim){.mul = n, .div = 1};
}

ph_dim ph_dim_sym(ph_sym s) {
    ph_dim d = ph_dim_of(1);
    if ((int)s >= 0 && s < PH_N_SYMS) d.pow[s] = 1;
    return d;
}

int ph_dim_is_fixed(ph_dim d) {
    return !has_powers(&d);
}

int ph_dim_has_rest(ph_dim d) {
    return d.div != 1;
}

int ph_dim_same(ph_dim a, ph_dim b) {
    return a.mul == b.mul && a.div == b.div && a.add == b.add && !memcmp(a.pow, b.pow, sizeof a.pow);
}

int ph_dim_mul(ph_dim a, ph_dim b, ph_dim *out) {
    if (has_powers(&b) && !has_powers(&a)) {
        ph_dim swap = a;
        a = b;
        b = swap;
    }
    if (a.add && has_powers(&b)) return 0;
    if (b.add) return 0; /* two symbols, or a number that is not in its normal form */
    ph_dim r = {0};
    if (__builtin_mul_overflow(a.mul, b.mul, &r.mul)) return 0;
    if (__builtin_mul_overflow(a.div, b.div, &r.div)) return 0;
    if (a.add && __builtin_mul_overflow(a.add, b.mul, &r.add)) return 0;
    for (int s = 0; s < PH_N_SYMS; s++) {
        int power = a.pow[s] + b.pow[s];
        if (power > POWER_MAX) return 0;
        r.pow[s] = (uint8_t)power;
    }
    if (!settle(&r)) return 0;
    *out = r;
    return 1;
}

int ph_dim_div(ph_dim a, ph_dim b, ph_dim *out) {
    if (b.add || b.mul <= 0 || b.div <= 0) return 0;
    ph_dim r = a;
    if (!has_powers(&a) && !has_powers(&b)) {
        if (b.div != 1 || a.mul % b.mul) return 0;
        *out = ph_dim_of(a.mul / b.mul);
        return 1;
    }
    if (a.add) { /* (M + add) / n only */
        if (has_powers(&b) || b.div != 1 || a.add % b.mul) return 0;
        r.add = a.add / b.mul;
    }
    if (__builtin_mul_overflow(a.mul, b.div, &r.mul)) return 0;
    if (__builtin_mul_overflow(a.div, b.mul, &r.div)) return 0;
    for (int s = 0; s < PH_N_SYMS; s++) {
        if (a.pow[s] < b.pow[s]) return 0;
        r.pow[s] = (uint8_t)(a.pow[s] - b.pow[s]);
    }
    if (!has_powers(&r) && (r.div <= 0 || r.mul % r.div)) return 0;
    if (!settle(&r)) return 0;
    *out = r;
    return 1;
}

int ph_dim_add(ph_dim a, ph_dim b, ph_dim *out) {
    ph_dim r = a;
    if (!has_powers(&a)) {
        r = b;
        if (__builtin_add_overflow(b.add, a.mul, &r.add)) return 0;
        if (has_powers(&b)) {
            *out = r;
            return 1;
        }
        if (__builtin_add_overflow(a.mul, b.mul, &r.mul)) return 0;
        *out = ph_dim_of(r.mul);
        return 1;
    }
    if (!has_powers(&b)) return ph_dim_add(b, a, out);
    if (memcmp(a.pow, b.pow, sizeof a.pow) || a.div != 1 || b.div != 1) return 0;
    if (__builtin_add_overflow(a.mul, b.mul, &r.mul) || __builtin_add_overflow(a.add, b.add, &r.add))
        return 0;
    if (!settle(&r)) return 0;
    *out = r;
    return 1;
}

ph_rc ph_dim_eval(ph_dim d, const ph_syms *syms, int64_t *out, ph_err *err) {
    char    text[64];
    int64_t n = d.mul;
    int     over = d.div <= 0;
    for (int s = 0; s < PH_N_SYMS && !over; s++)
        for (int p = 0; p < d.pow[s] && !over; p++)
            over = !syms || syms->at[s] < 0 || __builtin_mul_overflow(n, syms->at[s], &n);
    if (!over) over = __builtin_add_overflow(floor_div(n, d.div), d.add, &n);
    ph_dim_print(d, text, sizeof text);
    if (over) return PH_FAIL(err, PH_ELIMIT, "dimension %s does not fit 63 bits at these sizes", text);
    if (n < 0) return PH_FAIL(err, PH_ELIMIT, "dimension %s is %" PRId64 " at these sizes", text, n);
    *out = n;
    return PH_OK;
}

/* Append to out[size] at *at; what does not fit is cut. */
__attribute__((format(printf, 4, 5))) static void say(char *out, size_t size, size_t *at, const char *fmt,
                                                      ...) {
    va_list ap;
    if (*at + 1 >= size) return;
    va_start(ap, fmt);
    int n = vsnprintf(out + *at, size - *at, fmt, ap);
    va_end(ap);
    if (n > 0) *at = *at + (size_t)n < size ? *at + (size_t)n : size - 1;
}

/* A size as a file calls it: what could be read as more than a name stands in quotes. */
static void say_name(const char *name, char *out, size_t size, size_t *at) {
    int is_plain = !name[strcspn(name, " +-*/^,'\"")];
    say(out, size, at, is_plain ? "%.40s" : "'%.40s'", name);
}

static void print_powers(const ph_dim *d, const char *const *symbol, char *out, size_t size, size_t *at) {
    int is_first = d->mul == 1;
    for (int s = 0; s < PH_N_SYMS; s++) {
        if (!d->pow[s]) continue;
        if (symbol && !is_first) say(out, size, at, "*"); /* letters stand side by side, names cannot */
        is_first = 0;
        if (symbol && symbol[s])
            say_name(symbol[s], out, size, at);
        else
            say(out, size, at, "%c", ph_sym_letters[s]);
        if (d->pow[s] > 1) say(out, size, at, "^%d", d->pow[s]);
    }
}

/* symbol: [PH_N_SYMS], or NULL. */
static void print(ph_dim d, const char *const *symbol, char *out, size_t size) {
    size_t at = 0;
    if (!size) return;
    *out = 0;
    if (!has_powers(&d)) {
        say(out, size, &at, "%" PRId64, d.mul);
        return;
    }
    if (d.add > 0) say(out, size, &at, "%" PRId64 "+", d.add);
    if (d.mul != 1) say(out, size, &at, "%" PRId64, d.mul);
    print_powers(&d, symbol, out, size, &at);
    if (d.div != 1) say(out, size, &at, "/%" PRId64, d.div);
    if (d.add < 0) say(out, size, &at, "%" PRId64, d.add);
}

void ph_dim_print(ph_dim d, char *out, size_t size) {
    print(d, NULL, out, size);
}

/* Of a graph that a file made; others know no names but ours. */
static const char *const *names_of(const ph_graph *g) {
    for (int s = 0; s < PH_N_SYMS; s++)
        if (g->symbol[s]) return g->symbol;
    return NULL;
}

void ph_graph_dim_print(const ph_graph *g, ph_dim d, char *out, size_t size) {
    print(d, names_of(g), out, size);
}

ph_shape ph_shape_of(int rank, ...) {
    ph_shape s = {.rank = rank};
    va_list  ap;
    if (rank < 0 || rank > PH_RANK_MAX) return (ph_shape){.rank = -1}; /* the builders refuse it */
    va_start(ap, rank);
    for (int i = 0; i < rank; i++) s.dim[i] = va_arg(ap, ph_dim);
    va_end(ap);
    return s;
}

int ph_shape_same(const ph_shape *a, const ph_shape *b) {
    if (a->rank != b->rank) return 0;
    for (int i = 0; i < a->rank; i++)
        if (!ph_dim_same(a->dim[i], b->dim[i])) return 0;
    return 1;
}

ph_rc ph_shape_count(const ph_shape *s, const ph_syms *syms, int64_t *out, ph_err *err) {
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        int64_t d;
        PH_TRY(ph_dim_eval(s->dim[i], syms, &d, err));
        if (__builtin_mul_overflow(n, d, &n)) {
            char text[128];
            ph_shape_print(s, text, sizeof text);
            return PH_FAIL(err, PH_ELIMIT, "shape %s has more than 2^63 elements at these sizes", text);
        }
    }
    *out = n;
    return PH_OK;
}

static void print_shape(const ph_shape *s, const char *const *symbol, char *out, size_t size) {
    size_t at = 0;
    if (!size) return;
    *out = 0;
    say(out, size, &at, "[");
    for (int i = 0; i < s->rank; i++) {
        char text[128];
        print(s->dim[i], symbol, text, sizeof text);
        say(out, size, &at, i ? ", %s" : "%s", text);
    }
    say(out, size, &at, "]");
}

void ph_shape_print(const ph_shape *s, char *out, size_t size) {
    print_shape(s, NULL, out, size);
}

void ph_graph_shape_print(const ph_graph *g, const ph_shape *s, char *out, size_t size) {
    print_shape(s, names_of(g), out, size);
}
