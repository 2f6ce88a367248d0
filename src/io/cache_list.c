/* The public functions for the cache: listing, checking and clearing. */
#include <tarn/cache.h>

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "io/cache_index.h"
#include "io/cache_inside.h"
#include "io/file.h"

TARN__DEFINE_INIT(tarn_cache_verify_options, TARN_CACHE_VERIFY_OPTIONS_INIT)
TARN__DEFINE_INIT(tarn_cache_clear_options, TARN_CACHE_CLEAR_OPTIONS_INIT)

enum { CHUNK = 256 };

/* --- Visiting objects ------------------------------------------------------------- */

/* The files of one object, open. */
typedef struct visit {
    const char *folder; /* FOLDER/tarn-cache-1 */
    const char *id;     /* the dataset's folder */
    int set;
    const tarn__cache_items *list;
    size_t at, end; /* its files */
    bool old;
    int64_t used;
    char dataset[1100];
    char path[4096]; /* of the data, or of the map if there is none */
    int data, map;   /* -1: there is none */
    uint64_t on_disk;
    uint32_t boot;
} visit;

typedef tarn_status (*visitor)(void *context, visit *v, tarn_error *err);

static void read_dataset(visit *v)
{
    size_t got = 0;
    int fd = openat(v->set, TARN__CACHE_DATASET, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        (void)!tarn__read_at(fd, "", v->dataset, sizeof v->dataset - 1, 0, &got, NULL);
    if (fd >= 0) close(fd);
    v->dataset[got] = '\0';
}

static void open_files(visit *v)
{
    const char *name = v->list->items[v->at].name;
    v->data = v->map = -1;
    v->on_disk = 0;
    for (size_t i = v->at; i < v->end; i++) {
        const tarn__cache_item *item = &v->list->items[i];
        bool is_map = tarn__cache_is_map(item->name);
        int fd =
            openat(v->set, item->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        int *slot = is_map ? &v->map : &v->data;
        if (*slot >= 0) close(*slot);
        *slot = fd;
        v->on_disk += item->disk;
        if (!is_map) name = item->name;
    }
    snprintf(v->path, sizeof v->path, "%s/%s/%s", v->folder, v->id, name);
}

static tarn_status visit_one(visit *v, visitor see, void *context, tarn_error *err)
{
    open_files(v);
    tarn_status status = see(context, v, err);
    if (v->data >= 0) close(v->data);
    if (v->map >= 0) close(v->map);
    return status;
}

static int64_t newest_of(const tarn__cache_items *list, size_t i, size_t end)
{
    int64_t newest = INT64_MIN;
    for (; i < end; i++)
        if (list->items[i].used > newest) newest = list->items[i].used;
    return newest;
}

static tarn_status visit_set(visit *v, visitor see, void *context, tarn_error *err)
{
    tarn__cache_items list;
    TARN_TRY(tarn__cache_files(v->set, &list, err));
    tarn_status status = TARN_OK;
    v->list = &list;
    read_dataset(v);
    for (size_t i = 0, end; i < list.count && status == TARN_OK; i = end) {
        end = tarn__cache_same(&list, i, true);
        int64_t newest = newest_of(&list, i, end);
        for (v->at = i; v->at < end && status == TARN_OK; v->at = v->end) {
            v->end = tarn__cache_same(&list, v->at, false);
            v->old = newest_of(&list, v->at, v->end) < newest;
            status = visit_one(v, see, context, err);
        }
    }
    tarn__cache_items_reset(&list);
    return status;
}

static bool has_indexes(const char *folder)
{
    struct stat st;
    char *path = tarn__version_file(folder, "index");
    bool there = path && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return there;
}

/* The folder of this version's format, -1 if there are only indexes, or an error that
 * says what to do. */
static tarn_status open_root(const char *folder, char *path, size_t size, int *out,
                             tarn_error *err)
{
    if (snprintf(path, size, "%s/%s", folder, TARN__CACHE_FOLDER) >= (int)size)
        return tarn__fail_at(err, TARN_ERR_USAGE, folder, TARN_NO_OFFSET,
                             "the path of the cache is too long");
    *out = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int e = errno;
    if (*out >= 0 || (e == ENOENT && has_indexes(folder))) return TARN_OK;
    if (e == ENOENT)
        return tarn__fail_at(err, TARN_ERR_NO_FILE, folder, TARN_NO_OFFSET,
                             "there is no cache here (no folder " TARN__CACHE_FOLDER
                             "); give the folder that datasets are opened with");
    return tarn__fail_errno(err, path, e, "cannot open the cache");
}

static tarn_status visit_all(const char *folder, visitor see, void *context,
                             tarn_error *err)
{
    char path[3000];
    int root;
    tarn__cache_items sets;
    TARN_TRY(open_root(folder, path, sizeof path, &root, err));
    if (root < 0) return TARN_OK;
    visit *v = calloc(1, sizeof *v);
    tarn_status status = v ? tarn__cache_sets(root, &sets, err) : tarn__fail_memory(err);
    if (status == TARN_OK) {
        for (size_t i = 0; i < sets.count && status == TARN_OK; i++) {
            *v = (visit){.folder = path, .id = sets.items[i].name};
            v->used = sets.items[i].used;
            v->boot = tarn__cache_boot();
            v->set = tarn__cache_set_open(root, v->id);
            if (v->set < 0) continue; /* just removed */
            status = visit_set(v, see, context, err);
            close(v->set);
        }
        tarn__cache_items_reset(&sets);
    }
    free(v);
    close(root);
    return status;
}

static bool is_in_use(const visit *v)
{
    uint64_t from = TARN__LOCK_USE, count = 1;
    return v->data >= 0 && tarn__cache_locked(v->data, &from, &count);
}

/* Nothing is wrong with the files as such. */
static tarn_status check_files(const visit *v, tarn__cache_head *head, tarn_error *err)
{
    struct stat data, map;
    if (v->data < 0 || v->map < 0)
        return tarn__fail_at(err, TARN_ERR_FORMAT, v->path, TARN_NO_OFFSET,
                             v->map < 0 ? "it has no map (a file that ends with "
                                          ".blocks), so nothing in it is used"
                                        : "it is a map without its file");
    if (fstat(v->data, &data) != 0 || fstat(v->map, &map) != 0)
        return tarn__fail_errno(err, v->path, errno, "cannot stat");
    TARN_TRY(tarn__cache_head_read(v->map, v->path, head, err));
    if (head->size != (uint64_t)data.st_size)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, v->path, TARN_NO_OFFSET,
                             "another program changed its size (found %llu, expected "
                             "%llu), so nothing in it is used",
                             (unsigned long long)data.st_size,
                             (unsigned long long)head->size);
    if (tarn__cache_map_size(head->size) != (uint64_t)map.st_size)
        return tarn__fail_at(err, TARN_ERR_TRUNCATED, v->path, TARN_NO_OFFSET,
                             "its map has the wrong size (found %llu, expected %llu), "
                             "so nothing in it is used",
                             (unsigned long long)map.st_size,
                             (unsigned long long)tarn__cache_map_size(head->size));
    return TARN_OK;
}

/* --- Listing ------------------------------------------------------------------------ */

typedef struct listing {
    tarn_status (*see)(void *context, const tarn_cache_object *object, tarn_error *err);
    void *context;
    tarn__cache_indexes indexes;
    char dataset[1100]; /* of the last object */
    int64_t used;
} listing;

/* The indexes of one dataset, or (dataset is NULL) all that were not listed with the
 * objects of theirs. */
static tarn_status list_indexes(listing *l, const char *dataset, tarn_error *err)
{
    for (size_t i = 0; i < l->indexes.count; i++) {
        tarn__cache_index *item = &l->indexes.items[i];
        if (item->listed || (dataset && strcmp(item->dataset, dataset) != 0)) continue;
        TARN_TRY(tarn__cache_index_see(item, dataset ? l->used : item->used, l->see,
                                       l->context, err));
        item->listed = true;
    }
    return TARN_OK;
}

static tarn_status count_cached(const visit *v, const tarn__cache_head *head,
                                uint64_t *out, tarn_error *err)
{
    tarn__cache_entry entries[CHUNK];
    uint64_t blocks = tarn__cache_blocks(head->size);
    *out = 0;
    for (uint64_t at = 0; at < blocks; at += CHUNK) {
        size_t n = blocks - at < CHUNK ? (size_t)(blocks - at) : CHUNK;
        TARN_TRY(tarn__cache_entries_read(v->map, v->path, entries, at, n, err));
        for (size_t i = 0; i < n; i++)
            if (entries[i].tag) *out += tarn__cache_block_size(head->size, at + i);
    }
    return TARN_OK;
}

static tarn_status list_one(void *context, visit *v, tarn_error *err)
{
    listing *l = context;
    tarn__cache_head head;
    if (check_files(v, &head, NULL) != TARN_OK) return TARN_OK;
    if (strcmp(l->dataset, v->dataset) != 0) TARN_TRY(list_indexes(l, l->dataset, err));
    snprintf(l->dataset, sizeof l->dataset, "%s", v->dataset);
    l->used = v->used / 1000000000;
    tarn_cache_object object = {
        .dataset = v->dataset,
        .url = head.url,
        .etag = head.etag,
        .modified = head.modified,
        .path = v->path,
        .object_size = head.size,
        .cached = head.size,
        .on_disk = v->on_disk,
        .last_used = v->used / 1000000000,
        .in_use = is_in_use(v),
        .old_version = v->old,
    };
    if (!head.whole) TARN_TRY(count_cached(v, &head, &object.cached, err));
    return l->see(l->context, &object, err);
}

tarn_status tarn_cache_list(const char *folder,
                            tarn_status (*see)(void *context,
                                               const tarn_cache_object *object,
                                               tarn_error *err),
                            void *context, tarn_error *err)
{
    listing l = {.see = see, .context = context};
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "see", see);
    TARN_TRY(tarn__cache_indexes_find(folder, &l.indexes, err));
    tarn_status status = visit_all(folder, list_one, &l, err);
    if (status == TARN_OK) status = list_indexes(&l, l.dataset, err);
    if (status == TARN_OK) status = list_indexes(&l, NULL, err);
    tarn__cache_indexes_reset(&l.indexes);
    return status;
}

