/* Memory in blocks that is taken piece by piece and given back all at once, to be taken
 * again: after a few rounds nothing is allocated any more. Pieces never move. */
#ifndef TARN_BASE_SLAB_H
#define TARN_BASE_SLAB_H

#include <stddef.h>

#define TARN__SLAB_ALIGN 64u

typedef struct tarn__slab {
    struct tarn__slab_block *first, *at;
} tarn__slab;

/* Aligned to TARN__SLAB_ALIGN; NULL if there is no memory. */
void *tarn__slab_take(tarn__slab *slab, size_t size);

/* All that was taken is free again. */
void tarn__slab_rewind(tarn__slab *slab);
void tarn__slab_free(tarn__slab *slab);

#endif
