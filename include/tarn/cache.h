/* tarn/cache.h: what is in a cache of remote files, and how to check and clear it.
 *
 * Datasets at URLs that are opened with a cache folder store there what they fetch: for
 * each version of an object (a shard, an index, ...) a file with the same offsets as the
 * object. Other programs may read a complete file as if it were the object. The index of
 * a fold and its sums are two objects of its dataset, in FOLDER/index. Any number of
 * processes of one machine may use a cache, also while these functions run. What a
 * process has open is not removed, except an index: the process has it in memory. Other
 * files in the folder are not touched. */
#ifndef TARN_CACHE_H
#define TARN_CACHE_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One version of an object. All texts are without secrets, and borrowed until the call
 * returns. */
typedef struct tarn_cache_object {
    const char *dataset;  /* what was opened */
    const char *url;      /* of the object */
    const char *etag;     /* "" if the server sent none */
    const char *modified; /* date of the last change; "" if the server sent none */
    const char *path;     /* of the file in the cache */
    uint64_t object_size;
    uint64_t cached;   /* bytes of the object that are in the cache */
    uint64_t on_disk;  /* bytes that its files occupy */
    int64_t last_used; /* when the dataset was opened or closed, in seconds since 1970 */
    bool in_use;       /* a process has it open */
    bool old_version;  /* there is a newer version of the object */
} tarn_cache_object;

/* Calls see for each object; objects of a dataset are consecutive, and the dataset that
 * was not used for the longest time is first. A status other than TARN_OK from see ends
 * the call with that status; see sets err if it is not NULL. Damaged objects are left
 * out. TARN_ERR_NO_FILE if there is no cache in the folder. */
TARN_API TARN_CHECKED tarn_status tarn_cache_list(
    const char *folder,
    tarn_status (*see)(void *context, const tarn_cache_object *object, tarn_error *err),
    void *context, tarn_error *err);

typedef struct tarn_cache_verify_options {
    size_t size;         /* of this struct; set by the initialiser */
    bool repair;         /* drop damaged blocks, remove damaged objects and indexes */
    tarn_notice problem; /* called for each problem, with file, offset and reason */
    void *problem_context;
    tarn_progress progress; /* counts bytes in the cache */
    void *progress_context;
} tarn_cache_verify_options;

#define TARN_CACHE_VERIFY_OPTIONS_INIT                                                   \
    {                                                                                    \
        .size = sizeof(tarn_cache_verify_options)                                        \
    }
TARN_API void tarn_cache_verify_options_init(tarn_cache_verify_options *options,
                                             size_t size);

typedef struct tarn_cache_verify_report {
    uint64_t objects;
    uint64_t bytes; /* that were compared with their checksums */
    uint64_t problems;
    uint64_t remaining; /* problems left after repair; equals problems without repair */
} tarn_cache_verify_report;

/* Compares all bytes in the cache with the checksums that were stored when they arrived,
 * and checks the files themselves. TARN_OK means that the check was completed, not that
 * no problem was found. */
TARN_API TARN_CHECKED tarn_status
tarn_cache_verify(const char *folder, const tarn_cache_verify_options *options,
                  tarn_cache_verify_report *report, size_t size, tarn_error *err);

typedef struct tarn_cache_clear_options {
    size_t size; /* of this struct; set by the initialiser */
    /* Only objects whose URL or dataset matches: "*" is any text, "?" any character.
     * NULL: all objects. */
    const char *match;
    bool old_versions; /* only versions of objects that have a newer one */
    /* Remove only as much as is necessary: until the cache occupies at most this many
     * bytes. The dataset that was not used for the longest time is first, and indexes
     * are last. */
    uint64_t down_to;
} tarn_cache_clear_options;

#define TARN_CACHE_CLEAR_OPTIONS_INIT                                                    \
    {                                                                                    \
        .size = sizeof(tarn_cache_clear_options)                                         \
    }
TARN_API void tarn_cache_clear_options_init(tarn_cache_clear_options *options,
                                            size_t size);

typedef struct tarn_cache_cleared {
    uint64_t objects, bytes; /* removed */
    uint64_t in_use;         /* objects that were not removed because they are open */
    uint64_t left;           /* bytes that the cache still occupies */
} tarn_cache_cleared;

/* Removes objects from the cache. */
TARN_API TARN_CHECKED tarn_status
tarn_cache_clear(const char *folder, const tarn_cache_clear_options *options,
                 tarn_cache_cleared *out, size_t size, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
