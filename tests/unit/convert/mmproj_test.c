/* mmproj_test.c - vision files whose keys and tensors contradict each other, and what those of the field may
 * leave out.  Each is made of a good one: converted, a key or a tensor changed, opened. */
#include "convert/convert.h"
#include "formats/gguf_write.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/convert/tests.def"
#undef PH_TEST

/* One change: of a key (drop it, or give it other numbers or a text) or of a tensor (drop, rename, reshape).
 */
typedef struct change {
    const char *name;
    int         is_tensor, is_dropped;
    const char *text;
    int         n, value[17]; /* of a key: numbers; of a tensor: its new shape, as large as the old one */
} change;

typedef struct room {
    char folder[32], text[64], mmproj[64], edited[64];
} room;

static int convert(const char *in, const char *mmproj, const char *out, int to_gguf, ph_err *err) {
    const ph_recipe_types types = {0};
    ph_convert_report     report;
    const ph_convert      c = {.in = in,
                               .mmproj = mmproj,
                               .out = out,
                               .types = &types,
                               .to_gguf = to_gguf,
                               .names = to_gguf ? PH_CONVERT_NAMES_GGUF : PH_CONVERT_NAMES_AUTO,
                               .is_bare = to_gguf,
                               .threads = 1};
    *err = (ph_err){0};
    return !ph_convert_run(&c, &report, err);
}

/* The model's two files, without what rides along. */
static void open_room(room *r, const char *model) {
    char   in[96];
    ph_err err;
    snprintf(r->folder, sizeof r->folder, "/tmp/ph-mmproj-XXXXXX");
    CHECK(mkdtemp(r->folder) != NULL);
    snprintf(r->text, sizeof r->text, "%s/m.gguf", r->folder);
    snprintf(r->mmproj, sizeof r->mmproj, "%s/mmproj-m.gguf", r->folder);
    snprintf(r->edited, sizeof r->edited, "%s/edited.gguf", r->folder);
    if (*model == '/')
        snprintf(in, sizeof in, "%s", model);
    else
        snprintf(in, sizeof in, "tests/golden/set/models/%s", model);
    CHECK_SAY(convert(in, NULL, r->text, 1, &err), "%s: %s", in, err.msg);
}

static void close_room(const room *r) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", r->folder);
    CHECK(!system(command));
}

static void put(ph_gguf_meta *meta, const change *c) {
    if (c->is_tensor || c->is_dropped) return;
    if (c->text) {
        ph_gguf_put_text(meta, c->name, c->text, strlen(c->text));
    } else if (c->n == 1) {
        ph_gguf_put_int(meta, c->name, PH_GGUF_U32, c->value[0]);
    } else {
        ph_gguf_put_array(meta, c->name, PH_GGUF_I32, (size_t)c->n);
        for (int i = 0; i < c->n; i++) ph_gguf_add_int(meta, c->value[i]);
    }
}

/* from with the changes, as to; how many of them found their key or tensor. */
static int edit(const char *from, const char *to, const change *c, size_t n) {
    ph_arena     arena = {0};
    ph_gguf      g = {0};
    ph_gguf_meta meta = {0};
    ph_weight    at[256];
    size_t       n_at = 0;
    int          found = 0;
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_gguf_open(&g, from, &arena, NULL));
    for (size_t i = 0; i < g.n_kv; i++) {
        size_t k = 0;
        while (k < n && (c[k].is_tensor || strcmp(c[k].name, g.kv[i].key))) k++;
        if (k == n) ph_gguf_put_copy(&meta, &g.kv[i]);
        found += k < n;
    }
    for (size_t k = 0; k < n; k++) put(&meta, &c[k]);
    for (size_t i = 0; i < g.weights.n && n_at < 256; i++) {
        ph_weight w = g.weights.at[i];
        size_t    k = 0;
        while (k < n && (!c[k].is_tensor || strcmp(c[k].name, w.name))) k++;
        found += k < n;
        if (k < n && c[k].is_dropped) continue;
        if (k < n && c[k].text) w.name = c[k].text;
        if (k < n && c[k].n) w.rank = c[k].n;
        for (int d = 0; k < n && d < c[k].n; d++) w.dim[d] = c[k].value[d];
        at[n_at++] = w;
    }
    CHECK(!ph_gguf_write(to, &meta, at, n_at, &(ph_producer){0}, NULL));
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
    return found;
}

