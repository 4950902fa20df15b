/* op.c - the table of operators, made from op.def. */
#include "graph/op.h"

#include <string.h>

static const ph_op *const ops[] = {
#define PH_OP(name) &ph_op_##name,
#include "graph/op.def"
#undef PH_OP
};

size_t ph_op_count(void) {
    return sizeof ops / sizeof *ops;
}

const ph_op *ph_op_at(size_t i) {
    return i < ph_op_count() ? ops[i] : NULL;
}

const ph_op *ph_op_find(const char *name) {
    for (size_t i = 0; name && i < ph_op_count(); i++)
        if (!strcmp(ops[i]->name, name)) return ops[i];
    return NULL;
}
