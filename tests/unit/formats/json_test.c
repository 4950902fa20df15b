/* json_test.c - documents, getters, and what is refused. */
#include "formats/json.h"
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ph_json_doc parse(const char *text) {
    ph_json_doc doc = {0};
    ph_err      err = {0};
    ph_rc       rc = ph_json_parse(&doc, text, strlen(text), "t.json", &err);
    CHECK_SAY(!rc, "%s: %s", text, err.msg);
    return doc;
}

void test_json_values(void) {
    ph_json_doc doc = parse("{\"a\": {\"n\": 7, \"x\": 1e-05, \"s\": \"caf\\u00e9\", \"on\": true, \"no\": "
                            "null, \"whole\": 32.0},"
                            " \"list\": [1, -2, 3], \"mean\": [0.5, 1], \"names\": [\"p\", \"q\"]}");
    ph_json     root = ph_json_root(&doc), a = ph_json_get(&root, "a");
    int64_t     n = 0, ints[3];
    double      x = 0;
    int         on = 0, size = 0;
    float       reals[2];
    const char *s = "", *texts[2], *key;
    size_t      count;
    CHECK(!ph_json_int(&a, "n", &n, NULL) && n == 7);
    CHECK(!ph_json_int(&a, "whole", &n, NULL) && n == 32);
    CHECK(!ph_json_real(&a, "x", &x, NULL) && fabs(x - 1e-5) < 1e-20);
    CHECK(!ph_json_real(&a, "n", &x, NULL) && fabs(x - 7) < 1e-20);
    CHECK(!ph_json_text(&a, "s", &s, NULL) && !strcmp(s, "caf\xc3\xa9"));
    CHECK(!ph_json_bool(&a, "on", &on, NULL) && on == 1);
    CHECK(!ph_json_has(&a, "no") && !ph_json_has(&a, "nothing") && ph_json_has(&a, "n"));
    CHECK(!ph_json_int_or(&a, "no", 5, &n, NULL) && n == 5);
    CHECK(!ph_json_size(&a, "n", 1, 7, &size, NULL) && size == 7);
    CHECK(!ph_json_text_or(&a, "nothing", NULL, &s, NULL) && !s);
    CHECK(!ph_json_ints(&root, "list", ints, 3, &count, NULL) && count == 3 && ints[1] == -2);
    CHECK(!ph_json_reals(&root, "mean", reals, 2, &count, NULL) && count == 2 &&
          fabsf(reals[0] - 0.5f) < 1e-9f);
    CHECK(!ph_json_texts(&root, "names", texts, 2, &count, NULL) && !strcmp(texts[1], "q"));
    CHECK(!ph_json_ints(&root, "absent", ints, 3, &count, NULL) && count == 0);
    CHECK(ph_json_count(&root) == 4);
    char    order[32] = "";
    ph_json value;
    for (ph_json_iter it = ph_json_members(&root); ph_json_next(&it, &key, &value);) strcat(order, key);
    CHECK_SAY(!strcmp(order, "alistmeannames"), "%s", order);
    ph_json_close(&doc);
    root = ph_json_root(&doc);
    CHECK(ph_json_kind_of(&root) == PH_JSON_ABSENT && !ph_json_has(&root, "a"));
}

