/* model_chat.c - the chat template of a checkpoint, or the form that its family is used with. */
#include "model/model_impl.h"

#include <string.h>

/* The template's text: given by the caller, the checkpoint's own, or the family's usual form. */
static ph_rc find_template(const ph_model *m, const char *given, const char **text, size_t *n, ph_err *err) {
    ph_gguf_text own;
    if (given) {
        *text = given;
        *n = strlen(given);
        return PH_OK;
    }
    if (m->source.is_gguf && ph_gguf_find(&m->source.gguf, "tokenizer.chat_template")) {
        PH_TRY(ph_gguf_text_of(&m->source.gguf, "tokenizer.chat_template", &own, err));
        *text = own.at;
        *n = own.n;
        return PH_OK;
    }
    if (!m->source.is_gguf && m->source.hf.chat_template) {
        *text = m->source.hf.chat_template;
        *n = m->source.hf.chat_template_n;
        return PH_OK;
    }
    *text = ph_chat_builtin(m->family->template_);
    if (!*text)
        return PH_FAIL(err, PH_EBUG, "family %s: no chat form '%s'", m->family->name, m->family->template_);
    *n = strlen(*text);
    return PH_OK;
}

/* A special token's text, which templates print; NULL: the model has none. */
static ph_rc token_text(ph_model *m, int32_t id, const char **out, ph_err *err) {
    size_t n = 0;
    char  *copy;
    *out = NULL;
    const char *piece = id < 0 ? NULL : ph_tokenizer_piece(m->tokenizer, id, &n);
    if (!piece || !n) return PH_OK;
    PH_TRY(ph_arena_copy_text(&m->source.arena, &copy, piece, n, err));
    *out = copy;
    return PH_OK;
}

ph_rc ph_model_open_chat(ph_model *m, const char *given, ph_err *err) {
    const char *text;
    size_t      n = 0;
    PH_TRY(ph_arena_open_growing(&m->chat_arena, 32 << 10, err));
    PH_TRY(token_text(m, ph_tokenizer_bos(m->tokenizer), &m->bos_text, err));
    PH_TRY(token_text(m, ph_tokenizer_eos(m->tokenizer), &m->eos_text, err));
    PH_TRY(find_template(m, given, &text, &n, err));
    ph_rc rc = ph_jinja_compile(&m->chat, text, n, NULL, &m->chat_arena, err);
    if (rc && given) return ph_note(err, rc, "while compiling the chat template that was given");
    return rc ? ph_note(err, rc, "while compiling the chat template of %s", m->source.path) : PH_OK;
}

ph_rc ph_model_render(const ph_model *m, const ph_chat_message *messages, size_t n, ph_arena *arena,
                      ph_chat_text *out, ph_err *err) {
    if (!m->chat)
        return PH_FAIL(err, PH_EUNSUP, "%s places texts and pictures side by side; it does not answer",
                       m->source.path);
    const ph_chat chat = {.messages = messages,
                          .n_messages = n,
                          .add_generation_prompt = 1,
                          .bos_token = m->bos_text,
                          .eos_token = m->eos_text,
                          .image_marker = m->spec.image_marker,
                          .image_after = m->spec.image_after,
                          .now_s = -1};
    return ph_chat_render(out, m->chat, &chat, arena, err);
}
