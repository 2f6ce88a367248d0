/* Folds and tars as a source. The header behind a row is compared with the row when the
 * row is first used, and not again while the fold is open: that is what finds an index of
 * other shards, and a shard whose length changes is found every time. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/text.h"
#include "dataset/kind_fold.h"
#include "itar/fold.h"
#include "tar/keys.h"

typedef tarn__fold_state state;

enum { AHEAD = 8, LINE = 64 };

static void close_fold(void *p)
{
    state *s = p;
    if (!s->borrowed) tarn_fold_close(s->fold);
    free((void *)s->seen);
    free((void *)s->plain);
    free(s);
}

/* Samples are in the order of the first of the rows that are asked for, as the reference
 * has them. */
static tarn_status set_lead(state *s, const char *const *fields, tarn_error *err)
{
    const tarn__names *names = &s->fold->index->fields;
    if (!fields) return TARN_OK;
    bool *lead = s->fold->lead = calloc(names->count + 1, sizeof *lead);
    if (!lead) return tarn__fail_memory(err);
    for (; *fields; fields++) {
        uint32_t id = tarn__names_find(names, *fields, strlen(*fields));
        if (id == TARN__NAME_NONE && **fields == '.')
            id = tarn__names_find(names, *fields + 1, strlen(*fields + 1));
        if (id != TARN__NAME_NONE) lead[id] = true;
    }
    return TARN_OK;
}

static tarn_status describe(state *s, tarn__source *source, tarn_error *err)
{
    tarn_fold_info info;
    TARN_TRY(tarn_fold_info_get(s->fold, &info, err));
    s->seen = calloc((size_t)(info.index.rows / 8 + 1), 1);
    s->plain = calloc((size_t)(info.index.rows / 8 + 1), 1);
    if (!s->seen || !s->plain) return tarn__fail_memory(err);
    source->samples = info.samples;
    source->shards = (uint32_t)info.shards;
    source->n_plain = info.index.fields;
    for (uint32_t i = 0; i < info.index.fields; i++) {
        uint32_t id;
        tarn__name name = tarn__names_get(&s->fold->index->fields, i);
        TARN_TRY(tarn__names_add(&source->fields, name.data, name.size, &id, err));
        if (id != i)
            return tarn__fail_at(err, TARN_ERR_FORMAT, s->fold->index->path,
                                 TARN_NO_OFFSET, "field %s is listed twice", name.data);
    }
    return TARN_OK;
}

tarn_status tarn__open_fold(tarn__source *source, const tarn_dataset_options *o,
                            tarn_error *err)
{
    tarn_fold_options fo = TARN_FOLD_OPTIONS_INIT;
    fo.io = o->io;
    fo.check = o->check;
    fo.scan = o->scan;
    fo.by_hash = o->by_hash;
    fo.index = o->index;
    fo.shards = o->shards;
    state *s = source->state = calloc(1, sizeof *s);
    if (!s) return tarn__fail_memory(err);
    s->check = o->check;
    TARN_TRY(tarn_fold_open(source->path, &fo, &s->fold, err));
    tarn__cold_init(&s->cold, o, tarn__filecache_total(s->fold->files), TARN__BLOCK);
    TARN_TRY(set_lead(s, o->fields, err));
    return describe(s, source, err);
}

tarn_status tarn_dataset_of_fold(tarn_fold *fold, tarn_dataset **out, tarn_error *err)
{
    tarn__source *source;
    const char *path = tarn_fold_index_path(fold);
    TARN_TRY(tarn__fold_group(fold, err));
    if (!fold->shapes.next)
        return tarn__fail(err, TARN_ERR_USAGE,
                          "the fold has been filtered; filter the dataset instead");
    TARN_TRY(tarn__source_new(&tarn__kind_fold, path ? path : tarn_fold_name(fold),
                              &source, err));
    state *s = source->state = calloc(1, sizeof *s);
    tarn_status status = s ? TARN_OK : tarn__fail_memory(err);
    if (s) {
        tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
        o.io = fold->options.io;
        tarn__cold_init(&s->cold, &o, tarn__filecache_total(fold->files), TARN__BLOCK);
        s->fold = fold;
        s->borrowed = true;
        s->check = fold->options.check;
        status = describe(s, source, err);
    }
    if (status == TARN_OK) status = tarn__dataset_new(source, NULL, false, out, err);
    if (status != TARN_OK) tarn__source_release(source);
    return status;
}

