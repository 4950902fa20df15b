/* test_file.c - mapping, refusals by kind of file, and names that try to leave their folder. */
#include "base/file.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A fresh folder; its name in out[64]. */
static void fresh(char *out) {
    strcpy(out, "/tmp/ph-unit-XXXXXX");
    CHECK(mkdtemp(out));
}

static void put(const char *dir, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    CHECK(f);
    if (!f) return;
    fputs(text, f);
    fclose(f);
}

static void folder(const char *dir, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(!mkdir(path, 0755));
}

static void link_to(const char *dir, const char *name, const char *target) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(!symlink(target, path));
}

static void sweep(const char *dir) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK(!system(command));
}

/* What opening dir/name gives: the verdict, and the text if it is PH_OK. */
static ph_rc try_in(const char *dir, const char *name, const char *text, ph_err *err) {
    ph_file f;
    ph_rc   rc = ph_file_open_in(&f, dir, name, err);
    if (rc)
        CHECK(!f.bytes && !f.n);
    else
        CHECK_SAY(f.n == strlen(text) && !memcmp(f.bytes, text, f.n), "%s", name);
    ph_file_close(&f);
    return rc;
}

void test_file_open(void) {
    char    dir[64], path[256];
    ph_file f;
    fresh(dir);
    put(dir, "gr\xc3\xbc\xc3\x9f e.bin", "abc");
    snprintf(path, sizeof path, "%s/gr\xc3\xbc\xc3\x9f e.bin", dir);
    CHECK(ph_file_open(&f, path, NULL) == PH_OK && f.n == 3 && !memcmp(f.bytes, "abc", 3));
    CHECK(ph_path_is_file(path) && !ph_path_is_dir(path));
    CHECK(ph_path_is_dir(dir) && !ph_path_is_file(dir));
    ph_file_close(&f);
    CHECK(!f.bytes && !f.n);
    ph_file_close(&f);
    put(dir, "empty", "");
    snprintf(path, sizeof path, "%s/empty", dir);
    CHECK(ph_file_open(&f, path, NULL) == PH_OK && f.n == 0 && !f.bytes);
    ph_file_close(&f);
    sweep(dir);
}

void test_file_refused(void) {
    char    dir[64], path[2400];
    ph_file f;
    ph_err  err = {0};
    fresh(dir);
    CHECK(ph_file_open(&f, dir, &err) == PH_EPATH && strstr(err.msg, "is a folder"));
    CHECK(ph_file_open(&f, "", &err) == PH_EPATH && ph_file_open(&f, NULL, &err) == PH_EPATH);
    CHECK(ph_file_open(&f, "/dev/zero", &err) == PH_EPATH && strstr(err.msg, "a device"));
    snprintf(path, sizeof path, "%s/pipe", dir);
    CHECK(!mkfifo(path, 0600));
    CHECK(ph_file_open(&f, path, &err) == PH_EPATH && strstr(err.msg, "a pipe"));
    snprintf(path, sizeof path, "%s/missing", dir);
    CHECK(ph_file_open(&f, path, &err) == PH_EPATH && strstr(err.msg, "No such file") &&
          strstr(err.msg, path));
    CHECK(!ph_path_is_file(path) && !ph_path_is_dir(path));
    put(dir, "secret", "x");
    snprintf(path, sizeof path, "%s/secret", dir);
    CHECK(!chmod(path, 0));
    if (geteuid()) CHECK(ph_file_open(&f, path, &err) == PH_EPATH && strstr(err.msg, "ermission"));
    /* However long the path, the message still ends in the cause. */
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = 0;
    CHECK(ph_file_open(&f, path, &err) == PH_EPATH && strstr(err.msg, "too long"));
    sweep(dir);
}

