/* many.c - which way, by measuring both; see many.h. */
#include "sched/many.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdatomic.h>
#include <string.h>

const char *const ph_overlap_name[] = {"serial", "double", "deep", "auto"};

int ph_overlap_find(const char *name) {
    for (int i = 0; i <= PH_OVERLAP_AUTO; i++)
        if (!strcmp(name, ph_overlap_name[i])) return i;
    return -1;
}

int ph_many_see_threads(int n, double picture_ms, double answer_ms) {
    double sum = picture_ms + answer_ms;
    int    see = sum > 0 ? (int)((double)n * picture_ms / sum + 0.5) : n / 2;
    if (see >= n) see = n - 1;
    return see < 1 ? 1 : see;
}

ph_sides ph_many_sides(const ph_cut *cut) {
    ph_sides s = {0, 0};
    for (size_t i = 1; i < cut->n; i++) {
        s.ahead |= cut->begin[i] == 1;
        s.beside |= cut->begin[i] == 2;
    }
    return s;
}

ph_sides ph_many_choose(const ph_cut_stage group[PH_MANY_GROUPS], double bytes_a_second, size_t most,
                        ph_cut *cut) {
    ph_cut_stages(cut, group, PH_MANY_GROUPS, bytes_a_second, most);
    return ph_many_sides(cut);
}

/* What questions took and what that is the price of. */
typedef struct price {
    double decode_ms, picture_ms, prefill_ms, say_ms; /* picture: with decode */
    double visual, rows, ids;                         /* tokens that were seen, prefilled, said */
    double wall_ms;
    size_t n;
} price;

/* One session's run. */
typedef struct leg {
    const ph_pipeline_calls *calls;
    ph_many_report          *report;
    size_t                   first, most; /* questions from `first` on, at most so many; 0: all */
    price                    tried;       /* of those behind the warm-up */
    size_t                   n_done, n_answered, n_seen;
    double                   picture_bytes; /* of files, pixels and tiles */
    uint64_t                 last_ns;       /* when the newest was done */
    const price             *serial;        /* of a double leg that is tried: what it is held to; or NULL */
    atomic_int               must_end;
    int is_open; /* a session, and a pipeline over it: from here on it asks for questions */
    int is_over; /* next() had no more, or done() ended it */
} leg;

static double sum_ms(const ph_answer *a, ph_stage from, ph_stage to) {
    double ms = 0;
    for (int i = from; i <= (int)to; i++) ms += a->stage_ms[i];
    return ms;
}

static double say_ms(const ph_answer *a) {
    return a->stage_ms[PH_STAGE_sample] + a->stage_ms[PH_STAGE_step] + a->stage_ms[PH_STAGE_speak];
}

static void add(price *p, const ph_answer *a) {
    int was_seen = a->stage_ms[PH_STAGE_bridge] > 0;
    p->decode_ms += sum_ms(a, PH_STAGE_decode, PH_STAGE_prepare);
    p->picture_ms += sum_ms(a, PH_STAGE_decode, PH_STAGE_bridge);
    p->visual += was_seen ? a->image_tokens : 0;
    p->prefill_ms += sum_ms(a, PH_STAGE_splice, PH_STAGE_prefill);
    p->rows += a->prompt_tokens - a->cached_tokens;
    p->say_ms += say_ms(a);
    p->ids += (double)a->n_ids;
    p->n++;
}

/* What `work` would have taken at the price of `at`. */
static double reckon(const price *at, const price *work) {
    double ms = 0;
    if (at->visual > 0) ms += at->picture_ms / at->visual * work->visual;
    if (at->rows > 0) ms += at->prefill_ms / at->rows * work->rows;
    if (at->ids > 0) ms += at->say_ms / at->ids * work->ids;
    return ms;
}

static int next(void *arg, size_t index, const ph_question **q, ph_err *err) {
    leg *l = arg;
    if (atomic_load(&l->must_end) || (l->most && index >= l->most)) return 0;
    int got = l->calls->next(l->calls->arg, l->first + index, q, err);
    if (!got) atomic_fetch_or(&l->must_end, 2);
    return got;
}

