/* The journal of a fold that is being written: which shards come, which go, and which
 * index says that it has not happened yet. commit.h tells what it is for.
 *
 * It is text: a first line, the header of the index that must still be there (or "-" for
 * none) in hexadecimal, a line "+NAME" or "-NAME" for each shard, and a CRC-32C of all of
 * this. */
#ifndef TARN_ITAR_JOURNAL_H
#define TARN_ITAR_JOURNAL_H

#include "base/names.h"

#define TARN__JOURNAL_ENDING ".tarn-commit"

typedef enum tarn__journal_state {
    TARN__JOURNAL_NONE,
    TARN__JOURNAL_LIVE,   /* its index is in place: it counts */
    TARN__JOURNAL_PAST,   /* another index is: it has come true, or not begun */
    TARN__JOURNAL_DAMAGED /* it cannot be read, or names what is no shard of the fold */
} tarn__journal_state;

/* The names in a journal; both sets stay empty unless it is live. Names come from a file
 * that anyone may have put there: they are those of shards of this fold, or none. Fails
 * only if the system does not let it be read, or there is no memory. */
TARN_CHECKED tarn_status tarn__journal_load(const char *path, const char *fold,
                                            const char *index_path, tarn__names *coming,
                                            tarn__names *going, tarn__journal_state *out,
                                            tarn_error *err);

typedef struct tarn__journal {
    const char *index_path; /* NULL: it counts while there is no index */
    const char *const *coming;
    size_t count;
    const tarn__names *going;
} tarn__journal;

TARN_CHECKED tarn_status tarn__journal_write(const tarn__journal *journal,
                                             const char *path, bool no_sync,
                                             tarn_error *err);

#endif
