/* chat.c - conversations to values, the template's text to spans, and which form the template wants.
 *
 *   probe: each candidate form is rendered with "ph-probe-<i>-" for the texts; a form scores the messages
 *          whose probe comes through and whose images all show; the best form wins, ties by preference
 *   spans: runs of equal mark; trusted runs are cut at the image marker
 *
 * Roles that every template knows are trusted, since templates build tokens from them ("<|" + role +
 * "|>"); any other role is data.
 */
#include "text/chat.h"

#include <stdio.h>
#include <string.h>

static int is_known_role(const char *role) {
    static const char *const known[] = {"system", "user",    "assistant", "tool",       "developer",
                                        "model",  "ipython", "function",  "observation"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(role, known[i])) return 1;
    return 0;
}

static int has_image(const ph_chat_message *m) {
    for (size_t i = 0; i < m->n_parts; i++)
        if (!m->parts[i].text) return 1;
    return 0;
}

static size_t count_images(const ph_chat *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_messages; i++)
        for (size_t k = 0; k < c->messages[i].n_parts; k++) n += !c->messages[i].parts[k].text;
    return n;
}

/* ---- conversation to values */

/* What stands for the texts: the conversation's own, or (is_probe) one word a message, or its images alone.
 */
typedef struct shape {
    ph_chat_form form;
    int          is_probe;
} shape;

static int wants_parts(shape s, const ph_chat_message *m) {
    return s.form == PH_CHAT_PARTS || (s.form == PH_CHAT_MIXED && has_image(m));
}

/* The text of part k of message i; a probe word replaces the first text of a message, the others vanish. */
static ph_chat_part text_of(const ph_chat_message *m, size_t k, shape s, char word[32], size_t i) {
    if (!s.is_probe || !m->parts[k].text) return m->parts[k];
    for (size_t j = 0; j < k; j++)
        if (m->parts[j].text) return (ph_chat_part){"", 0};
    snprintf(word, 32, "ph-probe-%zu-", i);
    return (ph_chat_part){word, strlen(word)};
}

static ph_rc part_value(ph_jrun *r, ph_jv *out, ph_chat_part p, ph_err *err) {
    static const char *const keys[] = {"type", "text"};
    ph_jv                    v[2];
    const char              *type = p.text ? "text" : "image";
    PH_TRY(ph_jinja_string(r, &v[0], type, strlen(type), PH_JINJA_DATA, err));
    if (p.text) PH_TRY(ph_jinja_string(r, &v[1], p.text, p.n, PH_JINJA_DATA, err));
    return ph_jinja_dict(r, out, keys, v, p.text ? 2 : 1, err);
}

static ph_rc parts_value(ph_jrun *r, ph_jv *out, const ph_chat_message *m, shape s, size_t i, ph_arena *arena,
                         ph_err *err) {
    void  *p;
    ph_jv *v;
    char   word[32];
    PH_TRY(ph_arena_carve(arena, &p, m->n_parts ? m->n_parts : 1, sizeof *v, err));
    v = p;
    for (size_t k = 0; k < m->n_parts; k++) PH_TRY(part_value(r, &v[k], text_of(m, k, s, word, i), err));
    return ph_jinja_list(r, out, v, m->n_parts, err);
}

/* All parts in one string; a marker's bytes are trusted, the texts' are data. */
static ph_rc joined_value(ph_jrun *r, ph_jv *out, const ph_chat *c, size_t i, shape s, ph_arena *arena,
                          ph_err *err) {
    const ph_chat_message *m = &c->messages[i];
    size_t                 n = 0, marker_n = c->image_marker ? strlen(c->image_marker) : 0;
    const char            *after = c->image_after ? c->image_after : "";
    void                  *p;
    char                   word[32];
    for (size_t k = 0; k < m->n_parts; k++)
        n += m->parts[k].text ? m->parts[k].n + sizeof word : marker_n + strlen(after);
    PH_TRY(ph_arena_carve(arena, &p, 2 * n + 1, 1, err));
    char    *bytes = p;
    uint8_t *marks = (uint8_t *)bytes + n;
    n = 0;
    for (size_t k = 0; k < m->n_parts; k++) {
        ph_chat_part part = text_of(m, k, s, word, i);
        const size_t len = part.text ? part.n : marker_n + strlen(after);
        if (!len) continue;
        if (part.text)
            memcpy(bytes + n, part.text, len);
        else {
            memcpy(bytes + n, c->image_marker, marker_n);
            memcpy(bytes + n + marker_n, after, len - marker_n);
        }
        memset(marks + n, part.text ? PH_JINJA_DATA : PH_JINJA_TRUSTED, len);
        n += len;
    }
    return ph_jinja_string_marked(r, out, bytes, marks, n, err);
}

