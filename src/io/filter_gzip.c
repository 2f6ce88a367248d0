/* gzip, by zlib. What is written has neither time nor name in it, so that equal data give
 * equal files. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "io/filter.h"

/* zlib counts in 32 bits, and 16 added to the window means gzip. */
enum { GZIP_WINDOW = MAX_WBITS + 16 };
static const size_t PIECE = 1u << 30;

static const char *const suffixes[] = {".gz", ".tgz", NULL};

static tarn__match match(const unsigned char *data, size_t size)
{
    return tarn__magic(data, size, "\x1f\x8b\x08", 3);
}

static void flow_to_zlib(z_stream *z, const tarn__flow *flow)
{
    z->next_in = (Bytef *)(uintptr_t)flow->in;
    z->avail_in = (uInt)(flow->in_size < PIECE ? flow->in_size : PIECE);
    z->next_out = flow->out;
    z->avail_out = (uInt)(flow->out_size < PIECE ? flow->out_size : PIECE);
}

static void zlib_to_flow(const z_stream *z, tarn__flow *flow)
{
    flow->in_size -= (size_t)(z->next_in - flow->in);
    flow->in = z->next_in;
    flow->out_size -= (size_t)(z->next_out - flow->out);
    flow->out = z->next_out;
}

static tarn_status decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    z_stream *z = calloc(1, sizeof *z);
    if (!z || inflateInit2(z, GZIP_WINDOW) != Z_OK) {
        free(z);
        return tarn__fail_memory(err);
    }
    *out = z;
    return TARN_OK;
}

static tarn_status decode(void *state, tarn__flow *flow, bool *out_end, tarn_error *err)
{
    z_stream *z = state;
    flow_to_zlib(z, flow);
    int code = inflate(z, Z_NO_FLUSH);
    zlib_to_flow(z, flow);
    *out_end = code == Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return TARN_OK;
    if (code == Z_MEM_ERROR) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_FORMAT, "damaged gzip data (%s)",
                      z->msg ? z->msg : "no reason given");
}

static tarn_status decode_next(void *state, tarn_error *err)
{
    inflateReset(state);
    return TARN_OK;
}

static void decoder_free(void *state)
{
    inflateEnd(state);
    free(state);
}

static tarn_status encoder_new(void **out, int level, tarn_error *err)
{
    z_stream *z = calloc(1, sizeof *z);
    if (!z ||
        deflateInit2(z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(z);
        return tarn__fail_memory(err);
    }
    *out = z;
    return TARN_OK;
}

static tarn_status encode(void *state, tarn__flow *flow, bool last, bool *out_end,
                          tarn_error *err)
{
    z_stream *z = state;
    flow_to_zlib(z, flow);
    int code = deflate(z, last && flow->in_size <= PIECE ? Z_FINISH : Z_NO_FLUSH);
    zlib_to_flow(z, flow);
    *out_end = code == Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return TARN_OK;
    return tarn__fail(err, TARN_ERR_IO, "gzip failed with code %d", code);
}

static void encoder_free(void *state)
{
    deflateEnd(state);
    free(state);
}

const tarn__filter tarn__filter_gzip = {
    .id = TARN_FILTER_GZIP,
    .name = "gzip",
    .suffixes = suffixes,
    .match = match,
    .padding = TARN__PADDING_ANY,
    .decoder_new = decoder_new,
    .decode = decode,
    .decode_next = decode_next,
    .decoder_free = decoder_free,
    .level_min = 1,
    .level_max = 9,
    .level_default = 6,
    .encoder_new = encoder_new,
    .encode = encode,
    .encoder_free = encoder_free,
};
