/* recipe_idefics.c - every picture to one square, its ratio given up, bicubic whatever the config says.
 *
 * The class has keys of its own (image_size instead of size) and no switches but do_rescale.
 *
 * Source: transformers 4.57 models/idefics/image_processing_idefics.py.
 */
#include "image/recipe.h"

#include <string.h>

static const char *const processors[] = {"IdeficsImageProcessor", NULL};
static const char *const projectors[] = {NULL};

static void defaults(ph_recipe *r, const char *processor) {
    static const double mean[3] = {0.48145466, 0.4578275, 0.40821073};
    static const double std[3] = {0.26862954, 0.26130258, 0.27577711};
    (void)processor;
    r->do_resize = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.height = 224, .width = 224};
    r->filter = PH_FILTER_BICUBIC;
    r->rescale_factor = 1 / 255.0;
    memcpy(r->mean, mean, sizeof r->mean);
    memcpy(r->std, std, sizeof r->std);
}

/* inference rescales and normalises always; the other keys are not the class's. */
static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    int side;
    r->do_resize = r->do_rescale = r->do_normalize = 1;
    r->do_pad = r->do_center_crop = 0;
    r->filter = PH_FILTER_BICUBIC;
    PH_TRY(ph_json_size_or(config, "image_size", 1, PH_RECIPE_SIDE_MAX, 224, &side, err));
    r->size = (ph_recipe_size){.height = side, .width = side};
    return PH_OK;
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    (void)err;
    l->n_tiles = 1;
    l->overview = 0;
    l->width = l->resized_width = r->size.width;
    l->height = l->resized_height = r->size.height;
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    return ph_recipe_to_tile(u8, l, in, r->filter, scratch, peak, err);
}

const ph_recipe_kind ph_recipe_idefics = {
    .name = "idefics",
    .processors = processors,
    .projectors = projectors,
    .defaults = defaults,
    .read = read,
    .layout = layout,
    .run = run,
};