static ph_rc message_value(ph_jrun *r, ph_jv *out, const ph_chat *c, size_t i, shape s, ph_arena *arena,
                           ph_err *err) {
    const ph_chat_message *m = &c->messages[i];
    size_t                 n = 2, n_more = m->more ? json_object_size(m->more) : 0;
    void                  *p, *q;
    PH_TRY(ph_arena_carve(arena, &p, n_more + 2, sizeof(char *), err));
    PH_TRY(ph_arena_carve(arena, &q, n_more + 2, sizeof(ph_jv), err));
    const char **keys = p;
    ph_jv       *v = q;
    keys[0] = "role";
    keys[1] = "content";
    PH_TRY(ph_jinja_string(r, &v[0], m->role, strlen(m->role), is_known_role(m->role), err));
    PH_TRY(wants_parts(s, m) ? parts_value(r, &v[1], m, s, i, arena, err)
                             : joined_value(r, &v[1], c, i, s, arena, err));
    json_t *more;
    memcpy(&more, &m->more, sizeof more); /* jansson's iterator takes it writable and does not write */
    for (void *it = n_more ? json_object_iter(more) : NULL; it; it = json_object_iter_next(more, it)) {
        keys[n] = json_object_iter_key(it);
        PH_TRY(ph_jinja_json(r, &v[n++], json_object_iter_value(it), PH_JINJA_DATA, err));
    }
    return ph_jinja_dict(r, out, keys, v, n, err);
}

static ph_rc set_token(ph_jrun *r, const char *name, const char *token, ph_err *err) {
    ph_jv v;
    if (!token) return PH_OK;
    PH_TRY(ph_jinja_string(r, &v, token, strlen(token), PH_JINJA_TRUSTED, err));
    return ph_jinja_set(r, name, v, err);
}

/* Everything but the messages.  Later variables win, as keyword arguments do. */
static ph_rc set_variables(ph_jrun *r, const ph_chat *c, ph_err *err) {
    ph_jv v;
    PH_TRY(ph_jinja_json(r, &v, c->tools, PH_JINJA_DATA, err));
    PH_TRY(ph_jinja_set(r, "tools", v, err));
    PH_TRY(ph_jinja_set(r, "documents", ph_jinja_none(), err));
    PH_TRY(ph_jinja_set(r, "add_generation_prompt", ph_jinja_bool(c->add_generation_prompt), err));
    PH_TRY(set_token(r, "bos_token", c->bos_token, err));
    PH_TRY(set_token(r, "eos_token", c->eos_token, err));
    for (size_t i = 0; i < c->n_variables; i++) {
        PH_TRY(ph_jinja_json(r, &v, c->variables[i].value, c->variables[i].is_trusted, err));
        PH_TRY(ph_jinja_set(r, c->variables[i].name, v, err));
    }
    return PH_OK;
}

/* ---- text to spans */

static const char *marker_in(const char *p, size_t n, const char *marker) {
    return marker && *marker && n ? memmem(p, n, marker, strlen(marker)) : NULL;
}

static size_t run_end(const ph_jinja_text *t, size_t at) {
    size_t end = at + 1;
    while (end < t->n && t->marks[end] == t->marks[at]) end++;
    return end;
}

