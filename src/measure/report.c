/* report.c - what a case found: figures against tolerances, the worst of them, the first that failed. */
#include "measure/case.h"

#include "base/locale.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const ph_verdict_name[] = {"ok", "FAILED", "skipped"};

int ph_case_begin(ph_report *r, const char *name, ...) {
    char    whole[1024];
    va_list ap;
    va_start(ap, name);
    ph_plain_vprint(r->name, sizeof r->name, name, ap);
    va_end(ap);
    r->verdict = PH_VERDICT_OK;
    r->reason[0] = r->notes[0] = r->worst[0] = 0;
    r->n_figures = 0;
    r->value = r->tolerance = 0;
    r->share = -1;
    snprintf(whole, sizeof whole, "%s/%s", r->folder, r->name);
    int is_wanted = !r->how->filter || strstr(whole, r->how->filter);
    r->left_out += !is_wanted;
    return is_wanted;
}

/* Several reasons stand side by side as long as there is room. */
__attribute__((format(printf, 3, 0))) static void append(char *to, size_t size, const char *fmt, va_list ap) {
    size_t n = strlen(to);
    if (n + 8 > size) return;
    if (n) n += (size_t)snprintf(to + n, size - n, "; ");
    ph_plain_vprint(to + n, size - n, fmt, ap);
}

void ph_case_skip(ph_report *r, const char *why, ...) {
    va_list ap;
    va_start(ap, why);
    if (r->verdict == PH_VERDICT_OK) r->verdict = PH_VERDICT_SKIPPED;
    append(r->reason, sizeof r->reason, why, ap);
    va_end(ap);
}

void ph_case_fail(ph_report *r, const char *why, ...) {
    va_list ap;
    va_start(ap, why);
    r->verdict = PH_VERDICT_FAILED;
    append(r->reason, sizeof r->reason, why, ap);
    va_end(ap);
}

void ph_case_note(ph_report *r, const char *what, ...) {
    va_list ap;
    va_start(ap, what);
    append(r->notes, sizeof r->notes, what, ap);
    va_end(ap);
}

void ph_figure(ph_report *r, double value, double tolerance, const char *what, ...) {
    char    name[sizeof r->worst];
    va_list ap;
    va_start(ap, what);
    ph_plain_vprint(name, sizeof name, what, ap);
    va_end(ap);
    int    is_within = value <= tolerance; /* false for NaN */
    double share = is_within && value <= 0 ? 0 : tolerance > 0 ? value / tolerance : (double)INFINITY;
    if (isnan(share)) share = (double)INFINITY;
    r->n_figures++;
    if (share > r->share) {
        r->share = share;
        r->value = value;
        r->tolerance = tolerance;
        snprintf(r->worst, sizeof r->worst, "%s", name);
    }
    if (!is_within) ph_case_fail(r, "%s: %.3g where at most %.3g is allowed", name, value, tolerance);
}

void ph_case_end(ph_report *r, ph_rc rc, const ph_err *err) {
    if (rc) {
        ph_case_fail(r, "%s", err->msg[0] ? err->msg : ph_rc_text(rc));
        for (int i = 0; i < err->n_notes; i++) ph_case_fail(r, "%s", err->note[i]);
    }
    if (r->verdict == PH_VERDICT_OK && !r->n_figures)
        ph_case_fail(r, "the reference holds nothing that could be compared");
    const ph_verify_row row = {.kind = r->kind->name,
                               .folder = r->folder,
                               .name = r->name,
                               .verdict = r->verdict,
                               .reason = r->reason,
                               .n_figures = r->n_figures,
                               .worst = r->worst,
                               .value = r->value,
                               .tolerance = r->tolerance,
                               .notes = r->notes};
    size_t *const       counts[] = {&r->sum.passed, &r->sum.failed, &r->sum.skipped};
    ++*counts[r->verdict];
    r->sink(r->arg, &row);
}

/* ---- figures that count differences ---- */

void ph_figure_ids(ph_report *r, const int32_t *ours, size_t n, const int32_t *ref, size_t n_ref,
                   const char *what) {
    size_t common = n < n_ref ? n : n_ref, differing = n < n_ref ? n_ref - n : n - n_ref, first = common;
    for (size_t i = common; i-- > 0;)
        if (ours[i] != ref[i]) {
            differing++;
            first = i;
        }
    if (differing && first < common)
        ph_case_fail(r, "%s: at %zu ours is %d, the reference's %d (%zu and %zu ids)", what, first,
                     ours[first], ref[first], n, n_ref);
    else if (differing)
        ph_case_fail(r, "%s: ours are %zu ids, the reference's %zu", what, n, n_ref);
    ph_figure(r, (double)differing, 0, "%s: ids differing", what);
}

static void excerpt(char out[48], const uint8_t *bytes, size_t n, size_t at) {
    size_t from = at > 6 ? at - 6 : 0, k = 0;
    for (size_t i = from; i < n && i < at + 12 && k < 42; i++) {
        if (bytes[i] >= 0x20 && bytes[i] < 0x7f)
            out[k++] = (char)bytes[i];
        else
            k += (size_t)snprintf(out + k, 48 - k, "\\x%02x", bytes[i]);
    }
    out[k < 47 ? k : 47] = 0;
}

void ph_figure_text(ph_report *r, const void *ours, size_t n, const void *ref, size_t n_ref,
                    const char *what) {
    const uint8_t *a = ours, *b = ref;
    size_t         common = n < n_ref ? n : n_ref, first = 0;
    char           ea[48], eb[48];
    while (first < common && a[first] == b[first]) first++;
    int is_same = n == n_ref && first == n;
    if (!is_same) {
        excerpt(ea, a, n, first);
        excerpt(eb, b, n_ref, first);
        ph_case_fail(r, "%s: at byte %zu ours is '%s', the reference's '%s'", what, first, ea, eb);
    }
    ph_figure(r, is_same ? 0 : 1, 0, "%s: texts differing", what);
}
