/* jinja_op.c - the arithmetic operators: numbers, strings and lists, with Python's signs and errors. */
#include "text/jinja_impl.h"

#include <math.h>
#include <stdio.h>

static ph_rc bad_operands(ph_jrun *r, int op, ph_jv a, ph_jv b) {
    char name[4] = {(char)(op & 0xFF), (char)(op >> 8), 0};
    if (op == PH_JO_POW)
        return PH_J_FAIL(r, "TypeError: unsupported operand type(s) for ** or pow(): '%s' and '%s'",
                         ph_j_type(a), ph_j_type(b));
    return PH_J_FAIL(r, "TypeError: unsupported operand type(s) for %s: '%s' and '%s'", name, ph_j_type(a),
                     ph_j_type(b));
}

static ph_rc too_big(ph_jrun *r) {
    return PH_J_FAIL(r, "OverflowError: an integer beyond 64 bits");
}

static ph_rc zero(ph_jrun *r, const char *what) {
    return PH_J_FAIL(r, "ZeroDivisionError: %s", what);
}

static ph_rc int_power(ph_jrun *r, int64_t a, int64_t n, ph_jv *out) {
    int64_t x = 1;
    if (n < 0) {
        if (!a) return zero(r, "0.0 cannot be raised to a negative power");
        *out = ph_j_float(pow((double)a, (double)n));
        return PH_OK;
    }
    if (a == 0 || a == 1 || a == -1) {
        *out = ph_j_int(n == 0 ? 1 : a == -1 && n % 2 == 0 ? 1 : a);
        return PH_OK;
    }
    for (; n; n--)
        if (__builtin_mul_overflow(x, a, &x)) return too_big(r);
    *out = ph_j_int(x);
    return PH_OK;
}

static ph_rc ints(ph_jrun *r, int op, int64_t a, int64_t b, ph_jv *out) {
    int64_t x = 0;
    switch (op) {
    case PH_JO_ADD:
        if (__builtin_add_overflow(a, b, &x)) return too_big(r);
        break;
    case PH_JO_SUB:
        if (__builtin_sub_overflow(a, b, &x)) return too_big(r);
        break;
    case PH_JO_MUL:
        if (__builtin_mul_overflow(a, b, &x)) return too_big(r);
        break;
    case PH_JO_DIV:
        if (!b) return zero(r, "division by zero");
        *out = ph_j_float((double)a / (double)b);
        return PH_OK;
    case PH_JO_FLOOR:
    case PH_JO_MOD:
        if (!b)
            return zero(r, op == PH_JO_MOD ? "integer modulo by zero" : "integer division or modulo by zero");
        if (b == -1) { /* INT64_MIN / -1 does not fit */
            if (op == PH_JO_FLOOR && __builtin_sub_overflow((int64_t)0, a, &x)) return too_big(r);
            break;
        }
        x = op == PH_JO_MOD ? a % b : a / b;
        if (a % b != 0 && (a % b < 0) != (b < 0)) x += op == PH_JO_MOD ? b : -1;
        break;
    default:
        return int_power(r, a, b, out);
    }
    *out = ph_j_int(x);
    return PH_OK;
}

static ph_rc floats(ph_jrun *r, int op, double a, double b, ph_jv *out) {
    double x = 0, m;
    int    is_zero = !(b < 0) && !(b > 0) && !isnan(b);
    switch (op) {
    case PH_JO_ADD:
        x = a + b;
        break;
    case PH_JO_SUB:
        x = a - b;
        break;
    case PH_JO_MUL:
        x = a * b;
        break;
    case PH_JO_DIV:
        if (is_zero) return zero(r, "float division by zero");
        x = a / b;
        break;
    case PH_JO_FLOOR:
    case PH_JO_MOD:
        if (is_zero) return zero(r, op == PH_JO_MOD ? "float modulo" : "float floor division by zero");
        m = fmod(a, b);
        if ((m < 0 || m > 0) && (m < 0) != (b < 0))
            m += b;
        else if (!(m < 0) && !(m > 0) && !isnan(m))
            m = copysign(0.0, b);
        x = op == PH_JO_MOD ? m : floor((a - m) / b + 0.5);
        if (op == PH_JO_FLOOR && !(x < 0) && !(x > 0) && !isnan(x)) x = copysign(0.0, a / b);
        if (op == PH_JO_FLOOR && !isfinite(x)) x = floor(a / b);
        break;
    default:
        if (!(a < 0) && !(a > 0) && !isnan(a) && b < 0)
            return zero(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && floor(b) < b) return PH_J_FAIL(r, "TypeError: complex numbers are not supported");
        x = pow(a, b);
        if (isinf(x) && isfinite(a) && isfinite(b))
            return PH_J_FAIL(r, "OverflowError: (34, 'Numerical result out of range')");
    }
    *out = ph_j_float(x);
    return PH_OK;
}

