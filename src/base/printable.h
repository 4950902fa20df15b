/* printable.h - bytes of a file as text that a terminal may be given.
 *
 * Names and values of files reach messages and listings: an escape sequence among them would move the cursor,
 * colour or retitle the terminal, and a line of text would read as one of ours.
 */
#ifndef PH_BASE_PRINTABLE_H
#define PH_BASE_PRINTABLE_H

#include <stddef.h>

/* Write bytes[n] to out[size], size at least 4, terminated.  Printable UTF-8 stays as it is; of control
 * characters (C0, C1, DEL), line and paragraph separators, marks that turn the direction of text, and bytes
 * that are no UTF-8, each byte becomes \xNN.  What does not fit ends with "...".  Written text stays as it
 * is. Returns its length. */
size_t ph_printable(char *out, size_t size, const char *bytes, size_t n);

#endif
