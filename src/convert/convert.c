/* convert.c - which of the four ways a conversion goes. */
#include "convert/stream.h"

#include "formats/container.h"

#include <stdlib.h>
#include <string.h>

static int is_same_place(const char *a, const char *b) {
    if (!a || !b) return 0;
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    int   same = x && y ? !strcmp(x, y) : !strcmp(a, b);
    free(x);
    free(y);
    return same;
}

/* The same place by another name would be read while it is written, or written twice. */
static ph_rc check_places(const ph_convert *c, ph_err *err) {
    const char *const out[] = {c->out, c->mmproj_out};
    for (int i = 0; i < 2; i++)
        if (is_same_place(c->in, out[i]) || is_same_place(c->mmproj, out[i]))
            return PH_FAIL(err, PH_EUSAGE, "%.200s is what is read: write somewhere else", out[i]);
    if (is_same_place(c->out, c->mmproj_out))
        return PH_FAIL(err, PH_EUSAGE, "%.200s cannot hold both parts: write the vision part somewhere else",
                       c->out);
    return PH_OK;
}

ph_rc ph_convert_run(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    ph_container what;
    *report = (ph_convert_report){0};
    PH_TRY(ph_container_detect(c->in, &what, err));
    PH_TRY(check_places(c, err));
    if (!c->to_gguf && c->types->has_type && ph_dtype_block(c->types->type) > 1)
        return PH_FAIL(err, PH_EUSAGE, "safetensors have no name for %s: --to gguf has",
                       ph_dtype_name(c->types->type));
    if (!c->to_gguf && c->names)
        return PH_FAIL(err, PH_EUSAGE, "--names goes with --to gguf: a directory has Hugging Face's");
    if (what == PH_CONTAINER_GGUF)
        return c->to_gguf ? ph_convert_gguf_again(c, report, err) : ph_convert_to_hf(c, report, err);
    if (what == PH_CONTAINER_HFDIR)
        return c->to_gguf ? ph_convert_to_gguf(c, report, err) : ph_convert_hf_again(c, report, err);
    return PH_FAIL(err, PH_EUNSUP,
                   "%.200s is of kind %s; Hugging Face directories and GGUF files are converted", c->in,
                   ph_container_name(what));
}
