/* An allocator whose pieces are all released at once and whose memory is then reused:
 * after a few rounds it allocates nothing more. Pieces never move. */
#ifndef TARN_BASE_SLAB_H
#define TARN_BASE_SLAB_H

#include <stddef.h>

#define TARN__SLAB_ALIGN 64u

typedef struct tarn__slab {
    struct tarn__slab_block *first, *at;
} tarn__slab;

/* Aligned to TARN__SLAB_ALIGN; NULL if out of memory. */
void *tarn__slab_take(tarn__slab *slab, size_t size);

/* The same, filled with zeros. */
void *tarn__slab_zeros(tarn__slab *slab, size_t size);

/* Makes all memory that was taken available again. */
void tarn__slab_rewind(tarn__slab *slab);
void tarn__slab_free(tarn__slab *slab);

#endif
