/* jinja_help.h - what the template tests share. */
#ifndef PH_TESTS_TEXT_JINJA_HELP_H
#define PH_TESTS_TEXT_JINJA_HELP_H

#include "tests/unit/unit.h"
#include "text/chat.h"

#include <string.h>

enum { JH_NOW = 1721995200 }; /* the clock of the goldens: 2024-07-26 12:00 */

json_t *jh_load(const char *name); /* tests/golden/chat/name; taken */
ph_rc   jh_render(ph_jinja_text *out, const char *source, size_t n, json_t *vars, ph_arena *a, ph_err *err);

#endif
