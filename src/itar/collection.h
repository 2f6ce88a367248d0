/* A collection from inside: every file and value is one entry, and samples are entries
 * with one key. */
#ifndef TARN_ITAR_COLLECTION_H
#define TARN_ITAR_COLLECTION_H

#include <tarn/collect.h>

#include <sys/types.h>

#include "base/names.h"

typedef struct tarn__entry {
    uint32_t sample; /* number of its key */
    uint32_t field;
    uint32_t folder; /* number of a folder its file is in, or TARN__NAME_NONE: a value */
    uint32_t size;   /* of the value */
    uint64_t text;   /* in texts: the file's name in that folder, or the value */
} tarn__entry;

typedef struct tarn__collected {
    uint64_t hash; /* what it is sorted by */
    uint32_t key;  /* number of its key */
    uint32_t part;
    uint32_t first; /* of its entries */
    uint32_t count;
} tarn__collected;

struct tarn_collection {
    tarn_collection_options options;
    tarn__names keys, fields, folders, classes;
    tarn__buf texts;
    tarn__entry *entries;
    size_t n_entries, entry_capacity;
    size_t n_fixed;     /* classes whose number was given */
    uint32_t *class_of; /* of each key, by name number; filled if asked for */
    size_t class_capacity;
    tarn__collected *samples; /* once grouped */
    size_t n_samples;
    uint64_t files, values, passed_over;
    bool has_output; /* that exists already */
    dev_t output_dev;
    ino_t output_ino;
};

/* Adds one field of a sample: a file name in a folder, or a value. */
TARN_CHECKED tarn_status tarn__collect_file(tarn_collection *c, const char *key,
                                            size_t key_len, const char *field,
                                            size_t field_len, const char *folder,
                                            const char *name, uint32_t *out_key,
                                            tarn_error *err);
TARN_CHECKED tarn_status tarn__collect_value(tarn_collection *c, const char *key,
                                             size_t key_len, const char *field,
                                             size_t field_len, const char *value,
                                             size_t value_len, tarn_error *err);

/* Where the file of an entry is: "folder/name" in out. */
TARN_CHECKED tarn_status tarn__entry_path(const tarn_collection *c, const tarn__entry *e,
                                          tarn__buf *out, tarn_error *err);

#endif
