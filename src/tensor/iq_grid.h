/* iq_grid.h - the points of the IQ1, IQ2 and IQ3 types: which tuples of levels a group of 8 or 4 elements may
 * take.
 *
 * These types do not store an element's level but the number of a point in a
 * list that the format fixes.  Here a point is a word of digits, element 0
 * lowest, and each list is in rising order:
 *
 *     IQ2    8 digits of 2 bits, 0 .. 2    magnitudes 8 25 43; signs are stored apart
 *     IQ1    8 digits of 2 bits, 0 .. 2    numbers -1 0 1, then moved by a delta
 *     IQ3    4 digits of 3 bits, 0 .. 7    magnitudes, signs apart
 *
 * Signs of eight elements are one byte, bit i for element i, 1 for minus; where
 * only seven bits are stored the eighth makes the number of minuses even.
 */
#ifndef PH_TENSOR_IQ_GRID_H
#define PH_TENSOR_IQ_GRID_H

#include <stddef.h>
#include <stdint.h>

enum { PH_IQ_BLOCK = 256, PH_IQ_POINT = 8 };

extern const uint16_t ph_iq2_xxs_grid[256], ph_iq2_xs_grid[512], ph_iq2_s_grid[1024];
extern const uint16_t ph_iq3_xxs_grid[256], ph_iq3_s_grid[512];
extern const uint16_t ph_iq1_grid[2048]; /* IQ1_S and IQ1_M */

/* The byte of signs of which seven bits are stored. */
unsigned ph_iq_signs(unsigned seven);

/* out[8] = scale * magnitude, with signs, of a point of an IQ2 list. */
void ph_iq2_point(float *out, unsigned point, unsigned signs, float scale);
/* The same of two points of an IQ3 list, whose eight magnitudes are level's. */
void ph_iq3_points(float *out, unsigned low, unsigned high, const uint8_t level[8], unsigned signs,
                   float scale);
/* out[8] = scale * (number + delta) of a point of the IQ1 list. */
void ph_iq1_point(float *out, unsigned point, float delta, float scale);

/* Two and four bytes, little-endian, unaligned. */
static inline unsigned ph_load_u16(const uint8_t *p) {
    return (unsigned)(p[0] | p[1] << 8);
}
static inline uint32_t ph_load_u32(const uint8_t *p) {
    return (uint32_t)ph_load_u16(p) | (uint32_t)ph_load_u16(p + 2) << 16;
}

#endif
