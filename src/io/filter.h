/* Compression formats behind one table: recognising, decoding and encoding a stream of
 * bytes in memory. A filter knows neither files nor URLs; source.c and sink.c drive it.
 */
#ifndef TARN_IO_FILTER_H
#define TARN_IO_FILTER_H

#include <tarn/source.h>

/* Bytes on the way through a coder, which advances both sides. */
typedef struct tarn__flow {
    const unsigned char *in;
    size_t in_size;
    unsigned char *out;
    size_t out_size;
} tarn__flow;

typedef enum tarn__match {
    TARN__MATCH_NO,
    TARN__MATCH_CUT, /* the data end before it can be told, and fit so far */
    TARN__MATCH_YES
} tarn__match;

enum { TARN__MAGIC_MAX = 18 }; /* what match wants to see, and the longest zstd header */

/* Bytes of compressed data that a source reads at once, at least TARN__MAGIC_MAX. Tests
 * make it small, to meet every boundary. */
extern size_t tarn__source_chunk;

/* Zeros that may stand behind the end of a member. */
typedef enum tarn__padding {
    TARN__PADDING_NONE,
    TARN__PADDING_ANY,
    TARN__PADDING_FOURS /* in multiples of four bytes */
} tarn__padding;

typedef struct tarn__filter {
    tarn_filter id;
    const char *name;
    const char *const *suffixes; /* ends with NULL; NULL: none is written */
    tarn__match (*match)(const unsigned char *data, size_t size);
    tarn__padding padding;
    bool one_member; /* nothing may follow the first */

    tarn_status (*decoder_new)(void **out, uint64_t max_memory, tarn_error *err);
    /* Does what it can. *out_end when a member ended: then the rest of the input is not
     * its own. Failures carry no place. */
    tarn_status (*decode)(void *state, tarn__flow *flow, bool *out_end, tarn_error *err);
    /* Makes ready for the next member. */
    tarn_status (*decode_next)(void *state, tarn_error *err);
    void (*decoder_free)(void *state);

    int level_min, level_max, level_default;
    tarn_status (*encoder_new)(void **out, int level, tarn_error *err);
    /* With last, *out_end tells that all is out; call until then. */
    tarn_status (*encode)(void *state, tarn__flow *flow, bool last, bool *out_end,
                          tarn_error *err);
    void (*encoder_free)(void *state);
} tarn__filter;

extern const tarn__filter tarn__filter_gzip, tarn__filter_bzip2, tarn__filter_xz,
    tarn__filter_lzma, tarn__filter_zstd;

/* The filter whose suffix the name has, or NULL. */
const tarn__filter *tarn__filter_by_suffix(const char *name, size_t len);

/* The filter for writing that has this id, or NULL. */
const tarn__filter *tarn__filter_by_id(tarn_filter id);

/* The filter that the first bytes show, or NULL. If the data end before it can be told
 * (size is all there is), *out_cut is the filter they would fit. */
const tarn__filter *tarn__filter_by_magic(const unsigned char *data, size_t size,
                                          const tarn__filter **out_cut);

/* Compares with a magic of len bytes. */
tarn__match tarn__magic(const unsigned char *data, size_t size, const void *magic,
                        size_t len);

#endif
