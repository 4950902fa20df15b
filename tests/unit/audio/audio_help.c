/* audio_help.c - see audio_help.h. */
#include "tests/unit/audio/audio_help.h"
#include "formats/safetensors.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 17 }; /* of make_audio.py */

uint8_t *ut_slurp(const char *name, size_t *n) {
    char path[300];
    snprintf(path, sizeof path, AUDIO "%s", name);
    FILE *f = fopen(path, "rb");
    *n = 0;
    CHECK_SAY(f, "%s", path);
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *bytes = malloc((size_t)size + 1);
    if (bytes) *n = fread(bytes, 1, (size_t)size, f), bytes[*n] = 0;
    fclose(f);
    return bytes;
}

char *ut_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = 0;
    *at = end + 1;
    return line;
}

int ut_sound(ph_sound *out, const char *name, ph_arena *arena) {
    size_t   n;
    uint8_t *bytes = ut_slurp(name, &n);
    ph_err   err = {0};
    ph_rc    rc = bytes ? ph_audio_decode(out, bytes, n, NULL, arena, &err) : PH_EIO;
    CHECK_SAY(!rc, "%s: %s", name, err.msg);
    free(bytes);
    return !rc;
}

ph_rc ut_recipe(ph_audio_recipe *out, const char *text, size_t n, ph_err *err) {
    ph_json_doc doc = {0};
    ph_json     none = {0};
    ph_rc       rc = ph_json_parse(&doc, text, n, "preprocessor_config.json", err);
    ph_json     root = ph_json_root(&doc);
    if (!rc) rc = ph_audio_recipe_init(out, &root, &none, err);
    ph_json_close(&doc);
    return rc;
}

static ph_safetensors golden;
static ph_arena       golden_arena;

const void *ut_golden(const char *name, size_t *n) {
    ph_err err = {0};
    *n = 0;
    if (!golden_arena.chunk) {
        ph_rc rc = ph_arena_open_growing(&golden_arena, 1 << 16, &err);
        if (!rc) rc = ph_safetensors_open(&golden, AUDIO "golden.safetensors", &golden_arena, &err);
        CHECK_SAY(!rc, "%s", err.msg);
    }
    const ph_weight *w = ph_weights_find(&golden.weights, name);
    CHECK_SAY(w, "no %s in golden.safetensors", name);
    if (w) *n = w->n_bytes / 4;
    return w ? w->bytes : NULL;
}

void ut_golden_close(void) {
    ph_safetensors_close(&golden);
    ph_arena_close(&golden_arena);
    golden = (ph_safetensors){0};
    golden_arena = (ph_arena){0};
}

double ut_golden_differs(const char *name, const float *x, size_t n, size_t first) {
    size_t      count;
    const char *want = ut_golden(name, &count);
    double      most = 0;
    if (!want || count != (n + STRIDE - 1 - first) / STRIDE) return -1;
    for (size_t i = 0; i < count; i++) {
        float w;
        memcpy(&w, want + 4 * i, sizeof w); /* the file aligns to 8 bytes only by its writer's grace */
        double d = fabs((double)x[first + STRIDE * i] - (double)w);
        if (!(d <= most)) most = d;
    }
    return most;
}
