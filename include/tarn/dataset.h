/* tarn/dataset.h: a dataset: samples 0 to n - 1 with named fields, in any storage: a
 * fold, a plain tar, an array file, a record pack, or a mix of them.
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
 * A dataset never changes. Slices, lists, filters, orders and ranks each create another
 * dataset over the same files. They can be combined in any sequence, and each applies to
 * the result of the previous one. This shuffles a dataset and then takes the first 100
 * samples:
 *
 *     tarn_dataset_order(birds, &shuffle, &mixed, &err);
 *     tarn_dataset_slice(mixed, 0, 1, 100, &few, &err);
 *
 * Slices, orders and ranks need no memory per sample; lists and filters need 4 or 8 bytes
 * for each sample that they keep. Close every dataset, in any order; the files are closed
 * with the last one.
 *
 * Any number of threads may use one dataset at once without their own locks. No thread
 * may use a dataset while it is being closed.
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

#define TARN_MAX_DATASET_FIELDS 65536u               /* that one dataset can select */
#define TARN_MAX_KEYED          UINT64_C(0xffffffff) /* samples found by key */
#define TARN_MAX_MIX            1024u                /* datasets in one mix */
#define TARN_NO_SAMPLE          UINT64_MAX

typedef struct tarn_dataset_options {
    size_t size; /* of this struct; set by the initialiser */

    /* The fields, a list that ends with NULL. The dataset then has only the samples that
     * have all of these fields; tarn_dataset_info counts the others. A sample that has
     * one of them twice is an error, and the message names the sample. A field may be
     * listed more than once, and one leading dot is dropped. NULL: all samples and all
     * fields; samples may lack some fields.
     *
     * "jpg;png;webp" has alternatives: the first of these fields that a sample has. Its
     * name is the first one, jpg. "img=jpg;png" names it img, and "img=jpg" just gives a
     * field another name. Alternatives that the file does not have are skipped, but it
     * must have one. The form of each sample's bytes is that of the field it has: see
     * tarn_dataset_form. A field of the file whose name contains ; or = can be listed by
     * that name. TARN_ERR_USAGE if an entry is malformed, or if two different fields have
     * the same name.
     *
     * In addition to the fields in the file there are the following fields, all as text:
     * _idx, the number of the sample (see tarn_dataset_sequence); _key (also _name,
     * _stem), its key; _fid, the number of its shard; _shard, the file name of that
     * shard; _source, the number of its dataset in a mix. They cannot be the only fields
     * of a fold. */
    const char *const *fields;
    /* Leave out samples that have a field twice, as glzn does with most of them.
     * tarn_dataset_info counts them. */
    bool drop_ambiguous;

    tarn_io io;
    bool check; /* verify the checksums of payloads when reading */
    /* The data is not in memory and not worth caching: batches are read around the page
     * cache, with many reads at once. If cold is false, each batch of mapped files is
     * checked. If most of it is not in memory, it is read in the same way or, if all
     * files fit into half of the memory, through the page cache, with a prefetch of the
     * whole batch first. */
    bool cold;

    /* Folds and tars. */
    bool scan; /* build an index in memory if none is on disk */
    /* Sort samples whose members are not consecutive by the hashes of their keys, as
     * glzn's enforce_contiguous does, instead of by first appearance. */
    bool by_hash;
    const tarn_index_options *index; /* how to scan; NULL: the defaults */

    /* Record packs and array files. */
    /* The keys: a column, or an array with one value for each row, of text or integers.
     * NULL: keys are row numbers, or the texts of an array _key. */
    const char *key_column;
    bool decompress; /* record packs: decompress payloads */
    bool records;    /* record packs: records, even if they are members */

    /* Folds: the shards, in order; ends with NULL. path is then the index of exactly
     * these shards, which may have any names. Without an index, and with scan, they are
     * scanned. */
    const char *const *shards;

    /* Remote files (http, https, s3, ...): the folder of the cache, which any number of
     * processes and datasets may share, and the bytes that it may take on disk; 0: no
     * limit. NULL: that of the environment variable TARN_CACHE, or if that is not set,
     * nothing is kept on disk. "": nothing is kept. The limit counts only with a
     * folder. In any case 1 GiB of the disk stays free, or a sixteenth of a smaller one;
     * see cache_problem of tarn_dataset_info. */
    const char *cache;
    uint64_t cache_limit;
    /* Remote folds: a local .taridx of exactly these shards, used instead of the one next
     * to them. NULL: that one, or the one in the cache if it has not changed. */
    const char *index_path;
} tarn_dataset_options;

