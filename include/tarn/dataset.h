/* tarn/dataset.h: samples 0 to n - 1 with named fields, whatever they lie in: a fold, a
 * plain tar, an array file, a record pack, or a mix of them.
 *
 *     tarn_dataset *birds;
 *     tarn_view jpg;
 *     tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
 *     o.fields = (const char *[]){"jpg", "cls", NULL};
 *     if (tarn_dataset_open("data/birds:train", &o, &birds, &err) != TARN_OK ||
 *         tarn_dataset_get(birds, 42, 0, &jpg, &err) != TARN_OK)
 *         return fail(&err);
 *     ...
 *     tarn_view_release(&jpg);
 *     tarn_dataset_close(birds);
 *
 * A dataset never changes. Slices, lists, filters, orders and ranks each make another one
 * over the same files, in any sequence, and each acts on what the one before gives:
 *
 *     tarn_dataset_order(birds, &shuffle, &mixed, &err);     in random order,
 *     tarn_dataset_slice(mixed, 0, 1, 100, &few, &err);      and of that the first 100
 *
 * Slices, orders and ranks cost no memory per sample; lists and filters 4 or 8 bytes for
 * each sample that is kept. All are closed, in any order, and the files are when the last
 * is. So any number of threads may use one dataset without locks of their own; only
 * closing needs it for itself.
 */
#ifndef TARN_DATASET_H
#define TARN_DATASET_H

#include <tarn/array.h>
#include <tarn/base.h>
#include <tarn/index.h>
#include <tarn/order.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Opening ----------------------------------------------------------------------- */

typedef struct tarn_dataset tarn_dataset;

#define TARN_MAX_DATASET_FIELDS 65536u               /* that one dataset selects */
#define TARN_MAX_KEYED          UINT64_C(0xffffffff) /* samples that are found by key */
#define TARN_MAX_MIX            1024u                /* datasets in one mix */
#define TARN_NO_SAMPLE          UINT64_MAX

typedef struct tarn_dataset_options {
    size_t size; /* of this struct; set by the initialiser */

    /* The fields, a list that ends with NULL. Only samples that have all of them are in
     * the dataset; a sample that has one of them twice is an error that names it. A field
     * may be listed more than once, and one leading dot is dropped. NULL: all samples and
     * all fields, and a sample may lack some.
     *
     * Besides those in the file there are, as text: _idx, the sample's number (see
     * tarn_dataset_sequence); _key (also _name, _stem), its key; _fid, the number of its
     * shard; _shard, that shard's file name; _source, the number of its dataset in a mix.
     * They cannot be the only ones of a fold. */
    const char *const *fields;
    bool drop_ambiguous; /* leave out a sample that has a field twice, as the reference
                        does with most of them; tarn_dataset_info counts them */

    tarn_io io;
    bool check; /* compare payloads with their checksums when they are read */
    bool cold;  /* the data is not in memory and not worth keeping there: batches are read
                   around the page cache, many pieces at once. Without it a batch of files
                   that are mapped is looked at: where most of it is not in memory, it is
                   read in the same way, or, if all files fit into half of the memory, by
                   the page cache, which is told about all of it first */

    /* Folds and tars. */
    bool scan;    /* without an index on disk, make one in memory */
    bool by_hash; /* samples whose members are not consecutive in the order of their key
                     hashes, as glzn's enforce_contiguous has them, instead of first
                     appearance */
    const tarn_index_options *index; /* how to scan; NULL: the defaults */

    /* Packs and array files. */
    const char *key_column; /* a column, or an array with one value for each row, of text
                               or integers; NULL: keys are row numbers, or the texts of
                               an array _key */
    bool decompress;        /* packs: payloads decompressed, not as they are stored */
    bool records;           /* packs: the records, also where they are members */

    /* Folds: the shards, in their order; ends with NULL. path is then the index of just
     * these, whatever names they have; without it, and with scan, they are scanned. */
    const char *const *shards;
} tarn_dataset_options;

#define TARN_DATASET_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_dataset_options), .decompress = true                         \
    }
