/* Files that appear whole or not at all: written under a temporary name in the same
 * folder, synced, renamed, and the folder synced. A failed sync fails the file: it is
 * removed, never synced again. */
#ifndef TARN_IO_PUBLISH_H
#define TARN_IO_PUBLISH_H

#include <tarn/base.h>

typedef struct tarn__publish {
    int fd;
    char *temporary;
    char *final;
    uint64_t written;
} tarn__publish;

TARN_CHECKED tarn_status tarn__publish_begin(tarn__publish *p, const char *path,
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

/* Syncs the file and gives it its name, replacing what had it. After a failure nothing is
 * left and the handle is closed. */
TARN_CHECKED tarn_status tarn__publish_finish(tarn__publish *p, tarn_error *err);

/* Leaves nothing behind. Harmless after finish. */
void tarn__publish_abandon(tarn__publish *p);

/* Removes a file (one that is not there is no failure) and syncs its folder. */
TARN_CHECKED tarn_status tarn__unpublish(const char *path, tarn_error *err);

#endif
