/* damage.h - whole files made into bad ones: cut anywhere, bits flipped.  The decoder is the caller's. */
#ifndef PH_TESTS_DAMAGE_H
#define PH_TESTS_DAMAGE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Decode and forget. */
typedef ph_rc ut_decode(const uint8_t *bytes, size_t n, ph_err *err);

/* Decode an exact-size copy, so that a sanitizer sees a read past the end. */
ph_rc ut_decode_copy(ut_decode *decode, const uint8_t *bytes, size_t n, ph_err *err);

/* The whole is good; no shorter file is: PH_EFORMAT, or PH_EUNSUP where less than n_magic bytes leave the
 * format open.  Cut at each of the first `dense` bytes and the last 40, and every `stride` between. */
void ut_damage_cut(ut_decode *decode, const char *name, const uint8_t *bytes, size_t n, size_t n_magic,
                   size_t dense, size_t stride);

/* 400 times one bit, the first 200 in the first bytes: still good, or a clean error with a message.  bytes[n]
 * are as before afterwards. */
void ut_damage_flip(ut_decode *decode, const char *name, uint8_t *bytes, size_t n, unsigned seed);

#endif