TARN_API void tarn_dataset_options_init(tarn_dataset_options *options, size_t size);

/* Opens what path is: "DIR", "DIR:FOLD" or "FILE.taridx", a fold; a file that begins as a
 * pack or an array file does; any other file, a tar, which is scanned.
 *
 * Samples of a fold are in the order of first appearance; where their members are not
 * consecutive, in the order of the first member that is selected. Those of an array file
 * are the rows of its arrays (tarn_gnz_array_get says which). Those of a pack are its
 * records: "payload", and each column of the index table as JSON. A pack with the text
 * columns key and field, as tarn convert makes them, holds the members of samples:
 * records that follow each other with one key are one. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_open(const char *path,
                                                    const tarn_dataset_options *options,
                                                    tarn_dataset **out, tarn_error *err);
TARN_API void tarn_dataset_close(tarn_dataset *dataset);

typedef enum tarn_dataset_kind {
    TARN_DATASET_FOLD = 0,
    TARN_DATASET_GNZ = 1,
    TARN_DATASET_IAC = 2,
    TARN_DATASET_MIX = 3
} tarn_dataset_kind;

typedef struct tarn_dataset_info {
    tarn_dataset_kind kind;
    uint64_t samples;
    uint32_t fields;
    uint64_t in_file; /* samples before any selection */
    uint64_t dropped; /* by drop_ambiguous, when it was opened */
    uint32_t shards;  /* files that samples lie in */
    bool numbered;    /* keys are only the numbers of rows */
    bool in_order;    /* samples come in the order of the file */
    bool whole;       /* it has an order that gives all samples: filters go below it */
    uint64_t epoch;   /* of its order */
    uint64_t seed;    /* of its order; 0 if there is none */
    uint64_t rank, world_size;
} tarn_dataset_info;

TARN_API void tarn_dataset_info_get(const tarn_dataset *dataset, tarn_dataset_info *out,
                                    size_t size);

/* Samples. */
TARN_API uint64_t tarn_dataset_count(const tarn_dataset *dataset);

/* The name of a field, or NULL past the last; borrowed until the dataset is closed. */
TARN_API const char *tarn_dataset_field(const tarn_dataset *dataset, uint32_t field);

/* The number of the first field of that name. TARN_ERR_NO_FIELD, with those there are.
 */
TARN_API TARN_CHECKED tarn_status tarn_dataset_field_find(const tarn_dataset *dataset,
                                                          const char *name, uint32_t *out,
                                                          tarn_error *err);

/* --- Reading ----------------------------------------------------------------------- */

/* One field of one sample, borrowed until it is released or the dataset is closed.
 * TARN_ERR_NO_FIELD if the sample lacks it, TARN_ERR_AMBIGUOUS if it has it twice. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_get(tarn_dataset *dataset, uint64_t sample,
                                                   uint32_t field, tarn_view *out,
                                                   tarn_error *err);

/* All fields of a sample: a view for each of the dataset's fields. One listed twice is
 * fetched once, and its bytes belong to the first view. One that the sample lacks, which
 * can only be without a list of fields, is an empty view whose data is NULL. key, which
 * may be NULL, becomes the key: with less work than a second call for it takes. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_get_all(tarn_dataset *dataset,
                                                       uint64_t sample, tarn_view *out,
                                                       tarn_text *key, tarn_error *err);

/* Gives views of a sample back, and says whether what was copied or decoded from them is
 * right: TARN_ERR_STALE or TARN_ERR_TRUNCATED if the file was cut short in the meantime,
 * so that zeros may have been read in the place of bytes. (A file that is rewritten to
 * its old length is another file, which only checksums tell.) Where that does not matter,
 * tarn_view_release is enough. Batches and loaders have done this already. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_release(tarn_dataset *dataset,
                                                       uint64_t sample, tarn_view *views,
                                                       size_t count, tarn_error *err);

/* What the bytes of a field are. */
typedef enum tarn_form {
    TARN_FORM_NAMED = 0,   /* a member: what its name says */
    TARN_FORM_BYTES = 1,   /* the payload of a pack's record */
    TARN_FORM_TEXT = 2,    /* UTF-8: _key, _shard */
    TARN_FORM_JSON = 3,    /* a value of a pack's column */
    TARN_FORM_INTEGER = 4, /* decimal digits: _idx, _fid, a column of integers of up to 64
                              bits; "null" in a column */
    TARN_FORM_REAL = 5,    /* a number as JSON has it, or "null": a column of floats */
    TARN_FORM_ARRAY = 6    /* a row of an array: its elements, the last index fastest */
} tarn_form;

