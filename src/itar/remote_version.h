/* Copies of remote indexes in a cache:
 *
 *     CACHE/index/<hash of the URL>/<hash of the version>/index.taridx
 *                                                         index.tarsum
 *                                                         id
 *
 * Files in the folder of a version never change: it gets its name when all of them are
 * complete, checked and on the disk. So nobody sees half of an index, or an index with
 * the sums of another one. id has the ETags and dates by which the server is asked
 * whether there is a newer version. */
#ifndef TARN_ITAR_REMOTE_VERSION_H
#define TARN_ITAR_REMOTE_VERSION_H

#include "io/object.h"

enum { TARN__VERSION_INDEX, TARN__VERSION_SUMS, TARN__VERSION_FILES };

extern const char *const tarn__version_names[TARN__VERSION_FILES];

/* A version of an index and its sums. */
typedef struct tarn__version {
    char *folder; /* NULL: none */
    bool has[TARN__VERSION_FILES];
    tarn__object_id ids[TARN__VERSION_FILES];
} tarn__version;

void tarn__version_reset(tarn__version *version);

/* The path of a file in a folder. The caller frees it. NULL if out of memory. */
char *tarn__version_file(const char *folder, const char *name);

/* The version in the folder of an index (NULL: no cache); the newest one if there are
 * several. */
bool tarn__version_find(const char *entry, tarn__version *out);

/* Creates the folder of an index. If that is not possible, nothing is cached. */
void tarn__version_folders(const char *entry);

/* Creates a folder for the files of a new version: in the folder of the index, or else
 * (*out_kept is false) for temporary files. */
TARN_CHECKED tarn_status tarn__version_stage(const char *entry, char **out,
                                             bool *out_kept, tarn_error *err);

/* Gives it its name, which the caller frees, and removes other versions. damaged: an
 * existing one with this name is damaged. NULL: it cannot be kept, and is still there. */
char *tarn__version_publish(const char *entry, const char *shown,
                            const tarn__version *version, const char *staging,
                            bool damaged);

/* Removes the folder of a version. Processes that use its files have mapped them. */
void tarn__version_remove(const char *folder);

TARN_CHECKED tarn_status tarn__version_write(int fd, const char *path, const char *data,
                                             size_t len, tarn_error *err);

#endif
