/* A dataset from inside: a source, which is a file or a mix with a table of functions,
 * the chain that selects and orders its samples, and the fields that are selected. One
 * file of this folder for each kind of source; the formats know nothing of it.
 *
 * A sample has three numbers. Its position is where it comes in the dataset. Its number
 * is where it is in the dataset without the order that changes with the epoch; the two
 * are the same where there is none. Its row is the source's own number, below the whole
 * chain. */
#ifndef TARN_DATASET_DATASET_H
#define TARN_DATASET_DATASET_H

#include <stdatomic.h>

#include <tarn/dataset.h>
#include <tarn/iac.h>

#include "base/names.h"
#include "base/need.h"
#include "dataset/chain.h"
#include "io/cold.h"

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

struct tarn__source;

/* Sample and field numbers are the source's own and in range. */
typedef struct tarn__source_kind {
    tarn_dataset_kind kind;
    void (*close)(void *state);

    /* Of a mix: the source that has a sample, with the sample's and the field's number
     * there; the field may be TARN__FIELD_NONE. A mix has no locate, view, key, form,
     * copy and settle: its parts are asked. NULL: the source has files itself. */
    tarn_status (*resolve)(void *state, struct tarn__source **out_source,
                           uint64_t *sample, uint32_t *field, tarn_error *err);

    /* Where the bytes of some items are: sample and field are given, spot is set. Where
     * the source has several files the field may be TARN__FIELD_NONE, for the sample's
     * first member. */
    tarn_status (*locate)(void *state, tarn__item *items, size_t count, tarn_error *err);
    tarn_status (*view)(void *state, uint64_t sample, uint32_t field, tarn_view *out,
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

    /* The key, and the fields with these ids but for pseudo ones and those that come a
     * second time (firsts[i] is another number than i), whose views stay empty as do
     * those of fields that the sample lacks. After an error the caller releases what is
     * in out. NULL: view and key are called. */
    tarn_status (*whole)(void *state, uint64_t sample, const uint32_t *ids,
                         const uint32_t *firsts, uint32_t count, tarn_view *out,
                         tarn_text *key, tarn_error *err);

    /* What the bytes are; NULL: what the name says. */
    tarn_status (*form)(void *state, uint32_t field, tarn_field_form *out,
                        tarn_error *err);

    /* The bytes of items that were located and need not be made, to data +
     * offsets[number] of the target. For other ways than TARN__COLD_COPY the items are
     * sorted; they have been announced if that is the way. */
    tarn_status (*copy)(void *state, tarn__cold_way way, const tarn__item *items,
                        size_t count, const tarn__target *to, tarn_error *err);

    /* After somebody copied or decoded out of a sample's views: an error if what the
     * views point into has not been whole all the while. copy does this itself. */
    tarn_status (*settle)(void *state, uint64_t sample, tarn_error *err);

    /* Marks which of the first count samples of a chain meet the need, one bit each, and
     * counts them. NULL: every sample has every field. */
    tarn_status (*keep)(void *state, tarn__need *need, const tarn__chain *chain,
                        uint64_t count, unsigned char *marks, uint64_t *out_kept,
                        tarn_error *err);

    /* Calls add with the distinct fields of each sample, ascending, or of many samples at
     * once. NULL as above. */
    tarn_status (*sets)(void *state, const tarn__chain *chain, uint64_t count,
                        tarn__add_fields add, void *context, tarn_error *err);

    /* Appends what tells this data from other data: a text about its index. */
    tarn_status (*describe)(void *state, struct tarn__buf *out, tarn_error *err);

    /* NULL: a name is a key. */
    tarn_status (*key_of_name)(const void *state, const char *name, tarn_text *out,
                               tarn_error *err);
} tarn__source_kind;

typedef struct tarn__source {
    const tarn__source_kind *kind;
    tarn__files files; /* of a mix: none */
    void *state;
    atomic_uint users;
    char *path; /* NULL for a mix */
    uint64_t samples;
    uint32_t shards;
    tarn__names fields;
    bool cold;            /* not expected in memory */
    size_t n_plain;       /* the first of them, which a dataset without a list has */
    bool repeats;         /* several samples may have one key */
    bool numbered;        /* keys are row numbers */
    _Atomic(char *) text; /* what describe said, once it was asked; NULL before */
} tarn__source;

/* The source that has the bytes of a sample: of a mix that of a part, whose numbers
 * sample and field become. */
TARN_CHECKED static inline tarn_status tarn__leaf(tarn__source **source, uint64_t *sample,
                                                  uint32_t *field, tarn_error *err)
{
    while ((*source)->kind->resolve)
        TARN_TRY((*source)->kind->resolve((*source)->state, source, sample, field, err));
    return TARN_OK;
}

/* Where a field of a sample is: both become those of *source, the one that has it. */
TARN_CHECKED static inline tarn_status tarn__locate_field(tarn__source **source,
                                                          uint64_t sample, uint32_t field,
                                                          tarn__item *out,
                                                          tarn_error *err)
{
    TARN_TRY(tarn__leaf(source, &sample, &field, err));
    out->sample = sample;
    out->field = field;
    return (*source)->kind->locate((*source)->state, out, 1, err);
}

/* The fields of a dataset; those made from it share them. */
typedef struct tarn__fieldset {
    atomic_uint users;
    uint32_t count;
    uint32_t *ids;   /* in the source, or TARN__FIELD_... */
    uint32_t *first; /* the first field with the same id */
    char **names;
} tarn__fieldset;

struct tarn_dataset {
    atomic_uint users; /* handles, mixes and loaders */
    tarn__source *source;
    tarn__chain chain;
    uint64_t count; /* positions */
    uint64_t epoch;
    bool live; /* of a mix whose epoch changes: no position was chosen yet */

    /* With an order that changes with the epoch: the dataset without it, which has no
     * order of its own. The chain above is empty then. */
    tarn_dataset *base;
    tarn_order *order;

    tarn__fieldset *fieldset;
    uint32_t n_fields; /* what follows is the fieldset's */
    const uint32_t *ids, *first;
    char *const *names;
    uint64_t dropped;
};

/* The row of a number, in a dataset that has no order. */
static inline uint64_t tarn__dataset_at(const tarn_dataset *d, uint64_t number)
{
    return tarn__chain_at(&d->chain, number);
}

/* Whether the file of a number was whole while its views were used. */
TARN_CHECKED static inline tarn_status tarn__settle(tarn_dataset *d, uint64_t number,
                                                    tarn_error *err)
{
    uint32_t none = TARN__FIELD_NONE;
    tarn__source *s = d->source;
    uint64_t row = tarn__dataset_at(d, number);
    TARN_TRY(tarn__leaf(&s, &row, &none, err));
    return s->kind->settle(s->state, row, err);
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

/* The fold behind a source, or NULL: for members (itar/fold_read.h). */
struct tarn__fold *tarn__source_fold(const tarn__source *source);

/* The pack behind a source, or NULL: for filters by a column. */
tarn_iac *tarn__source_pack(const tarn__source *source);

/* What the two kinds of packs begin with (kind_iac.c). */
typedef struct tarn__pack {
    tarn_iac *iac;
    tarn_iac_info info;
    tarn__source *source;
    bool decode; /* payloads are decompressed */
} tarn__pack;

tarn__pack tarn__pack_of(tarn_iac *iac, tarn__source *source,
                         const tarn_dataset_options *options);

/* The bytes of a record, where they are, and those of some records. */
TARN_CHECKED tarn_status tarn__pack_view(const tarn__pack *pack, uint64_t record,
                                         tarn_view *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__pack_locate(const tarn__pack *pack, uint64_t record,
                                           tarn__spot *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__pack_copy(void *pack, tarn__cold_way way,
                                         const tarn__item *items, size_t count,
                                         const tarn__target *to, tarn_error *err);
TARN_CHECKED tarn_status tarn__pack_settle(void *pack, uint64_t sample, tarn_error *err);

/* What tells the records of a pack from others. */
TARN_CHECKED tarn_status tarn__pack_describe(void *pack, struct tarn__buf *out,
                                             tarn_error *err);

/* Keys that are row numbers: decimal digits, no zero in front. */
TARN_CHECKED tarn_status tarn__row_key(uint64_t row, tarn_text *out, tarn_error *err);

/* Whether a key is the number of a row, from from on and below count. */
bool tarn__find_row(const char *key, uint64_t from, uint64_t count, uint64_t *out);

/* "a, b, c, ..." of names, for messages. */
char *tarn__list_names(const tarn__names *names, char *out, size_t size);

/* --- For the other files ----------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__source_new(const tarn__source_kind *kind, const char *path,
                                          tarn__source **out, tarn_error *err);
void tarn__source_release(tarn__source *source);

/* A dataset of all samples with these fields, NULL for the plain ones; takes the source
 * over if it succeeds. */
TARN_CHECKED tarn_status tarn__dataset_new(tarn__source *source,
                                           const char *const *fields, bool drop_ambiguous,
                                           tarn_dataset **out, tarn_error *err);

/* A dataset with the same source, fields and samples as one that has no order; its chain
 * is the caller's to extend until it is handed out. */
TARN_CHECKED tarn_status tarn__dataset_like(tarn_dataset *from, tarn_dataset **out,
                                            tarn_error *err);

/* Gives a dataset that is not handed out yet other fields; the list ends with NULL. */
TARN_CHECKED tarn_status tarn__dataset_set_fields(tarn_dataset *dataset,
                                                  const char *const *fields,
                                                  tarn_error *err);

tarn_dataset *tarn__dataset_use(tarn_dataset *dataset);

/* --- select.c ---------------------------------------------------------------------- */

/* The dataset in an order, both of which are taken over whatever happens. */
TARN_CHECKED tarn_status tarn__dataset_ordered(tarn_dataset *base, tarn_order *order,
                                               tarn_dataset **out, tarn_error *err);

/* The dataset without an order, and its order: one of nothing, where there is none. Both
 * are the caller's. */
TARN_CHECKED tarn_status tarn__dataset_parts(tarn_dataset *dataset, tarn_dataset **base,
                                             tarn_order **order, tarn_error *err);

/* Both in another epoch, from a position of it. */
TARN_CHECKED tarn_status tarn__dataset_base_at(tarn_dataset *base, uint64_t epoch,
                                               tarn_dataset **out, tarn_error *err);

/* The samples that are marked, one bit for each of the dataset without its order. The
 * filter goes below the order where that is whole, otherwise on top. */
TARN_CHECKED tarn_status tarn__dataset_keep(tarn_dataset *dataset,
                                            const unsigned char *marks,
                                            tarn_dataset **out, tarn_error *err);

/* What a filter judges: the dataset without its order where the filter goes below that,
 * otherwise the samples as they come, without an order. The caller's. */
TARN_CHECKED tarn_status tarn__dataset_judged(tarn_dataset *dataset, tarn_dataset **out,
                                              tarn_error *err);

/* The number of a name in the source, pseudo or not, or TARN__FIELD_NONE. */
uint32_t tarn__field_id(const tarn__source *source, const char *name);

/* Checks a position; then *dataset is the one without an order, and *sample the number.
 */
TARN_CHECKED tarn_status tarn__resolve(tarn_dataset **dataset, uint64_t *sample,
                                       tarn_error *err);

enum { TARN__PIECE = 1024 }; /* positions that stay in the cache from step to step */

/* The numbers of a piece of positions; how many there are. */
uint64_t tarn__dataset_numbers(const tarn_dataset *dataset, uint64_t from,
                               uint64_t at[TARN__PIECE]);

/* Where a number is, without its field. */
TARN_CHECKED tarn_status tarn__dataset_place(tarn_dataset *dataset, uint64_t number,
                                             tarn_place *out, tarn_error *err);

/* The sizes of a field of all samples. */
TARN_CHECKED tarn_status tarn__dataset_sizes(tarn_dataset *dataset, uint32_t field,
                                             uint64_t *out, tarn_error *err);

/* How many bytes a field of a row has, as stored. */
TARN_CHECKED tarn_status tarn__field_size(tarn__source *source, uint64_t row,
                                          uint32_t field, uint64_t *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__check_field(const tarn_dataset *dataset, uint32_t field,
                                           tarn_error *err);

/* The first position with a key, at or after from. */
TARN_CHECKED tarn_status tarn__dataset_find_from(tarn_dataset *dataset, const char *key,
                                                 uint64_t from, uint64_t *out,
                                                 tarn_error *err);

/* Rows that have a key, in the order of the source. */
typedef struct tarn__rows {
    uint64_t *items;
    size_t count, capacity;
} tarn__rows;

/* The rows that have the key, at least one, or TARN_ERR_NO_SAMPLE; what is in out is
 * replaced, and its items are freed by the caller. */
TARN_CHECKED tarn_status tarn__dataset_rows_of(tarn_dataset *dataset, const char *key,
                                               tarn__rows *out, tarn_error *err);

/* Where rows come in a dataset whose numbers do not ascend, for many questions at once: a
 * row and a position each, sorted. Freed by free. */
TARN_CHECKED tarn_status tarn__dataset_places(tarn_dataset *dataset,
                                              struct tarn__run **out, tarn_error *err);

/* The keys of many numbers, as the kind's keys gives them. rows has room for count. */
TARN_CHECKED tarn_status tarn__dataset_keys(tarn_dataset *dataset,
                                            const uint64_t *numbers, size_t count,
                                            uint64_t *rows, struct tarn__buf *out,
                                            uint64_t *offsets, size_t *out_done,
                                            tarn_error *err);

/* The text of a pseudo field of a number, which the view owns. */
TARN_CHECKED tarn_status tarn__pseudo(tarn_dataset *dataset, uint64_t sample, uint32_t id,
                                      tarn_view *out, tarn_error *err);

/* The templates of views; NULL past the last. */
const char *tarn__views_template(const tarn_views *views, size_t number);

/* --- members.c --------------------------------------------------------------------- */

/* What a sample has, as it is stored; used again and again, begins as all zero. */
typedef struct tarn__members {
    struct tarn_stored *items;
    size_t count, capacity;
} tarn__members;

TARN_CHECKED tarn_status tarn__members_get(tarn_dataset *dataset, uint64_t sample,
                                           tarn__members *out, tarn_error *err);

/* The bytes of one of them; the caller settles afterwards. */
TARN_CHECKED tarn_status tarn__member_view(tarn_dataset *dataset, uint64_t sample,
                                           const struct tarn_stored *member,
                                           tarn_view *out, tarn_error *err);

/* --- state.c ----------------------------------------------------------------------- */

/* The state after some positions of an epoch, as JSON on one line. */
TARN_CHECKED tarn_status tarn__state_text(tarn_dataset *base, const tarn_order *order,
                                          uint64_t used, tarn_text *out, tarn_error *err);

/* Where a state of this dataset stands. *out is the dataset, or, for a mix with other
 * weights than those of the state, one whose sources continue where the state's were; the
 * caller's. After the last position of an epoch it is the beginning of the next one. */
TARN_CHECKED tarn_status tarn__state_take(tarn_dataset *dataset, const char *text,
                                          size_t size, tarn_dataset **out,
                                          uint64_t *out_epoch, uint64_t *out_used,
                                          tarn_error *err);

/* --- prefetch.c, read.c ------------------------------------------------------------ */

/* One field of one sample. */
typedef struct tarn__want {
    uint64_t sample;
    uint32_t field;
} tarn__want;

/* As tarn_dataset_read, for pieces of which each has its own field. */
TARN_CHECKED tarn_status tarn__dataset_read(tarn_dataset *dataset,
                                            const tarn__want *wants, size_t count,
                                            tarn_dataset_batch *out, tarn_error *err);

/* How the pieces that were read into a batch came, since it began or was reset. Those
 * that were made (pseudo fields, JSON, what is decompressed) are not counted. */
typedef struct tarn__read_stats {
    uint64_t copied;    /* from memory, or one after the other from files not mapped */
    uint64_t announced; /* the same, after the system was told about the whole batch */
    uint64_t direct;    /* around the page cache, many at once */
    uint64_t ring;      /* through the page cache, many at once: the file system has no
                           direct reads */
    int ring_errno;     /* why many at once is not possible (ENOSYS, EPERM: io_uring is
                           missing or forbidden), and pieces were announced instead; or 0 */
} tarn__read_stats;

tarn__read_stats tarn__batch_stats(const tarn_dataset_batch *batch);

/* Tells the system that these items, real ones, will be wanted; changes them. */
void tarn__announce(tarn__source *source, tarn__item *items, size_t count);

/* Puts items of the same source next to each other. */
void tarn__items_group(tarn__item *items, size_t count);

/* How many of the first items, at least one, have the same source. */
size_t tarn__items_alike(const tarn__item *items, size_t count);

#endif