/* Write the spans to out, or only count them when out is NULL. */
static size_t cut(const ph_jinja_text *t, const char *marker, ph_chat_span *out, size_t *n_images) {
    size_t n = 0;
    *n_images = 0;
    for (size_t at = 0, end; at < t->n; at = end) {
        const char *hit;
        end = run_end(t, at);
        for (size_t from = at; from < end;) {
            hit = t->marks[at] == PH_JINJA_TRUSTED ? marker_in(t->bytes + from, end - from, marker) : NULL;
            size_t text_n = (hit ? (size_t)(hit - t->bytes) : end) - from;
            if (text_n && out) out[n] = (ph_chat_span){t->bytes + from, text_n, t->marks[at], -1};
            n += text_n != 0;
            from += text_n;
            if (!hit) continue;
            if (out) out[n] = (ph_chat_span){hit, strlen(marker), 1, (int)*n_images};
            n++;
            ++*n_images;
            from += strlen(marker);
        }
    }
    return n;
}

static ph_rc to_spans(ph_chat_text *out, const ph_jinja_text *t, const char *marker, ph_arena *arena,
                      ph_err *err) {
    void  *p;
    size_t n = cut(t, marker, NULL, &out->n_images);
    PH_TRY(ph_arena_carve(arena, &p, n ? n : 1, sizeof *out->spans, err));
    out->spans = p;
    out->n_spans = cut(t, marker, out->spans, &out->n_images);
    out->bytes = t->bytes;
    out->n = t->n;
    return PH_OK;
}

/* ---- rendering */

static ph_rc render_shape(ph_jinja_text *out, const ph_jinja *t, const ph_chat *c, shape s, ph_arena *arena,
                          ph_err *err) {
    ph_jrun *r;
    ph_jv    messages;
    void    *p;
    PH_TRY(ph_jinja_begin(&r, c->limits, c->now_s, arena, err));
    PH_TRY(ph_arena_carve(arena, &p, c->n_messages ? c->n_messages : 1, sizeof(ph_jv), err));
    ph_jv *v = p;
    for (size_t i = 0; i < c->n_messages; i++) PH_TRY(message_value(r, &v[i], c, i, s, arena, err));
    PH_TRY(ph_jinja_list(r, &messages, v, c->n_messages, err));
    PH_TRY(set_variables(r, c, err));
    PH_TRY(ph_jinja_set(r, "messages", messages, err));
    return ph_jinja_render(r, t, out, err);
}

/* How well a form does: messages that come through, none if a list was printed or an image is missing. */
static ph_rc score(size_t *out, const ph_jinja *t, const ph_chat *c, ph_chat_form form, ph_err *err) {
    ph_arena      arena;
    ph_jinja_text text;
    size_t        n_images;
    char          word[32];
    *out = 0;
    PH_TRY(ph_arena_open_growing(&arena, 1 << 16, err));
    ph_rc rc = render_shape(&text, t, c, (shape){form, 1}, &arena, NULL);
    if (rc == PH_ETEMPLATE) goto unfit;
    if (rc) goto out;
    cut(&text, c->image_marker, NULL, &n_images);
    if (n_images != count_images(c)) goto unfit;
    if (marker_in(text.bytes, text.n, "'type': 'text'") ||
        marker_in(text.bytes, text.n, "\"type\": \"text\""))
        goto unfit;
    *out = 1;
    for (size_t i = 0; i < c->n_messages; i++) {
        snprintf(word, sizeof word, "ph-probe-%zu-", i);
        *out += marker_in(text.bytes, text.n, word) != NULL;
    }
unfit:
    rc = PH_OK;
out:
    ph_arena_close(&arena);
    if (rc) ph_fail(err, rc, __FILE__, __LINE__, "chat: no memory to try the template");
    return rc;
}

