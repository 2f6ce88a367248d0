/* Zstandard. Frames without data (skippable ones, as pzstd writes) are skipped. */
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/zstd.h"
#include "io/filter.h"

static const char *const suffixes[] = {".zst", ".tzst", ".zstd", NULL};

static tarn__match match(const unsigned char *data, size_t size)
{
    if (!tarn__zstd_begins(data, size)) return TARN__MATCH_NO;
    return size < 4 ? TARN__MATCH_CUT : TARN__MATCH_YES;
}

/* The largest window, as a power of two, that fits in the allowed memory. */
static int window_log(uint64_t max_memory)
{
    ZSTD_bounds bounds = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    int log = bounds.lowerBound;
    while (log < bounds.upperBound && max_memory >> (log + 1))
        log++;
    return log;
}

static tarn_status decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    tarn__zstd *z = malloc(sizeof *z);
    if (!z || !tarn__zstd_open(z, window_log(max_memory))) {
        free(z);
        return tarn__fail_memory(err);
    }
    *out = z;
    return TARN_OK;
}

static tarn_status decode(void *state, tarn__flow *flow, bool *out_end, tarn_error *err)
{
    ZSTD_inBuffer in = {flow->in, flow->in_size, 0};
    ZSTD_outBuffer out = {flow->out, flow->out_size, 0};
    size_t code = tarn__zstd_step(state, &out, &in);
    tarn__flow_moved(flow, flow->in + in.pos, flow->out + out.pos);
    *out_end = code == 0;
    if (!ZSTD_isError(code)) return TARN_OK;
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return tarn__fail_memory(err);
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge)
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "decoding this zstd data needs more memory than max_memory "
                          "allows");
    return tarn__fail(err, TARN_ERR_FORMAT, "damaged zstd data (%s)",
                      ZSTD_getErrorName(code));
}

static tarn_status decode_next(void *state, tarn_error *err)
{
    return TARN_OK; /* a frame may follow a frame */
}

static void decoder_free(void *state)
{
    tarn__zstd_close(state);
    free(state);
}

static tarn_status encoder_new(void **out, int level, tarn_error *err)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    if (!c) return tarn__fail_memory(err);
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    *out = c;
    return TARN_OK;
}

static tarn_status encode(void *state, tarn__flow *flow, bool last, bool *out_end,
                          tarn_error *err)
{
    ZSTD_inBuffer in = {flow->in, flow->in_size, 0};
    ZSTD_outBuffer out = {flow->out, flow->out_size, 0};
    size_t left =
        ZSTD_compressStream2(state, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    tarn__flow_moved(flow, flow->in + in.pos, flow->out + out.pos);
    *out_end = last && left == 0;
    if (!ZSTD_isError(left)) return TARN_OK;
    if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
        return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_IO, "zstd failed (%s)", ZSTD_getErrorName(left));
}

static void encoder_free(void *state)
{
    ZSTD_freeCCtx(state);
}

const tarn__filter tarn__filter_zstd = {
    .id = TARN_FILTER_ZSTD,
    .name = "zstd",
    .suffixes = suffixes,
    .match = match,
    .decoder_new = decoder_new,
    .decode = decode,
    .decode_next = decode_next,
    .decoder_free = decoder_free,
    .level_min = 1,
    .level_max = 22,
    .level_default = 3,
    .encoder_new = encoder_new,
    .encode = encode,
    .encoder_free = encoder_free,
};
