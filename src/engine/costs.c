/* costs.c - measured times, and the file that they are kept in.  See costs.h. */
#include "engine/costs.h"

#include "base/cpu.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/produce.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

static const char *const stages[PH_N_COST_STAGES] = {"see", "bridge", "prefill", "step"};

const char *ph_cost_stage_name(ph_cost_stage s) {
    return stages[s];
}

void ph_cost_key_device(ph_cost_key *key, const char *isa, int threads) {
    ph_cpu_name(key->cpu, sizeof key->cpu);
    snprintf(key->isa, sizeof key->isa, "%s", isa);
    key->processors = ph_cpu_count();
    key->threads = threads;
}

/* ---- reading ---- */

enum { THREADS_MAX = 256, PROCESSORS_MAX = 1 << 16, ROUNDS_MAX = 1 << 16 };
#define HOLDS_MAX ((int64_t)1 << 40)
#define US_MAX    1e13 /* a third of a year */

static ph_rc text(const ph_json *o, const char *key, char *out, size_t size, ph_err *err) {
    const char *s;
    PH_TRY(ph_json_text(o, key, &s, err));
    if (strlen(s) >= size)
        return PH_FAIL(err, PH_EFORMAT, "%s.%s: %zu bytes, at most %zu are one", o->where, key, strlen(s),
                       size - 1);
    memcpy(out, s, strlen(s) + 1);
    return PH_OK;
}

static ph_rc read_us(const ph_json *o, const char *key, double *out, ph_err *err) {
    PH_TRY(ph_json_real(o, key, out, err));
    if (isfinite(*out) && *out > 0 && *out <= US_MAX) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s.%s: %g microseconds are no time", o->where, key, *out);
}

static ph_rc read_stage(const ph_json *o, ph_cost_stage *out, ph_err *err) {
    const char *s;
    PH_TRY(ph_json_text(o, "stage", &s, err));
    for (int i = 0; i < PH_N_COST_STAGES; i++)
        if (!strcmp(s, stages[i])) {
            *out = (ph_cost_stage)i;
            return PH_OK;
        }
    return PH_FAIL(err, PH_EFORMAT, "%s.stage: '%.40s' is none of see, bridge, prefill, step", o->where, s);
}

static ph_rc read_sizes(const ph_json *o, ph_syms *out, ph_err *err) {
    ph_json     sizes = ph_json_get(o, "sizes"), value;
    const char *key;
    int         is_there;
    *out = (ph_syms){{0}};
    PH_TRY(ph_json_want(&sizes, PH_JSON_OBJECT, &is_there, err));
    for (ph_json_iter it = ph_json_members(&sizes); ph_json_next(&it, &key, &value);) {
        const char *at = key[0] && !key[1] ? strchr(ph_sym_letters, key[0]) : NULL;
        if (!at) return PH_FAIL(err, PH_EFORMAT, "%s: no size is called '%.20s'", sizes.where, key);
        PH_TRY(ph_json_to_int(&value, &out->at[at - ph_sym_letters], err));
        if (out->at[at - ph_sym_letters] < 0 || out->at[at - ph_sym_letters] > INT32_MAX)
            return PH_FAIL(err, PH_EFORMAT, "%s: a size of %lld", value.where,
                           (long long)out->at[at - ph_sym_letters]);
    }
    return PH_OK;
}

static ph_rc read_cost(ph_costs *c, const ph_json *o, ph_err *err) {
    if (c->n == PH_COSTS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: more than %d costs", o->where, PH_COSTS_MAX);
    ph_cost *x = &c->at[c->n];
    int64_t  holds;
    PH_TRY(read_stage(o, &x->stage, err));
    PH_TRY(text(o, "engine", x->engine, sizeof x->engine, err));
    PH_TRY(text(o, "release", x->release, sizeof x->release, err));
    PH_TRY(read_sizes(o, &x->sizes, err));
    PH_TRY(ph_json_int(o, "holds", &holds, err));
    if (holds < 0 || holds > HOLDS_MAX)
        return PH_FAIL(err, PH_EFORMAT, "%s.holds: %lld bytes", o->where, (long long)holds);
    x->holds = (size_t)holds;
    PH_TRY(read_us(o, "us", &x->us, err));
    PH_TRY(read_us(o, "least", &x->least, err));
    PH_TRY(read_us(o, "most", &x->most, err));
    if (x->least > x->us || x->us > x->most)
        return PH_FAIL(err, PH_EFORMAT, "%s: a median of %g outside %g to %g", o->where, x->us, x->least,
                       x->most);
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i].stage == x->stage && !strcmp(c->at[i].engine, x->engine))
            return PH_FAIL(err, PH_EFORMAT, "%s: %s on %s stands there twice", o->where, stages[x->stage],
                           x->engine);
    c->n++;
    return PH_OK;
}

