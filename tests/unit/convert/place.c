/* place.c - see place.h. */
#include "tests/unit/convert/place.h"

#include "formats/hfdir.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

void ph_place_open(ph_place *p) {
    *p = (ph_place){.folder = "/tmp/ph-carry-XXXXXX"};
    CHECK(mkdtemp(p->folder) != NULL);
    snprintf(p->file, sizeof p->file, "%s/m.gguf", p->folder);
    snprintf(p->back, sizeof p->back, "%s/back", p->folder);
    CHECK(!ph_arena_open_growing(&p->arena, 4096, NULL));
}

void ph_place_close(ph_place *p) {
    char command[96];
    ph_arena_close(&p->arena);
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    CHECK(!system(command));
}

ph_rc ph_place_go(ph_place *p, const char *in, const char *out, int to_gguf, ph_convert_names names) {
    const ph_convert c = {.in = in,
                          .out = out,
                          .types = &p->types,
                          .to_gguf = to_gguf,
                          .names = names,
                          .is_bare = to_gguf, /* has nothing to leave out */
                          .threads = 2};
    p->err = (ph_err){0};
    return ph_convert_run(&c, &p->report, &p->err);
}

void ph_place_same_dirs(ph_place *p, const char *a, const char *b) {
    ph_hfdir x = {0}, y = {0};
    CHECK_SAY(!ph_hfdir_open(&x, a, PH_HFDIR_MODEL, &p->arena, &p->err) &&
                  !ph_hfdir_open(&y, b, PH_HFDIR_MODEL, &p->arena, &p->err),
              "%s", p->err.msg);
    const ph_weights *w = &x.weights.weights, *v = &y.weights.weights;
    CHECK_SAY(w->n == v->n && w->n, "%s: %zu and %zu tensors", a, w->n, v->n);
    for (size_t i = 0; i < w->n && w->n == v->n; i++) {
        const ph_weight *s = &w->at[i], *t = ph_weights_find(v, s->name);
        CHECK_SAY(t && s->dtype == t->dtype && s->rank == t->rank && s->n_bytes == t->n_bytes &&
                      !memcmp(s->dim, t->dim, (size_t)s->rank * sizeof *s->dim) &&
                      !memcmp(s->bytes, t->bytes, s->n_bytes),
                  "%s of %s", s->name, a);
    }
    for (size_t i = 0; ph_hfdir_files[i]; i++) {
        ph_file f, g;
        int     has_f = 0, has_g = 0;
        CHECK(!ph_hfdir_take(&x, ph_hfdir_files[i], &f, &has_f, NULL) &&
              !ph_hfdir_take(&y, ph_hfdir_files[i], &g, &has_g, NULL));
        CHECK_SAY(has_f == has_g && f.n == g.n && (!f.n || !memcmp(f.bytes, g.bytes, f.n)), "%s of %s",
                  ph_hfdir_files[i], a);
        ph_hfdir_give(&x, &f);
        ph_hfdir_give(&y, &g);
    }
    ph_hfdir_close(&x);
    ph_hfdir_close(&y);
}
