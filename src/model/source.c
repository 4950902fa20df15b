/* source.c - open what stands at a path, and say what it calls itself. */
#include "model/source.h"

#include "formats/carried.h"
#include "formats/container.h"

#include <stdio.h>
#include <string.h>

/* Members that readers step into without asking what they are: of another kind, they would be read as absent.
 */
static const struct {
    const char  *key;
    ph_json_kind kind;
} members[] = {
    {"text_config", PH_JSON_OBJECT},
    {"vision_config", PH_JSON_OBJECT},
    {"qformer_config", PH_JSON_OBJECT},
    {"perceiver_config", PH_JSON_OBJECT},
    {"quantization_config", PH_JSON_OBJECT},
    {"rope_scaling", PH_JSON_OBJECT},
    {"rope_parameters", PH_JSON_OBJECT},
    {"layer_types", PH_JSON_ARRAY},
    {"supported_aspect_ratios", PH_JSON_ARRAY},
    {"model_type", PH_JSON_TEXT},
};

static ph_rc check_members(const ph_json *object, ph_err *err) {
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        ph_json j = ph_json_get(object, members[i].key);
        int     is_there;
        PH_TRY(ph_json_want(&j, members[i].kind, &is_there, err));
    }
    return PH_OK;
}

/* The config and its parts, which may each be the one that holds the text model's keys. */
static ph_rc check_kinds(const ph_json *root, ph_err *err) {
    PH_TRY(check_members(root, err));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        ph_json part = ph_json_get(root, members[i].key);
        if (members[i].kind == PH_JSON_OBJECT) PH_TRY(check_members(&part, err));
    }
    return PH_OK;
}

static ph_rc read_hf(ph_source *s, ph_err *err) {
    ph_json root = ph_json_root(&s->hf.config);
    PH_TRY(check_kinds(&root, err));
    PH_TRY(ph_json_text(&root, "model_type", &s->type, err));
    return ph_source_read_quant(s, err);
}

static ph_rc open_hf(ph_source *s, const char *path, ph_err *err) {
    PH_TRY(ph_hfdir_open(&s->hf, path, PH_HFDIR_MODEL, &s->arena, err));
    return read_hf(s, err);
}

static ph_rc open_carried(ph_source *s, const char *path, const char *mmproj, ph_err *err) {
    s->is_gguf = 0;
    if (mmproj)
        return PH_FAIL(err, PH_EUSAGE,
                       "%s carries a Hugging Face directory, with its vision part: leave --mmproj out", path);
    PH_TRY(ph_hfdir_open_carried(&s->hf, &s->gguf, path, &s->arena, err));
    return read_hf(s, err);
}

static ph_rc text_of(ph_source *s, const ph_gguf *g, const char *key, const char **out, ph_err *err) {
    ph_gguf_text t;
    char        *copy;
    PH_TRY(ph_gguf_text_of(g, key, &t, err));
    PH_TRY(ph_arena_copy_text(&s->arena, &copy, t.at, t.n, err));
    *out = copy;
    return PH_OK;
}

static ph_rc read_mmproj(ph_source *s, ph_err *err) {
    const char *type;
    int         has_vision, is_llava, width; /* the last two: no more than their kind is wanted */
    s->has_mmproj = 1;
    PH_TRY(text_of(s, &s->mmproj, "general.architecture", &type, err));
    if (strcmp(type, "clip"))
        return PH_FAIL(
            err, PH_EMISMATCH,
            "%s: its architecture is '%s'; --mmproj takes a vision file, whose architecture is 'clip'",
            s->mmproj.name, type);
    PH_TRY(ph_gguf_bool_or(&s->mmproj, "clip.has_vision_encoder", 0, &has_vision, err));
    PH_TRY(ph_gguf_bool_or(&s->mmproj, "clip.has_llava_projector", 0, &is_llava, err));
    PH_TRY(ph_gguf_size_or(&s->mmproj, "clip.vision.projection_dim", 1, 1 << 20, 1, &width, err));
    if (!has_vision) return PH_FAIL(err, PH_EMISMATCH, "%s: it holds no vision encoder", s->mmproj.name);
    if (ph_gguf_find(&s->mmproj, "clip.vision.projector_type")) /* files of several modalities */
        return text_of(s, &s->mmproj, "clip.vision.projector_type", &s->projector, err);
    if (ph_gguf_find(&s->mmproj, "clip.projector_type"))
        return text_of(s, &s->mmproj, "clip.projector_type", &s->projector, err);
    s->projector = "mlp"; /* the first LLaVA files have no such key */
    return PH_OK;
}

