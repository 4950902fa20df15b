/* err.h - one error currency for the whole program.
 *
 * A function that can fail returns ph_rc and takes a ph_err * last.  PH_OK is
 * 0, failures are negative.  The ph_err carries the first cause and up to
 * three notes added on the way out; it owns no heap, so reporting "out of
 * memory" cannot itself run out of memory.  Text in it is printable (printable.h).  Passing NULL means "I
 * only need the code".
 */
#ifndef PH_BASE_ERR_H
#define PH_BASE_ERR_H

typedef enum ph_rc {
    PH_OK = 0,
#define PH_ERR(name, code, http, exit, text) PH_##name = (code),
#include "base/err.def"
#undef PH_ERR
} ph_rc;

typedef struct ph_err {
    ph_rc       code;
    const char *file; /* static string: where ph_fail stood */
    int         line;
    char        msg[320];     /* the first cause, with its numbers */
    char        note[3][160]; /* innermost first: "while ..." */
    int         n_notes;
} ph_err;

/* Record the cause and hand back its code, so that a failure is one line:
 *     return PH_FAIL(err, PH_EFORMAT, "ppm: width %u", w);
 */
#define PH_FAIL(err, code, ...) ph_fail((err), (code), __FILE__, __LINE__, __VA_ARGS__)

/* Forward a failure unchanged. Only where there is nothing to clean up. */
#define PH_TRY(call)                                                                                         \
    do {                                                                                                     \
        ph_rc ph_rc_ = (call);                                                                               \
        if (ph_rc_) return ph_rc_;                                                                           \
    } while (0)

ph_rc ph_fail(ph_err *err, ph_rc code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Add "while doing X" to an error that passes through; returns its code. */
ph_rc ph_note(ph_err *err, ph_rc code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

const char *ph_rc_name(ph_rc code); /* "EFORMAT"; "OK"; "?" when unknown */
const char *ph_rc_text(ph_rc code); /* one English line, no full stop */
int         ph_rc_http(ph_rc code); /* 200 when PH_OK */
int         ph_rc_exit(ph_rc code); /* 0 when PH_OK */

#endif
