/* canonical.h - texts as SigLIP's trainers wrote them: lower case, no punctuation, single spaces.
 *
 * Source: transformers 4.57 models/siglip/tokenization_siglip.py (canonicalize_text, do_lower_case).
 */
#ifndef PH_TEXT_CANONICAL_H
#define PH_TEXT_CANONICAL_H

#include "text/bytebuf.h"

/* text[n], UTF-8, appended to *out.  Errors: PH_ENOMEM, PH_ELIMIT. */
ph_rc ph_text_canonical(const char *text, size_t n, ph_bytes *out, ph_err *err);

#endif
