/* onnx_test.c - the ONNX reader: where tensors' numbers lie, and files that lie about them. */
#include "formats/onnx.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <unistd.h>

static om_bytes with_tensor(const om_bytes *t) {
    om_bytes g = {.n = 0};
    om_sub(&g, 5, t);
    return om_model(&g, 17);
}

/* The model with this tensor as its only initializer is refused so; want PH_OK: it is read. */
static void expect(const om_bytes *t, ph_rc want, const char *word) {
    om_bytes m = with_tensor(t);
    ph_onnx  o;
    ph_err   err = {0};
    ph_rc    rc = ph_onnx_view(&o, m.at, m.n, "test.onnx", &err);
    CHECK_SAY(rc == want && (!rc || strstr(err.msg, word)), "%s (%s), wanted %s with \"%s\"", ph_rc_name(rc),
              err.msg, ph_rc_name(want), word);
    ph_onnx_close(&o);
}

void test_onnx_data_in_place(void) {
    float    x[6] = {1, 2, 3, 4, 5, 6};
    om_bytes raw = om_tensor("w", 1, 2, (const int64_t[]){2, 3}), list = raw, m;
    ph_onnx  o;
    om_data(&raw, 9, x, sizeof x);
    om_data(&list, 4, x, sizeof x);
    const om_bytes *both[] = {&raw, &list};
    for (int i = 0; i < 2; i++) {
        m = with_tensor(both[i]);
        CHECK(!ph_onnx_view(&o, m.at, m.n, "test.onnx", NULL));
        const ph_onnx_tensor *t = &o.initializer[0];
        CHECK(t->dtype == PH_F32 && t->rank == 2 && t->dim[1] == 3 && t->count == 6 && !strcmp(t->name, "w"));
        CHECK(t->bytes > m.at && t->bytes + 24 <= m.at + m.n &&
              !memcmp(t->bytes, x, 24)); /* nothing was copied */
        ph_onnx_close(&o);
    }
}

/* Varints are decoded: whole numbers of each width, the bits of 16-bit floats. */
void test_onnx_typed_fields(void) {
    static const struct {
        int      type;
        unsigned field;
        size_t   item;
    } rows[] = {{2, 5, 1}, {3, 5, 1},  {5, 5, 2},   {6, 5, 4},  {7, 7, 8},
                {9, 5, 1}, {10, 5, 2}, {12, 11, 4}, {13, 11, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        om_bytes t = om_tensor("w", rows[i].type, 1, (const int64_t[]){3}), packed = {.n = 0}, m;
        int64_t  want[3] = {1, 0, rows[i].type == 9 ? 1 : 100};
        ph_onnx  o;
        for (int k = 0; k < 2; k++) om_varint(&packed, (uint64_t)want[k]);
        om_sub(&t, rows[i].field, &packed); /* two packed, one alone */
        om_int(&t, rows[i].field, want[2]);
        m = with_tensor(&t);
        CHECK(!ph_onnx_view(&o, m.at, m.n, "test.onnx", NULL));
        if (o.n_initializers != 1) continue;
        for (int k = 0; k < 3; k++)
            CHECK(!memcmp(o.initializer[0].bytes + (size_t)k * rows[i].item, &want[k], rows[i].item));
        ph_onnx_close(&o);
    }
}

/* Any byte or number but 0 is true, and reads as 1; what is 0 and 1 already stays where it is. */
void test_onnx_bools(void) {
    om_bytes t = om_tensor("w", 9, 1, (const int64_t[]){4}), raw = t, list = t, m;
    om_data(&raw, 9, (const uint8_t[]){0, 2, 255, 1}, 4);
    om_int(&list, 5, 0), om_int(&list, 5, 256), om_int(&list, 5, -1), om_int(&list, 5, 1);
    om_bytes *forms[] = {&raw, &list};
    for (int i = 0; i < 2; i++) {
        ph_onnx o;
        m = with_tensor(forms[i]);
        CHECK(!ph_onnx_view(&o, m.at, m.n, "test.onnx", NULL));
        CHECK(o.n_initializers == 1 && !memcmp(o.initializer[0].bytes, "\0\1\1\1", 4));
        ph_onnx_close(&o);
    }
    ph_onnx o;
    om_data(&t, 9, (const uint8_t[]){0, 1, 1, 1}, 4);
    m = with_tensor(&t);
    CHECK(!ph_onnx_view(&o, m.at, m.n, "test.onnx", NULL));
    CHECK(o.n_initializers == 1 && o.initializer[0].bytes > m.at && o.initializer[0].bytes < m.at + m.n);
    ph_onnx_close(&o);
}

void test_onnx_tensor_refuses(void) {
    float    x[6] = {0};
    om_bytes t = om_tensor("w", 1, 2, (const int64_t[]){2, 3}), u;
    u = t, om_data(&u, 9, x, 20), expect(&u, PH_EMISMATCH, "needs 24 bytes, raw_data has 20");
    u = t, om_data(&u, 9, x, 24), om_data(&u, 4, x, 24), expect(&u, PH_EFORMAT, "twice");
    u = t, om_data(&u, 4, x, 22), expect(&u, PH_EFORMAT, "no list of numbers");
    u = t, om_data(&u, 4, x, 20), expect(&u, PH_EMISMATCH, "needs 6 numbers, it has 5");
    u = t, om_int(&u, 7, 1), expect(&u, PH_EFORMAT, "in field 7, not 4");
    expect(&t, PH_EMISMATCH, "it has 0");
    u = om_tensor("w", 1, 3, (const int64_t[]){1 << 30, 1 << 30, 1 << 30}), expect(&u, PH_ELIMIT, "2^63");
    u = om_tensor("w", 1, 1, (const int64_t[]){-2}), expect(&u, PH_EFORMAT, "-2");
    u = om_tensor("w", 1, 9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}),
    expect(&u, PH_ELIMIT, "dimensions");
    u = om_tensor("w", 1, 1, (const int64_t[]){1000000000}),
    expect(&u, PH_EMISMATCH, "1000000000 numbers"); /* no allocation */
    u = om_tensor("w", 1, 1, (const int64_t[]){0}), expect(&u, PH_OK, "");
    u = om_tensor("w", 8, 1, (const int64_t[]){5}),
    expect(&u, PH_OK, ""); /* texts: refused where they are used */
    u = t, om_int(&u, 14, 1), expect(&u, PH_EFORMAT, "says not where");
    u = om_tensor("w", 21, 1, (const int64_t[]){3}), om_data(&u, 9, x, 2),
    expect(&u, PH_OK, ""); /* three halves of a byte */
    u = om_tensor("w", 21, 1, (const int64_t[]){3}), om_data(&u, 9, x, 3),
    expect(&u, PH_EMISMATCH, "needs 2 bytes");
}

