/* tokjson_lists_test.c - model.vocab and model.merges read where they stand, against the parser's reading. */
#include "tests/unit/text/tokenizer_help.h"

#include "text/tokimage.h"
#include "text/tokjson.h"

#include <stdlib.h>
#include <string.h>

static ph_rc open_text(ph_tokenizer **t, const char *json, ph_err *err) {
    ph_tokenizer_files f = {.tokenizer_json = {json, strlen(json)}};
    return ph_tokenizer_open_files(t, &f, err);
}

/* Nothing is taken out of a model whose key is written with an escape. */
static char *hide_model(const char *json) {
    static const char from[] = "\"model\"", to[] = "\"\\u006dodel\"";
    const char       *at = strstr(json, from);
    char             *out = malloc(strlen(json) + sizeof to);
    if (out && at) sprintf(out, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    return out;
}

static const struct {
    const char *json;
    int         vocab, merges; /* is it taken out? */
} same[] = {
    {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}", 1, 1},
    {" {\"x\":[{\"model\":1}], \"model\" : { \"merges\" : [ [\"a\" , \"b\"] ] , \"vocab\" :\n{ \"a\" : 0 , "
     "\"b\":2,\"ab\":1 } } } ",
     1, 1},
    {"{\"model\":{\"vocab\":{\"\\u00e9\":0,\"\\ud83d\\ude42\":1,\"\\u00E9\\uD83D\\uDE42\":2,\"\\\"\\\\\\/"
     "\\b\\f\\n\\r\\t\":3},"
     "\"merges\":[\"\\u00e9 \\ud83d\\ude42\"]}}",
     1, 1},
    {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"#version: 0.2\",\"a b\"]}}", 1, 1},
    {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\",\"c\"]]}}", 1, 0},
    {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[],\"ignore_merges\":true}}", 1, 1},
    {"{\"model\":{\"vocab\":{\"}\":0,\"]\\\"{\":1},\"merges\":[],\"ignore_merges\":true},\"model2\":{"
     "\"vocab\":{\"z\":0}}}",
     1, 1},
    {"{\"a\":{\"model\":{\"vocab\":{\"z\":7}}},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"a\","
     "\"vocab\":{\"a\":0,\"##b\":1}}}",
     1, 0}};

void test_tokjson_lists_same(void) {
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        ph_tokenizer    *t[2] = {NULL, NULL};
        uint8_t         *image[2] = {NULL, NULL};
        size_t           n[2] = {0, 0};
        ph_err           err = {0};
        ph_tokjson_lists l;
        char            *hidden = hide_model(same[i].json);
        CHECK(!ph_tokjson_take(&l, (ph_blob){same[i].json, strlen(same[i].json)}, NULL));
        CHECK_SAY((l.vocab.text.bytes != NULL) == same[i].vocab &&
                      (l.merges.text.bytes != NULL) == same[i].merges,
                  "row %zu: taken out", i);
        ph_tokjson_lists_close(&l);
        CHECK_SAY(!open_text(&t[0], same[i].json, &err), "row %zu: %s", i, err.msg);
        CHECK_SAY(hidden && !open_text(&t[1], hidden, &err), "row %zu: %s", i, err.msg);
        for (int k = 0; k < 2; k++)
            if (t[k]) CHECK(!ph_tokenizer_to_image(t[k], &image[k], &n[k], NULL));
        CHECK_SAY(image[0] && n[0] == n[1] && !memcmp(image[0], image[1], n[0]), "row %zu: the same tables",
                  i);
        for (int k = 0; k < 2; k++) ph_tokenizer_close(t[k]), free(image[k]);
        free(hidden);
    }
}

/* What is not as trainers write it is refused as the parser refuses it, with the place in the file. */
void test_tokjson_lists_refused(void) {
    static const struct {
        const char *json, *says;
    } rows[] = {
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"a\":2},\"merges\":[]}}", "\"a\" is there twice"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"a\":0},\"merges\":[]}}", "1 of its 3 pieces"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"vocab\":{\"a\":0},\"merges\":[]}}", "duplicate object key"},
        {"{\"model\":{\"vocab\":{\"a\":0,\"ab\":1},\n\"merges\":[]}}x",
         "tokenizer.json:2:14: end of file expected"},
        {"{\"model\":{\"vocab\":{\"a\":0,},\"merges\":[]}}", "tokenizer.json:1:26"},
        {"{\"model\":{\"vocab\":{\"a\":01},\"merges\":[]}}", "tokenizer.json:1:24"},
        {"{\"model\":{\"vocab\":{\"a\":0.5},\"merges\":[]}}", "a"},
        {"{\"model\":{\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}", "a"},
        {"{\"model\":{\"vocab\":{\"\\ud83d\":0},\"merges\":[]}}", "tokenizer.json:1:"},
        {"{\"model\":{\"vocab\":{\"\\u0000\":0},\"merges\":[]}}", "NUL byte in object key"},
        {"{\"model\":{\"vocab\":{\"\xC3\":0},\"merges\":[]}}", "unable to decode byte 0xc3"},
        {"{\"model\":{\"vocab\":{\"a\nb\":0},\"merges\":[]}}", "tokenizer.json:1:"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "no pair"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "not in the vocabulary"},
        {"{\"model\":{\"vocab\":{\"a\":0", "tokenizer.json:1:"},
        {"{\"model\":{\"vocab\":{\"a", "tokenizer.json:1:"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ph_tokenizer *t = NULL;
        ph_err        err = {0};
        ph_rc         rc = open_text(&t, rows[i].json, &err);
        CHECK_SAY(rc == PH_EFORMAT && !t && strstr(err.msg, rows[i].says), "row %zu: %d, \"%s\", not \"%s\"",
                  i, (int)rc, err.msg, rows[i].says);
        ph_tokenizer_close(t);
    }
}
