/* jinja_json.c - JSON into values, and tojson: Python's json.dumps, byte for byte. */
#include "text/jinja_impl.h"

#include <math.h>
#include <stdio.h>

static ph_rc from_json(ph_jrun *r, ph_jv *out, const json_t *j, int mark);

static ph_rc from_object(ph_jrun *r, ph_jv *out, const json_t *j, int mark) {
    ph_jdict *d;
    json_t   *obj, *val;
    PH_TRY(ph_j_dict_make(r, &d));
    memcpy(&obj, &j, sizeof obj); /* jansson's iterator wants it writable and does not write */
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        const char *key = json_object_iter_key(it);
        ph_jv       k, v;
        val = json_object_iter_value(it);
        PH_TRY(ph_js_make(r, key, strlen(key), mark, &k));
        PH_TRY(from_json(r, &v, val, mark));
        PH_TRY(ph_j_dict_set(r, d, k, v));
    }
    *out = ph_j_ptr(PH_J_DICT, d);
    return PH_OK;
}

static ph_rc from_array(ph_jrun *r, ph_jv *out, const json_t *j, int mark) {
    ph_jlist l = {0};
    for (size_t i = 0; i < json_array_size(j); i++) {
        ph_jv v;
        PH_TRY(from_json(r, &v, json_array_get(j, i), mark));
        PH_TRY(ph_j_list_push(r, &l, v));
    }
    return ph_j_list_make(r, PH_J_LIST, &l, out);
}

static ph_rc from_json(ph_jrun *r, ph_jv *out, const json_t *j, int mark) {
    ph_rc rc = PH_OK;
    switch (json_typeof(j)) {
    case JSON_NULL:
        *out = ph_j_none();
        return PH_OK;
    case JSON_TRUE:
        *out = ph_j_bool(1);
        return PH_OK;
    case JSON_FALSE:
        *out = ph_j_bool(0);
        return PH_OK;
    case JSON_INTEGER:
        *out = ph_j_int(json_integer_value(j));
        return PH_OK;
    case JSON_REAL:
        *out = ph_j_float(json_real_value(j));
        return PH_OK;
    case JSON_STRING:
        return ph_js_make(r, json_string_value(j), json_string_length(j), mark, out);
    default:
        break;
    }
    PH_TRY(ph_j_enter(r));
    rc = json_is_object(j) ? from_object(r, out, j, mark) : from_array(r, out, j, mark);
    ph_j_leave(r);
    return rc;
}

ph_rc ph_jinja_json(ph_jrun *r, ph_jv *out, const json_t *json, int mark, ph_err *err) {
    r->err = err;
    if (!json) {
        *out = ph_j_none();
        return PH_OK;
    }
    return from_json(r, out, json, mark);
}

/* ---- out */

typedef struct dumper {
    ph_jrun       *r;
    ph_jbuf        b;
    int            ascii, sort;
    const ph_jstr *indent; /* NULL: all on one line */
    const ph_jstr *item_sep, *key_sep;
} dumper;

static ph_rc dump(dumper *d, ph_jv v, int level);

static ph_rc put(dumper *d, const char *z) {
    return ph_js_puts(d->r, &d->b, z, PH_JINJA_DATA);
}

static ph_rc newline(dumper *d, int level) {
    if (!d->indent) return PH_OK;
    PH_TRY(put(d, "\n"));
    for (int i = 0; i < level; i++) PH_TRY(ph_js_put_str(d->r, &d->b, d->indent));
    return PH_OK;
}

static ph_rc put_string(dumper *d, const ph_jstr *s) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    size_t            len;
    PH_TRY(put(d, "\""));
    for (size_t i = 0; i < s->n; i += len) {
        char        text[16];
        uint32_t    cp = ph_js_cp(s->p + i, s->n - i, &len);
        const char *e = cp < 0x80 ? memchr(from, (int)cp, sizeof from - 1) : NULL;
        if (e)
            snprintf(text, sizeof text, "\\%c", to[e - from]);
        else if (cp < 0x20 || (d->ascii && cp >= 0x7F && cp < 0x10000 && cp != 0x7F))
            snprintf(text, sizeof text, "\\u%04x", cp);
        else if (d->ascii && cp >= 0x10000)
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                     0xDC00 + ((cp - 0x10000) & 0x3FF));
        else {
            PH_TRY(ph_js_put_part(d->r, &d->b, s, i, len));
            continue;
        }
        PH_TRY(ph_js_puts(d->r, &d->b, text, ph_js_mark(s, i)));
    }
    return put(d, "\"");
}

static ph_rc put_scalar(dumper *d, ph_jv v, char text[48]) {
    switch (v.kind) {
    case PH_J_NONE:
        strcpy(text, "null");
        return PH_OK;
    case PH_J_BOOL:
        strcpy(text, v.u.i ? "true" : "false");
        return PH_OK;
    case PH_J_INT:
        snprintf(text, 48, "%lld", (long long)v.u.i);
        return PH_OK;
    case PH_J_FLOAT:
        ph_j_float_text(v.u.f, text);
        if (isnan(v.u.f)) strcpy(text, "NaN");
        if (isinf(v.u.f)) strcpy(text, v.u.f < 0 ? "-Infinity" : "Infinity");
        return PH_OK;
    default:
        return PH_J_FAIL(d->r, "TypeError: Object of type %s is not JSON serializable", ph_j_type(v));
    }
}