void test_file_in(void) {
    static const char *const escapes[] = {
        "",       "/etc/passwd", "..",         "../x",       "sub/../../x",    "sub/..",
        "a\\..b", "a\nb",        "./../../up", "sub/../one", "/proc/self/mem",
    };
    char   dir[64];
    ph_err err = {0};
    fresh(dir);
    folder(dir, "sub");
    put(dir, "one", "1");
    put(dir, "sub/two", "22");
    put(dir, "a..b", "3");
    CHECK(!try_in(dir, "one", "1", &err) && !try_in(dir, "sub/two", "22", &err));
    CHECK(!try_in(dir, "./one", "1", &err) && !try_in(dir, "a..b", "3", &err));
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        CHECK_SAY(try_in(dir, escapes[i], "", &err) == PH_EFORMAT, "\"%s\"", escapes[i]);
    CHECK(try_in(dir, "../etc", "", &err) == PH_EFORMAT && strstr(err.msg, "\"..\""));
    CHECK(try_in(dir, "missing", "", &err) == PH_EPATH && strstr(err.msg, "missing"));
    CHECK(try_in(dir, "sub", "", &err) == PH_EPATH && strstr(err.msg, "is a folder"));
    CHECK(try_in("/tmp/no such folder", "one", "", &err) == PH_EPATH);
    sweep(dir);
}

void test_file_links(void) {
    char   dir[64], out[64], sibling[80], path[160];
    ph_err err = {0};
    fresh(dir);
    fresh(out);
    put(dir, "one", "1");
    put(out, "secret", "s");
    folder(dir, "sub");
    link_to(dir, "inside", "one");
    link_to(dir, "sub/up", "../one");
    snprintf(path, sizeof path, "%s/secret", out);
    link_to(dir, "outside", path);
    link_to(dir, "outfolder", out);
    link_to(dir, "loop", "loop");
    link_to(dir, "dangling", "nothing");
    CHECK(!try_in(dir, "inside", "1", &err) && !try_in(dir, "sub/up", "1", &err));
    CHECK(try_in(dir, "outside", "", &err) == PH_EFORMAT && strstr(err.msg, "leads out"));
    CHECK(try_in(dir, "outfolder/secret", "", &err) == PH_EFORMAT);
    CHECK(try_in(dir, "loop", "", &err) == PH_EPATH && try_in(dir, "dangling", "", &err) == PH_EPATH);
    /* A folder whose name begins with this one's is another folder. */
    snprintf(sibling, sizeof sibling, "%s-too", dir);
    CHECK(!mkdir(sibling, 0755));
    put(sibling, "secret", "s");
    snprintf(path, sizeof path, "%s/secret", sibling);
    link_to(dir, "sibling", path);
    CHECK(try_in(dir, "sibling", "", &err) == PH_EFORMAT);
    /* The folder itself may be reached through a link. */
    snprintf(path, sizeof path, "%s/to", out);
    CHECK(!symlink(dir, path));
    CHECK(!try_in(path, "one", "1", &err));
    sweep(sibling);
    sweep(dir);
    sweep(out);
}

void test_file_cache(void) {
    char   dir[64], snap[128];
    ph_err err = {0};
    fresh(dir);
    folder(dir, "blobs");
    folder(dir, "blobs/deep");
    folder(dir, "snapshots");
    folder(dir, "snapshots/abc");
    folder(dir, "snapshots/abc/sub");
    folder(dir, "plain");
    put(dir, "blobs/7f", "blob");
    put(dir, "blobs/deep/x", "no");
    put(dir, "refs", "no");
    link_to(dir, "snapshots/abc/config.json", "../../blobs/7f");
    link_to(dir, "snapshots/abc/sub/w", "../../../blobs/7f");
    link_to(dir, "snapshots/abc/refs", "../../refs");
    link_to(dir, "snapshots/abc/deep", "../../blobs/deep/x");
    link_to(dir, "plain/w", "../blobs/7f");
    snprintf(snap, sizeof snap, "%s/snapshots/abc", dir);
    CHECK(!try_in(snap, "config.json", "blob", &err) && !try_in(snap, "sub/w", "blob", &err));
    CHECK(try_in(snap, "refs", "", &err) == PH_EFORMAT && try_in(snap, "deep", "", &err) == PH_EFORMAT);
    snprintf(snap, sizeof snap, "%s/plain", dir);
    CHECK(try_in(snap, "w", "", &err) == PH_EFORMAT);
    sweep(dir);
}
