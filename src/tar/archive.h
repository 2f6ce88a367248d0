/* An archive being written, for the writers of samples: members in, bytes out. */
#ifndef TARN_TAR_ARCHIVE_H
#define TARN_TAR_ARCHIVE_H

#include <tarn/write.h>

#include "tar/compose.h"

typedef struct tarn__archive {
    tarn__out out; /* its buffer is reused for the next archive */
    tarn__composer composer;
    tarn__buf name;
    tarn_tar_writer_options options; /* its sink is NULL: */
    tarn_sink_options sink;          /* the sink options are here */
    bool given_sink;                 /* set by the caller, not the default */
    bool swept;                      /* the folder was swept: see io/publish.h */
    bool broken;                     /* a write failed: nothing more can be added */
} tarn__archive;

/* Copies the options, which may be NULL; names is the meaning of TARN_NAMES_AUTO. */
TARN_CHECKED tarn_status tarn__archive_init(tarn__archive *archive,
                                            const tarn_tar_writer_options *options,
                                            tarn_name_style names, tarn_error *err);
void tarn__archive_reset(tarn__archive *archive);

/* Begins an archive at a URL. Plain local files use the fast way of writing. */
TARN_CHECKED tarn_status tarn__archive_begin(tarn__archive *archive, const char *url,
                                             const tarn_sink_options *options,
                                             tarn_error *err);

/* Writes the end and publishes. *out_mtime_ns may be NULL. */
TARN_CHECKED tarn_status tarn__archive_finish(tarn__archive *archive,
                                              int64_t *out_mtime_ns, tarn_error *err);

/* Fails if an earlier write failed. */
TARN_CHECKED tarn_status tarn__check_unbroken(const tarn__archive *archive,
                                              tarn_error *err);

/* One member of a sample: some values are known before it is written, others only
 * afterwards. */
typedef struct tarn__planned {
    uint32_t field; /* its index in the caller's array */
    uint32_t crc;   /* CRC-32C of the payload */
    uint64_t size;
    uint64_t offset; /* of its own header */
} tarn__planned;

/* What writing a sample needs. */
typedef struct tarn__sample_plan {
    size_t key_len;
    uint64_t bytes;         /* in the archive */
    uint64_t payload;       /* of all fields */
    tarn__planned *members; /* in the order of writing */
    size_t capacity;
} tarn__sample_plan;

/* Checks everything about a sample that can be checked before writing it. Without a key,
 * the fields are names of members, and no rules apply to them. */
TARN_CHECKED tarn_status tarn__plan_sample(tarn__sample_plan *plan,
                                           tarn__archive *archive, const char *key,
                                           const tarn_field *fields, size_t count,
                                           tarn_error *err);

/* Writes a planned sample and fills in offsets and CRCs. After a failure, the archive is
 * unchanged or broken. */
TARN_CHECKED tarn_status tarn__write_sample(tarn__archive *archive,
                                            tarn__sample_plan *plan, const char *key,
                                            const tarn_field *fields, size_t count,
                                            tarn_error *err);

/* How full a shard is, and when it is full enough. */
typedef struct tarn__roll_state {
    tarn_roll roll;
    uint64_t max_count, max_size;
    uint64_t samples, payload, bytes; /* so far */
} tarn__roll_state;

/* Whether a sample that adds sample_bytes goes to the next shard. */
bool tarn__shard_is_full(const tarn__roll_state *state, uint64_t sample_bytes);

/* Fails if the sample would not even fit in a shard of its own. */
TARN_CHECKED tarn_status tarn__check_sample_fits(tarn_roll roll, uint64_t max_size,
                                                 uint64_t sample_bytes, const char *key,
                                                 tarn_error *err);

#endif
