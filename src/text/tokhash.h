/* tokhash.h - the two hash functions of the tokenizer's tables.
 * FNV-1a over bytes; a 64-bit mix (the finaliser of MurmurHash3) over a pair of ids. */
#ifndef PH_TEXT_TOKHASH_H
#define PH_TEXT_TOKHASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t ph_hash_mix(uint64_t h) {
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ULL;
    return (uint32_t)(h ^ h >> 33);
}
static inline uint32_t ph_hash_bytes(const uint8_t *bytes, size_t n) {
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3ULL;
    return ph_hash_mix(h);
}
static inline uint32_t ph_hash_pair(int32_t left, int32_t right) {
    return ph_hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

#endif
