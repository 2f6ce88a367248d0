/* tarn/write.h: samples into tar shards.
 *
 * Two writers:
 *   tarn_tar_writer    one archive, to a file or any other sink, or archives that roll
 *                      over: x_000000.tar, x_000001.tar, ...
 *   tarn_fold_writer   a fold: <fold>_0000.tar ..., <fold>.taridx and <fold>.tarsum
 *
 *     tarn_fold_writer *train;
 *     if (tarn_fold_writer_open("birds", "train", NULL, &train, &err) != TARN_OK) ...
 *     tarn_field fields[] = {{"jpg", jpg, jpg_size, NULL}, {"cls", "3", 1, NULL}};
 *     if (tarn_fold_writer_add(train, "kiwi_07", fields, 2, &err) != TARN_OK) ...
 *     if (tarn_fold_writer_finish(train, NULL, &err) != TARN_OK) ...
 *
 * Nothing has its final name before it is complete: `finish` publishes, `abandon` leaves
 * nothing behind, and both close the handle whatever the outcome. A sample is written
 * whole or not at all: after an error of add the writer goes on as if the call had not
 * been made, unless the disk (or whatever takes the bytes) failed; then every further
 * call fails, and only abandon is left.
 *
 * A writer belongs to one thread at a time.
 */
#ifndef TARN_WRITE_H
#define TARN_WRITE_H

#include <tarn/base.h>
#include <tarn/source.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One field of a sample that is to be written: NAME in "key.NAME". The bytes are data, or
 * those of a local file, which is read while it is written: then data and size are 0, and
 * a file that cannot be read to the end, or that changes its size meanwhile (or has none
 * to go by, as those in /proc), is an error that leaves no trace of the sample. */
typedef struct tarn_field {
    const char *name;
    const void *data;
    size_t size;
    const char *path; /* NULL: data */
} tarn_field;

/* --- Archives ----------------------------------------------------------------------- */

typedef struct tarn_tar_writer tarn_tar_writer;

typedef enum tarn_name_style {
    TARN_NAMES_AUTO = 0, /* plain in folds, pax in other archives */
    /* ASCII names of at most 100 bytes in the header, all others in a pax header before
     * it: the bytes of Python's tarfile, and so of WebDataset with an integer mtime. */
    TARN_NAMES_PAX = 1,
    /* Every name in the header as it is; longer than 100 bytes is an error. Needed by
     * readers that do not know pax headers, such as glzn. */
    TARN_NAMES_PLAIN = 2
} tarn_name_style;

typedef enum tarn_name_rules {
    /* Refuse names that would not come back as the same key and field: a dot in the key's
     * base name, an empty part, a slash in a field, "." or ".." as a folder, a leading
     * slash, control characters, fields that begin with "_", and two fields that are the
     * same in lower case. */
    TARN_RULES_STRICT = 0,
    TARN_RULES_NONE = 1 /* names as they are; still no NUL, and none of them empty */
} tarn_name_rules;

/* The time in SOURCE_DATE_EPOCH, or 1970 where that is not set: the same input gives the
 * same bytes. */
#define TARN_MTIME_DEFAULT INT64_MIN

/* When a shard is full. A sample never straddles two shards. */
typedef enum tarn_roll {
    /* The file, its headers, padding and end counted, never grows past max_size; a sample
     * that does not fit into a shard of its own is an error. */
    TARN_ROLL_FILE = 0,
    /* WebDataset's: before a sample, if the payloads so far reach max_size. */
    TARN_ROLL_PAYLOAD = 1,
    /* glzn's: before a sample, if the archive so far reaches max_size. */
    TARN_ROLL_ARCHIVE = 2
} tarn_roll;

/* Called after each finished shard. Return non-zero to stop: the call that finished it
 * then fails with TARN_ERR_CANCELLED. */
typedef int (*tarn_shard_hook)(void *context, const char *url, uint64_t samples,
                               uint64_t bytes);

