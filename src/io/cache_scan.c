/* Goes through the folder of the cache, and removes from it. Only files with the names of
 * the cache are read or removed; everything else stays. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "io/cache_inside.h"

enum { URL_LENGTH = 17, OBJECT_LENGTH = 33 }; /* of URL- and URL-VERSION */

void tarn__cache_items_reset(tarn__cache_items *list)
{
    free(list->items);
    *list = (tarn__cache_items){0};
}

static tarn_status add(tarn__cache_items *list, int folder, const char *name,
                       const char *timed, tarn_error *err)
{
    struct stat st = {0};
    if (fstatat(folder, timed, &st, AT_SYMLINK_NOFOLLOW) != 0) return TARN_OK;
    TARN_TRY(
        tarn__grow(&list->items, sizeof *list->items, list->count, &list->capacity, err));
    tarn__cache_item *item = &list->items[list->count++];
    snprintf(item->name, sizeof item->name, "%.63s", name);
    item->disk = (uint64_t)st.st_blocks * 512;
    item->used = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return TARN_OK;
}

/* A dataset has the time of its file. */
static tarn_status list_folder(int folder, bool sets, tarn__cache_items *out,
                               tarn_error *err)
{
    char timed[TARN__CACHE_NAME];
    struct dirent *entry;
    tarn_status status = TARN_OK;
    *out = (tarn__cache_items){0};
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        status = tarn__fail_errno(err, NULL, errno, "cannot list the cache folder");
        if (fd >= 0) close(fd);
        return status;
    }
    while (status == TARN_OK && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (!(sets ? tarn__cache_is_dataset : tarn__cache_is_object)(name)) continue;
        if (sets) snprintf(timed, sizeof timed, "%.16s/%s", name, TARN__CACHE_DATASET);
        status = add(out, folder, name, sets ? timed : name, err);
    }
    closedir(dir);
    if (status != TARN_OK) tarn__cache_items_reset(out);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const tarn__cache_item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_use(const void *a, const void *b)
{
    const tarn__cache_item *x = a, *y = b;
    return x->used != y->used ? (x->used > y->used) - (x->used < y->used)
                              : strcmp(x->name, y->name);
}

tarn_status tarn__cache_files(int set, tarn__cache_items *out, tarn_error *err)
{
    TARN_TRY(list_folder(set, false, out, err));
    if (out->count) qsort(out->items, out->count, sizeof *out->items, by_name);
    return TARN_OK;
}

tarn_status tarn__cache_sets(int root, tarn__cache_items *out, tarn_error *err)
{
    TARN_TRY(list_folder(root, true, out, err));
    if (out->count) qsort(out->items, out->count, sizeof *out->items, by_use);
    return TARN_OK;
}

