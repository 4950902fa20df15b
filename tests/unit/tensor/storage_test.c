/* storage_test.c - separate planes against tests/golden/storage, and what their checks refuse. */
#include "tensor/half.h"
#include "tensor/storage.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static uint8_t bytes[1 << 19];

typedef struct sample {
    ph_storage   s;
    size_t       cols;
    const float *want;
} sample;

/* One case of planes.txt; NULL in want when it is not there. */
static sample load(const char *name) {
    FILE *bin = fopen("tests/golden/storage/planes.bin", "rb"),
         *txt = fopen("tests/golden/storage/planes.txt", "r");
    char   line[160], which[32], form[32], type[8];
    sample c = {0};
    CHECK(bin && txt);
    size_t total = bin ? fread(bytes, 1, sizeof bytes, bin) : 0;
    while (txt && fgets(line, sizeof line, txt)) {
        int        plane;
        size_t     at, n, cols, width;
        ph_storage s = c.s;
        if (sscanf(line, "%31s %31s %d %zu %d %zu %zu %d %7s %zu %zu %zu", which, form, &s.bits, &s.group,
                   &s.zero_add, &s.n_rows, &cols, &plane, type, &at, &n, &width) != 12 ||
            strcmp(which, name) || at + n > total)
            continue;
        ph_dtype t = PH_F32;
        CHECK(ph_dtype_from_name(type, &t));
        c.s = s;
        c.cols = cols;
        c.s.form = ph_storage_form_find(form);
        if (plane == 9) {
            c.want = (const float *)(const void *)(bytes + at);
        } else {
            c.s.plane[plane] =
                (ph_plane){.bytes = bytes + at, .n = n, .dtype = t, .row_stride = width * ph_dtype_bytes(t)};
            c.s.n_planes = plane + 1;
            if (!plane) c.s.dtype = t;
        }
    }
    if (bin) fclose(bin);
    if (txt) fclose(txt);
    CHECK_SAY(c.want && c.s.form, "no golden %s", name);
    return c;
}

static void one(const char *name) {
    sample c = load(name);
    float  row[512];
    ph_err err = {0};
    int    wrong = 0;
    if (!c.want) return;
    CHECK_SAY(!c.s.form->check(&c.s, c.cols, &err), "%s: %s", name, err.msg);
    if (err.code) return;
    for (size_t n = 0; n < c.s.n_rows; n++) {
        ph_storage_row(&c.s, n, c.cols, row);
        for (size_t k = 0; k < c.cols; k++)
            wrong += ph_float_bits(row[k]) != ph_float_bits(c.want[n * c.cols + k]) &&
                     fabsf(row[k] - c.want[n * c.cols + k]) > 1e-7f;
    }
    CHECK_SAY(!wrong, "%s: %d elements", name, wrong);
    c.s.first = 3; /* a view */
    ph_storage_row(&c.s, 1, c.cols, row);
    CHECK(fabsf(row[5] - c.want[4 * c.cols + 5]) <= 1e-7f);
}

void test_storage_gptq_golden(void) {
    static const char *const names[] = {"v1",     "v1_bits2", "v1_bits8",   "v1_desc_act",
                                        "v1_row", "v2",       "v2_no_index"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) one(names[i]);
}

void test_storage_awq_golden(void) {
    one("awq");
    one("awq_row");
}

void test_storage_channels_golden(void) {
    one("rowwise");
    one("asymmetric");
    one("groups");
    one("tensor");
}

/* The same scales with and without a word of config.json; a block's size that does not fit is not believed.
 */
void test_storage_fp8_golden(void) {
    one("fp8_blocks");
    one("fp8_tensor");
    one("float_rows");
    one("float_vector");
    sample     c = load("fp8_blocks"), r = load("float_rows");
    ph_storage s = c.s;
    if (!c.want || !r.want) return;
    s.group_rows = s.group = 128;
    CHECK(!s.form->check(&s, c.cols, NULL) && s.group_rows == 128 && s.group == 128);
    s.group_rows = 64;
    CHECK(!s.form->check(&s, c.cols, NULL) && s.group_rows == 128);
    s = r.s, s.group_rows = s.group = 128;
    CHECK(!s.form->check(&s, r.cols, NULL) && s.group_rows == 1 && s.group == 96);
    /* Rows of 16384 have as many scales by rows as by blocks: the shape of the scales decides ... */
    enum { COLS = 16384, AT = 140 };
    static uint8_t big[256 * COLS];
    static float   scale[256], row[COLS];
    for (size_t i = 0; i < 256; i++) scale[i] = (float)(i + 1);
    big[AT * COLS + 300] = 0x38; /* 1 */
    big[5 * COLS + 300] = 0x38;
    s = c.s, s.n_rows = 256;
    s.plane[PH_PLANE_DATA] = (ph_plane){.bytes = big, .n = sizeof big, .dtype = PH_F8_E4M3};
    s.plane[PH_PLANE_SCALE] =
        (ph_plane){.bytes = scale, .n = sizeof scale, .dtype = PH_F32, .row_stride = sizeof(float)};
    CHECK(!s.form->check(&s, COLS, NULL));
    ph_storage_row(&s, AT, COLS, row);
    CHECK(fabsf(row[300] - (AT + 1)) < 1e-6f);
    s.plane[PH_PLANE_SCALE].row_stride = 128 * sizeof(float), s.group_rows = s.group = 0;
    CHECK(!s.form->check(&s, COLS, NULL));
    ph_storage_row(&s, AT, COLS, row);
    CHECK(fabsf(row[300] - (128 + 2 + 1)) < 1e-6f);
    /* ... and where that says nothing, config.json. */
    s.n_rows = 128, s.plane[PH_PLANE_DATA].n = sizeof big / 2, s.plane[PH_PLANE_SCALE].n = sizeof scale / 2;
    s.group_rows = s.group = 0;
    CHECK(!s.form->check(&s, COLS, NULL));
    ph_storage_row(&s, 5, COLS, row);
    CHECK(fabsf(row[300] - 6) < 1e-6f);
    s.group_rows = s.group = 128;
    CHECK(!s.form->check(&s, COLS, NULL));
    ph_storage_row(&s, 5, COLS, row);
    CHECK(fabsf(row[300] - 3) < 1e-6f);
    /* A vector that has two scales a row is no table of them. */
    s.plane[PH_PLANE_SCALE].n = s.plane[PH_PLANE_SCALE].row_stride = sizeof scale, s.group_rows = s.group = 0;
    CHECK(s.form->check(&s, COLS, NULL));
}