/* A tried double leg ends when it is slower than serial would have been; else it goes on. */
static void judge(leg *l) {
    if (!l->serial || l->tried.n != PH_MANY_TRIED) return;
    l->report->serial_ms = reckon(l->serial, &l->tried) / PH_MANY_TRIED;
    l->report->double_ms = l->tried.wall_ms / PH_MANY_TRIED;
    int is_slower = l->report->double_ms >= l->report->serial_ms;
    l->report->why = is_slower ? "double was not faster than serial with all threads"
                               : "double was faster than serial with all threads";
    if (is_slower) atomic_fetch_or(&l->must_end, 1);
}

static int done(void *arg, size_t index, ph_rc rc, const ph_answer *a, const ph_err *err) {
    leg            *l = arg;
    ph_many_report *r = l->report;
    uint64_t        now = ph_clock_ns();
    if (a && l->n_done >= PH_MANY_WARM && l->tried.n < PH_MANY_TRIED) {
        add(&l->tried, a);
        l->tried.wall_ms += (double)(now - l->last_ns) / 1e6;
        judge(l);
    }
    l->n_done++;
    l->last_ns = now;
    if (a) {
        l->n_answered++;
        l->n_seen += a->stage_ms[PH_STAGE_bridge] > 0;
        l->picture_bytes += (double)a->picture_bytes;
        r->picture_ms += sum_ms(a, PH_STAGE_decode, PH_STAGE_bridge);
        r->answer_ms += sum_ms(a, PH_STAGE_splice, PH_STAGE_speak);
        if (a->predicted.total > r->predicted.total) r->predicted = a->predicted;
        r->measured = a->measured_peak;
        r->measured_anon = a->measured_anon;
    }
    int must_end = l->calls->done(l->calls->arg, l->first + index, rc, a, err);
    l->is_over |= must_end;
    return must_end;
}

/* ---- legs ---- */

static ph_rc run_leg(leg *l, ph_session *s, ph_err *err) {
    const ph_pipeline_calls calls = {.next = next, .done = done, .arg = l};
    ph_pipeline            *p;
    PH_TRY(ph_pipeline_open(&p, s, err));
    l->is_open = 1;
    l->last_ns = ph_clock_ns();
    uint64_t begin = l->last_ns;
    ph_rc    rc = ph_pipeline_run(p, &calls, err);
    l->report->wall_ms += (double)(ph_clock_ns() - begin) / 1e6;
    ph_pipeline_close(p);
    l->is_over |= atomic_load(&l->must_end) >> 1;
    return rc;
}

/* Seconds of the stages [from, to] a question. */
static double seconds(const ph_trace *t, ph_stage from, ph_stage to, double n) {
    double ns = 0;
    for (int i = from; i <= (int)to; i++) ns += (double)ph_trace_total_ns(t, ph_stage_name[i]);
    return ns / 1e9 / n;
}

/* Bytes and times of the groups, as the serial leg went: of pictures what was read and made, of weights as
 * often as they were read. */
static ph_rc weigh(const leg *l, ph_session *s, ph_cut_stage group[PH_MANY_GROUPS], ph_err *err) {
    const ph_trace *t = ph_session_trace(s);
    size_t          see, say;
    PH_TRY(ph_session_weights(s, 1, &see, err));
    PH_TRY(ph_session_weights(s, 0, &say, err));
    double runs = (double)(ph_trace_count(t, "prefill") + ph_trace_count(t, "step"));
    double n = l->n_done ? (double)l->n_done : 1, answered = l->n_answered ? (double)l->n_answered : 1;
    group[0] = (ph_cut_stage){l->picture_bytes / answered, seconds(t, PH_STAGE_decode, PH_STAGE_prepare, n)};
    group[1] = (ph_cut_stage){(double)see * (double)ph_trace_count(t, "bridge") / n,
                              seconds(t, PH_STAGE_see, PH_STAGE_bridge, n)};
    group[2] = (ph_cut_stage){(double)say * runs / n, seconds(t, PH_STAGE_splice, PH_STAGE_speak, n)};
    return PH_OK;
}

