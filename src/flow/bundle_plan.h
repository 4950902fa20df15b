/* bundle_plan.h - the memory that was planned for a model, kept in its bundle.
 *
 *     pinhole.bundle.plan.isa                       text: the instruction set that it is for
 *     pinhole.bundle.plan.context ... threads       u32: the load (ph_load), the default one
 *     pinhole.bundle.plan.input ... pools, kv       u64: bytes by the six kinds, and the cache
 *
 * It is of the largest phase once the model is open, so that it depends on the model, the load and the
 * kernels alone: what opening takes, the tokenizer's tables and the process itself are the machine's.
 */
#ifndef PH_FLOW_BUNDLE_PLAN_H
#define PH_FLOW_BUNDLE_PLAN_H

#include "flow/flow.h"
#include "formats/gguf_write.h"

typedef struct ph_bundle_plan {
    ph_load   load;
    ph_memory memory; /* the six kinds and kv; the others are 0, total is the sum */
    char      isa[16];
} ph_bundle_plan;

/* The plan of the default load, with so many threads; isa: as in ph_session_options.  Errors: as
 * ph_session_plan. */
ph_rc ph_bundle_plan_make(ph_bundle_plan *p, const ph_model *m, int threads, const char *isa, ph_err *err);

void ph_bundle_plan_put(const ph_bundle_plan *p, ph_gguf_meta *meta);
/* The numbers and the text of keys that were put, in the head[] that g was read of, become p's.  Errors:
 * PH_EBUG there is no such key, or not of that size. */
ph_rc ph_bundle_plan_change(const ph_bundle_plan *p, const ph_gguf *g, uint8_t *head, ph_err *err);
/* What a bundle's own keys say.  *found 0: nothing.  Errors: PH_EFORMAT some of it is missing or no such
 * number. */
ph_rc ph_bundle_plan_read(ph_bundle_plan *p, const ph_gguf *own, int *found, ph_err *err);

/* Do they agree, in load, instruction set and bytes (of weights and engine within 128 KiB)?  Else what
 * differs first, as text. */
int ph_bundle_plan_same(const ph_bundle_plan *kept, const ph_bundle_plan *now, char *why, size_t size);

#endif