/* Zero is fine: what takes no time was timed. */
static ph_rc read_amount(const ph_json *o, const char *key, double *out, ph_err *err) {
    PH_TRY(ph_json_real(o, key, out, err));
    if (*out >= 0 && *out <= US_MAX) return PH_OK;
    return PH_FAIL(err, PH_EFORMAT, "%s.%s: %g is out of range", o->where, key, *out);
}

static ph_rc read_kind(ph_costs *c, const ph_json *o, ph_err *err) {
    if (c->n_kinds == PH_COST_KINDS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: more than %d kinds", o->where, PH_COST_KINDS_MAX);
    ph_cost_kind *k = &c->kind[c->n_kinds];
    PH_TRY(read_stage(o, &k->stage, err));
    PH_TRY(text(o, "engine", k->engine, sizeof k->engine, err));
    PH_TRY(text(o, "kind", k->kind, sizeof k->kind, err));
    PH_TRY(read_amount(o, "us", &k->us, err));
    PH_TRY(read_amount(o, "runs", &k->runs, err));
    c->n_kinds++;
    return PH_OK;
}

static ph_rc read_kinds(ph_costs *c, const ph_json *root, ph_err *err) {
    ph_json kinds = ph_json_get(root, "kinds");
    int     is_there;
    PH_TRY(ph_json_want(&kinds, PH_JSON_ARRAY, &is_there, err));
    for (size_t i = 0; is_there && i < ph_json_count(&kinds); i++) {
        ph_json one = ph_json_at(&kinds, i);
        PH_TRY(read_kind(c, &one, err));
    }
    return PH_OK;
}

int ph_costs_kinds_of(const ph_costs *c, ph_cost_stage stage, const char *engine) {
    int n = 0;
    for (size_t i = 0; i < c->n_kinds; i++)
        n += c->kind[i].stage == stage && !strcmp(c->kind[i].engine, engine);
    return n;
}

static ph_rc read_key(ph_cost_key *k, const ph_json *root, ph_err *err) {
    ph_json device = ph_json_get(root, "device");
    PH_TRY(text(&device, "cpu", k->cpu, sizeof k->cpu, err));
    PH_TRY(text(&device, "isa", k->isa, sizeof k->isa, err));
    PH_TRY(ph_json_size(&device, "processors", 1, PROCESSORS_MAX, &k->processors, err));
    PH_TRY(ph_json_size(root, "threads", 1, THREADS_MAX, &k->threads, err));
    PH_TRY(text(root, "model", k->model, sizeof k->model, err));
    if (strlen(k->model) != PH_FINGERPRINT - 1 || strspn(k->model, "0123456789abcdef") != PH_FINGERPRINT - 1)
        return PH_FAIL(err, PH_EFORMAT, "%s.model: no %d hexadecimal digits", root->where,
                       PH_FINGERPRINT - 1);
    return text(root, "options", k->options, sizeof k->options, err);
}

static ph_rc read_root(ph_costs *c, const ph_json *root, ph_err *err) {
    int64_t version;
    int     is_there;
    PH_TRY(ph_json_int(root, "pinhole_costs", &version, err));
    if (version != PH_COSTS_VERSION)
        return PH_FAIL(err, PH_EUNSUP, "%s: costs of version %lld; this program reads %d", root->where,
                       (long long)version, PH_COSTS_VERSION);
    PH_TRY(read_key(&c->key, root, err));
    PH_TRY(ph_json_size(root, "rounds", 1, ROUNDS_MAX, &c->rounds, err));
    ph_json costs = ph_json_get(root, "costs");
    PH_TRY(ph_json_want(&costs, PH_JSON_ARRAY, &is_there, err));
    if (!is_there) return PH_FAIL(err, PH_EFORMAT, "%s.costs: there are none", root->where);
    for (size_t i = 0; i < ph_json_count(&costs); i++) {
        ph_json one = ph_json_at(&costs, i);
        PH_TRY(read_cost(c, &one, err));
    }
    return read_kinds(c, root, err);
}

ph_rc ph_costs_read(ph_costs *c, const void *bytes, size_t n, const char *name, ph_err *err) {
    ph_json_doc doc = {0};
    memset(c, 0, sizeof *c);
    ph_rc   rc = ph_json_parse(&doc, bytes, n, name, err);
    ph_json root = ph_json_root(&doc);
    if (!rc) rc = read_root(c, &root, err);
    ph_json_close(&doc);
    return rc;
}

ph_rc ph_costs_open(ph_costs *c, const char *path, ph_err *err) {
    const char *slash = strrchr(path, '/');
    ph_file     f;
    PH_TRY(ph_file_open_text(&f, path, PH_COSTS_BYTES_MAX, err));
    ph_rc rc = ph_costs_read(c, f.bytes, f.n, slash ? slash + 1 : path, err);
    ph_file_close(&f);
    return rc;
}

/* ---- writing ---- */

static json_t *sizes_json(const ph_syms *s) {
    json_t *o = json_object();
    for (int i = 0; i < PH_N_SYMS; i++) {
        const char name[2] = {ph_sym_letters[i], 0};
        if (s->at[i]) json_object_set_new(o, name, json_integer((json_int_t)s->at[i]));
    }
    return o;
}

static json_t *costs_json(const ph_costs *c) {
    json_t *a = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const ph_cost *x = &c->at[i];
        json_array_append_new(a, json_pack("{ss ss ss so sI sf sf sf}", "stage", stages[x->stage], "engine",
                                           x->engine, "release", x->release, "sizes", sizes_json(&x->sizes),
                                           "holds", (json_int_t)x->holds, "us", x->us, "least", x->least,
                                           "most", x->most));
    }
    return a;
}

