/* flow_cost_test.c - what a token costs: no malloc, and at most six barriers a decoder layer. */
#include "tests/unit/flow/flow_help.h"

#include "flow/session.h"

/* Embedding, visual rows, rotation, the choice of rows, final norm and head: work around the layers. */
enum { AROUND = 6, A_LAYER = 6 };

static const char *const scene[] = {"scene.png", NULL};

static void no_malloc(const char *path, const char *const *pictures, int threads, ph_dtype kv) {
    static const char *const stop[] = {"never said", "nor this"};
    ph_err                   e = {0};
    ph_model                *m = fh_model(path);
    ph_session              *s = fh_session(m, &(ph_session_options){.threads = threads, .kv_dtype = kv});
    ph_turn                 *t = fh_turn(s);
    fh_talk                  talk;
    fh_ask(&talk, pictures, "What is in the image? Describe every shape and every colour in it.");
    talk.q.answer_max = 80; /* over a page of the cache */
    talk.q.sampling = (ph_sampling){
        .temperature = 0.8, .top_k = 40, .top_p = 0.9, .min_p = 0.01, .repeat_penalty = 1.1, .seed = 3};
    talk.q.stop = stop;
    talk.q.n_stop = 2;
    ph_rc rc = t ? ph_turn_begin(t, &talk.q, &e) : PH_EBUG;
    while (!rc && ph_turn_stage(t) != PH_STAGE_sample) rc = ph_turn_walk(&t, 1, &e);
    ut_hold_malloc(1);
    while (!rc && ph_turn_stage(t) != PH_STAGE_done) rc = ph_turn_walk(&t, 1, &e);
    ut_hold_malloc(0);
    if (rc) fh_say(&e);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    fh_close(&talk);
}

void test_token_without_malloc(void) {
    if (!ut_can_hold_malloc()) {
        printf("  a sanitizer has the allocator: nothing tried\n");
        return;
    }
    no_malloc(FH_SMOLLM2, NULL, 1, PH_F32);
    no_malloc(FH_SMOLLM2, NULL, 4, PH_F16);
    no_malloc(FH_SMOLLM2, NULL, 4, PH_Q8_0);
    no_malloc(FH_SMOLLM2, NULL, 2, PH_Q4_1);
    no_malloc(FH_LLAVA, scene, 2, PH_Q4_1);
    no_malloc(FH_LLAVA, scene, 2, PH_F32);
    no_malloc(FH_IDEFICS3, scene, 2, PH_F32);
    no_malloc(FH_QWEN25VL, scene, 2, PH_F32);
}

static void count(const char *path, const char *const *pictures, int threads) {
    ph_err      e = {0};
    ph_model   *m = fh_model(path);
    ph_session *s = fh_session(m, &(ph_session_options){.threads = threads});
    ph_turn    *t = fh_turn(s);
    fh_talk     talk;
    uint64_t    layers = m ? (uint64_t)m->spec.text.n_layers : 0, most[PH_N_STAGES] = {0};
    /* Layers that attend to pictures between those of the decoder are layers of their own. */
    for (int i = 0; m && i < m->spec.text.n_layers; i++)
        layers += m->spec.text.cross_at[i] == PH_CROSS_BEFORE;
    fh_ask(&talk, pictures, "What is in the image? Describe every shape and every colour in it.");
    ph_rc rc = t ? ph_turn_begin(t, &talk.q, &e) : PH_EBUG;
    while (!rc && ph_turn_stage(t) != PH_STAGE_done) {
        ph_stage stage = ph_turn_stage(t);
        uint64_t before = ph_session_barriers(s);
        rc = ph_turn_walk(&t, 1, &e);
        uint64_t spent = ph_session_barriers(s) - before;
        if (spent > most[stage]) most[stage] = spent;
    }
    if (rc) fh_say(&e);
    CHECK_SAY(most[PH_STAGE_prefill] <= A_LAYER * layers + AROUND && most[PH_STAGE_prefill] >= layers,
              "%s: %llu barriers in prefill for %llu layers", path,
              (unsigned long long)most[PH_STAGE_prefill], (unsigned long long)layers);
    CHECK_SAY(most[PH_STAGE_step] <= A_LAYER * layers + AROUND && most[PH_STAGE_step],
              "%s: %llu barriers in a step for %llu layers", path, (unsigned long long)most[PH_STAGE_step],
              (unsigned long long)layers);
    CHECK(!most[PH_STAGE_sample] && !most[PH_STAGE_speak] && !most[PH_STAGE_splice]);
    printf("  %-48s %llu layers: prefill %llu, step %llu barriers\n", path, (unsigned long long)layers,
           (unsigned long long)most[PH_STAGE_prefill], (unsigned long long)most[PH_STAGE_step]);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    fh_close(&talk);
}

void test_barriers_a_layer(void) {
    count(FH_SMOLLM2, NULL, 2);
    count(FH_LLAVA, scene, 4);
    count(FH_IDEFICS3, scene, 2);
    count(FH_QWEN25VL, scene, 2);
    count(FH_GEMMA3, scene, 2);
    count(FH_MLLAMA, scene, 2);
    count(FH_IDEFICS, scene, 2);
    count(FH_PANEL, scene, 2);
}
