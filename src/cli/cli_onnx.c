/* cli_onnx.c - what `inspect` says of an ONNX file: its parts, the graph that we make of it, and its memory.
 */
#include "cli/command.h"

#include "base/mem.h"
#include "engine/bare.h"
#include "formats/container.h"
#include "graph/onnx/onnx_in.h"
#include "graph/pass.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const ph_cli_onnx *how;
    ph_onnx            file;
    ph_onnx_graph      g;
    ph_kernels         kernels;
    unsigned           features;
    ph_syms            syms;
    ph_onnx_axis       axis[PH_ONNX_AXES_MAX]; /* [n_axes]: of the graph's symbols, or as the inputs say */
    size_t             n_axes;
    ph_memory          memory;
    size_t             base; /* bytes of this process before the model */
    size_t             n_after;
    int                bytes_known;
    int                is_given; /* the axes are numbers: symbols cannot hold the shapes */
} job;

enum { INPUTS_MAX = 256 };

int ph_cli_is_onnx(const char *path) {
    ph_container c;
    size_t       n = path ? strlen(path) : 0;
    if (!path) return 0;
    if (!ph_container_detect(path, &c, NULL)) return c == PH_CONTAINER_ONNX;
    return n > 5 && !strcmp(path + n - 5, ".onnx");
}

/* ---- the file ---- */

static void print_value(const char *what, const ph_onnx_value *v) {
    char text[PH_CLI_SHOWN];
    printf("  %-12s %s  %s", what, ph_cli_shown(text, v->name),
           v->type ? ph_onnx_type_name(v->type) : "no tensor");
    for (int i = 0; i < v->rank; i++) {
        printf("%s", i ? ", " : " [");
        if (v->dim[i].size >= 0)
            printf("%" PRId64, v->dim[i].size);
        else
            printf("%s", *v->dim[i].param ? ph_cli_shown(text, v->dim[i].param) : "?");
    }
    printf("%s\n", v->has_shape ? v->rank ? "]" : " []" : ", any shape");
}

void ph_cli_print_opsets(const ph_onnx *m) {
    char shown[PH_CLI_SHOWN];
    printf("  opsets      %s", m->n_opsets ? "" : " none");
    for (size_t i = 0; i < m->n_opsets; i++)
        printf(" %s %" PRId64 "%s", *m->opset[i].domain ? ph_cli_shown(shown, m->opset[i].domain) : "ai.onnx",
               m->opset[i].version, i + 1 < m->n_opsets ? "," : "");
    printf("\n");
}

static void print_file(const job *j) {
    const ph_onnx *m = &j->file;
    char           text[32], shown[3][PH_CLI_SHOWN];
    size_t         bytes = 0;
    for (size_t i = 0; i < m->n_initializers; i++) bytes += m->initializer[i].n_bytes;
    ph_size_print(text, sizeof text, bytes);
    printf("%s\n  container    ONNX, IR %" PRId64 "%s%s%s%s\n", ph_cli_shown(shown[0], j->how->path),
           m->ir_version, *m->producer ? ", made by " : "", ph_cli_shown(shown[1], m->producer),
           *m->producer_version ? " " : "", ph_cli_shown(shown[2], m->producer_version));
    ph_cli_print_opsets(m);
    printf("  nodes        %zu, %zu function%s\n  weights      %zu, %s", m->n_nodes, m->n_functions,
           m->n_functions == 1 ? "" : "s", m->n_initializers, text);
    if (m->n_external) printf(", %zu file%s beside it", m->n_external, m->n_external == 1 ? "" : "s");
    printf("\n");
    for (size_t i = 0; i < m->n_inputs; i++) print_value("input", &m->input[i]);
    for (size_t i = 0; i < m->n_outputs; i++) print_value("output", &m->output[i]);
}

/* ---- the graph ---- */

