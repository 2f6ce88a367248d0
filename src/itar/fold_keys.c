/* Reads the keys of many samples of a fold from the headers of their first members.
 * Neither rows nor headers are in the CPU cache, so both are prefetched a number of
 * samples ahead. */
#include <string.h>

#include "base/buf.h"
#include "itar/fold.h"
#include "itar/fold_read.h"

enum { STRETCH = 64 };

/* The first row of a sample. */
typedef struct spot {
    uint64_t number;
    tarn_row row;
    const unsigned char *header; /* in a map, or NULL */
} spot;

static const unsigned char *header_of(const tarn__fold *f, tarn__fold_maps *m,
                                      uint64_t number, tarn_row *row)
{
    const unsigned char *map;
    if (tarn__locate_row(&f->place, number, row, NULL) != TARN_OK ||
        tarn__fold_map_of(f, m, row->shard, &map, NULL) != TARN_OK || !map)
        return NULL;
    return map + row->offset;
}

static void find_spots(const tarn__fold *f, tarn__fold_maps *m, const uint64_t *samples,
                       size_t count, spot *out)
{
    for (size_t i = 0; f->starts && i < count; i++)
        __builtin_prefetch(&f->starts[samples[i]]);
    for (size_t i = 0; i < count; i++) {
        out[i].number = tarn__fold_key_row(f, samples[i]);
        __builtin_prefetch(tarn__index_at(f->index, out[i].number));
        __builtin_prefetch((const void *)&f->plain[out[i].number / 8]);
    }
    for (size_t i = 0; i < count; i++) {
        out[i].header = header_of(f, m, out[i].number, &out[i].row);
        if (out[i].header) tarn__fold_touch_key(f, out[i].number, out[i].header);
    }
}

static tarn_status add_key(tarn__fold *f, const spot *at, tarn_text *spare,
                           tarn__buf *out, tarn_error *err)
{
    tarn__key key;
    if (!at->header || !tarn__fold_quick_key(f, at->number, &at->row, at->header, &key)) {
        TARN_TRY(tarn__fold_names(f, at->number, spare, NULL, err));
        key = (tarn__key){.stem = spare->data, .stem_len = spare->size};
    }
    TARN_TRY(tarn__buf_reserve(out, key.stem_len + 1, err));
    memcpy(out->data + out->size, key.stem, key.stem_len);
    out->size += key.stem_len;
    out->data[out->size++] = '\0';
    return TARN_OK;
}

tarn_status tarn__fold_keys(void *fold, const uint64_t *samples, size_t count,
                            tarn__buf *out, uint64_t *offsets, size_t *out_done,
                            tarn_error *err)
{
    tarn__fold *f = fold;
    tarn__fold_maps maps = {{0}, {NULL}};
    tarn_text spare = {0};
    spot spots[STRETCH];
    tarn_status status = TARN_OK;
    for (*out_done = 0; *out_done < count; ++*out_done) {
        size_t i = *out_done, left = count - i;
        if (i % STRETCH == 0)
            find_spots(f, &maps, samples + i, left < STRETCH ? left : STRETCH, spots);
        offsets[i] = out->size;
        status = add_key(f, &spots[i % STRETCH], &spare, out, err);
        if (status != TARN_OK) break;
    }
    if (status == TARN_OK) {
        status = tarn__fold_settle_maps(f, &maps, err);
        if (status != TARN_OK) *out_done = 0; /* it is unknown which key was lost */
    }
    tarn_text_reset(&spare);
    return status;
}
