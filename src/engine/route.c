/* route.c - the decision of route.h: candidates a part, placements in order of their worth, the first that
 * fits.
 *
 * There are few parts and few engines, so every placement is looked at.  A placement is a number whose digits
 * are places in the parts' lists of candidates, the first part's the highest; equal worth goes by that
 * number, so that the same question never has two answers and the engine that is preferred wins.
 */
#include "engine/route.h"

#include "base/locale.h"
#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACEMENTS_MAX = 1 << 18 };

/* ---- a part as the rule sees it ---- */

static int64_t elements(const ph_value *v, const ph_syms *syms) {
    int64_t n;
    return ph_shape_count(&v->shape, syms, &n, NULL) ? INT64_MAX : n;
}

void ph_route_look(ph_route_part *part, const ph_graph *g, const ph_syms *syms) {
    part->nodes = g->n_nodes;
    part->largest = 0;
    part->has_products = part->goes_by_data = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        part->has_products |= g->node[i].op->is_product;
        part->goes_by_data |= g->node[i].op->goes_by_data;
    }
    for (size_t i = 0; i < g->n_values; i++) {
        if (g->value[i].cls == PH_VALUE_STATE) continue;
        int64_t n = elements(&g->value[i], syms);
        if (n > part->largest) part->largest = n;
    }
}

/* 10 and 7: a budget's 0.7 is then met exactly where it can be written. */
static int is_soon(const ph_route_part *p, double estimate_us) {
    return 10 * estimate_us <= 7 * p->budget_us;
}

int ph_route_rule(const ph_route_part *p, ph_engine_class cls, double estimate_us) {
    if (cls == PH_ENGINE_NPU)
        return is_soon(p, estimate_us) && p->nodes <= PH_ROUTE_NPU_NODES && !p->goes_by_data;
    if (cls == PH_ENGINE_GPU) return p->largest > PH_ROUTE_GPU_ELEMENTS && p->has_products;
    return 1;
}

/* ---- candidates ---- */

typedef struct lists {
    int    at[PH_ROUTE_PARTS][PH_ROUTE_ENGINES];
    size_t n[PH_ROUTE_PARTS];
} lists;

static int can(const ph_route_cell *c) {
    return !c->fault[0];
}

/* Times decide where each part that is to be placed has one at least. */
static int is_measured(const ph_route *r) {
    for (size_t p = 0; p < r->n_parts; p++) {
        int has = r->part[p].asked >= 0;
        for (size_t e = 0; e < r->n_engines && !has; e++)
            has = can(&r->part[p].cell[e]) && r->part[p].cell[e].measured_us >= 0;
        if (!has) return 0;
    }
    return r->n_parts > 0;
}

static void add_if(const ph_route *r, lists *l, size_t p, ph_engine_class cls) {
    const ph_route_part *part = &r->part[p];
    for (size_t e = 0; e < r->n_engines; e++)
        if (can(&part->cell[e]) && r->engine[e].cls == cls &&
            ph_route_rule(part, cls, part->cell[e].estimate_us))
            l->at[p][l->n[p]++] = (int)e;
}

static void list_part(const ph_route *r, lists *l, size_t p) {
    const ph_route_part *part = &r->part[p];
    if (part->asked >= 0) {
        if (can(&part->cell[part->asked])) l->at[p][l->n[p]++] = part->asked;
        return;
    }
    if (!r->is_measured) {
        for (int cls = PH_N_ENGINE_CLASSES - 1; cls >= 0; cls--) add_if(r, l, p, (ph_engine_class)cls);
        return;
    }
    for (size_t e = 0; e < r->n_engines; e++)
        if (can(&part->cell[e]) && part->cell[e].measured_us >= 0) l->at[p][l->n[p]++] = (int)e;
}

static ph_rc refuse(const ph_route *r, size_t p, ph_err *err) {
    const ph_route_part *part = &r->part[p];
    if (part->asked >= 0)
        return PH_FAIL(err, PH_EUNSUP, "engine %s cannot take the part %s: %s", r->engine[part->asked].name,
                       part->name, part->cell[part->asked].fault);
    if (!r->n_engines) return PH_FAIL(err, PH_EUNSUP, "there is no engine for the part %s", part->name);
    return PH_FAIL(err, PH_EUNSUP, "no engine takes the part %s; %s: %s", part->name, r->engine[0].name,
                   part->cell[0].fault);
}

/* ---- placements ---- */

typedef struct placement {
    double   worth; /* less is better */
    uint32_t number;
} placement;

