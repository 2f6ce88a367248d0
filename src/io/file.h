/* Files that are read by position, so that any number of threads can share a handle.
 * Knows nothing about their contents. */
#ifndef TARN_IO_FILE_H
#define TARN_IO_FILE_H

#include <tarn/base.h>

/* What distinguishes a file from another of the same name. */
typedef struct tarn__file_id {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t device, inode;
} tarn__file_id;

struct tarn__remote;
struct tarn__cachedir;

typedef struct tarn__file {
    int fd; /* -1: it is remote */
    char *path;
    uint64_t size; /* when it was opened */
    int64_t mtime_ns;
    struct tarn__remote *remote; /* or NULL */
} tarn__file;

/* Fails with the system's reason, "cannot stat". */
TARN_CHECKED tarn_status tarn__file_identify(const char *path, tarn__file_id *out,
                                             tarn_error *err);

/* Whether the file of fd is the one that was identified. Where devices and inodes may
 * change although the file is the same, as on network file systems, size and time
 * decide. */
TARN_CHECKED tarn_status tarn__file_compare(int fd, const char *path,
                                            const tarn__file_id *id, bool *out_same,
                                            tarn_error *err);

/* Opens a regular file for reading. */
TARN_CHECKED tarn_status tarn__file_open(tarn__file *file, const char *path,
                                         tarn_error *err);

/* The same, also for the URL of a remote file. If cache, which may be NULL and is
 * borrowed, has the whole file, that copy is opened, and the file is local. */
TARN_CHECKED tarn_status tarn__file_open_any(tarn__file *file, const char *path,
                                             struct tarn__cachedir *cache,
                                             tarn_error *err);
void tarn__file_close(tarn__file *file);

/* Reads len bytes at offset; an early end of the file is an error. */
TARN_CHECKED tarn_status tarn__file_read(const tarn__file *file, void *buf, size_t len,
                                         uint64_t offset, tarn_error *err);

/* Reads len bytes at offset from fd and continues after signals and short reads; returns
 * fewer bytes only at the end of the file. path is for the error message. */
TARN_CHECKED tarn_status tarn__read_at(int fd, const char *path, void *buf, size_t len,
                                       uint64_t offset, size_t *out_got, tarn_error *err);

/* The same, but an early end of the file is an error. */
TARN_CHECKED tarn_status tarn__read_exact(int fd, const char *path, void *buf, size_t len,
                                          uint64_t offset, tarn_error *err);

/* Writes len bytes at offset and continues after signals and short writes. */
TARN_CHECKED tarn_status tarn__write_at(int fd, const char *path, const void *data,
                                        size_t len, uint64_t offset, tarn_error *err);

/* A whole file for reading: mapped if that is safe, otherwise copied to memory. */
typedef struct tarn__contents {
    unsigned char *data;
    uint64_t size;
    bool mapped;
} tarn__contents;

TARN_CHECKED tarn_status tarn__contents_open(tarn__contents *contents, const char *path,
                                             tarn_error *err);
void tarn__contents_close(tarn__contents *contents);

/* Whether the file of fd may be mapped: true for known local file systems. On other file
 * systems, an access to a map can kill the process when the server or another client
 * fails. */
bool tarn__is_local(int fd);

/* Whether most of the file is in the page cache. True if unknown. */
bool tarn__is_cached(const tarn__file *file);

/* Whether the byte at offset of a mapped file is in the page cache. The answer is exact
 * only for users who own the file or may write to it; for others, and if unknown, it is
 * true. */
bool tarn__page_is_resident(const unsigned char *map, uint64_t offset);

/* A very cheap clock with a resolution of a few milliseconds. */
long long tarn__coarse_time(void);

/* Maps all size bytes of fd for reading. Returns NULL on failure. */
void *tarn__map(int fd, uint64_t size);
void tarn__unmap(void *map, uint64_t size);

/* Announces to the system that bytes of a map will be used soon. Cannot fail. */
void tarn__map_will_need(const void *data, uint64_t size);

#endif
