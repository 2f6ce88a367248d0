/* A fold that is being written, as its two files see it: writer.c adds samples, found.c
 * deals with what is in the folder already. */
#ifndef TARN_ITAR_WRITER_H
#define TARN_ITAR_WRITER_H

#include <tarn/fold.h>
#include <tarn/write.h>

#include "itar/commit.h"
#include "itar/keyset.h"
#include "itar/scan.h"
#include "tar/writer.h"

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
    tarn_fold *base;   /* NULL for a new fold */
    bool completes;    /* the index is written anew, whether or not samples come */
    tarn__keyset keys; /* of all samples but those of base */
    uint64_t key_hash; /* of the sample at hand */
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

#endif