typedef struct tarn_field_form {
    tarn_form form;
    const char *codec;     /* a name for tarn_decode; NULL for an array */
    tarn_dtype dtype;      /* ARRAY */
    unsigned ndim;         /* ARRAY: of one row; 0 for one number */
    const uint64_t *shape; /* borrowed, as codec is, until the dataset is closed */
} tarn_field_form;

/* The sample makes a difference in a mix only; it need not have the field. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_form(tarn_dataset *dataset,
                                                    uint64_t sample, uint32_t field,
                                                    tarn_field_form *out,
                                                    tarn_error *err);

#define TARN_NO_FIELD UINT32_MAX

/* Where a sample is and where it comes from. */
typedef struct tarn_place {
    uint64_t row;     /* its number before any selection, such as that of a record */
    uint32_t shard;   /* the number of the file */
    const char *path; /* and its path; borrowed until the dataset is closed */

    /* Of a field; without one TARN_NO_OFFSET and 0. */
    uint64_t offset; /* in the file, of a member that of its header; TARN_NO_OFFSET for
                        what is made when it is asked for */
    uint64_t size;   /* in bytes, as stored */

    /* Of a mix: the number of the source, the epoch of that source and the sample there.
     * Otherwise 0, 0 and the number of the sample (see tarn_dataset_sequence). */
    uint32_t source;
    uint64_t pass, sample;
} tarn_place;

/* With TARN_NO_FIELD the shard is that of the sample's first member that is selected. The
 * same errors as tarn_dataset_get. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_locate(tarn_dataset *dataset,
                                                      uint64_t sample, uint32_t field,
                                                      tarn_place *out, size_t size,
                                                      tarn_error *err);

/* Many pieces one behind the other: piece i is data[offsets[i]] up to
 * data[offsets[i + 1]]. Begins as all zero, is used again and again, freed by reset. */
typedef struct tarn_dataset_batch {
    unsigned char *data;
    uint64_t *offsets; /* count + 1 of them */
    size_t count;
    size_t data_capacity, count_capacity; /* private */
    void *work;                           /* private */
    size_t work_capacity;                 /* private */
    void *io;                             /* private */
} tarn_dataset_batch;

#define TARN_DATASET_BATCH_INIT                                                          \
    {                                                                                    \
        NULL, NULL, 0, 0, 0, NULL, 0, NULL                                               \
    }

/* Fetches samples times fields: piece s * n_fields + f is fields[f] of samples[s].
 * fields NULL: all of the dataset's. Pieces that are not in memory are read in the order
 * of their places on the disk. A piece that does not exist is an error. A batch belongs
 * to one thread at a time; after an error its contents are undefined, but it can be used
 * again. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_read(
    tarn_dataset *dataset, const uint64_t *samples, size_t n_samples,
    const uint32_t *fields, size_t n_fields, tarn_dataset_batch *out, tarn_error *err);
TARN_API void tarn_dataset_batch_reset(tarn_dataset_batch *batch);

/* Tells the system that these samples will be read soon, into the page cache, and returns
 * without them. fields NULL: all of the dataset's. What is not there or is in memory
 * already is passed over, so that the only errors are of the call itself. From then on
 * batches of this dataset come through the page cache, with cold as well. Whoever calls
 * it bounds what is announced: it takes memory. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_prefetch(tarn_dataset *dataset,
                                                        const uint64_t *samples,
                                                        size_t n_samples,
                                                        const uint32_t *fields,
                                                        size_t n_fields, tarn_error *err);

/* --- Keys -------------------------------------------------------------------------- */

