/* bzip2, with its own library. */
#include <bzlib.h>
#include <stdlib.h>

#include "base/error.h"
#include "io/filter.h"

static const char *const suffixes[] = {".bz2", ".tbz", ".tbz2", NULL};

/* A tar could begin with the text "BZh", but not with the magic number of the first
 * block. */
static tarn__match match(const unsigned char *data, size_t size)
{
    tarn__match head = tarn__magic(data, size, "BZh", 3);
    if (head != TARN__MATCH_YES) return head;
    if (size == 3) return TARN__MATCH_CUT;
    if (data[3] < '1' || data[3] > '9') return TARN__MATCH_NO;
    tarn__match block = tarn__magic(data + 4, size - 4, "1AY&SY", 6);
    tarn__match empty = tarn__magic(data + 4, size - 4, "\x17rE8P\x90", 6);
    return block > empty ? block : empty;
}

static void flow_to_bz(bz_stream *z, const tarn__flow *flow)
{
    z->next_in = (char *)(uintptr_t)flow->in;
    z->avail_in = tarn__flow_piece(flow->in_size);
    z->next_out = (char *)flow->out;
    z->avail_out = tarn__flow_piece(flow->out_size);
}

static tarn_status decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    bz_stream *z = calloc(1, sizeof *z);
    if (!z || BZ2_bzDecompressInit(z, 0, 0) != BZ_OK) {
        free(z);
        return tarn__fail_memory(err);
    }
    *out = z;
    return TARN_OK;
}

static tarn_status decode(void *state, tarn__flow *flow, bool *out_end, tarn_error *err)
{
    bz_stream *z = state;
    flow_to_bz(z, flow);
    int code = BZ2_bzDecompress(z);
    tarn__flow_moved(flow, z->next_in, z->next_out);
    *out_end = code == BZ_STREAM_END;
    if (code == BZ_OK || code == BZ_STREAM_END) return TARN_OK;
    if (code == BZ_MEM_ERROR) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_FORMAT, "damaged bzip2 data");
}

static tarn_status decode_next(void *state, tarn_error *err)
{
    BZ2_bzDecompressEnd(state);
    *(bz_stream *)state = (bz_stream){0};
    if (BZ2_bzDecompressInit(state, 0, 0) != BZ_OK) return tarn__fail_memory(err);
    return TARN_OK;
}

static void decoder_free(void *state)
{
    BZ2_bzDecompressEnd(state);
    free(state);
}

static tarn_status encoder_new(void **out, int level, tarn_error *err)
{
    bz_stream *z = calloc(1, sizeof *z);
    if (!z || BZ2_bzCompressInit(z, level, 0, 0) != BZ_OK) {
        free(z);
        return tarn__fail_memory(err);
    }
    *out = z;
    return TARN_OK;
}

static tarn_status encode(void *state, tarn__flow *flow, bool last, bool *out_end,
                          tarn_error *err)
{
    bz_stream *z = state;
    flow_to_bz(z, flow);
    *out_end = false;
    /* The library reports BZ_RUN without input as an error. */
    if (!last && flow->in_size == 0) return TARN_OK;
    int code =
        BZ2_bzCompress(z, last && flow->in_size <= TARN__FLOW_PIECE ? BZ_FINISH : BZ_RUN);
    tarn__flow_moved(flow, z->next_in, z->next_out);
    *out_end = code == BZ_STREAM_END;
    if (code == BZ_RUN_OK || code == BZ_FINISH_OK || code == BZ_STREAM_END)
        return TARN_OK;
    return tarn__fail(err, TARN_ERR_IO, "bzip2 failed with code %d", code);
}

static void encoder_free(void *state)
{
    BZ2_bzCompressEnd(state);
    free(state);
}

const tarn__filter tarn__filter_bzip2 = {
    .id = TARN_FILTER_BZIP2,
    .name = "bzip2",
    .suffixes = suffixes,
    .match = match,
    .decoder_new = decoder_new,
    .decode = decode,
    .decode_next = decode_next,
    .decoder_free = decoder_free,
    .level_min = 1,
    .level_max = 9,
    .level_default = 9,
    .encoder_new = encoder_new,
    .encode = encode,
    .encoder_free = encoder_free,
};
