/* avx2.c - one exported symbol: ph_install_avx2. */
#include "kernels/isa.h"

void ph_install_avx2(ph_kernels *k) {
    (void)k; /* nothing is faster here yet: ref stays */
}
