/* safetensors_write.c - writes tensors into one safetensors file, or into shards with an index.
 *
 * The header needs only names, types and shapes, so it is written first and the
 * data stream behind it.  "format": "pt" in the metadata is what readers of
 * other libraries ask for.
 */
#include "base/mem.h"
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

static void write_text(FILE *to, const char *s) {
    fputc('"', to);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20)
            fprintf(to, "\\u%04x", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

static ph_rc write_header(FILE *to, const ph_weight *at, size_t n, ph_err *err) {
    size_t offset = 0;
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", to);
    for (size_t i = 0; i < n; i++) {
        size_t want, begin = offset;
        if (ph_dtype_block(at[i].dtype) != 1)
            return PH_FAIL(err, PH_EUNSUP, "tensor %.160s: safetensors has no name for type %s", at[i].name,
                           ph_dtype_name(at[i].dtype));
        PH_TRY(ph_weight_bytes(at[i].dtype, at[i].rank, at[i].dim, &want, err));
        if (want != at[i].n_bytes || ph_add_over(offset, want, &offset))
            return PH_FAIL(err, PH_EBUG, "tensor %.160s: %zu bytes given, its shape takes %zu", at[i].name,
                           at[i].n_bytes, want);
        fputc(',', to);
        write_text(to, at[i].name);
        fprintf(to, ":{\"dtype\":\"%s\",\"shape\":[", ph_dtype_name(at[i].dtype));
        for (int k = 0; k < at[i].rank; k++) fprintf(to, "%s%lld", k ? "," : "", (long long)at[i].dim[k]);
        fprintf(to, "],\"data_offsets\":[%zu,%zu]}", begin, offset);
    }
    fputc('}', to);
    return PH_OK;
}

/* Tensors [first, first + n) of at[]: the producer counts from the first of all. */
static ph_rc write_some(FILE *to, const ph_weight *at, size_t first, size_t n, const char *header,
                        size_t n_header, const ph_producer *p, uint8_t *buffer, ph_err *err) {
    uint64_t length = ph_round_up(n_header, 8);
    fwrite(&length, sizeof length, 1, to);
    fwrite(header, 1, n_header, to);
    for (size_t k = n_header; k < length; k++) fputc(' ', to);
    for (size_t i = first; i < first + n; i++) PH_TRY(ph_produce_write(to, NULL, at, i, p, buffer, err));
    return PH_OK;
}

static ph_rc write_file(const char *path, const ph_weight *at, size_t first, size_t n, const ph_producer *p,
                        ph_err *err) {
    char        *header = NULL;
    uint8_t     *buffer = NULL;
    size_t       n_header = 0;
    ph_part_file f;
    FILE        *memory = open_memstream(&header, &n_header);
    ph_rc        rc = memory ? write_header(memory, at + first, n, err)
                             : PH_FAIL(err, PH_ENOMEM, "the header of %.200s", path);
    if (memory && fclose(memory) && !rc) rc = PH_FAIL(err, PH_ENOMEM, "the header of %.200s", path);
    if (!rc) rc = ph_produce_buffer(&buffer, at + first, n, err);
    if (!rc) rc = ph_part_open(&f, path, err);
    if (!rc) {
        rc = write_some(f.to, at, first, n, header, n_header, p, buffer, err);
        if (rc) (void)ph_note(err, rc, "while writing %.120s", path);
        rc = ph_part_close(&f, rc, err);
    }
    free(header);
    free(buffer);
    return rc;
}

ph_rc ph_safetensors_write(const char *path, const ph_weight *at, size_t n, ph_err *err) {
    return write_file(path, at, 0, n, NULL, err);
}

/* ---- shards ---- */

/* Tensors from `first` on that fit into a shard: at least one. */
static size_t fill(const ph_weight *at, size_t first, size_t n, size_t shard_bytes) {
    size_t bytes = 0, i = first;
    while (i < n && (i == first || (bytes <= shard_bytes && at[i].n_bytes <= shard_bytes - bytes)))
        bytes += at[i++].n_bytes;
    return i - first;
}

static void shard_name(char out[64], size_t i, size_t count) {
    snprintf(out, 64, "model-%05zu-of-%05zu.safetensors", i + 1, count);
}

static ph_rc write_index(const char *dir, const ph_weight *at, size_t n, size_t shard_bytes, size_t count,
                         size_t total, ph_err *err) {
    char         path[4096], name[64];
    ph_part_file f;
    if (snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir) >= (int)sizeof path)
        return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", dir);
    PH_TRY(ph_part_open(&f, path, err));
    fprintf(f.to, "{\n  \"metadata\": {\n    \"total_size\": %zu\n  },\n  \"weight_map\": {", total);
    for (size_t first = 0, shard = 0; first < n; shard++) {
        size_t some = fill(at, first, n, shard_bytes);
        shard_name(name, shard, count);
        for (size_t i = first; i < first + some; i++) {
            fputs(i ? ",\n    " : "\n    ", f.to);
            write_text(f.to, at[i].name);
            fprintf(f.to, ": \"%s\"", name);
        }
        first += some;
    }
    fputs("\n  }\n}\n", f.to);
    return ph_part_close(&f, PH_OK, err);
}

/* How many files; *shard_bytes 0 or room for all becomes one without a bound. */
static size_t count_shards(const ph_weight *at, size_t n, size_t *shard_bytes) {
    size_t total = 0, count = 0;
    for (size_t i = 0; i < n; i++)
        if (ph_add_over(total, at[i].n_bytes, &total)) total = SIZE_MAX;
    if (!*shard_bytes || total <= *shard_bytes) *shard_bytes = SIZE_MAX;
    for (size_t first = 0; first < n; count++) first += fill(at, first, n, *shard_bytes);
    return count;
}

int ph_safetensors_dir_has(const ph_weight *at, size_t n, size_t shard_bytes, const char *file) {
    char   name[64];
    size_t count = count_shards(at, n, &shard_bytes);
    if (count <= 1) return !strcmp(file, "model.safetensors");
    for (size_t i = 0; i < count; i++) {
        shard_name(name, i, count);
        if (!strcmp(file, name)) return 1;
    }
    return !strcmp(file, "model.safetensors.index.json");
}

ph_rc ph_safetensors_write_dir(const char *dir, const ph_weight *at, size_t n, size_t shard_bytes,
                               const ph_producer *p, ph_err *err) {
    char   path[4096], name[64] = "model.safetensors";
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        if (ph_add_over(total, at[i].n_bytes, &total))
            return PH_FAIL(err, PH_ELIMIT, "the tensors together are larger than a file can be");
    size_t count = count_shards(at, n, &shard_bytes);
    for (size_t first = 0, shard = 0; first < n || !shard; shard++) {
        size_t some = fill(at, first, n, shard_bytes);
        if (count > 1) shard_name(name, shard, count);
        if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
            return PH_FAIL(err, PH_EPATH, "%.200s: the path is too long", dir);
        PH_TRY(write_file(path, at, first, some, p, err));
        first += some;
    }
    return count > 1 ? write_index(dir, at, n, shard_bytes, count, total, err) : PH_OK;
}
