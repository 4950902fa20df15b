/* api_conversation.c - conversations: what was said, kept as copies, a block of memory a message. */
#include "api/api.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static ph_rc open_conversation(pinhole_conversation **out, pinhole_session *session, ph_err *err) {
    pinhole_conversation *c = calloc(1, sizeof *c);
    if (!c) return PH_FAIL(err, PH_ENOMEM, "a conversation's handle");
    ph_rc rc = ph_turn_open(&c->turn, session->running, err);
    if (rc) {
        free(c);
        return rc;
    }
    atomic_init(&c->cancel, 0);
    atomic_fetch_add(&session->n_users, 1);
    c->session = session;
    *out = c;
    return PH_OK;
}

static ph_rc check_open(pinhole_conversation **conversation, const pinhole_session *session, ph_err *err) {
    PH_API_WANT(conversation);
    *conversation = NULL;
    PH_API_WANT(session);
    return PH_OK;
}

int pinhole_conversation_open(pinhole_conversation **conversation, pinhole_session *session,
                              pinhole_error *error) {
    ph_err err = {0};
    ph_rc  rc = check_open(conversation, session, &err);
    if (!rc) rc = open_conversation(conversation, session, &err);
    return ph_api_end(rc, &err, error);
}

void pinhole_conversation_close(pinhole_conversation *c) {
    if (!c) return;
    while (c->n_messages) ph_api_message_drop(c);
    free(c->message);
    ph_turn_close(c->turn);
    ph_api_session_give(c->session);
    free(c);
}

void pinhole_cancel(pinhole_conversation *conversation) {
    if (conversation) atomic_store(&conversation->cancel, 1);
}

void pinhole_cancel_clear(pinhole_conversation *conversation) {
    if (conversation) atomic_store(&conversation->cancel, 0);
}

static ph_rc reset(pinhole_conversation *conversation, ph_err *err) {
    PH_API_WANT(conversation);
    PH_TRY(ph_api_enter(conversation->session, err));
    while (conversation->n_messages) ph_api_message_drop(conversation);
    ph_api_leave(conversation->session);
    return PH_OK;
}

int pinhole_conversation_reset(pinhole_conversation *conversation, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(reset(conversation, &err), &err, error);
}

/* ---- messages ---- */

static const char default_name[] = "picture";

ph_rc ph_api_picture(const pinhole_part *part, ph_picture *out, ph_err *err) {
    if (part->kind != PINHOLE_PICTURE)
        return PH_FAIL(err, PH_EUSAGE, "a part of kind %d where a picture is wanted", part->kind);
    if (part->n == PINHOLE_WHOLE)
        return PH_FAIL(err, PH_EUSAGE, "a picture's bytes must be counted: n is PINHOLE_WHOLE");
    if (!part->bytes && part->n) return PH_FAIL(err, PH_EUSAGE, "a picture of %zu bytes at NULL", part->n);
    *out = (ph_picture){.bytes = part->bytes, .n = part->n, .name = part->name ? part->name : default_name};
    return PH_OK;
}

static ph_rc text_of(const pinhole_part *part, size_t *n, ph_err *err) {
    if (!part->bytes && part->n) return PH_FAIL(err, PH_EUSAGE, "a text part at NULL");
    *n = part->n == PINHOLE_WHOLE ? strlen(part->bytes) : part->n;
    return PH_OK;
}

/* Bytes taken from a block; with at NULL they are only counted. */
typedef struct block {
    unsigned char *at;
    size_t         used;
    int            is_over; /* more than an address can name */
} block;

static void *put(block *b, const void *bytes, size_t n) {
    unsigned char *to = b->at ? b->at + b->used : NULL;
    size_t         rounded = n <= SIZE_MAX - PH_ALIGN ? ph_round_up(n, _Alignof(max_align_t)) : SIZE_MAX;
    if (to && n && bytes) memcpy(to, bytes, n);
    if (ph_add_over(b->used, rounded, &b->used)) b->is_over = 1;
    return to;
}

/* A NUL-terminated copy. */
static char *put_text(block *b, const void *text, size_t n) {
    unsigned char *to = put(b, NULL, n < SIZE_MAX ? n + 1 : n);
    if (!to) return NULL;
    if (n) memcpy(to, text, n);
    to[n] = 0;
    return (char *)to;
}

