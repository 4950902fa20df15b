/* api_error.c - errors and versioned structs as they cross the border of the library. */
#include "api/api.h"

#include <string.h>

/* The public codes are err.def's: stable for ever. */
#define PH_ERR(name, code, http, exit, text) _Static_assert((int)PINHOLE_##name == (code), #name);
#include "base/err.def"
#undef PH_ERR

_Static_assert(PINHOLE_NOTES_MAX == sizeof((ph_err *)0)->note / sizeof((ph_err *)0)->note[0], "notes");
_Static_assert(sizeof((pinhole_error *)0)->message == sizeof((ph_err *)0)->msg, "message");
_Static_assert(sizeof((pinhole_error *)0)->note == sizeof((ph_err *)0)->note, "note");

const char *pinhole_version(void) {
    return PH_VERSION;
}

const char *pinhole_code_name(int code) {
    return ph_rc_name((ph_rc)code);
}

const char *pinhole_code_text(int code) {
    return ph_rc_text((ph_rc)code);
}

int ph_api_end(ph_rc rc, const ph_err *err, pinhole_error *error) {
    if (!error) return (int)rc;
    memset(error, 0, sizeof *error);
    error->code = (int)rc;
    error->exit_code = ph_rc_exit(rc);
    error->http_status = ph_rc_http(rc);
    error->name = ph_rc_name(rc);
    if (!rc) return PINHOLE_OK;
    memcpy(error->message, err->msg, sizeof error->message);
    if (!error->message[0]) strncpy(error->message, ph_rc_text(rc), sizeof error->message - 1);
    memcpy(error->note, err->note, sizeof error->note);
    error->n_notes = err->n_notes;
    return (int)rc;
}

ph_rc ph_api_null(const char *function, const char *argument, ph_err *err) {
    return PH_FAIL(err, PH_EUSAGE, "%s: %s is NULL", function, argument);
}

/* What the caller says its struct has.  A size that no version had is an uninitialised one. */
static ph_rc read_size(const void *at, const char *what, size_t *out, ph_err *err) {
    enum { SIZE_MOST = 4096 };
    memcpy(out, at, sizeof *out);
    if (*out >= sizeof *out && *out <= SIZE_MOST) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE, "%s.size is %zu: set it to sizeof(%s), and what is not used to zero", what,
                   *out, what);
}

ph_rc ph_api_take(void *to, size_t size, const void *from, const char *what, ph_err *err) {
    size_t               given;
    const unsigned char *bytes = from;
    memset(to, 0, size);
    if (!from) return PH_OK;
    PH_TRY(read_size(from, what, &given, err));
    for (size_t i = size; i < given; i++)
        if (bytes[i])
            return PH_FAIL(err, PH_EUSAGE, "%s: byte %zu is set, but this library (%s) knows %zu bytes of it",
                           what, i, PH_VERSION, size);
    memcpy(to, from, given < size ? given : size);
    return PH_OK;
}

ph_rc ph_api_give(void *to, const void *from, size_t size, const char *what, ph_err *err) {
    size_t given;
    PH_TRY(read_size(to, what, &given, err));
    memset(to, 0, given);
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &given, sizeof given);
    return PH_OK;
}