static ph_rc put_key(dumper *d, ph_jv key) {
    char  text[48];
    ph_jv s;
    if (key.kind == PH_J_STR) return put_string(d, key.u.p);
    if (key.kind != PH_J_NONE && !ph_j_is_num(key))
        return PH_J_FAIL(d->r, "TypeError: keys must be str, int, float, bool or None, not %s",
                         ph_j_type(key));
    PH_TRY(put_scalar(d, key, text));
    PH_TRY(ph_js_make(d->r, text, strlen(text), PH_JINJA_DATA, &s));
    return put_string(d, s.u.p);
}

static ph_rc dump_dict(dumper *d, const ph_jdict *o, int level) {
    ph_jv *key, *val;
    if (!o->n) return put(d, "{}");
    PH_TRY(ph_j_carve(d->r, &key, o->n, sizeof *key));
    PH_TRY(ph_j_carve(d->r, &val, o->n, sizeof *val));
    memcpy(key, o->key, o->n * sizeof *key);
    memcpy(val, o->val, o->n * sizeof *val);
    if (d->sort) PH_TRY(ph_j_sort(d->r, key, val, o->n, 0));
    PH_TRY(put(d, "{"));
    for (size_t i = 0; i < o->n; i++) {
        if (i) PH_TRY(ph_js_put_str(d->r, &d->b, d->item_sep));
        PH_TRY(newline(d, level + 1));
        PH_TRY(put_key(d, key[i]));
        PH_TRY(ph_js_put_str(d->r, &d->b, d->key_sep));
        PH_TRY(dump(d, val[i], level + 1));
    }
    PH_TRY(newline(d, level));
    return put(d, "}");
}

static ph_rc dump_list(dumper *d, const ph_jlist *l, int level) {
    if (!l->n) return put(d, "[]");
    PH_TRY(put(d, "["));
    for (size_t i = 0; i < l->n; i++) {
        if (i) PH_TRY(ph_js_put_str(d->r, &d->b, d->item_sep));
        PH_TRY(newline(d, level + 1));
        PH_TRY(dump(d, l->v[i], level + 1));
    }
    PH_TRY(newline(d, level));
    return put(d, "]");
}

static ph_rc dump(dumper *d, ph_jv v, int level) {
    char  text[48];
    ph_rc rc;
    PH_TRY(ph_j_step(d->r, 1));
    if (v.kind == PH_J_STR) return put_string(d, v.u.p);
    if (v.kind == PH_J_LIST || v.kind == PH_J_TUPLE || v.kind == PH_J_DICT) {
        PH_TRY(ph_j_enter(d->r));
        rc = v.kind == PH_J_DICT ? dump_dict(d, v.u.p, level) : dump_list(d, v.u.p, level);
        ph_j_leave(d->r);
        return rc;
    }
    PH_TRY(put_scalar(d, v, text));
    return put(d, text);
}

/* The separators argument: a pair of strings, or None for json's own. */
static ph_rc take_separators(dumper *d, ph_jv separators) {
    ph_jlist l;
    ph_jv    v[2];
    PH_TRY(ph_js_make(d->r, ", ", d->indent ? 1 : 2, PH_JINJA_DATA, &v[0]));
    PH_TRY(ph_js_make(d->r, ": ", 2, PH_JINJA_DATA, &v[1]));
    if (separators.kind != PH_J_MISSING && separators.kind != PH_J_NONE) {
        PH_TRY(ph_j_items(d->r, separators, &l));
        if (l.n != 2 || l.v[0].kind != PH_J_STR || l.v[1].kind != PH_J_STR)
            return PH_J_FAIL(d->r, "TypeError: tojson: separators must be two strings");
        v[0] = l.v[0];
        v[1] = l.v[1];
    }
    d->item_sep = v[0].u.p;
    d->key_sep = v[1].u.p;
    return PH_OK;
}

ph_rc ph_j_dump_json(ph_jrun *r, ph_jv v, int ascii, ph_jv indent, ph_jv separators, int sort, ph_jv *out) {
    dumper  d = {.r = r, .ascii = ascii, .sort = sort};
    ph_jbuf margin = {0};
    ph_jv   s;
    if (indent.kind == PH_J_STR) {
        d.indent = indent.u.p;
    } else if (indent.kind != PH_J_MISSING && indent.kind != PH_J_NONE) {
        int64_t n;
        PH_TRY(ph_j_as_index(r, indent, &n));
        for (int64_t i = 0; i < n; i++) PH_TRY(ph_js_put(r, &margin, " ", 1, PH_JINJA_DATA));
        PH_TRY(ph_js_done(r, &margin, &s));
        d.indent = s.u.p;
    }
    PH_TRY(take_separators(&d, separators));
    PH_TRY(dump(&d, v, 0));
    return ph_js_done(r, &d.b, out);
}
