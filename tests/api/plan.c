/* plan.c - the memory plan through the header is the one that `pinhole inspect` prints.
 *
 * `base` differs: it is the process as it was, and this is another process.  Weights that are read while
 * compiling are weighed by the kernel's count of pages, which is off by a few from one process to the next.
 */
#include "api_check.h"

static char printed[1 << 16];

/* inspect's JSON: the command beside the build, as the test run names it. */
static void inspect(const char *options) {
    const char *build = getenv("BUILD");
    char        command[1024];
    snprintf(command, sizeof command, "%s/pinhole inspect " MODEL " --json %s", build ? build : "build",
             options);
    FILE *f = popen(command, "r");
    if (!f) exit(1);
    printed[fread(printed, 1, sizeof printed - 1, f)] = 0;
    if (pclose(f)) {
        printf("%s: failed\n", command);
        exit(1);
    }
}

/* The number behind "key": in the part of the text that begins with `from`. */
static uint64_t number(const char *from, const char *key) {
    char        quoted[64];
    const char *at = strstr(printed, from);
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = at ? strstr(at, quoted) : NULL;
    if (!at) {
        printf("inspect prints no %s\n", key);
        exit(1);
    }
    return strtoull(at + strlen(quoted), NULL, 10);
}

static uint64_t of_kinds(const pinhole_memory *m) {
    return m->input + m->activations + m->weights + m->engine + m->reserve + m->pools + m->kv + m->tokenizer +
           m->base;
}

static int near(uint64_t a, uint64_t b) {
    return (a > b ? a - b : b - a) <= 16 * 4096;
}

static int same_memory(const pinhole_memory *a, const pinhole_memory *b) {
    return a->input == b->input && a->activations == b->activations && near(a->weights, b->weights) &&
           a->engine == b->engine && a->reserve == b->reserve && a->pools == b->pools && a->kv == b->kv &&
           a->tokenizer == b->tokenizer && near(a->base, b->base) && near(a->total, b->total);
}

static void compare(pinhole_model *m, const pinhole_session_options *o, const char *options) {
    pinhole_plan  plan = {.size = sizeof plan}, opened = {.size = sizeof opened};
    pinhole_error error;
    inspect(options);
    MUST(pinhole_plan_memory(m, o, &plan, &error));
    const pinhole_memory *p = &plan.peak;
    CHECK(p->input == number("\"memory\"", "input") && p->input > 0);
    CHECK(p->activations == number("\"memory\"", "activations") && p->activations > 0);
    CHECK(near(p->weights, number("\"memory\"", "weights")) && p->weights > 0);
    CHECK(p->engine == number("\"memory\"", "engine") && p->engine > 0);
    CHECK(p->reserve == number("\"memory\"", "reserve"));
    CHECK(p->pools == number("\"memory\"", "pools") && p->pools > 0);
    CHECK(p->kv == number("\"memory\"", "kv") && p->kv > 0);
    CHECK(p->tokenizer == number("\"memory\"", "tokenizer") && p->tokenizer > 0);
    CHECK(near(p->total - p->base, number("\"memory\"", "total") - number("\"memory\"", "base")));
    CHECK(p->total == of_kinds(p) && plan.prefill.total == of_kinds(&plan.prefill));
    CHECK(near(plan.prefill.total - p->base, number("\"phases\"", "prefill") - number("\"memory\"", "base")));
    CHECK(plan.see.total <= p->total && plan.load.total <= p->total && plan.step.total <= p->total);
    CHECK((uint64_t)plan.context == number("\"load\":{\"context\"", "context"));
    CHECK(plan.peak_phase && plan.peak_phase[0] && plan.threads > 0 && plan.chunk > 0);
    /* A session opens with the plan that was asked for. */
    pinhole_session *s;
    MUST(pinhole_session_open(&s, m, o, &error));
    MUST(pinhole_session_plan(s, &opened, &error));
    CHECK(same_memory(&opened.peak, &plan.peak) && opened.context == plan.context);
    CHECK(pinhole_session_isa(s)[0]);
    pinhole_session_close(s);
}

/* A budget of image tokens is kept, or refused with what is permitted: 64 is all that this model makes. */
static void budget(pinhole_model *m) {
    pinhole_session_options o = {
        .size = sizeof o, .threads = 1, .image_min_tokens = 1, .image_max_tokens = 64};
    pinhole_plan     plan = {.size = sizeof plan};
    pinhole_session *s;
    pinhole_error    error;
    MUST(pinhole_plan_memory(m, &o, &plan, &error));
    o.image_max_tokens = 63;
    CHECK(pinhole_plan_memory(m, &o, &plan, &error) == PINHOLE_EUSAGE &&
          strstr(error.message, "permitted are 64"));
    CHECK(pinhole_session_open(&s, m, &o, &error) == PINHOLE_EUSAGE && !s);
    o.image_max_tokens = -1;
    CHECK(pinhole_plan_memory(m, &o, &plan, &error) == PINHOLE_EUSAGE &&
          strstr(error.message, "image_max_tokens"));
}

int main(void) {
    pinhole_model          *m;
    pinhole_error           error;
    pinhole_session_options threads = {.size = sizeof threads, .threads = 1}, small = {.size = sizeof small,
                                                                                       .threads = 2,
                                                                                       .context = 200,
                                                                                       .chunk = 64,
                                                                                       .conversations = 3,
                                                                                       .kv = PINHOLE_KV_F16,
                                                                                       .images = 1,
                                                                                       .image_width = 320,
                                                                                       .image_height = 200};
    MUST(pinhole_model_open(&m, MODEL, NULL, &error));
    compare(m, NULL, "");
    compare(m, &threads, "-t 1");
    compare(m, &small, "-t 2 -c 200 --chunk 64 --sequences 3 --kv f16 --images 1 --image-size 320x200");
    small.kv = PINHOLE_KV_Q4_1;
    compare(m, &small, "-t 2 -c 200 --chunk 64 --sequences 3 --kv q4_1 --images 1 --image-size 320x200");
    budget(m);
    pinhole_model_close(m);
    const pinhole_model_options held = {.size = sizeof held, .no_mmap = 1};
    MUST(pinhole_model_open(&m, MODEL, &held, &error));
    compare(m, NULL, "--no-mmap");
    pinhole_model_close(m);
    return sum();
}
