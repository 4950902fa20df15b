/* model_budget.c - a budget of image tokens, held against what a model makes of pictures. */
#include "model/model.h"

ph_rc ph_model_budget(const ph_model *m, int min, int max, ph_recipe *out, ph_err *err) {
    const ph_bridge_spec *bridge = &m->spec.bridge;
    const ph_budget       b = {.min = min,
                               .max = max,
                               .per_tile = bridge->tokens_per_tile > 0 ? bridge->tokens_per_tile : 1,
                               .per_row = bridge->has_newline ? m->spec.tower.image / m->spec.tower.patch : 0};
    *out = m->recipe;
    return ph_recipe_budget(out, &b, err);
}
