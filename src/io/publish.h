/* Files that appear whole or not at all: written under a temporary name in the same
 * folder, synced, renamed, and the folder synced. A failed sync fails the file: it is
 * removed, never synced again. A temporary file is locked while its writer lives; those
 * that a killed writer left are removed by the next one with the same target. */
#ifndef TARN_IO_PUBLISH_H
#define TARN_IO_PUBLISH_H

#include <tarn/base.h>

typedef struct tarn__publish {
    int fd;
    char *temporary;
    char *final;
    uint64_t written;
    bool keep_existing; /* set after begin: finish fails if the name is taken */
    bool no_sync;       /* set after begin: finish does not wait for the disk */
    bool synced;        /* and need not be again */
} tarn__publish;

TARN_CHECKED tarn_status tarn__publish_begin(tarn__publish *p, const char *path,
                                             tarn_error *err);

/* The same by who has swept the folder already: sweeping looks at every name in it. */
TARN_CHECKED tarn_status tarn__publish_begin_swept(tarn__publish *p, const char *path,
                                                   tarn_error *err);
TARN_CHECKED tarn_status tarn__publish_write(tarn__publish *p, const void *data,
                                             size_t len, tarn_error *err);

/* Writes over bytes that were written already. */
TARN_CHECKED tarn_status tarn__publish_write_at(tarn__publish *p, const void *data,
                                                size_t len, uint64_t offset,
                                                tarn_error *err);

/* Appends len bytes at offset of another file, in the kernel where it can. */
TARN_CHECKED tarn_status tarn__publish_copy(tarn__publish *p, int fd, const char *path,
                                            uint64_t offset, uint64_t len,
                                            tarn_error *err);

/* Lets the disk begin with what was written so far; finish then waits less. */
void tarn__publish_hurry(const tarn__publish *p);

/* Waits for the disk now, unless no_sync, so that nothing but the name is left to finish.
 * After a failure nothing is left and the handle is closed. */
TARN_CHECKED tarn_status tarn__publish_sync(tarn__publish *p, tarn_error *err);

/* Syncs the file and gives it its name, replacing what had it unless keep_existing. After
 * a failure nothing is left and the handle is closed. */
TARN_CHECKED tarn_status tarn__publish_finish(tarn__publish *p, tarn_error *err);

/* Publishes two files that belong together. Both are on the disk before the first name
 * changes; then the old second goes, the first takes its place, and the new second comes,
 * with the folder locked against others who do the same, and synced behind each of the
 * three. So a reader, or a power failure at any moment, finds a pair that belongs
 * together or the first file alone. second may be NULL: then second_path is only removed.
 */
TARN_CHECKED tarn_status tarn__publish_pair(tarn__publish *first, tarn__publish *second,
                                            const char *second_path, tarn_error *err);

/* Leaves nothing behind. Harmless after finish. */
void tarn__publish_abandon(tarn__publish *p);

/* Removes the temporary files in a folder whose target is one of those meant and whose
 * writer is dead. */
typedef bool (*tarn__is_target)(const void *context, const char *target, size_t len);
void tarn__sweep(const char *folder, tarn__is_target is_target, const void *context);

/* Whether the file that fd was opened from by this path is known not to be there any
 * more. */
bool tarn__lost_name(int fd, const char *path);

/* rename that fails with EEXIST if the name is taken. */
int tarn__rename_new(const char *from, const char *to);
/* The same of names in an open folder. */
int tarn__rename_new_in(int folder, const char *from, const char *to);

/* Syncs the folder that path is in: the names in it are on the disk then. */
TARN_CHECKED tarn_status tarn__sync_folder(const char *path, tarn_error *err);

#endif
