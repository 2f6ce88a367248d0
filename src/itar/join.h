/* Joins the indexes of consecutive parts of a fold into the index of all of it, which is
 * the same, byte for byte, as that of a scan of all shards. Rows are never all in memory:
 * besides a buffer of fixed size there are 0.04 bytes for each row, and one part's index
 * is mapped at a time. docs/internals/tasks.md has the steps. */
#ifndef TARN_ITAR_JOIN_H
#define TARN_ITAR_JOIN_H

#include "itar/index.h"

typedef struct tarn__join_part {
    const char *index_path;
    const char *const *shards; /* their paths, to read keys from; ends with NULL */
} tarn__join_part;

typedef struct tarn__join {
    const tarn__join_part *parts;
    size_t count;
    const char *const *names; /* of all shards, in the order of the parts */
    size_t n_names;
    size_t memory; /* bytes to sort in; 0: the default */
    unsigned threads;
    bool no_sync;
} tarn__join;

/* Writes the index of all parts, which gets its name path when the caller publishes it.
 * out_info may be NULL. TARN_ERR_EXISTS, with both shards, if two parts have a sample
 * with the same key. */
TARN_CHECKED tarn_status tarn__index_join(const tarn__join *join, const char *path,
                                          tarn__saving *out, tarn_index_info *out_info,
                                          tarn_error *err);

#endif