/* --- Rows -------------------------------------------------------------------------- */

static const char *field_name(const state *s, uint32_t field)
{
    return tarn__names_get(&s->fold->index->fields, field).data;
}

/* "train-00006", for a message. */
static char *show_key(const state *s, uint64_t sample, char *out, size_t size)
{
    tarn_text key = {0};
    uint64_t row = tarn__fold_row(s->fold, tarn__fold_start(s->fold, sample));
    if (tarn_fold_names(s->fold, row, &key, NULL, NULL) == TARN_OK)
        tarn_printable(out, size, key.data, key.size);
    else
        tarn_printable(out, size, "?", 1);
    tarn_text_reset(&key);
    return out;
}

static tarn_status fail_lacks(const state *s, uint64_t sample, uint32_t field,
                              tarn_error *err)
{
    char shown[200];
    if (!err) return TARN_ERR_NO_FIELD;
    return tarn__fail_at(err, TARN_ERR_NO_FIELD, s->fold->index->path, TARN_NO_OFFSET,
                         "sample %s has no field %s",
                         show_key(s, sample, shown, sizeof shown), field_name(s, field));
}

tarn_status tarn__fold_fail_twice(const tarn__fold_state *s, uint64_t sample,
                                  uint32_t field, tarn_error *err)
{
    char shown[200];
    uint64_t row = tarn__fold_row(s->fold, tarn__fold_start(s->fold, sample));
    return tarn__fail_at(err, TARN_ERR_AMBIGUOUS, s->fold->index->path, TARN_NO_OFFSET,
                         "sample %s (row %llu) has field %s twice; leave such samples "
                         "out with drop_twice, or write the fold again",
                         show_key(s, sample, shown, sizeof shown),
                         (unsigned long long)row, field_name(s, field));
}

/* The place of a field among the rows of a sample whose shape is not known. */
static uint32_t odd_place(const state *s, uint64_t sample, uint32_t field)
{
    const tarn_fold *f = s->fold;
    uint64_t from = tarn__fold_start(f, sample), end = tarn__fold_start(f, sample + 1);
    uint32_t found = TARN__LACKED;
    for (uint64_t at = from; at < end; at++) {
        const unsigned char *p = tarn__index_at(f->index, tarn__fold_row(f, at));
        if (tarn__row_field(p) != field) continue;
        if (found != TARN__LACKED) return TARN__DOUBLE;
        found = (uint32_t)(at - from);
    }
    return found;
}

uint32_t tarn__fold_place(const tarn__fold_state *s, uint64_t sample, uint32_t field)
{
    uint16_t shape = tarn__fold_shape(s->fold, sample);
    if (shape == TARN__SHAPE_ODD) return odd_place(s, sample, field);
    return tarn__fold_shape_place(s, shape, field);
}

static tarn_status row_of(const state *s, uint64_t sample, uint32_t field, uint64_t *out,
                          tarn_error *err)
{
    uint32_t place = tarn__fold_place(s, sample, field);
    if (place == TARN__LACKED) return fail_lacks(s, sample, field, err);
    if (place == TARN__DOUBLE) return tarn__fold_fail_twice(s, sample, field, err);
    *out = tarn__fold_row(s->fold, tarn__fold_start(s->fold, sample) + place);
    return TARN_OK;
}

/* --- One sample -------------------------------------------------------------------- */

static tarn_status view_fold(void *p, uint64_t sample, uint32_t field, tarn_view *out,
                             tarn_error *err)
{
    state *s = p;
    uint64_t number = 0;
    tarn_row row;
    TARN_TRY(row_of(s, sample, field, &number, err));
    if (s->check || !tarn__fold_was_seen(s, number)) {
        TARN_TRY(tarn_fold_view(s->fold, number, out, err));
        tarn__fold_set_seen(s, number);
        return TARN_OK;
    }
    TARN_TRY(tarn_index_row(s->fold->index, number, &row, err));
    return tarn__filecache_view(s->fold->files, row.shard, row.offset + TARN__BLOCK,
                                (size_t)row.size, out, err);
}

