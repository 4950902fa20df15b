/* jinja_repr.c - str() and repr() of values, byte for byte Python's.
 *
 * Marks: a string keeps its own; digits, True and None are trusted (a template may build "<|image_1|>"
 * from a loop counter); brackets, quotes and escapes around data are data.
 */
#include "text/jinja_impl.h"

#include "base/locale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* The shortest decimal that reads back as f, in Python's choice of notation. */
void ph_j_float_text(double f, char out[40]) {
    char digits[32], *e;
    int  precision = 0;
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    do ph_plain_print(digits, sizeof digits, "%.*e", precision, f);
    while (memcmp(&(double){ph_plain_double(digits, NULL)}, &f, sizeof f) && ++precision < 17);
    e = strchr(digits, 'e');
    int exponent = e ? atoi(e + 1) % 1000 : 0;
    if (exponent >= -4 && exponent < 16) {
        int decimals = precision - exponent;
        ph_plain_print(out, 40, "%.*f", decimals > 1 ? decimals : 1, f);
        return;
    }
    if (e) *e = 0;
    snprintf(out, 40, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
}

int ph_j_printable(uint32_t cp) {
    if (cp == ' ') return 1;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return 0;
    default:
        return 1;
    }
}

static ph_rc put_escaped(ph_jrun *r, ph_jbuf *b, uint32_t cp, int mark) {
    char text[12];
    if (cp == '\n' || cp == '\r' || cp == '\t')
        snprintf(text, sizeof text, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
    else if (cp < 0x100)
        snprintf(text, sizeof text, "\\x%02x", cp);
    else if (cp < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", cp);
    else
        snprintf(text, sizeof text, "\\U%08x", cp);
    return ph_js_puts(r, b, text, mark);
}

static ph_rc put_str_repr(ph_jrun *r, ph_jbuf *b, const ph_jstr *s) {
    int        has_single = memchr(s->p, '\'', s->n) != NULL, has_double = memchr(s->p, '"', s->n) != NULL;
    const char quote = has_single && !has_double ? '"' : '\'';
    size_t     len;
    PH_TRY(ph_js_put(r, b, &quote, 1, PH_JINJA_DATA));
    for (size_t i = 0; i < s->n; i += len) {
        uint32_t cp = ph_js_cp(s->p + i, s->n - i, &len);
        if (cp == (unsigned char)quote || cp == '\\') {
            PH_TRY(ph_js_put(r, b, "\\", 1, ph_js_mark(s, i)));
            PH_TRY(ph_js_put_part(r, b, s, i, len));
        } else if (ph_j_printable(cp)) {
            PH_TRY(ph_js_put_part(r, b, s, i, len));
        } else {
            PH_TRY(put_escaped(r, b, cp, ph_js_mark(s, i)));
        }
    }
    return ph_js_put(r, b, &quote, 1, PH_JINJA_DATA);
}

static ph_rc put_list(ph_jrun *r, ph_jbuf *b, const ph_jlist *l, const char *open, const char *close) {
    PH_TRY(ph_js_puts(r, b, open, PH_JINJA_DATA));
    for (size_t i = 0; i < l->n; i++) {
        if (i) PH_TRY(ph_js_puts(r, b, ", ", PH_JINJA_DATA));
        PH_TRY(ph_j_put_repr(r, b, l->v[i]));
    }
    if (*open == '(' && l->n == 1) PH_TRY(ph_js_puts(r, b, ",", PH_JINJA_DATA));
    return ph_js_puts(r, b, close, PH_JINJA_DATA);
}

static ph_rc put_dict(ph_jrun *r, ph_jbuf *b, const ph_jdict *d) {
    PH_TRY(ph_js_puts(r, b, "{", PH_JINJA_DATA));
    for (size_t i = 0; i < d->n; i++) {
        if (i) PH_TRY(ph_js_puts(r, b, ", ", PH_JINJA_DATA));
        PH_TRY(ph_j_put_repr(r, b, d->key[i]));
        PH_TRY(ph_js_puts(r, b, ": ", PH_JINJA_DATA));
        PH_TRY(ph_j_put_repr(r, b, d->val[i]));
    }
    return ph_js_puts(r, b, "}", PH_JINJA_DATA);
}

static ph_rc put_other(ph_jrun *r, ph_jbuf *b, ph_jv v) {
    char text[96];
    switch (v.kind) {
    case PH_J_RANGE: {
        const ph_jrange *g = v.u.p;
        if (g->step == 1)
            snprintf(text, sizeof text, "range(%lld, %lld)", (long long)g->start, (long long)g->stop);
        else
            snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)g->start, (long long)g->stop,
                     (long long)g->step);
        break;
    }
    case PH_J_LOOP: {
        const ph_jloop *l = v.u.p;
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", l->at + 1, l->n);
        break;
    }
    case PH_J_MACRO: {
        const ph_jmacro *m = v.u.p;
        snprintf(text, sizeof text, m->name ? "<Macro '%.*s'>" : "<Macro anonymous>",
                 m->name ? (int)(m->name->n < 60 ? m->name->n : 60) : 0, m->name ? m->name->p : "");
        break;
    }
    default:
        snprintf(text, sizeof text, "<%s object>", ph_j_type(v));
    }
    return ph_js_puts(r, b, text, PH_JINJA_TRUSTED);
}