void test_storage_factor_golden(void) {
    one("nvfp4_factor");
}

static void refuses(const char *what, ph_storage s, size_t cols, ph_rc code, const char *word) {
    ph_err err = {0};
    ph_rc  rc = s.form->check(&s, cols, &err);
    CHECK_SAY(rc == code && strstr(err.msg, word), "%s: %s: %s", what, ph_rc_name(rc), err.msg);
}

/* A row an error sentence. */
void test_storage_bad(void) {
    sample g = load("v1_desc_act"), a = load("awq"), c = load("rowwise"), f = load("fp8_blocks"),
           v = load("nvfp4_factor");
    int32_t    index[64] = {0};
    ph_storage s;
    if (!g.want || !a.want || !c.want || !f.want || !v.want) return;
    s = g.s, s.bits = 3;
    refuses("bits", s, g.cols, PH_EUNSUP, "3 bits");
    refuses("odd row", g.s, g.cols + 1, PH_EMISMATCH, "no whole words");
    refuses("no row", g.s, 0, PH_EMISMATCH, "no whole words");
    s = g.s, s.n_rows *= 2;
    refuses("rows", s, g.cols, PH_EMISMATCH, "bytes of data");
    s = g.s, s.n_rows = SIZE_MAX / 2 + 1;
    refuses("overflow", s, g.cols, PH_EMISMATCH, "no whole words");
    s = g.s, s.plane[PH_PLANE_ZERO].bytes = NULL;
    refuses("no zeros", s, g.cols, PH_EMISMATCH, "zero points (qzeros) are missing");
    s = g.s, s.plane[PH_PLANE_SCALE].n = 0;
    refuses("no groups", s, g.cols, PH_EMISMATCH, "0 groups");
    s = g.s, s.plane[PH_PLANE_SCALE].dtype = PH_I16;
    refuses("scale type", s, g.cols, PH_EUNSUP, "scales of type I16");
    s = g.s, s.plane[PH_PLANE_INDEX].bytes = index, index[7] = 4;
    refuses("index", s, g.cols, PH_EMISMATCH, "g_idx[7] is 4");
    index[7] = -1;
    refuses("negative index", s, g.cols, PH_EMISMATCH, "g_idx[7] is 4294967295");
    s = a.s, s.bits = 8;
    refuses("awq bits", s, a.cols, PH_EUNSUP, "8 bits");
    s = a.s, s.n_rows = 12;
    refuses("awq rows", s, a.cols, PH_EMISMATCH, "words of 8");
    s = a.s, s.group = 16;
    refuses("awq groups", s, a.cols, PH_EMISMATCH, "bytes of scales");
    s = c.s, s.dtype = PH_I32;
    refuses("channels type", s, c.cols, PH_EUNSUP, "I32");
    s = c.s, s.plane[PH_PLANE_SCALE].n = 4 * 23;
    refuses("channels scales", s, c.cols, PH_EMISMATCH, "23 scales");
    s = c.s, s.n_rows = 0;
    refuses("channels empty", s, c.cols, PH_EMISMATCH, "[0, 96]");
    s = f.s, s.plane[PH_PLANE_SCALE].n = 5 * 4;
    refuses("blocks of floats", s, f.cols, PH_EMISMATCH, "5 scales for a matrix of [136, 260]");
    s = f.s, s.plane[PH_PLANE_SCALE].bytes = NULL, s.plane[PH_PLANE_SCALE].n = 0;
    refuses("no scales", s, f.cols, PH_EMISMATCH, "0 scales");
    s = v.s, s.n_rows = 9;
    refuses("factor rows", s, v.cols, PH_EMISMATCH, "576 bytes of NVFP4 for a matrix of [9, 128]");
    refuses("factor row", v.s, 100, PH_EFORMAT, "not whole NVFP4 blocks");
    s = v.s, s.plane[PH_PLANE_SCALE].n = 8;
    refuses("factors", s, v.cols, PH_EUNSUP, "8 bytes of scales (scale), where one number is read");
    s = v.s, s.plane[PH_PLANE_SCALE].bytes = NULL;
    refuses("no factor", s, v.cols, PH_EMISMATCH, "the scales (scale) are missing");
    CHECK(!ph_storage_form_find("bitsandbytes"));
}
