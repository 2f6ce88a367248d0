/* libjpeg's memory manager takes and gives back a dozen pieces of memory for each image.
 * It is a table of functions: those for an image's memory are replaced by ones that cut
 * pieces from a block that stays. What progressive images keep whole still comes from
 * libjpeg itself. */
#include <stdlib.h>

#include "codec/jpeg.h"

enum {
    ALIGNMENT = 64, /* twice what libjpeg-turbo's vector loops count on */
    FIRST_BLOCK = 256 << 10,
    KEPT = 64 << 20
};

typedef struct block {
    struct block *next; /* used up before this one */
    size_t size, used;
} block;

struct tarn__jpeg_memory {
    struct jpeg_memory_mgr theirs; /* as it was */
    block *blocks;
    size_t total; /* bytes that this image has taken */
};

static tarn__jpeg_memory *of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

static size_t aligned(size_t size)
{
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static void release(tarn__jpeg_memory *m)
{
    while (m->blocks) {
        block *next = m->blocks->next;
        free(m->blocks);
        m->blocks = next;
    }
}

static block *add_block(tarn__jpeg_memory *m, size_t need)
{
    size_t size = aligned(need + aligned(sizeof(block)));
    if (size < FIRST_BLOCK) size = FIRST_BLOCK;
    block *b = aligned_alloc(ALIGNMENT, size);
    if (!b) return NULL;
    *b = (block){m->blocks, size, aligned(sizeof *b)};
    m->blocks = b;
    return b;
}

static void *take(j_common_ptr jpeg, size_t size)
{
    tarn__jpeg_memory *m = of(jpeg);
    block *b = m->blocks;
    size = aligned(size);
    if (!b || b->size - b->used < size) b = add_block(m, size);
    if (!b) {
        jpeg->err->msg_code = 0;
        ((tarn__jpeg_errors *)jpeg->err)->status = TARN_ERR_MEMORY;
        jpeg->err->error_exit(jpeg);
    }
    void *p = (unsigned char *)b + b->used;
    b->used += size;
    m->total += size;
    return p;
}

/* Tables are an image's own here, so that none is decoded with those of another. */
static bool is_table(size_t size)
{
    return size == sizeof(JHUFF_TBL) || size == sizeof(JQUANT_TBL);
}

static void *alloc_small(j_common_ptr jpeg, int pool, size_t size)
{
    if (pool != JPOOL_IMAGE && !is_table(size))
        return of(jpeg)->theirs.alloc_small(jpeg, pool, size);
    return take(jpeg, size);
}

static void *alloc_large(j_common_ptr jpeg, int pool, size_t size)
{
    if (pool != JPOOL_IMAGE) return of(jpeg)->theirs.alloc_large(jpeg, pool, size);
    return take(jpeg, size);
}

static JSAMPARRAY alloc_sarray(j_common_ptr jpeg, int pool, JDIMENSION width,
                               JDIMENSION rows)
{
    if (pool != JPOOL_IMAGE)
        return of(jpeg)->theirs.alloc_sarray(jpeg, pool, width, rows);
    size_t bytes = aligned(width * sizeof(JSAMPLE));
    JSAMPARRAY out = take(jpeg, rows * sizeof *out);
    JSAMPROW first = take(jpeg, rows * bytes);
    for (size_t i = 0; i < rows; i++)
        out[i] = first + i * bytes;
    return out;
}

static JBLOCKARRAY alloc_barray(j_common_ptr jpeg, int pool, JDIMENSION width,
                                JDIMENSION rows)
{
    if (pool != JPOOL_IMAGE)
        return of(jpeg)->theirs.alloc_barray(jpeg, pool, width, rows);
    JBLOCKARRAY out = take(jpeg, rows * sizeof *out);
    JBLOCKROW first = take(jpeg, (size_t)rows * width * sizeof(JBLOCK));
    for (size_t i = 0; i < rows; i++)
        out[i] = first + i * width;
    return out;
}

/* One block as large as all the image had; more than KEPT stays with nobody. */
static void free_pool(j_common_ptr jpeg, int pool)
{
    tarn__jpeg_memory *m = of(jpeg);
    m->theirs.free_pool(jpeg, pool);
    if (pool != JPOOL_IMAGE) return;
    size_t total = m->total;
    m->total = 0;
    if (m->blocks && !m->blocks->next && m->blocks->size <= KEPT) {
        m->blocks->used = aligned(sizeof(block));
        return;
    }
    release(m);
    if (total && total <= KEPT / 2) add_block(m, total + total / 4);
}

tarn__jpeg_memory *tarn__jpeg_memory_new(struct jpeg_decompress_struct *jpeg)
{
    tarn__jpeg_memory *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->theirs = *jpeg->mem;
    jpeg->client_data = m;
    jpeg->mem->alloc_small = alloc_small;
    jpeg->mem->alloc_large = alloc_large;
    jpeg->mem->alloc_sarray = alloc_sarray;
    jpeg->mem->alloc_barray = alloc_barray;
    jpeg->mem->free_pool = free_pool;
    return m;
}

void tarn__jpeg_memory_free(tarn__jpeg_memory *memory)
{
    if (!memory) return;
    release(memory);
    free(memory);
}
