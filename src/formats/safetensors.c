/* safetensors.c - reads Hugging Face's tensor container.
 *
 * Reading one file: the header is JSON and says for each tensor where its bytes
 * are.  Each claim is checked alone (type, shape, offsets, their agreement), then
 * the list is sorted by offset and must tile the data exactly: a header that lies
 * about one tensor cannot hide behind another.
 *
 * A sharded set has an index that maps names to files.  Files are opened in order
 * of name; a tensor counts only where the index says it is.
 */
#include "formats/safetensors.h"
#include "base/mem.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What all steps over one file need. */
typedef struct scan {
    const char    *name; /* of the file */
    const uint8_t *data; /* behind the header */
    size_t         n_data;
    int            file;
} scan;

/* ---- one file ---- */

static ph_rc find_header(const scan *s, const uint8_t *bytes, size_t n, size_t *n_header, ph_err *err) {
    uint64_t claimed = 0;
    if (n < 8)
        return PH_FAIL(err, PH_EFORMAT, "%s: %zu bytes are no safetensors file: the header length takes 8",
                       s->name, n);
    memcpy(&claimed, bytes, 8);
    if (claimed > n - 8)
        return PH_FAIL(err, PH_EFORMAT, "%s: the header claims %llu bytes, but %zu follow: cut short?",
                       s->name, (unsigned long long)claimed, n - 8);
    if (claimed > PH_SAFETENSORS_HEADER_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: a header of %llu bytes, at most %d are read", s->name,
                       (unsigned long long)claimed, PH_SAFETENSORS_HEADER_MAX);
    if (!claimed || bytes[8] != '{')
        return PH_FAIL(err, PH_EFORMAT, "%s: the header does not begin with '{'", s->name);
    *n_header = (size_t)claimed;
    return PH_OK;
}

/* The type and shape of one tensor. */
static ph_rc read_shape(const scan *s, const ph_json *entry, ph_weight *w, ph_err *err) {
    const char *type;
    size_t      rank;
    PH_TRY(ph_json_text(entry, "dtype", &type, err));
    if (!ph_dtype_from_name(type, &w->dtype) || ph_dtype_block(w->dtype) != 1 ||
        strcmp(type, ph_dtype_name(w->dtype)) != 0)
        return PH_FAIL(err, PH_EUNSUP, "%s: tensor %.100s: dtype %.32s is not supported yet", s->name,
                       w->name, type);
    if (!ph_json_has(entry, "shape"))
        return PH_FAIL(err, PH_EFORMAT, "%s: tensor %.100s: no shape", s->name, w->name);
    PH_TRY(ph_json_ints(entry, "shape", w->dim, PH_WEIGHT_RANK_MAX, &rank, err));
    w->rank = (int)rank;
    ph_rc rc = ph_weight_bytes(w->dtype, w->rank, w->dim, &w->n_bytes, err);
    return rc ? ph_note(err, rc, "in the shape of tensor %.100s of %.40s", w->name, s->name) : PH_OK;
}

/* Where its bytes are, which must be as many as the shape needs. */
static ph_rc read_offsets(const scan *s, const ph_json *entry, ph_weight *w, ph_err *err) {
    int64_t at[2];
    size_t  n;
    PH_TRY(ph_json_ints(entry, "data_offsets", at, 2, &n, err));
    if (n != 2)
        return PH_FAIL(err, PH_EFORMAT, "%s: tensor %.100s: data_offsets must be two numbers", s->name,
                       w->name);
    if (at[0] < 0 || at[1] < at[0] || (uint64_t)at[1] > s->n_data)
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: tensor %.100s: data_offsets %lld to %lld do not lie within the %zu bytes of data",
                       s->name, w->name, (long long)at[0], (long long)at[1], s->n_data);
    if ((size_t)(at[1] - at[0]) != w->n_bytes) {
        char shape[160];
        ph_weight_describe(w, shape, sizeof shape);
        return PH_FAIL(err, PH_EFORMAT,
                       "%s: tensor %.80s: %.100s takes %zu bytes, but data_offsets span %lld", s->name,
                       w->name, shape, w->n_bytes, (long long)(at[1] - at[0]));
    }
    w->bytes = s->data + at[0];
    return PH_OK;
}

/* Notes of the writer, all texts; nothing here is needed to read the tensors. */
static ph_rc check_metadata(const ph_json *meta, ph_err *err) {
    const char *key, *text;
    ph_json     value;
    size_t      n;
    if (ph_json_kind_of(meta) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT, "%s: expected an object of texts", meta->where);
    for (ph_json_iter it = ph_json_members(meta); ph_json_next(&it, &key, &value);)
        PH_TRY(ph_json_to_text(&value, &text, &n, err));
    return PH_OK;
}

static int is_metadata(const char *key) {
    return !strcmp(key, "__metadata__");
}

