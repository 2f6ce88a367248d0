/* Members of a fold by ring. A member whose row is used for the first time, or whose
 * checksum is asked for, comes with its header and with what stands before that where the
 * check looks at it, in one read; all others come as payloads only. */
#include <string.h>

#include "base/error.h"
#include "dataset/kind_fold.h"

typedef tarn__fold_state state;

enum { WAVE = 1024 /* members given to the ring at once */ };

/* Members of some shards, which are held open. */
typedef struct wave {
    const tarn__item *items;
    size_t count;
    tarn__gather_file *files;
    size_t n_files;
    uint16_t *shards; /* of the files */
    tarn__gather_piece *pieces;
    unsigned char *heads;
} wave;

static tarn_status make_lists(tarn__gather *g, size_t count, wave *w, tarn_error *err)
{
    if (count > WAVE) count = WAVE;
    w->pieces = tarn__gather_scratch(
        g, 0, count * (sizeof *w->pieces + sizeof *w->files + sizeof *w->shards));
    if (!w->pieces) return tarn__fail_memory(err);
    w->files = (tarn__gather_file *)(void *)(w->pieces + count);
    w->shards = (uint16_t *)(void *)(w->files + count);
    return TARN_OK;
}

static void let_go(const state *s, wave *w)
{
    while (w->n_files)
        tarn__filecache_let_go(s->fold->files, w->shards[--w->n_files]);
}

/* Takes items from the front of a list until there are enough members or shards. */
static tarn_status begin_wave(state *s, const tarn__item *items, size_t count, wave *w,
                              tarn_error *err)
{
    size_t holds = tarn__filecache_holds(s->fold->files);
    w->items = items;
    for (w->count = 0; w->count < count && w->count < WAVE; w->count++) {
        uint16_t shard = tarn__item_shard(&items[w->count]);
        if (w->n_files && w->shards[w->n_files - 1] == shard) continue;
        if (w->n_files == holds) break;
        TARN_TRY(tarn__filecache_hold(s->fold->files, shard, &w->files[w->n_files], err));
        w->shards[w->n_files++] = shard;
    }
    return TARN_OK;
}

/* Bytes of the member's header and of what is before it that have to be looked at. */
static tarn_status head_of(const state *s, const tarn__item *item, size_t *out,
                           tarn_error *err)
{
    tarn_row row;
    *out = 0;
    if (!s->check && tarn__fold_was_seen(s, item->cookie)) return TARN_OK;
    TARN_TRY(tarn_index_row(s->fold->index, item->cookie, &row, err));
    *out = TARN__BLOCK + tarn__locate_before(&s->fold->place, &row, item->cookie);
    return TARN_OK;
}

static tarn_status list_pieces(const state *s, tarn__gather *g, wave *w,
                               const tarn__target *to, tarn_error *err)
{
    size_t total = 0, file = 0;
    for (size_t i = 0; i < w->count; i++) {
        const tarn__item *item = &w->items[i];
        tarn__gather_piece *p = &w->pieces[i];
        if (w->shards[file] != tarn__item_shard(item)) file++;
        *p = (tarn__gather_piece){.file = &w->files[file],
                                  .size = (size_t)item->size,
                                  .to = to->data + to->offsets[item->number]};
        TARN_TRY(head_of(s, item, &p->head, err));
        p->offset = tarn__item_offset(item) + TARN__BLOCK - p->head;
        total += p->head;
    }
    w->heads = tarn__gather_scratch(g, 1, total);
    if (!w->heads) return tarn__fail_memory(err);
    for (size_t i = 0, at = 0; i < w->count; at += w->pieces[i++].head)
        w->pieces[i].head_to = w->heads + at;
    return TARN_OK;
}

static tarn_status check_one(state *s, const tarn__item *item,
                             const tarn__gather_piece *p, tarn__located *l,
                             tarn_error *err)
{
    TARN_TRY(tarn__locate_row(&s->fold->place, item->cookie, l, err));
    l->before = p->head_to;
    l->before_size = p->head - TARN__BLOCK;
    memcpy(l->block, p->head_to + p->head - TARN__BLOCK, TARN__BLOCK);
    TARN_TRY(tarn__locate_check(&s->fold->place, item->cookie, l, err));
    TARN_TRY(tarn__fold_check_sum(s->fold, item->cookie, &l->row, p->to, p->size, err));
    tarn__fold_set_seen(s, item->cookie);
    return TARN_OK;
}

static tarn_status check_all(state *s, const wave *w, tarn_error *err)
{
    tarn__located l;
    tarn_status status = TARN_OK;
    tarn__located_init(&l);
    for (size_t i = 0; status == TARN_OK && i < w->count; i++)
        if (w->pieces[i].head)
            status = check_one(s, &w->items[i], &w->pieces[i], &l, err);
    tarn__located_reset(&l);
    return status;
}

tarn_status tarn__fold_gather(tarn__fold_state *s, const tarn__item *items, size_t count,
                              const tarn__target *to, tarn_error *err)
{
    tarn__gather *g = &to->io->gather;
    wave w = {0};
    TARN_TRY(make_lists(g, count, &w, err));
    for (size_t done = 0; done < count; done += w.count) {
        tarn_status status = begin_wave(s, items + done, count - done, &w, err);
        if (status == TARN_OK) status = list_pieces(s, g, &w, to, err);
        if (status == TARN_OK)
            status = tarn__gather_read(g, TARN__GATHER_DIRECT, w.pieces, w.count, err);
        if (status == TARN_OK) status = check_all(s, &w, err);
        let_go(s, &w);
        TARN_TRY(status);
    }
    return TARN_OK;
}