typedef struct tarn_shard_options {
    size_t size; /* of this struct; set by the initialiser */
    uint64_t start;
    uint64_t max_count; /* samples; 0: no limit */
    uint64_t max_size;  /* bytes; 0: no limit */
    tarn_roll roll;
    tarn_shard_hook hook;
    void *hook_context;
} tarn_shard_options;

#define TARN_SHARD_OPTIONS_INIT                                                          \
    {                                                                                    \
        .size = sizeof(tarn_shard_options), .max_count = 100000,                         \
        .max_size = UINT64_C(3000000000)                                                 \
    }
TARN_API void tarn_shard_options_init(tarn_shard_options *options, size_t size);

typedef struct tarn_tar_writer_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_name_style names;
    tarn_name_rules rules;
    bool keep_order; /* of the fields; false: sorted by code point, as WebDataset does */
    int64_t mtime;
    const char *user, *group; /* NULL: "bigdata", as in WebDataset */
    uint32_t uid, gid;
    uint32_t mode;
    /* Compression, overwriting, waiting for the disk; NULL: the defaults. Must be NULL
     * for a fold, which has its own. Copied by open, as are the texts here. */
    const tarn_sink_options *sink;
    /* Archives that roll over; NULL: one archive. Must be NULL for a fold. */
    const tarn_shard_options *shards;
    /* A decimal number: each member gets a pax header with this time, beside mtime in its
     * own. So a time with a fraction is kept, for 1,024 bytes. NULL: none. */
    const char *mtime_text;
} tarn_tar_writer_options;

#define TARN_TAR_WRITER_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_tar_writer_options), .mtime = TARN_MTIME_DEFAULT,            \
        .mode = 0444                                                                     \
    }
TARN_API void tarn_tar_writer_options_init(tarn_tar_writer_options *options, size_t size);

/* Begins an archive at a URL (see source.h). options may be NULL. With shards, url is a
 * pattern with one %d or %0Nd, which becomes the shard's number ("%%" is a percent sign),
 * and the first sample opens the first shard. */
TARN_API TARN_CHECKED tarn_status
tarn_tar_writer_open(const char *url, const tarn_tar_writer_options *options,
                     tarn_tar_writer **out, tarn_error *err);

/* Adds a sample: one member "key.field" for each field. If key is NULL, each field is a
 * member of that name, of any kind, and no sample. */
TARN_API TARN_CHECKED tarn_status tarn_tar_writer_add(tarn_tar_writer *writer,
                                                      const char *key,
                                                      const tarn_field *fields,
                                                      size_t count, tarn_error *err);

/* Ends the current shard; the next sample opens another. */
TARN_API TARN_CHECKED tarn_status tarn_tar_writer_next(tarn_tar_writer *writer,
                                                       tarn_error *err);

typedef struct tarn_written {
    uint64_t samples, members;
    uint64_t payload; /* bytes of all fields */
    uint64_t bytes;   /* of all finished shards, or of one archive so far and without its
                         end; before compression */
    uint64_t shards;  /* finished */
} tarn_written;

TARN_API void tarn_tar_writer_written(const tarn_tar_writer *writer, tarn_written *out,
                                      size_t size);

/* Publishes the archive, or the last shard. Shards that were finished keep their names,
 * also when the writer is abandoned. out may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_tar_writer_finish(tarn_tar_writer *writer,
                                                         tarn_written *out, size_t size,
                                                         tarn_error *err);
TARN_API void tarn_tar_writer_abandon(tarn_tar_writer *writer);

/* --- A fold --------------------------------------------------------------------------
 *
 * Until finish, the folder holds finished shards under hidden names only. A reader, or a
 * crash at any moment, finds the fold as it was or as it will be; where one fold takes
 * the place of another, none for the moment in which names change. What a killed writer
 * finished is kept: resume goes on behind it. */

typedef struct tarn_fold_writer tarn_fold_writer;
struct tarn_dataset; /* tarn/dataset.h */

