/* The keys of many samples of a fold, out of the headers of their first members. */
#include <string.h>

#include "base/buf.h"
#include "dataset/kind_fold.h"

enum { AHEAD = 8, RECENT = 64 };

/* Shards whose length was looked at in this call. */
typedef struct looked {
    uint32_t shards[RECENT]; /* number + 1 */
} looked;

static uint64_t first_row(const tarn__fold_state *s, uint64_t sample)
{
    return tarn__fold_row(s->fold, tarn__fold_start(s->fold, sample));
}

/* The header of a row in a map, or NULL. */
static const unsigned char *header_of(const tarn__fold_state *s, uint64_t number)
{
    tarn_row row;
    if (tarn_index_row(s->fold->index, number, &row, NULL) != TARN_OK ||
        row.shard >= tarn__filecache_count(s->fold->files) ||
        row.offset + 512 > tarn__filecache_size(s->fold->files, row.shard))
        return NULL;
    const unsigned char *map = tarn__filecache_peek(s->fold->files, row.shard);
    return map ? map + row.offset : NULL;
}

static bool is_still_whole(const tarn__fold_state *s, looked *l, uint64_t number)
{
    tarn_row row;
    const unsigned char *map;
    if (tarn_index_row(s->fold->index, number, &row, NULL) != TARN_OK) return false;
    if (l->shards[row.shard % RECENT] == row.shard + 1u) return true;
    if (tarn__filecache_map(s->fold->files, row.shard, &map, NULL) != TARN_OK || !map)
        return false;
    l->shards[row.shard % RECENT] = row.shard + 1u;
    return true;
}

static tarn_status add_key(tarn__fold_state *s, looked *l, uint64_t number,
                           tarn_text *spare, tarn__buf *out, tarn_error *err)
{
    tarn__key key;
    const unsigned char *header = header_of(s, number);
    if (header && is_still_whole(s, l, number) &&
        tarn__locate_plain_key(&s->fold->place, number, header, &key)) {
        TARN_TRY(tarn__buf_add(out, key.stem, key.stem_len, err));
    } else {
        TARN_TRY(tarn_fold_names(s->fold, number, spare, NULL, err));
        TARN_TRY(tarn__buf_add(out, spare->data, spare->size, err));
    }
    return tarn__buf_add(out, "", 1, err);
}

tarn_status tarn__fold_keys(void *p, const uint64_t *samples, size_t count,
                            tarn__buf *out, uint64_t *offsets, size_t *out_done,
                            tarn_error *err)
{
    tarn__fold_state *s = p;
    looked l = {{0}};
    tarn_text spare = {0};
    tarn_status status = TARN_OK;
    for (size_t i = 0; i < count && i < AHEAD; i++)
        __builtin_prefetch(tarn__index_at(s->fold->index, first_row(s, samples[i])));
    for (*out_done = 0; *out_done < count; ++*out_done) {
        size_t i = *out_done;
        if (i + 2 * AHEAD < count)
            __builtin_prefetch(
                tarn__index_at(s->fold->index, first_row(s, samples[i + 2 * AHEAD])));
        if (i + AHEAD < count)
            __builtin_prefetch(header_of(s, first_row(s, samples[i + AHEAD])));
        offsets[i] = out->size;
        status = add_key(s, &l, first_row(s, samples[i]), &spare, out, err);
        if (status != TARN_OK) break;
    }
    tarn_text_reset(&spare);
    return status;
}
