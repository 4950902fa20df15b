/* convert.c - which of the ways a conversion goes. */
#include "convert/stream.h"

#include "formats/container.h"

ph_rc ph_convert_may_write(const ph_convert *c, const char *path, ph_err *err) {
    const char *const read[] = {c->in, c->mmproj, c->recipe};
    return ph_container_may_write(path, read, 3, err);
}

/* What is read would be lost while it is needed, and of two parts in one place one is lost. */
static ph_rc check_places(const ph_convert *c, ph_err *err) {
    PH_TRY(ph_convert_may_write(c, c->out, err));
    if (!c->mmproj_out) return PH_OK;
    PH_TRY(ph_convert_may_write(c, c->mmproj_out, err));
    if (ph_container_is_same_place(c->out, c->mmproj_out))
        return PH_FAIL(err, PH_EUSAGE, "%.200s cannot hold both parts: write the vision part somewhere else",
                       c->out);
    return PH_OK;
}

ph_rc ph_convert_no_int8(const ph_convert *c, ph_err *err) {
    return PH_FAIL(
        err, PH_EUNSUP,
        "%.200s has GGUF's own names, which have no place for the scales of int8: take q8_0, or make a "
        "directory of it first (pinhole convert --to safetensors) and int8 of that",
        c->in);
}

/* Blocks have no name in a directory: neither what is asked for all, nor what rules ask. */
static ph_rc check_types_of_dir(const ph_convert *c, ph_err *err) {
    const ph_recipe_types *t = c->types;
    const ph_dtype        *coarse = t->has_type && ph_dtype_block(t->type) > 1 ? &t->type : NULL;
    for (size_t i = 0; i < t->n && !coarse; i++)
        if (!t->rule[i].is_keep && ph_dtype_block(t->rule[i].type) > 1) coarse = &t->rule[i].type;
    return coarse ? PH_FAIL(err, PH_EUSAGE, "safetensors have no name for %s: a .gguf has",
                            ph_dtype_name(*coarse))
                  : PH_OK;
}

static ph_rc unsupported(const ph_convert *c, ph_container what, ph_err *err) {
    return PH_FAIL(err, PH_EUNSUP,
                   "%.200s is of kind %s; Hugging Face directories and GGUF files are converted", c->in,
                   ph_container_name(what));
}

/* Every checkpoint becomes a bundle in one way. */
static ph_rc run_bundle(const ph_convert *c, ph_container what, ph_convert_report *report, ph_err *err) {
    if (c->mmproj_out)
        return PH_FAIL(err, PH_EUSAGE, "--mmproj-out goes with --to gguf: a bundle holds its vision part");
    if (c->names)
        return PH_FAIL(err, PH_EUSAGE,
                       "--names goes with --to gguf: a bundle keeps the names of what it is made from");
    if (what == PH_CONTAINER_HFDIR || what == PH_CONTAINER_GGUF) return ph_convert_to_bundle(c, report, err);
    return unsupported(c, what, err);
}

ph_rc ph_convert_run(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    ph_container what;
    *report = (ph_convert_report){0};
    PH_TRY(ph_container_detect(c->in, &what, err));
    PH_TRY(check_places(c, err));
    if (!c->to_gguf) PH_TRY(check_types_of_dir(c, err));
    if (!c->to_gguf && c->names)
        return PH_FAIL(err, PH_EUSAGE, "--names goes with a .gguf to write: a directory has Hugging Face's");
    if (!c->to_gguf && c->mmproj_out)
        return PH_FAIL(err, PH_EUSAGE,
                       "--mmproj-out goes with a .gguf to write: a directory holds its vision part");
    if (c->is_bare && (!c->to_gguf || c->is_bundle))
        return PH_FAIL(err, PH_EUSAGE,
                       "--bare goes with --to gguf: a %s has no keys that only serve the way back",
                       c->is_bundle ? "bundle" : "directory");
    if (what == PH_CONTAINER_HFDIR && c->mmproj)
        return PH_FAIL(err, PH_EUSAGE, "--mmproj goes with a .gguf: a directory holds its vision part");
    if (c->is_bundle) return run_bundle(c, what, report, err);
    if (!c->to_gguf && ph_recipe_has_int8(c->types) &&
        (what == PH_CONTAINER_GGUF || what == PH_CONTAINER_HFDIR))
        return ph_convert_int8_to_hf(c, report, err);
    if (what == PH_CONTAINER_GGUF)
        return c->to_gguf ? ph_convert_gguf_again(c, report, err) : ph_convert_to_hf(c, report, err);
    if (what == PH_CONTAINER_HFDIR)
        return c->to_gguf ? ph_convert_to_gguf(c, report, err) : ph_convert_hf_again(c, report, err);
    return unsupported(c, what, err);
}
