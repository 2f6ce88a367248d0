/* What lies in a folder while a fold is written, and how it becomes the fold.
 *
 *   .train.tarn-lock        held by the writer
 *   .train_0004.tar.part    a finished shard that has no name yet
 *   .train.tarn-commit      names of the shards that are getting theirs (the journal)
 *
 * When all is complete, the journal is written, the shards get their names, the index is
 * replaced, and the journal goes. It says which index was there before: while that one is
 * still in place, readers take the shards in the journal as not yet there. So a reader
 * sees the old fold or the new one, whenever the writer is killed. */
#ifndef TARN_ITAR_COMMIT_H
#define TARN_ITAR_COMMIT_H

#include "base/names.h"

#define TARN__JOURNAL_ENDING ".tarn-commit"

typedef struct tarn__stage {
    char *folder, *fold, *index_path;
    char *lock_path, *journal_path;
    int lock;
    /* Shard names in a journal that was found: those that come, and those of a fold that
     * is being replaced, which go. */
    tarn__names coming, going;
    bool has_journal;
} tarn__stage;

/* Takes the fold for this writer alone, and looks for a journal. The folder is made if it
 * is not there. TARN_ERR_EXISTS while another writer has it. */
TARN_CHECKED tarn_status tarn__stage_open(tarn__stage *stage, const char *folder,
                                          const char *fold, tarn_error *err);
void tarn__stage_close(tarn__stage *stage);

/* "folder/name", and "folder/.name.part". The caller frees them. */
char *tarn__stage_path(const tarn__stage *stage, const char *name);
char *tarn__stage_part(const tarn__stage *stage, const char *name);

/* The finished shards an interrupted writer left, as names without part or folder,
 * sorted: those in the journal and those that wait. */
TARN_CHECKED tarn_status tarn__stage_leftovers(const tarn__stage *stage, tarn__names *out,
                                               tarn_error *err);

/* Where a finished shard is: under its own name if the journal has got that far. */
char *tarn__stage_find(const tarn__stage *stage, const char *name);

/* Removes finished shards without a name of their own yet, and the journal. */
TARN_CHECKED tarn_status tarn__stage_discard(tarn__stage *stage, const char *const *names,
                                             size_t count, tarn_error *err);

/* Writes the journal of these shards, and of those in stage->going. */
TARN_CHECKED tarn_status tarn__stage_announce(tarn__stage *stage,
                                              const char *const *names, size_t count,
                                              bool no_sync, tarn_error *err);

/* Removes what is in stage->going, its index first. */
TARN_CHECKED tarn_status tarn__stage_clear(const tarn__stage *stage, tarn_error *err);

/* Gives the shards their names. */
TARN_CHECKED tarn_status tarn__stage_name(const tarn__stage *stage,
                                          const char *const *names, size_t count,
                                          bool no_sync, tarn_error *err);

/* The index is in place: the journal goes. */
TARN_CHECKED tarn_status tarn__stage_done(tarn__stage *stage, tarn_error *err);

/* The shards that a journal hides: none if the index beside it is not the one it speaks
 * of. A journal that cannot be read hides nothing. */
void tarn__journal_load(const char *path, const char *index_path, tarn__names *coming,
                        tarn__names *going);

#endif
