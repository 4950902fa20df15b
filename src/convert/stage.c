/* stage.c - a Hugging Face directory is written: small files first, then weights, in a folder apart.
 *
 *     put ──► OUT/.pinhole-*  ── would anything else of a model stay in OUT?  refuse ──► weights ──► OUT
 *
 * Readers take what stands in a directory, whoever wrote it: another model's shards, its index or its
 * tokenizer beside ours would be read with it or instead of it, and so would its weights under a new config
 * when there is no room for the new ones.  So nothing is moved before all is there.
 */
#include "convert/stream.h"

#include "base/file.h"
#include "formats/hfdir.h"
#include "formats/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct stage {
    ph_convert  c;       /* out: the folder apart */
    const char *out;     /* the directory */
    int         is_made; /* by us */
    char        path[4096];
} stage;

static ph_rc open_stage(stage *g, const ph_convert *c, ph_err *err) {
    *g = (stage){.c = *c, .out = c->out};
    if (snprintf(g->path, sizeof g->path, "%s/.pinhole-XXXXXX", c->out) >= (int)sizeof g->path)
        return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", c->out);
    g->is_made = !ph_path_is_dir(c->out);
    if (g->is_made && mkdir(c->out, 0777))
        return PH_FAIL(err, PH_EIO, "cannot make the directory %.200s: %s", c->out, strerror(errno));
    if (!mkdtemp(g->path))
        return PH_FAIL(err, PH_EIO, "cannot write into the directory %.200s: %s", c->out, strerror(errno));
    g->c.out = g->path;
    return PH_OK;
}

/* A file that readers of the directory would take. */
static int is_of_a_model(const char *name) {
    for (size_t i = 0; ph_hfdir_files[i]; i++)
        if (!strcmp(name, ph_hfdir_files[i])) return 1;
    return ph_name_ends_with(name, ".safetensors") || ph_name_ends_with(name, ".safetensors.index.json");
}

static int join(char path[4096], const char *dir, const char *name) {
    return snprintf(path, 4096, "%s/%s", dir, name) < 4096;
}

static int is_written(const stage *g, const ph_stream *s, const char *name) {
    char path[4096];
    return (join(path, g->path, name) && ph_path_is_file(path)) ||
           ph_safetensors_dir_has(s->to, s->n, (size_t)s->c->shard_bytes, name);
}

static ph_rc check(const stage *g, const ph_stream *s, ph_err *err) {
    char first[256] = ""; /* in order of name, so that the message is the same on every file system */
    DIR *dir = opendir(g->out);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (is_of_a_model(e->d_name) && !is_written(g, s, e->d_name) &&
            (!first[0] || strcmp(e->d_name, first) < 0))
            snprintf(first, sizeof first, "%s", e->d_name);
    if (dir) closedir(dir);
    if (!first[0]) return PH_OK;
    return PH_FAIL(
        err, PH_EUSAGE,
        "%.200s holds %.80s, which this conversion does not write and which would be read with the "
        "new model: name a new or an empty directory, or take it away",
        g->out, first);
}

/* Moves all files to the directory, or with rc removes them. */
static ph_rc clear(const stage *g, ph_rc rc, ph_err *err) {
    char from[4096], to[4096];
    DIR *dir = opendir(g->path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        int fits = join(from, g->path, e->d_name) && join(to, g->out, e->d_name);
        if (!rc && (!fits || rename(from, to)))
            rc = PH_FAIL(err, PH_EIO, "cannot write %.120s into %.200s: %s", e->d_name, g->out,
                         strerror(errno));
        if (rc && fits) unlink(from);
    }
    if (dir) closedir(dir);
    rmdir(g->path);
    if (rc && g->is_made) rmdir(g->out); /* fails when something stands in it */
    return rc;
}

static ph_rc write_weights(ph_stream *s, const char *folder, ph_err *err) {
    ph_producer p;
    PH_TRY(ph_stream_ready(s, &p, err));
    return ph_safetensors_write_dir(folder, s->to, s->n, (size_t)s->c->shard_bytes, &p, err);
}

ph_rc ph_convert_write_dir(ph_stream *s, ph_put_files *put, const void *arg, ph_err *err) {
    stage g;
    PH_TRY(open_stage(&g, s->c, err));
    ph_rc rc = put(&g.c, s, arg, err);
    if (!rc) rc = check(&g, s, err);
    if (!rc) rc = write_weights(s, g.path, err);
    return clear(&g, rc, err);
}
