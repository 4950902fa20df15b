/* bundle_plan.c - a plan to keys of a bundle and back.  See bundle_plan.h. */
#include "flow/bundle_plan.h"

#include "base/mem.h"
#include "formats/bundle.h"
#include "kernels/kernels.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PLAN_KEY PH_BUNDLE_KEY "plan."

static const char isa_key[] = PLAN_KEY "isa";

typedef struct row {
    const char *name;
    size_t      at; /* within ph_bundle_plan */
} row;

static const row loads[] = {
    {"context", offsetof(ph_bundle_plan, load.context)},
    {"sequences", offsetof(ph_bundle_plan, load.sequences)},
    {"images", offsetof(ph_bundle_plan, load.images)},
    {"tiles", offsetof(ph_bundle_plan, load.tiles)},
    {"chunk", offsetof(ph_bundle_plan, load.chunk)},
    {"threads", offsetof(ph_bundle_plan, load.threads)},
};
static const row kinds[] = {
    {"input", offsetof(ph_bundle_plan, memory.input)},
    {"activations", offsetof(ph_bundle_plan, memory.activations)},
    {"weights", offsetof(ph_bundle_plan, memory.weights)},
    {"engine", offsetof(ph_bundle_plan, memory.engine)},
    {"reserve", offsetof(ph_bundle_plan, memory.reserve)},
    {"pools", offsetof(ph_bundle_plan, memory.pools)},
    {"kv", offsetof(ph_bundle_plan, memory.kv)},
};
enum { THREADS_MAX = 256 /* workers to plan for, of a file's word */ };
enum { N_LOADS = sizeof loads / sizeof *loads, N_KINDS = sizeof kinds / sizeof *kinds };

static int load_at(const ph_bundle_plan *p, size_t i) {
    return *(const int *)(const void *)((const char *)p + loads[i].at);
}

static size_t kind_at(const ph_bundle_plan *p, size_t i) {
    return *(const size_t *)(const void *)((const char *)p + kinds[i].at);
}

static void set_load(ph_bundle_plan *p, size_t i, int value) {
    *(int *)(void *)((char *)p + loads[i].at) = value;
}

static void set_kind(ph_bundle_plan *p, size_t i, size_t value) {
    *(size_t *)(void *)((char *)p + kinds[i].at) = value;
}

static void key_of(char out[64], const char *name) {
    snprintf(out, 64, PLAN_KEY "%s", name);
}

/* ---- made ---- */

ph_rc ph_bundle_plan_make(ph_bundle_plan *p, const ph_model *m, int threads, const char *isa, ph_err *err) {
    const ph_session_options how = {.threads = threads, .isa = isa};
    unsigned                 features;
    ph_plan                  plan;
    ph_phase                 most = PH_PHASE_STEP;
    *p = (ph_bundle_plan){0};
    PH_TRY(ph_kernels_features(isa, &features, err));
    snprintf(p->isa, sizeof p->isa, "%s", ph_kernels_isa(features));
    PH_TRY(ph_session_plan(m, &how, &plan, err));
    for (ph_phase i = PH_PHASE_SEE; i < PH_N_PHASES; i++)
        if (plan.phase[i].total > plan.phase[most].total) most = i;
    p->load = plan.load;
    p->memory = plan.phase[most];
    p->memory.tokenizer = p->memory.base = 0;
    ph_memory_sum(&p->memory);
    return PH_OK;
}

/* ---- in keys ---- */

/* A text of a fixed size, so that another can take its place. */
static void padded(char out[sizeof((ph_bundle_plan *)0)->isa], const ph_bundle_plan *p) {
    memset(out, ' ', sizeof p->isa);
    memcpy(out, p->isa, strlen(p->isa));
}

void ph_bundle_plan_put(const ph_bundle_plan *p, ph_gguf_meta *meta) {
    char key[64], isa[sizeof p->isa];
    padded(isa, p);
    ph_gguf_put_text(meta, isa_key, isa, sizeof isa);
    for (size_t i = 0; i < N_LOADS; i++) {
        key_of(key, loads[i].name);
        ph_gguf_put_int(meta, key, PH_GGUF_U32, load_at(p, i));
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        key_of(key, kinds[i].name);
        ph_gguf_put_int(meta, key, PH_GGUF_U64, (int64_t)kind_at(p, i));
    }
}

