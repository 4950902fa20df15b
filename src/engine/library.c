/* library.c - libraries that are loaded when they are asked for. */
#include "engine/library.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- loading ---- */

const char *ph_library_remedy(const ph_library *l) {
    const char *given = l->variable && l->renamed ? getenv(l->variable) : NULL;
    return given && *given ? l->renamed : l->remedy;
}

enum { PH_ELF_HEAD = 20 }; /* bytes up to e_machine, at 18: the same in both classes */

/* The end of what the loader will map of an ELF file's bytes; 0: it is none, which the loader itself says. */
static size_t mapped_end(const uint8_t *bytes, size_t n) {
    Elf64_Ehdr h;
    Elf64_Phdr p;
    size_t     end = 0, last;
    if (n < sizeof h) return 0;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof p)
        return 0;
    for (size_t i = 0; i < h.e_phnum; i++) {
        size_t at;
        if (ph_add_over(h.e_phoff, i * sizeof p, &at) || at > n || n - at < sizeof p) return SIZE_MAX;
        memcpy(&p, bytes + at, sizeof p);
        if (p.p_type != PT_LOAD) continue;
        if (ph_add_over(p.p_offset, p.p_filesz, &last)) return SIZE_MAX;
        end = last > end ? last : end;
    }
    return end;
}

/* What a header says of the machine: words for the common ones. */
static const char *machine_of(const uint8_t ident[PH_ELF_HEAD], char out[64]) {
    static const struct {
        int         number;
        const char *name;
    } known[] = {{EM_386, "x86"},         {EM_X86_64, "x86-64"}, {EM_ARM, "ARM"},
                 {EM_AARCH64, "AArch64"}, {EM_RISCV, "RISC-V"},  {EM_PPC64, "PowerPC"}};
    int         is_little = ident[EI_DATA] == ELFDATA2LSB;
    int         number = ident[18 + !is_little] | ident[19 - !is_little] << 8; /* e_machine */
    const char *name = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number) name = known[i].name;
    int n = name ? snprintf(out, 64, "%s", name) : snprintf(out, 64, "machine %d of ELF", number);
    snprintf(out + n, 64 - (size_t)n, " (%s bits, %s end first)", ident[EI_CLASS] == ELFCLASS32 ? "32" : "64",
             is_little ? "little" : "big");
    return out;
}

/* A library for another machine, of which the system's loader may say no more than that it is not there. What
 * this machine is stands in the header of the code that runs. */
static ph_rc check_machine(const char *path, const uint8_t *bytes, size_t n, ph_err *err) {
    static const char here[] = "";
    Dl_info           info;
    char              theirs[64], ours[64];
    if (n < PH_ELF_HEAD || memcmp(bytes, ELFMAG, SELFMAG) || !dladdr(here, &info) || !info.dli_fbase ||
        memcmp(info.dli_fbase, ELFMAG, SELFMAG))
        return PH_OK;
    const uint8_t *own = info.dli_fbase;
    if (own[EI_CLASS] == bytes[EI_CLASS] && own[EI_DATA] == bytes[EI_DATA] &&
        !memcmp(own + 18, bytes + 18, 2))
        return PH_OK;
    return PH_FAIL(err, PH_EMACHINE,
                   "%.120s is a library for %s, and this program is for %s: build it for that", path,
                   machine_of(bytes, theirs), machine_of(own, ours));
}

ph_rc ph_library_check_whole(const char *path, ph_err *err) {
    ph_file f;
    if (!strchr(path, '/') || ph_file_open(&f, path, NULL)) return PH_OK;
    size_t n = f.n, end = f.n ? mapped_end(f.bytes, f.n) : 0;
    ph_rc  rc = check_machine(path, f.bytes, n, err);
    ph_file_close(&f);
    if (rc) return rc;
    if (end <= n) return PH_OK;
    return PH_FAIL(
        err, PH_EMACHINE,
        "%.120s is a library that was cut short: it has %zu bytes, and more are to be loaded: fetch "
        "it again",
        path, n);
}

ph_rc ph_library_open(const ph_library *l, const char *path, void **so, ph_err *err) {
    char why[160];
    *so = NULL;
    PH_TRY(ph_library_check_whole(path, err));
    *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*so) return PH_OK;
    const char *text = dlerror();
    ph_printable(why, sizeof why, text ? text : "?", text ? strlen(text) : 1);
    return PH_FAIL(err, PH_EMACHINE, "%.120s cannot be loaded as %s (%s): %s", path, l->what, why,
                   ph_library_remedy(l));
}

void ph_library_note_path(char path[PH_LIBRARY_PATH], const void *of) {
    Dl_info info;
    if (!strchr(path, '/') && of && dladdr(of, &info) && info.dli_fname)
        snprintf(path, PH_LIBRARY_PATH, "%s", info.dli_fname);
}

