/* damage.c - cuts and flipped bits, see damage.h. */
#include "tests/unit/damage.h"

#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

ph_rc ut_decode_copy(ut_decode *decode, const uint8_t *bytes, size_t n, ph_err *err) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) return PH_ENOMEM;
    if (n) memcpy(copy, bytes, n);
    ph_rc rc = decode(copy, n, err);
    free(copy);
    return rc;
}

void ut_damage_cut(ut_decode *decode, const char *name, const uint8_t *bytes, size_t n, size_t n_magic,
                   size_t dense, size_t stride) {
    ph_err err = {0};
    CHECK_SAY(!ut_decode_copy(decode, bytes, n, &err), "%s: %s", name, err.msg);
    for (size_t cut = 0; cut<n; cut += cut> dense && cut + 40 < n ? stride : 1) {
        ph_rc rc = ut_decode_copy(decode, bytes, cut, &err);
        CHECK_SAY(rc == PH_EFORMAT || (rc == PH_EUNSUP && cut < n_magic), "%s cut at %zu of %zu: %s", name,
                  cut, n, ph_rc_name(rc));
    }
}

void ut_damage_flip(ut_decode *decode, const char *name, uint8_t *bytes, size_t n, unsigned seed) {
    for (int trial = 0; n && trial < 400; trial++) {
        seed = seed * 1664525u + 1013904223u;
        size_t  at = (trial < 200 ? (size_t)trial : seed >> 8) % n;
        uint8_t bit = (uint8_t)(1u << (seed >> 4 & 7));
        ph_err  err = {0};
        bytes[at] ^= bit;
        ph_rc rc = ut_decode_copy(decode, bytes, n, &err);
        CHECK_SAY(!rc || rc == PH_EFORMAT || rc == PH_EUNSUP || rc == PH_ELIMIT, "%s byte %zu: %s %s", name,
                  at, ph_rc_name(rc), err.msg);
        CHECK(!rc || err.msg[0]);
        bytes[at] ^= bit;
    }
}
