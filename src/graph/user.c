/* user.c - the registry of plug-ins' operators: what a table says is checked before any of it is called.
 *
 * Names are copied: a listing of what was loaded reads no memory of a plug-in.
 */
#include "graph/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 16 << 10, ATTRS_MAX = 1024 };

struct ph_user_ops {
    ph_arena      arena;
    ph_user_lib **lib; /* [n_libs] */
    size_t        n_libs;
    ph_user     **op; /* [n_ops] */
    size_t        n_ops;
};

ph_rc ph_user_ops_open(ph_user_ops **out, ph_err *err) {
    ph_user_ops *u = calloc(1, sizeof *u);
    *out = NULL;
    if (!u) return PH_FAIL(err, PH_ENOMEM, "the table of plug-ins' operators");
    ph_rc rc = ph_arena_open_growing(&u->arena, ARENA_CHUNK, err);
    if (rc) {
        free(u);
        return rc;
    }
    *out = u;
    return PH_OK;
}

void ph_user_ops_close(ph_user_ops *u) {
    if (!u) return;
    ph_arena_close(&u->arena);
    free(u->lib);
    free(u->op);
    free(u);
}

/* ---- what a table says ---- */

/* A word that stands in files and messages: printable ASCII without blanks. */
static int is_word(const char *text) {
    size_t n = 0;
    if (!text) return 0;
    for (; text[n]; n++)
        if (n + 1 >= PH_USER_NAME || text[n] <= ' ' || text[n] > '~') return 0;
    return n > 0;
}

static int is_below(const char *domain, const char *root) {
    size_t n = strlen(root);
    return !strncmp(domain, root, n) && (!domain[n] || domain[n] == '.');
}

int ph_user_domain(const char *domain) {
    return *domain && !is_below(domain, "ai.onnx") && !is_below(domain, "com.microsoft") &&
           !is_below(domain, "pinhole");
}

static ph_rc check_counts(const pinhole_op *t, const char *full, const char *path, ph_err *err) {
    int in_most = t->in_max < 0 ? PINHOLE_OP_IO_MAX : t->in_max;
    if (t->in_max < -1 || t->in_min < 0 || t->in_min > in_most || in_most > PINHOLE_OP_IO_MAX)
        return PH_FAIL(
            err, PH_EFORMAT,
            "plug-in %.80s: %s says that it takes %d to %d inputs: at least 0, at most %d, or -1 for "
            "any number",
            path, full, t->in_min, t->in_max, PINHOLE_OP_IO_MAX);
    if (t->out_min < 1 || t->out_max < t->out_min || t->out_max > PINHOLE_OP_IO_MAX)
        return PH_FAIL(err, PH_EFORMAT,
                       "plug-in %.80s: %s says that it has %d to %d outputs: at least 1, at most %d", path,
                       full, t->out_min, t->out_max, PINHOLE_OP_IO_MAX);
    if (t->since < 1)
        return PH_FAIL(err, PH_EFORMAT,
                       "plug-in %.80s: %s is there since version %d of its domain: the first is 1", path,
                       full, t->since);
    return PH_OK;
}

static ph_rc check_op(const pinhole_op *t, size_t i, const char *path, ph_err *err) {
    char full[2 * PH_USER_NAME + 2];
    if (!is_word(t->domain) || !is_word(t->name))
        return PH_FAIL(
            err, PH_EFORMAT,
            "plug-in %.120s: operator %zu has no %s: it is a word of 1 to %d letters without blanks", path, i,
            is_word(t->domain) ? "name" : "domain", PH_USER_NAME - 1);
    snprintf(full, sizeof full, "%s::%s", t->domain, t->name);
    if (!ph_user_domain(t->domain))
        return PH_FAIL(
            err, PH_EMISMATCH,
            "plug-in %.80s: %s: operators of ai.onnx, com.microsoft and pinhole are not for plug-ins: "
            "give it a domain of its own",
            path, full);
    if (!t->infer || !t->eval)
        return PH_FAIL(err, PH_EFORMAT, "plug-in %.120s: %s has no function '%s'", path, full,
                       t->infer ? "eval" : "infer");
    unsigned known = PINHOLE_OP_PURE | PINHOLE_OP_FOLD | PINHOLE_OP_THREADS;
    if (t->flags & ~known || (t->flags & PINHOLE_OP_FOLD && !(t->flags & PINHOLE_OP_PURE)))
        return PH_FAIL(
            err, PH_EFORMAT, "plug-in %.120s: %s has the flags %#x: %s", path, full, (unsigned)t->flags,
            t->flags & ~known ? "not all of them are known here" : "what may be folded is pure too");
    if (t->attrs && strnlen(t->attrs, ATTRS_MAX) == ATTRS_MAX)
        return PH_FAIL(err, PH_EFORMAT, "plug-in %.120s: %s has a list of attributes of %d bytes or more",
                       path, full, ATTRS_MAX);
    return check_counts(t, full, path, err);
}

