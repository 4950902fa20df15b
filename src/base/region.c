/* region.c - anonymous private mappings, see region.h. */
#include "base/region.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

ph_rc ph_region_open(ph_region *r, size_t bytes, ph_err *err) {
    *r = (ph_region){0};
    if (!bytes) return PH_OK;
    if (ph_add_over(bytes, PAGE - 1, &bytes))
        return PH_FAIL(err, PH_ELIMIT, "a region larger than the address space");
    bytes -= bytes % PAGE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return PH_FAIL(err, PH_ENOMEM, "cannot reserve %zu bytes: %s", bytes, strerror(errno));
    /* Huge pages would make the first touch of a page cost 2 MB of it, against the plan's word. */
    madvise(at, bytes, MADV_NOHUGEPAGE);
    *r = (ph_region){.at = at, .bytes = bytes};
    return PH_OK;
}

void ph_region_close(ph_region *r) {
    if (r->at) munmap(r->at, r->bytes);
    *r = (ph_region){0};
}
