/* Choosing how a batch is read, announcing what will be read, and reading pieces of a
 * single file by ring. */
#include "dataset/cold.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/runs.h"
#include "io/file.h"

enum {
    MAX_PROBES = 8,
    MIN_ORDERED = 8, /* pieces by which an order can be told */
    ANNOUNCE_PROBES = 4,
    HEADS = 1024, /* bytes between two payloads that stand one behind the other */
    WAVE = 1024   /* pieces given to the ring at once */
};
#define PROBE_BYTES (1u << 20) /* read for each look whether they are in memory */

void tarn__cold_init(tarn__cold *c, const tarn_dataset_options *o, uint64_t bytes,
                     unsigned unit)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    c->unit = unit;
    c->always = o->cold;
    c->never = o->io == TARN_IO_MAP;
    c->keep = bytes <= memory / 2;
    atomic_init(&c->announced, false);
}

/* How many of some items spread over a batch are not in memory. While all were, one is
 * asked about for so many bytes; afterwards as many as there may be, which costs nothing
 * next to the disk. */
static size_t count_away(tarn__is_resident is_resident, void *state,
                         const tarn__item *items, size_t count, const tarn__target *to,
                         size_t *out_probes)
{
    tarn__batch_io *io = to->io;
    io->unasked += to->total;
    size_t probes = (size_t)(io->unasked / PROBE_BYTES), away = 0;
    if (probes > MAX_PROBES || !io->was_warm) probes = MAX_PROBES;
    if (probes > count) probes = count;
    for (size_t i = 0; i < probes; i++)
        away += !is_resident(state, &items[i * count / probes]);
    if (probes) io->unasked = 0;
    io->was_warm = away == 0;
    *out_probes = probes;
    return away;
}

/* Pieces that stand one behind the other, as a caller who goes through a file asks for
 * them. The system reads ahead of a map by itself then, and farther than a batch. */
static bool in_file_order(const tarn__cold *c, const tarn__item *items, size_t count,
                          uint64_t total)
{
    uint64_t first = items[0].place, last = first;
    for (size_t i = 1; i < count; i++) {
        if (items[i].place < first) first = items[i].place;
        if (items[i].place > last) last = items[i].place;
    }
    return count >= MIN_ORDERED && last - first <= (2 * total + count * HEADS) / c->unit;
}

tarn__cold_way tarn__cold_choose(const tarn__cold *c, tarn__is_resident is_resident,
                                 void *state, const tarn__item *items, size_t count,
                                 const tarn__target *to)
{
    bool announced = atomic_load_explicit(&c->announced, memory_order_relaxed);
    if (c->always) return c->never || announced ? TARN__COLD_ANNOUNCE : TARN__COLD_GATHER;
    if (c->never) return TARN__COLD_COPY;
    size_t probes, away = count_away(is_resident, state, items, count, to, &probes);
    if (away == 0) return TARN__COLD_COPY;
    if (!c->keep && !announced && away * 2 > probes) return TARN__COLD_GATHER;
    if (!announced && in_file_order(c, items, count, to->total)) return TARN__COLD_COPY;
    return TARN__COLD_ANNOUNCE;
}

/* --- One file ---------------------------------------------------------------------- */

void tarn__cold_file_open(tarn__cold_file *f, const char *path, int fd,
                          const unsigned char *map)
{
    f->file = (tarn__gather_file){.path = path, .fd = fd};
    f->file.direct = tarn__open_direct(fd, &f->file.align);
    f->map = map;
}

void tarn__cold_file_close(tarn__cold_file *f)
{
    if (f->file.path && f->file.direct >= 0) close(f->file.direct);
    f->file = (tarn__gather_file){.fd = -1, .direct = -1};
}

bool tarn__cold_file_is_resident(const tarn__cold_file *f, uint64_t offset)
{
    return !f->map || tarn__page_is_resident(f->map, offset);
}

void tarn__cold_file_announce(tarn__cold_file *f, uint64_t offset, uint64_t size)
{
    atomic_store_explicit(&f->cold.announced, true, memory_order_relaxed);
    tarn__gather_announce(f->file.fd, offset, size);
}

