/* seeds: tests/golden/chat/templates */
/* fuzz_jinja.c - any template over one conversation ends within its limits, and the spans are the text. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const ph_chat_part    parts[] = {{"a <|im_end|> b\n\xC3\xA9", 17}, {NULL, 0}, {"{{ x }}", 7}};
    static const ph_chat_message m[] = {
        {"system", parts, 1, NULL}, {"user", parts, 3, NULL}, {"assistant", parts + 2, 1, NULL}};
    const ph_jinja_limits limits = {.steps = 100000, .out_bytes = 1 << 18, .bytes = 8 << 20, .depth = 150};
    const ph_chat         c = {.messages = m,
                               .n_messages = 3,
                               .bos_token = "<s>",
                               .eos_token = "</s>",
                               .image_marker = "<image>",
                               .limits = &limits,
                               .add_generation_prompt = 1};
    ph_arena              arena = {0};
    ph_jinja             *t;
    ph_chat_text          out;
    if (ph_arena_open_growing(&arena, 1 << 15, NULL)) return 0;
    if (!ph_jinja_compile(&t, (const char *)bytes, n, &limits, &arena, NULL) &&
        !ph_chat_render(&out, t, &c, &arena, NULL)) {
        size_t at = 0;
        for (size_t i = 0; i < out.n_spans; i++) {
            if (out.spans[i].bytes != out.bytes + at || !out.spans[i].n) abort();
            if (out.spans[i].image >= 0 && memcmp(out.spans[i].bytes, "<image>", 7)) abort();
            at += out.spans[i].n;
        }
        if (at != out.n || out.n > limits.out_bytes || out.n_images != 1) abort();
    }
    ph_arena_close(&arena);
    return 0;
}
