/* deploy.c - what `pinhole check` finds.  See deploy.h. */
#include "measure/deploy.h"

#include "base/file.h"
#include "formats/container.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 5, 6))) static void tell(ph_deploy_part *p, const char *code, const char *node,
                                                       int is_fatal, const char *fmt, ...) {
    va_list ap;
    if (p->n_problems == (is_fatal ? PH_DEPLOY_PROBLEMS_MAX : PH_DEPLOY_NOTES_MAX)) {
        ++*(is_fatal ? &p->n_fatal_left_out : &p->n_notes_left_out);
        return;
    }
    ph_deploy_problem *q = &p->problem[p->n_problems++];
    *q = (ph_deploy_problem){.code = code, .is_fatal = is_fatal};
    snprintf(q->node, sizeof q->node, "%s", node);
    va_start(ap, fmt);
    vsnprintf(q->message, sizeof q->message, fmt, ap);
    va_end(ap);
}

/* ---- operators ---- */

/* Was this said already? */
static int is_told(const ph_deploy_part *p, const char *message) {
    for (size_t i = 0; i < p->n_problems; i++)
        if (!strcmp(p->problem[i].message, message)) return 1;
    return 0;
}

/* An operator of a plug-in: told, since only one engine has it. */
static void tell_user(ph_deploy_part *p, const ph_onnx_node *n, const ph_user *o) {
    char what[400];
    snprintf(what, sizeof what,
             "%s is of plug-in %s (%.80s): engine native runs it; ort and openvino do not, since pinhole "
             "registers no operators with them",
             o->full, o->lib->name, o->lib->path);
    if (!is_told(p, what)) tell(p, "plugin", ph_onnx_node_label(n), 0, "%s", what);
}

static int64_t version_of(const ph_onnx_opset *set, size_t n, const char *domain) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(set[i].domain, domain)) return set[i].version;
    return 0;
}

/* Where the domain is a plug-in's, and which version of it is imported. */
typedef struct domains {
    const ph_user_ops   *user;
    const ph_onnx_opset *set; /* [n] */
    size_t               n;
} domains;

static void check_operators(ph_deploy_part *p, const ph_onnx_node *node, size_t n, const domains *d) {
    for (size_t i = 0; i < n; i++) {
        char what[260];
        snprintf(what, sizeof what, "there is no operator %.80s of domain %.80s%s", node[i].op,
                 *node[i].domain ? node[i].domain : "ai.onnx",
                 ph_user_domain(node[i].domain) ? ": a plug-in that brings it is given with --plugin" : "");
        if (ph_onnx_function_of(&p->file, &node[i]) || ph_onnx_op_since(node[i].domain, node[i].op)) continue;
        int          oldest;
        const ph_op *op = ph_user_op_find(d->user, node[i].domain, node[i].op,
                                          version_of(d->set, d->n, node[i].domain), &oldest);
        if (op) tell_user(p, &node[i], op->user);
        if (op || oldest || is_told(p, what)) continue; /* of another version: the import says it */
        tell(p, "operator", ph_onnx_node_label(&node[i]), 1, "%s", what);
    }
}

/* ---- modalities ---- */

static int holds(const char *name, const char *const *words) {
    for (; *words; words++)
        if (strcasestr(name, *words)) return 1;
    return 0;
}

/* By the name first, then by type and rank: pictures are [N, 3, h, w], ids are whole numbers. */
static ph_modality modality_of(const ph_onnx_value *v) {
    static const char *const text[] = {"input_ids", "token", "attention_mask", "position_ids", "text",
                                       "decoder",   NULL};
    static const char *const vision[] = {"pixel", "image", "vision", "visual", "picture", NULL};
    static const char *const audio[] = {"audio", "input_features", "mel", "speech", "wave", NULL};
    if (holds(v->name, vision)) return PH_MOD_VISION;
    if (holds(v->name, audio)) return PH_MOD_AUDIO;
    if (holds(v->name, text)) return PH_MOD_TEXT;
    if (v->rank == 4 && (v->dim[1].size == 3 || v->dim[3].size == 3)) return PH_MOD_VISION;
    return v->type == PH_ONNX_INT64 || v->type == PH_ONNX_INT32 ? PH_MOD_TEXT : PH_MOD_NONE;
}

static void take_modality(ph_deploy_part *p, const ph_onnx_value *v) {
    ph_modality m = modality_of(v);
    if (m == PH_MOD_NONE) return;
    p->modality = p->modality == PH_MOD_NONE || p->modality == m ? m : PH_MOD_FUSED;
}

