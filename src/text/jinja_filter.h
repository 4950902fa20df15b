/* jinja_filter.h - the prototypes behind the rows of jinja_filter.def, and what filters share. */
#ifndef PH_TEXT_JINJA_FILTER_H
#define PH_TEXT_JINJA_FILTER_H

#include "text/jinja_impl.h"

#define PH_JINJA_FILTER(name, fn, params) ph_rc ph_jf_##fn(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out);
#include "text/jinja_filter.def"
#undef PH_JINJA_FILTER

static inline int ph_jf_given(ph_jv v) {
    return v.kind != PH_J_MISSING;
}
/* An int argument, or its default when missing; None and other types are a TypeError. */
ph_rc ph_jf_int(ph_jrun *r, ph_jv v, int64_t otherwise, int64_t *out);
/* str(v) as a string, "" for undefined. */
ph_rc ph_jf_str(ph_jrun *r, ph_jv v, const ph_jstr **out);
/* What min, max, sort, unique compare: the attribute (or the item), lowered unless case matters. */
ph_rc ph_jf_key(ph_jrun *r, ph_jv item, ph_jv attribute, int case_sensitive, ph_jv *out);

#endif
