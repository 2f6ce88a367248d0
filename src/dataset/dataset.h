/* Internals of a dataset: a source (a file or a mix, with a table of functions), the
 * chain that selects and orders its samples, and the selected fields. Each kind of source
 * has a file in this folder; the formats know nothing about datasets.
 *
 * A sample has three numbers. Its position is its place in the dataset. Its number is its
 * place in the dataset without the order that changes with the epoch; without such an
 * order, position and number are equal. Its row is the number in the source, below the
 * whole chain. */
#ifndef TARN_DATASET_DATASET_H
#define TARN_DATASET_DATASET_H

#include <stdatomic.h>

#include <tarn/dataset.h>
#include <tarn/iac.h>

#include "base/forklock.h"
#include "base/names.h"
#include "base/need.h"
#include "dataset/chain.h"
#include "io/cold.h"
#include "io/remote.h"

/* Numbers that are not those of a field of the file: alternatives (see tarn__fieldset),
 * and fields that are not stored in a file. */
enum {
    TARN__FIELD_NONE = 0xffffffff,
    TARN__FIELD_CHOICE = 0xf0000000,
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

static inline bool tarn__is_choice(uint32_t id)
{
    return id >= TARN__FIELD_CHOICE && id < TARN__FIELD_IDX;
}

struct tarn__storage;

/* The functions of a kind of source. Sample numbers are rows; sample and field numbers
 * are in range. */
typedef struct tarn__storage_kind {
    tarn_dataset_kind kind;
    /* locate also takes items whose field is TARN__FIELD_NONE: where the key is read
     * from. That is the header of a member, or bytes without a header. */
    bool locates_keys;
    void (*close)(void *state);

    /* For a mix: replaces sample and field by their numbers in *out_source, the source
     * that has them; field may be TARN__FIELD_NONE. A mix has no locate, view, key, form,
     * copy and settle, because those of its parts are called. NULL: the source has its
     * own files. */
    tarn_status (*resolve)(void *state, struct tarn__storage **out_source,
                           uint64_t *sample, uint32_t *field, tarn_error *err);

    /* Sets spot, the place of the bytes, of some items; sample and field are given. If
     * the source has several files, field may be TARN__FIELD_NONE, for the sample's first
     * member. */
    tarn_status (*locate)(void *state, tarn__item *items, size_t count, tarn_error *err);
    tarn_status (*view)(void *state, uint64_t sample, uint32_t field, tarn_view *out,
                        tarn_error *err);
    /* Sets view of some items; sample and field are given. The length of a file is
     * checked at most once for all of them. After an error the caller releases the views.
     * NULL: view is called for each. */
    tarn_status (*views)(void *state, tarn__item *items, size_t count, tarn_error *err);
    tarn_status (*key)(void *state, uint64_t sample, tarn_text *out, tarn_error *err);
    /* Appends the keys of many samples to out, each with a NUL after it; the key of
     * samples[i] begins at offsets[i]. *out_done is the number of keys, also on failure.
     * NULL: key is called for each. */
    tarn_status (*keys)(void *state, const uint64_t *samples, size_t count,
                        struct tarn__buf *out, uint64_t *offsets, size_t *out_done,
                        tarn_error *err);
    /* The first sample with a key, from number from on. */
    tarn_status (*find)(void *state, const char *key, uint64_t from, uint64_t *out,
                        tarn_error *err);

    /* The key, and views of the fields with these ids. Views stay empty for pseudo
     * fields, for repeated fields (firsts[i] is not i), and for fields that the sample
     * does not have. After an error the caller releases the views in out. NULL: view and
     * key are called. */
    tarn_status (*whole)(void *state, uint64_t sample, const uint32_t *ids,
                         const uint32_t *firsts, uint32_t count, tarn_view *out,
                         tarn_text *key, tarn_error *err);

    /* The form of the bytes; NULL: the name of the field decides. */
    tarn_status (*form)(void *state, uint32_t field, tarn_field_form *out,
                        tarn_error *err);

    /* Copies the bytes of located, stored items to data + offsets[number] of the target.
     * Unless way is TARN__COLD_COPY, the items are sorted by place; with
     * TARN__COLD_ANNOUNCE they have been announced. */
    tarn_status (*copy)(void *state, tarn__cold_way way, const tarn__item *items,
                        size_t count, const tarn__target *to, tarn_error *err);

    /* Called after views of a sample were copied or decoded: an error if the file was
     * not complete the whole time. copy does this itself. */
    tarn_status (*settle)(void *state, uint64_t sample, tarn_error *err);

    /* Whether a sample has a field. NULL: every sample has every field. */
    tarn_status (*has)(void *state, uint64_t sample, uint32_t field, bool *out,
                       tarn_error *err);

    /* Marks, one bit each, which of the first count samples of a chain meet the need, and
     * counts them. NULL: every sample has every field. */
    tarn_status (*keep)(void *state, tarn__need *need, const tarn__chain *chain,
                        uint64_t count, unsigned char *marks, uint64_t *out_kept,
                        tarn_error *err);

    /* Calls add with the distinct fields, ascending, of each sample, or of many samples
     * with the same fields at once. NULL: every sample has every field. */
    tarn_status (*sets)(void *state, const tarn__chain *chain, uint64_t count,
                        tarn__add_fields add, void *context, tarn_error *err);

    /* Appends a text that identifies the data, made from its index. */
    tarn_status (*describe)(void *state, struct tarn__buf *out, tarn_error *err);

    /* NULL: a name is a key. */
    tarn_status (*key_of_name)(const void *state, const char *name, tarn_text *out,
                               tarn_error *err);
} tarn__storage_kind;

typedef struct tarn__storage {
    const tarn__storage_kind *kind;
    tarn__files files;            /* empty for a mix */
    struct tarn__cachedir *cache; /* of remote files; or NULL */
    char *cache_problem;          /* why nothing can be stored in it; or NULL */
    bool remote;                  /* it has remote files, or a part of the mix has */
    tarn__forklock lock;          /* guards prefetched */
    struct tarn__prefetched *prefetched; /* see supply.c; or NULL */
    void *state;
    atomic_uint users;
    char *path; /* NULL for a mix */
    uint64_t samples;
    uint32_t shards;
    tarn__names fields;
    bool cold;            /* not expected to be in memory */
    size_t n_plain;       /* number of fields of a dataset opened without a list */
    bool repeats;         /* several samples may have the same key */
    bool numbered;        /* keys are row numbers */
    _Atomic(char *) text; /* text of describe; NULL before the first use. See state.c */
} tarn__storage;

/* Finds the source that has the bytes of a sample. For a mix this is the source of a
 * part; sample and field become the numbers there. */
TARN_CHECKED static inline tarn_status tarn__leaf(tarn__storage **source,
                                                  uint64_t *sample, uint32_t *field,
                                                  tarn_error *err)
{
    while ((*source)->kind->resolve)
        TARN_TRY((*source)->kind->resolve((*source)->state, source, sample, field, err));
    return TARN_OK;
}

/* Locates a field of a sample. *source becomes the source that has it, and the item has
 * the numbers there. */
TARN_CHECKED static inline tarn_status tarn__locate_field(tarn__storage **source,
                                                          uint64_t sample, uint32_t field,
                                                          tarn__item *out,
                                                          tarn_error *err)
{
    TARN_TRY(tarn__leaf(source, &sample, &field, err));
    out->sample = sample;
    out->field = field;
    return (*source)->kind->locate((*source)->state, out, 1, err);
}

/* The fields of a dataset, shared with the datasets made from it. */
typedef struct tarn__fieldset {
    atomic_uint users;
    uint32_t count;
    uint32_t *ids;   /* number in the source, TARN__FIELD_..., or for alternatives
                        TARN__FIELD_CHOICE and their place in choices */
    uint32_t *first; /* the first field with the same id */
    char **names;
    bool *named;  /* the name was given, as in "img=jpg" */
    bool renamed; /* some name may differ from the one in the file */

    /* Of alternatives: how many, then the number of each, the preferred one first. */
    uint32_t *choices;
    size_t n_choices;

    /* For each field, the samples of the file that lack it, if some were left out when
     * the dataset was opened; otherwise NULL. */
    uint64_t *lacking;
} tarn__fieldset;

struct tarn_dataset {
    atomic_uint users; /* handles, mixes and loaders */
    tarn__storage *source;
    tarn__chain chain;
    uint64_t count; /* positions */
    uint64_t epoch;
    bool live; /* a mix whose epoch still changes: no positions were chosen yet */

