/* xz and the older lzma format, with liblzma. */
#include <lzma.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/filter.h"

typedef struct coder {
    lzma_stream z;
    uint64_t max_memory;
} coder;

static const char *const suffixes[] = {".xz", ".txz", NULL};

static tarn__match match_xz(const unsigned char *data, size_t size)
{
    return tarn__magic(data, size,
                       "\xfd"
                       "7zXZ\0",
                       6);
}

/* The format has no magic number. Every known writer begins with the usual properties, a
 * dictionary of 2^n or 2^n + 2^(n-1) bytes, a size that is unknown or plausible, and the
 * zero byte that a range coder starts with. */
static tarn__match match_lzma(const unsigned char *data, size_t size)
{
    if (size && data[0] != 0x5d) return TARN__MATCH_NO;
    if (size < 14) return size > 5 ? TARN__MATCH_CUT : TARN__MATCH_NO;
    uint32_t dictionary = tarn__get32(data + 1);
    uint64_t length = tarn__get64(data + 5);
    uint32_t low = dictionary & -dictionary, rest = dictionary ^ low;
    bool usual = dictionary >= 4096 && (rest == 0 || rest == low << 1);
    if (!usual || (length != UINT64_MAX && length >> 40)) return TARN__MATCH_NO;
    return data[13] == 0 ? TARN__MATCH_YES : TARN__MATCH_NO;
}

static tarn_status explain(lzma_ret code, const coder *c, tarn_error *err)
{
    switch (code) {
    case LZMA_MEM_ERROR:
        return tarn__fail_memory(err);
    case LZMA_MEMLIMIT_ERROR:
        return tarn__fail(err, TARN_ERR_LIMIT,
                          "decoding this xz data needs %llu MiB of memory; "
                          "max_memory is %llu MiB",
                          (unsigned long long)(lzma_memusage(&c->z) >> 20) + 1,
                          (unsigned long long)c->max_memory >> 20);
    case LZMA_UNSUPPORTED_CHECK:
    case LZMA_OPTIONS_ERROR:
        return tarn__fail(err, TARN_ERR_UNSUPPORTED,
                          "xz data with an unsupported filter or checksum");
    default:
        return tarn__fail(err, TARN_ERR_FORMAT, "damaged xz data");
    }
}

static lzma_ret start_xz(coder *c)
{
    return lzma_stream_decoder(&c->z, c->max_memory, LZMA_TELL_UNSUPPORTED_CHECK);
}

static tarn_status decoder_make(void **out, uint64_t max_memory, bool alone,
                                tarn_error *err)
{
    coder *c = malloc(sizeof *c);
    if (!c) return tarn__fail_memory(err);
    *c = (coder){.z = LZMA_STREAM_INIT, .max_memory = max_memory};
    if ((alone ? lzma_alone_decoder(&c->z, max_memory) : start_xz(c)) != LZMA_OK) {
        free(c);
        return tarn__fail_memory(err);
    }
    *out = c;
    return TARN_OK;
}

static tarn_status xz_decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    return decoder_make(out, max_memory, false, err);
}

static tarn_status lzma_decoder_new(void **out, uint64_t max_memory, tarn_error *err)
{
    return decoder_make(out, max_memory, true, err);
}

static lzma_ret code_flow(coder *c, tarn__flow *flow, lzma_action action)
{
    c->z.next_in = flow->in;
    c->z.avail_in = flow->in_size;
    c->z.next_out = flow->out;
    c->z.avail_out = flow->out_size;
    lzma_ret code = lzma_code(&c->z, action);
    tarn__flow_moved(flow, c->z.next_in, c->z.next_out);
    return code;
}

static tarn_status decode(void *state, tarn__flow *flow, bool *out_end, tarn_error *err)
{
    coder *c = state;
    lzma_ret code = code_flow(c, flow, LZMA_RUN);
    *out_end = code == LZMA_STREAM_END;
    if (code == LZMA_OK || code == LZMA_STREAM_END || code == LZMA_BUF_ERROR)
        return TARN_OK;
    return explain(code, c, err);
}

static tarn_status decode_next(void *state, tarn_error *err)
{
    return start_xz(state) == LZMA_OK ? TARN_OK : tarn__fail_memory(err);
}

static void coder_free(void *state)
{
    coder *c = state;
    lzma_end(&c->z);
    free(c);
}

static tarn_status encoder_new(void **out, int level, tarn_error *err)
{
    coder *c = malloc(sizeof *c);
    if (!c) return tarn__fail_memory(err);
    *c = (coder){.z = LZMA_STREAM_INIT};
    if (lzma_easy_encoder(&c->z, (uint32_t)level, LZMA_CHECK_CRC64) != LZMA_OK) {
        free(c);
        return tarn__fail_memory(err);
    }
    *out = c;
    return TARN_OK;
}

static tarn_status encode(void *state, tarn__flow *flow, bool last, bool *out_end,
                          tarn_error *err)
{
    lzma_ret code = code_flow(state, flow, last ? LZMA_FINISH : LZMA_RUN);
    *out_end = code == LZMA_STREAM_END;
    if (code == LZMA_OK || code == LZMA_STREAM_END || code == LZMA_BUF_ERROR)
        return TARN_OK;
    if (code == LZMA_MEM_ERROR) return tarn__fail_memory(err);
    return tarn__fail(err, TARN_ERR_IO, "xz failed with code %d", (int)code);
}

const tarn__filter tarn__filter_xz = {
    .id = TARN_FILTER_XZ,
    .name = "xz",
    .suffixes = suffixes,
    .match = match_xz,
    .padding = TARN__PADDING_FOURS,
    .decoder_new = xz_decoder_new,
    .decode = decode,
    .decode_next = decode_next,
    .decoder_free = coder_free,
    .level_min = 1,
    .level_max = 9,
    .level_default = 6,
    .encoder_new = encoder_new,
    .encode = encode,
    .encoder_free = coder_free,
};

static const char *const lzma_suffixes[] = {".lzma", ".tlz", NULL};

const tarn__filter tarn__filter_lzma = {
    .id = TARN_FILTER_XZ,
    .name = "lzma",
    .suffixes = lzma_suffixes,
    .match = match_lzma,
    .one_member = true,
    .decoder_new = lzma_decoder_new,
    .decode = decode,
    .decoder_free = coder_free,
};
