/* memory_peak_test.c - the phase of each kind's peak, and pictures that hold the numbers. */
#include "measure/memory_peak.h"

#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

typedef struct text {
    char   at[32 << 10];
    size_t n;
} text;

static void take(void *arg, const char *bytes, size_t n) {
    text *t = arg;
    CHECK(n < sizeof t->at - t->n);
    if (n >= sizeof t->at - t->n) return;
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    t->at[t->n] = 0;
}

static size_t count(const char *in, const char *what) {
    size_t n = 0;
    for (const char *at = in; (at = strstr(at, what)); at++) n++;
    return n;
}

/* Numbers of an SVG have a point, whatever the locale. */
static int has_comma(const char *in) {
    for (const char *at = in; (at = strchr(at, ',')); at++)
        if (at > in && at[-1] >= '0' && at[-1] <= '9' && at[1] >= '0' && at[1] <= '9') return 1;
    return 0;
}

static ph_plan make(void) {
    ph_plan p = {.peak_phase = PH_PHASE_LOAD};
    p.phase[PH_PHASE_LOAD] = (ph_memory){.weights = 1000, .base = 500};
    p.phase[PH_PHASE_SEE] = (ph_memory){.input = 70000000, .activations = 5, .weights = 3000, .engine = 9};
    p.phase[PH_PHASE_PREFILL] =
        (ph_memory){.input = 6, .activations = 50, .weights = 3000, .pools = 1, .kv = 8};
    p.phase[PH_PHASE_STEP] = (ph_memory){.activations = 49, .weights = 2999, .engine = 9, .pools = 2};
    ph_plan_finish(&p);
    return p;
}

void test_memory_peaks(void) {
    static const struct {
        const char *kind;
        size_t      bytes;
        ph_phase    phase;
    } want[] = {{"input", 70000000, PH_PHASE_SEE}, {"activations", 50, PH_PHASE_PREFILL},
                {"weights", 3000, PH_PHASE_SEE}, /* the first of equals */
                {"engine", 9, PH_PHASE_SEE},       {"reserve", 0, PH_PHASE_LOAD},
                {"pools", 2, PH_PHASE_STEP}};
    const ph_plan  p = make();
    ph_memory_peak got[PH_N_MEMORY_PEAKS];
    CHECK(PH_N_MEMORY_PEAKS == sizeof want / sizeof *want);
    ph_memory_peaks(&p, got);
    for (int i = 0; i < PH_N_MEMORY_PEAKS; i++)
        CHECK_SAY(!strcmp(got[i].kind, want[i].kind) && got[i].bytes == want[i].bytes &&
                      got[i].phase == want[i].phase,
                  "%s: %zu in %s", got[i].kind, got[i].bytes, ph_phase_name[got[i].phase]);
    ph_memory_peak beside[PH_N_MEMORY_BESIDE];
    ph_memory_beside(&p, beside);
    CHECK(!strcmp(beside[0].kind, "kv") && beside[0].bytes == 8 && beside[0].phase == PH_PHASE_PREFILL);
    CHECK(!strcmp(beside[1].kind, "tokenizer") && !beside[1].bytes);
    CHECK(!strcmp(beside[2].kind, "base") && beside[2].bytes == 500 && beside[2].phase == PH_PHASE_LOAD);
    CHECK(!strcmp(beside[3].kind, "total") && beside[3].bytes == p.peak.total &&
          beside[3].phase == PH_PHASE_SEE);
}

void test_memory_pictures(void) {
    static text   dot, svg;
    const ph_plan p = make();
    ph_err        e = {0};
    ph_memory_dot(&p, take, &dot);
    ph_memory_svg(&p, take, &svg);
    CHECK(count(dot.at, "<B>") == 5); /* each kind that there is any of, once */
    CHECK(strstr(dot.at, "<B>70.00 MB</B>") && count(dot.at, "BORDER=\"3\"") == 1 &&
          count(dot.at, " -> ") == 3);
    CHECK(strstr(svg.at, "input: at most 70.00 MB, in see (pictures") && count(svg.at, "font-weight") == 1);
    CHECK(count(svg.at, "<rect") == 1 + 15 + 9); /* the ground, what is not nothing, the legend */
    CHECK(strstr(svg.at, "</svg>") && !has_comma(svg.at) && !has_comma(dot.at));
    CHECK(ph_memory_draw(&p, "memory.png", &e) == PH_EUSAGE && strstr(e.msg, "'memory.png'"));
    CHECK(ph_memory_draw(&p, "/dev/null/memory.svg", &e) != PH_OK);
}
