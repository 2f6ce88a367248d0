/* A dataset from inside: a source, which is a file or a mix behind a table of functions,
 * and which of its samples and fields are looked at. One file of this folder for each
 * kind of source; the formats know nothing of it. */
#ifndef TARN_DATASET_DATASET_H
#define TARN_DATASET_DATASET_H

#include <stdatomic.h>

#include <tarn/dataset.h>
#include <tarn/iac.h>

#include "base/names.h"

/* Fields that are in no file. */
enum {
    TARN__FIELD_NONE = 0xffffffff,
    TARN__FIELD_IDX = 0xfffffff0,
    TARN__FIELD_KEY,
    TARN__FIELD_FID,
    TARN__FIELD_SHARD,
    TARN__FIELD_SOURCE
};

static inline bool tarn__is_pseudo(uint32_t id)
{
    return id >= TARN__FIELD_IDX;
}

/* One piece of a batch on its way: where it comes from, then where it lies, or its bytes
 * if they had to be made. */
typedef struct tarn__item {
    uint64_t sample;
    uint32_t field;
    uint32_t number; /* among the pieces */
    uint64_t size;
    uint64_t place;  /* what pieces are sorted by, where that is of use */
    uint64_t cookie; /* the kind's */
    uint32_t source; /* a mix's; what spot says */
    bool made;       /* the bytes are in view */
    tarn_view view;
} tarn__item;

/* Where the bytes of a batch go. */
typedef struct tarn__target {
    unsigned char *data;
    const uint64_t *offsets;
    uint64_t total; /* bytes of the batch */
    struct tarn__batch_io *io;
    struct tarn__item *spare; /* room for all items of the batch, to sort them */
    struct tarn__run *runs;
} tarn__target;

/* The items by ascending places, until the next call for the same target. What is in
 * memory is copied as it comes; sorting is for disks. */
const tarn__item *tarn__items_sorted(const tarn__target *target, const tarn__item *items,
                                     size_t count);

/* Which samples to keep by their fields. */
typedef struct tarn__need {
    const uint32_t *fields; /* distinct */
    size_t count;
    bool lack;        /* keep those that lack the first; otherwise that have all */
    bool may_lack;    /* keep those that lack some, too: only once counts */
    bool once;        /* one that has a field twice is an error, or */
    bool drop_twice;  /* is left out */
    bool all_is_none; /* where every sample is kept the list need not be written */
    uint64_t dropped;
} tarn__need;

/* Sample and field numbers are the source's own and in range. */
typedef struct tarn__source_kind {
    tarn_dataset_kind kind;
    void (*close)(void *state);
    tarn_status (*view)(void *state, uint64_t sample, uint32_t field, tarn_view *out,
                        tarn_error *err);
    tarn_status (*size)(void *state, uint64_t sample, uint32_t field, uint64_t *out,
                        tarn_error *err);
    tarn_status (*key)(void *state, uint64_t sample, tarn_text *out, tarn_error *err);
    /* The keys of many, each with a NUL behind it, appended to out; the one of samples[i]
     * begins at offsets[i]. *out_done is how many there are, on a failure too. NULL: one
     * by one. */
    tarn_status (*keys)(void *state, const uint64_t *samples, size_t count,
                        struct tarn__buf *out, uint64_t *offsets, size_t *out_done,
                        tarn_error *err);
    /* The first sample at or behind from. */
    tarn_status (*find)(void *state, const char *key, uint64_t from, uint64_t *out,
                        tarn_error *err);
    tarn_status (*shard)(void *state, uint64_t sample, uint32_t *out_number,
                         const char **out_path, tarn_error *err);

    /* The key, and the fields with these ids but for pseudo ones and those that come a
     * second time (firsts[i] is another number than i), whose views stay empty as do
     * those of fields that the sample lacks. After an error the caller releases what is
     * in out. NULL: view and key are called. */
    tarn_status (*whole)(void *state, uint64_t sample, const uint32_t *ids,
                         const uint32_t *firsts, uint32_t count, tarn_view *out,
                         tarn_text *key, tarn_error *err);

    /* What the bytes are; NULL: what the name says. */
    tarn_status (*form)(const void *state, uint64_t sample, uint32_t field,
                        tarn_field_form *out, tarn_error *err);
    tarn_status (*where)(void *state, uint64_t sample, uint32_t field,
                         const char **out_path, uint64_t *out_offset, tarn_error *err);

    /* A batch in two steps: size and place of each item (or its view), which may also put
     * the items into another order; then the bytes of those that were not made to data +
     * offsets[number] of the target. */
    tarn_status (*place)(void *state, tarn__item *items, size_t count, tarn_error *err);
    tarn_status (*copy)(void *state, const tarn__item *items, size_t count,
                        const tarn__target *to, tarn_error *err);

    /* After somebody copied or decoded out of a sample's views: an error if what the
     * views point into has not been whole all the while. copy does this itself. */
    tarn_status (*settle)(void *state, uint64_t sample, tarn_error *err);

    /* Where an item's bytes lie, without reading any: the file's number to source, the
     * offset to cookie, size, and a place to sort by. False if they are made or not
     * there. is_here: whether a byte of a file is in memory, as far as the caller's
     * options let that be thought. announce tells the system that bytes will be wanted. A
     * mix has its parts do all this. */
    bool (*spot)(void *state, tarn__item *item);
    bool (*is_here)(void *state, uint32_t file, uint64_t offset);
    void (*announce)(void *state, uint32_t file, uint64_t offset, uint64_t size);
    void (*announce_all)(void *state, tarn__item *items, size_t count);

    /* The samples of a list (NULL: 0 to count - 1) that meet the need, written to out,
     * which has room for count. NULL: every sample has every field. */
    tarn_status (*keep)(void *state, tarn__need *need, const uint32_t *list,
                        uint64_t count, uint32_t *out, uint64_t *out_count,
                        tarn_error *err);

    /* Calls add with the distinct fields of each sample, ascending, or of many samples at
     * once. NULL as above. */
    tarn_status (*sets)(void *state, const uint32_t *list, uint64_t count,
                        tarn_status (*add)(void *context, const uint32_t *fields,
                                           size_t n_fields, uint64_t samples,
                                           uint64_t twice, tarn_error *err),
                        void *context, tarn_error *err);

    /* NULL: a name is a key. */
    tarn_status (*key_of_name)(const void *state, const char *name, tarn_text *out,
                               tarn_error *err);
} tarn__source_kind;

