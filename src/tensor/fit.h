/* fit.h - our search for the block that is nearest to 256 floats, for types with scales inside the block.
 *
 *     offset types   x ~ (d s[part]) q - (dmin m[part])      Q2_K Q4_K Q5_K
 *     book types     x ~ (d s[part]) book[q]                 Q3_K Q6_K IQ4_XS (and IQ4_NL, one part)
 *
 * A type says how many parts and levels it has and how a part's numbers are laid
 * out; the search is the same for all.  Each part first finds its best scale (and
 * offset) as free real numbers: several starts, each refined by alternating
 * "round to levels" and "least squares".  Then d is fixed by the largest of them
 * and each part tries the whole-numbered scales around its own; a few coarser d
 * are tried too.  What is minimised is the plain squared error.
 *
 * Hostile values (NaN, infinities) give some block, never undefined behaviour.
 */
#ifndef PH_TENSOR_FIT_H
#define PH_TENSOR_FIT_H

#include <stddef.h>
#include <stdint.h>

enum { PH_FIT_BLOCK = 256, PH_FIT_PART_MAX = 32, PH_FIT_BYTES_MAX = 256 };

typedef struct ph_fit_offset {
    size_t part;        /* elements a part: 16 or 32 */
    int    levels;      /* q is 0 .. levels */
    int    steps;       /* s and m are 0 .. steps */
    size_t at_d, bytes; /* f16 d at at_d, f16 dmin behind it; bytes of the block */
    /* One part into a block that was zeroed: its scale, its offset and its q[part]. */
    void (*put)(uint8_t *block, size_t part, unsigned scale, unsigned offset, const uint8_t *q);
} ph_fit_offset;

typedef struct ph_book {
    const int8_t *value; /* [n], rising; NULL: q - n / 2 */
    int           n;
} ph_book;

typedef struct ph_fit_book {
    size_t  part;
    ph_book book;
    int     steps;                                                         /* s is -steps .. steps - 1 */
    size_t  at_d, bytes;                                                   /* f16 d at at_d */
    void (*put)(uint8_t *block, size_t part, int scale, const uint8_t *q); /* q: indices into the book */
} ph_fit_book;

/* n floats, n a multiple of PH_FIT_BLOCK, to blocks. */
void ph_fit_offset_pack(const ph_fit_offset *f, void *out, const float *in, size_t n);
void ph_fit_book_pack(const ph_fit_book *f, void *out, const float *in, size_t n);

/* The best free scale of one part under a book. */
float ph_fit_book_scale(const ph_book *book, const float *x, size_t n);
/* Indices of x[n] under x = scale book[q]; the result is the squared error. */
double ph_fit_book_assign(const ph_book *book, uint8_t *q, const float *x, size_t n, float scale);

#endif
