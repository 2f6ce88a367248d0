/* Encodes and decodes single payloads. Every decoder limits the size of its output. */
#include "iac/payload.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/zstd.h"

enum { BROTLI_WINDOW = 24 }; /* the value that iatro-base-iac uses */

static const struct {
    const char *name;
    tarn__iac_codec codec;
} names[] = {{"none", IAC_NONE},   {"raw", IAC_NONE},  {"brotli", IAC_BROTLI},
             {"zstd", IAC_ZSTD},   {"gzip", IAC_GZIP}, {"jpeg", IAC_IMAGE},
             {"png", IAC_IMAGE},   {"jxl", IAC_IMAGE}, {"jpeg2000", IAC_IMAGE},
             {"jpegls", IAC_IMAGE}};

tarn__iac_codec tarn__iac_codec_named(const char *name)
{
    if (!name || !name[0]) return IAC_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, name) == 0) return names[i].codec;
    return IAC_OTHER;
}

const char *tarn__iac_codec_name(const char *name)
{
    tarn__iac_codec codec = tarn__iac_codec_named(name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (codec == IAC_IMAGE ? strcmp(names[i].name, name) == 0
                               : names[i].codec == codec)
            return names[i].name;
    return names[0].name;
}

static int level_or_default(tarn__iac_codec codec, int level)
{
    if (level) return level;
    return codec == IAC_BROTLI ? 11 : codec == IAC_ZSTD ? 19 : 6;
}

size_t tarn__iac_codec_params(tarn__iac_codec codec, int level, char *out, size_t size)
{
    int n = 0;
    level = level_or_default(codec, level);
    if (codec == IAC_BROTLI)
        n = snprintf(out, size, "{\"lgwin\": %d, \"quality\": %d}", BROTLI_WINDOW, level);
    else if (codec == IAC_ZSTD || codec == IAC_GZIP)
        n = snprintf(out, size, "{\"level\": %d}", level);
    return n > 0 ? (size_t)n : 0;
}

/* --- Encoding --------------------------------------------------------------------- */

static size_t encode_gzip(const void *data, size_t len, int level, void *out,
                          size_t capacity)
{
    enum { GZIP = 15 + 16, MEMORY = 8 };
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .next_out = out};
    if (len > UINT32_MAX || capacity > UINT32_MAX) return 0;
    if (deflateInit2(&z, level, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    z.avail_in = (uInt)len;
    z.avail_out = (uInt)capacity;
    size_t size = deflate(&z, Z_FINISH) == Z_STREAM_END ? z.total_out : 0;
    deflateEnd(&z);
    return size;
}

/* libbrotlienc ends the process when an allocation fails, unless it was built otherwise.
 * So it allocates here: the first failed allocation jumps out of the library, and all
 * other blocks are in a list to be freed. */
typedef struct brotli_piece {
    struct brotli_piece *before, *next;
} brotli_piece;

typedef struct brotli_memory {
    brotli_piece pieces; /* head of the list */
    jmp_buf way_out;
} brotli_memory;

static void *brotli_take(void *memory, size_t size)
{
    brotli_memory *m = memory;
    brotli_piece *p = size < SIZE_MAX / 2 ? malloc(sizeof *p + size) : NULL;
    if (!p) longjmp(m->way_out, 1);
    *p = (brotli_piece){&m->pieces, m->pieces.next};
    p->next->before = m->pieces.next = p;
    return p + 1;
}

static void brotli_give(void *memory, void *address)
{
    (void)memory;
    if (!address) return;
    brotli_piece *p = (brotli_piece *)address - 1;
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): freed pieces are not in the list. */
    p->before->next = p->next;
    p->next->before = p->before;
    free(p);
}

/* Encodes as a stream of unknown length, as iatro-base-iac does. The function that takes
 * all data in one call would choose other block sizes and so produce other bytes. */
static size_t run_brotli(BrotliEncoderState *state, const void *data, size_t len,
                         int level, void *out, size_t capacity)
{
    const uint8_t *in = data;
    uint8_t *to = out;
    size_t room = capacity;
    BrotliEncoderSetParameter(state, BROTLI_PARAM_QUALITY, (uint32_t)level);
    BrotliEncoderSetParameter(state, BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
    bool good = BrotliEncoderCompressStream(state, BROTLI_OPERATION_PROCESS, &len, &in,
                                            &room, &to, NULL);
    while (good && !BrotliEncoderIsFinished(state) && room)
        good = BrotliEncoderCompressStream(state, BROTLI_OPERATION_FINISH, &len, &in,
                                           &room, &to, NULL);
    good = good && BrotliEncoderIsFinished(state);
    return good ? capacity - room : 0;
}

static size_t encode_brotli(const void *data, size_t len, int level, void *out,
                            size_t capacity)
{
    brotli_memory m;
    volatile size_t size = 0;
    m.pieces = (brotli_piece){&m.pieces, &m.pieces};
    if (setjmp(m.way_out) == 0) {
        BrotliEncoderState *state =
            BrotliEncoderCreateInstance(brotli_take, brotli_give, &m);
        if (state) size = run_brotli(state, data, len, level, out, capacity);
        if (state) BrotliEncoderDestroyInstance(state);
    }
    while (m.pieces.next != &m.pieces)
        brotli_give(&m, m.pieces.next + 1);
    return size;
}

/* A size that is always enough, or 0 for codecs that cannot encode. */
static size_t encoded_bound(tarn__iac_codec codec, size_t len)
{
    enum { GZIP_FRAME = 64 };
    switch (codec) {
    case IAC_BROTLI:
        return BrotliEncoderMaxCompressedSize(len) + len / 16 + 1024;
    case IAC_ZSTD:
        return ZSTD_compressBound(len);
    case IAC_GZIP:
        return compressBound(len) + GZIP_FRAME;
    default:
        return len ? len : 1;
    }
}

static size_t encode_into(tarn__iac_codec codec, int level, const void *data, size_t len,
                          void *out, size_t capacity)
{
    size_t size;
    switch (codec) {
    case IAC_BROTLI:
        return encode_brotli(data, len, level, out, capacity);
    case IAC_ZSTD:
        size = ZSTD_compress(out, capacity, data, len, level);
        return ZSTD_isError(size) ? 0 : size;
    case IAC_GZIP:
        return encode_gzip(data, len, level, out, capacity);
    default:
        if (len) memcpy(out, data, len);
        return len;
    }
}

static bool level_is_known(tarn__iac_codec codec, int level)
{
    if (codec == IAC_BROTLI) return level >= 0 && level <= 11;
    if (codec == IAC_GZIP) return level >= 1 && level <= 9;
    return codec != IAC_ZSTD || (level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel());
}

tarn_status tarn_iac_encode(const char *name, int level, const void *data, size_t len,
                            tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "data", data || !len);
    TARN__NEED(err, "out", out);
    tarn__iac_codec codec = tarn__iac_codec_named(name);
    *out = (tarn_view)TARN_VIEW_INIT;
    level = level_or_default(codec, level);
    if (!level_is_known(codec, level))
        return tarn__fail(err, TARN_ERR_USAGE, "level %d is not valid for the codec",
                          level);
    if (codec > IAC_GZIP)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "payloads of this codec must be encoded by the caller");
    size_t capacity = encoded_bound(codec, len);
    void *memory = malloc(capacity);
    if (!memory) return tarn__fail_memory(err);
    size_t size = encode_into(codec, level, data, len, memory, capacity);
    if (size == 0 && (len != 0 || codec != IAC_NONE)) {
        free(memory);
        return tarn__fail(err, TARN_ERR_MEMORY, "out of memory for %zu bytes to encode",
                          len);
    }
    *out = (tarn_view){memory, size, memory};
    return TARN_OK;
}

