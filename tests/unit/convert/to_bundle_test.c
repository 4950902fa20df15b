/* to_bundle_test.c - checkpoints into sealed files: what a bundle of parts takes and gives back, what is
 * refused, and the plan that is in it.  All families: tests/flow/bundle.sh. */
#include "convert/convert.h"
#include "flow/bundle_plan.h"
#include "formats/bundle.h"
#include "formats/gguf_write.h"
#include "model/model.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define SET      "tests/golden/set/models/"
#define LANGUAGE "tests/golden/gguf/vlm_llava15.gguf"
#define VISION   "tests/golden/gguf/vlm_llava15.mmproj.gguf"

typedef struct place {
    char              folder[64], bundle[96], other[96];
    ph_recipe_types   types;
    ph_convert_report report;
    ph_err            err;
} place;

static void open_place(place *p) {
    *p = (place){.folder = "/tmp/ph-bundle-XXXXXX"};
    CHECK(mkdtemp(p->folder) != NULL);
    snprintf(p->bundle, sizeof p->bundle, "%s/m.bundle", p->folder);
    snprintf(p->other, sizeof p->other, "%s/o.gguf", p->folder);
}

static void close_place(place *p) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    CHECK(!system(command));
}

static ph_rc go(place *p, const char *in, const char *mmproj, const char *out, int is_bundle) {
    const ph_convert c = {.in = in,
                          .mmproj = mmproj,
                          .out = out,
                          .types = &p->types,
                          .to_gguf = 1,
                          .is_bundle = is_bundle,
                          .threads = 3};
    p->err = (ph_err){0};
    return ph_convert_run(&c, &p->report, &p->err);
}

static int count_files(const char *folder) {
    int  n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    if (dir) closedir(dir);
    return n;
}

/* Tensors of one file, byte for byte in another; keys but those of types. */
static void same_gguf(const char *a, const char *b) {
    ph_gguf  x = {0}, y = {0};
    ph_arena arena = {0};
    ph_err   err = {0};
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL));
    CHECK_SAY(!ph_gguf_open(&x, a, &arena, &err) && !ph_gguf_open(&y, b, &arena, &err), "%s", err.msg);
    CHECK(x.weights.n == y.weights.n && x.weights.n);
    for (size_t i = 0; i < x.weights.n; i++) {
        const ph_weight *s = &x.weights.at[i], *t = ph_weights_find(&y.weights, s->name);
        CHECK_SAY(t && s->dtype == t->dtype && s->n_bytes == t->n_bytes &&
                      !memcmp(s->bytes, t->bytes, s->n_bytes),
                  "%s", s->name);
    }
    for (size_t i = 0; i < x.n_kv; i++)
        if (strcmp(x.kv[i].key, "general.file_type") && strcmp(x.kv[i].key, PH_GGUF_ALIGNMENT_KEY))
            CHECK_SAY(ph_gguf_find(&y, x.kv[i].key), "%s", x.kv[i].key);
    for (size_t i = 0; i < y.n_kv; i++)
        CHECK_SAY(strncmp(y.kv[i].key, "pinhole.bundle", 14), "%s", y.kv[i].key);
    ph_gguf_close(&x);
    ph_gguf_close(&y);
    ph_arena_close(&arena);
}

/* A copy of a GGUF file on another alignment. */
static void realign(const char *from, const char *to, uint32_t alignment) {
    ph_gguf      g = {0};
    ph_arena     arena = {0};
    ph_gguf_meta meta = {.alignment = alignment};
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_gguf_open(&g, from, &arena, NULL));
    for (size_t i = 0; i < g.n_kv; i++)
        if (strcmp(g.kv[i].key, PH_GGUF_ALIGNMENT_KEY)) ph_gguf_put_copy(&meta, &g.kv[i]);
    ph_gguf_put_int(&meta, PH_GGUF_ALIGNMENT_KEY, PH_GGUF_U32, alignment);
    CHECK(!ph_gguf_write(to, &meta, g.weights.at, g.weights.n, NULL, NULL));
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
}

/* Both parts come out as they went in, also from files of different alignments. */
void test_bundle_of_parts(void) {
    static const uint32_t alignments[][2] = {{32, 32}, {32, 256}, {512, 64}};
    for (size_t i = 0; i < 3; i++) {
        place p;
        char  language[96], vision[96], back[96];
        open_place(&p);
        snprintf(language, sizeof language, "%s/l.gguf", p.folder);
        snprintf(vision, sizeof vision, "%s/v.gguf", p.folder);
        snprintf(back, sizeof back, "%s/mmproj-o.gguf", p.folder);
        realign(LANGUAGE, language, alignments[i][0]);
        realign(VISION, vision, alignments[i][1]);
        CHECK_SAY(!go(&p, language, vision, p.bundle, 1), "%s", p.err.msg);
        CHECK(count_files(p.folder) == 3);
        CHECK_SAY(!go(&p, p.bundle, NULL, p.other, 0) && !strcmp(p.report.mmproj_out, back), "%s", p.err.msg);
        same_gguf(language, p.other);
        same_gguf(vision, back);
        ph_model              *m;
        const ph_model_options how = {.mmproj = back};
        CHECK_SAY(!ph_model_open(&m, p.other, &how, &p.err), "%s", p.err.msg);
        ph_model_close(m);
        close_place(&p);
    }
}

