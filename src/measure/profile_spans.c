/* profile_spans.c - one question on the parts as they are routed, and when what of it happened: as a Chrome
 * trace, which about:tracing and Perfetto show.
 */
#include "measure/profile_impl.h"

#include "formats/produce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER = 8 /* tokens: enough to see steps beside each other */ };

/* ---- the question ---- */

static ph_rc ask(ph_profiling *p, ph_session *s, ph_err *err) {
    static const char     words[] = "What is in the picture?";
    ph_chat_part          parts[2] = {{0}};
    size_t                n = p->b.model->vision ? 1 : 0;
    const ph_chat_message message = {.role = "user", .parts = parts, .n_parts = n + 1};
    const ph_question     q = {.messages = &message,
                               .n_messages = 1,
                               .pictures = &p->b.picture,
                               .n_pictures = n,
                               .answer_max = ANSWER,
                               .ignore_stop = 1};
    ph_answer             a;
    ph_turn              *t;
    parts[n] = (ph_chat_part){.text = words, .n = sizeof words - 1};
    PH_TRY(ph_turn_open(&t, s, err));
    ph_rc rc = ph_ask(t, &q, &a, err);
    ph_turn_close(t);
    return rc;
}

static const char *engine_of(const ph_profiling *p, const char *part) {
    const ph_route *r = &p->out->route;
    for (size_t i = 0; i < r->n_parts; i++)
        if (!strcmp(r->part[i].name, part)) return r->engine[r->part[i].engine].name;
    return NULL;
}

static ph_rc record(ph_profiling *p, ph_session *s, ph_err *err) {
    static const char *const parts[] = {"vision", "bridge", "language", "cross"};
    PH_TRY(ask(p, s, err));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (ph_session_engine(s, parts[i])) PH_TRY(ph_session_profile(s, parts[i], err));
    p->out->span = calloc(PH_PROFILE_SPANS, sizeof *p->out->span);
    if (!p->out->span) return PH_FAIL(err, PH_ENOMEM, "a timeline of %d spans", PH_PROFILE_SPANS);
    p->out->n_spans = ph_trace_spans(ph_session_trace(s), p->out->span, PH_PROFILE_SPANS);
    return PH_OK;
}

ph_rc ph_profile_spans(ph_profiling *p, ph_err *err) {
    ph_session_options o = *p->how->session;
    ph_bench_say(&p->b, "a timeline");
    o.sequences = 1;
    o.image_width = p->bench.image_width;
    o.image_height = p->bench.image_height;
    o.engine_vision = engine_of(p, "vision");
    o.engine_bridge = engine_of(p, "bridge");
    o.engine_language = engine_of(p, "language");
    o.costs = NULL;
    o.is_profiled = 1;
    o.trace_spans = PH_PROFILE_SPANS;
    PH_TRY(ph_session_open(&p->b.session[0], p->b.model, &o, err));
    return record(p, p->b.session[0], err); /* the caller closes it */
}

/* ---- the file ---- */

/* Names are ours, or those of an engine's operators: nothing of them ends a text of JSON. */
static void name_of(const ph_span *s, char out[64]) {
    size_t i = 0;
    for (; s->name[i] && i < 63; i++) {
        unsigned char c = (unsigned char)s->name[i];
        out[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '_' : (char)c;
    }
    out[i] = 0;
}

/* Stages enclose what engines did: a row each, whatever thread told of it. */
static int event(FILE *to, const ph_span *s, uint64_t first, int is_last) {
    int  stage = ph_bench_is_stage(s->name);
    char name[64];
    name_of(s, name);
    /* Microseconds; from whole numbers, so that the point is one wherever this runs. */
    uint64_t begin = s->begin_ns - first, took = s->end_ns - s->begin_ns;
    return fprintf(to,
                   "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%llu.%03u,"
                   "\"dur\":%llu.%03u,"
                   "\"args\":{\"n\":%llu,\"thread\":%d}}%s\n",
                   name, stage ? "stage" : "step", stage ? 1 : 2, (unsigned long long)(begin / 1000),
                   (unsigned)(begin % 1000), (unsigned long long)(took / 1000), (unsigned)(took % 1000),
                   (unsigned long long)s->arg, s->thread, is_last ? "" : ",") < 0;
}

static const char head[] =
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"pinhole\"}},\n"
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"stages\"}},\n"
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"engines\"}}";

ph_rc ph_profile_write_trace(const ph_span *span, size_t n, const char *path, ph_err *err) {
    ph_part_file f;
    uint64_t     first = UINT64_MAX;
    PH_TRY(ph_part_open_through(&f, path, err));
    for (size_t i = 0; i < n; i++)
        if (span[i].begin_ns < first) first = span[i].begin_ns;
    int bad = fputs(head, f.to) < 0 || fputs(n ? ",\n" : "\n", f.to) < 0;
    for (size_t i = 0; i < n && !bad; i++) bad = event(f.to, &span[i], first, i + 1 == n);
    bad |= fputs("]}\n", f.to) < 0;
    return ph_part_close(
        &f, bad ? PH_FAIL(err, PH_EIO, "%s cannot be written: %s", path, strerror(errno)) : PH_OK, err);
}