/* ---- finding ---- */

enum { PLACE_MAX = 4096 };

/* ".1.27.0" and no ".1.27.0.sig". */
static int is_version(const char *tail) {
    return *tail == '.' && !tail[strspn(tail, ".0123456789")];
}

/* In a folder: the file, or that with the greatest version behind its name ("libxyz.so.1.2").  Where there is
 * neither, *path is what should have been there. */
static void file_in(const ph_library *l, const char *folder, char path[PLACE_MAX]) {
    size_t n = strlen(l->file);
    char   best[256] = "";
    snprintf(path, PLACE_MAX, "%s/%s", folder, l->file);
    if (ph_path_is_file(path)) return;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, l->file, n) && is_version(e->d_name + n) &&
            strverscmp(e->d_name, best) > 0) /* 1.27 is after 1.9 */
            snprintf(best, sizeof best, "%s", e->d_name);
    if (d) closedir(d);
    if (*best) snprintf(path, PLACE_MAX, "%s/%s", folder, best);
}

static ph_rc keep(char out[PH_LIBRARY_PATH], const char *path, ph_err *err) {
    if (snprintf(out, PH_LIBRARY_PATH, "%s", path) < PH_LIBRARY_PATH) return PH_OK;
    return PH_FAIL(err, PH_EMACHINE, "%.160s...: a path of more than %d bytes", path, PH_LIBRARY_PATH - 1);
}

/* What the variable says: a file, or a folder. */
static ph_rc find_given(const ph_library *l, const char *given, char out[PH_LIBRARY_PATH], ph_err *err) {
    char path[PLACE_MAX];
    if (ph_path_is_dir(given))
        file_in(l, given, path);
    else
        snprintf(path, sizeof path, strchr(given, '/') ? "%s" : "./%s", given);
    if (ph_path_is_file(path)) return keep(out, path, err);
    return PH_FAIL(err, PH_EMACHINE,
                   "%s: there is no file %.160s: give %s's library, or its folder, "
                   "or unset the variable",
                   l->variable, path, l->what);
}

/* The folder of the program, or of the library that this code is in. */
static int folder_of(int i, char out[PLACE_MAX]) {
    static const char here[] = "";
    Dl_info           info;
    *out = 0;
    if (i == 0) {
        ssize_t n = readlink("/proc/self/exe", out, PLACE_MAX - 1);
        out[n > 0 ? n : 0] = 0;
    } else if (dladdr((const void *)here, &info) && info.dli_fname && strchr(info.dli_fname, '/')) {
        snprintf(out, PLACE_MAX, "%s", info.dli_fname);
    }
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

/* Where `make` and `make install` put it; 0: nowhere. */
static int find_unpacked(const ph_library *l, char path[PLACE_MAX]) {
    static const char *const places[] = {"", "../lib/pinhole/", "../pinhole/", "pinhole/"};
    char                     folder[PLACE_MAX - 64];
    char                     whole[PLACE_MAX];
    for (int i = 0; i < 2; i++) {
        if (!folder_of(i, whole)) continue;
        snprintf(folder, sizeof folder, "%.*s", (int)sizeof folder - 1, whole);
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            int n = snprintf(path, PLACE_MAX, "%s/%s%s/%s", folder, places[k], l->folder, l->file);
            if (n < PLACE_MAX && ph_path_is_file(path)) return 1;
        }
    }
    return 0;
}

ph_rc ph_library_find(const ph_library *l, char out[PH_LIBRARY_PATH], ph_err *err) {
    const char *given = getenv(l->variable);
    char        path[PLACE_MAX];
    *out = 0;
    if (given && *given) return find_given(l, given, out, err);
    if (find_unpacked(l, path)) return keep(out, path, err);
    for (size_t i = 0; i < sizeof l->system / sizeof *l->system && l->system[i]; i++) {
        void *so = dlopen(l->system[i], RTLD_NOW | RTLD_LOCAL);
        if (!so) continue;
        dlclose(so);
        return keep(out, l->system[i], err);
    }
    return PH_FAIL(err, PH_EMACHINE, "%s is not on this machine: %s", l->what, l->remedy);
}

ph_rc ph_library_get(const ph_library *l, ph_library_once                *once,
                     ph_rc (*load)(void *, const char *, ph_err *), void *api, ph_err *err) {
    char  path[PH_LIBRARY_PATH];
    ph_rc rc = PH_OK;
    pthread_mutex_lock(&once->lock);
    if (!once->is_loaded) {
        rc = ph_library_find(l, path, err);
        if (!rc) rc = load(api, path, err);
        once->is_loaded = !rc;
    }
    pthread_mutex_unlock(&once->lock);
    return rc;
}