/* What is refused leaves no file behind. */
void test_bundle_refused(void) {
    place p;
    char  twice[96];
    open_place(&p);
    CHECK(go(&p, LANGUAGE, LANGUAGE, p.bundle, 1) == PH_EMISMATCH);
    CHECK(go(&p, SET "vlm_llava15", VISION, p.bundle, 1) == PH_EUSAGE);
    CHECK(count_files(p.folder) == 0);
    /* A vision file that has a tensor of the language file's. */
    ph_gguf      g = {0};
    ph_arena     arena = {0};
    ph_gguf_meta meta = {0};
    ph_weight    at[600];
    snprintf(twice, sizeof twice, "%s/twice.gguf", p.folder);
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_gguf_open(&g, VISION, &arena, NULL) &&
          g.weights.n < 600);
    for (size_t i = 0; i < g.n_kv; i++) ph_gguf_put_copy(&meta, &g.kv[i]);
    memcpy(at, g.weights.at, g.weights.n * sizeof *at);
    at[g.weights.n] = at[0];
    at[g.weights.n].name = "output_norm.weight";
    CHECK(!ph_gguf_write(twice, &meta, at, g.weights.n + 1, NULL, NULL));
    CHECK(go(&p, LANGUAGE, twice, p.bundle, 1) == PH_EUNSUP && strstr(p.err.msg, "output_norm.weight"));
    CHECK(count_files(p.folder) == 1);
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
    close_place(&p);
}

/* Types change in a bundle as elsewhere; no conversion takes a damaged one. */
void test_bundle_types_and_damage(void) {
    place     p;
    ph_model *m;
    open_place(&p);
    p.types = (ph_recipe_types){.has_type = 1, .type = PH_Q8_0, .is_quantize = 1};
    CHECK_SAY(!go(&p, SET "vlm_llava15", NULL, p.bundle, 1), "%s", p.err.msg);
    CHECK_SAY(!ph_model_open(&m, p.bundle, NULL, &p.err), "%s", p.err.msg);
    const ph_weight *w =
        m ? ph_weights_find(ph_source_weights(&m->source), "language_model.model.layers.0.mlp.up_proj.weight")
          : NULL;
    CHECK(w && w->dtype == PH_Q8_0 && !strcmp(ph_source_container(&m->source), "bundle"));
    ph_model_close(m);
    FILE *f = fopen(p.bundle, "r+b");
    CHECK(f && !fseek(f, 300000, SEEK_SET) && fputc(0x5a, f) != EOF && !fclose(f));
    CHECK(go(&p, p.bundle, NULL, p.other, 0) == PH_EFORMAT &&
          strstr(p.err.msg, "is not what the bundle was sealed with"));
    CHECK(go(&p, p.bundle, NULL, p.other, 1) == PH_EFORMAT);
    CHECK(ph_model_open(&m, p.bundle, NULL, &p.err) == PH_EFORMAT);
    const ph_model_options how = {.is_trusted = 1};
    CHECK(!ph_model_open(&m, p.bundle, &how, &p.err));
    ph_model_close(m);
    close_place(&p);
}

/* The plan of a bundle is the one that is made of it, for as many threads; and one that is not is told. */
void test_bundle_plan(void) {
    place          p;
    ph_model      *m;
    ph_bundle_plan kept, now;
    int            found;
    char           why[160];
    open_place(&p);
    CHECK_SAY(!go(&p, LANGUAGE, VISION, p.bundle, 1), "%s", p.err.msg);
    CHECK_SAY(!ph_model_open(&m, p.bundle, NULL, &p.err), "%s", p.err.msg);
    CHECK(!ph_bundle_plan_read(&kept, &m->source.bundle.own, &found, &p.err) && found &&
          kept.load.threads == 3);
    CHECK(!ph_bundle_plan_make(&now, m, 3, NULL, &p.err));
    CHECK_SAY(ph_bundle_plan_same(&kept, &now, why, sizeof why), "%s", why);
    CHECK(kept.memory.weights && kept.memory.engine && kept.memory.input && !kept.memory.base &&
          kept.memory.total > kept.memory.weights);
    now.memory.pools += 4096;
    CHECK(!ph_bundle_plan_same(&kept, &now, why, sizeof why) && strstr(why, "pools: "));
    CHECK(!ph_bundle_plan_make(&now, m, 2, "ref", &p.err));
    CHECK(!ph_bundle_plan_same(&kept, &now, why, sizeof why));
    CHECK(!ph_bundle_plan_read(&kept, &m->source.mmproj, &found, &p.err) && !found);
    ph_model_close(m);
    close_place(&p);
}
