/* tarn/collect.h: samples that are still files and values, on their way into shards.
 *
 * A collection is filled from folders and manifests, put into an order, split over folds,
 * and then walked: files are read ahead by several threads, and each sample is handed to
 * a callback, one after the other and in order.
 *
 *     tarn_collection *c;
 *     if (tarn_collection_new(NULL, &c, &err) != TARN_OK ||
 *         tarn_collection_add_folder(c, "pictures", &err) != TARN_OK ||
 *         tarn_collection_group(c, &err) != TARN_OK ||
 *         tarn_collection_walk(c, NULL, put_into_fold, writer, &err) != TARN_OK) ...
 *
 * A collection belongs to one thread at a time.
 */
#ifndef TARN_COLLECT_H
#define TARN_COLLECT_H

#include <tarn/base.h>
#include <tarn/fold.h>
#include <tarn/index.h>
#include <tarn/write.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_collection tarn_collection;

typedef struct tarn_collection_options {
    size_t size; /* of this struct; set by the initialiser */
    /* The key of a file: its base name up to the first dot, or the path from the folder
     * given up to there, with "-" for each slash. */
    tarn_keys keys;
    bool class_from_dir; /* add a field "cls": the number of the sub-folder a sample is
                            in, among all sub-folders sorted by name, behind those of
                            tarn_collection_add_class */
    tarn_notice notice;  /* what is passed over */
    void *notice_context;
    /* A file or folder inside the folders that is no source, because the samples are
     * written there. NULL: none. It need not exist, nor outlive tarn_collection_new. */
    const char *output;
} tarn_collection_options;

#define TARN_COLLECTION_OPTIONS_INIT                                                     \
    {                                                                                    \
        sizeof(tarn_collection_options), TARN_KEYS_BASE, false, NULL, NULL, NULL         \
    }

TARN_API TARN_CHECKED tarn_status tarn_collection_new(
    const tarn_collection_options *options, tarn_collection **out, tarn_error *err);
TARN_API void tarn_collection_free(tarn_collection *collection);

/* Fixes the number of a class, before any file is added: 0 for the first, and so on. So
 * the same class has the same number in folds that are written at different times. */
TARN_API TARN_CHECKED tarn_status tarn_collection_add_class(tarn_collection *collection,
                                                            const char *name,
                                                            tarn_error *err);

/* Adds all files of a folder and of the folders in it. Links to files are followed, links
 * to folders are not; names that begin with a dot, and files without a field in their
 * name, are passed over with a notice. The folder must not be the output itself. */
TARN_API TARN_CHECKED tarn_status tarn_collection_add_folder(tarn_collection *collection,
                                                             const char *path,
                                                             tarn_error *err);

/* Adds one file, with the key and field its name says. */
TARN_API TARN_CHECKED tarn_status tarn_collection_add_file(tarn_collection *collection,
                                                           const char *path,
                                                           tarn_error *err);

/* Adds the samples of a manifest: CSV or TSV with a header line, or JSON lines, by its
 * ending (.csv, .tsv, .jsonl, .ndjson). One column or member is "key"; the others are
 * fields. A value is taken as it is where the field holds text (txt, json, cls, ...) or
 * the value is no string, and is otherwise the path of a file, from the manifest's
 * folder.
 * "@PATH" is a file in any field, and "@@" a text that begins with "@". JSON values other
 * than strings are written as JSON. No value (an empty cell, null) means no field; a line
 * without any is passed over with a notice. */
TARN_API TARN_CHECKED tarn_status tarn_collection_add_manifest(
    tarn_collection *collection, const char *path, tarn_error *err);

/* Makes samples of what was added, in the order of their first file. Nothing can be added
 * afterwards. Two files that would be one field are an error with both names. */
TARN_API TARN_CHECKED tarn_status tarn_collection_group(tarn_collection *collection,
                                                        tarn_error *err);

/* Puts the samples into an order that depends on seed and keys alone. */
TARN_API TARN_CHECKED tarn_status tarn_collection_shuffle(tarn_collection *collection,
                                                          uint64_t seed, tarn_error *err);

/* Gives each sample a part: part k + 1 gets fractions[k] of all samples, to the nearest
 * number, and part 0 the rest. Which ones depends on seed and keys alone. */
TARN_API TARN_CHECKED tarn_status tarn_collection_split(tarn_collection *collection,
                                                        const double *fractions,
                                                        size_t count, uint64_t seed,
                                                        tarn_error *err);

/* The part of one sample where the others are not known: as above, but fractions are met
 * only about. */
TARN_API unsigned tarn_part_of(const char *key, const double *fractions, size_t count,
                               uint64_t seed);

/* Keeps the samples for which keep says so. It may fail. */
typedef tarn_status (*tarn_keep)(void *context, const char *key, unsigned part,
                                 bool *out_keep, tarn_error *err);
TARN_API TARN_CHECKED tarn_status tarn_collection_filter(tarn_collection *collection,
                                                         tarn_keep keep, void *context,
                                                         tarn_error *err);

typedef struct tarn_collection_info {
    uint64_t samples, files, values;
    uint64_t passed_over; /* files, links, lines of manifests */
    uint32_t fields;
    uint32_t classes;
} tarn_collection_info;

TARN_API void tarn_collection_info_get(const tarn_collection *collection,
                                       tarn_collection_info *out);

/* The name of a class or a field, or NULL past the last. */
TARN_API const char *tarn_collection_class(const tarn_collection *collection,
                                           uint32_t number);
TARN_API const char *tarn_collection_field(const tarn_collection *collection,
                                           uint32_t number);

/* The key of a sample and its part, or NULL past the last. */
TARN_API const char *tarn_collection_key(const tarn_collection *collection,
                                         uint64_t number, unsigned *out_part);

typedef struct tarn_walk_options {
    size_t size;            /* of this struct; set by the initialiser */
    unsigned threads;       /* that read files; 0: as many as there are cores */
    tarn_progress progress; /* done and total are samples */
    void *progress_context;
} tarn_walk_options;

#define TARN_WALK_OPTIONS_INIT                                                           \
    {                                                                                    \
        sizeof(tarn_walk_options), 0, NULL, NULL                                         \
    }

/* Takes a sample. Small files are in memory, large ones are fields with a path. Called
 * from one thread at a time, in order. */
typedef tarn_status (*tarn_put)(void *context, unsigned part, const char *key,
                                const tarn_field *fields, size_t count, tarn_error *err);

TARN_API TARN_CHECKED tarn_status tarn_collection_walk(tarn_collection *collection,
                                                       const tarn_walk_options *options,
                                                       tarn_put put, void *context,
                                                       tarn_error *err);

/* The same with the samples of a fold, after filters and in their order, all in part 0.
 * Headers are looked at, and payloads compared with their checksums if the fold was
 * opened so, by several threads; fields point into the mapped shards, or into copies of a
 * few at a time where shards cannot be mapped. */
TARN_API TARN_CHECKED tarn_status tarn_fold_walk(tarn_fold *fold,
                                                 const tarn_walk_options *options,
                                                 tarn_put put, void *context,
                                                 tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
