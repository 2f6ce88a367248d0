/* Reads many members at once. Data in memory is copied out of maps; the rest is read
 * through the ring. A member whose header must be compared is read together with its
 * header, and with the bytes before it if the check needs them. All others are read
 * without their header. */
#include <string.h>

#include "base/error.h"
#include "io/remote.h"
#include "itar/fold.h"
#include "itar/fold_read.h"

/* --- Locations --------------------------------------------------------------------- */

static void touch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

static tarn_status locate_one(const tarn__fold *f, bool remote, tarn__spot *spot,
                              tarn_error *err)
{
    tarn_row row;
    TARN_TRY(tarn__locate_row(&f->place, spot->row, &row, err));
    spot->offset = row.offset + TARN__BLOCK;
    spot->size = row.size;
    spot->file = row.shard;
    spot->head = TARN__BLOCK;
    if (remote) spot->head += (uint16_t)tarn__locate_before(&f->place, &row, spot->row);
    spot->made = false;
    return TARN_OK;
}

/* Prefetches some items ahead, because none of the data is in the CPU cache. */
tarn_status tarn__fold_locate(void *fold, tarn__item *items, size_t count,
                              tarn_error *err)
{
    tarn__fold *f = fold;
    /* Requests of a local fold are counted as if it were remote. */
    bool remote = f->remote || tarn__remote_current()->tally;
    for (size_t i = 0; f->starts && i < count; i++) {
        touch(&f->starts[items[i].sample]);
        touch(&f->shape_of[items[i].sample]);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t *row = &items[i].spot.row;
        if (items[i].field >= f->shapes.n_fields)
            *row = tarn__fold_lead(f, items[i].sample);
        else
            TARN_TRY(tarn__fold_row_of(f, items[i].sample, items[i].field, row, err));
        touch(tarn__index_at(f->index, *row));
        touch((const void *)&f->seen[*row / 8]);
    }
    for (size_t i = 0; i < count; i++)
        TARN_TRY(locate_one(f, remote, &items[i].spot, err));
    return TARN_OK;
}

/* The row of a located item. The index is a map of a file, which another program may
 * change; the caller has room for the size that was located. */
static tarn_status row_of(const tarn__fold *f, const tarn__spot *spot, tarn_row *out,
                          tarn_error *err)
{
    TARN_TRY(tarn_index_row(f->index, spot->row, out, err));
    if (out->size == spot->size) return TARN_OK;
    return tarn__fail_at(err, TARN_ERR_STALE, f->index->path, TARN_NO_OFFSET,
                         "row %llu of the index changed while it was in use",
                         (unsigned long long)spot->row);
}

/* --- Through the ring -------------------------------------------------------------- */

enum { WAVE = 1024 /* members submitted to the ring at once */ };

/* Members of some shards, which are kept open. */
typedef struct wave {
    const tarn__item *items;
    size_t count;
    tarn__ranges_file *files;
    size_t n_files;
    uint16_t *shards; /* of the files */
    tarn__ranges_piece *pieces;
    unsigned char *heads;
} wave;

static tarn_status make_lists(tarn__ranges *g, size_t count, wave *w, tarn_error *err)
{
    if (count > WAVE) count = WAVE;
    w->pieces = tarn__ranges_scratch(
        g, 0, count * (sizeof *w->pieces + sizeof *w->files + sizeof *w->shards));
    if (!w->pieces) return tarn__fail_memory(err);
    w->files = (tarn__ranges_file *)(void *)(w->pieces + count);
    w->shards = (uint16_t *)(void *)(w->files + count);
    return TARN_OK;
}

static void let_go(const tarn__fold *f, wave *w)
{
    for (size_t i = 0; i < w->n_files; i++)
        tarn__filecache_let_go(f->files, w->shards[i], &w->files[i]);
    w->n_files = 0;
}

