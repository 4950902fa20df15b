/* answers.c - questions through the public header: the answer, its stream, its counts, what comes after. */
#include "api_check.h"

#include <unistd.h>

#define BUNDLE "tests/golden/bundle/llava.bundle"

typedef struct heard {
    char   text[4096];
    size_t n, n_pieces, most; /* most: pieces after which no more is wanted; 0: all are */
} heard;

static int hear(void *arg, const char *bytes, size_t n) {
    heard *h = arg;
    CHECK(n > 0);
    if (h->n + n < sizeof h->text) memcpy(h->text + h->n, bytes, n);
    h->n += n;
    return h->most && ++h->n_pieces >= h->most;
}

static int same_text(const pinhole_answer *a, const char *text) {
    return a->n_text == strlen(text) && !strcmp(a->text, text);
}

static void ask_and_hear(pinhole_conversation *c, const unsigned char *picture, size_t n) {
    pinhole_part          parts[2];
    pinhole_error         error;
    heard                 h = {0};
    const pinhole_answer *a;
    double                ms = 0;
    pinhole_asking        how = {.size = sizeof how, .sink = hear, .arg = &h};
    question(parts, picture, n, "what is on the display?");
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(error.code == PINHOLE_OK);
    CHECK(same_text(a, "64")); /* examples/panels.json */
    CHECK(h.n == a->n_text && !memcmp(h.text, a->text, h.n));
    CHECK(a->stop == PINHOLE_STOP_TOKEN && !strcmp(a->stop_name, "token"));
    CHECK(a->image_tokens > 0 && a->prompt_tokens > a->image_tokens && a->cached_tokens == 0);
    CHECK(a->n_stages == 10 && !strcmp(pinhole_stage_name(0), "decode") && !pinhole_stage_name(10));
    for (size_t i = 0; i < a->n_stages; i++) ms += a->stage_ms[i];
    CHECK(ms > 0);
    CHECK(a->predicted.total > a->predicted.weights && a->predicted.weights > 0);
    CHECK(a->measured_peak > 0 && a->measured_anon > 0 && a->measured_anon <= a->measured_peak);
}

/* The second question runs only what is new, and the answer to the first counts. */
static void ask_again(pinhole_conversation *c) {
    const pinhole_part    text = {PINHOLE_TEXT, "what does the gauge show?", PINHOLE_WHOLE, NULL};
    const pinhole_answer *a;
    pinhole_error         error;
    MUST(pinhole_ask(c, &text, 1, NULL, &a, &error));
    CHECK(a->n_text > 0);
    CHECK(a->cached_tokens > a->image_tokens && a->image_tokens > 0);
}

/* Bad pictures, bad settings: an error with a name, and the conversation is as it was. */
static void fail_and_go_on(pinhole_conversation *c, const unsigned char *picture, size_t n) {
    pinhole_part          parts[2];
    const pinhole_answer *a = NULL;
    pinhole_error         error;
    pinhole_asking        how = {.size = sizeof how, .temperature = -1};
    question(parts, picture, n / 2, "what is on the display?");
    CHECK(pinhole_ask(c, parts, 2, NULL, &a, &error) == PINHOLE_EFORMAT);
    CHECK(!a && error.code == PINHOLE_EFORMAT && !strcmp(error.name, "EFORMAT"));
    CHECK(error.exit_code == 3 && error.http_status == 422 && error.message[0] && error.n_notes > 0);
    CHECK(error.n_notes > 1 && strstr(error.note[1], PICTURE) != NULL); /* note[0]: while decoding */
    question(parts, (const unsigned char *)"II*\0............", 16, "?");
    CHECK(pinhole_ask(c, parts, 2, NULL, &a, &error) == PINHOLE_EUNSUP && strstr(error.message, "TIFF"));
    question(parts, picture, n, "?");
    CHECK(pinhole_ask(c, parts, 2, &how, &a, &error) == PINHOLE_EUSAGE);
    ask_again(c);
}

static void stop_in_time(pinhole_conversation *c, const unsigned char *picture, size_t n) {
    static const char *const stops[] = {"4"};
    pinhole_part             parts[2];
    const pinhole_answer    *a;
    pinhole_error            error;
    heard                    h = {.most = 1};
    pinhole_asking           how = {.size = sizeof how, .stop = stops, .n_stop = 1};
    question(parts, picture, n, "what is on the display?");
    MUST(pinhole_conversation_reset(c, &error));
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->stop == PINHOLE_STOP_WORD && same_text(a, "6"));
    MUST(pinhole_conversation_reset(c, &error));
    how = (pinhole_asking){.size = sizeof how, .answer_max = 1, .ignore_stop = 1};
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->stop == PINHOLE_STOP_LENGTH && a->n_ids == 1);
    MUST(pinhole_conversation_reset(c, &error));
    how = (pinhole_asking){.size = sizeof how, .ignore_stop = 1, .answer_max = 50, .sink = hear, .arg = &h};
    MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
    CHECK(a->stop == PINHOLE_STOP_CANCEL && h.n_pieces == 1 && a->n_text == h.n);
}

