/* Requests that are counted instead of sent. The rules for the room in the cache are
 * those of cache_room.c, for a cache that is empty at first and has no other user. */
#include "io/tally.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/error.h"
#include "io/cache_inside.h"
#include "io/remote_file.h"

/* The files of one dataset. */
typedef struct group {
    const tarn__files *files;
    size_t count;
    tarn__counted *counted;
    tarn__remote **remotes; /* of each reader; NULL if it has not read them */
} group;

struct tarn__tally {
    size_t readers, reader;
    bool cache;
    uint64_t limit, used; /* bytes of the cache on disk */
    group *groups;
    size_t n_groups, room;
    tarn__tally_counts counts;
    tarn_status status;
    tarn_error error;
};

tarn_status tarn__tally_new(size_t readers, bool cache, uint64_t limit, tarn__tally **out,
                            tarn_error *err)
{
    tarn__tally *t = calloc(1, sizeof *t);
    if (!t) return tarn__fail_memory(err);
    t->readers = readers;
    t->cache = cache;
    t->limit = limit;
    *out = t;
    return TARN_OK;
}

static void free_group(const tarn__tally *t, group *g)
{
    for (size_t i = 0; g->counted && i < g->count; i++)
        free(g->counted[i].there);
    for (size_t i = 0; g->remotes && i < t->readers; i++)
        free(g->remotes[i]);
    free(g->counted);
    free(g->remotes);
}

void tarn__tally_free(tarn__tally *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->n_groups; i++)
        free_group(t, &t->groups[i]);
    free(t->groups);
    free(t);
}

void tarn__tally_set_reader(tarn__tally *t, size_t reader)
{
    t->reader = reader;
}

const tarn__tally_counts *tarn__tally_get(const tarn__tally *t)
{
    return &t->counts;
}

uint64_t tarn__tally_kept(const tarn__tally *t)
{
    return t->used;
}

tarn_status tarn__tally_status(const tarn__tally *t, tarn_error *err)
{
    if (t->status != TARN_OK && err) *err = t->error;
    return t->status;
}

/* --- Files ------------------------------------------------------------------------- */

static group *find_group(tarn__tally *t, const tarn__files *files)
{
    for (size_t i = 0; i < t->n_groups; i++)
        if (t->groups[i].files == files) return &t->groups[i];
    if (tarn__grow(&t->groups, sizeof *t->groups, t->n_groups, &t->room, &t->error) !=
        TARN_OK)
        return NULL;
    group *g = &t->groups[t->n_groups];
    *g = (group){.files = files, .count = tarn__files_count(files)};
    g->counted = calloc(g->count + 1, sizeof *g->counted);
    g->remotes = calloc(t->readers, sizeof *g->remotes);
    if (!g->counted || !g->remotes) {
        free_group(t, g);
        return NULL;
    }
    t->n_groups++;
    for (size_t i = 0; i < g->count; i++)
        g->counted[i] =
            (tarn__counted){.tally = t, .size = tarn__files_size(files, (uint32_t)i)};
    return g;
}

/* Whether the version of a file is known before its first byte was requested. */
static bool is_identified(const tarn__files *files, uint32_t file)
{
    const tarn__remote *remote = tarn__files_remote(files, file);
    return remote && atomic_load(&remote->identified);
}

static tarn__remote *make_remotes(const group *g)
{
    tarn__remote *list = calloc(g->count + 1, sizeof *list);
    for (size_t i = 0; list && i < g->count; i++) {
        list[i].number = i;
        list[i].counted = &g->counted[i];
        list[i].shown = (char *)(uintptr_t)tarn__files_path(g->files, (uint32_t)i);
        atomic_init(&list[i].identified, is_identified(g->files, (uint32_t)i));
    }
    return list;
}

/* Without checksums the size of a remote shard is unknown until it is asked for. */
static bool has_size(tarn__tally *t, group *g, uint32_t file)
{
    tarn__object_id id;
    tarn__counted *c = &g->counted[file];
    if (!t->cache || c->size != UINT64_MAX) return true;
    tarn__remote *remote = tarn__files_remote(g->files, file);
    if (!remote) return false;
    t->status = tarn__remote_identify(remote, &id, &t->error);
    if (t->status == TARN_OK) c->size = id.size;
    return t->status == TARN_OK;
}

