/* tarn/verify.h: checks all data of a dataset, and repairs what can be rebuilt.
 *
 * These are checked:
 *
 * - folds and archives: every header of every shard, the end of each shard, the index
 *   against the members in the shards, the .tarsum against both, every payload against
 *   its checksum if one was recorded, and that no two members are indistinguishable;
 * - array files: the header, every checksum, and that all bytes between arrays are zero;
 * - record packs: the header, both tables in full, every span and every CRC. */
#ifndef TARN_VERIFY_H
#define TARN_VERIFY_H

#include <tarn/base.h>
#include <tarn/codec.h>
#include <tarn/dataset.h>
#include <tarn/index.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarn_verify_as {
    TARN_VERIFY_AUTO = 0,   /* by the ending of the path, or the first bytes */
    TARN_VERIFY_ARRAYS = 1, /* an array file */
    TARN_VERIFY_RECORDS = 2 /* a record pack */
} tarn_verify_as;

typedef struct tarn_verify_options {
    size_t size; /* of this struct; set by the initialiser */
    /* Folds and archives: rebuild index and sums, move unreadable data to SHARD.bad.
     * Array files: complete or undo an interrupted update. Record packs: TARN_ERR_USAGE.
     * */
    bool repair;
    unsigned threads;    /* 0: one per core */
    tarn_notice problem; /* called for each problem, with file, offset and reason */
    void *problem_context;
    tarn_notice repaired; /* called for each repair */
    void *repaired_context;
    tarn_progress progress;
    void *progress_context;
    bool allow_pipe; /* run pipe: commands in a shell */
    tarn_verify_as as;
    /* Remote folds, as in tarn_dataset_options. The shards are not taken from the
     * cache. */
    const char *index_path;
    const char *cache;
} tarn_verify_options;

#define TARN_VERIFY_OPTIONS_INIT                                                         \
    {                                                                                    \
        .size = sizeof(tarn_verify_options)                                              \
    }
TARN_API void tarn_verify_options_init(tarn_verify_options *options, size_t size);

typedef struct tarn_verify_report {
    uint64_t folds, shards;
    uint64_t members; /* or arrays */
    uint64_t samples; /* or records */
    uint64_t indexed; /* folds that have an index */
    /* Members, arrays or records that were compared with their checksums. */
    uint64_t checksummed;
    uint64_t problems;
    uint64_t repairs;
    uint64_t remaining; /* problems left after repair; equals problems without repair */
    uint64_t bytes;     /* of the values in an array file, or payloads in a record pack */
} tarn_verify_report;

/* Checks "DIR" (all folds), "DIR:FOLD", "FILE.tar", "FILE.taridx", an array file or a
 * record pack. The shards of a remote fold are each read once. Of a stream (see
 * tarn_tar_is_stream) it checks every header and the end, in constant memory, and counts
 * samples as tarn/samples.h groups them. TARN_OK means that the check was completed, not
 * that no problem was found: report->remaining is the number of remaining problems. */
TARN_API TARN_CHECKED tarn_status tarn_verify(const char *path,
                                              const tarn_verify_options *options,
                                              tarn_verify_report *report, size_t size,
                                              tarn_error *err);

/* --- Decoding ------------------------------------------------------------------------
 *
 * Decodes every field that has a codec, as a loader would, and discards the values. */

/* A field that cannot be read or decoded. Everything is borrowed until the call
 * returns. */
typedef struct tarn_undecodable {
    uint64_t sample;
    const char *key;   /* empty if it cannot be read either */
    const char *field; /* in the dataset */
    /* The reason; path and offset are those of the field, where that is known. */
    const tarn_error *why;
} tarn_undecodable;

typedef struct tarn_verify_decode_options {
    size_t size;                       /* of this struct; set by the initialiser */
    unsigned threads;                  /* 0: one per core */
    const tarn_decode_options *decode; /* NULL: the defaults */
    /* Called for each field that cannot be decoded, in the order of the samples, by one
     * thread at a time. */
    void (*undecodable)(void *context, const tarn_undecodable *what);
    void *context;
    tarn_progress progress; /* counts samples */
    void *progress_context;
} tarn_verify_decode_options;

#define TARN_VERIFY_DECODE_OPTIONS_INIT                                                  \
    {                                                                                    \
        .size = sizeof(tarn_verify_decode_options)                                       \
    }
TARN_API void tarn_verify_decode_options_init(tarn_verify_decode_options *options,
                                              size_t size);

typedef struct tarn_verify_decode_report {
    uint64_t samples;
    uint64_t decoded;     /* fields that were decoded */
    uint64_t undecodable; /* samples with a field that cannot be read or decoded */
} tarn_verify_decode_report;

/* Checks all fields of all samples. TARN_OK means that the check was completed, not that
 * everything can be decoded. */
TARN_API TARN_CHECKED tarn_status
tarn_verify_decode(tarn_dataset *dataset, const tarn_verify_decode_options *options,
                   tarn_verify_decode_report *report, size_t size, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
