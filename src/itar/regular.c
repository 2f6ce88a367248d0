/* Checks whether rows are regular: some of them, or all. */
#include "itar/regular.h"

#include "base/pool.h"
#include "itar/index.h"

void tarn__regular_begin(tarn__regular *r, uint32_t stride, const unsigned char *first)
{
    r->stride = stride;
    r->k = 0;
    r->hash = ~tarn__row_hash(first); /* differs from the first row's */
    r->collision = 0;
}

bool tarn__regular_next(tarn__regular *r, const unsigned char *rows, size_t count)
{
    uint64_t hash = r->hash;
    uint32_t collision = r->collision, k = r->k;
    unsigned bad = 0;
    for (size_t i = 0; i < count; i++, rows += TARN__ROW_SIZE) {
        uint64_t h = tarn__row_hash(rows);
        uint32_t c = tarn__row_collision(rows);
        bool same = (h == hash) & (c == collision);
        bad |= (same != (k != 0)) | (tarn__row_field(rows) != r->fields[k]);
        k = k + 1 == r->stride ? 0 : k + 1;
        hash = h;
        collision = c;
    }
    r->hash = hash;
    r->collision = collision;
    r->k = k;
    return !bad;
}

static void take_fields(tarn__regular *r, uint32_t stride, const unsigned char *rows)
{
    for (uint32_t k = 0; k < stride; k++)
        r->fields[k] = tarn__row_field(rows + (size_t)k * TARN__ROW_SIZE);
}

/* Continues with row number, which comes after the row before. */
static void resume(tarn__regular *r, uint64_t number, const unsigned char *before)
{
    r->hash = tarn__row_hash(before);
    r->collision = tarn__row_collision(before);
    r->k = (uint32_t)(number % r->stride);
}

bool tarn__regular_part(const unsigned char *rows, uint32_t stride, uint64_t number,
                        size_t count)
{
    tarn__regular r;
    const unsigned char *p = rows + number * TARN__ROW_SIZE;
    take_fields(&r, stride, rows);
    tarn__regular_begin(&r, stride, rows);
    if (number) resume(&r, number, p - TARN__ROW_SIZE);
    return tarn__regular_next(&r, p, count);
}

uint32_t tarn__regular_stride(uint64_t n_rows, uint64_t n_samples)
{
    if (!n_samples || n_rows % n_samples || n_rows / n_samples > TARN__MAX_STRIDE)
        return 0;
    return (uint32_t)(n_rows / n_samples);
}

typedef struct chunks {
    const tarn_index *index;
    tarn__regular begin;
} chunks;

/* TARN_END: the chunk is not regular. */
static tarn_status check_chunk(void *context, size_t number)
{
    const chunks *c = context;
    const tarn__chunk *chunk = &c->index->chunks[number];
    tarn__regular r = c->begin;
    if (chunk->first > 0)
        resume(&r, chunk->first, tarn__index_at(c->index, chunk->first - 1));
    return tarn__regular_next(&r, chunk->rows, tarn__chunk_rows(c->index, number))
               ? TARN_OK
               : TARN_END;
}

uint32_t tarn__index_stride(const tarn_index *index)
{
    chunks c = {.index = index};
    size_t irregular;
    uint32_t stride = tarn__regular_stride(index->n_rows, index->n_stems);
    if (!index->contiguous || !stride) return 0;
    for (uint32_t k = 0; k < stride; k++)
        c.begin.fields[k] = tarn__row_field(tarn__index_at(index, k));
    tarn__regular_begin(&c.begin, stride, tarn__index_at(index, 0));
    return tarn__parallel(index->threads, index->n_chunks, check_chunk, &c, &irregular) ==
                   TARN_OK
               ? stride
               : 0;
}
