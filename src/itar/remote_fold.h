/* A fold in an object store or on a web server: which shards it has, and a local copy of
 * its index. Knows nothing about reading the shards.
 *
 * URLs of a fold are
 *
 *     s3://bucket/birds                       the only fold of a folder
 *     s3://bucket/birds:train                 one of several; also with https://
 *     https://host/birds/train-{000..099}.tar its shards, with braces or (not over http)
 *                                             with *, ? and []
 *     https://host/birds/train.tar            the only shard of a fold
 *     https://host/birds/train.taridx         its index
 *
 * The index and the sums are fetched at the same time. With a cache they are kept there,
 * and the server is asked at each opening whether they have changed. A copy in the cache
 * never changes: each version of a pair of files has its own folder, which gets its name
 * when both files are complete and were checked. */
#ifndef TARN_ITAR_REMOTE_FOLD_H
#define TARN_ITAR_REMOTE_FOLD_H

#include "io/object.h"
#include "itar/index.h"

#define TARN__REMOTE_INDEX_MAX (UINT64_C(256) << 30) /* bytes of one file */

typedef struct tarn__remote_fold_options {
    const char *index; /* a local .taridx, used instead of the remote one; or NULL */
    const char *cache; /* a folder, created if necessary; NULL: nothing is kept */
    /* Find the shards without an index. Then there is none in the result. */
    bool no_index;
} tarn__remote_fold_options;

typedef struct tarn__remote_fold {
    char *name;
    char *folder;        /* the URL, without a slash at its end */
    char *dataset;       /* the same text for all shards, without secrets */
    char *index_url;     /* of the .taridx, whether or not it exists */
    char *index_shown;   /* for messages: its URL without secrets, or a local path */
    char *index_path;    /* a local file; NULL: there is no index */
    const char **shards; /* URLs, in the order of the fold; ends with NULL */
    size_t n_shards;
    void *inner;
} tarn__remote_fold;

/* Whether a path is a URL of a remote scheme with the form of a fold, or of shards. */
bool tarn__is_remote_fold(const char *path);

/* Finds a fold and fetches its index. TARN_ERR_NO_FILE if there is no index; the message
 * says which command writes it. options may be NULL. */
TARN_CHECKED tarn_status tarn__remote_fold_find(const char *url,
                                                const tarn__remote_fold_options *options,
                                                tarn__remote_fold **out, tarn_error *err);

/* Also removes a copy of the index that is not in the cache; an index that was loaded
 * from it stays valid. */
void tarn__remote_fold_free(tarn__remote_fold *fold);

/* What is known about a shard without asking for it: from the listing, or its size from
 * the sums. */
void tarn__remote_fold_id(const tarn__remote_fold *fold, size_t shard,
                          tarn__object_id *out);

/* Loads the index; messages will name its URL. */
TARN_CHECKED tarn_status tarn__remote_fold_load(const tarn__remote_fold *fold,
                                                tarn__load how, tarn_index **out,
                                                tarn_error *err);

#endif