/* "batch=4,sequence=16", each once. */
static ph_rc check_list(const char *list, ph_err *err) {
    for (const char *p = list; p && *p;) {
        size_t  n = strcspn(p, "=,"), whole = strcspn(p, ",");
        char   *end = NULL;
        long    size = p[n] == '=' ? strtol(p + n + 1, &end, 10) : -1;
        int64_t behind;
        if (size < 0 || end == p + n + 1 || end != p + whole)
            return PH_FAIL(err, PH_EUSAGE, "--axis takes NAME=NUMBER, with commas between, not '%.60s'", p);
        if (ph_onnx_axis_listed(&(ph_onnx_axis){p, n, -1}, p + whole + (p[whole] == ','), &behind))
            return PH_FAIL(err, PH_EUSAGE, "--axis has two numbers for '%.*s', %ld and %" PRId64,
                           n > 60 ? 60 : (int)n, p, size, behind);
        p += whole + (p[whole] == ',');
    }
    return PH_OK;
}

/* Where symbols hold the shapes, all are 1 by default; with numbers, what is past is 0. */
static int64_t size_of(const job *j, const ph_onnx_axis *a) {
    int64_t size;
    if (ph_onnx_axis_listed(a, j->how->axes, &size)) return size;
    return j->g.graph && !j->is_given ? 1 : ph_onnx_axis_size(a, NULL);
}

/* "B, T and P"; what has no room is counted. */
static void name_axes(const job *j, char *out, size_t size) {
    size_t at = 0;
    snprintf(out, size, j->n_axes ? "" : "none");
    for (size_t i = 0; i < j->n_axes; i++) {
        char        name[PH_ONNX_AXIS_NAME];
        const char *sep = !i ? "" : i + 1 < j->n_axes ? ", " : " and ";
        ph_onnx_axis_name(&j->axis[i], name);
        if (at + strlen(name) + 24 > size) {
            snprintf(out + at, size - at, "%s%zu more", i ? " and " : "", j->n_axes - i);
            return;
        }
        at += (size_t)snprintf(out + at, size - at, "%s%s", sep, name);
    }
}

/* An axis, or with numbers alone a sum of axes that an input declares. */
static int has_axis(const job *j, const char *name, size_t n) {
    char text[PH_ONNX_AXIS_NAME];
    for (size_t i = 0; i < j->n_axes; i++) {
        ph_onnx_axis_name(&j->axis[i], text);
        if (strlen(text) == n && !strncmp(text, name, n)) return 1;
    }
    for (size_t i = 0; i < j->file.n_inputs && j->is_given; i++)
        for (int d = 0; d < j->file.input[i].rank; d++)
            if (strlen(j->file.input[i].dim[d].param) == n &&
                !strncmp(j->file.input[i].dim[d].param, name, n))
                return 1;
    return 0;
}

/* What --axis names is there; the number of each symbol. */
static ph_rc read_sizes(job *j, ph_err *err) {
    for (const char *p = j->how->axes; p && *p;) {
        size_t n = strcspn(p, "=,"), whole = strcspn(p, ",");
        if (!has_axis(j, p, n)) {
            char names[160];
            name_axes(j, names, sizeof names);
            return PH_FAIL(err, PH_EUSAGE, "the model has no dynamic axis '%.*s': its axes are %s",
                           n > 60 ? 60 : (int)n, p, names);
        }
        p += whole + (p[whole] == ',');
    }
    for (int i = 0; i < PH_N_SYMS; i++) {
        const ph_onnx_axis a = {j->g.symbol[i], j->g.symbol[i] ? strlen(j->g.symbol[i]) : 0, -1};
        j->syms.at[i] = a.name ? size_of(j, &a) : 1;
    }
    return PH_OK;
}

