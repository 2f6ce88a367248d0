/* The headers of members that are to be written. */
#ifndef TARN_TAR_COMPOSE_H
#define TARN_TAR_COMPOSE_H

#include <tarn/write.h>

#include "base/buf.h"
#include "io/out.h"
#include "tar/header.h"

/* tarfile and GNU tar fill up the last record of an archive. */
#define TARN__RECORD 10240u

typedef struct tarn__composer {
    unsigned char ready[TARN__BLOCK]; /* a header but for name, size and checksum */
    uint32_t ready_sum;
    tarn_name_style names;
    tarn__buf constant; /* pax records that every member gets */
    size_t mtime_at;    /* where that of the time begins in them: it is the last */
    tarn__buf records;
    bool constant_binary;
    bool name_is_ascii; /* of the member at hand */
    uint64_t digest;    /* of the headers so far: see digest.h */
} tarn__composer;

TARN_CHECKED tarn_status tarn__composer_init(tarn__composer *composer,
                                             const tarn_tar_writer_options *options,
                                             tarn_error *err);
void tarn__composer_reset(tarn__composer *composer);

/* Bytes of all headers that a member will have. */
TARN_CHECKED tarn_status tarn__compose_size(tarn__composer *composer, const char *name,
                                            size_t len, uint64_t size, uint64_t *out,
                                            tarn_error *err);

/* Writes the headers of a member. *out_offset is where its own header is. */
TARN_CHECKED tarn_status tarn__compose(tarn__composer *composer, const char *name,
                                       size_t len, uint64_t size, tarn__out *out,
                                       uint64_t *out_offset, tarn_error *err);

/* The end of an archive that is at bytes long so far, padding included. */
static inline uint64_t tarn__end_size(uint64_t at)
{
    uint64_t end = at + 2 * TARN__BLOCK;
    return (end + TARN__RECORD - 1) / TARN__RECORD * TARN__RECORD - at;
}

static inline uint64_t tarn__block_padding(uint64_t size)
{
    return -size & (TARN__BLOCK - 1);
}

#endif
