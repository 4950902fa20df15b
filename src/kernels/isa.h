/* isa.h - private to kernels/ and its check tool: the rows of isa.def, and of kernels.def as data. */
#ifndef PH_KERNELS_ISA_H
#define PH_KERNELS_ISA_H

#include "kernels/kernels.h"

typedef struct ph_isa {
    const char *name;
    unsigned    needs;              /* PH_CPU_* bits, all of them */
    void (*install)(ph_kernels *k); /* writes the slots that this set has, leaves the others */
} ph_isa;

extern const ph_isa ph_isas[];
extern const size_t ph_n_isas;

#define PH_ISA(folder, needs, flags) void ph_install_##folder(ph_kernels *k);
#include "kernels/isa.def"
#undef PH_ISA

#endif