static ph_rc change(const ph_gguf *g, uint8_t *head, const char *key, const void *value, size_t n,
                    ph_err *err) {
    static const size_t bytes[PH_GGUF_N_TYPES] = {[PH_GGUF_U32] = 4, [PH_GGUF_U64] = 8};
    const ph_gguf_kv   *kv = ph_gguf_find(g, key);
    ph_gguf_text        text = {0};
    if (kv && kv->type == PH_GGUF_TEXT) PH_TRY(ph_gguf_text_of(g, key, &text, err));
    const uint8_t *at = text.n ? (const uint8_t *)text.at : kv ? kv->at : NULL;
    if (!kv || kv->is_array || (text.n ? text.n : bytes[kv->type]) != n)
        return PH_FAIL(err, PH_EBUG, "%s: key %s is not as it was written", g->name, key);
    memcpy(head + (at - g->seal.bytes), value, n);
    return PH_OK;
}

ph_rc ph_bundle_plan_change(const ph_bundle_plan *p, const ph_gguf *g, uint8_t *head, ph_err *err) {
    char key[64], isa[sizeof p->isa];
    padded(isa, p);
    PH_TRY(change(g, head, isa_key, isa, sizeof isa, err));
    for (size_t i = 0; i < N_LOADS; i++) {
        uint32_t value = (uint32_t)load_at(p, i);
        key_of(key, loads[i].name);
        PH_TRY(change(g, head, key, &value, sizeof value, err));
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        uint64_t value = kind_at(p, i);
        key_of(key, kinds[i].name);
        PH_TRY(change(g, head, key, &value, sizeof value, err));
    }
    return PH_OK;
}

ph_rc ph_bundle_plan_read(ph_bundle_plan *p, const ph_gguf *own, int *found, ph_err *err) {
    char         key[64];
    ph_gguf_text isa;
    *p = (ph_bundle_plan){0};
    *found = ph_gguf_find(own, isa_key) != NULL;
    if (!*found) return PH_OK;
    PH_TRY(ph_gguf_text_of(own, isa_key, &isa, err));
    while (isa.n && isa.at[isa.n - 1] == ' ') isa.n--;
    for (size_t i = 0; i < isa.n; i++)
        if (isa.n >= sizeof p->isa || !(isalnum((unsigned char)isa.at[i]) || isa.at[i] == '_'))
            return PH_FAIL(err, PH_EFORMAT, "%s: key %s names no instruction set", own->name, isa_key);
    snprintf(p->isa, sizeof p->isa, "%.*s", (int)isa.n, isa.at);
    for (size_t i = 0; i < N_LOADS; i++) {
        int value;
        key_of(key, loads[i].name);
        PH_TRY(
            ph_gguf_size(own, key, 0, strcmp(loads[i].name, "threads") ? INT_MAX : THREADS_MAX, &value, err));
        set_load(p, i, value);
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        int64_t value;
        key_of(key, kinds[i].name);
        PH_TRY(ph_gguf_int(own, key, &value, err));
        if (value < 0 || value > INT64_MAX / N_KINDS)
            return PH_FAIL(err, PH_EFORMAT, "%s: key %s is %lld, no number of bytes", own->name, key,
                           (long long)value);
        set_kind(p, i, (size_t)value);
    }
    ph_memory_sum(&p->memory);
    return PH_OK;
}

/* Tables of a model are carved from blocks, and how many are begun hangs on the length of its path; numbers
 * that are computed at opening (1 + w) stand where the allocator puts them, over a page more or less. */
static size_t slack_of(size_t i) {
    int hangs = kinds[i].at == offsetof(ph_bundle_plan, memory.engine) ||
                kinds[i].at == offsetof(ph_bundle_plan, memory.weights);
    return hangs ? 128 << 10 : 0;
}

int ph_bundle_plan_same(const ph_bundle_plan *kept, const ph_bundle_plan *now, char *why, size_t size) {
    char a[32], b[32];
    *why = 0;
    if (strcmp(kept->isa, now->isa)) {
        snprintf(why, size, "it is for %s, here is %s", kept->isa, now->isa);
        return 0;
    }
    for (size_t i = 0; i < N_LOADS; i++) {
        if (load_at(kept, i) == load_at(now, i)) continue;
        snprintf(why, size, "%s: %d in the bundle, %d now", loads[i].name, load_at(kept, i), load_at(now, i));
        return 0;
    }
    for (size_t i = 0; i < N_KINDS; i++) {
        size_t x = kind_at(kept, i), y = kind_at(now, i);
        if ((x > y ? x - y : y - x) <= slack_of(i)) continue;
        ph_size_print(a, sizeof a, x);
        ph_size_print(b, sizeof b, y);
        snprintf(why, size, "%s: %s in the bundle, %s now", kinds[i].name, a, b);
        return 0;
    }
    return 1;
}
