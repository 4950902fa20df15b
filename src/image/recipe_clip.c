/* recipe_clip.c - shortest edge to a length, then the middle of it.
 *
 *     [pad to a square] -> resize -> centre crop -> one tile
 *
 * The padded square is a canvas, not a copy, and only the window that the crop
 * keeps is resized: a strip of 1 x 4096 costs no more than a photo.  A picture
 * smaller than the crop stands in the middle of black, one pixel right of and
 * below the centre where the difference is odd, as in the slow reference.
 *
 * Source: transformers 4.57 models/clip/image_processing_clip.py,
 * models/llava/image_processing_llava.py, image_transforms.py (center_crop).
 */
#include "image/recipe.h"

#include <string.h>

static const double openai_mean[3] = {0.48145466, 0.4578275, 0.40821073};
static const double openai_std[3] = {0.26862954, 0.26130258, 0.27577711};

static const char *const processors[] = {"CLIPImageProcessor", "LlavaImageProcessor", NULL};
static const char *const projectors[] = {"mlp", NULL};

static void defaults(ph_recipe *r, const char *processor) {
    (void)processor; /* both have the same */
    r->do_resize = r->do_center_crop = r->do_rescale = r->do_normalize = 1;
    r->size = (ph_recipe_size){.shortest_edge = 224};
    r->crop_height = r->crop_width = 224;
    r->filter = PH_FILTER_BICUBIC;
    r->rescale_factor = 1 / 255.0;
    memcpy(r->mean, openai_mean, sizeof r->mean);
    memcpy(r->std, openai_std, sizeof r->std);
}

static int pads(const ph_recipe *r) {
    return r->do_pad && !strcmp(r->processor, "LlavaImageProcessor");
}

static ph_rc read(ph_recipe *r, const ph_json *config, ph_err *err) {
    int is_square = 0;
    PH_TRY(ph_json_bool_or(config, "use_square_size", 0, &is_square, err));
    if (is_square && r->size.shortest_edge)
        r->size = (ph_recipe_size){.height = r->size.shortest_edge, .width = r->size.shortest_edge};
    return PH_OK;
}

static ph_rc check(const ph_recipe *r, ph_err *err) {
    const ph_recipe_size *s = &r->size;
    if (r->do_resize && !s->shortest_edge && !(s->height && s->width))
        return PH_FAIL(err, PH_EFORMAT, "size has neither shortest_edge nor height and width");
    return PH_OK;
}

static void from_params(ph_recipe *r, const ph_recipe_params *p) {
    r->size = (ph_recipe_size){.shortest_edge = p->image_size};
    r->crop_height = r->crop_width = p->image_size;
    r->do_pad = p->pad_to_square;
    if (p->pad_to_square) r->processor = processors[1];
}

static ph_rc layout(ph_tile_layout *l, const ph_recipe *r, ph_err *err) {
    int w = l->image_width, h = l->image_height;
    if (pads(r)) w = h = w > h ? w : h;
    l->resized_width = w, l->resized_height = h;
    if (r->do_resize) PH_TRY(ph_recipe_resized(r, w, h, &l->resized_width, &l->resized_height, err));
    l->n_tiles = 1;
    l->width = r->do_center_crop ? r->crop_width : l->resized_width;
    l->height = r->do_center_crop ? r->crop_height : l->resized_height;
    l->overview = 0;
    return PH_OK;
}

/* One axis: from where, how many, to where, when size pixels are cropped to crop. */
static void crop_axis(int size, int crop, int *from, int *n, int *to) {
    int is_small = size < crop;
    *from = is_small ? 0 : (size - crop) / 2;
    *n = is_small ? size : crop;
    *to = is_small ? (crop - size + 1) / 2 : 0;
}

static ph_canvas canvas_of(const ph_recipe *r, const ph_pixels *in) {
    ph_canvas c = ph_canvas_of(in);
    if (!pads(r)) return c;
    int side = in->width > in->height ? in->width : in->height;
    c.x = (side - in->width) / 2;
    c.y = (side - in->height) / 2;
    c.width = c.height = side;
    /* numpy casts int(mean * 255) to a byte by wrapping; real means lie within 0 .. 1. */
    for (int i = 0; i < 3; i++) c.fill[i] = (uint8_t)(int64_t)(r->mean[i] * 255);
    return c;
}

static ph_rc run(uint8_t *u8, const ph_tile_layout *l, const ph_recipe *r, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err) {
    ph_canvas canvas = canvas_of(r, in);
    ph_window win;
    int       x, y;
    size_t    stride = 3 * (size_t)l->width;
    crop_axis(l->resized_width, l->width, &win.x, &win.width, &x);
    crop_axis(l->resized_height, l->height, &win.y, &win.height, &y);
    if (u8 && (win.width < l->width || win.height < l->height)) memset(u8, 0, stride * (size_t)l->height);
    uint8_t *dst = u8 ? u8 + (size_t)y * stride + 3 * (size_t)x : NULL;
    return ph_resample(dst, stride, &canvas, l->resized_width, l->resized_height, &win, r->filter, scratch,
                       peak, err);
}

const ph_recipe_kind ph_recipe_clip = {
    .name = "clip",
    .processors = processors,
    .projectors = projectors,
    .pads = 1,
    .defaults = defaults,
    .read = read,
    .check = check,
    .from_params = from_params,
    .layout = layout,
    .run = run,
};
