/* jinja_impl.h - what the files of the interpreter share; nobody else includes this.
 *
 *   jinja_lex.c    source -> tokens (whitespace control lives here)
 *   jinja_parse.c  tokens -> statements        jinja_expr.c   tokens -> expressions
 *   jinja_exec.c   runs statements             jinja_eval.c   evaluates expressions
 *   jinja_value.c  lists, dicts, truth, equality, order
 *   jinja_str.c    strings with marks          jinja_repr.c   str() and repr()
 *   jinja_op.c     + - * / ...                 jinja_attr.c   a.b, a[b], slices
 *   jinja_format.c "%" and str.format          jinja_json.c   JSON in and out
 *   jinja_filter*.c, jinja_test.c, jinja_method*.c, jinja_global.c   the tables' functions
 */
#ifndef PH_TEXT_JINJA_IMPL_H
#define PH_TEXT_JINJA_IMPL_H

#include "base/mem.h"
#include "text/jinja.h"

#include <string.h>

enum {
    PH_J_MISSING, /* no value at all: an argument that was not given */
    PH_J_UNDEF,
    PH_J_NONE,
    PH_J_BOOL,
    PH_J_INT,
    PH_J_FLOAT,
    PH_J_STR,
    PH_J_LIST,
    PH_J_TUPLE,
    PH_J_DICT,
    PH_J_RANGE,
    PH_J_VIEW, /* dict.items(), keys(), values() */
    PH_J_ITER, /* a generator: eager, but read only once */
    PH_J_NS,
    PH_J_LOOP,
    PH_J_MACRO,
    PH_J_FUNC,  /* a global function */
    PH_J_BOUND, /* a method with its object */
    PH_J_CYCLER,
    PH_J_JOINER,
    PH_J_SLICE, /* only as a subscript */
};

/* Growing bytes with marks.  A string made from it may be extended in place when it ends at used. */
typedef struct ph_jbuf {
    char    *p;    /* [cap] */
    uint8_t *mark; /* [cap] */
    size_t   used, cap;
} ph_jbuf;

typedef struct ph_jstr {
    const char    *p;
    const uint8_t *mark; /* [n], or NULL: all bytes are `all` */
    size_t         n;
    ph_jbuf       *buf; /* where p stands, if that can grow; else NULL */
    uint8_t        all;
    uint8_t        is_markup; /* made by escape or safe */
} ph_jstr;

typedef struct ph_jlist {
    ph_jv *v;
    size_t n, cap;
    size_t next;     /* PH_J_ITER: the first item not yet read */
    int    is_group; /* a tuple of groupby: .grouper and .list */
    char   view[8];  /* PH_J_VIEW: "items", "keys", "values" */
} ph_jlist;

typedef struct ph_jdict {
    ph_jv    *key, *val; /* [cap], in order of insertion */
    size_t    n, cap;
    uint32_t *index; /* [index_cap] 1 + position, open addressing; NULL while small */
    size_t    index_cap;
} ph_jdict;

typedef struct ph_jrange {
    int64_t start, stop, step;
    size_t  n;
} ph_jrange;

/* a + b * c where only the sum is known to fit, as an item of a range is. */
static inline int64_t ph_j_stepped(int64_t a, int64_t b, int64_t c) {
    return (int64_t)((uint64_t)a + (uint64_t)b * (uint64_t)c);
}

typedef struct ph_jundef {
    const char *message; /* what using it says; never NULL */
    const char *error;   /* "UndefinedError" or "SecurityError" */
} ph_jundef;

typedef struct ph_jslice {
    ph_jv lo, hi, step;
} ph_jslice;

typedef struct ph_jargs {
    ph_jv          *pos; /* [n] */
    size_t          n;
    const ph_jstr **name; /* [n_kw] */
    ph_jv          *kw;
    size_t          n_kw;
} ph_jargs;

enum { PH_JARGS_MAX = 8 }; /* parameters of a built-in function */

/* A built-in: filter (arg 0 is the piped value), test (the same), method (self apart) or global. */
typedef ph_rc ph_jfn(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out);
typedef struct ph_jbuiltin {
    const char *name;
    ph_jfn     *fn;
    const char *params; /* "a b=c": names, those after '|' optional; "*" takes all */
} ph_jbuiltin;

