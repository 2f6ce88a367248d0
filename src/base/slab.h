/* An allocator whose pieces are all released at once and whose memory is then reused:
 * after a few rounds it allocates nothing more. Pieces never move. */
#ifndef TARN_BASE_SLAB_H
#define TARN_BASE_SLAB_H

#include <stddef.h>

#define TARN__SLAB_ALIGN 64u

/* Where blocks come from: memory aligned to TARN__SLAB_ALIGN. alloc and free are both set
 * or both NULL, which means the system's. */
typedef struct tarn__memory {
    void *(*alloc)(void *context, size_t size);
    void (*free)(void *context, void *memory, size_t size);
    void *context;
} tarn__memory;

void *tarn__memory_get(const tarn__memory *memory,
                       size_t size); /* NULL if there is none */
void tarn__memory_put(const tarn__memory *memory, void *data, size_t size);

/* All zero: empty, with blocks of the system. */
typedef struct tarn__slab {
    struct tarn__slab_block *first, *at;
    tarn__memory memory;
} tarn__slab;

/* Aligned to TARN__SLAB_ALIGN; NULL if out of memory. */
void *tarn__slab_take(tarn__slab *slab, size_t size);

/* The same, filled with zeros. */
void *tarn__slab_zeros(tarn__slab *slab, size_t size);

/* Makes all memory that was taken available again. */
void tarn__slab_rewind(tarn__slab *slab);
/* Frees all memory; the slab stays usable. */
void tarn__slab_free(tarn__slab *slab);

#endif
