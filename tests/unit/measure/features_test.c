/* features_test.c - LLaVA-NeXT with several feature layers, held to the reference case of its one: the layer
 * that is added stands behind columns of zeros in the projector, so every number must stay. */
#include "formats/safetensors.h"
#include "measure/verify.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define PH_TEST(name) void test_##name(void);
#include "tests/unit/measure/tests.def"
#undef PH_TEST

#define MODEL "models/vlm_llava_next"

/* Rows of w as wide again, with zeros before or behind; the bytes are the caller's to free. */
static uint8_t *widen(ph_weight *w, int is_behind) {
    size_t   rows = (size_t)w->dim[0], row = w->n_bytes / rows;
    uint8_t *bytes = calloc(2 * rows, row);
    CHECK(bytes != NULL && w->rank == 2);
    for (size_t r = 0; bytes && r < rows; r++)
        memcpy(bytes + (2 * r + !is_behind) * row, w->bytes + r * row, row);
    w->dim[1] *= 2;
    w->n_bytes *= 2;
    w->bytes = bytes;
    return bytes;
}

static void widen_projector(const char *folder, int is_behind) {
    ph_arena       arena = {0};
    ph_safetensors s = {0};
    char           path[96], out[96];
    uint8_t       *bytes = NULL;
    snprintf(path, sizeof path, "%s/" MODEL "/model.safetensors", folder);
    snprintf(out, sizeof out, "%s/wide.safetensors", folder);
    CHECK(!ph_arena_open_growing(&arena, 4096, NULL) && !ph_safetensors_open(&s, path, &arena, NULL));
    for (size_t i = 0; i < s.weights.n; i++)
        if (!strcmp(s.weights.at[i].name, "multi_modal_projector.linear_1.weight"))
            bytes = widen(&s.weights.at[i], is_behind);
    CHECK(bytes && !ph_safetensors_write(out, s.weights.at, s.weights.n, NULL));
    free(bytes);
    ph_safetensors_close(&s);
    ph_arena_close(&arena);
    CHECK(!rename(out, path));
}

static void ignore(void *arg, const ph_verify_row *row) {
    (void)arg;
    if (row->verdict == PH_VERDICT_FAILED) CHECK_SAY(0, "%s: %s", row->name, row->reason);
}

static void holds(const char *layers, int is_behind) {
    char                    folder[] = "/tmp/ph-features-XXXXXX", command[512];
    const ph_verify_options how = {.threads = 1, .is_tight = 1};
    ph_verify_sum           sum = {0};
    ph_err                  err = {0};
    CHECK(mkdtemp(folder) != NULL);
    snprintf(command, sizeof command,
             "mkdir '%s/models' && cp -r tests/golden/set/" MODEL " '%s/models/' && "
             "ln -s \"$PWD/tests/golden/set/images\" '%s/images' && "
             "sed -i 's/\"vision_feature_layer\": -2/\"vision_feature_layer\": %s/' '%s/" MODEL
             "/config.json'",
             folder, folder, folder, layers, folder);
    CHECK(!system(command));
    if (strchr(layers, ',')) widen_projector(folder, is_behind);
    CHECK_SAY(!ph_verify(folder, &how, ignore, NULL, &sum, &err), "%s: %s", layers, err.msg);
    CHECK_SAY(sum.passed > 0 && !sum.failed && !sum.skipped, "%s: %zu passed", layers, sum.passed);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(!system(command));
}

void test_features_side_by_side(void) {
    holds("-2", 0);
    holds("[-2, -1]", 1);
    holds("[0, -2]", 0);
}
