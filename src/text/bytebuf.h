/* bytebuf.h - a growing run of bytes, and a growing run of ids.
 *
 * Encoding a text needs scratch whose size depends on the text; it is taken once a
 * call and grows by doubling.  Nothing here is used while an answer is streamed.
 */
#ifndef PH_TEXT_BYTEBUF_H
#define PH_TEXT_BYTEBUF_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_bytes {
    uint8_t *at; /* [n], owned; NULL while cap is 0 */
    size_t   n, cap;
} ph_bytes;

typedef struct ph_ids {
    int32_t *at; /* [n], owned; NULL while cap is 0 */
    size_t   n, cap;
} ph_ids;

/* Make room for `more` items beyond n; grows to at least twice the old room.
 * The general form: *at points to items of `item` bytes.  Errors: PH_ELIMIT, PH_ENOMEM. */
ph_rc ph_room_grow(void **at, size_t *cap, size_t n, size_t more, size_t item, ph_err *err);

ph_rc ph_bytes_push(ph_bytes *b, const void *from, size_t n, ph_err *err); /* from may not lie inside b */
ph_rc ph_bytes_push_char(ph_bytes *b, uint32_t code_point, ph_err *err);   /* as UTF-8 */
void  ph_bytes_close(ph_bytes *b);                                         /* accepts a zeroed one */

ph_rc ph_ids_push(ph_ids *ids, int32_t id, ph_err *err);
void  ph_ids_close(ph_ids *ids); /* accepts a zeroed one */

#endif
