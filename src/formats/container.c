/* container.c - tells model files apart by their first bytes, and names those that are not read.
 *
 * ONNX has no magic: a file counts as ONNX when its first protobuf fields are
 * those of a ModelProto (onnx.proto), beginning with ir_version.
 */
#include "formats/container.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *ph_container_name(ph_container c) {
    static const char *const name[] = {"Hugging Face directory", "GGUF", "safetensors", "ONNX"};
    return name[c];
}

/* Formats that people try, and what to do with them. */
static const struct {
    const char *magic;
    size_t      at, n;
    const char *what;
} others[] = {
    {"PK\3\4", 0, 4, "a zip archive, as PyTorch writes its checkpoints: convert it to safetensors"},
    {"\x80\x02", 0, 2, "a Python pickle, as PyTorch writes its checkpoints: convert it to safetensors"},
    {"\x80\x04", 0, 2, "a Python pickle, as PyTorch writes its checkpoints: convert it to safetensors"},
    {"lmgg", 0, 4, "a GGML file from before GGUF: convert it to GGUF"},
    {"tjgg", 0, 4, "a GGJT file from before GGUF: convert it to GGUF"},
    {"FUGG", 0, 4, "a big-endian GGUF file; only little-endian ones are read"},
    {"\x89HDF\r\n", 0, 6, "an HDF5 file, as Keras writes: convert it to safetensors"},
    {"TFL3", 4, 4, "a TensorFlow Lite model: export the model to ONNX instead"},
    {"version https://git-lfs", 0, 23, "a Git LFS pointer, not the file itself: fetch it with git lfs pull"},
    {"<!DOCTYPE", 0, 9, "an HTML page: the download failed"},
    {"<html", 0, 5, "an HTML page: the download failed"},
    {"\x1f\x8b", 0, 2, "a gzip archive: unpack it"},
    {"ustar", 257, 5, "a tar archive: unpack it"},
};

