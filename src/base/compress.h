/* Growing bytes, and gzip, zstd and raw deflate for bytes in memory. */
#ifndef TARN_BASE_COMPRESS_H
#define TARN_BASE_COMPRESS_H

#include <tarn/codec.h>

#include "base/buf.h"

/* Appends a copy of data. */
TARN_CHECKED tarn_status tarn__bytes_add(tarn_bytes *bytes, const void *data, size_t len,
                                         tarn_error *err);

/* Appends n uninitialized bytes and returns them, or NULL if memory is short. */
unsigned char *tarn__bytes_extend(tarn_bytes *bytes, size_t n, tarn_error *err);

/* The bytes as a buffer, which tarn__bytes_take must take back in every case. */
tarn__buf tarn__bytes_lend(tarn_bytes *bytes);
void tarn__bytes_take(tarn_bytes *bytes, const tarn__buf *buf);

typedef enum tarn__squeeze { TARN__PLAIN, TARN__GZIP, TARN__ZSTD } tarn__squeeze;

TARN_CHECKED tarn_status tarn__squeeze_add(tarn__squeeze how, const void *data,
                                           size_t size,
                                           const tarn_encode_options *options,
                                           tarn_bytes *out, tarn_error *err);

/* The largest result of an expansion, and the name of that limit. */
typedef struct tarn__most {
    uint64_t bytes;
    const char *name;
} tarn__most;

/* Expands all members or frames. TARN_ERR_LIMIT if the result is too large,
 * TARN_ERR_TRUNCATED or TARN_ERR_FORMAT if the data is not complete or not valid. */
TARN_CHECKED tarn_status tarn__expand(tarn__squeeze how, const void *data, size_t size,
                                      tarn__most most, tarn_bytes *out, tarn_error *err);

/* For decoders of other formats, which append to out from begin on: makes room up to one
 * byte past the limit, so that exceeding it is detected by the next call. The caller adds
 * to out->size what it used. */
TARN_CHECKED tarn_status tarn__expand_room(tarn_bytes *out, size_t begin, tarn__most most,
                                           size_t *out_room, tarn_error *err);

/* Appends one gzip member. */
TARN_CHECKED tarn_status tarn__gzip_add(const void *data, size_t size, int level,
                                        tarn_bytes *out, tarn_error *err);

/* Appends raw deflate data as in zip members, at zlib's default level. */
TARN_CHECKED tarn_status tarn__deflate_add(const void *data, size_t size, tarn_bytes *out,
                                           tarn_error *err);
/* Expands to exactly the size of out. */
TARN_CHECKED tarn_status tarn__inflate_into(const void *data, size_t size, void *out,
                                            size_t out_size, tarn_error *err);
/* Appends data with zlib's header and checksum. */
TARN_CHECKED tarn_status tarn__zlib_add(const void *data, size_t size, int level,
                                        tarn_bytes *out, tarn_error *err);
/* Fills out and ignores the rest of the data. */
TARN_CHECKED tarn_status tarn__unzlib_begin(const void *data, size_t size, void *out,
                                            size_t out_size, tarn_error *err);

#endif