static ph_rc open_pair(ph_model **m, const char *text, const char *mmproj, ph_err *err) {
    const ph_model_options o = {.mmproj = mmproj};
    *err = (ph_err){0};
    return ph_model_open(m, text, &o, err);
}

static void refuses(const room *r, int is_text, const change *c, ph_rc code, const char *part) {
    ph_model *m;
    ph_err    err;
    (void)edit(is_text ? r->text : r->mmproj, r->edited, c, 1);
    ph_rc rc = open_pair(&m, is_text ? r->edited : r->text, is_text ? r->mmproj : r->edited, &err);
    CHECK_SAY(rc == code && strstr(err.msg, part), "%s: %s: %s", c->name, ph_rc_name(rc), err.msg);
    ph_model_close(m);
}

#define KEY(name_, ...)                                                                                      \
    {                                                                                                        \
        .name = (name_), .n = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .value = { __VA_ARGS__ }           \
    }
#define NO_KEY(name_)                                                                                        \
    { .name = (name_), .is_dropped = 1 }
#define NO_TENSOR(name_)                                                                                     \
    { .name = (name_), .is_tensor = 1, .is_dropped = 1 }

static void packed_bad(void) {
    static const struct {
        change      what;
        ph_rc       code;
        const char *part;
    } rows[] = {
        {NO_TENSOR("v.patch_embd.weight.1"), PH_EMISMATCH, "v.patch_embd.weight.1 is missing"},
        {NO_TENSOR("v.patch_embd.weight"), PH_EMISMATCH, "v.patch_embd.weight is missing"},
        {NO_TENSOR("v.blk.1.attn_k.weight"), PH_EMISMATCH, "v.blk.1.attn_k.weight is missing"},
        {NO_TENSOR("v.blk.2.attn_v.bias"), PH_EMISMATCH, "v.blk.2.attn_v.bias is missing"},
        {NO_TENSOR("v.blk.0.ffn_up.weight"), PH_EMISMATCH, "v.blk.0.ffn_up.weight is missing"},
        {NO_TENSOR("mm.2.weight"), PH_EMISMATCH, "mm.2.weight is missing"},
        {KEY("clip.vision.block_count", 4), PH_EMISMATCH, "v.blk.3."},
        {KEY("clip.vision.embedding_length", 32), PH_EMISMATCH, "the config makes it"},
        {KEY("clip.vision.attention.head_count", 5), PH_EFORMAT, "64 in 5 heads"},
        {KEY("clip.vision.patch_size", 16), PH_EMISMATCH, "v.patch_embd.weight is [64, 3, 14, 14]"},
        {KEY("clip.vision.spatial_merge_size", 3), PH_EMISMATCH, "mm.0.weight is [256, 256]"},
        {KEY("clip.vision.window_size", 20), PH_EFORMAT, "window_size 20 is less than a visual token"},
        {KEY("clip.vision.image_min_pixels", 1 << 20), PH_EFORMAT, "at least 1048576 and at most 12544"},
        {KEY("clip.vision.image_max_pixels", 0), PH_EFORMAT, "clip.vision.image_max_pixels"},
        {NO_KEY("clip.vision.n_wa_pattern"), PH_EFORMAT, "clip.vision.n_wa_pattern"},
        {KEY("clip.vision.wa_layer_indexes", 1, 3), PH_EFORMAT, "wa_layer_indexes names layer 3 of 3"},
        {NO_KEY("clip.vision.video_min_pixels"), PH_EFORMAT, "clip.vision.video_min_pixels"},
        {KEY("clip.vision.video_max_pixels", 28), PH_EFORMAT, "at least 3136 and at most 28"},
        {{.name = "clip.projector_type", .text = "qwen2vl_merger"},
         PH_EMISMATCH,
         "v.blk.0.ln1.bias is missing"},
        {{.name = "clip.projector_type", .text = "qwen9vl_merger"}, PH_EUNSUP, "'qwen9vl_merger'"},
    };
    room         r;
    const change no_axes = NO_KEY("qwen2vl.rope.dimension_sections"),
                 axes = KEY("qwen2vl.rope.dimension_sections", 2, 3, 4, 0),
                 fourth = KEY("qwen2vl.rope.dimension_sections", 2, 3, 2, 1);
    open_room(&r, "vlm_qwen25vl");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuses(&r, 0, &rows[i].what, rows[i].code, rows[i].part);
    refuses(&r, 1, &no_axes, PH_EFORMAT, "qwen2vl.rope.dimension_sections is missing");
    refuses(&r, 1, &axes, PH_EMISMATCH, "sum to 9");
    refuses(&r, 1, &fourth, PH_EFORMAT, "mrope_section must be three numbers");
    close_room(&r);
}

