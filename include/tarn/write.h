/* tarn/write.h: writes samples into tar shards.
 *
 * There are two writers:
 *
 *     tarn_tar_writer    one archive, in a file or any other sink, or a series of
 *                        archives: x_000000.tar, x_000001.tar, ...
 *     tarn_fold_writer   a fold: <fold>_0000.tar ..., <fold>.taridx, <fold>.tarsum
 *
 * An example:
 *
 *     tarn_fold_writer *train;
 *     if (tarn_fold_writer_open("birds", "train", NULL, &train, &err) != TARN_OK) ...
 *     tarn_field fields[] = {{"jpg", jpg, jpg_size, NULL}, {"cls", "3", 1, NULL}};
 *     if (tarn_fold_writer_add(train, "kiwi_07", fields, 2, &err) != TARN_OK) ...
 *     if (tarn_fold_writer_finish(train, NULL, 0, &err) != TARN_OK) ...
 *
 * Nothing has its final name before it is complete: finish publishes, abandon leaves no
 * files, and both close the handle in every case. A sample is written completely or not
 * at all. After an error of add the writer continues as if the call had not been made,
 * unless the disk (or other destination) failed. In that case every further call fails,
 * and only abandon is possible.
 *
 * Only one thread at a time may use a writer.
 */
#ifndef TARN_WRITE_H
#define TARN_WRITE_H

#include <tarn/base.h>
#include <tarn/source.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One field of a sample to write: NAME in "key.NAME". The bytes are in data or in a local
 * file, which is read while the sample is written; data and size are then 0. It is an
 * error if the file cannot be read to its end, if its size changes meanwhile, or if it
 * has no defined size, like the files in /proc. Nothing of the sample is then written. */
typedef struct tarn_field {
    const char *name;
    const void *data;
    size_t size;
    const char *path; /* path of the file; NULL: use data */
} tarn_field;

/* --- Archives ----------------------------------------------------------------------- */

typedef struct tarn_tar_writer tarn_tar_writer;

typedef enum tarn_name_style {
    TARN_NAMES_AUTO = 0, /* plain in folds, pax in other archives */
    /* ASCII names of at most 100 bytes are in the header, all others in a preceding pax
     * header. The bytes are those of Python's tarfile, and therefore those of WebDataset
     * with an integer mtime. */
    TARN_NAMES_PAX = 1,
    /* Every name is in the header, unchanged; a name longer than 100 bytes is an error.
     * Required by readers that do not support pax headers, such as glzn. */
    TARN_NAMES_PLAIN = 2
} tarn_name_style;

typedef enum tarn_name_rules {
    /* Refuse names that would not be read back as the same key and field: a dot in the
     * base name of the key, an empty part, a slash in a field, "." or ".." as a folder, a
     * leading slash, control characters, fields that begin with "_", and two fields that
     * are equal in lower case. */
    TARN_RULES_STRICT = 0,
    TARN_RULES_NONE = 1 /* names unchanged, but without NULs and not empty */
} tarn_name_rules;

/* The time in SOURCE_DATE_EPOCH, or 1970 if that is not set, so that the same input gives
 * the same bytes. */
#define TARN_MTIME_DEFAULT INT64_MIN

/* When a shard is full. A sample is never split between two shards. */
typedef enum tarn_roll {
    /* The file, including headers, padding and end, never grows beyond max_size. A sample
     * that does not fit into an empty shard is an error. */
    TARN_ROLL_FILE = 0,
    /* WebDataset's rule: start a new shard before a sample if the payloads so far reach
     * max_size. */
    TARN_ROLL_PAYLOAD = 1,
    /* glzn's rule: start a new shard before a sample if the archive so far reaches
     * max_size. */
    TARN_ROLL_ARCHIVE = 2
} tarn_roll;