/* The same code counts (at NULL) and copies; parts were checked. */
static ph_rc lay_out(block *b, const char *role, const pinhole_part *parts, size_t n_parts, size_t n_pictures,
                     ph_api_message *scratch, ph_err *err) {
    ph_api_message *m = put(b, NULL, sizeof *m);
    if (!m) m = scratch;
    *m = (ph_api_message){.n_parts = n_parts, .n_pictures = n_pictures};
    ph_chat_part *part = put(b, NULL, n_parts * sizeof *part);
    ph_picture   *picture = put(b, NULL, n_pictures * sizeof *picture);
    m->role = put_text(b, role, strlen(role));
    m->part = part;
    m->picture = picture;
    for (size_t i = 0, k = 0; i < n_parts; i++) {
        ph_picture p;
        size_t     n = 0;
        if (parts[i].kind == PINHOLE_TEXT) {
            PH_TRY(text_of(&parts[i], &n, err));
            const char *text = put_text(b, parts[i].bytes, n);
            if (part) part[i] = (ph_chat_part){.text = text, .n = n};
            continue;
        }
        PH_TRY(ph_api_picture(&parts[i], &p, err));
        p.bytes = put(b, p.bytes, p.n);
        p.name = put_text(b, p.name, strlen(p.name));
        if (part) part[i] = (ph_chat_part){0};
        if (picture) picture[k++] = p;
    }
    return b->is_over ? PH_FAIL(err, PH_ELIMIT, "a message larger than memory") : PH_OK;
}

static ph_rc room_for_one(pinhole_conversation *c, ph_err *err) {
    if (c->n_messages < c->messages_max) return PH_OK;
    size_t           more = 2 * c->messages_max + 8;
    ph_api_message **at = realloc(c->message, more * sizeof(ph_api_message *));
    if (!at) return PH_FAIL(err, PH_ENOMEM, "a list of %zu messages", more);
    c->message = at;
    c->messages_max = more;
    return PH_OK;
}

ph_rc ph_api_message_add(pinhole_conversation *c, const char *role, const pinhole_part *parts, size_t n_parts,
                         ph_err *err) {
    enum { PARTS_MAX = 1 << 16 };
    ph_api_message scratch;
    block          b = {0};
    size_t         n_pictures = 0;
    if (n_parts > PARTS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "a message of %zu parts; at most %d", n_parts, PARTS_MAX);
    for (size_t i = 0; i < n_parts; i++) {
        n_pictures += parts[i].kind == PINHOLE_PICTURE;
        if (parts[i].kind != PINHOLE_PICTURE && parts[i].kind != PINHOLE_TEXT)
            return PH_FAIL(err, PH_EUSAGE, "part %zu of the message is of kind %d: texts are %d, pictures %d",
                           i, parts[i].kind, PINHOLE_TEXT, PINHOLE_PICTURE);
    }
    PH_TRY(room_for_one(c, err));
    PH_TRY(lay_out(&b, role, parts, n_parts, n_pictures, &scratch, err));
    block filled = {.at = malloc(b.used)};
    if (!filled.at) return PH_FAIL(err, PH_ENOMEM, "a message of %zu bytes", b.used);
    ph_rc rc = lay_out(&filled, role, parts, n_parts, n_pictures, &scratch, err);
    if (rc) {
        free(filled.at);
        return rc;
    }
    c->message[c->n_messages++] = (ph_api_message *)(void *)filled.at;
    return PH_OK;
}

void ph_api_message_drop(pinhole_conversation *c) {
    free(c->message[--c->n_messages]);
}

static ph_rc add(pinhole_conversation *conversation, const char *role, const pinhole_part *parts,
                 size_t n_parts, ph_err *err) {
    PH_API_WANT(conversation);
    PH_API_WANT(role);
    if (n_parts) PH_API_WANT(parts);
    PH_TRY(ph_api_enter(conversation->session, err));
    ph_rc rc = ph_api_message_add(conversation, role, parts, n_parts, err);
    ph_api_leave(conversation->session);
    return rc;
}

int pinhole_conversation_add(pinhole_conversation *conversation, const char *role, const pinhole_part *parts,
                             size_t n_parts, pinhole_error *error) {
    ph_err err = {0};
    return ph_api_end(add(conversation, role, parts, n_parts, &err), &err, error);
}
