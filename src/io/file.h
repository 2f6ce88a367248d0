/* Files that are read by position, so that one handle serves any number of threads.
 * Knows nothing about what is in them. */
#ifndef TARN_IO_FILE_H
#define TARN_IO_FILE_H

#include <tarn/base.h>

typedef struct tarn__file {
    int fd;
    char *path;
    uint64_t size; /* when it was opened */
    int64_t mtime_ns;
} tarn__file;

/* Opens a regular file for reading. */
TARN_CHECKED tarn_status tarn__file_open(tarn__file *file, const char *path,
                                         tarn_error *err);
void tarn__file_close(tarn__file *file);

/* Reads len bytes at offset from fd, going on after signals and short reads; fewer only
 * at the end of the file. path is for the error message. */
TARN_CHECKED tarn_status tarn__read_at(int fd, const char *path, void *buf, size_t len,
                                       uint64_t offset, size_t *out_got, tarn_error *err);

/* The same, but a file that ends early is an error. */
TARN_CHECKED tarn_status tarn__read_exact(int fd, const char *path, void *buf, size_t len,
                                          uint64_t offset, tarn_error *err);

/* Writes len bytes at offset, going on after signals and short writes. */
TARN_CHECKED tarn_status tarn__write_at(int fd, const char *path, const void *data,
                                        size_t len, uint64_t offset, tarn_error *err);

/* A whole file for reading: mapped where that is safe, in memory elsewhere. */
typedef struct tarn__contents {
    unsigned char *data;
    uint64_t size;
    bool mapped;
} tarn__contents;

TARN_CHECKED tarn_status tarn__contents_open(tarn__contents *contents, const char *path,
                                             tarn_error *err);
void tarn__contents_close(tarn__contents *contents);

/* Whether files behind fd may be mapped: true for local file systems that are known.
 * Elsewhere a map can kill the process when the server or another client fails. */
bool tarn__is_local(int fd);

/* Whether most of the file is in the page cache already. True when that is not known. */
bool tarn__is_cached(const tarn__file *file);

/* Whether the byte at offset of a mapped file is in the page cache. Told truly to those
 * who own the file or may write it; to others, and where it is not known, true. */
bool tarn__page_is_resident(const unsigned char *map, uint64_t offset);

/* A clock that costs next to nothing and moves every few milliseconds. */
long long tarn__coarse_time(void);

/* Maps the whole of fd, size bytes, for reading. Returns NULL if it cannot be. */
void *tarn__map(int fd, uint64_t size);
void tarn__unmap(void *map, uint64_t size);

#endif