/* The key of a sample. A text can be used again and again. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_key(tarn_dataset *dataset, uint64_t sample,
                                                   tarn_text *out, tarn_error *err);

/* The samples with these keys; where keys repeat (a column of a pack, an array, a mix),
 * the first. A key that none of this dataset has is TARN_ERR_NO_SAMPLE or, if out_missing
 * is given, TARN_NO_SAMPLE in its place, and *out_missing is how many there are. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_find(tarn_dataset *dataset,
                                                    const char *const *keys, size_t count,
                                                    uint64_t *out, size_t *out_missing,
                                                    tarn_error *err);

/* The key that a member or file of this name has: in a fold the folder (unless its keys
 * have it) and all behind the first dot go; elsewhere a name is a key. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_key_of_name(const tarn_dataset *dataset,
                                                           const char *name,
                                                           tarn_text *out,
                                                           tarn_error *err);

/* --- Choosing fields ---------------------------------------------------------------- */

/* The same samples with these fields only; samples that lack some of them stay. Nothing
 * is read. TARN_ERR_NO_FIELD, with those there are, for a name that the file does not
 * have. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_with_fields(tarn_dataset *dataset,
                                                           const char *const *fields,
                                                           size_t count,
                                                           tarn_dataset **out,
                                                           tarn_error *err);

/* --- Choosing positions --------------------------------------------------------------
 *
 * These fix what they choose from: a slice of a shuffled dataset has the same samples in
 * every epoch. */

/* Samples start, start + stride, ..., count of them; stride may be negative. No memory.
 * TARN_ERR_USAGE where one of them is not there. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_slice(tarn_dataset *dataset,
                                                     uint64_t start, int64_t stride,
                                                     uint64_t count, tarn_dataset **out,
                                                     tarn_error *err);

/* These samples, in this order; one may come several times. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_select(tarn_dataset *dataset,
                                                      const uint64_t *samples,
                                                      size_t count, tarn_dataset **out,
                                                      tarn_error *err);

/* --- Orders, ranks and epochs ------------------------------------------------------ */

/* The samples in another order (tarn/order.h), of which rank, world_size and uneven are
 * the part of one rank. An epoch of 0 is that of the dataset. An order changes with the
 * epoch, until samples are chosen from it by position; of several orders in a row only
 * the last one does. Arrays are copied; with one, a mix stays in its present epoch,
 * because the numbers are those of its samples. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_order(tarn_dataset *dataset,
                                                     const tarn_order_options *options,
                                                     tarn_dataset **out, tarn_error *err);

/* The part of one rank: every world_size-th sample. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_split(tarn_dataset *dataset, uint64_t rank,
                                                     uint64_t world_size,
                                                     tarn_uneven uneven,
                                                     tarn_dataset **out, tarn_error *err);

/* The same dataset in another epoch, from its beginning. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_at_epoch(tarn_dataset *dataset,
                                                        uint64_t epoch,
                                                        tarn_dataset **out,
                                                        tarn_error *err);

/* The dataset without the order that changes with the epoch, and without its ranks;
 * itself if there is none. Borrowed. */
TARN_API tarn_dataset *tarn_dataset_unordered(tarn_dataset *dataset);

/* The numbers of count samples from the one at from on: where they are in
 * tarn_dataset_unordered, whatever the epoch and the rank. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_sequence(tarn_dataset *dataset,
                                                        uint64_t from, uint64_t count,
                                                        uint64_t *out, tarn_error *err);

/* Where a pass over the dataset stands when each rank has taken so many samples of this
 * epoch: one line of JSON with a fingerprint of the data and of all selections and
 * orders. The text can be used again and again. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_state(tarn_dataset *dataset,
                                                     uint64_t taken, tarn_text *out,
                                                     tarn_error *err);

/* The dataset from there on: the rest of the epoch, for this rank of any number of ranks.
 * After the last sample of an epoch it is the next epoch. TARN_ERR_STALE, with the
 * reason, for a state of other data or of other selections or orders; TARN_ERR_FORMAT for
 * a text that is not a state. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_resume(tarn_dataset *dataset,
                                                      const char *state, size_t size,
                                                      tarn_dataset **out,
                                                      tarn_error *err);

/* --- Filters -------------------------------------------------------------------------
 *
 * A filter makes a dataset of those samples of another that it keeps. There may be none.
 * A filter of a dataset in an order goes below that order: the shuffle of a filtered
 * dataset is the same as the filter of a shuffled one. Where positions were chosen or
 * ranks split after the order, the filter keeps samples of those, in the order in which
 * they are. */