/* Takes items from the front of a list until there are enough members or shards. */
static tarn_status begin_wave(tarn__fold *f, const tarn__item *items, size_t count,
                              wave *w, tarn_error *err)
{
    size_t holds = tarn__filecache_holds(f->files);
    w->items = items;
    size_t held = 0;
    for (w->count = 0; w->count < count && w->count < WAVE; w->count++) {
        uint16_t shard = (uint16_t)items[w->count].spot.file;
        if (w->n_files && w->shards[w->n_files - 1] == shard) continue;
        if (held == holds) break;
        tarn__ranges_file *file = &w->files[w->n_files];
        TARN_TRY(tarn__filecache_hold(f->files, shard, file, err));
        held += !file->remote;
        w->shards[w->n_files++] = shard;
    }
    return TARN_OK;
}

/* Number of bytes of the member's header, and of the data before it, that must be
 * checked. */
static tarn_status head_of(const tarn__fold *f, uint64_t number, size_t *out,
                           tarn_error *err)
{
    tarn_row row;
    *out = 0;
    if (tarn__fold_knows(f, number)) return TARN_OK;
    TARN_TRY(tarn_index_row(f->index, number, &row, err));
    *out = TARN__BLOCK + tarn__locate_before(&f->place, &row, number);
    return TARN_OK;
}

static tarn_status list_pieces(const tarn__fold *f, tarn__ranges *g, wave *w,
                               const tarn__target *to, tarn_error *err)
{
    size_t total = 0, file = 0;
    for (size_t i = 0; i < w->count; i++) {
        const tarn__item *item = &w->items[i];
        tarn__ranges_piece *p = &w->pieces[i];
        if (w->shards[file] != item->spot.file) file++;
        *p = (tarn__ranges_piece){.file = &w->files[file],
                                  .size = (size_t)item->spot.size,
                                  .to = to->data + to->offsets[item->number]};
        TARN_TRY(head_of(f, item->spot.row, &p->head, err));
        p->offset = item->spot.offset - p->head;
        total += p->head;
    }
    w->heads = tarn__ranges_scratch(g, 1, total);
    if (!w->heads) return tarn__fail_memory(err);
    for (size_t i = 0, at = 0; i < w->count; at += w->pieces[i++].head)
        w->pieces[i].head_to = w->heads + at;
    return TARN_OK;
}

/* Reads a member of a remote shard that was damaged again. */
static tarn_status read_again(tarn__fold *f, uint64_t number, unsigned char *to,
                              tarn_error *err)
{
    tarn_view view;
    TARN_TRY(tarn__fold_view_once(f, number, &view, err));
    if (view.size) memcpy(to, view.data, view.size);
    tarn_view_release(&view);
    return TARN_OK;
}

static tarn_status check_pieces(tarn__fold *f, const wave *w, tarn_error *err)
{
    for (size_t i = 0; i < w->count; i++) {
        const tarn__ranges_piece *p = &w->pieces[i];
        uint64_t number = w->items[i].spot.row;
        tarn_row row;
        if (p->head == 0 && !f->checks) continue;
        TARN_TRY(row_of(f, &w->items[i].spot, &row, err));
        size_t before = p->head ? p->head - TARN__BLOCK : 0;
        tarn_status status =
            p->head == 0 ? tarn__fold_check(f, number, &row, p->to, err)
                         : tarn__fold_compare(f, number, &row, p->head_to + before,
                                              before, p->to, err);
        if (tarn__is_damage(status) && tarn__fold_doubt(f, number))
            status = read_again(f, number, p->to, err);
        TARN_TRY(status);
    }
    return TARN_OK;
}

static tarn_status gather(tarn__fold *f, const tarn__item *items, size_t count,
                          const tarn__target *to, tarn_error *err)
{
    tarn__ranges *g = &to->io->ranges;
    wave w = {0};
    TARN_TRY(make_lists(g, count, &w, err));
    for (size_t done = 0; done < count; done += w.count) {
        tarn_status status = begin_wave(f, items + done, count - done, &w, err);
        if (status == TARN_OK) status = list_pieces(f, g, &w, to, err);
        if (status == TARN_OK)
            status = tarn__ranges_read(g, TARN__RANGES_DIRECT, w.pieces, w.count, err);
        if (status == TARN_OK) status = check_pieces(f, &w, err);
        let_go(f, &w);
        TARN_TRY(status);
    }
    return TARN_OK;
}

/* --- Out of maps ------------------------------------------------------------------- */

