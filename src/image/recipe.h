/* recipe.h - how a checkpoint's trainer made pixels into model input, as data.
 *
 *     preprocessor_config.json --init--> ph_recipe
 *     (width, height) -----------layout--> how many tiles, of which size, in which grid
 *     ph_pixels -----------------run-----> ph_tiles  f32 [n_tiles, 3, height, width]
 *                                          or packed patches  f32 [n_patches, 3 * frames * patch * patch]
 *
 * A recipe equals the slow (Pillow, numpy) Hugging Face image processor of the
 * named class, also where the config names its "Fast" sibling, which rounds
 * otherwise.  The layout follows from width and height alone, so that tokens and
 * bytes are known before a pixel is decoded; what run does cannot differ from it.
 *
 * A processor is one file, named in recipe.def: see ph_recipe_kind at the end.
 * Source: transformers 4.57, image_transforms.py and the classes named there.
 */
#ifndef PH_IMAGE_RECIPE_H
#define PH_IMAGE_RECIPE_H

#include "base/arena.h"
#include "base/err.h"
#include "formats/json.h"
#include "image/image.h"
#include "image/resample.h"

#include <stdint.h>

enum {
    PH_RECIPE_SIDE_MAX = 16384,     /* pixels: largest side that a config may ask for */
    PH_IMAGE_SIDE_MAX = 1 << 27,    /* pixels: more than a picture within the default limit can have */
    PH_RESIZE_SIDE_MAX = 1 << 26,   /* pixels: largest side of a picture that is cropped afterwards */
    PH_TILES_PIXELS_MAX = 32 << 20, /* pixels of all tiles of one picture */
    PH_PINPOINTS_MAX = 64,          /* canvases that a config may offer */
};

typedef struct ph_recipe_kind ph_recipe_kind;

/* Target size; 0: not given.  shortest_edge goes before height and width, as in the reference. */
typedef struct ph_recipe_size {
    int shortest_edge, longest_edge, height, width;
} ph_recipe_size;

typedef struct ph_recipe {
    const ph_recipe_kind *kind;
    const char           *processor; /* class, static, without "Fast": "CLIPImageProcessor" */

    int            do_pad; /* to a square of the mean's colour, before resizing */
    int            do_resize;
    ph_recipe_size size;
    ph_filter      filter;
    int            do_center_crop;
    int            crop_height, crop_width;
    int            do_split;             /* into a grid of tiles and an overview */
    int            tile;                 /* side of a tile of the grid */
    int            tiles_min, tiles_max; /* of the grid, for kinds that choose it by the picture's ratio */
    int            n_pinpoints;          /* canvases to choose from, for kinds that have a list of them */
    int            pinpoint[PH_PINPOINTS_MAX][2]; /* height, width */
    int            do_crops;                      /* pan and scan: crops of the picture beside the whole */
    int            crop_least, crops_max;         /* their least side, pixels; how many at most */
    double         ratio_least;                   /* pictures that are squarer are not cropped */

    int    do_rescale, do_normalize;
    double rescale_factor, mean[3], std[3]; /* double: as JSON gives them; used as the reference uses them */

    int image_size, patch_size; /* of the vision tower, when the configs say; else 0 */

    /* Kinds with packed patches; else 0.  size's edges are areas in pixels there: the least and the most. */
    int pack_patch;    /* pixels a side of a patch */
    int pack_merge;    /* patches a side of the square that becomes one visual token */
    int pack_temporal; /* frames that go into one patch */

    /* How a video file is sampled; fps 0: the kind does not say. */
    double video_fps; /* frames a second that are taken */
    int    frames_min, frames_max;

    /* What ph_recipe_budget allows a picture: visual tokens of kinds with packed patches, else tiles; 0: as
     * the config has it. */
    int budget_min, budget_max;
} ph_recipe;

/* How many visual tokens a picture may take, and what counts. */
typedef struct ph_budget {
    int min, max; /* 0: not given */
    int per_tile; /* tokens of a tile; packed patches are counted by themselves */
    int per_row;  /* and of each row of the grid's tiles, besides */
} ph_budget;

