/* carried_test.c - directories carried by GGUF files: what stands otherwise there comes back, and lies do
 * not. */
#include "formats/carried.h"
#include "formats/hfdir.h"
#include "tests/unit/formats/formats_test.h"
#include "tests/unit/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LONG                                                                                                 \
    "model.vision_tower.vision_model.encoder.layers.10.self_attn.out_proj.some_more_words_behind_it.weight"

static const uint8_t numbers[4096];

static ph_weight weight(const char *name, ph_dtype type, int rank, ...) {
    ph_weight w = {.name = name, .dtype = type, .rank = rank, .bytes = numbers};
    va_list   ap;
    va_start(ap, rank);
    for (int i = 0; i < rank; i++) w.dim[i] = va_arg(ap, int);
    va_end(ap);
    CHECK(!ph_weight_bytes(type, rank, w.dim, &w.n_bytes, NULL) && w.n_bytes <= sizeof numbers);
    return w;
}

/* Tensors and the lines for them into a file; extra keys are the caller's. */
static ph_rc write(const char *path, const ph_weights *all, ph_gguf_meta *meta, ph_arena *arena,
                   ph_err *err) {
    void *placed;
    PH_TRY(ph_arena_zero(arena, &placed, all->n + 1, sizeof(ph_weight), err));
    for (size_t i = 0; i < all->n; i++) PH_TRY(ph_carried_place(all, i, (ph_weight *)placed + i, arena, err));
    return ph_gguf_write(path, meta, placed, all->n, NULL, err);
}

