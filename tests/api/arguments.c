/* arguments.c - wrong arguments: each is an error with a message, none is a crash. */
#include "api_check.h"

/* The call gives EUSAGE, and its message holds the word. */
#define REFUSED(call, word)                                                                                  \
    do {                                                                                                     \
        memset(&error, 0x5a, sizeof error);                                                                  \
        CHECK((call) == PINHOLE_EUSAGE && error.code == PINHOLE_EUSAGE && error.exit_code == 2);             \
        CHECK(strstr(error.message, word) != NULL);                                                          \
    } while (0)

static pinhole_error error;

static int nothing(void *arg, const char *bytes, size_t n) {
    return (void)arg, (void)bytes, (void)n, 0;
}

static void models(pinhole_model *m) {
    pinhole_model        *none = m;
    pinhole_model_options unsized = {0}, wild = {.size = (size_t)-5};
    pinhole_model_facts   facts = {.size = sizeof facts};
    REFUSED(pinhole_model_open(NULL, MODEL, NULL, &error), "model is NULL");
    REFUSED(pinhole_model_open(&none, NULL, NULL, &error), "path is NULL");
    CHECK(!none);
    REFUSED(pinhole_model_open(&none, MODEL, &unsized, &error), "sizeof(pinhole_model_options)");
    REFUSED(pinhole_model_open(&none, MODEL, &wild, &error), "sizeof(pinhole_model_options)");
    CHECK(pinhole_model_open(&none, "no/such/model", NULL, &error) == PINHOLE_EPATH && !none);
    CHECK(error.exit_code == 3 && strstr(error.message, "no/such/model"));
    CHECK(pinhole_model_open(&none, PICTURE, NULL, NULL) != PINHOLE_OK && !none); /* no error is wanted */
    pinhole_model_options torn = {.size = sizeof torn, .chat_template = "{% if %}"};
    CHECK(pinhole_model_open(&none, MODEL, &torn, &error) == PINHOLE_ETEMPLATE && !none);
    pinhole_model_options deep = {.size = sizeof deep, .inject = 1, .inject_layer = 4};
    REFUSED(pinhole_model_open(&none, MODEL, &deep, &error), "layers 0 to 3");
    deep.inject_layer = 3, deep.inject_alpha = 1e38;
    REFUSED(pinhole_model_open(&none, MODEL, &deep, &error), "alpha");
    REFUSED(pinhole_model_describe(NULL, &facts, &error), "model is NULL");
    REFUSED(pinhole_model_describe(m, NULL, &error), "facts is NULL");
    REFUSED(pinhole_model_graph(NULL, "vision", nothing, NULL, &error), "model is NULL");
    REFUSED(pinhole_model_graph(m, NULL, nothing, NULL, &error), "name is NULL");
    REFUSED(pinhole_model_graph(m, "vision", NULL, NULL, &error), "sink is NULL");
    pinhole_model_close(NULL);
}

static void refuse_option(pinhole_model *m, const pinhole_session_options *o, const char *word) {
    pinhole_session *s = (pinhole_session *)m;
    pinhole_plan     plan = {.size = sizeof plan};
    REFUSED(pinhole_session_open(&s, m, o, &error), word);
    CHECK(!s);
    REFUSED(pinhole_plan_memory(m, o, &plan, &error), word);
}

