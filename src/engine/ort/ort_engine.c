/* ort_engine.c - the row "ort" of the table of engines: the library and what all programs share. */
#include "engine/ort/ort_engine.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that became resident when the library was loaded, and when it was first set up: their pages stay,
 * whoever closes what. */
static atomic_size_t library_bytes, setup_bytes;

static void note_growth(atomic_size_t *to, size_t before, size_t after) {
    size_t none = 0;
    if (after > before) atomic_compare_exchange_strong(to, &none, after - before);
}

static ph_rc probe(ph_err *err) {
    ph_ort_library lib;
    size_t         before = ph_mem_resident();
    PH_TRY(ph_ort_probe(&lib, err));
    note_growth(&library_bytes, before, ph_mem_resident());
    return PH_OK;
}

/* ---- devices: execution providers ---- */

/* "cuda", "openvino:npu": text is cut into pieces in place, which *ep points to. */
static ph_rc read_device(ph_ort_ep *ep, char *text, ph_err *err) {
    char *kind = strchr(text, ':');
    if (kind) *kind++ = 0;
    *ep = (ph_ort_ep){.name = text, .n = kind != NULL, .key = {"device"}, .value = {kind}};
    if (*text && (!kind || !strcmp(kind, "cpu") || !strcmp(kind, "gpu") || !strcmp(kind, "npu")))
        return PH_OK;
    return PH_FAIL(err, PH_EUSAGE,
                   "a device of engine ort is an execution provider, with cpu, gpu or npu behind it where it "
                   "has several: ort:cuda, ort:openvino:npu");
}

static ph_rc device(const char *name, ph_engine_class *cls, ph_err *err) {
    char      text[sizeof((ph_ort_engine *)0)->text];
    ph_ort_ep ep;
    if (strlen(name) >= sizeof text)
        return PH_FAIL(err, PH_EUSAGE, "a device of engine ort: %zu bytes, at most %zu are one", strlen(name),
                       sizeof text - 1);
    strcpy(text, name);
    PH_TRY(read_device(&ep, text, err));
    *cls = ph_ort_ep_class(&ep);
    return PH_OK;
}

static ph_rc take_device(ph_ort_engine *e, ph_err *err) {
    ph_engine_class cls;
    if (!e->base.env.device) return PH_OK;
    PH_TRY(device(e->base.env.device, &cls, err));
    strcpy(e->device, e->base.env.device);
    strcpy(e->text, e->device);
    e->base.env.device = e->device;
    PH_TRY(read_device(&e->ep, e->text, err));
    return ph_ort_ep_check(e->ort, &e->ep, err);
}

/* Providers, and of those that plug-ins brought the kinds of device that are here.  The CPU's is the default;
 * azure's computes elsewhere. */
static int device_at(const ph_engine *engine, size_t i, char *out, size_t size) {
    const ph_ort_engine *e = (const ph_ort_engine *)engine;
    ph_ort_ep_state      s;
    for (size_t k = 0; ph_ort_ep_at(e->ort, k, &s); k++) {
        if (!s.is_here || !strcmp(s.name, "cpu") || !strcmp(s.name, "azure")) continue;
        int n_kinds = 0;
        for (int c = 0; c < PH_N_ENGINE_CLASSES; c++) {
            if (!(s.kinds >> c & 1)) continue;
            n_kinds++;
            snprintf(out, size, "%s:%s", s.name, ph_engine_class_name((ph_engine_class)c));
            if (!i--) return 1;
        }
        if (n_kinds) continue;
        snprintf(out, size, "%s", s.name);
        if (!i--) return 1;
    }
    return 0;
}

static ph_rc open_engine(ph_engine **out, const ph_engine_env *env, ph_err *err) {
    *out = NULL;
    if (!env->threads)
        return PH_FAIL(err, PH_EUSAGE, "engine ort needs threads, of which it takes the number");
    PH_TRY(probe(err));
    ph_ort_engine *e = calloc(1, sizeof *e);
    if (!e) return PH_FAIL(err, PH_ENOMEM, "engine ort");
    size_t before = ph_mem_resident();
    e->base = (ph_engine){.def = &ph_engine_ort, .env = *env};
    ph_rc rc = ph_ort_open(&e->ort, ph_threads_count(env->threads), err);
    if (!rc) rc = take_device(e, err);
    if (rc) {
        ph_ort_close(e->ort);
        free(e);
        return rc;
    }
    note_growth(&setup_bytes, before, ph_mem_resident());
    *out = &e->base;
    return PH_OK;
}

static void close_engine(ph_engine *engine) {
    ph_ort_engine *e = (ph_ort_engine *)engine;
    ph_ort_close(e->ort);
    free(e);
}

static void version(char *out, size_t size) {
    ph_ort_library lib;
    snprintf(out, size, "%s", ph_ort_probe(&lib, NULL) ? "" : lib.release);
}

/* Pages of ORT's code that opening a session and running first touch: as found with release 1.32 on x86-64.
 */
enum { CODE_BYTES = 9 << 20 };

static size_t holds(const ph_engine *e) {
    (void)e;
    return atomic_load(&library_bytes) + atomic_load(&setup_bytes) + CODE_BYTES;
}

static ph_rc takes(const ph_graph *g, ph_err *err) {
    return ph_guest_takes(g, "ort", err);
}

static double estimate_us(const ph_engine *e, const ph_graph *g, const ph_syms *syms) {
    return ph_engine_estimate_us(g, syms, ph_threads_count(e->env.threads));
}

static ph_rc profile(ph_program *program, ph_err *err) {
    ph_ort_program *p = (ph_ort_program *)program;
    return p->session ? ph_ort_profile(p->session, err) : PH_OK;
}

const ph_engine_def ph_engine_ort = {
    .name = "ort",
    .cls = PH_ENGINE_CPU,
    .device = device,
    .device_at = device_at,
    .version = version,
    .probe = probe,
    .open = open_engine,
    .close = close_engine,
    .holds = holds,
    .supports = ph_guest_supports,
    .takes = takes,
    .estimate_us = estimate_us,
    .compile = ph_ort_compile,
    .need = ph_guest_need,
    .bind = ph_guest_bind,
    .buffer = ph_guest_buffer,
    .lend = ph_guest_lend,
    .run = ph_ort_step,
    .reset = ph_guest_reset,
    .close_program = ph_ort_close_program,
    .profile = profile,
};
