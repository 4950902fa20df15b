/* jinja_method.h - the prototypes behind the rows of jinja_method.def. */
#ifndef PH_TEXT_JINJA_METHOD_H
#define PH_TEXT_JINJA_METHOD_H

#include "text/jinja_impl.h"

/* Several rows share a function; repeating a prototype is harmless. */
#define PH_JINJA_METHOD(kind, name, fn, params)                                                              \
    ph_rc ph_jm_##fn(ph_jrun *r, ph_jv self, ph_jv *arg, ph_jv *out);
#include "text/jinja_method.def"
#undef PH_JINJA_METHOD

#endif
