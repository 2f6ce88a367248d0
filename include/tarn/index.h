/* tarn/index.h: the index of a fold, <fold>.taridx, one row of 32 bytes per member, and
 * what stands beside it in <fold>.tarsum. docs/formats/taridx.md and tarsum.md define
 * both files.
 *
 * An index is read-only once built or loaded; any number of threads may use it.
 */
#ifndef TARN_INDEX_H
#define TARN_INDEX_H

#include <tarn/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_index tarn_index;

/* How a member's name becomes a sample's key and a field's name. In both rules the base
 * name is split at its first dot and the field is lower-cased. */
typedef enum tarn_keys {
    TARN_KEYS_BASE = 0, /* the folder is dropped: a/b/x.cls.txt is x, cls.txt */
    TARN_KEYS_PATH = 1  /* the folder stays, as in WebDataset: a/b/x, cls.txt */
} tarn_keys;

typedef struct tarn_row {
    uint64_t offset;    /* of the member's own header in its shard; payload at + 512 */
    uint64_t size;      /* of the payload */
    uint64_t keyhash;   /* XXH64 of the key */
    uint32_t collision; /* 0, or the number of a key whose hash another key had before */
    uint16_t shard;     /* position among the fold's shards, sorted by suffix */
    uint16_t field;
} tarn_row;

typedef struct tarn_index_info {
    uint64_t rows;
    uint64_t samples; /* distinct keys */
    uint32_t fields;
    uint32_t collisions; /* keys whose hash collides with an earlier key's */
    bool contiguous;     /* the rows of each sample stand together */
    bool has_sums;       /* the .tarsum was found and fits */
    bool has_checksums;  /* and it has a checksum for every member */
    bool keys_known;     /* and it says by which rule the keys were made: */
    tarn_keys keys;
} tarn_index_info;

typedef struct tarn_index_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_keys keys;
    bool sums;          /* read every byte and keep a CRC-32C of each member */
    bool lenient;       /* pass over damage instead of failing; see tar.h */
    unsigned threads;   /* 0: as many as there are cores */
    tarn_notice notice; /* damage passed over, members that collide */
    void *notice_context;
    tarn_progress progress; /* total is 0 where nobody knows it */
    void *progress_context;

    /* Shards that are no plain files ("-", URLs, compressed ones) are read as streams,
     * and the index describes them as they are when they are not compressed. Without this
     * they are refused, because they cannot be read by position. */
    bool streams;
    bool allow_pipe;          /* run pipe: commands in a shell */
    const char *const *names; /* of the shards beside the index; NULL: their own */
} tarn_index_options;

#define TARN_INDEX_OPTIONS_INIT                                                          \
    {                                                                                    \
        .size = sizeof(tarn_index_options)                                               \
    }
TARN_API void tarn_index_options_init(tarn_index_options *options, size_t size);

/* What was met while building. */
typedef struct tarn_index_report {
    uint64_t directories, links, devices; /* members that are no samples */
    uint64_t unkeyed;    /* regular members that the path rule leaves out */
    uint64_t duplicates; /* members whose key and field another member has */
    uint64_t damages;    /* places passed over in lenient mode */
    uint64_t lost_bytes;
} tarn_index_report;

/* Builds an index of the given shards, in this order, which must be the order a reader
 * puts them in (see tarn_folds_list in folds.h). With a path, which ends in ".taridx", it
 * is saved there with less memory: rows go to the disk while other shards are still being
 * scanned; *out, which may then be NULL, is the index as it was saved. Without, it is in
 * memory only. options and report may be NULL. */
TARN_API TARN_CHECKED tarn_status tarn_index_build(const char *const *shards,
                                                   size_t count,
                                                   const tarn_index_options *options,
                                                   const char *path, tarn_index **out,
                                                   tarn_index_report *report, size_t size,
                                                   tarn_error *err);

/* Writes an index that was built in memory to path, and the .tarsum beside it. Both
 * appear whole or not at all; a reader never sees a .tarsum of another index. */
TARN_API TARN_CHECKED tarn_status tarn_index_save(const tarn_index *index,
                                                  const char *path, tarn_error *err);

/* Loads an index and checks every field of every row. Without the shards, offsets are
 * checked only for what no shard could have; tarn_dataset_open compares them with the
 * shards. */
TARN_API TARN_CHECKED tarn_status tarn_index_load(const char *path, tarn_index **out,
                                                  tarn_error *err);
TARN_API void tarn_index_free(tarn_index *index);

TARN_API void tarn_index_info_get(const tarn_index *index, tarn_index_info *out,
                                  size_t size);

/* Row number 0 to rows - 1. */
TARN_API TARN_CHECKED tarn_status tarn_index_row(const tarn_index *index, uint64_t number,
                                                 tarn_row *out, tarn_error *err);

/* The name of a field, or NULL past the last. Borrowed until the index is freed. */
TARN_API const char *tarn_index_field(const tarn_index *index, uint32_t number);

/* The key with collision number 1 to collisions, or NULL. */
TARN_API const char *tarn_index_collision(const tarn_index *index, uint32_t number);

#ifdef __cplusplus
}
#endif
#endif