/* A batch that is a number, and a sequence that is: told, since it can be lived with one at a time. */
static void check_axes(ph_deploy_part *p, const ph_onnx_value *v) {
    ph_modality m = modality_of(v);
    if (m == PH_MOD_NONE || !v->has_shape) return;
    if (v->rank > 0 && v->dim[0].size >= 0)
        tell(p, "static_axis", v->name, 0,
             "%s input '%.80s': its first axis is %" PRId64
             ", not dynamic: no other number of them can be given",
             ph_modality_name(m), v->name, v->dim[0].size);
    /* [B, S] and [B, S, d]; with more, as in past keys [B, heads, P, d], axis 1 is none of tokens. */
    if (m == PH_MOD_TEXT && (v->rank == 2 || v->rank == 3) && v->dim[1].size >= 0)
        tell(p, "static_axis", v->name, 0,
             "text input '%.80s': its sequence is %" PRId64 " long, not dynamic", v->name, v->dim[1].size);
}

/* ---- inputs and outputs by name ---- */

static int by_name(const void *a, const void *b) {
    return strcmp((*(const ph_onnx_value *const *)a)->name, (*(const ph_onnx_value *const *)b)->name);
}

/* The file's inputs or outputs, sorted; NULL: no memory.  The caller frees the list. */
static const ph_onnx_value **sorted(const ph_onnx_value *v, size_t n) {
    const ph_onnx_value **list = calloc(n + 1, sizeof *list);
    for (size_t i = 0; list && i < n; i++) list[i] = &v[i];
    if (list && n) qsort(list, n, sizeof *list, by_name);
    return list;
}

static const ph_onnx_value *named(const ph_onnx_value *const *list, size_t n, const char *name) {
    const ph_onnx_value key = {.name = name}, *at = &key;
    const void         *found = n ? bsearch(&at, list, n, sizeof *list, by_name) : NULL;
    return found ? *(const ph_onnx_value *const *)found : NULL;
}

/* ---- outputs ---- */

/* "[I, 64, 256]"; cut where it does not fit. */
static const char *shape_of(const ph_onnx_value *v, char out[120]) {
    size_t n = (size_t)snprintf(out, 120, "[");
    for (int i = 0; i < v->rank && n < 110; i++) {
        const char *sep = i ? ", " : "";
        if (v->dim[i].size >= 0)
            n += (size_t)snprintf(out + n, 110 - n, "%s%" PRId64, sep, v->dim[i].size);
        else
            n += (size_t)snprintf(out + n, 110 - n, "%s%.20s", sep, *v->dim[i].param ? v->dim[i].param : "?");
    }
    if (n > 109) n = 109;
    snprintf(out + n, 120 - n, "]");
    return out;
}

static int fits_dim(const ph_onnx_dim *a, const ph_onnx_dim *b) {
    return a->size < 0 || b->size < 0 || a->size == b->size;
}

static int fits(const ph_onnx_value *out, const ph_onnx_value *in) {
    if (out->rank != in->rank) return 0;
    for (int i = 0; i < in->rank; i++)
        if (!fits_dim(&out->dim[i], &in->dim[i])) return 0;
    return 1;
}

/* The shape that the graph makes of an output; of axes that have no number there, what it is said to be. */
static void as_made(const ph_onnx_value *said, const ph_shape *s, ph_onnx_value *out) {
    *out = *said;
    out->has_shape = 1;
    out->rank = s->rank;
    for (int i = 0; i < s->rank; i++) {
        out->dim[i] = said->has_shape && said->rank == s->rank ? said->dim[i] : (ph_onnx_dim){-1, ""};
        if (ph_dim_is_fixed(s->dim[i])) out->dim[i].size = s->dim[i].mul;
    }
}

/* Which value of the graph each output is.  What is said of its shape may be old or a lie: told, and seams
 * are looked at by what is made. */
static ph_rc find_outputs(ph_deploy_part *p, ph_err *err) {
    const ph_onnx        *m = &p->file;
    const ph_onnx_value **list = sorted(m->output, m->n_outputs);
    p->made = calloc(m->n_outputs + 1, sizeof *p->made);
    if (!list || !p->made) {
        free(list);
        return PH_FAIL(err, PH_ENOMEM, "%zu outputs", m->n_outputs);
    }
    for (size_t v = 0; v < p->g.graph->n_values; v++) {
        const ph_value      *value = &p->g.graph->value[v];
        const ph_onnx_value *said = value->is_output ? named(list, m->n_outputs, value->name) : NULL;
        ph_onnx_value        made;
        char                 a[120], b[120];
        if (!said) continue;
        p->made[said - m->output] = &value->shape;
        as_made(said, &value->shape, &made);
        if (!said->has_shape || fits(said, &made)) continue;
        tell(p, "output", said->name, 0, "output '%.80s' is said to be %s, and is made as %s", said->name,
             shape_of(said, a), shape_of(&made, b));
    }
    free(list);
    return PH_OK;
}

