/* tokimage_write.c - writes the tables of an open tokenizer down, see tokimage.h.
 *
 * All counts first, so that the place of each table is known; then copies.  What is written goes through the
 * reader's check: a file that would be refused is not made.
 */
#include "text/tokimage.h"

#include <stdlib.h>
#include <string.h>

static void put_params(ph_tokimage_head *h, const ph_tokenizer *t) {
    h->n_before = (uint32_t)t->n_before, h->n_after = (uint32_t)t->n_after;
#define PH_TOKIMAGE_NUMBER(name) h->name = t->name;
#define PH_TOKIMAGE_ARRAY(name)  memcpy(h->name, t->name, sizeof t->name);
#include "text/tokimage_params.def"
#undef PH_TOKIMAGE_NUMBER
#undef PH_TOKIMAGE_ARRAY
}

static void put_ops(ph_tokimage_head *h, ph_tokimage_list list, const ph_text_op *op, int n) {
    h->n_op[list] = (uint32_t)n;
    for (int i = 0; i < n; i++)
        h->op[list][i] = (ph_tokimage_op){.kind = (uint32_t)op[i].kind,
                                          .behavior = (uint32_t)op[i].behavior,
                                          .invert = op[i].invert,
                                          .flag = op[i].flag,
                                          .start = op[i].start,
                                          .stop = op[i].stop,
                                          .pattern = !op[i].pattern.code ? 0
                                                     : op[i].is_literal  ? 2
                                                                         : 1,
                                          .source = op[i].source,
                                          .a = op[i].a,
                                          .b = op[i].b};
}

static void put_head(ph_tokimage_head *h, const ph_tokenizer *t) {
    size_t n_name = strlen(t->model->name);
    memcpy(h->magic, PH_TOKIMAGE_MAGIC, sizeof h->magic);
    memcpy(h->model, t->model->name, n_name < sizeof h->model ? n_name : sizeof h->model - 1);
    h->version = PH_TOKIMAGE_VERSION;
    h->order = PH_TOKIMAGE_ORDER;
    h->n_blob = t->n_blob, h->n_ids = t->n_ids, h->n_model = t->n_model, h->n_slots = t->n_slots;
    h->n_merges = t->n_merges, h->n_merge_slots = t->n_merge_slots;
    h->n_score = t->score ? t->n_ids : 0;
    h->n_rank = t->rank ? t->n_ids : 0;
    h->n_sorted = t->sorted ? t->n_model : 0;
    h->n_nodes = t->pieces.n_nodes, h->n_edges = t->pieces.n_edges, h->n_texts = t->pieces.n_texts;
    h->n_row[0] = t->raw.n, h->n_row[1] = t->norm.n, h->n_row[2] = t->spelled.n;
    put_params(h, t);
    put_ops(h, PH_TOKIMAGE_NORM, t->norm_op, t->n_norm_op);
    put_ops(h, PH_TOKIMAGE_SPLIT, t->split_op, t->n_split_op);
    put_ops(h, PH_TOKIMAGE_DECODE, t->decode_op, t->n_decode_op);
}

static void put_tables(uint8_t *bytes, const ph_tokimage *m, const ph_tokenizer *t) {
    const struct {
        ph_tokimage_table which;
        const void       *from;
    } table[] = {{PH_TOKIMAGE_BLOB, t->blob},
                 {PH_TOKIMAGE_PIECE, t->piece},
                 {PH_TOKIMAGE_FLAGS, t->flags},
                 {PH_TOKIMAGE_SCORE, t->score},
                 {PH_TOKIMAGE_SLOTS, t->slots},
                 {PH_TOKIMAGE_MERGES, t->merges},
                 {PH_TOKIMAGE_MERGE_SLOTS, t->merge_slots},
                 {PH_TOKIMAGE_SORTED, t->sorted},
                 {PH_TOKIMAGE_RANK, t->rank},
                 {PH_TOKIMAGE_ROOT, t->pieces.root},
                 {PH_TOKIMAGE_FAIL, t->pieces.fail},
                 {PH_TOKIMAGE_HIT, t->pieces.hit},
                 {PH_TOKIMAGE_FIRST, t->pieces.first},
                 {PH_TOKIMAGE_EDGES, t->pieces.edges},
                 {PH_TOKIMAGE_SHORTER, t->pieces.shorter}};
    const ph_added_set *set[] = {&t->raw, &t->norm, &t->spelled};
    uint8_t            *row = bytes + m->at[PH_TOKIMAGE_ROWS];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (m->n[table[i].which])
            memcpy(bytes + m->at[table[i].which], table[i].from, (size_t)m->n[table[i].which]);
    for (size_t k = 0; k < sizeof set / sizeof *set; k++)
        for (uint32_t i = 0; i < set[k]->n; i++, row += sizeof(ph_tokimage_row)) {
            const ph_tokimage_row one = {set[k]->row[i].text, set[k]->row[i].id};
            memcpy(row, &one, sizeof one);
        }
}

ph_rc ph_tokenizer_to_image(const ph_tokenizer *t, uint8_t **bytes, size_t *n, ph_err *err) {
    ph_tokimage_head *h = calloc(1, sizeof *h);
    ph_err            why = {0};
    *bytes = NULL, *n = 0;
    if (!h) return PH_FAIL(err, PH_ENOMEM, "%s: the head of an image", t->name);
    put_head(h, t);
    ph_tokimage m = ph_tokimage_lay(h);
    h->n_bytes = m.n_bytes;
    uint8_t *image = calloc(1, (size_t)m.n_bytes);
    if (image) {
        memcpy(image, h, sizeof *h);
        put_tables(image, &m, t);
    }
    free(h);
    if (!image)
        return PH_FAIL(err, PH_ENOMEM, "%s: an image of %llu bytes", t->name, (unsigned long long)m.n_bytes);
    m = ph_tokimage_lay((const ph_tokimage_head *)(const void *)image);
    ph_rc rc = ph_tokimage_check(&m, t->name, &why);
    if (rc) {
        free(image);
        return rc == PH_EFORMAT ? PH_OK : PH_FAIL(err, rc, "%s", why.msg);
    }
    *bytes = image, *n = (size_t)m.n_bytes;
    return PH_OK;
}