typedef enum tarn_condition_kind {
    TARN_CONDITION_MASK = 0,   /* mask: those that are true */
    TARN_CONDITION_KEYS = 1,   /* names: those with these keys; all, where keys repeat */
    TARN_CONDITION_JSON = 2,   /* name: the path of a JSON file with a list of names, each
                               made a key by tarn_dataset_key_of_name */
    TARN_CONDITION_HAVING = 3, /* names: those with all these fields (of the file) */
    TARN_CONDITION_LACKING = 4, /* name: those without this field (of the file) */
    TARN_CONDITION_SIZE = 5, /* name: those whose field has min to max bytes, as stored */
    TARN_CONDITION_COLUMN = 6, /* names: records of a pack whose column, name, has one of
                               these values; text, or digits of an integer */
    TARN_CONDITION_BETWEEN =
        7 /* name: records whose column is a number from min to max */
} tarn_condition_kind;

typedef struct tarn_condition {
    size_t size; /* of this struct; set by the initialiser */
    tarn_condition_kind kind;
    const char *name;
    const char *const *names;
    size_t n_names;
    double min, max; /* both inclusive */

    /* One bool for each sample of tarn_dataset_unordered or, where the filter does not go
     * below the order, of the dataset itself. */
    const bool *mask;

    /* KEYS, JSON: a key that is missing is an error, which says how many are and names
     * the first few, unless one of these is given. found, for KEYS only, is set for each
     * name, and *missing is set to how many there are. */
    bool *found;
    size_t *missing;
} tarn_condition;

#define TARN_CONDITION_INIT                                                              \
    {                                                                                    \
        .size = sizeof(tarn_condition), .min = -1e308, .max = 1e308                      \
    }
TARN_API void tarn_condition_init(tarn_condition *condition, size_t size);

TARN_API TARN_CHECKED tarn_status tarn_dataset_filter(tarn_dataset *dataset,
                                                      const tarn_condition *condition,
                                                      tarn_dataset **out,
                                                      tarn_error *err);

/* --- What there is ----------------------------------------------------------------- */

/* How many samples have which fields of the file, selected or not. fields are numbers for
 * tarn_dataset_file_field, ascending; one that a sample has twice is there once, and
 * twice counts such samples. */
typedef struct tarn_field_set {
    const uint32_t *fields;
    size_t n_fields;
    uint64_t samples;
    uint64_t twice;
} tarn_field_set;

typedef struct tarn_field_sets {
    tarn_field_set *sets; /* most samples first */
    size_t count;
    void *owned; /* private */
} tarn_field_sets;

TARN_API TARN_CHECKED tarn_status tarn_dataset_field_sets(tarn_dataset *dataset,
                                                          tarn_field_sets *out,
                                                          tarn_error *err);
TARN_API void tarn_field_sets_reset(tarn_field_sets *sets);

/* The name of a field of the file, or NULL past the last. */
TARN_API const char *tarn_dataset_file_field(const tarn_dataset *dataset,
                                             uint32_t number);

/* --- One number for each sample ------------------------------------------------------
 *
 * What tarn/order.h asks for: the samples of each shard are its buckets, sizes its
 * lengths, integers its classes, reals its weights. */

/* As many numbers as tarn_dataset_info says there are shards. A mix has no shards of its
 * own: counts are added up by the shards' numbers in their datasets. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_shard_counts(tarn_dataset *dataset,
                                                            uint64_t *out,
                                                            tarn_error *err);

typedef enum tarn_numbers {
    TARN_NUMBERS_SIZE = 0,    /* uint64_t: bytes of the field, as stored */
    TARN_NUMBERS_INTEGER = 1, /* int64_t: of a field of text such as cls, of a column of a
                                 pack, or of an array with one integer in each row */
    TARN_NUMBERS_REAL = 2 /* double: the same for any numbers; text has them in decimal
                             with a point, whatever the locale is */
} tarn_numbers;

