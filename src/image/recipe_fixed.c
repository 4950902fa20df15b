/* recipe_fixed.c - every picture to one height and width, its ratio given up.
 *
 *     resize -> one tile
 *
 * Source: transformers 4.57 models/siglip/image_processing_siglip.py,
 * models/vit/image_processing_vit.py, models/blip/image_processing_blip.py.
 */
#include "image/recipe.h"

#include <string.h>

static const double openai_mean[3] = {0.48145466, 0.4578275, 0.40821073};
static const double openai_std[3] = {0.26862954, 0.26130258, 0.27577711};

static const char *const processors[] = {"SiglipImageProcessor", "ViTImageProcessor", "BlipImageProcessor",
                                         NULL};
static const char *const projectors[] = {NULL};

static void defaults(ph_recipe *r, const char *processor) {
    r->do_resize = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.height = 224, .width = 224};
    r->filter = strcmp(processor, "ViTImageProcessor") ? PH_FILTER_BICUBIC : PH_FILTER_BILINEAR;
    r->rescale_factor = 1 / 255.0;
    for (int i = 0; i < 3; i++) r->mean[i] = r->std[i] = 0.5;
    if (strcmp(processor, "BlipImageProcessor")) return;
    r->size = (ph_recipe_size){.height = 384, .width = 384};
    memcpy(r->mean, openai_mean, sizeof r->mean);
    memcpy(r->std, openai_std, sizeof r->std);
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    if (r->do_resize && !(r->size.height && r->size.width))
        return PH_FAIL(err, PH_EFORMAT, "size has no height and width, which %s needs", r->processor);
    return PH_OK;
}

static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    r->size = (ph_recipe_size){.height = p->image_size, .width = p->image_size};
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    (void)err;
    l->n_tiles = 1;
    l->width = r->do_resize ? r->size.width : l->image_width;
    l->height = r->do_resize ? r->size.height : l->image_height;
    l->resized_width = l->width, l->resized_height = l->height;
    l->overview = 0;
    return PH_OK;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_canvas canvas = ph_canvas_of(in);
    ph_window all = {0, 0, l->width, l->height};
    return ph_resample(u8, 3 * (size_t)l->width, &canvas, l->width, l->height, &all, r->filter, scratch, peak,
                       err);
}

const ph_recipe_kind ph_recipe_fixed = {
    .name = "fixed",
    .processors = processors,
    .projectors = projectors,
    .defaults = defaults,
    .check = check,
    .from_params = from_params,
    .layout = layout,
    .run = run,
};
