/* The journal of a fold that is being written: the shards that are added, the shards that
 * are removed, and the index that means this has not happened yet. See commit.h.
 *
 * It is text: a first line, the header of the index that must still be in place (or "-"
 * for none) in hexadecimal, a line "+NAME" or "-NAME" for each shard, and a CRC-32C of
 * all of this. */
#ifndef TARN_ITAR_JOURNAL_H
#define TARN_ITAR_JOURNAL_H

#include "base/names.h"

#define TARN__JOURNAL_ENDING ".tarn-commit"

typedef enum tarn__journal_state {
    TARN__JOURNAL_NONE,
    TARN__JOURNAL_LIVE,   /* its index is in place: it applies */
    TARN__JOURNAL_PAST,   /* another index is in place: completed, or not started */
    TARN__JOURNAL_DAMAGED /* unreadable, or contains a name that is not a shard of the
                             fold */
} tarn__journal_state;

/* Reads the names in a journal; both sets stay empty unless it is live. The file is
 * untrusted: names that are not shards of this fold are not returned. Fails only if the
 * system refuses to read the file, or out of memory. */
TARN_CHECKED tarn_status tarn__journal_load(const char *path, const char *fold,
                                            const char *index_path, tarn__names *coming,
                                            tarn__names *going, tarn__journal_state *out,
                                            tarn_error *err);

typedef struct tarn__journal {
    const char *index_path; /* NULL: it applies while there is no index */
    const char *const *coming;
    size_t count;
    const tarn__names *going;
} tarn__journal;

TARN_CHECKED tarn_status tarn__journal_write(const tarn__journal *journal,
                                             const char *path, bool no_sync,
                                             tarn_error *err);

#endif