/* What Python's json writes and RFC 8259 does not know. */
void test_json_python_tokens(void) {
    ph_json_doc doc =
        parse("{\"a\": Infinity, \"b\":-Infinity,\"c\":NaN ,\"d\": [NaN,1], \"max\": "
              "1000000000000000019884624838656,"
              "\"text\": \"NaN Infinity 1000000000000000019884624838656\\\\\", \"edge\": 9007199254740993, "
              "\"last\": [9223372036854775807, -9223372036854775807, 9223372036854775808]}");
    ph_json     root = ph_json_root(&doc), d = ph_json_get(&root, "d"), a = ph_json_get(&root, "a");
    double      x = 0;
    int64_t     n = 0;
    const char *s = "";
    CHECK(!ph_json_real(&root, "a", &x, NULL) && isinf(x) && x > 0);
    CHECK(!ph_json_real(&root, "b", &x, NULL) && isinf(x) && x < 0);
    CHECK(!ph_json_real(&root, "c", &x, NULL) && isnan(x));
    CHECK(!ph_json_real(&root, "max", &x, NULL) && fabs(x / 1e30 - 1) < 1e-15);
    CHECK(ph_json_int(&root, "max", &n, NULL) == PH_EFORMAT);
    CHECK(!ph_json_int(&root, "edge", &n, NULL) && n == 9007199254740993);
    int64_t last[2];
    size_t  count;
    CHECK(ph_json_ints(&root, "last", last, 2, &count, NULL) == PH_ELIMIT);
    ph_json list = ph_json_get(&root, "last"), item = ph_json_at(&list, 1), beyond = ph_json_at(&list, 2);
    CHECK(!ph_json_to_int(&item, &n, NULL) && n == -INT64_MAX);
    CHECK(ph_json_kind_of(&beyond) == PH_JSON_REAL);
    CHECK(ph_json_count(&d) == 2 && ph_json_kind_of(&a) == PH_JSON_REAL);
    CHECK(ph_json_text(&root, "a", &s, NULL) == PH_EFORMAT);
    CHECK(!ph_json_text(&root, "text", &s, NULL) &&
          !strcmp(s, "NaN Infinity 1000000000000000019884624838656\\"));
    ph_json_close(&doc);
}

/* Quotes behind backslashes do not end a text, so nothing in it is a token or a bracket. */
void test_json_escapes(void) {
    ph_json_doc doc = parse("{\"a\": \"say \\\"NaN or\\\" [[ \\\\\", \"b\": \"\\\\\", \"c\": NaN}");
    ph_json     root = ph_json_root(&doc);
    const char *s = "";
    double      x = 0;
    CHECK(!ph_json_text(&root, "a", &s, NULL) && !strcmp(s, "say \"NaN or\" [[ \\"));
    CHECK(!ph_json_text(&root, "b", &s, NULL) && !strcmp(s, "\\"));
    CHECK(!ph_json_real(&root, "c", &x, NULL) && isnan(x));
    ph_json_close(&doc);
}

