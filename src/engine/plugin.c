/* plugin.c - see plugin.h. */
#include "engine/plugin.h"

#include "base/file.h"
#include "engine/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef const pinhole_op_table *entry(const pinhole_op_api *api);

static const ph_library kind = {.what = "a plug-in",
                                .remedy = "build it as a shared library for this machine: cc -shared -fPIC"};

/* ---- images ---- */

struct ph_plugin_image {
    void            *so; /* what the loader calls it: the same for the same image */
    size_t           n;  /* times that it is open; the loader counts as many */
    pthread_mutex_t  lock;
    ph_plugin_image *next;
};

/* Images are the process's, whoever opens them, and so is this list. */
static struct {
    pthread_mutex_t  lock;
    ph_plugin_image *first;
} images = {.lock = PTHREAD_MUTEX_INITIALIZER};

static ph_plugin_image *find_image(const void *so) {
    ph_plugin_image *i = images.first;
    while (i && i->so != so) i = i->next;
    return i;
}

static ph_plugin_image *add_image(void *so) {
    ph_plugin_image *i = calloc(1, sizeof *i);
    if (i && pthread_mutex_init(&i->lock, NULL)) {
        free(i);
        return NULL;
    }
    if (!i) return NULL;
    i->so = so;
    i->next = images.first;
    images.first = i;
    return i;
}

/* Takes so over, also where it fails: NULL, out of memory. */
static ph_plugin_image *open_image(void *so) {
    pthread_mutex_lock(&images.lock);
    ph_plugin_image *i = find_image(so);
    if (!i) i = add_image(so);
    if (i) i->n++;
    pthread_mutex_unlock(&images.lock);
    if (!i) dlclose(so);
    return i;
}

/* It leaves the list before the loader may give its name to another. */
static void close_image(ph_plugin_image *i) {
    void *so = i->so;
    pthread_mutex_lock(&images.lock);
    if (!--i->n) {
        ph_plugin_image **at = &images.first;
        while (*at != i) at = &(*at)->next;
        *at = i->next;
        pthread_mutex_destroy(&i->lock);
        free(i);
    }
    pthread_mutex_unlock(&images.lock);
    dlclose(so);
}

/* ---- loading ---- */

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
    char  full[PH_LIBRARY_PATH];
    void *so;
    PH_TRY(full_path(path, full, err));
    PH_TRY(ph_library_open(&kind, full, &so, err));
    void            *found = dlsym(so, "pinhole_operators");
    ph_plugin_image *image = p->image[p->n] = open_image(so);
    if (!image) return PH_FAIL(err, PH_ENOMEM, "a lock for a plug-in");
    p->n++;
    if (!found)
        return PH_FAIL(
            err, PH_EFORMAT,
            "plug-in %.160s is a library without the function pinhole_operators, which pinhole_op.h "
            "describes: it brings no operators",
            path);
    entry *operators;
    memcpy(&operators, &found, sizeof operators); /* ISO C has no conversion from a pointer to data */
    pthread_mutex_lock(&image->lock);
    const pinhole_op_table *table = operators(ph_user_api());
    pthread_mutex_unlock(&image->lock);
    return ph_user_ops_add(p->ops, table, path, &image->lock, err);
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
    while (p->n) close_image(p->image[--p->n]);
    *p = (ph_plugins){0};
}
