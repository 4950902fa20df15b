/* tokspm.c - reads a SentencePiece tokenizer.model: a protobuf of which a dozen fields matter.
 *
 *     1 pieces (repeated)   1 piece, 2 score (f32),
 *                           3 type (1 normal, 2 unknown, 3 control, 4 user, 5 unused, 6 byte)
 *     2 trainer_spec        3 model_type (1 unigram, 2 BPE), 24 whitespace as suffix, 35 byte_fallback,
 *                           40 unk_id, 41 bos_id, 42 eos_id
 *     3 normalizer_spec     2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
 *                           5 escape_whitespaces
 *
 * Added tokens, BOS and EOS follow transformers'
 * conversion of such files (convert_slow_tokenizer.py), tokenizer_config.json beside it.
 * Source: sentencepiece_model.proto; protobuf wire format.
 */
#include "text/tokenizer_tables.h"

#include "formats/protobuf.h"

#include <string.h>

/* 1: a field was read; 0: the end; -1: malformed. */
static int next(ph_pb *c, ph_pb_field *f) {
    int more;
    return ph_pb_next(c, f, &more, NULL) ? -1 : more;
}

typedef struct spec {
    uint64_t       model_type, add_dummy_prefix, remove_extra, escape, byte_fallback, as_suffix;
    int64_t        unk, bos, eos;
    const uint8_t *charsmap;
    size_t         n_charsmap;
} spec;

static ph_rc bad(const ph_tok_build *b, const ph_pb *c, ph_err *err) {
    return PH_FAIL(err, PH_EFORMAT, "%s: not a SentencePiece model, or damaged: malformed field at byte %zu",
                   b->where, (size_t)(c->at - c->base));
}

static ph_rc read_piece(ph_tok_build *b, ph_pb c, int64_t id, double *least, ph_err *err) {
    ph_pb_field    f;
    int            more;
    const uint8_t *text = NULL;
    size_t         n = 0;
    uint64_t       type = 1;
    float          score = 0;
    while ((more = next(&c, &f)) > 0) {
        if (f.number == 1 && f.wire == PH_PB_BYTES) text = f.at, n = f.n;
        if (f.number == 2 && f.wire == PH_PB_FIXED32) memcpy(&score, f.at, 4);
        if (f.number == 3 && f.wire == PH_PB_VARINT) type = f.value;
    }
    if (more < 0) return bad(b, &c, err);
    if (score != score)
        return PH_FAIL(err, PH_EFORMAT, "%s: the score of piece %lld is not a number", b->where,
                       (long long)id);
    unsigned flags = PH_TOK_MODEL;
    if (type == 2 || type == 3) flags = PH_TOK_ADDED | PH_TOK_CONTROL;
    if (type == 4) flags = PH_TOK_MODEL | PH_TOK_ADDED | PH_TOK_NORMALIZED;
    if (type == 5) flags = PH_TOK_MODEL | PH_TOK_UNUSED;
    if (type == 6) flags = PH_TOK_MODEL | PH_TOK_BYTE;
    if (type == 2) b->t->unk_id = (int32_t)id;
    if (type == 1 && (double)score < *least) *least = (double)score;
    return ph_build_piece_put(b, id, text ? text : (const uint8_t *)"", n, (double)score, flags, err);
}

static ph_rc read_spec(const ph_tok_build *b, ph_pb c, int is_trainer, spec *s, ph_err *err) {
    ph_pb_field f;
    int         more;
    while ((more = next(&c, &f)) > 0) {
        if (is_trainer && f.wire == PH_PB_VARINT) switch (f.number) {
            case 3:
                s->model_type = f.value;
                break;
            case 24:
                s->as_suffix = f.value;
                break;
            case 35:
                s->byte_fallback = f.value;
                break;
            case 40:
                s->unk = (int32_t)f.value;
                break;
            case 41:
                s->bos = (int32_t)f.value;
                break;
            case 42:
                s->eos = (int32_t)f.value;
                break;
            default:
                break;
            }
        if (!is_trainer && f.number == 2 && f.wire == PH_PB_BYTES) s->charsmap = f.at, s->n_charsmap = f.n;
        if (!is_trainer && f.wire == PH_PB_VARINT) switch (f.number) {
            case 3:
                s->add_dummy_prefix = f.value;
                break;
            case 4:
                s->remove_extra = f.value;
                break;
            case 5:
                s->escape = f.value;
                break;
            default:
                break;
            }
    }
    return more < 0 ? bad(b, &c, err) : PH_OK;
}

static ph_rc walk(ph_tok_build *b, ph_blob file, spec *s, ph_err *err) {
    ph_pb       c = ph_pb_of(file.bytes, file.n, b->where);
    ph_pb_field f;
    int         more;
    int64_t     id = 0;
    double      least = 0;
    for (; (more = next(&c, &f)) > 0;) b->n_expected += f.number == 1 && f.wire == PH_PB_BYTES;
    if (more < 0) return bad(b, &c, err);
    c.at = c.base;
    while (next(&c, &f) > 0) {
        if (f.wire != PH_PB_BYTES) continue;
        if (f.number == 1) PH_TRY(read_piece(b, ph_pb_into(&c, &f), id++, &least, err));
        if (f.number == 2 || f.number == 3) PH_TRY(read_spec(b, ph_pb_into(&c, &f), f.number == 2, s, err));
    }
    b->t->unk_score = least - 10;
    return ph_build_index(b, err);
}

