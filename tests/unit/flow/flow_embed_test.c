/* flow_embed_test.c - vectors of dual encoders: what they may depend on, and what is refused. */
#include "tests/unit/flow/flow_help.h"

#include "text/canonical.h"

#include <math.h>
#include <string.h>

enum { D_MAX = 128 };

static const char *const texts[] = {"a red kite above a green hill", "two cups on the table", "x", ""};

static int text_of(ph_turn *t, const char *text, float *out) {
    ph_err e = {0};
    if (!ph_embed_text(t, text, strlen(text), out, &e)) return 1;
    fh_say(&e);
    return 0;
}

static int picture_of(ph_turn *t, const char *name, float *out) {
    ph_err  e = {0};
    ph_file f;
    char    path[256];
    snprintf(path, sizeof path, FH_IMAGES "%s", name);
    ph_rc rc = ph_file_open(&f, path, &e);
    if (!rc) {
        const ph_picture p = {.bytes = f.bytes, .n = f.n, .name = name};
        rc = ph_embed_picture(t, &p, out, &e);
        ph_file_close(&f);
    }
    if (rc) fh_say(&e);
    return !rc;
}

/* Same bits after other texts and pictures, on another number of threads, with another chunk; length 1. */
static void depends_on_itself(const char *path) {
    float       first[4][D_MAX], again[D_MAX], picture[D_MAX];
    ph_model   *m = fh_model(path);
    ph_session *s = m ? fh_session(m, &(ph_session_options){.threads = 1}) : NULL;
    ph_session *o = m ? fh_session(m, &(ph_session_options){.threads = 3, .chunk = 5, .tiles = 1}) : NULL;
    ph_turn    *t = s ? fh_turn(s) : NULL, *u = o ? fh_turn(o) : NULL;
    if (t && u) {
        int    d = ph_session_embedding(s);
        size_t bytes = (size_t)d * sizeof(float);
        CHECK(d > 0 && d <= D_MAX);
        for (int i = 0; i < 4; i++) CHECK(text_of(t, texts[i], first[i]));
        CHECK(picture_of(t, "scene.png", picture));
        for (int i = 3; i >= 0; i--) {
            double sum = 0;
            for (int k = 0; k < d; k++) sum += (double)first[i][k] * (double)first[i][k];
            CHECK_SAY(fabs(sum - 1) < 1e-5, "text %d: length %g", i, sqrt(sum));
            CHECK(text_of(t, texts[i], again));
            CHECK_SAY(!memcmp(again, first[i], bytes), "%s: text %d depends on the order", path, i);
            CHECK(text_of(u, texts[i], again));
            CHECK_SAY(!memcmp(again, first[i], bytes), "%s: text %d depends on threads or chunk", path, i);
        }
        CHECK(picture_of(u, "gray8.png", again));
        CHECK(memcmp(again, picture, bytes) != 0);
        CHECK(picture_of(u, "scene.png", again));
        CHECK_SAY(!memcmp(again, picture, bytes), "%s: a picture depends on the one before", path);
        CHECK(memcmp(first[0], first[1], bytes) != 0);
    }
    ph_turn_close(t);
    ph_turn_close(u);
    ph_session_close(s);
    ph_session_close(o);
    ph_model_close(m);
}

void test_embed_clip(void) {
    depends_on_itself("tests/golden/set/models/align_clip");
}
void test_embed_siglip(void) {
    depends_on_itself("tests/golden/set/models/align_siglip");
}

/* A dual encoder answers nothing, and a model that answers gives no vectors; long texts are refused. */
void test_embed_refused(void) {
    float       out[D_MAX];
    char        text[4096];
    ph_err      e = {0};
    ph_model   *m = fh_model("tests/golden/set/models/align_clip"), *l = fh_model(FH_SMOLLM2);
    ph_session *s = m ? fh_session(m, NULL) : NULL, *n = l ? fh_session(l, NULL) : NULL;
    ph_turn    *t = s ? fh_turn(s) : NULL, *u = n ? fh_turn(n) : NULL;
    if (t && u) {
        const ph_question q = {.raw = "a kite", .answer_max = 3};
        CHECK(ph_turn_begin(t, &q, &e) == PH_EUNSUP);
        CHECK(strstr(e.msg, "embed"));
        CHECK(!ph_session_embedding(n));
        CHECK(ph_embed_text(u, "a kite", 6, out, &e) == PH_EUNSUP);
        for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 ? ' ' : 'a';
        CHECK(ph_embed_text(t, text, sizeof text, out, &e) == PH_ECONTEXT);
        CHECK(text_of(t, "a kite", out)); /* the turn is as good as before */
        const ph_picture bad = {.bytes = (const uint8_t *)text, .n = sizeof text, .name = "no picture"};
        CHECK(ph_embed_picture(t, &bad, out, &e) != PH_OK);
        CHECK(picture_of(t, "tiny.png", out));
    }
    ph_turn_close(t);
    ph_turn_close(u);
    ph_session_close(s);
    ph_session_close(n);
    ph_model_close(m);
    ph_model_close(l);
}

/* Scores of one picture over texts: a softmax sums to one, a sigmoid knows each text alone. */
void test_embed_scores(void) {
    const double cosine[3] = {0.3, 0.1, -0.2};
    double       score[3], one;
    ph_model    *c = fh_model("tests/golden/set/models/align_clip"),
             *g = fh_model("tests/golden/set/models/align_siglip");
    if (c && g) {
        ph_embed_scores(c, cosine, 3, score);
        CHECK(fabs(score[0] + score[1] + score[2] - 1) < 1e-12 && score[0] > score[1] && score[1] > score[2]);
        ph_embed_scores(g, cosine, 3, score);
        ph_embed_scores(g, &cosine[1], 1, &one);
        CHECK(score[1] == one && score[0] > score[1]);
    }
    ph_model_close(c);
    ph_model_close(g);
}

void test_text_canonical(void) {
    static const struct {
        const char *from, *to;
    } rows[] = {
        {"A dog, and a cat!", "a dog and a cat"},
        {"  two \t cups\n", "two cups"},
        {"...", ""},
        {"don't_stop", "dontstop"},
        {"\xc3\x84"
         "bc \xe2\x80\x83 D",
         "\xc3\xa4"
         "bc d"},
        {"\xff"
         "A",
         "\xef\xbf\xbd"
         "a"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_bytes out = {0};
        ph_err   e = {0};
        CHECK(!ph_text_canonical(rows[i].from, strlen(rows[i].from), &out, &e));
        CHECK_SAY(out.n == strlen(rows[i].to) && (!out.n || !memcmp(out.at, rows[i].to, out.n)),
                  "row %zu: '%.*s'", i, (int)out.n, out.at ? (const char *)out.at : "");
        ph_bytes_close(&out);
    }
}
