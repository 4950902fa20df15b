/* json.h - JSON documents from untrusted bytes, read with types.
 *
 *     bytes --ph_json_parse--> ph_json_doc --ph_json_root--> ph_json --ph_json_get--> ph_json ...
 *
 * A ph_json is a small value that points at a node of a document and remembers
 * the way to it, so that a wrong type is reported as
 *
 *     config.json: text_config.hidden_size: expected an integer, found a string
 *
 * Accepted is what Python's json module writes: beyond RFC 8259 the tokens NaN,
 * Infinity and -Infinity, and integers beyond 64 bits (read as reals).
 * Refused: duplicate keys, nesting deeper than PH_JSON_DEPTH_MAX, documents over
 * PH_JSON_BYTES_MAX or with so many nodes that they would take more than
 * PH_JSON_MEMORY_MAX, invalid UTF-8, and \u0000 in a key.
 */
#ifndef PH_FORMATS_JSON_H
#define PH_FORMATS_JSON_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { PH_JSON_DEPTH_MAX = 128, PH_JSON_BYTES_MAX = 256 << 20, PH_JSON_MEMORY_MAX = 1 << 30 };

typedef enum ph_json_kind {
    PH_JSON_ABSENT, /* no such key or index */
    PH_JSON_NULL,
    PH_JSON_BOOL,
    PH_JSON_INT,
    PH_JSON_REAL,
    PH_JSON_TEXT,
    PH_JSON_ARRAY,
    PH_JSON_OBJECT
} ph_json_kind;

typedef struct ph_json_doc {
    void *root; /* owned; NULL: nothing parsed (a zeroed document may be closed and asked for its root) */
    char  name[64];
} ph_json_doc;

typedef struct ph_json {
    const void *node;       /* lives as long as the document; NULL: absent */
    char        where[120]; /* "config.json: a.b[3]", cut when longer */
} ph_json;

/* Parse bytes[n]; the root must be an object or an array.  `name` (a file's) begins every message.
 * Errors: PH_EFORMAT with line and column; PH_ELIMIT too large or too deep; PH_ENOMEM. */
ph_rc   ph_json_parse(ph_json_doc *doc, const void *bytes, size_t n, const char *name, ph_err *err);
void    ph_json_close(ph_json_doc *doc);
ph_json ph_json_root(const ph_json_doc *doc);

/* Moving about. An absent node has no members, so steps can be chained without a check. */
ph_json_kind ph_json_kind_of(const ph_json *j);
size_t       ph_json_count(const ph_json *j); /* items of an array, members of an object, else 0 */
ph_json      ph_json_get(const ph_json *object, const char *key);
ph_json      ph_json_at(const ph_json *array, size_t i);
int          ph_json_has(const ph_json *object, const char *key); /* present and not null */

/* Members in the order of the document:
 *     for (ph_json_iter it = ph_json_members(&obj); ph_json_next(&it, &key, &value);) ... */
typedef struct ph_json_iter {
    const ph_json *object;
    void          *at;
} ph_json_iter;
ph_json_iter ph_json_members(const ph_json *object);
int          ph_json_next(ph_json_iter *it, const char **key, ph_json *value);

/* The value of a node itself.  Errors: PH_EFORMAT it has another type (or is absent), naming the way to it.
 * An integer may be written as a real without fraction; a real may be written as an integer. */
ph_rc ph_json_to_int(const ph_json *j, int64_t *out, ph_err *err);
ph_rc ph_json_to_real(const ph_json *j, double *out, ph_err *err);
ph_rc ph_json_to_bool(const ph_json *j, int *out, ph_err *err);
/* Text, NUL-terminated, valid UTF-8; lives as long as the document.  With n == NULL an embedded NUL is an
 * error. */
ph_rc ph_json_to_text(const ph_json *j, const char **out, size_t *n, ph_err *err);

/* Whether a node is there (not absent, not null), and of this kind.  Errors: PH_EFORMAT it is of another
 * kind, naming the way to it and what was found. */
ph_rc ph_json_want(const ph_json *j, ph_json_kind kind, int *is_there, ph_err *err);

/* The value of a member that must be there. */
ph_rc ph_json_int(const ph_json *object, const char *key, int64_t *out, ph_err *err);
ph_rc ph_json_real(const ph_json *object, const char *key, double *out, ph_err *err);
ph_rc ph_json_bool(const ph_json *object, const char *key, int *out, ph_err *err);
ph_rc ph_json_text(const ph_json *object, const char *key, const char **out, ph_err *err);
/* A count or size: an integer within min .. max, else PH_EFORMAT with the bounds. */
ph_rc ph_json_size(const ph_json *object, const char *key, int min, int max, int *out, ph_err *err);

/* The same with a fallback for a member that is absent or null; a wrong type is still an error. */
ph_rc ph_json_int_or(const ph_json *object, const char *key, int64_t fallback, int64_t *out, ph_err *err);
ph_rc ph_json_real_or(const ph_json *object, const char *key, double fallback, double *out, ph_err *err);
ph_rc ph_json_bool_or(const ph_json *object, const char *key, int fallback, int *out, ph_err *err);
ph_rc ph_json_text_or(const ph_json *object, const char *key, const char *fallback, const char **out,
                      ph_err *err);
ph_rc ph_json_size_or(const ph_json *object, const char *key, int min, int max, int fallback, int *out,
                      ph_err *err);

/* An array member of at most out_max items; absent or null gives *n = 0.
 * Errors: as above, and PH_ELIMIT more items than out_max. */
ph_rc ph_json_ints(const ph_json *object, const char *key, int64_t *out, size_t out_max, size_t *n,
                   ph_err *err);
ph_rc ph_json_reals(const ph_json *object, const char *key, float *out, size_t out_max, size_t *n,
                    ph_err *err);
ph_rc ph_json_texts(const ph_json *object, const char *key, const char **out, size_t out_max, size_t *n,
                    ph_err *err);

#endif
