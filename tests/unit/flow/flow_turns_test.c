/* flow_turns_test.c - conversations with pictures in more than one turn, and several in one: as if all had
 * been said at once, for every family that stands in the reference set. */
#include "tests/unit/flow/flow_help.h"

#include "image/image.h"

#include <string.h>

static const char *const three[] = {"scene.png", "odd_aspect.png", "second.png", NULL};

/* One picture and a question; an answer; then two pictures and a question. */
static void begin(fh_talk *t) {
    fh_ask(t, three, "What is in the image?");
    t->message[0].parts = &t->part[0][2];
    t->message[0].n_parts = 2;
    t->q.n_pictures = 1;
    t->q.answer_max = 4;
}

static void go_on(fh_talk *t) {
    static const char text[] = "And what do these two have in common?";
    fh_add(t, "assistant", "A house.");
    t->part[2][0] = t->part[2][1] = (ph_chat_part){0};
    t->part[2][2] = (ph_chat_part){.text = text, .n = sizeof text - 1};
    t->message[2] = (ph_chat_message){.role = "user", .parts = t->part[2], .n_parts = 3};
    t->q.n_messages = 3;
    t->q.n_pictures = 3;
}

/* Axes of every row by the definition (arXiv:2409.12191 §2.1), from the pictures' sizes. */
static void check_axes(const ph_model *m, const ph_turn *t, const fh_talk *talk, const char *what) {
    size_t         n, picture = 0;
    const int32_t *id = ph_turn_prompt_ids(t, &n);
    const int32_t(*p)[3] = ph_turn_positions(t);
    int32_t at = 0;
    int     wrong = 0;
    for (size_t i = 0; i < n;) {
        if (id[i] != m->spec.image_token) {
            wrong += p[i][0] != at || p[i][1] != at || p[i][2] != at;
            i++, at++;
            continue;
        }
        ph_image_info     info = {0};
        ph_tile_layout    l = {0};
        ph_err            e = {0};
        const ph_picture *file = &talk->picture[picture++];
        CHECK(picture <= talk->q.n_pictures);
        if (picture > talk->q.n_pictures) return;
        if (ph_image_measure(&info, file->bytes, file->n, NULL, &e) ||
            ph_recipe_layout(&l, &m->recipe, info.width, info.height, &e))
            fh_say(&e);
        int32_t high = l.grid_h / m->spec.packed.merge, wide = l.grid_w / m->spec.packed.merge;
        for (int32_t k = 0; k < high * wide && i < n; k++, i++)
            wrong += id[i] != m->spec.image_token || p[i][0] != at || p[i][1] != at + k / wide ||
                     p[i][2] != at + k % wide;
        at += high > wide ? high : wide;
    }
    CHECK_SAY(!wrong && picture == talk->q.n_pictures, "%s: %d rows stand elsewhere, %zu pictures", what,
              wrong, picture);
    at += talk->q.answer_max - 1; /* the last id of the answer has not been run */
    CHECK_SAY(ph_turn_next_position(t) == at, "%s: the answer ends at %d, not %d", what,
              ph_turn_next_position(t), at);
}

static void drive(ph_turn *t, const fh_talk *talk, fh_answer *out, const char *what) {
    ph_err e = {0};
    if (!fh_drive(t, talk, out, &e)) return;
    CHECK_SAY(0, "%s: %s", what, e.msg);
}

static void turns_of(const char *path, int is_cached) {
    fh_talk     talk;
    fh_answer   first = {0}, second = {0}, fresh = {0}, alone = {0};
    ph_model   *m = fh_model(path);
    ph_session *s =
        fh_session(m, &(ph_session_options){.threads = 2, .chunk = 41, .tiles = 3, .sequences = 2});
    ph_turn *t = fh_turn(s), *other = fh_turn(s);
    if (t && other) {
        begin(&talk);
        drive(t, &talk, &first, path);
        if (m->spec.packed.merge) check_axes(m, t, &talk, path);
        go_on(&talk);
        drive(t, &talk, &second, path);
        if (m->spec.packed.merge) check_axes(m, t, &talk, path);
        drive(other, &talk, &fresh, path);
        if (m->spec.packed.merge) check_axes(m, other, &talk, path);
        fh_same(&second, &fresh, path);
        CHECK_SAY(!fresh.cached && second.image > 2 * first.image / 3, "%s: %d of %d tokens are of pictures",
                  path, second.image, second.prompt);
        if (is_cached)
            CHECK_SAY(second.cached >= first.prompt - 8 && second.cached < second.prompt,
                      "%s: %d rows cached of a first prompt of %d", path, second.cached, first.prompt);
        /* Pictures in another order are another question. */
        ph_picture p = talk.picture[1];
        talk.picture[1] = talk.picture[2];
        talk.picture[2] = p;
        drive(other, &talk, &alone, path);
        CHECK_SAY(alone.n_logits != fresh.n_logits ||
                      memcmp(alone.logits, fresh.logits, fresh.n_logits * sizeof *fresh.logits),
                  "%s: two pictures in another order make no difference", path);
        fh_close(&talk);
    }
    fh_forget(&first);
    fh_forget(&second);
    fh_forget(&fresh);
    fh_forget(&alone);
    ph_turn_close(t);
    ph_turn_close(other);
    ph_session_close(s);
    ph_model_close(m);
}

#define SET "tests/golden/set/models/"

void test_turns_tiles(void) {
    turns_of(FH_LLAVA, 1);
    turns_of(FH_IDEFICS3, 1);
    turns_of(SET "vlm_gemma3", 1);
    turns_of(SET "vlm_internvl", 1);
    turns_of(SET "vlm_llava_next", 1);
    turns_of(SET "vlm_llava_siglip", 1);
}

void test_turns_packed(void) {
    turns_of(FH_QWEN2VL, 1);
    turns_of(FH_QWEN25VL, 1);
}

void test_turns_cross(void) {
    turns_of(FH_MLLAMA, 0);
    turns_of(FH_IDEFICS, 0);
}

/* A budget is kept by a turn and told, in both directions; what cannot be kept opens no session. */
void test_turns_budget(void) {
    fh_talk     talk;
    fh_answer   a = {0};
    ph_err      e = {0};
    ph_session *s = NULL;
    ph_model   *m = fh_model(FH_QWEN2VL);
    s = fh_session(m, &(ph_session_options){.threads = 1, .image_min_tokens = 20, .image_max_tokens = 24});
    ph_turn *t = fh_turn(s);
    if (t) {
        begin(&talk);
        go_on(&talk);
        drive(t, &talk, &a, "budget");
        CHECK_SAY(a.image >= 60 && a.image <= 72, "%d tokens of three pictures", a.image);
        fh_close(&talk);
    }
    fh_forget(&a);
    ph_turn_close(t);
    ph_session_close(s);
    ph_model_close(m);
    m = fh_model(FH_LLAVA);
    const ph_session_options o = {.threads = 1, .image_max_tokens = 15};
    ph_plan                  plan;
    CHECK(m && ph_session_open(&s, m, &o, &e) == PH_EUSAGE && strstr(e.msg, "permitted are 16 and above"));
    CHECK(m && ph_session_plan(m, &o, &plan, &e) == PH_EUSAGE);
    ph_model_close(m);
}
