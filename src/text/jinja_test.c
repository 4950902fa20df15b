/* jinja_test.c - the tests of "x is ...".  Source: jinja2/tests.py of 3.1 for behaviour. */
#include "text/jinja_impl.h"

#include <utf8proc.h>

#define TEST(name) static ph_rc name(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out)
/* A test that looks at the value alone. */
#define SIMPLE(name, cond)                                                                                   \
    TEST(name) {                                                                                             \
        (void)r, (void)arg;                                                                                  \
        *out = ph_j_bool(cond);                                                                              \
        return PH_OK;                                                                                        \
    }

SIMPLE(boolean, self.kind == PH_J_BOOL)
SIMPLE(callable, self.kind == PH_J_UNDEF || self.kind == PH_J_MACRO || self.kind == PH_J_FUNC ||
                     self.kind == PH_J_BOUND || self.kind == PH_J_LOOP || self.kind == PH_J_JOINER)
SIMPLE(defined, self.kind != PH_J_UNDEF)
SIMPLE(undefined, self.kind == PH_J_UNDEF)
SIMPLE(escaped, self.kind == PH_J_STR && ph_j_str(self)->is_markup)
SIMPLE(is_false, self.kind == PH_J_BOOL && !self.u.i)
SIMPLE(is_true, self.kind == PH_J_BOOL && self.u.i)
SIMPLE(is_float, self.kind == PH_J_FLOAT)
SIMPLE(integer, self.kind == PH_J_INT)
SIMPLE(mapping, self.kind == PH_J_DICT)
SIMPLE(none, self.kind == PH_J_NONE)
SIMPLE(number, ph_j_is_num(self))
SIMPLE(string, self.kind == PH_J_STR)
SIMPLE(filter, self.kind == PH_J_STR && ph_j_filter(self.u.p))
SIMPLE(test, self.kind == PH_J_STR && ph_j_test(self.u.p))
SIMPLE(iterable,
       self.kind == PH_J_UNDEF || (self.kind >= PH_J_STR && self.kind <= PH_J_ITER) || self.kind == PH_J_LOOP)
SIMPLE(sequence, self.kind == PH_J_UNDEF || (self.kind >= PH_J_STR && self.kind <= PH_J_RANGE))

/* Has cased letters, and all of them are upper (lower). */
static int all_cased(const ph_jstr *s, int upper) {
    int    any = 0;
    size_t len;
    for (size_t i = 0; i < s->n; i += len) {
        utf8proc_int32_t    c = (utf8proc_int32_t)ph_js_cp(s->p + i, s->n - i, &len);
        utf8proc_category_t k = utf8proc_category(c);
        if (k == UTF8PROC_CATEGORY_LT || k == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU)) return 0;
        any |= k == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    }
    return any;
}
TEST(upper) {
    ph_jv s;
    (void)arg;
    PH_TRY(ph_j_to_str(r, self, &s));
    *out = ph_j_bool(all_cased(s.u.p, 1));
    return PH_OK;
}
TEST(lower) {
    ph_jv s;
    (void)arg;
    PH_TRY(ph_j_to_str(r, self, &s));
    *out = ph_j_bool(all_cased(s.u.p, 0));
    return PH_OK;
}

static ph_rc remainder_is(ph_jrun *r, ph_jv a, ph_jv b, int64_t want, ph_jv *out) {
    ph_jv rest;
    int   is;
    PH_TRY(ph_j_binary(r, PH_JO_MOD, a, b, &rest));
    PH_TRY(ph_j_equal(r, rest, ph_j_int(want), &is));
    *out = ph_j_bool(is);
    return PH_OK;
}
TEST(even) {
    (void)arg;
    return remainder_is(r, self, ph_j_int(2), 0, out);
}
TEST(odd) {
    (void)arg;
    return remainder_is(r, self, ph_j_int(2), 1, out);
}
TEST(divisibleby) {
    return remainder_is(r, self, arg[0], 0, out);
}

static ph_rc flag(ph_rc rc, int is, ph_jv *out) {
    *out = ph_j_bool(is);
    return rc;
}
TEST(eq) {
    int   is = 0;
    ph_rc rc = ph_j_equal(r, self, arg[0], &is);
    return flag(rc, is, out);
}
TEST(ne) {
    int   is = 0;
    ph_rc rc = ph_j_equal(r, self, arg[0], &is);
    return flag(rc, !is, out);
}
TEST(lt) {
    int   is = 0;
    ph_rc rc = ph_j_less(r, self, arg[0], "<", &is);
    return flag(rc, is, out);
}
TEST(gt) {
    int   is = 0;
    ph_rc rc = ph_j_less(r, arg[0], self, ">", &is);
    return flag(rc, is, out);
}
TEST(le) {
    int   is = 0;
    ph_rc rc = ph_j_less(r, arg[0], self, "<=", &is);
    return flag(rc, !is, out);
}
TEST(ge) {
    int   is = 0;
    ph_rc rc = ph_j_less(r, self, arg[0], ">=", &is);
    return flag(rc, !is, out);
}
TEST(in) {
    int   is = 0;
    ph_rc rc = ph_j_contains(r, arg[0], self, &is);
    return flag(rc, is, out);
}

/* Identity: of None, bools, small ints, and of one object with itself. */
TEST(sameas) {
    ph_jv o = arg[0];
    int   is = self.kind == o.kind;
    (void)r;
    if (is && ph_j_is_int(self))
        is = self.u.i == o.u.i;
    else if (is && self.kind == PH_J_FLOAT)
        is = !memcmp(&self.u.f, &o.u.f, sizeof o.u.f);
    else if (is && self.kind != PH_J_NONE)
        is = self.u.p == o.u.p;
    *out = ph_j_bool(is);
    return PH_OK;
}

static const ph_jbuiltin tests[] = {
#define PH_JINJA_TEST(name, fn, params) {name, fn, params},
#include "text/jinja_test.def"
#undef PH_JINJA_TEST
};

const ph_jbuiltin *ph_j_test(const ph_jstr *name) {
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (ph_js_is(name, tests[i].name)) return &tests[i];
    return NULL;
}
