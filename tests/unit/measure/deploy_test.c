/* deploy_test.c - seams of models that are deployed together: what fits, what is flattened, what does not
 * fit. */
#include "measure/deploy.h"
#include "tests/unit/onnx_make.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <unistd.h>

/* One node from `in` to `out`, as a file of its own. */
static void write_model(const char *path, const char *in, int in_type, const char *in_dims, const char *out,
                        int out_type, const char *out_dims) {
    om_bytes g = {.n = 0}, n;
    om_text(&g, 2, "g");
    om_value(&g, 11, in, in_type, in_dims);
    om_value(&g, 12, out, out_type, out_dims);
    n = om_node("Identity", "", in, out);
    om_sub(&g, 1, &n);
    om_bytes m = om_model(&g, 17);
    FILE    *f = fopen(path, "wb");
    CHECK(f && fwrite(m.at, 1, m.n, f) == m.n);
    if (f) fclose(f);
}

typedef struct seam {
    const char *makes, *takes;
    int         makes_type, takes_type;
    int         is_deployable;
    const char *says; /* in the problem "seam"; NULL: there is none */
} seam;

static void one_seam(const seam *s, const ph_kernels *kernels) {
    char        a[64], b[64];
    const char *path[2] = {a, b};
    ph_deploy   d;
    ph_err      e = {0};
    const char *said = NULL;
    int         is_fatal = 0;
    snprintf(a, sizeof a, "/tmp/pinhole-deploy-%d-a.onnx", (int)getpid());
    snprintf(b, sizeof b, "/tmp/pinhole-deploy-%d-b.onnx", (int)getpid());
    write_model(a, "features", s->makes_type, s->makes, "visual", s->makes_type, s->makes);
    write_model(b, "visual", s->takes_type, s->takes, "logits", s->takes_type, s->takes);
    CHECK_SAY(!ph_deploy_open(&d, path, 2, kernels, NULL, &e), "%s", e.msg);
    for (size_t i = 0; d.n && i < d.part[0].n_problems; i++)
        if (!strcmp(d.part[0].problem[i].code, "seam")) {
            said = d.part[0].problem[i].message;
            is_fatal = d.part[0].problem[i].is_fatal;
        }
    CHECK_SAY(d.is_deployable == s->is_deployable, "%s to %s: %d, %s", s->makes, s->takes, d.is_deployable,
              said ? said : "nothing");
    CHECK_SAY(s->says ? said && strstr(said, s->says) : !said, "%s to %s: %s", s->makes, s->takes,
              said ? said : "nothing");
    CHECK(!said || is_fatal == !s->is_deployable);
    ph_deploy_close(&d);
    unlink(a);
    unlink(b);
}

void test_deploy_seams(void) {
    static const seam seams[] = {
        {"I,64,256", "V,256", 1, 1, 1, "flatten [I, 64, 256] to [V, 256]"},
        {"I,4,16,256", "V,256", 1, 1, 1, "flatten [I, 4, 16, 256] to [V, 256]"},
        {"2,64,256", "128,256", 1, 1, 1, "flatten [2, 64, 256] to [128, 256]"},
        {"I,64,256", "128,256", 1, 1, 1, "flatten"},
        {"?,64,?", "V,256", 1, 1, 1, "flatten [?, 64, ?]"},
        {"V,256", "V,256", 1, 1, 1, NULL},
        {"N,256", "128,256", 1, 1, 1, NULL},
        {"2,64,256", "127,256", 1, 1, 0, "is [2, 64, 256], and"},
        {"I,64,256", "100,256", 1, 1, 0, "does not mend"},
        {"I,64,256", "V,255", 1, 1, 0, "takes [V, 255]"},
        {"I,64,256", "V,255", 1, 10, 0, "does not mend"},    /* said last: the type is wrong, too */
        {"I,64,256", "V,256", 1, 7, 0, "takes it as int64"}, /* nor is it said that flattening does it */
        {"I,64,256", "V,256", 10, 10, 0, "does not mend"},
        {"V,256", "V,256", 1, 10, 0, "takes it as float16"},
        {"I,64,256", "256", 1, 1, 0, "does not mend"},
        {"V,256", "I,64,256", 1, 1, 0, "does not mend"},
        {"I,0,256", "7,256", 1, 1, 0, "does not mend"},
        {"I,64", "I,65", 1, 1, 0, "is [I, 64], and"},
        {"B,T,8", "R,8", 7, 7, 0, "does not mend"},
        {"I,9223372036854775807,9223372036854775807,8", "V,8", 1, 1, 0, "does not mend"},
    };
    ph_kernels kernels;
    ph_kernels_init(&kernels, 0);
    for (size_t i = 0; i < sizeof seams / sizeof *seams; i++) one_seam(&seams[i], &kernels);
}
