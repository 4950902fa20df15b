/* region.h - address space that becomes memory only where it is touched.
 *
 * A session reserves room for its longest context, but a short answer should
 * not pay for it: a region's pages are zero and absent until their first write.
 */
#ifndef PH_BASE_REGION_H
#define PH_BASE_REGION_H

#include "base/err.h"

#include <stddef.h>

typedef struct ph_region {
    void  *at;    /* page aligned; owned; NULL when bytes is 0 */
    size_t bytes; /* whole pages */
} ph_region;

ph_rc ph_region_open(ph_region *r, size_t bytes, ph_err *err); /* PH_ENOMEM: not even the addresses */
void  ph_region_close(ph_region *r);                           /* accepts a zeroed one */

#endif
