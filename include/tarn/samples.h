/* tarn/samples.h: samples out of tar streams, in order, without an index.
 *
 * Members that follow each other with the same key are a sample, as WebDataset's reader
 * has it: the same keys, fields, order and bytes. Archives come from anywhere that
 * tarn/source.h reads, compressed or not, in memory that does not grow with them.
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
 * What that reader loses without a word is an error here (an archive that is damaged or
 * cut, a field twice in a sample, a field that its dictionary has no room for) or is told
 * to notice and counted (members that are part of no sample, links, samples whose members
 * do not stand together).
 *
 * A reader belongs to one thread at a time.
 */
#ifndef TARN_SAMPLES_H
#define TARN_SAMPLES_H

#include <tarn/base.h>
#include <tarn/source.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_samples tarn_samples;

/* How a member's name becomes a key and a field. All rules split the base name at its
 * first dot and lower-case the field. */
typedef enum tarn_grouping {
    /* WebDataset's, to the letter: the folder is part of the key, bytes stay as they are,
     * and d/.h.jpg is field h.jpg of sample "d/". */
    TARN_GROUP_WEBDATASET = 0,
    /* The rules of an index; see tarn_keys in tarn/index.h. */
    TARN_GROUP_PATH = 1, /* the folder is part of the key; d/.h.jpg is of no sample */
    TARN_GROUP_BASE = 2  /* the folder is dropped */
} tarn_grouping;

/* --- Opening ----------------------------------------------------------------------- */

/* Whether a sample is wanted. Of one that is not, no payload is kept. */
typedef bool (*tarn_samples_want)(void *context, const char *key, size_t key_len);

typedef struct tarn_samples_options {
    size_t size; /* of this struct; set by the initialiser */
    tarn_grouping grouping;

    /* Damage is told to notice and passed over, as in tarn/tar.h; samples that it may
     * have cost a member are marked. */
    bool lenient;
    bool keep_first; /* a field twice in a sample: the first counts, and notice is told */
    bool sizes_only; /* no payload is read into memory */

    /* Only samples that have all of these fields, and of them only these. */
    const char *const *fields;
    size_t n_fields;
    tarn_samples_want want;
    void *want_context;

    uint64_t max_sample_bytes; /* payload of one sample in memory; TARN_ERR_LIMIT above */

    /* Besides damage: members of no sample, dropped samples and duplicates, all with
     * TARN_ERR_FORMAT; samples in several places, with TARN_ERR_AMBIGUOUS; how many links
     * an archive has, with TARN_ERR_UNSUPPORTED and no offset. Of each kind the first
     * hundred are told and all are counted. */
    tarn_notice notice;
    void *notice_context;
    tarn_progress progress; /* total is 0: nobody knows it */
    void *progress_context;

    bool allow_pipe;                   /* run pipe: commands in a shell */
    const tarn_source_options *source; /* how URLs are opened; NULL: the defaults */
} tarn_samples_options;

#define TARN_MAX_SAMPLE_BYTES (UINT64_C(1) << 30) /* unless the options say otherwise */

#define TARN_SAMPLES_OPTIONS_INIT                                                        \
    {                                                                                    \
        .size = sizeof(tarn_samples_options), .max_sample_bytes = TARN_MAX_SAMPLE_BYTES  \
    }
TARN_API void tarn_samples_options_init(tarn_samples_options *options, size_t size);

/* Reads these archives one after the other; each is opened when its turn comes. Strings
 * are copied, what options point at is borrowed until the reader is closed. */
TARN_API TARN_CHECKED tarn_status tarn_samples_open(const char *const *urls, size_t count,
                                                    const tarn_samples_options *options,
                                                    tarn_samples **out, tarn_error *err);
TARN_API void tarn_samples_close(tarn_samples *samples);

/* --- Reading ----------------------------------------------------------------------- */

typedef struct tarn_samples_field {
    const char *name; /* NUL-terminated, as are the other two texts */
    size_t name_len;
    const unsigned char *data; /* NULL with sizes_only */
    uint64_t size;
    uint64_t offset;    /* of the member's header in the archive, uncompressed */
    const char *member; /* its whole name there */
    size_t member_len;
} tarn_samples_field;

typedef struct tarn_samples_item {
    const char *key;
    size_t key_len;
    const char *url; /* the archive's, as it was given */
    size_t shard;    /* and its place in the list */
    const tarn_samples_field *fields;
    size_t count;
    bool damaged; /* lenient: damage stood right before, in or behind it */
} tarn_samples_item;

/* The next sample, or TARN_END behind the last archive. All of it is borrowed until the
 * next call. A sample is returned when all its members were read, so none is ever short
 * of what an archive that ends too early would have had. After an error the reader is of
 * no more use. */
TARN_API TARN_CHECKED tarn_status tarn_samples_next(tarn_samples *samples,
                                                    tarn_samples_item *out,
                                                    tarn_error *err);

/* What has been met so far. */
typedef struct tarn_samples_report {
    uint64_t shards;      /* read to their end */
    uint64_t samples;     /* returned */
    uint64_t passed_over; /* not wanted, or without the fields */
    uint64_t dropped;     /* by a field __bad__, as WebDataset does */
    uint64_t members;     /* of samples, returned or not */
    uint64_t bytes;       /* in them */
    uint64_t unkeyed;     /* members that are of no sample: no dot, or a dot in front */
    uint64_t metadata;    /* members called __name__ or __name__/... */
    uint64_t duplicates;  /* with keep_first */
    uint64_t scattered;   /* samples whose key came before in the same archive */
    uint64_t directories, links, devices;
    uint64_t damages; /* places passed over in lenient mode */
    uint64_t lost_bytes;
} tarn_samples_report;

TARN_API void tarn_samples_report_get(const tarn_samples *samples,
                                      tarn_samples_report *out, size_t size);

/* --- Files ------------------------------------------------------------------------- */

/* Writes a sample's members as files under a folder that is made if need be, under the
 * names they have in the archive; see tarn_dataset_extract. *out_files is increased by
 * how many were written, also after an error. */
TARN_API TARN_CHECKED tarn_status tarn_samples_extract(const tarn_samples_item *item,
                                                       const char *folder, bool overwrite,
                                                       uint64_t *out_files,
                                                       tarn_error *err);

#ifdef __cplusplus
}
#endif
#endif
