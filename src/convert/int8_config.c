/* int8_config.c - puts quantization_config into config.json.  See int8_config.h.
 *
 * The text is cut and joined, not written anew: numbers, order and tokens that JSON proper does not have
 * (NaN) stay as their writer put them.  What comes out is parsed once, so nothing is written that is not read
 * again.
 */
#include "convert/int8_config.h"

#include "formats/json.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "quantization_config";

static json_t *scheme(int is_dynamic, const char *strategy) {
    return json_pack("{si ss sb ss sb}", "num_bits", 8, "type", "int", "symmetric", 1, "strategy", strategy,
                     "dynamic", is_dynamic);
}

/* The member, as text of several lines; the caller frees it.  NULL: no memory. */
static char *member(const char *const *ignore, size_t n_ignore) {
    json_t *left = json_array();
    for (size_t i = 0; i < n_ignore; i++) json_array_append_new(left, json_string(ignore[i]));
    json_t *o =
        json_pack("{ss ss ss s{s{s[s] so so sn}} so sn}", "quant_method", "compressed-tensors", "format",
                  "int-quantized", "quantization_status", "compressed", "config_groups", "group_0", "targets",
                  "Linear", "weights", scheme(0, "channel"), "input_activations", scheme(1, "token"),
                  "output_activations", "ignore", left, "kv_cache_scheme");
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_ENSURE_ASCII) : NULL;
    json_decref(o);
    return text;
}

static const char *past_space(const char *at, const char *end) {
    while (at < end && isspace((unsigned char)*at)) at++;
    return at;
}

/* The end of the string that begins at `at`, behind its quote. */
static const char *past_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* Where the root's member `key` has its null; NULL: nowhere. */
static const char *null_of(const char *at, const char *end) {
    static const char quoted[] = "\"quantization_config\"";
    for (int depth = 0; at < end;) {
        if (*at != '"') {
            depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
            at++;
            continue;
        }
        const char *behind = past_string(at, end), *colon = past_space(behind, end);
        if (depth == 1 && colon < end && *colon == ':' && (size_t)(behind - at) == strlen(quoted) &&
            !memcmp(at, quoted, strlen(quoted))) {
            at = past_space(colon + 1, end);
            return end - at >= 4 && !memcmp(at, "null", 4) ? at : NULL;
        }
        at = behind;
    }
    return NULL;
}

/* `text`, lines behind the first moved in by two. */
static void put_indented(FILE *to, const char *text) {
    for (; *text; text++) {
        fputc(*text, to);
        if (*text == '\n') fputs("  ", to);
    }
}

static void put_all(FILE *to, const char *text, size_t n, const char *value) {
    const char *end = text + n, *null = null_of(text, end), *last = end;
    if (null) {
        fwrite(text, 1, (size_t)(null - text), to);
        put_indented(to, value);
        fwrite(null + 4, 1, (size_t)(end - null - 4), to);
        return;
    }
    while (last > text && last[-1] != '}') last--; /* behind the root's brace */
    const char *stop = last > text ? last - 1 : text;
    while (stop > text && isspace((unsigned char)stop[-1])) stop--;
    fwrite(text, 1, (size_t)(stop - text), to);
    fprintf(to, "%s\n  \"%s\": ", stop > text && stop[-1] == '{' ? "" : ",", key);
    put_indented(to, value);
    fputs("\n}", to);
    fwrite(last, 1, (size_t)(end - last), to);
}

static ph_rc check(const char *text, size_t n, ph_err *err) {
    ph_json_doc doc = {0};
    PH_TRY(ph_json_parse(&doc, text, n, "config.json", err));
    ph_json root = ph_json_root(&doc), q = ph_json_get(&root, key);
    ph_rc   rc = ph_json_kind_of(&q) == PH_JSON_OBJECT
                     ? PH_OK
                     : PH_FAIL(err, PH_EFORMAT, "config.json: no place for %s: expected an object", key);
    ph_json_close(&doc);
    return rc;
}

ph_rc ph_int8_config_make(ph_int8_config *out, const char *text, size_t n, const char *const *ignore,
                          size_t n_ignore, ph_arena *arena, ph_err *err) {
    char  *value = member(ignore, n_ignore), *made = NULL, *copy = NULL;
    size_t n_made = 0;
    FILE  *to = value ? open_memstream(&made, &n_made) : NULL;
    *out = (ph_int8_config){0};
    if (to) put_all(to, text, n, value);
    ph_rc rc = to && !fclose(to) && made ? PH_OK : PH_FAIL(err, PH_ENOMEM, "config.json with its %s", key);
    if (!rc) rc = check(made, n_made, err);
    if (!rc) rc = ph_arena_copy_text(arena, &copy, made, n_made, err);
    free(made);
    free(value);
    if (!rc) *out = (ph_int8_config){copy, n_made};
    return rc;
}