/* --- Checking ----------------------------------------------------------------------- */

typedef struct checking {
    const tarn_cache_verify_options *o;
    tarn_cache_verify_report report;
    unsigned char *data; /* CHUNK blocks */
} checking;

static void note(checking *k, const tarn_error *what, bool repaired)
{
    k->report.problems++;
    if (!repaired) k->report.remaining++;
    if (k->o->problem) k->o->problem(k->o->problem_context, what);
}

/* Blocks, one after the other, that are not what the map says. */
typedef struct wrong {
    uint64_t first, bytes;
    bool missing;  /* the map has no entry, but says that all are there */
    bool repaired; /* all of them */
} wrong;

static void report_wrong(checking *k, const visit *v, wrong *w)
{
    tarn_error what;
    if (!w->bytes) return;
    tarn__error_set(&what, TARN_ERR_CHECKSUM, v->path, w->first * TARN__CACHE_BLOCK,
                    w->missing ? "%llu bytes are missing, although the file is marked as "
                                 "complete; a repair corrects that"
                               : "%llu bytes are not what was stored; a repair drops "
                                 "them, and they are fetched again",
                    (unsigned long long)w->bytes);
    note(k, &what, w->repaired);
    *w = (wrong){0};
}

/* False if the entry changed since the data was read: the block is being replaced. */
static bool is_same(const visit *v, uint64_t block, const tarn__cache_entry *entry)
{
    tarn__cache_entry now;
    return tarn__cache_entries_read(v->map, v->path, &now, block, 1, NULL) == TARN_OK &&
           now.crc == entry->crc && now.tag == entry->tag;
}

