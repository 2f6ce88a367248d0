/* Copies of remote indexes in a cache:
 *
 *     CACHE/index/<hash of the URL>/<hash of the version>/index.taridx
 *                                                         index.tarsum
 *                                                         id
 *
 * Files in the folder of a version never change: it gets its name when all of them are
 * complete, checked and on the disk. So nobody sees half of an index, or an index with
 * the sums of another one. Only pages that were damaged later are written again, with the
 * bytes that they had. id has the URL, the ETags and dates by which the server is asked
 * whether there is a newer version, and a CRC-32C of each file. */
#ifndef TARN_IO_CACHE_INDEX_H
#define TARN_IO_CACHE_INDEX_H

#include <tarn/cache.h>

#include "io/object.h"

enum { TARN__VERSION_INDEX, TARN__VERSION_SUMS, TARN__VERSION_FILES };

extern const char *const tarn__version_names[TARN__VERSION_FILES];

/* A version of an index and its sums. */
typedef struct tarn__version {
    char *folder; /* NULL: none */
    char *url;    /* of the index, for messages; NULL: unknown */
    bool has[TARN__VERSION_FILES];
    tarn__object_id ids[TARN__VERSION_FILES];
    uint32_t crcs[TARN__VERSION_FILES]; /* CRC-32C of all bytes */
} tarn__version;

void tarn__version_reset(tarn__version *version);

/* The path of a file in a folder. The caller frees it. NULL if out of memory. */
char *tarn__version_file(const char *folder, const char *name);

/* The version in the folder of an index (NULL: no cache); the newest one if there are
 * several. */
bool tarn__version_find(const char *entry, tarn__version *out);

/* Calls see for each version in the cache that is in this folder, until it fails.
 * Versions that cannot be used have no url. No index in the cache is not an error. */
TARN_CHECKED tarn_status tarn__version_each(
    const char *cache,
    tarn_status (*see)(void *context, const tarn__version *version, tarn_error *err),
    void *context, tarn_error *err);

/* Removes the folders that contain nothing any more. */
void tarn__version_tidy(const char *cache);

/* What a dataset with the index at this URL is called: FOLDER:FOLD. The caller frees it.
 * NULL if out of memory. */
char *tarn__version_dataset(const char *url);

/* Creates the folder of an index. If that is not possible, nothing is cached. */
void tarn__version_folders(const char *entry);

/* Creates a folder for the files of a new version: in the folder of the index, or else
 * (*out_kept is false) for temporary files. */
TARN_CHECKED tarn_status tarn__version_stage(const char *entry, char **out,
                                             bool *out_kept, tarn_error *err);

/* Gives it its name, which the caller frees, and removes other versions. damaged: an
 * existing one with this name is damaged. NULL: it cannot be kept, and is still there. */
char *tarn__version_publish(const char *entry, const char *shown,
                            const tarn__version *version, const char *staging,
                            bool damaged);

/* Removes the folder of a version. Processes that use its files have mapped them. */
void tarn__version_remove(const char *folder);

TARN_CHECKED tarn_status tarn__version_write(int fd, const char *path, const char *data,
                                             size_t len, tarn_error *err);

/* --- For the public functions (cache_index_list.c) ---------------------------------- */

typedef struct tarn__cache_index {
    char *dataset;
    tarn__version version;
    int64_t used; /* when it was fetched, in seconds since 1970 */
    bool listed;  /* for the caller */
} tarn__cache_index;

typedef struct tarn__cache_indexes {
    tarn__cache_index *items; /* sorted by dataset */
    size_t count, capacity;
} tarn__cache_indexes;

TARN_CHECKED tarn_status tarn__cache_indexes_find(const char *folder,
                                                  tarn__cache_indexes *out,
                                                  tarn_error *err);
void tarn__cache_indexes_reset(tarn__cache_indexes *list);

/* Calls see for the files of a version. */
TARN_CHECKED tarn_status tarn__cache_index_see(
    const tarn__cache_index *item, int64_t used,
    tarn_status (*see)(void *context, const tarn_cache_object *object, tarn_error *err),
    void *context, tarn_error *err);

TARN_CHECKED tarn_status
tarn__cache_indexes_verify(const char *folder, const tarn_cache_verify_options *options,
                           tarn_cache_verify_report *report, tarn_error *err);

uint64_t tarn__cache_indexes_on_disk(const char *folder);

/* Subtracts what it removes from done->left. */
TARN_CHECKED tarn_status
tarn__cache_indexes_clear(const char *folder, const tarn_cache_clear_options *options,
                          tarn_cache_cleared *done, tarn_error *err);

#endif