tarn_status tarn__cold_file_read(tarn__cold_file *f, uint64_t base,
                                 const tarn__item *items, size_t count,
                                 const tarn__target *to, tarn_error *err)
{
    tarn__gather *g = &to->io->gather;
    size_t most = count < WAVE ? count : WAVE;
    tarn__gather_piece *pieces = tarn__gather_scratch(g, 0, most * sizeof *pieces);
    if (!pieces) return tarn__fail_memory(err);
    for (size_t done = 0; done < count;) {
        size_t n = 0;
        for (; done < count && n < most; done++) {
            const tarn__item *item = &items[done];
            pieces[n++] =
                (tarn__gather_piece){.file = &f->file,
                                     .offset = base + item->place,
                                     .size = (size_t)item->size,
                                     .to = to->data + to->offsets[item->number]};
        }
        TARN_TRY(tarn__gather_read(g, TARN__GATHER_DIRECT, pieces, n, err));
    }
    return TARN_OK;
}

/* --- Announcing -------------------------------------------------------------------- */

static bool where_is(const tarn__source *source, tarn__item *item)
{
    return source->kind->spot && source->kind->spot(source->state, item) && item->size;
}

/* Whether some of the items are, none of them being elsewhere. */
static bool are_here(const tarn__source *source, const tarn__item *items, size_t count)
{
    size_t probes = count < ANNOUNCE_PROBES ? count : ANNOUNCE_PROBES, here = 0;
    for (size_t i = 0; i < probes; i++) {
        tarn__item item = items[i * count / probes];
        if (!where_is(source, &item)) continue;
        if (!source->kind->is_here(source->state, item.source, item.cookie)) return false;
        here++;
    }
    return here > 0;
}

/* Ranges of one file that nearly touch are announced as one. */
void tarn__announce(const tarn__source *source, tarn__item *items, size_t count)
{
    const tarn__source_kind *kind = source->kind;
    size_t n = 0;
    if (kind->announce_all) {
        kind->announce_all(source->state, items, count);
        return;
    }
    if (are_here(source, items, count)) return;
    tarn__run *runs = malloc((count + 1) * sizeof *runs);
    for (size_t i = 0; runs && i < count; i++)
        if (where_is(source, &items[i]))
            runs[n++] = (tarn__run){items[i].place, (uint32_t)i, 0};
    if (n) tarn__runs_sort(runs, n, 1);
    for (size_t i = 0; i < n;) {
        const tarn__item *first = &items[runs[i].row];
        uint64_t end = first->cookie + first->size;
        for (i++; i < n; i++) {
            const tarn__item *next = &items[runs[i].row];
            if (next->source != first->source || next->cookie > end + TARN__GATHER_GAP)
                break;
            if (next->cookie + next->size > end) end = next->cookie + next->size;
        }
        kind->announce(source->state, first->source, first->cookie, end - first->cookie);
    }
    free(runs);
}

tarn_status tarn_dataset_prefetch(tarn_dataset *d, const uint64_t *samples,
                                  size_t n_samples, const uint32_t *fields,
                                  size_t n_fields, tarn_error *err)
{
    size_t n = 0;
    if (!fields) n_fields = d->n_fields;
    if (n_samples == 0 || n_fields == 0) return TARN_OK;
    if (n_samples > UINT32_MAX / n_fields)
        return tarn__fail(err, TARN_ERR_USAGE, "%zu samples to prefetch", n_samples);
    tarn__item *items = malloc(n_samples * n_fields * sizeof *items);
    if (!items) return tarn__fail_memory(err);
    for (size_t s = 0; s < n_samples; s++)
        for (size_t f = 0; f < n_fields; f++) {
            uint32_t field = fields ? fields[f] : (uint32_t)f;
            if (samples[s] >= d->count || field >= d->n_fields ||
                tarn__is_pseudo(d->ids[field]))
                continue;
            items[n++] = (tarn__item){.sample = tarn__dataset_at(d, samples[s]),
                                      .field = d->ids[field]};
        }
    tarn__announce(d->source, items, n);
    free(items);
    return TARN_OK;
}
