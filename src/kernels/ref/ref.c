/* ref.c - installs the meaning of every kernel, in plain C.
 *
 * This folder is written to be read next to the equation, not to be fast.  Sums
 * run in double: it is the oracle that the other folders are checked against,
 * and the fallback where none of them fits.
 */
#include "kernels/ref/ref.h"

void ph_install_ref(ph_kernels *k) {
#define PH_KERNEL(name, args) k->name = ph_ref_##name;
#include "kernels/kernels.def"
#undef PH_KERNEL
}
