/* Creates files under a folder without ever leaving it: names with ".." are refused,
 * symbolic links are not followed, and each path component is opened relative to the
 * folder before it. */
#ifndef TARN_IO_BENEATH_H
#define TARN_IO_BENEATH_H

#include <tarn/base.h>

/* The contents of a file. settle (may be NULL) is called after everything is written and
 * before the file gets its name; it checks that the data was valid all the time. */
typedef struct tarn__payload {
    const void *data;
    size_t size;
    tarn_status (*settle)(void *context, tarn_error *err);
    void *context;
} tarn__payload;

/* Creates the regular file name (len bytes; missing folders in it are created) under the
 * open folder root. Leading slashes and "." are dropped. TARN_ERR_EXISTS if it exists and
 * overwrite is false. The file gets its name only when it is complete, so a failure
 * changes nothing. */
TARN_CHECKED tarn_status tarn__write_beneath(int root, const char *root_path,
                                             const char *name, size_t len, bool overwrite,
                                             const tarn__payload *payload,
                                             tarn_error *err);

/* Opens a folder and creates it (but not its parents) if necessary. */
TARN_CHECKED tarn_status tarn__open_folder(const char *path, int *out_fd,
                                           tarn_error *err);

#endif
