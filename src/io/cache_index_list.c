/* Indexes in a cache, for the public functions: listing, checking and clearing. A file of
 * a version is an object. Nothing here knows what is in an index. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/error.h"
#include "io/cache_index.h"
#include "io/cache_inside.h"
#include "io/file.h"

enum { CHUNK = 1 << 20 };

/* --- Listing ------------------------------------------------------------------------ */

void tarn__cache_indexes_reset(tarn__cache_indexes *list)
{
    for (size_t i = 0; i < list->count; i++) {
        tarn__version_reset(&list->items[i].version);
        free(list->items[i].dataset);
    }
    free(list->items);
    *list = (tarn__cache_indexes){0};
}

static tarn_status keep(void *context, const tarn__version *v, tarn_error *err)
{
    tarn__cache_indexes *list = context;
    struct stat st;
    if (!v->url || stat(v->folder, &st) != 0) return TARN_OK;
    TARN_TRY(
        tarn__grow(&list->items, sizeof *list->items, list->count, &list->capacity, err));
    tarn__cache_index *item = &list->items[list->count++];
    *item = (tarn__cache_index){.version = *v, .used = st.st_mtime};
    item->version.folder = strdup(v->folder);
    item->version.url = strdup(v->url);
    item->dataset = tarn__version_dataset(v->url);
    if (item->version.folder && item->version.url && item->dataset) return TARN_OK;
    return tarn__fail_memory(err);
}

static int by_dataset(const void *a, const void *b)
{
    return strcmp(((const tarn__cache_index *)a)->dataset,
                  ((const tarn__cache_index *)b)->dataset);
}

tarn_status tarn__cache_indexes_find(const char *folder, tarn__cache_indexes *out,
                                     tarn_error *err)
{
    *out = (tarn__cache_indexes){0};
    tarn_status status = tarn__version_each(folder, keep, out, err);
    if (status != TARN_OK)
        tarn__cache_indexes_reset(out);
    else if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_dataset);
    return status;
}

static uint64_t disk_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* The URL of a file of a version. The caller frees it. NULL if out of memory. */
static char *url_of(const tarn__version *v, int file)
{
    static const char *const endings[] = {".taridx", ".tarsum"};
    char *url = strdup(v->url);
    size_t bare = url ? strcspn(url, "?") : 0, len = strlen(endings[file]);
    if (bare > len) memcpy(url + bare - len, endings[file], len);
    return url;
}

tarn_status tarn__cache_index_see(const tarn__cache_index *item, int64_t used,
                                  tarn_status (*see)(void *context,
                                                     const tarn_cache_object *object,
                                                     tarn_error *err),
                                  void *context, tarn_error *err)
{
    const tarn__version *v = &item->version;
    tarn_status status = TARN_OK;
    for (int i = 0; i < TARN__VERSION_FILES && status == TARN_OK; i++) {
        if (!v->has[i]) continue;
        char *path = tarn__version_file(v->folder, tarn__version_names[i]);
        char *url = url_of(v, i);
        tarn_cache_object object = {.dataset = item->dataset,
                                    .url = url,
                                    .etag = v->ids[i].etag,
                                    .modified = v->ids[i].modified,
                                    .path = path,
                                    .object_size = v->ids[i].size,
                                    .cached = v->ids[i].size,
                                    .on_disk = path ? disk_of(path) : 0,
                                    .last_used = used};
        status = path && url ? see(context, &object, err) : tarn__fail_memory(err);
        free(path);
        free(url);
    }
    return status;
}

/* --- Checking ----------------------------------------------------------------------- */

typedef struct checking {
    const tarn_cache_verify_options *o;
    tarn_cache_verify_report *report;
    unsigned char *data;
} checking;

static tarn_status read_crc(checking *k, int fd, const char *path, uint64_t size,
                            uint32_t *out, tarn_error *err)
{
    *out = 0;
    for (uint64_t at = 0; at < size;) {
        size_t len = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        TARN_TRY(tarn__read_exact(fd, path, k->data, len, at, err));
        *out = tarn__crc32c(*out, k->data, len);
        at += len;
        k->report->bytes += len;
        if (k->o->progress && k->o->progress(k->o->progress_context, k->report->bytes, 0))
            return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    }
    return TARN_OK;
}