/* ---- cuts ---- */

/* The modalities that each value depends on, as bits; a value of one that a node with more reads is a cut. */
static ph_rc find_cuts(ph_deploy_part *p, ph_err *err) {
    const ph_graph       *g = p->g.graph;
    unsigned             *bits = calloc(g->n_values + 1, sizeof *bits);
    const ph_onnx_value **inputs = sorted(p->file.input, p->file.n_inputs);
    if (!bits || !inputs) {
        free(bits);
        free(inputs);
        return PH_FAIL(err, PH_ENOMEM, "%zu values", g->n_values);
    }
    for (size_t v = 0; v < g->n_values; v++) {
        const ph_onnx_value *in =
            g->value[v].cls == PH_VALUE_INPUT ? named(inputs, p->file.n_inputs, g->value[v].name) : NULL;
        if (in) bits[v] = 1u << modality_of(in) & ~1u;
    }
    free(inputs);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const ph_node *n = &g->node[i];
        unsigned       all = 0;
        for (int k = 0; k < n->n_in && strcmp(n->op->name, "Sizes"); k++)
            all |= n->in[k] < 0 ? 0 : bits[n->in[k]];
        for (int k = 0; k < n->n_out; k++) bits[n->out[k]] = all;
        for (int k = 0; k < n->n_in; k++) {
            unsigned b = n->in[k] < 0 ? 0 : bits[n->in[k]];
            int      is_known = 0;
            if (!b || b == all || b & (b - 1) || p->n_cuts == PH_DEPLOY_CUTS_MAX ||
                g->value[n->in[k]].cls != PH_VALUE_TEMP)
                continue;
            for (size_t c = 0; c < p->n_cuts; c++) is_known |= p->cut[c] == g->value[n->in[k]].name;
            if (is_known) continue;
            p->cut_modality[p->n_cuts] = (ph_modality)__builtin_ctz(b);
            p->cut[p->n_cuts++] = g->value[n->in[k]].name;
        }
    }
    free(bits);
    return PH_OK;
}

/* ---- one part ---- */

/* Shapes that symbols cannot hold, from node on: with plain numbers the model may still run. */
static ph_rc with_numbers(ph_deploy_part *p, ph_onnx_import_how how, const char *node, const ph_err *why) {
    ph_onnx_given *given = calloc(PH_DEPLOY_INPUTS_MAX, sizeof *given);
    how.given = given;
    if (!given) return PH_ENOMEM;
    how.n_given = ph_onnx_given_of(&p->file, "", given, PH_DEPLOY_INPUTS_MAX);
    ph_rc rc = ph_onnx_import(&p->g, &p->file, &how, NULL);
    free(given);
    if (!rc) tell(p, "symbols", node, 0, "runs with shapes given beforehand only: %s", why->msg);
    return rc;
}

/* A folder and a model of another kind are told from an ONNX file that is damaged. */
static ph_rc open_file(ph_deploy_part *p, ph_err *err) {
    ph_container what;
    if (ph_path_is_dir(p->path))
        return PH_FAIL(err, PH_EPATH, "%.200s is a folder, and check takes files: name its .onnx files",
                       p->path);
    if (!ph_container_detect(p->path, &what, NULL) && what != PH_CONTAINER_ONNX)
        return PH_FAIL(
            err, PH_EUNSUP,
            "%.200s is of kind %s, and check takes ONNX files: `pinhole inspect` says what is in it", p->path,
            ph_container_name(what));
    return ph_note(err, ph_onnx_open(&p->file, p->path, err), "while reading %.200s as ONNX", p->path);
}

