/* jinja.h - a chat template and its variables in, text out, every byte with its origin.
 *
 *     source --compile--> ph_jinja --render(variables)--> bytes [n], marks [n]
 *
 * The language is Jinja2's as chat templates use it: the environment is that of Hugging Face
 * transformers (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, the
 * generation block, raise_exception, strftime_now, tojson as json.dumps(ensure_ascii=False)).
 * Python's semantics of str(), repr(), slices, comparisons and errors are kept.
 *
 * Each byte of a string carries a mark: PH_JINJA_TRUSTED when the template's author wrote it,
 * PH_JINJA_DATA when it came in with a variable.  Marks survive concatenation, slices, strip,
 * replace, upper, join, format and the rest, so that what a user typed is told apart from a control
 * token to the last byte.
 *
 * Time, memory, output and depth are bounded (ph_jinja_limits): templates are untrusted too.
 * Not here: include, import, extends (they need a loader; refused by name), autoescape, async;
 * integers beyond 64 bits are an error.
 * Source: jinja.palletsprojects.com/en/3.1.x/templates; huggingface.co/docs/transformers/chat_templating.
 */
#ifndef PH_TEXT_JINJA_H
#define PH_TEXT_JINJA_H

#include "base/arena.h"
#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { PH_JINJA_DATA = 0, PH_JINJA_TRUSTED = 1 };

typedef struct ph_jinja_limits {
    uint64_t steps;     /* nodes evaluated, items visited, bytes / 64 copied */
    size_t   out_bytes; /* of the rendered text */
    size_t   bytes;     /* carved from the arena by one compile or render */
    int      depth;     /* nesting of expressions, blocks, calls and data */
} ph_jinja_limits;
extern const ph_jinja_limits ph_jinja_limits_default; /* 4e6 steps, 16 MiB, 128 MiB, 400 */

typedef struct ph_jinja ph_jinja; /* a compiled template; lives as long as its arena */

/* A value of the template's world.  Opaque but for its size: made by the ph_jinja_* functions below. */
typedef struct ph_jv {
    int kind;
    union {
        int64_t     i;
        double      f;
        const void *p;
    } u;
} ph_jv;

/* Compile source[n] (UTF-8, borrowed for the call).
 * Errors: PH_ETEMPLATE with the line and what is wrong; PH_ENOMEM. */
ph_rc ph_jinja_compile(ph_jinja **out, const char *source, size_t n, const ph_jinja_limits *limits,
                       ph_arena *arena, ph_err *err);

/* One rendering: variables are set, then the template runs once. */
typedef struct ph_jrun ph_jrun;

/* Begin a rendering; everything it makes lives in the arena.  limits NULL: the defaults.
 * now_s: seconds since 1970, local time already applied, for strftime_now; negative: the machine's clock. */
ph_rc ph_jinja_begin(ph_jrun **out, const ph_jinja_limits *limits, int64_t now_s, ph_arena *arena,
                     ph_err *err);
ph_rc ph_jinja_set(ph_jrun *r, const char *name, ph_jv value, ph_err *err);

ph_jv ph_jinja_none(void);
ph_jv ph_jinja_bool(int is_true);
ph_jv ph_jinja_int(int64_t i);
/* Strings are copied; mark is PH_JINJA_DATA or PH_JINJA_TRUSTED for all bytes. */
ph_rc ph_jinja_string(ph_jrun *r, ph_jv *out, const char *s, size_t n, int mark, ph_err *err);
/* The same with one mark a byte. */
ph_rc ph_jinja_string_marked(ph_jrun *r, ph_jv *out, const char *s, const uint8_t *marks, size_t n,
                             ph_err *err);
ph_rc ph_jinja_list(ph_jrun *r, ph_jv *out, const ph_jv *items, size_t n, ph_err *err);
ph_rc ph_jinja_dict(ph_jrun *r, ph_jv *out, const char *const *keys, const ph_jv *values, size_t n,
                    ph_err *err);
/* Deep copy of JSON, all strings marked with mark.  Errors: PH_ETEMPLATE nested too deep or too big. */
ph_rc ph_jinja_json(ph_jrun *r, ph_jv *out, const json_t *json, int mark, ph_err *err);

typedef struct ph_jinja_text {
    const char    *bytes; /* [n], UTF-8 if the inputs were; lives as long as the arena */
    const uint8_t *marks; /* [n] */
    size_t         n;
    const char    *raised; /* on failure: the whole text given to raise_exception; NULL: another failure */
} ph_jinja_text;

/* Render once.  Errors: PH_ETEMPLATE: "line 3: TypeError: ..."; PH_ENOMEM. */
ph_rc ph_jinja_render(ph_jrun *r, const ph_jinja *t, ph_jinja_text *out, ph_err *err);

#endif
