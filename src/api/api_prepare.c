/* api_prepare.c - what a model makes of a picture, without asking it anything. */
#include "api/api.h"

#include <stdlib.h>

/* The public part stands first: a pointer to one is a pointer to the other. */
typedef struct held {
    pinhole_tiles shown;
    ph_arena      arena; /* of the pixels */
} held;

static void show(held *t, const ph_model *m, const ph_tile_layout *l, const ph_tiles *made) {
    t->shown = (pinhole_tiles){.picture_width = l->image_width,
                               .picture_height = l->image_height,
                               .resized_width = l->resized_width,
                               .resized_height = l->resized_height,
                               .n_tiles = l->n_tiles,
                               .width = l->width,
                               .height = l->height,
                               .rows = l->rows,
                               .cols = l->cols,
                               .n_tokens = ph_spec_tokens(&m->spec, l),
                               .pixels = made->pixels,
                               .u8 = made->u8};
}

static ph_rc measure(held *t, const ph_model *m, const ph_recipe *r, const void *bytes, size_t n,
                     const ph_image_options *o, ph_err *err) {
    ph_image_info  info;
    ph_tile_layout layout;
    PH_TRY(ph_image_measure(&info, bytes, n, o, err));
    PH_TRY(ph_recipe_layout(&layout, r, info.width, info.height, err));
    show(t, m, &layout, &(ph_tiles){0});
    return PH_OK;
}

static ph_rc prepare(held *t, const ph_model *m, const ph_recipe *r, const void *bytes, size_t n,
                     const ph_image_options *o, int keep_u8, ph_err *err) {
    ph_arena  decoded;
    ph_pixels pixels;
    ph_tiles  made;
    PH_TRY(ph_arena_open_growing(&t->arena, 64 << 10, err));
    PH_TRY(ph_arena_open_growing(&decoded, 64 << 10, err));
    ph_rc rc = ph_image_decode(&pixels, bytes, n, o, &decoded, err);
    if (!rc) rc = ph_recipe_run(&made, r, &pixels, keep_u8, &t->arena, err);
    ph_arena_close(&decoded);
    if (!rc) show(t, m, &made.layout, &made);
    return rc;
}

static ph_rc open_tiles(const pinhole_model *model, const void *bytes, size_t n,
                        const pinhole_picture_options *options, int with_pixels, pinhole_tiles **out,
                        ph_err *err) {
    pinhole_picture_options o;
    ph_recipe               recipe;
    PH_TRY(ph_api_take(&o, sizeof o, options, "pinhole_picture_options", err));
    if (o.alpha != PINHOLE_ALPHA_WHITE && o.alpha != PINHOLE_ALPHA_DROP)
        return PH_FAIL(err, PH_EUSAGE, "pinhole_picture_options.alpha is %d, which is no pinhole_alpha",
                       o.alpha);
    const ph_image_options how = {.pixels_max = o.pixels_max,
                                  .alpha =
                                      o.alpha == PINHOLE_ALPHA_DROP ? PH_ALPHA_DROP : PH_ALPHA_COMPOSITE};
    if (!model->opened->vision)
        return PH_FAIL(err, PH_EUNSUP, "this model takes no pictures: it is a text model");
    PH_TRY(ph_model_budget(model->opened, o.image_min_tokens, o.image_max_tokens, &recipe, err));
    held *t = calloc(1, sizeof *t);
    if (!t) return PH_FAIL(err, PH_ENOMEM, "a picture's tiles");
    ph_rc rc = with_pixels ? prepare(t, model->opened, &recipe, bytes, n, &how, o.keep_u8, err)
                           : measure(t, model->opened, &recipe, bytes, n, &how, err);
    if (rc) {
        pinhole_tiles_close(&t->shown);
        return rc;
    }
    *out = &t->shown;
    return PH_OK;
}

static ph_rc check(const pinhole_model *model, const void *bytes, size_t n, pinhole_tiles **tiles,
                   ph_err *err) {
    PH_API_WANT(tiles);
    *tiles = NULL;
    PH_API_WANT(model);
    if (n) PH_API_WANT(bytes);
    return PH_OK;
}

int pinhole_prepare(const pinhole_model *model, const void *bytes, size_t n,
                    const pinhole_picture_options *options, pinhole_tiles **out, pinhole_error *error) {
    ph_err err = {0};
    ph_rc  rc = check(model, bytes, n, out, &err);
    if (!rc) rc = open_tiles(model, bytes, n, options, 1, out, &err);
    return ph_api_end(rc, &err, error);
}

int pinhole_measure(const pinhole_model *model, const void *bytes, size_t n,
                    const pinhole_picture_options *options, pinhole_tiles **out, pinhole_error *error) {
    ph_err err = {0};
    ph_rc  rc = check(model, bytes, n, out, &err);
    if (!rc) rc = open_tiles(model, bytes, n, options, 0, out, &err);
    return ph_api_end(rc, &err, error);
}

void pinhole_tiles_close(pinhole_tiles *shown) {
    if (!shown) return;
    held *t = (held *)(void *)shown;
    ph_arena_close(&t->arena);
    free(t);
}
