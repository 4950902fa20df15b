/* bundle_test.c - sealed files: every byte counts, and parts come out as they went in. */
#include "base/mem.h"
#include "formats/bundle.h"
#include "formats/gguf_write.h"
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t numbers[9 << 20] = {1, 2, 3};

/* A small bundle of two parts and an extra tensor, but for what is said otherwise. */
typedef struct how {
    int    no_version, no_seal, no_mmproj, no_vision;
    int    version; /* of the key; 0: 1 */
    size_t extra;   /* that the key says; 0: 1 */
    size_t large;   /* bytes of the first tensor; 0: few */
} how;

static ph_weight vector(const char *name, size_t n) {
    return (ph_weight){
        .name = name, .dtype = PH_F32, .rank = 1, .dim = {(int64_t)n / 4}, .bytes = numbers, .n_bytes = n};
}

static void put_keys(ph_gguf_meta *m, const how *h) {
    ph_gguf_put_text(m, "general.architecture", "llama", 5);
    ph_gguf_put_int(m, "llama.block_count", PH_GGUF_U32, 2);
    if (!h->no_version) ph_gguf_put_int(m, PH_BUNDLE_VERSION_KEY, PH_GGUF_U32, h->version ? h->version : 1);
    if (!h->no_version)
        ph_gguf_put_int(m, PH_BUNDLE_KEY "extra_tensors", PH_GGUF_U64, h->extra ? (int64_t)h->extra : 1);
    if (!h->no_vision && !h->no_version) ph_gguf_put_int(m, PH_BUNDLE_VISION_KEY, PH_GGUF_U64, 2);
    if (!h->no_mmproj && !h->no_version)
        ph_gguf_put_text(m, PH_BUNDLE_MMPROJ_KEY "general.architecture", "clip", 4);
    if (!h->no_version) ph_gguf_put_text(m, PH_BUNDLE_KEY "panels", "of a later program", 18);
}

/* Its bytes, the caller's to free. */
static uint8_t *make(const how *h, size_t *n) {
    char           *bytes = NULL;
    const ph_weight at[] = {vector("token_embd.weight", h->large ? h->large : 40),
                            vector("output.weight", 12), vector("v.patch_embd.weight", 100),
                            vector("mm.0.weight", 4), vector("pinhole.panel.0", 64)};
    ph_gguf_meta    meta = {0};
    ph_sealer       sealer = {0};
    ph_err          err = {0};
    FILE           *to = open_memstream(&bytes, n);
    put_keys(&meta, h);
    ph_rc rc = ph_sealer_open(&sealer, &err);
    if (!rc) rc = ph_gguf_write_into(to, &sealer, "made", &meta, at, sizeof at / sizeof *at, NULL, &err);
    if (!rc && !h->no_seal) rc = ph_sealer_end(&sealer, to, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    ph_sealer_close(&sealer);
    ph_gguf_meta_close(&meta);
    fclose(to);
    return (uint8_t *)bytes;
}

/* Opened whole, in a block of exactly its size; arena is the caller's. */
static ph_rc open_bytes(const uint8_t *bytes, size_t n, ph_bundle *b, ph_gguf *g, ph_gguf *vision,
                        ph_arena *arena, ph_err *err) {
    *err = (ph_err){0};
    *b = (ph_bundle){0};
    ph_rc rc = ph_gguf_view(g, bytes, n, "made", arena, err);
    if (!rc) rc = ph_bundle_open(b, g, vision, arena, err);
    return rc ? rc : ph_bundle_check(b, err);
}

static ph_rc judge(const uint8_t *bytes, size_t n, ph_err *err) {
    ph_arena  arena = ft_arena();
    ph_gguf   g, vision;
    ph_bundle b;
    uint8_t  *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, bytes, n);
    ph_rc rc = open_bytes(copy, n, &b, &g, &vision, &arena, err);
    if (!rc && !b.version) rc = PH_EBUG; /* not known as a bundle any more */
    free(copy);
    ph_arena_close(&arena);
    return rc;
}

void test_bundle_parts(void) {
    size_t    n;
    uint8_t  *bytes = make(&(how){0}, &n);
    ph_arena  arena = ft_arena();
    ph_gguf   g, vision;
    ph_bundle b;
    ph_err    err;
    CHECK_SAY(!open_bytes(bytes, n, &b, &g, &vision, &arena, &err), "%s", err.msg);
    CHECK(b.version == 1 && b.has_vision && b.all.n == 5);
    CHECK(g.n_kv == 2 && ph_gguf_find(&g, "llama.block_count") && !ph_gguf_find(&g, PH_BUNDLE_VERSION_KEY));
    CHECK(g.weights.n == 2 && ph_weights_find(&g.weights, "output.weight") &&
          !ph_weights_find(&g.weights, "mm.0.weight"));
    CHECK(vision.n_kv == 1 && ph_gguf_find(&vision, "general.architecture") && !vision.n_files);
    CHECK(vision.weights.n == 2 && ph_weights_find(&vision.weights, "mm.0.weight"));
    CHECK(b.own.weights.n == 1 && ph_weights_find(&b.own.weights, "pinhole.panel.0"));
    CHECK(ph_gguf_find(&b.own, PH_BUNDLE_KEY "panels") && ph_gguf_find(&b.own, PH_BUNDLE_VERSION_KEY));
    ph_arena_close(&arena);
    free(bytes);
}

