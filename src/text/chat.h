/* chat.h - a conversation through a model's template, to spans that know their origin.
 *
 *     messages [{role, parts: text | image}], tools, variables --template--> spans
 *
 * A span is a run of bytes that is either trusted (written by the template's author, hence allowed to
 * become control tokens) or data (typed by somebody, hence only ever text), or an image slot: the
 * place where the i-th image of the conversation stands.  Slots come from the template's own image
 * marker in trusted bytes; the same characters typed by a user are data and make no slot.
 *
 * Templates differ in what they want as content: a string, or a list of parts.  ph_chat_render finds
 * out by rendering the same conversation with harmless probe texts, and takes the form in which the
 * most of them come through (field practice: vLLM's content-format detection, llama.cpp's minja).
 */
#ifndef PH_TEXT_CHAT_H
#define PH_TEXT_CHAT_H

#include "text/jinja.h"

typedef struct ph_chat_part {
    const char *text; /* [n], borrowed; NULL: an image */
    size_t      n;
} ph_chat_part;

typedef struct ph_chat_message {
    const char         *role; /* "system", "user", "assistant", "tool", ... */
    const ph_chat_part *parts;
    size_t              n_parts;
    const json_t       *more; /* further keys of the message (tool_calls, name, ...); NULL: none */
} ph_chat_message;

typedef struct ph_chat_variable {
    const char   *name;
    const json_t *value;
    int           is_trusted; /* a special token of the model (bos_token ...), not a client's value */
} ph_chat_variable;

typedef enum ph_chat_form {
    PH_CHAT_AUTO,
    PH_CHAT_STRINGS, /* content is a string; images are the marker inside it */
    PH_CHAT_PARTS,   /* content is a list of {"type": "text" | "image", ...} */
    PH_CHAT_MIXED,   /* parts for messages with images, strings for the others */
} ph_chat_form;

typedef struct ph_chat {
    const ph_chat_message  *messages;
    size_t                  n_messages;
    const json_t           *tools; /* an array, or NULL: none */
    int                     add_generation_prompt;
    const char             *bos_token, *eos_token; /* NULL: not defined */
    const ph_chat_variable *variables;
    size_t                  n_variables;
    const char  *image_marker; /* what the template writes for one image; NULL: the model sees none */
    const char  *image_after;  /* PH_CHAT_STRINGS: stands after each marker, "\n" for LLaVA; NULL: nothing */
    ph_chat_form form;
    int64_t      now_s; /* for strftime_now: local seconds since 1970; negative: the machine's clock */
    const ph_jinja_limits *limits; /* NULL: the defaults */
} ph_chat;

typedef struct ph_chat_span {
    const char *bytes; /* [n]; lives as long as the arena */
    size_t      n;
    int         is_trusted;
    int         image; /* slot index 0, 1, ... in order; -1: text */
} ph_chat_span;

typedef struct ph_chat_text {
    ph_chat_span *spans; /* [n_spans], concatenated they are the rendered text */
    size_t        n_spans;
    const char   *bytes; /* [n] the rendered text, markers included */
    size_t        n;
    size_t        n_images;
    ph_chat_form  form;   /* the one that was used */
    const char   *raised; /* on failure: what the template gave to raise_exception; else NULL */
} ph_chat_text;

/* Render; out lives as long as the arena.
 * Errors: PH_ETEMPLATE (line and cause; or the template shows another number of images than the
 * conversation has); PH_EUSAGE an image but no image_marker; PH_ENOMEM. */
ph_rc ph_chat_render(ph_chat_text *out, const ph_jinja *t, const ph_chat *chat, ph_arena *arena, ph_err *err);

/* Render messages given as JSON, passed to the template exactly as they are (no form is chosen, no slot is
 * required): what transformers' apply_chat_template does.  variables as in ph_chat. */
ph_rc ph_chat_render_json(ph_chat_text *out, const ph_jinja *t, const json_t *messages, const ph_chat *chat,
                          ph_arena *arena, ph_err *err);

/* A plain template for models that bring none: "chatml", "llama2", "llama3", "vicuna", "gemma", "idefics",
 * "phi3", "zephyr", "whisper", "raw" (the texts alone).  NULL: no such name. */
const char *ph_chat_builtin(const char *name);
const char *ph_chat_builtin_name(size_t i); /* NULL past the last */

#endif