static ph_rc read_entries(const scan *s, const ph_json *root, ph_weights *w, ph_arena *arena, ph_err *err) {
    const char *key;
    ph_json     entry;
    void       *at, *names;
    size_t      names_bytes = 1;
    if (ph_json_kind_of(root) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT, "%s: the header is no object", s->name);
    for (ph_json_iter it = ph_json_members(root); ph_json_next(&it, &key, &entry);)
        names_bytes += strlen(key) + 1;
    PH_TRY(ph_arena_zero(arena, &at, ph_json_count(root) + 1, sizeof *w->at, err));
    PH_TRY(ph_arena_carve(arena, &names, names_bytes, 1, err));
    w->at = at;
    char *name = names;
    for (ph_json_iter it = ph_json_members(root); ph_json_next(&it, &key, &entry);) {
        if (is_metadata(key)) {
            PH_TRY(check_metadata(&entry, err));
            continue;
        }
        ph_weight *t = &w->at[w->n++];
        size_t     n = strlen(key) + 1;
        memcpy(name, key, n);
        t->name = name;
        t->file = s->file;
        name += n;
        if (ph_json_kind_of(&entry) != PH_JSON_OBJECT)
            return PH_FAIL(err, PH_EFORMAT, "%s: tensor %.160s: expected an object", s->name, t->name);
        PH_TRY(read_shape(s, &entry, t, err));
        PH_TRY(read_offsets(s, &entry, t, err));
    }
    return PH_OK;
}

static int by_place(const void *a, const void *b) {
    const ph_weight *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->n_bytes < y->n_bytes ? -1 : x->n_bytes > y->n_bytes;
}

static ph_rc check_tiling(const scan *s, ph_weights *w, ph_err *err) {
    size_t end = 0;
    if (w->n) qsort(w->at, w->n, sizeof *w->at, by_place);
    for (size_t i = 0; i < w->n; i++) {
        size_t begin = (size_t)(w->at[i].bytes - s->data);
        if (begin != end)
            return PH_FAIL(err, PH_EFORMAT,
                           "%s: tensor %.80s begins at data byte %zu, but %.80s ends at %zu: %s", s->name,
                           w->at[i].name, begin, i ? w->at[i - 1].name : "the header", end,
                           begin < end ? "they overlap" : "a hole");
        end = begin + w->at[i].n_bytes;
    }
    if (end != s->n_data)
        return PH_FAIL(err, PH_EFORMAT, "%s: %zu bytes behind the last tensor belong to none", s->name,
                       s->n_data - end);
    return PH_OK;
}

ph_rc ph_safetensors_view(ph_weights *w, const uint8_t *bytes, size_t n, const char *name, int file,
                          ph_arena *arena, ph_err *err) {
    scan        s = {.name = name, .file = file};
    size_t      n_header = 0;
    ph_json_doc doc = {0};
    *w = (ph_weights){0};
    PH_TRY(find_header(&s, bytes, n, &n_header, err));
    s.data = bytes + 8 + n_header;
    s.n_data = n - 8 - n_header;
    PH_TRY(ph_json_parse(&doc, bytes + 8, n_header, name, err));
    ph_json root = ph_json_root(&doc);
    ph_rc   rc = read_entries(&s, &root, w, arena, err);
    ph_json_close(&doc);
    return rc ? rc : check_tiling(&s, w, err);
}

/* ---- a sharded set ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of the map, sorted. */
static ph_rc list_shards(const ph_json *map, const char ***out, size_t *n, ph_arena *arena, ph_err *err) {
    const char *key, **names;
    ph_json     value;
    void       *block;
    size_t      count = 0, kept = 0;
    PH_TRY(ph_arena_carve(arena, &block, ph_json_count(map) + 1, sizeof *names, err));
    names = block;
    for (ph_json_iter it = ph_json_members(map); ph_json_next(&it, &key, &value);)
        PH_TRY(ph_json_to_text(&value, &names[count++], NULL, err));
    if (!count) return PH_FAIL(err, PH_EFORMAT, "%s: empty or no object, no shard to open", map->where);
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++)
        if (!i || strcmp(names[i], names[kept - 1]) != 0) names[kept++] = names[i];
    if (kept > PH_SAFETENSORS_SHARDS_MAX)
        return PH_FAIL(err, PH_ELIMIT, "%s: %zu shards, at most %d are opened", map->where, kept,
                       PH_SAFETENSORS_SHARDS_MAX);
    *out = names;
    *n = kept;
    return PH_OK;
}

/* Keep of one shard's tensors those that the index does not place elsewhere. */
static void keep_mapped(ph_weights *part, const ph_json *map, const char *shard) {
    size_t kept = 0;
    for (size_t i = 0; i < part->n; i++) {
        ph_json     place = ph_json_get(map, part->at[i].name);
        const char *where = shard;
        (void)ph_json_to_text(&place, &where, NULL, NULL); /* not in the map: counts where it is found */
        if (!strcmp(where, shard)) part->at[kept++] = part->at[i];
    }
    part->n = kept;
}

