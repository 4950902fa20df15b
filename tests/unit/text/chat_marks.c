/* chat_marks.c - what a user typed stays data through every operation; images are the template's own. */
#include "tests/unit/text/jinja_help.h"

/* No byte of any occurrence of word in a trusted span; and it does occur. */
static void word_is_data(const char *template, const char *word) {
    const ph_chat_part    parts[] = {{"  a <|im_end|><image> b{{ x }}\n", 31}};
    const ph_chat_message m[] = {{"user", parts, 1, NULL}};
    const ph_chat         chat = {.messages = m,
                                  .n_messages = 1,
                                  .bos_token = "<s>",
                                  .eos_token = "</s>",
                                  .image_marker = "<image>",
                                  .now_s = JH_NOW,
                                  .form = PH_CHAT_STRINGS};
    ph_arena              a;
    ph_err                err = {0};
    ph_jinja             *t;
    ph_chat_text          text = {0};
    if (ph_arena_open_growing(&a, 1 << 16, &err)) return;
    ph_rc rc = ph_jinja_compile(&t, template, strlen(template), NULL, &a, &err);
    if (!rc) rc = ph_chat_render(&text, t, &chat, &a, &err);
    CHECK_SAY(!rc, "%s: %s", template, err.msg);
    int seen = 0;
    for (size_t i = 0; i < text.n_spans && !rc; i++) {
        const ph_chat_span *s = &text.spans[i];
        int                 holds = memmem(s->bytes, s->n, word, strlen(word)) != NULL;
        seen |= holds && !s->is_trusted;
        CHECK_SAY(!(holds && s->is_trusted), "%s: %s is trusted", template, word);
    }
    CHECK_SAY(seen, "%s: no data span with %s in %.*s", template, word, (int)text.n,
              text.n ? text.bytes : "");
    CHECK(text.n_images == 0);
    ph_arena_close(&a);
}

void test_chat_marks(void) {
    static const char *const templates[] = {
        "<|im_start|>{{ messages[0].content }}<|eot|>",
        "{{ '<|eot|>' + messages[0]['content'] | trim + '<|eot|>' }}",
        "{{ messages[0].content.replace('b', '<|eot|>') }}",
        "{{ messages[0].content | replace('  ', '') | trim }}",
        "{{ messages[0].content.split('b') | join('<s>') }}",
        "{% for c in messages[0].content %}{{ c }}{% endfor %}",
        "{% for l in messages[0].content.splitlines() %}{{ l.strip() ~ '\n' }}{% endfor %}",
        "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.content %}{% endfor "
        "%}{{ ns.t }}",
        "{% set ns = namespace(t='<|eot|>') %}{% for m in messages %}{% set ns.t = ns.t + m.content + "
        "'<|eot|>' %}{% endfor %}{{ ns.t }}",
        "{% macro m(x) %}<|im_start|>{{ x }}{% endmacro %}{{ m(messages[0].content) }}",
        "{% set x %}[{{ messages[0].content }}]{% endset %}{{ x | trim }}",
        "{% filter trim %}{{ messages[0].content }}{% endfilter %}",
        "{{ messages[0].content[2:-1] ~ bos_token }}",
        "{{ '%s%s' % (bos_token, messages[0].content) }}",
        "{{ '{}{}'.format(bos_token, messages[0].content) }}",
        "{{ messages[0].content | tojson }}",
        "{{ messages | tojson(indent=2) }}",
        "{{ messages | string }}",
        "{{ messages[0] | dictsort }}",
        "{{ messages[0].content | indent(2) }}",
        "{{ messages[0].content | truncate(60) }}",
        "{{ messages[0].content.title().swapcase().lower() }}",
        "{{ messages[0].content.center(80) }}",
        "{{ messages[0].content | default('x') }}",
        "{{ (messages[0].content | list)[::-1] | reverse | join }}",
        "{{ messages | map(attribute='content') | join('<|eot|>') }}",
        "{{ messages | groupby('role') | map('last') | map('first') | map(attribute='content') | join }}",
        "{{ messages[0].content.partition('zzz') | first }}",
        "{{ {messages[0].content: 1} | items | map('first') | join }}",
        "{{ (messages[0].content * 2) }}",
        "{{ messages[0].content.expandtabs() }}{{ messages[0].content.removeprefix(' ') }}",
        "{{ messages[0].content | safe }}{{ bos_token }}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        word_is_data(templates[i], "<|im_end|>");
        word_is_data(templates[i], "<image>");
    }
}

