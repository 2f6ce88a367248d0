/* Announces to the system what will be read, so that the disk reads all of it at once. */
#include <stdlib.h>

#include "base/error.h"
#include "base/runs.h"
#include "dataset/dataset.h"

enum { PROBES = 4 };

/* False if the item has no bytes in a file. */
static bool locate_item(tarn__storage *source, tarn__item *item)
{
    item->source = source;
    return source->kind->locate(source->state, item, 1, NULL) == TARN_OK &&
           item->spot.offset != TARN_NO_OFFSET && item->spot.size;
}

/* Probes a few items: true if at least one could be located, and all of those are in
 * memory. */
static bool are_in_memory(tarn__storage *source, const tarn__item *items, size_t count)
{
    size_t probes = count < PROBES ? count : PROBES, here = 0;
    for (size_t i = 0; i < probes; i++) {
        tarn__item item = items[i * count / probes];
        if (!locate_item(source, &item)) continue;
        if (source->files.cold.always || !tarn__files_is_resident(&source->files, &item))
            return false;
        here++;
    }
    return here > 0;
}

/* Announces items of one source that has files. The flag makes batches take announced
 * data from the page cache from now on; not after a pass in the order of the file,
 * because random batches of a large dataset are faster by ring. It is relaxed: it is a
 * hint for tarn__cold_choose and orders nothing. With ahead, a thread reads items that
 * follow each other. */
static void announce_source(tarn__storage *source, tarn__item *items, size_t count,
                            bool ahead)
{
    size_t n = 0;
    if (are_in_memory(source, items, count)) return;
    tarn__item *spare = malloc(count * sizeof *spare);
    tarn__run *runs = malloc(count * sizeof *runs);
    for (size_t i = 0; spare && runs && i < count; i++)
        if (locate_item(source, &items[i])) items[n++] = items[i];
    if (n) {
        tarn__target to = {.spare = spare, .runs = runs};
        bool follow = tarn__items_follow(items, n);
        const tarn__item *sorted = tarn__items_sorted(&to, items, n);
        if (source->files.cold.always || !follow)
            atomic_store_explicit(&source->files.cold.announced, true,
                                  memory_order_relaxed);
        if (follow && ahead)
            tarn__files_read_ahead(&source->files, sorted, n);
        else
            tarn__files_announce(&source->files, sorted, n);
    }
    free(spare);
    free(runs);
}

static void announce_items(tarn__storage *source, tarn__item *items, size_t count,
                           bool ahead)
{
    size_t found = 0;
    if (!source->kind->resolve) {
        announce_source(source, items, count, ahead);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        tarn__storage *leaf = source;
        if (tarn__leaf(&leaf, &items[i].sample, &items[i].field, NULL) != TARN_OK)
            continue;
        items[i].source = leaf;
        items[found++] = items[i];
    }
    tarn__items_group(items, found);
    for (size_t i = 0, n; i < found; i += n) {
        n = tarn__items_alike(items + i, found - i);
        announce_source(items[i].source, items + i, n, ahead);
    }
}

void tarn__announce(tarn__storage *source, tarn__item *items, size_t count)
{
    announce_items(source, items, count, false);
}

tarn_status tarn_dataset_prefetch(tarn_dataset *d, const uint64_t *samples,
                                  size_t n_samples, const uint32_t *fields,
                                  size_t n_fields, tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "samples", samples || !n_samples);
    if (!fields) n_fields = d->n_fields;
    if (n_samples == 0 || (n_fields == 0 && !d->source->remote)) return TARN_OK;
    if (n_samples > UINT32_MAX / (n_fields + 1))
        return tarn__fail(err, TARN_ERR_USAGE, "too many samples to prefetch: %zu",
                          n_samples);
    if (d->source->remote)
        TARN_TRY(tarn__prefetch_remote(d, samples, n_samples, fields, n_fields, err));
    tarn__item *items = malloc(n_samples * (n_fields + 1) * sizeof *items);
    if (!items) return tarn__fail_memory(err);
    size_t n = tarn__list_items(d, samples, n_samples, fields, n_fields, false, items);
    announce_items(d->source, items, n, true);
    free(items);
    return TARN_OK;
}