static void sessions(pinhole_model *m) {
    pinhole_session_options o = {.size = sizeof o};
    pinhole_session        *s;
    pinhole_plan            unsized = {0}, plan = {.size = sizeof plan};
#define WITH(...) (&(pinhole_session_options){.size = sizeof o, __VA_ARGS__})
    refuse_option(m, WITH(.threads = -1), "threads is -1");
    refuse_option(m, WITH(.threads = 100000), "100000 threads");
    refuse_option(m, WITH(.context = -7), "context is -7");
    refuse_option(m, WITH(.context = 1 << 30), "a context of");
    refuse_option(m, WITH(.conversations = 100000), "100000 sequences");
    refuse_option(m, WITH(.images = 100000), "100000 images");
    refuse_option(m, WITH(.kv = 9), "kv is 9");
    refuse_option(m, WITH(.alpha = 9), "alpha is 9");
    refuse_option(m, WITH(.engine_language = "nonesuch"), "no engine 'nonesuch'");
    refuse_option(m, &(pinhole_session_options){0}, "sizeof(pinhole_session_options)");
    REFUSED(pinhole_session_open(NULL, m, NULL, &error), "session is NULL");
    REFUSED(pinhole_session_open(&s, NULL, NULL, &error), "model is NULL");
    REFUSED(pinhole_plan_memory(NULL, NULL, &plan, &error), "model is NULL");
    REFUSED(pinhole_plan_memory(m, NULL, NULL, &error), "plan is NULL");
    REFUSED(pinhole_plan_memory(m, NULL, &unsized, &error), "sizeof(pinhole_plan)");
    REFUSED(pinhole_session_plan(NULL, &plan, &error), "session is NULL");
    CHECK(!strcmp(pinhole_session_isa(NULL), ""));
    pinhole_session_close(NULL);
}

/* Programs older and newer than the library. */
static void versions(pinhole_model *m) {
    struct {
        pinhole_session_options known;
        char                    more[32];
    } newer = {.known = {.size = sizeof newer, .threads = 1}};
    struct {
        size_t size;
        int    context;
        char   guard[16];
    } older = {.size = offsetof(pinhole_plan, conversations), .guard = "untouched"};
    pinhole_plan plan = {.size = sizeof plan};
    MUST(pinhole_plan_memory(m, &newer.known, &plan, &error));
    CHECK(plan.threads == 1);
    newer.more[3] = 1;
    REFUSED(pinhole_plan_memory(m, &newer.known, &plan, &error), "byte");
    MUST(pinhole_plan_memory(m, NULL, (pinhole_plan *)(void *)&older, &error));
    CHECK(older.context == plan.context && !strcmp(older.guard, "untouched"));
    CHECK(older.size == offsetof(pinhole_plan, conversations));
}

static void conversations(pinhole_session *s) {
    const unsigned char   byte = 0;
    const char *const     hole[] = {NULL};
    pinhole_conversation *c, *second;
    const pinhole_answer *a;
    pinhole_asking        unsized = {0}, stops = {.size = sizeof stops, .n_stop = 1};
    pinhole_part          odd = {7, &byte, 1, NULL}, null = {PINHOLE_TEXT, NULL, 4, NULL};
    pinhole_part          endless = {PINHOLE_PICTURE, &byte, PINHOLE_WHOLE, NULL};
    pinhole_part          text = {PINHOLE_TEXT, "hello", PINHOLE_WHOLE, NULL};
    pinhole_part          empty = {PINHOLE_PICTURE, NULL, 0, NULL};
    REFUSED(pinhole_conversation_open(NULL, s, &error), "conversation is NULL");
    REFUSED(pinhole_conversation_open(&c, NULL, &error), "session is NULL");
    MUST(pinhole_conversation_open(&c, s, &error));
    CHECK(pinhole_conversation_open(&second, s, &error) == PINHOLE_ELIMIT && !second);
    REFUSED(pinhole_conversation_add(NULL, "user", &text, 1, &error), "conversation is NULL");
    REFUSED(pinhole_conversation_add(c, NULL, &text, 1, &error), "role is NULL");
    REFUSED(pinhole_conversation_add(c, "user", NULL, 1, &error), "parts is NULL");
    REFUSED(pinhole_conversation_add(c, "user", &odd, 1, &error), "kind 7");
    REFUSED(pinhole_conversation_add(c, "user", &null, 1, &error), "NULL");
    REFUSED(pinhole_conversation_add(c, "user", &endless, 1, &error), "PINHOLE_WHOLE");
    REFUSED(pinhole_conversation_reset(NULL, &error), "conversation is NULL");
    REFUSED(pinhole_ask(NULL, &text, 1, NULL, &a, &error), "conversation is NULL");
    CHECK(!a);
    REFUSED(pinhole_ask(c, NULL, 1, NULL, &a, &error), "parts is NULL");
    REFUSED(pinhole_ask(c, &text, 1, &unsized, &a, &error), "sizeof(pinhole_asking)");
    REFUSED(pinhole_ask(c, &text, 1, &stops, &a, &error), "stop words");
    stops.stop = hole;
    REFUSED(pinhole_ask(c, &text, 1, &stops, &a, &error), "stop word 0");
    REFUSED(pinhole_complete(c, NULL, 3, NULL, 0, NULL, &a, &error), "prompt is NULL");
    REFUSED(pinhole_complete(c, "a\0b", 3, NULL, 0, NULL, &a, &error), "zero byte");
    REFUSED(pinhole_complete(c, "a", 1, &text, 1, NULL, &a, &error), "a picture is wanted");
    CHECK(pinhole_ask(c, &empty, 1, NULL, NULL, &error) == PINHOLE_EFORMAT); /* a file of no bytes */
    MUST(pinhole_ask(c, &text, 1, NULL, NULL, NULL));                        /* neither is wanted */
    pinhole_cancel(NULL);
    pinhole_cancel_clear(NULL);
    pinhole_conversation_close(NULL);
    pinhole_conversation_close(c);
}

