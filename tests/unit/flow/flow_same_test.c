/* flow_same_test.c - an answer depends on the question alone: not on threads, chunks, tiles at a time, or
 * who is answered beside it; to the last bit of every logit, with every type of the cache. */
#include "tests/unit/flow/flow_help.h"

#include "formats/safetensors.h"

#include <string.h>

static const char *const scene[] = {"scene.png", NULL}, *const odd[] = {"odd_aspect.png", NULL},
                         *const two[] = {"second.png", "rgba.png", NULL},
                         *const both[] = {"scene.png", "second.png", NULL};

static const ph_dtype caches[] = {PH_F32, PH_F16, PH_BF16, PH_Q8_0, PH_Q4_1};
enum { N_CACHES = sizeof caches / sizeof *caches };

static const int threads_of[] = {1, 2, 4}, chunk_of[] = {16, 512, 1, 7, 33};

static void answer_with(const ph_model *m, ph_session_options o, fh_talk *talk, fh_answer *out) {
    ph_err      e = {0};
    ph_session *s = fh_session(m, &o);
    ph_turn    *t = fh_turn(s);
    if (t && fh_drive(t, talk, out, &e)) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
}

static void vary(const ph_model *m, ph_dtype kv, fh_talk *talk, const char *name) {
    fh_answer base = {0}, other = {0};
    char      what[128];
    answer_with(m, (ph_session_options){.threads = 1, .kv_dtype = kv}, talk, &base);
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 5; j++) {
            if (i != j % 3 && j > 1)
                continue; /* 16 and 512 with each count of threads, the odd ones with one */
            ph_session_options o = {.threads = threads_of[i], .chunk = chunk_of[j], .kv_dtype = kv};
            o.tiles = 1 + (int)j;
            o.patches = 1 + 40 * (int)j; /* one picture a run, or more */
            snprintf(what, sizeof what, "%s, %s, %d threads, chunk %d, %d tiles", name, ph_dtype_name(kv),
                     o.threads, o.chunk, o.tiles);
            answer_with(m, o, talk, &other);
            fh_same(&base, &other, what);
            fh_forget(&other);
        }
    fh_forget(&base);
}

static void same_alone(const char *path, const char *const *pictures, const char *text) {
    ph_model *m = fh_model(path);
    fh_talk   talk;
    fh_ask(&talk, pictures, text);
    for (int i = 0; m && i < N_CACHES; i++) vary(m, caches[i], &talk, path);
    fh_close(&talk);
    ph_model_close(m);
}

void test_same_llava(void) {
    same_alone(FH_LLAVA, two, "Describe the colours and the shapes.");
}
void test_same_idefics3(void) {
    same_alone(FH_IDEFICS3, scene, "What is in the image?");
}
void test_same_qwen25vl(void) {
    same_alone(FH_QWEN25VL, two, "Describe the colours and the shapes.");
}
void test_same_mllama(void) {
    same_alone(FH_MLLAMA, two, "Describe the colours and the shapes.");
}
void test_same_idefics(void) {
    same_alone(FH_IDEFICS, two, "Describe the colours and the shapes.");
}
void test_same_text(void) {
    same_alone(FH_SMOLLM2, NULL,
               "How many windows does the house have, and is there a red kite above the hill?");
}

/* Four turns, beginning apart or together, against each of them alone in a session of its own. */
static void beside(const ph_model *m, ph_dtype kv, fh_talk *const *talk, size_t n, int chunk, int apart) {
    ph_err             e = {0};
    ph_session_options o = {.threads = 2, .chunk = chunk, .tiles = 3, .sequences = (int)n, .kv_dtype = kv};
    ph_session        *s = fh_session(m, &o);
    ph_turn           *t[4] = {NULL};
    fh_answer          alone[4], among[4];
    char               what[96];
    memset(among, 0, sizeof among);
    for (size_t i = 0; i < n; i++) {
        answer_with(m, (ph_session_options){.threads = 1, .kv_dtype = kv}, talk[i], &alone[i]);
        t[i] = fh_turn(s);
    }
    if (t[n - 1] && fh_drive_many(t, talk, among, n, apart, &e)) fh_say(&e);
    for (size_t i = 0; i < n; i++) {
        snprintf(what, sizeof what, "turn %zu of %zu, %s, chunk %d, %d walks apart", i, n, ph_dtype_name(kv),
                 chunk, apart);
        fh_same(&alone[i], &among[i], what);
        fh_forget(&alone[i]);
        fh_forget(&among[i]);
        ph_turn_close(t[i]);
    }
    ph_session_close(s);
}