static bool drop_block(const visit *v, uint64_t block)
{
    static const tarn__cache_entry none;
    for (size_t i = v->at; i < v->end; i++) {
        const char *name = v->list->items[i].name;
        if (!tarn__cache_is_map(name)) continue;
        int fd = openat(v->set, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        bool done =
            fd >= 0 && tarn__cache_set_whole(fd, v->path, 0, NULL) == TARN_OK &&
            tarn__cache_entries_write(fd, v->path, &none, block, 1, NULL) == TARN_OK;
        if (fd >= 0) close(fd);
        return done;
    }
    return false;
}

static void check_block(checking *k, const visit *v, const tarn__cache_head *head,
                        uint64_t block, const tarn__cache_entry *entry, bool right,
                        wrong *w)
{
    if (entry->tag && right) k->report.bytes += tarn__cache_block_size(head->size, block);
    if ((entry->tag && right) || (!entry->tag && !head->whole) ||
        !is_same(v, block, entry)) {
        report_wrong(k, v, w);
        return;
    }
    bool missing = !entry->tag, repaired = k->o->repair && drop_block(v, block);
    if (w->bytes && (w->missing != missing || w->repaired != repaired))
        report_wrong(k, v, w);
    if (!w->bytes) *w = (wrong){block, 0, missing, repaired};
    w->bytes += tarn__cache_block_size(head->size, block);
}

static tarn_status check_chunk(checking *k, const visit *v, const tarn__cache_head *head,
                               uint64_t at, size_t n, wrong *w, tarn_error *err)
{
    tarn__cache_entry entries[CHUNK];
    size_t used = 0, got = 0;
    TARN_TRY(tarn__cache_entries_read(v->map, v->path, entries, at, n, err));
    for (size_t i = 0; i < n; i++)
        if (entries[i].tag || head->whole) used = i + 1;
    memset(k->data, 0, used * TARN__CACHE_BLOCK);
    TARN_TRY(tarn__read_at(v->data, v->path, k->data, used * TARN__CACHE_BLOCK,
                           at * TARN__CACHE_BLOCK, &got, err));
    for (size_t i = 0; i < used; i++) {
        const unsigned char *block = k->data + i * TARN__CACHE_BLOCK;
        bool right = tarn__cache_right(entries + i, at + i, 1, head->size, block) == 1;
        check_block(k, v, head, at + i, entries + i, right, w);
    }
    return TARN_OK;
}

static tarn_status check_bytes(checking *k, const visit *v, const tarn__cache_head *head,
                               tarn_error *err)
{
    uint64_t blocks = tarn__cache_blocks(head->size);
    wrong w = {0};
    for (uint64_t at = 0; at < blocks; at += CHUNK) {
        size_t n = blocks - at < CHUNK ? (size_t)(blocks - at) : CHUNK;
        TARN_TRY(check_chunk(k, v, head, at, n, &w, err));
        if (k->o->progress && k->o->progress(k->o->progress_context, k->report.bytes, 0))
            return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    }
    report_wrong(k, v, &w);
    return TARN_OK;
}

static tarn_status check_one(void *context, visit *v, tarn_error *err)
{
    checking *k = context;
    tarn__cache_head head;
    tarn_error what;
    tarn_status status = check_files(v, &head, &what);
    k->report.objects++;
    if (status == TARN_OK) return check_bytes(k, v, &head, err);
    bool repair = k->o->repair && status != TARN_ERR_UNSUPPORTED;
    note(k, &what, repair && tarn__cache_remove(v->set, v->list, v->at, v->end));
    return TARN_OK;
}

tarn_status tarn_cache_verify(const char *folder,
                              const tarn_cache_verify_options *options,
                              tarn_cache_verify_report *report, size_t size,
                              tarn_error *err)
{
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "report", report);
    TARN__FILL_ZERO(report, size);
    TARN__OPTIONS(tarn_cache_verify_options, o, TARN_CACHE_VERIFY_OPTIONS_INIT, options,
                  err);
    checking k = {.o = &o};
    k.data = malloc((size_t)CHUNK * TARN__CACHE_BLOCK);
    tarn_status status =
        k.data ? visit_all(folder, check_one, &k, err) : tarn__fail_memory(err);
    free(k.data);
    if (status == TARN_OK)
        status = tarn__cache_indexes_verify(folder, &o, &k.report, err);
    TARN__FILL_OUT(report, size, k.report);
    return status;
}

