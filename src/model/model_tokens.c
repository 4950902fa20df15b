/* model_tokens.c - the tokenizer of a checkpoint, from whichever files it brings. */
#include "model/model_impl.h"

#include "text/tokimage.h"

#include <string.h>

static ph_rc check_ids(const char *where, const char *key, const int64_t *id, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] > INT32_MAX)
            return PH_FAIL(err, PH_EFORMAT, "%s: %s holds %lld, expected ids from 0 to %d", where, key,
                           (long long)id[i], INT32_MAX);
    return PH_OK;
}

static ph_rc stops_of_key(const ph_gguf *g, int64_t *out, size_t *n, ph_err *err) {
    const ph_gguf_kv *kv = ph_gguf_find(g, PH_STOP_KEY);
    if (kv->count > PH_STOPS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %s lists %llu ids; at most %d are held", g->name, PH_STOP_KEY,
                       (unsigned long long)kv->count, PH_STOPS_MAX);
    for (*n = 0; *n < kv->count; (*n)++)
        if (!ph_gguf_item_int(kv, *n, &out[*n]))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s: item %zu is no whole number: ids of tokens are expected",
                           g->name, PH_STOP_KEY, *n + 1);
    return check_ids(g->name, PH_STOP_KEY, out, *n, err);
}

/* Tokens that end an answer: the tokenizer's own, generation_config's list, and the usual ends of a turn of
 * GGUF files, which name one EOS only. */
static ph_rc stops(ph_model *m, ph_err *err) {
    static const char *const ends[] = {"<|im_end|>", "<|eot_id|>", "<end_of_utterance>", "<|end|>",
                                       "<end_of_turn>"};
    int64_t                  more[PH_STOPS_MAX];
    int32_t                  all[PH_STOPS_MAX + 1]; /* with the tokenizer's own */
    size_t                   n = 0;
    if (m->source.is_gguf && ph_gguf_find(&m->source.gguf, PH_STOP_KEY)) {
        PH_TRY(stops_of_key(&m->source.gguf, more, &n, err));
    } else if (m->source.is_gguf) {
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            int32_t id = ph_tokenizer_id(m->tokenizer, ends[i], strlen(ends[i]));
            if (id >= 0 && ph_tokenizer_is_control(m->tokenizer, id)) more[n++] = id;
        }
    } else {
        ph_json config[2] = {ph_json_root(&m->source.hf.generation), ph_json_root(&m->source.hf.config)};
        for (int i = 0; i < 2 && !n; i++) {
            ph_json eos = ph_json_get(&config[i], "eos_token_id");
            if (ph_json_kind_of(&eos) == PH_JSON_ARRAY) {
                PH_TRY(ph_json_ints(&config[i], "eos_token_id", more, sizeof more / sizeof *more, &n, err));
            } else if (ph_json_has(&config[i], "eos_token_id")) {
                PH_TRY(ph_json_to_int(&eos, &more[n++], err));
            }
            PH_TRY(check_ids(config[i].where, "eos_token_id", more, n, err));
        }
    }
    n = ph_tokenizer_eos_set(m->tokenizer, more, n, all, sizeof all / sizeof *all);
    if (n > PH_STOPS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %zu tokens end an answer; at most %d are held", m->source.path, n,
                       PH_STOPS_MAX);
    memcpy(m->spec.eos, all, n * sizeof *all);
    m->spec.n_eos = (int)n;
    m->spec.bos = ph_tokenizer_bos(m->tokenizer);
    return PH_OK;
}

/* A directory says whether it takes videos; of a GGUF file the vocabulary does. */
static void video_token(ph_model *m) {
    ph_spec *spec = &m->spec;
    if (m->source.is_gguf && spec->video_token < 0 && spec->video_marker)
        spec->video_token = ph_tokenizer_id(m->tokenizer, spec->video_marker, strlen(spec->video_marker));
    if (spec->video_token < 0) m->video_recipe = (ph_recipe){0};
}

static ph_rc image_token(ph_model *m, ph_err *err) {
    ph_spec *spec = &m->spec;
    ph_keys  top = ph_keys_top(&m->source);
    if (!spec->has_vision || !spec->image_marker) return PH_OK;
    video_token(m);
    if (spec->image_token <
        0) /* GGUF does not say; where the vocabulary has no such token, the rows do not need one */
        spec->image_token = ph_tokenizer_id(m->tokenizer, spec->image_marker, strlen(spec->image_marker));
    if (spec->image_token >= ph_decoder_ids(&spec->text))
        return PH_FAIL(err, PH_EMISMATCH, "%s: image token %d is outside the vocabulary of %d", top.where,
                       spec->image_token, ph_decoder_ids(&spec->text));
    return PH_OK;
}

/* Those of the family's opening tokens that the vocabulary has. */
static void start(ph_model *m) {
    const char *const *name = m->family->start;
    for (; name && *name && m->n_start < sizeof m->start / sizeof *m->start; name++) {
        int32_t id = ph_tokenizer_id(m->tokenizer, *name, strlen(*name));
        if (id >= 0 && id < ph_decoder_ids(&m->spec.text)) m->start[m->n_start++] = id;
    }
}

ph_rc ph_source_tokenizer(ph_tokenizer **out, const ph_source *s, ph_err *err) {
    if (s->is_gguf) return ph_tokenizer_open_gguf(out, &s->gguf, err);
    if (s->hf.carrier) return ph_tokenizer_open_carried(out, s->hf.carrier, err);
    return ph_tokenizer_open_dir(out, s->path, err);
}

/* Ready-made from a bundle that has it so, for this program and machine; else from the plain files. */
static ph_rc open_tokenizer(ph_model *m, ph_err *err) {
    const ph_weight *image;
    PH_TRY(ph_bundle_tokens(&m->source.bundle, &image, err));
    if (image)
        PH_TRY(ph_tokenizer_open_image(&m->tokenizer, image->bytes, image->n_bytes, m->source.bundle.own.name,
                                       err));
    return m->tokenizer ? PH_OK : ph_source_tokenizer(&m->tokenizer, &m->source, err);
}

ph_rc ph_model_open_tokens(ph_model *m, ph_err *err) {
    ph_rc rc = open_tokenizer(m, err);
    if (rc) return ph_note(err, rc, "while opening the tokenizer of %s", m->source.path);
    m->tokenizer_bytes = ph_tokenizer_bytes(m->tokenizer);
    PH_TRY(stops(m, err));
    if (ph_tokenizer_count(m->tokenizer) > ph_decoder_ids(&m->spec.text))
        m->has_orphans = 1; /* ids that the model has no row for: refused when they occur, not before */
    start(m);
    return image_token(m, err);
}