static tarn_status check_file(checking *k, const tarn__version *v, int file,
                              tarn_error *err)
{
    uint32_t crc = 0;
    char *path = tarn__version_file(v->folder, tarn__version_names[file]);
    if (!path) return tarn__fail_memory(err);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    tarn_status status = fd < 0 ? tarn__fail_errno(err, path, errno, "cannot open")
                                : read_crc(k, fd, path, v->ids[file].size, &crc, err);
    if (status == TARN_OK && crc != v->crcs[file])
        status = tarn__fail_at(err, TARN_ERR_CHECKSUM, path, TARN_NO_OFFSET,
                               "it is not what was fetched (CRC-32C %08x, expected "
                               "%08x); a repair removes this copy of the index, and it "
                               "is fetched again",
                               crc, v->crcs[file]);
    if (fd >= 0) close(fd);
    free(path);
    return status;
}

static void note(checking *k, const tarn__version *v, const tarn_error *what)
{
    struct stat st;
    if (k->o->repair) tarn__version_remove(v->folder);
    k->report->problems++;
    if (lstat(v->folder, &st) == 0) k->report->remaining++;
    if (k->o->problem) k->o->problem(k->o->problem_context, what);
}

static tarn_status check_version(void *context, const tarn__version *v, tarn_error *err)
{
    checking *k = context;
    tarn_error what;
    if (!v->url) {
        tarn__error_set(&what, TARN_ERR_FORMAT, v->folder, TARN_NO_OFFSET,
                        "its file id or a size is damaged, or another version of tarn "
                        "wrote it, so nothing in it is used; a repair removes it");
        k->report->objects++;
        note(k, v, &what);
        return TARN_OK;
    }
    bool good = true;
    for (int i = 0; i < TARN__VERSION_FILES && good; i++) {
        if (!v->has[i]) continue;
        tarn_status status = check_file(k, v, i, &what);
        if (status == TARN_ERR_CANCELLED || status == TARN_ERR_MEMORY) {
            if (err) *err = what;
            return status;
        }
        k->report->objects++;
        good = status == TARN_OK;
    }
    if (!good) note(k, v, &what);
    return TARN_OK;
}

tarn_status tarn__cache_indexes_verify(const char *folder,
                                       const tarn_cache_verify_options *options,
                                       tarn_cache_verify_report *report, tarn_error *err)
{
    checking k = {options, report, malloc(CHUNK)};
    if (!k.data) return tarn__fail_memory(err);
    tarn_status status = tarn__version_each(folder, check_version, &k, err);
    free(k.data);
    if (options->repair) tarn__version_tidy(folder);
    return status;
}

/* --- Clearing ----------------------------------------------------------------------- */

typedef struct clearing {
    const tarn_cache_clear_options *o;
    tarn_cache_cleared *done;
} clearing;

static uint64_t version_disk(const tarn__version *v)
{
    uint64_t sum = 0;
    for (int i = 0; i < TARN__VERSION_FILES; i++) {
        char *path = tarn__version_file(v->folder, tarn__version_names[i]);
        if (path) sum += disk_of(path);
        free(path);
    }
    return sum;
}

static tarn_status count_version(void *context, const tarn__version *v, tarn_error *err)
{
    uint64_t *sum = context;
    (void)err;
    *sum += version_disk(v);
    return TARN_OK;
}

uint64_t tarn__cache_indexes_on_disk(const char *folder)
{
    uint64_t sum = 0;
    (void)!tarn__version_each(folder, count_version, &sum, NULL);
    return sum;
}

static tarn_status matches(const clearing *k, const tarn__version *v, bool *out,
                           tarn_error *err)
{
    *out = !k->o->match;
    if (*out || !v->url) return TARN_OK;
    char *dataset = tarn__version_dataset(v->url);
    if (!dataset) return tarn__fail_memory(err);
    *out = fnmatch(k->o->match, v->url, 0) == 0 || fnmatch(k->o->match, dataset, 0) == 0;
    free(dataset);
    return TARN_OK;
}

static tarn_status clear_version(void *context, const tarn__version *v, tarn_error *err)
{
    clearing *k = context;
    bool matched;
    if (k->o->old_versions || k->done->left <= k->o->down_to) return TARN_OK;
    TARN_TRY(matches(k, v, &matched, err));
    if (!matched) return TARN_OK;
    uint64_t freed = version_disk(v);
    struct stat st;
    tarn__version_remove(v->folder);
    if (lstat(v->folder, &st) == 0) return TARN_OK;
    for (int i = 0; i < TARN__VERSION_FILES; i++)
        k->done->objects += v->has[i];
    k->done->bytes += freed;
    k->done->left -= freed < k->done->left ? freed : k->done->left;
    return TARN_OK;
}

tarn_status tarn__cache_indexes_clear(const char *folder,
                                      const tarn_cache_clear_options *options,
                                      tarn_cache_cleared *done, tarn_error *err)
{
    clearing k = {options, done};
    tarn_status status = tarn__version_each(folder, clear_version, &k, err);
    tarn__version_tidy(folder);
    return status;
}
