/* lanes_tail.h - the first n < W of 16-bit numbers through a padded copy, for sets without masks for them.
 *
 * Included by a set's .c file after its v_load_f16, v_load_bf16 and v_store_f16.
 */
#ifndef PH_KERNELS_LANES_LANES_TAIL_H
#define PH_KERNELS_LANES_LANES_TAIL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline vf v_load_f16_n(const void *p, size_t n) {
    uint16_t t[W] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load_f16(t);
}
static inline vf v_load_bf16_n(const void *p, size_t n) {
    uint16_t t[W] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load_bf16(t);
}
static inline void v_store_f16_n(void *p, vf a, size_t n) {
    uint16_t t[W];
    v_store_f16(t, a);
    memcpy(p, t, n * sizeof *t);
}

#endif
