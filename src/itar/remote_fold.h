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
 * The query of an http URL also belongs to its index. */
#ifndef TARN_ITAR_REMOTE_FOLD_H
#define TARN_ITAR_REMOTE_FOLD_H

#include <tarn/folds.h>

#include "io/object.h"
#include "itar/remote_index.h"
#include "itar/remote_place.h"

typedef struct tarn__remote_fold_options {
    const char *index; /* a local .taridx, used instead of the remote one; or NULL */
    const char *cache; /* a folder, created if necessary; NULL: nothing is kept */
} tarn__remote_fold_options;

typedef struct tarn__remote_fold {
    char *name;
    char *dataset;       /* the same text for all shards, without secrets */
    const char **shards; /* URLs, in the order of the fold; ends with NULL */
    size_t n_shards;
    const char *index_path;  /* a local file */
    tarn_index *index;       /* loaded from it (TARN__LOAD_TRUSTING); see take */
    struct tarn__found *ids; /* private, like the rest */
    tarn__index_copy copy;
    char *texts, *etags;
    bool growing; /* a commit adds shards, which are ignored until its index has them */
} tarn__remote_fold;

/* Finds a fold and fetches its index. The names of its shards are those in the index,
 * and so are their sizes, as far as they are known. TARN_ERR_NO_FILE if there is no
 * index; the message says how to write one. options may be NULL. */
TARN_CHECKED tarn_status tarn__remote_fold_find(const char *url,
                                                const tarn__remote_fold_options *options,
                                                tarn__remote_fold **out, tarn_error *err);

/* Also removes a copy of the index that is not in the cache; an index that was loaded
 * from it stays valid. */
void tarn__remote_fold_free(tarn__remote_fold *fold);

/* The index now belongs to the caller. */
tarn_index *tarn__remote_fold_take(tarn__remote_fold *fold);

/* What is known about a shard without asking for it: from the listing, or its size from
 * the sums. */
void tarn__remote_fold_id(const tarn__remote_fold *fold, size_t shard,
                          tarn__object_id *out);

#endif
