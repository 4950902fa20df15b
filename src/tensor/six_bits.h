/* six_bits.h - the twelve bytes in which Q4_K and Q5_K keep eight scales and eight offsets of six bits.
 *
 *     bytes 0-3   scale 0-3 (6 bits), above them the 2 upper bits of scale 4-7
 *     bytes 4-7   offset 0-3 (6 bits), above them the 2 upper bits of offset 4-7
 *     bytes 8-11  lower 4 bits of scale 4-7, above them those of offset 4-7
 */
#ifndef PH_TENSOR_SIX_BITS_H
#define PH_TENSOR_SIX_BITS_H

#include <stddef.h>
#include <stdint.h>

static inline void ph_six_bits_read(const uint8_t *s, size_t part, float *scale, float *offset) {
    if (part < 4) {
        *scale = (float)(s[part] & 63);
        *offset = (float)(s[part + 4] & 63);
    } else {
        *scale = (float)((s[part + 4] & 15) | (s[part - 4] >> 6) << 4);
        *offset = (float)((s[part + 4] >> 4) | (s[part] >> 6) << 4);
    }
}

/* Into bytes that were zero, parts in rising order. */
static inline void ph_six_bits_write(uint8_t *s, size_t part, unsigned scale, unsigned offset) {
    if (part < 4) {
        s[part] = (uint8_t)(s[part] | scale);
        s[part + 4] = (uint8_t)(s[part + 4] | offset);
    } else {
        s[part + 4] = (uint8_t)((scale & 15) | (offset & 15) << 4);
        s[part - 4] = (uint8_t)(s[part - 4] | (scale >> 4) << 6);
        s[part] = (uint8_t)(s[part] | (offset >> 4) << 6);
    }
}

#endif
