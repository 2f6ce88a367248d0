/* Files that appear complete or not at all: written under a temporary name in the same
 * folder, synced, renamed, and the folder synced. If a sync fails, the file is removed
 * and never synced again. A temporary file is locked while its writer lives; temporary
 * files of killed writers are removed by the next writer of the same target. */
#ifndef TARN_IO_PUBLISH_H
#define TARN_IO_PUBLISH_H

#include <tarn/base.h>

typedef struct tarn__publish {
    int fd;
    char *temporary;
    char *final;
    uint64_t written;
    bool keep_existing; /* set after begin: finish fails if the name exists */
    bool no_sync;       /* set after begin: finish does not wait for the disk */
    bool synced;        /* no further sync is needed */
} tarn__publish;

/* An existing path must be a regular file, or a link to one. */
TARN_CHECKED tarn_status tarn__publish_begin(tarn__publish *p, const char *path,
                                             tarn_error *err);

/* The same for callers that have already swept the folder: sweeping reads all names in
 * it. */
TARN_CHECKED tarn_status tarn__publish_begin_swept(tarn__publish *p, const char *path,
                                                   tarn_error *err);
TARN_CHECKED tarn_status tarn__publish_write(tarn__publish *p, const void *data,
                                             size_t len, tarn_error *err);

/* Overwrites bytes that were already written. */
TARN_CHECKED tarn_status tarn__publish_write_at(tarn__publish *p, const void *data,
                                                size_t len, uint64_t offset,
                                                tarn_error *err);

/* Appends len bytes at offset of another file, copied by the kernel if possible. */
TARN_CHECKED tarn_status tarn__publish_copy(tarn__publish *p, int fd, const char *path,
                                            uint64_t offset, uint64_t len,
                                            tarn_error *err);

/* Starts writing to the disk what was written so far; finish then waits less. */
void tarn__publish_hurry(const tarn__publish *p);

/* Waits for the disk now, unless no_sync, so that finish only has to rename. A failure
 * leaves no file and closes the handle. */
TARN_CHECKED tarn_status tarn__publish_sync(tarn__publish *p, tarn_error *err);

/* Syncs the file and renames it, replacing an existing file unless keep_existing. A
 * failure leaves no file and closes the handle. */
TARN_CHECKED tarn_status tarn__publish_finish(tarn__publish *p, tarn_error *err);

/* Publishes two files that belong together. Both are on the disk before the first name
 * changes. Then the second is renamed to waiting, the first to its name, and the second
 * from waiting to its name; the folder is synced after each of the three steps. So a
 * kill or a power failure at any moment leaves the old pair, or the new pair, whose
 * second file may still have the name waiting. Readers and the next writer look there.
 * Callers hold tarn__lock_folder meanwhile, and have moved a waiting file that belongs to
 * the existing first one. */
TARN_CHECKED tarn_status tarn__publish_pair(tarn__publish *first, tarn__publish *second,
                                            const char *waiting, tarn_error *err);

/* Waits for the lock of the folder of path, and returns a descriptor to close. If folders
 * cannot be locked, two simultaneous writers are not protected from each other. */
int tarn__lock_folder(const char *path);

/* Removes the temporary file. Harmless after finish. */
void tarn__publish_abandon(tarn__publish *p);

/* Removes the temporary files in a folder for whose target is_target returns true and
 * whose writer is dead. */
typedef bool (*tarn__is_target)(const void *context, const char *target, size_t len);
void tarn__sweep(const char *folder, tarn__is_target is_target, const void *context);

/* Whether the file of fd, which was opened by this path, is known to have lost that
 * name. */
bool tarn__lost_name(int fd, const char *path);

/* Like rename, but fails with EEXIST if the new name exists. */
int tarn__rename_new(const char *from, const char *to);
/* The same for names in an open folder. */
int tarn__rename_new_in(int folder, const char *from, const char *to);

/* Gives a complete file a second name, durably unless no_sync: a hard link, or a copy if
 * copy is set or links cannot be made. */
TARN_CHECKED tarn_status tarn__publish_link(const char *from, const char *to, bool copy,
                                            bool no_sync, tarn_error *err);

/* Syncs the folder of path, so that the names in it are on the disk. */
TARN_CHECKED tarn_status tarn__sync_folder(const char *path, tarn_error *err);

#endif