/* As much of theirs[i] as its maker knew; what it knew beyond ours must be zero. */
static ph_rc take_op(pinhole_op *out, const pinhole_op_table *t, size_t i, const char *path, ph_err *err) {
    const unsigned char *from = (const unsigned char *)t->ops + i * t->op_size;
    *out = (pinhole_op){0};
    memcpy(out, from, t->op_size < sizeof *out ? t->op_size : sizeof *out);
    for (size_t k = sizeof *out; k < t->op_size; k++)
        if (from[k])
            return PH_FAIL(
                err, PH_EUNSUP,
                "plug-in %.120s: operator %zu says something that this pinhole does not know: build "
                "it with this one's pinhole_op.h",
                path, i);
    return check_op(out, i, path, err);
}

static ph_rc check_table(const pinhole_op_table *t, const char *path, ph_err *err) {
    if (!t)
        return PH_FAIL(err, PH_EFORMAT,
                       "plug-in %.160s: pinhole_operators gave no table: it will not run with this pinhole",
                       path);
    if (t->abi != PINHOLE_OP_ABI)
        return PH_FAIL(
            err, PH_EUNSUP,
            "plug-in %.160s has version %u of the interface, this pinhole has %d: build it with this "
            "one's pinhole_op.h",
            path, (unsigned)t->abi, PINHOLE_OP_ABI);
    if (t->size < sizeof *t || t->size > 4096 || t->op_size < offsetof(pinhole_op, scratch) ||
        t->op_size > 4096 || t->op_size % sizeof(void *))
        return PH_FAIL(err, PH_EFORMAT,
                       "plug-in %.120s: its table says %zu bytes, and %u for an operator: they are "
                       "sizeof(pinhole_op_table) and sizeof(pinhole_op), here %zu and %zu",
                       path, t->size, (unsigned)t->op_size, sizeof *t, sizeof(pinhole_op));
    if (!is_word(t->name) || !is_word(t->version))
        return PH_FAIL(err, PH_EFORMAT,
                       "plug-in %.160s: its table has no %s: a word of 1 to %d letters without blanks", path,
                       is_word(t->name) ? "version" : "name", PH_USER_NAME - 1);
    if (!t->ops || !t->n_ops || t->n_ops > PINHOLE_OPS_MAX)
        return PH_FAIL(err, PH_EFORMAT, "plug-in %.160s: %zu operators%s; 1 to %d are wanted", path, t->n_ops,
                       t->ops ? "" : " at NULL", PINHOLE_OPS_MAX);
    return PH_OK;
}

/* ---- the registry ---- */

static int is_same(const ph_user *a, const pinhole_op *t) {
    return a->theirs.since == t->since && !strcmp(a->domain, t->domain) && !strcmp(a->name, t->name);
}

static ph_rc check_new(const ph_user_ops *u, const ph_user_lib *lib, const pinhole_op *t, ph_err *err) {
    for (size_t i = 0; i < u->n_ops; i++)
        if (is_same(u->op[i], t))
            return PH_FAIL(err, PH_EMISMATCH,
                           "%s since version %d is in plug-in %.90s and %s %.90s: one may have it",
                           u->op[i]->full, t->since, u->op[i]->lib->path,
                           u->op[i]->lib == lib ? "again in" : "in plug-in", lib->path);
    return PH_OK;
}