static void count(ph_many_report *r, ph_sides sides, size_t n) {
    size_t *const by[] = {&r->n_serial, &r->n_double, &r->n_deep};
    *by[sides.ahead + sides.beside] += n;
    r->sides = sides;
}

/* A session with these sides; group: weighed behind it, or NULL. */
static ph_rc open_and_run(const ph_many *m, ph_sides sides, int see_threads, leg *l, ph_cut_stage *group,
                          ph_err *err) {
    ph_session_options o = m->session;
    ph_session        *s;
    o.beside = sides.beside ? PH_PIPELINE_SLOTS : 0;
    o.ahead = sides.ahead;
    o.see_threads = see_threads;
    PH_TRY(ph_session_open(&s, m->model, &o, err));
    l->report->see_threads = ph_session_threads(s, 1);
    l->report->threads = ph_session_threads(s, 0);
    l->report->n_places = ph_session_places(s, l->report->place);
    ph_rc rc = run_leg(l, s, err);
    if (!rc && group) rc = weigh(l, s, group, err);
    sides = (ph_sides){ph_session_ahead(s), ph_session_beside(s) > 0};
    ph_session_close(s);
    count(l->report, sides, l->n_done);
    return rc;
}

/* Of the threads that work, those that see beside answers. */
static int see_threads_of(const ph_many *m, const price *p, int threads, int is_ahead) {
    double picture_ms = is_ahead ? p->picture_ms - p->decode_ms : p->picture_ms;
    int    most = threads - is_ahead > 1 ? threads - is_ahead - 1 : 1;
    if (m->session.see_threads) return m->session.see_threads < most ? m->session.see_threads : most;
    return ph_many_see_threads(threads - is_ahead, picture_ms, p->prefill_ms + p->say_ms);
}

static const char *not_tried(const leg *serial, const ph_many_report *r) {
    if (!serial->n_seen) return "nothing was seen";
    if (serial->tried.visual <= 0) return "no new picture was seen after the first question";
    if (r->threads < 2) return "one thread has no second side";
    return NULL;
}

static const ph_sides one_side = {0, 0}, two_sides = {0, 1};

/* A way that was only tried, and that there is no room for, is no error; NULL: it is one. */
static const char *no_room(ph_rc rc) {
    static const struct {
        ph_rc       rc;
        const char *why;
    } rows[] = {{PH_EBUDGET, "both sides at once would take more than the memory budget"},
                {PH_ENOMEM, "both sides at once would take more memory than there is"},
                {PH_EMACHINE, "this machine has not what both sides at once would take"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].rc == rc) return rows[i].why;
    return NULL;
}

/* Whatever comes, *rest begins where questions are left. */
static ph_rc try_sides(const ph_many *m, ph_sides sides, int see, leg *tried, leg *rest, ph_err *err) {
    ph_err why = {0};
    tried->first = rest->first;
    ph_rc       rc = open_and_run(m, sides, see, tried, NULL, &why);
    const char *text = rc && !tried->is_open ? no_room(rc) : NULL;
    rest->first += tried->n_done;
    if (text) {
        ph_log_say(m->session.log, PH_LOG_INFO, "more sides than one are not tried: %s", why.msg);
        tried->report->why = text;
        atomic_fetch_or(&tried->must_end, 1);
        return PH_OK;
    }
    if (rc && err) *err = why;
    return rc;
}

