/* A list of blocks; a piece is taken from the first block with room, starting at the
 * current one. */
#include "base/slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEAST ((size_t)64 << 10) /* minimum size of a block in bytes */

typedef struct tarn__slab_block {
    struct tarn__slab_block *next;
    size_t size, used;
    unsigned char *data;
} block;

void *tarn__memory_get(const tarn__memory *memory, size_t size)
{
    return memory->alloc ? memory->alloc(memory->context, size)
                         : aligned_alloc(TARN__SLAB_ALIGN, size);
}

void tarn__memory_put(const tarn__memory *memory, void *data, size_t size)
{
    if (!data) return;
    if (memory->free)
        memory->free(memory->context, data, size);
    else
        free(data);
}

static block *new_block(const tarn__memory *memory, size_t size)
{
    if (size < LEAST) size = LEAST;
    block *b = malloc(sizeof *b);
    unsigned char *data = b ? tarn__memory_get(memory, size) : NULL;
    if (!data) {
        free(b);
        return NULL;
    }
    *b = (block){.size = size, .data = data};
    return b;
}

void *tarn__slab_take(tarn__slab *slab, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    size = (size + TARN__SLAB_ALIGN - 1) & ~(size_t)(TARN__SLAB_ALIGN - 1);
    /* Blocks after the current one are empty. */
    block **link = slab->at ? &slab->at : &slab->first;
    while (*link && (*link)->size - (*link)->used < size)
        link = &(*link)->next;
    if (!*link && !(*link = new_block(&slab->memory, size))) return NULL;
    block *b = slab->at = *link;
    void *piece = b->data + b->used;
    b->used += size;
    return piece;
}

void *tarn__slab_zeros(tarn__slab *slab, size_t size)
{
    void *piece = tarn__slab_take(slab, size);
    return piece ? memset(piece, 0, size) : NULL;
}

void tarn__slab_rewind(tarn__slab *slab)
{
    for (block *b = slab->first; b; b = b->next)
        b->used = 0;
    slab->at = slab->first;
}

void tarn__slab_free(tarn__slab *slab)
{
    for (block *b = slab->first, *next; b; b = next) {
        next = b->next;
        tarn__memory_put(&slab->memory, b->data, b->size);
        free(b);
    }
    slab->first = slab->at = NULL;
}
