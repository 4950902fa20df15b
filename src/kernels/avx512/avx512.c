/* avx512.c - one exported symbol: ph_install_avx512. */
#include "kernels/isa.h"

void ph_install_avx512(ph_kernels *k) {
    (void)k; /* nothing is faster here yet: ref stays */
}