typedef struct tarn_fold_writer_options {
    size_t size; /* of this struct; set by the initialiser */
    /* At most one of these. None: the fold must not be there yet. */
    bool append;        /* new shards behind those of the fold */
    bool resume;        /* the same, and behind what an interrupted writer finished */
    bool overwrite;     /* the new fold takes the place of the old one at finish */
    uint64_t start;     /* number of the first shard of a new fold */
    unsigned digits;    /* of shard numbers; they must sort as text */
    uint64_t max_count; /* samples in a shard; 0: no limit */
    uint64_t max_size;  /* bytes; 0: no limit */
    tarn_roll roll;
    unsigned threads; /* for looking through shards that are there; 0: all cores */
    bool no_sync;     /* do not wait for the disk */
    const tarn_tar_writer_options *writer; /* of each shard; NULL: the defaults */
    bool repeat_keys; /* a key may come again, with the rest of its sample, which then
                         need not stand together; false: TARN_ERR_EXISTS */
} tarn_fold_writer_options;

#define TARN_FOLD_WRITER_OPTIONS_INIT                                                    \
    {                                                                                    \
        .size = sizeof(tarn_fold_writer_options), .digits = 4, .max_count = 100000,      \
        .max_size = UINT64_C(3000000000)                                                 \
    }
TARN_API void tarn_fold_writer_options_init(tarn_fold_writer_options *options,
                                            size_t size);

/* Begins to write fold "fold" in a folder, which is made if it is not there. The name of
 * a fold has no "_", "/", "\\", colon or dot. writer->rules must be the strict ones.
 * TARN_ERR_EXISTS if the fold or finished shards are there and the options do not say
 * what becomes of them, or while another writer is at work on it. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_open(
    const char *folder, const char *fold, const tarn_fold_writer_options *options,
    tarn_fold_writer **out, tarn_error *err);

/* Adds a sample. Its key has no slash, backslash or dot and is new to the fold; names of
 * fields are written in lower case, without a leading dot; "key.field" has at most 100
 * bytes. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_add(tarn_fold_writer *writer,
                                                       const char *key,
                                                       const tarn_field *fields,
                                                       size_t count, tarn_error *err);

/* Whether the fold, as it will be, has a sample with this key. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_has(tarn_fold_writer *writer,
                                                       const char *key, bool *out,
                                                       tarn_error *err);

/* How a shard of another fold is taken. */
typedef enum tarn_adopt {
    TARN_ADOPT_LINK = 0, /* a hard link; a copy where links cannot be made */
    TARN_ADOPT_COPY = 1 /* a copy; one that shares its blocks where the file system can */
} tarn_adopt;

/* Takes whole shards of the fold that a dataset was opened from, by number, as the next
 * shards of this one; NULL: all of them. Selections and orders do not matter. No payload
 * is rewritten, and none is read if the other fold has checksums, which come along. Each
 * header is looked at: TARN_ERR_STALE if the shards are not those that were indexed,
 * TARN_ERR_EXISTS with both places if a key is there already. After an error nothing of
 * the call is left. Of a writer that resumes, shards that are there are passed over. A
 * sample whose members are in several shards has to come whole.
 *
 * A file with two names has one content: who changes one shard in place changes both.
 * tarn never does. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_adopt(tarn_fold_writer *writer,
                                                         struct tarn_dataset *from,
                                                         const uint32_t *shards,
                                                         size_t count, tarn_adopt how,
                                                         tarn_error *err);

/* What this writer wrote; what it found is not counted. */
TARN_API void tarn_fold_writer_written(const tarn_fold_writer *writer, tarn_written *out,
                                       size_t size);

/* Writes the index and publishes all. After a failure the finished shards are kept for
 * resume, or to be overwritten. Without any sample, nothing is published. out may be
 * NULL. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_finish(tarn_fold_writer *writer,
                                                          tarn_written *out, size_t size,
                                                          tarn_error *err);

/* Stops. With keep, the finished shards stay for resume, and *out_kept, which may be
 * NULL, says how many there are; without, nothing is left of what was not published, also
 * not of what was resumed. */
TARN_API void tarn_fold_writer_abandon(tarn_fold_writer *writer, bool keep,
                                       uint64_t *out_kept);

#ifdef __cplusplus
}
#endif
#endif
