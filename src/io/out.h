/* A stream of bytes being written: through aligned buffers of 2 MB to a file that is
 * published when it is complete, or to any other sink.
 *
 * Space for files is allocated before the data is written, so that a full disk is noticed
 * early. Files that must be durable bypass the page cache: copying into it and writing it
 * back costs more than half of the disk's speed. Once the first buffer is full, a thread
 * writes it while the next one is filled. */
#ifndef TARN_IO_OUT_H
#define TARN_IO_OUT_H

#include <tarn/source.h>

#include "io/publish.h"

typedef struct tarn__out {
    unsigned char *buffer, *other; /* being filled, and being written */
    struct tarn__flusher *flusher;
    size_t writing; /* bytes of the other buffer that are being written to the file */
    size_t used;
    uint64_t flushed; /* bytes passed on to the file or sink */
    tarn__publish file;
    tarn_sink *sink; /* NULL: a file */
    bool direct;
    bool no_space_ahead; /* the file system cannot allocate space in advance */
    uint64_t allocated;
} tarn__out;

/* Bytes that are written at once. Two such buffers fit in the cache, so the writing
 * thread finds there what the filling thread left. */
#define TARN__OUT_FLUSH (2u << 20)

/* The maximum for one call of tarn__out_room. */
#define TARN__OUT_ROOM (64u << 10)

/* Begins a file that will have the name path (only overwrite and no_sync of the options
 * are used; for swept see publish.h), or a sink (owned by out from now on, also after a
 * failure). Zero-initialise out before the first use; its buffer is kept for the next
 * file until reset. */
TARN_CHECKED tarn_status tarn__out_file(tarn__out *out, const char *path,
                                        const tarn_sink_options *options, bool swept,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__out_sink(tarn__out *out, tarn_sink *sink, tarn_error *err);

/* Room for len bytes, at most TARN__OUT_ROOM. Bytes put there count once the caller adds
 * their number to out->used. */
TARN_CHECKED tarn_status tarn__out_room(tarn__out *out, size_t len, unsigned char **room,
                                        tarn_error *err);
/* All remaining room, at least one byte. */
TARN_CHECKED tarn_status tarn__out_space(tarn__out *out, unsigned char **space,
                                         size_t *out_len, tarn_error *err);
TARN_CHECKED tarn_status tarn__out_write(tarn__out *out, const void *data, size_t len,
                                         tarn_error *err);
TARN_CHECKED tarn_status tarn__out_zeros(tarn__out *out, size_t len, tarn_error *err);

/* Discards everything after the first size bytes. A sink cannot take back data:
 * TARN_ERR_IO. */
TARN_CHECKED tarn_status tarn__out_rewind(tarn__out *out, uint64_t size, tarn_error *err);

static inline uint64_t tarn__out_size(const tarn__out *out)
{
    return out->flushed + out->used;
}

/* Completes and publishes; *out_mtime_ns (may be NULL) is the file's time. A failure
 * leaves no file. */
TARN_CHECKED tarn_status tarn__out_finish(tarn__out *out, int64_t *out_mtime_ns,
                                          tarn_error *err);

/* Removes everything that was written. Harmless after finish. */
void tarn__out_abandon(tarn__out *out);

/* Abandons, and frees the buffers and the thread. */
void tarn__out_reset(tarn__out *out);

#endif
