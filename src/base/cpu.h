/* cpu.h - what this processor can do, found at run time. */
#ifndef PH_BASE_CPU_H
#define PH_BASE_CPU_H

#include <stddef.h>

/* Feature bits; a bit is set only if the operating system saves the registers too. */
enum {
    PH_CPU_AVX2 = 1u << 0,
    PH_CPU_FMA = 1u << 1,
    PH_CPU_F16C = 1u << 2,
    PH_CPU_AVX512F = 1u << 3,
    PH_CPU_AVX512BW = 1u << 4,
    PH_CPU_AVX512VL = 1u << 5,
    PH_CPU_AVX512DQ = 1u << 6,
    PH_CPU_AVX512VNNI = 1u << 7,
    PH_CPU_AVX512BF16 = 1u << 8,
    PH_CPU_AVXVNNI = 1u << 9,
    PH_CPU_AMX_TILE = 1u << 10,
    PH_CPU_AMX_INT8 = 1u << 11,
    PH_CPU_AMX_BF16 = 1u << 12,
    PH_CPU_NEON = 1u << 16,
    PH_CPU_DOTPROD = 1u << 17,
    PH_CPU_I8MM = 1u << 18,
};

unsigned ph_cpu_features(void);
/* Bytes of a processor's own first-level data cache; 32 KiB where the system does not say. */
size_t ph_cpu_l1(void);
int    ph_cpu_count(void); /* processors this process may run on (affinity and cgroup quota), >= 1 */
/* Processors, rounded up, that this process's cgroup (v2 or v1) grants; 0: no limit.
 * root goes before /proc and /sys: "" but in tests. */
int ph_cpu_quota(const char *root);
/* "Intel(R) Xeon(R) ..." or "unknown"; out holds size bytes, always terminated. */
void ph_cpu_name(char *out, size_t size);

#endif