static ph_rc add_lists(ph_jrun *r, ph_jv a, ph_jv b, ph_jv *out) {
    ph_jlist        l = {0};
    const ph_jlist *x = a.u.p, *y = b.u.p;
    for (size_t i = 0; i < x->n; i++) PH_TRY(ph_j_list_push(r, &l, x->v[i]));
    for (size_t i = 0; i < y->n; i++) PH_TRY(ph_j_list_push(r, &l, y->v[i]));
    return ph_j_list_make(r, a.kind, &l, out);
}

static ph_rc repeat(ph_jrun *r, ph_jv a, int64_t count, ph_jv *out) {
    ph_jbuf  b = {0};
    ph_jlist l = {0};
    if (!ph_j_truth(a)) count = 0;
    if (a.kind == PH_J_STR) {
        for (int64_t i = 0; i < count; i++) {
            PH_TRY(ph_j_step(r, 1));
            PH_TRY(ph_js_put_str(r, &b, a.u.p));
        }
        return ph_js_done(r, &b, out);
    }
    const ph_jlist *x = a.u.p;
    for (int64_t i = 0; i < count; i++)
        for (size_t k = 0; k < x->n; k++) PH_TRY(ph_j_list_push(r, &l, x->v[k]));
    return ph_j_list_make(r, a.kind, &l, out);
}

static int is_seq(ph_jv v) {
    return v.kind == PH_J_STR || v.kind == PH_J_LIST || v.kind == PH_J_TUPLE;
}

static ph_rc add(ph_jrun *r, ph_jv a, ph_jv b, ph_jv *out) {
    if (a.kind == PH_J_STR && b.kind == PH_J_STR) {
        /* a marked-up string escapes what is added to it */
        if (ph_j_str(a)->is_markup != ph_j_str(b)->is_markup) {
            ph_jv *plain = ph_j_str(a)->is_markup ? &b : &a;
            PH_TRY(ph_js_to_markup(r, plain->u.p, 1, plain));
        }
        int is_markup = ph_j_str(a)->is_markup;
        PH_TRY(ph_js_concat(r, a.u.p, b.u.p, out));
        return is_markup ? ph_js_to_markup(r, out->u.p, 0, out) : PH_OK;
    }
    if (a.kind == b.kind && (a.kind == PH_J_LIST || a.kind == PH_J_TUPLE)) return add_lists(r, a, b, out);
    if (a.kind == PH_J_STR || a.kind == PH_J_LIST || a.kind == PH_J_TUPLE)
        return PH_J_FAIL(r, "TypeError: can only concatenate %s (not \"%s\") to %s", ph_j_type(a),
                         ph_j_type(b), ph_j_type(a));
    return bad_operands(r, '+', a, b);
}

ph_rc ph_j_binary(ph_jrun *r, int op, ph_jv a, ph_jv b, ph_jv *out) {
    if (a.kind == PH_J_UNDEF) return ph_j_undef_used(r, a);
    if (op == PH_JO_MOD && a.kind == PH_J_STR) return ph_j_percent(r, a.u.p, b, out);
    if (b.kind == PH_J_UNDEF) return ph_j_undef_used(r, b);
    if (ph_j_is_int(a) && ph_j_is_int(b)) return ints(r, op, a.u.i, b.u.i, out);
    if (ph_j_is_num(a) && ph_j_is_num(b)) return floats(r, op, ph_j_num(a), ph_j_num(b), out);
    if (op == PH_JO_ADD) return add(r, a, b, out);
    if (op == PH_JO_MUL && is_seq(a) && ph_j_is_int(b)) return repeat(r, a, b.u.i, out);
    if (op == PH_JO_MUL && is_seq(b) && ph_j_is_int(a)) return repeat(r, b, a.u.i, out);
    if (op == PH_JO_MUL && (is_seq(a) || is_seq(b)))
        return PH_J_FAIL(r, "TypeError: can't multiply sequence by non-int of type '%s'",
                         ph_j_type(is_seq(a) ? b : a));
    return bad_operands(r, op, a, b);
}
