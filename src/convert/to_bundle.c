/* to_bundle.c - any checkpoint into one sealed file (formats/bundle.h).
 *
 *     directory, carrying file ── carry.c: tensors, small files ──────────┐
 *     language file (+ vision file) ── as they stand, the vision keys ────┤
 *                                      under a prefix                     │
 *                                                                         └─► keys of the bundle ── data ── seal
 *                                                                                  └── plan ◄── opened as a model
 *
 * The tokenizer is made of the plain files that go in and stands in the bundle ready-made too, as an extra
 * tensor.
 *
 * The plan of memory is that of the file that is written, page by page, so the file is written first, opened
 * by its descriptor, and its head written anew with what came out.  It has its name only when all that is
 * done.
 */
#include "convert/stream.h"

#include "flow/bundle_plan.h"
#include "formats/bundle.h"
#include "text/tokimage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */

static void put_keys(ph_gguf_meta *meta) {
    static const char program[] = "pinhole " PH_VERSION;
    ph_gguf_put_int(meta, PH_BUNDLE_VERSION_KEY, PH_GGUF_U32, PH_SEAL_VERSION);
    ph_gguf_put_text(meta, PH_BUNDLE_PROGRAM_KEY, program, strlen(program));
    ph_bundle_plan_put(&(ph_bundle_plan){0}, meta);
}

static ph_rc write_sealed(FILE *to, const char *path, const ph_stream *s, const ph_gguf_meta *meta,
                          const ph_producer *p, ph_err *err) {
    ph_sealer sealer = {0};
    ph_rc     rc = ph_sealer_open(&sealer, err);
    if (!rc) rc = ph_gguf_write_into(to, &sealer, path, meta, s->to, s->n, p, err);
    if (!rc) rc = ph_sealer_end(&sealer, to, err);
    if (!rc && (ferror(to) || fflush(to)))
        rc = PH_FAIL(err, PH_EIO, "cannot write %.200s: %s", path, strerror(errno));
    ph_sealer_close(&sealer);
    return rc;
}

static ph_rc plan_of(ph_bundle_plan *plan, const char *path, int threads, ph_err *err) {
    const ph_model_options how = {.is_plan_only = 1, .is_trusted = 1};
    ph_model              *m;
    PH_TRY(ph_model_open(&m, path, &how, err));
    ph_rc rc = ph_bundle_plan_make(plan, m, threads, NULL, err);
    ph_model_close(m);
    return rc;
}

/* The head of the file at path once more, with the plan in it. */
static ph_rc put_plan(FILE *to, const char *path, const ph_bundle_plan *plan, ph_err *err) {
    ph_gguf  g = {0};
    ph_arena arena = {0};
    uint8_t *head = NULL;
    PH_TRY(ph_arena_open_growing(&arena, 64 << 10, err));
    ph_rc rc = ph_gguf_open(&g, path, &arena, err);
    if (!rc && !(head = malloc(g.seal.head))) rc = PH_FAIL(err, PH_ENOMEM, "the keys of a bundle");
    if (!rc) {
        memcpy(head, g.seal.bytes, g.seal.head);
        rc = ph_bundle_plan_change(plan, &g, head, err);
    }
    if (!rc) rc = ph_seal_change_head(to, &g.seal, head, err);
    free(head);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
    return rc;
}

/* The tokenizer's tables as a tensor of bytes; *image NULL: there will be none. */
static ph_rc make_image(ph_weight *to, uint8_t **image, const ph_stream *s, ph_err *err) {
    static const char name[] = "pinhole.tokenizer";
    ph_tokenizer     *t;
    size_t            n;
    *image = NULL;
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->to[i].name, name)) return PH_OK; /* the model has a tensor of that name */
    PH_TRY(ph_source_tokenizer(&t, s->source, err));
    ph_rc rc = ph_tokenizer_to_image(t, image, &n, err);
    ph_tokenizer_close(t);
    if (!rc && *image)
        *to = (ph_weight){.name = name,
                          .dtype = PH_I8,
                          .rank = 2,
                          .dim = {(int64_t)n / PH_ALIGN, PH_ALIGN},
                          .bytes = *image,
                          .n_bytes = n};
    return rc;
}

/* Behind the model's tensors, and no part of it: nor of what is said to have been converted. */
static ph_rc put_image(ph_gguf_meta *meta, ph_stream *s, const ph_weight *tokens, ph_err *err) {
    const ph_convert_report before = *s->report;
    ph_gguf_put_text(meta, PH_BUNDLE_TOKENS_KEY, tokens->name, strlen(tokens->name));
    ph_gguf_put_int(meta, PH_BUNDLE_EXTRA_KEY, PH_GGUF_U64, 1);
    PH_TRY(ph_stream_add(s, tokens->name, tokens->dtype, tokens, 0, 0, err));
    *s->report = before;
    s->report->bytes_out += tokens->n_bytes;
    return PH_OK;
}

