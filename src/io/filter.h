/* Compression formats, each as one table of functions: recognising, decoding and encoding
 * a stream of bytes in memory. A filter knows nothing about files or URLs; source.c and
 * sink.c drive it. */
#ifndef TARN_IO_FILTER_H
#define TARN_IO_FILTER_H

#include <tarn/source.h>

/* Input and output of a coder, which advances both. */
typedef struct tarn__flow {
    const unsigned char *in;
    size_t in_size;
    unsigned char *out;
    size_t out_size;
} tarn__flow;

/* Libraries with 32-bit counters get at most this many bytes at once. */
enum { TARN__FLOW_PIECE = 1 << 30 };

static inline unsigned tarn__flow_piece(size_t size)
{
    return (unsigned)(size < TARN__FLOW_PIECE ? size : TARN__FLOW_PIECE);
}

/* Advances the flow to where a coder has stopped reading and writing. */
static inline void tarn__flow_moved(tarn__flow *flow, const void *in, void *out)
{
    flow->in_size -= (size_t)((const unsigned char *)in - flow->in);
    flow->in = in;
    flow->out_size -= (size_t)((unsigned char *)out - flow->out);
    flow->out = out;
}

typedef enum tarn__match {
    TARN__MATCH_NO,
    TARN__MATCH_CUT, /* matches so far, but the data ends too early to be sure */
    TARN__MATCH_YES
} tarn__match;

enum { TARN__MAGIC_MAX = 18 }; /* bytes that match needs; the longest zstd header */

/* Bytes of compressed data that a source reads at once, at least TARN__MAGIC_MAX. Tests
 * make it small, to hit every boundary. */
extern size_t tarn__source_chunk;

/* Zero bytes allowed after the end of a member. */
typedef enum tarn__padding {
    TARN__PADDING_NONE,
    TARN__PADDING_ANY,
    TARN__PADDING_FOURS /* a multiple of four bytes */
} tarn__padding;

typedef struct tarn__filter {
    tarn_filter id;
    const char *name;
    const char *const *suffixes; /* ends with NULL; NULL: decoding only */
    tarn__match (*match)(const unsigned char *data, size_t size);
    tarn__padding padding;
    bool one_member; /* nothing may follow the first member */

    tarn_status (*decoder_new)(void **out, uint64_t max_memory, tarn_error *err);
    /* Decodes as much as possible. *out_end is set when a member has ended; the rest of
     * the input does not belong to it. Errors carry no path or offset. */
    tarn_status (*decode)(void *state, tarn__flow *flow, bool *out_end, tarn_error *err);
    /* Prepares for the next member. */
    tarn_status (*decode_next)(void *state, tarn_error *err);
    void (*decoder_free)(void *state);

    int level_min, level_max, level_default;
    tarn_status (*encoder_new)(void **out, int level, tarn_error *err);
    /* With last, *out_end says that all output was written; call it until then. */
    tarn_status (*encode)(void *state, tarn__flow *flow, bool last, bool *out_end,
                          tarn_error *err);
    void (*encoder_free)(void *state);
} tarn__filter;

extern const tarn__filter tarn__filter_gzip, tarn__filter_bzip2, tarn__filter_xz,
    tarn__filter_lzma, tarn__filter_zstd;

/* The filter whose suffix the name has, or NULL. */
const tarn__filter *tarn__filter_by_suffix(const char *name, size_t len);

/* The filter with this id that can write, or NULL. */
const tarn__filter *tarn__filter_by_id(tarn_filter id);

/* The filter that matches the first bytes, or NULL. If the data is too short to be sure
 * (size is all there is), *out_cut is the filter that it could belong to. */
const tarn__filter *tarn__filter_by_magic(const unsigned char *data, size_t size,
                                          const tarn__filter **out_cut);

/* Compares data with a magic number of len bytes. */
tarn__match tarn__magic(const unsigned char *data, size_t size, const void *magic,
                        size_t len);

#endif
