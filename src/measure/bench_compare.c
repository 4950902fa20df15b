/* bench_compare.c - an older run's rows beside these.
 *
 * Rows are matched by stage, threads and n: a prefill of 512 is not one of 16.  A ratio is speed now over
 * speed before, so 1.2 is faster whether the unit is a time or a rate.
 */
#include "measure/bench.h"

#include "formats/json.h"

#include <math.h>
#include <string.h>

typedef struct old_row {
    const char *stage, *unit;
    int         threads, n;
    double      median;
} old_row;

static ph_rc read_row(const ph_json *j, old_row *out, ph_err *err) {
    PH_TRY(ph_json_text(j, "stage", &out->stage, err));
    PH_TRY(ph_json_text(j, "unit", &out->unit, err));
    PH_TRY(ph_json_size(j, "threads", 1, INT32_MAX, &out->threads, err));
    PH_TRY(ph_json_size(j, "n", 1, INT32_MAX, &out->n, err));
    PH_TRY(ph_json_real(j, "median", &out->median, err));
    if (!isfinite(out->median) || out->median <= 0)
        return PH_FAIL(err, PH_EFORMAT, "%s: a median of %g; it is a time or a rate above 0", j->where,
                       out->median);
    return PH_OK;
}

static const ph_bench_row *same(const ph_bench *now, const old_row *old) {
    for (size_t i = 0; i < now->n_rows; i++) {
        const ph_bench_row *r = &now->row[i];
        if (!strcmp(r->stage, old->stage) && r->threads == old->threads && r->n == old->n &&
            !strcmp(r->unit, old->unit))
            return r;
    }
    return NULL;
}

static ph_rc add(const ph_bench *now, const ph_json *j, double worse, ph_bench_ratio *out, size_t *n,
                 ph_err *err) {
    old_row old;
    PH_TRY(read_row(j, &old, err));
    const ph_bench_row *row = same(now, &old);
    if (!row) return PH_OK;
    for (size_t i = 0; i < *n; i++)
        if (out[i].now == row)
            return PH_FAIL(err, PH_EFORMAT, "%s: a second row of %s with %d threads and n %d", j->where,
                           old.stage, old.threads, old.n);
    int    is_time = !strcmp(old.unit, "ms");
    double ratio = is_time ? old.median / row->median : row->median / old.median;
    out[(*n)++] =
        (ph_bench_ratio){.now = row, .before = old.median, .ratio = ratio, .is_worse = !(ratio >= worse)};
    return PH_OK;
}

static ph_rc compare(const ph_bench *now, const ph_json_doc *doc, double worse, ph_bench_ratio *out,
                     size_t *n, ph_err *err) {
    ph_json root = ph_json_root(doc), rows = ph_json_get(&root, "rows");
    if (ph_json_kind_of(&rows) != PH_JSON_ARRAY)
        return PH_FAIL(err, PH_EFORMAT, "%s: no list of rows; give what `pinhole bench --json` printed",
                       doc->name);
    for (size_t i = 0; i < ph_json_count(&rows); i++) {
        ph_json row = ph_json_at(&rows, i);
        PH_TRY(add(now, &row, worse, out, n, err));
    }
    if (*n) return PH_OK;
    return PH_FAIL(
        err, PH_EMISMATCH,
        "%s: none of its %zu rows is of a stage, threads and n that were run now: give the same -t, "
        "-p and -n",
        doc->name, ph_json_count(&rows));
}

ph_rc ph_bench_compare(const ph_bench *now, const void *json, size_t n, const char *name, double worse,
                       ph_bench_ratio out[PH_BENCH_ROWS_MAX], size_t *n_out, ph_err *err) {
    ph_json_doc doc = {0};
    *n_out = 0;
    PH_TRY(ph_json_parse(&doc, json, n, name, err));
    ph_rc rc = compare(now, &doc, worse, out, n_out, err);
    ph_json_close(&doc);
    return rc;
}