static tarn_status size_fold(void *p, uint64_t sample, uint32_t field, uint64_t *out,
                             tarn_error *err)
{
    state *s = p;
    uint64_t number = 0;
    tarn_row row;
    TARN_TRY(row_of(s, sample, field, &number, err));
    TARN_TRY(tarn_index_row(s->fold->index, number, &row, err));
    *out = row.size;
    return TARN_OK;
}

static tarn_status key_fold(void *p, uint64_t sample, tarn_text *out, tarn_error *err)
{
    state *s = p;
    uint64_t row = tarn__fold_row(s->fold, tarn__fold_start(s->fold, sample));
    return tarn_fold_names(s->fold, row, out, NULL, err);
}

/* What samples that were gathered are sorted by. By hash they are in the key order, so
 * their starts are places in it. */
static uint64_t rank_of(const tarn_fold *f, uint64_t sample)
{
    uint64_t from = f->starts[sample];
    if (!f->rows || f->options.by_hash) return from;
    return tarn__fold_lead_of(f, f->rows + from, f->starts[sample + 1] - (uint32_t)from);
}

/* The number of a sample that was found. */
static uint64_t sample_of(const state *s, const tarn_sample *found)
{
    const tarn_fold *f = s->fold;
    uint64_t low = 0, high = f->n_samples, wanted = tarn_sample_row(found, 0);
    if (!f->starts) return wanted / f->stride;
    if (f->rows && f->options.by_hash)
        wanted = (uint64_t)(found->rows - atomic_load(&f->order));
    else if (f->rows)
        wanted = tarn__fold_lead_of(f, found->rows, found->count);
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (rank_of(f, mid) <= wanted)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static tarn_status find_fold(void *p, const char *key, uint64_t from, uint64_t *out,
                             tarn_error *err)
{
    state *s = p;
    tarn_sample found;
    TARN_TRY(tarn_fold_find(s->fold, key, &found, err));
    *out = sample_of(s, &found);
    if (*out >= from) return TARN_OK;
    return tarn__fail(err, TARN_ERR_NO_SAMPLE, "no other sample has this key");
}

static tarn_status fail_shard(const state *s, uint64_t number, uint32_t shard,
                              tarn_error *err)
{
    return tarn__fail_at(err, TARN_ERR_STALE, s->fold->index->path, TARN_NO_OFFSET,
                         "row %llu is in shard %u, and there are fewer; run tarn index "
                         "again",
                         (unsigned long long)number, shard);
}

static tarn_status shard_fold(void *p, uint64_t sample, uint32_t *out_number,
                              const char **out_path, tarn_error *err)
{
    state *s = p;
    tarn_row row;
    uint64_t number = tarn__fold_lead(s->fold, sample);
    TARN_TRY(tarn_index_row(s->fold->index, number, &row, err));
    *out_number = row.shard;
    *out_path = tarn_fold_shard_path(s->fold, row.shard);
    return *out_path ? TARN_OK : fail_shard(s, number, row.shard, err);
}

static tarn_status where_fold(void *p, uint64_t sample, uint32_t field,
                              const char **out_path, uint64_t *out_offset,
                              tarn_error *err)
{
    state *s = p;
    uint64_t number = 0;
    tarn_row row;
    TARN_TRY(row_of(s, sample, field, &number, err));
    TARN_TRY(tarn_index_row(s->fold->index, number, &row, err));
    *out_path = tarn_fold_shard_path(s->fold, row.shard);
    *out_offset = row.offset;
    if (!*out_path) *out_path = s->fold->index->path;
    return TARN_OK;
}

static tarn_status key_of_name_fold(const void *p, const char *name, tarn_text *out,
                                    tarn_error *err)
{
    const state *s = p;
    const tarn__sums *sums = s->fold->index->sums;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    bool whole = sums && sums->keys == TARN_KEYS_PATH;
    const char *end = strchrnul(base, '.');
    const char *from = whole ? name : base;
    return tarn__text_set(out, from, (size_t)(end - from), err);
}

/* --- Batches ----------------------------------------------------------------------- */

static void touch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

static tarn_status place_row(state *s, tarn__item *item, tarn_error *err)
{
    tarn_row row;
    TARN_TRY(tarn_index_row(s->fold->index, item->cookie, &row, err));
    if (row.shard >= tarn__filecache_count(s->fold->files) ||
        row.offset + TARN__BLOCK + row.size >
            tarn__filecache_size(s->fold->files, row.shard)) {
        tarn__located l;
        TARN_TRY(tarn__locate_row(&s->fold->place, item->cookie, &l, err));
    }
    item->size = row.size;
    item->place = (uint64_t)row.shard << 48 | row.offset / TARN__BLOCK;
    return TARN_OK;
}

/* What is looked up is asked for some items ahead, because none of it is in the cache. */
static tarn_status place_fold(void *p, tarn__item *items, size_t count, tarn_error *err)
{
    state *s = p;
    const tarn_fold *f = s->fold;
    for (size_t i = 0; f->starts && i < count; i++) {
        touch(&f->starts[items[i].sample]);
        touch(&f->shape_of[items[i].sample]);
    }
    for (size_t i = 0; i < count; i++) {
        TARN_TRY(row_of(s, items[i].sample, items[i].field, &items[i].cookie, err));
        touch(tarn__index_at(f->index, items[i].cookie));
        touch((const void *)&s->seen[items[i].cookie / 8]);
    }
    for (size_t i = 0; i < count; i++)
        TARN_TRY(place_row(s, &items[i], err));
    return TARN_OK;
}

/* The header of a mapped row, and then its payload's checksum if asked for. */
static tarn_status check_mapped(state *s, const tarn__item *item,
                                const unsigned char *header, tarn_error *err)
{
    tarn__located l;
    if (s->check) {
        tarn_view view;
        TARN_TRY(tarn_fold_view(s->fold, item->cookie, &view, err));
        tarn_view_release(&view);
        return TARN_OK;
    }
    tarn__located_init(&l);
    tarn_status status = tarn__locate_row(&s->fold->place, item->cookie, &l, err);
    if (status == TARN_OK) {
        memcpy(l.block, header, TARN__BLOCK);
        status = tarn__locate_check(&s->fold->place, item->cookie, &l, err);
    }
    tarn__located_reset(&l);
    if (status == TARN_OK) tarn__fold_set_seen(s, item->cookie);
    return status;
}

/* Asks for what will be copied, if that is in a map that was looked at. */
static void touch_mapped(const state *s, const tarn__fold_maps *m, const tarn__item *item)
{
    size_t at = tarn__item_shard(item) % TARN__RECENT_MAPS;
    const unsigned char *map = m->maps[at];
    if (m->shards[at] != tarn__item_shard(item) + 1u || !map) return;
    const unsigned char *header = map + tarn__item_offset(item);
    size_t bytes = item->size < 4 * LINE ? (size_t)item->size : 4 * LINE;
    if (!tarn__fold_was_seen(s, item->cookie))
        for (size_t i = 0; i < TARN__BLOCK; i += LINE)
            touch(header + i);
    for (size_t i = 0; i < bytes; i += LINE)
        touch(header + TARN__BLOCK + i);
}

static tarn_status copy_read(state *s, const tarn__item *item, unsigned char *to,
                             tarn_error *err)
{
    uint64_t size;
    if (!s->check && tarn__fold_was_seen(s, item->cookie))
        return tarn__filecache_read(s->fold->files, tarn__item_shard(item),
                                    tarn__item_offset(item) + TARN__BLOCK, to,
                                    (size_t)item->size, err);
    TARN_TRY(tarn_fold_read(s->fold, item->cookie, to, (size_t)item->size, &size, err));
    tarn__fold_set_seen(s, item->cookie);
    return TARN_OK;
}

static void advise(const state *s, const tarn__item *items, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        uint16_t shard = tarn__item_shard(&items[i]);
        uint64_t from = tarn__item_offset(&items[i]),
                 to = from + TARN__BLOCK + items[i].size;
        for (end = i + 1; end < count; end++) {
            const tarn__item *next = &items[end];
            if (tarn__item_shard(next) != shard ||
                tarn__item_offset(next) > to + TARN__GATHER_GAP)
                break;
            if (tarn__item_offset(next) + TARN__BLOCK + next->size > to)
                to = tarn__item_offset(next) + TARN__BLOCK + next->size;
        }
        tarn__filecache_will_need(s->fold->files, shard, from, to - from);
    }
}

