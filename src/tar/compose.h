/* The headers of members to be written. */
#ifndef TARN_TAR_COMPOSE_H
#define TARN_TAR_COMPOSE_H

#include <tarn/write.h>

#include "base/buf.h"
#include "io/out.h"
#include "tar/header.h"

/* tarfile and GNU tar pad the last record of an archive. */
#define TARN__RECORD 10240u

typedef struct tarn__composer {
    unsigned char ready[TARN__BLOCK]; /* a header without name, size and checksum */
    uint32_t ready_sum;
    tarn_name_style names;
    tarn__buf constant; /* pax records of every member */
    size_t mtime_at;    /* start of the record of the time, which is the last */
    tarn__buf records;
    bool constant_binary;
    bool name_is_ascii; /* of the current member */
    uint64_t digest;    /* of the headers so far: see digest.h */
} tarn__composer;

TARN_CHECKED tarn_status tarn__composer_init(tarn__composer *composer,
                                             const tarn_tar_writer_options *options,
                                             tarn_error *err);
void tarn__composer_reset(tarn__composer *composer);

/* The size of all headers of a member in bytes. */
TARN_CHECKED tarn_status tarn__compose_size(tarn__composer *composer, const char *name,
                                            size_t len, uint64_t size, uint64_t *out,
                                            tarn_error *err);

/* Writes the headers of a member. *out_offset is the offset of its own header. */
TARN_CHECKED tarn_status tarn__compose(tarn__composer *composer, const char *name,
                                       size_t len, uint64_t size, tarn__out *out,
                                       uint64_t *out_offset, tarn_error *err);

/* The size of the end of an archive that has at bytes so far, including padding. */
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
