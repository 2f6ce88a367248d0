/* tarn/samples.h: reads samples from tar streams, in order and without an index.
 *
 * Consecutive members with the same key form a sample, as in WebDataset's reader: the
 * same keys, fields, order and bytes. Archives come from any place that tarn/source.h
 * reads, compressed or not. Memory use does not grow with the archives.
 *
 *     const char *urls[] = {"https://host/train-000000.tar", "train-000001.tar.gz"};
 *     tarn_samples *in;
 *     tarn_samples_item it;
 *     if (tarn_samples_open(urls, 2, NULL, &in, &err) != TARN_OK) return fail(&err);
 *     while ((status = tarn_samples_next(in, &it, &err)) == TARN_OK)
 *         for (size_t i = 0; i < it.count; i++)
 *             use(it.key, it.fields[i].name, it.fields[i].data, it.fields[i].size);
 *     tarn_samples_close(in);
 *     if (status != TARN_END) return fail(&err);
 *
 * Data that WebDataset's reader loses silently is either an error here (a damaged or
 * truncated archive, a duplicate field in a sample, a field that does not fit into
 * WebDataset's dictionary), or is counted and reported to notice (members that belong to
 * no sample, links, samples whose members are not consecutive).
 *
 * Only one thread at a time may use a reader.
 */
#ifndef TARN_SAMPLES_H
#define TARN_SAMPLES_H

#include <tarn/base.h>
#include <tarn/source.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_samples tarn_samples;

/* How the name of a member is split into a key and a field. All rules split the base name
 * at its first dot and convert the field to lower case. */
typedef enum tarn_grouping {
    /* Exactly WebDataset's rule: the folder is part of the key, bytes are kept unchanged,
     * and d/.h.jpg is field h.jpg of sample "d/". */
    TARN_GROUP_WEBDATASET = 0,
    /* The rules of an index; see tarn_keys in tarn/index.h. */
    TARN_GROUP_PATH = 1, /* the folder is part of the key; d/.h.jpg has no sample */
    TARN_GROUP_BASE = 2  /* the folder is dropped */
} tarn_grouping;

/* --- Opening ----------------------------------------------------------------------- */

/* Returns whether a sample is wanted. The payloads of other samples are not kept. */
typedef bool (*tarn_samples_want)(void *context, const char *key, size_t key_len);

typedef struct tarn_samples_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_grouping grouping;

    /* Report damage to notice and skip it, as in tarn/tar.h. Samples that may have lost a
     * member are marked as damaged. */
    bool lenient;
    bool keep_first; /* on duplicate fields, keep the first and call notice */
    bool sizes_only; /* do not read payloads into memory */

    /* Return only samples that have all of these fields, and only these fields of
     * them. */
    const char *const *fields;
    size_t n_fields;
    tarn_samples_want want;
    void *want_context;

    /* Payload of one sample in memory; TARN_ERR_LIMIT if it is larger. */
    uint64_t max_sample_bytes;

    /* Called, in addition to damage, for: members without a sample, dropped samples and
     * duplicates, all with TARN_ERR_FORMAT; samples in several places, with
     * TARN_ERR_AMBIGUOUS; the number of links in an archive, with TARN_ERR_UNSUPPORTED
     * and no offset. The first hundred of each kind are reported, and all are counted. */
    tarn_notice notice;
    void *notice_context;
    tarn_progress progress; /* total is 0, because it is unknown */
    void *progress_context;

    bool allow_pipe;                   /* run pipe: commands in a shell */
    const tarn_source_options *source; /* how URLs are opened; NULL: the defaults */
} tarn_samples_options;

#define TARN_MAX_SAMPLE_BYTES (UINT64_C(1) << 30) /* the default */

#define TARN_SAMPLES_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_samples_options), .max_sample_bytes = TARN_MAX_SAMPLE_BYTES  \
    }
TARN_API void tarn_samples_options_init(tarn_samples_options *options, size_t size);

/* Opens a reader for archives, which are read in order. Each archive is opened when the
 * reader reaches it. The URLs are copied; memory that options point to is borrowed until
 * the reader is closed. options may be NULL. Close the reader with tarn_samples_close. */
TARN_API TARN_CHECKED tarn_status tarn_samples_open(const char *const *urls, size_t count,
                                                    const tarn_samples_options *options,
                                                    tarn_samples **out, tarn_error *err);
TARN_API void tarn_samples_close(tarn_samples *samples);

/* --- Reading ----------------------------------------------------------------------- */

typedef struct tarn_samples_field {
    const char *name; /* NUL-terminated, like the other two strings */
    size_t name_len;
    const unsigned char *data; /* NULL with sizes_only */
    uint64_t size;
    uint64_t offset;    /* of the member's header in the uncompressed archive */
    const char *member; /* the full name of the member */
    size_t member_len;
} tarn_samples_field;

typedef struct tarn_samples_item {
    const char *key;
    size_t key_len;
    const char *url; /* URL of the archive, as passed to open */
    size_t shard;    /* index of that URL in the list */
    const tarn_samples_field *fields;
    size_t count;
    bool damaged; /* lenient: damage right before, in or after it */
} tarn_samples_item;

/* Gets the next sample, or TARN_END after the last archive. Everything in it is borrowed
 * until the next call. A sample is returned only after all of its members have been read,
 * so a truncated archive never gives incomplete samples. After an error the reader cannot
 * be used further. */
TARN_API TARN_CHECKED tarn_status tarn_samples_next(tarn_samples *samples,
                                                    tarn_samples_item *out,
                                                    tarn_error *err);

/* After an error of tarn_samples_next: gets the sample that was being read, with the
 * members that were read completely, or TARN_END if there is none. It may lack fields. */
TARN_API TARN_CHECKED tarn_status tarn_samples_unfinished(tarn_samples *samples,
                                                          tarn_samples_item *out,
                                                          tarn_error *err);

/* Counts up to the current position. */
typedef struct tarn_samples_report {
    uint64_t shards;      /* archives read to their end */
    uint64_t samples;     /* returned */
    uint64_t passed_over; /* not wanted, or without the required fields */
    uint64_t dropped;     /* because of a field __bad__, as in WebDataset */
    uint64_t members;     /* members of samples, returned or not */
    uint64_t bytes;       /* bytes in these members */
    uint64_t unkeyed;     /* members without a sample: no dot, or a leading dot */
    uint64_t metadata;    /* members named __name__ or __name__/... */
    uint64_t duplicates;  /* with keep_first */
    uint64_t scattered;   /* samples whose key occurred earlier in the same archive */
    uint64_t directories, links, devices;
    uint64_t damages; /* damaged places skipped in lenient mode */
    uint64_t lost_bytes;
} tarn_samples_report;

/* Fills *out, of size bytes. */
TARN_API void tarn_samples_report_get(const tarn_samples *samples,
                                      tarn_samples_report *out, size_t size);

/* --- Files ------------------------------------------------------------------------- */

/* Writes the members of a sample as files, under the names that they have in the archive,
 * into a folder, which is created if it does not exist; see tarn_dataset_extract.
 * *out_files is increased by the number of files written, even after an error. */
TARN_API TARN_CHECKED tarn_status tarn_samples_extract(const tarn_samples_item *item,
                                                       const char *folder, bool overwrite,
                                                       uint64_t *out_files,
                                                       tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