#define TARN_DATASET_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_dataset_options), .decompress = true                         \
    }
TARN_API void tarn_dataset_options_init(tarn_dataset_options *options, size_t size);

/* Opens a dataset. path is "DIR", "DIR:FOLD" or "FILE.taridx" for a fold; a record pack
 * or an array file, recognised by its first bytes; or any other file, which is scanned as
 * a tar. options may be NULL. Close the dataset with tarn_dataset_close.
 *
 * path may also be the URL of a folder, a fold, an index, shards (with braces), or a file
 * that ends with .gnz or .iac. Only the index is fetched, samples are fetched when they
 * are read. A member of a fold whose index has checksums is compared with its checksum.
 * If they differ, the member is fetched again.
 *
 * The samples of a fold are in the order of first appearance; if their members are not
 * consecutive, in the order of the first selected member. The samples of an array file
 * are the rows of its arrays (see is_field in tarn_gnz_array). The samples of a record
 * pack are its records: "payload", and each column of the index table as JSON. A record
 * pack with the text columns key and field, as tarn convert makes them, contains the
 * members of samples: consecutive records with the same key are one sample. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_open(const char *path,
                                                    const tarn_dataset_options *options,
                                                    tarn_dataset **out, tarn_error *err);
/* Closes a dataset. Datasets made from it stay valid. NULL is allowed. */
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
    uint64_t dropped; /* left out by drop_ambiguous on opening */
    uint32_t shards;  /* number of files with samples */
    bool numbered;    /* keys are just row numbers */
    bool in_order;    /* samples are in file order */
    bool whole;       /* its order covers all samples: filters apply before it */
    uint64_t epoch;   /* of its order */
    uint64_t seed;    /* of its order; 0 if it has none */
    uint64_t rank, world_size;
    uint64_t left_out; /* left out on opening because they lack a listed field; see
                          tarn_dataset_lacking */
    uint64_t remote;   /* 1 if samples are fetched from a server when they are read */
    /* Why the cache stored nothing when the dataset was opened, because its disk is full
     * or read-only, and what to do; NULL if it has room, and for mixes. Borrowed until
     * the dataset is closed. */
    const char *cache_problem;
} tarn_dataset_info;

/* Fills *out, of size bytes. */
TARN_API void tarn_dataset_info_get(const tarn_dataset *dataset, tarn_dataset_info *out,
                                    size_t size);

/* Returns the number of samples. */
TARN_API uint64_t tarn_dataset_count(const tarn_dataset *dataset);

/* Returns the name of a field by number, or NULL past the last. Borrowed until the
 * dataset is closed. */
TARN_API const char *tarn_dataset_field(const tarn_dataset *dataset, uint32_t field);

/* Returns a name that the field has in the file, by number, or NULL past the last. There
 * are several names if the field has alternatives, or in a mix of sources that name it
 * differently. Borrowed until the dataset is closed. */
TARN_API const char *tarn_dataset_field_stored(const tarn_dataset *dataset,
                                               uint32_t field, uint32_t number);

/* Returns the number of samples in the file that lack the field (with all its
 * alternatives), if the dataset was opened with a list of fields and left out samples;
 * otherwise 0. */
TARN_API uint64_t tarn_dataset_lacking(const tarn_dataset *dataset, uint32_t field);