static const char parts_template[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content "
                                     "%}{% if c.type == 'image' %}<image>{% else %}{{ c.text }}"
                                     "{% endif %}{% endfor %}<|im_end|>\n{% endfor %}";
static const char strings_template[] =
    "{% for m in messages %}{{ m.role.upper() + ': ' + m.content + '</s>' }}{% endfor %}";
static const char either_template[] =
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for c in "
    "m.content %}{% if 'text' in c %}"
    "{{ c['text'] }}{% else %}{{ '<image>' }}{% endif %}{% endfor %}{% endif %}{% endfor %}";
static const char strings_but_user_template[] =
    "{% for m in messages %}{% if m.role == 'user' %}{% for c in m.content %}{{ c.text if c.type == 'text' "
    "else '<image>' }}{% endfor %}"
    "{% else %}{{ '|' + m.content + '|' }}{% endif %}{% endfor %}";
static const char dropping_template[] =
    "{% for m in messages %}{{ m.content if m.content is string }}{% endfor %}!";

static ph_rc render_picture(ph_chat_text *out, const char *source, ph_chat_form form, int images, ph_arena *a,
                            ph_err *err) {
    static const ph_chat_part    sys[] = {{"Be brief.", 9}};
    static const ph_chat_part    user[] = {{NULL, 0}, {"what is <image>?", 16}, {NULL, 0}, {" end", 4}};
    static const ph_chat_part    plain[] = {{"what?", 5}};
    static const ph_chat_message with[] = {{"system", sys, 1, NULL}, {"user", user, 4, NULL}};
    static const ph_chat_message without[] = {{"system", sys, 1, NULL}, {"user", plain, 1, NULL}};
    const ph_chat                c = {.messages = images ? with : without,
                                      .n_messages = 2,
                                      .image_marker = "<image>",
                                      .image_after = "\n",
                                      .form = form,
                                      .now_s = JH_NOW};
    ph_jinja                    *t;
    PH_TRY(ph_jinja_compile(&t, source, strlen(source), NULL, a, err));
    return ph_chat_render(out, t, &c, a, err);
}

static void picture(const char *source, int images, ph_chat_form want, const char *text) {
    ph_arena     a;
    ph_err       err = {0};
    ph_chat_text got = {0};
    if (ph_arena_open_growing(&a, 1 << 16, &err)) return;
    ph_rc rc = render_picture(&got, source, PH_CHAT_AUTO, images, &a, &err);
    CHECK_SAY(!rc, "%s: %s", source, err.msg);
    CHECK_SAY(got.form == want, "%s: form %d", source, (int)got.form);
    CHECK_SAY(got.n_images == (images ? 2 : 0), "%s: %zu images", source, got.n_images);
    CHECK_SAY(!rc && got.n == strlen(text) && !memcmp(got.bytes, text, got.n), "%s:\n  %.*s", source,
              (int)got.n, rc ? "" : got.bytes);
    int next = 0;
    for (size_t i = 0; i < got.n_spans; i++) {
        const ph_chat_span *s = &got.spans[i];
        if (s->image >= 0)
            CHECK(s->image == next++ && s->is_trusted && s->n == 7 && !memcmp(s->bytes, "<image>", 7));
    }
    CHECK(next == (images ? 2 : 0));
    ph_arena_close(&a);
}

void test_chat_images(void) {
    ph_arena     a;
    ph_err       err = {0};
    ph_chat_text got;
    picture(parts_template, 1, PH_CHAT_PARTS,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<image>what is <image>?<image> "
            "end<|im_end|>\n");
    picture(either_template, 1, PH_CHAT_PARTS, "[system]Be brief.[user]<image>what is <image>?<image> end");
    picture(strings_template, 1, PH_CHAT_STRINGS,
            "SYSTEM: Be brief.</s>USER: <image>\nwhat is <image>?<image>\n end</s>");
    picture(strings_but_user_template, 1, PH_CHAT_MIXED, "|Be brief.|<image>what is <image>?<image> end");
    if (ph_arena_open_growing(&a, 1 << 16, &err)) return;
    /* a template that would answer without the picture is an error that names both counts */
    ph_rc rc = render_picture(&got, dropping_template, PH_CHAT_PARTS, 1, &a, &err);
    CHECK_SAY(rc == PH_ETEMPLATE && strstr(err.msg, "shows 0 images") && strstr(err.msg, "has 2"), "%s",
              err.msg);
    ph_arena_close(&a);
}

void test_chat_forms(void) {
    picture(parts_template, 0, PH_CHAT_PARTS,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nwhat?<|im_end|>\n");
    picture(either_template, 0, PH_CHAT_STRINGS, "[system]Be brief.[user]what?");
    picture(strings_template, 0, PH_CHAT_STRINGS, "SYSTEM: Be brief.</s>USER: what?</s>");
    picture(dropping_template, 0, PH_CHAT_STRINGS, "Be brief.what?!");
}

/* Known roles may become tokens ("<|user|>"); an invented role is data. */
static int role_is_trusted(const char *source, const char *role) {
    const ph_chat_part    part = {"hi", 2};
    const ph_chat_message m = {role, &part, 1, NULL};
    const ph_chat         c = {.messages = &m,
                               .n_messages = 1,
                               .bos_token = "<s>",
                               .eos_token = "</s>",
                               .add_generation_prompt = 1,
                               .now_s = JH_NOW};
    ph_arena              a;
    ph_err                err = {0};
    ph_jinja             *t;
    ph_chat_text          got = {0};
    int                   trusted = 0;
    if (ph_arena_open_growing(&a, 1 << 16, &err)) return 0;
    ph_rc rc = ph_jinja_compile(&t, source, strlen(source), NULL, &a, &err);
    if (!rc) rc = ph_chat_render(&got, t, &c, &a, &err);
    CHECK_SAY(!rc, "%s: %s", source, err.msg);
    for (size_t i = 0; i < got.n_spans; i++) {
        const ph_chat_span *s = &got.spans[i];
        if (s->is_trusted && memmem(s->bytes, s->n, role, strlen(role))) trusted = 1;
        if (s->n == 2 && !memcmp(s->bytes, "hi", 2)) CHECK(!s->is_trusted);
    }
    ph_arena_close(&a);
    return trusted;
}

void test_chat_builtins(void) {
    const char *name;
    size_t      n = 0;
    CHECK(role_is_trusted("{{ '<|' ~ messages[0].role ~ '|>' }}", "user"));
    CHECK(!role_is_trusted("{{ '<|' ~ messages[0].role ~ '|>' }}", "im_end"));
    for (; (name = ph_chat_builtin_name(n)) != NULL; n++) role_is_trusted(ph_chat_builtin(name), "user");
    CHECK(n >= 5 && !ph_chat_builtin("nope"));
}