static void same_beside(const char *path, int has_vision) {
    static const char *const text[4] = {"What is in the image?",
                                        "Describe the colours and the shapes, please.",
                                        "Is there a red kite above the hill? Answer yes or no.", "?"};
    const char *const *const pictures[4] = {scene, two, NULL, odd};
    ph_model                *m = fh_model(path);
    fh_talk                  talk[4], *all[4];
    for (size_t i = 0; i < 4; i++) {
        fh_ask(&talk[i], has_vision ? pictures[i] : NULL, text[i]);
        talk[i].q.answer_max = 6 + 3 * (int)i;
        all[i] = &talk[i];
    }
    if (m) {
        beside(m, PH_F32, all, 4, 0, 0);
        beside(m, PH_F32, all, 4, 23, 5);
        beside(m, PH_F16, all, 4, 16, 9);
        beside(m, PH_Q8_0, all, 4, 23, 5);
        beside(m, PH_Q4_1, all, 4, 0, 0);
        beside(m, PH_Q4_1, all, 4, 67, 5);
        beside(m, PH_Q4_1, all, 4, 16, 9);
    }
    for (size_t i = 0; i < 4; i++) fh_close(&talk[i]);
    ph_model_close(m);
}

void test_same_beside_llava(void) {
    same_beside(FH_LLAVA, 1);
}
void test_same_beside_idefics3(void) {
    same_beside(FH_IDEFICS3, 1);
}
void test_same_beside_qwen25vl(void) {
    same_beside(FH_QWEN25VL, 1);
}
void test_same_beside_mllama(void) {
    same_beside(FH_MLLAMA, 1);
}
void test_same_beside_text(void) {
    same_beside(FH_SMOLLM2, 0);
}

/* And it is the reference's answer. */
static void like_reference(const char *path, const char *const *pictures, const char *text,
                           const char *golden) {
    ph_err         e = {0};
    ph_arena       a;
    ph_safetensors file;
    ph_model      *m = fh_model(path);
    fh_talk        talk;
    fh_answer      got = {0};
    fh_ask(&talk, pictures, text);
    talk.q.answer_max = 24;
    if (m)
        answer_with(m, (ph_session_options){.threads = 2, .chunk = 19, .alpha = PH_ALPHA_DROP}, &talk, &got);
    ph_rc rc = ph_arena_open_growing(&a, 4096, &e);
    if (!rc) rc = ph_safetensors_open(&file, golden, &a, &e);
    if (rc) {
        fh_say(&e);
    } else {
        const ph_weight *ids = ph_weights_find(&file.weights, "greedy_ids");
        CHECK(ids && got.n == 24 && !memcmp(ids->bytes, got.id, 24 * sizeof *got.id));
        ph_safetensors_close(&file);
    }
    ph_arena_close(&a);
    fh_forget(&got);
    fh_close(&talk);
    ph_model_close(m);
}

void test_same_as_reference(void) {
    like_reference(FH_LLAVA, scene, "What is in the image?", FH_LLAVA "/golden/scene.safetensors");
    like_reference(FH_IDEFICS3, scene, "What is in the image?", FH_IDEFICS3 "/golden/scene.safetensors");
    like_reference(FH_IDEFICS3, odd, "Describe the colours and the shapes.",
                   FH_IDEFICS3 "/golden/odd_aspect.safetensors");
    like_reference(FH_QWEN2VL, scene, "What is in the image?", FH_QWEN2VL "/golden/scene.safetensors");
    like_reference(FH_QWEN25VL, both, "Describe the colours and the shapes.",
                   FH_QWEN25VL "/golden/two_images.safetensors");
    like_reference(FH_QWEN25VL, odd, "Describe the colours and the shapes.",
                   FH_QWEN25VL "/golden/odd_aspect.safetensors");
}
