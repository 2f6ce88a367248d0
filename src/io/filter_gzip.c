/* gzip: decoded by ISA-L, which takes half the time, and encoded by zlib, which has the
 * levels and the compression ratio that users expect. The output contains neither time
 * nor name, so that equal data gives equal files. */
#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "io/filter.h"

enum { GZIP_WINDOW = MAX_WBITS + 16 }; /* adding 16 selects gzip */

static const char *const suffixes[] = {".gz", ".tgz", NULL};

/* Rejects reserved flags, because they may change the meaning of the following bytes. */
static tarn__match match(const unsigned char *data, size_t size)
{
    tarn__match magic = tarn__magic(data, size, "\x1f\x8b\x08", 3);
    if (magic != TARN__MATCH_YES) return magic;
    if (size == 3) return TARN__MATCH_CUT;
    return data[3] & 0xe0 ? TARN__MATCH_NO : TARN__MATCH_YES;
}

/* isal_inflate can read headers too, but forgets between two calls which header fields
 * are still missing. So the header is read by a separate function, and its state is
 * kept. */
typedef struct decoder {
    struct inflate_state z;
    struct isal_gzip_header header;
    bool in_header;
} decoder;

static void start_member(decoder *d)
{
    isal_inflate_reset(&d->z);
    d->z.crc_flag = ISAL_GZIP; /* checks the trailer too */
    isal_gzip_header_init(&d->header);
    d->in_header = true;
}

static tarn_status decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    decoder *d = malloc(sizeof *d);
    if (!d) return tarn__fail_memory(err);
    isal_inflate_init(&d->z);
    start_member(d);
    *out = d;
    return TARN_OK;
}

static const char *explain(int code)
{
    switch (code) {
    case ISAL_INVALID_BLOCK:
        return "unknown block type";
    case ISAL_INVALID_SYMBOL:
        return "invalid code";
    case ISAL_INVALID_LOOKBACK:
        return "distance before the start of the data";
    case ISAL_INVALID_WRAPPER:
    case ISAL_UNSUPPORTED_METHOD:
        return "invalid header";
    case ISAL_INCORRECT_CHECKSUM:
        return "checksum or length does not match";
    default:
        return "no reason given";
    }
}

/* A header that is not complete yet is not an error. */
static int inflate_more(decoder *d)
{
    if (d->in_header) {
        int code = isal_read_gzip_header(&d->z, &d->header);
        if (code != ISAL_DECOMP_OK) return code;
        d->in_header = false;
    }
    return isal_inflate(&d->z);
}

static tarn_status decode(void *state, tarn__flow *flow, bool *out_end, tarn_error *err)
{
    decoder *d = state;
    struct inflate_state *z = &d->z;
    z->next_in = (uint8_t *)(uintptr_t)flow->in;
    z->avail_in = tarn__flow_piece(flow->in_size);
    z->next_out = flow->out;
    z->avail_out = tarn__flow_piece(flow->out_size);
    int code = inflate_more(d);
    tarn__flow_moved(flow, z->next_in, z->next_out);
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
    z->avail_in = tarn__flow_piece(flow->in_size);
    z->next_out = flow->out;
    z->avail_out = tarn__flow_piece(flow->out_size);
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
    int code =
        deflate(z, last && flow->in_size <= TARN__FLOW_PIECE ? Z_FINISH : Z_NO_FLUSH);
    tarn__flow_moved(flow, z->next_in, z->next_out);
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
