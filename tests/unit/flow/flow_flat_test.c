/* flow_flat_test.c - two hundred pictures of two hundred sizes through one session: memory is flat after the
 * first. */
#include "tests/unit/flow/flow_help.h"

#include "base/mem.h"
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

enum { PICTURES = 200, WARM = 60, SIDE = 1400, SMALL = 400 };

static void put32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> (8 * i));
}

/* A 24-bit BMP header for w x h over pixels that stand already; its bytes. */
static size_t as_bmp(uint8_t *out, int w, int h) {
    size_t n = 54 + ph_round_up(3 * (size_t)w, 4) * (size_t)h;
    memset(out, 0, 54);
    memcpy(out, "BM", 2);
    put32(out + 2, (uint32_t)n);
    put32(out + 10, 54);
    put32(out + 14, 40);
    put32(out + 18, (uint32_t)w);
    put32(out + 22, (uint32_t)h);
    out[26] = 1;
    out[28] = 24;
    return n;
}

static size_t anonymous(void) {
    ph_mem m;
    return ph_mem_read(&m) ? m.rss_anon : 0;
}

static void ask(ph_turn *t, const char *raw, const uint8_t *bytes, size_t n) {
    ph_err           e = {0};
    ph_answer        a;
    const ph_picture p = {.bytes = bytes, .n = n, .name = "made.bmp"};
    if (ph_ask(t,
               &(ph_question){.raw = raw, .pictures = &p, .n_pictures = 1, .answer_max = 2, .ignore_stop = 1},
               &a, &e))
        fh_say(&e);
}

/* Pictures with sides from `least` to below `side`. */
static void flat(const char *path, const char *vision, const char *raw, int least, int side) {
    size_t      room = 54 + ph_round_up(3 * (size_t)side, 4) * (size_t)side, before = 0;
    uint8_t    *bytes = malloc(room);
    ph_model   *m = fh_model(path);
    ph_session *s =
        fh_session(m, &(ph_session_options){.threads = 2, .engine_vision = vision, .is_engine_strict = 1});
    ph_turn *t = fh_turn(s);
    if (bytes) memset(bytes, 0x5a, room);
    for (int i = 0; bytes && t && i < PICTURES; i++) {
        /* Sizes in no order, no two alike. */
        int w = least + (i * 577) % (side - least), h = least + (i * 911 + 300) % (side - least);
        ask(t, raw, bytes, as_bmp(bytes, w, h));
        if (i == WARM) before = anonymous();
    }
    size_t after = anonymous();
    printf("  %-40s %-6s %zu kB after %d pictures, %zu kB after %d\n", path, vision, before / 1024, WARM,
           after / 1024, PICTURES);
    if (ut_can_hold_malloc()) /* a sanitizer keeps what was freed */
        CHECK_SAY(before && after <= before + before / 50 && before <= after + before / 50,
                  "%zu and %zu bytes", before, after);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    free(bytes);
}

void test_flat_memory(void) {
    flat(FH_LLAVA, "native", "<image> What?", 1, SIDE + 1);
    flat(FH_IDEFICS3, "native", "<image> What?", 1, SIDE + 1);
}

/* A tower that runs each size as it is, on ONNX Runtime: it keeps nothing a shape. */
void test_flat_memory_ort(void) {
    ph_err err = {0};
    if (ph_engine_ort.probe(&err))
        printf("flat_memory_ort: skipped: %s\n", err.msg);
    else
        flat(FH_QWEN2VL, "ort", "<|vision_start|><|image_pad|><|vision_end|> What?", 28, SMALL);
}