static ph_rc plan(job *j, ph_err *err) {
    ph_pass_env env = {.kernels = &j->kernels};
    ph_bare     b;
    PH_TRY(read_sizes(j, err));
    PH_TRY(ph_passes_run(j->g.graph, &env, NULL, err));
    j->n_after = j->g.graph->n_nodes;
    if (j->how->is_graph) return PH_OK;
    PH_TRY(
        ph_bare_open(&b, j->g.graph, &j->syms, j->how->threads > 0 ? j->how->threads : 1, j->features, err));
    j->memory = (ph_memory){.input = b.need.input,
                            .activations = b.need.activations,
                            .engine = b.need.engine + j->g.graph->arena.used,
                            .weights = b.need.weights + b.need.table,
                            .base = j->base};
    ph_memory_sum(&j->memory);
    j->bytes_known = 1;
    ph_bare_close(&b);
    return PH_OK;
}

/* Nodes of this operator. */
static size_t count_nodes(const ph_graph *g, const ph_user *o) {
    size_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++) n += g->node[i].op == &o->op;
    return n;
}

static void print_user(const job *j) {
    for (size_t i = 0; i < ph_user_op_count(j->how->user); i++) {
        const ph_user *o = ph_user_op_at(j->how->user, i);
        size_t         n = count_nodes(j->g.graph, o);
        if (n)
            printf("  plug-in      %s: %s since version %d, %zu node%s\n", o->lib->name, o->full, o->op.since,
                   n, n == 1 ? "" : "s");
    }
}

/* By name: an operator that is used in two versions is counted together. */
static json_t *user_json(const job *j) {
    json_t *all = json_object();
    for (size_t i = 0; j->g.graph && i < ph_user_op_count(j->how->user); i++) {
        const ph_user *o = ph_user_op_at(j->how->user, i);
        size_t         n = count_nodes(j->g.graph, o);
        if (n)
            json_object_set_new(
                all, o->full,
                json_integer((json_int_t)n + json_integer_value(json_object_get(all, o->full))));
    }
    return all;
}

static void print_plan(const job *j) {
    const ph_memory *m = &j->memory;
    char             shown[PH_CLI_SHOWN], name[PH_ONNX_AXIS_NAME];
    printf("  graph        %zu node%s of ours\n", j->n_after, j->n_after == 1 ? "" : "s");
    print_user(j);
    for (int i = 0; i < PH_N_SYMS; i++)
        if (j->g.symbol[i])
            printf("  axis         '%s', planned as %" PRId64 " (--axis); %c in the graph\n",
                   ph_cli_shown(shown, j->g.symbol[i]), j->syms.at[i], ph_sym_letters[i]);
    for (size_t i = 0; i < j->n_axes && j->is_given; i++)
        printf("  axis         '%s', planned as %" PRId64 " (--axis)\n",
               ph_cli_shown(shown, ph_onnx_axis_name(&j->axis[i], name)), size_of(j, &j->axis[i]));
    if (j->is_given)
        printf("  axes         as numbers only (--axis; 1 by default, 0 for what is past): sums of axes have "
               "no symbol\n");
    printf("\nmemory for one run:\n");
    ph_cli_print_size("input", m->input, "what the caller fills");
    ph_cli_print_size("activations", m->activations, "values between steps");
    ph_cli_print_size("weights", m->weights, "pages of the files that are read");
    ph_cli_print_size("engine", m->engine,
                      "workers' scratch, the program, the graph, weights that were turned");
    ph_cli_print_size("base", m->base, "the process itself");
    ph_cli_print_size("total", m->total, "");
}

/* ---- JSON ---- */

static json_t *value_json(const ph_onnx_value *v) {
    json_t *shape = json_array();
    for (int i = 0; i < v->rank; i++)
        json_array_append_new(shape, v->dim[i].size >= 0 ? json_integer(v->dim[i].size)
                                     : *v->dim[i].param
                                         ? ph_cli_text_json(v->dim[i].param, strlen(v->dim[i].param))
                                         : json_null());
    return json_pack("{so ss so}", "name", ph_cli_text_json(v->name, strlen(v->name)), "type",
                     ph_onnx_type_name(v->type), "shape", shape);
}