static ph_rc choose_form(ph_chat_form *out, const ph_jinja *t, const ph_chat *c, ph_err *err) {
    static const ph_chat_form with_images[] = {PH_CHAT_PARTS, PH_CHAT_MIXED, PH_CHAT_STRINGS};
    static const ph_chat_form text_only[] = {PH_CHAT_STRINGS, PH_CHAT_PARTS};
    const int                 images = count_images(c) != 0;
    size_t                    best = 0, one;
    *out = images ? PH_CHAT_PARTS : PH_CHAT_STRINGS;
    for (size_t i = 0; i < (images ? 3 : 2); i++) {
        ph_chat_form form = images ? with_images[i] : text_only[i];
        PH_TRY(score(&one, t, c, form, err));
        if (one > best) *out = form;
        if (one > best) best = one;
        if (best == c->n_messages + 1) break;
    }
    return PH_OK;
}

ph_rc ph_chat_render(ph_chat_text *out, const ph_jinja *t, const ph_chat *c, ph_arena *arena, ph_err *err) {
    ph_jinja_text text;
    size_t        images = count_images(c);
    *out = (ph_chat_text){.form = c->form};
    if (images && (!c->image_marker || !*c->image_marker))
        return PH_FAIL(err, PH_EUSAGE, "chat: %zu images for a model without an image marker", images);
    if (c->form == PH_CHAT_AUTO) PH_TRY(choose_form(&out->form, t, c, err));
    ph_rc rc = render_shape(&text, t, c, (shape){out->form, 0}, arena, err);
    out->raised = text.raised;
    if (rc) return ph_note(err, rc, "while rendering %zu messages", c->n_messages);
    PH_TRY(to_spans(out, &text, c->image_marker, arena, err));
    if (out->n_images != images)
        return PH_FAIL(err, PH_ETEMPLATE,
                       "chat: the template shows %zu images (\"%s\"), the conversation has %zu",
                       out->n_images, c->image_marker ? c->image_marker : "", images);
    return PH_OK;
}

/* Roles get the trust of ph_chat_render: the JSON tree is walked one level deep. */
static ph_rc json_messages(ph_jrun *r, ph_jv *out, const json_t *messages, ph_arena *arena, ph_err *err) {
    size_t n = json_array_size(messages);
    void  *p, *q, *k;
    if (!json_is_array(messages)) return PH_FAIL(err, PH_EUSAGE, "chat: messages must be an array");
    PH_TRY(ph_arena_carve(arena, &p, n + 1, sizeof(ph_jv), err));
    ph_jv *list = p;
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(messages, i);
        size_t        m_n = 0;
        if (!json_is_object(m)) {
            PH_TRY(ph_jinja_json(r, &list[i], m, PH_JINJA_DATA, err));
            continue;
        }
        PH_TRY(ph_arena_carve(arena, &q, json_object_size(m) + 1, sizeof(ph_jv), err));
        PH_TRY(ph_arena_carve(arena, &k, json_object_size(m) + 1, sizeof(char *), err));
        ph_jv       *v = q;
        const char **keys = k;
        json_t      *obj;
        memcpy(&obj, &m, sizeof obj);
        for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it), m_n++) {
            const json_t *value = json_object_iter_value(it);
            keys[m_n] = json_object_iter_key(it);
            int trusted = !strcmp(keys[m_n], "role") && json_is_string(value) &&
                          is_known_role(json_string_value(value));
            PH_TRY(ph_jinja_json(r, &v[m_n], value, trusted, err));
        }
        PH_TRY(ph_jinja_dict(r, &list[i], keys, v, m_n, err));
    }
    return ph_jinja_list(r, out, list, n, err);
}

ph_rc ph_chat_render_json(ph_chat_text *out, const ph_jinja *t, const json_t *messages, const ph_chat *c,
                          ph_arena *arena, ph_err *err) {
    ph_jrun      *r;
    ph_jv         v;
    ph_jinja_text text;
    *out = (ph_chat_text){.form = c->form};
    PH_TRY(ph_jinja_begin(&r, c->limits, c->now_s, arena, err));
    PH_TRY(json_messages(r, &v, messages, arena, err));
    PH_TRY(set_variables(r, c, err));
    PH_TRY(ph_jinja_set(r, "messages", v, err));
    ph_rc rc = ph_jinja_render(r, t, &text, err);
    out->raised = text.raised;
    if (rc) return rc;
    return to_spans(out, &text, c->image_marker, arena, err);
}
