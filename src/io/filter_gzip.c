/* gzip: unpacked by ISA-L, which takes half the time, and packed by zlib, which has the
 * levels and the ratio that users expect. What is written has neither time nor name in
 * it, so that equal data give equal files. */
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "io/filter.h"

/* Both count in 32 bits; 16 added to the window means gzip. */
enum { GZIP_WINDOW = MAX_WBITS + 16 };
static const size_t PIECE = 1u << 30;

static const char *const suffixes[] = {".gz", ".tgz", NULL};

/* Flags that nobody has given a meaning yet may change what follows. */
static tarn__match match(const unsigned char *data, size_t size)
{
    tarn__match magic = tarn__magic(data, size, "\x1f\x8b\x08", 3);
    if (magic != TARN__MATCH_YES) return magic;
    if (size == 3) return TARN__MATCH_CUT;
    return data[3] & 0xe0 ? TARN__MATCH_NO : TARN__MATCH_YES;
}

static void start_member(struct inflate_state *z)
{
    isal_inflate_reset(z);
    z->crc_flag = ISAL_GZIP; /* headers and trailers too */
}

static tarn_status decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    struct inflate_state *z = malloc(sizeof *z);
    if (!z) return tarn__fail_memory(err);
    isal_inflate_init(z);
    start_member(z);
    *out = z;
    return TARN_OK;
}

static const char *explain(int code)
{
    switch (code) {
    case ISAL_INVALID_BLOCK:
        return "a block of no known kind";
    case ISAL_INVALID_SYMBOL:
        return "a code that stands for nothing";
    case ISAL_INVALID_LOOKBACK:
        return "a distance past the beginning";
    case ISAL_INVALID_WRAPPER:
    case ISAL_UNSUPPORTED_METHOD:
        return "a header that is none";
    case ISAL_INCORRECT_CHECKSUM:
        return "checksum or length does not match";
    default:
        return "no reason given";
    }
}

static tarn_status decode(void *state, tarn__flow *flow, bool *out_end, tarn_error *err)
{
    struct inflate_state *z = state;
    z->next_in = (uint8_t *)(uintptr_t)flow->in;
    z->avail_in = (uint32_t)(flow->in_size < PIECE ? flow->in_size : PIECE);
    z->next_out = flow->out;
    z->avail_out = (uint32_t)(flow->out_size < PIECE ? flow->out_size : PIECE);
    int code = isal_inflate(z);
    flow->in_size -= (size_t)(z->next_in - flow->in);
    flow->in = z->next_in;
    flow->out_size -= (size_t)(z->next_out - flow->out);
    flow->out = z->next_out;
    *out_end =
        z->block_state == ISAL_BLOCK_FINISH && z->tmp_out_processed >= z->tmp_out_valid;
    if (code >= 0) return TARN_OK;
    return tarn__fail(err, TARN_ERR_FORMAT, "damaged gzip data (%s)", explain(code));
}

static tarn_status decode_next(void *state, tarn_error *err)
{
    start_member(state);
    return TARN_OK;
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
    .decoder_free = free,
    .level_min = 1,
    .level_max = 9,
    .level_default = 6,
    .encoder_new = encoder_new,
    .encode = encode,
    .encoder_free = encoder_free,
};