typedef struct tarn__source {
    const tarn__source_kind *kind;
    void *state;
    atomic_uint users;
    char *path; /* NULL for a mix */
    uint64_t samples;
    uint32_t shards;
    tarn__names fields;
    bool cold;      /* not expected in memory */
    size_t n_plain; /* the first of them, which a dataset without a list has */
    bool repeats;   /* several samples may have one key */
    bool numbered;  /* keys are row numbers */
} tarn__source;

struct tarn_dataset {
    atomic_uint users; /* whoever opened it, and mixes */
    tarn__source *source;
    uint32_t *picked; /* ascending numbers of the source's samples; NULL: all */
    uint64_t count;
    uint32_t n_fields;
    uint32_t *ids;   /* of the fields in the source, or TARN__FIELD_... */
    uint32_t *first; /* the first field with the same id */
    char **names;
    uint64_t dropped;
};

static inline uint64_t tarn__dataset_at(const tarn_dataset *d, uint64_t sample)
{
    return d->picked ? d->picked[sample] : sample;
}

/* --- For the kinds ----------------------------------------------------------------- */

/* Each fills state, samples, shards, fields and n_plain of a source that has its kind and
 * path set; close is called whatever comes of it, unless state is NULL. */
TARN_CHECKED tarn_status tarn__open_fold(tarn__source *source,
                                         const tarn_dataset_options *options,
                                         tarn_error *err);
TARN_CHECKED tarn_status tarn__open_gnz(tarn__source *source,
                                        const tarn_dataset_options *options,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__open_iac(tarn__source *source,
                                        const tarn_dataset_options *options,
                                        tarn_error *err);
extern const tarn__source_kind tarn__kind_fold, tarn__kind_gnz, tarn__kind_iac,
    tarn__kind_members, tarn__kind_mix;

/* Whether the records of a pack are the members of samples; if so the source becomes one
 * of that kind, which owns the pack. */
TARN_CHECKED tarn_status tarn__open_members(tarn__source *source,
                                            const tarn_dataset_options *options,
                                            tarn_iac *pack, bool *out_is,
                                            tarn_error *err);

/* The pack behind a source, or NULL: for filters by a column. */
tarn_iac *tarn__source_pack(const tarn__source *source);

/* A key that is a row number: decimal digits, no zero in front. */
bool tarn__row_number(const char *key, uint64_t *out);

/* "a, b, c, ..." of names, for messages. */
char *tarn__list_names(const tarn__names *names, char *out, size_t size);

/* --- For the other files ----------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__source_new(const tarn__source_kind *kind, const char *path,
                                          tarn__source **out, tarn_error *err);
void tarn__source_release(tarn__source *source);

/* A dataset of all samples with these fields, NULL for the plain ones; takes the source
 * over if it succeeds. require is false where fields are known to be there. */
TARN_CHECKED tarn_status tarn__dataset_new(tarn__source *source,
                                           const char *const *fields, bool drop_twice,
                                           tarn_dataset **out, tarn_error *err);

/* A dataset like another with other samples; takes picked over, whatever happens. */
TARN_CHECKED tarn_status tarn__dataset_like(tarn_dataset *from, uint32_t *picked,
                                            uint64_t count, tarn_dataset **out,
                                            tarn_error *err);

/* The number of a name in the source, pseudo or not, or TARN__FIELD_NONE. */
uint32_t tarn__field_id(const tarn__source *source, const char *name);

TARN_CHECKED tarn_status tarn__check_sample(const tarn_dataset *dataset, uint64_t sample,
                                            tarn_error *err);
TARN_CHECKED tarn_status tarn__check_field(const tarn_dataset *dataset, uint32_t field,
                                           tarn_error *err);

/* The first sample with a key, of those that are at from or behind in the source.
 * *out_next is where to go on. */
TARN_CHECKED tarn_status tarn__dataset_find_from(tarn_dataset *dataset, const char *key,
                                                 uint64_t from, uint64_t *out,
                                                 uint64_t *out_next, tarn_error *err);

/* The keys of many samples, as the kind's keys gives them. numbers has room for count. */
TARN_CHECKED tarn_status tarn__dataset_keys(tarn_dataset *dataset,
                                            const uint64_t *samples, size_t count,
                                            uint64_t *numbers, struct tarn__buf *out,
                                            uint64_t *offsets, size_t *out_done,
                                            tarn_error *err);

/* The text of a pseudo field, which the view owns. */
TARN_CHECKED tarn_status tarn__pseudo(tarn_dataset *dataset, uint64_t sample, uint32_t id,
                                      tarn_view *out, tarn_error *err);

/* Tells the system that these items, real ones, will be wanted; changes them. */
void tarn__announce(const tarn__source *source, tarn__item *items, size_t count);

#endif