/* Called after each finished shard. Return non-zero to stop: the call that finished the
 * shard then fails with TARN_ERR_CANCELLED. */
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
    bool keep_order; /* of the fields; false: sort by code point, as WebDataset does */
    int64_t mtime;
    const char *user, *group; /* NULL: "bigdata", as in WebDataset */
    uint32_t uid, gid;
    uint32_t mode;
    /* Compression, overwriting, waiting for the disk; NULL: the defaults. Must be NULL
     * for a fold, which has its own options. Copied by open, like the strings here. */
    const tarn_sink_options *sink;
    /* Write a series of archives; NULL: one archive. Must be NULL for a fold. */
    const tarn_shard_options *shards;
    /* A decimal number: each member gets a pax header with this time, in addition to the
     * mtime in its own header. This keeps a time with a fraction and takes 1,024 bytes
     * per member. NULL: no such header. */
    const char *mtime_text;
} tarn_tar_writer_options;

#define TARN_TAR_WRITER_OPTIONS_INIT                                                     \
    {                                                                                    \
        .size = sizeof(tarn_tar_writer_options), .mtime = TARN_MTIME_DEFAULT,            \
        .mode = 0444                                                                     \
    }
TARN_API void tarn_tar_writer_options_init(tarn_tar_writer_options *options, size_t size);

/* Starts an archive at a URL (see source.h). options may be NULL. With shards, url is a
 * pattern with one %d or %0Nd, which is replaced by the number of the shard ("%%" is a
 * percent sign). The first sample opens the first shard. */
TARN_API TARN_CHECKED tarn_status
tarn_tar_writer_open(const char *url, const tarn_tar_writer_options *options,
                     tarn_tar_writer **out, tarn_error *err);

/* Adds a sample: one member "key.field" for each field. If key is NULL, each field is a
 * member of exactly that name, and is not counted as a sample. */
TARN_API TARN_CHECKED tarn_status tarn_tar_writer_add(tarn_tar_writer *writer,
                                                      const char *key,
                                                      const tarn_field *fields,
                                                      size_t count, tarn_error *err);

/* Finishes the current shard; the next sample opens another. */
TARN_API TARN_CHECKED tarn_status tarn_tar_writer_next(tarn_tar_writer *writer,
                                                       tarn_error *err);

typedef struct tarn_written {
    uint64_t samples, members;
    uint64_t payload; /* bytes of all fields */
    /* Bytes of all finished shards, or of a single archive so far without its end; before
     * compression. */
    uint64_t bytes;
    uint64_t shards; /* finished shards */
} tarn_written;

/* Fills *out, of size bytes, with the counts so far. */
TARN_API void tarn_tar_writer_written(const tarn_tar_writer *writer, tarn_written *out,
                                      size_t size);

/* Publishes the archive or the last shard and closes the writer. Finished shards keep
 * their names, even if the writer is abandoned. out may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_tar_writer_finish(tarn_tar_writer *writer,
                                                         tarn_written *out, size_t size,
                                                         tarn_error *err);
/* Discards the unfinished archive and closes the writer. NULL is allowed. */
TARN_API void tarn_tar_writer_abandon(tarn_tar_writer *writer);

/* --- A fold --------------------------------------------------------------------------
 *
 * Until finish, the folder only contains finished shards under hidden names. Readers see
 * either the old fold or the new one, and a crash at any time leaves either the old fold
 * or the new one. If one fold replaces another, there is no fold for the moment in which
 * files are renamed. The shards that a killed writer finished are kept: resume continues
 * after them. */

typedef struct tarn_fold_writer tarn_fold_writer;
struct tarn_dataset; /* tarn/dataset.h */

typedef struct tarn_fold_writer_options {
    size_t size; /* of this struct; set by the initialiser */
    /* None of these: the fold must not exist. overwrite cannot be combined. */
    bool append;        /* add shards after those of the fold */
    bool resume;        /* like append, and keep what an interrupted writer finished */
    bool overwrite;     /* the new fold replaces the old one at finish */
    uint64_t start;     /* number of the first shard of a new fold */
    unsigned digits;    /* of shard numbers, which must sort as text */
    uint64_t max_count; /* samples per shard; 0: no limit */
    uint64_t max_size;  /* bytes; 0: no limit */
    tarn_roll roll;
    unsigned threads; /* for reading existing shards; 0: all cores */
    bool no_sync;     /* do not wait for the disk */
    /* Field names are taken as they are, apart from upper case. false: one leading dot is
     * dropped, and names that begin with two are TARN_ERR_USAGE. tarn_pack sets
     * it. */
    bool exact_fields;
    const tarn_tar_writer_options *writer; /* for each shard; NULL: the defaults */
    /* A key may occur again with the rest of its sample, whose members then need not be
     * consecutive. false: TARN_ERR_EXISTS. */
    bool repeat_keys;
    /* The writer writes part number task (from 0) of a fold that has that many parts;
     * finish completes the part, and tarn_commit publishes the fold (see tarn/commit.h).
     * Without append, resume and overwrite. TARN_ERR_EXISTS if the part is complete. job
     * distinguishes jobs with the same target and options; it may be NULL. */
    uint32_t task, tasks;
    const char *job;
} tarn_fold_writer_options;