static ph_rc check_part(ph_deploy_part *p, ph_onnx_import_how how, ph_err *err) {
    const char *node = "";
    ph_err      told = {0};
    PH_TRY(open_file(p, err));
    for (size_t i = 0; i < p->file.n_inputs; i++) {
        if (ph_onnx_is_initializer(&p->file, p->file.input[i].name)) continue;
        take_modality(p, &p->file.input[i]);
        check_axes(p, &p->file.input[i]);
    }
    const domains all = {how.user, p->file.opset, p->file.n_opsets};
    check_operators(p, p->file.node, p->file.n_nodes, &all);
    for (size_t i = 0; i < p->file.n_functions; i++) {
        const ph_onnx_function *f = &p->file.function[i];
        const domains           its = {how.user, f->opset, f->n_opsets};
        check_operators(p, f->node, f->n_nodes, &its);
    }
    ph_rc rc = ph_onnx_import(&p->g, &p->file, &how, &told);
    if (rc == PH_ENOMEM) return PH_FAIL(err, rc, "%s", told.msg);
    if (!rc) PH_TRY(find_outputs(p, err)); /* not of plain numbers, which were made up */
    if (p->g.stopped) node = ph_onnx_node_label(p->g.stopped);
    if (rc && !with_numbers(p, how, node, &told)) rc = PH_OK;
    p->n_axes = ph_onnx_axes_of(&p->file, &p->g, p->axis, PH_ONNX_AXES_MAX);
    if (!rc) return find_cuts(p, err);
    for (size_t i = 0; i < p->n_problems; i++)
        if (p->problem[i].is_fatal) return PH_OK; /* the import stops at what was told already */
    tell(p, strstr(told.msg, "opset") ? "opset" : "model", node, 1, "%s%s%s", told.msg,
         told.n_notes ? "; " : "", told.n_notes ? told.note[0] : "");
    return PH_OK;
}

/* ---- together ---- */

static int64_t opset_of(const ph_onnx *m) {
    int64_t v = 0;
    for (size_t i = 0; i < m->n_opsets; i++)
        if (!*m->opset[i].domain && m->opset[i].version > v) v = m->opset[i].version;
    return v;
}

/* The first node that means something else in opset `to`, or has no such form there; NULL: all stay what they
 * are. */
static const ph_onnx_node *changed_node(const ph_onnx *m, int64_t from, int64_t to) {
    for (size_t i = 0; i < m->n_nodes; i++) {
        const ph_onnx_node *n = &m->node[i];
        if (*n->domain) continue;
        if (from < 13 && to >= 13 &&
            (!strcmp(n->op, "Softmax") || !strcmp(n->op, "LogSoftmax") || !strcmp(n->op, "Hardmax")))
            return n;
        if (to >= 10 && !strcmp(n->op, "Upsample")) return n;
        for (size_t k = 0; k < n->n_attrs; k++)
            if (!ph_onnx_op_allows(n->op, n->attr[k].name, to)) return n;
    }
    return NULL;
}

static void check_opsets(ph_deploy *d) {
    for (size_t i = 0; i < d->n; i++)
        if (opset_of(&d->part[i].file) > d->opset) d->opset = opset_of(&d->part[i].file);
    for (size_t i = 0; i < d->n; i++) {
        ph_deploy_part     *p = &d->part[i];
        int64_t             own = opset_of(&p->file);
        const ph_onnx_node *n = own && own < d->opset ? changed_node(&p->file, own, d->opset) : NULL;
        if (n)
            tell(p, "opset_mismatch", ph_onnx_node_label(n), 1,
                 "opset %" PRId64 " of ai.onnx, another part has %" PRId64
                 ": %.60s has another form there; export both with one opset",
                 own, d->opset, n->op);
        else if (own && own < d->opset)
            tell(p, "opset_mismatch", "", 0,
                 "opset %" PRId64 " of ai.onnx, another part has %" PRId64
                 "; every operator of this part is the same there",
                 own, d->opset);
    }
}

/* What puts one modality's values among another's. */
static void check_align(ph_deploy *d) {
    static const char *const ops[] = {"Concat", "Where", "Expand", "GatherND", "ScatterND"};
    for (size_t i = 0; d->n > 1 && i < sizeof ops / sizeof *ops; i++)
        if (d->opset && ph_onnx_op_since("", ops[i]) > d->opset)
            tell(&d->part[0], "align", "", 1, "opset %" PRId64 " has no %s (since %d), which joins the parts",
                 d->opset, ops[i], ph_onnx_op_since("", ops[i]));
}

/* Can the leading dimensions of `out` be the rows of `in`, [V, d]?  Their known numbers divide V, and are it
 * where all are known. */