/* Finds the number of the first field with a name. TARN_ERR_NO_FIELD if there is none;
 * the message lists the existing fields. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_field_find(const tarn_dataset *dataset,
                                                          const char *name, uint32_t *out,
                                                          tarn_error *err);

/* --- Reading ----------------------------------------------------------------------- */

/* Gets one field of one sample. The view is borrowed until it is released or the dataset
 * is closed. TARN_ERR_NO_FIELD if the sample lacks the field, TARN_ERR_AMBIGUOUS if it
 * has the field twice. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_get(tarn_dataset *dataset, uint64_t sample,
                                                   uint32_t field, tarn_view *out,
                                                   tarn_error *err);

/* Gets all fields of a sample: out has one view for each field of the dataset. A field
 * that is listed twice is fetched once, and its bytes belong to the first view. A field
 * that the sample lacks is an empty view whose data is NULL; that is only possible
 * without a list of fields. If key is not NULL, it is set to the key of the sample, which
 * is cheaper than a separate call. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_get_all(tarn_dataset *dataset,
                                                       uint64_t sample, tarn_view *out,
                                                       tarn_text *key, tarn_error *err);

/* Releases views of a sample, and checks whether the data that was copied or decoded from
 * them is valid. TARN_ERR_STALE or TARN_ERR_TRUNCATED if the file was shortened in the
 * meantime, so that zeros may have been read instead of data. (A file that is rewritten
 * with the same length can only be detected by checksums.) If that does not matter,
 * tarn_view_release is enough. Batches and loaders make this check themselves. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_release(tarn_dataset *dataset,
                                                       uint64_t sample, tarn_view *views,
                                                       size_t count, tarn_error *err);

/* The form of a field's bytes. */
typedef enum tarn_form {
    TARN_FORM_NAMED = 0, /* a member: its name determines the format */
    TARN_FORM_BYTES = 1, /* the payload of a record */
    TARN_FORM_TEXT = 2,  /* UTF-8: _key, _shard */
    TARN_FORM_JSON = 3,  /* a value of a record pack's column */
    /* Decimal digits: _idx, _fid, a column of integers of up to 64 bits; "null" in a
     * column. */
    TARN_FORM_INTEGER = 4,
    TARN_FORM_REAL = 5, /* a JSON number or "null": a column of floats */
    TARN_FORM_ARRAY = 6 /* a row of an array: its elements, last index fastest */
} tarn_form;

typedef struct tarn_field_form {
    tarn_form form;
    const char *codec;     /* a field name for tarn_decode; NULL for an array */
    tarn_dtype dtype;      /* ARRAY */
    unsigned ndim;         /* ARRAY: of one row; 0 for a number */
    const uint64_t *shape; /* borrowed, like codec, until the dataset is closed */
} tarn_field_form;

/* Gets the form of a field, in *out, of size bytes. The sample matters only in a mix,
 * where it must have the field, and for a field with alternatives. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_form(tarn_dataset *dataset,
                                                    uint64_t sample, uint32_t field,
                                                    tarn_field_form *out, size_t size,
                                                    tarn_error *err);

#define TARN_NO_FIELD UINT32_MAX

/* The location of a sample and its origin. */
typedef struct tarn_place {
    uint64_t row;     /* number before any selection, for example of a record */
    uint32_t shard;   /* number of the file */
    const char *path; /* path of the file; borrowed until the dataset is closed */

    /* Of the field; without a field TARN_NO_OFFSET and 0: */
    /* Offset in the file; for a member, of its header. TARN_NO_OFFSET for values that are
     * computed on request. */
    uint64_t offset;
    uint64_t size; /* stored size in bytes */

    /* In a mix: the number of the source, the epoch of that source, and the sample there.
     * Otherwise 0, 0 and the number of the sample (see tarn_dataset_sequence). */
    uint32_t source;
    uint64_t pass, sample;
} tarn_place;

