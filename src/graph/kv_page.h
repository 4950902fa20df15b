/* kv_page.h - how keys and values stand in a page, for those who write and read them.
 *
 *     F32 F16 BF16 Q4_1    K [heads, d_k, 64]   V [heads, 64, d_v]     keys by channel, values by token
 *     Q8_0                 K [heads, 64, d_k]   V [heads, 64, d_v]
 *
 * By channel, a query meets 64 keys without sums across a vector's lanes (kernels.h).
 * Rows of a block type are whole blocks: the last one repeats the row's last number up to its end.  A block
 * with a NaN or an infinity becomes one of NaNs.  A row that is written alone depends on nothing but its own
 * numbers; blocks of keys by channel depend on their 32 tokens, so they are written when a page is full
 * (kv_hold.h).  Source of keys by channel and values by token: KIVI, arXiv:2402.02750.
 */
#ifndef PH_GRAPH_KV_PAGE_H
#define PH_GRAPH_KV_PAGE_H

#include "graph/kv.h"
#include "kernels/kernels.h"

int    ph_kv_is_known(ph_dtype t);   /* can a cache be of this type? */
int    ph_kv_is_settled(ph_dtype t); /* blocks of keys by channel: only whole pages are of this type */
size_t ph_kv_key_bytes(const ph_kv_layer *l, ph_dtype t);   /* the keys of a page; 0: too many to count */
size_t ph_kv_value_bytes(const ph_kv_layer *l, ph_dtype t); /* its values */

/* One token's keys [n_heads, d_k] and values [n_heads, d_v] to slot 0 .. 63 of a page that is not settled. */
void ph_kv_store(const ph_kernels *kernels, const ph_kv_page *page, const ph_kv_layer *l, const float *k,
                 const float *v, size_t slot);
/* One head of a whole page of F16 to one that is settled. */
void ph_kv_settle(const ph_kv_page *to, const ph_kv_page *from, const ph_kv_layer *l, size_t head);
/* The queries of a meet the keys of one head of a page: `fn` is ph_attend_of the page's type; sets k, v,
 * their strides, and what is called for: `next` is the page that they meet then, or NULL. */
void ph_kv_meet(ph_attend_fn *fn, const ph_kv_page *page, const ph_kv_page *next, const ph_kv_layer *l,
                size_t head, ph_attend *a);

#endif