/* How pictures are prepared is said best by the files that came along, if this was a directory once. */
static ph_rc open_originals(ph_source *s, ph_err *err) {
    const struct {
        const char  *name;
        ph_json_doc *doc;
    } docs[] = {{"config.json", &s->hf.config},
                {"preprocessor_config.json", &s->hf.preprocessor},
                {"processor_config.json", &s->hf.processor},
                {"video_preprocessor_config.json", &s->hf.video_preprocessor}};
    for (size_t i = 0; i < sizeof docs / sizeof *docs; i++) {
        char         key[96];
        ph_gguf_text text;
        snprintf(key, sizeof key, PH_ORIGINAL_KEY "%s", docs[i].name);
        if (!ph_gguf_find(&s->gguf, key)) continue;
        PH_TRY(ph_gguf_text_of(&s->gguf, key, &text, err));
        PH_TRY(ph_json_parse(docs[i].doc, text.at, text.n, docs[i].name, err));
    }
    return PH_OK;
}

static ph_rc open_gguf(ph_source *s, const char *path, const char *mmproj, ph_err *err) {
    PH_TRY(ph_gguf_open(&s->gguf, path, &s->arena, err));
    PH_TRY(ph_bundle_open(&s->bundle, &s->gguf, &s->mmproj, &s->arena, err));
    if (s->bundle.version && mmproj)
        return PH_FAIL(err, PH_EUSAGE, "%s is a bundle, with all parts of its model: leave --mmproj out",
                       path);
    if (ph_carried_is(&s->gguf)) return open_carried(s, path, mmproj, err);
    PH_TRY(text_of(s, &s->gguf, "general.architecture", &s->type, err));
    if (!strcmp(s->type, "clip"))
        return PH_FAIL(err, PH_EMISMATCH,
                       "%s is the vision part of a model: give the language model's file with -m and this "
                       "one with --mmproj",
                       path);
    if (mmproj) PH_TRY(ph_gguf_open(&s->mmproj, mmproj, &s->arena, err));
    if (!mmproj && !s->bundle.has_vision) return PH_OK;
    PH_TRY(read_mmproj(s, err));
    return open_originals(s, err);
}

ph_rc ph_source_open(ph_source *s, const char *path, const char *mmproj, ph_err *err) {
    ph_container what;
    char        *copy;
    *s = (ph_source){0};
    PH_TRY(ph_container_detect(path, &what, err));
    PH_TRY(ph_arena_open_growing(&s->arena, 64 << 10, err));
    PH_TRY(ph_arena_copy_text(&s->arena, &copy, path, strlen(path), err));
    s->path = copy;
    switch (what) {
    case PH_CONTAINER_HFDIR:
        if (mmproj)
            return PH_FAIL(
                err, PH_EUSAGE,
                "--mmproj goes with a .gguf file; %s is a directory that holds its own vision part", path);
        return open_hf(s, path, err);
    case PH_CONTAINER_GGUF:
        s->is_gguf = 1;
        return open_gguf(s, path, mmproj, err);
    case PH_CONTAINER_SAFETENSORS:
        return PH_FAIL(
            err, PH_EUNSUP,
            "%s holds weights alone: give -m the directory that holds its config.json and tokenizer too",
            path);
    case PH_CONTAINER_ONNX:
        break;
    }
    return PH_FAIL(
        err, PH_EUNSUP,
        "%s is a file of kind %s: a graph without a tokenizer or a template, which cannot be asked; `pinhole "
        "inspect` and `pinhole check` say what is in it",
        path, ph_container_name(what));
}

void ph_source_close(ph_source *s) {
    ph_hfdir_close(&s->hf);
    ph_gguf_close(&s->gguf);
    ph_gguf_close(&s->mmproj);
    ph_arena_close(&s->arena);
    *s = (ph_source){0};
}

const char *ph_source_container(const ph_source *s) {
    if (s->bundle.version) return "bundle";
    return s->is_gguf || s->hf.carrier ? "gguf" : "safetensors";
}

const ph_weights *ph_source_weights(const ph_source *s) {
    return s->is_gguf ? &s->gguf.weights : &s->hf.weights.weights;
}

const ph_weights *ph_source_vision_weights(const ph_source *s) {
    return s->is_gguf ? &s->mmproj.weights : &s->hf.weights.weights;
}
