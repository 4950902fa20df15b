/* recipe.c - reads recipes and chooses types.  See recipe.h.
 *
 * Without a rule: vectors (norms, biases) stay floats of 32 bits, matrices get
 * the type asked for, the output matrix at least Q6_K (Q8_0 where rows do not fit),
 * which costs little and is where coarse types hurt first.
 */
#include "convert/recipe.h"

#include "formats/json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { RULES_MAX = 4096 };

/* ---- reading ---- */

ph_rc ph_recipe_type(const char *name, ph_dtype *out, ph_err *err) {
    char   list[240] = "";
    size_t n = 0;
    int    is_known = ph_dtype_from_name(name, out);
    if (is_known && ph_dtype_is_written(*out)) return PH_OK;
    if (!strcasecmp(name, "int8")) {
        *out = PH_RECIPE_INT8;
        return PH_OK;
    }
    for (int t = 0; t < PH_N_DTYPES && n < sizeof list; t++) /* each with its comma */
        if (ph_dtype_is_written((ph_dtype)t))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s, ", ph_dtype_name((ph_dtype)t));
    return PH_FAIL(err, PH_EUNSUP, "type '%.40s' %scannot be written; these can: %sINT8", name,
                   is_known ? "is read but " : "", list);
}

static ph_rc add(ph_recipe_types *r, ph_recipe_rule *rule, const char *pattern, size_t n_pattern,
                 const char *type, ph_arena *arena, ph_err *err) {
    char *copy;
    if (r->n == RULES_MAX) return PH_FAIL(err, PH_ELIMIT, "a recipe of more than %d rules", RULES_MAX);
    PH_TRY(ph_arena_copy_text(arena, &copy, pattern, n_pattern, err));
    rule[r->n] = (ph_recipe_rule){.pattern = copy, .is_keep = !strcasecmp(type, "keep")};
    if (!rule[r->n].is_keep) PH_TRY(ph_recipe_type(type, &rule[r->n].type, err));
    r->n++;
    return PH_OK;
}

static ph_rc read_json(ph_recipe_types *r, ph_recipe_rule *rule, const void *bytes, size_t n,
                       const char *name, ph_arena *arena, ph_err *err) {
    ph_json_doc doc = {0};
    const char *pattern, *type;
    ph_json     value;
    ph_rc       rc = ph_json_parse(&doc, bytes, n, name, err);
    ph_json     root = ph_json_root(&doc);
    for (ph_json_iter it = ph_json_members(&root); !rc && ph_json_next(&it, &pattern, &value);) {
        rc = ph_json_to_text(&value, &type, NULL, err);
        if (!rc) rc = add(r, rule, pattern, strlen(pattern), type, arena, err);
    }
    ph_json_close(&doc);
    return rc;
}

static void trim(const char **at, const char **end) {
    while (*at < *end && isspace((unsigned char)**at)) (*at)++;
    while (*end > *at && isspace((unsigned char)(*end)[-1])) (*end)--;
}

static ph_rc read_line(ph_recipe_types *r, ph_recipe_rule *rule, const char *at, const char *end,
                       const char *name, size_t line, ph_arena *arena, ph_err *err) {
    const char *hash = memchr(at, '#', (size_t)(end - at));
    char        type[48];
    if (hash) end = hash;
    trim(&at, &end);
    if (at == end) return PH_OK;
    const char *eq = memchr(at, '=', (size_t)(end - at)), *pattern_end = eq, *from = eq ? eq + 1 : end;
    if (eq) trim(&at, &pattern_end);
    trim(&from, &end);
    if (!eq || at == pattern_end || from == end || end - from >= (ptrdiff_t)sizeof type)
        return PH_FAIL(err, PH_EFORMAT, "%s: line %zu: expected pattern = type", name, line);
    snprintf(type, sizeof type, "%.*s", (int)(end - from), from);
    ph_rc rc = add(r, rule, at, (size_t)(pattern_end - at), type, arena, err);
    return rc ? ph_note(err, rc, "in line %zu of %s", line, name) : PH_OK;
}

