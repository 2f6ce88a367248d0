/* The files in a folder while a fold is written, and how they become the fold.
 *
 *   .train.tarn-lock        held by the writer
 *   .train_0004.tar.part    a finished shard that has no name yet
 *   .train.tarn-commit      the journal: names of the shards that are being renamed
 *
 * When everything is complete, the journal is written, the shards are renamed, the index
 * is replaced, and the journal is removed. The journal says which index was in place
 * before. While that index is still in place, readers ignore the shards in the journal.
 * So a reader sees the old fold or the new one, whenever the writer is killed. If a fold
 * is replaced, its index is removed first; until the new index is in place, readers get
 * the error that there is no fold. See docs/internals/writing.md. */
#ifndef TARN_ITAR_COMMIT_H
#define TARN_ITAR_COMMIT_H

#include "itar/journal.h"

typedef struct tarn__stage {
    char *folder, *fold, *index_path;
    char *lock_path, *journal_path;
    int lock;
    bool no_sync;
    tarn__journal_state journal; /* the journal that was found */
    /* Shard names: coming are in a live journal that was found, going belong to a fold
     * that is being replaced, by that journal or by this writer. */
    tarn__names coming, going;
} tarn__stage;

/* Locks the fold for this writer, removes what killed writers left unfinished, and looks
 * for a journal. Creates the folder if it does not exist. TARN_ERR_EXISTS if another
 * writer holds the lock. */
TARN_CHECKED tarn_status tarn__stage_open(tarn__stage *stage, const char *folder,
                                          const char *fold, bool no_sync,
                                          tarn_error *err);
void tarn__stage_close(tarn__stage *stage);

/* Makes a folder and those above it, durably unless no_sync. Existing ones are fine. */
TARN_CHECKED tarn_status tarn__make_folder(const char *path, bool no_sync,
                                           tarn_error *err);

/* Whether a writer of the fold is alive. False if unknown. */
bool tarn__stage_is_locked(const char *folder, const char *fold);

/* "folder/name", and "folder/.name.part". The caller frees them. */
char *tarn__stage_path(const tarn__stage *stage, const char *name);
char *tarn__stage_part(const tarn__stage *stage, const char *name);

/* The finished shards that an interrupted writer left, as names without ".part" and
 * folder, sorted: both those in the journal and those that are not yet in it. */
TARN_CHECKED tarn_status tarn__stage_leftovers(const tarn__stage *stage, tarn__names *out,
                                               tarn_error *err);

/* The path of a finished shard: its own name if the journal got that far. */
TARN_CHECKED tarn_status tarn__stage_find(const tarn__stage *stage, const char *name,
                                          char **out, tarn_error *err);

/* Removes all finished shards that were not published, the files of the replaced fold
 * that a live journal had not removed yet, and the journal. Continues after a failure,
 * but then keeps the journal. */
TARN_CHECKED tarn_status tarn__stage_discard(tarn__stage *stage, tarn_error *err);

/* Gives the shards their names: writes the journal, removes the index and the shards in
 * stage->going if the fold replaces another, and renames. */
TARN_CHECKED tarn_status tarn__stage_name(tarn__stage *stage, const char *const *names,
                                          size_t count, bool replaces, tarn_error *err);

/* Call when the index is in place: removes the journal. */
TARN_CHECKED tarn_status tarn__stage_done(tarn__stage *stage, tarn_error *err);

#endif