/* The serial leg, the double one if it may be tried, and what is left. */
static ph_rc try_both(const ph_many *m, const ph_pipeline_calls *calls, ph_many_report *out, ph_err *err) {
    leg serial = {.calls = calls, .report = out, .most = PH_MANY_WARM + PH_MANY_TRIED};
    leg tried = {.calls = calls, .report = out, .serial = &serial.tried};
    leg rest = {.calls = calls, .report = out};
    PH_TRY(open_and_run(m, one_side, 0, &serial, NULL, err));
    if (serial.is_over) return PH_OK;
    rest.first = serial.n_done;
    out->why = not_tried(&serial, out);
    if (!out->why) {
        PH_TRY(
            try_sides(m, two_sides, see_threads_of(m, &serial.tried, out->threads, 0), &tried, &rest, err));
        if (tried.is_over || !(atomic_load(&tried.must_end) & 1)) return PH_OK;
    }
    return open_and_run(m, one_side, 0, &rest, NULL, err);
}

static const char *why_of(const ph_cut *cut, size_t most) {
    static const char *const fed[] = {"", "", "the memory feeds two sides at once",
                                      "the memory feeds three sides at once"};
    if (cut->n < 2 && most > 1) return "both sides at once would want more than the memory gives";
    return cut->n < 2 ? "no more than one side was asked for" : fed[cut->n];
}

/* The serial leg, which is weighed, and the rest with the sides that the memory feeds. */
static ph_rc by_bandwidth(const ph_many *m, const ph_pipeline_calls *calls, ph_many_report *out,
                          ph_err *err) {
    leg          serial = {.calls = calls, .report = out, .most = PH_MANY_WARM + PH_MANY_TRIED};
    leg          rest = {.calls = calls, .report = out};
    ph_cut_stage group[PH_MANY_GROUPS];
    PH_TRY(open_and_run(m, one_side, 0, &serial, group, err));
    rest.first = serial.n_done;
    if (serial.is_over || rest.first == m->n) {
        out->why = "the first questions, which are weighed, were all";
        return PH_OK;
    }
    size_t   most = m->how == PH_OVERLAP_AUTO ? PH_MANY_GROUPS : (size_t)m->how + 1;
    ph_sides sides = one_side;
    if ((size_t)out->threads < most) most = (size_t)out->threads;
    sides = ph_many_choose(group, m->bytes_a_second, most, &out->cut);
    out->why = not_tried(&serial, out);
    if (out->why)
        sides = one_side;
    else
        out->why = why_of(&out->cut, most);
    if (sides.beside || sides.ahead) {
        leg chosen = {.calls = calls, .report = out};
        int see = sides.beside ? see_threads_of(m, &serial.tried, out->threads, sides.ahead) : 0;
        PH_TRY(try_sides(m, sides, see, &chosen, &rest, err));
        if (chosen.is_over || !(atomic_load(&chosen.must_end) & 1)) return PH_OK;
    }
    return open_and_run(m, one_side, 0, &rest, NULL, err);
}

/* What was chosen, however few questions were left for it. */
static ph_overlap used(ph_sides s) {
    static const ph_overlap by[] = {PH_OVERLAP_SERIAL, PH_OVERLAP_DOUBLE, PH_OVERLAP_DEEP};
    return by[s.ahead + s.beside];
}

ph_rc ph_many_run(const ph_many *m, const ph_pipeline_calls *calls, ph_many_report *out, ph_err *err) {
    leg            all = {.calls = calls, .report = out};
    const ph_sides sides = {m->how == PH_OVERLAP_DEEP,
                            m->how == PH_OVERLAP_DOUBLE || m->how == PH_OVERLAP_DEEP};
    ph_rc          rc;
    *out = (ph_many_report){0};
    PH_TRY(ph_session_check_threads(&m->session, err)); /* auto would come upon it in the middle */
    if (m->bytes_a_second > 0 && m->how != PH_OVERLAP_SERIAL) {
        rc = by_bandwidth(m, calls, out, err);
    } else if (m->how == PH_OVERLAP_AUTO && m->n >= PH_MANY_LEAST) {
        rc = try_both(m, calls, out, err);
    } else if (m->how == PH_OVERLAP_AUTO) {
        out->why = "too few questions to try both ways";
        rc = open_and_run(m, one_side, 0, &all, NULL, err);
    } else {
        rc = open_and_run(m, sides, m->session.see_threads, &all, NULL, err);
    }
    out->used = used(out->sides);
    return rc;
}
