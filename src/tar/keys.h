/* Derives the sample key and the field from a member's name. */
#ifndef TARN_TAR_KEYS_H
#define TARN_TAR_KEYS_H

#include <tarn/index.h>

#include "base/buf.h"

typedef struct tarn__key {
    const char *stem; /* well-formed UTF-8, except with WebDataset's own rule */
    size_t stem_len;
    const char *field; /* lower case */
    size_t field_len;
} tarn__key;

/* Buffers for keys that are not simply a part of the name. */
typedef struct tarn__splitter {
    tarn__buf stem, field;
} tarn__splitter;

void tarn__splitter_init(tarn__splitter *splitter);
void tarn__splitter_reset(tarn__splitter *splitter);

/* Splits a name by the rule. TARN_END if the name does not belong to a sample;
 * TARN_ERR_FORMAT if the key or the field contains a control character other than a tab,
 * which the index cannot store. The key points into name or into the splitter. */
TARN_CHECKED tarn_status tarn__split(tarn__splitter *splitter, tarn_keys rule,
                                     const char *name, size_t len, tarn__key *out,
                                     tarn_error *err);

/* Splits a name as WebDataset's reader does: bytes that are not UTF-8 and control
 * characters are kept. TARN_END as above. */
TARN_CHECKED tarn_status tarn__split_webdataset(tarn__splitter *splitter,
                                                const char *name, size_t len,
                                                tarn__key *out, tarn_error *err);

/* Whether a member with this name is metadata: __name__ or __name__/... by the path rule,
 * and names that WebDataset's reader skips as well. */
bool tarn__is_metadata(const char *name, size_t len);
bool tarn__is_webdataset_metadata(const char *name, size_t len);

/* XXH64 with seed 0: the hash of a key in an index row. */
uint64_t tarn__key_hash(const char *stem, size_t len);

#endif
