/* Creating files under a folder without ever leaving it: no "..", no symbolic link is
 * followed, each step is taken from the folder reached before. */
#ifndef TARN_IO_BENEATH_H
#define TARN_IO_BENEATH_H

#include <tarn/base.h>

/* What is to be in a file. settle (or NULL) is asked when all of it is written, before
 * the file has its name: whether the data were right all the while. */
typedef struct tarn__payload {
    const void *data;
    size_t size;
    tarn_status (*settle)(void *context, tarn_error *err);
    void *context;
} tarn__payload;

/* Creates the regular file name (len bytes, may have folders in it, which are made) under
 * the open folder root. Leading slashes and "." are dropped. TARN_ERR_EXISTS if it is
 * there and overwrite is false; a failure leaves all as it was: the file has its name
 * when it is whole. */
TARN_CHECKED tarn_status tarn__write_beneath(int root, const char *root_path,
                                             const char *name, size_t len, bool overwrite,
                                             const tarn__payload *payload,
                                             tarn_error *err);

/* Opens a folder, making it (not its parents) if need be. */
TARN_CHECKED tarn_status tarn__open_folder(const char *path, int *out_fd,
                                           tarn_error *err);

#endif
