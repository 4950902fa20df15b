/* storage_test.c - separate planes against tests/golden/storage, and what their checks refuse. */
#include "tensor/half.h"
#include "tensor/storage.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static uint8_t bytes[1 << 17];

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
        size_t     at, n, cols;
        ph_storage s = c.s;
        if (sscanf(line, "%31s %31s %d %zu %d %zu %zu %d %7s %zu %zu", which, form, &s.bits, &s.group,
                   &s.zero_add, &s.n_rows, &cols, &plane, type, &at, &n) != 11 ||
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
            c.s.plane[plane] = (ph_plane){.bytes = bytes + at, .n = n, .dtype = t};
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
    float  row[128];
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

static void refuses(const char *what, ph_storage s, size_t cols, ph_rc code, const char *word) {
    ph_err err = {0};
    ph_rc  rc = s.form->check(&s, cols, &err);
    CHECK_SAY(rc == code && strstr(err.msg, word), "%s: %s: %s", what, ph_rc_name(rc), err.msg);
}

/* A row an error sentence. */
void test_storage_bad(void) {
    sample     g = load("v1_desc_act"), a = load("awq"), c = load("rowwise");
    int32_t    index[64] = {0};
    ph_storage s;
    if (!g.want || !a.want || !c.want) return;
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
    CHECK(!ph_storage_form_find("bitsandbytes"));
}
