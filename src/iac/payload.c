/* Encodes and decodes single payloads. Every decoder limits the size of its output. */
#include "iac/payload.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <zstd.h>

#include "base/compress.h"
#include "base/error.h"

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
                         int level, int window, void *out, size_t capacity)
{
    const uint8_t *in = data;
    uint8_t *to = out;
    size_t room = capacity;
    BrotliEncoderSetParameter(state, BROTLI_PARAM_QUALITY, (uint32_t)level);
    BrotliEncoderSetParameter(state, BROTLI_PARAM_LGWIN, (uint32_t)window);
    bool good = BrotliEncoderCompressStream(state, BROTLI_OPERATION_PROCESS, &len, &in,
                                            &room, &to, NULL);
    while (good && !BrotliEncoderIsFinished(state) && room)
        good = BrotliEncoderCompressStream(state, BROTLI_OPERATION_FINISH, &len, &in,
                                           &room, &to, NULL);
    good = good && BrotliEncoderIsFinished(state);
    return good ? capacity - room : 0;
}

static size_t encode_brotli(const void *data, size_t len, int level, int window,
                            void *out, size_t capacity)
{
    brotli_memory m;
    volatile size_t size = 0;
    m.pieces = (brotli_piece){&m.pieces, &m.pieces};
    if (setjmp(m.way_out) == 0) {
        BrotliEncoderState *state =
            BrotliEncoderCreateInstance(brotli_take, brotli_give, &m);
        if (state) size = run_brotli(state, data, len, level, window, out, capacity);
        if (state) BrotliEncoderDestroyInstance(state);
    }
    while (m.pieces.next != &m.pieces)
        brotli_give(&m, m.pieces.next + 1);
    return size;
}

/* Codecs whose result has a known largest size. */
static tarn_status encode_bound(tarn__iac_codec codec, int level, int window,
                                const void *data, size_t len, tarn_bytes *out,
                                tarn_error *err)
{
    bool brotli = codec == IAC_BROTLI;
    size_t bound = brotli ? BrotliEncoderMaxCompressedSize(len) + len / 16 + 1024
                          : ZSTD_compressBound(len);
    unsigned char *room = tarn__bytes_extend(out, bound, err);
    if (!room) return TARN_ERR_MEMORY;
    size_t size = brotli ? encode_brotli(data, len, level, window, room, bound)
                         : ZSTD_compress(room, bound, data, len, level);
    out->size = brotli || !ZSTD_isError(size) ? size : 0;
    if (out->size) return TARN_OK;
    return tarn__fail(err, TARN_ERR_MEMORY, "out of memory for %zu bytes to encode", len);
}

static bool level_is_known(tarn__iac_codec codec, int level)
{
    if (codec == IAC_BROTLI) return level >= 0 && level <= 11;
    if (codec == IAC_GZIP) return level >= 1 && level <= 9;
    return codec != IAC_ZSTD || (level >= ZSTD_minCLevel() && level <= ZSTD_maxCLevel());
}

static tarn_status give_out(tarn_status status, tarn_bytes *bytes, tarn_view *out)
{
    if (status == TARN_OK)
        *out = (tarn_view){bytes->data, bytes->size, bytes->data};
    else
        tarn_bytes_release(bytes);
    return status;
}

static tarn_status encode(tarn__iac_codec codec, int level, int window, const void *data,
                          size_t len, tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "data", data || !len);
    TARN__NEED(err, "out", out);
    tarn_bytes bytes = TARN_BYTES_INIT;
    *out = (tarn_view)TARN_VIEW_INIT;
    if (!level_is_known(codec, level))
        return tarn__fail(err, TARN_ERR_USAGE, "level %d is not valid for the codec",
                          level);
    if (codec > IAC_GZIP)
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "payloads of this codec must be encoded by the caller");
    tarn_status status = codec == IAC_NONE ? tarn__bytes_add(&bytes, data, len, err)
                         : codec == IAC_GZIP
                             ? tarn__gzip_add(data, len, level, &bytes, err)
                             : encode_bound(codec, level, window, data, len, &bytes, err);
    return give_out(status, &bytes, out);
}

