/* avx512.c - all kernels of lanes/ in AVX-512.
 *
 * One exported symbol: ph_install_avx512.  The vocabulary is in avx512_lanes.h, the kernels themselves stand
 * in lanes/.
 */
#include "kernels/isa.h"

#include "kernels/avx512/avx512_lanes.h"

#include "kernels/lanes/lanes.h"

void ph_install_avx512(ph_kernels *k) {
    install(k);
}
