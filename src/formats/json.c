/* json.c - what the house asks of JSON, over jansson.
 *
 * jansson parses, checks UTF-8 and refuses duplicate keys; ADR 0010 says why it.
 * Around it stand a first look over the bytes (depth, memory, and the spellings that
 * Python writes but jansson refuses) and getters that know where they are.
 *
 * The first look rewrites into a copy only what needs it:
 *     NaN, Infinity, -Infinity   ->  a string that begins with a noncharacter
 *     an integer beyond int64    ->  the same with ".0", so that it is a real
 */
#include "formats/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* U+FDD0 is valid UTF-8, and Unicode promises that it never stands in interchanged text. */
#define ODD "\xEF\xB7\x90"

static const struct {
    const char *token, *written, *text;
    double      value;
} odd[] = {
    {"NaN", "\"" ODD "nan\"", ODD "nan", NAN},
    {"Infinity", "\"" ODD "inf\"", ODD "inf", INFINITY},
    {"-Infinity", "\"" ODD "neg\"", ODD "neg", -INFINITY},
};
enum { N_ODD = sizeof odd / sizeof *odd, DIGITS_SAFE = 19 };
/* What jansson 2.14 takes at most, malloc's own bytes included; measured. */
enum { BOX_BYTES = 360, ITEM_BYTES = 192 };

/* ---- the first look ---- */

typedef struct look {
    const char *in;
    size_t      n;
    char       *out; /* NULL: only count */
    size_t      used;
    int         depth, deepest;
    size_t      n_odd;
    size_t      boxes, commas; /* objects and arrays; an item follows each comma */
} look;

static void put(look *l, const char *s, size_t n) {
    if (l->out) memcpy(l->out + l->used, s, n);
    l->used += n;
}

/* The string that begins at in[i]; returns the index behind it. */
static size_t pass_string(look *l, size_t i) {
    size_t begin = i++;
    while (i < l->n && l->in[i] != '"') i += l->in[i] == '\\' && i + 1 < l->n ? 2 : 1;
    if (i < l->n) i++;
    put(l, l->in + begin, i - begin);
    return i;
}

/* Is this number of n digits beyond int64?  (-2^63 itself counts as beyond; nobody writes it.) */
static int is_wide(const char *digits, size_t n) {
    return n > DIGITS_SAFE || (n == DIGITS_SAFE && memcmp(digits, "9223372036854775807", DIGITS_SAFE) > 0);
}

/* A run of token characters: a number, a word, or nonsense that jansson will name. */
static size_t pass_word(look *l, size_t i) {
    size_t begin = i, digits = 0, others = 0;
    for (; i < l->n && !strchr("\"{}[],: \t\r\n", l->in[i]); i++) {
        int is_digit = l->in[i] >= '0' && l->in[i] <= '9';
        digits += (size_t)is_digit;
        others += !is_digit && !(i == begin && l->in[i] == '-');
    }
    if (i == begin) i++; /* a NUL byte: strchr finds it */
    for (size_t k = 0; k < N_ODD; k++)
        if (i - begin == strlen(odd[k].token) && !memcmp(l->in + begin, odd[k].token, i - begin)) {
            put(l, odd[k].written, strlen(odd[k].written));
            l->n_odd++;
            return i;
        }
    put(l, l->in + begin, i - begin);
    if (!others && is_wide(l->in + i - digits, digits)) {
        put(l, ".0", 2);
        l->n_odd++;
    }
    return i;
}

static void look_over(look *l) {
    for (size_t i = 0; i < l->n;) {
        char c = l->in[i];
        if (c == '"') {
            i = pass_string(l, i);
        } else if (c && strchr("{}[],: \t\r\n", c)) {
            l->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            if (l->depth > l->deepest) l->deepest = l->depth;
            l->boxes += c == '{' || c == '[';
            l->commas += c == ',';
            put(l, &l->in[i++], 1);
        } else {
            i = pass_word(l, i);
        }
    }
}

/* ---- documents ---- */

static ph_rc load(ph_json_doc *doc, const char *bytes, size_t n, ph_err *err) {
    json_error_t why;
    doc->root = json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (doc->root) return PH_OK;
    if (json_error_code(&why) == json_error_out_of_memory)
        return PH_FAIL(err, PH_ENOMEM, "%s: out of memory", doc->name);
    return PH_FAIL(err, PH_EFORMAT, "%s:%d:%d: %s", doc->name, why.line, why.column, why.text);
}