/* The operator as one of ours; what calls the plug-in stands in op/op_user.c. */
static ph_rc make_op(ph_user_ops *u, ph_user_lib *lib, const pinhole_op *t, ph_err *err) {
    void *p;
    char *attrs = NULL;
    PH_TRY(check_new(u, lib, t, err));
    PH_TRY(ph_arena_zero(&u->arena, &p, 1, sizeof(ph_user), err));
    if (t->attrs) PH_TRY(ph_arena_copy_text(&u->arena, &attrs, t->attrs, strlen(t->attrs), err));
    ph_user *o = p;
    o->theirs = *t;
    o->lib = lib;
    o->all = u;
    o->attrs = attrs;
    snprintf(o->domain, sizeof o->domain, "%s", t->domain);
    snprintf(o->name, sizeof o->name, "%s", t->name);
    snprintf(o->full, sizeof o->full, "%s::%s", t->domain, t->name);
    o->op = (ph_op){.name = o->full,
                    .domain = o->domain,
                    .since = t->since,
                    .in_min = t->in_min,
                    .in_max = t->in_max < 0 ? PINHOLE_OP_IO_MAX : t->in_max,
                    .out_min = t->out_min,
                    .out_max = t->out_max,
                    .source = lib->path,
                    .has_effect = !(t->flags & PINHOLE_OP_PURE),
                    .is_unfolded = !(t->flags & PINHOLE_OP_FOLD),
                    .user = o};
    ph_user_op_fill(&o->op);
    u->op[u->n_ops++] = o;
    return PH_OK;
}

static ph_rc make_lib(ph_user_ops *u, const pinhole_op_table *t, const char *path, ph_user_lib **out,
                      ph_err *err) {
    void *p;
    char *copy;
    PH_TRY(ph_arena_zero(&u->arena, &p, 1, sizeof(ph_user_lib), err));
    PH_TRY(ph_arena_copy_text(&u->arena, &copy, path, strlen(path), err));
    ph_user_lib *lib = *out = p;
    lib->path = copy;
    lib->n_ops = t->n_ops;
    snprintf(lib->name, sizeof lib->name, "%s", t->name);
    snprintf(lib->version, sizeof lib->version, "%s", t->version);
    return PH_OK;
}

static ph_rc make_room(ph_user_ops *u, size_t n_ops, ph_err *err) {
    ph_user_lib **lib = realloc(u->lib, (u->n_libs + 1) * sizeof *lib);
    if (lib) u->lib = lib;
    ph_user **op = realloc(u->op, (u->n_ops + n_ops) * sizeof *op);
    if (op) u->op = op;
    return lib && op ? PH_OK : PH_FAIL(err, PH_ENOMEM, "the table of plug-ins' operators");
}

ph_rc ph_user_ops_add(ph_user_ops *u, const pinhole_op_table *t, const char *path, pthread_mutex_t *lock,
                      ph_err *err) {
    size_t       before = u->n_ops;
    ph_user_lib *lib = NULL;
    PH_TRY(check_table(t, path, err));
    PH_TRY(make_room(u, t->n_ops, err));
    ph_rc rc = make_lib(u, t, path, &lib, err);
    for (size_t i = 0; i < t->n_ops && !rc; i++) {
        pinhole_op one;
        rc = take_op(&one, t, i, path, err);
        if (!rc) rc = make_op(u, lib, &one, err);
    }
    if (rc) {
        u->n_ops = before;
        return rc;
    }
    lib->lock = lock;
    u->lib[u->n_libs++] = lib;
    return PH_OK;
}

const ph_op *ph_user_op_find(const ph_user_ops *u, const char *domain, const char *name, int64_t version,
                             int *oldest) {
    const ph_user *best = NULL;
    int            since = 0;
    for (size_t i = 0; u && i < u->n_ops; i++) {
        const ph_user *o = u->op[i];
        if (strcmp(o->name, name) || strcmp(o->domain, domain)) continue;
        if (!since || o->theirs.since < since) since = o->theirs.since;
        if (o->theirs.since <= version && (!best || o->theirs.since > best->theirs.since)) best = o;
    }
    if (oldest) *oldest = since;
    return best ? &best->op : NULL;
}

size_t ph_user_op_count(const ph_user_ops *u) {
    return u ? u->n_ops : 0;
}

const ph_user *ph_user_op_at(const ph_user_ops *u, size_t i) {
    return i < ph_user_op_count(u) ? u->op[i] : NULL;
}

size_t ph_user_lib_count(const ph_user_ops *u) {
    return u ? u->n_libs : 0;
}

const ph_user_lib *ph_user_lib_at(const ph_user_ops *u, size_t i) {
    return i < ph_user_lib_count(u) ? u->lib[i] : NULL;
}