int tarn__cache_set_open(int root, const char *id)
{
    return openat(root, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

size_t tarn__cache_same(const tarn__cache_items *list, size_t i, bool versions)
{
    size_t end = i + 1, len = versions ? URL_LENGTH : OBJECT_LENGTH;
    while (end < list->count &&
           strncmp(list->items[i].name, list->items[end].name, len) == 0)
        end++;
    return end;
}

uint64_t tarn__cache_on_disk(int root)
{
    tarn__cache_items sets, files;
    uint64_t sum = 0;
    if (tarn__cache_sets(root, &sets, NULL) != TARN_OK) return 0;
    for (size_t i = 0; i < sets.count; i++) {
        int set = tarn__cache_set_open(root, sets.items[i].name);
        if (set >= 0 && tarn__cache_files(set, &files, NULL) == TARN_OK) {
            for (size_t k = 0; k < files.count; k++)
                sum += files.items[k].disk;
            tarn__cache_items_reset(&files);
        }
        if (set >= 0) close(set);
    }
    tarn__cache_items_reset(&sets);
    return sum;
}

/* --- Removal ---------------------------------------------------------------------- */

/* Locks a file that stands for something in use, if nobody uses it. */
static int lock_unused(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && tarn__cache_lock(fd, F_WRLCK, TARN__LOCK_USE, 1) &&
        tarn__cache_named(folder, name, fd))
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* The map goes first: a file without a map is never believed. A map without its file is
 * left by a removal that was killed. */
uint64_t tarn__cache_remove(int set, const tarn__cache_items *list, size_t i, size_t end)
{
    uint64_t freed = 0;
    int lock = -1;
    for (size_t k = i; k < end; k++) {
        if (tarn__cache_is_map(list->items[k].name)) continue;
        if (lock >= 0) close(lock); /* another file with the same beginning */
        lock = lock_unused(set, list->items[k].name);
        if (lock < 0) return 0;
    }
    for (int maps = 1; maps >= 0; maps--)
        for (size_t k = i; k < end; k++) {
            const tarn__cache_item *item = &list->items[k];
            if (tarn__cache_is_map(item->name) == (maps == 1) &&
                unlinkat(set, item->name, 0) == 0)
                freed += item->disk;
        }
    if (lock >= 0) close(lock);
    return freed;
}

static int64_t last_use(const tarn__cache_items *list, size_t i, size_t end)
{
    int64_t last = INT64_MIN;
    for (size_t k = i; k < end; k++)
        if (list->items[k].used > last) last = list->items[k].used;
    return last;
}

uint64_t tarn__cache_remove_old(int set, uint64_t bytes)
{
    tarn__cache_items list;
    uint64_t freed = 0;
    if (tarn__cache_files(set, &list, NULL) != TARN_OK) return 0;
    for (size_t i = 0, end; i < list.count && freed < bytes; i = end) {
        end = tarn__cache_same(&list, i, true);
        int64_t newest = last_use(&list, i, end);
        for (size_t k = i, next; k < end; k = next) {
            next = tarn__cache_same(&list, k, false);
            if (last_use(&list, k, next) < newest)
                freed += tarn__cache_remove(set, &list, k, next);
        }
    }
    tarn__cache_items_reset(&list);
    return freed;
}

/* With the write lock of the dataset: nobody has one of its objects open. */
static uint64_t empty_set(int set, uint64_t bytes, bool *out_empty)
{
    tarn__cache_items list;
    uint64_t freed = 0;
    *out_empty = false;
    if (tarn__cache_files(set, &list, NULL) != TARN_OK) return 0;
    size_t i = 0;
    for (size_t end; i < list.count && freed < bytes; i = end) {
        end = tarn__cache_same(&list, i, false);
        freed += tarn__cache_remove(set, &list, i, end);
    }
    *out_empty = i == list.count;
    tarn__cache_items_reset(&list);
    return freed;
}

uint64_t tarn__cache_remove_set(int root, const char *id, uint64_t bytes)
{
    uint64_t freed = 0;
    bool empty = false;
    int set = tarn__cache_set_open(root, id);
    int lock = set >= 0 ? lock_unused(set, TARN__CACHE_DATASET) : -1;
    if (lock >= 0) freed = empty_set(set, bytes, &empty);
    if (empty) {
        (void)unlinkat(set, TARN__CACHE_DATASET, 0);
        (void)unlinkat(root, id, AT_REMOVEDIR); /* fails if it has other files */
    }
    if (lock >= 0) close(lock);
    if (set >= 0) close(set);
    return freed;
}

uint64_t tarn__cache_evict(int root, uint64_t bytes)
{
    tarn__cache_items sets;
    uint64_t freed = 0;
    if (tarn__cache_sets(root, &sets, NULL) != TARN_OK) return 0;
    for (size_t i = 0; i < sets.count && freed < bytes; i++) {
        int set = tarn__cache_set_open(root, sets.items[i].name);
        if (set < 0) continue;
        freed += tarn__cache_remove_old(set, bytes - freed);
        close(set);
    }
    for (size_t i = 0; i < sets.count && freed < bytes; i++)
        freed += tarn__cache_remove_set(root, sets.items[i].name, bytes - freed);
    tarn__cache_items_reset(&sets);
    return freed;
}