static void print_json(const job *j, const char *fault) {
    const ph_onnx *m = &j->file;
    char           name[PH_ONNX_AXIS_NAME];
    json_t        *in = json_array(), *out = json_array(), *opsets = json_object(), *axes = json_object();
    for (size_t i = 0; i < m->n_inputs; i++) json_array_append_new(in, value_json(&m->input[i]));
    for (size_t i = 0; i < m->n_outputs; i++) json_array_append_new(out, value_json(&m->output[i]));
    for (size_t i = 0; i < m->n_opsets; i++)
        ph_cli_set_json(opsets, *m->opset[i].domain ? m->opset[i].domain : "ai.onnx",
                        json_integer(m->opset[i].version));
    for (size_t i = 0; i < j->n_axes; i++)
        ph_cli_set_json(axes, ph_onnx_axis_name(&j->axis[i], name), json_integer(size_of(j, &j->axis[i])));
    json_t *o = json_pack("{sn ss so so so so si sb}", "family", "container", "onnx", "inputs", in, "outputs",
                          out, "opsets", opsets, "axes", axes, "nodes", (int)m->n_nodes, "runs", !fault);
    json_object_set_new(o, "memory", j->bytes_known ? ph_cli_memory_json(&j->memory) : json_null());
    json_object_set_new(o, "fits",
                        j->bytes_known && j->how->budget ? json_boolean(j->memory.total <= j->how->budget)
                                                         : json_null());
    if (j->how->user) json_object_set_new(o, "plugin_nodes", user_json(j));
    if (fault) json_object_set_new(o, "fault", ph_cli_text_json(fault, strlen(fault)));
    ph_cli_print_json(o);
}

/* ---- all of it ---- */

/* Shapes that symbols cannot hold are given as numbers: those of --axis. */
static ph_rc with_numbers(job *j, ph_onnx_import_how *how) {
    ph_onnx_given *given = calloc(INPUTS_MAX, sizeof *given);
    if (!given) return PH_ENOMEM;
    how->given = given;
    how->n_given = ph_onnx_given_of(&j->file, j->how->axes, given, INPUTS_MAX);
    ph_rc rc = ph_onnx_import(&j->g, &j->file, how, NULL);
    free(given);
    j->is_given = !rc;
    return rc;
}

static ph_rc work(job *j, ph_err *err) {
    ph_onnx_import_how how = {.kernels = &j->kernels, .user = j->how->user};
    PH_TRY(ph_kernels_features(getenv("PINHOLE_ISA"), &j->features, err));
    ph_kernels_init(&j->kernels, j->features);
    PH_TRY(check_list(j->how->axes, err));
    PH_TRY(ph_onnx_open(&j->file, j->how->path, err));
    if (!j->how->is_graph && !j->how->is_json) print_file(j);
    ph_rc rc = ph_onnx_import(&j->g, &j->file, &how, err);
    if (rc && !with_numbers(j, &how)) rc = PH_OK;
    j->n_axes = ph_onnx_axes_of(&j->file, &j->g, j->axis, PH_ONNX_AXES_MAX);
    if (!rc) rc = plan(j, err);
    if (!rc && j->how->is_graph)
        ph_graph_dot(j->g.graph, ph_cli_write, stdout);
    else if (j->how->is_json && (!rc || rc != PH_EUSAGE))
        print_json(j, rc && err ? err->msg : NULL);
    else if (!rc)
        print_plan(j);
    return rc || j->how->is_graph ? rc
                                  : ph_cli_judge_size(j->memory.total, j->how->budget, j->how->is_json, err);
}

ph_rc ph_cli_inspect_onnx(const ph_cli_onnx *how, ph_err *err) {
    ph_mem now;
    job   *j = calloc(1, sizeof *j);
    if (!j) return PH_FAIL(err, PH_ENOMEM, "the tables of inspect");
    ph_mem_read(&now);
    j->how = how;
    j->base = now.rss;
    ph_rc rc = work(j, err);
    ph_onnx_graph_close(&j->g);
    ph_onnx_close(&j->file);
    free(j);
    return rc;
}
