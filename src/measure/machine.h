/* machine.h - what this machine can do at most, measured: the roofs that a benchmark's rows stand under.
 *
 *     read    bytes a second that so many workers read from memory that no cache holds
 *     f32     floating-point operations a second of fused multiply-adds (two each), and
 *     int8    operations a second of 8-bit integer dot products (two a product), both with the
 *             instruction set in use and operands in registers
 *
 * A limit is the best of its rounds: what the machine can do when nobody disturbs it.  Where no loop of ours
 * knows an instruction set, or a kernel is faster than the loop, the kernel's own figure on operands in the
 * cache is the limit; `f32_by` and `int8_by` say which.
 */
#ifndef PH_MEASURE_MACHINE_H
#define PH_MEASURE_MACHINE_H

#include "base/err.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_machine {
    char        cpu[128];
    const char *isa;                                 /* of the kernels: "avx512" */
    int         threads;                             /* that were used */
    uint64_t    cache;                               /* bytes of the largest cache; 0: not known */
    uint64_t    read_bytes;                          /* that were streamed through */
    double      read_gbs;                            /* 10^9 bytes a second */
    double      f32_gflops, int8_gops;               /* int8 0: the kernels in use have no integer product */
    double      f32_kernel_gflops, int8_kernel_gops; /* of our kernels on operands in the cache */
    const char *f32_by, *int8_by; /* "registers: avx512 vfmadd", "kernel: linear_F32"; static */
} ph_machine;

typedef struct ph_machine_options {
    int         threads;    /* >= 1 */
    int         rounds;     /* 0: 7 */
    const char *isa;        /* PINHOLE_ISA's value; NULL: the best */
    uint64_t    read_bytes; /* to stream through; 0: four times the largest cache, 256 MB at least, but no
                             * more than a quarter of the memory that is free */
} ph_machine_options;

/* Takes a second or two.
 * Errors: PH_EUSAGE, PH_EMACHINE an instruction set that is unknown or not here; PH_ENOMEM. */
ph_rc ph_machine_measure(ph_machine *out, const ph_machine_options *how, ph_err *err);

uint64_t ph_machine_cache(void); /* bytes of the largest cache; 0: not known */
uint64_t ph_machine_read_size(uint64_t cache, uint64_t free_mem); /* the default of read_bytes */

/* ---- machine_peak.c: loops that keep one core's multipliers busy ---- */

/* So many rounds of independent products in registers; returns the operations done, two a product. */
typedef double ph_peak_fn(size_t rounds);
typedef struct ph_peak {
    unsigned    needs; /* PH_CPU_* bits */
    const char *name;
    ph_peak_fn *run;
} ph_peak;
/* The best row whose needs are all in `features`; NULL: none. */
const ph_peak *ph_peak_f32(unsigned features);
const ph_peak *ph_peak_int8(unsigned features);

#endif
