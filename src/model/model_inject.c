/* model_inject.c - pooled features into what a decoder's layer reads, whatever the family: layers are
 * numbered by the values hidden.0, hidden.1 .. that all decoders of ours have. */
#include "graph/inject.h"
#include "model/model.h"

#include <stdio.h>

ph_rc ph_model_inject(ph_model *m, int layer, double alpha, ph_err *err) {
    char at[32];
    int  n = m->spec.text.n_layers;
    if (!m->vision || !m->chat)
        return PH_FAIL(err, PH_EUSAGE,
                       "the model answers nothing about pictures: there are no features to inject");
    if (layer < 0 || layer >= n)
        return PH_FAIL(err, PH_EUSAGE, "no layer %d to inject at: the language part has layers 0 to %d",
                       layer, n - 1);
    snprintf(at, sizeof at, "hidden.%d", layer);
    return ph_graph_inject(m->language, at, alpha, err);
}