static ph_rc put_container(ph_jrun *r, ph_jbuf *b, ph_jv v) {
    const ph_jlist *l = v.u.p;
    switch (v.kind) {
    case PH_J_LIST:
        return put_list(r, b, l, "[", "]");
    case PH_J_TUPLE:
        return put_list(r, b, l, "(", ")");
    case PH_J_DICT:
        return put_dict(r, b, v.u.p);
    case PH_J_NS:
        PH_TRY(ph_js_puts(r, b, "<Namespace ", PH_JINJA_TRUSTED));
        PH_TRY(put_dict(r, b, v.u.p));
        return ph_js_puts(r, b, ">", PH_JINJA_TRUSTED);
    default:
        PH_TRY(ph_js_puts(r, b, "dict_", PH_JINJA_TRUSTED));
        PH_TRY(ph_js_puts(r, b, l->view, PH_JINJA_TRUSTED));
        return put_list(r, b, l, "([", "])");
    }
}

ph_rc ph_j_put_repr(ph_jrun *r, ph_jbuf *b, ph_jv v) {
    char  text[48];
    ph_rc rc;
    PH_TRY(ph_j_step(r, 1));
    switch (v.kind) {
    case PH_J_UNDEF:
        return ph_js_puts(r, b, "Undefined", PH_JINJA_TRUSTED);
    case PH_J_NONE:
        return ph_js_puts(r, b, "None", PH_JINJA_TRUSTED);
    case PH_J_BOOL:
        return ph_js_puts(r, b, v.u.i ? "True" : "False", PH_JINJA_TRUSTED);
    case PH_J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.u.i);
        return ph_js_puts(r, b, text, PH_JINJA_TRUSTED);
    case PH_J_FLOAT:
        ph_j_float_text(v.u.f, text);
        return ph_js_puts(r, b, text, PH_JINJA_TRUSTED);
    case PH_J_STR:
        if (!ph_j_str(v)->is_markup) return put_str_repr(r, b, v.u.p);
        PH_TRY(ph_js_puts(r, b, "Markup(", PH_JINJA_TRUSTED));
        PH_TRY(put_str_repr(r, b, v.u.p));
        return ph_js_puts(r, b, ")", PH_JINJA_TRUSTED);
    case PH_J_LIST:
    case PH_J_TUPLE:
    case PH_J_DICT:
    case PH_J_NS:
    case PH_J_VIEW:
        PH_TRY(ph_j_enter(r));
        rc = put_container(r, b, v);
        ph_j_leave(r);
        return rc;
    default:
        return put_other(r, b, v);
    }
}

ph_rc ph_j_put_str(ph_jrun *r, ph_jbuf *b, ph_jv v) {
    if (v.kind == PH_J_STR) return ph_js_put_str(r, b, v.u.p);
    if (v.kind == PH_J_UNDEF) return PH_OK;
    return ph_j_put_repr(r, b, v);
}

ph_rc ph_j_to_str(ph_jrun *r, ph_jv v, ph_jv *out) {
    ph_jbuf b = {0};
    if (v.kind == PH_J_STR) {
        *out = v;
        return PH_OK;
    }
    PH_TRY(ph_j_put_str(r, &b, v));
    return ph_js_done(r, &b, out);
}
