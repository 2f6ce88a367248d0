/* Samples that are still files and values and will be written into shards. A collection
 * is filled from folders and manifests, ordered, split into folds, and then walked:
 * several threads read files ahead, and each sample is passed to a callback, in order.
 *
 * Every file and every value is one entry; entries with the same key form a sample. A
 * collection may be used by one thread at a time. */
#ifndef TARN_ITAR_COLLECTION_H
#define TARN_ITAR_COLLECTION_H

#include <tarn/pack.h>

#include "base/names.h"
#include "io/tree.h"

typedef struct tarn__entry {
    uint32_t sample; /* number of its key */
    uint32_t field;
    uint32_t folder; /* number of the file's folder, or TARN__NAME_NONE for a value */
    uint32_t size;   /* of the value */
    uint64_t text;   /* in texts: the file's name in that folder, or the value */
} tarn__entry;

typedef struct tarn__collected {
    uint64_t hash; /* sort key */
    uint32_t key;  /* number of its key */
    uint32_t part;
    uint32_t first; /* index of its first entry */
    uint32_t count;
} tarn__collected;

/* Whether the content of a field is valid. Called by several threads at once. */
typedef tarn_status (*tarn__check_field)(const char *field, const void *data, size_t size,
                                         tarn_error *err);

typedef struct tarn__collection_options {
    tarn_keys keys;
    bool class_from_dir; /* add a field "cls"; see tarn/pack.h */
    unsigned class_level;
    const char *root; /* of relative paths in manifests; NULL: the manifest's folder */
    tarn__globs globs;
    const tarn_pack_rename *renames;
    size_t n_renames;
    tarn__check_field check; /* called for each field while walking; may be NULL */
    bool skip_bad; /* with check: leave out samples with bad fields, otherwise fail */
    tarn_notice notice; /* gets skipped files */
    void *notice_context;
    const char *output; /* not a source; need not exist nor outlive the call */
} tarn__collection_options;

typedef struct tarn__collection {
    tarn__collection_options options;
    tarn__names keys, fields, folders, classes;
    tarn__buf texts;
    tarn__entry *entries;
    size_t n_entries, entry_capacity;
    size_t n_fixed;     /* number of classes with a fixed number */
    uint32_t *class_of; /* class of each key, by name number; filled on request */
    size_t class_capacity;
    tarn__collected *samples; /* once grouped */
    size_t n_samples;
    uint64_t files, values, skipped;
    uint64_t bad;    /* fields that check rejected */
    tarn__tree tree; /* knows the output */
} tarn__collection;

/* options may be NULL, which is the same as all zero. */
TARN_CHECKED tarn_status tarn__collection_new(const tarn__collection_options *options,
                                              tarn__collection **out, tarn_error *err);
void tarn__collection_free(tarn__collection *collection);

/* Fixes the number of a class, before any file is added: 0 for the first, and so on. This
 * gives a class the same number in folds that are written at different times. */
TARN_CHECKED tarn_status tarn__collection_add_class(tarn__collection *c, const char *name,
                                                    size_t len, tarn_error *err);

/* Add all files of a folder, one file, and the samples of a manifest. */
TARN_CHECKED tarn_status tarn__collection_add_folder(tarn__collection *c,
                                                     const char *path, tarn_error *err);
TARN_CHECKED tarn_status tarn__collection_add_file(tarn__collection *c, const char *path,
                                                   tarn_error *err);
TARN_CHECKED tarn_status tarn__collection_add_manifest(tarn__collection *c,
                                                       const char *path, tarn_error *err);

/* Groups the entries into samples, in the order of their first file. Nothing can be added
 * afterwards. Two files for the same field are an error that names both. */
TARN_CHECKED tarn_status tarn__collection_group(tarn__collection *c, tarn_error *err);

/* Puts the samples into an order that depends only on seed and keys. */
TARN_CHECKED tarn_status tarn__collection_shuffle(tarn__collection *c, uint64_t seed,
                                                  tarn_error *err);

/* Assigns each sample to a part: part k + 1 gets fractions[k] of all samples, to the
 * nearest number, and part 0 the rest. The choice depends only on seed and keys. */
TARN_CHECKED tarn_status tarn__collection_split(tarn__collection *c,
                                                const double *fractions, size_t count,
                                                uint64_t seed, tarn_error *err);

/* Keeps the samples for which keep sets *out_keep. It may fail. */
typedef tarn_status (*tarn__keep)(void *context, const char *key, unsigned part,
                                  bool *out_keep, tarn_error *err);
TARN_CHECKED tarn_status tarn__collection_filter(tarn__collection *c, tarn__keep keep,
                                                 void *context, tarn_error *err);

/* Keeps samples number first to end - 1. */
TARN_CHECKED tarn_status tarn__collection_slice(tarn__collection *c, size_t first,
                                                size_t end, tarn_error *err);

/* The key of a sample and its part, or NULL past the last. */
const char *tarn__collection_key(const tarn__collection *c, uint64_t number,
                                 unsigned *out_part);

/* Passes each sample to put. Small files are in memory; large files are fields with a
 * path. Fields that check rejects get a notice, and their samples are not passed on.
 * Without skip_bad, the walk then fails at its end. */
TARN_CHECKED tarn_status tarn__collection_walk(tarn__collection *c,
                                               const tarn_walk_options *options,
                                               tarn_put put, void *context,
                                               tarn_error *err);

/* Like tarn__collection_walk, but opens no files: fields that are files have their
 * path. */
TARN_CHECKED tarn_status tarn__collection_list(tarn__collection *c, tarn_put put,
                                               void *context, tarn_error *err);

/* Adds one field of a sample: a file name in a folder, or a value. */
TARN_CHECKED tarn_status tarn__collect_file(tarn__collection *c, const char *key,
                                            size_t key_len, const char *field,
                                            size_t field_len, const char *folder,
                                            const char *name, uint32_t *out_key,
                                            tarn_error *err);
TARN_CHECKED tarn_status tarn__collect_value(tarn__collection *c, const char *key,
                                             size_t key_len, const char *field,
                                             size_t field_len, const char *value,
                                             size_t value_len, tarn_error *err);

/* The path of an entry's file, "folder/name", in out. */
TARN_CHECKED tarn_status tarn__entry_path(const tarn__collection *c, const tarn__entry *e,
                                          tarn__buf *out, tarn_error *err);

#endif
