/* pattern.h - regular expressions of tokenizers, matched with PCRE2.
 *
 *     Oniguruma (Ruby) syntax --translate--> PCRE2 syntax --compile, JIT--> ph_pattern
 *
 * tokenizer.json holds patterns for Oniguruma.  Where the two languages differ, the
 * translation keeps Oniguruma's meaning: \s and \w by Unicode's own properties, \h a hex
 * digit, \uXXXX, nested character classes, class intersections (&&), ^ and $ at lines,
 * {n,m}+ not possessive, scripts without extensions.
 * Source: Oniguruma doc/RE; PCRE2 pcre2pattern(3).
 */
#ifndef PH_TEXT_PATTERN_H
#define PH_TEXT_PATTERN_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_pattern {
    void  *code;       /* pcre2_code, owned */
    size_t bytes;      /* memory the compiled pattern holds, machine code apart */
    size_t repeat;     /* the most that a repeat counts to: its characters may be looked at in one step */
    int    looks_back; /* the pattern names what a group has matched */
} ph_pattern;

/* Where one pattern looks in one text; zero `pattern_` before use. */
typedef struct ph_search {
    const ph_pattern *pattern; /* borrowed */
    const uint8_t    *text;    /* [n] VALID UTF-8, borrowed */
    size_t            n, from;
    size_t            last_end;    /* of the last match; SIZE_MAX before the first */
    uint64_t          spent, most; /* steps of the matcher in all texts of the search; how many it may take */
    size_t            at;          /* where the last step was */
    void             *data;        /* pcre2_match_data, owned */
    void             *context;     /* pcre2_match_context, owned */
} ph_search;

/* Compile source[n].  `where` names file and key for messages.
 * Errors: PH_EFORMAT (with the pattern's offset), PH_EUNSUP syntax without translation, PH_ENOMEM. */
ph_rc ph_pattern_open(ph_pattern *p, const char *source, size_t n, const char *where, ph_err *err);
/* The same for a fixed string: every character stands for itself. */
ph_rc ph_pattern_open_literal(ph_pattern *p, const char *text, size_t n, const char *where, ph_err *err);
void  ph_pattern_close(ph_pattern *p); /* accepts a zeroed one */

/* A search in one text, or in pieces of it: [n_all] bytes in all.  `s` may not move while it is used. */
ph_rc ph_search_open(ph_search *s, const ph_pattern *p, size_t n_all, ph_err *err);
void  ph_search_begin(ph_search *s, const uint8_t *text, size_t n);
/* The next match: *found, and [*begin, *end).  No empty match directly behind the last one.
 * Errors: PH_ELIMIT the pattern takes too many steps on this text: time grows with the text, whatever the
 * pattern. */
ph_rc ph_search_next(ph_search *s, int *found, size_t *begin, size_t *end, ph_err *err);
void  ph_search_close(ph_search *s);

#endif