static bool is_resident(void *p, const tarn__item *item)
{
    const state *s = p;
    return tarn__filecache_is_resident(s->fold->files, tarn__item_shard(item),
                                       tarn__item_offset(item) + TARN__BLOCK);
}

static tarn_status copy_item(state *s, const tarn__item *item, const unsigned char *map,
                             unsigned char *to, tarn_error *err)
{
    if (!map) return copy_read(s, item, to, err);
    const unsigned char *header = map + tarn__item_offset(item);
    if (s->check || !tarn__fold_was_seen(s, item->cookie))
        TARN_TRY(check_mapped(s, item, header, err));
    memcpy(to, header + TARN__BLOCK, (size_t)item->size);
    return TARN_OK;
}

static tarn_status settle_fold(void *p, uint64_t sample, tarn_error *err)
{
    state *s = p;
    const tarn_fold *f = s->fold;
    uint32_t last = UINT32_MAX;
    uint64_t end = tarn__fold_start(f, sample + 1);
    for (uint64_t at = tarn__fold_start(f, sample); at < end; at++) {
        uint16_t shard = tarn__row_shard(tarn__index_at(f->index, tarn__fold_row(f, at)));
        if (shard == last || shard >= tarn__filecache_count(f->files)) continue;
        TARN_TRY(tarn__filecache_settle(f->files, shard, err));
        last = shard;
    }
    return TARN_OK;
}