/* --- Clearing ----------------------------------------------------------------------- */

typedef struct clearing {
    const tarn_cache_clear_options *o;
    tarn_cache_cleared done;
} clearing;

static bool matches(const clearing *k, const visit *v)
{
    tarn__cache_head head;
    const char *match = k->o->match;
    if (k->o->old_versions && !v->old) return false;
    if (!match || fnmatch(match, v->dataset, 0) == 0) return true;
    return v->map >= 0 &&
           tarn__cache_head_read(v->map, v->path, &head, NULL) == TARN_OK &&
           fnmatch(match, head.url, 0) == 0;
}

static tarn_status clear_one(void *context, visit *v, tarn_error *err)
{
    clearing *k = context;
    (void)err;
    if (k->done.left <= k->o->down_to || !matches(k, v)) return TARN_OK;
    if (is_in_use(v)) {
        k->done.in_use++;
        return TARN_OK;
    }
    uint64_t freed = tarn__cache_remove(v->set, v->list, v->at, v->end);
    if (!freed) return TARN_OK;
    k->done.objects++;
    k->done.bytes += freed;
    k->done.left -= freed < k->done.left ? freed : k->done.left;
    return TARN_OK;
}

/* Folders of datasets that have no objects. */
static void remove_empty(int root)
{
    tarn__cache_items sets, files;
    if (tarn__cache_sets(root, &sets, NULL) != TARN_OK) return;
    for (size_t i = 0; i < sets.count; i++) {
        int set = tarn__cache_set_open(root, sets.items[i].name);
        bool empty = set >= 0 && tarn__cache_files(set, &files, NULL) == TARN_OK;
        if (empty) {
            empty = files.count == 0;
            tarn__cache_items_reset(&files);
        }
        if (set >= 0) close(set);
        if (empty) (void)tarn__cache_remove_set(root, sets.items[i].name, UINT64_MAX);
    }
    tarn__cache_items_reset(&sets);
}

