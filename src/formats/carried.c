/* carried.c - what a carrying GGUF file says of its tensors and files, and how it is said.  See carried.h.
 *
 * The lines come from outside: each is held against what is stored, so that a lie about a type or a shape is
 * an error here and never reaches who multiplies.  Names of files come from the reader, never from the file.
 */
#include "formats/carried.h"

#include "base/mem.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 1023, GGUF_RANK_MAX = 4 };

static const char reserved[] = "__metadata__"; /* of safetensors' header */
static const char tensors_key[] = PH_CARRIED_TENSORS_KEY, shapes_key[] = PH_CARRIED_SHAPES_KEY;

/* ---- files ---- */

int ph_carried_is(const ph_gguf *g) {
    ph_gguf_text t;
    return !ph_gguf_text_of(g, "general.architecture", &t, NULL) &&
           ph_gguf_text_is(t, PH_CARRIED_ARCHITECTURE);
}

void ph_carried_key(char out[128], const char *name) {
    if (!strcmp(name, "tokenizer.json")) /* a key of the specification */
        snprintf(out, 128, "tokenizer.huggingface.json");
    else
        snprintf(out, 128, PH_ORIGINAL_KEY "%s", name);
}

ph_rc ph_carried_file(const ph_gguf *g, const char *name, ph_file *out, int *found, ph_err *err) {
    char         key[128];
    ph_gguf_text text;
    ph_carried_key(key, name);
    const ph_gguf_kv *kv = ph_gguf_find(g, key);
    *out = (ph_file){0};
    *found = kv != NULL;
    if (!kv) return PH_OK;
    if (kv->is_array && kv->type == PH_GGUF_U8)
        text = (ph_gguf_text){(const char *)kv->at, kv->count};
    else
        PH_TRY(ph_gguf_text_of(g, key, &text, err));
    if (text.n) *out = (ph_file){.bytes = (const uint8_t *)text.at, .n = text.n};
    return PH_OK;
}

/* ---- types that GGUF has no number for ---- */

/* The whole number that stands for it in the file: of the same size.  Any other type is its own. */
static ph_dtype stand_in(ph_dtype t) {
    static const ph_dtype whole[] = {PH_I8, PH_I16, PH_I32, PH_I64};
    if (ph_dtype_gguf(t) >= 0) return t;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (ph_dtype_bytes(whole[i]) == ph_dtype_bytes(t)) return whole[i];
    return t;
}

static int is_real(ph_dtype t) {
    return ph_dtype_get(t)->pack || ph_dtype_block(t) > 1;
}

/* ---- reading lines ---- */

typedef struct line {
    const ph_gguf *g;
    ph_weight     *w; /* as stored; becomes what the line says */
    ph_dtype      *was;
    ph_arena      *arena;
} line;

static int is_utf8(const char *at, size_t n) {
    json_t *text = json_stringn(at, n);
    json_decref(text);
    return text != NULL;
}

static ph_rc read_name(const line *l, const char *at, size_t n, ph_err *err) {
    char *copy;
    if (!n || n > NAME_BYTES_MAX)
        return PH_FAIL(err, PH_EFORMAT, "%s: key %s: a name of %zu bytes for tensor %.80s, expected 1 to %d",
                       l->g->name, tensors_key, n, l->w->name, NAME_BYTES_MAX);
    if (memchr(at, 0, n) || !is_utf8(at, n))
        return PH_FAIL(err, PH_EFORMAT, "%s: key %s: the name for tensor %.80s is no UTF-8 text", l->g->name,
                       tensors_key, l->w->name);
    if (n == strlen(reserved) && !memcmp(at, reserved, n))
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: key %s: tensor %.80s is called %s, which no tensor of a directory is", l->g->name,
                       tensors_key, l->w->name, reserved);
    PH_TRY(ph_arena_copy_text(l->arena, &copy, at, n, err));
    l->w->name = copy;
    return PH_OK;
}

/* "BF16 model.norm.weight" */
int ph_carried_line(ph_gguf_text t, ph_dtype *type, ph_gguf_text *name) {
    char        word[16] = "";
    const char *space = t.n ? memchr(t.at, ' ', t.n) : NULL;
    size_t      n = space ? (size_t)(space - t.at) : 0;
    if (!n || n >= sizeof word || memchr(t.at, 0, n)) return 0;
    memcpy(word, t.at, n);
    *name = (ph_gguf_text){space + 1, t.n - n - 1};
    return ph_dtype_from_name(word, type) && ph_dtype_block(*type) == 1;
}