    /* With an order that changes with the epoch: the dataset without it, and the order.
     * The chain above is then empty. base has no order. */
    tarn_dataset *base;
    tarn_order *order;

    tarn__fieldset *fieldset;
    uint32_t n_fields; /* this and the next three are copied from the fieldset */
    const uint32_t *ids, *first;
    char *const *names;
    uint64_t dropped, left_out; /* when it was opened */
};

/* The row of a number, in a dataset without an order. */
static inline uint64_t tarn__dataset_at(const tarn_dataset *d, uint64_t number)
{
    return tarn__chain_at(&d->chain, number);
}

/* fieldset.c: *id becomes the first of these alternatives that the row has. */
TARN_CHECKED tarn_status tarn__pick(const tarn_dataset *d, uint64_t row, uint32_t *id,
                                    tarn_error *err);

/* Makes *id, which may be alternatives, the field of a row. */
TARN_CHECKED static inline tarn_status tarn__field_of_row(const tarn_dataset *d,
                                                          uint64_t row, uint32_t *id,
                                                          tarn_error *err)
{
    return tarn__is_choice(*id) ? tarn__pick(d, row, id, err) : TARN_OK;
}

/* An error if the file of a number was not complete while its views were used. */
TARN_CHECKED static inline tarn_status tarn__settle(tarn_dataset *d, uint64_t number,
                                                    tarn_error *err)
{
    uint32_t none = TARN__FIELD_NONE;
    tarn__storage *s = d->source;
    uint64_t row = tarn__dataset_at(d, number);
    TARN_TRY(tarn__leaf(&s, &row, &none, err));
    return s->kind->settle(s->state, row, err);
}

/* --- For the kinds ----------------------------------------------------------------- */

/* Each sets state, samples, shards, fields and n_plain of a source whose kind and path
 * are set. The kind's close is called later, also after a failure, unless state is NULL.
 */
TARN_CHECKED tarn_status tarn__open_fold(tarn__storage *source,
                                         const tarn_dataset_options *options,
                                         tarn_error *err);
TARN_CHECKED tarn_status tarn__open_gnz(tarn__storage *source,
                                        const tarn_dataset_options *options,
                                        tarn_error *err);
TARN_CHECKED tarn_status tarn__open_iac(tarn__storage *source,
                                        const tarn_dataset_options *options,
                                        tarn_error *err);
extern const tarn__storage_kind tarn__kind_fold, tarn__kind_gnz, tarn__kind_iac,
    tarn__kind_members, tarn__kind_mix;

/* *out_is: the records of the IAC file are members of samples. The source then becomes of
 * that kind and owns the file. */
TARN_CHECKED tarn_status tarn__open_members(tarn__storage *source,
                                            const tarn_dataset_options *options,
                                            tarn_iac *pack, bool *out_is,
                                            tarn_error *err);

/* The fold of a source, or NULL if it is another kind. Used for members. */
struct tarn__fold *tarn__storage_fold(const tarn__storage *source);

/* The IAC file of a source, or NULL if it is another kind. Used to filter by column. */
tarn_iac *tarn__storage_pack(const tarn__storage *source);

/* Common to the two kinds of source in IAC files; the first member of their state. The
 * functions are in kind_iac.c. */
typedef struct tarn__records {
    tarn_iac *iac;
    tarn_iac_info info;
    tarn__storage *source;
    bool decode; /* payloads are decompressed */
} tarn__records;

tarn__records tarn__records_of(tarn_iac *iac, tarn__storage *source,
                               const tarn_dataset_options *options);

/* View the bytes of a record, locate them, and copy those of some records. */
TARN_CHECKED tarn_status tarn__records_view(const tarn__records *pack, uint64_t record,
                                            tarn_view *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__records_locate(const tarn__records *pack, uint64_t record,
                                              tarn__spot *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__records_copy(void *pack, tarn__cold_way way,
                                            const tarn__item *items, size_t count,
                                            const tarn__target *to, tarn_error *err);
TARN_CHECKED tarn_status tarn__records_settle(void *pack, uint64_t sample,
                                              tarn_error *err);

/* Appends a text that identifies the records of an IAC file. */
TARN_CHECKED tarn_status tarn__records_describe(void *pack, struct tarn__buf *out,
                                                tarn_error *err);

/* The key of a row whose keys are row numbers: decimal digits, no leading zero. */
TARN_CHECKED tarn_status tarn__row_key(uint64_t row, tarn_text *out, tarn_error *err);

/* Whether a key is the number of a row that is at least from and below count. */
bool tarn__find_row(const char *key, uint64_t from, uint64_t count, uint64_t *out);

/* --- fieldset.c -------------------------------------------------------------------- */

/* Lists names as "a, b, c, ..." for messages. */
char *tarn__list_names(const tarn__names *names, char *out, size_t size);

/* The error for a field that the file does not have. */
tarn_status tarn__fail_field(const tarn__storage *source, const char *text,
                             tarn_error *err);

/* An entry of a list of fields: its name, and the fields of the file that it stands for,
 * at least one. Initialise to zero. */
typedef struct tarn__alternatives {
    char *name;
    bool named; /* the name was given, as in "img=jpg" */
    uint32_t *ids;
    size_t count, capacity;
} tarn__alternatives;

/* Reads "jpg", "img=jpg", "jpg;png" or "img=jpg;png". Alternatives that the file does not
 * have are skipped. */
TARN_CHECKED tarn_status tarn__alternatives_read(const tarn__storage *source,
                                                 const char *text,
                                                 tarn__alternatives *out,
                                                 tarn_error *err);
void tarn__alternatives_reset(tarn__alternatives *alternatives);

/* All names of the file that a list of fields has, as a list that ends with NULL; free it
 * with free. NULL for NULL. For sources, which open before their fields are known. */
TARN_CHECKED tarn_status tarn__stored_names(const char *const *fields, const char ***out,
                                            tarn_error *err);

/* The set of all fields of a source, and of a list that ends with NULL. On failure, *out
 * may be set, and the caller releases it. */
TARN_CHECKED tarn_status tarn__plain_fields(const tarn__storage *source,
                                            tarn__fieldset **out, tarn_error *err);
TARN_CHECKED tarn_status tarn__listed_fields(const tarn__storage *source,
                                             const char *const *fields,
                                             tarn__fieldset **out, tarn_error *err);
void tarn__fieldset_release(tarn__fieldset *fields);

/* The fields of the file that a field stands for: one, or its alternatives. */
const uint32_t *tarn__field_ids(const tarn_dataset *dataset, uint32_t field,
                                size_t *out_count);

/* --- For the other files ----------------------------------------------------------- */

TARN_CHECKED tarn_status tarn__storage_new(const tarn__storage_kind *kind,
                                           const char *path, tarn__storage **out,
                                           tarn_error *err);
void tarn__storage_release(tarn__storage *source);

/* A dataset of all samples with these fields; NULL: the plain fields. Takes ownership of
 * the source on success. */
TARN_CHECKED tarn_status tarn__dataset_new(tarn__storage *source,
                                           const char *const *fields, bool drop_ambiguous,
                                           tarn_dataset **out, tarn_error *err);

/* A dataset with the same source, fields and samples as one without an order. The caller
 * may extend its chain until the dataset is returned to the user. */
TARN_CHECKED tarn_status tarn__dataset_like(tarn_dataset *from, tarn_dataset **out,
                                            tarn_error *err);

/* Replaces the fields of a dataset that no one else uses yet; the list ends with NULL. */
TARN_CHECKED tarn_status tarn__dataset_set_fields(tarn_dataset *dataset,
                                                  const char *const *fields,
                                                  tarn_error *err);

tarn_dataset *tarn__dataset_use(tarn_dataset *dataset);

/* --- select.c ---------------------------------------------------------------------- */

/* The dataset in an order. Takes ownership of both, also on failure. */
TARN_CHECKED tarn_status tarn__dataset_ordered(tarn_dataset *base, tarn_order *order,
                                               tarn_dataset **out, tarn_error *err);

/* The dataset without its order, and the order (identity, if it has none). The caller
 * closes both. */
TARN_CHECKED tarn_status tarn__dataset_parts(tarn_dataset *dataset, tarn_dataset **base,
                                             tarn_order **order, tarn_error *err);

/* A dataset without an order in another epoch. Only a live mix changes its samples. */
TARN_CHECKED tarn_status tarn__dataset_base_at(tarn_dataset *base, uint64_t epoch,
                                               tarn_dataset **out, tarn_error *err);

/* The marked samples; marks has one bit for each sample of tarn__dataset_judged. The
 * filter applies below the order if that is whole, otherwise above it. */
TARN_CHECKED tarn_status tarn__dataset_keep(tarn_dataset *dataset,
                                            const unsigned char *marks,
                                            tarn_dataset **out, tarn_error *err);

/* The dataset that a filter checks: without its order if the filter applies below it,
 * otherwise the samples in their current order, frozen. The caller closes it. */
TARN_CHECKED tarn_status tarn__dataset_judged(tarn_dataset *dataset, tarn_dataset **out,
                                              tarn_error *err);

/* Checks a position, and replaces the dataset by the one without an order and the
 * position by the number. */
TARN_CHECKED tarn_status tarn__resolve(tarn_dataset **dataset, uint64_t *sample,
                                       tarn_error *err);

enum { TARN__PIECE = 1024 }; /* few enough positions to stay in the cache */

/* Sets at to the numbers of the positions from from on, at most TARN__PIECE. Returns
 * their number. */
uint64_t tarn__dataset_numbers(const tarn_dataset *dataset, uint64_t from,
                               uint64_t at[TARN__PIECE]);

/* The place of a number, without a field. */
TARN_CHECKED tarn_status tarn__dataset_place(tarn_dataset *dataset, uint64_t number,
                                             tarn_place *out, tarn_error *err);

/* The size of a field in each sample. */
TARN_CHECKED tarn_status tarn__dataset_sizes(tarn_dataset *dataset, uint32_t field,
                                             uint64_t *out, tarn_error *err);

/* The stored size of a field of a row, in bytes. */
TARN_CHECKED tarn_status tarn__field_size(tarn__storage *source, uint64_t row,
                                          uint32_t field, uint64_t *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__check_field(const tarn_dataset *dataset, uint32_t field,
                                           tarn_error *err);

/* The first position with a key, from position from on. */
TARN_CHECKED tarn_status tarn__dataset_find_from(tarn_dataset *dataset, const char *key,
                                                 uint64_t from, uint64_t *out,
                                                 tarn_error *err);

/* The rows with one key, ascending. */
typedef struct tarn__rows {
    uint64_t *items;
    size_t count, capacity;
} tarn__rows;

/* Finds the rows with a key: at least one, or TARN_ERR_NO_SAMPLE. Replaces the contents
 * of out; the caller frees its items. */
TARN_CHECKED tarn_status tarn__dataset_rows_of(tarn_dataset *dataset, const char *key,
                                               tarn__rows *out, tarn_error *err);

/* A table of all rows and their positions, sorted by row, for many lookups in a dataset
 * whose rows do not ascend. The caller frees it with free. */
TARN_CHECKED tarn_status tarn__dataset_places(tarn_dataset *dataset,
                                              struct tarn__run **out, tarn_error *err);

/* The keys of many numbers, like keys of tarn__storage_kind. rows is scratch memory for
 * count rows. */
TARN_CHECKED tarn_status tarn__dataset_keys(tarn_dataset *dataset,
                                            const uint64_t *numbers, size_t count,
                                            uint64_t *rows, struct tarn__buf *out,
                                            uint64_t *offsets, size_t *out_done,
                                            tarn_error *err);

/* The key for the name of a member or file; see TARN_CONDITION_JSON. */
TARN_CHECKED tarn_status tarn__key_of_name(const tarn_dataset *dataset, const char *name,
                                           tarn_text *out, tarn_error *err);

/* The text of a pseudo field of a number. The view owns it. */
TARN_CHECKED tarn_status tarn__pseudo(tarn_dataset *dataset, uint64_t sample, uint32_t id,
                                      tarn_view *out, tarn_error *err);

/* A template of views; NULL after the last. */
const char *tarn__views_template(const tarn_views *views, size_t number);

/* --- members.c --------------------------------------------------------------------- */

/* The stored members of a sample. Initialise to zero; may be reused. */
typedef struct tarn__members {
    struct tarn_stored *items;
    size_t count, capacity;
} tarn__members;

TARN_CHECKED tarn_status tarn__members_get(tarn_dataset *dataset, uint64_t sample,
                                           tarn__members *out, tarn_error *err);

/* The bytes of a member. The caller calls tarn__settle after using them. */
TARN_CHECKED tarn_status tarn__member_view(tarn_dataset *dataset, uint64_t sample,
                                           const struct tarn_stored *member,
                                           tarn_view *out, tarn_error *err);

/* --- state.c ----------------------------------------------------------------------- */

/* The state after used positions of an epoch, as one line of JSON. */
TARN_CHECKED tarn_status tarn__state_text(tarn_dataset *base, const tarn_order *order,
                                          uint64_t used, tarn_text *out, tarn_error *err);

/* Reads a state of this dataset. *out is the dataset; for a mix whose weights differ from
 * the state's, it is a mix whose sources continue from the state's positions. The caller
 * closes it. A state after the last position of an epoch gives the start of the next. */
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

/* Like tarn_dataset_read, but each piece has its own field. */
TARN_CHECKED tarn_status tarn__dataset_read(tarn_dataset *dataset,
                                            const tarn__want *wants, size_t count,
                                            tarn_dataset_batch *out, tarn_error *err);

/* How many pieces were read into a batch in each way, since it was initialised or reset.
 * Pieces that were made (pseudo fields, JSON, decompressed payloads) are not counted. */
typedef struct tarn__read_stats {
    uint64_t copied;    /* from memory, or one by one from files that are not mapped */
    uint64_t announced; /* the same, after the whole batch was announced to the system */
    uint64_t direct;    /* many at once, bypassing the page cache */
    uint64_t ring;      /* many at once through the page cache, because the file system
                           does not support direct reads */
    int ring_errno;     /* why io_uring cannot be used (ENOSYS: missing, EPERM: forbidden)
                           and pieces were announced instead; or 0 */
} tarn__read_stats;

tarn__read_stats tarn__batch_stats(const tarn_dataset_batch *batch);

/* Announces to the system that these items will be read. None may be a pseudo field.
 * Changes the items. */
void tarn__announce(tarn__storage *source, tarn__item *items, size_t count);

/* --- supply.c: remote files -------------------------------------------------------- */

/* Whether some bytes of a source must be fetched: no longer when all of its files are in
 * the cache. Of a mix with remote files this is not known. */
bool tarn__may_be_away(const tarn__storage *source);

typedef struct tarn__prefetched tarn__prefetched;
void tarn__prefetched_release(tarn__prefetched *prefetched);

/* Lists the items of samples and their fields, without pseudo fields and what does not
 * exist; with keys, an item without a field for each sample. out has room for n_fields +
 * 1 of each. */
size_t tarn__list_items(tarn_dataset *d, const uint64_t *numbers, size_t count,
                        const uint32_t *fields, size_t n_fields, bool keys,
                        tarn__item *out);

/* Fetches what remote files have of these items, all at once. Changes the items. */
TARN_CHECKED tarn_status tarn__stock_items(tarn__storage *source, tarn__item *items,
                                           size_t count, tarn__stock *out,
                                           tarn_error *err);

/* tarn_dataset_prefetch for a dataset with remote files: fetches as much as is kept in
 * memory until the next call. */
TARN_CHECKED tarn_status tarn__prefetch_remote(tarn_dataset *d, const uint64_t *numbers,
                                               size_t count, const uint32_t *fields,
                                               size_t n_fields, tarn_error *err);

/* What a sample needs: between begin and end this thread reads it from memory. */
typedef struct tarn__supply {
    tarn__stock own;
    tarn__prefetched *shared; /* instead of own; or NULL */
    tarn__remote_task before;
} tarn__supply;

/* number is one of a dataset without an order. */
TARN_CHECKED tarn_status tarn__supply_begin(tarn__supply *supply, tarn_dataset *d,
                                            uint64_t number, bool fields, bool key,
                                            tarn_error *err);
/* The same for the keys of some rows of the source. */
TARN_CHECKED tarn_status tarn__supply_keys(tarn__supply *supply, tarn_dataset *d,
                                           const uint64_t *rows, size_t count,
                                           tarn_error *err);
/* The same for keys and fields of count samples from position from on, as far as they fit
 * into memory. */
TARN_CHECKED tarn_status tarn__supply_samples(tarn__supply *supply, tarn_dataset *d,
                                              uint64_t from, size_t count,
                                              tarn_error *err);
/* Only what tarn_dataset_prefetch has fetched. */
void tarn__supply_prefetched(tarn__supply *supply, tarn_dataset *d);
void tarn__supply_end(tarn__supply *supply);

/* Whether this thread reads from memory what was fetched for it. */
bool tarn__has_supply(void);

/* Sets the views of items whose source, sample and field are given. On failure there are
 * none. */
TARN_CHECKED tarn_status tarn__items_view(tarn__item *items, size_t count,
                                          tarn_error *err);

/* Sorts items so that those of the same source are adjacent. */
void tarn__items_group(tarn__item *items, size_t count);

/* The number of items at the start that have the same source; at least 1. */
size_t tarn__items_alike(const tarn__item *items, size_t count);

#endif
