/* convert_test.c - recipes, and conversions of tiny checkpoints there and back. */
#include "convert/convert.h"
#include "formats/gguf.h"
#include "formats/gguf_write.h"
#include "formats/hfdir.h"
#include "tests/unit/convert/set_models.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/convert/tests.def"
#undef PH_TEST

static ph_arena open_arena(void) {
    ph_arena a = {0};
    CHECK(!ph_arena_open_growing(&a, 4096, NULL));
    return a;
}

static ph_rc read(ph_recipe_types *r, const char *text, ph_arena *arena, ph_err *err) {
    *err = (ph_err){0};
    *r = (ph_recipe_types){0};
    return ph_recipe_types_read(r, text, strlen(text), "recipe", arena, err);
}

void test_recipe_text(void) {
    ph_arena        arena = open_arena();
    ph_recipe_types r;
    ph_err          err;
    CHECK(!read(&r, "# first\n\n  blk.0.* = q8_0 # why\r\noutput.weight=KEEP\n*=Q4_K", &arena, &err));
    CHECK(r.n == 3 && r.rule[0].type == PH_Q8_0 && !strcmp(r.rule[0].pattern, "blk.0.*"));
    CHECK(r.rule[1].is_keep && r.rule[2].type == PH_Q4_K && !strcmp(r.rule[2].pattern, "*"));
    CHECK(!read(&r, "", &arena, &err) && r.n == 0);
    ph_arena_close(&arena);
}

void test_recipe_json(void) {
    ph_arena        arena = open_arena();
    ph_recipe_types r;
    ph_err          err;
    CHECK(!read(&r, " {\"b*\": \"q5_0\", \"a\": \"keep\"}", &arena, &err));
    CHECK(r.n == 2 && r.rule[0].type == PH_Q5_0 && r.rule[1].is_keep);
    ph_arena_close(&arena);
}

static void refuses(const char *text, ph_rc code, const char *part) {
    ph_arena        arena = open_arena();
    ph_recipe_types r;
    ph_err          err;
    ph_rc           rc = read(&r, text, &arena, &err);
    int             is_there = strstr(err.msg, part) || (err.n_notes && strstr(err.note[0], part));
    CHECK_SAY(rc == code && is_there, "%s: %s %s", text, ph_rc_name(rc), err.msg);
    ph_arena_close(&arena);
}

void test_recipe_bad(void) {
    static char many[5000 * 6 + 1];
    refuses("a = q8_0\nb q4_0", PH_EFORMAT, "line 2: expected pattern = type");
    refuses(" = q4_0", PH_EFORMAT, "line 1");
    refuses("a = ", PH_EFORMAT, "line 1");
    refuses("a = q9_9", PH_EUNSUP, "'q9_9' cannot be written");
    refuses("\na = i8", PH_EUNSUP, "line 2");
    refuses("a = iq2_xxs", PH_EUNSUP, "'iq2_xxs' is read but cannot be written; these can: F32");
    refuses("a = f8_e4m3", PH_EUNSUP, "'f8_e4m3' is read but");
    refuses("{\"a\": 3}", PH_EFORMAT, "expected a text");
    for (int i = 0; i < 5000; i++) memcpy(many + 6 * i, "a=f16\n", 6);
    refuses(many, PH_ELIMIT, "4096 rules");
}