static ph_rc open_shard(ph_safetensors *s, const char *dir, const char *shard, const ph_json *map,
                        ph_weights *part, ph_arena *arena, ph_err *err) {
    ph_file *f = &s->files[s->n_files];
    PH_TRY(ph_file_open_in(f, dir, shard, err));
    s->n_files++;
    PH_TRY(ph_safetensors_view(part, f->bytes, f->n, shard, s->n_files - 1, arena, err));
    keep_mapped(part, map, shard);
    return PH_OK;
}

static ph_rc join(ph_safetensors *s, const ph_weights *parts, ph_arena *arena, ph_err *err) {
    size_t n = 0;
    void  *at;
    for (int i = 0; i < s->n_files; i++) n += parts[i].n;
    PH_TRY(ph_arena_carve(arena, &at, n + 1, sizeof *s->weights.at, err));
    s->weights.at = at;
    for (int i = 0; i < s->n_files; i++) {
        if (parts[i].n) memcpy(s->weights.at + s->weights.n, parts[i].at, parts[i].n * sizeof *s->weights.at);
        s->weights.n += parts[i].n;
    }
    return ph_weights_index(&s->weights, arena, err);
}

/* Every name of the map must have been found where it was promised. */
static ph_rc check_map(const ph_safetensors *s, const ph_json *map, ph_err *err) {
    const char *key, *shard = "";
    ph_json     value;
    for (ph_json_iter it = ph_json_members(map); ph_json_next(&it, &key, &value);) {
        if (ph_weights_find(&s->weights, key)) continue;
        PH_TRY(ph_json_to_text(&value, &shard, NULL, err));
        return PH_FAIL(err, PH_EMISMATCH,
                       "the index places tensor %.120s in shard %.100s, which does not hold it", key, shard);
    }
    return PH_OK;
}

static ph_rc open_shards(ph_safetensors *s, const char *dir, const ph_json *map, ph_arena *arena,
                         ph_err *err) {
    const char **shard = NULL;
    size_t       n = 0;
    void        *files, *parts;
    if (ph_json_kind_of(map) != PH_JSON_OBJECT)
        return PH_FAIL(err, PH_EFORMAT, "%s: missing or no object", map->where);
    PH_TRY(list_shards(map, &shard, &n, arena, err));
    PH_TRY(ph_arena_zero(arena, &files, n, sizeof *s->files, err));
    PH_TRY(ph_arena_zero(arena, &parts, n, sizeof(ph_weights), err));
    s->files = files;
    for (size_t i = 0; i < n; i++) {
        ph_rc rc = open_shard(s, dir, shard[i], map, (ph_weights *)parts + i, arena, err);
        if (rc) return ph_note(err, rc, "while opening shard %zu of %zu, %.100s", i + 1, n, shard[i]);
    }
    PH_TRY(join(s, parts, arena, err));
    return check_map(s, map, err);
}

static ph_rc open_index(ph_safetensors *s, const char *path, ph_arena *arena, ph_err *err) {
    ph_file     f = {0};
    ph_json_doc doc = {0};
    char       *dir;
    size_t      n_dir = (size_t)(base_name(path) - path);
    PH_TRY(ph_arena_copy_text(arena, &dir, n_dir ? path : ".", n_dir ? n_dir : 1, err));
    PH_TRY(ph_file_open(&f, path, err));
    ph_rc rc = ph_json_parse(&doc, f.bytes, f.n, base_name(path), err);
    ph_file_close(&f);
    if (rc) return rc;
    ph_json root = ph_json_root(&doc), map = ph_json_get(&root, "weight_map");
    rc = open_shards(s, dir, &map, arena, err);
    ph_json_close(&doc);
    return rc;
}

static ph_rc open_single(ph_safetensors *s, const char *path, ph_arena *arena, ph_err *err) {
    void *files;
    PH_TRY(ph_arena_zero(arena, &files, 1, sizeof *s->files, err));
    s->files = files;
    PH_TRY(ph_file_open(&s->files[0], path, err));
    s->n_files = 1;
    PH_TRY(
        ph_safetensors_view(&s->weights, s->files[0].bytes, s->files[0].n, base_name(path), 0, arena, err));
    return ph_weights_index(&s->weights, arena, err);
}

ph_rc ph_safetensors_open(ph_safetensors *s, const char *path, ph_arena *arena, ph_err *err) {
    size_t n = strlen(path);
    int    is_index = n > 5 && !strcmp(path + n - 5, ".json");
    *s = (ph_safetensors){0};
    ph_rc rc = is_index ? open_index(s, path, arena, err) : open_single(s, path, arena, err);
    if (rc) ph_safetensors_close(s);
    return rc;
}

void ph_safetensors_close(ph_safetensors *s) {
    for (int i = 0; i < s->n_files; i++) ph_file_close(&s->files[i]);
    *s = (ph_safetensors){0};
}
