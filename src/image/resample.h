/* resample.h - Pillow's antialiased 8-bit resize, bit for bit, through a window.
 *
 *     canvas (a picture on a plane of one colour)  --resize-->  out_w x out_h  --window-->  dst
 *
 * Each output pixel depends on its own place alone, so only the window that a
 * crop keeps is computed, and the plane around a padded picture is never stored:
 * a 1 x 100000 picture costs what its kept pixels cost.
 *
 * Source: the arithmetic of Pillow's Image.resize for 8-bit channels without
 * reducing_gap (libImaging/Resample.c, Geometry.c): kernels stretched by the
 * scale when shrinking, coefficients in double, normalised, rounded to 22
 * fractional bits; 8 bits kept between the
 * passes, and the order of the passes as in Pillow 13 (resample.c).
 */
#ifndef PH_IMAGE_RESAMPLE_H
#define PH_IMAGE_RESAMPLE_H

#include "base/arena.h"
#include "base/err.h"
#include "image/image.h"

#include <stdint.h>

/* The numbers are Pillow's, as "resample" of a preprocessor_config.json holds them. */
typedef enum ph_filter {
    PH_FILTER_NEAREST = 0,
    PH_FILTER_LANCZOS = 1,
    PH_FILTER_BILINEAR = 2,
    PH_FILTER_BICUBIC = 3,
    PH_FILTER_BOX = 4,
    PH_FILTER_HAMMING = 5,
    /* Added to one of the others: torchvision's arithmetic for 8-bit channels instead of Pillow's, as video
     * processors use it: coefficients of 16 bits, always across before down (ATen's UpSampleKernel.cpp,
     * antialiased). */
    PH_FILTER_INT16 = 16,
} ph_filter;
enum { PH_N_FILTERS = 6 };

const char *ph_filter_name(ph_filter filter); /* "bicubic" */

/* A picture at (x, y) of a plane of width x height pixels of colour fill. */
typedef struct ph_canvas {
    ph_pixels picture; /* borrowed */
    int       width, height;
    int       x, y; /* picture fits: x + picture.width <= width */
    uint8_t   fill[3];
} ph_canvas;

ph_canvas ph_canvas_of(const ph_pixels *picture); /* the picture alone */

/* A part of the resized picture: columns x .. x + width - 1, rows y .. */
typedef struct ph_window {
    int x, y, width, height;
} ph_window;

/* Resize canvas to out_w x out_h and put the window of it at dst.
 *
 *   dst        [window.height, stride bytes], window.width * 3 used; NULL with a ruler
 *   stride     bytes from one row of dst to the next
 *   window     within out_w x out_h, not empty
 *   scratch    a fixed arena or a ruler; used is as before on return
 *   peak       raised to the most that scratch held
 *
 * Errors: PH_ENOMEM, PH_ELIMIT from the arena. */
ph_rc ph_resample(uint8_t *dst, size_t stride, const ph_canvas *canvas, int out_w, int out_h,
                  const ph_window *window, ph_filter filter, ph_arena *scratch, size_t *peak, ph_err *err);

/* The whole picture to out [out_h, out_w, 3], carved from arena; scratch comes from there too. */
ph_rc ph_pixels_resize(ph_pixels *out, const ph_pixels *in, int out_w, int out_h, ph_filter filter,
                       ph_arena *arena, ph_err *err);

#endif
