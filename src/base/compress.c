/* The same input gives the same output: the header of gzip has no time and no name. */
#include "base/compress.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/zstd.h"

#define RAW_WINDOW  (-15)
#define ZLIB_WINDOW 15
#define GZIP_WINDOW 31
#define FIRST_STEP  4096u /* initial room for expanded bytes */

/* --- Bytes ---------------------------------------------------------------------- */

tarn__buf tarn__bytes_lend(tarn_bytes *bytes)
{
    return (tarn__buf){.data = (char *)bytes->data,
                       .size = bytes->size,
                       .capacity = bytes->capacity,
                       .max = SIZE_MAX};
}

void tarn__bytes_take(tarn_bytes *bytes, const tarn__buf *buf)
{
    bytes->data = (unsigned char *)buf->data;
    bytes->size = buf->size;
    bytes->capacity = buf->capacity;
}

unsigned char *tarn__bytes_extend(tarn_bytes *bytes, size_t n, tarn_error *err)
{
    tarn__buf buf = tarn__bytes_lend(bytes);
    tarn_status status = tarn__buf_reserve(&buf, n ? n : 1, err);
    tarn__bytes_take(bytes, &buf);
    if (status != TARN_OK) return NULL;
    bytes->size += n;
    return bytes->data + bytes->size - n;
}

tarn_status tarn__bytes_add(tarn_bytes *bytes, const void *data, size_t len,
                            tarn_error *err)
{
    tarn__buf buf = tarn__bytes_lend(bytes);
    tarn_status status = tarn__buf_add(&buf, data, len, err);
    tarn__bytes_take(bytes, &buf);
    return status;
}

void tarn_bytes_release(tarn_bytes *bytes)
{
    if (!bytes) return;
    free(bytes->data);
    *bytes = (tarn_bytes)TARN_BYTES_INIT;
}

/* --- zlib ----------------------------------------------------------------------- */

static tarn_status zlib_failed(tarn_error *err, int code, const char *what)
{
    if (code == Z_MEM_ERROR) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_FORMAT, "%s (zlib code %d)", what, code);
}

/* zlib counts in 32 bits. */
static uInt piece(size_t left)
{
    return left > UINT_MAX / 2 ? UINT_MAX / 2 : (uInt)left;
}

static tarn_status run_deflate(z_stream *z, const void *data, size_t size,
                               tarn_bytes *out, tarn_error *err)
{
    size_t bound = deflateBound(z, size), begin = out->size, in_left = size;
    unsigned char *room = tarn__bytes_extend(out, bound, err);
    if (!room) return TARN_ERR_MEMORY;
    size_t out_left = bound;
    int code = Z_OK;
    z->next_in = (Bytef *)(uintptr_t)data;
    z->next_out = room;
    while (code == Z_OK) {
        uInt in = piece(in_left), give = piece(out_left);
        z->avail_in = in;
        z->avail_out = give;
        code = deflate(z, in == in_left ? Z_FINISH : Z_NO_FLUSH);
        in_left -= in - z->avail_in;
        out_left -= give - z->avail_out;
    }
    out->size = begin + (bound - out_left);
    return code == Z_STREAM_END ? TARN_OK : zlib_failed(err, code, "cannot compress");
}