/* The same seed, the same answer; with another temperature the same prompt still. */
static void draw(pinhole_conversation *c, const unsigned char *picture, size_t n) {
    pinhole_part          parts[2];
    const pinhole_answer *a;
    pinhole_error         error;
    char                  first[512];
    pinhole_asking        how = {
               .size = sizeof how, .temperature = 1.5, .seed = 7, .answer_max = 12, .ignore_stop = 1};
    question(parts, picture, n, "describe the panel");
    for (int i = 0; i < 2; i++) {
        MUST(pinhole_conversation_reset(c, &error));
        MUST(pinhole_ask(c, parts, 2, &how, &a, &error));
        if (!i) snprintf(first, sizeof first, "%s", a->text);
        CHECK(!strcmp(first, a->text));
    }
}

/* A prompt without template, and a history that was given instead of asked. */
static void other_ways(pinhole_conversation *c, const unsigned char *picture, size_t n) {
    pinhole_part          parts[2];
    const pinhole_answer *a;
    pinhole_error         error;
    pinhole_asking        how = {.size = sizeof how, .answer_max = 4};
    question(parts, picture, n, "what is on the display?");
    MUST(pinhole_complete(c, "USER: <image>\nwhat is on the display? ASSISTANT:", PINHOLE_WHOLE, parts, 1,
                          &how, &a, &error));
    CHECK(a->image_tokens > 0 && a->n_ids > 0);
    CHECK(pinhole_complete(c, "no mark", PINHOLE_WHOLE, parts, 1, &how, &a, &error) == PINHOLE_EMISMATCH);
    MUST(pinhole_conversation_reset(c, &error));
    MUST(pinhole_conversation_add(c, "user", parts, 2, &error));
    MUST(pinhole_ask(c, NULL, 0, NULL, &a, &error));
    CHECK(same_text(a, "64"));
    MUST(pinhole_conversation_reset(c, &error));
    CHECK(pinhole_ask(c, NULL, 0, NULL, &a, &error) == PINHOLE_EUSAGE); /* nothing was said */
}

/* With the pictures' features injected a picture is answered otherwise, and words alone as without. */
static void inject(const unsigned char *picture, size_t n) {
    pinhole_model_options how = {.size = sizeof how, .inject = 1, .inject_layer = 2};
    pinhole_model        *m;
    pinhole_session      *s;
    pinhole_conversation *c;
    pinhole_part          parts[2];
    const pinhole_answer *a;
    pinhole_error         error;
    pinhole_asking        few = {.size = sizeof few, .answer_max = 8};
    MUST(pinhole_model_open(&m, MODEL, &how, &error));
    MUST(pinhole_session_open(&s, m, NULL, &error));
    MUST(pinhole_conversation_open(&c, s, &error));
    question(parts, picture, n, "what is on the display?");
    MUST(pinhole_ask(c, parts, 2, &few, &a, &error));
    CHECK(a->image_tokens > 0 && a->n_ids > 0 && !same_text(a, "64"));
    MUST(pinhole_conversation_reset(c, &error));
    MUST(pinhole_ask(c, parts + 1, 1, &few, &a, &error));
    CHECK(same_text(a, "there is no display"));
    pinhole_conversation_close(c);
    pinhole_session_close(s);
    pinhole_model_close(m);
}

static void texts(const pinhole_model *m) {
    int32_t       ids[64], few[2];
    char          text[128], part[4];
    size_t        n, n_few, n_text;
    pinhole_error error;
    MUST(pinhole_tokenize(m, "the needle is at 42", PINHOLE_WHOLE, 0, ids, 64, &n, &error));
    CHECK(n > 2 && n < 64);
    MUST(pinhole_tokenize(m, "the needle is at 42", 19, 0, few, 2, &n_few, &error));
    CHECK(n_few == n && few[0] == ids[0] && few[1] == ids[1]);
    MUST(pinhole_detokenize(m, ids, n, 1, text, sizeof text, &n_text, &error));
    CHECK(n_text == 19 && !strcmp(text, "the needle is at 42"));
    MUST(pinhole_detokenize(m, ids, n, 1, part, sizeof part, &n_text, &error));
    CHECK(n_text == 19 && !strcmp(part, "the"));
    MUST(pinhole_detokenize(m, ids, n, 1, NULL, 0, &n_text, &error));
    CHECK(n_text == 19);
    MUST(pinhole_tokenize(m, NULL, 0, 0, NULL, 0, &n, &error));
    CHECK(n == 0);
}