ph_rc ph_recipe_types_read(ph_recipe_types *out, const void *bytes, size_t n, const char *name,
                           ph_arena *arena, ph_err *err) {
    const char *at = bytes, *end = at + n;
    size_t      lines = 2;
    void       *rules, *met;
    for (size_t i = 0; i < n; i++) lines += at[i] == '\n' || at[i] == ',';
    PH_TRY(ph_arena_carve(arena, &rules, lines < RULES_MAX ? lines : RULES_MAX, sizeof(ph_recipe_rule), err));
    PH_TRY(ph_arena_zero(arena, &met, lines < RULES_MAX ? lines : RULES_MAX, sizeof(size_t), err));
    out->rule = rules;
    out->met = met;
    out->n = 0;
    const char *first = at;
    while (first < end && isspace((unsigned char)*first)) first++;
    if (first < end && *first == '{') return read_json(out, rules, bytes, n, name, arena, err);
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        PH_TRY(read_line(out, rules, at, stop, name, line, arena, err));
        at = stop + 1;
    }
    return PH_OK;
}

/* Without recursion: after a mismatch the last star takes one character more. */
int ph_recipe_matches(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++retry;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

void ph_recipe_meet(const ph_recipe_types *r, const char *name) {
    for (size_t i = 0; r->met && i < r->n; i++)
        r->met[i] += (size_t)ph_recipe_matches(r->rule[i].pattern, name);
}

size_t ph_recipe_unmet(const ph_recipe_types *r, size_t from) {
    while (from < r->n && (!r->met || r->met[from])) from++;
    return from;
}

int ph_recipe_has_int8(const ph_recipe_types *r) {
    for (size_t i = 0; i < r->n; i++)
        if (!r->rule[i].is_keep && r->rule[i].type == PH_RECIPE_INT8) return 1;
    return r->has_type && r->type == PH_RECIPE_INT8;
}

/* ---- choosing ---- */

static double bits(ph_dtype t) {
    return 8.0 * (double)ph_dtype_bytes(t) / (double)ph_dtype_block(t);
}

static int fits(ph_dtype t, int64_t row) {
    return row % (int64_t)ph_dtype_block(t) == 0;
}

/* A type of blocks of 32 with more bits than t, as the field falls back, else halves. */
static ph_dtype instead_of(ph_dtype t, int64_t row) {
    static const ph_dtype small[] = {PH_IQ4_NL, PH_Q5_0, PH_Q5_1, PH_Q8_0};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (bits(small[i]) > bits(t) && fits(small[i], row)) return small[i];
    return PH_F16;
}

/* Matrices of the field's files that are not multiplied as such: convolutions, positions, routers. */
static int is_delicate(const char *name) {
    if (!strcmp(name, "mm.input_projection.weight")) return 1; /* stored the other way round */
    if (ph_recipe_matches("*_embd.weight.*", name)) return 1;  /* of a patch's second frame */
    return ph_recipe_matches("*_embd.weight", name) ? !ph_recipe_matches("token_embd.weight", name)
                                                    : ph_recipe_matches("*ffn_gate_inp.weight", name);
}

static ph_dtype by_default(const ph_recipe_types *r, const ph_recipe_ask *a) {
    int is_vector = a->rank < 2;
    if (!r->has_type) return !a->is_gguf && (a->is_wide || is_vector) ? PH_F32 : a->stored;
    if (r->type == PH_RECIPE_INT8 && (is_vector || a->is_output)) return a->stored;
    if (is_vector || a->is_wide) return PH_F32;
    if (r->is_quantize && ph_dtype_block(r->type) > 1) {
        if (is_delicate(a->name)) return bits(a->stored) > 16 ? PH_F16 : a->stored;
        if (a->is_output && bits(r->type) < bits(PH_Q6_K)) return fits(PH_Q6_K, a->row) ? PH_Q6_K : PH_Q8_0;
    }
    return r->type;
}

ph_dtype ph_recipe_choose(const ph_recipe_types *r, const ph_recipe_ask *a, int *fell_back) {
    const ph_recipe_rule *rule = NULL;
    for (size_t i = 0; i < r->n && !rule; i++)
        if (ph_recipe_matches(r->rule[i].pattern, a->name)) rule = &r->rule[i];
    ph_dtype want = !rule ? by_default(r, a) : rule->is_keep ? a->stored : rule->type;
    *fell_back = 0;
    if (a->rank < 2 && want == PH_RECIPE_INT8) return a->stored;
    if (a->rank < 2 && ph_dtype_block(want) > 1) want = PH_F32; /* no program reads vectors as blocks */
    if (fits(want, a->row)) return want;
    *fell_back = 1;
    return instead_of(want, a->row);
}