typedef struct ph_jbound {
    ph_jv              self;
    const ph_jbuiltin *fn;
} ph_jbound;

/* ---- syntax */

enum {
    PH_JT_END,
    PH_JT_DATA,
    PH_JT_OUT_BEGIN,
    PH_JT_OUT_END,
    PH_JT_BLOCK_BEGIN,
    PH_JT_BLOCK_END,
    PH_JT_NAME,
    PH_JT_STRING,
    PH_JT_INT,
    PH_JT_FLOAT,
    PH_JT_OP,
};
typedef struct ph_jtoken {
    int         type, line;
    int         op; /* PH_JT_OP: the characters, first in the low byte: '*' | '*' << 8 */
    const char *p;  /* name or data or decoded string; in the compile arena */
    size_t      n;
    int64_t     i;
    double      f;
} ph_jtoken;

enum {
    /* expressions */
    PH_JN_CONST,
    PH_JN_NAME,
    PH_JN_LIST,
    PH_JN_TUPLE,
    PH_JN_DICT,
    PH_JN_ATTR,
    PH_JN_ITEM,
    PH_JN_SLICE,
    PH_JN_CALL,
    PH_JN_FILTER,
    PH_JN_TEST,
    PH_JN_KWARG,
    PH_JN_STAR,
    PH_JN_STARSTAR,
    PH_JN_COND,
    PH_JN_AND,
    PH_JN_OR,
    PH_JN_NOT,
    PH_JN_COMPARE,
    PH_JN_CONCAT,
    PH_JN_BINARY,
    PH_JN_NEG,
    PH_JN_POS,
    /* statements */
    PH_JN_DATA,
    PH_JN_OUTPUT,
    PH_JN_IF,
    PH_JN_FOR,
    PH_JN_SET,
    PH_JN_SETBLOCK,
    PH_JN_MACRO,
    PH_JN_CALLBLOCK,
    PH_JN_FILTERBLOCK,
    PH_JN_WITH,
    PH_JN_BREAK,
    PH_JN_CONTINUE,
    PH_JN_SCOPE,
    PH_JN_BODY,
};
enum {
    PH_JN_USES_VARARGS = 1,
    PH_JN_USES_KWARGS = 2,
    PH_JN_USES_CALLER = 4,
    PH_JN_NEGATED = 8,
    PH_JN_RECURSIVE = 16
};

/* One shape for all nodes; which fields count is said where the parser makes the node. */
typedef struct ph_jnode {
    int               kind, line;
    int               op, flags;
    const ph_jstr    *name;
    ph_jv             value;
    struct ph_jnode  *a, *b, *c, *d;
    struct ph_jnode **kid;
    size_t            n;
} ph_jnode;

struct ph_jinja {
    ph_jnode *body;
};

/* ---- running */

typedef struct ph_jscope {
    struct ph_jscope *up;
    const ph_jstr   **name;
    ph_jv            *val;
    size_t            n, cap;
} ph_jscope;

typedef struct ph_jmacro {
    const ph_jnode *node; /* PH_JN_MACRO or PH_JN_CALLBLOCK */
    ph_jscope      *scope;
    const ph_jstr  *name;
} ph_jmacro;

typedef struct ph_jloop {
    const ph_jnode *node;
    ph_jscope      *scope; /* outside the loop: where a recursive call starts */
    ph_jv          *items;
    size_t          n, at;
    int             depth0;
    ph_jv           changed; /* last arguments of loop.changed */
} ph_jloop;

typedef struct ph_jcycler {
    ph_jv *v;
    size_t n, at;
} ph_jcycler;

struct ph_jrun {
    ph_arena       *arena;
    char           *free; /* small pieces are cut from larger carves */
    size_t          free_n;
    size_t          bytes;
    uint64_t        steps;
    int             depth;
    ph_jinja_limits limits;
    int64_t         now_s;
    ph_err         *err;
    int             line;
    const char     *raised;
    ph_jscope       context; /* the variables given, and the globals below them */
    ph_jbuf        *out;
    int             flow; /* 0, or PH_JN_BREAK, PH_JN_CONTINUE on the way to its loop */
};

