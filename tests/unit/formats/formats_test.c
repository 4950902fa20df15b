/* formats_test.c - files, folders and the law of readers, for the tests of formats/. */
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint8_t *ft_load(const char *path, size_t *n) {
    FILE    *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long     size = 0;
    if (f && !fseek(f, 0, SEEK_END) && (size = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET)) {
        bytes = malloc((size_t)size);
        if (bytes && fread(bytes, 1, (size_t)size, f) != (size_t)size) free(bytes), bytes = NULL;
    }
    if (f) fclose(f);
    *n = bytes ? (size_t)size : 0;
    CHECK_SAY(bytes, "%s", path);
    return bytes;
}

int ft_save(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    int   is_good = f && fwrite(bytes, 1, n, f) == n;
    if (f) is_good = !fclose(f) && is_good;
    CHECK_SAY(is_good, "%s", path);
    return is_good;
}

int ft_copy(const char *from, const char *to) {
    size_t   n;
    uint8_t *bytes = ft_load(from, &n);
    int      is_good = bytes && ft_save(to, bytes, n);
    free(bytes);
    return is_good;
}

uint32_t ft_crc32(const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    uint32_t       crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

void ft_folder(char out[64]) {
    strcpy(out, "/tmp/ph-formats-XXXXXX");
    CHECK(mkdtemp(out));
}

void ft_remove(const char *folder) {
    DIR *dir = opendir(folder);
    char path[512];
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
    rmdir(folder);
}

int ft_lawful(const ph_weights *w, const uint8_t *bytes, size_t n, int is_indexed) {
    for (size_t i = 0; i < w->n; i++) {
        const ph_weight *t = &w->at[i];
        size_t           want;
        uintptr_t        begin = (uintptr_t)t->bytes - (uintptr_t)bytes;
        if (begin > n || t->n_bytes > n - begin) return 0;
        if (ph_weight_bytes(t->dtype, t->rank, t->dim, &want, NULL) || want != t->n_bytes) return 0;
        if (is_indexed && ph_weights_find(w, t->name) != t) return 0;
    }
    return 1;
}

ph_arena ft_arena(void) {
    ph_arena a = {0};
    CHECK(!ph_arena_open_growing(&a, 1 << 14, NULL));
    return a;
}

void ft_expect(const char *what, ph_rc got, ph_rc code, const ph_err *err, const char *part) {
    int is_said = strstr(err->msg, part) != NULL;
    for (int i = 0; i < err->n_notes; i++) is_said |= strstr(err->note[i], part) != NULL;
    CHECK_SAY(got == code && (!code || is_said), "%s: %s \"%s\", expected %s \"%s\"", what, ph_rc_name(got),
              err->msg, ph_rc_name(code), part);
}
