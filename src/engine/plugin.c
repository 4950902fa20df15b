/* plugin.c - see plugin.h. */
#include "engine/plugin.h"

#include "base/file.h"
#include "engine/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef const pinhole_op_table *entry(const pinhole_op_api *api);

static const ph_library kind = {.what = "a plug-in",
                                .remedy = "build it as a shared library for this machine: cc -shared -fPIC"};

/* A bare name is a file of this folder, not one that the loader would look for. */
static ph_rc full_path(const char *path, char out[PH_LIBRARY_PATH], ph_err *err) {
    if (!*path) return PH_FAIL(err, PH_EPATH, "a plug-in's path is empty");
    if (snprintf(out, PH_LIBRARY_PATH, strchr(path, '/') ? "%s" : "./%s", path) >= PH_LIBRARY_PATH)
        return PH_FAIL(err, PH_EPATH, "plug-in %.160s...: a path of more than %d bytes", path,
                       PH_LIBRARY_PATH - 1);
    if (ph_path_is_file(out)) return PH_OK;
    return PH_FAIL(err, PH_EPATH, "plug-in %.200s: %s", path,
                   ph_path_is_there(out) ? "it is no regular file" : "there is no such file");
}

static ph_rc load(ph_plugins *p, const char *path, ph_err *err) {
    char full[PH_LIBRARY_PATH];
    PH_TRY(full_path(path, full, err));
    PH_TRY(ph_library_open(&kind, full, &p->so[p->n], err));
    void *found = dlsym(p->so[p->n++], "pinhole_operators");
    if (!found)
        return PH_FAIL(
            err, PH_EFORMAT,
            "plug-in %.160s is a library without the function pinhole_operators, which pinhole_op.h "
            "describes: it brings no operators",
            path);
    entry *operators;
    memcpy(&operators, &found, sizeof operators); /* ISO C has no conversion from a pointer to data */
    return ph_user_ops_add(p->ops, operators(ph_user_api()), path, err);
}

ph_rc ph_plugins_open(ph_plugins *p, const char *const *path, size_t n, ph_err *err) {
    *p = (ph_plugins){0};
    if (n > PH_PLUGINS_MAX) return PH_FAIL(err, PH_ELIMIT, "%zu plug-ins; at most %d", n, PH_PLUGINS_MAX);
    if (!n) return PH_OK;
    ph_rc rc = ph_user_ops_open(&p->ops, err);
    for (size_t i = 0; i < n && !rc; i++) rc = load(p, path[i], err);
    if (rc) ph_plugins_close(p);
    return rc;
}

void ph_plugins_close(ph_plugins *p) {
    ph_user_ops_close(p->ops);
    while (p->n) dlclose(p->so[--p->n]);
    *p = (ph_plugins){0};
}
