/* to_onnx.c - which graphs of a model are asked for, and each into a file of its own. */
#include "convert/onnx.h"

#include "base/file.h"
#include "formats/container.h"
#include "graph/onnx/onnx_in.h"
#include "model/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The parts that a model has. */
typedef struct parts {
    const ph_graph *graph[PH_CONVERT_PARTS_MAX];
    size_t          n;
} parts;

static void add(parts *p, const ph_graph *g) {
    if (g) p->graph[p->n++] = g;
}

static parts parts_of(const ph_model *m) {
    parts p = {.n = 0};
    add(&p, m->vision);
    add(&p, m->bridge);
    add(&p, m->cross);
    add(&p, m->language);
    return p;
}

static const char *list(const parts *p, char out[80]) {
    *out = 0;
    for (size_t i = 0; i < p->n; i++)
        snprintf(out + strlen(out), 80 - strlen(out), i ? ", %s" : "%s", p->graph[i]->name);
    return out;
}

/* Does any of what is read stand at path? */
static ph_rc may_write(const ph_convert_onnx *c, const ph_onnx *file, const char *path, ph_err *err) {
    char        name[4096], data[4096];
    const char *slash = strrchr(c->in, '/');
    int         is_read = ph_container_holds(c->in, path) || ph_container_holds(c->mmproj, path);
    if (snprintf(data, sizeof data, "%s.data", path) >= (int)sizeof data)
        return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", path);
    int is_data_read = ph_container_holds(c->in, data) || ph_container_holds(c->mmproj, data);
    for (size_t i = 0; file && i < file->n_external; i++) {
        snprintf(name, sizeof name, "%.*s%s", slash ? (int)(slash + 1 - c->in) : 0, c->in,
                 file->external_name[i]);
        is_read |= ph_container_holds(name, path);
        is_data_read |= ph_container_holds(name, data);
    }
    if (!is_read && !is_data_read) return PH_OK;
    return PH_FAIL(err, PH_EUSAGE, "%.200s is what is read: write somewhere else", is_read ? path : data);
}

static ph_rc write_part(const ph_convert_onnx *c, const ph_graph *g, const ph_onnx *file, const char *path,
                        const ph_onnx_export_how *how, ph_convert_onnx_report *r, ph_err *err) {
    ph_onnx_exported x;
    PH_TRY(may_write(c, file, path, err));
    ph_rc rc = ph_onnx_export(&x, g, how, err);
    if (rc) return ph_note(err, rc, "while writing the graph %s as ONNX", g->name);
    snprintf(r->part[r->n].name, sizeof r->part[r->n].name, "%s", g->name);
    snprintf(r->part[r->n].path, sizeof r->part[r->n].path, "%s", path);
    rc = ph_onnx_write(path, &x.writer, &x.producer, c->external, &r->part[r->n].size, err);
    r->part[r->n].nodes = x.writer.n_nodes;
    r->part[r->n].weights = x.writer.n_weights;
    r->n += !rc;
    ph_onnx_exported_close(&x);
    return rc;
}

static ph_rc write_each(const ph_convert_onnx *c, const parts *p, const ph_onnx_export_how *how,
                        ph_convert_onnx_report *r, ph_err *err) {
    char path[PH_CONVERT_PARTS_MAX][4096];
    for (size_t i = 0; i < p->n; i++) {
        if (snprintf(path[i], sizeof path[i], "%s/%s.onnx", c->out, p->graph[i]->name) >= (int)sizeof path[i])
            return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", c->out);
        PH_TRY(may_write(c, NULL, path[i], err)); /* of all, before one is written */
    }
    for (size_t i = 0; i < p->n; i++) PH_TRY(write_part(c, p->graph[i], NULL, path[i], how, r, err));
    return PH_OK;
}

/* Parts that are written stay, each whole; a folder of ours without any does not. */
static ph_rc write_all(const ph_convert_onnx *c, const parts *p, const ph_onnx_export_how *how,
                       ph_convert_onnx_report *r, ph_err *err) {
    int is_made = !ph_path_is_dir(c->out);
    if (is_made && mkdir(c->out, 0777))
        return PH_FAIL(err, PH_EIO, "cannot make the directory %.200s: %s", c->out, strerror(errno));
    ph_rc rc = write_each(c, p, how, r, err);
    if (rc && is_made) rmdir(c->out); /* fails when something stands in it */
    return rc;
}

static ph_rc convert_model(const ph_convert_onnx *c, ph_model *m, ph_convert_onnx_report *r, ph_err *err) {
    ph_onnx_export_how how = c->how;
    parts              p = parts_of(m);
    char               text[80];
    how.has_no_past = !m->chat; /* a dual encoder: its texts are read once */
    if (c->injects && c->part && strcmp(c->part, "language") && strcmp(c->part, "all"))
        return PH_FAIL(err, PH_EUSAGE,
                       "--inject changes the language part: nothing comes of it in --part %.40s", c->part);
    if (c->injects) PH_TRY(ph_model_inject(m, c->inject_layer, c->inject_alpha, err));
    if (c->part && !strcmp(c->part, "all")) return write_all(c, &p, &how, r, err);
    if (!c->part && p.n > 1)
        return PH_FAIL(err, PH_EUSAGE, "%.160s has several parts: name one with --part (%s), or all", c->in,
                       list(&p, text));
    for (size_t i = 0; i < p.n; i++)
        if (!c->part || !strcmp(c->part, p.graph[i]->name))
            return write_part(c, p.graph[i], NULL, c->out, &how, r, err);
    return PH_FAIL(err, PH_EUSAGE, "%.160s has no part '%.40s': --part takes %s, or all", c->in, c->part,
                   list(&p, text));
}

static ph_rc convert_onnx(const ph_convert_onnx *c, const ph_onnx *file, ph_convert_onnx_report *r,
                          ph_err *err) {
    ph_kernels         kernels;
    ph_onnx_graph      g;
    ph_onnx_export_how how = c->how;
    ph_kernels_init(&kernels, 0);
    const ph_onnx_import_how in = {.kernels = &kernels, .user = c->user};
    PH_TRY(ph_onnx_import(&g, file, &in, err));
    how.symbol = g.symbol;
    ph_rc rc = write_part(c, g.graph, file, c->out, &how, r, err);
    ph_onnx_graph_close(&g);
    return rc;
}

ph_rc ph_convert_onnx_run(const ph_convert_onnx *c, ph_convert_onnx_report *report, ph_err *err) {
    ph_container           what;
    const ph_model_options options = {.mmproj = c->mmproj, .is_plan_only = 1};
    ph_model              *m;
    ph_onnx                file;
    *report = (ph_convert_onnx_report){0};
    PH_TRY(ph_container_detect(c->in, &what, err));
    if (what == PH_CONTAINER_ONNX) {
        if (c->part || c->mmproj || c->injects)
            return PH_FAIL(
                err, PH_EUSAGE,
                "%.160s is an ONNX file, which is one part: leave --part, --mmproj and --inject away", c->in);
        PH_TRY(ph_onnx_open(&file, c->in, err));
        ph_rc rc = convert_onnx(c, &file, report, err);
        ph_onnx_close(&file);
        return rc;
    }
    if (c->user)
        return PH_FAIL(err, PH_EUSAGE, "%.160s is no ONNX file: --plugin is for operators of ONNX files",
                       c->in);
    PH_TRY(ph_model_open(&m, c->in, &options, err));
    ph_rc rc = convert_model(c, m, report, err);
    ph_model_close(m);
    return rc;
}