static json_t *kinds_json(const ph_costs *c) {
    json_t *a = json_array();
    for (size_t i = 0; i < c->n_kinds; i++) {
        const ph_cost_kind *k = &c->kind[i];
        json_array_append_new(a, json_pack("{ss ss ss sf sf}", "stage", stages[k->stage], "engine", k->engine,
                                           "kind", k->kind, "us", k->us, "runs", k->runs));
    }
    return a;
}

static json_t *root_json(const ph_costs *c) {
    const ph_cost_key *k = &c->key;
    return json_pack("{si s{ss ss si} si ss ss si so so}", "pinhole_costs", PH_COSTS_VERSION, "device", "cpu",
                     k->cpu, "isa", k->isa, "processors", k->processors, "threads", k->threads, "model",
                     k->model, "options", k->options, "rounds", c->rounds, "costs", costs_json(c), "kinds",
                     kinds_json(c));
}

ph_rc ph_costs_write(const ph_costs *c, const char *path, ph_err *err) {
    ph_part_file f;
    json_t      *o = root_json(c);
    if (!o) return PH_FAIL(err, PH_ENOMEM, "the text of %zu costs", c->n);
    ph_rc rc = ph_part_open_through(&f, path, err);
    if (!rc) {
        if (json_dumpf(o, f.to,
                       JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9)) ||
            putc('\n', f.to) == EOF)
            rc = PH_FAIL(err, PH_EIO, "%s cannot be written: %s", path, strerror(errno));
        rc = ph_part_close(&f, rc, err);
    }
    json_decref(o);
    return rc;
}

/* ---- which are meant ---- */

int ph_cost_key_same(const ph_cost_key *a, const ph_cost_key *b, char *why, size_t size) {
    if (strcmp(a->cpu, b->cpu) || a->processors != b->processors)
        snprintf(why, size, "they are of %d processors '%.60s', these are %d '%.60s'", a->processors, a->cpu,
                 b->processors, b->cpu);
    else if (strcmp(a->isa, b->isa))
        snprintf(why, size, "they are of kernels for %s, these are for %s", a->isa, b->isa);
    else if (strcmp(a->model, b->model))
        snprintf(why, size, "they are of another model (%s), this is %s", a->model, b->model);
    else if (a->threads != b->threads)
        snprintf(why, size, "they are of %d threads, here are %d", a->threads, b->threads);
    else if (strcmp(a->options, b->options))
        snprintf(why, size, "they are of other options (%s), these are %s", a->options, b->options);
    else
        return 1;
    return 0;
}

/* ---- where they are kept ---- */

static void hash(const ph_cost_key *k, char out[PH_FINGERPRINT]) {
    char               all[512];
    XXH128_canonical_t at;
    int n = snprintf(all, sizeof all, "%s\n%s\n%d\n%d\n%s\n%s", k->cpu, k->isa, k->processors, k->threads,
                     k->model, k->options);
    XXH128_canonicalFromHash(&at, XXH3_128bits(all, n > 0 && n < (int)sizeof all ? (size_t)n : 0));
    for (size_t i = 0; i < sizeof at.digest; i++) snprintf(out + 2 * i, 3, "%02x", at.digest[i]);
}

/* Every folder on the way to path's last name. */
static ph_rc make_folders(char *path, ph_err *err) {
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        int is_wrong = mkdir(path, 0700) && errno != EEXIST;
        if (is_wrong)
            return PH_FAIL(err, PH_EPATH, "%s: no folder can be made there: %s; name a file instead", path,
                           strerror(errno));
        *at = '/';
    }
    return PH_OK;
}

ph_rc ph_costs_place(char *out, size_t size, const ph_cost_key *key, int is_made, ph_err *err) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char        name[PH_FINGERPRINT];
    int         is_own = cache && *cache == '/'; /* by its specification others are ignored */
    if (!is_own && !(home && *home == '/'))
        return PH_FAIL(err, PH_EPATH,
                       "neither XDG_CACHE_HOME nor HOME names a folder for measured costs: name a file");
    hash(key, name);
    int n = snprintf(out, size, "%s%s/pinhole/costs-%s.json", is_own ? cache : home, is_own ? "" : "/.cache",
                     name);
    if (n < 0 || (size_t)n >= size)
        return PH_FAIL(err, PH_EPATH, "the path of measured costs is longer than %zu bytes: name a file",
                       size - 1);
    return is_made ? make_folders(out, err) : PH_OK;
}