tarn_status tarn_iac_encode(const char *name, int level, const void *data, size_t len,
                            tarn_view *out, tarn_error *err)
{
    tarn__iac_codec codec = tarn__iac_codec_named(name);
    return encode(codec, level_or_default(codec, level), BROTLI_WINDOW, data, len, out,
                  err);
}

tarn_status tarn_iac_encode_brotli(int quality, int window, const void *data, size_t len,
                                   tarn_view *out, tarn_error *err)
{
    if (window < BROTLI_MIN_WINDOW_BITS || window > BROTLI_MAX_WINDOW_BITS)
        return tarn__fail(err, TARN_ERR_USAGE, "window %d is not from %d to %d", window,
                          BROTLI_MIN_WINDOW_BITS, BROTLI_MAX_WINDOW_BITS);
    return encode(IAC_BROTLI, quality, window, data, len, out, err);
}

/* --- Decoding --------------------------------------------------------------------- */

static bool lacked_memory(BrotliDecoderErrorCode code)
{
    return code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
           code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
}

static tarn_status decode_brotli(const void *data, size_t len, tarn__most most,
                                 tarn_bytes *out, tarn_error *err)
{
    BrotliDecoderState *state = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    if (!state) return tarn__fail_memory(err);
    const uint8_t *next = data;
    BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
    tarn_status status = TARN_OK;
    size_t room;
    while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) {
        status = tarn__expand_room(out, 0, most, &room, err);
        if (status != TARN_OK) break;
        unsigned char *to = out->data + out->size;
        result = BrotliDecoderDecompressStream(state, &len, &next, &room, &to, NULL);
        out->size = (size_t)(to - out->data);
    }
    /* One byte past the limit may have been written. */
    if (status == TARN_OK && out->size > most.bytes)
        status = tarn__expand_room(out, 0, most, &room, err);
    if (status == TARN_OK && lacked_memory(BrotliDecoderGetErrorCode(state)))
        status = tarn__fail_memory(err);
    BrotliDecoderDestroyInstance(state);
    if (status != TARN_OK) return status;
    return result == BROTLI_DECODER_RESULT_SUCCESS && len == 0
               ? TARN_OK
               : tarn__fail(err, TARN_ERR_FORMAT, "not complete, valid Brotli data");
}

static tarn_status copy_bytes(const void *data, size_t len, tarn__most most,
                              tarn_bytes *out, tarn_error *err)
{
    if (len <= most.bytes) return tarn__bytes_add(out, data, len, err);
    return tarn__fail(err, TARN_ERR_LIMIT,
                      "the payload expands to more than %llu bytes (%s)",
                      (unsigned long long)most.bytes, most.name);
}

tarn_status tarn_iac_decode(const char *name, const void *data, size_t len,
                            uint64_t limit, tarn_view *out, tarn_error *err)
{
    TARN__NEED(err, "data", data || !len);
    TARN__NEED(err, "out", out);
    tarn_bytes bytes = TARN_BYTES_INIT;
    tarn_error why;
    tarn_status status;
    tarn__most most = {limit < SIZE_MAX / 4 ? limit : SIZE_MAX / 4, "max_expansion"};
    tarn__iac_codec codec = tarn__iac_codec_named(name);
    *out = (tarn_view)TARN_VIEW_INIT;
    if (codec > IAC_GZIP)
        return tarn__fail(
            err, TARN_ERR_UNSUPPORTED,
            "payloads of this codec cannot be decoded; read the stored bytes instead");
    if (codec == IAC_NONE)
        status = copy_bytes(data, len, most, &bytes, &why);
    else if (codec == IAC_BROTLI)
        status = decode_brotli(data, len, most, &bytes, &why);
    else
        status = tarn__expand(codec == IAC_GZIP ? TARN__GZIP : TARN__ZSTD, data, len,
                              most, &bytes, &why);
    if (status == TARN_ERR_FORMAT || status == TARN_ERR_TRUNCATED)
        status =
            tarn__fail(err, TARN_ERR_FORMAT, "the payload is damaged: %s", why.message);
    else if (status != TARN_OK && err)
        *err = why;
    return give_out(status, &bytes, out);
}