tarn__remote *tarn__tally_remote(tarn__tally *t, const tarn__files *files, uint32_t file)
{
    group *g = find_group(t, files);
    if (g && !g->remotes[t->reader]) g->remotes[t->reader] = make_remotes(g);
    if (!g || !g->remotes[t->reader]) {
        t->status = tarn__fail_memory(&t->error);
        return NULL;
    }
    if (t->status != TARN_OK || file >= g->count || !has_size(t, g, file)) return NULL;
    return &g->remotes[t->reader][file];
}

/* --- Counting ---------------------------------------------------------------------- */

bool tarn__counted_caches(const tarn__counted *c)
{
    return c->tally->cache;
}

uint64_t tarn__counted_size(const tarn__counted *c)
{
    return c->size;
}

static bool is_there(const tarn__counted *c, uint64_t block)
{
    return c->there[block / TARN__CACHE_WORD] >> (block % TARN__CACHE_WORD) & 1;
}

/* The map of a file counts as soon as the file is opened. */
static tarn_status open_map(tarn__counted *c, tarn_error *err)
{
    if (c->there) return TARN_OK;
    c->there = calloc((size_t)(tarn__cache_blocks(c->size) / TARN__CACHE_WORD) + 1,
                      sizeof *c->there);
    if (!c->there) return tarn__fail_memory(err);
    c->tally->used += tarn__cache_map_size(c->size);
    return TARN_OK;
}

/* How many of some blocks have room. */
static uint64_t reserve(tarn__tally *t, uint64_t blocks)
{
    uint64_t used = t->used + blocks * TARN__CACHE_BLOCK;
    uint64_t over = t->limit && used > t->limit ? tarn__cache_blocks(used - t->limit) : 0;
    blocks = over < blocks ? blocks - over : 0;
    t->used += blocks * TARN__CACHE_BLOCK;
    return blocks;
}

tarn_status tarn__counted_claim(tarn__counted *c, uint64_t offset, uint64_t size,
                                tarn__cached_span *spans, size_t max, size_t *out_count,
                                uint64_t *out_end, tarn_error *err)
{
    uint64_t at = offset / TARN__CACHE_BLOCK, end = tarn__cache_blocks(offset + size);
    size_t n = 0;
    TARN_TRY(open_map(c, err));
    if (end > tarn__cache_blocks(c->size)) end = tarn__cache_blocks(c->size);
    while (at < end && n + 1 < max) {
        bool there = is_there(c, at);
        uint64_t to = at;
        while (to < end && is_there(c, to) == there)
            to++;
        uint64_t room = there ? to - at : reserve(c->tally, to - at);
        if (room)
            spans[n++] = (tarn__cached_span){
                at, room, there ? TARN__CACHED_THERE : TARN__CACHED_CLAIMED};
        if (at + room < to)
            spans[n++] =
                (tarn__cached_span){at + room, to - at - room, TARN__CACHED_PASSED};
        at = to;
    }
    *out_count = n;
    *out_end = at * TARN__CACHE_BLOCK < c->size ? at * TARN__CACHE_BLOCK : c->size;
    return TARN_OK;
}

void tarn__counted_give_up(tarn__counted *c, uint64_t count)
{
    c->tally->used -= count * TARN__CACHE_BLOCK;
}

void tarn__counted_fetch(tarn__counted *c, uint64_t bytes, uint64_t first, uint64_t count)
{
    c->tally->counts.requests++;
    c->tally->counts.bytes += bytes;
    for (uint64_t b = first; b < first + count; b++)
        c->there[b / TARN__CACHE_WORD] |= UINT64_C(1) << (b % TARN__CACHE_WORD);
}

void tarn__counted_hit(tarn__counted *c, uint64_t bytes)
{
    c->tally->counts.cached += bytes;
}

void tarn__counted_want(tarn__counted *c, uint64_t bytes)
{
    c->tally->counts.wanted += bytes;
}
