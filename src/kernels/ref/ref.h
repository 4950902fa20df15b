/* ref.h - private to ref/: one function a slot, so that a missing one is a link error. */
#ifndef PH_KERNELS_REF_REF_H
#define PH_KERNELS_REF_REF_H

#include "kernels/isa.h"

#define PH_KERNEL(name, args) void ph_ref_##name args;
#include "kernels/kernels.def"
#undef PH_KERNEL

#endif