/* So that processes that use the cache know about the room. */
static void open_usage(tarn__cachedir *dir, int root)
{
    *dir = (tarn__cachedir){.fd = root, .usage_fd = -1, .slot = -1};
    (void)tarn__cache_usage_open(dir);
}

/* Closes root. */
static tarn_status clear_objects(clearing *k, const char *folder, int root,
                                 tarn_error *err)
{
    tarn__cachedir dir;
    open_usage(&dir, root);
    k->done.left += tarn__cache_on_disk(root);
    tarn_status status = visit_all(folder, clear_one, k, err);
    remove_empty(root);
    tarn__cache_account(&dir, -(int64_t)k->done.bytes);
    if (dir.usage_fd >= 0) close(dir.usage_fd);
    close(root);
    return status;
}

tarn_status tarn_cache_clear(const char *folder, const tarn_cache_clear_options *options,
                             tarn_cache_cleared *out, size_t size, tarn_error *err)
{
    char path[3000];
    int root;
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "out", out);
    TARN__FILL_ZERO(out, size);
    TARN__OPTIONS(tarn_cache_clear_options, o, TARN_CACHE_CLEAR_OPTIONS_INIT, options,
                  err);
    TARN_TRY(open_root(folder, path, sizeof path, &root, err));
    clearing k = {.o = &o, .done.left = tarn__cache_indexes_on_disk(folder)};
    tarn_status status = root < 0 ? TARN_OK : clear_objects(&k, folder, root, err);
    if (status == TARN_OK) status = tarn__cache_indexes_clear(folder, &o, &k.done, err);
    TARN__FILL_OUT(out, size, k.done);
    return status;
}