static void tiles_bad(void) {
    const change newline = NO_TENSOR("v.image_newline"),
                 flat = {.name = "clip.vision.mm_patch_merge_type", .text = "flat"},
                 odd = KEY("clip.vision.image_grid_pinpoints", 56, 112, 56),
                 wide = KEY("clip.vision.image_grid_pinpoints", 56, 113),
                 none = KEY("clip.vision.image_grid_pinpoints", 56, 0),
                 most = KEY("clip.vision.preproc_min_tiles", 7),
                 zero = KEY("clip.vision.preproc_max_tiles", 0);
    room r;
    open_room(&r, "vlm_llava_next");
    refuses(&r, 0, &newline, PH_EMISMATCH, "v.image_newline is missing");
    refuses(&r, 0, &flat, PH_EUNSUP, "mm_patch_merge_type 'flat'");
    refuses(&r, 0, &odd, PH_EFORMAT, "pairs of width and height");
    refuses(&r, 0, &wide, PH_EFORMAT, "the canvas 113 x 56 is not made of whole tiles of 56");
    refuses(&r, 0, &none, PH_EFORMAT, "number 2 of clip.vision.image_grid_pinpoints");
    close_room(&r);
    open_room(&r, "vlm_internvl");
    refuses(&r, 0, &most, PH_EFORMAT, "preproc_min_tiles is 7, preproc_max_tiles is 6");
    refuses(&r, 0, &zero, PH_EFORMAT, "clip.vision.preproc_max_tiles");
    close_room(&r);
}

/* A tensor that no family asks for would be lost on the way back. */
static void strange_tensor(void) {
    const change strange = {.name = "v.post_ln.weight", .is_tensor = 1, .text = "v.strange.weight"};
    room         r;
    char         back[64];
    ph_err       err;
    open_room(&r, "vlm_llava_next");
    snprintf(back, sizeof back, "%s/back", r.folder);
    CHECK(edit(r.mmproj, r.edited, &strange, 1) == 1);
    CHECK(!convert(r.text, r.edited, back, 0, &err) && err.code == PH_EUNSUP);
    CHECK(strstr(err.msg, "v.strange.weight of family llava_next has no name"));
    close_room(&r);
}

void test_mmproj_bad(void) {
    packed_bad();
    tiles_bad();
    strange_tensor();
}

static int same_order(const ph_recipe *a, const ph_recipe *b) {
    return a->n_pinpoints == b->n_pinpoints && !memcmp(a->pinpoint, b->pinpoint, sizeof a->pinpoint);
}