static int better(const void *a, const void *b) {
    const placement *x = a, *y = b;
    if (x->worth != y->worth) return x->worth < y->worth ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Places in the parts' lists. */
static void digits(const ph_route *r, const lists *l, uint32_t number, size_t place[PH_ROUTE_PARTS]) {
    for (size_t p = r->n_parts; p--;) {
        place[p] = number % l->n[p];
        number /= (uint32_t)l->n[p];
    }
}

static void engines_of(const ph_route *r, const lists *l, uint32_t number, int engine[PH_ROUTE_PARTS]) {
    size_t place[PH_ROUTE_PARTS];
    digits(r, l, number, place);
    for (size_t p = 0; p < r->n_parts; p++) engine[p] = l->at[p][place[p]];
}

static double crossing(const ph_route_engine *e, double bytes) {
    return e->border_bytes_a_us > 0 ? bytes / e->border_bytes_a_us : 0;
}

/* Parts whose engine was named count what is known of them. */
static double time_of(const ph_route *r, const int *engine) {
    double us = 0;
    for (size_t p = 0; p < r->n_parts; p++) {
        double measured = r->part[p].cell[engine[p]].measured_us;
        if (measured > 0) us += measured;
        if (p + 1 == r->n_parts || engine[p] == engine[p + 1]) continue;
        us += crossing(&r->engine[engine[p]], r->part[p].border_bytes) +
              crossing(&r->engine[engine[p + 1]], r->part[p].border_bytes);
    }
    return us;
}

static double worth_of(const ph_route *r, const lists *l, uint32_t number) {
    size_t place[PH_ROUTE_PARTS];
    int    engine[PH_ROUTE_PARTS];
    double sum = 0;
    engines_of(r, l, number, engine);
    if (r->is_measured) return time_of(r, engine);
    digits(r, l, number, place); /* the rule's wishes, as few steps down as possible */
    for (size_t p = 0; p < r->n_parts; p++) sum += (double)place[p];
    return sum;
}

/* ---- why ---- */

/* Append to out, up to its end. */
static void add(char out[PH_ROUTE_TEXT], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char out[PH_ROUTE_TEXT], const char *fmt, ...) {
    size_t  n = strlen(out);
    va_list more;
    va_start(more, fmt);
    ph_plain_vprint(out + n, PH_ROUTE_TEXT - n, fmt, more);
    va_end(more);
}

static int has_class(const ph_route *r, const ph_route_part *p, ph_engine_class cls) {
    for (size_t e = 0; e < r->n_engines; e++)
        if (r->engine[e].cls == cls && can(&p->cell[e])) return 1;
    return 0;
}

static double least_estimate(const ph_route *r, const ph_route_part *p, ph_engine_class cls) {
    double least = -1;
    for (size_t e = 0; e < r->n_engines; e++)
        if (r->engine[e].cls == cls && can(&p->cell[e]) && (least < 0 || p->cell[e].estimate_us < least))
            least = p->cell[e].estimate_us;
    return least;
}

/* What kept the part from a class that is here, in the order of the rule. */
static void why_not(const ph_route *r, ph_route_part *p, ph_engine_class cls) {
    double us = least_estimate(r, p, cls);
    if (!has_class(r, p, cls) || ph_route_rule(p, cls, us)) return;
    add(p->why, "; no %s: ", ph_engine_class_name(cls));
    if (cls == PH_ENGINE_GPU && !p->has_products)
        add(p->why, "it multiplies no matrices");
    else if (cls == PH_ENGINE_GPU)
        add(p->why, "its largest value has %lld elements, not above %d", (long long)p->largest,
            PH_ROUTE_GPU_ELEMENTS);
    else if (p->goes_by_data)
        add(p->why, "what it does goes by data");
    else if (p->nodes > PH_ROUTE_NPU_NODES)
        add(p->why, "%zu nodes, more than %d", p->nodes, PH_ROUTE_NPU_NODES);
    else
        add(p->why, "%.1f ms estimated, above 0.7 of %.1f ms", us / 1e3, p->budget_us / 1e3);
}

static void why_rule(const ph_route *r, ph_route_part *p) {
    ph_engine_class cls = r->engine[p->engine].cls;
    add(p->why, "by rule, %s: ", ph_engine_class_name(cls));
    if (cls == PH_ENGINE_NPU)
        add(p->why, "%.1f ms estimated, at most 0.7 of %.1f ms; %zu nodes; nothing goes by data",
            p->cell[p->engine].estimate_us / 1e3, p->budget_us / 1e3, p->nodes);
    else if (cls == PH_ENGINE_GPU)
        add(p->why, "its largest value has %lld elements, above %d, and it multiplies matrices",
            (long long)p->largest, PH_ROUTE_GPU_ELEMENTS);
    else
        add(p->why, "the first engine of its class that takes it");
    for (int c = PH_N_ENGINE_CLASSES - 1; c > (int)cls; c--) why_not(r, p, (ph_engine_class)c);
}

static void why_measured(const ph_route *r, ph_route_part *p) {
    int n = 0;
    add(p->why, "measured %.2f ms", p->cell[p->engine].measured_us / 1e3);
    for (size_t e = 0; e < r->n_engines; e++) {
        if ((int)e == p->engine || !can(&p->cell[e])) continue;
        add(p->why, "%s%s ", n++ ? ", " : "; ", r->engine[e].name);
        if (p->cell[e].measured_us >= 0)
            add(p->why, "%.2f ms", p->cell[e].measured_us / 1e3);
        else
            add(p->why, "not measured");
    }
    if (!n) add(p->why, "; no other engine takes it");
}

static void explain(ph_route *r) {
    for (size_t i = 0; i < r->n_parts; i++) {
        ph_route_part *p = &r->part[i];
        p->why[0] = 0;
        if (p->asked >= 0)
            add(p->why, "asked for");
        else if (r->is_measured)
            why_measured(r, p);
        else
            why_rule(r, p);
        if (p->asked < 0 && !r->fits)
            add(p->why, "; no placement fits the memory");
        else if (p->asked < 0 && r->passed)
            add(p->why, "; %zu better placement%s did not fit the memory", r->passed,
                r->passed == 1 ? "" : "s");
    }
}

/* ---- the search ---- */

static void settle(ph_route *r, const lists *l, uint32_t number) {
    int engine[PH_ROUTE_PARTS];
    engines_of(r, l, number, engine);
    for (size_t p = 0; p < r->n_parts; p++) r->part[p].engine = engine[p];
    r->us = r->is_measured ? time_of(r, engine) : 0;
}

/* The first of at[n] whose plan fits, or the least of all, with fits 0. */
static ph_rc take_first(ph_route *r, const lists *l, const placement *at, size_t n, ph_route_bytes *bytes,
                        void *arg, ph_err *err) {
    int    engine[PH_ROUTE_PARTS];
    size_t least = SIZE_MAX;
    r->fits = !r->memory_max || !bytes;
    if (r->fits) settle(r, l, at[0].number);
    for (size_t i = 0; i < n && !r->fits; i++) {
        size_t now;
        engines_of(r, l, at[i].number, engine);
        PH_TRY(bytes(arg, engine, &now, err));
        r->fits = now <= r->memory_max;
        r->passed += !r->fits;
        if (!r->fits && now >= least) continue;
        least = now;
        r->bytes = now;
        settle(r, l, at[i].number);
    }
    explain(r);
    if (r->fits) return PH_OK;
    /* How many there were is not said: engines that no budget has room for were not asked whether they are
     * here. */
    return PH_FAIL(err, PH_EBUDGET,
                   "no placement of the parts on engines fits %llu bytes, the least takes %zu: "
                   "give more, or ask for less context",
                   (unsigned long long)r->memory_max, r->bytes);
}

ph_rc ph_route_decide(ph_route *r, ph_route_bytes *bytes, void *arg, ph_err *err) {
    lists  l = {0};
    size_t n = 1;
    r->is_measured = is_measured(r);
    r->bytes = r->passed = 0;
    for (size_t p = 0; p < r->n_parts; p++) {
        list_part(r, &l, p);
        if (!l.n[p]) return refuse(r, p, err);
        n *= l.n[p];
        if (n > PLACEMENTS_MAX)
            return PH_FAIL(err, PH_ELIMIT, "more than %d placements of %zu parts on %zu engines",
                           PLACEMENTS_MAX, r->n_parts, r->n_engines);
    }
    placement *at = calloc(n, sizeof *at);
    if (!at) return PH_FAIL(err, PH_ENOMEM, "%zu placements", n);
    for (size_t i = 0; i < n; i++) at[i] = (placement){worth_of(r, &l, (uint32_t)i), (uint32_t)i};
    qsort(at, n, sizeof *at, better);
    ph_rc rc = take_first(r, &l, at, n, bytes, arg, err);
    free(at);
    return rc;
}