/* --- Decoding --------------------------------------------------------------------- */

enum { CHUNK = 1 << 16 };

static tarn_status too_long(uint64_t limit, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_LIMIT,
                      "the payload expands to more than %llu bytes (max_expansion)",
                      (unsigned long long)limit);
}

static tarn_status damaged(const char *codec, tarn_error *err)
{
    return tarn__fail(err, TARN_ERR_FORMAT, "the payload is not complete, valid %s data",
                      codec);
}

/* Bytes that may be written at the end: a small buffer has more room than its limit. */
static size_t room_in(const tarn__buf *out)
{
    return (out->capacity < out->max ? out->capacity : out->max) - out->size;
}

/* Makes more room at the end by doubling; TARN_ERR_LIMIT when the limit is reached. */
static tarn_status more(tarn__buf *out, tarn_error *err)
{
    if (out->size == out->max) return too_long(out->max, err);
    if (out->capacity > out->size) return TARN_OK;
    size_t step = out->capacity ? out->capacity : CHUNK;
    if (step > out->max - out->size) step = out->max - out->size;
    return tarn__buf_reserve(out, step, err);
}

/* Room for the next step: at the end of out or, when out is full, one extra byte, which
 * shows whether the data ends there. */
static tarn_status next_room(tarn__buf *out, unsigned char *last, unsigned char **to,
                             size_t *room, tarn_error *err)
{
    bool full = out->size == out->max;
    if (!full) TARN_TRY(more(out, err));
    *to = full ? last : (unsigned char *)out->data + out->size;
    *room = full ? 1 : room_in(out);
    return TARN_OK;
}

/* Adds the output of a step. */
static tarn_status made(tarn__buf *out, size_t size, tarn_error *err)
{
    if (out->size == out->max) return size ? too_long(out->max, err) : TARN_OK;
    out->size += size;
    return TARN_OK;
}

static bool lacked_memory(BrotliDecoderErrorCode code)
{
    return code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
           code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
}