/* What older files of the field call otherwise or leave out. */
void test_mmproj_older(void) {
    static const change newline = {.name = "v.image_newline", .is_tensor = 1, .text = "model.image_newline"},
                        merge = NO_KEY("clip.vision.mm_patch_merge_type"),
                        old[] = {NO_KEY("clip.vision.image_token_id"), NO_KEY("clip.vision.video_token_id"),
                                 NO_KEY("clip.vision.spatial_merge_size"),
                                 NO_KEY("clip.vision.video_max_pixels")};
    ph_model *m, *n;
    ph_err    err;
    room      r;
    open_room(&r, "vlm_llava_next");
    CHECK(!ph_model_open(&m, "tests/golden/set/models/vlm_llava_next", NULL, &err));
    for (int i = 0; i < 2; i++) {
        CHECK(edit(r.mmproj, r.edited, i ? &merge : &newline, 1) == 1);
        CHECK_SAY(!open_pair(&n, r.text, r.edited, &err), "%s", err.msg);
        CHECK(n && n->family == m->family && same_order(&m->recipe, &n->recipe));
        ph_model_close(n);
    }
    ph_model_close(m);
    close_room(&r);
    open_room(&r, "vlm_qwen25vl");
    CHECK(edit(r.mmproj, r.edited, old, 4) == 4);
    CHECK_SAY(!open_pair(&m, r.text, r.edited, &err), "%s", err.msg);
    CHECK(m && m->spec.image_token == 574 && m->spec.video_token == 575 && m->spec.packed.merge == 2);
    CHECK(m && m->video_recipe.kind && m->video_recipe.processor == m->recipe.processor);
    ph_model_close(m);
    close_room(&r);
}

static void has_tiles(const room *r, const change *c, size_t n, int min, int max) {
    ph_model *m;
    ph_err    err;
    CHECK(edit(r->mmproj, r->edited, c, n) == (int)n);
    CHECK_SAY(!open_pair(&m, r->text, r->edited, &err), "%s", err.msg);
    CHECK(m && m->recipe.do_split && m->recipe.tiles_min == min && m->recipe.tiles_max == max);
    ph_model_close(m);
}

/* How many tiles: as the original's config has it; else what the field takes. */
void test_mmproj_tiles(void) {
    const change none[] = {NO_KEY("clip.vision.preproc_min_tiles"), NO_KEY("clip.vision.preproc_max_tiles")},
                 two = KEY("clip.vision.preproc_min_tiles", 2);
    room r;
    open_room(&r, "vlm_internvl");
    has_tiles(&r, NULL, 0, 1, 6);
    has_tiles(&r, none, 2, 1, 12);
    has_tiles(&r, &two, 1, 2, 6);
    close_room(&r);
}

/* A copy of a checkpoint whose files a script has changed. */
static void copy_model(const char *model, const char *script, char out[32]) {
    char command[512];
    snprintf(out, 32, "/tmp/ph-model-XXXXXX");
    CHECK(mkdtemp(out) != NULL);
    snprintf(command, sizeof command, "cp -r tests/golden/set/models/%s/*.* '%s' && cd '%s' && %s", model,
             out, out, script);
    CHECK(!system(command));
}

static void remove_model(const char *folder) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(!system(command));
}

/* A directory without the shares of the axes is refused as a file is. */
void test_mmproj_axes(void) {
    char      model[32];
    ph_model *m;
    ph_err    err = {0};
    copy_model("vlm_qwen2vl", "sed -zi 's/\"mrope_section\": \\[[^]]*\\],//' config.json", model);
    CHECK(ph_model_open(&m, model, NULL, &err) == PH_EFORMAT);
    CHECK_SAY(strstr(err.msg, "rope_scaling's mrope_section is missing"), "%s", err.msg);
    remove_model(model);
}