/* What becomes of a picture of a given size. */
typedef struct ph_tile_layout {
    int image_width, image_height;     /* upright, before preparation */
    int resized_width, resized_height; /* whole picture, after its last resize, before crop or split */
    int n_tiles;
    int n_blank;       /* of them, the last: they show nothing, and are zero after normalising */
    int rows, cols;    /* grid, row by row; 0 x 0: the picture is one tile */
    int overview;      /* index of the tile that shows the whole picture: the first, and the grid follows, or
                          the last; -1: none beside the grid */
    int height, width; /* of every tile, in pixels */

    /* Packed patches: the tiles are frames, pack.temporal of which go into a patch; a still picture is shown
     * so often.  Patches of one merge x merge square stand together, squares row by row, grid by grid. */
    int    n_patches;              /* 0: tiles are seen as they are */
    int    grid_t, grid_h, grid_w; /* patches; n_patches = grid_t * grid_h * grid_w */
    int    patch, merge, temporal; /* as the recipe says */
    int    is_video;               /* several frames, or one of a video */
    double grid_seconds;           /* of a video, from one grid_t to the next; 0: not known */
} ph_tile_layout;

typedef struct ph_tiles {
    ph_tile_layout layout;
    float         *pixels; /* [n_tiles, 3, height, width], or [n_patches, 3, temporal, patch, patch]: the same
                              count; normalised; NULL on a ruler */
    uint8_t *u8;           /* [n_tiles, height, width, 3] before rescaling; NULL unless kept */
    int32_t *valid;        /* [n_tiles, 2] height and width that are picture, from the top left; the rest is
                              padding that attention leaves out */
} ph_tiles;

/* Read the recipe from a model's configs.  Absent documents: a zeroed ph_json.
 *   preprocessor  preprocessor_config.json
 *   processor     processor_config.json: "image_processor" in it serves when preprocessor is absent
 *   config        config.json: vision_config's image_size and patch_size, if any
 * Errors: PH_EUNSUP a class that is not known (lists those that are); PH_EFORMAT wrong types or values. */
ph_rc ph_recipe_init(ph_recipe *out, const ph_json *preprocessor, const ph_json *processor,
                     const ph_json *config, ph_err *err);

/* What a GGUF vision file says instead. */
typedef struct ph_recipe_params {
    const char *projector; /* clip.projector_type: "mlp", "idefics3" */
    int         image_size, patch_size;
    int         longest_edge;  /* clip.vision.preproc_image_size; 0: 4 x image_size, for recipes that split */
    int         pad_to_square; /* clip.vision.image_aspect_ratio is "pad" */
    int         min_pixels, max_pixels; /* clip.vision.image_min_pixels, .image_max_pixels; 0: not given */
    int         tiles_min, tiles_max;   /* clip.vision.preproc_min_tiles, .preproc_max_tiles; 0: not given */
    int         merge;                  /* clip.vision.spatial_merge_size; 0: not given */
    int         n_pinpoints;            /* clip.vision.image_grid_pinpoints; 0: not given */
    int         pinpoint[PH_PINPOINTS_MAX][2]; /* width, height */
    int         is_video;                      /* how frames of videos are prepared; with it, 0: not given: */
    int         frames_min, frames_max;
    double      fps;
    double      mean[3], std[3];
} ph_recipe_params;
/* Errors: PH_EUNSUP an unknown projector (lists the known); PH_EFORMAT sizes or numbers that cannot be. */
ph_rc ph_recipe_init_from_params(ph_recipe *out, const ph_recipe_params *params, ph_err *err);

/* 1: both prepare every picture alike (and sample videos alike).  0 may be said of equal ones that are
 * written otherwise. */
int ph_recipe_same(const ph_recipe *a, const ph_recipe *b);

/* The tiles of a width x height picture.
 * Errors: PH_ELIMIT a ratio or config that leads to more than the limits above. */
ph_rc ph_recipe_layout(ph_tile_layout *out, const ph_recipe *recipe, int width, int height, ph_err *err);

/* Exactly the arena bytes that ph_recipe_run will take for this size. Errors: those of layout. */
ph_rc ph_recipe_bytes(size_t *out, const ph_recipe *recipe, int width, int height, int keep_u8, ph_err *err);

/* Prepare one picture.
 *   out      lives as long as arena
 *   in       borrowed; with a ruler its rgb may be NULL
 *   keep_u8  also give the pixels before rescaling
 * Errors: those of layout; PH_ENOMEM. */
ph_rc ph_recipe_run(ph_tiles *out, const ph_recipe *recipe, const ph_pixels *in, int keep_u8, ph_arena *arena,
                    ph_err *err);

/* The same for a video: frames of one size, in order, fps of them a second (0: not known).  Kinds that do not
 * pack patches take one frame only: PH_EUNSUP. */
ph_rc ph_recipe_layout_video(ph_tile_layout *out, const ph_recipe *recipe, int width, int height,
                             int n_frames, double fps, ph_err *err);
ph_rc ph_recipe_run_video(ph_tiles *out, const ph_recipe *recipe, const ph_pixels *frames, int n_frames,
                          double fps, int keep_u8, ph_arena *arena, ph_err *err);

