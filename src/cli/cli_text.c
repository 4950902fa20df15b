/* cli_text.c - bytes for JSON: what is no UTF-8 becomes U+FFFD, since JSON has no other way to say it. */
#include "cli/command.h"

#include "text/bytebuf.h"
#include "text/utf8.h"

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
