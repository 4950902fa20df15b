/* isa.h - private to kernels/ and its check tool: the rows of isa.def, and of kernels.def as data. */
#ifndef PH_KERNELS_ISA_H
#define PH_KERNELS_ISA_H

#include "kernels/kernels.h"

/* Beside the CPU's bits, one that no CPU has: only naming the set brings it. */
#define PH_ISA_UNTRIED (1u << 31)

typedef struct ph_isa {
    const char *name;
    unsigned    needs;              /* PH_CPU_* bits, all of them, and perhaps PH_ISA_UNTRIED */
    void (*install)(ph_kernels *k); /* writes the slots that this set has, leaves the others */
} ph_isa;

extern const ph_isa ph_isas[];
extern const size_t ph_n_isas;

#define PH_ISA(folder, needs, flags) void ph_install_##folder(ph_kernels *k);
#include "kernels/isa.def"
#undef PH_ISA

#endif