void test_json_bad(void) {
    static const struct {
        const char *text, *part;
        ph_rc       code;
    } rows[] = {
        {"", "empty", PH_EFORMAT},
        {"{\"a\": 1,\n \"a\": 2}", "t.json:2:", PH_EFORMAT},
        {"{\"a\": 1} x", "t.json:1:", PH_EFORMAT},
        {"{\"a\": ", "t.json:1:", PH_EFORMAT},
        {"7", "t.json:1:", PH_EFORMAT},
        {"{\"a\": Nan}", "t.json:1:", PH_EFORMAT},
        {"{\"a\": 1e999}", "overflow", PH_EFORMAT},
        {"{\"a\": \"\xff\"}", "byte 0xff", PH_EFORMAT},
        {"{\"a\\u0000b\": 1}", "NUL", PH_EFORMAT},
        {"{\"a\": 'b'}", "t.json:1:", PH_EFORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_err      err = {0};
        ph_json_doc doc;
        ph_rc       rc = ph_json_parse(&doc, rows[i].text, strlen(rows[i].text), "t.json", &err);
        ft_expect(rows[i].text, rc, rows[i].code, &err, rows[i].part);
        ph_json_close(&doc);
    }
    enum { DEEP = 1 << 20 };
    char       *deep = malloc(DEEP);
    ph_json_doc doc;
    ph_err      err = {0};
    if (!deep) return;
    memset(deep, '[', DEEP);
    ph_rc rc = ph_json_parse(&doc, deep, DEEP, "t.json", &err);
    ft_expect("deep", rc, PH_ELIMIT, &err, "nested 1048576 deep");
    ph_json_close(&doc);
    memset(deep, '[', PH_JSON_DEPTH_MAX);
    memset(deep + PH_JSON_DEPTH_MAX, ']', PH_JSON_DEPTH_MAX);
    CHECK(!ph_json_parse(&doc, deep, 2 * (size_t)PH_JSON_DEPTH_MAX, "t.json", NULL));
    ph_json_close(&doc);
    free(deep);

    enum { MANY = 3 << 20 }; /* 9 MB that would take more than 1 GB */
    char *many = malloc(3 * MANY + 1);
    if (!many) return;
    for (size_t i = 0; i < MANY; i++) memcpy(many + 1 + 3 * i, "[],", 3);
    many[0] = '[';
    many[3 * MANY] = ']';
    rc = ph_json_parse(&doc, many, 3 * MANY + 1, "t.json", &err);
    ft_expect("many nodes", rc, PH_ELIMIT, &err, "too many nodes to hold");
    ph_json_close(&doc);
    free(many);
}

void test_json_wrong_types(void) {
    ph_json_doc doc =
        parse("{\"text_config\": {\"n\": \"8\", \"list\": [1, {}], \"x\": 1.5, \"on\": 1, \"big\": 70000,"
              " \"nul\": \"a\\u0000b\", \"empty\": null}}");
    ph_json     root = ph_json_root(&doc), t = ph_json_get(&root, "text_config");
    ph_err      err = {0};
    int64_t     n, list[2];
    int         small;
    double      x;
    size_t      count;
    const char *s;
    ft_expect("int", ph_json_int(&t, "n", &n, &err), PH_EFORMAT, &err,
              "t.json: text_config.n: expected an integer, found a text");
    ft_expect("int", ph_json_int(&t, "x", &n, &err), PH_EFORMAT, &err, "text_config.x");
    ft_expect("missing", ph_json_int(&t, "absent", &n, &err), PH_EFORMAT, &err, "text_config.absent");
    ft_expect("or", ph_json_real_or(&t, "n", 1, &x, &err), PH_EFORMAT, &err, "expected a number");
    ft_expect("bool", ph_json_bool(&t, "on", &small, &err), PH_EFORMAT, &err, "expected a boolean");
    ft_expect("size", ph_json_size(&t, "big", 1, 65535, &small, &err), PH_EFORMAT, &err,
              "is 70000, expected 1 to 65535");
    ft_expect("item", ph_json_ints(&t, "list", list, 2, &count, &err), PH_EFORMAT, &err,
              "text_config.list[1]");
    ft_expect("many", ph_json_ints(&t, "list", list, 1, &count, &err), PH_ELIMIT, &err, "2 items");
    ft_expect("array", ph_json_ints(&t, "n", list, 1, &count, &err), PH_EFORMAT, &err, "expected an array");
    ph_json got = ph_json_get(&t, "list");
    ft_expect("want", ph_json_want(&got, PH_JSON_OBJECT, &small, &err), PH_EFORMAT, &err,
              "t.json: text_config.list: expected an object, found an array");
    CHECK(!small && !ph_json_want(&got, PH_JSON_ARRAY, &small, &err) && small);
    got = ph_json_get(&t, "none");
    CHECK(!ph_json_want(&got, PH_JSON_OBJECT, &small, &err) && !small);
    got = ph_json_get(&t, "empty");
    CHECK(!ph_json_want(&got, PH_JSON_OBJECT, &small, &err) && !small);
    ft_expect("nul", ph_json_text(&t, "nul", &s, &err), PH_EFORMAT, &err, "NUL");
    ph_json node = ph_json_get(&t, "nul");
    CHECK(!ph_json_to_text(&node, &s, &count, NULL) && count == 3 && !memcmp(s, "a\0b", 3));
    ph_json_close(&doc);
}

/* Every prefix and every flipped bit of a real file: an answer or an error, in bounds. */
void test_json_cut_and_flipped(void) {
    size_t   n;
    uint8_t *bytes = ft_load(GOLDEN "hf/config.json", &n);
    int      accepted = 0;
    for (size_t cut = 0; bytes && cut < n; cut++) {
        ph_json_doc doc;
        uint8_t    *copy = malloc(cut ? cut : 1);
        if (!copy) break;
        memcpy(copy, bytes, cut);
        accepted += !ph_json_parse(&doc, copy, cut, "t.json", NULL) && bytes[cut] != '\n';
        ph_json_close(&doc);
        free(copy);
    }
    CHECK(accepted == 0);
    for (size_t bit = 0; bytes && bit < 8 * n; bit++) {
        ph_json_doc doc;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ph_rc rc = ph_json_parse(&doc, bytes, n, "t.json", NULL);
        CHECK((rc == PH_OK) == (doc.root != NULL));
        ph_json_close(&doc);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(bytes);
}
