/* slab.h - one region of fixed size, given out in blocks that can come back.
 *
 * First fit, neighbours coalesce, every block is PH_SLAB_ALIGN-aligned.  The
 * bookkeeping stands in the region's own head, so using a slab never calls
 * malloc.  KV pages and caches live here; steps and models use arenas.
 */
#ifndef PH_BASE_SLAB_H
#define PH_BASE_SLAB_H

#include "base/err.h"

#include <stddef.h>

#define PH_SLAB_ALIGN 256

typedef struct ph_slab ph_slab;

typedef struct ph_slab_stats {
    size_t size, used, peak; /* bytes */
    size_t largest_free;     /* bytes in the largest free block */
    size_t n_blocks;         /* blocks given out */
    double fragmentation;    /* 1 - largest_free / free; 0 when nothing is free */
} ph_slab_stats;

ph_rc  ph_slab_open(ph_slab **s, size_t size, size_t blocks_max, ph_err *err);
void   ph_slab_close(ph_slab *s);
void  *ph_slab_take(ph_slab *s, size_t bytes); /* NULL when no block is large enough */
void   ph_slab_give(ph_slab *s, void *block);  /* accepts NULL */
void   ph_slab_measure(const ph_slab *s, ph_slab_stats *out);
size_t ph_slab_overhead(size_t blocks_max); /* bytes of bookkeeping that open() takes besides size */

/* A pool: n equal items in one piece, taken and given in O(1). */
typedef struct ph_pool {
    unsigned char *base; /* borrowed: [n, item] bytes */
    void          *free; /* list threaded through the free items */
    size_t         item, n, used, peak;
} ph_pool;
void ph_pool_init(ph_pool *p, void *base, size_t item, size_t n); /* item >= sizeof(void *), multiple of it */
void *ph_pool_take(ph_pool *p);                                   /* NULL when empty */
void  ph_pool_give(ph_pool *p, void *item);

#endif
