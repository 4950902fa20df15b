/* flow_flat_test.c - two hundred pictures of two hundred sizes through one session: memory is flat after the
 * first. */
#include "tests/unit/flow/flow_help.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { PICTURES = 200, WARM = 60, SIDE = 1400 };

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

static void ask(ph_turn *t, const uint8_t *bytes, size_t n) {
    ph_err           e = {0};
    ph_answer        a;
    const ph_picture p = {.bytes = bytes, .n = n, .name = "made.bmp"};
    if (ph_ask(
            t,
            &(ph_question){
                .raw = "<image> What?", .pictures = &p, .n_pictures = 1, .answer_max = 2, .ignore_stop = 1},
            &a, &e))
        fh_say(&e);
}

static void flat(const char *path) {
    size_t      room = 54 + ph_round_up(3 * (size_t)SIDE, 4) * SIDE, before = 0;
    uint8_t    *bytes = malloc(room);
    ph_model   *m = fh_model(path);
    ph_session *s = fh_session(m, &(ph_session_options){.threads = 2});
    ph_turn    *t = fh_turn(s);
    if (bytes) memset(bytes, 0x5a, room);
    for (int i = 0; bytes && t && i < PICTURES; i++) {
        /* Sizes in no order, no two alike. */
        int w = 1 + (i * 577) % SIDE, h = 1 + (i * 911 + 300) % SIDE;
        ask(t, bytes, as_bmp(bytes, w, h));
        if (i == WARM) before = anonymous();
    }
    size_t after = anonymous();
    printf("  %-40s %zu kB after %d pictures, %zu kB after %d\n", path, before / 1024, WARM, after / 1024,
           PICTURES);
    if (ut_can_hold_malloc()) /* a sanitizer keeps what was freed */
        CHECK_SAY(before && after <= before + before / 50 && before <= after + before / 50,
                  "%zu and %zu bytes", before, after);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    free(bytes);
}

void test_flat_memory(void) {
    flat(FH_LLAVA);
    flat(FH_IDEFICS3);
}