#define TARN_FOLD_WRITER_OPTIONS_INIT                                                    \
    {                                                                                    \
        .size = sizeof(tarn_fold_writer_options), .digits = 4, .max_count = 100000,      \
        .max_size = UINT64_C(3000000000)                                                 \
    }
TARN_API void tarn_fold_writer_options_init(tarn_fold_writer_options *options,
                                            size_t size);

/* Starts writing a fold in a folder, which is created if it does not exist. The name of a
 * fold must not contain "_", "/", "\\", a colon or a dot. writer->rules must be strict.
 * TARN_ERR_EXISTS if the fold or finished shards exist and the options do not say how to
 * handle them, or if another writer is writing the same fold. options may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_open(
    const char *folder, const char *fold, const tarn_fold_writer_options *options,
    tarn_fold_writer **out, tarn_error *err);

/* Adds a sample. Its key must not contain a slash, backslash or dot, and must be new to
 * the fold. Field names are written in lower case and, without exact_fields, without a
 * leading dot. "key.field" has at most 100 bytes. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_add(tarn_fold_writer *writer,
                                                       const char *key,
                                                       const tarn_field *fields,
                                                       size_t count, tarn_error *err);

/* Sets *out to whether the fold, as it will be published, has a sample with this key. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_has(tarn_fold_writer *writer,
                                                       const char *key, bool *out,
                                                       tarn_error *err);

/* How shards of another fold are adopted. */
typedef enum tarn_adopt {
    TARN_ADOPT_LINK = 0, /* a hard link; a copy if links cannot be made */
    TARN_ADOPT_COPY = 1  /* a copy, which shares its blocks if the file system can */
} tarn_adopt;

/* Adopts whole shards of the fold that a dataset was opened from, by number, as the next
 * shards of this fold. shards NULL: all of them. Selections and orders of the dataset do
 * not matter. No payload is rewritten. No payload is read if the other fold has
 * checksums, which are taken over. Each header is checked: TARN_ERR_STALE if the shards
 * are not those that were indexed, TARN_ERR_EXISTS, with both places, if a key already
 * exists. After an error nothing of the call remains. If the writer resumes, existing
 * shards are skipped. A sample whose members are in several shards must be adopted
 * completely.
 *
 * A file with two hard links has one content: a program that changes one shard in place
 * changes both. tarn never does. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_adopt(tarn_fold_writer *writer,
                                                         struct tarn_dataset *from,
                                                         const uint32_t *shards,
                                                         size_t count, tarn_adopt how,
                                                         tarn_error *err);

/* Fills *out, of size bytes, with the counts of what this writer wrote. Existing samples
 * are not counted. */
TARN_API void tarn_fold_writer_written(const tarn_fold_writer *writer, tarn_written *out,
                                       size_t size);

/* Writes the index, publishes the fold and closes the writer. After a failure the
 * finished shards are kept, to be resumed or overwritten. A fold without samples has one
 * empty shard. out may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_fold_writer_finish(tarn_fold_writer *writer,
                                                          tarn_written *out, size_t size,
                                                          tarn_error *err);

/* Closes the writer without publishing. With keep, the finished shards are kept for
 * resume, and *out_kept, which may be NULL, is set to their number. Without keep,
 * everything unpublished is removed, including shards that were resumed. */
TARN_API void tarn_fold_writer_abandon(tarn_fold_writer *writer, bool keep,
                                       uint64_t *out_kept);

#ifdef __cplusplus
}
#endif
#endif