static tarn_status deflate_add(const void *data, size_t size, int level, int window,
                               tarn_bytes *out, tarn_error *err)
{
    z_stream z = {0};
    int code = deflateInit2(&z, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
    if (code != Z_OK) return zlib_failed(err, code, "cannot compress");
    tarn_status status = run_deflate(&z, data, size, out, err);
    deflateEnd(&z);
    return status;
}

tarn_status tarn__gzip_add(const void *data, size_t size, int level, tarn_bytes *out,
                           tarn_error *err)
{
    return deflate_add(data, size, level, GZIP_WINDOW, out, err);
}

tarn_status tarn__deflate_add(const void *data, size_t size, tarn_bytes *out,
                              tarn_error *err)
{
    return deflate_add(data, size, Z_DEFAULT_COMPRESSION, RAW_WINDOW, out, err);
}

tarn_status tarn__zlib_add(const void *data, size_t size, int level, tarn_bytes *out,
                           tarn_error *err)
{
    return deflate_add(data, size, level, ZLIB_WINDOW, out, err);
}

/* Expands until out is full; *out_left is the number of unused input bytes. */
static tarn_status inflate_up_to(const void *data, size_t size, int window, void *out,
                                 size_t out_size, size_t *out_left, tarn_error *err)
{
    z_stream z = {0};
    int code = inflateInit2(&z, window);
    if (code != Z_OK) return zlib_failed(err, code, "cannot expand");
    size_t in_left = size, room = out_size;
    z.next_in = (Bytef *)(uintptr_t)data;
    z.next_out = out;
    do {
        uInt in = piece(in_left), give = piece(room);
        z.avail_in = in;
        z.avail_out = give;
        code = inflate(&z, Z_NO_FLUSH);
        in_left -= in - z.avail_in;
        room -= give - z.avail_out;
    } while (code == Z_OK && (in_left || room));
    inflateEnd(&z);
    *out_left = code == Z_STREAM_END ? in_left : in_left + 1;
    /* All bytes may be written although zlib failed to allocate its window. */
    if (room || code == Z_MEM_ERROR)
        return zlib_failed(err, code, "deflated data is damaged or truncated");
    return TARN_OK;
}

tarn_status tarn__inflate_into(const void *data, size_t size, void *out, size_t out_size,
                               tarn_error *err)
{
    size_t left;
    TARN_TRY(inflate_up_to(data, size, RAW_WINDOW, out, out_size, &left, err));
    if (left)
        return tarn__fail(err, TARN_ERR_FORMAT,
                          "deflated data does not expand to the stated size");
    return TARN_OK;
}

tarn_status tarn__unzlib_begin(const void *data, size_t size, void *out, size_t out_size,
                               tarn_error *err)
{
    size_t left;
    return inflate_up_to(data, size, ZLIB_WINDOW, out, out_size, &left, err);
}

/* --- Expanding into growing memory ---------------------------------------------- */

static tarn_status too_large(tarn__most most, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_LIMIT,
                      "the data expands to more than %llu bytes (%s)",
                      (unsigned long long)most.bytes, most.name);
}

tarn_status tarn__expand_room(tarn_bytes *out, size_t begin, tarn__most most,
                              size_t *out_room, tarn_error *err)
{
    size_t have = out->size - begin;
    if (have > most.bytes) return too_large(most, err);
    uint64_t room = have < FIRST_STEP ? FIRST_STEP : have;
    if (room > most.bytes - have) room = most.bytes - have + 1;
    if (room > UINT_MAX / 2) room = UINT_MAX / 2;
    if (!tarn__bytes_extend(out, room, err)) return TARN_ERR_MEMORY;
    out->size -= room;
    *out_room = room;
    return TARN_OK;
}

static tarn_status run_gunzip(z_stream *z, const void *data, size_t size, tarn__most most,
                              tarn_bytes *out, tarn_error *err)
{
    size_t left = size, begin = out->size, room;
    z->next_in = (Bytef *)(uintptr_t)data;
    for (;;) {
        TARN_TRY(tarn__expand_room(out, begin, most, &room, err));
        uInt in = piece(left);
        z->avail_in = in;
        z->next_out = out->data + out->size;
        z->avail_out = (uInt)room;
        int code = inflate(z, Z_NO_FLUSH);
        left -= in - z->avail_in;
        out->size += room - z->avail_out;
        if (code == Z_STREAM_END) {
            if (left == 0) break;
            code = inflateReset(z); /* another member follows */
        }
        if (code == Z_BUF_ERROR && left == 0)
            return tarn__fail(err, TARN_ERR_TRUNCATED, "gzip data is truncated");
        if (code != Z_OK && code != Z_BUF_ERROR)
            return tarn__fail(err, TARN_ERR_FORMAT, "gzip data: %s",
                              z->msg ? z->msg : "damaged");
    }
    return out->size - begin > most.bytes ? too_large(most, err) : TARN_OK;
}