/* A number for each sample, 8 bytes each. TARN_ERR_FORMAT, with the sample's key, where a
 * field is not such a number, or does not fit into 64 bits. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_numbers(tarn_dataset *dataset,
                                                       uint32_t field, tarn_numbers what,
                                                       void *out, tarn_error *err);

/* --- Several views of one sample ------------------------------------------------------
 *
 * Samples with fields such as f0.jpg, f0.cls, f1.jpg, f1.cls: "{0}.jpg", "{0}.cls" takes
 * one of f0, f1 for each sample and epoch, "{0}.jpg", "{1}.jpg" two of them. The choice
 * is the reference's: numpy.random.default_rng(seed + epoch + sample).choice. */

typedef struct tarn_views tarn_views;

#define TARN_VIEWS_SEED                                                                  \
    UINT64_C(0x0bad5eed) /* a dataset's seed, combined by xor, is the                    \
                             reference's default */

typedef struct tarn_views_options {
    size_t size;  /* of this struct; set by the initialiser */
    bool replace; /* one view may be chosen for several slots */
    uint64_t seed;
} tarn_views_options;

#define TARN_VIEWS_OPTIONS_INIT                                                          \
    {                                                                                    \
        .size = sizeof(tarn_views_options), .seed = TARN_VIEWS_SEED                      \
    }
TARN_API void tarn_views_options_init(tarn_views_options *options, size_t size);

/* Templates have one dot and slots {0}, {1}, ... in front of it, and use all slots up to
 * the highest; all slots are used with the same endings. The dataset's fields have one
 * dot each. TARN_ERR_USAGE says what is not so. Nothing is borrowed. */
TARN_API TARN_CHECKED tarn_status tarn_views_new(const tarn_dataset *dataset,
                                                 const char *const *templates,
                                                 size_t count,
                                                 const tarn_views_options *options,
                                                 tarn_views **out, tarn_error *err);
TARN_API void tarn_views_free(tarn_views *views);

/* The fields of the dataset that stand for the templates: count numbers. Any number of
 * threads may choose. */
TARN_API TARN_CHECKED tarn_status tarn_views_choose(const tarn_views *views,
                                                    uint64_t epoch, uint64_t sample,
                                                    uint32_t *out_fields,
                                                    tarn_error *err);

/* --- Mixes ---------------------------------------------------------------------------
 *
 * Several datasets as one, evenly interleaved: of source k's counts[k] samples, the j-th
 * is at (j + 1/2) / counts[k] of the mix, and at equal places the earlier source comes
 * first. A source may have selections and orders of its own, and continues from one epoch
 * of the mix to the next: its n-th sample, counted over all epochs, is sample n mod len
 * of its own epoch n div len. So a source with a weight of a tenth has been seen once
 * after ten epochs. */

typedef enum tarn_mix_end {
    TARN_MIX_FIRST = 0, /* when the first source has no more samples for its weight */
    TARN_MIX_ALL = 1    /* when every source has been seen once; the others repeat */
} tarn_mix_end;

typedef struct tarn_mix_options {
    size_t size;            /* of this struct; set by the initialiser */
    const double *weights;  /* one for each source, above 0 */
    const uint64_t *counts; /* or how many samples of each; NULL, without weights: all */
    uint64_t total;         /* with weights: samples in all; 0: as end says */
    tarn_mix_end end;
    const char *const *fields; /* ends with NULL; each source must have them all. NULL:
                                  all names of all sources, and some may be lacking */
} tarn_mix_options;

#define TARN_MIX_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_mix_options)                                                 \
    }
TARN_API void tarn_mix_options_init(tarn_mix_options *options, size_t size);

/* The sources stay the caller's to close, at any time. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_mix(tarn_dataset *const *sources,
                                                   size_t count,
                                                   const tarn_mix_options *options,
                                                   tarn_dataset **out, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