static ph_rc read_line(const line *l, ph_gguf_text t, ph_err *err) {
    ph_gguf_text name;
    if (!ph_carried_line(t, l->was, &name))
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: key %s: the line for tensor %.80s does not begin with a type of safetensors",
                       l->g->name, tensors_key, l->w->name);
    ph_dtype stored = l->w->dtype;
    /* Numbers may have been given another type since; whatever else it is has not. */
    if (stored != stand_in(*l->was) && !(is_real(stored) && is_real(*l->was)))
        return PH_FAIL(err, PH_EFORMAT, "%s: key %s: tensor %.80s was %s, but is stored as %s", l->g->name,
                       tensors_key, l->w->name, ph_dtype_name(*l->was), ph_dtype_name(stored));
    if (!is_real(stored)) l->w->dtype = *l->was;
    return read_name(l, name.at, name.n, err);
}

static ph_rc no_shape(const line *l, ph_err *err) {
    return PH_FAIL(err, PH_EFORMAT, "%s: key %s: the line for tensor %.100s is no shape of its elements",
                   l->g->name, shapes_key, l->w->name);
}

/* "[64, 3, 2, 14, 14]" or "[]"; nothing: the shape is as stored.  As many elements, in rows as long. */
static ph_rc read_shape(const line *l, ph_gguf_text t, ph_err *err) {
    char   text[200];
    size_t count = 1, has = 1;
    if (!t.n) return PH_OK;
    if (t.n >= sizeof text || t.n < 2 || memchr(t.at, 0, t.n)) return no_shape(l, err);
    memcpy(text, t.at, t.n);
    text[t.n] = 0;
    ph_weight   w = *l->w;
    const char *at = text;
    if (*at++ != '[' || text[t.n - 1] != ']') return no_shape(l, err);
    for (w.rank = 0; *at != ']'; w.rank++) {
        char *end;
        if (w.rank == PH_WEIGHT_RANK_MAX || *at < '1' || *at > '9') return no_shape(l, err);
        unsigned long long dim = strtoull(at, &end, 10);
        if (dim > INT64_MAX || ph_mul_over(count, (size_t)dim, &count)) return no_shape(l, err);
        w.dim[w.rank] = (int64_t)dim;
        at = end;
        if (at[0] == ',' && at[1] == ' ' && at[2] != ']')
            at += 2;
        else if (*at != ']')
            return no_shape(l, err);
    }
    if (at[1]) return no_shape(l, err);
    for (int i = 0; i < l->w->rank; i++)
        if (ph_mul_over(has, (size_t)l->w->dim[i], &has)) return no_shape(l, err);
    int64_t row = w.rank ? w.dim[w.rank - 1] : 1;
    if (count != has || row != l->w->dim[l->w->rank - 1]) return no_shape(l, err);
    *l->w = w;
    return PH_OK;
}

/* A list of as many texts as there are tensors. */
static ph_rc list_of(const ph_gguf *g, const char *key, ph_gguf_texts *out, ph_err *err) {
    const ph_gguf_kv *kv = ph_gguf_find(g, key);
    if (!kv || !kv->is_array || kv->type != PH_GGUF_TEXT)
        return PH_FAIL(
            err, PH_EFORMAT,
            "%s: key %s: expected a list of texts, %s: tensors under Hugging Face names are told apart "
            "by it",
            g->name, key, kv ? "found another type" : "found none");
    if (kv->count != g->weights.n)
        return PH_FAIL(err, PH_EFORMAT, "%s: key %s: %zu lines for %zu tensors", g->name, key, kv->count,
                       g->weights.n);
    *out = ph_gguf_texts_of(kv);
    return PH_OK;
}

ph_rc ph_carried_weights(const ph_gguf *g, ph_weights *out, ph_dtype **was, ph_arena *arena, ph_err *err) {
    ph_gguf_texts lines, shapes = {0};
    ph_gguf_text  text;
    void         *at, *types;
    *out = (ph_weights){0};
    PH_TRY(list_of(g, tensors_key, &lines, err));
    if (ph_gguf_find(g, shapes_key)) PH_TRY(list_of(g, shapes_key, &shapes, err));
    PH_TRY(ph_arena_zero(arena, &at, g->weights.n + 1, sizeof *out->at, err));
    PH_TRY(ph_arena_zero(arena, &types, g->weights.n + 1, sizeof **was, err));
    out->at = at;
    *was = types;
    for (; ph_gguf_next(&lines, &text); out->n++) {
        const line l = {g, &out->at[out->n], &(*was)[out->n], arena};
        *l.w = g->weights.at[out->n];
        PH_TRY(read_line(&l, text, err));
        if (ph_gguf_next(&shapes, &text)) PH_TRY(read_shape(&l, text, err));
    }
    ph_rc rc = ph_weights_index(out, arena, err);
    return rc ? ph_note(err, rc, "in key %s of %.80s", tensors_key, g->name) : PH_OK;
}