enum { AHEAD = 8, LINE = 64 };

/* Prefetches data that will be copied, if it is in a map that was checked. */
static void touch_mapped(const tarn__fold *f, const tarn__fold_maps *m,
                         const tarn__item *item)
{
    size_t at = item->spot.file % TARN__RECENT_MAPS;
    const unsigned char *map = m->maps[at];
    if (m->shards[at] != item->spot.file + 1u || !map) return;
    if (f->checks) touch(&f->index->sums->checksums[item->spot.row]);
    const unsigned char *header = map + item->spot.offset - TARN__BLOCK;
    size_t bytes = item->spot.size < 4 * LINE ? (size_t)item->spot.size : 4 * LINE;
    if (!tarn__fold_knows(f, item->spot.row))
        for (size_t i = 0; i < TARN__BLOCK; i += LINE)
            touch(header + i);
    for (size_t i = 0; i < bytes; i += LINE)
        touch(header + TARN__BLOCK + i);
}

/* Reads or copies a member whose header was compared, and checks the copy: the file may
 * change at any time. */
static tarn_status copy_known(tarn__fold *f, const tarn__spot *spot,
                              const unsigned char *map, unsigned char *to,
                              tarn_error *err)
{
    if (map)
        memcpy(to, map + spot->offset, (size_t)spot->size);
    else
        TARN_TRY(tarn__filecache_read(f->files, spot->file, spot->offset, to,
                                      (size_t)spot->size, err));
    tarn_row row = {.offset = spot->offset - TARN__BLOCK,
                    .size = spot->size,
                    .shard = (uint16_t)spot->file};
    return tarn__fold_check(f, spot->row, &row, to, err);
}

/* The same, together with the header. */
static tarn_status copy_unknown(tarn__fold *f, const tarn__spot *spot,
                                const unsigned char *map, unsigned char *to,
                                tarn_error *err)
{
    tarn_row row;
    unsigned char block[TARN__BLOCK];
    const unsigned char *header = map ? map + spot->offset - TARN__BLOCK : block;
    TARN_TRY(row_of(f, spot, &row, err));
    if (map) {
        memcpy(to, map + spot->offset, (size_t)spot->size);
    } else {
        TARN_TRY(tarn__filecache_read(f->files, spot->file, spot->offset - TARN__BLOCK,
                                      block, sizeof block, err));
        TARN_TRY(tarn__filecache_read(f->files, spot->file, spot->offset, to,
                                      (size_t)spot->size, err));
    }
    return tarn__fold_compare(f, spot->row, &row, header, 0, to, err);
}

static tarn_status copy_once(tarn__fold *f, const tarn__spot *spot,
                             const unsigned char *map, unsigned char *to, tarn_error *err)
{
    return tarn__fold_knows(f, spot->row) ? copy_known(f, spot, map, to, err)
                                          : copy_unknown(f, spot, map, to, err);
}

/* Bytes that were damaged in the cache are fetched again. */
static tarn_status copy_item(tarn__fold *f, const tarn__spot *spot,
                             const unsigned char *map, unsigned char *to, tarn_error *err)
{
    tarn_status status = copy_once(f, spot, map, to, err);
    if (tarn__is_damage(status) && tarn__fold_doubt(f, spot->row))
        status = copy_once(f, spot, map, to, err);
    return status;
}

tarn_status tarn__fold_copy(void *fold, tarn__cold_way way, const tarn__item *items,
                            size_t count, const tarn__target *to, tarn_error *err)
{
    tarn__fold *f = fold;
    tarn__fold_maps m = {{0}, {NULL}};
    if (way == TARN__COLD_GATHER) return gather(f, items, count, to, err);
    for (size_t i = 0; i < count; i++) {
        const tarn__item *item = &items[i];
        const unsigned char *map;
        if (i + AHEAD < count) touch_mapped(f, &m, &items[i + AHEAD]);
        TARN_TRY(tarn__fold_map_of(f, &m, (uint16_t)item->spot.file, &map, err));
        TARN_TRY(
            copy_item(f, &item->spot, map, to->data + to->offsets[item->number], err));
    }
    return tarn__fold_settle_maps(f, &m, err);
}
