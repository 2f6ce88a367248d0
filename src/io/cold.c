/* Chooses how a batch is read, announces what will be read, and reads pieces of a single
 * file with a ring. */
#include "io/cold.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/runs.h"
#include "io/file.h"
#include "io/remote.h"

enum {
    MAX_PROBES = 8,
    MIN_ORDERED = 8, /* fewer pieces show no order */
    HEADS = 1024,    /* bytes between two consecutive payloads */
    WAVE = 1024      /* pieces given to the ring at once */
};
#define READ_AHEAD  (4u << 20) /* less is announced */
#define PROBE_BYTES (1u << 20) /* read between two residency checks */

const tarn__item *tarn__items_sorted(const tarn__target *to, const tarn__item *items,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        to->runs[i] = (tarn__run){tarn__spot_rank(&items[i].spot), (uint32_t)i, 0};
    tarn__runs_sort(to->runs, count, 1);
    for (size_t i = 0; i < count; i++)
        to->spare[i] = items[to->runs[i].row];
    return to->spare;
}

/* Counts how many of some items, spread over the batch, are not in memory. As long as
 * everything was in memory, one item is checked for every PROBE_BYTES bytes; otherwise
 * the maximum number, which costs nothing compared with the disk. */
static size_t count_away(tarn__is_resident is_resident, void *context,
                         const tarn__item *items, size_t count, const tarn__target *to,
                         size_t *out_probes)
{
    tarn__batch_io *io = to->io;
    io->unasked += to->total;
    size_t probes = (size_t)(io->unasked / PROBE_BYTES), away = 0;
    if (probes > MAX_PROBES || !io->was_warm) probes = MAX_PROBES;
    if (probes > count) probes = count;
    for (size_t i = 0; i < probes; i++)
        away += !is_resident(context, &items[i * count / probes]);
    if (probes) io->unasked = 0;
    io->was_warm = away == 0;
    *out_probes = probes;
    return away;
}

/* The distance between the first and the last item is compared with their bytes, in each
 * file, and the files must be in order. */
bool tarn__items_follow(const tarn__item *items, size_t count)
{
    uint64_t total = 0, first = UINT64_MAX, last = 0, span = 0;
    uint32_t file = 0;
    for (size_t i = 0; i < count; i++) {
        const tarn__spot *spot = &items[i].spot;
        if (spot->size == TARN__NO_SIZE || spot->file < file ||
            !tarn__add(total, spot->size, &total))
            return false;
        if (spot->file > file && last > first) span += last - first;
        if (spot->file > file) first = UINT64_MAX, last = 0;
        file = spot->file;
        if (spot->offset < first) first = spot->offset;
        if (spot->offset > last) last = spot->offset;
    }
    if (last > first) span += last - first;
    return count >= MIN_ORDERED && span / 2 <= total + count * HEADS / 2;
}

tarn__cold_way tarn__cold_choose(const tarn__cold *c, tarn__is_resident is_resident,
                                 void *context, const tarn__item *items, size_t count,
                                 const tarn__target *to)
{
    bool announced = atomic_load_explicit(&c->announced, memory_order_relaxed);
    if (c->always) return c->never || announced ? TARN__COLD_ANNOUNCE : TARN__COLD_GATHER;
    if (c->never) return TARN__COLD_COPY;
    size_t probes, away = count_away(is_resident, context, items, count, to, &probes);
    if (away == 0) return TARN__COLD_COPY;
    if (!c->keep && !announced && away * 2 > probes) return TARN__COLD_GATHER;
    if (!announced && tarn__items_follow(items, count)) return TARN__COLD_COPY;
    return TARN__COLD_ANNOUNCE;
}

/* --- Files ------------------------------------------------------------------------- */

static void set_cold(tarn__cold *c, uint64_t bytes, bool cold, tarn_io io)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    c->always = cold;
    c->never = io == TARN_IO_MAP;
    c->keep = bytes <= memory / 2;
    atomic_init(&c->announced, false);
}

void tarn__files_init(tarn__files *f, tarn__filecache *cache, bool cold, tarn_io io)
{
    *f = (tarn__files){.cache = cache};
    set_cold(&f->cold, tarn__filecache_total(cache), cold, io);
}

void tarn__files_init_one(tarn__files *f, const tarn__file *file,
                          const unsigned char *map, bool cold, tarn_io io)
{
    *f = (tarn__files){.one = {.path = file->path, .fd = file->fd, .direct = -1},
                       .map = map};
    f->one.remote = file->remote;
    f->one_size = file->size;
    if (!file->remote) f->one.direct = tarn__open_direct(file->fd, &f->one.align);
    set_cold(&f->cold, file->size, cold, io);
}

