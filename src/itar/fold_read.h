/* A fold: samples out of tar shards and their index, by the numbers of samples and
 * fields, one by one or many at once. Samples and fields must exist. The header of a
 * member is compared with its row when the row is first used, and not again while the
 * fold is open: that finds an index of other shards. A shard whose length changes is
 * found every time. Any number of threads may read from one fold; opening and closing
 * need it alone. */
#ifndef TARN_ITAR_FOLD_READ_H
#define TARN_ITAR_FOLD_READ_H

#include <tarn/folds.h>

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
} tarn__fold_options;

/* Opens "DIR:FOLD", "DIR" with one fold, "FILE.tar" or "FILE.taridx". options may be
 * NULL. */
TARN_CHECKED tarn_status tarn__fold_open(const char *path,
                                         const tarn__fold_options *options,
                                         tarn__fold **out, tarn_error *err);
void tarn__fold_close(tarn__fold *fold);

void tarn__fold_info(const tarn__fold *fold, tarn_fold_info *out);

/* How many samples there are. */
TARN_CHECKED tarn_status tarn__fold_count(tarn__fold *fold, uint64_t *out,
                                          tarn_error *err);

/* Samples come in the order of their first rows with one of these fields, as glzn has
 * them. Has to be called before anything else is asked. */
TARN_CHECKED tarn_status tarn__fold_set_lead(tarn__fold *fold, const char *const *fields,
                                             tarn_error *err);

void tarn__fold_files(const tarn__fold *fold, bool cold, tarn__files *out);

/* --- One member (fold_read.c) ------------------------------------------------------ */

/* The payload of a row, borrowed until it is released or the fold is closed. settles: the
 * caller settles afterwards, so that the length of the shard need not be looked at each
 * time (see tarn__filecache_map_lately). */
TARN_CHECKED tarn_status tarn__fold_view(tarn__fold *fold, uint64_t row, bool settles,
                                         tarn_view *out, tarn_error *err);

/* The key of the sample that a row belongs to, and the member's name in the archive, both
 * read from the shard. Either may be NULL. */
TARN_CHECKED tarn_status tarn__fold_names(tarn__fold *fold, uint64_t row, tarn_text *key,
                                          tarn_text *member, tarn_error *err);

/* --- One sample --------------------------------------------------------------------
 *
 * Functions whose fold is a void * are those of a dataset's source, as they are: see
 * tarn__source_kind. */

/* The number of its rows, and row number k of them, in file order. */
uint64_t tarn__fold_n_rows(const tarn__fold *fold, uint64_t sample);
TARN_CHECKED tarn_status tarn__fold_row_at(const tarn__fold *fold, uint64_t sample,
                                           uint64_t k, uint64_t *out_number,
                                           tarn_row *out, tarn_error *err);

/* The hash of its key, from the index. */
TARN_CHECKED tarn_status tarn__fold_key_hash(const tarn__fold *fold, uint64_t sample,
                                             uint64_t *out, tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_get(void *fold, uint64_t sample, uint32_t field,
                                        tarn_view *out, tarn_error *err);

/* All of it, with one look at each shard: the fields with these ids but for those past
 * the last and those that come a second time (firsts[i] is another number than i), whose
 * views stay as they are, as do those of fields that the sample lacks. After an error
 * the caller releases what is in out. */
TARN_CHECKED tarn_status tarn__fold_whole(void *fold, uint64_t sample,
                                          const uint32_t *ids, const uint32_t *firsts,
                                          uint32_t count, tarn_view *out, tarn_text *key,
                                          tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_key(void *fold, uint64_t sample, tarn_text *out,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_find(tarn__fold *fold, const char *key, uint64_t *out,
                                         tarn_error *err);

/* The key that a member's name stands for. */
TARN_CHECKED tarn_status tarn__fold_key_of_name(const void *fold, const char *name,
                                                tarn_text *out, tarn_error *err);

/* After something was copied or decoded out of a sample's views: an error if its shards
 * have not been whole all the while. */
TARN_CHECKED tarn_status tarn__fold_settle(void *fold, uint64_t sample, tarn_error *err);

/* --- Many (fold_batch.c, fold_keys.c) ---------------------------------------------- */

/* Where the members are, by sample and field; a field past the last stands for the
 * sample's first member. */
TARN_CHECKED tarn_status tarn__fold_locate(void *fold, tarn__item *items, size_t count,
                                           tarn_error *err);

/* The payloads of located items. */
TARN_CHECKED tarn_status tarn__fold_copy(void *fold, tarn__cold_way way,
                                         const tarn__item *items, size_t count,
                                         const tarn__target *to, tarn_error *err);

/* The keys, each with a NUL after it, appended to out; the one of samples[i] begins at
 * offsets[i]. *out_done is how many there are, on a failure too. */
TARN_CHECKED tarn_status tarn__fold_keys(void *fold, const uint64_t *samples,
                                         size_t count, struct tarn__buf *out,
                                         uint64_t *offsets, size_t *out_done,
                                         tarn_error *err);

/* --- By fields (fold_fields.c) ----------------------------------------------------- */

/* Marks which samples meet the need, one bit each, and counts them. */
TARN_CHECKED tarn_status tarn__fold_keep_by_need(tarn__fold *fold, tarn__need *need,
                                                 const tarn__numbers *samples,
                                                 unsigned char *marks, uint64_t *out_kept,
                                                 tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_sets(const tarn__fold *fold,
                                         const tarn__numbers *samples,
                                         tarn__add_fields add, void *context,
                                         tarn_error *err);

/* --- What it is -------------------------------------------------------------------- */

/* Calls add with what tells this fold's samples from others': rows and their order. */
void tarn__fold_describe(const tarn__fold *fold,
                         void (*add)(void *context, const void *data, size_t size),
                         void *context);

#endif