static int same(const ph_weight *a, const ph_weight *b) {
    return b && a->dtype == b->dtype && a->rank == b->rank && a->n_bytes == b->n_bytes &&
           !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* Names that do not fit, twice the same end, letters of several bytes; types and shapes that GGUF cannot say.
 */
void test_carried_there_and_back(void) {
    static char  umlauts[220];
    char         folder[64], path[96];
    ph_arena     arena = ft_arena();
    ph_gguf      g = {0};
    ph_gguf_meta meta = {0};
    ph_weights   back;
    ph_dtype    *was;
    ph_err       err = {0};
    for (int i = 0; i < 100; i++) memcpy(umlauts + 2 * i, "\xc3\xa4", 3);
    ph_weight at[] = {
        weight("scale", PH_F32, 0),
        weight("mask", PH_BOOL, 1, 7),
        weight("bytes", PH_U8, 2, 3, 5),
        weight("wide", PH_U64, 1, 3),
        weight("words", PH_U32, 2, 2, 4),
        weight("short", PH_U16, 1, 9),
        weight("ids", PH_I64, 2, 1, 8),
        weight("frames", PH_BF16, 5, 4, 3, 2, 5, 7),
        weight("many", PH_F16, 8, 1, 2, 1, 2, 1, 2, 1, 3),
        weight("a." LONG, PH_F32, 1, 4),
        weight("b." LONG, PH_F32, 1, 5),
        weight(umlauts, PH_F32, 1, 6),
        weight("9~dden.layers.10.self_attn.out_proj.some_more_words_behind_it.weight", PH_F32, 1, 2)};
    ph_weights all = {.at = at, .n = sizeof at / sizeof *at};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/c.gguf", folder);
    CHECK(!ph_weights_index(&all, &arena, NULL));
    CHECK(!ph_carried_put_lines(&meta, at, NULL, all.n, &err));
    ph_rc rc = write(path, &all, &meta, &arena, &err);
    if (!rc) rc = ph_gguf_open(&g, path, &arena, &err);
    for (size_t i = 0; i < g.weights.n; i++)
        CHECK_SAY(strlen(g.weights.at[i].name) <= PH_CARRIED_NAME_MAX &&
                      ((uint8_t)g.weights.at[i].name[0] & 0xc0) != 0x80,
                  "%s", g.weights.at[i].name);
    if (!rc) rc = ph_carried_weights(&g, &back, &was, &arena, &err);
    CHECK_SAY(!rc, "%s", err.msg);
    for (size_t i = 0; i < all.n && !rc; i++)
        CHECK_SAY(same(&at[i], ph_weights_find(&back, at[i].name)) && was[i] == at[i].dtype, "%s",
                  at[i].name);
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ft_remove(folder);
    ph_arena_close(&arena);
}

/* A cut name that another tensor has in full gets another. */
void test_carried_names_differ(void) {
    ph_arena   arena = ft_arena();
    ph_weight  one = weight(LONG, PH_F32, 1, 1), cut;
    ph_weights alone = {.at = &one, .n = 1};
    CHECK(!ph_weights_index(&alone, &arena, NULL) && !ph_carried_place(&alone, 0, &cut, &arena, NULL));
    CHECK(strlen(cut.name) == PH_CARRIED_NAME_MAX && !strncmp(cut.name, "0~", 2));
    ph_weight  two[] = {one, weight(cut.name, PH_F32, 1, 1)}, again;
    ph_weights both = {.at = two, .n = 2};
    CHECK(!ph_weights_index(&both, &arena, NULL) && !ph_carried_place(&both, 0, &again, &arena, NULL));
    CHECK_SAY(strcmp(again.name, cut.name) && strlen(again.name) == PH_CARRIED_NAME_MAX, "%s", again.name);
    ph_arena_close(&arena);
}

void test_carried_not_written(void) {
    static char name[1100];
    ph_arena    arena = ft_arena();
    ph_err      err = {0};
    memset(name, 'n', sizeof name - 1);
    ph_weight  at[] = {weight("none", PH_F32, 2, 3, 0), weight(name, PH_F32, 1, 1)}, to;
    ph_weights all = {.at = at, .n = 2};
    CHECK(!ph_weights_index(&all, &arena, NULL));
    ft_expect("no elements", ph_carried_place(&all, 0, &to, &arena, &err), PH_EUNSUP, &err, "no elements");
    ft_expect("a long name", ph_carried_place(&all, 1, &to, &arena, &err), PH_ELIMIT, &err, "1099 bytes");
    ph_gguf_meta meta = {0};
    ft_expect("a long line", ph_carried_put_lines(&meta, at, NULL, 2, &err), PH_ELIMIT, &err, "1099 bytes");
    ph_gguf_meta_close(&meta);
    ph_arena_close(&arena);
}

/* ---- lies ---- */

typedef struct lie {
    const char *what;
    const char *lines[2], *shapes[2]; /* for a [2, 3] F32 and a [4] I32; "-": no such key */
    const char *part;                 /* of the message */
} lie;

static void tell(const lie *l, ph_arena *arena) {
    char                     folder[64], path[96];
    ph_gguf                  g = {0};
    ph_gguf_meta             meta = {0};
    ph_weights               w;
    ph_dtype                *was;
    ph_err                   err = {0};
    const char *const       *list[] = {l->lines, l->shapes};
    static const char *const key[] = {"pinhole.original.tensors", "pinhole.original.shapes"};
    ph_weight                at[] = {weight("a", PH_F32, 2, 2, 3), weight("b", PH_I32, 1, 4)};
    ft_folder(folder);
    snprintf(path, sizeof path, "%s/lie.gguf", folder);
    for (int k = 0; k < 2; k++) {
        size_t n = !list[k][0] ? 0 : !list[k][1] ? 1 : 2;
        if (!n || !strcmp(list[k][0], "-")) continue;
        ph_gguf_put_array(&meta, key[k], PH_GGUF_TEXT, n);
        for (size_t i = 0; i < n; i++) ph_gguf_add_text(&meta, list[k][i], strlen(list[k][i]));
    }
    CHECK(!ph_gguf_write(path, &meta, at, 2, NULL, &err) && !ph_gguf_open(&g, path, arena, &err));
    ph_rc rc = ph_carried_weights(&g, &w, &was, arena, &err);
    if (l->part)
        ft_expect(l->what, rc, PH_EFORMAT, &err, l->part);
    else
        CHECK_SAY(!rc, "%s: %s", l->what, err.msg);
    ph_gguf_meta_close(&meta);
    ph_gguf_close(&g);
    ft_remove(folder);
}

void test_carried_lies(void) {
    static const lie lies[] = {
        {"another number of rows", {"F32 x", "I32 y"}, {"[6]", ""}, "no shape of its elements"},
        {"nothing wrong", {"F32 x", "I32 y"}, {0}, NULL},
        {"other types of numbers", {"BF16 x", "I32 y"}, {0}, NULL},
        {"names that look like paths", {"F32 ../../x", "I32 /y"}, {0}, NULL},
        {"a shape in the same rows", {"F32 x", "I32 y"}, {"[1, 2, 1, 1, 3]", ""}, NULL},
        {"whole numbers of the same size", {"F32 x", "U32 y"}, {0}, NULL},
        {"no lines", {"-"}, {0}, "found none"},
        {"a line less", {"F32 x"}, {0}, "1 lines for 2 tensors"},
        {"a shape less", {"F32 x", "I32 y"}, {"[2, 3]"}, "1 lines for 2 tensors"},
        {"a name twice", {"F32 x", "I32 x"}, {0}, "listed twice"},
        {"no type", {"x", "I32 y"}, {0}, "does not begin with a type"},
        {"an empty line", {"", "I32 y"}, {0}, "does not begin with a type"},
        {"no such type", {"F31 x", "I32 y"}, {0}, "does not begin with a type"},
        {"a block type", {"Q4_0 x", "I32 y"}, {0}, "does not begin with a type"},
        {"a long type", {"FFFFFFFFFFFFFFFFFFFFFFFFFFFF x", "I32 y"}, {0}, "does not begin with a type"},
        {"no name", {"F32 ", "I32 y"}, {0}, "a name of 0 bytes"},
        {"a name that is none", {"F32 __metadata__", "I32 y"}, {0}, "no tensor of a directory"},
        {"no UTF-8", {"F32 \xff\xfe", "I32 y"}, {0}, "no UTF-8 text"},
        {"half a letter", {"F32 x\xc3", "I32 y"}, {0}, "no UTF-8 text"},
        {"numbers as whole ones", {"U32 x", "I32 y"}, {0}, "was U32, but is stored as F32"},
        {"whole ones as numbers", {"F32 x", "F32 y"}, {0}, "was F32, but is stored as I32"},
        {"a smaller size", {"F32 x", "U8 y"}, {0}, "was U8, but is stored as I32"},
        {"more elements", {"F32 x", "I32 y"}, {"[3, 3]", ""}, "no shape of its elements"},
        {"longer rows", {"F32 x", "I32 y"}, {"[1, 6]", ""}, "no shape of its elements"},
        {"an overflow",
         {"F32 x", "I32 y"},
         {"[9223372036854775807, 9223372036854775807, 3]", ""},
         "no shape"},
        {"a dimension of none", {"F32 x", "I32 y"}, {"[0, 2, 3]", ""}, "no shape"},
        {"a dimension below none", {"F32 x", "I32 y"}, {"[-2, 3]", ""}, "no shape"},
        {"nine dimensions", {"F32 x", "I32 y"}, {"[1, 1, 1, 1, 1, 1, 1, 2, 3]", ""}, "no shape"},
        {"a scalar", {"F32 x", "I32 y"}, {"[]", ""}, "no shape"},
        {"a list without an end", {"F32 x", "I32 y"}, {"[2, 3", ""}, "no shape"},
        {"a list with an end", {"F32 x", "I32 y"}, {"[2, 3, ]", ""}, "no shape"},
        {"words behind", {"F32 x", "I32 y"}, {"[2, 3]]", ""}, "no shape"},
    };
    ph_arena arena = ft_arena();
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) tell(&lies[i], &arena);
    ph_arena_close(&arena);
}