static tarn_status copy_fold(void *p, const tarn__item *items, size_t count,
                             const tarn__target *to, tarn_error *err)
{
    state *s = p;
    tarn__fold_maps m = {{0}, {NULL}};
    tarn__cold_way way = tarn__cold_choose(&s->cold, is_resident, s, items, count, to);
    if (way != TARN__COLD_COPY) items = tarn__items_sorted(to, items, count);
    if (way == TARN__COLD_GATHER) return tarn__fold_gather(s, items, count, to, err);
    if (way == TARN__COLD_ANNOUNCE) advise(s, items, count);
    *(way == TARN__COLD_COPY ? &to->io->copied : &to->io->announced) += count;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *map;
        if (i + AHEAD < count) touch_mapped(s, &m, &items[i + AHEAD]);
        TARN_TRY(tarn__fold_map_of(s, &m, tarn__item_shard(&items[i]), &map, err));
        TARN_TRY(
            copy_item(s, &items[i], map, to->data + to->offsets[items[i].number], err));
    }
    return tarn__fold_settle_maps(s, &m, err);
}

/* --- Announcing -------------------------------------------------------------------- */

static bool spot_fold(void *p, tarn__item *item)
{
    state *s = p;
    tarn_row row;
    uint32_t place = tarn__fold_place(s, item->sample, item->field);
    if (place == TARN__LACKED || place == TARN__DOUBLE) return false;
    uint64_t number =
        tarn__fold_row(s->fold, tarn__fold_start(s->fold, item->sample) + place);
    if (tarn_index_row(s->fold->index, number, &row, NULL) != TARN_OK ||
        row.shard >= tarn__filecache_count(s->fold->files) ||
        row.offset + TARN__BLOCK + row.size >
            tarn__filecache_size(s->fold->files, row.shard))
        return false;
    item->source = row.shard;
    item->cookie = row.offset;
    item->size = TARN__BLOCK + row.size;
    item->place = (uint64_t)row.shard << 48 | row.offset / TARN__BLOCK;
    return true;
}

static bool is_here_fold(void *p, uint32_t file, uint64_t offset)
{
    state *s = p;
    return !s->cold.always && tarn__filecache_is_resident(s->fold->files, file, offset);
}

static void announce_fold(void *p, uint32_t file, uint64_t offset, uint64_t size)
{
    state *s = p;
    atomic_store_explicit(&s->cold.announced, true, memory_order_relaxed);
    tarn__filecache_will_need(s->fold->files, file, offset, size);
}

const tarn__source_kind tarn__kind_fold = {
    .kind = TARN_DATASET_FOLD,
    .close = close_fold,
    .view = view_fold,
    .size = size_fold,
    .key = key_fold,
    .keys = tarn__fold_keys,
    .whole = tarn__fold_whole,
    .find = find_fold,
    .shard = shard_fold,
    .place = place_fold,
    .copy = copy_fold,
    .settle = settle_fold,
    .spot = spot_fold,
    .is_here = is_here_fold,
    .announce = announce_fold,
    .keep = tarn__fold_keep_by_need,
    .sets = tarn__fold_sets,
    .where = where_fold,
    .key_of_name = key_of_name_fold,
};