/* ---- writing ---- */

static ph_rc check_name(const char *name, ph_err *err) {
    size_t n = strlen(name);
    if (n <= NAME_BYTES_MAX) return PH_OK;
    return PH_FAIL(err, PH_ELIMIT, "tensor %.80s...: a name of %zu bytes; at most %d are carried", name, n,
                   NAME_BYTES_MAX);
}

/* "12~self_attn.out_proj.weight": the number tells it from other cut names, and a longer mark from whole
 * ones. */
static ph_rc cut_name(const ph_weights *all, size_t i, const char **name, ph_arena *arena, ph_err *err) {
    char   cut[PH_CARRIED_NAME_MAX + 1], *copy;
    size_t n = strlen(*name);
    if (n <= PH_CARRIED_NAME_MAX) return PH_OK;
    PH_TRY(check_name(*name, err));
    int mark = snprintf(cut, sizeof cut, "%zu", i);
    do {
        cut[mark++] = '~';
        const char *tail = *name + n - (PH_CARRIED_NAME_MAX - mark);
        while ((*tail & 0xc0) == 0x80) tail++; /* a whole letter first */
        snprintf(cut + mark, sizeof cut - (size_t)mark, "%s", tail);
    } while (ph_weights_find(all, cut) && mark < PH_CARRIED_NAME_MAX - 8);
    if (ph_weights_find(all, cut))
        return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: other tensors have every shorter name for it", *name);
    PH_TRY(ph_arena_copy_text(arena, &copy, cut, strlen(cut), err));
    *name = copy;
    return PH_OK;
}

ph_rc ph_carried_place(const ph_weights *all, size_t i, ph_weight *to, ph_arena *arena, ph_err *err) {
    const ph_weight *from = &all->at[i];
    *to = *from;
    to->dtype = stand_in(from->dtype);
    if (!from->n_bytes)
        return PH_FAIL(err, PH_EUNSUP, "tensor %.160s has no elements; GGUF files hold none of that kind",
                       from->name);
    if (!to->rank) to->dim[to->rank++] = 1;
    while (to->rank > GGUF_RANK_MAX) { /* the bytes fit memory, so the product does */
        to->dim[0] *= to->dim[1];
        memmove(to->dim + 1, to->dim + 2, (size_t)(--to->rank - 1) * sizeof *to->dim);
    }
    return cut_name(all, i, &to->name, arena, err);
}

static int has_odd_shape(const ph_weight *w) {
    return !w->rank || w->rank > GGUF_RANK_MAX;
}

static void put_shapes(ph_gguf_meta *to, const ph_weight *at, size_t n) {
    ph_gguf_put_array(to, shapes_key, PH_GGUF_TEXT, n);
    for (size_t i = 0; i < n; i++) {
        char   text[200] = "";
        size_t end = 0;
        if (has_odd_shape(&at[i])) {
            for (int k = 0; k < at[i].rank; k++)
                end += (size_t)snprintf(text + end, sizeof text - end, "%s%lld", k ? ", " : "[",
                                        (long long)at[i].dim[k]);
            end += (size_t)snprintf(text + end, sizeof text - end, at[i].rank ? "]" : "[]");
        }
        ph_gguf_add_text(to, text, end);
    }
}

ph_rc ph_carried_put_line(ph_gguf_meta *to, ph_dtype type, const char *name, ph_err *err) {
    char text[NAME_BYTES_MAX + 32];
    PH_TRY(check_name(name, err));
    int n = snprintf(text, sizeof text, "%s %s", ph_dtype_name(type), name);
    ph_gguf_add_text(to, text, (size_t)n);
    return PH_OK;
}

ph_rc ph_carried_put_lines(ph_gguf_meta *to, const ph_weight *at, const ph_dtype *was, size_t n,
                           ph_err *err) {
    int is_odd = 0;
    ph_gguf_put_array(to, tensors_key, PH_GGUF_TEXT, n);
    for (size_t i = 0; i < n; i++) {
        PH_TRY(ph_carried_put_line(to, was ? was[i] : at[i].dtype, at[i].name, err));
        is_odd |= has_odd_shape(&at[i]);
    }
    if (is_odd) put_shapes(to, at, n);
    return PH_OK;
}