void test_recipe_matches(void) {
    static const struct {
        const char *pattern, *name;
        int         is_match;
    } rows[] = {{"*", "", 1},
                {"", "", 1},
                {"", "a", 0},
                {"a?c", "abc", 1},
                {"a?c", "ac", 0},
                {"*c", "abcc", 1},
                {"a*b*c", "aXbbYc", 1},
                {"a*b", "a", 0},
                {"**a", "ba", 1},
                {"blk.*.w", "blk.10.w", 1},
                {"blk.1.*", "blk.10.w", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_SAY(ph_recipe_matches(rows[i].pattern, rows[i].name) == rows[i].is_match, "%s %s",
                  rows[i].pattern, rows[i].name);
}

void test_recipe_choose(void) {
    const ph_recipe_rule  rule[] = {{.pattern = "x*", .is_keep = 1}, {.pattern = "blk.0.*", .type = PH_Q2_K}};
    const ph_recipe_types q4 = {.rule = rule, .n = 2, .has_type = 1, .type = PH_Q4_K, .is_quantize = 1},
                          keep = {0};
    static const struct {
        const char *name;
        ph_dtype    stored;
        int         rank;
        int64_t     row;
        int         is_wide, is_output, fell_back;
        ph_dtype    want;
    } rows[] = {
        {"blk.1.w", PH_BF16, 2, 512, 0, 0, 0, PH_Q4_K},
        {"blk.1.w", PH_F16, 2, 96, 0, 0, 1, PH_Q5_0},
        {"blk.1.w", PH_F16, 2, 30, 0, 0, 1, PH_F16},
        {"blk.1.b", PH_F16, 1, 512, 0, 0, 0, PH_F32},
        {"blk.0.w", PH_F16, 2, 96, 0, 0, 1, PH_IQ4_NL},
        {"blk.0.b", PH_F32, 1, 512, 0, 0, 0, PH_F32},
        {"output.weight", PH_F16, 2, 256, 0, 1, 0, PH_Q6_K},
        {"output.weight", PH_F16, 2, 96, 0, 1, 0, PH_Q8_0},
        {"xyz", PH_BF16, 2, 30, 0, 0, 0, PH_BF16},
        {"v.patch_embd.weight", PH_F32, 4, 14, 1, 0, 0, PH_F32},
        {"v.position_embd.weight", PH_F32, 2, 64, 0, 0, 0, PH_F16},
        {"v.patch_embd.weight.1", PH_F32, 4, 32, 0, 0, 0, PH_F16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int           fell_back;
        ph_recipe_ask ask = {.name = rows[i].name,
                             .stored = rows[i].stored,
                             .rank = rows[i].rank,
                             .row = rows[i].row,
                             .is_wide = rows[i].is_wide,
                             .is_output = rows[i].is_output};
        ph_dtype      got = ph_recipe_choose(&q4, &ask, &fell_back);
        CHECK_SAY(got == rows[i].want && fell_back == rows[i].fell_back, "%s %lld: %s", rows[i].name,
                  (long long)rows[i].row, ph_dtype_name(got));
        got = ph_recipe_choose(&keep, &ask, &fell_back);
        CHECK(got == (rows[i].rank < 2 || rows[i].is_wide ? PH_F32 : rows[i].stored));
    }
}

/* ---- conversions ---- */

static int run(const char *in, const char *mmproj, const char *out, int to_gguf, int is_bare, int threads,
               ph_convert_report *r, ph_err *err) {
    const ph_recipe_types types = {0};
    const ph_convert      c = {.in = in,
                               .mmproj = mmproj,
                               .out = out,
                               .types = &types,
                               .to_gguf = to_gguf,
                               .is_bare = is_bare,
                               .threads = threads};
    *err = (ph_err){0};
    return !ph_convert_run(&c, r, err);
}

/* Names, types and bytes of all tensors; shapes and numbers only where is_bare (types may be wider). */
static void same_tensors(const char *a, const char *b, int is_bare) {
    ph_arena arena = open_arena();
    ph_hfdir x = {0}, y = {0};
    ph_err   err = {0};
    CHECK(!ph_hfdir_open(&x, a, PH_HFDIR_MODEL, &arena, &err) &&
          !ph_hfdir_open(&y, b, PH_HFDIR_MODEL, &arena, &err));
    const ph_weights *w = &x.weights.weights, *v = &y.weights.weights;
    CHECK_SAY(w->n == v->n && w->n, "%zu and %zu tensors", w->n, v->n);
    for (size_t i = 0; i < w->n && w->n == v->n; i++) {
        const ph_weight *p = &w->at[i], *q = ph_weights_find(v, p->name);
        int same = q && p->rank == q->rank && !memcmp(p->dim, q->dim, (size_t)p->rank * sizeof *p->dim);
        if (same && !is_bare) same = p->dtype == q->dtype && !memcmp(p->bytes, q->bytes, p->n_bytes);
        for (size_t e = 0; same && is_bare && e < p->n_bytes / ph_dtype_bytes(p->dtype); e++) {
            float f, g;
            ph_dtype_get(p->dtype)->unpack(&f, p->bytes + e * ph_dtype_bytes(p->dtype), 1);
            ph_dtype_get(q->dtype)->unpack(&g, q->bytes + e * ph_dtype_bytes(q->dtype), 1);
            same = !(f < g) && !(f > g);
        }
        CHECK_SAY(same, "%s of %s", p->name, a);
    }
    ph_hfdir_close(&x);
    ph_hfdir_close(&y);
    ph_arena_close(&arena);
}

static void remove_all(const char *folder) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(!system(command));
}

static void there_and_back(const char *in, int has_vision, int is_bare) {
    char              folder[] = "/tmp/ph-convert-XXXXXX", out[64], mm[64], back[64];
    ph_convert_report r;
    ph_err            err;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(out, sizeof out, "%s/m.gguf", folder);
    snprintf(mm, sizeof mm, "%s/mmproj-m.gguf", folder);
    snprintf(back, sizeof back, "%s/back", folder);
    int ok = run(in, NULL, out, 1, is_bare, 3, &r, &err);
    CHECK_SAY(ok, "%s: %s", in, err.msg);
    CHECK(!has_vision == !r.mmproj_out[0] && r.tensors > 10 && !r.fell_back && !r.pre_unknown);
    if (ok) ok = run(out, has_vision ? mm : NULL, back, 0, 0, 1, &r, &err);
    CHECK_SAY(ok, "%s: %s", in, err.msg);
    if (ok) same_tensors(in, back, is_bare);
    remove_all(folder);
}

void test_convert_there_and_back(void) {
    static const char *const text = "models/panel-vlm";
    there_and_back(text, 1, 0);
    there_and_back(text, 1, 1);
    there_and_back("tests/golden/formats/hf", 0, 0);
    there_and_back("tests/golden/formats/hf", 0, 1);
    there_and_back("tests/golden/set/models/llm_phi3_longrope", 0, 0);
    there_and_back("tests/golden/set/models/llm_phi3_longrope", 0, 1);
}

/* Every family that GGUF has names for, with what it stores otherwise: parts, tiles, canvases. */
void test_convert_set_there_and_back(void) {
    ph_set_model m[64];
    size_t       n = ph_set_models(m);
    for (size_t i = 0; i < n; i++) {
        if (!m[i].has_names) continue;
        there_and_back(m[i].path, m[i].has_vision, 0);
        there_and_back(m[i].path, m[i].has_vision, 1);
    }
}

/* One matrix [2, 256] of sixteens but for [1, 3], in a file and then in another type: the exit and its
 * message. */
static ph_rc repack(const char *folder, float odd, ph_dtype type, ph_err *err) {
    enum { ROW = 256, N = 2 * ROW };
    char                  in[64], out[64];
    float                 x[N];
    ph_convert_report     r;
    ph_gguf_meta          meta = {0};
    const ph_recipe_types types = {.has_type = 1, .type = type, .is_quantize = 1};
    const ph_convert      c = {.in = in, .out = out, .types = &types, .to_gguf = 1, .threads = 2};
    const ph_weight       w = {.name = "blk.0.ffn_up.weight",
                               .dtype = PH_F32,
                               .rank = 2,
                               .dim = {2, ROW},
                               .bytes = (const uint8_t *)x,
                               .n_bytes = sizeof x};
    for (int i = 0; i < N; i++) x[i] = i % 2 ? 16 : -16;
    x[ROW + 3] = odd;
    snprintf(in, sizeof in, "%s/in.gguf", folder);
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    *err = (ph_err){0};
    ph_gguf_put_text(&meta, "general.architecture", "any", 3);
    CHECK_SAY(!ph_gguf_write(in, &meta, &w, 1, NULL, err), "%s", err->msg);
    ph_gguf_meta_close(&meta);
    return ph_convert_run(&c, &r, err);
}

/* No number becomes a plausible one, and none becomes infinite. */
void test_convert_lost_numbers(void) {
    char   folder[] = "/tmp/ph-convert-XXXXXX";
    ph_err err;
    CHECK(mkdtemp(folder) != NULL);
    for (int t = 0; t < PH_N_DTYPES; t++) {
        const ph_dtype_def *type = ph_dtype_get((ph_dtype)t);
        if (ph_dtype_block((ph_dtype)t) < 2 || !type->pack) continue;
        CHECK_SAY(!repack(folder, 15, (ph_dtype)t, &err), "%s", err.msg);
        ph_rc rc = repack(folder, NAN, (ph_dtype)t, &err);
        CHECK_SAY(rc == PH_EFORMAT && strstr(err.msg, "blk.0.ffn_up.weight: element [1, 3] is nan"), "%s: %s",
                  ph_dtype_name((ph_dtype)t), err.msg);
        rc = repack(folder, -INFINITY, (ph_dtype)t, &err);
        CHECK_SAY(rc == PH_EFORMAT && strstr(err.msg, "element [1, 3] is -inf"), "%s", err.msg);
    }
    CHECK(repack(folder, 65536, PH_F16, &err) == PH_EUNSUP &&
          strstr(err.msg, "[1, 3] is 65536, too large for F16"));
    CHECK(repack(folder, 65504, PH_F16, &err) == PH_OK && repack(folder, 65536, PH_BF16, &err) == PH_OK);
    CHECK(repack(folder, 1e9f, PH_Q8_0, &err) == PH_EUNSUP && strstr(err.msg, "too large for Q8_0"));
    CHECK(repack(folder, 1e9f, PH_NVFP4, &err) == PH_EUNSUP && strstr(err.msg, "too large for NVFP4"));
    CHECK(repack(folder, INFINITY, PH_F16, &err) == PH_OK); /* it was infinite, and a reader will see it */
    remove_all(folder);
}

/* The file at `from` and one tensor more. */
static void add_factor(const char *from, const char *to, const char *name) {
    static const float factor = 2;
    ph_arena           arena = open_arena();
    ph_gguf            g = {0};
    ph_gguf_meta       meta = {0};
    ph_err             err = {0};
    ph_rc              rc = ph_gguf_open(&g, from, &arena, &err);
    ph_weight         *w = calloc(g.weights.n + 1, sizeof *w);
    CHECK_SAY(!rc && w, "%s", err.msg);
    for (size_t i = 0; w && i < g.weights.n; i++) w[i] = g.weights.at[i];
    for (size_t i = 0; i < g.n_kv; i++) ph_gguf_put_copy(&meta, &g.kv[i]);
    if (w)
        w[g.weights.n] = (ph_weight){.name = name,
                                     .dtype = PH_F32,
                                     .rank = 1,
                                     .dim = {1},
                                     .bytes = (const uint8_t *)&factor,
                                     .n_bytes = sizeof factor};
    CHECK_SAY(w && !ph_gguf_write(to, &meta, w, g.weights.n + 1, NULL, &err), "%s", err.msg);
    free(w);
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
}

/* A factor for a whole matrix cannot go into a directory: the message says what can be done. */
void test_convert_factor(void) {
    char              folder[] = "/tmp/ph-convert-XXXXXX", plain[64], scaled[64], back[64];
    ph_convert_report r;
    ph_err            err;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(plain, sizeof plain, "%s/m.gguf", folder);
    snprintf(scaled, sizeof scaled, "%s/s.gguf", folder);
    snprintf(back, sizeof back, "%s/back", folder);
    CHECK_SAY(run("tests/golden/formats/hf", NULL, plain, 1, 1, 1, &r, &err), "%s", err.msg);
    add_factor(plain, scaled, "blk.0.ffn_up.scale");
    CHECK(!run(scaled, NULL, back, 0, 0, 1, &r, &err) && err.code == PH_EUNSUP);
    CHECK_SAY(strstr(err.msg, "blk.0.ffn_up.scale is a factor") && strstr(err.msg, "use the .gguf as it is"),
              "%s", err.msg);
    remove_all(folder);
}

void test_convert_bad(void) {
    ph_convert_report     r;
    ph_err                err;
    const ph_recipe_types q4 = {.has_type = 1, .type = PH_Q4_0};
    const ph_convert      c = {.in = "models/panel-vlm", .out = "/tmp/ph-x", .types = &q4, .threads = 1};
    CHECK(!run("/nowhere", NULL, "/tmp/ph-x", 1, 0, 1, &r, &err) && err.code == PH_EPATH);
    CHECK(!run("models/panel-vlm", NULL, "models/panel-vlm", 0, 0, 1, &r, &err) && err.code == PH_EUSAGE &&
          strstr(err.msg, "write somewhere else"));
    CHECK(!run("models/panel-vlm", NULL, "/nowhere/x.gguf", 1, 0, 1, &r, &err) && err.code == PH_EIO);
    CHECK(ph_convert_run(&c, &r, &err) == PH_EUSAGE && strstr(err.msg, "no name for Q4_0"));
    CHECK(!run("tests/golden/formats/kinds.safetensors", NULL, "/tmp/ph-x", 1, 0, 1, &r, &err) &&
          err.code == PH_EUNSUP);
}
