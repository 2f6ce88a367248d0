/* Writes values of any strides and any type to the file, in blocks, so that memory use
 * does not depend on the size. Also reads them back where a checksum is missing. */
#include <stdlib.h>

#include "base/array.h"
#include "base/crc.h"
#include "base/error.h"
#include "gnz/writer.h"
#include "io/file.h"

enum { BLOCK = 1 << 20, DIRECT = 16 << 20 };

typedef struct stream {
    tarn_gnz_writer *writer;
    const tarn__cast *cast;
    char *gathered; /* a block of elements before the cast */
    char *cast_out; /* the same elements after it */
    uint64_t at;    /* offset in the file */
    uint32_t *crc;
} stream;

static tarn_status emit(stream *s, const void *data, size_t size, tarn_error *err)
{
    tarn_gnz_writer *w = s->writer;
    TARN_TRY(tarn__write_at(w->fd, tarn__gnz_writer_place(w), data, size, s->at, err));
    s->at += size;
    if (!s->crc) return TARN_OK;
    if (w->options.checksums) *s->crc = tarn__crc32c(*s->crc, data, size);
    return tarn__gnz_step(w, size, err);
}

static tarn_status emit_packed(stream *s, const char *data, uint64_t count,
                               tarn_error *err)
{
    size_t from = s->cast->from.size, to = s->cast->to.size;
    bool copy = tarn__cast_is_copy(s->cast);
    size_t wider = from > to ? from : to, block = copy ? DIRECT : BLOCK;
    uint64_t at_once = wider < block ? block / wider : 1;
    while (count) {
        size_t n = (size_t)(count < at_once ? count : at_once);
        if (!copy) tarn__cast_run(s->cast, s->cast_out, data, n);
        TARN_TRY(emit(s, copy ? data : s->cast_out, n * to, err));
        data += n * from;
        count -= n;
    }
    return TARN_OK;
}

/* Some rows of an array; with inner, which needs one row, the array inside that row. */
static tarn_array part(const tarn_array *a, uint64_t first, uint64_t rows, bool inner)
{
    tarn_array p = *a;
    p.data = (char *)a->data + (int64_t)first * a->strides[0];
    p.shape[0] = rows;
    if (!inner) return p;
    p.ndim--;
    for (unsigned i = 0; i < p.ndim; i++) {
        p.shape[i] = a->shape[i + 1];
        p.strides[i] = a->strides[i + 1];
    }
    return p;
}

/* Recurses into the next dimension where a single row is larger than a block. */
static tarn_status emit_array(stream *s, const tarn_array *a, tarn_error *err)
{
    uint64_t bytes = tarn_array_bytes(a), count = tarn__array_count(a);
    if (tarn_array_is_packed(a)) return emit_packed(s, a->data, count, err);
    if (bytes <= BLOCK) {
        tarn__array_pack(a, false, s->gathered);
        return emit_packed(s, s->gathered, count, err);
    }
    uint64_t row = bytes / a->shape[0];
    uint64_t at_once = row <= BLOCK ? BLOCK / row : 1;
    for (uint64_t i = 0; i < a->shape[0]; i += at_once) {
        uint64_t n = a->shape[0] - i < at_once ? a->shape[0] - i : at_once;
        tarn_array some = part(a, i, n, row > BLOCK);
        TARN_TRY(emit_array(s, &some, err));
    }
    return TARN_OK;
}

tarn_status tarn__gnz_write_values(tarn_gnz_writer *w, const tarn_array *values,
                                   const tarn__cast *cast, uint64_t offset, uint32_t *crc,
                                   tarn_error *err)
{
    stream s = {.writer = w, .cast = cast, .at = offset, .crc = crc};
    size_t one = cast->to.size > BLOCK ? cast->to.size : BLOCK;
    if (tarn__array_count(values) == 0 || cast->to.size == 0) return TARN_OK;
    if (!tarn_array_is_packed(values)) s.gathered = malloc(BLOCK);
    if (!tarn__cast_is_copy(cast)) s.cast_out = malloc(one);
    tarn_status status = TARN_OK;
    if ((!s.gathered && !tarn_array_is_packed(values)) ||
        (!s.cast_out && !tarn__cast_is_copy(cast)))
        status = tarn__fail_memory(err);
    else
        status = emit_array(&s, values, err);
    free(s.gathered);
    free(s.cast_out);
    return status;
}

/* --- Checksums of values written out of order -------------------------------------- */

static tarn_status sum_slot(tarn_gnz_writer *w, tarn__gnz_slot *slot, char *block,
                            tarn_error *err)
{
    tarn__gnz_entry *e = &slot->entry;
    uint64_t end = tarn__gnz_bytes(e);
    while (slot->summed < end) {
        size_t n = end - slot->summed < BLOCK ? (size_t)(end - slot->summed) : BLOCK;
        TARN_TRY(tarn__read_exact(w->fd, tarn__gnz_writer_place(w), block, n,
                                  e->offset + slot->summed, err));
        e->checksum = tarn__crc32c(e->checksum, block, n);
        slot->summed += n;
        TARN_TRY(tarn__gnz_step(w, n, err));
    }
    return TARN_OK;
}

tarn_status tarn__gnz_sum_slots(tarn_gnz_writer *w, tarn_error *err)
{
    char *block = malloc(BLOCK);
    if (!block) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < w->count && status == TARN_OK; i++)
        if (w->slots[i]->entry.has_checksum)
            status = sum_slot(w, w->slots[i], block, err);
    free(block);
    return status;
}
