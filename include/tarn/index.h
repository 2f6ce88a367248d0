/* tarn/index.h: the index of a fold, <fold>.taridx, with one row of 32 bytes per member,
 * and its companion file <fold>.tarsum. docs/formats/taridx.md and tarsum.md define both
 * files.
 *
 * An index never changes after it is built or loaded; any number of threads may use it at
 * once. */
#ifndef TARN_INDEX_H
#define TARN_INDEX_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_index tarn_index;

/* How the name of a member is split into the key of a sample and the name of a field.
 * Both rules split the base name at its first dot and convert the field to lower case. */
typedef enum tarn_keys {
    TARN_KEYS_BASE = 0, /* the folder is dropped: a/b/x.cls.txt is x, cls.txt */
    TARN_KEYS_PATH = 1  /* the folder is kept, as in WebDataset: a/b/x, cls.txt */
} tarn_keys;

typedef struct tarn_row {
    uint64_t offset;    /* of the member's own header in its shard; payload at + 512 */
    uint64_t size;      /* of the payload */
    uint64_t keyhash;   /* XXH64 of the key */
    uint32_t collision; /* 0, or the number of a key whose hash collides */
    uint16_t shard;     /* position among the shards, sorted by suffix */
    uint16_t field;
} tarn_row;

typedef struct tarn_index_info {
    uint64_t rows;
    uint64_t samples; /* distinct keys */
    uint32_t fields;
    uint32_t collisions; /* keys whose hash equals that of an earlier key */
    bool contiguous;     /* the rows of each sample are consecutive */
    bool has_sums;       /* the .tarsum was found and matches */
    bool has_checksums;  /* the .tarsum has a checksum for every member */
    bool keys_known;     /* the .tarsum has the rule for keys: */
    tarn_keys keys;
} tarn_index_info;

typedef struct tarn_index_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_keys keys;
    bool sums;          /* read every byte and store a CRC-32C of each member */
    bool lenient;       /* skip damage instead of failing; see tar.h */
    unsigned threads;   /* 0: one per core; for remote shards, 16 */
    tarn_notice notice; /* skipped damage, members that collide */
    void *notice_context;
    tarn_progress progress; /* total is 0 if it is unknown */
    void *progress_context;

    /* Read shards that are not plain files ("-", URLs, compressed files) as streams. The
     * index then describes their uncompressed contents. false: only plain files and
     * uncompressed remote objects (http, https, s3) are accepted, because all others
     * cannot be read by position. Remote objects are read once, and several at once. */
    bool streams;
    bool allow_pipe;          /* run pipe: commands in a shell */
    const char *const *names; /* names of the shards next to the index; NULL: their own */
    /* With a path: only part number task (from 0) of the shards, for tarn_commit (see
     * tarn/commit.h); 0: all of them. The folder of path must be that of the shards. */
    uint32_t task, tasks;
} tarn_index_options;

#define TARN_INDEX_OPTIONS_INIT                                                          \
    {                                                                                    \
        .size = sizeof(tarn_index_options)                                               \
    }
TARN_API void tarn_index_options_init(tarn_index_options *options, size_t size);

/* Counts from building an index. */
typedef struct tarn_index_report {
    uint64_t directories, links, devices; /* members that do not belong to samples */
    uint64_t unkeyed;    /* regular members that the path rule excludes */
    uint64_t duplicates; /* members whose key and field occurred before */
    uint64_t damages;    /* damaged places skipped in lenient mode */
    uint64_t lost_bytes;
} tarn_index_report;

/* Builds an index of the given shards. They must be in the order in which readers sort
 * them (see tarn_folds_list in folds.h). If path, which ends in ".taridx", is not NULL,
 * the index is saved there. This needs less memory, because rows are written to disk
 * while other shards are still being scanned. out may then be NULL; otherwise *out is the
 * saved index. If path is NULL, the index is only in memory. options and report may be
 * NULL. Free the index with tarn_index_free. */
TARN_API TARN_CHECKED tarn_status tarn_index_build(const char *const *shards,
                                                   size_t count,
                                                   const tarn_index_options *options,
                                                   const char *path, tarn_index **out,
                                                   tarn_index_report *report, size_t size,
                                                   tarn_error *err);

/* Saves an index that was built in memory to path, and the .tarsum next to it. Each file
 * appears complete or not at all, and readers never see the .tarsum of another index. */
TARN_API TARN_CHECKED tarn_status tarn_index_save(const tarn_index *index,
                                                  const char *path, tarn_error *err);

/* Loads an index and checks every field of every row. Without the shards, only impossible
 * offsets are detected; tarn_dataset_open compares offsets with the shards. Free the
 * index with tarn_index_free. */
TARN_API TARN_CHECKED tarn_status tarn_index_load(const char *path, tarn_index **out,
                                                  tarn_error *err);
TARN_API void tarn_index_free(tarn_index *index);

/* Fills *out, of size bytes. */
TARN_API void tarn_index_info_get(const tarn_index *index, tarn_index_info *out,
                                  size_t size);

/* Fills *out, of size bytes, with what the .tarsum of the index at path says: rows,
 * has_sums, has_checksums, keys_known and keys; the rest is 0. The index itself is not
 * read, and may be missing or of another version. TARN_ERR_NO_FILE if there is no
 * .tarsum. */
TARN_API TARN_CHECKED tarn_status tarn_index_sums_info(const char *path,
                                                       tarn_index_info *out, size_t size,
                                                       tarn_error *err);

/* Gets a row by number, 0 to rows - 1. */
TARN_API TARN_CHECKED tarn_status tarn_index_row(const tarn_index *index, uint64_t number,
                                                 tarn_row *out, tarn_error *err);

/* Returns the name of a field, or NULL past the last. Borrowed until the index is
 * freed. */
TARN_API const char *tarn_index_field(const tarn_index *index, uint32_t number);

/* Returns the key with collision number 1 to collisions, or NULL for other numbers.
 * Borrowed until the index is freed. */
TARN_API const char *tarn_index_collision(const tarn_index *index, uint32_t number);

#ifdef __cplusplus
}
#endif
#endif
