/* A fold that is being written, as used by its files: writer.c adds samples, found.c
 * handles what the folder already contains, adopt.c adds whole shards of other folds. */
#ifndef TARN_ITAR_WRITER_H
#define TARN_ITAR_WRITER_H

#include <tarn/write.h>

#include "itar/commit.h"
#include "itar/fold_read.h"
#include "itar/keyset.h"
#include "itar/scan.h"
#include "itar/tasks.h"
#include "tar/archive.h"

/* The origin of a shard that was taken from another fold. */
typedef struct tarn__origin {
    size_t shard;
    char *path;
} tarn__origin;

struct tarn_fold_writer {
    tarn_fold_writer_options options;
    tarn_index_options scanning; /* how existing shards are scanned */
    tarn__stage stage;
    tarn__archive archive;
    tarn__sample_plan plan;
    tarn__build build; /* with the current paths of the shards */
    char **names;      /* file names of all shards */
    size_t n_shards, name_capacity, path_capacity, scan_capacity;
    size_t n_base;     /* shards of the existing fold, which come first */
    tarn__fold *base;  /* NULL for a new fold */
    tarn__keyset keys; /* of all samples except those of base */
    uint64_t key_hash; /* of the current sample */
    bool is_repeated;  /* whether its key was used before */
    char *prefix;      /* of shard names, up to the number */
    uint64_t number;   /* of the next shard */
    unsigned digits;
    bool open;                 /* whether the last of n_shards is open */
    uint64_t samples, payload; /* in it */
    tarn_field *fields;        /* with names as they are written */
    size_t field_capacity;
    tarn__buf lower;
    tarn__names known; /* fields of the whole fold, numbered by the index */
    uint64_t n_rows;   /* of the whole fold */
    uint32_t *guesses; /* the number of field k of a sample, last time */
    size_t guess_capacity;
    tarn_written written;
    bool half_replaced;    /* see tarn_fold_writer_open */
    tarn__origin *origins; /* see adopt.c */
    size_t n_origins, origin_capacity;
    tarn__taskdir task; /* with options.tasks */
    const char *url;    /* where shards are sent; borrowed; NULL: they are files */
};

/* Sends the shards to an object store while they are written: to url, without a slash at
 * its end, which is borrowed. Index and sums stay in the folder. For new folds only. */
void tarn__writer_send_to(tarn_fold_writer *writer, const char *url);

/* Adds one more shard; takes ownership of both strings. */
TARN_CHECKED tarn_status tarn__writer_add_shard(tarn_fold_writer *writer, char *name,
                                                char *path, tarn_error *err);
void tarn__writer_drop_shard(tarn_fold_writer *writer);

/* Whether there is a sample with this key, which is NUL-terminated. */
TARN_CHECKED tarn_status tarn__writer_has(tarn_fold_writer *writer, const char *key,
                                          size_t len, uint64_t hash, bool *out,
                                          tarn_error *err);

/* Decides, by the options, how to handle the existing fold and finished shards: keeps
 * them, plans to replace them, or fails. */
TARN_CHECKED tarn_status tarn__writer_found(tarn_fold_writer *writer, tarn_error *err);

/* After opening: whether the fold existed, and no interrupted writer left shards. */
bool tarn__writer_found_all(const tarn_fold_writer *writer);

/* Finishes the current shard, if there is one. */
TARN_CHECKED tarn_status tarn__writer_end_shard(tarn_fold_writer *writer,
                                                tarn_error *err);
/* The file name of the next shard; the caller frees it. */
TARN_CHECKED tarn_status tarn__writer_name_shard(const tarn_fold_writer *writer,
                                                 char **out, tarn_error *err);
/* Counts the rows and fields of a shard that was not written by this writer. */
TARN_CHECKED tarn_status tarn__writer_count(tarn_fold_writer *writer, size_t shard,
                                            tarn_error *err);
/* Scans the shards from a number on; with sums, every byte. */
TARN_CHECKED tarn_status tarn__writer_scan(tarn_fold_writer *writer, size_t from,
                                           bool sums, tarn_error *err);
/* Gives the scan of a shard the checksums that an index has for its shard number, whose
 * first row is first, after checking that both refer to the same shard. */
TARN_CHECKED tarn_status tarn__writer_take_checksums(tarn_fold_writer *writer,
                                                     size_t shard,
                                                     const tarn_index *index,
                                                     uint32_t number, uint64_t first,
                                                     tarn_error *err);
/* See tarn_fold_writer_adopt. */
TARN_CHECKED tarn_status tarn__writer_adopt(tarn_fold_writer *writer, tarn__fold *from,
                                            const uint32_t *shards, size_t count,
                                            tarn_adopt how, tarn_error *err);
void tarn__writer_reset_origins(tarn_fold_writer *writer);

#endif