/* Locates a sample and one of its fields. With TARN_NO_FIELD the shard is that of the
 * first selected member of the sample. Errors are those of tarn_dataset_get. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_locate(tarn_dataset *dataset,
                                                      uint64_t sample, uint32_t field,
                                                      tarn_place *out, size_t size,
                                                      tarn_error *err);

/* Many pieces of data, stored consecutively: piece i is data[offsets[i]] up to
 * data[offsets[i + 1]]. Initialise a batch to all zero. It can be reused any number of
 * times; free it with tarn_dataset_batch_reset. */
typedef struct tarn_dataset_batch {
    unsigned char *data;
    uint64_t *offsets; /* count + 1 offsets */
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

/* Reads fields of many samples: piece s * n_fields + f is fields[f] of samples[s].
 * fields NULL: all fields of the dataset. Pieces that are not in memory are read in
 * the order of their positions on disk. A piece that does not exist is an error. Only
 * one thread at a time may use a batch. After an error its contents are undefined, but
 * it can be reused. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_read(
    tarn_dataset *dataset, const uint64_t *samples, size_t n_samples,
    const uint32_t *fields, size_t n_fields, tarn_dataset_batch *out, tarn_error *err);
TARN_API void tarn_dataset_batch_reset(tarn_dataset_batch *batch);

/* Asks the system to read samples into the page cache, and returns without waiting for
 * them. Several MB of samples in the order of their files are read by a thread of the
 * dataset; if it still reads those of an earlier call, the call waits for these first.
 * fields NULL: all fields of the dataset. Data that does not exist or is already in
 * memory is skipped, so only invalid arguments are errors. From then on, batches of this
 * dataset are read through the page cache, even with cold. The data takes memory, so the
 * caller must limit the amount.
 *
 * Of remote files, keys and fields are fetched with many requests at once, and the call
 * waits for them. They are kept in memory, up to 64 MiB, until the next call for the same
 * file. A failure is reported when the sample is read. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_prefetch(tarn_dataset *dataset,
                                                        const uint64_t *samples,
                                                        size_t n_samples,
                                                        const uint32_t *fields,
                                                        size_t n_fields, tarn_error *err);

/* --- Keys -------------------------------------------------------------------------- */

/* Gets the key of a sample. The text can be reused. Free it with tarn_text_reset. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_key(tarn_dataset *dataset, uint64_t sample,
                                                   tarn_text *out, tarn_error *err);

/* Finds samples by key. If keys repeat (in a column of a record pack, an array, or a
 * mix), finds the first sample. A key that no sample of this dataset has is
 * TARN_ERR_NO_SAMPLE. If out_missing is not NULL, it is not an error: the result for that
 * key is TARN_NO_SAMPLE, and *out_missing is the number of missing keys. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_find(tarn_dataset *dataset,
                                                    const char *const *keys, size_t count,
                                                    uint64_t *out, size_t *out_missing,
                                                    tarn_error *err);

/* --- Choosing fields ---------------------------------------------------------------- */

/* Creates a dataset of the same samples with these fields only, which are written as in
 * the options for opening. Samples that lack some of them are kept. Nothing is read.
 * TARN_ERR_NO_FIELD for a name that the file does not have; the message lists the
 * existing fields. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_with_fields(tarn_dataset *dataset,
                                                           const char *const *fields,
                                                           size_t count,
                                                           tarn_dataset **out,
                                                           tarn_error *err);

/* --- Choosing positions --------------------------------------------------------------
 *
 * These functions fix the samples that they select: a slice of a shuffled dataset has the
 * same samples in every epoch. */

/* Creates a dataset of count samples: start, start + stride, ... stride may be negative.
 * Needs no memory per sample. TARN_ERR_USAGE if one of the samples does not exist. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_slice(tarn_dataset *dataset,
                                                     uint64_t start, int64_t stride,
                                                     uint64_t count, tarn_dataset **out,
                                                     tarn_error *err);

/* Creates a dataset of these samples, in this order. Samples may be repeated. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_select(tarn_dataset *dataset,
                                                      const uint64_t *samples,
                                                      size_t count, tarn_dataset **out,
                                                      tarn_error *err);

/* --- Orders, ranks and epochs ------------------------------------------------------ */

/* Creates a dataset of the samples in another order (tarn/order.h). rank, world_size and
 * uneven of the options select the part of one rank. epoch 0 means the epoch of the
 * dataset. An order changes with the epoch until samples are selected from it by
 * position. If several orders are applied, only the last one changes with the epoch.
 * Arrays in the options are copied. With such an array a mix stays in its current epoch,
 * because the numbers belong to its current samples. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_order(tarn_dataset *dataset,
                                                     const tarn_order_options *options,
                                                     tarn_dataset **out, tarn_error *err);

/* Creates a dataset of the part of one rank: every world_size-th sample. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_split(tarn_dataset *dataset, uint64_t rank,
                                                     uint64_t world_size,
                                                     tarn_uneven uneven,
                                                     tarn_dataset **out, tarn_error *err);

/* Creates the same dataset in another epoch, from its beginning. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_at_epoch(tarn_dataset *dataset,
                                                        uint64_t epoch,
                                                        tarn_dataset **out,
                                                        tarn_error *err);

/* Returns the dataset without the order that changes with the epoch, and without its
 * ranks, or the dataset itself if it has no such order. The result is borrowed. */
TARN_API tarn_dataset *tarn_dataset_unordered(tarn_dataset *dataset);

/* Gets the numbers of count samples, starting at position from. A number is the position
 * of a sample in tarn_dataset_unordered; it does not depend on the epoch and the rank. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_sequence(tarn_dataset *dataset,
                                                        uint64_t from, uint64_t count,
                                                        uint64_t *out, tarn_error *err);

/* Gets the state of the dataset after each rank has taken the given number of
 * samples of this epoch: one line of JSON with a fingerprint of the data and of all
 * selections and orders. The text can be reused. Free it with tarn_text_reset. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_state(tarn_dataset *dataset,
                                                     uint64_t taken, tarn_text *out,
                                                     tarn_error *err);

/* Creates a dataset that resumes from a state: the rest of the epoch, for this rank of
 * any number of ranks. After the last sample of an epoch it is the next epoch.
 * TARN_ERR_STALE, with the reason, if the state belongs to other data or to other
 * selections or orders. TARN_ERR_FORMAT if the text is not a state. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_resume(tarn_dataset *dataset,
                                                      const char *state, size_t size,
                                                      tarn_dataset **out,
                                                      tarn_error *err);

/* --- Filters -------------------------------------------------------------------------
 *
 * A filter creates a dataset of the samples that it keeps, possibly none. A filter of an
 * ordered dataset is applied before the order: shuffling a filtered dataset and filtering
 * a shuffled dataset give the same result. If positions were selected or ranks were split
 * after the order, the filter keeps samples of that selection, in their current order. */

typedef enum tarn_condition_kind {
    TARN_CONDITION_MASK = 0, /* mask: samples for which it is true */
    TARN_CONDITION_KEYS = 1, /* names: samples with these keys, including all repeats */
    /* Samples listed in the JSON file at the path name: a list of names of members or
     * files. In a fold, the folder (unless its keys include it) and everything after the
     * first dot are removed. In other storage, a name is a key. */
    TARN_CONDITION_JSON = 2,
    /* A field in these three is one of the dataset or of the file. It may be written with
     * alternatives, as in the options for opening. */
    TARN_CONDITION_HAVING = 3,  /* names: samples with all these fields */
    TARN_CONDITION_LACKING = 4, /* name: samples without this field */
    TARN_CONDITION_SIZE = 5, /* samples whose field (name) has min to max stored bytes */
    /* Records of a record pack whose column (name) has one of the values in names: text,
     * or the digits of an integer. A value that is not an integer is an error if the
     * column has integers. */
    TARN_CONDITION_COLUMN = 6,
    /* Records whose column (name) is a number from min to max; null is not. A column
     * with other values is an error. */
    TARN_CONDITION_BETWEEN = 7,
    TARN_CONDITION_WITHOUT = 8 /* names: samples with other keys than these */
} tarn_condition_kind;

typedef struct tarn_condition {
    size_t size; /* of this struct; set by the initialiser */
    tarn_condition_kind kind;
    const char *name;
    const char *const *names;
    size_t n_names;
    double min, max; /* both inclusive */

    /* One bool for each sample of tarn_dataset_unordered or, if the filter does not apply
     * before the order, of the dataset itself. */
    const bool *mask;

    /* KEYS, JSON, WITHOUT: missing keys are an error, which gives their number and the
     * first few, unless found or missing is set. found, not for JSON, is set for each
     * name. *missing is set to the number of missing keys. */
    bool *found;
    size_t *missing;

    bool numeric; /* COLUMN: the values are numbers, so a column of text is an error */
} tarn_condition;

#define TARN_CONDITION_INIT                                                              \
    {                                                                                    \
        .size = sizeof(tarn_condition), .min = -1e308, .max = 1e308                      \
    }
TARN_API void tarn_condition_init(tarn_condition *condition, size_t size);

/* Creates a dataset of the samples that meet a condition. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_filter(tarn_dataset *dataset,
                                                      const tarn_condition *condition,
                                                      tarn_dataset **out,
                                                      tarn_error *err);

/* --- Fields of the file ------------------------------------------------------------ */

/* The number of samples that have a given set of fields of the file, selected or not. The
 * names of the fields are in the order of the file, and borrowed until the dataset is
 * closed. A field that a sample has twice is listed once, and twice is the number of such
 * samples. */
typedef struct tarn_field_set {
    const char *const *fields;
    size_t n_fields;
    uint64_t samples;
    uint64_t twice;
} tarn_field_set;

typedef struct tarn_field_sets {
    const tarn_field_set *const *sets; /* most samples first */
    size_t count;
} tarn_field_sets;

/* Counts the samples for each set of fields. *out is NULL after a failure. Free it with
 * tarn_field_sets_free. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_field_sets(tarn_dataset *dataset,
                                                          tarn_field_sets **out,
                                                          tarn_error *err);
TARN_API void tarn_field_sets_free(tarn_field_sets *sets);

/* Returns the name of a field of the file, or NULL past the last. Borrowed until the
 * dataset is closed. */
TARN_API const char *tarn_dataset_file_field(const tarn_dataset *dataset,
                                             uint32_t number);

/* --- One number for each sample ------------------------------------------------------
 *
 * These are inputs of the orders in tarn/order.h: the samples per shard are buckets,
 * sizes are lengths, integers are classes, and reals are weights. */

/* Gets the number of samples in each shard, for as many shards as tarn_dataset_info
 * reports. A mix has no shards: its counts are added up by the number of the shard in
 * each source. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_shard_counts(tarn_dataset *dataset,
                                                            uint64_t *out,
                                                            tarn_error *err);

typedef enum tarn_numbers {
    TARN_NUMBERS_SIZE = 0, /* uint64_t: bytes of the field, as stored */
    /* Int64_t: from a text field such as cls, a column of a record pack, or an array with
     * one integer in each row. */
    TARN_NUMBERS_INTEGER = 1,
    /* Double: the same for any numbers. Text is decimal with a point, in every locale. */
    TARN_NUMBERS_REAL = 2
} tarn_numbers;