void tarn__files_reset(tarn__files *f)
{
    tarn__ahead_free(atomic_exchange(&f->ahead, NULL));
    if (f->one.path && f->one.direct >= 0) close(f->one.direct);
    f->one = (tarn__ranges_file){.fd = -1, .direct = -1};
}

tarn__remote *tarn__files_remote(const tarn__files *f, uint32_t file)
{
    return f->cache ? tarn__filecache_away(f->cache, file) : f->one.remote;
}

bool tarn__files_are_away(const tarn__files *f)
{
    return f->cache ? tarn__filecache_any_away(f->cache) : f->one.remote != NULL;
}

size_t tarn__files_count(const tarn__files *f)
{
    return f->cache ? tarn__filecache_count(f->cache) : 1;
}

uint64_t tarn__files_size(const tarn__files *f, uint32_t file)
{
    return f->cache ? tarn__filecache_size(f->cache, file) : f->one_size;
}

const char *tarn__files_path(const tarn__files *f, uint32_t file)
{
    return f->cache ? tarn__filecache_path(f->cache, file) : f->one.path;
}

bool tarn__files_is_resident(void *files, const tarn__item *item)
{
    const tarn__files *f = files;
    if (f->cache)
        return tarn__filecache_is_resident(f->cache, item->spot.file, item->spot.offset);
    return !f->map || tarn__page_is_resident(f->map, item->spot.offset);
}

/* The bytes of the first items that nearly touch each other; returns their number. */
static size_t next_part(const tarn__item *items, size_t count, tarn__ahead_part *out)
{
    const tarn__spot *first = &items[0].spot;
    uint64_t from = first->offset - first->head, to = first->offset + first->size;
    size_t n = 1;
    for (; n < count; n++) {
        const tarn__spot *next = &items[n].spot;
        if (next->file != first->file ||
            next->offset - next->head > to + TARN__RANGES_GAP)
            break;
        if (next->offset + next->size > to) to = next->offset + next->size;
    }
    *out = (tarn__ahead_part){first->file, from, to - from};
    return n;
}

static void announce(const tarn__files *f, const tarn__ahead_part *p)
{
    if (f->cache)
        tarn__filecache_will_need(f->cache, p->file, p->offset, p->size);
    else if (!f->one.remote)
        tarn__ranges_announce(f->one.fd, p->offset, p->size);
}

void tarn__files_announce(const tarn__files *f, const tarn__item *items, size_t count)
{
    tarn__ahead_part part;
    for (size_t i = 0; i < count;) {
        i += next_part(items + i, count - i, &part);
        announce(f, &part);
    }
}

static int open_again(const void *files, uint32_t file)
{
    const tarn__files *f = files;
    if (f->cache) return tarn__filecache_open_again(f->cache, file);
    return f->one.remote ? -1 : tarn__open_again(f->one.fd, 0);
}

static tarn__ahead *take_ahead(tarn__files *f)
{
    tarn__ahead *ahead = atomic_load(&f->ahead);
    if (ahead) return ahead;
    tarn__ahead *fresh = tarn__ahead_new(open_again, f);
    if (fresh && atomic_compare_exchange_strong(&f->ahead, &ahead, fresh)) return fresh;
    tarn__ahead_free(fresh);
    return ahead;
}

void tarn__files_read_ahead(tarn__files *f, const tarn__item *items, size_t count)
{
    tarn__ahead_part *parts = malloc(count * sizeof *parts);
    size_t n = 0;
    uint64_t total = 0;
    for (size_t i = 0; parts && i < count; total += parts[n++].size)
        i += next_part(items + i, count - i, &parts[n]);
    tarn__ahead *ahead = total >= READ_AHEAD ? take_ahead(f) : NULL;
    if (ahead && tarn__ahead_read(ahead, parts, n)) return;
    tarn__files_announce(f, items, count);
    free(parts);
}

tarn_status tarn__files_read(const tarn__files *f, const tarn__item *items, size_t count,
                             const tarn__target *to, tarn_error *err)
{
    tarn__ranges *g = &to->io->ranges;
    size_t most = count < WAVE ? count : WAVE;
    tarn__ranges_piece *pieces = tarn__ranges_scratch(g, 0, most * sizeof *pieces);
    if (!pieces) return tarn__fail_memory(err);
    for (size_t done = 0; done < count;) {
        size_t n = 0;
        for (; done < count && n < most; done++) {
            const tarn__item *item = &items[done];
            pieces[n++] =
                (tarn__ranges_piece){.file = &f->one,
                                     .offset = item->spot.offset,
                                     .size = (size_t)item->spot.size,
                                     .to = to->data + to->offsets[item->number]};
        }
        TARN_TRY(tarn__ranges_read(g, TARN__RANGES_DIRECT, pieces, n, err));
    }
    return TARN_OK;
}