static void texts_and_pictures(const pinhole_model *m) {
    int32_t        id;
    size_t         n;
    char           text[4];
    pinhole_tiles *t;
    REFUSED(pinhole_tokenize(NULL, "a", 1, 0, &id, 1, &n, &error), "model is NULL");
    REFUSED(pinhole_tokenize(m, NULL, 1, 0, &id, 1, &n, &error), "text is NULL");
    REFUSED(pinhole_tokenize(m, "a", 1, 0, NULL, 1, &n, &error), "ids is NULL");
    REFUSED(pinhole_tokenize(m, "a", 1, 0, &id, 1, NULL, &error), "n_ids is NULL");
    REFUSED(pinhole_tokenize(m, "a", 1, 64, &id, 1, &n, &error), "unknown flags");
    REFUSED(pinhole_detokenize(NULL, &id, 1, 0, text, 4, &n, &error), "model is NULL");
    REFUSED(pinhole_detokenize(m, NULL, 1, 0, text, 4, &n, &error), "ids is NULL");
    REFUSED(pinhole_detokenize(m, &id, 0, 0, NULL, 4, &n, &error), "text is NULL");
    REFUSED(pinhole_prepare(NULL, "", 0, NULL, &t, &error), "model is NULL");
    REFUSED(pinhole_prepare(m, NULL, 9, NULL, &t, &error), "bytes is NULL");
    REFUSED(pinhole_prepare(m, "", 0, NULL, NULL, &error), "tiles is NULL");
    REFUSED(pinhole_measure(m, NULL, 9, NULL, &t, &error), "bytes is NULL");
    REFUSED(pinhole_measure(m, "x", 1, &(pinhole_picture_options){0}, &t, &error), "sizeof");
    CHECK(pinhole_prepare(m, NULL, 0, NULL, &t, &error) == PINHOLE_EFORMAT && !t);
    pinhole_tiles_close(NULL);
    CHECK(!strcmp(pinhole_code_name(PINHOLE_ECONTEXT), "ECONTEXT") && !strcmp(pinhole_code_name(-999), "?"));
    CHECK(pinhole_code_text(PINHOLE_EPATH)[0] && !strcmp(pinhole_stop_name(99), "?"));
}

int main(void) {
    pinhole_model   *m;
    pinhole_session *s;
    MUST(pinhole_model_open(&m, MODEL, NULL, &error));
    MUST(pinhole_session_open(&s, m, NULL, &error));
    models(m);
    sessions(m);
    versions(m);
    conversations(s);
    texts_and_pictures(m);
    pinhole_model_close(m);
    pinhole_session_close(s);
    return sum();
}