/* Gets one number for each sample, 8 bytes each. TARN_ERR_FORMAT, with the key of the
 * sample, if a field is not such a number or does not fit into 64 bits. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_numbers(tarn_dataset *dataset,
                                                       uint32_t field, tarn_numbers what,
                                                       void *out, tarn_error *err);

/* --- Several views of one sample ------------------------------------------------------
 *
 * For samples with fields such as f0.jpg, f0.cls, f1.jpg, f1.cls. The templates
 * "{0}.jpg", "{0}.cls" select one of f0 and f1 for each sample and epoch; "{0}.jpg",
 * "{1}.jpg" select two of them. The choice is the same as glzn's:
 * numpy.random.default_rng(seed + epoch + sample).choice. */

typedef struct tarn_views tarn_views;

#define TARN_VIEWS_SEED                                                                  \
    UINT64_C(0x0bad5eed) /* xor with the seed of a dataset gives glzn's default */

typedef struct tarn_views_options {
    size_t size;  /* of this struct; set by the initialiser */
    bool replace; /* a view may be chosen for several slots */
    uint64_t seed;
} tarn_views_options;

#define TARN_VIEWS_OPTIONS_INIT                                                          \
    {                                                                                    \
        .size = sizeof(tarn_views_options), .seed = TARN_VIEWS_SEED                      \
    }
