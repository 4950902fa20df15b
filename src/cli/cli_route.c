/* cli_route.c - where the router put the parts of a model, as text and as JSON. */
#include "cli/command.h"

#include <math.h>
#include <string.h>

static json_t *ms(double us) {
    return us >= 0 && isfinite(us) ? json_real(us / 1e3) : json_null();
}

static json_t *engines_json(const ph_route *r, const ph_route_part *p) {
    json_t *a = json_array();
    for (size_t e = 0; e < r->n_engines; e++) {
        const ph_route_cell *c = &p->cell[e];
        int                  is_able = !c->fault[0];
        json_array_append_new(a, json_pack("{ss ss so so so*}", "engine", r->engine[e].name, "class",
                                           ph_engine_class_name(r->engine[e].cls), "estimate_ms",
                                           is_able ? ms(c->estimate_us) : json_null(), "measured_ms",
                                           is_able ? ms(c->measured_us) : json_null(), "fault",
                                           is_able ? NULL : ph_cli_text_json(c->fault, strlen(c->fault))));
    }
    return a;
}

json_t *ph_cli_route_json(const ph_route *r) {
    json_t *parts = json_array();
    for (size_t i = 0; i < r->n_parts; i++) {
        const ph_route_part *p = &r->part[i];
        json_array_append_new(
            parts, json_pack("{ss ss sb so sI sI sb sb so so}", "part", p->name, "engine",
                             r->engine[p->engine].name, "asked", p->asked >= 0, "budget_ms", ms(p->budget_us),
                             "nodes", (json_int_t)p->nodes, "largest", (json_int_t)p->largest, "products",
                             p->has_products, "by_data", p->goes_by_data, "why",
                             ph_cli_text_json(p->why, strlen(p->why)), "engines", engines_json(r, p)));
    }
    return json_pack("{sb so sb so so}", "measured", r->is_measured, "ms",
                     r->is_measured ? ms(r->us) : json_null(), "fits", r->fits, "memory_max",
                     r->memory_max ? json_integer((json_int_t)r->memory_max) : json_null(), "parts", parts);
}

/* Who chose the engine of a part that no router had. */
static const char *chosen(const ph_cli_parts *named, const char *part) {
    const char *name = !strcmp(part, "vision")   ? named->vision
                       : !strcmp(part, "bridge") ? named->bridge
                       : !strcmp(part, "embed")  ? named->embed
                                                 : named->language;
    return *name ? "asked for" : !strcmp(part, "bridge") ? "as vision" : "by default";
}

static int is_routed(const ph_route *r, const char *part) {
    for (size_t i = 0; r && i < r->n_parts; i++)
        if (!strcmp(r->part[i].name, part)) return 1;
    return 0;
}

void ph_cli_print_places(FILE *to, const ph_cli *c, const ph_place *p, size_t n, const ph_route *told) {
    for (size_t i = 0; c->engine && i < n; i++)
        if (!is_routed(told, p[i].part))
            fprintf(to, "%-10s on %-10s %s\n", p[i].part, p[i].engine,
                    *p[i].why ? p[i].why : chosen(&c->engines, p[i].part));
}

void ph_cli_print_route(FILE *to, const ph_route *r) {
    for (size_t i = 0; i < r->n_parts; i++) {
        const ph_route_part *p = &r->part[i];
        fprintf(to, "%-10s on %-10s %s\n", p->name, r->engine[p->engine].name, p->why);
        for (size_t e = 0; e < r->n_engines && p->asked < 0; e++)
            if (p->cell[e].fault[0]) fprintf(to, "  not %-8s %s\n", r->engine[e].name, p->cell[e].fault);
    }
}