static tarn_status decode_brotli(const void *data, size_t len, tarn__buf *out,
                                 tarn_error *err)
{
    BrotliDecoderState *state = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    if (!state) return tarn__fail_memory(err);
    const uint8_t *next = data;
    BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
    tarn_status status = TARN_OK;
    while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT && status == TARN_OK) {
        unsigned char last, *to;
        size_t room, before;
        status = next_room(out, &last, &to, &room, err);
        if (status != TARN_OK) break;
        before = room;
        result = BrotliDecoderDecompressStream(state, &len, &next, &room, &to, NULL);
        status = made(out, before - room, err);
    }
    if (status == TARN_OK && lacked_memory(BrotliDecoderGetErrorCode(state)))
        status = tarn__fail_memory(err);
    BrotliDecoderDestroyInstance(state);
    if (status != TARN_OK) return status;
    return result == BROTLI_DECODER_RESULT_SUCCESS && len == 0 ? TARN_OK
                                                               : damaged("Brotli", err);
}

static tarn_status zstd_failed(size_t code, size_t len, tarn_error *err)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return tarn__fail_memory(err);
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "a payload of %zu bytes needs a window of more than %d MiB",
                          len, 1 << (tarn__zstd_window(len) - 20));
    return damaged("Zstandard", err);
}

static tarn_status decode_zstd(const void *data, size_t len, tarn__buf *out,
                               tarn_error *err)
{
    tarn__zstd z;
    if (!tarn__zstd_open(&z, tarn__zstd_window(len))) return tarn__fail_memory(err);
    ZSTD_inBuffer in = {data, len, 0};
    tarn_status status = TARN_OK;
    size_t left = 1;
    /* Ends when all input is used and the last frame is complete, or no progress is
     * made. */
    while (status == TARN_OK && (left != 0 || in.pos < in.size)) {
        unsigned char last, *to;
        size_t room, before = in.pos;
        status = next_room(out, &last, &to, &room, err);
        if (status != TARN_OK) break;
        ZSTD_outBuffer step = {to, room, 0};
        left = tarn__zstd_step(&z, &step, &in);
        if (ZSTD_isError(left)) break;
        status = made(out, step.pos, err);
        if (step.pos == 0 && in.pos == before) break;
    }
    tarn__zstd_close(&z);
    if (status != TARN_OK) return status;
    return left == 0 && in.pos == in.size ? TARN_OK : zstd_failed(left, len, err);
}

static tarn_status decode_gzip(const void *data, size_t len, tarn__buf *out,
                               tarn_error *err)
{
    enum { GZIP = 15 + 16 };
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len};
    if (len > UINT32_MAX) return damaged("gzip", err);
    if (inflateInit2(&z, GZIP) != Z_OK) return tarn__fail_memory(err);
    tarn_status status = TARN_OK;
    int result = Z_OK;
    while (status == TARN_OK && (result == Z_OK || result == Z_BUF_ERROR)) {
        unsigned char last;
        size_t room;
        uInt in = z.avail_in;
        status = next_room(out, &last, &z.next_out, &room, err);
        if (status != TARN_OK) break;
        if (room > 1u << 30) room = 1u << 30;
        z.avail_out = (uInt)room;
        result = inflate(&z, Z_NO_FLUSH);
        room -= z.avail_out;
        status = made(out, room, err);
        if (result == Z_STREAM_END && z.avail_in) result = inflateReset(&z);
        if (room == 0 && z.avail_in == in) break;
    }
    inflateEnd(&z);
    if (status != TARN_OK) return status;
    return result == Z_STREAM_END ? TARN_OK : damaged("gzip", err);
}

static tarn_status copy_bytes(const void *data, size_t len, tarn__buf *out,
                              tarn_error *err)
{
    if (len > out->max) return too_long(out->max, err);
    return tarn__buf_add(out, data, len, err);
}

tarn_status tarn_iac_decode(const char *name, const void *data, size_t len,
                            uint64_t limit, tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "data", data || !len);
    TARN__NEED(err, "out", out);
    tarn__buf bytes;
    tarn_status status;
    *out = (tarn_view)TARN_VIEW_INIT;
    tarn__buf_init(&bytes, limit < SIZE_MAX / 4 ? (size_t)limit : SIZE_MAX / 4);
    switch (tarn__iac_codec_named(name)) {
    case IAC_NONE:
        status = copy_bytes(data, len, &bytes, err);
        break;
    case IAC_BROTLI:
        status = decode_brotli(data, len, &bytes, err);
        break;
    case IAC_ZSTD:
        status = decode_zstd(data, len, &bytes, err);
        break;
    case IAC_GZIP:
        status = decode_gzip(data, len, &bytes, err);
        break;
    default:
        status = tarn__fail(
            err, TARN_ERR_UNSUPPORTED,
            "payloads of this codec cannot be decoded; read the stored bytes instead");
    }
    if (status == TARN_OK)
        *out = (tarn_view){(const unsigned char *)bytes.data, bytes.size, bytes.data};
    else
        tarn__buf_reset(&bytes);
    return status;
}
