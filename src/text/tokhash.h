/* tokhash.h - the two hash functions of the tokenizer's tables, and how large these are.
 * A polynomial modulo 2^64 over bytes, so that of a text whose beginnings are hashed any part's hash follows;
 * a 64-bit mix (the finaliser of MurmurHash3) over that, and over a pair of ids. */
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
#define PH_HASH_BASE 0x9e3779b97f4a7c15ULL /* odd; bits without pattern (of the golden ratio) */
static inline uint64_t ph_hash_add(uint64_t beginning, uint8_t byte) {
    return beginning * PH_HASH_BASE + byte + 1;
}
static inline uint32_t ph_hash_bytes(const uint8_t *bytes, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++) h = ph_hash_add(h, bytes[i]);
    return ph_hash_mix(h);
}
/* The same for bytes [at, at + n), where sums[i] is ph_hash_add over the first i bytes. */
static inline uint32_t ph_hash_part(const uint64_t *sums, size_t at, size_t n) {
    uint64_t power = 1, base = PH_HASH_BASE;
    for (size_t k = n; k; k >>= 1, base *= base)
        if (k & 1) power *= base;
    return ph_hash_mix(sums[at + n] - sums[at] * power);
}
static inline uint32_t ph_hash_pair(int32_t left, int32_t right) {
    return ph_hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}
/* Slots for n items: a power of two, at most half of them taken. */
static inline uint32_t ph_hash_slots(size_t n) {
    uint32_t slots = 16;
    while (slots / 2 < n) slots *= 2;
    return slots;
}

#endif