void test_bundle_every_byte(void) {
    size_t   n;
    uint8_t *bytes = make(&(how){0}, &n);
    ph_err   err;
    CHECK_SAY(!judge(bytes, n, &err), "%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        ph_rc rc = judge(bytes, n, &err);
        CHECK_SAY((rc == PH_EFORMAT || rc == PH_EUNSUP) && err.msg[0], "byte %zu: %d, %s", i, rc, err.msg);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    free(bytes);
}

void test_bundle_cut_and_appended(void) {
    size_t   n;
    uint8_t *bytes = make(&(how){0}, &n), *more = calloc(1, n + 64);
    ph_err   err;
    memcpy(more, bytes, n);
    for (size_t k = 0; k < n; k++) {
        ph_rc rc = judge(bytes, k, &err);
        CHECK_SAY(rc == PH_EFORMAT && err.msg[0], "cut at %zu of %zu: %d, %s", k, n, rc, err.msg);
    }
    for (size_t k = 1; k <= 64; k++)
        ft_expect("appended", judge(more, n + k, &err), PH_EFORMAT, &err, "were appended");
    memcpy(more + 8, bytes, n); /* a piece in front */
    CHECK(judge(more, n + 8, &err) == PH_EFORMAT);
    free(more);
    free(bytes);
}

/* What a writer sealed and should not have. */
void test_bundle_lies(void) {
    static const struct {
        how         h;
        ph_rc       rc;
        const char *part;
    } rows[] = {
        {{.no_seal = 1}, PH_EFORMAT, "a bundle without its seal: the file ends at byte"},
        {{.no_version = 1}, PH_EFORMAT, "a seal without the keys of a bundle"},
        {{.version = 2}, PH_EUNSUP, "key pinhole.bundle.version is 2, but its seal is of version 1"},
        {{.extra = 6}, PH_EFORMAT, "extra_tensors is 6, but 5 tensors are left"},
        {{.extra = 4}, PH_EFORMAT, "vision_tensors is 2, but 1 tensors are left"},
        {{.no_mmproj = 1}, PH_EFORMAT, "2 tensors of a vision file, but 0 keys"},
        {{.no_vision = 1}, PH_EFORMAT, "0 tensors of a vision file, but 1 keys"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t   n;
        ph_err   err;
        uint8_t *bytes = make(&rows[i].h, &n);
        ft_expect(rows[i].part, judge(bytes, n, &err), rows[i].rc, &err, rows[i].part);
        free(bytes);
    }
}

/* Data of a plain file may end as a seal does. */
void test_bundle_word_by_chance(void) {
    size_t    n;
    uint8_t  *bytes = make(&(how){.no_seal = 1, .no_version = 1}, &n);
    ph_arena  arena = ft_arena();
    ph_gguf   g, vision;
    ph_bundle b;
    ph_err    err;
    memcpy(bytes + n - 8, "PHBUNDLE", 8);
    CHECK_SAY(!open_bytes(bytes, n, &b, &g, &vision, &arena, &err), "%s", err.msg);
    CHECK(!b.version && g.weights.n == 5);
    ph_arena_close(&arena);
    free(bytes);
}

/* A head that ends within the tables would leave keys to the data's digests, which may be trusted. */
void test_bundle_short_head(void) {
    size_t    n, n_sealed;
    uint8_t  *bytes = make(&(how){.no_seal = 1}, &n);
    char     *sealed = NULL;
    ph_sealer s = {0};
    ph_err    err = {0};
    FILE     *to = open_memstream(&sealed, &n_sealed);
    CHECK(to && !ph_sealer_open(&s, &err));
    ph_sealer_add(&s, bytes, 24);
    ph_sealer_cut(&s);
    ph_sealer_add(&s, bytes + 24, n - 24);
    fwrite(bytes, 1, n, to);
    CHECK(!ph_sealer_end(&s, to, &err) && !fclose(to));
    ft_expect("a short head", judge((uint8_t *)sealed, n_sealed, &err), PH_EFORMAT, &err,
              "of which the seal of this bundle holds 24");
    ph_sealer_close(&s);
    free(sealed);
    free(bytes);
}

void test_bundle_versions(void) {
    size_t   n;
    uint8_t *bytes = make(&(how){0}, &n);
    ph_err   err;
    uint32_t version = 2;
    memcpy(bytes + n - 16, &version, sizeof version);
    ft_expect("version 2", judge(bytes, n, &err), PH_EUNSUP, &err,
              "a bundle of version 2; this program reads version 1");
    free(bytes);
}

/* A large tensor is several pieces, the damaged one is named with its place. */
void test_bundle_pieces(void) {
    size_t   n;
    uint8_t *bytes = make(&(how){.large = sizeof numbers}, &n);
    char     part[64];
    ph_seal  s;
    ph_err   err = {0};
    CHECK(!ph_seal_read(&s, bytes, n, "made", &err) && s.n_pieces == 3 + 4 && !judge(bytes, n, &err));
    bytes[s.head + PH_SEAL_PIECE + 5] ^= 1;
    snprintf(part, sizeof part, "(bytes %zu to %zu of the file)", s.head + PH_SEAL_PIECE,
             s.head + 2 * (size_t)PH_SEAL_PIECE);
    ft_expect("the second piece", judge(bytes, n, &err), PH_EFORMAT, &err, part);
    bytes[s.head + 3] ^= 1; /* the first of two is named, whoever meets it */
    snprintf(part, sizeof part, "token_embd.weight (bytes %zu to", s.head);
    ft_expect("the first piece", judge(bytes, n, &err), PH_EFORMAT, &err, part);
    free(bytes);
}

/* What the check has read is no part of the process afterwards. */
void test_bundle_gives_pages_back(void) {
    char      folder[64], path[96];
    size_t    n;
    uint8_t  *bytes = make(&(how){.large = sizeof numbers}, &n);
    ph_arena  arena = ft_arena();
    ph_gguf   g = {0}, vision;
    ph_bundle b = {0};
    ph_mem    before, after;
    ph_err    err = {0};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/b", folder);
    CHECK(ft_save(path, bytes, n) && !ph_gguf_open(&g, path, &arena, &err) &&
          !ph_bundle_open(&b, &g, &vision, &arena, &err) && b.version);
    CHECK(ph_mem_read(&before) && !ph_bundle_check(&b, &err) && ph_mem_read(&after));
    CHECK_SAY(after.rss_file <= before.rss_file + (256 << 10), "%zu then %zu", before.rss_file,
              after.rss_file);
    ph_gguf_close(&g);
    ft_remove(folder);
    ph_arena_close(&arena);
    free(bytes);
}

/* The head may be written anew, and all of it is sealed again. */
void test_bundle_head_anew(void) {
    char     folder[64], path[96];
    size_t   n;
    uint8_t *bytes = make(&(how){0}, &n), *head;
    ph_seal  s;
    ph_file  f = {0};
    ph_err   err = {0};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/b", folder);
    CHECK(!ph_seal_read(&s, bytes, n, "made", &err) && ft_save(path, bytes, n));
    head = malloc(s.head);
    memcpy(head, bytes, s.head);
    uint8_t *at = memmem(head, s.head, "of a later", 10);
    CHECK(at != NULL);
    memcpy(at, "of another", 10);
    FILE *to = fopen(path, "r+b");
    CHECK(to && !ph_seal_change_head(to, &s, head, &err));
    if (to) fclose(to);
    CHECK(!ph_file_open(&f, path, &err) && f.n == n);
    CHECK_SAY(!judge(f.bytes, f.n, &err), "%s", err.msg);
    CHECK(memmem(f.bytes, f.n, "of another program", 18) && !memmem(f.bytes, f.n, "of a later", 10));
    ph_file_close(&f);
    ft_remove(folder);
    free(head);
    free(bytes);
}

/* Ends that do not go up to the data's end, under a digest that is right for them. */
void test_bundle_ends(void) {
    char     folder[64], path[96];
    size_t   n;
    uint8_t *bytes = make(&(how){0}, &n), *rows;
    ph_seal  s;
    ph_err   err = {0};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/b", folder);
    CHECK(!ph_seal_read(&s, bytes, n, "made", &err) && s.n_pieces == 5);
    size_t n_rows = s.n_pieces * PH_SEAL_ROW;
    rows = malloc(n_rows);
    for (int i = 0; i < 4; i++) {
        const uint64_t end[] = {0, s.data + 1, s.data, s.data - 1};
        ph_file        f = {0};
        ph_seal        lie = s;
        memcpy(rows, s.piece, n_rows);
        memcpy(rows + (i == 3 ? 4 : 1) * PH_SEAL_ROW, &end[i], 8);
        lie.piece = rows;
        CHECK(ft_save(path, bytes, n));
        FILE *to = fopen(path, "r+b");
        CHECK(to && !ph_seal_change_head(to, &lie, bytes, &err) && !fclose(to) &&
              !ph_file_open(&f, path, &err));
        ft_expect("ends", judge(f.bytes, f.n, &err), PH_EFORMAT, &err, "the seal of this bundle");
        ph_file_close(&f);
    }
    ft_remove(folder);
    free(rows);
    free(bytes);
}
