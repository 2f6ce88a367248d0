/* Reading a fold by the numbers of its samples and fields, one by one or many at once.
 * Samples and fields must be there; the fold has no filter. The header of a member is
 * compared with its row when the row is first used, and not again while the fold is open:
 * that finds an index of other shards. A shard whose length changes is found every time.
 * All of this may be called by several threads at once. */
#ifndef TARN_ITAR_FOLD_READ_H
#define TARN_ITAR_FOLD_READ_H

#include <tarn/fold.h>

#include "base/need.h"
#include "io/cold.h"

struct tarn__buf;

/* --- Before reading (fold_rows.c) -------------------------------------------------- */

/* Samples come in the order of their first rows with one of these fields, as glzn has
 * them. Has to be called before anything else is asked. */
TARN_CHECKED tarn_status tarn__fold_set_lead(tarn_fold *fold, const char *const *fields,
                                             tarn_error *err);

/* TARN_ERR_USAGE if the fold has a filter. */
TARN_CHECKED tarn_status tarn__fold_check_whole(tarn_fold *fold, tarn_error *err);

void tarn__fold_files(const tarn_fold *fold, bool cold, tarn__files *out);

/* --- One sample -------------------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__fold_get(tarn_fold *fold, uint64_t sample, uint32_t field,
                                        tarn_view *out, tarn_error *err);

/* All of it, with one look at each shard: the fields with these ids but for those past
 * the last and those that come a second time (firsts[i] is another number than i), whose
 * views stay as they are, as do those of fields that the sample lacks. After an error
 * the caller releases what is in out. */
TARN_CHECKED tarn_status tarn__fold_whole(tarn_fold *fold, uint64_t sample,
                                          const uint32_t *ids, const uint32_t *firsts,
                                          uint32_t count, tarn_view *out, tarn_text *key,
                                          tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_key(tarn_fold *fold, uint64_t sample, tarn_text *out,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__fold_find(tarn_fold *fold, const char *key, uint64_t *out,
                                         tarn_error *err);

/* The key that a member's name stands for. */
TARN_CHECKED tarn_status tarn__fold_key_of_name(const tarn_fold *fold, const char *name,
                                                tarn_text *out, tarn_error *err);

/* After something was copied or decoded out of a sample's views: an error if its shards
 * have not been whole all the while. */
TARN_CHECKED tarn_status tarn__fold_settle(const tarn_fold *fold, uint64_t sample,
                                           tarn_error *err);

/* --- Many (fold_batch.c, fold_keys.c) ---------------------------------------------- */

/* Where the members are, by sample and field; a field past the last stands for the
 * sample's first member. */
TARN_CHECKED tarn_status tarn__fold_locate(tarn_fold *fold, tarn__item *items,
                                           size_t count, tarn_error *err);

/* The payloads of located items. */
TARN_CHECKED tarn_status tarn__fold_copy(tarn_fold *fold, tarn__cold_way way,
                                         const tarn__item *items, size_t count,
                                         const tarn__target *to, tarn_error *err);

/* The keys, each with a NUL after it, appended to out; the one of samples[i] begins at
 * offsets[i]. *out_done is how many there are, on a failure too. */
TARN_CHECKED tarn_status tarn__fold_keys(tarn_fold *fold, const uint64_t *samples,
                                         size_t count, struct tarn__buf *out,
                                         uint64_t *offsets, size_t *out_done,
                                         tarn_error *err);

/* --- By fields (fold_fields.c) ----------------------------------------------------- */

/* Marks which samples meet the need, one bit each, and counts them. */
TARN_CHECKED tarn_status tarn__fold_keep_by_need(tarn_fold *fold, tarn__need *need,
                                                 const tarn__numbers *samples,
                                                 unsigned char *marks, uint64_t *out_kept,
                                                 tarn_error *err);

TARN_CHECKED tarn_status tarn__fold_sets(const tarn_fold *fold,
                                         const tarn__numbers *samples,
                                         tarn__add_fields add, void *context,
                                         tarn_error *err);

/* --- What it is -------------------------------------------------------------------- */

/* Calls add with what tells this fold's samples from others': rows and their order. */
void tarn__fold_describe(const tarn_fold *fold,
                         void (*add)(void *context, const void *data, size_t size),
                         void *context);

#endif