static ph_rc write_and_plan(ph_stream *s, const char *path, ph_gguf_meta *meta, ph_err *err) {
    ph_producer    p;
    ph_part_file   f;
    ph_bundle_plan plan;
    char           own[64];
    PH_TRY(ph_stream_ready(s, &p, err));
    PH_TRY(ph_part_open(&f, path, err));
    snprintf(own, sizeof own, "/proc/self/fd/%d", fileno(f.to));
    ph_rc rc = write_sealed(f.to, path, s, meta, &p, err);
    if (!rc) rc = plan_of(&plan, f.part ? f.part : own, s->c->threads, err);
    if (!rc) rc = put_plan(f.to, f.part ? f.part : own, &plan, err);
    return ph_part_close(&f, rc, err);
}

ph_rc ph_convert_write_bundle(ph_stream *s, const char *path, ph_gguf_meta *meta, ph_err *err) {
    uint8_t  *image;
    ph_weight tokens;
    put_keys(meta);
    PH_TRY(make_image(&tokens, &image, s, err));
    ph_rc rc = image ? put_image(meta, s, &tokens, err) : PH_OK;
    if (!rc) rc = write_and_plan(s, path, meta, err);
    free(image);
    return rc;
}

/* ---- of files with the field's names ---- */

static ph_rc check_names(const ph_gguf *g, const ph_gguf *vision, ph_err *err) {
    for (size_t i = 0; i < vision->weights.n; i++)
        if (ph_weights_find(&g->weights, vision->weights.at[i].name))
            return PH_FAIL(
                err, PH_EUNSUP,
                "tensor %.160s is in the language file and in the vision file: one bundle cannot hold both",
                vision->weights.at[i].name);
    return PH_OK;
}

static ph_rc put_prefixed(ph_gguf_meta *meta, const ph_gguf_kv *kv, ph_arena *arena, ph_err *err) {
    ph_gguf_kv under = *kv;
    size_t     n_prefix = strlen(PH_BUNDLE_MMPROJ_KEY), n = strlen(kv->key);
    void      *key;
    PH_TRY(ph_arena_carve(arena, &key, n_prefix + n + 1, 1, err));
    memcpy(key, PH_BUNDLE_MMPROJ_KEY, n_prefix);
    memcpy((char *)key + n_prefix, kv->key, n + 1);
    under.key = key;
    ph_gguf_put_copy(meta, &under);
    return PH_OK;
}

static int is_alignment(const char *key) {
    return !strcmp(key, PH_GGUF_ALIGNMENT_KEY);
}

/* Both files' keys, but those about one file alone. */
static ph_rc put_parts(ph_gguf_meta *meta, const ph_gguf *g, const ph_gguf *vision, ph_arena *arena,
                       ph_err *err) {
    for (size_t i = 0; i < g->n_kv; i++)
        if (!ph_convert_is_of_the_file(g->kv[i].key) && !is_alignment(g->kv[i].key))
            ph_gguf_put_copy(meta, &g->kv[i]);
    if (meta->alignment != 32) ph_gguf_put_int(meta, PH_GGUF_ALIGNMENT_KEY, PH_GGUF_U32, meta->alignment);
    for (size_t i = 0; i < vision->n_kv; i++)
        if (!ph_convert_is_of_the_file(vision->kv[i].key) && !is_alignment(vision->kv[i].key))
            PH_TRY(put_prefixed(meta, &vision->kv[i], arena, err));
    if (vision->weights.n)
        ph_gguf_put_int(meta, PH_BUNDLE_VISION_KEY, PH_GGUF_U64, (int64_t)vision->weights.n);
    return PH_OK;
}

static ph_rc write_parts(const ph_convert *c, ph_convert_report *report, const ph_model *m, ph_arena *arena,
                         ph_err *err) {
    const ph_gguf *g = &m->source.gguf, *vision = &m->source.mmproj;
    size_t         alignment =
        vision->weights.n && vision->alignment > g->alignment ? vision->alignment : g->alignment;
    ph_gguf_meta meta = {.alignment = (uint32_t)alignment};
    ph_stream    s = {0};
    PH_TRY(check_names(g, vision, err));
    ph_rc rc = ph_stream_open(&s, c, report, g->weights.n + vision->weights.n + 1, arena, err);
    s.source = &m->source;
    if (!rc) rc = ph_convert_add_again(&s, g, err);
    if (!rc) rc = ph_convert_add_again(&s, vision, err);
    if (!rc) rc = put_parts(&meta, g, vision, arena, err);
    if (!rc) {
        ph_convert_put_type(&meta, &s);
        rc = ph_convert_write_bundle(&s, c->out, &meta, err);
    }
    ph_stream_close(&s);
    ph_gguf_meta_close(&meta);
    return rc;
}

ph_rc ph_convert_to_bundle(const ph_convert *c, ph_convert_report *report, ph_err *err) {
    const ph_model_options how = {.mmproj = c->mmproj};
    ph_model              *m;
    ph_arena               arena = {0};
    PH_TRY(ph_model_open(&m, c->in, &how, err));
    ph_rc rc = m->source.is_gguf && ph_recipe_has_int8(c->types) ? ph_convert_no_int8(c, err) : PH_OK;
    if (!rc) rc = ph_arena_open_growing(&arena, 64 << 10, err);
    if (!rc && m->source.is_gguf)
        rc = write_parts(c, report, m, &arena, err);
    else if (!rc)
        rc = ph_convert_carry(c, report, m, &arena, err);
    ph_arena_close(&arena);
    ph_model_close(m);
    return rc;
}
