/* resample.c - two passes over 8-bit pixels with fixed-point coefficients.
 *
 *   1  taps: for each output place, the first source place and its coefficients
 *   2  across (or down), only the rows (columns) that the other pass will read
 *   3  down (or across) into dst
 *
 * A pass that would change nothing is skipped, as in Pillow.  Nearest takes a
 * path of its own, whose source place is summed up step by step in double: the
 * rounding of that sum is part of the result.
 */
#include "image/resample.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { FRACTION_BITS = 32 - 8 - 2 }; /* 8 for the pixel, 2 for overshoot and sign */

#define PI 3.14159265358979323846

static double box(double x) {
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double bilinear(double x) {
    if (x < 0.0) x = -x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x) {
    if (x < 0.0) x = -x;
    if (x == 0.0) return 1.0;
    if (x >= 1.0) return 0.0;
    x = x * PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x));
}

/* Keys' kernel with a = -0.5. */
static double bicubic(double x) {
    const double a = -0.5;
    if (x < 0.0) x = -x;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static double sinc(double x) {
    if (x == 0.0) return 1.0;
    x = x * PI;
    return sin(x) / x;
}

static double lanczos(double x) {
    return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct {
    const char *name;
    double (*at)(double x);
    double support;
} kernels[PH_N_FILTERS] = {
    [PH_FILTER_NEAREST] = {"nearest", NULL, 0.0},
    [PH_FILTER_LANCZOS] = {"lanczos", lanczos, 3.0},
    [PH_FILTER_BILINEAR] = {"bilinear", bilinear, 1.0},
    [PH_FILTER_BICUBIC] = {"bicubic", bicubic, 2.0},
    [PH_FILTER_BOX] = {"box", box, 0.5},
    [PH_FILTER_HAMMING] = {"hamming", hamming, 1.0},
};

const char *ph_filter_name(ph_filter filter) {
    return (unsigned)filter < PH_N_FILTERS ? kernels[filter].name : "?";
}

static int is_int16(ph_filter filter) {
    return (filter & PH_FILTER_INT16) != 0;
}

static double support_of(ph_filter filter) {
    return kernels[filter & ~PH_FILTER_INT16].support;
}

static double kernel_at(ph_filter filter, double x) {
    return kernels[filter & ~PH_FILTER_INT16].at(x);
}

ph_canvas ph_canvas_of(const ph_pixels *picture) {
    return (ph_canvas){.picture = *picture, .width = picture->width, .height = picture->height};
}

/* Coefficients of one axis, for the n output places from first on. */
typedef struct taps {
    int32_t *from, *count; /* [n] source places */
    int32_t *k;            /* [n, reach] fixed point */
    int32_t *total;        /* [n] sum of the coefficients: what a plain colour is multiplied with */
    double  *exact;        /* [reach] of the place at hand */
    int      n, reach;
    int      low, high; /* source places that are read at all: low .. high - 1 */
} taps;

static ph_rc taps_carve(taps *t, int in, int out, int n, ph_filter filter, ph_arena *scratch, ph_err *err) {
    double scale = (double)in / out;
    double support = support_of(filter) * (scale < 1.0 ? 1.0 : scale);
    t->n = n;
    t->reach = (int)ceil(support) * 2 + 1;
    PH_TRY(ph_arena_carve(scratch, (void **)&t->from, (size_t)n, sizeof *t->from, err));
    PH_TRY(ph_arena_carve(scratch, (void **)&t->count, (size_t)n, sizeof *t->count, err));
    PH_TRY(ph_arena_carve(scratch, (void **)&t->total, (size_t)n, sizeof *t->total, err));
    PH_TRY(ph_arena_carve(scratch, (void **)&t->exact, (size_t)t->reach, sizeof *t->exact, err));
    return ph_arena_carve(scratch, (void **)&t->k, (size_t)n * (size_t)t->reach, sizeof *t->k, err);
}

/* Source places that output place i reads; the same arithmetic with and without coefficients. */
static void reach_of(int in, int out, int i, ph_filter filter, int *from, int *count) {
    double scale = (double)in / out, stretch = scale < 1.0 ? 1.0 : scale;
    double support = support_of(filter) * stretch, center = (i + 0.5) * scale;
    double low = center - support + 0.5, high = center + support + 0.5; /* may lie far outside of an int */
    *from = low > 0.0 ? (int)low : 0;
    *count = (high < in ? (int)high : in) - *from;
}

/* The coefficients of output place i into exact, their sum 1; the first source place and how many. */
static void weigh(taps *t, int in, int out, int i, ph_filter filter, int *low, int *count) {
    double scale = (double)in / out, shrink = 1.0 / (scale < 1.0 ? 1.0 : scale);
    double center = (i + 0.5) * scale, sum = 0.0;
    reach_of(in, out, i, filter, low, count);
    for (int j = 0; j < *count; j++) {
        t->exact[j] = kernel_at(filter, (j + *low - center + 0.5) * shrink);
        sum += t->exact[j];
    }
    for (int j = 0; j < *count && sum != 0.0; j++) t->exact[j] /= sum;
}

/* Fractional bits with which the largest coefficient of the axis still fits in 16, sign included. */
static int int16_bits(taps *t, int in, int out, ph_filter filter) {
    double most = 0;
    int    bits = 0, low, count;
    for (int i = 0; i < out; i++) {
        weigh(t, in, out, i, filter, &low, &count);
        for (int j = 0; j < count; j++) most = t->exact[j] > most ? t->exact[j] : most;
    }
    while (bits < FRACTION_BITS && (int)(0.5 + most * (1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}

static void taps_fill(taps *t, int in, int out, int first, ph_filter filter) {
    int bits = is_int16(filter) ? int16_bits(t, in, out, filter) : FRACTION_BITS;
    for (int i = 0; i < t->n; i++) {
        int      low, count;
        int32_t  total = 0;
        int32_t *k = &t->k[(size_t)i * (size_t)t->reach];
        weigh(t, in, out, first + i, filter, &low, &count);
        for (int j = 0; j < count; j++) {
            double v = t->exact[j] * (1 << bits);
            k[j] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5) * (1 << (FRACTION_BITS - bits));
            total += k[j];
        }
        t->from[i] = low, t->count[i] = count, t->total[i] = total;
    }
}

static uint8_t to_byte(int32_t sum) {
    int32_t v = sum >> FRACTION_BITS; /* arithmetic shift: rounds down, as the reference's */
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

enum { HALF = 1 << (FRACTION_BITS - 1) };

/* Output places first .. end - 1 of a row. base: the canvas column that row[0] stands for. */
static void row_pass(uint8_t *out, const uint8_t *row, int base, const taps *t, int first, int end) {
    for (int i = first; i < end; i++) {
        const int32_t *k = &t->k[(size_t)i * (size_t)t->reach];
        const uint8_t *in = row + 3 * (ptrdiff_t)(t->from[i] - base);
        int32_t        r = HALF, g = HALF, b = HALF;
        for (int j = 0; j < t->count[i]; j++, in += 3)
            r += in[0] * k[j], g += in[1] * k[j], b += in[2] * k[j];
        out[3 * i] = to_byte(r), out[3 * i + 1] = to_byte(g), out[3 * i + 2] = to_byte(b);
    }
}

/* The same where every source pixel is fill: no sum is needed, and none is stored. */
static void blank_pass(uint8_t *out, const uint8_t *fill, const taps *t, int first, int end) {
    for (int i = first; i < end; i++)
        for (int ch = 0; ch < 3; ch++) out[3 * i + ch] = to_byte(HALF + fill[ch] * t->total[i]);
}

static void paint(uint8_t *out, int n, const uint8_t *fill) {
    for (int i = 0; i < n; i++, out += 3) memcpy(out, fill, 3);
}

/* Canvas row y, columns x .. x + n - 1, into out [n, 3]. */
static void canvas_row(uint8_t *out, const ph_canvas *c, int y, int x, int n) {
    const ph_pixels *p = &c->picture;
    int py = y - c->y, from = c->x - x, to = from + p->width; /* the picture's columns within out */
    if (py < 0 || py >= p->height) {
        paint(out, n, c->fill);
        return;
    }
    int a = from < 0 ? 0 : from > n ? n : from, b = to < 0 ? 0 : to > n ? n : to;
    paint(out, a, c->fill);
    if (b > a)
        memcpy(out + 3 * (size_t)a, p->rgb + 3 * ((size_t)py * (size_t)p->width + (size_t)(a - from)),
               3 * (size_t)(b - a));
    paint(out + 3 * (size_t)b, n - b, c->fill);
}

/* Source columns (rows) that the window reads. */
static void used_places(int in, int out, int first, int n, ph_filter filter, int *low, int *high) {
    int a, b, count;
    reach_of(in, out, first, filter, &a, &count);
    reach_of(in, out, first + n - 1, filter, &b, &count);
    *low = a, *high = b + count;
}

/* Canvas row y, columns x .. x + n - 1: in place where the picture holds them all, else built in line. */
static const uint8_t *row_at(const ph_canvas *c, int y, int x, int n, uint8_t *line) {
    const ph_pixels *p = &c->picture;
    if (y >= c->y && y < c->y + p->height && x >= c->x && x + n <= c->x + p->width)
        return p->rgb + 3 * ((size_t)(y - c->y) * (size_t)p->width + (size_t)(x - c->x));
    canvas_row(line, c, y, x, n);
    return line;
}

/* Row y of the canvas across, to out [t->n, 3]. Around the picture there is nothing to sum up. */
static void across(uint8_t *out, const ph_canvas *c, int y, const taps *t, uint8_t *line) {
    int a = 0, right = c->x + c->picture.width;
    int is_blank = y < c->y || y >= c->y + c->picture.height;
    while (a < t->n && (is_blank || t->from[a] + t->count[a] <= c->x)) a++;
    int b = a;
    while (b < t->n && t->from[b] < right) b++;
    blank_pass(out, c->fill, t, 0, a);
    blank_pass(out, c->fill, t, b, t->n);
    if (a == b) return;
    int low = t->from[a], high = t->from[b - 1] + t->count[b - 1];
    row_pass(out, row_at(c, y, low, high - low, line), low, t, a, b);
}

/* Output row i of the vertical pass, canvas columns x .. x + n - 1, to out [n, 3].  Whole rows are summed up,
 * so memory is read in order; integer sums do not mind the order, so plain rows are added as one. */
static void column_pass(uint8_t *out, const ph_canvas *c, int x, int n, const taps *t, int i, uint8_t *line,
                        int32_t *sum) {
    const int32_t *k = &t->k[(size_t)i * (size_t)t->reach];
    size_t         bytes = 3 * (size_t)n;
    int            a = c->y - t->from[i], b = a + c->picture.height; /* taps that meet the picture */
    int32_t        blank = t->total[i];
    if (a < 0) a = 0;
    if (b > t->count[i]) b = t->count[i];
    for (int j = a; j < b; j++) blank -= k[j];
    for (size_t at = 0; at < bytes; at += 3)
        for (size_t ch = 0; ch < 3; ch++) sum[at + ch] = HALF + c->fill[ch] * blank;
    for (int j = a; j < b; j++) {
        const uint8_t *in = row_at(c, t->from[i] + j, x, n, line);
        for (size_t at = 0; at < bytes; at++) sum[at] += in[at] * k[j];
    }
    for (size_t at = 0; at < bytes; at++) out[at] = to_byte(sum[at]);
}

/* What one smooth resize holds. */
typedef struct work {
    taps     h, v;
    int      is_across, is_down, is_down_first;
    uint8_t *line;    /* [.., 3] one canvas row, as far as it is read */
    int32_t *sum;     /* [.., 3] the vertical pass's row */
    uint8_t *between; /* [.., .., 3] what the first of two passes left */
} work;

/* Sizes, order and memory of the passes.  Pillow (since 13) goes down first when the height shrinks by more
 * than twice what the width does; the 8 bits between the passes make that visible. */
static ph_rc work_carve(work *w, const ph_canvas *c, int out_w, int out_h, const ph_window *win,
                        ph_filter filter, ph_arena *scratch, ph_err *err) {
    int lost_h = c->height - out_h, lost_w = c->width - out_w;
    *w = (work){.is_across = lost_w != 0, .is_down = lost_h != 0};
    w->is_down_first = !is_int16(filter) && lost_h > 0 && lost_h > 2 * (int64_t)lost_w;
    w->h.low = win->x, w->h.high = win->x + win->width;
    w->v.low = win->y, w->v.high = win->y + win->height;
    if (w->is_across) {
        used_places(c->width, out_w, win->x, win->width, filter, &w->h.low, &w->h.high);
        PH_TRY(taps_carve(&w->h, c->width, out_w, win->width, filter, scratch, err));
    }
    if (w->is_down) {
        used_places(c->height, out_h, win->y, win->height, filter, &w->v.low, &w->v.high);
        PH_TRY(taps_carve(&w->v, c->height, out_h, win->height, filter, scratch, err));
    }
    size_t cols = (size_t)(w->h.high - w->h.low), rows = (size_t)(w->v.high - w->v.low);
    PH_TRY(ph_arena_carve(scratch, (void **)&w->line, cols, 3, err));
    PH_TRY(ph_arena_carve(scratch, (void **)&w->sum, cols > (size_t)win->width ? cols : (size_t)win->width,
                          3 * sizeof *w->sum, err));
    if (!w->is_across || !w->is_down) return PH_OK;
    if (w->is_down_first)
        rows = 1; /* each row goes on at once */
    else
        cols = (size_t)win->width;
    return ph_arena_carve(scratch, (void **)&w->between, rows * 3, cols, err);
}

/* Down, then across: between holds one row of every column that will be read. */
static void down_across(uint8_t *dst, size_t stride, const ph_canvas *c, const ph_window *win, work *w) {
    int cols = w->h.high - w->h.low;
    for (int i = 0; i < win->height; i++) {
        column_pass(w->between, c, w->h.low, cols, &w->v, i, w->line, w->sum);
        row_pass(dst + (size_t)i * stride, w->between, w->h.low, &w->h, 0, win->width);
    }
}

/* Across, then down: between holds window columns of every row that will be read. */
static void across_down(uint8_t *dst, size_t stride, const ph_canvas *c, const ph_window *win, work *w) {
    int       rows = w->v.high - w->v.low;
    size_t    row_bytes = 3 * (size_t)win->width;
    ph_canvas half = {
        .picture = {win->width, rows, w->between}, .width = win->width, .height = c->height, .y = w->v.low};
    for (int y = 0; y < rows; y++)
        across(w->between + (size_t)y * row_bytes, c, w->v.low + y, &w->h, w->line);
    for (int i = 0; i < win->height; i++)
        column_pass(dst + (size_t)i * stride, &half, 0, win->width, &w->v, i, w->line, w->sum);
}

static void single_pass(uint8_t *dst, size_t stride, const ph_canvas *c, const ph_window *win, work *w) {
    for (int i = 0; i < win->height; i++, dst += stride) {
        if (w->is_down)
            column_pass(dst, c, win->x, win->width, &w->v, i, w->line, w->sum);
        else if (w->is_across)
            across(dst, c, win->y + i, &w->h, w->line);
        else
            canvas_row(dst, c, win->y + i, win->x, win->width);
    }
}

static ph_rc smooth(uint8_t *dst, size_t stride, const ph_canvas *c, int out_w, int out_h,
                    const ph_window *win, ph_filter filter, ph_arena *scratch, size_t *peak, ph_err *err) {
    work w;
    PH_TRY(work_carve(&w, c, out_w, out_h, win, filter, scratch, err));
    if (scratch->used > *peak) *peak = scratch->used;
    if (!dst) return PH_OK; /* a ruler: only the bytes were wanted */
    if (w.is_across) taps_fill(&w.h, c->width, out_w, win->x, filter);
    if (w.is_down) taps_fill(&w.v, c->height, out_h, win->y, filter);
    if (!w.is_across || !w.is_down)
        single_pass(dst, stride, c, win, &w);
    else if (w.is_down_first)
        down_across(dst, stride, c, win, &w);
    else
        across_down(dst, stride, c, win, &w);
    return PH_OK;
}

/* Where output places 0 .. fall in the source, for the n from first on: the running sum starts at 0. */
static void nearest_places(int32_t *place, int in, int out, int first, int n) {
    double step = (double)in / out, at = step * 0.5;
    for (int i = 0; i < first + n; i++, at += step)
        if (i >= first) {
            int p = (int)at;
            place[i - first] = p < in ? p : in - 1;
        }
}

static ph_rc nearest(uint8_t *dst, size_t stride, const ph_canvas *c, int out_w, int out_h,
                     const ph_window *win, ph_arena *scratch, size_t *peak, ph_err *err) {
    int32_t *xs, *ys;
    PH_TRY(ph_arena_carve(scratch, (void **)&xs, (size_t)win->width, sizeof *xs, err));
    PH_TRY(ph_arena_carve(scratch, (void **)&ys, (size_t)win->height, sizeof *ys, err));
    if (scratch->used > *peak) *peak = scratch->used;
    if (!dst) return PH_OK;
    nearest_places(xs, c->width, out_w, win->x, win->width);
    nearest_places(ys, c->height, out_h, win->y, win->height);
    for (int y = 0; y < win->height; y++)
        for (int x = 0; x < win->width; x++)
            canvas_row(dst + (size_t)y * stride + 3 * (size_t)x, c, ys[y], xs[x], 1);
    return PH_OK;
}

ph_rc ph_resample(uint8_t *dst, size_t stride, const ph_canvas *canvas, int out_w, int out_h,
                  const ph_window *window, ph_filter filter, ph_arena *scratch, size_t *peak, ph_err *err) {
    size_t mark = scratch->used;
    /* Equal sizes: nothing to resample for any filter, so nearest's sums are not asked either. */
    int   is_copy = out_w == canvas->width && out_h == canvas->height;
    ph_rc rc = filter == PH_FILTER_NEAREST && !is_copy
                   ? nearest(dst, stride, canvas, out_w, out_h, window, scratch, peak, err)
                   : smooth(dst, stride, canvas, out_w, out_h, window, filter, scratch, peak, err);
    scratch->used = mark;
    return rc;
}

ph_rc ph_pixels_resize(ph_pixels *out, const ph_pixels *in, int out_w, int out_h, ph_filter filter,
                       ph_arena *arena, ph_err *err) {
    ph_canvas canvas = ph_canvas_of(in);
    ph_window all = {0, 0, out_w, out_h};
    ph_arena  ruler = ph_arena_ruler(), scratch = {0};
    size_t    peak = 0, stride = 3 * (size_t)out_w;
    void     *rgb, *block;
    *out = (ph_pixels){0};
    PH_TRY(ph_resample(NULL, stride, &canvas, out_w, out_h, &all, filter, &ruler, &peak, err));
    PH_TRY(ph_arena_carve(arena, &rgb, (size_t)out_h, stride, err));
    PH_TRY(ph_arena_carve(arena, &block, peak, 1, err));
    scratch.base = block, scratch.size = peak;
    if (rgb) PH_TRY(ph_resample(rgb, stride, &canvas, out_w, out_h, &all, filter, &scratch, &peak, err));
    *out = (ph_pixels){.width = out_w, .height = out_h, .rgb = rgb};
    return PH_OK;
}