static void pictures(const pinhole_model *m, const unsigned char *picture, size_t n) {
    pinhole_tiles          *t, *only;
    pinhole_error           error;
    pinhole_picture_options small = {.size = sizeof small, .pixels_max = 16},
                            keep = {.size = sizeof keep, .keep_u8 = 1};
    MUST(pinhole_prepare(m, picture, n, &keep, &t, &error));
    MUST(pinhole_measure(m, picture, n, NULL, &only, &error));
    CHECK(t->pixels && t->u8 && !only->pixels && !only->u8);
    CHECK(t->n_tiles == only->n_tiles && t->width == only->width && t->n_tokens == only->n_tokens);
    CHECK(t->n_tokens > 0 && t->picture_width > 0 && only->picture_height == t->picture_height);
    pinhole_tiles_close(t);
    pinhole_tiles_close(only);
    CHECK(pinhole_measure(m, picture, n, &small, &t, &error) == PINHOLE_ELIMIT && !t);
    CHECK(pinhole_prepare(m, picture, 10, NULL, &t, &error) == PINHOLE_EFORMAT && !t);
}

static int count(void *arg, const char *bytes, size_t n) {
    (void)bytes;
    *(size_t *)arg += n;
    return 0;
}

static int refuse(void *arg, const char *bytes, size_t n) {
    return count(arg, bytes, n), 1;
}

static void facts(const pinhole_model *m) {
    pinhole_model_facts f = {.size = sizeof f};
    pinhole_error       error;
    size_t              n = 0;
    char                version[32];
    MUST(pinhole_model_describe(m, &f, &error));
    CHECK(!strcmp(f.family, "llava") && !strcmp(f.text_family, "llama") &&
          !strcmp(f.container, "safetensors"));
    CHECK(f.has_vision && f.processor && f.context > 0 && f.vocabulary > 0 && f.weight_bytes > 1000000);
    MUST(pinhole_model_graph(m, "vision", count, &n, &error));
    CHECK(n > 1000);
    CHECK(pinhole_model_graph(m, "vision", refuse, &n, &error) == PINHOLE_ECANCEL);
    CHECK(pinhole_model_graph(m, "audio", count, &n, &error) == PINHOLE_EUSAGE);
    snprintf(version, sizeof version, "%d.%d.%d", PINHOLE_VERSION_MAJOR, PINHOLE_VERSION_MINOR,
             PINHOLE_VERSION_PATCH);
    CHECK(!strcmp(version, pinhole_version()));
}

/* A bundle opens as any model; one with a wrong weight only when it is trusted. */
static void bundles(void) {
    static char                 bytes[1 << 20];
    char                        path[] = "/tmp/ph-api-XXXXXX";
    const pinhole_model_options trusting = {.size = sizeof trusting, .trust = 1};
    pinhole_model              *m;
    pinhole_model_facts         f = {.size = sizeof f};
    pinhole_error               error;
    FILE                       *from = fopen(BUNDLE, "rb");
    int                         to = mkstemp(path);
    CHECK(from && to >= 0);
    size_t n = from ? fread(bytes, 1, sizeof bytes, from) : 0;
    MUST(pinhole_model_open(&m, BUNDLE, NULL, &error));
    MUST(pinhole_model_describe(m, &f, &error));
    CHECK(!strcmp(f.container, "bundle") && f.has_vision);
    pinhole_model_close(m);
    bytes[n / 2] ^= 1;
    CHECK(n > 100000 && write(to, bytes, n) == (ssize_t)n);
    CHECK(pinhole_model_open(&m, path, NULL, &error) == PINHOLE_EFORMAT && !m);
    MUST(pinhole_model_open(&m, path, &trusting, &error));
    pinhole_model_close(m);
    if (from) fclose(from);
    close(to);
    unlink(path);
}

int main(void) {
    pinhole_model        *m;
    pinhole_session      *s;
    pinhole_conversation *c;
    pinhole_error         error;
    size_t                n;
    unsigned char        *picture = read_file(PICTURE, &n);
    bundles();
    MUST(pinhole_model_open(&m, MODEL, NULL, &error));
    MUST(pinhole_session_open(&s, m, NULL, &error));
    MUST(pinhole_conversation_open(&c, s, &error));
    facts(m);
    texts(m);
    pictures(m, picture, n);
    ask_and_hear(c, picture, n);
    ask_again(c);
    fail_and_go_on(c, picture, n);
    stop_in_time(c, picture, n);
    draw(c, picture, n);
    inject(picture, n);
    other_ways(c, picture, n);
    pinhole_conversation_close(c);
    pinhole_session_close(s);
    pinhole_model_close(m);
    free(picture);
    return sum();
}
