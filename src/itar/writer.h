/* A fold that is being written, as its files see it: writer.c adds samples, found.c
 * deals with what is in the folder already, adopt.c takes whole shards of other folds. */
#ifndef TARN_ITAR_WRITER_H
#define TARN_ITAR_WRITER_H

#include <tarn/write.h>

#include "itar/commit.h"
#include "itar/fold_read.h"
#include "itar/keyset.h"
#include "itar/scan.h"
#include "tar/archive.h"

/* Where a shard that was taken from another fold comes from. */
typedef struct tarn__origin {
    size_t shard;
    char *path;
} tarn__origin;

struct tarn_fold_writer {
    tarn_fold_writer_options options;
    tarn_index_options scanning; /* how shards that are there are looked through */
    tarn__stage stage;
    tarn__archive archive;
    tarn__sample_plan plan;
    tarn__build build; /* its paths are where the shards are now */
    char **names;      /* file names of all shards */
    size_t n_shards, name_capacity, path_capacity, scan_capacity;
    size_t n_base;     /* shards of the fold as it is, which come first */
    tarn__fold *base;  /* NULL for a new fold */
    bool completes;    /* the index is written anew, whether or not samples come */
    tarn__keyset keys; /* of all samples but those of base */
    uint64_t key_hash; /* of the sample at hand */
    bool is_repeated;  /* whether its key came before */
    char *prefix;      /* of shard names, up to the number */
    uint64_t number;   /* of the next shard */
    unsigned digits;
    bool open;                 /* a shard is, the last of n_shards */
    uint64_t samples, payload; /* in it */
    tarn_field *fields;        /* with names as they are written */
    size_t field_capacity;
    tarn__buf lower;
    tarn__names known; /* fields of the whole fold, which an index has to number */
    uint64_t n_rows;   /* of the whole fold */
    uint32_t *guesses; /* the number of the k-th field of a sample, last time */
    size_t guess_capacity;
    tarn_written written;
    bool half_replaced;    /* see tarn_fold_writer_open */
    tarn__origin *origins; /* see adopt.c */
    size_t n_origins, origin_capacity;
};

/* Makes room for one more shard; takes both strings over. */
TARN_CHECKED tarn_status tarn__writer_add_shard(tarn_fold_writer *writer, char *name,
                                                char *path, tarn_error *err);
void tarn__writer_drop_shard(tarn_fold_writer *writer);

/* Whether a sample with this key, which is NUL-terminated, is there. */
TARN_CHECKED tarn_status tarn__writer_has(tarn_fold_writer *writer, const char *key,
                                          size_t len, uint64_t hash, bool *out,
                                          tarn_error *err);

/* Decides by the options what becomes of the fold and the finished shards that are there:
 * takes them in, plans to replace them, or refuses. */
TARN_CHECKED tarn_status tarn__writer_found(tarn_fold_writer *writer, tarn_error *err);

/* Finishes the shard at hand, if there is one. */
TARN_CHECKED tarn_status tarn__writer_end_shard(tarn_fold_writer *writer,
                                                tarn_error *err);
/* The file name of the next shard; the caller frees it. */
TARN_CHECKED tarn_status tarn__writer_name_shard(const tarn_fold_writer *writer,
                                                 char **out, tarn_error *err);
/* Counts the rows and fields of a shard that others wrote. */
TARN_CHECKED tarn_status tarn__writer_count(tarn_fold_writer *writer, size_t shard,
                                            tarn_error *err);
/* Looks through the shards from a number on, at every byte with sums. */
TARN_CHECKED tarn_status tarn__writer_scan(tarn_fold_writer *writer, size_t from,
                                           bool sums, tarn_error *err);
/* Gives the scan of a shard the checksums that an index has of its shard number, whose
 * first row is first, after making sure that both are of the same shard. */
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