static tarn_status gunzip(const void *data, size_t size, tarn__most most, tarn_bytes *out,
                          tarn_error *err)
{
    z_stream z = {0};
    int code = inflateInit2(&z, GZIP_WINDOW);
    if (code != Z_OK) return zlib_failed(err, code, "cannot expand");
    tarn_status status = run_gunzip(&z, data, size, most, out, err);
    inflateEnd(&z);
    return status;
}

/* --- zstd ----------------------------------------------------------------------- */

static tarn_status zstd_failed(tarn_error *err, size_t code, size_t size)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return tarn__fail_memory(err);
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "%zu bytes of zstd data need a window of more than %d MiB",
                          size, 1 << (tarn__zstd_window(size) - 20));
    return tarn__fail(err, TARN_ERR_FORMAT, "zstd data: %s", ZSTD_getErrorName(code));
}

static tarn_status zstd_add(const void *data, size_t size, int level, tarn_bytes *out,
                            tarn_error *err)
{
    size_t bound = ZSTD_compressBound(size), begin = out->size;
    unsigned char *room = tarn__bytes_extend(out, bound, err);
    ZSTD_CCtx *context = room ? ZSTD_createCCtx() : NULL;
    if (!context) return tarn__fail_memory(err);
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size_t got = ZSTD_compress2(context, room, bound, data, size);
    ZSTD_freeCCtx(context);
    if (ZSTD_isError(got)) return zstd_failed(err, got, size);
    out->size = begin + got;
    return TARN_OK;
}

static tarn_status run_unzstd(tarn__zstd *z, const void *data, size_t size,
                              tarn__most most, tarn_bytes *out, tarn_error *err)
{
    ZSTD_inBuffer in = {data, size, 0};
    size_t begin = out->size, room, code = 1;
    for (;;) {
        TARN_TRY(tarn__expand_room(out, begin, most, &room, err));
        ZSTD_outBuffer to = {out->data + out->size, room, 0};
        size_t before = in.pos;
        code = tarn__zstd_step(z, &to, &in);
        if (ZSTD_isError(code)) return zstd_failed(err, code, size);
        out->size += to.pos;
        if (in.pos == in.size && (code == 0 || to.pos < to.size)) break;
        if (in.pos == before && to.pos == 0)
            return tarn__fail(err, TARN_ERR_FORMAT, "zstd data: no progress");
    }
    if (code != 0) return tarn__fail(err, TARN_ERR_TRUNCATED, "zstd data is truncated");
    return out->size - begin > most.bytes ? too_large(most, err) : TARN_OK;
}

static tarn_status unzstd(const void *data, size_t size, tarn__most most, tarn_bytes *out,
                          tarn_error *err)
{
    tarn__zstd z;
    if (!tarn__zstd_open(&z, tarn__zstd_window(size))) return tarn__fail_memory(err);
    tarn_status status = run_unzstd(&z, data, size, most, out, err);
    tarn__zstd_close(&z);
    return status;
}

/* --- Both ----------------------------------------------------------------------- */

tarn_status tarn__squeeze_add(tarn__squeeze how, const void *data, size_t size,
                              const tarn_encode_options *options, tarn_bytes *out,
                              tarn_error *err)
{
    if (how == TARN__GZIP)
        return tarn__gzip_add(data, size, options->gzip_level, out, err);
    if (how == TARN__ZSTD) return zstd_add(data, size, options->zstd_level, out, err);
    return tarn__bytes_add(out, data, size, err);
}

tarn_status tarn__expand(tarn__squeeze how, const void *data, size_t size,
                         tarn__most most, tarn_bytes *out, tarn_error *err)
{
    if (size == 0)
        return tarn__fail(err, TARN_ERR_TRUNCATED, "compressed data has 0 bytes");
    return how == TARN__GZIP ? gunzip(data, size, most, out, err)
                             : unzstd(data, size, most, out, err);
}
