/* bundle.h - one GGUF file with all parts of a model, sealed.
 *
 *     pinhole.bundle.version          u32, that of the seal (seal.h)
 *     pinhole.bundle.program          text: what made it
 *     pinhole.bundle.vision_tensors   u64: so many tensors are those of a vision file; none: no key
 *     pinhole.bundle.extra_tensors    u64: and so many, behind them, are no part of the model; none: no key
 *     pinhole.bundle.tokenizer        text: the extra tensor that has the tokenizer's tables ready-made
 *                                     (text/tokimage.h); none: no key
 *     pinhole.bundle.mmproj.KEY       the vision file's key KEY
 *     pinhole.bundle.plan.*           the memory that was planned for it (flow/bundle_plan.h)
 *     pinhole.bundle.*                whatever else: not looked at
 *     all other keys                  those of the language file, or of the directory it carries (carried.h)
 *     tensors                         the language file's or the directory's, the vision file's, the extra ones
 *
 * Extra tensors are under the seal and are otherwise left alone: what a later program keeps beside a model,
 * as weights packed for one instruction set, does not stop this one.  Docs: docs/reference/bundle.md,
 * docs/adr/0177.
 */
#ifndef PH_FORMATS_BUNDLE_H
#define PH_FORMATS_BUNDLE_H

#include "formats/gguf.h"

#define PH_BUNDLE_KEY         "pinhole.bundle."
#define PH_BUNDLE_VERSION_KEY PH_BUNDLE_KEY "version"
#define PH_BUNDLE_PROGRAM_KEY PH_BUNDLE_KEY "program"
#define PH_BUNDLE_VISION_KEY  PH_BUNDLE_KEY "vision_tensors"
#define PH_BUNDLE_EXTRA_KEY   PH_BUNDLE_KEY "extra_tensors"
#define PH_BUNDLE_MMPROJ_KEY  PH_BUNDLE_KEY "mmproj."
#define PH_BUNDLE_TOKENS_KEY  PH_BUNDLE_KEY "tokenizer"

typedef struct ph_bundle {
    uint32_t   version;    /* 0: the file is no bundle */
    int        has_vision; /* it holds the tensors of a vision file */
    ph_gguf    own;        /* its own keys, under their whole names; the extra tensors */
    ph_weights all;        /* as they stand in the file */
    ph_file   *file;       /* NULL: bytes in memory */
    ph_seal    seal;
} ph_bundle;

/* What the file g holds, taken apart: g becomes the language file or the carrier, and *vision the vision
 * file, if there is one; it owns no map.  A file that is no bundle stays as it is.  Tables are carved from
 * arena, which lives as long as g. Errors: PH_EFORMAT a bundle without a seal (says whether it was cut, or
 * goes on), a seal without a bundle's keys, counts that contradict the tensors; PH_EUNSUP another version. */
ph_rc ph_bundle_open(ph_bundle *b, ph_gguf *g, ph_gguf *vision, ph_arena *arena, ph_err *err);

/* The extra tensor with the tokenizer's tables; NULL: there is none.  Errors: PH_EFORMAT the key names a
 * tensor that is not there, or no row of bytes. */
ph_rc ph_bundle_tokens(const ph_bundle *b, const ph_weight **out, ph_err *err);

/* Hold the data against the seal, on as many threads as processors.  A file that is no bundle is PH_OK.
 * Errors: PH_EFORMAT bytes that are not what they were, with their place and tensor. */
ph_rc ph_bundle_check(const ph_bundle *b, ph_err *err);

#endif