static uint64_t little_endian(const uint8_t *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static int is_safetensors(const uint8_t *b, size_t n) {
    return n > 8 && b[8] == '{' && little_endian(b) >= 2 && little_endian(b) <= 100000000;
}

/* {"metadata": ..., "weight_map": ...}: both keys stand near the front or the back; the reader will see. */
static int is_index(const uint8_t *b, size_t n) {
    return b[0] == '{' && memmem(b, n < 65536 ? n : 65536, "\"weight_map\"", 12);
}

/* ir_version, a small number, then another field of ModelProto with its right wire type. */
static int is_onnx(const uint8_t *b, size_t n) {
    static const uint8_t next[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72, 0xa2, 0xca};
    return n >= 4 && b[0] == 0x08 && b[1] >= 1 && b[1] < 64 && memchr(next, b[2], sizeof next);
}

ph_rc ph_container_detect_bytes(const uint8_t *bytes, size_t n, const char *name, ph_container *out,
                                ph_err *err) {
    if (!n) return PH_FAIL(err, PH_EFORMAT, "%.200s: the file is empty", name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (n >= others[i].at + others[i].n && !memcmp(bytes + others[i].at, others[i].magic, others[i].n))
            return PH_FAIL(err, PH_EUNSUP, "%.160s: %s", name, others[i].what);
    if (n >= 4 && !memcmp(bytes, "GGUF", 4))
        *out = PH_CONTAINER_GGUF;
    else if (is_safetensors(bytes, n) || is_index(bytes, n))
        *out = PH_CONTAINER_SAFETENSORS;
    else if (is_onnx(bytes, n))
        *out = PH_CONTAINER_ONNX;
    else
        return PH_FAIL(err, PH_EFORMAT,
                       "%.160s: no model format that is read (expected GGUF, safetensors, ONNX or a Hugging "
                       "Face directory)",
                       name);
    return PH_OK;
}

int ph_container_advise(const char *path, char *out, size_t size) {
    static const struct {
        const char *tail, *what;
    } rows[] = {
        {".gguf", "give that file as the model"},
        {".onnx", "a graph alone, which inspect and check take as a file"},
        {".safetensors", "give that file as the model, or add its config.json"},
        {".bin", "convert it to safetensors"},
        {".pt", "convert it to safetensors"},
        {".pth", "convert it to safetensors"},
        {".h5", "convert it to safetensors"},
        {".msgpack", "convert it to safetensors"},
    };
    DIR *dir = opendir(path);
    out[0] = 0;
    for (const struct dirent *e; dir && !out[0] && (e = readdir(dir));)
        for (size_t i = 0; !out[0] && i < sizeof rows / sizeof *rows; i++)
            if (ph_name_ends_with(e->d_name, rows[i].tail))
                snprintf(out, size, "%.60s: %s", e->d_name, rows[i].what);
    if (dir) closedir(dir);
    return out[0] != 0;
}

/* A directory is taken by its config; without one the message says what else stands there. */
static ph_rc detect_dir(const char *path, ph_container *out, ph_err *err) {
    char name[4096], advice[128];
    if (snprintf(name, sizeof name, "%s/config.json", path) < (int)sizeof name &&
        (ph_path_is_file(name) ||
         ph_path_is_dead_link(name))) { /* hfdir.c says which of its links are dead */
        *out = PH_CONTAINER_HFDIR;
        return PH_OK;
    }
    if (ph_container_advise(path, advice, sizeof advice))
        return PH_FAIL(err, PH_EFORMAT, "%.140s: a directory without config.json, but with %s", path, advice);
    return PH_FAIL(err, PH_EFORMAT,
                   "%.160s: a directory without config.json; expected a Hugging Face directory (config.json, "
                   "model.safetensors, tokenizer.json) or the path of a model file",
                   path);
}

ph_rc ph_container_detect(const char *path, ph_container *out, ph_err *err) {
    const char *slash = strrchr(path, '/');
    ph_file     f = {0};
    if (ph_path_is_dir(path)) return detect_dir(path, out, err);
    PH_TRY(ph_file_open(&f, path, err));
    ph_rc rc = ph_container_detect_bytes(f.bytes, f.n, slash ? slash + 1 : path, out, err);
    ph_file_close(&f);
    return rc;
}

/* ---- what is read from a path ---- */

enum { DEPTH_MAX = 4, PARTS_MAX = 99999 }; /* folders below a model's; what the names of parts can count */

static int is_at(const char *path, const struct stat *file) {
    struct stat st;
    return !stat(path, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* A folder of which links lead back to it must not be walked for ever: links to folders are left alone. */
static int is_below(const char *path, const struct stat *file, int depth) {
    char        name[4096];
    struct stat st;
    int         found = 0;
    DIR        *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
    for (const struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || ph_name_ends_with(e->d_name, ".gguf") ||
            ph_name_ends_with(e->d_name, ".bundle") ||
            snprintf(name, sizeof name, "%s/%s", path, e->d_name) >= (int)sizeof name)
            continue;
        found = is_at(name, file) ||
                (!lstat(name, &st) && S_ISDIR(st.st_mode) && is_below(name, file, depth + 1));
    }
    if (dir) closedir(dir);
    return found;
}

/* "dir/model-00002-of-00003.gguf" is read with all its parts. */
static int is_part(const char *path, const struct stat *file) {
    char   name[4096];
    size_t n = strlen(path), tail = strlen("-00002-of-00003.gguf");
    int    no, count, used = 0, found = 0;
    if (n < tail || sscanf(path + n - tail, "-%5d-of-%5d.gguf%n", &no, &count, &used) != 2 ||
        used != (int)tail)
        return 0;
    for (int i = 1; i <= count && i <= PARTS_MAX && !found; i++)
        found = snprintf(name, sizeof name, "%.*s-%05d-of-%05d.gguf", (int)(n - tail), path, i, count) <
                    (int)sizeof name &&
                is_at(name, file);
    return found;
}

int ph_container_holds(const char *path, const char *file) {
    struct stat st;
    if (!path || !file || stat(file, &st)) return 0;
    return is_at(path, &st) || is_below(path, &st, 0) || is_part(path, &st);
}

ph_rc ph_container_may_write(const char *path, const char *const *read, size_t n, ph_err *err) {
    for (size_t i = 0; i < n; i++)
        if (ph_container_holds(read[i], path))
            return PH_FAIL(err, PH_EUSAGE, "%.200s is what is read: write somewhere else", path);
    return PH_OK;
}

int ph_container_is_same_place(const char *a, const char *b) {
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    char        dir[2][4096];
    struct stat at[2];
    if (!stat(a, &at[0]) && !stat(b, &at[1]) && at[0].st_dev == at[1].st_dev && at[0].st_ino == at[1].st_ino)
        return 1; /* one is a link to the other */
    if (strcmp(x ? x + 1 : a, y ? y + 1 : b)) return 0;
    snprintf(dir[0], sizeof dir[0], "%.*s", x ? (int)(x + 1 - a) : 1, x ? a : ".");
    snprintf(dir[1], sizeof dir[1], "%.*s", y ? (int)(y + 1 - b) : 1, y ? b : ".");
    if (stat(dir[0], &at[0]) || stat(dir[1], &at[1])) return !strcmp(a, b);
    return at[0].st_dev == at[1].st_dev && at[0].st_ino == at[1].st_ino;
}
