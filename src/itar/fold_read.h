/* A fold: reads samples from tar shards and their index, by sample and field number, one
 * by one or many at once. Samples and fields must exist. The header of a member is
 * compared with its row when the row is first used, and not again while the fold is open,
 * unless it checks payloads, which it does at every use (see struct tarn__fold). This
 * detects an index that belongs to other shards. A change of a shard's length is detected
 * on every access. Any number of threads may read from one fold. Opening and
 * closing need exclusive access. */
#ifndef TARN_ITAR_FOLD_READ_H
#define TARN_ITAR_FOLD_READ_H

#include <tarn/folds.h>
#include <tarn/verify.h>

#include "base/need.h"
#include "io/cold.h"

struct tarn__buf;

typedef struct tarn__fold tarn__fold;

/* --- Opening (fold.c) -------------------------------------------------------------- */

/* See tarn_dataset_options. All zero: the defaults. */
typedef struct tarn__fold_options {
    tarn_io io;
    bool check, scan, by_hash;
    const tarn_index_options *index;
    const char *const *shards;
    const char *index_path; /* of remote folds: a local index to use; or NULL */
    const char *cache;      /* of remote folds: the folder; or NULL */
    struct tarn__cachedir *cachedir;
} tarn__fold_options;

/* Opens "DIR:FOLD", "DIR" with one fold, "FILE.tar", "FILE.taridx", or a URL (see
 * itar/remote_fold.h). options may be NULL. */
TARN_CHECKED tarn_status tarn__fold_open(const char *path,
                                         const tarn__fold_options *options,
                                         tarn__fold **out, tarn_error *err);
void tarn__fold_close(tarn__fold *fold);

void tarn__fold_info(const tarn__fold *fold, tarn_fold_info *out);

/* The number of samples. */
TARN_CHECKED tarn_status tarn__fold_count(tarn__fold *fold, uint64_t *out,
                                          tarn_error *err);

/* Orders the samples by their first row with one of these fields, as glzn does. Must be
 * called before any other function. */
TARN_CHECKED tarn_status tarn__fold_set_lead(tarn__fold *fold, const char *const *fields,
                                             tarn_error *err);

void tarn__fold_files(const tarn__fold *fold, bool cold, tarn__files *out);

/* --- One member (fold_read.c) ------------------------------------------------------ */

/* The payload of a row, borrowed until it is released or the fold is closed. settles: the
 * caller settles afterwards, so the length of the shard need not be checked each time
 * (see tarn__filecache_map_lately). */
TARN_CHECKED tarn_status tarn__fold_view(tarn__fold *fold, uint64_t row, bool settles,
                                         tarn_view *out, tarn_error *err);

/* The key of the sample that a row belongs to, and the member's name in the archive, both
 * read from the shard. Either may be NULL. */
TARN_CHECKED tarn_status tarn__fold_names(tarn__fold *fold, uint64_t row, tarn_text *key,
                                          tarn_text *member, tarn_error *err);

/* --- One sample --------------------------------------------------------------------
 *
 * Functions that take the fold as a void * implement a dataset's source: see
 * tarn__storage_kind. */

/* The number of its rows, and row number k of them, in file order. */
uint64_t tarn__fold_n_rows(const tarn__fold *fold, uint64_t sample);
TARN_CHECKED tarn_status tarn__fold_row_at(const tarn__fold *fold, uint64_t sample,
                                           uint64_t k, uint64_t *out_number,
                                           tarn_row *out, tarn_error *err);

/* The hash of its key, from the index. */
TARN_CHECKED tarn_status tarn__fold_key_hash(const tarn__fold *fold, uint64_t sample,
                                             uint64_t *out, tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_has(void *fold, uint64_t sample, uint32_t field,
                                        bool *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_views(void *fold, tarn__item *items, size_t count,
                                          tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_get(void *fold, uint64_t sample, uint32_t field,
                                        tarn_view *out, tarn_error *err);

/* Reads all fields with these ids, and checks each shard only once. The views of ids past
 * the last, of repeated ids (firsts[i] differs from i) and of fields that the sample
 * lacks are not changed. After an error the caller releases the views in out. */
TARN_CHECKED tarn_status tarn__fold_whole(void *fold, uint64_t sample,
                                          const uint32_t *ids, const uint32_t *firsts,
                                          uint32_t count, tarn_view *out, tarn_text *key,
                                          tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_key(void *fold, uint64_t sample, tarn_text *out,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_find(tarn__fold *fold, const char *key, uint64_t *out,
                                         tarn_error *err);

/* The key for a member's name. */
TARN_CHECKED tarn_status tarn__fold_key_of_name(const void *fold, const char *name,
                                                tarn_text *out, tarn_error *err);

/* Call after copying or decoding from a sample's views: fails if its shards were
 * truncated in the meantime. */
TARN_CHECKED tarn_status tarn__fold_settle(void *fold, uint64_t sample, tarn_error *err);

/* --- Many (fold_batch.c, fold_keys.c) ---------------------------------------------- */

/* The locations of the members, by sample and field. A field past the last stands for the
 * sample's first member. */
TARN_CHECKED tarn_status tarn__fold_locate(void *fold, tarn__item *items, size_t count,
                                           tarn_error *err);

/* The payloads of located items. */
TARN_CHECKED tarn_status tarn__fold_copy(void *fold, tarn__cold_way way,
                                         const tarn__item *items, size_t count,
                                         const tarn__target *to, tarn_error *err);

/* Appends the keys to out, each terminated by NUL; the key of samples[i] starts at
 * offsets[i]. *out_done is the number of keys, also after a failure. */
TARN_CHECKED tarn_status tarn__fold_keys(void *fold, const uint64_t *samples,
                                         size_t count, struct tarn__buf *out,
                                         uint64_t *offsets, size_t *out_done,
                                         tarn_error *err);

/* --- By fields (fold_fields.c) ----------------------------------------------------- */

/* Sets one bit for each sample that meets the need, and counts these samples. */
TARN_CHECKED tarn_status tarn__fold_keep_by_need(tarn__fold *fold, tarn__need *need,
                                                 const tarn__numbers *samples,
                                                 unsigned char *marks, uint64_t *out_kept,
                                                 tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_sets(const tarn__fold *fold,
                                         const tarn__numbers *samples,
                                         tarn__add_fields add, void *context,
                                         tarn_error *err);

/* --- Checking (verify.c) ----------------------------------------------------------- */

/* See tarn_verify; path is a folder, fold, index, archive or stream. */
TARN_CHECKED tarn_status tarn__fold_verify(const char *path,
                                           const tarn_verify_options *options,
                                           tarn_verify_report *report, tarn_error *err);

/* --- Identity ---------------------------------------------------------------------- */

/* Calls add with the data that identifies the samples of this fold: rows and their
 * order. */
void tarn__fold_describe(const tarn__fold *fold,
                         void (*add)(void *context, const void *data, size_t size),
                         void *context);

#endif