/* Layers that see the whole frame: a rule where there is one, else their list; the same come back. */
void test_mmproj_full_layers(void) {
    static const struct {
        const char *list;
        const char *key;
        int         full[3];
    } rows[] = {
        {"1", "clip.vision.n_wa_pattern", {0, 1, 0}},       {"0", "clip.vision.wa_layer_indexes", {1, 0, 0}},
        {"", "clip.vision.n_wa_pattern", {0, 0, 0}},        {"0,1,2", "clip.vision.n_wa_pattern", {1, 1, 1}},
        {"1,2", "clip.vision.wa_layer_indexes", {0, 1, 1}}, {"2", "clip.vision.n_wa_pattern", {0, 0, 1}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char      script[160], model[32];
        ph_model *m;
        ph_err    err;
        room      r;
        snprintf(
            script, sizeof script,
            "sed -zi 's/\"fullatt_block_indexes\": \\[[^]]*\\]/\"fullatt_block_indexes\": [%s]/' config.json",
            rows[i].list);
        copy_model("vlm_qwen25vl", script, model);
        open_room(&r, model);
        CHECK_SAY(!open_pair(&m, r.text, r.mmproj, &err), "%s", err.msg);
        for (int k = 0; m && k < 3; k++)
            CHECK_SAY(m->spec.packed.is_full[k] == rows[i].full[k], "[%s]: layer %d", rows[i].list, k);
        CHECK(m && ph_gguf_find(&m->source.mmproj, rows[i].key));
        ph_model_close(m);
        close_room(&r);
        remove_model(model);
    }
}

/* The patch weight with half its numbers, as of one frame. */
static void halve_patch(const char *model) {
    ph_arena       arena = {0};
    ph_safetensors s = {0};
    char           path[64], out[64];
    snprintf(path, sizeof path, "%s/model.safetensors", model);
    snprintf(out, sizeof out, "%s/half.safetensors", model);
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_safetensors_open(&s, path, &arena, NULL));
    for (size_t i = 0; i < s.weights.n; i++) {
        ph_weight *w = &s.weights.at[i];
        if (strcmp(w->name, "visual.patch_embed.proj.weight")) continue;
        w->dim[2] = 1;
        w->n_bytes /= 2;
    }
    CHECK(!ph_safetensors_write(out, s.weights.at, s.weights.n, NULL));
    ph_safetensors_close(&s);
    ph_arena_close(&arena);
    CHECK(!rename(out, path));
}

/* GGUF files hold two frames of a patch and have no key for another number. */
void test_mmproj_frames(void) {
    char   model[32], out[64];
    ph_err err;
    copy_model("vlm_qwen2vl",
               "sed -i 's/\"temporal_patch_size\": 2/\"temporal_patch_size\": 1/' *config.json", model);
    halve_patch(model);
    snprintf(out, sizeof out, "%s/m.gguf", model);
    CHECK(!convert(model, NULL, out, 1, &err) && err.code == PH_EUNSUP);
    CHECK_SAY(strstr(err.msg, "[64, 3, 1, 14, 14]") && strstr(err.msg, "2 parts"), "%s", err.msg);
    remove_model(model);
}

/* A bare file of a changed checkpoint prepares pictures as the checkpoint does: by keys, or (is_kept) by the
 * processor's own file, which stays where the keys do not say it. */
static void prepares_alike(const char *of, const char *script, int is_kept) {
    char      model[32];
    ph_model *m, *n;
    ph_err    err = {0};
    room      r;
    copy_model(of, script, model);
    CHECK_SAY(!ph_model_open(&m, model, NULL, &err), "%s", err.msg);
    open_room(&r, model);
    CHECK_SAY(!open_pair(&n, r.text, r.mmproj, &err), "%s", err.msg);
    CHECK_SAY(m && n && ph_recipe_same(&m->recipe, &n->recipe), "%s: %s", of, script);
    CHECK_SAY(m && n && ph_recipe_same(&m->video_recipe, &n->video_recipe), "%s: %s: videos", of, script);
    CHECK_SAY(n && !is_kept == !n->source.hf.preprocessor.root, "%s: %s: by which", of, script);
    ph_model_close(m);
    ph_model_close(n);
    close_room(&r);
    remove_model(model);
}