#define PH_J_FAIL(r, ...) ph_j_fail((r), __FILE__, __LINE__, __VA_ARGS__)
ph_rc ph_j_fail(ph_jrun *r, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* memory and time: jinja_run.c */
ph_rc ph_j_carve(ph_jrun *r, void *out, size_t n, size_t item); /* cleared, 16-byte aligned; out is T ** */
ph_rc ph_j_step(ph_jrun *r, size_t n);
ph_rc ph_j_enter(ph_jrun *r); /* one level deeper; always paired with ph_j_leave when PH_OK */
void  ph_j_leave(ph_jrun *r);
void  ph_jrun_init(ph_jrun *r, const ph_jinja_limits *limits, ph_arena *arena, ph_err *err);

/* strings: jinja_str.c */
ph_rc    ph_js_put(ph_jrun *r, ph_jbuf *b, const char *p, size_t n, int mark);
ph_rc    ph_js_puts(ph_jrun *r, ph_jbuf *b, const char *z, int mark);
ph_rc    ph_js_put_str(ph_jrun *r, ph_jbuf *b, const ph_jstr *s);
ph_rc    ph_js_put_part(ph_jrun *r, ph_jbuf *b, const ph_jstr *s, size_t at, size_t n);
ph_rc    ph_js_put_cp(ph_jrun *r, ph_jbuf *b, uint32_t cp, int mark);
ph_rc    ph_js_done(ph_jrun *r, ph_jbuf *b, ph_jv *out); /* the buffer as a string value */
ph_rc    ph_js_part(ph_jrun *r, const ph_jstr *s, size_t at, size_t n, ph_jv *out);
ph_rc    ph_js_make(ph_jrun *r, const char *p, size_t n, int mark, ph_jv *out); /* copies */
ph_rc    ph_js_lit(ph_jrun *r, const char *z, ph_jv *out);                      /* static text, trusted */
ph_rc    ph_js_concat(ph_jrun *r, const ph_jstr *a, const ph_jstr *b, ph_jv *out);
ph_rc    ph_js_to_markup(ph_jrun *r, const ph_jstr *s, int escape, ph_jv *out);
size_t   ph_js_chars(const ph_jstr *s);
size_t   ph_js_offset(const ph_jstr *s, size_t char_at); /* byte offset of a character, or n */
uint32_t ph_js_cp(const char *p, size_t n, size_t *len); /* one code point, never fails, len >= 1 */
size_t   ph_js_find(const ph_jstr *s, size_t from, const ph_jstr *what); /* byte offset or SIZE_MAX */
size_t   ph_js_rfind(const ph_jstr *s, size_t end, const ph_jstr *what);
int      ph_js_is(const ph_jstr *s, const char *z);
int      ph_js_equal(const ph_jstr *a, const ph_jstr *b);
int      ph_js_mark(const ph_jstr *s, size_t at);
int      ph_js_space(uint32_t cp);
ph_rc    ph_js_strip(ph_jrun *r, const ph_jstr *s, const ph_jstr *chars, int sides,
                     ph_jv *out); /* 1 left, 2 right */
ph_rc    ph_js_split_lines(ph_jrun *r, const ph_jstr *s, int keep_ends, ph_jlist *out);
enum { PH_JS_UPPER, PH_JS_LOWER, PH_JS_TITLE, PH_JS_CAPITALIZE, PH_JS_SWAP };
ph_rc ph_js_case(ph_jrun *r, const ph_jstr *s, int how, ph_jv *out);
ph_rc ph_js_replace(ph_jrun *r, const ph_jstr *s, const ph_jstr *from, const ph_jstr *to, int64_t count,
                    ph_jv *out);

/* values: jinja_value.c */
static inline ph_jv ph_j_int(int64_t i) {
    return (ph_jv){PH_J_INT, {.i = i}};
}
static inline ph_jv ph_j_bool(int b) {
    return (ph_jv){PH_J_BOOL, {.i = b != 0}};
}
static inline ph_jv ph_j_float(double f) {
    return (ph_jv){PH_J_FLOAT, {.f = f}};
}
static inline ph_jv ph_j_none(void) {
    return (ph_jv){PH_J_NONE, {.i = 0}};
}
static inline ph_jv ph_j_ptr(int kind, const void *p) {
    return (ph_jv){kind, {.p = p}};
}
static inline const ph_jstr *ph_j_str(ph_jv v) {
    return v.u.p;
}
static inline int ph_j_is_int(ph_jv v) { /* Python's int, of which bool is one */
    return v.kind == PH_J_INT || v.kind == PH_J_BOOL;
}
static inline int ph_j_is_num(ph_jv v) {
    return ph_j_is_int(v) || v.kind == PH_J_FLOAT;
}
static inline double ph_j_num(ph_jv v) {
    return v.kind == PH_J_FLOAT ? v.u.f : (double)v.u.i;
}
const char *ph_j_type(ph_jv v); /* Python's type name */
ph_rc       ph_j_undef(ph_jrun *r, ph_jv *out, const char *error, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
ph_rc ph_j_undef_used(ph_jrun *r, ph_jv v); /* fails with the value's message */
int   ph_j_truth(ph_jv v);
ph_rc ph_j_equal(ph_jrun *r, ph_jv a, ph_jv b, int *out);
ph_rc ph_j_less(ph_jrun *r, ph_jv a, ph_jv b, const char *op, int *out); /* a < b; op is for the message */
ph_rc ph_j_contains(ph_jrun *r, ph_jv box, ph_jv item, int *out);
ph_rc ph_j_list_push(ph_jrun *r, ph_jlist *l, ph_jv v);
ph_rc ph_j_list_make(ph_jrun *r, int kind, const ph_jlist *from, ph_jv *out);
ph_rc ph_j_dict_make(ph_jrun *r, ph_jdict **out);
ph_rc ph_j_dict_set(ph_jrun *r, ph_jdict *d, ph_jv key, ph_jv val);
ph_rc ph_j_dict_get(ph_jrun *r, const ph_jdict *d, ph_jv key, ph_jv *out); /* PH_J_MISSING when absent */
ph_jv ph_j_dict_str(const ph_jdict *d, const char *z, size_t n);           /* by a string key */
ph_rc ph_j_items(ph_jrun *r, ph_jv v, ph_jlist *out); /* iterate: the items, borrowed or fresh */
ph_rc ph_j_len(ph_jrun *r, ph_jv v, size_t *out);
ph_rc ph_j_sort(ph_jrun *r, ph_jv *keys, ph_jv *vals, size_t n, int reverse);
ph_rc ph_j_as_index(ph_jrun *r, ph_jv v, int64_t *out); /* an int, else TypeError */

/* text of values: jinja_repr.c */
ph_rc ph_j_to_str(ph_jrun *r, ph_jv v, ph_jv *out); /* str(v); marks kept */
ph_rc ph_j_put_str(ph_jrun *r, ph_jbuf *b, ph_jv v);
ph_rc ph_j_put_repr(ph_jrun *r, ph_jbuf *b, ph_jv v);
void  ph_j_float_text(double f, char out[40]); /* float.__repr__ */
int   ph_j_printable(uint32_t cp);
int   ph_j_alnum(uint32_t cp); /* str.isalnum() of one character */

/* operators, attributes */
enum {
    PH_JO_ADD = '+',
    PH_JO_SUB = '-',
    PH_JO_MUL = '*',
    PH_JO_DIV = '/',
    PH_JO_MOD = '%',
    PH_JO_FLOOR = '/' | '/' << 8,
    PH_JO_POW = '*' | '*' << 8
};
ph_rc ph_j_binary(ph_jrun *r, int op, ph_jv a, ph_jv b, ph_jv *out);
ph_rc ph_j_getattr(ph_jrun *r, ph_jv obj, const ph_jstr *name, ph_jv *out);
ph_rc ph_j_getitem(ph_jrun *r, ph_jv obj, ph_jv key, ph_jv *out);
ph_rc ph_j_attr_path(ph_jrun *r, ph_jv obj, ph_jv path,
                     ph_jv *out); /* "a.b.0", or an int; jinja's make_attrgetter */

/* calls */
ph_rc ph_j_call(ph_jrun *r, ph_jv fn, ph_jargs *args, ph_jv *out);
ph_rc ph_j_call_builtin(ph_jrun *r, const ph_jbuiltin *fn, ph_jv self, const ph_jargs *args, ph_jv *out);
ph_rc ph_j_call_macro(ph_jrun *r, const ph_jmacro *m, ph_jargs *args, ph_jv *out);
ph_rc ph_j_call_loop(ph_jrun *r, const ph_jloop *l, ph_jv items, ph_jv *out);
const ph_jbuiltin *ph_j_filter(const ph_jstr *name);
const ph_jbuiltin *ph_j_test(const ph_jstr *name);
const ph_jbuiltin *ph_j_method(ph_jv obj, const ph_jstr *name);
int                ph_j_is_mutator(ph_jv obj, const ph_jstr *name);
ph_jv              ph_j_global(const ph_jstr *name);
ph_rc              ph_j_apply_test(ph_jrun *r, const ph_jstr *name, ph_jv v, const ph_jargs *more, int *out);
ph_rc ph_j_apply_filter(ph_jrun *r, const ph_jstr *name, ph_jv v, const ph_jargs *more, ph_jv *out);
ph_rc ph_j_percent(ph_jrun *r, const ph_jstr *fmt, ph_jv args, ph_jv *out);
ph_rc ph_j_str_format(ph_jrun *r, const ph_jstr *fmt, const ph_jargs *args, ph_jv *out);
ph_rc ph_j_dump_json(ph_jrun *r, ph_jv v, int ascii, ph_jv indent, ph_jv separators, int sort, ph_jv *out);

/* syntax */
typedef struct ph_jtokens {
    ph_jtoken *t;
    size_t     n, cap;
} ph_jtokens;
typedef struct ph_jparser {
    ph_jrun   *r;
    ph_jtokens tokens;
    size_t     at;
    int        loops; /* how many loops enclose this statement within its macro */
    int       *uses;  /* flags of the enclosing macro, or NULL */
} ph_jparser;
ph_rc ph_j_lex(ph_jrun *r, const char *source, size_t n, ph_jtokens *out);
ph_rc ph_j_parse(ph_jparser *p, ph_jnode **out);

enum { PH_JP_NO_COND = 1, PH_JP_PARENS = 2 };
ph_rc      ph_jp_expr(ph_jparser *p, ph_jnode **out);
ph_rc      ph_jp_tuple(ph_jparser *p, int how, const char *end_word, ph_jnode **out);
ph_rc      ph_jp_target(ph_jparser *p, int allow_ns, ph_jnode **out); /* names, tuples of them, ns.attr */
ph_rc      ph_jp_filters(ph_jparser *p, ph_jnode *first, int start_inline, ph_jnode **out);
ph_rc      ph_jp_call_args(ph_jparser *p, ph_jnode *call);
ph_jtoken *ph_jp_now(ph_jparser *p);
ph_jtoken *ph_jp_look(ph_jparser *p);
int        ph_jp_is_op(ph_jparser *p, const char *op);
int        ph_jp_is_name(ph_jparser *p, const char *name);
int        ph_jp_skip_op(ph_jparser *p, const char *op);
int        ph_jp_skip_name(ph_jparser *p, const char *name);
ph_rc      ph_jp_expect_op(ph_jparser *p, const char *op);
ph_rc      ph_jp_expect_name(ph_jparser *p, const ph_jstr **out);
ph_rc      ph_jp_node(ph_jparser *p, int kind, ph_jnode **out);
ph_rc      ph_jp_push(ph_jparser *p, ph_jnode *parent, ph_jnode *kid);
ph_rc      ph_jp_unexpected(ph_jparser *p, const char *wanted);

/* running */
ph_rc ph_j_eval(ph_jrun *r, const ph_jnode *n, ph_jscope *s, ph_jv *out);
ph_rc ph_j_eval_args(ph_jrun *r, const ph_jnode *call, ph_jscope *s, ph_jargs *out);
ph_rc ph_j_exec(ph_jrun *r, const ph_jnode *n, ph_jscope *s);
ph_rc ph_j_capture(ph_jrun *r, const ph_jnode *body, ph_jscope *s, ph_jv *out);
ph_rc ph_j_assign(ph_jrun *r, const ph_jnode *target, ph_jv v, ph_jscope *s);
ph_rc ph_j_scope_set(ph_jrun *r, ph_jscope *s, const ph_jstr *name, ph_jv v);
ph_rc ph_j_lookup(ph_jrun *r, const ph_jscope *s, const ph_jstr *name, ph_jv *out);

#endif