/* The operations of every SentencePiece model, from a .model or from GGUF. */
ph_rc ph_build_sentencepiece(ph_tok_build *b, int prefix, int only_first, ph_err *err) {
    ph_tokenizer *t = b->t;
    ph_text_op   *op;
    t->byte_fallback = 1;
    t->fuse_unk = 1;
    t->user_in_model = 1;
    t->model = &ph_text_model_spm;
    b->by_score = 1;
    t->has_decoder = 1;
    if (prefix && only_first) {
        PH_TRY(ph_build_op(b, t->split_op, &t->n_split_op, &op, err));
        op->kind = PH_OP_METASPACE;
        op->flag = 1;
        PH_TRY(ph_build_text(b, "\xE2\x96\x81", 3, &op->a, err));
    } else {
        if (prefix) {
            PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
            op->kind = PH_OP_PREPEND;
            PH_TRY(ph_build_text(b, "\xE2\x96\x81", 3, &op->a, err));
        }
        PH_TRY(ph_build_replace(b, t->norm_op, &t->n_norm_op, " ", "\xE2\x96\x81", err));
    }
    PH_TRY(ph_build_replace(b, t->decode_op, &t->n_decode_op, "\xE2\x96\x81", " ", err));
    PH_TRY(ph_build_op(b, t->decode_op, &t->n_decode_op, &op, err));
    op->kind = PH_OP_BYTE_FALLBACK;
    PH_TRY(ph_build_op(b, t->decode_op, &t->n_decode_op, &op, err));
    op->kind = PH_OP_FUSE;
    if (!prefix) return PH_OK;
    PH_TRY(ph_build_op(b, t->decode_op, &t->n_decode_op, &op, err));
    op->kind = PH_OP_STRIP;
    op->start = 1;
    return ph_build_text(b, " ", 1, &op->a, err);
}

static ph_rc pipeline(ph_tok_build *b, const spec *s, const ph_tok_config *c, ph_err *err) {
    ph_tokenizer *t = b->t;
    ph_text_op   *op;
    if (s->as_suffix) return PH_FAIL(err, PH_EUNSUP, "%s: trainer_spec.treat_whitespace_as_suffix", b->where);
    if (!s->escape)
        return PH_FAIL(err, PH_EUNSUP, "%s: normalizer_spec.escape_whitespaces is false", b->where);
    if (s->n_charsmap) {
        PH_TRY(ph_precompiled_check(s->charsmap, s->n_charsmap, b->where, err));
        PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
        op->kind = PH_OP_CHARSMAP;
        op->flag = 1; /* the library's own walk */
        PH_TRY(ph_build_text(b, s->charsmap, s->n_charsmap, &op->a, err));
    }
    if (s->remove_extra) {
        PH_TRY(ph_build_op(b, t->norm_op, &t->n_norm_op, &op, err));
        op->kind = PH_OP_SQUEEZE;
    }
    PH_TRY(ph_build_sentencepiece(b, s->add_dummy_prefix && c->add_prefix_space != 0, c->legacy == 0, err));
    t->byte_fallback = s->byte_fallback != 0;
    if (s->model_type == 2) return PH_OK;
    if (s->model_type != 1)
        return PH_FAIL(err, PH_EUNSUP, "%s: trainer_spec.model_type %llu (1, unigram, and 2, BPE, are known)",
                       b->where, (unsigned long long)s->model_type);
    t->model = &ph_text_model_unigram;
    b->by_score = 0;
    b->need_score = b->need_pieces = 1;
    return PH_OK;
}

static ph_rc role(ph_tok_build *b, int64_t id, int32_t *out, ph_err *err) {
    if (id >= (int64_t)b->n_piece)
        return PH_FAIL(err, PH_EFORMAT, "%s: a special id is %lld, but there are %zu pieces", b->where,
                       (long long)id, b->n_piece);
    *out = id < 0 ? -1 : (int32_t)id;
    return PH_OK;
}

ph_rc ph_tokspm_read(ph_tok_build *b, const ph_tokenizer_files *f, ph_err *err) {
    ph_tok_config c;
    ph_tokenizer *t = b->t;
    spec          s = {
                 .model_type = 1, .add_dummy_prefix = 1, .remove_extra = 1, .escape = 1, .unk = 0, .bos = 1, .eos = 2};
    PH_TRY(ph_tokconfig_read(&c, f, err));
    PH_TRY(walk(b, f->spm, &s, err));
    if (!b->n_piece) return PH_FAIL(err, PH_EFORMAT, "%s: no pieces: not a SentencePiece model", b->where);
    if (t->unk_id < 0) return PH_FAIL(err, PH_EFORMAT, "%s: no piece is of type unknown", b->where);
    PH_TRY(role(b, s.unk, &t->unk, err));
    PH_TRY(role(b, s.bos, &t->bos, err));
    PH_TRY(role(b, s.eos, &t->eos, err));
    PH_TRY(pipeline(b, &s, &c, err));
    PH_TRY(ph_tokconfig_apply(b, &c, f, err));
    if (t->n_before || t->n_after) return PH_OK; /* the class has said it */
    int add_bos = c.add_bos < 0 ? s.model_type == 2 : c.add_bos,
        add_eos = c.add_eos < 0 ? s.model_type == 1 : c.add_eos;
    if (c.class_name[0] && s.model_type == 2) return PH_OK;
    return ph_build_wrap(b, add_bos ? t->bos : -1, add_eos ? t->eos : -1, err);
}
