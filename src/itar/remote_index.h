/* Fetches the index of a remote fold and its sums. Knows nothing about shards. */
#ifndef TARN_ITAR_REMOTE_INDEX_H
#define TARN_ITAR_REMOTE_INDEX_H

#include "itar/index.h"

#define TARN__REMOTE_INDEX_MAX (UINT64_C(256) << 30) /* bytes of one of the files */

/* A local copy. */
typedef struct tarn__index_copy {
    char *path;        /* of the .taridx; the sums, if there are any, are next to it */
    char *temporary;   /* the folder of a copy that is not in a cache; or NULL */
    tarn_index *index; /* loaded from it; belongs to the copy */
} tarn__index_copy;

/* Fetches FOLD.taridx and the FOLD.tarsum next to it at the same time. A query at the end
 * of the URL belongs to both. With a cache (a folder) they are kept there, and
 * the server is only asked whether they have changed. TARN_ERR_NO_FILE if there is no
 * index. Messages name the URLs. */
TARN_CHECKED tarn_status tarn__index_fetch(const char *index_url, const char *cache,
                                           tarn__index_copy *out, tarn_error *err);

/* Removes a temporary copy. An index that was loaded from it stays valid. */
void tarn__index_copy_reset(tarn__index_copy *copy);

#endif
