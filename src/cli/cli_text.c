/* cli_text.c - sizes of pictures out of options; bytes for JSON: what is no UTF-8 becomes U+FFFD, since JSON
 * has no other way to say it. */
#include "cli/command.h"

#include "text/bytebuf.h"
#include "text/utf8.h"

#include <string.h>

/* Digits alone; NULL: beyond the range. */
static const char *read_pixels(const char *at, int most, int *out) {
    int64_t n = 0;
    for (; *at >= '0' && *at <= '9' && n <= most; at++) n = 10 * n + (*at - '0');
    *out = (int)(n <= most ? n : 0);
    return *out ? at : NULL;
}

ph_rc ph_cli_read_image_size(const char *text, int most, int *width, int *height, ph_err *err) {
    const char *at = read_pixels(text, most, width);
    if (at && *at == 'x' && (at = read_pixels(at + 1, most, height)) && !*at) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE,
                   "--image-size takes WIDTHxHEIGHT in pixels, such as 1024x768, each from 1 to %d, not '%s'",
                   most, text);
}

json_t *ph_cli_text_json(const char *bytes, size_t n) {
    ph_bytes out = {0};
    json_t  *text = json_stringn(bytes, n);
    if (text) return text;
    for (size_t i = 0; i < n;) {
        ph_utf8_step step = ph_utf8_read((const uint8_t *)bytes + i, n - i);
        if (ph_bytes_push_char(&out, step.code_point, NULL)) break;
        i += step.n;
    }
    text = json_stringn((const char *)out.at, out.n);
    ph_bytes_close(&out);
    return text;
}

void ph_cli_set_json(json_t *object, const char *key, json_t *value) {
    json_t *text = ph_cli_text_json(key, strlen(key));
    json_object_set_new(object, json_string_value(text), value);
    json_decref(text);
}