ph_rc ph_json_parse(ph_json_doc *doc, const void *bytes, size_t n, const char *name, ph_err *err) {
    look l = {.in = bytes, .n = n};
    *doc = (ph_json_doc){0};
    snprintf(doc->name, sizeof doc->name, "%s", name);
    if (!n) return PH_FAIL(err, PH_EFORMAT, "%s: empty, expected JSON", name);
    if (n > PH_JSON_BYTES_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %zu bytes of JSON, at most %d are read", name, n,
                       PH_JSON_BYTES_MAX);
    look_over(&l);
    if (l.deepest > PH_JSON_DEPTH_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: nested %d deep, at most %d are read", name, l.deepest,
                       PH_JSON_DEPTH_MAX);
    size_t memory = n + BOX_BYTES * l.boxes + ITEM_BYTES * l.commas;
    if (memory > PH_JSON_MEMORY_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %zu objects and arrays, %zu commas: too many nodes to hold", name,
                       l.boxes, l.commas);
    if (!l.n_odd) return load(doc, bytes, n, err);

    look copy = {.in = bytes, .n = n, .out = malloc(l.used)};
    if (!copy.out) return PH_FAIL(err, PH_ENOMEM, "%s: no memory for %zu bytes", name, l.used);
    look_over(&copy);
    ph_rc rc = load(doc, copy.out, copy.used, err);
    free(copy.out);
    return rc;
}

void ph_json_close(ph_json_doc *doc) {
    json_decref(doc->root);
    *doc = (ph_json_doc){0};
}

ph_json ph_json_root(const ph_json_doc *doc) {
    ph_json j = {.node = doc->root};
    snprintf(j.where, sizeof j.where, "%s", doc->name);
    return j;
}

/* ---- moving about ---- */

/* The value if it is one of the odd tokens: its index, else -1. */
static int odd_index(const json_t *node) {
    const char *text = json_string_value(node);
    if (text && !strncmp(text, ODD, sizeof ODD - 1))
        for (int k = 0; k < N_ODD; k++)
            if (!strcmp(text, odd[k].text)) return k;
    return -1;
}

ph_json_kind ph_json_kind_of(const ph_json *j) {
    const json_t *node = j->node;
    if (!node) return PH_JSON_ABSENT;
    switch (json_typeof(node)) {
    case JSON_OBJECT:
        return PH_JSON_OBJECT;
    case JSON_ARRAY:
        return PH_JSON_ARRAY;
    case JSON_STRING:
        return odd_index(node) >= 0 ? PH_JSON_REAL : PH_JSON_TEXT;
    case JSON_INTEGER:
        return PH_JSON_INT;
    case JSON_REAL:
        return PH_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return PH_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return PH_JSON_NULL;
}

size_t ph_json_count(const ph_json *j) {
    return json_is_array((const json_t *)j->node) ? json_array_size(j->node) : json_object_size(j->node);
}

/* By hand, since it runs once a vocabulary entry: where + separator + key, cut at the end. */
static void step_into(ph_json *to, const ph_json *from, const char *key) {
    const char *piece[] = {from->where, strstr(from->where, ": ") ? "." : ": ", key};
    size_t      at = 0;
    for (size_t i = 0; i < 3; i++)
        for (const char *s = piece[i]; *s && at < sizeof to->where - 1; s++) to->where[at++] = *s;
    to->where[at] = 0;
}

ph_json ph_json_get(const ph_json *object, const char *key) {
    ph_json j;
    j.node = json_object_get(object->node, key);
    step_into(&j, object, key);
    return j;
}

ph_json ph_json_at(const ph_json *array, size_t i) {
    ph_json j;
    size_t  n = strlen(array->where);
    j.node = json_array_get(array->node, i);
    memcpy(j.where, array->where, n + 1);
    snprintf(j.where + n, sizeof j.where - n, "[%zu]", i);
    return j;
}

int ph_json_has(const ph_json *object, const char *key) {
    const json_t *node = json_object_get(object->node, key);
    return node && !json_is_null(node);
}

/* jansson's iterators take an object that is not const, and change nothing in it. */
static json_t *mutable_node(const ph_json *j) {
    union {
        const void *in;
        json_t     *out;
    } u = {.in = j->node};
    return u.out;
}

ph_json_iter ph_json_members(const ph_json *object) {
    return (ph_json_iter){object, json_object_iter(mutable_node(object))};
}

int ph_json_next(ph_json_iter *it, const char **key, ph_json *value) {
    if (!it->at) return 0;
    *key = json_object_iter_key(it->at);
    value->node = json_object_iter_value(it->at);
    step_into(value, it->object, *key);
    it->at = json_object_iter_next(mutable_node(it->object), it->at);
    return 1;
}

/* ---- values ---- */

static const char *const kind_name[] = {"nothing", "null",   "a boolean", "an integer",
                                        "a real",  "a text", "an array",  "an object"};

static ph_rc wrong(const ph_json *j, const char *expected, ph_err *err) {
    return PH_FAIL(err, PH_EFORMAT, "%s: expected %s, found %s", j->where, expected,
                   kind_name[ph_json_kind_of(j)]);
}

ph_rc ph_json_want(const ph_json *j, ph_json_kind kind, int *is_there, ph_err *err) {
    ph_json_kind found = ph_json_kind_of(j);
    *is_there = found == kind;
    return *is_there || found <= PH_JSON_NULL ? PH_OK : wrong(j, kind_name[kind], err);
}

ph_rc ph_json_to_int(const ph_json *j, int64_t *out, ph_err *err) {
    const json_t *node = j->node;
    if (json_is_integer(node)) return *out = json_integer_value(node), PH_OK;
    double real = json_real_value(node);
    if (!json_is_real(node) || !(fabs(real) <= 0x1p53) || fabs(real - nearbyint(real)) > 0)
        return wrong(j, "an integer", err);
    *out = (int64_t)real;
    return PH_OK;
}

ph_rc ph_json_to_real(const ph_json *j, double *out, ph_err *err) {
    int k = odd_index(j->node);
    if (k < 0 && !json_is_number((const json_t *)j->node)) return wrong(j, "a number", err);
    *out = k >= 0 ? odd[k].value : json_number_value(j->node);
    return PH_OK;
}

ph_rc ph_json_to_bool(const ph_json *j, int *out, ph_err *err) {
    const json_t *node = j->node;
    if (!json_is_boolean(node)) return wrong(j, "a boolean", err);
    *out = json_is_true(node);
    return PH_OK;
}

ph_rc ph_json_to_text(const ph_json *j, const char **out, size_t *n, ph_err *err) {
    if (ph_json_kind_of(j) != PH_JSON_TEXT) return wrong(j, "a text", err);
    size_t length = json_string_length(j->node);
    *out = json_string_value(j->node);
    if (!n && strlen(*out) != length)
        return PH_FAIL(err, PH_EFORMAT, "%s: a NUL character within the text", j->where);
    if (n) *n = length;
    return PH_OK;
}

/* Members. The pairs differ in their types only. */
#define MEMBER(name, type)                                                                                   \
    ph_rc ph_json_##name(const ph_json *object, const char *key, type *out, ph_err *err) {                   \
        ph_json j = ph_json_get(object, key);                                                                \
        return to_##name(&j, out, err);                                                                      \
    }                                                                                                        \
    ph_rc ph_json_##name##_or(const ph_json *object, const char *key, type fallback, type *out,              \
                              ph_err *err) {                                                                 \
        *out = fallback;                                                                                     \
        return ph_json_has(object, key) ? ph_json_##name(object, key, out, err) : PH_OK;                     \
    }
