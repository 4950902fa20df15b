/* file.h - a whole file, mapped read-only.
 *
 * Nothing is copied: a page of the file is read when it is first touched, and
 * can be dropped again by the kernel.  The bytes are untrusted.
 */
#ifndef PH_BASE_FILE_H
#define PH_BASE_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ph_file {
    const uint8_t *bytes; /* [n], mapped; NULL when n is 0; owned */
    size_t         n;
    int            is_loaded; /* by ph_file_load: memory of our own, no map of the file */
} ph_file;

/* Map the file at path (a regular file; links are followed).
 * Errors: PH_EPATH missing, unreadable or no regular file (names the path and
 * errno's text); PH_ENOMEM the map failed.  A zero-byte file is PH_OK. */
ph_rc ph_file_open(ph_file *f, const char *path, ph_err *err);
void  ph_file_close(ph_file *f); /* accepts a zeroed one */

/* The same in two steps, for a file that another process maps.  *fd is the caller's to close; errors as
 * above. */
ph_rc ph_file_descriptor(int *fd, const char *path, ph_err *err);
ph_rc ph_file_map(ph_file *f, int fd, const char *name, ph_err *err);

/* Read a mapped file into memory of our own, at the same addresses: what points into it stays right, and
 * the map is gone.  In huge pages where the machine gives them.  No other thread may be using the bytes.
 * `name` is for messages.  Errors: PH_ENOMEM. */
ph_rc ph_file_load(ph_file *f, const char *name, ph_err *err);
/* Read all of it and keep it in memory until it is closed.  Errors: PH_EMACHINE not permitted, with the limit
 * and what to do. */
ph_rc ph_file_lock(const ph_file *f, const char *name, ph_err *err);

/* Like ph_file_open for dir/name where name came from untrusted data: it may
 * not be absolute, hold "..", or lead outside dir through a link (a link whose
 * target stays a regular file is followed only if realpath stays in dir, or in
 * the sibling "blobs" folder layout of a Hugging Face cache).
 * Errors as above, and PH_EFORMAT for a name that escapes. */
ph_rc ph_file_open_in(ph_file *f, const char *dir, const char *name, ph_err *err);

/* Why such a name may not be used, whatever stands there ("it is absolute"); NULL: its text is in order. */
const char *ph_file_name_fault(const char *name);

/* May a new file take the place of what stands at path: nothing, or a regular file?
 * Errors: PH_EPATH an empty path, a folder, a device, a pipe. */
ph_rc ph_file_may_replace(const char *path, ph_err *err);

/* Like ph_file_open of a text that will be held whole: a larger file than most bytes is PH_ELIMIT. */
ph_rc ph_file_open_text(ph_file *f, const char *path, size_t most, ph_err *err);

/* Pages of the first n bytes of a read-only map are given back; they are read anew when they are touched
 * again. A file that was read into memory is left alone.  Advice: it cannot fail, and where it is not taken
 * the pages stay. */
void ph_file_forget(const ph_file *f, size_t n);
/* The same of the whole pages within [from, from + n). */
void ph_file_forget_part(const ph_file *f, size_t from, size_t n);
/* The kernel is asked for bytes [from, from + n), all at once, before they are touched.  Advice, as above. */
void ph_file_want_part(const ph_file *f, size_t from, size_t n);

int ph_name_ends_with(const char *name, const char *tail);
int ph_path_is_dir(const char *path);
int ph_path_is_file(const char *path);
int ph_path_is_there(const char *path);     /* whatever it is */
int ph_path_is_dead_link(const char *path); /* a link, and nothing stands where it leads */

#endif
