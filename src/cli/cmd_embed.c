/* cmd_embed.c - vectors of texts and pictures, and how well they agree. */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    ph_cli   cli;
    ph_texts texts;
    ph_turn *turn;
    int      d;
    float   *text, *image; /* [n, d] */
} job;

static ph_rc embed_all(job *j, ph_err *err) {
    for (size_t i = 0; i < j->texts.n; i++)
        PH_TRY(
            ph_embed_text(j->turn, j->texts.at[i], strlen(j->texts.at[i]), j->text + i * (size_t)j->d, err));
    for (size_t i = 0; i < j->cli.images.n; i++) {
        ph_rc rc = ph_embed_picture(j->turn, &j->cli.picture[i], j->image + i * (size_t)j->d, err);
        if (rc) return ph_note(err, rc, "in the picture %s", j->cli.images.at[i]);
    }
    return PH_OK;
}

static json_t *vector(const float *x, int d) {
    json_t *list = json_array();
    for (int i = 0; i < d; i++) json_array_append_new(list, json_real((double)x[i]));
    return list;
}

static json_t *items(const ph_texts *names, const char *key, const float *x, int d) {
    json_t *list = json_array();
    for (size_t i = 0; i < names->n; i++)
        json_array_append_new(list,
                              json_pack("{so so}", key, ph_cli_text_json(names->at[i], strlen(names->at[i])),
                                        "vector", vector(x + i * (size_t)d, d)));
    return list;
}

/* Rows of cosines [n] and, between pictures and texts, of scores. */
static json_t *rows(const job *j, const float *a, size_t n_a, const float *b, size_t n_b, int is_score) {
    double  cosine[PH_TEXTS_MAX], score[PH_TEXTS_MAX];
    json_t *list = json_array();
    for (size_t i = 0; i < n_a; i++) {
        json_t *row = json_array();
        for (size_t k = 0; k < n_b; k++)
            cosine[k] = ph_embed_cosine(a + i * (size_t)j->d, b + k * (size_t)j->d, j->d);
        ph_embed_scores(j->cli.opened, cosine, n_b, score);
        for (size_t k = 0; k < n_b; k++)
            json_array_append_new(row, json_real(is_score ? score[k] : cosine[k]));
        json_array_append_new(list, row);
    }
    return list;
}

static void print_json(const job *j) {
    size_t  n_texts = j->texts.n, n_images = j->cli.images.n;
    json_t *o = json_pack("{si so so}", "d", j->d, "images", items(&j->cli.images, "image", j->image, j->d),
                          "texts", items(&j->texts, "text", j->text, j->d));
    json_object_set_new(o, "cosine", rows(j, j->image, n_images, j->text, n_texts, 0));
    json_object_set_new(o, "score", rows(j, j->image, n_images, j->text, n_texts, 1));
    json_object_set_new(o, "image_cosine", rows(j, j->image, n_images, j->image, n_images, 0));
    json_object_set_new(o, "text_cosine", rows(j, j->text, n_texts, j->text, n_texts, 0));
    ph_cli_print_json(o);
}

/* One line a pair: the cosine, the score where a picture meets a text, both names. */
static void print_pairs(const job *j) {
    double cosine[PH_TEXTS_MAX], score[PH_TEXTS_MAX];
    for (size_t i = 0; i < j->cli.images.n; i++) {
        for (size_t k = 0; k < j->texts.n; k++)
            cosine[k] = ph_embed_cosine(j->image + i * (size_t)j->d, j->text + k * (size_t)j->d, j->d);
        ph_embed_scores(j->cli.opened, cosine, j->texts.n, score);
        for (size_t k = 0; k < j->texts.n; k++)
            printf("%8.5f  %8.5f  %s  %s\n", cosine[k], score[k], j->cli.images.at[i], j->texts.at[k]);
    }
    if (j->cli.images.n && j->texts.n) return;
    const float    *x = j->texts.n ? j->text : j->image;
    const ph_texts *names = j->texts.n ? &j->texts : &j->cli.images;
    for (size_t i = 0; i < names->n; i++)
        for (size_t k = i + 1; k < names->n; k++)
            printf("%8.5f  %s  %s\n", ph_embed_cosine(x + i * (size_t)j->d, x + k * (size_t)j->d, j->d),
                   names->at[i], names->at[k]);
    if (names->n > 1) return;
    for (int i = 0; i < j->d; i++) printf("%.7g%c", (double)x[i], i + 1 < j->d ? ' ' : '\n');
}

static ph_rc work(job *j, ph_err *err) {
    PH_TRY(ph_cli_settle(&j->cli, err));
    PH_TRY(ph_cli_open_model(&j->cli, err));
    if (!j->cli.opened->spec.embed.d)
        return PH_FAIL(err, PH_EUNSUP,
                       "%s answers, it gives no vectors of texts and pictures: use pinhole run",
                       j->cli.opened->source.path);
    PH_TRY(ph_cli_open_session(&j->cli, err));
    PH_TRY(ph_cli_open_images(&j->cli, err));
    PH_TRY(ph_turn_open(&j->turn, j->cli.running, err));
    j->d = ph_session_embedding(j->cli.running);
    j->text = calloc(j->texts.n + 1, (size_t)j->d * sizeof *j->text);
    j->image = calloc(j->cli.images.n + 1, (size_t)j->d * sizeof *j->image);
    if (!j->text || !j->image) return PH_FAIL(err, PH_ENOMEM, "vectors of %d numbers", j->d);
    PH_TRY(embed_all(j, err));
    if (j->cli.is_json)
        print_json(j);
    else
        print_pairs(j);
    return PH_OK;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX], session[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--image", 'i', "FILE", "a picture; repeat for more", PH_OPTION_TEXTS, &j.cli.images},
        {"--prompt", 'p', "TEXT", "a text; repeat for more", PH_OPTION_TEXTS, &j.texts},
        {0},
    };
    int is_over;
    ph_cli_init(&j.cli);
    ph_cli_model_options(&j.cli, model);
    ph_cli_session_options(&j.cli, session);
    ph_options o = {.group = {own, model, session}, .n_groups = 3};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (o.rest.n)
        return PH_FAIL(err, PH_EUSAGE, "'%s' stands alone: give texts with -p and pictures with --image",
                       o.rest.at[0]);
    if (!j.texts.n && !j.cli.images.n)
        return PH_FAIL(err, PH_EUSAGE, "give texts with -p, pictures with --image, or both");
    ph_rc rc = work(&j, err);
    ph_turn_close(j.turn);
    ph_cli_close(&j.cli);
    free(j.text);
    free(j.image);
    return rc;
}

const ph_command ph_command_embed = {
    .name = "embed",
    .summary = "vectors of texts and pictures, and how well they agree",
    .usage = "-m MODEL [--image FILE]... [-p TEXT]...",
    .about =
        "With a dual encoder every text and every picture becomes one vector of length 1. Prints the\n"
        "cosine of each picture with each text, and the score that the model makes of it: the share among\n"
        "the texts given (softmax), or whether the two belong together (sigmoid). Without pictures, or\n"
        "without texts: cosines among what is given. --json gives the vectors too.\n\n"
        "  pinhole embed -m dual-encoder/ --image a.jpg -p \"a red kite\" -p \"two cups\"",
    .run = run,
};