#define SED(expression)       "sed -i 's/" expression "/' preprocessor_config.json"
#define SED_VIDEO(expression) "sed -i 's/" expression "/' video_preprocessor_config.json"

void test_bare_recipe(void) {
    prepares_alike("vlm_llava15", "true", 0);
    prepares_alike("vlm_llava15", SED("\"resample\": 3/\"resample\": 2"), 1);
    prepares_alike("vlm_llava15", SED("\"rescale_factor\": [0-9.]*/\"rescale_factor\": 0.25"), 1);
    prepares_alike("vlm_internvl", "true", 0);
    prepares_alike("vlm_internvl", SED("\"max_patches\": 6/\"max_patches\": 3"), 0);
    prepares_alike("vlm_internvl", SED("\"min_patches\": 1/\"min_patches\": 4"), 0);
    prepares_alike("vlm_internvl", SED("\"crop_to_patches\": true/\"crop_to_patches\": false"), 0);
    prepares_alike("vlm_internvl", SED("\"do_normalize\": true/\"do_normalize\": false"), 1);
    prepares_alike("vlm_llava_next", "true", 0);
    prepares_alike("vlm_llava_next", SED("0.48145466/0.5"), 0);
    prepares_alike("vlm_llava_next", SED("\"resample\": 3/\"resample\": 1"), 1);
    prepares_alike("vlm_qwen2vl", "true", 0);
    prepares_alike("vlm_qwen2vl", "rm video_preprocessor_config.json", 0);
    prepares_alike("vlm_qwen2vl", SED_VIDEO("\"min_frames\": 4/\"min_frames\": 6"), 0);
    prepares_alike("vlm_qwen2vl", SED_VIDEO("\"fps\": null/\"fps\": 1.5"), 0);
    prepares_alike("vlm_qwen25vl", SED_VIDEO("\"resample\": 3/\"resample\": 2"), 1);
    prepares_alike("vlm_qwen25vl", SED("\"do_resize\": true/\"do_resize\": false"), 1);
    prepares_alike("vlm_gemma3", "true", 0);
    prepares_alike("vlm_idefics3", "true", 0);
}

/* All ids that end an answer, not only the one that the field's files name. */
void test_bare_stops(void) {
    static const change none = NO_KEY("pinhole.stop_token_ids"),
                        text = {.name = "pinhole.stop_token_ids", .text = "570"};
    static const change many = {.name = "pinhole.stop_token_ids", .n = 17};
    char                model[32];
    ph_model           *m;
    ph_err              err;
    room                r;
    copy_model(
        "vlm_qwen2vl",
        "sed -zi 's/\"eos_token_id\": [0-9]*/\"eos_token_id\": [570, 568, 12]/' generation_config.json",
        model);
    open_room(&r, model);
    CHECK_SAY(!open_pair(&m, r.text, r.mmproj, &err), "%s", err.msg);
    CHECK(m && m->spec.n_eos == 3 && ph_model_is_stop(m, 570) && ph_model_is_stop(m, 568) &&
          ph_model_is_stop(m, 12));
    ph_model_close(m);
    CHECK(edit(r.text, r.edited, &none, 1) == 1 && !open_pair(&m, r.edited, r.mmproj, &err));
    CHECK(m && m->spec.n_eos == 1 && ph_model_is_stop(m, 570));
    ph_model_close(m);
    refuses(&r, 1, &text, PH_EFORMAT, "pinhole.stop_token_ids: item 1 is no whole number");
    refuses(&r, 1, &many, PH_ELIMIT, "pinhole.stop_token_ids lists 17 ids; at most 16 are held");
    close_room(&r);
    remove_model(model);
}