/* Change the recipe so that every picture's tokens stay within the budget.
 * Errors: PH_EUSAGE it cannot be held to that, with the range that is permitted. */
ph_rc ph_recipe_budget(ph_recipe *recipe, const ph_budget *budget, ph_err *err);

/* How many of a video file's n_frames are taken, fps of them a second: all of them at most, whole groups of
 * the frames that go into a patch where there are so many.  wanted: frames a second, most: frames; 0: the
 * recipe's own. Errors: PH_EUNSUP the recipe does not say how. */
ph_rc ph_recipe_sample(int *out, const ph_recipe *recipe, int n_frames, double fps, double wanted, int most,
                       ph_err *err);
/* Frame i of n that are taken evenly from n_frames, the first and the last among them. */
int ph_recipe_sampled(int i, int n, int n_frames);

/* Where in u8 [n_tiles, height, width, 3] element i of pixels comes from. */
size_t ph_tile_source(const ph_tile_layout *layout, size_t i);

/* Visual tokens of a picture whose patches are packed. */
static inline int ph_tile_tokens(const ph_tile_layout *l) {
    return l->n_patches / (l->merge * l->merge);
}

/* "CLIPImageProcessor, ..." into out, for messages and help. */
void                  ph_recipe_list(char *out, size_t size);
const ph_recipe_kind *ph_recipe_kind_at(size_t i); /* NULL past the last */

/* One processor, or several that differ in their defaults only: src/image/recipe_<name>.c. */
struct ph_recipe_kind {
    const char        *name;
    const char *const *processors; /* classes, without "Fast"; NULL ends */
    const char *const *projectors; /* projector types of GGUF files; NULL ends */

    int is_packed; /* patches instead of tiles; size holds areas */
    int pads;      /* do_pad changes what becomes of a picture */
    int is_anyres; /* the kind of its projectors where a GGUF file lists pinpoints */

    /* The class's own defaults, for keys that the config leaves out. */
    void (*defaults)(ph_recipe *recipe, const char *processor);

    /* Keys that only this kind has; the common ones are read already.  May be NULL. */
    ph_rc (*read)(ph_recipe *recipe, const ph_json *config, ph_err *err);

    /* Everything that can be wrong with the recipe, whatever the picture.  May be NULL. */
    ph_rc (*check)(const ph_recipe *recipe, ph_err *err);

    /* After defaults: sizes from a GGUF file. */
    void (*from_params)(ph_recipe *recipe, const ph_recipe_params *params);

    /* Keep to *budget, of which one is given at least.  *least: that a max must allow; *most: that a min may
     * ask for; out of these nothing needs to be kept.  Returns 0 when both cannot be kept together.  NULL:
     * every picture takes the same. */
    int (*budget)(ph_recipe *recipe, const ph_budget *budget, int64_t *least, int64_t *most);

    /* All of *out but the image size, which is set; packed kinds: n_tiles is set too, to the frames given. */
    ph_rc (*layout)(ph_tile_layout *out, const ph_recipe *recipe, ph_err *err);

    /* Fill u8 [n_tiles, height, width, 3]; packed kinds: one frame [height, width, 3].  scratch is a fixed
     * arena or a ruler (u8 is NULL then and nothing is written); *peak is raised to the most it held. */
    ph_rc (*run)(uint8_t *u8, const ph_tile_layout *layout, const ph_recipe *recipe, const ph_pixels *in,
                 ph_arena *scratch, size_t *peak, ph_err *err);
};

/* ---- for the kinds: grid.c ---- */

/* Resize into a buffer from scratch, which stays carved; the picture itself when it has that size. */
ph_rc ph_recipe_resize(ph_pixels *out, const ph_pixels *in, int w, int h, ph_filter filter, ph_arena *scratch,
                       size_t *peak, ph_err *err);
/* Resize to one tile of the layout, in its place; dst is NULL with a ruler. */
ph_rc ph_recipe_to_tile(uint8_t *dst, const ph_tile_layout *l, const ph_pixels *in, ph_filter filter,
                        ph_arena *scratch, size_t *peak, ph_err *err);
/* Cut a canvas of rows x cols tiles: [rows * cols, height, width, 3] at u8. */
void ph_recipe_cut(uint8_t *u8, const ph_tile_layout *l, const ph_pixels *canvas);
/* Tile `i` of u8, or NULL. */
uint8_t *ph_recipe_tile(uint8_t *u8, const ph_tile_layout *l, int i);

/* For the kinds: shortest_edge, or height and width, of a w x h picture. */
ph_rc ph_recipe_resized(const ph_recipe *recipe, int w, int h, int *out_w, int *out_h, ph_err *err);

#endif
