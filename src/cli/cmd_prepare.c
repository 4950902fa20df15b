/* cmd_prepare.c - a picture's tiles, to compare with a trainer's. */
#include "cli/command.h"

#include "formats/container.h"
#include "formats/safetensors.h"

#include <stdio.h>
#include <string.h>

typedef struct job {
    ph_cli      cli;
    const char *out;
    ph_arena    arena;
    ph_pixels   pixels;
    ph_tiles    tiles;
    ph_recipe   recipe; /* within the budget */
} job;

static ph_rc prepare(job *j, const char *path, ph_err *err) {
    ph_session_options *s = &j->cli.session;
    ph_file             f;
    PH_TRY(ph_file_open(&f, path, err));
    const ph_image_options o = {.pixels_max = s->pixels_max, .alpha = s->alpha};
    ph_rc                  rc = ph_image_decode(&j->pixels, f.bytes, f.n, &o, &j->arena, err);
    ph_file_close(&f);
    if (rc) return ph_note(err, rc, "in the picture %s", path);
    return ph_recipe_run(&j->tiles, &j->recipe, &j->pixels, 1, &j->arena, err);
}

/* The tiles as the tower takes them, the same before normalising, and the decoded picture. */
static ph_rc save(const job *j, ph_err *err) {
    const ph_tile_layout *l = &j->tiles.layout;
    size_t                n = 3 * (size_t)l->n_tiles * (size_t)l->height * (size_t)l->width;
    ph_weight             w[] = {
                    {.name = "pixel_values",
                     .dtype = PH_F32,
                     .rank = 4,
                     .dim = {l->n_tiles, 3, l->height, l->width},
                     .bytes = (const uint8_t *)j->tiles.pixels,
                     .n_bytes = n * sizeof(float)},
                    {.name = "pixels_u8",
                     .dtype = PH_U8,
                     .rank = 4,
                     .dim = {l->n_tiles, l->height, l->width, 3},
                     .bytes = j->tiles.u8,
                     .n_bytes = n},
                    {.name = "decoded",
                     .dtype = PH_U8,
                     .rank = 3,
                     .dim = {j->pixels.height, j->pixels.width, 3},
                     .bytes = j->pixels.rgb,
                     .n_bytes = 3 * (size_t)j->pixels.width * (size_t)j->pixels.height},
    };
    if (l->n_patches) { /* patches that are packed have their pixels in a row */
        w[0].rank = 2;
        w[0].dim[0] = l->n_patches;
        w[0].dim[1] = (int64_t)(n / (size_t)l->n_patches);
    }
    return ph_safetensors_write(j->out, w, sizeof w / sizeof *w, err);
}

static void print(const job *j, const char *path) {
    const ph_tile_layout *l = &j->tiles.layout;
    int                   tokens = ph_spec_tokens(&j->cli.opened->spec, l);
    if (j->cli.is_json) {
        ph_cli_print_json(json_pack(
            "{si si si s[ii] s[ii] s[ii] si ss}", "tiles", l->n_tiles, "width", l->width, "height", l->height,
            "grid", l->rows, l->cols, "picture", l->image_width, l->image_height, "resized", l->resized_width,
            l->resized_height, "tokens", tokens, "processor", j->cli.opened->recipe.processor));
        return;
    }
    printf("%s: %d x %d pixels, upright\n", path, l->image_width, l->image_height);
    if (l->n_patches)
        printf("%d packed patches of %d x %d pixels, %d x %d of them", l->n_patches, l->patch, l->patch,
               l->grid_w, l->grid_h);
    else
        printf("%d tile%s of %d x %d pixels", l->n_tiles, l->n_tiles == 1 ? "" : "s", l->width, l->height);
    if (l->rows) printf(" (a grid of %d x %d and an overview)", l->rows, l->cols);
    printf(", %d visual tokens, as %s makes them\n", tokens, j->cli.opened->recipe.processor);
    if (j->out) printf("pixel_values, pixels_u8 and decoded are in %s\n", j->out);
}

static ph_rc work(job *j, const char *path, ph_err *err) {
    PH_TRY(ph_cli_settle(&j->cli, err));
    j->cli.is_shown_only = 1;
    PH_TRY(ph_cli_open_model(&j->cli, err));
    if (!j->cli.opened->vision)
        return PH_FAIL(err, PH_EUNSUP, "%s takes no pictures: it is a text model", j->cli.path);
    const char *const read[] = {j->cli.path, j->cli.mmproj, path, j->cli.template_path};
    PH_TRY(ph_container_may_write(j->out, read, 4, err));
    PH_TRY(ph_model_budget(j->cli.opened, j->cli.session.image_min_tokens, j->cli.session.image_max_tokens,
                           &j->recipe, err));
    PH_TRY(ph_arena_open_growing(&j->arena, 1 << 20, err));
    PH_TRY(prepare(j, path, err));
    if (j->out) PH_TRY(save(j, err));
    print(j, path);
    return PH_OK;
}

static ph_rc run(const ph_command *self, int argc, char **argv, ph_err *err) {
    static job      j;
    ph_option       model[PH_CLI_ROWS_MAX];
    const ph_option own[] = {
        {"--image", 'i', "FILE", "the picture; may also stand without --image", PH_OPTION_TEXTS,
         &j.cli.images},
        {"--out", 'o', "FILE", "write the pixels to a .safetensors file", PH_OPTION_TEXT, &j.out},
        {"--image-min-tokens", 0, "N", "a picture takes at least N tokens; refused where the model cannot",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &j.cli.session.image_min_tokens},
        {"--image-max-tokens", 0, "N", "a picture takes at most N tokens; refused where the model cannot",
         PH_OPTION_INT(0, PH_CLI_TOKENS_MAX), &j.cli.session.image_max_tokens},
        {"--alpha", 0, "HOW", "transparency: white (blended over white, default) or drop (as trainers do)",
         PH_OPTION_TEXT, &j.cli.alpha},
        {"--max-pixels", 0, "N", "refuse pictures with more pixels (100 million)",
         PH_OPTION_U64(0, INT32_MAX), &j.cli.max_pixels},
        {0},
    };
    int is_over;
    ph_cli_init(&j.cli);
    ph_cli_model_options(&j.cli, model);
    ph_options o = {.group = {own, model}, .n_groups = 2};
    PH_TRY(ph_command_options(self, &o, argc, argv, &is_over, err));
    if (is_over) return PH_OK;
    if (j.cli.images.n + o.rest.n != 1)
        return PH_FAIL(err, PH_EUSAGE, "one picture is prepared at a time; %zu were given",
                       j.cli.images.n + o.rest.n);
    ph_rc rc = work(&j, o.rest.n ? o.rest.at[0] : j.cli.images.at[0], err);
    ph_arena_close(&j.arena);
    j.cli.images.n = 0; /* never mapped */
    ph_cli_close(&j.cli);
    return rc;
}

const ph_command ph_command_prepare = {
    .name = "prepare",
    .summary = "the pixels that a model would see of a picture",
    .usage = "[-m MODEL] --image FILE [-o OUT.safetensors]",
    .about = "Decodes a picture, turns it upright, and makes the tiles that the model's trainer would have "
             "made of it:\n"
             "resized, cropped or split, normalised. With -o the tiles go to a safetensors file, to compare "
             "them.\n\n"
             "  pinhole prepare --image examples/panel1.png -o pixels.safetensors",
    .run = run,
};