#define to_int  ph_json_to_int
#define to_real ph_json_to_real
#define to_bool ph_json_to_bool
static ph_rc to_text(const ph_json *j, const char **out, ph_err *err) {
    return ph_json_to_text(j, out, NULL, err);
}
MEMBER(int, int64_t)
MEMBER(real, double)
MEMBER(bool, int)
MEMBER(text, const char *)

ph_rc ph_json_size(const ph_json *object, const char *key, int min, int max, int *out, ph_err *err) {
    int64_t value;
    PH_TRY(ph_json_int(object, key, &value, err));
    if (value < min || value > max)
        return PH_FAIL(err, PH_EFORMAT, "%s: %s is %lld, expected %d to %d", object->where, key,
                       (long long)value, min, max);
    *out = (int)value;
    return PH_OK;
}

ph_rc ph_json_size_or(const ph_json *object, const char *key, int min, int max, int fallback, int *out,
                      ph_err *err) {
    *out = fallback;
    return ph_json_has(object, key) ? ph_json_size(object, key, min, max, out, err) : PH_OK;
}

/* ---- arrays ---- */

static ph_rc array_of(const ph_json *object, const char *key, size_t out_max, ph_json *array, size_t *n,
                      ph_err *err) {
    *n = 0;
    *array = ph_json_get(object, key);
    if (!ph_json_has(object, key)) return PH_OK;
    if (ph_json_kind_of(array) != PH_JSON_ARRAY) return wrong(array, "an array", err);
    *n = ph_json_count(array);
    if (*n > out_max)
        return PH_FAIL(err, PH_ELIMIT, "%s: %zu items, at most %zu are read", array->where, *n, out_max);
    return PH_OK;
}

ph_rc ph_json_ints(const ph_json *object, const char *key, int64_t *out, size_t out_max, size_t *n,
                   ph_err *err) {
    ph_json array;
    PH_TRY(array_of(object, key, out_max, &array, n, err));
    for (size_t i = 0; i < *n; i++) {
        ph_json item = ph_json_at(&array, i);
        PH_TRY(ph_json_to_int(&item, &out[i], err));
    }
    return PH_OK;
}

ph_rc ph_json_reals(const ph_json *object, const char *key, float *out, size_t out_max, size_t *n,
                    ph_err *err) {
    ph_json array;
    PH_TRY(array_of(object, key, out_max, &array, n, err));
    for (size_t i = 0; i < *n; i++) {
        double  value;
        ph_json item = ph_json_at(&array, i);
        PH_TRY(ph_json_to_real(&item, &value, err));
        out[i] = (float)value;
    }
    return PH_OK;
}

ph_rc ph_json_texts(const ph_json *object, const char *key, const char **out, size_t out_max, size_t *n,
                    ph_err *err) {
    ph_json array;
    PH_TRY(array_of(object, key, out_max, &array, n, err));
    for (size_t i = 0; i < *n; i++) {
        ph_json item = ph_json_at(&array, i);
        PH_TRY(to_text(&item, &out[i], err));
    }
    return PH_OK;
}
