/* good_test.c - files that other libraries wrote, read as those libraries read them. */
#include "formats/container.h"
#include "formats/gguf.h"
#include "formats/hfdir.h"
#include "formats/safetensors.h"
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void test_weights_bytes(void) {
    static const struct {
        ph_dtype type;
        int      rank;
        int64_t  dim[4];
        ph_rc    rc;
        size_t   bytes;
    } rows[] = {
        {PH_F32, 0, {0}, PH_OK, 4},
        {PH_F32, 2, {3, 5}, PH_OK, 60},
        {PH_Q4_0, 2, {3, 64}, PH_OK, 108},
        {PH_F16, 2, {0, 7}, PH_OK, 0},
        {PH_F16, 3, {INT64_MAX, INT64_MAX, 0}, PH_OK, 0},
        {PH_F16, 3, {0, INT64_MAX, 1}, PH_OK, 0},
        {PH_Q4_0, 2, {64, 3}, PH_EFORMAT, 0},
        {PH_F32, 2, {-1, 3}, PH_EFORMAT, 0},
        {PH_F32, 2, {INT64_MAX, 3}, PH_ELIMIT, 0},
        {PH_F32, 4, {1 << 30, 1 << 30, 1 << 30, 1}, PH_ELIMIT, 0},
        {PH_U8, 2, {1LL << 62, 4}, PH_ELIMIT, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = 0;
        ph_rc  rc = ph_weight_bytes(rows[i].type, rows[i].rank, rows[i].dim, &n, NULL);
        CHECK_SAY(rc == rows[i].rc && (rc || n == rows[i].bytes), "row %zu: %s, %zu bytes", i, ph_rc_name(rc),
                  n);
    }
}

/* ---- facts.txt ---- */

static int is_gguf(const char *file) {
    return strstr(file, ".gguf") != NULL;
}

/* One line against what was read; counts lines in *seen. */
static void one_fact(const ph_weights *w, const char *name, const char *dtype, const char *shape,
                     unsigned crc) {
    char             dims[96] = "";
    const ph_weight *t = ph_weights_find(w, name);
    CHECK_SAY(t, "%s", name);
    if (!t) return;
    for (int i = 0; i < t->rank; i++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i ? "x" : "",
                 (long long)t->dim[i]);
    CHECK_SAY(!strcmp(t->rank ? dims : "scalar", shape) && !strcmp(ph_dtype_name(t->dtype), dtype),
              "%s: %s %s", name, dims, ph_dtype_name(t->dtype));
    CHECK_SAY(ft_crc32(t->bytes, t->n_bytes) == crc, "%s", name);
}

static size_t facts_of(const ph_weights *w, const char *file) {
    char     line[256], f[64], name[64], dtype[16], shape[32];
    unsigned crc;
    size_t   seen = 0;
    FILE    *facts = fopen(GOLDEN "facts.txt", "r");
    while (facts && fgets(line, sizeof line, facts))
        if (sscanf(line, "%63s %63s %15s %31s %x", f, name, dtype, shape, &crc) == 5 &&
            !strncmp(f, file, strlen(file)))
            one_fact(w, name, dtype, shape, crc), seen++;
    if (facts) fclose(facts);
    return seen;
}

void test_facts_single_files(void) {
    static const char *const files[] = {"kinds.gguf", "kinds.safetensors",
                                        "shards/model-00002-of-00003.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        char           path[128];
        ph_arena       arena = ft_arena();
        ph_gguf        g = {0};
        ph_safetensors s = {0};
        ph_err         err = {0};
        snprintf(path, sizeof path, GOLDEN "%s", files[i]);
        ph_rc rc = is_gguf(path) ? ph_gguf_open(&g, path, &arena, &err)
                                 : ph_safetensors_open(&s, path, &arena, &err);
        CHECK_SAY(!rc, "%s: %s", path, err.msg);
        const ph_weights *w = is_gguf(path) ? &g.weights : &s.weights;
        const ph_file    *f = is_gguf(path) ? g.files : s.files;
        if (!rc) {
            CHECK(ft_lawful(w, f->bytes, f->n, 1));
            CHECK_SAY(facts_of(w, files[i]) == w->n && w->n >= 2, "%s: %zu tensors", path, w->n);
            CHECK(!ph_weights_find(w, "") && !ph_weights_find(w, "zzz") && !ph_weights_find(w, "f3"));
        }
        ph_gguf_close(&g);
        ph_safetensors_close(&s);
        ph_arena_close(&arena);
    }
}

void test_facts_sets(void) {
    ph_arena       arena = ft_arena();
    ph_safetensors s;
    ph_gguf        g;
    ph_err         err = {0};
    ph_rc          rc = ph_safetensors_open(&s, GOLDEN "shards/model.safetensors.index.json", &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    CHECK(s.n_files == 3 && s.weights.n == 6 && facts_of(&s.weights, "shards/") == 6);
    const ph_weight *t = rc ? NULL : ph_weights_find(&s.weights, "layer.2.bias");
    CHECK(t && t->file == 2);
    ph_safetensors_close(&s);
    for (int part = 1; part <= 3; part++) { /* whichever part is named */
        char path[128];
        snprintf(path, sizeof path, GOLDEN "split-%05d-of-00003.gguf", part);
        rc = ph_gguf_open(&g, path, &arena, &err);
        CHECK_SAY(!rc, "%s", err.msg);
        CHECK(g.n_files == 3 && g.weights.n == 5 && facts_of(&g.weights, "split-") == 5);
        ph_gguf_text name = {"", 0};
        CHECK(!ph_gguf_text_of(&g, "general.name", &name, NULL) && ph_gguf_text_is(name, "in parts"));
        t = rc ? NULL : ph_weights_find(&g.weights, "blk.4.weight");
        CHECK(t && t->file == 2);
        ph_gguf_close(&g);
    }
    ph_arena_close(&arena);
}

/* ---- GGUF metadata ---- */

static void integer(const ph_gguf *g, const char *key, int64_t want) {
    int64_t got = 0;
    CHECK_SAY(!ph_gguf_int(g, key, &got, NULL) && got == want, "%s: %lld", key, (long long)got);
}

static void arrays(const ph_gguf *g) {
    static const char *const want[] = {"a", "", "b\303\274cher", "<s>"};
    const ph_gguf_kv        *ints = ph_gguf_find(g, "t.ints"), *reals = ph_gguf_find(g, "t.reals"),
                     *bools = ph_gguf_find(g, "t.bools");
    size_t       i = 0;
    ph_gguf_text text;
    int64_t      n = 0;
    double       x = 0;
    for (ph_gguf_texts it = ph_gguf_texts_of(ph_gguf_find(g, "t.texts")); ph_gguf_next(&it, &text); i++)
        CHECK(i < 4 && ph_gguf_text_is(text, want[i < 4 ? i : 0]));
    CHECK(i == 4);
    CHECK(ints && ints->is_array && ints->count == 3 && ph_gguf_item_int(ints, 1, &n) && n == -1);
    CHECK(reals && ph_gguf_item_real(reals, 1, &x) && fabs(x + 1.25) < 1e-12 &&
          !ph_gguf_item_int(reals, 1, &n));
    CHECK(bools && ph_gguf_item_int(bools, 2, &n) && n == 1 && !ph_gguf_item_real(bools, 0, &x));
    ph_gguf_texts none = ph_gguf_texts_of(ints);
    CHECK(!ph_gguf_next(&none, &text));
}

void test_gguf_values(void) {
    ph_arena     arena = ft_arena();
    ph_gguf      g;
    ph_err       err = {0};
    ph_gguf_text text = {"", 0};
    double       x = 0;
    int64_t      n;
    int          on = 0;
    CHECK(!ph_gguf_open(&g, GOLDEN "kinds.gguf", &arena, NULL));
    CHECK(g.version == 3 && g.alignment == 64 && g.n_files == 1);
    integer(&g, "t.u8", 250), integer(&g, "t.i8", -5), integer(&g, "t.u16", 65000),
        integer(&g, "t.i16", -30000);
    integer(&g, "t.u32", 4000000000), integer(&g, "t.i32", -2000000000), integer(&g, "t.i64", -(1LL << 62));
    CHECK(!ph_gguf_real(&g, "t.f32", &x, NULL) && fabs(x - 0.1) < 1e-8);
    CHECK(!ph_gguf_real(&g, "t.f64", &x, NULL) && x > 0 && x < 1e-299);
    CHECK(!ph_gguf_real(&g, "t.i8", &x, NULL) && fabs(x + 5) < 1e-12);
    CHECK(!ph_gguf_bool(&g, "t.yes", &on, NULL) && on && !ph_gguf_bool(&g, "t.no", &on, NULL) && !on);
    CHECK(!ph_gguf_text_of(&g, "t.text", &text, NULL) &&
          ph_gguf_text_is(text, "caf\xc3\xa9 \xf0\x9f\x98\x80"));
    CHECK(!ph_gguf_text_is(text, "caf"));
    arrays(&g);
    ft_expect("u64", ph_gguf_int(&g, "t.u64", &n, &err), PH_EFORMAT, &err,
              "t.u64: expected an integer below 2^63");
    ft_expect("type", ph_gguf_int(&g, "t.text", &n, &err), PH_EFORMAT, &err, "found text");
    ft_expect("array", ph_gguf_int(&g, "t.ints", &n, &err), PH_EFORMAT, &err, "found an array of");
    ft_expect("missing", ph_gguf_int(&g, "t.none", &n, &err), PH_EFORMAT, &err, "key t.none is missing");
    ft_expect("size", ph_gguf_size(&g, "t.u16", 1, 9, &on, &err), PH_EFORMAT, &err,
              "is 65000, expected 1 to 9");
    ft_expect("bool", ph_gguf_bool_or(&g, "t.u8", 0, &on, &err), PH_EFORMAT, &err, "expected a boolean");
    CHECK(!ph_gguf_int_or(&g, "t.none", 9, &n, NULL) && n == 9);
    CHECK(!ph_gguf_real_or(&g, "t.none", 2, &x, NULL) && fabs(x - 2) < 1e-12);
    ph_gguf_close(&g);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
}

void test_gguf_real_model(void) {
    ph_arena arena = ft_arena();
    ph_gguf  g;
    char     shape[64] = "";
    ph_err   err = {0};
    ph_rc    rc = ph_gguf_open(&g, GOLDEN "llama.Q4_0.gguf", &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    const ph_weight  *t = rc ? NULL : ph_weights_find(&g.weights, "token_embd.weight");
    const ph_gguf_kv *tokens = rc ? NULL : ph_gguf_find(&g, "tokenizer.ggml.tokens");
    CHECK(t && tokens && tokens->count == (size_t)t->dim[0]);
    if (t) ph_weight_describe(t, shape, sizeof shape);
    CHECK_SAY(strstr(shape, "] Q4_0"), "%s", shape);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
}

/* ---- writing ---- */

void test_safetensors_written(void) {
    char           folder[64], path[96];
    ph_arena       arena = ft_arena();
    ph_safetensors in, out;
    ph_err         err = {0};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/a b.safetensors", folder);
    CHECK(!ph_safetensors_open(&in, GOLDEN "kinds.safetensors", &arena, NULL));
    ph_rc rc = ph_safetensors_write(path, in.weights.at, in.weights.n, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    rc = ph_safetensors_open(&out, path, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    CHECK(!rc && facts_of(&out.weights, "kinds.safetensors") == out.weights.n &&
          out.weights.n == in.weights.n);
    ph_safetensors_close(&out);
    CHECK(!ph_safetensors_write(path, NULL, 0, NULL) && !ph_safetensors_open(&out, path, &arena, NULL));
    CHECK(out.weights.n == 0);
    ph_safetensors_close(&out);
    ph_weight block = {
        .name = "q", .dtype = PH_Q4_0, .rank = 1, .dim = {32}, .bytes = (const uint8_t *)path, .n_bytes = 18};
    ft_expect("block", ph_safetensors_write(path, &block, 1, &err), PH_EUNSUP, &err, "Q4_0");
    ft_expect("path", ph_safetensors_write("/nowhere/x.safetensors", NULL, 0, &err), PH_EIO, &err,
              "/nowhere/");
    ph_safetensors_close(&in);
    ft_remove(folder);
    ph_arena_close(&arena);
}

/* ---- directories ---- */

void test_hfdir_good(void) {
    ph_arena arena = ft_arena();
    ph_hfdir d;
    ph_err   err = {0};
    int64_t  hidden = 0;
    ph_rc    rc = ph_hfdir_open(&d, GOLDEN "hf", PH_HFDIR_MODEL, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    ph_json          config = ph_json_root(&d.config);
    const ph_weight *t = rc ? NULL : ph_weights_find(&d.weights.weights, "model.embed_tokens.weight");
    CHECK(!ph_json_int(&config, "hidden_size", &hidden, NULL) && t && t->dim[1] == hidden &&
          t->dtype == PH_BF16);
    CHECK(d.weights.n_files == 3 && d.tokenizer_json.bytes && !d.tokenizer_model.bytes &&
          !d.preprocessor.root);
    CHECK(d.generation.root && d.tokenizer_config.root && d.special_tokens_map.root);
    CHECK(d.chat_template && !strcmp(d.chat_template_from, "chat_template.jinja") &&
          d.chat_template_n == 198);
    ph_hfdir_close(&d);
    CHECK(!ph_hfdir_open(&d, GOLDEN "hf", 0, &arena, NULL) && d.weights.n_files == 0);
    ph_hfdir_close(&d);
    ph_arena_close(&arena);
}

void test_hfdir_template_places(void) {
    static const struct {
        const char *file, *text, *want;
    } rows[] = {
        /* Each added to those before it, from the weakest place to the strongest. */
        {"tokenizer_config.json",
         "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, {\"name\": \"default\", "
         "\"template\": \"D\"}]}",
         "D"},
        {"tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}]}", "R"},
        {"tokenizer_config.json", "{\"chat_template\": \"T\"}", "T"},
        {"processor_config.json", "{\"chat_template\": \"P\"}", "P"},
        {"chat_template.json", "{\"chat_template\": \"J\"}", "J"},
        {"chat_template.jinja", "X", "X"},
    };
    char folder[64], path[128];
    ft_folder(folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_arena arena = ft_arena();
        ph_hfdir d;
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].file);
        ft_save(path, rows[i].text, strlen(rows[i].text));
        CHECK(!ph_hfdir_open(&d, folder, 0, &arena, NULL));
        CHECK_SAY(d.chat_template && d.chat_template_n == 1 && *d.chat_template == *rows[i].want &&
                      !strcmp(d.chat_template_from, rows[i].file),
                  "row %zu", i);
        ph_hfdir_close(&d);
        ph_arena_close(&arena);
    }
    ft_remove(folder);
}

static void open_bad(const char *what, const char *folder, ph_rc code, const char *part) {
    ph_arena arena = ft_arena();
    ph_hfdir d;
    ph_err   err = {0};
    ph_rc    rc = ph_hfdir_open(&d, folder, PH_HFDIR_MODEL, &arena, &err);
    ft_expect(what, rc, code, &err, part);
    ph_hfdir_close(&d);
    ph_arena_close(&arena);
}

void test_hfdir_bad(void) {
    char folder[64], path[128];
    ft_folder(folder);
    open_bad("missing", "/nowhere/at all", PH_EPATH, "no such directory");
    open_bad("empty", folder, PH_EPATH, "no config.json");
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK(!symlink("gone.json", path));
    open_bad("dead config", folder, PH_EPATH, "the link config.json leads nowhere");
    CHECK(!unlink(path));
    ft_save(path, "[1]", 3);
    open_bad("array", folder, PH_EFORMAT, "config.json: expected an object");
    ft_save(path, "{\"a\": }", 7);
    open_bad("syntax", folder, PH_EFORMAT, "config.json:1:");
    ft_save(path, "{}", 2);
    char target[128];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(target, sizeof target, "%s/elsewhere", folder);
    CHECK(!symlink(target, path));
    open_bad("dead link", folder, PH_EPATH, "the link model.safetensors leads nowhere");
    CHECK(!unlink(path));
    open_bad("no weights", folder, PH_EPATH, "expected model.safetensors or model.safetensors.index.json");
    snprintf(path, sizeof path, "%s/pytorch_model.bin", folder);
    ft_save(path, "PK\3\4", 4);
    open_bad("bin only", folder, PH_EUNSUP, "pytorch_model.bin: convert it to safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ft_save(path, "", 0);
    open_bad("empty weights", folder, PH_EFORMAT, "model.safetensors: 0 bytes");
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    ft_save(path, "{\"chat_template\": 7}", 20);
    open_bad("template", folder, PH_EFORMAT, "tokenizer_config.json: chat_template: expected a text");
    ft_remove(folder);
}

void test_container_kinds(void) {
    static const struct {
        const char *path;
        int         kind;
    } good[] = {{GOLDEN "hf", PH_CONTAINER_HFDIR},
                {GOLDEN "kinds.gguf", PH_CONTAINER_GGUF},
                {GOLDEN "kinds.safetensors", PH_CONTAINER_SAFETENSORS},
                {GOLDEN "shards/model.safetensors.index.json", PH_CONTAINER_SAFETENSORS}};
    static const struct {
        const char *bytes;
        size_t      n;
        ph_rc       code;
        const char *part;
    } bad[] = {{"", 0, PH_EFORMAT, "empty"},
               {"PK\3\4....", 8, PH_EUNSUP, "zip archive"},
               {"\x80\x02}q\0", 5, PH_EUNSUP, "pickle"},
               {"FUGG\0\0\0\3", 8, PH_EUNSUP, "big-endian"},
               {"tjgg\3\0\0\0", 8, PH_EUNSUP, "convert it to GGUF"},
               {"\x1c\0\0\0TFL3", 8, PH_EUNSUP, "TensorFlow Lite"},
               {"version https://git-lfs.github.com/spec/v1\n", 43, PH_EUNSUP, "git lfs pull"},
               {"<!DOCTYPE html>", 15, PH_EUNSUP, "download failed"},
               {"{\"a\": 1}", 8, PH_EFORMAT, "no model format"},
               {"\x10\0\0\0\0\0\0\0[123456789012345]", 25, PH_EFORMAT, "no model format"},
               {"hello, world", 12, PH_EFORMAT, "no model format"}};
    ph_container kind;
    ph_err       err = {0};
    for (size_t i = 0; i < 4; i++)
        CHECK_SAY(!ph_container_detect(good[i].path, &kind, &err) && (int)kind == good[i].kind, "%s",
                  good[i].path);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph_rc rc = ph_container_detect_bytes((const uint8_t *)bad[i].bytes, bad[i].n, "f", &kind, &err);
        ft_expect(bad[i].part, rc, bad[i].code, &err, bad[i].part);
    }
    static const uint8_t onnx[] = {0x08, 8, 0x12, 7, 'p', 'y', 't', 'o', 'r', 'c', 'h'};
    CHECK(!ph_container_detect_bytes(onnx, sizeof onnx, "f", &kind, NULL) && kind == PH_CONTAINER_ONNX);
    ft_expect("path", ph_container_detect("/nowhere/x.gguf", &kind, &err), PH_EPATH, &err, "/nowhere/x.gguf");
    ft_expect("dir", ph_container_detect(GOLDEN "shards", &kind, &err), PH_EFORMAT, &err,
              "without config.json");
}
