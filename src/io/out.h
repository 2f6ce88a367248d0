/* A stream of bytes on its way out: through aligned buffers of 2 MB to a file that is
 * published when it is complete, or to any other sink.
 *
 * Files get their space ahead of the data, so that a full disk is known early, and where
 * they have to be durable they are written past the page cache: copying into it and
 * writing it back costs more than half of the disk's speed. From the first full buffer on
 * a thread writes it while the next one is filled. */
#ifndef TARN_IO_OUT_H
#define TARN_IO_OUT_H

#include <tarn/source.h>

#include "io/publish.h"

typedef struct tarn__out {
    unsigned char *buffer, *other; /* being filled, and being written */
    struct tarn__flusher *flusher;
    size_t writing; /* bytes of the other buffer on their way to the file */
    size_t used;
    uint64_t flushed; /* bytes that left the buffer for the file or sink */
    tarn__publish file;
    tarn_sink *sink; /* NULL: file */
    bool direct;
    bool no_space_ahead; /* the file system cannot allocate ahead */
    uint64_t allocated;
} tarn__out;

/* Bytes that leave the buffer at once: two of them fit the cache, where the thread that
 * fills leaves them for the one that writes. */
#define TARN__OUT_FLUSH (2u << 20)

/* What is asked of the room in the buffer at once, at most. */
#define TARN__OUT_ROOM (64u << 10)

/* Begins a file that will have the name path (of the options, overwrite and no_sync
 * count; swept: see publish.h), or a sink (taken over, also on failure).
 * Zero-initialise out before the first use; its buffer is kept for the next file until
 * reset. */
TARN_CHECKED tarn_status tarn__out_file(tarn__out *out, const char *path,
                                        const tarn_sink_options *options, bool swept,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__out_sink(tarn__out *out, tarn_sink *sink, tarn_error *err);

/* Room for len bytes, at most TARN__OUT_ROOM. What is put there counts once the caller
 * adds its length to out->used. */
TARN_CHECKED tarn_status tarn__out_room(tarn__out *out, size_t len, unsigned char **room,
                                        tarn_error *err);
/* All the room there is, at least one byte. */
TARN_CHECKED tarn_status tarn__out_space(tarn__out *out, unsigned char **space,
                                         size_t *out_len, tarn_error *err);
TARN_CHECKED tarn_status tarn__out_write(tarn__out *out, const void *data, size_t len,
                                         tarn_error *err);
TARN_CHECKED tarn_status tarn__out_zeros(tarn__out *out, size_t len, tarn_error *err);

/* Takes back everything after the first size bytes. A sink cannot take back what it was
 * given: TARN_ERR_IO. */
TARN_CHECKED tarn_status tarn__out_rewind(tarn__out *out, uint64_t size, tarn_error *err);

static inline uint64_t tarn__out_size(const tarn__out *out)
{
    return out->flushed + out->used;
}

/* Completes and publishes; *out_mtime_ns (which may be NULL) is the file's time. After a
 * failure nothing is left. */
TARN_CHECKED tarn_status tarn__out_finish(tarn__out *out, int64_t *out_mtime_ns,
                                          tarn_error *err);

/* Leaves nothing behind. Harmless after finish. */
void tarn__out_abandon(tarn__out *out);

/* Abandons, and frees buffers and thread. */
void tarn__out_reset(tarn__out *out);

#endif