static int flattens(const ph_onnx_value *out, const ph_onnx_value *in) {
    int64_t known = 1;
    int     is_open = 0;
    if (out->type != PH_ONNX_FLOAT || in->rank != 2 || out->rank <= in->rank ||
        !fits_dim(&out->dim[out->rank - 1], &in->dim[1]))
        return 0;
    for (int i = 0; i + 1 < out->rank; i++) {
        if (out->dim[i].size < 0)
            is_open = 1;
        else if (__builtin_mul_overflow(known, out->dim[i].size, &known))
            return 0;
    }
    if (in->dim[0].size < 0) return 1;
    return is_open ? known && in->dim[0].size % known == 0 : in->dim[0].size == known;
}

/* Features of pictures, [I, n, d], that the other part takes as rows, [V, d]: the corridor's splice hands
 * them over so, and whoever deploys the parts elsewhere has to do it. */
static void check_seam(ph_deploy_part *from, const ph_onnx_value *out, const ph_deploy_part *to,
                       const ph_onnx_value *in) {
    char a[120], b[120];
    if (out->type != in->type)
        tell(from, "seam", out->name, 1, "output '%.80s' is %s, and %s in %.80s takes it as %s", out->name,
             ph_onnx_type_name(out->type), in->name, to->path, ph_onnx_type_name(in->type));
    if (!out->has_shape || !in->has_shape || fits(out, in)) return;
    shape_of(out, a);
    shape_of(in, b);
    if (flattens(out, in)) {
        if (out->type != in->type) return; /* told above: that no splice mends */
        tell(from, "seam", out->name, 0,
             "output '%.60s': flatten %s to %s for %.80s, the rows of one after the other, as the corridor's "
             "splice does",
             out->name, a, b, to->path);
    } else
        tell(from, "seam", out->name, 1,
             "output '%.60s' is %s, and %.80s takes %s: another shape, which flattening the leading "
             "dimensions does not mend",
             out->name, a, to->path, b);
}

static ph_rc check_seams(ph_deploy *d, ph_err *err) {
    for (size_t b = 0; b < d->n; b++) {
        const ph_onnx        *to = &d->part[b].file;
        const ph_onnx_value **inputs = sorted(to->input, to->n_inputs);
        if (!inputs) return PH_FAIL(err, PH_ENOMEM, "%zu inputs", to->n_inputs);
        for (size_t a = 0; a < d->n; a++)
            for (size_t i = 0; a != b && i < d->part[a].file.n_outputs; i++) {
                const ph_onnx_value *out = &d->part[a].file.output[i];
                const ph_onnx_value *in = named(inputs, to->n_inputs, out->name);
                ph_onnx_value        made = *out;
                if (d->part[a].made && d->part[a].made[i]) as_made(out, d->part[a].made[i], &made);
                if (in) check_seam(&d->part[a], &made, &d->part[b], in);
            }
        free(inputs);
    }
    return PH_OK;
}

ph_rc ph_deploy_open(ph_deploy *d, const char *const *path, size_t n, const ph_kernels *kernels,
                     const ph_user_ops *user, ph_err *err) {
    const ph_onnx_import_how how = {.kernels = kernels, .user = user};
    ph_rc                    rc = PH_OK;
    *d = (ph_deploy){0};
    if (!n || n > PH_DEPLOY_PARTS_MAX)
        return PH_FAIL(err, PH_EUSAGE, "%zu models; one to %d can be checked together", n,
                       PH_DEPLOY_PARTS_MAX);
    d->part = calloc(n, sizeof *d->part);
    if (!d->part) return PH_FAIL(err, PH_ENOMEM, "%zu parts", n);
    d->n = n;
    for (size_t i = 0; i < n && !rc; i++) {
        d->part[i].path = path[i];
        rc = check_part(&d->part[i], how, err);
    }
    if (!rc) {
        check_opsets(d);
        check_align(d);
        rc = check_seams(d, err);
    }
    if (rc) {
        ph_deploy_close(d);
        return rc;
    }
    d->is_deployable = 1;
    for (size_t i = 0; i < n; i++) {
        d->is_deployable &= !d->part[i].n_fatal_left_out;
        for (size_t k = 0; k < d->part[i].n_problems; k++)
            d->is_deployable &= !d->part[i].problem[k].is_fatal;
    }
    return PH_OK;
}

void ph_deploy_close(ph_deploy *d) {
    for (size_t i = 0; i < d->n; i++) {
        free(d->part[i].made);
        ph_onnx_graph_close(&d->part[i].g);
        ph_onnx_close(&d->part[i].file);
    }
    free(d->part);
    *d = (ph_deploy){0};
}
