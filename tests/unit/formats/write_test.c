/* write_test.c - GGUF and sharded safetensors as we write them, read back. */
#include "formats/gguf_write.h"
#include "formats/produce.h"
#include "formats/safetensors.h"
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int same_weight(const ph_weight *a, const ph_weight *b) {
    return b && a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) && a->n_bytes == b->n_bytes &&
           !memcmp(a->bytes, b->bytes, a->n_bytes);
}

/* Bytes of one value, texts with their lengths. */
static size_t value_bytes(const ph_gguf_kv *kv) {
    static const uint8_t size[PH_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    ph_gguf_text         text;
    size_t               n = kv->count * size[kv->type];
    for (ph_gguf_texts it = ph_gguf_texts_of(kv); ph_gguf_next(&it, &text);) n += 8 + text.n;
    return n;
}

static int same_kv(const ph_gguf_kv *a, const ph_gguf_kv *b) {
    return b && a->type == b->type && a->is_array == b->is_array && a->count == b->count &&
           value_bytes(a) == value_bytes(b) && !memcmp(a->at, b->at, value_bytes(a));
}

/* Every kind of key and tensor that the public writer makes, copied through ours. */
void test_gguf_written_again(void) {
    char         folder[64], path[96];
    ph_arena     arena = ft_arena();
    ph_gguf      in, out = {0};
    ph_gguf_meta meta = {0};
    ph_err       err = {0};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/again.gguf", folder);
    CHECK(!ph_gguf_open(&in, GOLDEN "kinds.gguf", &arena, NULL));
    meta.alignment = (uint32_t)in.alignment;
    for (size_t i = 0; i < in.n_kv; i++) ph_gguf_put_copy(&meta, &in.kv[i]);
    ph_rc rc = ph_gguf_write(path, &meta, in.weights.at, in.weights.n, NULL, &err);
    if (!rc) rc = ph_gguf_open(&out, path, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    CHECK(out.n_kv == in.n_kv && out.weights.n == in.weights.n && in.n_kv > 10 && in.weights.n > 5);
    for (size_t i = 0; i < in.n_kv && !rc; i++)
        CHECK_SAY(same_kv(&in.kv[i], ph_gguf_find(&out, in.kv[i].key)), "%s", in.kv[i].key);
    for (size_t i = 0; i < in.weights.n && !rc; i++)
        CHECK_SAY(same_weight(&in.weights.at[i], ph_weights_find(&out.weights, in.weights.at[i].name)), "%s",
                  in.weights.at[i].name);
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&in);
    ph_gguf_close(&out);
    ft_remove(folder);
    ph_arena_close(&arena);
}

/* Rows made on the way: element e of row r is 100 r + e; the loop must ask for each once. */
static ph_rc count_up(void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err) {
    size_t *asked = arg;
    (void)err;
    for (size_t r = first; r < first + n; r++)
        for (size_t e = 0; e < 4; e++) {
            float x = (float)(100 * r + e + 1000 * i);
            memcpy(out + ((r - first) * 4 + e) * sizeof x, &x, sizeof x);
        }
    *asked += n;
    return PH_OK;
}

static ph_rc no_more(void *arg, size_t i, size_t first, size_t n, uint8_t *out, ph_err *err) {
    (void)arg, (void)i, (void)first, (void)n, (void)out;
    return PH_FAIL(err, PH_ECANCEL, "enough");
}

void test_gguf_written_values(void) {
    char         folder[64], path[96];
    ph_arena     arena = ft_arena();
    ph_gguf      out = {0};
    ph_gguf_meta m = {0};
    ph_err       err = {0};
    size_t       asked = 0;
    ph_producer  p = {count_up, &asked}, stop = {no_more, NULL};
    ph_weight    w[2] = {{.name = "a", .dtype = PH_F32, .rank = 2, .dim = {3, 4}, .n_bytes = 48},
                         {.name = "b", .dtype = PH_F32, .rank = 3, .dim = {2, 1, 4}, .n_bytes = 32}};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/v.gguf", folder);
    ph_gguf_put_int(&m, "i", PH_GGUF_I16, -5);
    ph_gguf_put_int(&m, "yes", PH_GGUF_BOOL, 1);
    ph_gguf_put_real(&m, "f", PH_GGUF_F64, 0.1);
    ph_gguf_put_text(&m, "t", "a\0b", 3);
    ph_gguf_put_array(&m, "list", PH_GGUF_TEXT, 2);
    ph_gguf_add_text(&m, "x", 1);
    ph_gguf_add_text(&m, "", 0);
    ph_gguf_put_array(&m, "none", PH_GGUF_F32, 0);
    CHECK(ph_gguf_meta_has(&m, "t") && !ph_gguf_meta_has(&m, "tt") && !ph_gguf_meta_has(&m, "a"));
    CHECK(!ph_gguf_write(path, &m, w, 2, &p, &err) && asked == 5);
    ph_rc rc = ph_gguf_open(&out, path, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    int64_t      i = 0;
    int          yes = 0;
    double       f = 0;
    ph_gguf_text t = {0};
    float        x = 0;
    CHECK(!ph_gguf_int(&out, "i", &i, NULL) && i == -5 && !ph_gguf_bool(&out, "yes", &yes, NULL) && yes);
    CHECK(!ph_gguf_real(&out, "f", &f, NULL) && fabs(f - 0.1) < 1e-17);
    CHECK(!ph_gguf_text_of(&out, "t", &t, NULL) && t.n == 3 && !memcmp(t.at, "a\0b", 3));
    const ph_weight *b = ph_weights_find(&out.weights, "b");
    CHECK(b && b->rank == 3 && b->dim[0] == 2 && b->dim[2] == 4);
    if (b) memcpy(&x, b->bytes + 7 * sizeof x, sizeof x);
    CHECK(lrintf(x) == 1103);
    ph_gguf_close(&out);
    ft_expect("producer", ph_gguf_write(path, &m, w, 2, &stop, &err), PH_ECANCEL, &err, "enough");
    CHECK(!ph_gguf_open(&out, path, &arena, NULL)); /* the file from before is untouched */
    ph_gguf_close(&out);
    w[0].n_bytes = 44;
    ft_expect("bytes", ph_gguf_write(path, &m, w, 2, &p, &err), PH_EBUG, &err, "its shape takes 48");
    w[0] = (ph_weight){.name = "c", .dtype = PH_U8, .rank = 1, .dim = {4}, .n_bytes = 4};
    ft_expect("type", ph_gguf_write(path, &m, w, 1, &p, &err), PH_EUNSUP, &err, "no number for type U8");
    w[0] = (ph_weight){.name = "d", .dtype = PH_F32, .rank = 5, .dim = {1, 1, 1, 1, 1}, .n_bytes = 4};
    ft_expect("rank", ph_gguf_write(path, &m, w, 1, &p, &err), PH_EUNSUP, &err, "5 dimensions");
    ft_expect("path", ph_gguf_write("/nowhere/x.gguf", &m, w, 0, &p, &err), PH_EIO, &err, "/nowhere/");
    ph_gguf_put_int(&m, "i", PH_GGUF_U8, 1);
    ft_expect("twice", ph_gguf_write(path, &m, w, 0, &p, &err), PH_EBUG, &err, "given twice");
    ph_gguf_meta_close(&m);
    ph_gguf_put_array(&m, "short", PH_GGUF_U8, 3);
    ph_gguf_add_int(&m, 1);
    ft_expect("short", ph_gguf_write(path, &m, w, 0, &p, &err), PH_EBUG, &err, "not filled");
    ph_gguf_meta_close(&m);
    ft_remove(folder);
    ph_arena_close(&arena);
}

void test_shards_written(void) {
    char           folder[64], path[128];
    ph_arena       arena = ft_arena();
    ph_safetensors in, out = {0};
    ph_err         err = {0};
    ft_folder(folder);
    CHECK(!ph_safetensors_open(&in, GOLDEN "kinds.safetensors", &arena, NULL));
    ph_rc rc = ph_safetensors_write_dir(folder, in.weights.at, in.weights.n, 64, NULL, &err);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    if (!rc) rc = ph_safetensors_open(&out, path, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    CHECK(out.n_files > 2 && out.weights.n == in.weights.n);
    for (size_t shards = 64; shards <= 1 << 20;
         shards *= 1 << 14) { /* what will be written is known before */
        int is_one = shards > 64;
        CHECK(is_one == ph_safetensors_dir_has(in.weights.at, in.weights.n, shards, "model.safetensors"));
        CHECK(is_one !=
              ph_safetensors_dir_has(in.weights.at, in.weights.n, shards, "model.safetensors.index.json"));
        snprintf(path, sizeof path, "model-%05d-of-%05d.safetensors", out.n_files, out.n_files);
        CHECK(is_one != ph_safetensors_dir_has(in.weights.at, in.weights.n, shards, path));
        snprintf(path, sizeof path, "model-%05d-of-%05d.safetensors", out.n_files, out.n_files + 1);
        CHECK(!ph_safetensors_dir_has(in.weights.at, in.weights.n, shards, path));
    }
    for (size_t i = 0; i < in.weights.n && !rc; i++)
        CHECK(same_weight(&in.weights.at[i], ph_weights_find(&out.weights, in.weights.at[i].name)));
    ph_safetensors_close(&out);
    ft_remove(folder);
    ft_folder(folder); /* small enough for one file: no index */
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    CHECK(!ph_safetensors_write_dir(folder, in.weights.at, in.weights.n, 1 << 20, NULL, &err) &&
          !ph_safetensors_open(&out, path, &arena, &err) && out.weights.n == in.weights.n);
    ph_safetensors_close(&out);
    ph_safetensors_close(&in);
    ft_remove(folder);
    ph_arena_close(&arena);
}

typedef ph_rc part_open(ph_part_file *f, const char *path, ph_err *err);

static size_t count_files(const char *folder) {
    size_t n = 0;
    DIR   *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    if (dir) closedir(dir);
    return n;
}

/* Two at once to one path: the last to finish stays, whole.  One that fails leaves nothing, and what stood
 * there stays.  The same for files without a name while they are written and for those that have one. */
void test_part_files_do_not_meet(void) {
    part_open *const open_[] = {ph_part_open, ph_part_open_named};
    for (size_t i = 0; i < 2; i++) {
        char         folder[64], path[320];
        size_t       n = 0;
        ph_part_file a, b, c;
        ph_err       err = {0};
        ft_folder(folder);
        snprintf(path, sizeof path, "%s/%0250d", folder, 7); /* nearly as long as a name may be */
        CHECK_SAY(!open_[i](&a, path, &err) && !open_[i](&b, path, &err), "%s", err.msg);
        CHECK(a.to && b.to && fwrite("first", 1, 5, a.to) == 5 && fwrite("second", 1, 6, b.to) == 6);
        CHECK_SAY(!ph_part_close(&b, PH_OK, &err) && !ph_part_close(&a, PH_OK, &err), "%s", err.msg);
        CHECK(!open_[i](&c, path, &err) && c.to && fwrite("third", 1, 5, c.to) == 5);
        CHECK(ph_part_close(&c, PH_EFORMAT, &err) == PH_EFORMAT);
        uint8_t *bytes = ft_load(path, &n);
        CHECK(bytes && n == 5 && !memcmp(bytes, "first", 5) && count_files(folder) == 1);
        free(bytes);
        snprintf(path, sizeof path, "%s/no/such", folder);
        CHECK(open_[i](&a, path, &err) == PH_EIO && strstr(err.msg, "/no/such: No such file"));
        ft_remove(folder);
    }
}

/* What stands at "out.part" before: a link to a file, a link to nothing.  Neither is followed. */
void test_part_link_not_followed(void) {
    for (int is_dead = 0; is_dead < 2; is_dead++) {
        char         folder[64], path[96], part[96], victim[96];
        size_t       n = 0;
        struct stat  st;
        ph_part_file f;
        ph_err       err = {0};
        ft_folder(folder);
        snprintf(path, sizeof path, "%s/out", folder);
        snprintf(part, sizeof part, "%s/out.part", folder);
        snprintf(victim, sizeof victim, "%s/victim", folder);
        CHECK(is_dead || ft_save(victim, "kept", 4));
        CHECK(!symlink(victim, part));
        CHECK_SAY(!ph_part_open(&f, path, &err), "%s", err.msg);
        CHECK(f.to && fwrite("new", 1, 3, f.to) == 3);
        CHECK_SAY(!ph_part_close(&f, PH_OK, &err), "%s", err.msg);
        CHECK(!lstat(path, &st) && S_ISREG(st.st_mode) && st.st_size == 3); /* a file, no link */
        CHECK(!lstat(part, &st) && S_ISLNK(st.st_mode)); /* nor removed: it is somebody's */
        uint8_t *kept = is_dead ? NULL : ft_load(victim, &n);
        CHECK(is_dead ? lstat(victim, &st) != 0 : kept && n == 4 && !memcmp(kept, "kept", 4));
        free(kept);
        ft_remove(folder);
    }
}