TARN_API void tarn_views_options_init(tarn_views_options *options, size_t size);

/* Creates a chooser. A template has one dot, with the slots {0}, {1}, ... before it. The
 * templates use all slots up to the highest, and all slots have the same endings. Each
 * field of the dataset has one dot. TARN_ERR_USAGE if a rule is violated; the message
 * says which. Nothing is borrowed. Free it with tarn_views_free. */
TARN_API TARN_CHECKED tarn_status tarn_views_new(const tarn_dataset *dataset,
                                                 const char *const *templates,
                                                 size_t count,
                                                 const tarn_views_options *options,
                                                 tarn_views **out, tarn_error *err);
TARN_API void tarn_views_free(tarn_views *views);

/* Chooses the fields of the dataset for the templates and writes count field numbers to
 * out_fields. Any number of threads may call it at once. */
TARN_API TARN_CHECKED tarn_status tarn_views_choose(const tarn_views *views,
                                                    uint64_t epoch, uint64_t sample,
                                                    uint32_t *out_fields,
                                                    tarn_error *err);

/* --- Mixes ---------------------------------------------------------------------------
 *
 * A mix interleaves several datasets evenly. The j-th of the counts[k] samples of source
 * k is at (j + 1/2) / counts[k] of the mix; at equal positions the earlier source comes
 * first. A source may have its own selections and orders. It continues from one epoch of
 * the mix to the next: its n-th sample, counted over all epochs, is sample n mod len of
 * its own epoch n div len. A source with a weight of a tenth is therefore completed once
 * in ten epochs. */

typedef enum tarn_mix_end {
    TARN_MIX_FIRST = 0, /* when the first source runs out of samples for its weight */
    TARN_MIX_ALL = 1    /* when every source was completed once; the others repeat */
} tarn_mix_end;

typedef struct tarn_mix_options {
    size_t size;            /* of this struct; set by the initialiser */
    const double *weights;  /* one per source, above 0 */
    const uint64_t *counts; /* or the samples per source; NULL, without weights: all */
    uint64_t total;         /* with weights: total samples; 0: determined by end */
    tarn_mix_end end;
    /* Ends with NULL; each source must have all of them. NULL: all names of all sources,
     * and samples may lack some. */
    const char *const *fields;
} tarn_mix_options;

#define TARN_MIX_OPTIONS_INIT                                                            \
    {                                                                                    \
        .size = sizeof(tarn_mix_options)                                                 \
    }
TARN_API void tarn_mix_options_init(tarn_mix_options *options, size_t size);

/* Creates a mix of datasets. The caller still owns the sources and may close them at any
 * time. */
TARN_API TARN_CHECKED tarn_status tarn_dataset_mix(tarn_dataset *const *sources,
                                                   size_t count,
                                                   const tarn_mix_options *options,
                                                   tarn_dataset **out, tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
