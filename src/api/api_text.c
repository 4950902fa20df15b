/* api_text.c - text to ids and back.
 *
 * The caller's array is filled as far as it goes and the whole count is given, as snprintf does, so that no
 * memory of ours has to be released by the caller.
 */
#include "api/api.h"

#include <string.h>

static ph_rc tokenize(const pinhole_model *model, const char *text, size_t n, unsigned how, int32_t *ids,
                      size_t ids_max, size_t *n_ids, ph_err *err) {
    PH_API_WANT(model);
    PH_API_WANT(n_ids);
    *n_ids = 0;
    if (n) PH_API_WANT(text);
    if (ids_max) PH_API_WANT(ids);
    if (how & ~(unsigned)(PINHOLE_TOKENS_SPECIAL | PINHOLE_TOKENS_CONTROL))
        return PH_FAIL(err, PH_EUSAGE, "pinhole_tokenize: how is %u, which holds unknown flags", how);
    unsigned as = how & PINHOLE_TOKENS_SPECIAL ? PH_ENCODE_SPECIAL : PH_ENCODE_PLAIN;
    if (how & PINHOLE_TOKENS_CONTROL) as |= PH_ENCODE_CONTROL;
    ph_ids found = {0};
    ph_rc  rc = ph_tokenizer_encode(model->opened->tokenizer, text ? text : "",
                                   n == PINHOLE_WHOLE ? strlen(text) : n, as, &found, err);
    size_t fits = found.n < ids_max ? found.n : ids_max;
    if (!rc && fits) memcpy(ids, found.at, fits * sizeof *ids);
    if (!rc) *n_ids = found.n;
    ph_ids_close(&found);
    return rc;
}

int pinhole_tokenize(const pinhole_model *model, const char *text, size_t n, unsigned how, int32_t *ids,
                     size_t ids_max, size_t *n_ids, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(tokenize(model, text, n, how, ids, ids_max, n_ids, &err), &err, error);
}

static ph_rc detokenize(const pinhole_model *model, const int32_t *ids, size_t n_ids, int skip_control,
                        char *text, size_t text_max, size_t *n, ph_err *err) {
    PH_API_WANT(model);
    PH_API_WANT(n);
    *n = 0;
    if (n_ids) PH_API_WANT(ids);
    if (text_max) PH_API_WANT(text);
    ph_bytes found = {0};
    ph_rc    rc = ph_tokenizer_decode(model->opened->tokenizer, ids, n_ids, skip_control != 0, &found, err);
    size_t   fits = !text_max ? 0 : found.n < text_max ? found.n : text_max - 1;
    if (!rc && fits) memcpy(text, found.at, fits);
    if (text_max) text[rc ? 0 : fits] = 0;
    if (!rc) *n = found.n;
    ph_bytes_close(&found);
    return rc;
}

int pinhole_detokenize(const pinhole_model *model, const int32_t *ids, size_t n_ids, int skip_control,
                       char *text, size_t text_max, size_t *n, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(detokenize(model, ids, n_ids, skip_control, text, text_max, n, &err), &err, error);
}