/* A file that another program wrote (tests/golden/carried): files and weights as the directory has them. */
void test_carried_by_others(void) {
    static const char dir[] = "tests/golden/set/models/align_clip", file[] = "tests/golden/carried/clip.gguf";
    ph_arena          arena = ft_arena();
    ph_gguf           g = {0};
    ph_hfdir          from = {0}, d = {0};
    ph_err            err = {0};
    static const char *const names[] = {"config.json", "tokenizer.json", "merges.txt", "nothing.json"};
    CHECK(!ph_hfdir_open(&from, dir, PH_HFDIR_MODEL, &arena, &err) && !ph_gguf_open(&g, file, &arena, &err));
    CHECK(ph_carried_is(&g));
    CHECK_SAY(!ph_hfdir_open_carried(&d, &g, file, &arena, &err), "%s", err.msg);
    ph_gguf_forget(&g); /* nothing below may notice */
    for (size_t i = 0; i < 4; i++) {
        ph_file a, b;
        int     has_a = 0, has_b = 0;
        CHECK(!ph_hfdir_take(&from, names[i], &a, &has_a, &err) &&
              !ph_hfdir_take(&d, names[i], &b, &has_b, &err));
        CHECK_SAY(has_a == has_b && a.n == b.n && (!a.n || !memcmp(a.bytes, b.bytes, a.n)), "%s", names[i]);
        ph_hfdir_give(&from, &a);
        ph_hfdir_give(&d, &b);
    }
    const ph_weights *w = &from.weights.weights, *v = &d.weights.weights;
    CHECK(w->n == v->n && w->n > 70);
    for (size_t i = 0; i < w->n; i++) {
        const ph_weight *a = &w->at[i], *b = ph_weights_find(v, a->name);
        CHECK_SAY(b && a->rank == b->rank && (b->dtype == PH_Q8_0 || same(a, b)), "%s", a->name);
        CHECK_SAY(b && d.was[b - v->at] == a->dtype, "%s", a->name);
        CHECK(!b || b->dtype == PH_Q8_0 || !memcmp(a->bytes, b->bytes, a->n_bytes));
    }
    ph_hfdir_close(&d);
    ph_hfdir_close(&from);
    ph_gguf_close(&g);
    ph_arena_close(&arena);
}

/* A key that should be a file and is a number; a file without its config. */
void test_carried_bad_files(void) {
    char         folder[64], path[96];
    ph_arena     arena = ft_arena();
    ph_gguf      g = {0};
    ph_gguf_meta meta = {0};
    ph_hfdir     d;
    ph_err       err = {0};
    ph_weight    at = weight("a", PH_F32, 1, 1);
    for (int k = 0; k < 3; k++) {
        ft_folder(folder);
        snprintf(path, sizeof path, "%s/bad.gguf", folder);
        ph_gguf_put_text(&meta, "general.architecture", "huggingface", 11);
        if (k == 1) ph_gguf_put_int(&meta, "pinhole.original.config.json", PH_GGUF_U32, 3);
        if (k == 2) ph_gguf_put_text(&meta, "pinhole.original.config.json", "[1]", 3);
        CHECK(!ph_gguf_write(path, &meta, &at, 1, NULL, &err) && !ph_gguf_open(&g, path, &arena, &err));
        static const char *const part[] = {"config.json is missing", "expected a text", "expected an object"};
        ft_expect(part[k], ph_hfdir_open_carried(&d, &g, path, &arena, &err), PH_EFORMAT, &err, part[k]);
        ph_gguf_meta_close(&meta);
        ph_gguf_close(&g);
        ft_remove(folder);
    }
    ph_arena_close(&arena);
}