/* No beginning of a file is a crash; none that ends inside the graph is a model. */
void test_onnx_every_prefix(void) {
    float    x[6] = {0};
    om_bytes t = om_tensor("w", 1, 2, (const int64_t[]){2, 3}), g = {.n = 0},
             n = om_node("Gemm", "", "x,w", "y");
    om_data(&t, 9, x, 24);
    om_number(&n, "transB", 1);
    om_value(&g, 11, "x", 1, "batch,3"), om_value(&g, 12, "y", 1, "batch,2");
    om_sub(&g, 5, &t), om_sub(&g, 1, &n);
    om_bytes m = om_model(&g, 17);
    ph_onnx  o;
    for (size_t cut = 0; cut <= m.n; cut++) {
        ph_err err = {0};
        ph_rc  rc = ph_onnx_view(&o, m.at, cut, "cut.onnx", &err);
        CHECK_SAY(!rc == (cut == m.n) && (!rc || *err.msg), "%zu of %zu bytes: %s", cut, m.n, ph_rc_name(rc));
        ph_onnx_close(&o);
    }
    for (size_t i = 0; i < m.n; i++) /* a bit of each byte */
        for (int bit = 0; bit < 8; bit++) {
            om_bytes bad = m;
            ph_err   err = {0};
            bad.at[i] ^= (uint8_t)(1 << bit);
            ph_rc rc = ph_onnx_view(&o, bad.at, bad.n, "bit.onnx", &err);
            CHECK(!rc || (*err.msg && rc != PH_EBUG));
            ph_onnx_close(&o);
        }
}

static void write_file(const char *dir, const char *name, const void *bytes, size_t n) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n);
    if (f) fclose(f);
}

static void entry(om_bytes *t, const char *key, const char *value) {
    om_bytes e = {.n = 0};
    om_text(&e, 1, key), om_text(&e, 2, value);
    om_sub(t, 13, &e);
}

/* A model in dir whose tensor's six floats lie in `location`. */
static void external(const char *dir, const char *location, const char *offset, const char *length,
                     ph_rc want, const char *word) {
    om_bytes t = om_tensor("w", 1, 2, (const int64_t[]){2, 3});
    ph_onnx  o;
    ph_err   err = {0};
    char     path[600];
    om_int(&t, 14, 1);
    entry(&t, "location", location);
    if (*offset) entry(&t, "offset", offset);
    if (*length) entry(&t, "length", length);
    om_bytes m = with_tensor(&t);
    write_file(dir, "m.onnx", m.at, m.n);
    snprintf(path, sizeof path, "%s/m.onnx", dir);
    ph_rc rc = ph_onnx_open(&o, path, &err);
    CHECK_SAY(rc == want && (!rc || strstr(err.msg, word)), "%s at %s: %s (%s)", location, offset,
              ph_rc_name(rc), err.msg);
    if (!rc)
        CHECK(o.n_external == 1 && o.initializer[0].bytes == o.external[0].bytes + strtol(offset, NULL, 10));
    ph_onnx_close(&o);
}

void test_onnx_external_data(void) {
    char  dir[] = "/tmp/pinhole-onnx-XXXXXX", path[600];
    float x[10] = {0};
    CHECK(mkdtemp(dir) != NULL);
    write_file(dir, "w.bin", x, sizeof x);
    snprintf(path, sizeof path, "%s/out.bin", dir);
    CHECK(!symlink("/etc/hostname", path));
    external(dir, "w.bin", "16", "24", PH_OK, "");
    external(dir, "w.bin", "0", "", PH_OK, "");
    external(dir, "w.bin", "20", "24", PH_EMISMATCH, "which has 40");
    external(dir, "w.bin", "18446744073709551615", "24", PH_EMISMATCH, "which has 40");
    external(dir, "w.bin", "99999999999999999999", "24", PH_EFORMAT, "no offset");
    external(dir, "w.bin", "0", "23", PH_EMISMATCH, "has 23");
    external(dir, "../w.bin", "0", "", PH_EFORMAT, "..");
    external(dir, "/etc/hostname", "0", "", PH_EFORMAT, "absolute");
    external(dir, "out.bin", "0", "", PH_EFORMAT, "leads out");
    external(dir, "none.bin", "0", "", PH_EPATH, "none.bin");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"w.bin", "out.bin", "m.onnx"};
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        CHECK(!unlink(path));
    }
    CHECK(!rmdir(dir));
}
