/* What lies in a folder while a fold is written, and how it becomes the fold.
 *
 *   .train.tarn-lock        held by the writer
 *   .train_0004.tar.part    a finished shard that has no name yet
 *   .train.tarn-commit      names of the shards that are getting theirs (the journal)
 *
 * When all is complete, the journal is written, the shards get their names, the index is
 * replaced, and the journal goes. It says which index was there before: while that one is
 * still in place, readers take the shards in the journal as not yet there. So a reader
 * sees the old fold or the new one, whenever the writer is killed. A fold that is written
 * over loses its index first; until the new one is there, readers are told that there is
 * no fold. docs/internals/writing.md has the whole story. */
#ifndef TARN_ITAR_COMMIT_H
#define TARN_ITAR_COMMIT_H

#include "itar/journal.h"

typedef struct tarn__stage {
    char *folder, *fold, *index_path;
    char *lock_path, *journal_path;
    int lock;
    bool no_sync;
    tarn__journal_state journal; /* that was found */
    /* Shard names: those in a live journal that was found, and those of a fold that is
     * being replaced, by that journal or by this writer. */
    tarn__names coming, going;
} tarn__stage;

/* Takes the fold for this writer alone, removes what killed writers had not finished, and
 * looks for a journal. The folder is made if it is not there. TARN_ERR_EXISTS while
 * another writer has it. */
TARN_CHECKED tarn_status tarn__stage_open(tarn__stage *stage, const char *folder,
                                          const char *fold, bool no_sync,
                                          tarn_error *err);
void tarn__stage_close(tarn__stage *stage);

/* "folder/name", and "folder/.name.part". The caller frees them. */
char *tarn__stage_path(const tarn__stage *stage, const char *name);
char *tarn__stage_part(const tarn__stage *stage, const char *name);

/* The finished shards an interrupted writer left, as names without part or folder,
 * sorted: those in the journal and those that wait. */
TARN_CHECKED tarn_status tarn__stage_leftovers(const tarn__stage *stage, tarn__names *out,
                                               tarn_error *err);

/* Where a finished shard is: under its own name if the journal has got that far. */
TARN_CHECKED tarn_status tarn__stage_find(const tarn__stage *stage, const char *name,
                                          char **out, tarn_error *err);

/* Removes all finished shards that were not published, what a live journal had not yet
 * removed of the fold it replaces, and the journal. Goes on after a failure, but keeps
 * the journal then. */
TARN_CHECKED tarn_status tarn__stage_discard(tarn__stage *stage, tarn_error *err);

/* Gives the shards their names: writes the journal, removes the index and what is in
 * stage->going if the fold replaces another, and renames. */
TARN_CHECKED tarn_status tarn__stage_name(tarn__stage *stage, const char *const *names,
                                          size_t count, bool replaces, tarn_error *err);

/* The index is in place: the journal goes. */
TARN_CHECKED tarn_status tarn__stage_done(tarn__stage *stage, tarn_error *err);

#endif
